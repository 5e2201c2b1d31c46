"""Scopes that open connections: start, negotiate, list, give out, end.

How lifetimes hold together, in one place:

- A connection's transport runs as a task of a nursery of ours, shielded from the first moment; only `close`, or
  loss, ends it. So an outer cancel ends the body first: a cancelled call still finds a writer for its notice.
- Opening is done in the caller's own task, where it can be cancelled; then everything it has started is closed.
- The body's end closes the transport, and leaving the nursery waits until everything is gone: bounded by the
  server's `stop_timeout` and the limits of its transport.
"""

from __future__ import annotations

import logging
import math
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Literal

import trio

from ..errors import AuthError, InvalidServerError, MCPError, ServerStartError, ServerStoppedError
from ..models.elicitation import OnElicit
from ..models.server import Server
from ..nursery import bare_nursery
from ..protocol.negotiation import Agreed, Negotiation, Refused, Restart
from ..tools.tool import Tool
from .client import Client
from .connection import Connection
from .features.log_messages import OnLog
from .incoming.held_lines import HeldLines
from .launching import Launcher, launcher_for
from .limits import ClientLimits
from .negotiating import negotiate
from .options import Options

logger: logging.Logger = logging.getLogger("trio_mcp.client")


class Connections(Mapping[str, Connection]):
    """Open connections by server name, in the order of the servers.

    Attributes:
        failed: server name -> exception, of those that did not open (only with `on_error="warn"`).
    """

    def __init__(self, opened: dict[str, Connection], failed: dict[str, Exception]) -> None:
        self._opened = opened
        self.failed = failed

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The tools of all connections, as they are listed now."""
        return tuple(tool for connection in self._opened.values() for tool in connection.tools)

    def __getitem__(self, name: str) -> Connection:
        return self._opened[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._opened)

    def __len__(self) -> int:
        return len(self._opened)

    def __repr__(self) -> str:
        return f"<Connections open: {list(self._opened)}, failed: {list(self.failed)}>"


@asynccontextmanager
async def open_connection(
    server: Server,
    *,
    client_info: Mapping[str, Any] | None = None,
    on_elicit: OnElicit | None = None,
    on_log: OnLog | None = None,
    on_stderr: Callable[[str], object] | None = None,
    limits: ClientLimits | None = None,
) -> AsyncIterator[Connection]:
    """Start a server, or reach one by its `url`; agree on a protocol revision, list its tools. The usual form.

    An async context manager that gives a `Connection`. When its body ends, however it ends, the server's whole
    process group ends too; over HTTP it is the session that ends. An exception of the body leaves as it is, never
    inside a group. A cancel scope around it bounds the body too; what bounds only the opening is
    `Server.start_timeout`.

    Args:
        server: how to reach it.
        client_info: what this client says it is: a mapping with at least `name` and `version`.
        on_elicit: `async (ElicitRequest) -> ElicitResult`, answers the server's questions to the user. Modern
            servers: runs in the caller's task, and what it raises ends the call. Legacy ones: in a task of the
            connection; what it raises is logged, and the server is told "cancel".
        on_log: a plain function `(level, logger, data)` for each log message of the server; without it they go to
            the logger `trio_mcp.server.<name>`.
        on_stderr: a plain function for each line that the server writes to stderr (a str without its end); stdio.
            What a legacy server writes before its connection is open is about our first question more often than
            not: such lines are passed on only where the start fails. `Connection.stderr_tail` has them all.
        limits: how long to wait, how often to try, how much to keep; None for the defaults.

    Raises:
        InvalidServerError: an argument is wrong; nothing was started.
        ServerStartError: the server did not come up, within `start_timeout`, and is gone.
        AuthError: the server refused access with 401 or 403 (HTTP).
        NotImplementedError: a stdio server on Windows.

    Example:
        >>> import sys, trio
        >>> async def main(server):
        ...     async with open_connection(server) as connection:
        ...         for tool in connection.tools:
        ...             print(tool.name)
    """
    await trio.lowlevel.checkpoint()
    launcher, options = _checked(server, client_info, on_elicit, on_log, on_stderr, limits)
    async with opened(launcher, options) as connection:
        yield connection


async def connect(
    nursery: trio.Nursery,
    server: Server,
    *,
    client_info: Mapping[str, Any] | None = None,
    on_elicit: OnElicit | None = None,
    on_log: OnLog | None = None,
    on_stderr: Callable[[str], object] | None = None,
    limits: ClientLimits | None = None,
) -> Connection:
    """Open a connection that lives in your nursery, until `aclose`, until it is lost, or until that is cancelled.

    Like any task it keeps the nursery open. A lost connection does not cancel the nursery. Arguments and errors
    are those of `open_connection`, and TypeError where `nursery` is none; a cancel scope around this call bounds
    only the opening.

    Example:
        >>> async def main(server):
        ...     async with trio.open_nursery() as nursery:
        ...         connection = await connect(nursery, server)
        ...         await connection.call_tool("echo", {"text": "hello"})
        ...         await connection.aclose()
    """
    await trio.lowlevel.checkpoint()
    launcher, options = _checked(server, client_info, on_elicit, on_log, on_stderr, limits)
    if not isinstance(nursery, trio.Nursery):
        raise TypeError(f"nursery: expected a trio.Nursery, got {type(nursery).__name__}")

    async def live(*, task_status: trio.TaskStatus[Connection]) -> None:
        async with opened(launcher, options) as connection:
            task_status.started(connection)
            await connection.wait_done()

    connection: Connection = await nursery.start(live)
    return connection


@asynccontextmanager
async def open_connections(
    servers: Iterable[Server],
    *,
    on_error: Literal["raise", "warn"] = "raise",
    client_info: Mapping[str, Any] | None = None,
    on_elicit: OnElicit | None = None,
    on_log: OnLog | None = None,
    on_stderr: Callable[[str], object] | None = None,
    limits: ClientLimits | None = None,
) -> AsyncIterator[Connections]:
    """Open connections to many servers at once, in one scope; all close side by side.

    Each server's `start_timeout` counts for itself. Arguments are those of `open_connection`, for each server.

    Args:
        servers: with names that differ.
        on_error: "raise": the first failure leaves, bare, and the others are closed. "warn": a server that does
            not open costs only itself; it is logged, and stands in `Connections.failed`.

    Raises:
        InvalidServerError: an argument is wrong, or two servers have one name; nothing was started.
        ServerStartError, AuthError, NotImplementedError: with "raise", as `open_connection`.

    Example:
        >>> async def main(servers):
        ...     async with open_connections(servers, on_error="warn") as connections:
        ...         print(len(connections.tools), "tools;", "failed:", list(connections.failed))
    """
    await trio.lowlevel.checkpoint()
    if on_error not in ("raise", "warn"):
        raise InvalidServerError("on_error", f'expected "raise" or "warn", got {on_error!r}')
    if not isinstance(servers, Iterable):
        raise InvalidServerError("servers", f"expected several Server values, got {type(servers).__name__}")
    options: dict[str, tuple[Launcher, Options]] = {}
    for server in servers:
        launcher, checked = _checked(server, client_info, on_elicit, on_log, on_stderr, limits)
        if launcher.name in options:
            raise InvalidServerError("name", f"two servers are called {launcher.name!r}")
        options[launcher.name] = (launcher, checked)
    connections: dict[str, Connection] = {}
    failed: dict[str, Exception] = {}
    settled = trio.Event()
    over = trio.Event()

    async def hold(launcher: Launcher, checked: Options) -> None:
        try:
            async with opened(launcher, checked) as connection:
                connections[launcher.name] = connection
                settle()
                # The body dies first. Its end sets the event, whatever ends it: that is the bound.
                with trio.CancelScope(shield=True):
                    await over.wait()
        except Exception as error:  # whatever it is, it costs this server alone, or leaves bare
            if launcher.name in connections:  # open already: what goes wrong now is no failure to open
                raise
            failed[launcher.name] = error
            if on_error == "warn":
                logger.warning("%s", error)
            settle()

    def settle() -> None:
        if len(connections) + len(failed) == len(options) or (failed and on_error == "raise"):
            settled.set()

    async with bare_nursery() as nursery:
        try:
            for launcher, checked in options.values():
                nursery.start_soon(hold, launcher, checked)
            if options:
                await settled.wait()
            if failed and on_error == "raise":
                nursery.cancel_scope.cancel()  # those that are still opening
                raise next(iter(failed.values()))
            in_order = {name: connections[name] for name in options if name in connections}
            yield Connections(in_order, failed)
        finally:
            over.set()


def _checked(
    server: Server,
    client_info: Mapping[str, Any] | None,
    on_elicit: OnElicit | None,
    on_log: OnLog | None,
    on_stderr: Callable[[str], object] | None,
    limits: ClientLimits | None,
) -> tuple[Launcher, Options]:
    """The options of one server, checked: nothing has been started yet."""
    launcher = launcher_for(server, limits)
    options = Options(
        server.name,
        server.redactor,
        client_info=client_info,
        on_elicit=on_elicit,
        on_log=on_log,
        on_stderr=on_stderr,
        limits=limits,
    )
    return launcher, options


@asynccontextmanager
@trio.lowlevel.enable_ki_protection  # its end tells the transport, which is shielded, to end
async def opened(launcher: Launcher, options: Options) -> AsyncIterator[Connection]:
    """One connection, from its first start to the last thing gone."""
    async with bare_nursery() as callbacks:
        for delivery in options.callbacks:
            delivery.begin(callbacks)
        try:
            async with bare_nursery() as nursery:
                client, connection = await _open(nursery, launcher, options)
                being_cancelled = False
                try:
                    yield connection
                except trio.Cancelled:
                    being_cancelled = True
                    raise
                finally:
                    client.close_soon(drain_cancelled=being_cancelled)
                    nursery.cancel_scope.cancel()  # what still listens; the transport is shielded
        finally:
            for delivery in options.callbacks:
                delivery.finish()


async def _open(nursery: trio.Nursery, launcher: Launcher, options: Options) -> tuple[Client, Connection]:
    """Start, negotiate and list, within `start_timeout`. On failure everything started has been told to end."""
    starts: list[Client] = []
    is_probed = launcher.protocol == "auto" and options.eras.recall(launcher.key) != "legacy"
    lines = None if options.stderr is None else HeldLines(options.stderr.put, is_holding=is_probed)
    try:
        with trio.move_on_after(math.inf if launcher.start_timeout is None else launcher.start_timeout):
            return await _negotiated(nursery, launcher, options, starts, lines)
        raise _start_error(
            launcher, f"it was not ready within {launcher.start_timeout:g} s (start_timeout)", starts
        )
    except BaseException as error:
        if lines is not None:
            lines.release()
        for client in starts:
            client.close_soon()
        if isinstance(error, MCPError):
            error.redact(launcher.redactor)
        raise


async def _negotiated(
    nursery: trio.Nursery, launcher: Launcher, options: Options, starts: list[Client], lines: HeldLines | None
) -> tuple[Client, Connection]:
    eras = options.eras
    negotiation = Negotiation(launcher.protocol, eras.recall(launcher.key), restarts=launcher.restarts)
    on_stderr = None if lines is None else lines.put
    while True:
        client = Client(launcher.server, launcher.name, options)
        connection = Connection(client)
        transport = await launcher.start(client.handlers, on_stderr)
        client.attach(transport, nursery, connection)  # no checkpoint before this: what runs has its keeper
        starts.append(client)
        decision, lost = await negotiate(
            transport,
            negotiation,
            options.client_info,
            client.capabilities,
            probe_patience=options.limits.probe_patience,
        )
        if isinstance(decision, Agreed):
            break
        if not isinstance(decision, Restart):
            eras.forget(launcher.key)
            reason = decision.reason if isinstance(decision, Refused) else ""
            if client.is_echo:
                reason = "it sends our own requests back: this is an echo, and no MCP server"
            raise _start_error(launcher, reason, starts, lost)
    # A pinned era says nothing about what the server would rather speak.
    if launcher.key is not None and launcher.protocol == "auto":
        eras.remember(launcher.key, decision.era)
    if lines is not None and decision.era == "modern":
        lines.release()
    client.agree(decision)
    try:
        await client.prepare()
    except (AuthError, InvalidServerError):  # the program's mistake, and not a server that fails to start
        raise
    except ServerStoppedError as error:
        raise _start_error(launcher, "", starts, error) from error
    except MCPError as error:
        raise _start_error(launcher, f"tools/list failed: {error}", starts) from error
    if lines is not None:
        lines.drop()
    return client, connection


def _start_error(
    launcher: Launcher, reason: str, starts: list[Client], lost: ServerStoppedError | None = None
) -> ServerStartError:
    """The error of a server that never came up: facts of the last start, and the stderr of both."""
    tails = [client.stderr_tail for client in starts]
    error = ServerStartError(
        launcher.name,
        (reason or (lost.reason if lost is not None else "")) + launcher.hint,
        command=() if launcher.server is None else launcher.server.redacted_command,
        returncode=None if lost is None else lost.returncode,
        stderr_tail=tails[-1] if tails else "",
        first_stderr_tail=tails[0] if len(tails) > 1 and tails[0] != tails[-1] else "",
        junk=(starts[-1].junk if starts else ()) if lost is None else lost.junk,
        status=None if lost is None else lost.status,
        retry_after=None if lost is None else lost.retry_after,
        redactor=launcher.redactor,
    )
    if lost is not None:  # what both tell is told once
        notes = getattr(error, "__notes__", [])
        lost.__notes__ = [note for note in getattr(lost, "__notes__", []) if note not in notes]
    error.__cause__ = lost
    return error
