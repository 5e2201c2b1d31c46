"""HTTP/1.1 over trio streams, as an `httpx.AsyncBaseTransport`. Knows nothing of MCP; usable alone with httpx.

One request has one connection to itself. Idle connections are kept in a stack for each origin, the last used on
top: there is no pool to search and no limit that a fan-out could wait for. A connection that the server has closed
meanwhile is noticed before a request is written to it, and nothing is ever sent twice.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import AsyncGenerator
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, NoReturn, Self, TypeVar

import h11
import httpx
import trio

from .plain_request import STAND_INS, plain_request

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

#: Seconds to connect, the name's look-up and the TLS handshake included, where the request says nothing.
CONNECT_TIMEOUT = 10.0
#: Seconds after which an idle connection is not used any more: servers commonly close theirs after 5 to 75.
IDLE_EXPIRY = 60.0
#: Idle connections that are kept for one origin: descriptors are few, and a new connection costs little.
MAX_IDLE = 256
#: How much is read at once.
CHUNK = 64 * 1024
#: Bytes that the head of a response may have, as in httpcore.
MAX_HEAD = 100 * 1024

Origin = tuple[bytes, bytes, int | None]
Timeouts = dict[str, float | None]
T = TypeVar("T")

_END = h11.EndOfMessage()


class Http1Transport(httpx.AsyncBaseTransport):
    """Sends requests over HTTP/1.1.

    Args:
        ssl_context: for https; made by `httpx.create_ssl_context()` when first needed, when not given.

    Example:
        >>> async def get(url):
        ...     async with httpx.AsyncClient(transport=Http1Transport()) as client:
        ...         return (await client.get(url)).text
    """

    def __init__(self, ssl_context: ssl.SSLContext | None = None) -> None:
        self._ssl_context = ssl_context
        self._idle: dict[Origin, list[_Connection]] = {}
        self._busy: set[_Connection] = set()

    def __repr__(self) -> str:
        idle = sum(map(len, self._idle.values()))
        return f"<Http1Transport, {len(self._busy)} connections in use, {idle} idle>"

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send one request; the response as soon as its head has come. Its body must be read or closed.

        Raises:
            httpx.TransportError: of the kind that names the step.
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

    def _take_idle(self, origin: Origin) -> _Connection | None:
        stack = self._idle.get(origin)
        while stack:
            connection = stack.pop()
            if connection.is_usable:
                return connection
            connection.drop()
        return None

    async def _connect(self, request: httpx.Request, timeouts: Timeouts) -> _Connection:
        origin = scheme, host, port = _origin(request.url)
        name = host.decode("ascii")
        is_secure = scheme == b"https"

        async def connect() -> _Connection:
            # Happy eyeballs: several addresses of one name are tried beside one another.
            opened = await trio.open_tcp_stream(name, port or (443 if is_secure else 80))
            plain = socket.socket(fileno=opened.socket.detach())
            stream = trio.SocketStream(trio.socket.from_stdlib_socket(plain))
            if not is_secure:
                return _Connection(stream, stream, origin, plain)
            tls = trio.SSLStream(
                stream,
                self._tls(),
                server_hostname=request.extensions.get("sni_hostname", name),
                https_compatible=True,
            )
            try:
                await tls.do_handshake()
            except BaseException:
                stream.socket.close()
                raise
            return _Connection(tls, stream, origin)

        try:
            seconds = timeouts.get("connect", CONNECT_TIMEOUT)
            return await _within(seconds, httpx.ConnectTimeout, request, connect)
        except Exception as error:  # noqa: BLE001 - raised again, as httpx says it
            _raise(error, httpx.ConnectError, request)

    def _tls(self) -> ssl.SSLContext:
        if self._ssl_context is None:
            self._ssl_context = httpx.create_ssl_context()
        return self._ssl_context

    def _give_back(self, connection: _Connection) -> None:
        """A response is over: keep its connection where that can be used again."""
        if connection not in self._busy:  # closed meanwhile
            return
        self._busy.discard(connection)
        if not connection.next_cycle():
            connection.drop()
            return
        stack = self._idle.setdefault(connection.origin, [])
        stack.append(connection)
        while len(stack) > MAX_IDLE or (stack and stack[0].is_expired):
            stack.pop(0).drop()


class _Connection:
    """One connection: h11's view of it, and its streams.

    Without TLS it also has the `plain` socket: a step of it takes one system call and one turn of the scheduler.
    """

    def __init__(
        self,
        stream: trio.abc.Stream,
        socket_stream: trio.SocketStream,
        origin: Origin,
        plain: socket.socket | None = None,
    ) -> None:
        self.origin = origin
        self._plain = plain
        self._idle_since = 0.0
        self._stream = stream
        self._socket = socket_stream.socket
        self._state = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_HEAD)

    @property
    def is_expired(self) -> bool:
        """Whether it has been idle for too long."""
        return trio.current_time() - self._idle_since > IDLE_EXPIRY

    @property
    def is_usable(self) -> bool:
        """Whether nothing has come since the last response: what comes to an idle connection is its end."""
        return not self.is_expired and not self._socket.is_readable()

    async def exchange(self, request: httpx.Request, timeouts: Timeouts) -> h11.Response:
        """Write a request and read the head of its response."""
        await trio.lowlevel.checkpoint_if_cancelled()  # a small request is written without another
        try:
            await self._write(request, timeouts.get("write"))
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass  # RFC 9112, 9.5: a server may refuse a body before it has read it all. Its answer tells more.
        except Exception as error:  # noqa: BLE001 - raised again, as httpx says it
            _raise(error, httpx.WriteError, request)
        try:
            return await self._head(request, timeouts.get("read"))
        except Exception as error:  # noqa: BLE001 - raised again, as httpx says it
            _raise(error, httpx.ReadError, request)

    async def next_chunk(self, timeouts: Timeouts) -> bytes | None:
        """The next part of the response's body; None at its end."""
        try:
            while (chunk := self.chunk_now()) == b"":
                await self._more(timeouts.get("read"), None)
        except Exception as error:  # noqa: BLE001 - raised again, as httpx says it
            _raise(error, httpx.ReadError)
        return chunk

    def chunk_now(self) -> bytes | None:
        """As much of the next part as has come; None at the end of the body."""
        try:
            event = self._state.next_event()
        except h11.RemoteProtocolError as error:
            _raise(error, httpx.ReadError)
        if event is h11.NEED_DATA:
            return b""
        return bytes(event.data) if isinstance(event, h11.Data) else None

    def next_cycle(self) -> bool:
        """Begin anew after a response; whether the connection may be used again."""
        try:
            self._state.start_next_cycle()
        except h11.LocalProtocolError:
            return False
        self._idle_since = trio.current_time()
        return self._state.trailing_data == (b"", False)

    def drop(self) -> None:
        """Close without a word and without a wait."""
        self._socket.close()

    async def _write(self, request: httpx.Request, seconds: float | None) -> None:
        target, fields = request.url.raw_path, request.headers.raw
        plain = None
        if type(request.stream) is httpx.ByteStream:
            plain = plain_request(request.method, target, fields, b"".join(request.stream))
        if plain is not None:
            self._state.send(STAND_INS[request.method])
            data = plain[self._written_at_once(plain) :]
        else:
            assert isinstance(request.stream, httpx.AsyncByteStream)
            head = h11.Request(method=request.method.encode("ascii"), target=target, headers=fields)
            data = self._state.send(head) or b""
            chunks = aiter(request.stream)
            try:
                async for chunk in chunks:
                    # The head goes out with the first of the body: one packet for a small request.
                    data += self._state.send(h11.Data(chunk)) or b""
                    if data:
                        await self._send(data, seconds, request)
                        data = b""
            finally:
                if isinstance(chunks, AsyncGenerator):  # one that is left early must be closed at once
                    await chunks.aclose()
        data += self._state.send(_END) or b""
        if data:
            await self._send(data, seconds, request)

    def _written_at_once(self, data: bytes) -> int:
        try:
            return 0 if self._plain is None else self._plain.send(data)
        except OSError:  # full, or broken: the stream waits for it, or says so
            return 0

    async def _send(self, data: bytes, seconds: float | None, request: httpx.Request) -> None:
        if seconds is None:
            await self._stream.send_all(data)
        else:
            await _within(seconds, httpx.WriteTimeout, request, lambda: self._stream.send_all(data))

    async def _head(self, request: httpx.Request, seconds: float | None) -> h11.Response:
        while not isinstance(event := self._state.next_event(), h11.Response):
            if event is h11.NEED_DATA:
                await self._more(seconds, request)
        return event

    async def _more(self, seconds: float | None, request: httpx.Request | None) -> None:
        if seconds is None:
            data = await self._receive()
        else:
            data = await _within(seconds, httpx.ReadTimeout, request, self._receive)
        if not data and self._state.their_state is h11.SEND_RESPONSE:
            raise httpx.RemoteProtocolError("the server closed without a response", request=request)
        self._state.receive_data(data)

    async def _receive(self) -> bytes:
        if self._plain is not None and self._plain.fileno() >= 0:
            await trio.lowlevel.wait_readable(self._plain)
            try:
                return self._plain.recv(CHUNK)
            except BlockingIOError:  # the stream waits once more
                pass
        return bytes(await self._stream.receive_some(CHUNK))


class Body(httpx.AsyncByteStream):
    """The body of one response. Closed before its end, it takes its connection with it.

    No async generator: one that is left early would have to be closed by whoever holds it.
    """

    def __init__(
        self, connection: _Connection, timeouts: Timeouts, give_back: Callable[[_Connection], None]
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
        """The next part, if it has come already, as that of a small body has; empty where there is none yet."""
        chunk = None
        try:
            if not self._is_over:
                chunk = self._connection.chunk_now()
        finally:
            if chunk is None:
                self._finish()
        return chunk or b""

    async def aclose(self) -> None:
        """Let go of the connection. No checkpoint: this must work in a cancelled task."""
        if not self._is_over:
            with suppress(httpx.RemoteProtocolError):
                while self.take():  # it may be all there is
                    pass
            self._finish()

    def _finish(self) -> None:
        if not self._is_over:
            self._is_over = True
            self._give_back(self._connection)


def _origin(url: httpx.URL) -> Origin:
    return url.raw_scheme, url.raw_host, url.port


async def _within(
    seconds: float | None,
    kind: type[httpx.TimeoutException],
    request: httpx.Request | None,
    step: Callable[[], Awaitable[T]],
) -> T:
    if seconds is None:
        return await step()
    with trio.move_on_after(seconds):
        return await step()
    raise kind(f"not done within {seconds:g} s", request=request)


def _raise(error: Exception, kind: type[httpx.TransportError], request: httpx.Request | None = None) -> NoReturn:
    """What went wrong below, as httpx says it; what is none of our business, as it is."""
    if isinstance(error, h11.LocalProtocolError):
        raise httpx.LocalProtocolError(str(error), request=request) from error
    if isinstance(error, h11.RemoteProtocolError):
        raise httpx.RemoteProtocolError(str(error), request=request) from error
    if isinstance(error, OSError | trio.BrokenResourceError | trio.ClosedResourceError):
        raise kind(_worded(error), request=request) from error
    raise error


def _worded(error: BaseException) -> str:
    """What was the matter, where trio only says that something was."""
    cause = error.__cause__
    if isinstance(cause, BaseExceptionGroup):  # one of each address that was tried
        cause = cause.exceptions[0]
    if isinstance(cause, OSError):
        return _worded(cause)
    return str(error) or "the connection was lost"
