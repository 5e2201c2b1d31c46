"""One HTTP/1.1 connection of a client: its streams, and the state that h11 keeps of it. pool.py gives them out."""

from __future__ import annotations

import socket
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import NoReturn, TypeVar

import h11
import httpx
import trio

from .limits import PoolLimits
from .requests import STAND_INS, plain_request

#: How much is read at once.
CHUNK = 64 * 1024

Origin = tuple[bytes, bytes, int | None]
Timeouts = dict[str, float | None]
T = TypeVar("T")

_END = h11.EndOfMessage()


class _UnwrittenError(Exception):
    """The server reads no more. Errors of the body's own generator are not this: they are the caller's."""


class Http1Connection:
    """One connection: its streams, and h11's state of it.

    Without TLS it also has the `plain` socket, on which a step is one system call and one turn of the scheduler.
    """

    def __init__(
        self,
        stream: trio.abc.Stream,
        socket_stream: trio.SocketStream,
        origin: Origin,
        limits: PoolLimits,
        plain: socket.socket | None = None,
    ) -> None:
        self.origin = origin
        self._idle_expiry = limits.idle_expiry
        self._plain = plain
        self._idle_since = 0.0
        self._stream = stream
        self._socket = socket_stream.socket
        self._state = h11.Connection(h11.CLIENT, max_incomplete_event_size=limits.max_head)

    @property
    def is_expired(self) -> bool:
        """Whether it has been idle for too long."""
        return trio.current_time() - self._idle_since > self._idle_expiry

    @property
    def is_usable(self) -> bool:
        """Whether it is young enough and still open: bytes that come to an idle connection announce its end."""
        return not self.is_expired and not self._socket.is_readable()

    async def exchange(self, request: httpx.Request, timeouts: Timeouts) -> h11.Response:
        """Write a request and read the head of its response."""
        await trio.lowlevel.checkpoint_if_cancelled()  # a small request is written without another
        try:
            await self._write(request, timeouts.get("write"))
        except _UnwrittenError:
            pass  # RFC 9112, 9.5: a server may refuse a body before it has read it all; its answer says why
        except h11.LocalProtocolError as error:
            raise_as(error, httpx.WriteError, request)
        try:
            return await self._head(request, timeouts.get("read"))
        except Exception as error:  # noqa: BLE001 - raised again, as an error of httpx
            raise_as(error, httpx.ReadError, request)

    async def next_chunk(self, timeouts: Timeouts) -> bytes | None:
        """The next part of the response's body; None at its end."""
        try:
            while (chunk := self.chunk_now()) == b"":
                await self._more(timeouts.get("read"), None)
        except Exception as error:  # noqa: BLE001 - raised again, as an error of httpx
            raise_as(error, httpx.ReadError)
        return chunk

    def chunk_now(self) -> bytes | None:
        """The bytes of the body that have come already, perhaps b""; None at its end."""
        try:
            event = self._state.next_event()
        except h11.RemoteProtocolError as error:
            raise_as(error, httpx.ReadError)
        if event is h11.NEED_DATA:
            return b""
        return bytes(event.data) if isinstance(event, h11.Data) else None

    def next_cycle(self) -> bool:
        """Make ready for the next request after a response; whether the connection may be used again."""
        try:
            self._state.start_next_cycle()
        except h11.LocalProtocolError:
            return False
        self._idle_since = trio.current_time()
        return self._state.trailing_data == (b"", False)

    def drop(self) -> None:
        """Close the socket at once, without TLS's goodbye and without waiting."""
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
                if isinstance(chunks, AsyncGenerator):  # a generator that is left early must be closed at once
                    await chunks.aclose()
        data += self._state.send(_END) or b""
        if data:
            await self._send(data, seconds, request)

    def _written_at_once(self, data: bytes) -> int:
        try:
            return 0 if self._plain is None else self._plain.send(data)
        except OSError:  # full, or broken: the stream then waits, or raises
            return 0

    async def _send(self, data: bytes, seconds: float | None, request: httpx.Request) -> None:
        try:
            if seconds is None:
                await self._stream.send_all(data)
            else:
                await within(seconds, httpx.WriteTimeout, request, lambda: self._stream.send_all(data))
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            raise _UnwrittenError from error

    async def _head(self, request: httpx.Request, seconds: float | None) -> h11.Response:
        while not isinstance(event := self._state.next_event(), h11.Response):
            if event is h11.PAUSED:  # 101 to a request that asked for it: there is no response to come
                raise httpx.RemoteProtocolError("the server switched to another protocol", request=request)
            if event is h11.NEED_DATA:
                await self._more(seconds, request)
        return event

    async def _more(self, seconds: float | None, request: httpx.Request | None) -> None:
        if seconds is None:
            data = await self._receive()
        else:
            data = await within(seconds, httpx.ReadTimeout, request, self._receive)
        if not data and self._state.their_state is h11.SEND_RESPONSE:
            raise httpx.RemoteProtocolError("the server closed without a response", request=request)
        self._state.receive_data(data)

    async def _receive(self) -> bytes:
        if self._plain is not None and self._plain.fileno() >= 0:
            await trio.lowlevel.wait_readable(self._plain)
            try:
                return self._plain.recv(CHUNK)
            except BlockingIOError:  # readable for a moment only: the stream waits once more
                pass
        return bytes(await self._stream.receive_some(CHUNK))


async def within(
    seconds: float | None,
    kind: type[httpx.TimeoutException],
    request: httpx.Request | None,
    step: Callable[[], Awaitable[T]],
) -> T:
    """Await a step for so many seconds at most, or raise the timeout of this kind; None is without bound."""
    if seconds is None:
        return await step()
    with trio.move_on_after(seconds):
        return await step()
    raise kind(f"not done within {seconds:g} s", request=request)


def raise_as(error: Exception, kind: type[httpx.TransportError], request: httpx.Request | None = None) -> NoReturn:
    """Raise an error of h11 or trio as the error of httpx that it is; any other error as it is."""
    if isinstance(error, h11.LocalProtocolError):
        raise httpx.LocalProtocolError(str(error), request=request) from error
    if isinstance(error, h11.RemoteProtocolError):
        raise httpx.RemoteProtocolError(str(error), request=request) from error
    if isinstance(error, OSError | trio.BrokenResourceError | trio.ClosedResourceError):
        raise kind(_text_of(error), request=request) from error
    raise error


def _text_of(error: BaseException) -> str:
    """The text of the operating system, where trio's own says less."""
    cause = error.__cause__
    if isinstance(cause, BaseExceptionGroup):  # one for each address that was tried
        cause = cause.exceptions[0]
    if isinstance(cause, OSError):
        return _text_of(cause)
    return str(error) or "the connection was lost"
