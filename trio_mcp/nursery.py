"""A nursery whose exceptions leave bare, not in a group: its users need not know that there is a nursery.

A plain nursery inside an async context manager turns the user's `ValueError` into
`ExceptionGroup([ValueError])`. The contract here, case by case:

- the body raises: that exception leaves as it is, even where it is a group itself. Errors of tasks become a note
  on it;
- one task raises, and the body does not or was cancelled because of it: the task's exception leaves bare;
- several tasks raise: their group leaves;
- an outer cancel passes as ever, also where the nursery was cancelled too.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio


@asynccontextmanager
async def bare_nursery() -> AsyncIterator[trio.Nursery]:
    """`trio.open_nursery`, with exceptions unwrapped as the head of this file says."""
    of_body: BaseException | None = None
    group: BaseExceptionGroup[BaseException] | None = None
    try:
        async with trio.open_nursery(strict_exception_groups=True) as nursery:
            try:
                yield nursery
            except BaseException as error:  # noqa: BLE001 - kept out of the group, and raised below
                of_body = error
                nursery.cancel_scope.cancel()
    except BaseExceptionGroup as raised:
        group = raised
    # Outside the except clauses: an exception keeps the context that it was raised in.
    of_tasks = None if group is None else group.split(trio.Cancelled)[1]
    inner: BaseException | None = of_tasks
    while isinstance(inner, BaseExceptionGroup) and len(inner.exceptions) == 1:
        inner = inner.exceptions[0]
    try:
        if of_tasks is not None and isinstance(of_body, BaseExceptionGroup):
            of_body = of_body.split(trio.Cancelled)[1]  # cancelled because of a task, and by now over
        if of_body is not None and not isinstance(of_body, trio.Cancelled):
            if inner is not None:
                of_body.add_note(f"meanwhile: {inner!r}")
            raise of_body
        if inner is not None:
            raise inner
        if of_body is not None or group is not None:
            # A Cancelled that an outer scope waits for was taken by the nursery's own cancel, or by the split.
            await trio.lowlevel.checkpoint_if_cancelled()
    finally:
        del of_body, group, of_tasks, inner  # a traceback holds this frame: no cycle through it
