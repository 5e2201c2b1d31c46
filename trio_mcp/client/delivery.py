"""What a server says on the side (log messages, lines of stderr), brought to a user's plain function.

In the order of the wire, by a task of the connection: neither the reader nor the drain of stderr ever waits for
the function, and an exception in it costs that one item.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVarTuple

import trio

logger = logging.getLogger("trio_mcp.client")

#: Items that wait for a slow function; beyond it the oldest is dropped.
WAITING = 1000

Item = TypeVarTuple("Item")


class Delivery(Generic[*Item]):
    """Items on their way to one function."""

    def __init__(self, function: Callable[[*Item], object], what: str) -> None:
        self._function = function
        self._what = what
        self._items: deque[tuple[*Item]] = deque(maxlen=WAITING)
        self._finished = False
        self._idle = trio.lowlevel.ParkingLot()

    def put(self, *item: *Item) -> None:
        """Hand over one item; never blocks."""
        self._items.append(item)
        self._idle.unpark()

    def finish(self) -> None:
        """Nothing more will come: `run` delivers what waits and returns."""
        self._finished = True
        self._idle.unpark()

    @trio.lowlevel.enable_ki_protection
    async def run(self) -> None:
        """Deliver until `finish`."""
        # Shielded without a deadline: `finish` ends it, and a plain function cannot wait for trio.
        with trio.CancelScope(shield=True):
            while self._items or not self._finished:
                if not self._items:
                    await self._idle.park()
                    continue
                item = self._items.popleft()
                try:
                    _in_the_open(self._function, item)
                except Exception:  # a user's function must not end the connection
                    logger.exception("%s raised", self._what)
                await trio.lowlevel.checkpoint()


@trio.lowlevel.disable_ki_protection
def _in_the_open(function: Callable[[*Item], object], item: tuple[*Item]) -> None:
    """A user's function is where a KeyboardInterrupt may hit."""
    function(*item)
