"""How one server is started and reached, as far as opening needs to know. Each transport has its own maker."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable

import attrs
import trio

from ..errors import InvalidServerError
from ..models.server import Server
from ..transports.base import Handlers, Transport
from ..transports.stdio.transport import StdioTransport, path_hint

#: Starts the server; `run` of what it gives must be called before anything else is awaited.
Start = Callable[[Handlers, Callable[[str], None] | None], Awaitable[Transport]]


@attrs.frozen(kw_only=True)
class Launcher:
    """One server, as it can be started.

    `key` is how it is remembered which era it speaks; `hint` is added to the reason of a failed start; `restarts`
    says that `start` starts a server, rather than reaching one that is there.
    """

    name: str
    start: Start
    protocol: str = "auto"
    start_timeout: float | None = None
    key: Hashable = None
    server: Server | None = None
    hint: str = ""
    restarts: bool = True


def launcher_for(server: Server) -> Launcher:
    """A process of its own, or an endpoint.

    Raises:
        InvalidServerError: this is no `Server`.
    """
    if not isinstance(server, Server):
        raise InvalidServerError("server", f"expected a Server, got {type(server).__name__}")
    return _stdio_launcher(server) if server.url is None else _http_launcher(server)


def _stdio_launcher(server: Server) -> Launcher:
    async def start(handlers: Handlers, on_stderr: Callable[[str], None] | None) -> Transport:
        return await StdioTransport.start(server, handlers, on_stderr)

    return Launcher(
        name=server.name,
        start=start,
        protocol=server.protocol,
        start_timeout=server.start_timeout,
        key=(server.command, server.args, server.cwd),
        server=server,
        hint=path_hint(server),
    )


def _http_launcher(server: Server) -> Launcher:
    async def start(handlers: Handlers, _: Callable[[str], None] | None) -> Transport:
        from ..transports.streamable.transport import (
            HttpTransport,  # loads httpx, which costs more than all the rest
        )

        await trio.lowlevel.checkpoint()
        return HttpTransport(server, handlers)

    return Launcher(
        name=server.name,
        start=start,
        protocol=server.protocol,
        start_timeout=server.start_timeout,
        key=server.url,
        server=server,
        restarts=False,
    )
