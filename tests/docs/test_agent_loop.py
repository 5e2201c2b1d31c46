"""The example of an agent's loop: run as a user runs it, it prints this transcript and leaves nothing behind."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

TRANSCRIPT = """\
tools: mcp__library__find, mcp__library__search_stacks, mcp__mail__send
user: What is there on tides? Tell Ada.
model: I look into the catalogue, and send somebody to the stacks.
  call_1 -> mcp__library__find {"subject": "tides"}
  call_2 -> mcp__library__search_stacks {"subject": "tides"}
  [the library says: walking to shelf 1]
  [the user presses stop]
  call_1 <- done: Tides and Waves, The Moon and the Sea
  call_2 <- failed: cancelled
model: Two books. I write to Ada, and tell everybody else as well.
  call_3 -> mcp__mail__send {"to": "ada", "text": "The library has two books on tides."}
  call_4 -> mcp__mail__send {"to": "everybody", "text": "Read more about tides!"}
  [may it write to ada? yes]
  [may it write to everybody? not to everybody]
  call_3 <- done: sent 7 words to ada
  call_4 <- refused: the user refused: not to everybody
model: There are two books on tides, and Ada knows. I did not write to everybody else.
[whoever searched the stacks was called back the moment the user pressed stop]
"""


def test_the_agent_loop_prints_its_transcript(tmp_path: Path, no_process_left: dict[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", str(ROOT / "docs" / "examples" / "agent_loop.py")],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, TRANSCRIPT, "")
