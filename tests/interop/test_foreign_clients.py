"""Clients that nobody here wrote, and our own, against the demo server over stdio and over HTTP.

Each lists and calls everything that it has.

A client runs once for all of these tests, as a program of its own (clients/), in the environment that install.py
made for it, and prints what it saw. The server's stderr goes to a file, and its exit status after it. Over HTTP
the server is there before, and ends at a signal.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.interop import install
from tests.interop.scenario import PATIENCE
from trio_mcp import demo

pytestmark = [pytest.mark.interop, pytest.mark.slow]

CLIENTS = Path(__file__).resolve().parent / "clients"
MODERN, LEGACY = "2026-07-28", "2025-11-25"

#: Starts what follows it, with stderr in a file of that process alone; the last line is the exit status.
WATCHED = ("/bin/sh", "-c", '"$@" 2>>"$0.$$"; echo "ended with $?" >>"$0.$$"')


@dataclass(frozen=True)
class Client:
    """One foreign client: the driver, how it is told to negotiate, what it must then speak, what it needs."""

    driver: str
    mode: str
    revision: str
    needs: tuple[str, ...]
    #: Servers that it starts to look which era they speak, and kills.
    probes: int = 0

    @property
    def program(self) -> Path:
        """What runs the driver."""
        if not self.needs:
            return Path(sys.executable)
        return install.node_tool("node") if self.in_javascript else install.program(self.needs[0], "python")

    @property
    def in_javascript(self) -> bool:
        return self.driver.endswith(".cjs")


NODE = ("node", "node_modules")
KNOWN = {
    "ours-modern": Client("ours.py", "modern", MODERN, ()),
    "ours-legacy": Client("ours.py", "legacy", LEGACY, ()),
    "python-v2-modern": Client("python_v2.py", "auto", MODERN, ("sdk-v2",)),
    "python-v2-legacy": Client("python_v2.py", "legacy", LEGACY, ("sdk-v2",)),
    "python-v1": Client("python_v1.py", "legacy", LEGACY, ("sdk-v1",)),
    "fastmcp-modern": Client("fastmcp_v4.py", "auto", MODERN, ("fastmcp",)),
    "fastmcp-legacy": Client("fastmcp_v4.py", "legacy", LEGACY, ("fastmcp",)),
    "typescript-v1": Client("typescript_v1.cjs", "legacy", LEGACY, NODE),
    "typescript-v2-modern": Client("typescript_v2.cjs", "auto", MODERN, NODE, probes=2),
    "typescript-v2-legacy": Client("typescript_v2.cjs", "legacy", LEGACY, NODE),
}


@dataclass(frozen=True)
class Visit:
    """What one client saw, and what the servers that it started left behind."""

    client: Client
    report: dict[str, Any]
    #: Each server's stderr and exit status.
    ends: tuple[str, ...]
    over_http: bool


VISITS = {
    f"{name}-{transport}": (client, transport)
    for transport in ("stdio", "http")
    for name, client in KNOWN.items()
    if not (transport == "stdio" and client.driver == "ours.py")  # the tests in cli/ and client/ are full of that
}


@pytest.fixture(scope="module", params=VISITS.values(), ids=list(VISITS))
def visit(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Visit:
    client: Client
    client, transport = request.param
    missing = [name for name in client.needs if not (install.HOME / f"{name}.installed").is_file()]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)} (python tests/interop/install.py)")
    ends = tmp_path_factory.mktemp("ends")
    if transport == "http":
        with served(ends / "server") as url:
            done = run(client, url)
    else:
        done = run(client, *WATCHED, ends / "server", sys.executable, "-m", "trio_mcp.demo")
    said = tuple(path.read_text() for path in sorted(ends.iterdir()))
    assert done.returncode == 0, (done.stderr.decode(errors="replace"), said)
    return Visit(client, json.loads(done.stdout), said, transport == "http")


def run(client: Client, *command: str | Path) -> subprocess.CompletedProcess[bytes]:
    """Run a client's driver to its end."""
    return subprocess.run(
        [client.program, CLIENTS / client.driver, client.mode, *command],
        cwd=install.ROOT,  # the servers inherit it: this checkout is what they serve
        env={
            **os.environ,
            "NODE_PATH": str(install.HOME / "node_modules"),
            **({} if client.needs else {"PYTHONPATH": str(install.ROOT)}),
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=PATIENCE,
        check=False,
    )


@contextmanager
def served(end: Path) -> Iterator[str]:
    """The URL of a server that is up; its stderr and its exit status go to a file."""
    command = [sys.executable, "-m", "trio_mcp", "serve", "trio_mcp.demo:server", "--http", "localhost:0"]
    with subprocess.Popen(command, cwd=install.ROOT, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE) as server:
        assert server.stderr is not None
        try:
            yield server.stderr.readline().decode().split()[-1]
            server.terminate()
            said = server.stderr.read().decode() + f"ended with {server.wait()}\n"
        finally:
            server.kill()
    end.write_text(said)


def texts(result: dict[str, Any]) -> list[str]:
    """The texts of a result that has nothing else."""
    assert all(block["type"] == "text" for block in result["content"]), result
    return [block["text"] for block in result["content"]]


def test_the_newest_revision_of_the_era_is_agreed_on(visit: Visit) -> None:
    assert visit.report["revision"] == visit.client.revision


def test_the_server_says_who_it_is(visit: Visit) -> None:
    assert visit.report["server"] == {"name": demo.server.name, "version": demo.server.version}
    assert visit.report["instructions"] == demo.server.instructions


def test_every_tool_is_listed_as_it_was_declared(visit: Visit) -> None:
    listed = {tool["name"]: tool for tool in visit.report["tools"]}
    assert list(listed) == [tool.name for tool in demo.server.tools]
    for tool in demo.server.tools:
        seen = listed[tool.name]
        assert seen["description"] == tool.description
        assert seen["inputSchema"] == tool.input_schema
        assert seen.get("outputSchema") == tool.output_schema
        assert seen.get("annotations", {}).get("readOnlyHint", False) is tool.annotations.read_only_hint
    assert listed["add"]["outputSchema"]["required"] == ["sum"]


def test_nothing_in_a_text_is_cut_or_changed(visit: Visit) -> None:
    assert texts(visit.report["echo"]) == ["grün \u2028 \U0001f40d\r\n\x0b"]


def test_a_structured_result_arrives_as_structure_and_as_text(visit: Visit) -> None:
    result = visit.report["add"]
    assert result["structuredContent"] == {"sum": 2.5}
    assert [json.loads(text) for text in texts(result)] == [{"sum": 2.5}]


def test_arguments_that_do_not_fit_are_a_failed_result_that_names_the_field(visit: Visit) -> None:
    result = visit.report["misfit"]
    assert result["isError"] is True
    assert texts(result) == ['arguments for "add": a: expected int | float, got str']


def test_progress_arrives_in_order_and_before_the_result(visit: Visit) -> None:
    """The clients in TypeScript forget a call's progress handler when they read its answer, and run handlers of
    notifications later: what they read together with the answer is lost (typescript-sdk issue 2580).
    """
    steps = [[step, demo.STEPS, f"step {step} of {demo.STEPS}"] for step in range(1, demo.STEPS + 1)]
    seen = visit.report["progress"]
    if visit.client.in_javascript:
        assert len(seen) >= demo.STEPS // 2
        steps = steps[: len(seen)]
    assert seen == steps
    assert texts(visit.report["slow"]) == ["took 1 s"]


def test_a_tool_that_fails_is_called_again(visit: Visit) -> None:
    first, second = visit.report["flaky"]
    assert first["isError"] is True
    assert texts(first) == ["flaky failed, as it does every other time: try again"]
    assert not second.get("isError")
    assert texts(second) == ["it worked this time"]


async def test_a_picture_arrives_byte_for_byte(visit: Visit) -> None:
    (block,) = visit.report["picture"]["content"]
    (painted,) = (await demo.picture.call({})).images
    assert block["type"] == "image"
    assert block["mimeType"] == "image/png"
    assert base64.b64decode(block["data"], validate=True) == painted.data


def test_calls_made_at_once_are_each_answered_with_their_own(visit: Visit) -> None:
    assert visit.report["together"] == [str(number) for number in range(20)]


def test_a_tool_asks_the_user_and_hears_every_kind_of_answer(visit: Visit) -> None:
    """Accepted whole, accepted with a field left out, declined, dismissed."""
    assert [texts(result) for result in visit.report["ask"]] == [
        ["green, dark shade"],
        ["blue, any shade"],
        ["no answer (decline)"],
        ["no answer (cancel)"],
    ]
    assert len(visit.report["asked"]) == 4
    for question in visit.report["asked"]:
        assert question["message"] == "What is your favourite colour?"
        form = question["requestedSchema"]
        assert form["required"] == ["colour"]
        assert form["properties"]["colour"] == {"type": "string"}
        assert form["properties"]["shade"] == {"type": "string", "default": "any"}


def test_a_client_that_has_nobody_to_ask_is_told_what_it_lacks(visit: Visit) -> None:
    """Modern: an error with the capability that is required. Legacy: a failed result."""
    answer = visit.report["nobody"]
    if visit.client.revision == MODERN:
        assert answer["code"] == -32021
        assert answer["data"] == {"requiredCapabilities": {"elicitation": {}}}
    else:
        assert answer["isError"] is True
        assert texts(answer) == ["the client does not offer elicitation"]


def test_an_unknown_tool_is_an_error_of_the_request(visit: Visit) -> None:
    assert visit.report["unknown"]["code"] == -32602
    assert visit.report["unknown"]["message"].endswith('unknown tool "nonesuch"')


def test_a_server_ends_by_itself_when_its_client_closes_and_has_nothing_to_complain_of(visit: Visit) -> None:
    """Of a probe that its client kills, the shell cannot tell the status any more; stderr is empty even so."""
    told = [end for end in visit.ends if end]
    if visit.over_http:
        assert told == ["ended with 0\n"]
        return
    assert told == ["ended with 0\n"] * 2
    assert len(visit.ends) == 2 + visit.client.probes
