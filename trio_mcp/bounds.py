"""Fields of values that hold limits: each checks its number when the value is made, and its error names it.

Every room that has limits takes its fields from here. This file knows no limit and nothing of MCP.
"""

from __future__ import annotations

import math
from typing import Any

import attrs


def count(default: int) -> Any:
    """An integer of at least 1: with nothing at all, what it bounds could not work.

    >>> @attrs.frozen
    ... class Limits:
    ...     rooms: int = count(10)
    >>> Limits(0)
    Traceback (most recent call last):
    ValueError: rooms: expected an integer of at least 1, got 0
    """
    return attrs.field(default=default, validator=_is_count)


def amount(default: int) -> Any:
    """An integer of at least 0, which stands for none."""
    return attrs.field(default=default, validator=_is_amount)


def duration(default: float) -> Any:
    """Seconds above 0; infinity stands for no bound."""
    return attrs.field(default=default, validator=_is_duration)


def patience(default: float) -> Any:
    """Seconds of at least 0; infinity stands for no bound."""
    return attrs.field(default=default, validator=_is_patience)


def grace(default: float) -> Any:
    """Finite seconds of at least 0: the bound of something that must end, such as a shielded clean-up."""
    return attrs.field(default=default, validator=_is_grace)


def of_kind(kind: type[Any]) -> Any:
    """Checks a field that holds other limits."""

    def check(_: object, field: attrs.Attribute[Any], value: Any) -> None:
        if not isinstance(value, kind):
            raise ValueError(f"{field.name}: expected {kind.__name__}, got {value!r}")

    return check


def _is_count(_: object, field: attrs.Attribute[Any], value: Any) -> None:
    if type(value) is not int or value < 1:
        raise ValueError(f"{field.name}: expected an integer of at least 1, got {value!r}")


def _is_amount(_: object, field: attrs.Attribute[Any], value: Any) -> None:
    if type(value) is not int or value < 0:
        raise ValueError(f"{field.name}: expected an integer of at least 0, got {value!r}")


def _is_duration(_: object, field: attrs.Attribute[Any], value: Any) -> None:
    if not _seconds(value) > 0:
        raise ValueError(f"{field.name}: expected seconds above 0, got {value!r}")


def _is_patience(_: object, field: attrs.Attribute[Any], value: Any) -> None:
    if not _seconds(value) >= 0:
        raise ValueError(f"{field.name}: expected seconds of at least 0, got {value!r}")


def _is_grace(_: object, field: attrs.Attribute[Any], value: Any) -> None:
    if not 0 <= _seconds(value) < math.inf:
        raise ValueError(f"{field.name}: expected finite seconds of at least 0, got {value!r}")


def _seconds(value: Any) -> float:
    """The value as trio's clock takes it; NaN, which no comparison holds for, where it cannot be a time."""
    try:
        return float(value) if type(value) in (int, float) else math.nan
    except OverflowError:  # an integer that no float is as large as
        return math.nan
