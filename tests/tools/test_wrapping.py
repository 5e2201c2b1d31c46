"""Wrappers around one call: their order, what they may go on with, what they may return."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
import trio

from trio_mcp import ToolCall, ToolResult
from trio_mcp.tools.wrapping import call_through

CALL = ToolCall("1", "add", {"a": 1})


async def run(call: ToolCall) -> ToolResult:
    await trio.lowlevel.checkpoint()
    return ToolResult(f"{call.arguments}")


async def through(*wrap: Any) -> str:
    return (await call_through(wrap, CALL, run)).content


async def test_without_wrappers_the_call_is_run() -> None:
    assert await through() == "{'a': 1}"


async def test_the_first_wrapper_is_the_outermost_and_each_may_change_the_arguments() -> None:
    def adding(key: str) -> Any:
        async def wrapper(call: ToolCall, proceed: Any) -> ToolResult:
            return ToolResult(
                f"{key}({(await proceed(attrs.evolve(call, arguments=[*call.arguments, key]))).content})"
            )

        return wrapper

    call = ToolCall("1", "add", [])
    result = await call_through([adding("outer"), adding("inner")], call, run)
    assert result.content == "outer(inner(['outer', 'inner']))"
    assert call.arguments == []


async def test_a_wrapper_may_go_on_twice_at_once_or_not_at_all() -> None:
    async def twice(call: ToolCall, proceed: Any) -> ToolResult:
        results: list[str] = []

        async def one() -> None:
            results.append((await proceed(call)).content)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(one)
            nursery.start_soon(one)
        return ToolResult(" ".join(results))

    async def never(call: ToolCall, proceed: Any) -> ToolResult:
        return ToolResult("cached")

    assert await through(twice) == "{'a': 1} {'a': 1}"
    assert await through(twice, never) == "cached cached"
    assert await through(never, twice) == "cached"


@pytest.mark.parametrize(
    ("onward", "error", "text"),
    [
        (None, TypeError, 'a wrapper of tool "add" went on with NoneType, not a ToolCall'),
        (ToolCall("1", "other"), ValueError, 'a wrapper of tool "add" went on with a call of "other"'),
    ],
)
async def test_a_wrapper_goes_on_with_a_call_of_the_same_tool(
    onward: Any, error: type[Exception], text: str
) -> None:
    async def wrapper(call: ToolCall, proceed: Any) -> Any:
        return await proceed(onward)

    with pytest.raises(error, match=text):
        await through(wrapper)


@pytest.mark.table("value", [None, "text", {"content": []}])
async def test_a_wrapper_returns_a_result(value: Any) -> None:
    async def wrapper(call: ToolCall, proceed: Any) -> Any:
        return value

    with pytest.raises(TypeError, match=f'a wrapper of tool "add" returned {type(value).__name__}, not a ToolRes'):
        await through(wrapper)


async def test_what_runs_and_wrappers_raise_passes_bare() -> None:
    async def failing(call: ToolCall) -> ToolResult:
        raise KeyError("inner")

    async def wrapper(call: ToolCall, proceed: Any) -> Any:
        return await proceed(call)

    with pytest.raises(KeyError, match="inner"):
        await call_through([wrapper, wrapper], CALL, failing)
