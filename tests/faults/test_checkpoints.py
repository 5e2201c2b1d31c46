"""Every public async function is a checkpoint on every path; cancelled from the start, it does nothing.

A loop over a function that is no checkpoint cannot be cancelled, and lets no other task run.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from functools import partial
from typing import Any

import attrs
import httpx
import pytest
import trio
from trio.testing import assert_checkpoints

import trio_mcp
from trio_mcp import (
    Agent,
    Connection,
    Context,
    Http1Transport,
    Server,
    Tool,
    Toolbox,
    ToolCall,
    ToolServer,
    add_agent,
    connect,
    import_tools,
    open_connection,
    open_connections,
    open_gateway,
    open_memory_connection,
    raw_tool,
    serve_http,
    serve_stdio,
    tool,
)
from trio_mcp.protocol.revisions import ProtocolChoice
from trio_mcp.tools.context import LocalCall

WRONG: Any = object()
begun: list[str] = []


@attrs.frozen
class Form:
    name: str


@tool
async def quick() -> str:
    begun.append("quick")
    return "x"


@tool
def plain() -> str:
    begun.append("plain")
    return "x"


async def _raw(arguments: bytes) -> str:
    begun.append("raw")
    return "x"


raw = raw_tool("raw", "A tool.", {"type": "object"}, _raw)


async def agent_run(prompt: str) -> str:
    begun.append("agent")
    return prompt


def agent_tool() -> Tool:
    server = ToolServer("zoo")
    add_agent(server, Agent("parrot", agent_run, tools=(quick,)), "Repeats.")
    return server.tools[0]


async def settle(work: Awaitable[Any]) -> None:
    """Await it, whatever it raises."""
    with suppress(Exception):  # a path that raises is a path
        await work


async def enter(manager: Any) -> None:
    async with manager:
        pass


async def _no_progress(progress: float, total: float | None, message: str | None) -> None:
    pass


Path = Callable[[], Awaitable[Any]]

#: By the public name: its paths, without a connection.
ALONE: dict[str, list[Path]] = {
    "Context.progress": [
        lambda: Context(LocalCall()).progress(1),
        lambda: Context(LocalCall(_no_progress)).progress(1),
        lambda: Context(LocalCall()).progress(float("nan")),
    ],
    "Context.log": [lambda: Context(LocalCall()).log("info", 1), lambda: Context(LocalCall()).log(WRONG, 1)],
    "Context.elicit": [
        lambda: Context(LocalCall()).elicit("?", Form),
        lambda: Context(LocalCall()).elicit("?", int),
    ],
    "Context.sample": [lambda: Context(LocalCall()).sample({})],
    "Context.ask": [
        lambda: Context(LocalCall()).ask("roots/list", {}),
        lambda: Context(LocalCall()).ask("no/such", {}),
    ],
    "Tool.call": [lambda: agent_tool().call({"prompt": "x"}), lambda: agent_tool().call(WRONG)],
    "LocalTool.call": [partial(one.call, given) for one in (quick, plain, raw) for given in (None, WRONG)],
    "Tool.invoke": [lambda: quick.invoke(None), lambda: quick.invoke(WRONG), lambda: quick.invoke({"no": 1})],
    "Toolbox.run": [
        lambda: Toolbox([]).run([]),
        lambda: Toolbox([]).run([ToolCall("1", "none")]),
        lambda: Toolbox([quick]).run([ToolCall("1", "quick")]),
    ],
    "open_connections": [
        lambda: enter(open_connections([])),
        lambda: enter(open_connections(WRONG)),
        lambda: enter(open_connections([WRONG])),
    ],
    "open_connection": [lambda: enter(open_connection(WRONG))],
    "connect": [lambda: connect(WRONG, Server("a", command="b")), lambda: connect(WRONG, WRONG)],
    "open_gateway": [lambda: enter(open_gateway([])), lambda: enter(open_gateway(WRONG))],
    "open_memory_connection": [lambda: enter(open_memory_connection(WRONG))],
    "import_tools": [lambda: import_tools(WRONG), lambda: import_tools(WRONG, prefix=WRONG)],
    "serve_stdio": [lambda: serve_stdio(WRONG)],
    "serve_http": [lambda: serve_http(WRONG), lambda: serve_http(ToolServer("a"), host=WRONG)],
    "Http1Transport.handle_async_request": [
        lambda: Http1Transport().handle_async_request(httpx.Request("GET", "http://127.0.0.1:1/")),
    ],
    "Http1Transport.aclose": [lambda: Http1Transport().aclose()],
}

#: The same, of a connection. Those that close it stand at the end.
CONNECTED: dict[str, list[Callable[[Connection], Awaitable[Any]]]] = {
    "Connection.call_tool": [
        lambda connection: connection.call_tool("quick"),
        lambda connection: connection.call_tool(WRONG),
        lambda connection: connection.call_tool("quick", WRONG),
        lambda connection: connection.call_tool("quick", returns=WRONG),
        lambda connection: connection.call_tool("quick", meta=WRONG),
        lambda connection: connection.call_tool("quick", on_progress=WRONG),
    ],
    "Connection.request": [
        lambda connection: connection.request("ping"),
        lambda connection: connection.request(WRONG),
        lambda connection: connection.request("ping", WRONG),
        lambda connection: connection.request("ping", {"_meta": 7}),
    ],
    "Connection.refresh_tools": [lambda connection: connection.refresh_tools()],
    "Connection.list_specs": [lambda connection: connection.list_specs()],
    "Connection.watch_tools": [lambda connection: enter(connection.watch_tools())],
    "Tool.run": [lambda connection: connection.tools[0].run(None, LocalCall())],
    "Connection.aclose": [lambda connection: connection.aclose(), lambda connection: connection.aclose()],
    "Connection.wait_done": [lambda connection: connection.wait_done()],
    "after the end": [
        lambda connection: connection.call_tool("quick"),
        lambda connection: connection.refresh_tools(),
        lambda connection: enter(connection.watch_tools()),
    ],
}

#: `ToolWatch.__anext__` has tests of its own; an `HttpApp` is called by ASGI servers; entering an `Http1Transport`
#: is nothing at all, as in httpx.
ELSEWHERE = {"ToolWatch.__anext__", "HttpApp.__call__", "Http1Transport.__aenter__", "Http1Transport.__aexit__"}


def public_async_functions() -> set[str]:
    found = set()
    for name in trio_mcp.__all__:
        value = getattr(trio_mcp, name)
        if inspect.isclass(value):
            for member, function in vars(value).items():
                if inspect.iscoroutinefunction(function) and (member[0] != "_" or member.startswith("__a")):
                    found.add(f"{name}.{member}")
        elif inspect.iscoroutinefunction(value) or inspect.isasyncgenfunction(inspect.unwrap(value)):
            found.add(name)
    return found


def test_every_public_async_function_is_in_the_tables() -> None:
    assert public_async_functions() - ELSEWHERE - set(ALONE) - set(CONNECTED) == set()


@pytest.mark.parametrize(
    "path", [pytest.param(path, id=f"{name}-{i}") for name, paths in ALONE.items() for i, path in enumerate(paths)]
)
async def test_it_is_a_checkpoint(path: Path) -> None:
    with trio.fail_after(5), assert_checkpoints():
        await settle(path())


@pytest.mark.parametrize(
    "path", [pytest.param(path, id=f"{name}-{i}") for name, paths in ALONE.items() for i, path in enumerate(paths)]
)
async def test_cancelled_at_once_it_does_nothing(path: Path) -> None:
    begun.clear()
    with trio.fail_after(5), trio.CancelScope() as scope:
        scope.cancel()
        await settle(path())
    assert scope.cancelled_caught
    assert begun == []


def served() -> ToolServer:
    server = ToolServer("served")
    server.add_tools(quick)
    return server


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_every_function_of_a_connection_is_a_checkpoint(era: ProtocolChoice) -> None:
    with trio.fail_after(5):
        async with open_memory_connection(served(), protocol=era) as connection:
            for paths in CONNECTED.values():
                for path in paths:
                    with assert_checkpoints():
                        await settle(path(connection))


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_no_function_of_a_connection_sends_anything_where_it_is_cancelled_at_once(
    era: ProtocolChoice,
) -> None:
    with trio.fail_after(5):
        async with open_memory_connection(served(), protocol=era) as connection:
            before = connection.statistics().bytes_out
            for name, paths in CONNECTED.items():
                for path in paths if name != "Connection.aclose" else ():
                    with trio.CancelScope() as scope:
                        scope.cancel()
                        await settle(path(connection))
                    assert scope.cancelled_caught, name
            assert connection.statistics().bytes_out == before
            assert connection.statistics().calls_in_flight == 0


@pytest.mark.parametrize("era", ["modern", "legacy"])
@pytest.mark.parametrize("listens", [True, False])
async def test_a_served_tool_that_only_tells_can_be_cancelled(era: ProtocolChoice, listens: bool) -> None:
    """It tells of progress and logs in a loop: the client that cancels it must be heard."""
    rounds = 0
    ended = trio.Event()

    @tool
    async def tells(context: Context) -> None:
        nonlocal rounds
        try:
            while True:
                rounds += 1
                with assert_checkpoints():
                    await context.progress(rounds)
                with assert_checkpoints():
                    await context.log("info", rounds)
        finally:
            ended.set()

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        pass

    server = ToolServer("tells")
    server.add_tools(tells)
    async with AsyncExitStack() as stack:
        stack.enter_context(trio.fail_after(5))
        connection = await stack.enter_async_context(open_memory_connection(server, protocol=era))
        with trio.move_on_after(0.05):
            await connection.call_tool("tells", on_progress=on_progress if listens else None)
        await ended.wait()
    assert rounds


async def test_a_turn_of_calls_that_never_wait_can_be_cancelled() -> None:
    count = 0

    @tool
    async def counts() -> None:
        nonlocal count
        count += 1
        if count == 3:
            scope.cancel()

    with trio.CancelScope() as scope:
        await Toolbox([counts]).run([ToolCall(str(i), "counts") for i in range(10)])
    assert scope.cancelled_caught
    assert count == 3
