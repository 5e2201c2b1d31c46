"""open_memory_connection: a server and a connection in one process, with nothing short-circuited between them."""

from __future__ import annotations

import gc
import json
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from trio_mcp import Connection, InvalidServerError, RequestError, Server, ToolServer, open_memory_connection, tool
from trio_mcp.protocol.negotiation import ERAS
from trio_mcp.protocol.revisions import Era, ProtocolChoice
from trio_mcp.transports.limits import LineLimits


@pytest.fixture(autouse=True)
def _no_era_is_remembered() -> None:
    ERAS.clear()


@tool
async def echo(text: str) -> str:
    """Say it again."""
    return text


def server(*tools: Any) -> ToolServer:
    made = ToolServer("mine", version="1")
    made.add_tools(echo, *tools)
    return made


async def test_the_connection_is_like_any_other() -> None:
    with trio.fail_after(5):
        async with open_memory_connection(server()) as connection:
            assert (connection.name, connection.server) == ("memory", None)
            assert connection.server_info == {"name": "mine", "version": "1"}
            (found,) = connection.tools
            assert found.name == "mcp__memory__echo"
            assert found.description == "Tool echo from the MCP server memory. Say it again."
            assert await found.invoke({"text": "hi"}) == "hi"
            assert (await connection.request("tools/list"))["tools"][0]["name"] == "echo"
            assert (connection.stderr_tail, connection.warnings, connection.error) == ("", (), None)
        assert connection.done.is_set()
        with pytest.raises(trio.ClosedResourceError):
            await connection.call_tool("echo", {"text": "late"})


async def test_what_is_sent_is_counted_as_over_any_stream() -> None:
    async with open_memory_connection(server()) as connection:
        before = connection.statistics()
        await connection.call_tool("echo", {"text": "x" * 1000})
        after = connection.statistics()
    assert after.bytes_out - before.bytes_out > 1000
    assert after.bytes_in - before.bytes_in > 1000
    assert (after.calls_done - before.calls_done, after.calls_in_flight) == (1, 0)


@pytest.mark.table(
    ("protocol", "version"),
    [
        ("auto", "2026-07-28"),
        ("modern", "2026-07-28"),
        ("2026-07-28", "2026-07-28"),
        ("legacy", "2025-11-25"),
        ("2025-11-25", "2025-11-25"),
        ("2025-06-18", "2025-06-18"),
        ("2025-03-26", "2025-03-26"),
        ("2024-11-05", "2024-11-05"),
    ],
)
async def test_each_revision_may_be_asked_for(protocol: ProtocolChoice, version: str) -> None:
    async with open_memory_connection(server(), protocol=protocol) as connection:
        assert connection.protocol_version == version
        assert (await connection.call_tool("echo", {"text": "hi"})).content == "hi"


async def test_the_era_of_one_is_never_remembered_for_another() -> None:
    for _ in range(3):
        async with open_memory_connection(server(), protocol="legacy") as connection:
            assert connection.protocol_version == "2025-11-25"
        async with open_memory_connection(server()) as connection:
            assert connection.protocol_version == "2026-07-28"
    assert len(ERAS) == 0


@pytest.mark.table(
    ("options", "text"),
    [
        ({"name": "a b"}, "name: 'a b' is not 1 to 32"),
        ({"name": ""}, "name: "),
        ({"name": 7}, "name: expected str, got int"),
        ({"protocol": "newest"}, "protocol: "),
        ({"protocol": 7}, "protocol: "),
        ({"protocol": ["modern"]}, "protocol: "),
        ({"client_info": {"name": "x"}}, "client_info: version: expected a str"),
        ({"on_log": 7}, "on_log: expected a function, got int"),
        ({"on_elicit": 7}, "on_elicit: expected a function, got int"),
    ],
    ids=str,
)
async def test_an_argument_that_is_wrong_is_named(options: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidServerError) as caught:
        async with open_memory_connection(server(), **options):
            pass
    assert str(caught.value).startswith(text)


@pytest.mark.table("thing", [None, echo, Server("a", command="b"), "mine"], ids=repr)
async def test_what_is_no_tool_server_is_named(thing: Any) -> None:
    with pytest.raises(InvalidServerError, match=f"server: expected a ToolServer, got {type(thing).__name__}"):
        async with open_memory_connection(thing):
            pass


async def test_an_exception_of_the_body_leaves_as_it_is() -> None:
    error = ValueError("mine")
    with pytest.raises(ValueError) as caught:
        async with open_memory_connection(server()):
            raise error
    assert caught.value is error


async def test_an_error_of_the_server_is_not_an_error_of_the_connection() -> None:
    async with open_memory_connection(server()) as connection:
        with pytest.raises(RequestError):
            await connection.request("no/such/method")
        assert (await connection.call_tool("echo", {"text": "on"})).content == "on"


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_a_call_in_flight_at_the_end_of_the_body_is_cancelled_at_once(era: Era) -> None:
    entered, ended = trio.Event(), []

    @tool
    async def wait() -> None:
        entered.set()
        try:
            await trio.sleep_forever()
        finally:
            ended.append(1)

    with trio.fail_after(2):
        async with trio.open_nursery() as nursery:

            async def call(connection: Connection) -> None:
                with pytest.raises(trio.ClosedResourceError):
                    await connection.call_tool("wait")

            async with open_memory_connection(server(wait), protocol=era) as connection:
                nursery.start_soon(call, connection)
                await entered.wait()
        assert ended == [1]


async def test_a_cancel_around_it_ends_the_handlers_too() -> None:
    entered, ended = trio.Event(), []

    @tool
    async def wait() -> None:
        entered.set()
        try:
            await trio.sleep_forever()
        finally:
            ended.append(1)

    with trio.fail_after(2), trio.CancelScope() as scope:
        async with open_memory_connection(server(wait)) as connection, trio.open_nursery() as nursery:
            nursery.start_soon(connection.call_tool, "wait")
            await entered.wait()
            scope.cancel()
    assert scope.cancelled_caught
    assert ended == [1]


async def test_aclose_ends_it_in_the_middle_of_the_body() -> None:
    with trio.fail_after(2):
        async with open_memory_connection(server()) as connection:
            await connection.aclose()
            assert (connection.done.is_set(), connection.error) == (True, None)
            with pytest.raises(trio.ClosedResourceError):
                await connection.call_tool("echo", {"text": "x"})


async def test_nothing_is_left_behind() -> None:
    made = server()
    await wait_all_tasks_blocked()
    before = trio.lowlevel.current_statistics().tasks_living
    for protocol in ("modern", "legacy"):
        async with open_memory_connection(made, protocol=protocol) as connection, connection.watch_tools():
            await connection.call_tool("echo", {"text": "x"})
    assert trio.lowlevel.current_statistics().tasks_living == before
    assert len(made.changes) == 0
    gc.collect()


async def test_many_connections_share_one_server() -> None:
    made = server()
    with trio.fail_after(10):
        async with (
            open_memory_connection(made, name="one") as one,
            open_memory_connection(made, name="two", protocol="legacy") as two,
        ):
            for connection in (one, two):
                assert (await connection.call_tool("echo", {"text": "hi"})).content == "hi"
            assert [found.name for found in (*one.tools, *two.tools)] == ["mcp__one__echo", "mcp__two__echo"]


async def test_a_server_may_serve_the_tools_of_a_connection_to_itself() -> None:
    """A gateway in one process: what passes here passes over stdio."""
    async with open_memory_connection(server(), name="back") as back:
        front = ToolServer("front")
        front.add_tools(*back.tools)
        async with open_memory_connection(front, name="front") as connection:
            (found,) = connection.tools
            assert found.remote_name == "mcp__back__echo"
            assert json.loads(found.input_schema_json) == echo.input_schema
            assert (await found.call({"text": "through"})).content == "through"
            result = await found.call({"text": 7})
            text = 'arguments for "echo": text: expected str, got int'
            assert (result.is_error, result.content) == (True, text)


@pytest.mark.slow
@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_large_answers_to_many_calls_reach_a_client_that_reads(
    era: Era,
) -> None:
    """Together they are over what may wait: they are held back, and the client is not taken for one that reads
    nothing.
    """
    size, count = 2_000_000, 40
    assert size * count > LineLimits().max_unread

    async def large() -> str:
        return "x" * size

    sizes: list[int] = []

    async def call(connection: Connection) -> None:
        sizes.append(len((await connection.call_tool("large")).content))

    server = ToolServer("large")
    server.add_tools(tool(large))
    with trio.fail_after(20):
        async with open_memory_connection(server, protocol=era) as connection, trio.open_nursery() as nursery:
            for _ in range(count):
                nursery.start_soon(call, connection)
    assert sizes == [size] * count
