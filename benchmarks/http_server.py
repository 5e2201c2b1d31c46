"""An MCP server over HTTP that costs as little as Python allows: `http_server.py` prints its port and serves.

Both eras without sessions, answers in JSON; the one tool is `echo`. It runs in a process of its own, and knows
only what the clients of http_clients.py ask.
"""

from __future__ import annotations

import asyncio

import msgspec

INFO = {"name": "bench", "version": "1"}
TOOL = {
    "name": "echo",
    "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
}
MODERN = {"resultType": "complete", "_meta": {"io.modelcontextprotocol/serverInfo": INFO}}
CACHED = {**MODERN, "ttlMs": 0, "cacheScope": "private"}
RESULTS: dict[str, object] = {
    "server/discover": {**CACHED, "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}},
    "initialize": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": INFO},
    "tools/list": {**CACHED, "tools": [TOOL]},
}


class Server(asyncio.Protocol):
    """One connection."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.buffer = b""

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        while (end := self.buffer.find(b"\r\n\r\n")) >= 0:
            head = self.buffer[:end].lower()
            _, _, length = head.partition(b"content-length:")
            size = int(length.split(b"\r\n", 1)[0]) if length else 0
            if len(self.buffer) < end + 4 + size:
                return
            body = self.buffer[end + 4 : end + 4 + size]
            self.buffer = self.buffer[end + 4 + size :]
            self.transport.write(answer(body) if body else b"HTTP/1.1 405 No\r\ncontent-length: 0\r\n\r\n")


def answer(body: bytes) -> bytes:
    """The response to one POST."""
    message = msgspec.json.decode(body)
    if "id" not in message:
        return b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n"
    if message["method"] == "tools/call":
        block = {"type": "text", "text": message["params"]["arguments"]["text"]}
        result: object = {**MODERN, "content": [block]}
    else:
        result = RESULTS[message["method"]]
    data = msgspec.json.encode({"jsonrpc": "2.0", "id": message["id"], "result": result})
    return b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(data), data)


async def main() -> None:
    """Serve until killed."""
    server = await asyncio.get_running_loop().create_server(Server, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
