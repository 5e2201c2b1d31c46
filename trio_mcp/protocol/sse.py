"""Server-sent events: chunks of a body in, events out. No I/O; knows nothing of HTTP, replies and sessions.

The format is that of the HTML standard, "Server-sent events": the body is UTF-8 whatever its charset says, a byte
order mark at its beginning is dropped, and LF, CR and CRLF each end a line. A carriage return ends its line at
once: an event that a blank line has ended must not wait for the chunk that could begin with the line feed.

Each line is read when it ends, and of a line only the field's value is kept. So the work is linear in the bytes
however they are cut, and a stream that only comments keep alive holds nothing.
"""

from __future__ import annotations

from contextlib import suppress

import msgspec

from .framing import MAX_LINE

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class ServerSentEvent(msgspec.Struct, frozen=True, gc=False):
    """One event: the type that its `event` field gives ("message" without one), and its data.

    The data are bytes, as the JSON decoder wants them: lines joined by LF, not yet checked to be UTF-8.
    """

    event: str
    data: bytes


class EventBuffer:
    """Collects chunks and gives out whole events, those without data too.

    `last_event_id` is the id of the last event that had one, `retry` the seconds that the server last asked for;
    both can be those of an earlier stream. `events` counts the events that were given out. `overflowed`: an event
    was longer than the maximum; the events before it have been given out, and the rest is dropped.

    >>> buffer = EventBuffer()
    >>> [event.data for event in buffer.feed(b"id: 7\\ndata: one\\n\\ndata: t")], buffer.last_event_id
    ([b'one'], '7')
    >>> [event.data for event in buffer.feed(b"wo\\r\\n\\r")]
    [b'two']
    """

    def __init__(
        self, maximum: int = MAX_LINE, *, last_event_id: str | None = None, retry: float | None = None
    ) -> None:
        self._maximum = maximum
        self._head: bytes | None = b""  # of the body, while it may still become a byte order mark
        self._pieces: list[bytes] = []  # of the line that has not ended; joined once, when it ends
        # The fields of the event that has not ended, and the size of its data and of the line that has not ended.
        self._data: list[bytes] = []
        self._event = self._id = b""
        self._retry: float | None = None
        self._size = 0
        self.events: int = 0
        self.last_event_id = last_event_id
        self.retry = retry
        self.overflowed: bool = False
        self._after_return = False  # the chunk before ended with a carriage return

    def feed(self, chunk: bytes) -> list[ServerSentEvent]:
        """Take one chunk; the events that it completes."""
        if self._head is not None:
            chunk = self._head + chunk
            if chunk != _BYTE_ORDER_MARK and _BYTE_ORDER_MARK.startswith(chunk):
                self._head = chunk
                return []
            self._head = None
            chunk = chunk.removeprefix(_BYTE_ORDER_MARK)
        if self._after_return and chunk[:1] == b"\n":
            chunk = chunk[1:]
            self._after_return = False
        if not chunk or self.overflowed:
            return []
        self._after_return = chunk[-1:] == b"\r"
        if b"\r" in chunk:
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        *lines, rest = chunk.split(b"\n")
        if lines and self._pieces:
            self._size -= sum(map(len, self._pieces))
            lines[0] = b"".join((*self._pieces, lines[0]))
            self._pieces.clear()
        events: list[ServerSentEvent] = []
        for line in lines:
            if not line:
                if self._data or self._event or self._id or self._retry is not None:
                    events.append(self._finished())
            elif line[:5] == b"data:" or line == b"data":
                self._size += len(line)
                if self._size > self._maximum:
                    self._overflow()
                    break
                self._data.append(line[6 if line[5:6] == b" " else 5 :])
            else:
                self._take_field(line)
        if rest and not self.overflowed:
            self._pieces.append(rest)
            self._size += len(rest)
            if self._size > self._maximum:
                self._overflow()
        self.events += len(events)
        return events

    def _finished(self) -> ServerSentEvent:
        """The event that a blank line has ended."""
        if self._id:
            self.last_event_id = _text(self._id)
        if self._retry is not None and self._retry >= 0:
            self.retry = self._retry
        event = ServerSentEvent(_text(self._event) or "message", b"\n".join(self._data))
        self._data.clear()
        self._event = self._id = b""
        self._retry = None
        self._size = 0
        return event

    def _take_field(self, line: bytes) -> None:
        """Take a line that is neither blank nor data; comments and unknown fields do nothing."""
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"event":
            self._event = value
        elif name == b"id":
            # "If the field value does not contain U+0000 NULL, then set the last event ID buffer to the field
            # value. Otherwise, ignore the field."
            if b"\0" not in value:
                self._id = value
        elif name == b"retry":
            with suppress(ValueError, OverflowError):  # no number of milliseconds, or more than a float has
                self._retry = int(_text(value)) / 1000

    def _overflow(self) -> None:
        self.overflowed = True
        self._pieces.clear()
        self._data.clear()


def _text(value: bytes) -> str:
    return value.decode("utf-8", errors="replace")
