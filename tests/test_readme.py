"""The README's program runs as it is printed. Its two commands are run by .ci/run, out of the README as well."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")

#: Stands in for the real server, which needs a package: the same tool, answered from the one thing it must know.
STAND_IN = """
import json, sys

def answer(request):
    if request["method"] == "initialize":
        info = {"name": "stand-in", "version": "0"}
        return {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info}
    if request["method"] == "tools/list":
        return {"tools": [{"name": "get_current_time", "inputSchema": {"type": "object"}}]}
    if request["method"] == "tools/call":
        return {"content": [{"type": "text", "text": "noon in " + request["params"]["arguments"]["timezone"]}]}

for line in sys.stdin:
    request = json.loads(line)
    if "id" in request:
        result = answer(request)
        outcome = {"result": result} if result else {"error": {"code": -32601, "message": "no such method"}}
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], **outcome}), flush=True)
"""


def run_example(mark: str, folder: Path) -> list[str]:
    """Run a program of the README with the folder first on PATH; the lines that it printed."""
    found = re.search(rf"<!-- {mark} -->\n```python\n(.*?)```\n<!-- end -->", README, re.DOTALL)
    assert found is not None
    done = subprocess.run(
        [sys.executable, "-c", found[1]],
        cwd=ROOT,
        env={**os.environ, "PATH": os.pathsep.join([str(folder), os.environ.get("PATH", os.defpath)])},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


@pytest.fixture
def stand_in(tmp_path: Path) -> Path:
    """A folder with the stand-in, under the name of the real server."""
    (tmp_path / "server.py").write_text(STAND_IN)
    script = tmp_path / "mcp-server-time"
    script.write_text(f"#!/bin/sh\nexec {shlex.join([sys.executable, str(tmp_path / 'server.py')])}\n")
    script.chmod(0o755)
    return tmp_path


def test_the_example_runs(stand_in: Path, no_process_left: dict[str, str]) -> None:
    assert run_example("example", stand_in) == ["['mcp__time__get_current_time']", "noon in Asia/Tokyo"]


def test_the_agents_example_runs(stand_in: Path, no_process_left: dict[str, str]) -> None:
    assert run_example("agent-example", stand_in) == ["mcp__time__get_current_time", "noon in Asia/Tokyo"]


@pytest.mark.parametrize("name", ["main-job-command", "test-command"])
def test_a_command_is_one_line_to_copy(name: str) -> None:
    found = re.search(rf"<!-- {name} -->\n```sh\n(.*?)```\n<!-- end -->", README, re.DOTALL)
    assert found is not None
    assert len(found[1].splitlines()) == 1


def test_every_file_that_the_documents_point_to_exists() -> None:
    for document in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        links = re.findall(r"\]\((?!https?:)([^)#]+)", document.read_text(encoding="utf-8"))
        assert [link for link in links if not (document.parent / link).exists()] == []


@pytest.mark.slow
def test_the_publishing_example_runs(tmp_path: Path, no_process_left: dict[str, str]) -> None:
    found = re.search(r"<!-- publish-example -->\n```python\n(.*?)```\n<!-- end -->", README, re.DOTALL)
    assert found is not None
    (tmp_path / "words.py").write_text(found[1])
    trio_mcp = [sys.executable, "-m", "trio_mcp"]
    done = subprocess.run(
        [*trio_mcp, "call", "count_words", '{"text": "one two"}', "--", *trio_mcp, "serve", "words:server"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "2\n", "")
