"""Two streams of bytes that lead to one another, in one process. Knows nothing of the bytes.

A side that does not read holds up the other, as a full pipe does: only so much waits in between.
"""

from __future__ import annotations

from collections import deque

import trio

#: Bytes that wait between the two sides before a writer waits: what a pipe holds.
BOUND = 64 * 1024


class PairedStream(trio.abc.Stream):
    """One side. Made by `stream_pair`; its end, or that of the other side, wakes whoever waits in it."""

    def __init__(self, send: _OneWay, receive: _OneWay) -> None:
        self._send = send
        self._receive = receive
        self._is_closed = False

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Hand over bytes, as soon as there is room.

        Raises:
            trio.ClosedResourceError: this side was closed.
            trio.BrokenResourceError: the other side was.
        """
        with self._send.writing:
            await trio.lowlevel.checkpoint()
            await self._wait_room()
            self._send.put(bytes(data))

    async def wait_send_all_might_not_block(self) -> None:
        """Wait until there is room. Raises as `send_all`."""
        with self._send.writing:
            await trio.lowlevel.checkpoint()
            await self._wait_room()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """The next bytes; b"" once the other side was closed.

        Raises:
            trio.ClosedResourceError: this side was closed.
        """
        if max_bytes is not None and type(max_bytes) is not int:
            raise TypeError(f"max_bytes: expected int, got {type(max_bytes).__name__}")
        if max_bytes is not None and max_bytes < 1:
            raise ValueError(f"max_bytes: expected at least 1, got {max_bytes}")
        with self._receive.reading:
            await trio.lowlevel.checkpoint()
            while not (self._is_closed or self._receive.size or self._receive.is_over):
                await self._receive.moved.park()
            if self._is_closed:
                raise trio.ClosedResourceError
            return self._receive.take(max_bytes)

    async def aclose(self) -> None:
        """Close this side."""
        self._is_closed = True
        self._send.finish()
        self._receive.finish()
        await trio.lowlevel.checkpoint()

    async def _wait_room(self) -> None:
        while not (self._is_closed or self._send.is_over or self._send.size < self._send.bound):
            await self._send.moved.park()
        if self._is_closed:
            raise trio.ClosedResourceError
        if self._send.is_over:
            raise trio.BrokenResourceError


class _OneAtATime:
    """Refuses a second task in the same place, as every stream of trio does."""

    def __init__(self) -> None:
        self._is_taken = False

    def __enter__(self) -> None:
        if self._is_taken:
            raise trio.BusyResourceError("another task uses this stream")
        self._is_taken = True

    def __exit__(self, *_: object) -> None:
        self._is_taken = False


class _OneWay:
    """What is on its way from one side to the other."""

    def __init__(self, bound: int) -> None:
        self.bound = bound
        self.size: int = 0
        self.is_over: bool = False
        self.moved: trio.lowlevel.ParkingLot = trio.lowlevel.ParkingLot()
        self.reading: _OneAtATime = _OneAtATime()
        self.writing: _OneAtATime = _OneAtATime()
        self._pieces: deque[bytes] = deque()
        self._taken = 0  # of the first piece

    def put(self, data: bytes) -> None:
        if data:
            self._pieces.append(data)
            self.size += len(data)
            self.moved.unpark_all()

    def take(self, most: int | None) -> bytes:
        if not self._pieces:
            return b""
        first = self._pieces[0]
        end = len(first) if most is None else min(len(first), self._taken + most)
        piece = first if (self._taken, end) == (0, len(first)) else first[self._taken : end]
        self._taken = end
        if end == len(first):
            self._pieces.popleft()
            self._taken = 0
        self.size -= len(piece)
        self.moved.unpark_all()
        return piece

    def finish(self) -> None:
        self.is_over = True
        self.moved.unpark_all()


def stream_pair(bound: int = BOUND) -> tuple[PairedStream, PairedStream]:
    """Two streams that lead to one another. A line that is longer than the bound passes whole."""
    there, back = _OneWay(bound), _OneWay(bound)
    return PairedStream(there, back), PairedStream(back, there)
