"""trio_mcp.testing: servers from functions, servers that misbehave, conversations from a script."""

from __future__ import annotations

import json
import os
import typing
from typing import Any

import pytest
import trio

from trio_mcp import (
    ClientLimits,
    Context,
    MCPError,
    RequestError,
    Server,
    ServerStartError,
    ServerStoppedError,
    Tool,
    open_connection,
    testing,
    tool,
)
from trio_mcp.testing import (
    Misbehaviour,
    ScriptError,
    WireScript,
    misbehaving_server,
    open_functions,
    open_script,
)
from trio_mcp.transports.limits import LineLimits

# --- functions


async def test_functions_and_tools_become_a_server_in_one_call() -> None:
    def double(number: int) -> int:
        return 2 * number

    @tool(name="other")
    async def half(number: int) -> float:
        return number / 2

    async with open_functions(double, half) as connection:
        assert [found.remote_name for found in connection.tools] == ["double", "other"]
        assert (await connection.call_tool("double", {"number": 4})).structured == 8
        assert (await connection.call_tool("other", {"number": 4})).structured == 2


async def test_options_of_the_connection_are_passed_on() -> None:
    heard: list[Any] = []

    async def chat(context: Context) -> None:
        await context.log("info", "hi")

    async with open_functions(
        chat, name="mine", protocol="legacy", on_log=lambda *item: heard.append(item)
    ) as mine:
        assert (mine.name, mine.protocol_version) == ("mine", "2025-11-25")
        await mine.call_tool("chat")
    assert heard == [("info", None, "hi")]


async def test_the_limits_of_the_client_are_passed_on() -> None:
    def one() -> str:
        return "1"

    def other() -> str:
        return "2"

    async with open_functions(one, other, limits=ClientLimits(max_entries=1)) as functions:
        assert [one.remote_name for one in functions.tools] == ["one"]
    script = HANDSHAKE + '> {"method": "a", "id": "@a"}\n< ' + json.dumps("x" * 1000)
    with trio.fail_after(5):
        async with open_script(script, limits=ClientLimits(lines=LineLimits(max_line=999))) as scripted:
            with pytest.raises(ServerStoppedError, match="sent a line over 999 bytes"):
                await scripted.request("a")


def test_a_function_that_is_no_tool_is_refused_before_anything_is_opened() -> None:
    def wrong(number) -> None:  # type: ignore[no-untyped-def]
        """Has no annotation."""

    with pytest.raises(TypeError, match="wrong: number: it has no annotation"):
        open_functions(wrong)


# --- misbehaviour


@pytest.fixture
def env(nothing_left: dict[str, str]) -> dict[str, str]:
    """The environment of a child that is looked for afterwards."""
    return {**nothing_left, "PATH": os.environ["PATH"]}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["deaf", "chatters", "floods stderr"])
async def test_a_server_with_bad_manners_still_works(kind: Misbehaviour, env: dict[str, str]) -> None:
    server = misbehaving_server(kind, stop_timeout=0.1, env=env)
    with trio.fail_after(30):
        async with open_connection(server) as connection:
            (found,) = connection.tools
            assert isinstance(found, Tool)
            assert (await connection.call_tool("work")).content == "worked"
            if kind == "chatters":
                assert connection.statistics().skipped_lines >= 2
            if kind == "floods stderr":
                assert len(connection.stderr_tail) == 64 * 1024


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "returncode", "reason"),
    [("dies on call", 3, "exited with status 3"), ("closes its output", None, "closed its output")],
)
async def test_a_server_that_goes_away_on_a_call_stops(
    kind: Misbehaviour, returncode: int | None, reason: str, env: dict[str, str]
) -> None:
    with trio.fail_after(30):
        async with open_connection(misbehaving_server(kind, stop_timeout=0.1, env=env)) as connection:
            with pytest.raises(ServerStoppedError) as caught:
                await connection.call_tool("work")
    assert (caught.value.returncode, caught.value.reason) == (returncode, reason)


async def test_a_server_that_exits_never_starts(env: dict[str, str]) -> None:
    with trio.fail_after(30), pytest.raises(ServerStartError) as caught:
        async with open_connection(misbehaving_server("exits", env=env)):
            pass
    assert caught.value.returncode == 2
    assert "missing API_KEY" in caught.value.stderr_tail


@pytest.mark.slow
async def test_a_silent_server_is_not_ready_in_time(env: dict[str, str]) -> None:
    server = misbehaving_server("silent", start_timeout=0.5, stop_timeout=0.1, env=env)
    with trio.fail_after(30), pytest.raises(ServerStartError, match=r"not ready within 0\.5 s"):
        async with open_connection(server):
            pass


async def test_a_server_that_hangs_on_a_call_can_be_left(env: dict[str, str]) -> None:
    with trio.fail_after(30):
        async with open_connection(misbehaving_server("hangs on call", stop_timeout=0.1, env=env)) as connection:
            with trio.move_on_after(0.1) as scope:
                await connection.call_tool("work")
            assert scope.cancelled_caught


def test_fields_of_the_server_are_passed_on_and_an_unknown_kind_is_named() -> None:
    server = misbehaving_server("deaf", name="odd", stop_timeout=3)
    assert isinstance(server, Server)
    assert (server.name, server.stop_timeout) == ("odd", 3)
    with pytest.raises(ValueError, match=r"kind: expected one of exits, silent, .*, got 'polite'"):
        misbehaving_server("polite")  # type: ignore[arg-type]


def test_every_kind_has_its_program() -> None:
    for kind in typing.get_args(Misbehaviour):
        source = misbehaving_server(kind).args[-1]
        compile(source, kind, "exec")


# --- scripts

HANDSHAKE = """
# The handshake of the legacy era.

> {"method": "initialize", "id": "@1", "params": {"protocolVersion": "2025-11-25"}}
< {"jsonrpc": "2.0", "id": "@1", "result": {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {}}}
> {"method": "notifications/initialized"}
"""


async def test_a_script_is_played_and_its_ids_are_those_of_the_client() -> None:
    script = (
        HANDSHAKE
        + """
    > {"method": "a", "id": "@a", "params": {"x": [1, {"y": "@same"}]}}
    > {"method": "b", "id": "@b", "params": {"x": "@same"}}
    < {"jsonrpc": "2.0", "id": "@b", "result": {"of": "b", "was": ["@same", "@never"]}}
    < {"jsonrpc": "2.0", "id": "@a", "result": {"of": "a"}}
    """
    )
    found: dict[str, Any] = {}

    async def ask(method: str, params: Any) -> None:
        found[method] = await connection.request(method, params)

    with trio.fail_after(5):
        async with open_script(script) as connection:
            assert connection.protocol_version == "2025-06-18"
            async with trio.open_nursery() as nursery:
                nursery.start_soon(ask, "a", {"x": [1, {"y": "s"}], "more": True})
                await trio.testing.wait_all_tasks_blocked()
                nursery.start_soon(ask, "b", {"x": "s"})
    assert found == {"a": {"of": "a"}, "b": {"of": "b", "was": ["s", "@never"]}}


async def test_a_line_of_the_server_that_is_no_json_is_sent_as_it_is() -> None:
    script = HANDSHAKE + '< Listening on stdio\n> {"method": "a", "id": "@a"}\n'
    script += '< {"jsonrpc": "2.0", "id": "@a", "result": {}}'
    async with open_script(script) as connection:
        await connection.request("a")
        assert connection.statistics().skipped_lines == 1


@pytest.mark.table(
    "expected",
    [
        '{"method": "b"}',
        '{"method": "a", "params": {"x": 2}}',
        '{"method": "a", "params": {"y": 1}}',
        '{"method": "a", "params": {"x": [1]}}',
        '{"method": "a", "params": {"list": [1]}}',
        '{"method": "a", "params": {"list": [1, 3]}}',
        '{"method": "a", "params": {"x": "@1"}, "id": "@1"}',
        "[1]",
    ],
)
async def test_a_client_that_says_something_else_fails_the_script_bare_with_both(expected: str) -> None:
    with trio.fail_after(5), pytest.raises(ScriptError) as caught:
        async with open_script(f"{HANDSHAKE}> {expected}") as connection:
            await connection.request("a", {"x": 1, "list": [1, 2]})
    assert str(caught.value).startswith(f'expected {expected}, got {{"jsonrpc"')
    assert isinstance(caught.value, AssertionError)


async def test_a_client_that_ends_before_the_script_fails_it() -> None:
    with trio.fail_after(5), pytest.raises(ScriptError, match=r'the client ended before {"method": "a"}'):
        async with open_script(HANDSHAKE + '> {"method": "a"}'):
            pass


async def test_a_client_that_goes_on_after_the_script_fails_it() -> None:
    with trio.fail_after(5), pytest.raises(ScriptError, match="the script is over, and the client sent"):
        async with open_script(HANDSHAKE) as connection:
            await connection.request("more")


async def test_an_error_of_the_body_wins_over_the_script() -> None:
    with trio.fail_after(5), pytest.raises(RuntimeError, match="mine") as caught:
        async with open_script(HANDSHAKE + '> {"method": "a"}'):
            raise RuntimeError("mine")
    assert "the client ended before" in "".join(getattr(caught.value, "__notes__", []))


@pytest.mark.table(("text", "number"), [("\n! {}", 2), ("> {}\n\n> {not json}", 3), (">", 1), ("# fine\n{}", 2)])
def test_a_script_that_cannot_be_read_names_the_line(text: str, number: int) -> None:
    with pytest.raises(ValueError, match=f"^line {number}: "):
        WireScript(text)


def test_empty_lines_and_comments_are_no_steps() -> None:
    assert len(WireScript(HANDSHAKE)) == 3
    assert len(WireScript("")) == 0


async def test_a_script_may_be_played_again_and_on_any_stream() -> None:
    script = WireScript('> {"id": "@1"}\n< {"back": "@1", "text": "\u2028"}')
    for id_ in (1, "two"):
        ours, theirs = trio.testing.memory_stream_pair()
        with trio.fail_after(5):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(script.play, theirs)
                await ours.send_all(json.dumps({"id": id_}).encode() + b"\n")
                assert json.loads(await ours.receive_some()) == {"back": id_, "text": "\u2028"}
                await ours.aclose()


async def test_a_modern_conversation_may_be_scripted_too() -> None:
    script = """
    > {"method": "server/discover", "id": "@1"}
    < {"jsonrpc": "2.0", "id": "@1", "result": {"supportedVersions": ["2026-07-28"], "capabilities": {}}}
    > {"method": "a", "id": "@2", "params": {"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}}}
    < {"jsonrpc": "2.0", "id": "@2", "error": {"code": -32601, "message": "no"}}
    """
    async with open_script(script, protocol="modern") as connection:
        with pytest.raises(RequestError, match="no"):
            await connection.request("a")


def test_a_script_error_is_no_error_of_the_library() -> None:
    """It tells of the test, and must not be caught by what the test checks."""
    assert not issubclass(ScriptError, MCPError)


def test_what_is_no_script_is_a_type_error() -> None:
    wrong: Any = None
    with pytest.raises(TypeError, match=r"^text: expected str, got NoneType$"):
        WireScript(wrong)


def test_a_misbehaving_server_is_not_waited_for() -> None:
    assert misbehaving_server("deaf").stop_timeout < 1
    assert sorted(testing.__all__) == testing.__all__
