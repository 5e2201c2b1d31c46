"""What type checkers have to know of the public names: they may report no line (check.py). Nothing here runs."""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass
from typing import assert_type

import trio

import trio_mcp
from trio_mcp import (
    Approve,
    Connection,
    Connections,
    Context,
    ElicitRequest,
    ElicitResult,
    HttpApp,
    LocalTool,
    OnElicit,
    OnLog,
    OnProgress,
    Server,
    Tool,
    Toolbox,
    ToolCall,
    ToolOutcome,
    ToolResult,
    ToolServer,
    ToolWatch,
    Wrapper,
    asgi_app,
    open_connection,
    open_connections,
    tool,
)

assert_type(trio_mcp.__version__, str)


@dataclass
class Time:
    timezone: str


@tool
def count_words(text: str) -> int:
    return len(text.split())


@tool(read_only=True, title="Wait", idempotent=True)
async def wait(seconds: float, *, context: Context | None = None) -> str:
    return "done"


server = ToolServer("mine")


@server.tool
def shout(text: str) -> str:
    return text.upper()


@server.tool(title="Whisper")
def whisper(text: str) -> str:
    return text.lower()


assert_type(count_words("a b"), int)
assert_type(shout("a"), str)
assert_type(whisper("A"), str)
assert_type(count_words.with_policy(trio_mcp.Policy())("a b"), int)
assert_type(asgi_app(server), HttpApp)
local: LocalTool[[str], int] = count_words
plain: Tool = count_words


async def approve(call: ToolCall) -> bool | str:
    return "not on a Friday"


async def on_elicit(request: ElicitRequest) -> ElicitResult:
    return ElicitResult("decline")


async def on_progress(progress: float, total: float | None, message: str | None) -> None: ...


def on_log(level: str, logger: str | None, data: object) -> None: ...


async def again(call: ToolCall, proceed: trio_mcp.Proceed) -> ToolResult:
    return await proceed(call)


callbacks: tuple[Approve, OnElicit, OnProgress, OnLog, Wrapper] = (approve, on_elicit, on_progress, on_log, again)


async def awaited() -> None:
    waiting: Awaitable[str] = wait(1.0)
    assert_type(await waiting, str)
    assert_type(await wait.call({"seconds": 1}), ToolResult)


async def client(one: Server) -> None:
    async with open_connection(one, on_elicit=on_elicit, on_log=on_log) as connection:
        assert_type(connection, Connection)
        assert_type(connection.tool("now"), Tool)
        assert_type(await connection.call_tool("now", on_progress=on_progress), ToolResult)
        assert_type((await connection.call_tool("now", returns=Time)).value, Time)
        async with connection.watch_tools() as changes:
            assert_type(changes, ToolWatch)
            async for tools in changes:
                assert_type(tools, tuple[Tool, ...])
    async with open_connections([one], on_error="warn") as connections:
        assert_type(connections, Connections)
        assert_type(connections.tools, tuple[Tool, ...])
    async with trio.open_nursery() as nursery:
        assert_type(await trio_mcp.connect(nursery, one), Connection)


async def turn(toolbox: Toolbox) -> None:
    assert_type(toolbox["add"], Tool)
    assert_type(await toolbox.run([ToolCall("1", "add")], approve=approve), list[ToolOutcome])
