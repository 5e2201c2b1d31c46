"""How many calls run and how many streams are open, and whether one more may begin. Knows no method of MCP."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import trio

from ...protocol.messages import Id
from .errors import busy


class Capacity:
    """Counts the calls and streams of an app. After `stop` no more may begin."""

    def __init__(self, *, max_running: int, max_streams: int) -> None:
        self.calls: int = 0
        self.streams: int = 0
        self.is_stopping = False
        self._max_running = max_running
        self._max_streams = max_streams
        self._all_done = trio.lowlevel.ParkingLot()

    def __repr__(self) -> str:
        return f"<Capacity: {self.calls} calls, {self.streams} streams>"

    def check(self, id_: Id | None, *, calls: int = 0, streams: int = 0) -> None:
        """Check that so many more may begin.

        Raises:
            Refusal: with 503.
        """
        if self.is_stopping:
            raise busy(id_, "the server is stopping")
        if calls and self.calls + calls > self._max_running:
            raise busy(id_, "too many calls are running")
        if streams and self.streams + streams > self._max_streams:
            raise busy(id_, "too many streams are open")

    def begin_call(self) -> None:
        """Count a call that runs from now on, until `end_call`."""
        self.calls += 1

    def end_call(self) -> None:
        """Count a call that has ended."""
        self.calls -= 1
        if not self.calls:
            self._all_done.unpark_all()

    @contextmanager
    def stream(self) -> Iterator[None]:
        """Count a stream that is open as long as the context lasts."""
        self.streams += 1
        try:
            yield
        finally:
            self.streams -= 1

    async def wait_idle(self) -> None:
        """Wait until no call runs."""
        while self.calls:
            await self._all_done.park()
