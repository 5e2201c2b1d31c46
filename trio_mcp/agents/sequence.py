"""Lets the sequential calls of a toolbox run one at a time, calls inside of calls included. Knows no call."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar

import trio


class SequentialCalls:
    """A queue of sequential calls: whoever is inside has the place alone.

    A sequential call may itself run calls in the same toolbox. Those must not wait for its end, which waits for
    them: within its place there is a queue of their own.
    """

    def __init__(self) -> None:
        self._lock = trio.Lock()

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """Wait for the place, and keep it."""
        around = outer = _places.get()
        while around is not None and (around.sequence is not self or around.is_over):
            around = around.outer
        async with self._lock if around is None else around.lock:
            place = _Place(self, outer)
            token = _places.set(place)
            try:
                yield
            finally:
                place.is_over = True
                _places.reset(token)


class _Place:
    """The place of one sequential call. A task that outlives the call still sees it, and must not use it."""

    def __init__(self, sequence: SequentialCalls, outer: _Place | None) -> None:
        self.sequence = sequence
        self.outer = outer
        self.lock = trio.Lock()
        self.is_over = False


_places: ContextVar[_Place | None] = ContextVar("trio_mcp sequential calls", default=None)
