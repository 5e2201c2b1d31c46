"""An MCP server over HTTP in the test's own process, of either era, which does what a test tells it.

Well-behaved until a method is given another answer in `on`: an async function of an `Exchange`, which says
everything itself, down to the bytes. What came in is kept. It speaks by raw_http.py alone, and must not know
trio_mcp but for `Server`.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import attrs
import trio

from tests.raw_http import Line, Listener, Request, listen
from trio_mcp import Server

META = "io.modelcontextprotocol/"
OBJECT = {"type": "object"}
_count = itertools.count(1)


@attrs.define(eq=False)
class Exchange:
    """One request to the peer, and the ways to answer it."""

    peer: HttpPeer
    line: Line
    request: Request
    message: dict[str, Any]
    _began: bool = False

    @property
    def method(self) -> str:
        """Of JSON-RPC, or of HTTP where there is no body."""
        return str(self.message.get("method", "answer" if self.message else self.request.method))

    @property
    def params(self) -> dict[str, Any]:
        found: dict[str, Any] = self.message.get("params", {})
        return found

    def answer_to(self, result: Any) -> dict[str, Any]:
        """The message that answers this request."""
        return {"jsonrpc": "2.0", "id": self.message.get("id"), "result": result}

    async def result(self, result: Any, **headers: str) -> None:
        """Answer with JSON."""
        await self.json(self.answer_to(result), **headers)

    async def error(self, code: int, message: str = "no", data: Any = None, status: str = "200 OK") -> None:
        """Answer with a JSON-RPC error."""
        error = {"code": code, "message": message} | ({} if data is None else {"data": data})
        await self.json({"jsonrpc": "2.0", "id": self.message.get("id"), "error": error}, status=status)

    async def json(self, value: Any, status: str = "200 OK", **headers: str) -> None:
        """Answer with any JSON."""
        body = value if isinstance(value, bytes) else json.dumps(value).encode()
        await self.line.answer(body, status=status, **{"content_type": "application/json", **headers})

    async def status(self, status: str, body: bytes = b"", **headers: str) -> None:
        """Answer with a bare status."""
        await self.line.answer(body, status=status, **headers)

    async def event(self, data: Any = None, **fields: Any) -> None:
        """Send an event; the first one begins the response. `data` is a message, or text."""
        text = data if isinstance(data, str) else "" if data is None else json.dumps(data)
        lines = "".join(f"{name}: {value}\n" for name, value in fields.items())
        await self.events(f"{lines}data: {text}\n\n".encode())

    async def events(self, data: bytes = b"") -> None:
        """Send bytes of an event stream."""
        if not self._began:
            self._began = True
            head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
            await self.line.send(head.encode())
        if data:
            await self.line.send(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    async def end(self) -> None:
        """End an event stream."""
        await self.line.send(b"0\r\n\r\n")


Behaviour = Callable[[Exchange], Awaitable[None]]


class HttpPeer:
    """See the file's head.

    Attributes:
        seen: every exchange so far.
        sessions: the session ids that are alive (legacy).
        on: method (of JSON-RPC, or GET and DELETE) -> what is done instead.
        calls: tool -> what a tools/call of it does.
    """

    def __init__(self, era: str, *, sessions: bool = True, list_changed: bool = False) -> None:
        self.era = era
        self.seen: list[Exchange] = []
        self.sessions: set[str] = set()
        self.on: dict[str, Behaviour] = {}
        self.calls: dict[str, Behaviour] = {"echo": _echo, "wait": _wait}
        self.tools: list[Any] = [{"name": "echo", "inputSchema": OBJECT}, {"name": "wait", "inputSchema": OBJECT}]
        self.revision = "2025-11-25"
        self.listener: Listener
        self._uses_sessions = sessions
        self._capabilities = {"tools": {"listChanged": list_changed}, "logging": {}}
        self._path = f"mcp-{next(_count)}"
        self._moved = trio.lowlevel.ParkingLot()

    @property
    def url(self) -> str:
        """The endpoint."""
        return self.listener.url + self._path

    def server(self, **fields: Any) -> Server:
        """How to reach it."""
        return Server(**{"name": "peer", "url": self.url, **fields})

    def methods(self) -> list[str]:
        """What was asked, in order."""
        return [exchange.method for exchange in self.seen]

    def of(self, method: str) -> list[Exchange]:
        """The exchanges of one method."""
        return [exchange for exchange in self.seen if exchange.method == method]

    async def heard(self, method: str, times: int = 1) -> Exchange:
        """Wait until a method has come so often; the last of them."""
        with trio.fail_after(10):
            while len(found := self.of(method)) < times:
                await self._moved.park()
        return found[times - 1]

    async def serve(self, line: Line) -> None:
        """One connection."""
        while request := await line.read():
            exchange = Exchange(self, line, request, json.loads(request.body) if request.body else {})
            self.seen.append(exchange)
            self._moved.unpark_all()
            await self.on.get(exchange.method, self.behave)(exchange)

    async def behave(self, exchange: Exchange) -> None:
        """What a good server does."""
        if exchange.request.target != f"/{self._path}":
            await exchange.status("404 Not Found")
        elif self.era == "modern":
            await self._modern(exchange)
        else:
            await self._legacy(exchange)

    async def _modern(self, exchange: Exchange) -> None:
        about = {"resultType": "complete", "_meta": {META + "serverInfo": {"name": "peer", "version": "1"}}}
        cached = {**about, "ttlMs": 0, "cacheScope": "private"}
        if exchange.request.method != "POST":
            await exchange.status("405 Method Not Allowed")
        elif META + "protocolVersion" not in exchange.params.get("_meta", {}):
            await exchange.error(-32602, status="400 Bad Request")
        elif exchange.method == "server/discover":
            versions = {"supportedVersions": ["2026-07-28"], "capabilities": self._capabilities}
            await exchange.result({**cached, **versions})
        elif exchange.method == "tools/list":
            await exchange.result({**cached, "tools": self.tools})
        elif exchange.method == "tools/call" and exchange.params["name"] in self.calls:
            await self.calls[exchange.params["name"]](exchange)
        else:
            await exchange.error(-32601, status="404 Not Found")

    async def _legacy(self, exchange: Exchange) -> None:
        session = exchange.request.headers.get("mcp-session-id")
        if exchange.method == "initialize":
            headers = {}
            if self._uses_sessions:
                headers["mcp_session_id"] = f"session-{next(_count)}"
                self.sessions.add(headers["mcp_session_id"])
            result = {"protocolVersion": self.revision, "capabilities": self._capabilities, "serverInfo": {}}
            await exchange.result(result, **headers)
        elif self._uses_sessions and session is None:
            await exchange.error(-32000, "no session id", status="400 Bad Request")
        elif self._uses_sessions and session not in self.sessions:
            await exchange.error(-32001, "session not found", status="404 Not Found")
        elif exchange.method == "GET":
            await exchange.events()
            await exchange.line.wait_closed()
        elif exchange.method == "DELETE":
            self.sessions.discard(session or "")
            await exchange.status("200 OK")
        elif "id" not in exchange.message or exchange.method == "answer":
            await exchange.status("202 Accepted")
        elif exchange.method in ("ping", "logging/setLevel"):
            await exchange.result({})
        elif exchange.method == "tools/list":
            await exchange.result({"tools": self.tools})
        elif exchange.method == "tools/call" and exchange.params["name"] in self.calls:
            await self.calls[exchange.params["name"]](exchange)
        else:
            await exchange.error(-32601)


def content(text: str) -> dict[str, Any]:
    """A tool's result."""
    return {"resultType": "complete", "content": [{"type": "text", "text": text}]}


async def _echo(exchange: Exchange) -> None:
    await exchange.result(content(json.dumps(exchange.params.get("arguments"))))


async def _wait(exchange: Exchange) -> None:
    """Never answer; until the client goes."""
    await exchange.line.wait_closed()


async def start_peer(nursery: trio.Nursery, era: str = "modern", **options: Any) -> HttpPeer:
    """Start a peer; it ends with the nursery."""
    peer = HttpPeer(era, **options)
    peer.listener = await listen(nursery, peer.serve)
    return peer


def tools(*names: str, **more: Any) -> Iterable[dict[str, Any]]:
    """Entries of a listing."""
    return [{"name": name, "inputSchema": OBJECT, **more} for name in names]
