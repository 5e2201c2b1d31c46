"""Many servers behind one ToolServer: a gateway. Each server is kept up by a task of its own.

An upstream that is lost costs only its own tools, which come back when it can be started again. The ToolServer is
like any other: this file knows neither how it is served nor where the servers are configured.
"""

from __future__ import annotations

import logging
import math
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from functools import partial

import trio
from attrs import define, field, frozen

from . import bounds
from .client.connection import Connection
from .client.launching import launcher_for
from .client.limits import ClientLimits
from .client.opening import open_connection
from .errors import SENTENCE_SHOWN, InvalidServerError, MCPError
from .models.server import Server
from .nursery import bare_nursery
from .redaction import bounded_line
from .server.registry import ToolServer
from .tools.tool import Tool
from .version import __version__

logger: logging.Logger = logging.getLogger("trio_mcp.gateway")

#: A plain function `(server name, line)`.
OnStderr = Callable[[str, str], object]


@frozen(kw_only=True)
class GatewayLimits:
    """How long a gateway waits, and how often it tries.

    >>> GatewayLimits(patience=2.0).longest_pause
    60.0
    """

    #: Of the connections to the servers.
    client: ClientLimits = field(factory=ClientLimits, validator=bounds.of_kind(ClientLimits))
    #: Seconds before a server is started again, or asked again for its tools: doubled each time, up to the second.
    first_pause: float = bounds.duration(1.0)
    longest_pause: float = bounds.duration(60.0)
    #: Seconds after which a server that is up counts as stable: when it is lost, the pauses begin anew.
    stable: float = bounds.patience(60.0)
    #: Seconds that opening waits for slow servers. Many clients list the tools once and never again, and miss
    #: those that come later; but hosts give up on a server that says nothing for 30 s or 60 s.
    patience: float = bounds.patience(10.0)


@asynccontextmanager
async def open_gateway(
    servers: Iterable[Server],
    *,
    name: str = "gateway",
    version: str = __version__,
    instructions: str | None = None,
    on_stderr: OnStderr | None = None,
    mask_errors: bool = False,
    limits: GatewayLimits | None = None,
) -> AsyncIterator[ToolServer]:
    """Publish the tools of many servers as one `ToolServer`.

    An async context manager that gives the `ToolServer`, to be served by `serve_stdio` or any other means; you may
    add tools of your own. A server's tools have their `tool_name` names, and pass through unchanged: schemas,
    arguments, results, progress and cancels. When a server's list changes, so does the gateway's. When a server is
    lost, its calls in flight are answered with a failed result, its tools vanish, and it is started again after
    a second; the pause is doubled up to a minute as long as it does not stay up for a minute.

    Opening waits until each server has come up or failed, at most 10 s; one that takes longer adds its tools
    when it is there. A server that does not come up is a warning of the logger `trio_mcp.gateway`, and is tried
    again like a lost one. When the body ends, however it ends, every server is ended, whatever it was doing.

    What servers ask of a client while they carry out a call (elicitation, sampling) is refused: that call fails.

    Args:
        servers: with names that differ.
        name: what clients are told the gateway is called, and servers too.
        version: of the gateway, likewise.
        instructions: what models are told about the gateway as a whole.
        on_stderr: a plain function `(server name, line)` for each line that a server writes to stderr.
        mask_errors: as in `ToolServer`: clients are not told why a server could not carry out a call. What a
            server says of a failure itself passes through.
        limits: how long to wait, how often to try; None for the defaults.

    Raises:
        InvalidServerError: something is no `Server`, or two have one name; nothing was started.
        TypeError, ValueError: `name`, `version` or `instructions` is none; likewise.

    Example:
        >>> from trio_mcp import load_servers, open_gateway, serve_stdio
        >>> async def main():
        ...     async with open_gateway(load_servers("mcp.json").servers) as gateway:
        ...         await serve_stdio(gateway)
    """
    await trio.lowlevel.checkpoint()
    gateway = ToolServer(name, version=version, instructions=instructions, mask_errors=mask_errors)
    if not isinstance(servers, Iterable):
        raise InvalidServerError("servers", f"expected several Server values, got {type(servers).__name__}")
    if limits is not None and not isinstance(limits, GatewayLimits):
        raise InvalidServerError("limits", f"expected GatewayLimits, got {type(limits).__name__}")
    limits = GatewayLimits() if limits is None else limits
    info = {"name": name, "version": version}
    board = _Board(gateway)
    upstreams: list[_Upstream] = []
    for server in servers:
        launcher_for(server)  # or it is no Server
        if server.name in board.tools:
            raise InvalidServerError("name", f"two servers are called {server.name!r}")
        board.tools[server.name] = ()
        lines = None if on_stderr is None else partial(on_stderr, server.name)
        upstreams.append(_Upstream(server, board, limits, info, lines))
    async with bare_nursery() as nursery:
        # The body dies first: a cancelled call still finds a connection for its notice. The bound is the body.
        keeping = trio.CancelScope(shield=True)

        async def keep() -> None:
            with keeping:
                async with trio.open_nursery() as keepers:
                    for upstream in upstreams:
                        keepers.start_soon(upstream.keep_up)

        nursery.start_soon(keep)
        try:
            with trio.move_on_after(limits.patience):
                for upstream in upstreams:
                    await upstream.settled.wait()
            for upstream in upstreams:
                if not upstream.settled.is_set():
                    logger.warning('server "%s" is still starting: its tools will follow', upstream.server.name)
            yield gateway
        finally:
            keeping.cancel()


@define(eq=False)
class _Board:
    """The published tools: those of each server that is up, in the order of the servers."""

    gateway: ToolServer
    tools: dict[str, tuple[Tool, ...]] = field(factory=dict)

    def put(self, server_name: str, tools: tuple[Tool, ...]) -> None:
        """Publish these tools as those of that server, in place of the ones it had."""
        before = self._all()
        self.tools[server_name] = tools
        self.gateway.replace_tools((tool.name for tool in before), self._all())

    def _all(self) -> list[Tool]:
        return [tool for tools in self.tools.values() for tool in tools]


@define(eq=False)
class _Upstream:
    """Keeps one server up. `settled` is set once it has come up or failed for the first time."""

    server: Server
    _board: _Board
    _limits: GatewayLimits
    _client_info: dict[str, str]
    _on_stderr: Callable[[str], object] | None
    settled: trio.Event = field(factory=trio.Event)
    _told: str = ""  # the last failure that was told
    _warnings: tuple[str, ...] = ()  # of the last listing

    async def keep_up(self) -> None:
        """Open the server, publish its tools until it is lost, and begin again, for ever."""
        limits = self._limits
        pause = limits.first_pause
        while True:
            opened_at = math.inf
            try:
                async with open_connection(
                    self.server, client_info=self._client_info, on_stderr=self._on_stderr, limits=limits.client
                ) as connection:
                    opened_at = trio.current_time()
                    try:
                        await self._publish_until_lost(connection)
                    finally:  # at once: its processes may take long to end
                        self._board.put(self.server.name, ())
                    failure = str(connection.error or f'server "{self.server.name}" was closed')
            except Exception as error:  # noqa: BLE001  # whatever it is, it costs this server alone
                failure = str(error)
                if not isinstance(error, MCPError):
                    failure = f'server "{self.server.name}": {type(error).__name__}: {error}'
            self.settled.set()
            if trio.current_time() - opened_at >= limits.stable:
                pause, self._told = limits.first_pause, ""
            self._tell(f"{failure}; its tools are missing until it is up", pause)
            await trio.sleep(pause)
            pause = min(2 * pause, limits.longest_pause)

    async def _publish_until_lost(self, connection: Connection) -> None:
        self._publish(connection)
        self.settled.set()
        logger.info('server "%s" is up, with %d tools', self.server.name, len(connection.tools))
        limits = self._limits
        patience = math.inf  # short after a failed listing: the server may never tell of another change
        async with connection.watch_tools() as changes:
            while True:
                try:
                    with trio.move_on_after(patience) as waiting:
                        await anext(changes)
                    if waiting.cancelled_caught:
                        await connection.refresh_tools()
                except (StopAsyncIteration, trio.ClosedResourceError):
                    return
                except MCPError as error:
                    if connection.done.is_set():
                        return
                    is_first = patience == math.inf
                    patience = limits.first_pause if is_first else min(2 * patience, limits.longest_pause)
                    self._tell(f'server "{self.server.name}": its tools cannot be listed again: {error}', patience)
                else:
                    patience = math.inf
                    self._publish(connection)

    def _publish(self, connection: Connection) -> None:
        self._board.put(self.server.name, connection.tools)
        for warning in connection.warnings:
            if warning not in self._warnings:
                logger.warning('server "%s": %s', self.server.name, warning)
        self._warnings = connection.warnings

    def _tell(self, failure: str, pause: float) -> None:
        # A server that never starts, or starts and stops all the time, is a warning once and not at each try.
        level = logging.INFO if failure == self._told else logging.WARNING
        self._told = failure
        shown = bounded_line(self.server.redactor(failure), SENTENCE_SHOWN)
        logger.log(level, "%s (next try in %g s)", shown, pause)
