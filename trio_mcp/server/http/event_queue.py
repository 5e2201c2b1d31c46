"""Messages that wait to be sent to one client as server-sent events, and the sending. Knows no method of MCP."""

from __future__ import annotations

from collections import deque

import trio

from ..limits import DEFAULT_LIMITS, ServerLimits
from .asgi import EVENTS, HttpRequest

EVENT_HEADERS = (
    (b"content-type", EVENTS),
    (b"cache-control", b"no-cache"),
    # basic/transports/streamable-http: without it, proxies hold events back.
    (b"x-accel-buffering", b"no"),
)


class EventQueue:
    """Messages for one stream of events, each encoded on one line.

    Bounded: the oldest messages that may be dropped make room for new ones.
    """

    def __init__(self, limits: ServerLimits = DEFAULT_LIMITS) -> None:
        self._limits = limits
        self._waiting: deque[tuple[bytes, bool]] = deque()
        self._size = 0
        self._news = trio.Event()
        self._is_closed = False

    def __repr__(self) -> str:
        return f"<EventQueue, {len(self._waiting)} waiting{', closed' if self._is_closed else ''}>"

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, line: bytes, *, droppable: bool = True, once: bool = False) -> bool:
        """Queue a message; whether it was taken. `once`: skip it if an equal message is queued."""
        if self._is_closed:
            return False
        if once and any(line == waiting for waiting, _ in self._waiting):
            return True
        self._waiting.append((line, droppable))
        self._size += len(line)
        while self._is_too_full():
            if not self._drop_oldest():
                break
        self._news.set()
        return True

    @property
    def keep_alive(self) -> float:
        """Seconds without a message after which a comment is sent."""
        return self._limits.keep_alive

    def close(self) -> None:
        """Take no more messages; queued ones are still sent."""
        self._is_closed = True
        self._news.set()

    def clear(self) -> None:
        """Take no more messages, and discard the queued ones: the client does not read any more."""
        self.close()
        self._waiting.clear()
        self._size = 0

    async def take(self) -> bytes:
        """Wait for messages, and take all of them, as events. Empty once the queue is closed and sent."""
        while not self._waiting:
            if self._is_closed:
                return b""
            self._news = trio.Event()
            await self._news.wait()
        events = b"".join([b"data: %b\n\n" % line.rstrip(b"\n") for line, _ in self._waiting])
        self._waiting.clear()
        self._size = 0
        return events

    def _is_too_full(self) -> bool:
        waiting = len(self._waiting)
        return waiting > self._limits.max_queued or (self._size > self._limits.max_queued_bytes and waiting > 1)

    def _drop_oldest(self) -> bool:
        for index, (line, droppable) in enumerate(self._waiting):
            if droppable:
                del self._waiting[index]
                self._size -= len(line)
                return True
        return False


class StreamTurn:
    """The time in which one stream sends from a queue, until another stream takes over.

    `end` never cuts short an event that is being sent.
    """

    def __init__(self) -> None:
        self.is_over: bool = False
        self.waiting: trio.CancelScope = trio.CancelScope()

    def end(self) -> None:
        """Send nothing more from the queue."""
        self.is_over = True
        self.waiting.cancel()


async def send_events(request: HttpRequest, queue: EventQueue, turn: StreamTurn | None = None) -> None:
    """Answer a request with the messages of a queue, until that is closed, or the turn ends.

    Raises:
        DisconnectedError: the client has gone.
    """
    await request.begin(200, EVENT_HEADERS)
    if turn is None:
        turn = StreamTurn()
    else:  # the first message may be long in coming, and ASGI servers may hold back the head until there is a body
        await request.write(b": open\n\n")
    while not turn.is_over:
        events: bytes | None = None
        with trio.move_on_after(queue.keep_alive) as turn.waiting:
            events = await queue.take()
        if events == b"" or (events is None and turn.is_over):
            break
        await request.write(b": still here\n\n" if events is None else events)
    await request.write(b"", more=False)
