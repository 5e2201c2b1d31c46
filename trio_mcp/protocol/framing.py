"""Bytes in, lines out: linear in the bytes, with a cap on one line.

The specification says it for stdio: "Messages are delimited by newlines, and MUST NOT contain embedded
newlines" (basic/transports). Only the byte 0x0A ends a line: U+2028 and its kin are text, and a character that
a chunk cuts in two is whole again before anybody decodes it.
"""

from __future__ import annotations

#: One line may be this long: many times any sensible result, and little enough to fit into memory.
MAX_LINE = 256 * 1024 * 1024


class LineBuffer:
    """Collects chunks and gives out whole lines, without their ends (LF or CRLF).

    >>> buffer = LineBuffer()
    >>> buffer.feed(b"one\\ntw"), buffer.feed(b"o\\r\\nthree"), buffer.finish()
    ([b'one'], [b'two'], b'three')
    """

    __slots__ = ("_maximum", "_pieces", "_size", "overflowed")

    def __init__(self, maximum: int = MAX_LINE) -> None:
        self._maximum = maximum
        self._pieces: list[bytes] = []  # of the line that has not ended yet; joined once, when it ends
        self._size = 0
        #: A line was longer than the maximum. What came before it has been given out; the rest is dropped.
        self.overflowed = False

    def feed(self, chunk: bytes | bytearray) -> list[bytes]:
        """Take one chunk; return the lines that it completes."""
        lines: list[bytes] = []
        if self.overflowed:
            return lines
        *ends, rest = bytes(chunk).split(b"\n")
        for end in ends:
            line = self._completed(end)
            if len(line) > self._maximum:
                self.overflowed = True
                return lines
            lines.append(line)
        if rest:
            self._pieces.append(rest)
            self._size += len(rest)
            # One more than the maximum: it may be the CR of a line that is just within.
            if self._size > self._maximum + 1:
                self.overflowed = True
                self._pieces.clear()
        return lines

    def finish(self) -> bytes | None:
        """The last line, where the stream ended without a newline; None where nothing is left."""
        line = self._completed(b"")
        self.overflowed = self.overflowed or len(line) > self._maximum
        return None if self.overflowed else line or None

    def _completed(self, end: bytes) -> bytes:
        if self._pieces:
            self._pieces.append(end)
            end = b"".join(self._pieces)
            self._pieces.clear()
            self._size = 0
        return end[:-1] if end.endswith(b"\r") else end
