"""Reads server-sent events out of a body: bytes in, events out, with a bound. httpx-sse reads the fields.

The body is UTF-8 whatever its charset says, a byte order mark is dropped, and a carriage return ends a line at
once: the event before it must not wait for the next chunk. Knows nothing of replies and sessions.
"""

from __future__ import annotations

import httpx
from httpx_sse import EventSource, ServerSentEvent

from ...protocol.framing import MAX_LINE

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_HEADERS = {"Content-Type": "text/event-stream"}


class EventBuffer:
    """Collects chunks and gives out whole events, those without data too.

    `last_event_id` is the id of the last event that had one, `retry` the seconds that the server last asked for;
    both may come from an earlier stream. `events` counts the events given out.

    >>> buffer = EventBuffer()
    >>> [event.data for event in buffer.feed(b"id: 7\\ndata: one\\n\\ndata: t")], buffer.last_event_id
    (['one'], '7')
    >>> [event.data for event in buffer.feed(b"wo\\r\\n\\r")]
    ['two']
    """

    def __init__(
        self, maximum: int = MAX_LINE, *, last_event_id: str | None = None, retry: float | None = None
    ) -> None:
        self._maximum = maximum
        self._pieces: list[bytes] = []  # of the event that has not ended; joined once, when it ends
        self._size = 0
        self._after_return = False  # the chunk before ended with a carriage return
        self._after_newline = False  # the pieces end with a newline, which is not in them
        self._begun = False
        self.last_event_id = last_event_id
        self.retry = retry
        self.events = 0
        #: An event was longer than the maximum. What came before it has been given out; the rest is dropped.
        self.overflowed = False

    def feed(self, chunk: bytes) -> list[ServerSentEvent]:
        """Take one chunk; the events that it completes."""
        if self._after_return and chunk[:1] == b"\n":
            chunk = chunk[1:]
            self._after_return = False
        if not chunk or self.overflowed:
            return []
        self._after_return = chunk[-1:] == b"\r"
        if b"\r" in chunk:
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        if self._after_newline:
            chunk = b"\n" + chunk
        *ends, rest = chunk.split(b"\n\n")
        blocks = []
        for end in ends:
            self._keep(end)
            if self.overflowed:
                return self._read(blocks)
            blocks.append(b"".join(self._pieces))
            self._pieces.clear()
            self._size = 0
        if not self._pieces:
            rest = _without_comments(rest)
        self._after_newline = rest[-1:] == b"\n"
        self._keep(rest[:-1] if self._after_newline else rest)
        return self._read(blocks)

    def _read(self, blocks: list[bytes]) -> list[ServerSentEvent]:
        """The events of whole blocks, read in one go: a chunk may hold thousands."""
        if blocks and not self._begun:
            self._begun = True
            blocks[0] = blocks[0].removeprefix(_BYTE_ORDER_MARK)
        told = [told for block in blocks if (told := _without_comments(block.lstrip(b"\n") + b"\n").lstrip(b"\n"))]
        if not told:
            return []
        response = httpx.Response(200, headers=_HEADERS, content=b"\n".join(told) + b"\n")
        events = list(EventSource(response).iter_sse())
        self.events += len(events)
        for event in events:
            if event.id:
                self.last_event_id = event.id
            if event.retry is not None and event.retry >= 0:
                self.retry = event.retry / 1000
        return events

    def _keep(self, piece: bytes) -> None:
        if piece:
            self._pieces.append(piece)
            self._size += len(piece)
            self.overflowed = self._size > self._maximum
            if self.overflowed:
                self._pieces.clear()


def _without_comments(text: bytes) -> bytes:
    """Without the comments at its beginning: a quiet stream is kept alive by them, perhaps for days."""
    start = 0
    while text.startswith(b":", start) and (end := text.find(b"\n", start)) >= 0:
        start = end + 1
    return text[start:]
