"""A ToolServer on a real socket, through hypercorn, and a client that says over HTTP whatever a test likes.

The client is h11 on a socket: it neither follows, nor retries, nor corrects anything.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import attrs
import h11
import trio

from tests.exposing import HANDSHAKE, Function, modern
from trio_mcp import Tool, ToolServer, serve_http, tool

VERSION = "2026-07-28"
POST = {"content-type": "application/json", "accept": "application/json, text/event-stream"}


@attrs.define(eq=False)
class Reply:
    """The head of an answer, and its body once it has been read."""

    status: int
    headers: dict[str, str]
    body: bytes = b""

    @property
    def json(self) -> Any:
        assert self.headers.get("content-type") == "application/json", (self.status, self.headers, self.body)
        return json.loads(self.body)

    @property
    def code(self) -> int:
        """Of the JSON-RPC error."""
        found: int = self.json["error"]["code"]
        return found

    @property
    def result(self) -> dict[str, Any]:
        """Of the JSON-RPC answer, be it JSON or the last event."""
        found: dict[str, Any] = (self.json if "json" in self.headers["content-type"] else self.events[-1])[
            "result"
        ]
        return found

    @property
    def events(self) -> list[Any]:
        """The messages of a stream."""
        assert self.headers["content-type"] == "text/event-stream"
        return [json.loads(line[6:]) for line in self.body.split(b"\n") if line.startswith(b"data: ")]


@attrs.define(eq=False)
class Line:
    """One connection to a server."""

    stream: trio.SocketStream
    host: str
    http: h11.Connection = attrs.field(factory=lambda: h11.Connection(h11.CLIENT))
    session: str | None = None

    async def send(self, method: str, body: bytes = b"", *, path: str = "/mcp", **headers: str | None) -> None:
        """Send a request; underscores in names of headers are hyphens, None leaves one out."""
        fields: dict[str, str | None] = {"host": self.host}
        if body:
            fields |= {**POST, "content-length": str(len(body))}
        if self.session is not None:
            fields["mcp-session-id"] = self.session
        fields |= {name.replace("_", "-"): value for name, value in headers.items()}
        pairs = [(name.encode(), value.encode("latin-1")) for name, value in fields.items() if value is not None]
        data = self.http.send(h11.Request(method=method, target=path, headers=pairs)) or b""
        data += self.http.send(h11.Data(data=body)) or b""
        data += self.http.send(h11.EndOfMessage()) or b""
        await self.stream.send_all(data)

    async def next_event(self) -> Any:
        while (event := self.http.next_event()) is h11.NEED_DATA:
            try:
                self.http.receive_data(await self.stream.receive_some(65536))
            except trio.BrokenResourceError:
                self.http.receive_data(b"")
        return event

    async def head(self) -> Reply:
        event = await self.next_event()
        assert isinstance(event, h11.Response), event
        return Reply(event.status_code, {name.decode(): value.decode() for name, value in event.headers})

    async def rest(self, reply: Reply) -> Reply:
        """Read an answer to its end."""
        while isinstance(event := await self.next_event(), h11.Data):
            reply.body += bytes(event.data)
        if self.http.our_state is h11.DONE and self.http.their_state is h11.DONE:
            self.http.start_next_cycle()
        return reply

    async def more(self, reply: Reply, events: int) -> list[Any]:
        """Read until there are so many events."""
        while reply.body.count(b"\ndata: ") + reply.body.startswith(b"data: ") < events or not reply.body.endswith(
            b"\n\n"
        ):
            event = await self.next_event()
            assert isinstance(event, h11.Data), event
            reply.body += bytes(event.data)
        return reply.events

    async def ask(self, method: str, body: bytes = b"", **headers: Any) -> Reply:
        """Send a request and read the whole answer."""
        await self.send(method, body, **headers)
        return await self.rest(await self.head())

    # --- messages

    async def post(self, message: Any, **headers: Any) -> Reply:
        """Post a message."""
        return await self.ask("POST", json.dumps(message).encode(), **headers)

    async def modern(
        self, method: str, id_: Any = 1, *, headers: Mapping[str, str | None] | None = None, **params: Any
    ) -> Reply:
        """A request of the modern era, with its headers; `headers` replaces some."""
        await self.begin_modern(method, id_, headers=headers, **params)
        return await self.rest(await self.head())

    async def begin_modern(
        self, method: str, id_: Any = 1, *, headers: Mapping[str, str | None] | None = None, **params: Any
    ) -> None:
        fields: dict[str, Any] = {"mcp_protocol_version": VERSION, "mcp_method": method}
        if method == "tools/call":
            fields["mcp_name"] = params["name"]
        message = {"jsonrpc": "2.0", "id": id_, "method": method, "params": modern(**params)}
        await self.send("POST", json.dumps(message).encode(), **dict(fields | dict(headers or {})))

    async def legacy(self, method: str, params: Any = None, id_: Any = 1, **headers: Any) -> Reply:
        """A request of the legacy era."""
        await self.begin_legacy(method, params, id_, **headers)
        return await self.rest(await self.head())

    async def begin_legacy(self, method: str, params: Any = None, id_: Any = 1, **headers: Any) -> None:
        message = {"jsonrpc": "2.0", "id": id_, "method": method, **({} if params is None else {"params": params})}
        await self.send("POST", json.dumps(message).encode(), **{"mcp_protocol_version": "2025-11-25", **headers})

    async def initialize(self, revision: str = "2025-11-25", **capabilities: Any) -> Reply:
        """The handshake of the legacy era: this connection is in that session from now on."""
        params = {**HANDSHAKE, "protocolVersion": revision, "capabilities": capabilities}
        reply = await self.post({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})
        self.session = reply.headers["mcp-session-id"]
        told = await self.post({"jsonrpc": "2.0", "method": "notifications/initialized"})
        assert told.status == 202
        return reply


@attrs.define(eq=False)
class Served:
    """A server that is up."""

    url: str
    stop: trio.Event
    nursery: trio.Nursery
    lines: list[Line] = attrs.field(factory=list)

    @property
    def port(self) -> int:
        return int(self.url.split(":")[2].split("/")[0])

    async def connect(self, session: str | None = None) -> Line:
        """A connection of its own, closed with the server."""
        stream = await trio.open_tcp_stream("127.0.0.1", self.port)
        self.lines.append(Line(stream, f"127.0.0.1:{self.port}", session=session))
        return self.lines[-1]


@asynccontextmanager
async def serving(
    *tools: Tool | Function, server: ToolServer | None = None, limit: float = 30, **options: Any
) -> AsyncIterator[Served]:
    """A server on a free port, for at most `limit` seconds. It has to stop in order."""
    if server is None:
        server = ToolServer("served")
        server.add_tools(*(one if isinstance(one, Tool) else tool(one) for one in tools))
    stop = trio.Event()
    with trio.fail_after(limit):
        async with trio.open_nursery() as nursery:
            url = await nursery.start(partial(serve_http, server, port=0, stop=stop, **options))
            served = Served(url, stop, nursery)
            try:
                yield served
                stop.set()
            finally:
                for line in served.lines:
                    line.stream.socket.close()


def echo(text: str = "nothing") -> str:
    return text


async def until(condition: Callable[[], bool], limit: float = 10) -> None:
    """Until something holds that only looking tells."""
    with trio.fail_after(limit):
        while not condition():  # noqa: ASYNC110 - it is not ours to set an event there
            await trio.sleep(0.01)
