"""HTTP/1.1 over trio streams, as an `httpx.AsyncBaseTransport`. Knows nothing of MCP; usable alone with httpx.

One request has one connection to itself. Idle connections are kept in a stack for each origin, the last used on
top: there is no pool to search and no limit that a fan-out could wait for. A connection that the server has closed
meanwhile is noticed before a request is written to it, and nothing is ever sent twice.
"""

from __future__ import annotations

import math
import os
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Self

import httpx
import trio

from .client_connection import Http1Connection, Origin, Timeouts, raise_as, within
from .keepalive import keep_alive
from .limits import PoolLimits

#: The variables that name certificates of authorities in place of the usual ones.
_CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR")


class Http1Transport(httpx.AsyncBaseTransport):
    """Sends requests over HTTP/1.1.

    Args:
        ssl_context: for https; without one, `httpx.create_ssl_context()` makes it when it is first needed.
        limits: other bounds than the usual ones.

    Example:
        >>> async def get(url):
        ...     async with httpx.AsyncClient(transport=Http1Transport()) as client:
        ...         return (await client.get(url)).text
    """

    def __init__(self, ssl_context: ssl.SSLContext | None = None, *, limits: PoolLimits | None = None) -> None:
        self._ssl_context = ssl_context
        self._limits = limits or PoolLimits()
        self._idle: dict[Origin, list[Http1Connection]] = {}
        self._busy: set[Http1Connection] = set()
        self._swept = -math.inf

    def __repr__(self) -> str:
        idle = sum(map(len, self._idle.values()))
        return f"<Http1Transport, {len(self._busy)} connections in use, {idle} idle>"

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send one request; return the response as soon as its head has come. Its body must be read or closed.

        Raises:
            httpx.TransportError: a subclass that names the step, like ConnectError or ReadTimeout.
        """
        timeouts = request.extensions.get("timeout", {})
        connection = self._take_idle(_origin(request.url))
        if connection is None:
            connection = await self._connect(request, timeouts)
        self._busy.add(connection)
        try:
            head = await connection.exchange(request, timeouts)
        except BaseException:
            self._busy.discard(connection)
            connection.drop()
            raise
        return httpx.Response(
            head.status_code,
            headers=list(head.headers.raw_items()),
            stream=Body(connection, timeouts, self._give_back),
            extensions={"http_version": b"HTTP/" + head.http_version, "reason_phrase": head.reason},
        )

    async def aclose(self) -> None:
        """Close every connection, those in use too."""
        connections = [*self._busy, *(idle for stack in self._idle.values() for idle in stack)]
        self._busy.clear()
        self._idle.clear()
        for connection in connections:
            connection.drop()
        await trio.lowlevel.checkpoint()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None = None,
        exc_value: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None:
        await self.aclose()

    def _take_idle(self, origin: Origin) -> Http1Connection | None:
        stack = self._idle.get(origin)
        while stack:
            connection = stack.pop()
            if connection.is_usable:
                return connection
            connection.drop()
        return None

    async def _connect(self, request: httpx.Request, timeouts: Timeouts) -> Http1Connection:
        origin = scheme, host, port = _origin(request.url)
        name = host.decode("ascii")
        is_secure = scheme == b"https"

        async def connect() -> Http1Connection:
            context = self._tls() if is_secure else None  # before there is a stream that a failure could leave
            # Happy eyeballs: several addresses of one name are tried beside one another.
            opened = await trio.open_tcp_stream(name, port or (443 if is_secure else 80))
            plain = socket.socket(fileno=opened.socket.detach())
            keep_alive(plain)
            stream = trio.SocketStream(trio.socket.from_stdlib_socket(plain))
            if context is None:
                return Http1Connection(stream, stream, origin, self._limits, plain)
            tls = trio.SSLStream(
                stream,
                context,
                server_hostname=request.extensions.get("sni_hostname", name),
                https_compatible=True,
            )
            try:
                await tls.do_handshake()
            except BaseException:
                stream.socket.close()
                raise
            return Http1Connection(tls, stream, origin, self._limits)

        try:
            seconds = timeouts.get("connect", self._limits.connect_timeout)
            return await within(seconds, httpx.ConnectTimeout, request, connect)
        except UnicodeError as error:  # of the look-up: an empty label, or one over 63 characters
            raise httpx.ConnectError("the host is no legal name", request=request) from error
        except Exception as error:  # noqa: BLE001 - raised again, as an error of httpx
            raise_as(error, httpx.ConnectError, request)

    def _tls(self) -> ssl.SSLContext:
        if self._ssl_context is None:
            try:
                self._ssl_context = httpx.create_ssl_context()
            except OSError as error:
                variable = next((name for name in _CERTIFICATES if os.environ.get(name)), None)
                if variable is None:
                    raise
                what = f"{variable}={os.environ[variable]}"
                raise httpx.ConnectError(f"SSL: {what} cannot be loaded: {error.strerror or error}") from error
        return self._ssl_context

    def _give_back(self, connection: Http1Connection) -> None:
        """Keep the connection of a response that is over, where it can be used again."""
        if connection not in self._busy:  # `aclose` has closed it
            return
        self._busy.discard(connection)
        if not connection.next_cycle():
            connection.drop()
            return
        stack = self._idle.setdefault(connection.origin, [])
        stack.append(connection)
        while len(stack) > self._limits.max_idle:
            stack.pop(0).drop()
        if trio.current_time() - self._swept >= self._limits.sweep_pause:
            self._sweep()

    def _sweep(self) -> None:
        """Close idle connections that are too old, or that the server has closed: after a burst they are many."""
        self._swept = trio.current_time()
        for origin, stack in list(self._idle.items()):
            usable = [connection for connection in stack if connection.is_usable]
            for connection in set(stack).difference(usable):
                connection.drop()
            self._idle[origin] = usable


class Body(httpx.AsyncByteStream):
    """The body of one response. Closed before its end, it takes its connection with it.

    It is no async generator: its user would have to close one that is left early.
    """

    def __init__(
        self, connection: Http1Connection, timeouts: Timeouts, give_back: Callable[[Http1Connection], None]
    ) -> None:
        self._connection = connection
        self._timeouts = timeouts
        self._give_back = give_back
        self._is_over = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        chunk = None
        try:
            if not self._is_over:
                chunk = await self._connection.next_chunk(self._timeouts)
        finally:
            if chunk is None:
                self._finish()
        if chunk is None:
            raise StopAsyncIteration
        return chunk

    def take(self) -> bytes:
        """The next part if it has come already, as a small body has; b"" where none has come."""
        chunk = None
        try:
            if not self._is_over:
                chunk = self._connection.chunk_now()
        finally:
            if chunk is None:
                self._finish()
        return chunk or b""

    async def aclose(self) -> None:
        """Give the connection back, or close it. No checkpoint: this must work in a cancelled task."""
        if not self._is_over:
            with suppress(httpx.RemoteProtocolError):
                while self.take():  # a body that has come whole leaves its connection usable
                    pass
            self._finish()

    def _finish(self) -> None:
        if not self._is_over:
            self._is_over = True
            self._give_back(self._connection)


def _origin(url: httpx.URL) -> Origin:
    return url.raw_scheme, url.raw_host, url.port
