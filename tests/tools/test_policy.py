"""Policy and ToolCall: data, checked at construction."""

from __future__ import annotations

import math
from typing import Any

import attrs
import pytest

from trio_mcp.models.result import ToolResult
from trio_mcp.tools.policy import Policy, ToolCall


async def wrapper(call: ToolCall, proceed: Any) -> ToolResult:
    result: ToolResult = await proceed(call)
    return result


def test_a_policy_says_nothing_by_default() -> None:
    assert attrs.asdict(Policy()) == {
        "timeout": None,
        "max_result_bytes": None,
        "require_approval": False,
        "sequential": False,
        "wrap": (),
        "origin": None,
        "render": None,
    }


def test_a_policy_keeps_what_it_is_given() -> None:
    policy = Policy(
        timeout=0.5, max_result_bytes=0, require_approval=True, sequential=True, wrap=[wrapper], origin="acme"
    )
    assert policy == Policy(
        timeout=0.5, max_result_bytes=0, require_approval=True, sequential=True, wrap=(wrapper,), origin="acme"
    )
    assert policy.wrap == (wrapper,)
    assert hash(policy) == hash(attrs.evolve(policy))


def test_a_policy_is_frozen_and_takes_only_keywords() -> None:
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        Policy().timeout = 5  # type: ignore[misc]
    with pytest.raises(TypeError):
        Policy(5)  # type: ignore[call-arg]


@pytest.mark.table(
    ("field", "value", "error"),
    [
        ("timeout", "5", TypeError),
        ("timeout", True, TypeError),
        ("timeout", -1, ValueError),
        ("timeout", math.nan, ValueError),
        ("max_result_bytes", 1.5, TypeError),
        ("max_result_bytes", True, TypeError),
        ("max_result_bytes", -1, ValueError),
        ("require_approval", None, TypeError),
        ("require_approval", 1, TypeError),
        ("sequential", "no", TypeError),
        ("wrap", wrapper, TypeError),
        ("wrap", None, TypeError),
        ("wrap", "wrapper", TypeError),
        ("wrap", [wrapper, 5], TypeError),
        ("origin", 5, TypeError),
    ],
)
def test_a_wrong_value_names_its_field(field: str, value: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=f"^{field}: "):
        Policy(**{field: value})


def test_a_tool_call_is_three_things() -> None:
    call = ToolCall("call_1", "mcp__time__now", {"a": 1})
    assert (call.id, call.name, call.arguments) == ("call_1", "mcp__time__now", {"a": 1})
    assert call == ToolCall(id="call_1", name="mcp__time__now", arguments={"a": 1})
    assert attrs.evolve(call, arguments=b"{}").arguments == b"{}"
