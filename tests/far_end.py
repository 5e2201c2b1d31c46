"""A stream transport that runs, and the far end of its stream: a peer that says what a test likes."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import attrs
import trio
from trio.testing import memory_stream_pair, memory_stream_pump, wait_all_tasks_blocked

from trio_mcp.transports.base import Handlers
from trio_mcp.transports.lines.transport import StreamTransport

Message = dict[str, Any]


class EndOfInput(Exception):  # noqa: N818 - no error: the client closed the stream
    """The other side has closed the stream."""


class Peer:
    """The far end of a stream: takes the client's messages one by one, and says what it likes."""

    def __init__(self, receive: trio.abc.ReceiveStream, send: trio.abc.SendStream) -> None:
        self.receive = receive
        self.output = send
        self._sending = trio.Lock()
        self._lines: deque[bytes] = deque()
        self._rest = b""

    async def take(self) -> Message:
        """The next message of the client. Each has to be one line of JSON, or this fails."""
        while not self._lines:
            chunk = await self.receive.receive_some()
            if not chunk:
                assert not self._rest, f"half a line: {self._rest!r}"
                raise EndOfInput
            *lines, self._rest = (self._rest + chunk).split(b"\n")
            self._lines.extend(lines)
        message: Message = json.loads(self._lines.popleft())
        assert message["jsonrpc"] == "2.0"
        return message

    async def send(self, *messages: Mapping[str, Any] | bytes) -> None:
        """Messages, in one write; bytes go as they are, with their line end."""
        data = b"".join(
            message if isinstance(message, bytes) else json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"
            for message in messages
        )
        async with self._sending:
            await self.output.send_all(data)

    async def answer(self, request: Message, result: Any) -> None:
        """A request's result."""
        await self.send({"id": request["id"], "result": result})

    async def refuse(self, request: Message, code: int = -32601, message: str = "no", data: Any = None) -> None:
        """A request's error."""
        await self.send({"id": request["id"], "error": {"code": code, "message": message, "data": data}})


# --- a stream transport and its peer


@attrs.define
class Heard:
    """What a transport has told its three plain functions."""

    notifications: list[tuple[str, bytes]] = attrs.Factory(list)
    questions: list[tuple[int | str, str, bytes]] = attrs.Factory(list)
    ends: list[Exception | None] = attrs.Factory(list)
    #: What to do in the very step in which the reader meets a notification of that method.
    on: dict[str, Callable[[], object]] = attrs.Factory(dict)

    @property
    def handlers(self) -> Handlers:
        """The three functions."""
        return Handlers(
            on_notification=self._notified,
            on_request=lambda id_, method, params: self.questions.append((id_, method, params)),
            on_end=self.ends.append,
        )

    def _notified(self, method: str, params: bytes) -> None:
        self.notifications.append((method, params))
        self.on.get(method, lambda: None)()


@attrs.define
class Talk:
    """A stream transport that runs, its peer, and what it has heard."""

    transport: StreamTransport
    peer: Peer
    heard: Heard
    nursery: trio.Nursery

    def start(self, method: str = "m", params: bytes = b"{}", **options: Any) -> Call:
        """Start a request in a task of its own."""
        call = Call(self.transport, method, params, options)
        self.nursery.start_soon(call.run)
        return call

    async def ask(self, method: str = "m", params: bytes = b"{}", **options: Any) -> tuple[Call, Message]:
        """Start a request in a task of its own, and let the peer take it."""
        return self.start(method, params, **options), await self.peer.take()


class Call:
    """One request in a task of its own: its scope, and how it ended."""

    def __init__(self, transport: StreamTransport, method: str, params: bytes, options: dict[str, Any]) -> None:
        self._transport = transport
        self._request = (method, params)
        self._options = options
        self.scope = trio.CancelScope()
        self.over = trio.Event()
        self.result: bytes | None = None
        self.error: BaseException | None = None

    async def run(self) -> None:
        """Make the request."""
        with self.scope:
            try:
                self.result = await self._transport.request(*self._request, **self._options)
            except Exception as error:
                self.error = error
        self.over.set()

    async def outcome(self) -> bytes | BaseException | None:
        """Its result or its error; None where it was cancelled."""
        await self.over.wait()
        return self.result if self.error is None else self.error


@asynccontextmanager
async def talking(
    pair: Callable[[], tuple[Any, Any]] = memory_stream_pair, *, limit: float = 5, **options: Any
) -> AsyncIterator[Talk]:
    """A stream transport that runs over one end of a pair, and a peer at the other, for at most `limit` s."""
    ours, theirs = pair()
    heard = Heard()
    transport = StreamTransport(ours.send_stream, ours.receive_stream, heard.handlers, name="peer", **options)
    with trio.fail_after(limit):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(transport.run)
            try:
                yield Talk(transport, Peer(theirs.receive_stream, theirs.send_stream), heard, nursery)
            finally:
                transport.close()


def byte_by_byte() -> tuple[Any, Any]:
    """A `memory_stream_pair` that delivers one byte at a time, each after the one before has been looked at."""
    ends = memory_stream_pair()
    for near, far in (ends, ends[::-1]):
        near.send_stream.send_all_hook = _trickle(near.send_stream, far.receive_stream)
    return ends


def _trickle(send: Any, receive: Any) -> Callable[[], Awaitable[None]]:
    async def trickle() -> None:
        while memory_stream_pump(send, receive, max_bytes=1):
            await wait_all_tasks_blocked()

    return trickle
