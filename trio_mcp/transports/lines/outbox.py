"""Lines on their way to the peer. One task writes; callers only hand whole lines over.

A cancelled `send_all` leaves half a line in a pipe and the connection useless, so no caller ever waits in a
write: the writer joins the lines that have gathered and writes them. A request that still waits here can be taken
back, as if it had never been made.
"""

from __future__ import annotations

from collections.abc import Callable

import trio

from ...protocol.messages import Encoded, joined
from ..limits import LineLimits


class Outbox:
    """Whole lines, written in order by the task that runs `write`.

    `write_now` is a non-blocking write that returns how many bytes it took. Where there is one, a line that finds
    no other before it is written at once, without waking the writer.
    """

    def __init__(
        self,
        send: trio.abc.SendStream,
        write_now: Callable[[bytes], int] | None = None,
        *,
        limits: LineLimits | None = None,
    ) -> None:
        limits = limits or LineLimits()
        self._send = send
        self._write_now = write_now
        self._backlog, self._max_unread, self._batch = limits.backlog, limits.max_unread, limits.batch
        # In order, by request id or by an object of their own. A line longer than a batch stays in pieces.
        self._lines: dict[object, Encoded] = {}
        self._size = 0
        self._unread = 0  # bytes of the lines that are no requests
        self._writing = False
        self._is_open = True
        self._writer = trio.lowlevel.ParkingLot()
        self._waiting = trio.lowlevel.ParkingLot()  # for room, or for all to be written
        self.bytes_out: int = 0

    @property
    def is_full(self) -> bool:
        """Whether a new request must wait for room."""
        return self._size >= self._backlog

    @property
    def is_overfull(self) -> bool:
        """Whether so many notifications and answers wait that the peer must have stopped reading."""
        return self._unread >= self._max_unread

    @property
    def is_empty(self) -> bool:
        """Whether everything has been written."""
        return not self._lines and not self._writing

    def put(self, line: Encoded, key: object = None, *, at_once: bool = False) -> None:
        """Hand over one line. With `at_once`, a short line that finds no other before it is written here and now.

        Raises:
            OSError: only with `at_once`: the pipe is broken.
        """
        if not self._is_open:
            return
        size = _size(line)
        if size <= self._batch:
            line = joined(line)
            if at_once and self._write_now is not None and not self._lines and not self._writing:
                written = self._write_now(line)
                self.bytes_out += written
                if written == size:
                    return
                if written:
                    line, key = line[written:], ("the rest of", key)  # begun: it cannot be taken back
                    size -= written
        if not self._lines and not self._writing:  # else the writer is not asleep
            self._writer.unpark()
        if key is None:
            key = object()
            self._unread += size
        elif key in self._lines:  # a line never takes the place of another
            key = (key, object())
        self._lines[key] = line
        self._size += size

    def is_waiting(self, key: object) -> bool:
        """Whether a line with this key has not been written."""
        return key in self._lines

    def take_back(self, key: object) -> bool:
        """Take back a line that has not been written; whether it was still here."""
        line = self._lines.pop(key, None)
        if line is None:
            return False
        self._size -= _size(line)
        self._waiting.unpark_all()
        return True

    def discard(self) -> None:
        """Drop all lines, now and later: the peer reads no more. Tasks that wait for room or the end go on."""
        self._is_open = False
        self._lines.clear()
        self._size = self._unread = 0
        self._writing = False
        self._waiting.unpark_all()

    async def write(self) -> None:
        """Write the lines that are handed over, for as long as this task lives.

        Raises:
            trio.BrokenResourceError, trio.ClosedResourceError: the stream has broken, or was closed.
        """
        while True:
            while not self._lines:
                await self._writer.park()
            batch = self._take_batch()
            self._writing = True
            try:
                for piece in batch:
                    await self._send.send_all(piece)
                    self.bytes_out += len(piece)
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                self.discard()
                raise
            self._writing = False
            del batch, piece  # large ones are not held while nothing is written
            self._waiting.unpark_all()

    async def wait_room(self) -> None:
        """Wait until a new request may be handed over."""
        while self.is_full:
            await self._waiting.park()

    async def wait_written(self) -> None:
        """Wait until everything has been written."""
        while not self.is_empty:
            await self._waiting.park()

    def _take_batch(self) -> tuple[bytes, ...]:
        if self._size <= self._batch:
            batch = b"".join(self._lines.values())  # type: ignore[arg-type] # so short that all are whole
            self._lines.clear()
            self._size = self._unread = 0
            return (batch,)
        taken: list[object] = []
        size = 0
        for key, line in self._lines.items():
            length = _size(line)
            if taken and size + length > self._batch:
                break
            taken.append(key)
            size += length
            if type(key) is object:
                self._unread -= length
        self._size -= size
        if len(taken) == 1:
            line = self._lines.pop(taken[0])
            return (line,) if isinstance(line, bytes) else line
        return (b"".join([self._lines.pop(key) for key in taken]),)  # type: ignore[misc] # likewise


def _size(line: Encoded) -> int:
    return len(line) if isinstance(line, bytes) else sum(map(len, line))
