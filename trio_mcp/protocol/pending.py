"""Request ids and their waiters: an id is taken, resolved once, and answers without a waiter are counted.

Knows neither what waits nor how an answer is read. No I/O.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

Waiter = TypeVar("Waiter")


def as_number(id: object) -> int | float | None:  # noqa: A002 - the protocol's word
    """An id or token that came back, as the number that it was; some servers return it as a string, or as 1.0.

    >>> as_number(7), as_number("7"), as_number("seven")
    (7, 7, None)
    """
    if isinstance(id, str):
        return int(id) if id.isdecimal() and id.isascii() and len(id) < 20 else None
    return id if isinstance(id, int | float) and not isinstance(id, bool) else None


class PendingTable(Generic[Waiter]):
    """Requests in flight. Ids are integers that only grow, so that none is ever used again.

    >>> table = PendingTable()
    >>> table.add("first"), table.add("second")
    (1, 2)
    >>> table.resolve(2), table.resolve(2), table.late
    ('second', None, 1)
    """

    __slots__ = ("_last", "_waiters", "late")

    def __init__(self) -> None:
        self._waiters: dict[int | float | None, Waiter] = {}
        self._last = 0
        #: Answers without a waiter: repeated, after a cancel, or with an id that was never sent.
        self.late: int = 0

    def __len__(self) -> int:
        return len(self._waiters)

    def __repr__(self) -> str:
        return f"<PendingTable: {len(self)} waiting, {self._last} so far, {self.late} late>"

    def add(self, waiter: Waiter) -> int:
        """Take the next id for this waiter."""
        self._last += 1
        self._waiters[self._last] = waiter
        return self._last

    def resolve(self, id: int | str | float | None) -> Waiter | None:  # noqa: A002 - the protocol's word
        """Remove and return the waiter of an id; None, and counted, where none waits."""
        waiter = self._waiters.pop(id if type(id) is int else as_number(id), None)
        if waiter is None:
            self.late += 1
        return waiter

    def is_waiting(self, id: int | str | float | None) -> bool:  # noqa: A002 - the protocol's word
        """Whether a request with this id is in flight."""
        return as_number(id) in self._waiters

    def resolve_only(self, counts: Callable[[Waiter], bool] = lambda _: True) -> Waiter | None:
        """Remove and return the only waiter that counts, for an error without usable id; None if several do."""
        found = [id_ for id_, waiter in self._waiters.items() if counts(waiter)]
        if len(found) == 1:
            return self._waiters.pop(found[0])
        self.late += 1
        return None

    def forget(self, id: int) -> bool:  # noqa: A002 - the protocol's word
        """Remove the waiter of an id; whether there was one."""
        return self._waiters.pop(id, None) is not None

    def waiters(self) -> list[Waiter]:
        """All waiters."""
        return list(self._waiters.values())

    def take_all(self) -> list[Waiter]:
        """Remove and return all waiters: the connection has ended."""
        waiters = list(self._waiters.values())
        self._waiters.clear()
        return waiters
