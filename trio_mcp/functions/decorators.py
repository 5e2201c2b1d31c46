"""Python functions as tools: `tool`, the decorator, and `raw_tool` for schemas that exist already.

What a function takes is read in signature.py, what it returns in returns.py, and how it runs is in local_tool.py.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ParamSpec, Protocol, TypeVar, overload

import msgspec

from ..errors import SkippedToolError
from ..models.icon import Icon
from ..models.tool import ToolSpec, judge_entry
from ..protocol.messages import check_json, encode_json
from ..tools.policy import Policy
from .docstring import read_docstring
from .local_tool import FunctionRun, LocalTool
from .options import ToolOptions, check_name
from .returns import Returns
from .signature import Signature

P = ParamSpec("P")
R = TypeVar("R")


class ToolDecorator(Protocol):
    """What `tool(...)` with options gives: it makes a `LocalTool` of a function."""

    def __call__(self, function: Callable[P, R], /) -> LocalTool[P, R]: ...


@overload
def tool(function: Callable[P, R], /) -> LocalTool[P, R]: ...
@overload
def tool(
    *,
    name: str | None = None,
    title: str | None = None,
    description: str | None = None,
    read_only: bool | None = None,
    destructive: bool | None = None,
    idempotent: bool | None = None,
    open_world: bool | None = None,
    meta: Mapping[str, Any] | None = None,
    icons: Iterable[Icon] = (),
    policy: Policy | None = None,
) -> ToolDecorator: ...
def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    title: str | None = None,
    description: str | None = None,
    read_only: bool | None = None,
    destructive: bool | None = None,
    idempotent: bool | None = None,
    open_world: bool | None = None,
    meta: Mapping[str, Any] | None = None,
    icons: Iterable[Icon] = (),
    policy: Policy | None = None,
) -> LocalTool[..., Any] | ToolDecorator:
    """Make a function a tool (specification: server/tools). Calling the tool still calls the function.

    Its parameters become the schema of the arguments, its return annotation that of the structured output, its
    docstring the descriptions (Google, NumPy or Sphinx form). Arguments are decoded strictly. An async function
    runs in the caller's task; a plain one in a worker thread, 40 at most at once, and nothing waits for a thread
    that was cancelled. What the function raises is a result with `is_error` and the exception's text.

    A `str` is returned as text; content blocks, lists of them and `ToolResult` as they are; None as nothing;
    everything else as JSON, in a text block and as structured output. A value that is not of the annotated type
    is a failure of the tool.

    Parameters may have any type that msgspec takes, `pathlib.Path`, pydantic's types, and unions of classes that
    their fields tell apart. `msgspec.Meta`, `annotated_types`, `pydantic.Field`, `Doc` and a bare string in
    `Annotated` are honoured, or refused here.

    Args:
        function: typed parameters, no `*args`, `**kwargs` or positional-only ones. A parameter of an async
            function annotated `Context` is injected.
        name: `[A-Za-z0-9_.-]{1,64}`; the function's name when not given.
        title: a name for people.
        description: instead of the docstring's.
        read_only: it changes nothing, and may run beside others.
        destructive: it may delete or overwrite something; False: it only adds.
        idempotent: calling it again with the same arguments changes nothing more.
        open_world: it deals with things outside of its own domain, as a web search does.
        meta: listed as `_meta`.
        icons: for whoever shows the tool.
        policy: see `Policy`.

    Returns:
        The tool; `LocalTool.function` is the function as it was.

    Raises:
        TypeError: a parameter cannot be a schema, and it names function and parameter; or an option is of the
            wrong type, and the message begins with its name.
        ValueError: the name is not legal.

    Example:
        >>> @tool(read_only=True)
        ... def add(a: int, b: int) -> int:
        ...     '''Add two numbers.'''
        ...     return a + b
        >>> add.input_schema["required"]
        ['a', 'b']
        >>> add(2, 3)
        5
    """
    options = ToolOptions(
        name=name,
        title=title,
        description=description,
        read_only=read_only,
        destructive=destructive,
        idempotent=idempotent,
        open_world=open_world,
        meta=meta,
        icons=icons,
        policy=policy,
    )

    def decorate(function: Callable[P, R], /) -> LocalTool[P, R]:
        return _make(function, options)

    return decorate if function is None else decorate(function)


def raw_tool(
    name: str,
    description: str,
    schema: Mapping[str, Any] | bytes,
    handler: Callable[[bytes], R],
    *,
    title: str | None = None,
    output_schema: Mapping[str, Any] | bytes | None = None,
    read_only: bool | None = None,
    destructive: bool | None = None,
    idempotent: bool | None = None,
    open_world: bool | None = None,
    meta: Mapping[str, Any] | None = None,
    icons: Iterable[Icon] = (),
    policy: Policy | None = None,
) -> LocalTool[[bytes], R]:
    """Make a tool of a schema that exists already, and a function that takes the raw argument bytes.

    Args:
        name: `[A-Za-z0-9_.-]{1,64}`.
        description: what models read about it.
        schema: the JSON Schema of its arguments, an object at the root; bytes are listed as they are.
        handler: async or plain `(arguments: bytes)`, the bytes one JSON object; returns what a `tool` may return.
        title: a name for people.
        output_schema: the JSON Schema of its structured output, as `schema`; what the handler returns is not
            checked against it.
        read_only: as in `tool`, like all that follow.

    Raises:
        TypeError: an argument is of the wrong type; the message begins with its name.
        ValueError: the name is not legal, or a schema is no JSON, or its root no object.

    Example:
        >>> size = raw_tool("size", "Count bytes.", b'{"type": "object"}', lambda arguments: len(arguments))
        >>> size.input_schema_json
        b'{"type": "object"}'
    """
    if not callable(handler):
        raise TypeError(f"handler: expected a function, got {type(handler).__name__}")
    if not isinstance(description, str):
        raise TypeError(f"description: expected str, got {type(description).__name__}")
    options = ToolOptions(
        title=title,
        read_only=read_only,
        destructive=destructive,
        idempotent=idempotent,
        open_world=open_world,
        meta=meta,
        icons=icons,
        policy=policy,
    )
    entry = {"name": check_name(name), "description": description, "inputSchema": _as_json("schema", schema)}
    if output_schema is not None:
        entry["outputSchema"] = _as_json("output_schema", output_schema)
    spec = judge_entry(encode_json({**entry, **options.members}), 0, ())
    if isinstance(spec, SkippedToolError):
        raise ValueError(f"schema: the root must be an object schema ({spec.reason})") from spec.cause
    if output_schema is not None and not isinstance(spec.raw["outputSchema"], dict):
        raise ValueError("output_schema: expected a JSON object")
    run = FunctionRun(handler, None, Returns())
    return LocalTool(name, description, spec, run, options.given_policy, origin="local", function=handler)


def _make(function: Callable[P, R], options: ToolOptions) -> LocalTool[P, R]:
    if not (inspect.isfunction(function) or inspect.ismethod(function)):
        raise TypeError(f"function: expected a function, got {type(function).__name__}")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise TypeError(f"{function.__qualname__}: a generator function: a tool returns once")
    name = check_name(function.__name__ if options.name is None else options.name)
    from_docstring, of_parameters = read_docstring(function.__doc__)
    signature = Signature(function, of_parameters)
    if signature.context is not None and not inspect.iscoroutinefunction(function):
        raise TypeError(
            f"{function.__qualname__}: {signature.context}: a Context is for async functions: "
            "what it offers is awaited"
        )
    returns = Returns(function)
    description = from_docstring if options.description is None else options.description
    spec = _spec(name, description, signature.schema, returns.schema, options)
    run = FunctionRun(function, signature, returns)
    return LocalTool(name, description, spec, run, options.given_policy, origin="local", function=function)


def _spec(
    name: str,
    description: str,
    schema: dict[str, Any],
    output_schema: dict[str, Any] | None,
    options: ToolOptions,
) -> ToolSpec:
    """The tool as it is listed, read as a client reads it: there is one way from an entry to a `ToolSpec`."""
    entry: dict[str, Any] = {"name": name, "inputSchema": schema}
    if description:
        entry["description"] = description
    if output_schema is not None:
        entry["outputSchema"] = output_schema
    spec = judge_entry(encode_json({**entry, **options.members}), 0, ())
    assert isinstance(spec, ToolSpec), spec
    return spec


def _as_json(field: str, schema: Mapping[str, Any] | bytes) -> msgspec.Raw:
    """A schema as JSON, as it was given.

    Raises:
        TypeError: it is neither a mapping nor bytes.
        ValueError: it is no JSON.
    """
    if not isinstance(schema, Mapping | bytes):
        raise TypeError(f"{field}: expected a mapping or bytes, got {type(schema).__name__}")
    raw = schema if isinstance(schema, bytes) else encode_json(schema)
    try:
        check_json(raw)
    except msgspec.DecodeError as error:
        raise ValueError(f"{field}: {error}") from error
    return msgspec.Raw(raw)
