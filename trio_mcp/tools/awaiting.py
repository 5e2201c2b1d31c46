"""Awaits what a program's async function has given, or says that it was no async function."""

from __future__ import annotations

from inspect import isawaitable
from typing import Any


async def awaited(name: str, pending: object) -> Any:
    """The result of what the function called `name` has given.

    Raises:
        TypeError: it can not be awaited: the function is a plain one.

    >>> import trio
    >>> trio.run(awaited, "on_elicit", 5)
    Traceback (most recent call last):
    TypeError: on_elicit: expected an async function, this one returned int
    """
    if not isawaitable(pending):
        raise TypeError(f"{name}: expected an async function, this one returned {type(pending).__name__}")
    return await pending
