"""What a server process says on stderr: the end of it is kept, whole lines are passed on.

The specification says that a server "MAY write UTF-8 strings to its standard error (stderr) for logging
purposes" (basic/transports): it is no sign of an error, and a pipe that nobody reads stops the server.
"""

from __future__ import annotations

from collections.abc import Callable

import trio

#: How much of the end is kept: a long traceback and what led to it.
TAIL = 64 * 1024
#: A line longer than this is passed on in pieces, so that one without an end needs no memory.
LONGEST_LINE = 64 * 1024


class StderrTail:
    """The last `TAIL` bytes, and each line to `on_line`, which must not block."""

    def __init__(self, on_line: Callable[[str], None] | None = None) -> None:
        self._on_line = on_line
        self._kept = bytearray()
        self._line = b""

    @property
    def text(self) -> str:
        """The tail as text; bytes that are no UTF-8 are shown as U+FFFD."""
        return bytes(self._kept[-TAIL:]).decode("utf-8", errors="replace")

    async def drain(self, stream: trio.abc.ReceiveStream) -> None:
        """Read until the stream ends."""
        try:
            while chunk := await stream.receive_some(TAIL):
                self.feed(chunk)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        if self._line:
            self._pass_on(self._line)

    def feed(self, chunk: bytes | bytearray) -> None:
        """Take one chunk."""
        self._kept += chunk
        if len(self._kept) > 2 * TAIL:  # cut rarely: each cut moves the rest
            del self._kept[:-TAIL]
        if self._on_line is None:
            return
        *ends, rest = (self._line + chunk).split(b"\n")
        for line in ends:
            self._pass_on(self._last_piece(line))
        self._line = self._last_piece(rest)

    def _last_piece(self, line: bytes) -> bytes:
        while len(line) > LONGEST_LINE:
            self._pass_on(line[:LONGEST_LINE])
            line = line[LONGEST_LINE:]
        return line

    def _pass_on(self, line: bytes) -> None:
        if self._on_line is not None:
            self._on_line(line.removesuffix(b"\r").decode("utf-8", errors="replace"))
