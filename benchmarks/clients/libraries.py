"""The libraries that are compared, each through its public API in the form that its own documentation shows.

Each opens a client of a target, with the tools listed, for as long as the context lasts. The imports are inside:
a process imports only the library that it measures, and type checkers run where the peers are not installed.
"""

from __future__ import annotations

import importlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from .target import Client, Target


@asynccontextmanager
async def trio_mcp(target: Target) -> AsyncGenerator[Client, None]:
    """This library."""
    import trio_mcp

    if target.url:
        server = trio_mcp.Server("echo", url=target.url)
    else:
        command, *args = target.command
        server = trio_mcp.Server("echo", command=command, args=args, env=trio_mcp.default_environment())
    async with trio_mcp.open_connection(server) as connection:

        async def call(text: str) -> str:
            return (await connection.call_tool("echo", {"text": text})).content

        async def count_tools() -> int:
            await connection.refresh_tools()
            return len(connection.tools)

        yield Client(call, count_tools)


@asynccontextmanager
async def mcp(target: Target) -> AsyncGenerator[Client, None]:
    """The official SDK, on whichever backend runs."""
    sdk = importlib.import_module("mcp")
    reached: Any = target.url
    if not reached:
        command, *args = target.command
        reached = sdk.StdioServerParameters(command=command, args=args)
    async with sdk.Client(reached) as client:

        async def call(text: str) -> str:
            result = await client.call_tool("echo", {"text": text})
            answer: str = result.content[0].text
            return answer

        async def count_tools() -> int:
            page = await client.list_tools()
            count = len(page.tools)
            while page.next_cursor:
                page = await client.list_tools(cursor=page.next_cursor)
                count += len(page.tools)
            return count

        await count_tools()
        yield Client(call, count_tools)


@asynccontextmanager
async def fastmcp(target: Target) -> AsyncGenerator[Client, None]:
    """FastMCP."""
    library = importlib.import_module("fastmcp")
    reached: Any = target.url
    if not reached:
        command, *args = target.command
        transports = importlib.import_module("fastmcp.client.transports")
        reached = transports.StdioTransport(command=command, args=args, keep_alive=False)
    async with library.Client(reached) as client:

        async def call(text: str) -> str:
            result = await client.call_tool("echo", {"text": text})
            answer: str = result.content[0].text
            return answer

        async def count_tools() -> int:
            return len(await client.list_tools())

        await count_tools()
        yield Client(call, count_tools)
