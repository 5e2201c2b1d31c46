"""Tools as a client sees them: each through a real connection to a server of its own, in memory.

`raw(...)` is a client that says what a test likes, line by line, to a server's end of a stream.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import trio
from trio.testing import memory_stream_pair

from tests.far_end import Message, Peer
from trio_mcp import Tool, ToolResult, ToolServer
from trio_mcp.protocol.revisions import META_CAPABILITIES, META_CLIENT_INFO, META_PREFIX, META_VERSION, Era
from trio_mcp.server.streams import StreamService
from trio_mcp.testing import open_functions

Function = Callable[..., Any]
ERAS: tuple[Era, ...] = ("modern", "legacy")
META = {META_VERSION: "2026-07-28", META_CAPABILITIES: {}, META_CLIENT_INFO: {"name": "c", "version": "1"}}
HANDSHAKE = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}


async def call(tool: Tool | Function, arguments: Any = None, *, era: Era = "modern", **options: Any) -> ToolResult:
    """Call a tool through a connection."""
    with trio.fail_after(10):
        async with open_functions(tool, protocol=era) as connection:
            (found,) = connection.tools
            result: ToolResult = await connection.call_tool(found.remote_name, arguments, **options)
            return result


async def said(tool: Tool | Function, arguments: Any = None, *, era: Era = "modern") -> str:
    """The text of a call that succeeded."""
    result = await call(tool, arguments, era=era)
    assert not result.is_error, result.content
    return result.content


async def failure(tool: Tool | Function, arguments: Any = None, *, era: Era = "modern") -> str:
    """The text of a call that failed."""
    result = await call(tool, arguments, era=era)
    assert result.is_error, result
    assert (len(result.blocks), result.structured_json) == (1, None)
    return result.content


async def listed(tool: Tool | Function, *, era: Era = "modern") -> dict[str, Any]:
    """The entry of a tool in the listing, as it went over the wire."""
    with trio.fail_after(10):
        async with open_functions(tool, protocol=era) as connection:
            (found,) = connection.tools
            return found.spec.raw


# --- a client that says what a test likes


class Client(Peer):
    """The client's end of a stream to a server."""

    def __init__(self, stream: Any, service: StreamService) -> None:
        super().__init__(stream.receive_stream, stream.send_stream)
        self.service = service
        self._ids = iter(range(1, 10**6))

    async def ask(self, method: str, params: Mapping[str, Any] | None = None, *, id_: Any = None) -> Any:
        """Send a request; its id."""
        id_ = next(self._ids) if id_ is None else id_
        await self.send({"id": id_, "method": method, **({} if params is None else {"params": params})})
        return id_

    async def tell(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Send a notification."""
        await self.send({"method": method, **({} if params is None else {"params": params})})

    async def request(self, method: str, params: Mapping[str, Any] | None = None) -> Message:
        """Send a request; the next message has to be its answer."""
        id_ = await self.ask(method, params)
        answer = await self.take()
        assert answer["id"] == id_
        return answer

    async def modern(self, method: str, **params: Any) -> Message:
        """A request with the metadata of the modern era, and its answer; `meta` is added to that."""
        return await self.request(method, modern(**params))

    async def initialize(self, revision: str = "2025-11-25", **capabilities: Any) -> Message:
        """The handshake of the legacy era."""
        params = {**HANDSHAKE, "protocolVersion": revision, "capabilities": capabilities}
        answer = await self.request("initialize", params)
        await self.tell("notifications/initialized")
        return answer

    async def silent(self) -> bool:
        """Whether the server has said nothing: the answer to a ping comes next."""
        return await self.request("ping") == {"jsonrpc": "2.0", "id": self._last, "result": {}}

    @property
    def _last(self) -> int:
        return next(self._ids) - 1


def modern(**params: Any) -> dict[str, Any]:
    """Params with the metadata of the modern era; `meta` is added to it (keys without a slash get the prefix)."""
    own = {
        key if "/" in key or key == "progressToken" else META_PREFIX + key: value
        for key, value in params.pop("meta", {}).items()
    }
    return {**params, "_meta": {**META, **own}}


@asynccontextmanager
async def raw(
    *tools: Tool | Function,
    server: ToolServer | None = None,
    grace: float = 1.0,
    limit: float = 10,
    **options: Any,
) -> AsyncIterator[Client]:
    """A server on a stream, for at most `limit` seconds, and a client that says what a test likes.

    `options` are those of `StreamService`.
    """
    from trio_mcp.functions.decorators import tool

    if server is None:
        server = ToolServer("raw")
        server.add_tools(*(one if isinstance(one, Tool) else tool(one) for one in tools))
    ours, theirs = memory_stream_pair()
    service = StreamService(server, theirs, theirs, grace=grace, **options)
    with trio.fail_after(limit):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(service.run)
            yield Client(ours, service)
            nursery.cancel_scope.cancel()


def text_of(answer: Message) -> str:
    """The text of the only block of a tool's result."""
    (block,) = answer["result"]["content"]
    text: str = block["text"]
    return text


def as_json(value: Any) -> str:
    """Compact JSON, as the library writes it."""
    return json.dumps(value, separators=(",", ":"))


Waiting = Callable[[], Awaitable[None]]
