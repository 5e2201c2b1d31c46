"""What is told when a server starts badly: each thing once, its question on stdout, what it does not declare."""

from __future__ import annotations

import sys
import traceback

import pytest
import trio

from tests.peers import ERAS, peer
from trio_mcp import Server, ServerStartError, open_connection


def script(source: str, start_timeout: float = 10.0) -> Server:
    args = ["-c", source]
    return Server("s", command=sys.executable, args=args, stop_timeout=0.1, start_timeout=start_timeout)


async def failure(server: Server) -> str:
    with trio.fail_after(10), pytest.raises(ServerStartError) as caught:
        async with open_connection(server):
            raise AssertionError("it opened")
    told = traceback.format_exception(caught.value)
    return "".join(line for part in told for line in part.splitlines(keepends=True) if "command: " not in line)


@pytest.mark.slow
@pytest.mark.parametrize("end", ["\\n", " "], ids=["a line", "no line end"])
async def test_a_server_that_asks_a_question_on_stdout_and_waits_is_told_with_it(end: str) -> None:
    source = (
        f"import sys; print('Continue? [y/N]', end='{end}', flush=True); sys.stdin.readline(); sys.stdin.read()"
    )
    told = await failure(script(source, start_timeout=0.5))
    assert "it was not ready within 0.5 s" in told
    assert told.count("Continue? [y/N]") == 1


async def test_the_stderr_of_a_failed_start_is_shown_once() -> None:
    told = await failure(script("import sys; sys.exit('API_KEY' ' is missing')"))
    assert told.count("API_KEY is missing") == 1


async def test_the_stderr_of_two_starts_is_shown_twice_where_it_differs() -> None:
    source = "import os, sys; sys.exit(f'process {os.getpid()}' ' wants API_KEY')"
    told = await failure(script(source))
    assert told.count("wants API_KEY") == 2
    assert "stderr of the first start" in told


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("tools", [None, (), ("echo", "other")], ids=["all", "none", "named"])
@pytest.mark.parametrize("declared", ["{}", "{'tools': None}", "[]"])
async def test_a_server_that_declares_no_tools_is_warned_of_and_named_tools_are_told_as_not_offered(
    era: str, tools: tuple[str, ...] | None, declared: str
) -> None:
    with trio.fail_after(10):
        async with open_connection(
            peer(era=era, source=f"peer.capabilities = lambda: {declared}", tools=tools)
        ) as connection:
            assert connection.tools == ()
            warnings = connection.warnings
    if tools == ():
        assert warnings == ()
        return
    assert warnings[0].startswith("the server declares no tools")
    assert warnings[1:] == tuple(f'tool "{name}" is not offered by the server' for name in tools or ())


async def test_an_echo_of_our_own_requests_is_named() -> None:
    with trio.fail_after(10), pytest.raises(ServerStartError, match="it sends our own requests back"):
        async with open_connection(Server("s", command="cat", env={"PATH": "/usr/bin:/bin"}, stop_timeout=0.1)):
            raise AssertionError("it opened")


PROBED = """
def too_early(message):
    sys.stderr.write("94 lines about the probe\\n")
    sys.stderr.flush()
    peer.refuse(message["id"], -32602, "no")
import sys
peer.too_early = too_early
"""


async def test_what_a_legacy_server_says_of_the_probe_is_kept_back() -> None:
    lines: list[str] = []
    with trio.fail_after(10):
        async with open_connection(peer(era="legacy", source=PROBED), on_stderr=lines.append) as connection:
            with trio.fail_after(5):
                while "94 lines" not in connection.stderr_tail:
                    await trio.lowlevel.checkpoint()
    assert lines == []


async def test_what_a_server_says_before_a_start_that_fails_is_passed_on() -> None:
    lines: list[str] = []
    with trio.fail_after(10), pytest.raises(ServerStartError):
        async with open_connection(script("import sys; sys.exit('no key')"), on_stderr=lines.append):
            raise AssertionError("it opened")
    assert lines == ["no key", "no key"]
