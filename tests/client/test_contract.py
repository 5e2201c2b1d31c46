"""The same asserts over every transport: memory, stdio, HTTP in the modern era, HTTP in the legacy era.

Over HTTP once against a peer that knows nothing of this library, and once against our own server.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any

import pytest
import trio
from trio.testing import assert_checkpoints

from tests.http_peer import start_peer
from tests.peers import peer
from tests.serving import serving
from trio_mcp import (
    Connection,
    InvalidArgumentsError,
    RequestError,
    Server,
    ToolServer,
    open_connection,
    open_memory_connection,
    raw_tool,
)
from trio_mcp.protocol.revisions import Era

pytestmark = pytest.mark.usefixtures("nothing_left")


def contract() -> ToolServer:
    """The tools that every server here has."""

    def echo(arguments: bytes) -> str:
        return json.dumps(json.loads(arguments))

    async def hang(arguments: bytes) -> str:
        await trio.sleep_forever()
        return ""

    server = ToolServer("contract")
    for handler in (echo, hang):
        server.add_tools(raw_tool(handler.__name__, "A tool.", {"type": "object"}, handler))
    return server


@asynccontextmanager
async def memory() -> AsyncIterator[Connection]:
    async with open_memory_connection(contract()) as connection:
        yield connection


@asynccontextmanager
async def beside(far_end: AbstractAsyncContextManager[Server]) -> AsyncIterator[Connection]:
    """A connection to a far end in this process, whose own nursery must not wrap what leaves the connection."""
    left: Exception | None = None
    async with far_end as server:
        try:
            async with open_connection(server) as connection:
                yield connection
        except Exception as error:
            left = error
    if left is not None:
        raise left


@asynccontextmanager
async def our_server(era: Era) -> AsyncIterator[Server]:
    async with serving(server=contract()) as served:
        yield Server("contract", url=served.url, protocol=era)


@asynccontextmanager
async def stdio(era: Era) -> AsyncIterator[Connection]:
    async with open_connection(peer(era=era)) as connection:
        yield connection


@asynccontextmanager
async def plain_peer(era: Era) -> AsyncIterator[Server]:
    async with trio.open_nursery() as nursery:
        found = await start_peer(nursery, era)
        found.calls["hang"] = found.calls["wait"]
        found.tools.append({"name": "hang", "inputSchema": {"type": "object"}})
        yield found.server()
        nursery.cancel_scope.cancel()


WAYS: dict[str, Callable[[], AbstractAsyncContextManager[Connection]]] = {
    "memory": memory,
    "stdio-modern": partial(stdio, "modern"),
    "stdio-legacy": partial(stdio, "legacy"),
    "http-modern": lambda: beside(plain_peer("modern")),
    "http-legacy": lambda: beside(plain_peer("legacy")),
    "published-modern": lambda: beside(our_server("modern")),
    "published-legacy": lambda: beside(our_server("legacy")),
}


@pytest.fixture(params=list(WAYS.values()), ids=list(WAYS))
def way(request: pytest.FixtureRequest) -> Any:
    return request.param


async def test_tools_are_listed_and_called(way: Any) -> None:
    with trio.fail_after(20):
        async with way() as connection:
            assert {"echo", "hang"} <= {tool.remote_name for tool in connection.tools}
            for arguments, text in ((None, "{}"), ({"a": [1, None, "ü"]}, None), ('{"a":\r\n1}', '{"a": 1}')):
                result = await connection.call_tool("echo", arguments)
                assert json.loads(result.content) == (arguments if text is None else json.loads(text))
                assert not result.is_error
            assert await connection.tools[0].call("{}") is not None


async def test_fifty_calls_at_once_get_their_own_answers(way: Any) -> None:
    found: dict[int, int] = {}

    async def call(connection: Connection, number: int) -> None:
        found[number] = json.loads((await connection.call_tool("echo", {"n": number})).content)["n"]

    with trio.fail_after(20):
        async with way() as connection:
            async with trio.open_nursery() as callers:
                for number in range(50):
                    callers.start_soon(call, connection, number)
            assert connection.statistics().calls_done >= 50
    assert found == {number: number for number in range(50)}


async def test_a_cancelled_call_costs_nothing_else(way: Any) -> None:
    with trio.fail_after(20):
        async with way() as connection:
            for _ in range(3):
                with trio.move_on_after(0.05) as scope:
                    await connection.call_tool("hang")
                assert scope.cancelled_caught
            assert connection.statistics().calls_in_flight == 0
            assert (await connection.call_tool("echo")).content == "{}"


async def test_what_is_wrong_before_it_is_sent_is_raised_at_once(way: Any) -> None:
    with trio.fail_after(20):
        async with way() as connection:
            before = connection.statistics().bytes_out
            for arguments in ("[1]", "{", b"\xff", {"a": float("nan")}):
                with pytest.raises(InvalidArgumentsError):
                    await connection.call_tool("echo", arguments)
            assert connection.statistics().bytes_out == before


async def test_an_unknown_method_is_an_error_of_the_request(way: Any) -> None:
    with trio.fail_after(20):
        async with way() as connection:
            with pytest.raises(RequestError) as caught:
                await connection.request("no/such/method")
            assert caught.value.code == -32601
            assert (await connection.call_tool("echo")).content == "{}"


async def test_closing_ends_everything_and_says_so(way: Any) -> None:
    raised: list[BaseException] = []

    async def call(connection: Connection) -> None:
        try:
            await connection.call_tool("hang")
        except trio.ClosedResourceError as error:
            raised.append(error)

    with trio.fail_after(20):
        async with AsyncExitStack() as stack:
            scope: AbstractAsyncContextManager[Connection] = way()
            connection = await stack.enter_async_context(scope)
            async with trio.open_nursery() as callers:
                callers.start_soon(call, connection)
                await trio.testing.wait_all_tasks_blocked(0.05)
                assert connection.statistics().calls_in_flight == 1
                with assert_checkpoints():
                    await connection.aclose()
            assert len(raised) == 1
            assert connection.done.is_set()
            assert connection.error is None
            await connection.aclose()
            with pytest.raises(trio.ClosedResourceError):
                await connection.call_tool("echo")
            with pytest.raises(trio.ClosedResourceError):
                await connection.refresh_tools()


async def test_public_methods_are_checkpoints(way: Any) -> None:
    with trio.fail_after(20):
        async with way() as connection:
            with assert_checkpoints():
                await connection.call_tool("echo")
            with assert_checkpoints():
                await connection.refresh_tools()
            with assert_checkpoints(), pytest.raises(RequestError):
                await connection.request("no/such/method")


async def test_errors_of_the_body_leave_bare(way: Any) -> None:
    with trio.fail_after(20), pytest.raises(ZeroDivisionError):
        async with way():
            raise ZeroDivisionError
