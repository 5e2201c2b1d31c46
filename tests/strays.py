"""A `trio.Cancelled` whose scope is over, as a function raises it that hands on another one's result."""

from __future__ import annotations

from typing import NoReturn

import trio


async def raise_stray_cancel(*_: object) -> NoReturn:
    """Raise a Cancelled whose scope is over."""
    stray: list[trio.Cancelled] = []
    with trio.CancelScope() as scope:
        scope.cancel()
        try:
            await trio.lowlevel.checkpoint()
        except trio.Cancelled as error:
            stray.append(error)
            raise
    raise stray[0]
