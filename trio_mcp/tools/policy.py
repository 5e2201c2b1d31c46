"""`Policy`, the decisions of an application about a tool, as data; and `ToolCall`, the call that they are about.

Nothing here carries a policy out: a toolbox does.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, get_args

from attrs import Attribute, field, frozen

from ..models.result import ToolResult
from .rendering import Render


@frozen
class ToolCall:
    """One call that a model asked for.

    Attributes:
        id: the provider's id of the call, which goes back with the outcome.
        name: the tool's name as the model gave it; whether there is such a tool shows when the call runs.
        arguments: as `Tool.call` takes them: a mapping, raw JSON as the model wrote it, or None.

    >>> ToolCall("call_1", "add", '{"a": 2, "b": 3}').name
    'add'
    """

    id: str
    name: str
    arguments: Any = None


#: Carries out a call; a wrapper is given one to go on with.
Proceed = Callable[[ToolCall], Awaitable[ToolResult]]
#: An async function around each call of a tool.
Wrapper = Callable[[ToolCall, Proceed], Awaitable[ToolResult]]


def as_wrappers(wrap: Iterable[Wrapper]) -> tuple[Wrapper, ...]:
    """A `wrap` argument, checked.

    Raises:
        TypeError: it is no sequence of functions; the message begins with "wrap".
    """
    if not isinstance(wrap, Iterable):
        raise TypeError(f"wrap: expected a sequence of wrappers, got {type(wrap).__name__}")
    wrappers = tuple(wrap)
    for wrapper in wrappers:
        if not callable(wrapper):
            raise TypeError(f"wrap: expected async functions, got {type(wrapper).__name__}")
    return wrappers


def _check_timeout(_: Any, __: Attribute[float | None], value: Any) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"timeout: expected seconds or None, got {type(value).__name__}")
    if not value >= 0:  # NaN too
        raise ValueError(f"timeout: {value} is no number of seconds")


def _check_max_result_bytes(_: Any, __: Attribute[int | None], value: Any) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"max_result_bytes: expected int or None, got {type(value).__name__}")
    if value < 0:
        raise ValueError(f"max_result_bytes: {value} is negative")


def _check_flag(_: Any, attribute: Attribute[bool], value: Any) -> None:
    if type(value) is not bool:
        raise TypeError(f"{attribute.name}: expected bool, got {type(value).__name__}")


def _check_origin(_: Any, __: Attribute[str | None], value: Any) -> None:
    if value is not None and not isinstance(value, str):
        raise TypeError(f"origin: expected str or None, got {type(value).__name__}")


def _check_render(_: Any, __: Attribute[Render | None], value: Any) -> None:
    if value is not None and value not in get_args(Render):
        raise ValueError(f'render: expected "content", "structured" or None, got {value!r}')


@frozen(kw_only=True)
class Policy:
    """Your decisions about a tool. They add to what the tool's annotations demand, and never take away from it.

    `Toolbox.run` carries it out. `Tool.call` and `ToolServer` do not; `ToolServer.add_tools` refuses a tool that
    requires approval, since MCP has no channel for that. `add_agent` carries out the wrappers, and lists a tool
    that requires approval and fails its calls.

    Args:
        timeout: seconds that one call may take, with its wrappers; waiting for its turn and for approval apart.
        max_result_bytes: the length that a result's text is cut to, in bytes of UTF-8; a line after it says how
            many are missing. Images and structured output are not cut.
        require_approval: the tool runs only after somebody has said yes.
        sequential: the tool runs alone, even where its server calls it read-only.
        wrap: async functions `(call, proceed) -> ToolResult` around each call, the outermost first. `await
            proceed(call)` goes on: never, once or again, with other arguments too, but with the same tool.
        origin: the tool's `origin`, in place of "mcp" or "local".
        render: the text that a model reads of a result, in a `Toolbox` and from `Tool.invoke`. "content" is the
            blocks, and the structured output's JSON only where there are none; "structured" is the structured
            output's JSON, and the blocks only where there is none. None is "structured" for a tool that
            `import_tools` gave, which programs mostly read, and "content" for every other.

    Raises:
        TypeError: a field has the wrong type; the message begins with its name.
        ValueError: a number is negative or NaN, or `render` is no such word; likewise.

    >>> Policy(timeout=30, require_approval=True).timeout
    30
    """

    timeout: float | None = field(default=None, validator=_check_timeout)
    max_result_bytes: int | None = field(default=None, validator=_check_max_result_bytes)
    require_approval: bool = field(default=False, validator=_check_flag)
    sequential: bool = field(default=False, validator=_check_flag)
    wrap: tuple[Wrapper, ...] = field(default=(), converter=as_wrappers)
    origin: str | None = field(default=None, validator=_check_origin)
    render: Render | None = field(default=None, validator=_check_render)


NO_POLICY = Policy()
