"""`asgi_app` and `serve_http`: a ToolServer over Streamable HTTP. The only file that imports hypercorn.

It depends on the OS too: what sockets can be told, and how a process finds those that are open.
"""

from __future__ import annotations

import logging
import socket
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import trio

from ...http.listener import bound, shut_down
from ...nursery import bare_nursery
from ..registry import ToolServer
from ..request_state import check_signing_key
from .app import MAX_BODY, MAX_RUNNING, MAX_SESSIONS, SESSION_IDLE, STOP_GRACE, HttpApp
from .origin import Guard, is_loopback

if TYPE_CHECKING:
    from collections.abc import Collection

    from hypercorn.config import Config

    from .origin import Authorize

logger = logging.getLogger("trio_mcp.server")

#: Connections that wait to be accepted: a burst of clients must not be refused by the kernel.
BACKLOG = 1024
#: Bytes of a request's head: the arguments that a tool wants in headers are part of it.
MAX_HEAD = 64 * 2**10
#: Seconds that a connection without a request is kept, or one with half a head. Hypercorn keeps one as long that
#: its client has closed, so that longer would cost a descriptor for each client of the last minute.
KEEP_ALIVE = 5.0


def asgi_app(
    server: ToolServer,
    *,
    path: str = "/mcp",
    allowed_hosts: Collection[str] | None = None,
    allowed_origins: Collection[str] | None = None,
    authorize: Authorize | None = None,
    signing_key: bytes | None = None,
    max_body: int = MAX_BODY,
    max_running: int = MAX_RUNNING,
    max_sessions: int = MAX_SESSIONS,
    session_idle: float = SESSION_IDLE,
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
            this machine alone where requests come in on a loopback address, any name elsewhere.
        allowed_origins: the origins whose web pages may send requests, such as "https://example.com"; `"*"` for
            any. None: as with `allowed_hosts`. Requests without an `Origin` come from no web page.
        authorize: async, is given the headers of each request, names in lower case. What it returns is the
            `principal` of `Context`; what it raises refuses the request with 401 and a challenge, for which
            an `AuthError` says more. Sessions and questions belong to one principal: return something that is
            equal from one request to the next, such as a user's name.
        signing_key: takes the place of the server's own, at least 16 bytes.
        max_body: bytes of one request (16 MiB); beyond it 413.
        max_running: calls at once, of all clients (1,000); beyond it 503 with Retry-After.
        max_sessions: sessions of the legacy era, and apart from them streams that belong to no call (10,000);
            beyond it 503 with Retry-After.
        session_idle: seconds without use after which a session ends (1,800). Calls that run, and open streams, are
            use. A question to a client of the legacy era waits as long for its answer.

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
    bounds = {"max_body": max_body, "max_running": max_running, "max_sessions": max_sessions}
    for name, most in bounds.items():
        if type(most) is not int or most < 1:
            raise ValueError(f"{name}: expected an integer of at least 1, got {most!r}")
    if type(session_idle) not in (int, float) or not session_idle > 0:
        raise ValueError(f"session_idle: expected seconds above 0, got {session_idle!r}")
    return HttpApp(
        server,
        path=path,
        guard=Guard(allowed_hosts=allowed_hosts, allowed_origins=allowed_origins, authorize=authorize),
        signing_key=signing_key,
        max_body=max_body,
        max_running=max_running,
        max_sessions=max_sessions,
        session_idle=session_idle,
    )


async def serve_http(
    server: ToolServer,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    stop: trio.Event | None = None,
    task_status: trio.TaskStatus[str] = trio.TASK_STATUS_IGNORED,
    **options: Any,
) -> None:
    """Serve over Streamable HTTP (specification: basic/transports/streamable-http), with hypercorn.

    Blocks until `stop` is set: then no connection is accepted, streams end, calls that run get 5 s, and what
    still runs is cancelled. A cancel ends all of it at once.

    Args:
        server: what to serve.
        host: the address to listen on. On others than loopback ones everybody in the network can reach the tools:
            think of `authorize`, and of `allowed_hosts`.
        port: the port; 0 takes a free one.
        stop: set it to stop in order.
        task_status: reports the URL once requests are taken (`nursery.start`).
        **options: those of `asgi_app`.

    Raises:
        OSError: the address cannot be listened on.
        RuntimeError: hypercorn is not installed (the extra `server`).
        TypeError, ValueError: as `asgi_app`; nothing was listened on.

    Example:
        >>> import trio
        >>> from trio_mcp import ToolServer, serve_http
        >>> server = ToolServer("mine")
        >>> if __name__ == "__main__":  # doctest: +SKIP
        ...     trio.run(serve_http, server)
    """
    try:
        from hypercorn.trio import serve
    except ImportError as error:
        raise RuntimeError("serving over HTTP needs hypercorn: pip install 'trio-mcp[server]'") from error
    if not isinstance(host, str):
        raise TypeError(f"host: expected str, got {type(host).__name__}")
    # Names are looked up with it, and that takes the last 16 bits of any number.
    if type(port) is not int or not 0 <= port < 2**16:
        raise ValueError(f"port: expected an integer from 0 to 65535, got {port!r}")
    if not is_loopback(host):
        # A socket for every address also takes what comes in on the loopback one.
        for names in ("allowed_hosts", "allowed_origins"):
            options[names] = ["*"] if options.get(names) is None else options[names]
    app = asgi_app(server, **options)
    _contain_connections()
    stopping = trio.Event() if stop is None else stop
    with ExitStack() as stack:
        sockets = [stack.enter_context(one) for one in await bound(host, port)]
        addresses: set[tuple[str, int]] = {one.getsockname()[:2] for one in sockets}
        port = sockets[0].getsockname()[1]
        url = f"http://{f'[{host}]' if ':' in host else host}:{port}{options.get('path', '/mcp')}"

        async def wait_stop() -> None:
            await stopping.wait()
            app.stop()

        async def cut_off() -> None:
            """End what a client that reads nothing holds up: hypercorn shields its sends, from a cancel too."""
            try:
                await stopping.wait()
                await trio.sleep(STOP_GRACE + 1)
            finally:
                shut_down(addresses)

        async with bare_nursery() as nursery:
            nursery.start_soon(cut_off)
            await serve(
                app,
                _config(sockets),
                mode="asgi",
                shutdown_trigger=wait_stop,
                task_status=_Started(task_status, url),
            )
            nursery.cancel_scope.cancel()


class _Started:
    """Reports the URL where hypercorn would report its own idea of it."""

    def __init__(self, task_status: trio.TaskStatus[str], url: str) -> None:
        self._task_status = task_status
        self._url = url

    def started(self, _: Any = None) -> None:
        self._task_status.started(self._url)


def _config(sockets: list[socket.socket]) -> Config:
    from hypercorn.config import Config, Sockets

    class BoundConfig(Config):
        """What is bound already: hypercorn would bind inside its nurseries, and leave it open if that fails."""

        def create_sockets(self) -> Sockets:
            return Sockets([], sockets, [])

    config = BoundConfig()
    config.backlog = BACKLOG
    config.h11_max_incomplete_size = MAX_HEAD
    config.keep_alive_timeout = KEEP_ALIVE
    config.keep_alive_max_requests = 10**9  # nothing of a connection grows with its requests
    config.graceful_timeout = STOP_GRACE
    config.include_server_header = False
    config.errorlog = logger
    config.accesslog = None
    return config


def _contain_connections() -> None:
    """Make a connection that fails cost hypercorn that connection, and not the whole server with all others.

    What its HTTP/2 does not foresee, such as a window of no bytes in an upgrade, leaves it as an exception.
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

    if vars(run).get("TCPServer") is TCPServer:  # there is no way to hand it in
        vars(run)["TCPServer"] = Connection
