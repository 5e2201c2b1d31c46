"""A connection to a ToolServer in this process, and every byte that goes over its wire."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import attrs
import trio
from trio.testing import memory_stream_pair

from trio_mcp import Connection, ToolServer
from trio_mcp.client.launching import Launcher
from trio_mcp.client.opening import opened
from trio_mcp.client.options import Options
from trio_mcp.nursery import bare_nursery
from trio_mcp.protocol.revisions import ProtocolChoice
from trio_mcp.server.streams import StreamService
from trio_mcp.testing.scripts import WireScript
from trio_mcp.transports.base import Handlers, Transport
from trio_mcp.transports.lines.transport import StreamTransport


@attrs.define(eq=False)
class Tap(trio.abc.Stream):
    """A stream that remembers what went through it."""

    stream: trio.abc.Stream
    sent: bytearray = attrs.Factory(bytearray)
    received: bytearray = attrs.Factory(bytearray)

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        self.sent += data
        await self.stream.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        await self.stream.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        data = await self.stream.receive_some(max_bytes)
        self.received += data
        return data

    async def aclose(self) -> None:
        await self.stream.aclose()


@asynccontextmanager
async def open_tapped(
    server: ToolServer, *, protocol: ProtocolChoice = "auto", name: str = "tapped"
) -> AsyncIterator[tuple[Connection, Tap]]:
    """As `open_memory_connection`, with the client's end tapped."""
    ours, theirs = memory_stream_pair()
    tap = Tap(ours)

    async def start(handlers: Handlers, _: Callable[[str], None] | None) -> Transport:
        nursery.start_soon(StreamService(server, theirs, theirs, grace=0).run)
        return StreamTransport(tap, tap, handlers, name=name)

    async with bare_nursery() as nursery:
        async with opened(Launcher(name=name, protocol=protocol, start=start), Options(name)) as connection:
            yield connection, tap
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def open_tapped_script(
    script: str, *, options: Options, protocol: ProtocolChoice
) -> AsyncIterator[tuple[Connection, Tap]]:
    """As `open_script`, with the client's end tapped."""
    ours, theirs = memory_stream_pair()
    tap = Tap(ours)

    async def start(handlers: Handlers, _: Callable[[str], None] | None) -> Transport:
        nursery.start_soon(WireScript(script).play, theirs)
        return StreamTransport(tap, tap, handlers, name="tapped")

    async with bare_nursery() as nursery:
        async with opened(Launcher(name="tapped", protocol=protocol, start=start), options) as connection:
            yield connection, tap
