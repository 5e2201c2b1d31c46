"""Python functions as tools: `tool`, the decorator, and `raw_tool` for schemas that exist already."""

from __future__ import annotations

import inspect
import logging
import re
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, overload

import msgspec
import trio
from attrs import frozen

from ..errors import InvalidArgumentsError, SkippedToolError
from ..models.result import ToolResult
from ..models.tool import ToolAnnotations, ToolSpec, judge_entry
from ..models.validation import validation_message
from ..protocol.arguments import encode_arguments
from ..protocol.messages import encode_json
from ..tools.context import CallContext, Context
from ..tools.failures import RaisedResult, reason_of
from ..tools.policy import NO_POLICY, Policy
from ..tools.tool import Arguments, Tool
from .docstring import read_docstring
from .returns import Returns
from .signature import Signature

logger = logging.getLogger("trio_mcp.tools")

#: Plain functions that run at once. Their own limiter: trio's default one would stall the start of processes.
THREADS = 40

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_limiter: trio.lowlevel.RunVar[trio.CapacityLimiter] = trio.lowlevel.RunVar("trio_mcp tool threads")

Function = Callable[..., Any]


@overload
def tool(function: Function, /) -> Tool: ...
@overload
def tool(
    *,
    name: str | None = None,
    title: str | None = None,
    description: str | None = None,
    read_only: bool = False,
    policy: Policy | None = None,
) -> Callable[[Function], Tool]: ...
def tool(
    function: Function | None = None,
    /,
    *,
    name: str | None = None,
    title: str | None = None,
    description: str | None = None,
    read_only: bool = False,
    policy: Policy | None = None,
) -> Tool | Callable[[Function], Tool]:
    """Make a function a `Tool` (specification: server/tools).

    Its parameters become the schema of the arguments, its return annotation that of the structured output, its
    docstring the descriptions: what stands before the first section is the tool's, `Args:` has the parameters'.
    Arguments are decoded strictly. An async function runs in the caller's task; a plain one in a worker thread,
    40 at most at once, and nothing waits for a thread that was cancelled. What the function raises is a result
    with `is_error` and the exception's text.

    A `str` is returned as text; content blocks, lists of them and `ToolResult` as they are; None as nothing;
    everything else as JSON, in a text block and as structured output. A value that is not of the annotated type
    is a failure of the tool.

    Args:
        function: typed parameters, no `*args`, `**kwargs` or positional-only ones. A parameter of an async
            function annotated `Context` is injected.
        name: `[A-Za-z0-9_.-]{1,64}`; the function's name when not given.
        title: a name for people.
        description: instead of the docstring's.
        read_only: it changes nothing, and may run beside others.
        policy: see `Policy`.

    Returns:
        The tool; `Tool.function` is the function as it was.

    Raises:
        TypeError: a parameter cannot be a schema; it names function and parameter.
        ValueError: the name is not legal.

    Example:
        >>> @tool(read_only=True)
        ... def add(a: int, b: int) -> int:
        ...     '''Add two numbers.'''
        ...     return a + b
        >>> add.input_schema["required"]
        ['a', 'b']
    """
    options = partial(_make, name=name, title=title, description=description, read_only=read_only, policy=policy)
    return options if function is None else options(function)


def raw_tool(
    name: str, description: str, schema: Mapping[str, Any] | bytes, handler: Callable[[bytes], Any]
) -> Tool:
    """Make a tool of a schema that exists already, and a function that takes the raw argument bytes.

    Args:
        name: `[A-Za-z0-9_.-]{1,64}`.
        description: what models read about it.
        schema: the JSON Schema of its arguments, an object at the root; bytes are listed as they are.
        handler: async or plain `(arguments: bytes)`, the bytes one JSON object; returns what a `tool` may return.

    Raises:
        TypeError: an argument is of the wrong type.
        ValueError: the name is not legal, or the schema is no JSON, or its root no object.

    Example:
        >>> size = raw_tool("size", "Count bytes.", b'{"type": "object"}', lambda arguments: len(arguments))
        >>> size.input_schema_json
        b'{"type": "object"}'
    """
    if not callable(handler):
        raise TypeError(f"handler: expected a function, got {type(handler).__name__}")
    if not isinstance(description, str):
        raise TypeError(f"description: expected str, got {type(description).__name__}")
    _check_name(name)
    raw = schema if isinstance(schema, bytes) else encode_json(schema)
    try:
        msgspec.json.decode(raw, type=msgspec.Raw)
    except msgspec.DecodeError as error:
        raise ValueError(f"schema: {error}") from error
    listed = encode_json({"name": name, "description": description, "inputSchema": msgspec.Raw(raw)})
    spec = judge_entry(listed, 0, ())
    if isinstance(spec, SkippedToolError):
        raise ValueError(f"schema: the root must be an object schema ({spec.reason})") from spec.cause
    return Tool(name, description, spec, _Local(handler, None, Returns()), NO_POLICY, handler, "local")


def _make(
    function: Function,
    *,
    name: str | None,
    title: str | None,
    description: str | None,
    read_only: bool,
    policy: Policy | None,
) -> Tool:
    if not (inspect.isfunction(function) or inspect.ismethod(function)):
        raise TypeError(f"function: expected a function, got {type(function).__name__}")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise TypeError(f"{function.__qualname__}: a generator function: a tool returns once")
    name = function.__name__ if name is None else name
    _check_name(name)
    options = (title, str), (description, str), (read_only, bool), (policy, Policy)
    for field, (value, kind) in zip(("title", "description", "read_only", "policy"), options, strict=True):
        if value is not None and not isinstance(value, kind):
            raise TypeError(f"{field}: expected {kind.__name__}, got {type(value).__name__}")
    from_docstring, of_parameters = read_docstring(function.__doc__)
    signature = Signature(function, of_parameters)
    if signature.context is not None and not inspect.iscoroutinefunction(function):
        raise TypeError(
            f"{function.__qualname__}: {signature.context}: a Context is for async functions: "
            "what it offers is awaited"
        )
    returns = Returns(function)
    description = from_docstring if description is None else description
    annotations = ToolAnnotations(read_only_hint=read_only)
    spec = ToolSpec(
        name,
        signature.schema,
        encode_json(signature.schema),
        title=title,
        description=description or None,
        output_schema=returns.schema if (returns.schema or {}).get("type") == "object" else None,
        output_schema_json=None if returns.schema is None else encode_json(returns.schema),
        annotations=annotations,
    )
    return Tool(
        name, description, spec, _Local(function, signature, returns), policy or NO_POLICY, function, "local"
    )


@frozen
class _Local:
    """Runs a function as a tool. Without a signature the function takes the raw arguments."""

    function: Function
    signature: Signature | None
    returns: Returns

    async def __call__(self, name: str, arguments: Arguments, context: CallContext) -> ToolResult:
        encoded = encode_arguments(name, arguments)
        try:
            keywords = {} if self.signature is None else self.signature.decode(encoded)
        except msgspec.ValidationError as error:
            schema = None if self.signature is None else self.signature.schema
            return _failure(f'arguments for "{name}": {validation_message(error, schema)}')
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise InvalidArgumentsError(name, str(error)) from error
        except Exception as error:  # noqa: BLE001 - whatever the validators of a user's class raise
            return _failure(f'arguments for "{name}": {reason_of(error)}')
        if self.signature is None:
            call = partial(self.function, encoded)
        else:
            if self.signature.context is not None:
                keywords[self.signature.context] = Context(context)
            call = partial(self.function, **keywords)
        try:
            value = await (call() if _is_async(self.function) else _in_thread(call))
        except Exception as error:
            logger.debug('tool "%s" failed', name, exc_info=True)
            # What goes wrong in tidying up does not take the place of the cancel.
            await trio.lowlevel.checkpoint_if_cancelled()
            return RaisedResult.of(error)
        try:
            return self.returns.result(value)
        except Exception as error:  # noqa: BLE001 - what encoding, or the validators of a user's class, raise
            reason = reason_of(error)
            if isinstance(error, msgspec.ValidationError):
                reason = validation_message(error, self.returns.schema)
            return _failure(f'tool "{name}" returned a value that does not match its return type: {reason}')


async def _in_thread(call: Callable[[], Any]) -> Any:
    try:
        limiter = _limiter.get()
    except LookupError:
        limiter = trio.CapacityLimiter(THREADS)
        _limiter.set(limiter)
    (value,) = await trio.to_thread.run_sync(partial(_boxed, call), limiter=limiter, abandon_on_cancel=True)
    return await value if isinstance(value, Awaitable) else value


def _boxed(call: Callable[[], Any]) -> tuple[Any]:
    """In a box, trio takes a coroutine from a thread: that of a plain wrapper around an async function."""
    return (call(),)


def _is_async(function: Function) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


def _check_name(name: Any) -> None:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ValueError(f"name: expected 1 to 64 of A-Z a-z 0-9 _ . -, got {name!r}")


def _failure(text: str) -> ToolResult:
    return ToolResult(text, is_error=True)
