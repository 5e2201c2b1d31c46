"""The libraries that are compared, each used through its public API as its own documentation shows.

Each function opens a client of a target and lists the tools; the client is open inside the `with` block. The
imports are inside the functions: a process imports only the library that it measures, and type checkers run where
the peers are not installed.
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
    """The official SDK, on the backend that runs."""
    sdk = importlib.import_module("mcp")
    address: Any = target.url
    if not address:
        command, *args = target.command
        address = sdk.StdioServerParameters(command=command, args=args)
    async with sdk.Client(address) as client:

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
    address: Any = target.url
    if not address:
        command, *args = target.command
        transports = importlib.import_module("fastmcp.client.transports")
        address = transports.StdioTransport(command=command, args=args, keep_alive=False)
    async with library.Client(address) as client:

        async def call(text: str) -> str:
            result = await client.call_tool("echo", {"text": text})
            answer: str = result.content[0].text
            return answer

        async def count_tools() -> int:
            return len(await client.list_tools())

        await count_tools()
        yield Client(call, count_tools)
