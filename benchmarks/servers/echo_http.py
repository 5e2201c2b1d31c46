"""The answers of echo.py over Streamable HTTP, in both eras, as JSON or as events.

    python benchmarks/servers/echo_http.py [--sse]

It prints its port, and serves without sessions until it is killed. It costs as little as Python allows, and
understands only those HTTP requests that the clients of the benchmarks send.
"""

from __future__ import annotations

import asyncio
import sys

from echo import Answers, decode

ACCEPTED = b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n"
NOT_ALLOWED = b"HTTP/1.1 405 Method Not Allowed\r\ncontent-length: 0\r\n\r\n"
JSON = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b"
EVENTS = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    b"%x\r\n%b\r\n0\r\n\r\n"
)
EVENT = b"event: message\r\ndata: %b\r\n\r\n"

answers = Answers(modern=True)
sse = "--sse" in sys.argv[1:]


class EchoConnection(asyncio.Protocol):
    """One connection."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport for the answers."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.buffer = b""

    def data_received(self, data: bytes) -> None:
        """Answer each whole request."""
        self.buffer += data
        while (end := self.buffer.find(b"\r\n\r\n")) >= 0:
            _, _, length = self.buffer[:end].lower().partition(b"content-length:")
            size = int(length.split(b"\r\n", 1)[0]) if length else 0
            if len(self.buffer) < end + 4 + size:
                return
            body = self.buffer[end + 4 : end + 4 + size]
            self.buffer = self.buffer[end + 4 + size :]
            self.transport.write(response(body) if body else NOT_ALLOWED)


def response(body: bytes) -> bytes:
    """The response to one POST."""
    answer = answers.answer(decode(body))
    if not answer:
        return ACCEPTED
    if sse:
        event = EVENT % answer
        return EVENTS % (len(event), event)
    return JSON % (len(answer), answer)


async def main() -> None:
    """Serve until killed."""
    server = await asyncio.get_running_loop().create_server(EchoConnection, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
