"""One call through wrappers, to whatever runs it. Knows neither toolboxes nor servers."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING

from ..models.result import ToolResult
from .policy import ToolCall

if TYPE_CHECKING:
    from .policy import Proceed, Wrapper


async def run_wrapped(wrap: Iterable[Wrapper], call: ToolCall, run: Proceed) -> ToolResult:
    """Run a call through wrappers, the outermost first; the innermost goes on to `run`.

    Raises:
        TypeError: a wrapper returned no result, or went on with what is no call.
        ValueError: a wrapper went on with a call of another tool.
        Exception: whatever wrappers and `run` raise.
    """
    for wrapper in reversed(tuple(wrap)):
        run = partial(_through, wrapper, run)
    return await run(call)


async def _through(wrapper: Wrapper, onward: Proceed, call: ToolCall) -> ToolResult:
    async def proceed(changed: ToolCall) -> ToolResult:
        if not isinstance(changed, ToolCall):
            raise TypeError(f"a wrapper went on with {type(changed).__name__} instead of a ToolCall")
        if changed.name != call.name:
            raise ValueError(f'a wrapper turned a call of "{call.name}" into one of "{changed.name}"')
        return await onward(changed)

    result = await wrapper(call, proceed)
    if not isinstance(result, ToolResult):
        raise TypeError(f'a wrapper of "{call.name}" returned {type(result).__name__} instead of a ToolResult')
    return result
