"""Carries one call through its wrappers, the outermost first. Knows nothing of approval, timeouts and caps."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from ..models.result import ToolResult
from .awaiting import awaited
from .policy import Proceed, ToolCall, Wrapper


async def call_through(wrappers: Sequence[Wrapper], call: ToolCall, run: Proceed) -> ToolResult:
    """Carry out a call by `run`, through wrappers: each is given the call and a function that goes on with it.

    A wrapper may go on once, many times or not at all, with other arguments too.

    Raises:
        TypeError: a wrapper went on with something that is no `ToolCall`, or returned no `ToolResult`.
        ValueError: a wrapper went on with a call of another tool.
        Exception: a wrapper or the call raised it.

    Example:
        >>> async def again(call, proceed):
        ...     result = await proceed(call)
        ...     return await proceed(call) if result.is_error else result
        >>> async def run(call):
        ...     return ToolResult("5")
        >>> import trio
        >>> trio.run(call_through, [again], ToolCall("1", "count"), run).content
        '5'
    """
    if not wrappers:
        return await run(call)
    result = await awaited("wrap", wrappers[0](call, partial(_go_on, call.name, wrappers[1:], run)))
    if not isinstance(result, ToolResult):
        raise TypeError(f'a wrapper of tool "{call.name}" returned {type(result).__name__}, not a ToolResult')
    return result


async def _go_on(name: str, wrappers: Sequence[Wrapper], run: Proceed, call: ToolCall) -> ToolResult:
    if not isinstance(call, ToolCall):
        raise TypeError(f'a wrapper of tool "{name}" went on with {type(call).__name__}, not a ToolCall')
    if call.name != name:
        raise ValueError(f'a wrapper of tool "{name}" went on with a call of "{call.name}"')
    return await call_through(wrappers, call, run)
