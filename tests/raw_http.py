"""An HTTP listener without manners: a test says what is done with each connection, byte by byte.

For servers that reset, stop half-way or lie. What behaves like a server of the protocol is in http_peer.py. This
must not know trio_mcp.
"""

from __future__ import annotations

import socket
import ssl
import struct
from collections.abc import Awaitable, Callable

import attrs
import trio

Handler = Callable[["Line"], Awaitable[None]]


@attrs.define(eq=False)
class Request:
    """One request as it came."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes


@attrs.define(eq=False)
class Line:
    """One accepted connection."""

    stream: trio.abc.Stream
    _buffer: bytes = b""

    async def read_head(self) -> Request | None:
        """A request without its body; None at the end of the connection."""
        while b"\r\n\r\n" not in self._buffer:
            if not await self._more():
                return None
        head, _, self._buffer = self._buffer.partition(b"\r\n\r\n")
        first, *fields = head.decode().split("\r\n")
        method, target, _ = first.split(" ")
        headers = {name.lower(): value for name, _, value in (field.partition(": ") for field in fields)}
        return Request(method, target, headers, b"")

    async def read(self) -> Request | None:
        """A whole request."""
        request = await self.read_head()
        if request is not None:
            await self.read_body(request)
        return request

    async def read_body(self, request: Request) -> None:
        if request.headers.get("transfer-encoding") == "chunked":
            while not self._buffer.endswith(b"0\r\n\r\n"):
                await self._more()
            request.body, self._buffer = self._buffer, b""
            return
        length = int(request.headers.get("content-length", 0))
        while len(self._buffer) < length:
            if not await self._more():
                break
        request.body, self._buffer = self._buffer[:length], self._buffer[length:]

    async def _more(self) -> bool:
        try:
            chunk = await self.stream.receive_some(65536)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return False
        self._buffer += chunk
        return bool(chunk)

    async def send(self, data: bytes) -> None:
        await self.stream.send_all(data)

    async def answer(self, body: bytes = b"", *, status: str = "200 OK", **headers: str) -> None:
        """A response with a length."""
        fields = {"content-length": str(len(body)), **headers}
        lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in fields.items())
        await self.send(f"HTTP/1.1 {status}\r\n{lines}\r\n".encode() + body)

    async def wait_closed(self) -> None:
        """Until the client has closed its end."""
        while await self._more():
            pass

    def reset(self) -> None:
        """End with an RST instead of a FIN."""
        assert isinstance(self.stream, trio.SocketStream)
        self.stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.stream.socket.close()


@attrs.define(eq=False)
class Listener:
    """A port on 127.0.0.1; `lines` are the connections so far."""

    port: int
    scheme: str
    lines: list[Line] = attrs.field(factory=list)

    @property
    def url(self) -> str:
        return f"{self.scheme}://localhost:{self.port}/"


async def listen(nursery: trio.Nursery, handler: Handler, ssl_context: ssl.SSLContext | None = None) -> Listener:
    """Listen; each connection is `handler`'s, and is closed behind it."""
    (tcp,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    listener = Listener(tcp.socket.getsockname()[1], "http" if ssl_context is None else "https")

    async def serve(stream: trio.SocketStream) -> None:
        tls = (
            None
            if ssl_context is None
            else trio.SSLStream(stream, ssl_context, server_side=True, https_compatible=True)
        )
        line = Line(stream if tls is None else tls)
        listener.lines.append(line)
        try:
            await handler(line)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass  # the client has gone, or the handler has seen to it
        finally:
            await trio.aclose_forcefully(stream)

    await nursery.start(trio.serve_listeners, serve, [tcp])
    return listener
