"""Limits say at once which of their fields cannot be: not when they are met for the first time."""

from __future__ import annotations

import math
from typing import Any

import attrs
import pytest

from trio_mcp import (
    ClientLimits,
    GatewayLimits,
    InvalidServerError,
    LineLimits,
    ProcessLimits,
    ServerLimits,
    StreamableLimits,
    open_gateway,
)
from trio_mcp.http.limits import PoolLimits

ALL: tuple[Any, ...] = (
    ClientLimits,
    GatewayLimits,
    LineLimits,
    PoolLimits,
    ProcessLimits,
    ServerLimits,
    StreamableLimits,
)
FIELDS = [
    pytest.param(kind, field, id=f"{kind.__name__}.{field.name}") for kind in ALL for field in attrs.fields(kind)
]
NO_LIMITS: tuple[Any, ...] = (-1, -0.5, math.nan, -math.inf, "1", None, True, [], b"1")


@pytest.mark.parametrize(("kind", "field"), FIELDS)
def test_a_limit_that_cannot_be_is_refused_by_its_name(kind: Any, field: Any) -> None:
    for value in NO_LIMITS:
        with pytest.raises(ValueError, match=f"^{field.name}: expected "):
            kind(**{field.name: value})
    if isinstance(getattr(kind(), field.name), int):
        with pytest.raises(ValueError, match=f"^{field.name}: expected an integer"):
            kind(**{field.name: 1.5})
    elif isinstance(getattr(kind(), field.name), float):
        with pytest.raises(ValueError, match=f"^{field.name}: expected "):
            kind(**{field.name: 10**400})  # no clock has such a time


@pytest.mark.parametrize(
    "field",
    [
        *("flush_grace", "term_grace", "kill_grace", "group_grace", "orphan_grace", "drain_grace"),
        *("close_grace", "linger", "delete_patience", "stop_grace", "eof_grace", "discard_patience"),
    ],
)
def test_what_bounds_an_end_is_finite(field: str) -> None:
    (kind,) = (kind for kind in ALL if field in attrs.fields_dict(kind))
    with pytest.raises(ValueError, match=f"^{field}: expected finite seconds"):
        kind(**{field: math.inf})


@pytest.mark.parametrize("limits", [ClientLimits(), {}, 7])
async def test_a_gateway_refuses_other_values_as_its_limits_before_it_starts_anything(limits: Any) -> None:
    with pytest.raises(InvalidServerError, match="limits: expected GatewayLimits"):
        async with open_gateway([], limits=limits):
            pytest.fail("opened")
