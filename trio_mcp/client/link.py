"""How one server is started and reached, as far as opening needs to know. Each transport has its own maker."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable

import attrs

from ..errors import InvalidServerError
from ..models.server import Server
from ..transports.base import Handlers, Transport
from ..transports.stdio import StdioTransport, path_hint

#: Starts the server; `run` of what it gives must be called before anything else is awaited.
Start = Callable[[Handlers, Callable[[str], None] | None], Awaitable[Transport]]


@attrs.frozen(kw_only=True)
class Link:
    """One server, as it can be started.

    `key` is how it is remembered which era it speaks; `hint` is added to the reason of a failed start.
    """

    name: str
    start: Start
    protocol: str = "auto"
    start_timeout: float | None = None
    key: Hashable = None
    server: Server | None = None
    hint: str = ""


def stdio_link(server: Server) -> Link:
    """A process of its own.

    Raises:
        InvalidServerError: this is no `Server`.
    """
    if not isinstance(server, Server):
        raise InvalidServerError("server", f"expected a Server, got {type(server).__name__}")

    async def start(handlers: Handlers, on_stderr: Callable[[str], None] | None) -> Transport:
        if server.command is None:
            raise NotImplementedError("servers with a url are not available yet")
        return await StdioTransport.start(server, handlers, on_stderr)

    return Link(
        name=server.name,
        start=start,
        protocol=server.protocol,
        start_timeout=server.start_timeout,
        key=(server.command, server.args, server.cwd),
        server=server,
        hint=path_hint(server),
    )
