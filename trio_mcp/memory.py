"""Connects a `ToolServer` and a `Connection` in one process, by the protocol and transport of stdio servers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import trio

from .client.connection import Connection
from .client.features.log_messages import OnLog
from .client.launching import Launcher
from .client.limits import ClientLimits
from .client.opening import opened
from .client.options import Options
from .errors import InvalidServerError
from .models.elicitation import OnElicit
from .models.server import Server
from .nursery import bare_nursery
from .protocol.revisions import ProtocolChoice
from .server.registry import ToolServer
from .server.streams import StreamService
from .transports.base import Handlers, Transport
from .transports.lines.pair import stream_pair
from .transports.lines.transport import StreamTransport


@asynccontextmanager
@trio.lowlevel.enable_ki_protection
async def open_memory_connection(
    server: ToolServer,
    *,
    name: str = "memory",
    protocol: ProtocolChoice = "auto",
    client_info: Mapping[str, Any] | None = None,
    on_elicit: OnElicit | None = None,
    on_log: OnLog | None = None,
    limits: ClientLimits | None = None,
) -> AsyncIterator[Connection]:
    """Serve a `ToolServer` to a `Connection` in this process: for tests, and for agents that use their own tools.

    An async context manager. Everything goes through the same protocol and the same stream transport as over
    stdio, but for the pipe.

    Args:
        server: what to serve.
        name: goes into every tool name, as `Server.name` does.
        protocol: "auto", "modern", "legacy", or one revision.
        client_info, on_elicit, on_log, limits: as in `open_connection`.

    Raises:
        InvalidServerError: an argument is wrong.

    Example:
        >>> async def double(server):
        ...     async with open_memory_connection(server) as connection:
        ...         return (await connection.call_tool("double", {"number": 4})).content
    """
    await trio.lowlevel.checkpoint()
    if not isinstance(server, ToolServer):
        raise InvalidServerError("server", f"expected a ToolServer, got {type(server).__name__}")
    Server(name, command="none", protocol=protocol)  # the rules of `Server` for both hold here too
    options = Options(name, client_info=client_info, on_elicit=on_elicit, on_log=on_log, limits=limits)
    # Not cancelled from outside: the client's end closes its stream, and that ends the service. Bounded below.
    serving = trio.CancelScope(shield=True)
    async with bare_nursery() as nursery:

        async def serve(stream: trio.abc.Stream) -> None:
            with serving:
                try:
                    await StreamService(server, stream, stream, grace=0).run()
                finally:
                    await trio.aclose_forcefully(stream)

        async def start(handlers: Handlers, _: Callable[[str], None] | None) -> Transport:
            ours, theirs = stream_pair()
            transport = StreamTransport(ours, ours, handlers, name=name, limits=options.limits.lines)
            nursery.start_soon(serve, theirs)  # the last: from here on only the transport's end ends it
            return transport

        try:
            async with opened(Launcher(name=name, protocol=protocol, start=start), options) as connection:
                yield connection
        finally:
            serving.deadline = trio.current_time() + 2 * options.limits.lines.flush_grace
