"""Connections to processes with other bounds than the usual ones, handed in at the lowest seam of opening."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import attrs

from trio_mcp import Connection, Server
from trio_mcp.client.launching import launcher_for
from trio_mcp.client.opening import opened
from trio_mcp.client.options import Options
from trio_mcp.transports.base import Handlers, Transport
from trio_mcp.transports.limits import LineLimits, ProcessLimits
from trio_mcp.transports.stdio.transport import StdioTransport


@asynccontextmanager
async def open_bounded(
    server: Server, *, lines: LineLimits | None = None, process: ProcessLimits | None = None
) -> AsyncIterator[Connection]:
    """`open_connection` with these limits."""

    async def start(handlers: Handlers, on_stderr: Callable[[str], None] | None) -> Transport:
        return await StdioTransport.start(server, handlers, on_stderr, lines=lines, limits=process)

    launcher = attrs.evolve(launcher_for(server), start=start)
    async with opened(launcher, Options(server.name, server.redactor)) as client:
        yield client.connection
