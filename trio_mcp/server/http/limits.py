"""How much runs at once, and whether more may: the bounds of a server that strangers reach."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import trio

from ...protocol.messages import Id
from .errors import busy


class Load:
    """Counts calls and streams. `most_calls` and `most_streams` bound them; after `stop` there may be no more."""

    def __init__(self, most_calls: int, most_streams: int) -> None:
        self.calls = 0
        self.streams = 0
        self.is_stopping = False
        self._most_calls = most_calls
        self._most_streams = most_streams
        self._left = trio.lowlevel.ParkingLot()

    def __repr__(self) -> str:
        return f"<Load: {self.calls} calls, {self.streams} streams>"

    def check(self, id_: Id | None, *, calls: int = 0, streams: int = 0) -> None:
        """Check that so many more may begin.

        Raises:
            Refusal: with 503.
        """
        if self.is_stopping:
            raise busy(id_, "the server is stopping")
        if calls and self.calls + calls > self._most_calls:
            raise busy(id_, "too many calls are running")
        if streams and self.streams + streams > self._most_streams:
            raise busy(id_, "too many streams are open")

    def begin_call(self) -> None:
        """A call runs, until `end_call`."""
        self.calls += 1

    def end_call(self) -> None:
        """A call has ended."""
        self.calls -= 1
        if not self.calls:
            self._left.unpark_all()

    @contextmanager
    def stream(self) -> Iterator[None]:
        """A stream is open as long as this lasts."""
        self.streams += 1
        try:
            yield
        finally:
            self.streams -= 1

    async def wait_idle(self) -> None:
        """Until no call runs."""
        while self.calls:
            await self._left.park()
