"""Bytes in, lines out: linear in the bytes, with a cap on one line.

The specification says it for stdio: "Messages are delimited by newlines, and MUST NOT contain embedded
newlines" (basic/transports). Only the byte 0x0A ends a line: U+2028 and its kin are text, and a character that
a chunk cuts in two is whole again before anybody decodes it.

Knows no JSON. No I/O.
"""

from __future__ import annotations

from io import BytesIO

#: One line may be this long, in bytes: many times any sensible result, and it still fits into memory.
MAX_LINE = 256 * 1024 * 1024


class LineBuffer:
    """Collects chunks and gives out whole lines, without their ends (LF or CRLF).

    >>> buffer = LineBuffer()
    >>> buffer.feed(b"one\\ntw"), buffer.feed(b"o\\r\\nthree"), buffer.finish()
    ([b'one'], [b'two'], b'three')
    """

    __slots__ = ("_maximum", "_rest", "_size", "overflowed")

    def __init__(self, maximum: int = MAX_LINE) -> None:
        self._maximum = maximum
        # The line that has not ended yet. A BytesIO grows in place, and gives its bytes out without a copy.
        self._rest = BytesIO()
        self._size = 0
        #: A line was longer than the maximum. What came before it has been given out; the rest is dropped.
        self.overflowed: bool = False

    def feed(self, chunk: bytes | bytearray) -> list[bytes]:
        """Take one chunk; return the lines that it completes."""
        if self.overflowed:
            return []
        *lines, rest = bytes(chunk).split(b"\n")
        if lines:
            longest = self._size + len(chunk)
            if self._size:
                lines[0] = self._completed(lines[0])
            if b"\r" in chunk or lines[0].endswith(b"\r"):
                lines = [line.removesuffix(b"\r") for line in lines]
            if longest > self._maximum:
                for index, line in enumerate(lines):
                    if len(line) > self._maximum:
                        self.overflowed = True
                        return lines[:index]
        if rest:
            self._rest.write(rest)
            self._size += len(rest)
            # One more than the maximum: it may be the CR of a line that is just within.
            if self._size > self._maximum + 1:
                self.overflowed = True
                self._rest = BytesIO()
        return lines

    def begun(self, most: int) -> bytes:
        """The beginning of a line that has not ended yet: so many bytes of it at most."""
        return bytes(self._rest.getbuffer()[:most])

    def finish(self) -> bytes | None:
        """The last line, where the stream ended without a newline; None where nothing is left."""
        line = self._completed(b"").removesuffix(b"\r")
        self.overflowed = self.overflowed or len(line) > self._maximum
        return None if self.overflowed else line or None

    def _completed(self, end: bytes) -> bytes:
        self._rest.write(end)
        line = self._rest.getvalue()
        self._rest = BytesIO()
        self._size = 0
        return line
