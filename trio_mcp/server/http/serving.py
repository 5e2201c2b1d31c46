"""`asgi_app` and `serve_http`: a ToolServer over Streamable HTTP. The only file that imports hypercorn.

Requests are served in app.py.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Collection
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import attrs
import trio

from ...http.listener import bound, shut_down
from ...nursery import bare_nursery
from ..limits import ServerLimits, checked
from ..registry import ToolServer
from ..request_state import check_signing_key
from .app import HttpApp
from .origin import Authorize, Guard, is_loopback

if TYPE_CHECKING:  # an extra, which may not be installed
    from hypercorn.config import Config

logger: logging.Logger = logging.getLogger("trio_mcp.server")


def asgi_app(
    server: ToolServer,
    *,
    path: str = "/mcp",
    allowed_hosts: Collection[str] | None = None,
    allowed_origins: Collection[str] | None = None,
    authorize: Authorize | None = None,
    signing_key: bytes | None = None,
    max_body: int | None = None,
    max_running: int | None = None,
    max_sessions: int | None = None,
    session_idle: float | None = None,
    limits: ServerLimits | None = None,
) -> HttpApp:
    """A server as an ASGI application, for any ASGI server on trio and for mounting.

    It speaks Streamable HTTP (specification: basic/transports/streamable-http).

    Modern requests are stateless: any number of processes may serve them, if they share a `signing_key`. Clients
    of the legacy era have sessions, which live in one process. Where nobody runs the ASGI lifespan, as in apps
    that are mounted, calls of the legacy era end with the request that they came with.

    Args:
        server: what to serve.
        path: where, below the place where it is mounted.
        allowed_hosts: the names in `Host` that are served, with or without a port; `"*"` for any. None: names of
            this machine alone, and with `authorize` any name, but on a loopback address.
        allowed_origins: the origins whose web pages may send requests, such as "https://example.com"; `"*"` for
            any. None: no page may. Requests without an `Origin` come from no web page.
        authorize: async, is given the headers of each request, names in lower case. What it returns is the
            `principal` of `Context`. It raises `Unauthorized` to refuse the request, with 401 or 403 and a
            challenge; any other exception is a fault, logged and answered with 500. Sessions and questions belong
            to one principal: return something that is equal from one request to the next, such as a user's name.
        signing_key: takes the place of the server's own, at least 16 bytes.
        max_body: bytes of one request (16 MiB); a longer one is refused with 413.
        max_running: calls at once, of all clients (1,000); one more is refused with 503 and Retry-After.
        max_sessions: sessions of the legacy era, and apart from them streams that belong to no call (10,000). One
            more session takes the place of the longest unused one; if all are in use, it is refused with 503 and
            Retry-After, and so is one more stream.
        session_idle: seconds without use after which a session ends (1,800). A running call and an open stream
            are use. A question to a client of the legacy era waits as long for its answer.
        limits: all bounds at once; the four options above take precedence over its fields.

    Raises:
        TypeError, ValueError: an option has the wrong type, or a value that it cannot have; the text names it.

    Example:
        >>> from trio_mcp import ToolServer, asgi_app
        >>> app = asgi_app(ToolServer("mine"), path="/tools")  # hypercorn --worker-class trio module:app
        >>> app
        <HttpApp of <ToolServer 'mine', 0 tools> at /tools, 0 running>
    """
    if not isinstance(server, ToolServer):
        raise TypeError(f"server: expected ToolServer, got {type(server).__name__}")
    if not isinstance(path, str):
        raise TypeError(f"path: expected str, got {type(path).__name__}")
    if not path.startswith("/"):
        raise ValueError(f"path: expected something that begins with a slash, got {path!r}")
    check_signing_key("signing_key", signing_key)
    limits = checked(limits)
    options: dict[str, Any] = {
        "max_body": max_body,
        "max_running": max_running,
        "max_sessions": max_sessions,
        "session_idle": session_idle,
    }
    limits = attrs.evolve(limits, **{name: value for name, value in options.items() if value is not None})
    return HttpApp(
        server,
        path=path,
        guard=Guard(allowed_hosts=allowed_hosts, allowed_origins=allowed_origins, authorize=authorize),
        signing_key=signing_key,
        limits=limits,
    )


async def serve_http(
    server: ToolServer,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    path: str = "/mcp",
    allowed_hosts: Collection[str] | None = None,
    allowed_origins: Collection[str] | None = None,
    authorize: Authorize | None = None,
    signing_key: bytes | None = None,
    max_body: int | None = None,
    max_running: int | None = None,
    max_sessions: int | None = None,
    session_idle: float | None = None,
    limits: ServerLimits | None = None,
    stop: trio.Event | None = None,
    task_status: trio.TaskStatus[str] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve over Streamable HTTP (specification: basic/transports/streamable-http), with hypercorn.

    Blocks until `stop` is set: then no connection is accepted, streams end, running calls get 5 s
    (`ServerLimits.stop_grace`), and those that still run are cancelled. A cancel ends all of it at once.

    Args:
        server: what to serve.
        host: the address to listen on. On other addresses than loopback ones everybody in the network can reach
            the tools: they take an `authorize`, or the names that are served (`allowed_hosts`).
        port: the port; 0 takes a free one.
        path, allowed_hosts, allowed_origins, authorize, signing_key: as in `asgi_app`.
        max_body, max_running, max_sessions, session_idle, limits: as in `asgi_app`.
        stop: set it to stop in order.
        task_status: reports the URL once requests are taken (`nursery.start`).

    Raises:
        OSError: the address cannot be listened on.
        RuntimeError: hypercorn is not installed (the extra `server`).
        TypeError, ValueError: as `asgi_app`; or there is neither `authorize` nor `allowed_hosts` on an address
            that is not a loopback one. Nothing was listened on.

    Example:
        >>> import trio
        >>> from trio_mcp import ToolServer, serve_http
        >>> server = ToolServer("mine")
        >>> if __name__ == "__main__":  # doctest: +SKIP
        ...     trio.run(serve_http, server)
    """
    await trio.lowlevel.checkpoint()
    try:
        from hypercorn.trio import serve
    except ImportError as error:
        raise RuntimeError("serving over HTTP needs hypercorn: pip install 'trio-mcp[server]'") from error
    if not isinstance(host, str):
        raise TypeError(f"host: expected str, got {type(host).__name__}")
    # getaddrinfo takes any number, and uses its last 16 bits.
    if type(port) is not int or not 0 <= port < 2**16:
        raise ValueError(f"port: expected an integer from 0 to 65535, got {port!r}")
    if allowed_hosts is None and not is_loopback(host.lower()):
        if authorize is None:
            raise ValueError(
                f"allowed_hosts: serving at {host!r} takes the names by which clients reach it, such as"
                ' ["tools.example.com"], or ["*"] for any, or an authorize'
            )
        # Listening on every address includes the loopback one, where the usual rules would be stricter.
        allowed_hosts = ["*"]
    limits = checked(limits)
    app = asgi_app(
        server,
        path=path,
        allowed_hosts=allowed_hosts,
        allowed_origins=allowed_origins,
        authorize=authorize,
        signing_key=signing_key,
        max_body=max_body,
        max_running=max_running,
        max_sessions=max_sessions,
        session_idle=session_idle,
        limits=limits,
    )
    _contain_connections()
    stopping = trio.Event() if stop is None else stop
    with ExitStack() as stack:
        sockets = [stack.enter_context(one) for one in await bound(host, port)]
        addresses: set[tuple[str, int]] = {one.getsockname()[:2] for one in sockets}
        port = sockets[0].getsockname()[1]
        url = f"http://{f'[{host}]' if ':' in host else host}:{port}{path}"

        async def wait_stop() -> None:
            await stopping.wait()
            app.stop()

        async def cut_off() -> None:
            """Shut the sockets down: hypercorn shields its sends, which a client that reads nothing holds up."""
            try:
                await stopping.wait()
                await trio.sleep(limits.stop_grace + 1)
            finally:
                shut_down(addresses)

        async with bare_nursery() as nursery:
            nursery.start_soon(cut_off)
            await serve(
                app,
                _config(sockets, limits),
                mode="asgi",
                shutdown_trigger=wait_stop,
                task_status=_Started(task_status, url),
            )
            nursery.cancel_scope.cancel()


class _Started:
    """Reports the URL where hypercorn would report the addresses that it listens on."""

    def __init__(self, task_status: trio.TaskStatus[str], url: str) -> None:
        self._task_status = task_status
        self._url = url

    def started(self, value: Any = None) -> None:
        self._task_status.started(self._url)


def _config(sockets: list[socket.socket], limits: ServerLimits) -> Config:
    from hypercorn.config import Config, Sockets

    class BoundConfig(Config):
        """Uses sockets that are bound already: hypercorn binds in its nurseries, and leaks them on failure."""

        def create_sockets(self) -> Sockets:
            return Sockets([], sockets, [])

    config = BoundConfig()
    config.backlog = limits.backlog
    config.h11_max_incomplete_size = limits.max_head
    config.keep_alive_timeout = limits.connection_idle
    config.keep_alive_max_requests = 10**9  # nothing of a connection grows with its requests
    config.graceful_timeout = limits.stop_grace
    config.include_server_header = False
    config.errorlog = logger
    config.accesslog = None
    return config


def _contain_connections() -> None:
    """Make a connection that fails end alone: in hypercorn it ends the whole server with all other connections.

    A fault in its HTTP/2, such as a window of no bytes in an upgrade, leaves the connection as an exception.
    """
    from hypercorn.trio import run
    from hypercorn.trio.tcp_server import TCPServer

    class Connection(TCPServer):
        async def run(self) -> None:
            try:
                await super().run()
            except Exception as error:
                # Any stranger can cause it: no traceback for each.
                logger.info("a connection failed: %s", type(error).__name__)
                logger.debug("a connection failed", exc_info=True)

    if vars(run).get("TCPServer") is TCPServer:  # hypercorn has no way to hand it in
        run.__dict__["TCPServer"] = Connection
