"""A nursery whose exceptions leave bare, not in a group: its users need not know that there is a nursery.

A plain nursery inside an async context manager turns the user's `ValueError` into
`ExceptionGroup([ValueError])`. The contract here, case by case:

- something raises that is no `Exception`, such as KeyboardInterrupt: it leaves, whatever else has been raised;
- the body raises: that exception leaves as it is, even where it is a group itself;
- one task raises, and the body does not or was cancelled because of it: the task's exception leaves bare;
- several tasks raise: their group leaves;
- an outer cancel passes as ever, also where the nursery was cancelled too.

What is set aside becomes a note on what leaves, and the end of its chain of contexts: its traceback is shown.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio


@asynccontextmanager
@trio.lowlevel.enable_ki_protection  # not the body, which is no part of this frame
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
    try:
        if of_tasks is not None and isinstance(of_body, BaseExceptionGroup):
            of_body = of_body.split(trio.Cancelled)[1]  # cancelled because of a task, and by now over
        leaving = _leaving(None if isinstance(of_body, trio.Cancelled) else of_body, of_tasks)
        if leaving is not None:
            context = leaving.__context__
            try:
                raise leaving
            finally:
                leaving.__context__ = context  # not what the body was left by
        if of_body is not None or group is not None:
            # A Cancelled that an outer scope waits for was taken by the nursery's own cancel, or by the split.
            await trio.lowlevel.checkpoint_if_cancelled()
    finally:
        leaving = context = None
        del of_body, group, of_tasks  # a traceback holds this frame: no cycle through it


def is_of(error: BaseException, kinds: type[BaseException] | tuple[type[BaseException], ...]) -> bool:
    """Whether an exception is of a kind, or has one of it in it.

    >>> is_of(BaseExceptionGroup("", [KeyboardInterrupt(), ValueError()]), ValueError)
    True
    """
    if isinstance(error, BaseExceptionGroup):
        return error.subgroup(kinds) is not None
    return isinstance(error, kinds)


def must_pass(
    error: BaseException, ends: tuple[type[BaseException], ...] = (KeyboardInterrupt, SystemExit)
) -> bool:
    """Whether an exception of the program's code is no failure of that code alone: a cancel, or the program's end.

    A `trio.Cancelled` is a cancel only where this task is cancelled; otherwise it was meant for another task, and
    is a failure as asyncio's CancelledError or the panic of an extension module are.

    >>> must_pass(KeyboardInterrupt()), must_pass(GeneratorExit()), must_pass(ValueError())
    (True, False, False)
    """
    if is_of(error, ends):
        return True
    return is_of(error, trio.Cancelled) and trio.current_effective_deadline() == -math.inf


def _leaving(
    of_body: BaseException | None, of_tasks: BaseExceptionGroup[BaseException] | None
) -> BaseException | None:
    """The exception that leaves, with the others set aside on it."""
    failures, ends = (None, None) if of_tasks is None else of_tasks.split(Exception)
    in_order = [of_body, _unwrapped(ends), _unwrapped(failures)]
    if isinstance(of_body, Exception):
        in_order[:2] = in_order[1::-1]
    errors = [error for error in in_order if error is not None]
    for error in errors[1:]:
        _set_aside(error, errors[0])
    return errors[0] if errors else None


def _unwrapped(error: BaseException | None) -> BaseException | None:
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def _set_aside(error: BaseException, leaving: BaseException) -> None:
    """Keep an exception that does not leave, with its traceback, on the one that does."""
    try:
        shown = repr(error)
    except Exception:  # noqa: BLE001 - the class of a user may have any __repr__
        shown = type(error).__name__
    leaving.add_note(f"meanwhile: {shown}")
    last, seen = leaving, _chain(error)
    while (inner := last.__cause__ or last.__context__) is not None and id(inner) not in seen:
        seen.add(id(last))
        last = inner
    if last is not error and id(last) not in _chain(error):
        last.__context__ = error


def _chain(error: BaseException | None) -> set[int]:
    found: set[int] = set()
    while error is not None and id(error) not in found:
        found.add(id(error))
        error = error.__cause__ or error.__context__
    return found
