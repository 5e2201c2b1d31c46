"""A nursery that its users never see: what goes wrong inside leaves as itself, not in a group.

A plain nursery inside an async context manager turns the user's `ValueError` into
`ExceptionGroup([ValueError])`. The contract here, case by case:

- the body raises: that exception leaves, as it is, even where it is a group itself. Whatever else went wrong
  becomes a note on it;
- the body is fine and one task raises: that exception leaves bare;
- several tasks raise: their group leaves;
- cancellation passes as ever.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio


@asynccontextmanager
async def bare_nursery() -> AsyncIterator[trio.Nursery]:
    """`trio.open_nursery`, with errors unwrapped as told above."""
    of_body: BaseException | None = None
    errors: BaseExceptionGroup[BaseException] | None = None
    try:
        async with trio.open_nursery(strict_exception_groups=True) as nursery:
            try:
                yield nursery
            except BaseException as error:
                of_body = error
                raise
    except BaseExceptionGroup as group:
        errors = group
    # Outside the except clause: the exception keeps the context that it was raised in.
    if errors is None:
        return
    try:
        if of_body is not None:
            for other in errors.exceptions:
                if other is not of_body and not isinstance(other, trio.Cancelled):
                    of_body.add_note(f"meanwhile: {other!r}")
            raise of_body
        raise errors if len(errors.exceptions) > 1 else errors.exceptions[0]
    finally:
        del of_body, errors  # a traceback holds this frame: no cycle through it
