"""`trio-mcp demo`: one command that shows what the library does, and that nothing is left of it."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from tests.cli.command_line import COMMAND, ENVIRONMENT, PATIENCE, run

pytestmark = [
    pytest.mark.slow,  # Python starts anew for each test
    pytest.mark.skipif(os.name != "posix", reason="stdio servers are POSIX only"),
    pytest.mark.usefixtures("nothing_left"),
]


def marked() -> dict[str, str]:
    """What marks the processes of a test (tests/conftest.py); the command line's environment was read before."""
    return {key: value for key, value in os.environ.items() if key.startswith("TRIO_MCP_TEST")}


def test_it_lists_calls_cancels_fails_and_leaves_nothing(tmp_path: Path) -> None:
    """From any directory; and what is no terminal gets no progress bar."""
    done = run("demo", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    said = done.stdout
    assert re.search(r"trio-mcp-demo \S+, protocol 2026-07-28, 6 tools, open after \d+ ms", said)
    for tool in ("echo", "add", "slow", "flaky", "picture", "ask"):
        assert re.search(rf"^demo +{tool} ", said, re.MULTILINE), tool
    found = re.search(
        r"1000 calls of echo, 100 at once: (\d+) calls/s; "
        r"latency p50 ([\d.]+) ms, p95 ([\d.]+) ms, p99 ([\d.]+) ms",
        said,
    )
    assert found
    rate, p50, p95, p99 = map(float, found.groups())
    assert rate > 0
    assert 0 < p50 <= p95 <= p99
    assert re.search(r"two slow calls were cancelled after 0\.\d+ s", said)
    assert "a failed tool is a result: is_error=True, 'flaky failed" in said
    assert "left running: 0 tasks, 0 descriptors, 0 child processes" in said


def test_on_a_terminal_the_calls_are_behind_a_progress_bar() -> None:
    leader, follower = os.openpty()
    shown = b""
    try:
        with subprocess.Popen(
            [*COMMAND, "demo"],
            env={**ENVIRONMENT, **marked(), "TERM": "xterm"},
            stdout=subprocess.PIPE,
            stderr=follower,
        ) as process:
            os.close(follower)
            with contextlib.suppress(OSError):  # the other end of a terminal is gone: EIO
                while chunk := os.read(leader, 4096):
                    shown += chunk
            out, _ = process.communicate(timeout=PATIENCE)
    finally:
        os.close(leader)
    assert (process.returncode, b"1000 calls of echo" in out) == (0, True)
    assert b"calling echo" in shown
    assert b"/1000" in shown


def test_a_signal_ends_it_with_the_server_gone() -> None:
    with subprocess.Popen(
        [*COMMAND, "demo"],
        env={
            **ENVIRONMENT,
            **{key: value for key, value in os.environ.items() if key.startswith("TRIO_MCP_TEST")},
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert "trio-mcp-demo" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, err) == (128 + signal.SIGINT, "")


def test_a_server_that_dies_is_one_complaint_and_exit_code_2(tmp_path: Path) -> None:
    """A hundred calls fail at once, and one error is told."""
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\n"
        "if sys.argv == ['-m']:\n"  # before `python -m` has found its module: the demo server
        "    from trio_mcp.functions import decorators as local\n"
        "    import os\n"
        "    calls = iter(range(150))\n"
        "    text_of = local.Returns.result\n"
        "    def result(self, value):\n"
        "        next(calls, None) is not None or os._exit(3)\n"
        "        return text_of(self, value)\n"
        "    local.Returns.result = result\n"
    )
    path = os.pathsep.join([str(tmp_path), ENVIRONMENT["PYTHONPATH"]])
    done = run("demo", env={**ENVIRONMENT, "PYTHONPATH": path})
    assert done.returncode == 2
    assert 'trio-mcp: server "demo" stopped: exited with status 3' in done.stderr
    assert done.stderr.count("trio-mcp: ") == 1
