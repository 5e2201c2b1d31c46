"""Runs the program's plain functions for log messages and lines of stderr, outside the task that reads them.

A task of the connection calls the function, in the order of the wire: neither the reader nor the drain of stderr
ever waits for it, and an exception in it costs that one item.

Knows neither the connection nor what the items are.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVarTuple

import trio

from ...nursery import must_pass

logger: logging.Logger = logging.getLogger("trio_mcp.client")

#: Items that wait for a slow function; beyond it the oldest is dropped.
WAITING = 1000

Item = TypeVarTuple("Item")


class Callback(Generic[*Item]):
    """A queue of items for one function. The task that calls the function lives only while there are items."""

    def __init__(self, function: Callable[[*Item], object], what: str) -> None:
        self._function = function
        self._what = what
        self._items: deque[tuple[*Item]] | None = None  # made for the first one: most connections have none
        self._nursery: trio.Nursery | None = None
        self._is_delivering = False

    def begin(self, nursery: trio.Nursery) -> None:
        """Deliver from now on, by tasks of this nursery; its end waits until everything is delivered."""
        self._nursery = nursery

    def put(self, *item: *Item) -> None:
        """Hand over one item; never blocks. Nothing after `finish`."""
        if self._nursery is None:
            return
        if self._items is None:
            self._items = deque(maxlen=WAITING)
        self._items.append(item)
        if not self._is_delivering:
            self._is_delivering = True
            self._nursery.start_soon(self._deliver, self._items)

    def finish(self) -> None:
        """Nothing more will come; what waits is delivered."""
        self._nursery = None

    @trio.lowlevel.enable_ki_protection
    async def _deliver(self, items: deque[tuple[*Item]]) -> None:
        # Shielded without a deadline: a plain function cannot wait for trio, and after `finish` nothing comes.
        with trio.CancelScope(shield=True):
            while items:
                try:
                    _call_interruptible(self._function, items.popleft())
                except BaseException as error:  # a user's function must not end the connection
                    if must_pass(error):
                        raise
                    logger.exception("%s raised", self._what)
                await trio.lowlevel.checkpoint()
            self._is_delivering = False


@trio.lowlevel.disable_ki_protection
def _call_interruptible(function: Callable[[*Item], object], item: tuple[*Item]) -> None:
    """A user's function is where a KeyboardInterrupt may hit."""
    function(*item)
