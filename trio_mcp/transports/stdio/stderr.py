"""What a server process writes to stderr: the end of it is kept, whole lines are passed on.

The specification says that a server "MAY write UTF-8 strings to its standard error (stderr) for logging
purposes" (basic/transports): it is no sign of an error, and a pipe that is not read stops the server.
"""

from __future__ import annotations

from collections.abc import Callable

import trio

from ..limits import ProcessLimits

#: How much is read at once: what a pipe holds.
CHUNK = 64 * 1024


class StderrTail:
    """The end of stderr as far as the limits allow, and each line to `on_line`, which must not block."""

    def __init__(
        self, on_line: Callable[[str], None] | None = None, *, limits: ProcessLimits | None = None
    ) -> None:
        limits = limits or ProcessLimits()
        self._on_line = on_line
        self._tail, self._longest_line = limits.stderr_tail, limits.stderr_line
        self._kept = bytearray()
        self._line = b""

    @property
    def text(self) -> str:
        """The tail as text; bytes that are no UTF-8 are shown as U+FFFD."""
        return bytes(self._kept[-self._tail :]).decode("utf-8", errors="replace")

    async def drain(self, stream: trio.abc.ReceiveStream) -> None:
        """Read until the stream ends."""
        try:
            while chunk := await stream.receive_some(CHUNK):
                self.feed(chunk)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        if self._line:
            self._pass_on(self._line)

    def feed(self, chunk: bytes | bytearray) -> None:
        """Take one chunk."""
        self._kept += chunk
        if len(self._kept) > 2 * self._tail:  # cut rarely: each cut moves the rest
            del self._kept[: -self._tail]
        if self._on_line is None:
            return
        *ends, rest = (self._line + chunk).split(b"\n")
        for line in ends:
            self._pass_on(self._last_piece(line))
        self._line = self._last_piece(rest)

    def _last_piece(self, line: bytes) -> bytes:
        while len(line) > self._longest_line:
            self._pass_on(line[: self._longest_line])
            line = line[self._longest_line :]
        return line

    def _pass_on(self, line: bytes) -> None:
        if self._on_line is not None:
            self._on_line(line.removesuffix(b"\r").decode("utf-8", errors="replace"))
