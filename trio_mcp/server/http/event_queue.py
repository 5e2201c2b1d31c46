"""What waits to be sent to one client as server-sent events, and the sending. Knows no method of MCP."""

from __future__ import annotations

from collections import deque

import trio

from .asgi import EVENTS, Request

#: Messages that wait for a client at most, and bytes. One that reads too slowly loses the oldest notifications:
#: progress and log messages are news, and tools must not stand still because a stranger does not read.
MOST_MESSAGES = 1000
MOST_BYTES = 16 * 2**20
#: Seconds of silence after which a comment is sent: proxies close what is silent for a minute, some for less.
KEEP_ALIVE = 15.0

EVENT_HEADERS = (
    (b"content-type", EVENTS),
    (b"cache-control", b"no-cache"),
    # basic/transports/streamable-http: without it, proxies hold events back.
    (b"x-accel-buffering", b"no"),
)


class EventQueue:
    """Messages for one stream of events, each encoded on one line."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[bytes, bool]] = deque()
        self._size = 0
        self._news = trio.Event()
        self._is_closed = False

    def __repr__(self) -> str:
        return f"<EventQueue, {len(self._waiting)} waiting{', closed' if self._is_closed else ''}>"

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, line: bytes, *, droppable: bool = True, once: bool = False) -> bool:
        """Send a message; whether it was taken. With `once` it need not wait twice."""
        if self._is_closed:
            return False
        if once and any(line == waiting for waiting, _ in self._waiting):
            return True
        self._waiting.append((line, droppable))
        self._size += len(line)
        while len(self._waiting) > MOST_MESSAGES or (self._size > MOST_BYTES and len(self._waiting) > 1):
            if not self._drop_oldest():
                break
        self._news.set()
        return True

    def close(self) -> None:
        """Nothing more will come; what waits is still sent."""
        self._is_closed = True
        self._news.set()

    def clear(self) -> None:
        """Nobody will read it: what waits is forgotten."""
        self.close()
        self._waiting.clear()
        self._size = 0

    async def take(self) -> bytes:
        """Wait for messages: all that are there, as events. Empty once no more will come."""
        while not self._waiting:
            if self._is_closed:
                return b""
            self._news = trio.Event()
            await self._news.wait()
        events = b"".join([b"data: %b\n\n" % line.rstrip(b"\n") for line, _ in self._waiting])
        self._waiting.clear()
        self._size = 0
        return events

    def _drop_oldest(self) -> bool:
        for index, (line, droppable) in enumerate(self._waiting):
            if droppable:
                del self._waiting[index]
                self._size -= len(line)
                return True
        return False


class Turn:
    """One stream's turn at a queue that another may take over. `end` never cuts short what is being sent."""

    def __init__(self) -> None:
        self.is_over = False
        self.waiting = trio.CancelScope()

    def end(self) -> None:
        """Take nothing more from the queue."""
        self.is_over = True
        self.waiting.cancel()


async def send_events(request: Request, queue: EventQueue, turn: Turn | None = None) -> None:
    """Answer a request with what comes into the queue, until that is closed, or the turn ends.

    Raises:
        DisconnectedError: the client has gone.
    """
    await request.begin(200, EVENT_HEADERS)
    if turn is None:
        turn = Turn()
    else:  # it may be long until something comes, and servers may hold back the head until there is a body
        await request.write(b": open\n\n")
    while not turn.is_over:
        events: bytes | None = None
        with trio.move_on_after(KEEP_ALIVE) as turn.waiting:
            events = await queue.take()
        if events == b"" or (events is None and turn.is_over):
            break
        await request.write(b": still here\n\n" if events is None else events)
    await request.write(b"", more=False)
