"""`Launcher`: how to open a transport to one server, as a value.

The one file of the client that makes transports.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable

import attrs
import trio

from ..errors import InvalidServerError, ServerStartError
from ..models.server import Server
from ..protocol.revisions import ProtocolChoice
from ..redaction import NOTHING_SECRET, Redactor
from ..transports.base import Handlers, Transport
from ..transports.stdio.transport import StdioTransport, path_hint
from .limits import ClientLimits

#: Starts the server, given the transport's handlers and the function for lines of stderr. `run` of the transport
#: must be called before anything else is awaited.
Start = Callable[[Handlers, Callable[[str], None] | None], Awaitable[Transport]]


@attrs.frozen(kw_only=True)
class Launcher:
    """How to open a transport to one server.

    Attributes:
        start: opens it.
        key: what the server's era is remembered under; None where it is not remembered.
        hint: added to the reason of a failed start.
        restarts: `start` starts a server, rather than reaching one that is there.
    """

    name: str
    start: Start
    protocol: ProtocolChoice = "auto"
    start_timeout: float | None = None
    key: Hashable = None
    server: Server | None = None
    hint: str = ""
    restarts: bool = True

    @property
    def redactor(self) -> Redactor:
        """Hides the secrets of the server, where it has any."""
        return NOTHING_SECRET if self.server is None else self.server.redactor


def launcher_for(server: Server, limits: ClientLimits | None = None) -> Launcher:
    """The launcher of a server: a process of its own, or an endpoint.

    Raises:
        InvalidServerError: this is no `Server`.
    """
    if not isinstance(server, Server):
        raise InvalidServerError("server", f"expected a Server, got {type(server).__name__}")
    limits = limits or ClientLimits()
    return _stdio_launcher(server, limits) if server.url is None else _http_launcher(server, limits)


def _stdio_launcher(server: Server, limits: ClientLimits) -> Launcher:
    async def start(handlers: Handlers, on_stderr: Callable[[str], None] | None) -> Transport:
        return await StdioTransport.start(server, handlers, on_stderr, lines=limits.lines, limits=limits.process)

    return Launcher(
        name=server.name,
        start=start,
        protocol=server.protocol,
        start_timeout=server.start_timeout,
        key=(server.command, server.args, server.cwd),
        server=server,
        hint=path_hint(server),
    )


def _http_launcher(server: Server, limits: ClientLimits) -> Launcher:
    async def start(handlers: Handlers, _: Callable[[str], None] | None) -> Transport:
        # Loads httpx, which costs more than all the rest.
        try:
            from ..transports.streamable.transport import HttpTransport
        except OSError as error:  # as where this process has no descriptor left
            reason = f"the modules for HTTP cannot be loaded here: {error.strerror or error}"
            raise ServerStartError(server.name, reason) from error

        await trio.lowlevel.checkpoint()
        return HttpTransport(server, handlers, limits.streamable)

    return Launcher(
        name=server.name,
        start=start,
        protocol=server.protocol,
        start_timeout=server.start_timeout,
        key=server.url,
        server=server,
        restarts=False,
    )
