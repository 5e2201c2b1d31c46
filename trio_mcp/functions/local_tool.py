"""`LocalTool`: a Python function that is a tool, and a function still; and how such a tool runs."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Generic, ParamSpec, TypeVar

import msgspec
import trio
from attrs import field, frozen

from ..errors import InvalidArgumentsError
from ..models.result import ToolResult
from ..models.validation import validation_message
from ..protocol.arguments import encode_arguments
from ..tools.context import CallContext, Context, LocalCall, OnProgress
from ..tools.failures import RaisedResult, reason_of
from ..tools.tool import Arguments, Tool
from .returns import Returns
from .signature import Signature

P = ParamSpec("P")
R = TypeVar("R")

logger = logging.getLogger("trio_mcp.tools")

#: Plain functions that run at once. Their own limiter: trio's default one would stall the start of processes.
THREADS = 40

_limiter: trio.lowlevel.RunVar[trio.CapacityLimiter] = trio.lowlevel.RunVar("trio_mcp tool threads")


@frozen
class LocalTool(Tool, Generic[P, R]):
    """A Python function as a `Tool`. Calling it is calling the function: nothing is checked or converted.

    `call`, `invoke` and everything else of a `Tool` go the tool's way: JSON arguments in, a `ToolResult` out.

    Attributes:
        function: the function as it was.

    Example:
        >>> from trio_mcp import tool
        >>> @tool
        ... def count_words(text: str) -> int:
        ...     return len(text.split())
        >>> count_words("a b")
        2
        >>> import trio
        >>> trio.run(count_words.call, {"text": "a b"}).structured
        2
    """

    function: Callable[P, R] = field(kw_only=True, repr=False)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function, in this task and thread; an async function gives what is to be awaited."""
        return self.function(*args, **kwargs)

    async def call(self, arguments: Arguments, *, on_progress: OnProgress | None = None) -> ToolResult:
        """See `Tool.call`. A checkpoint in any case, also where the function never waits."""
        await trio.lowlevel.checkpoint()
        return await self.run(arguments, LocalCall(on_progress))

    @property
    def __wrapped__(self) -> Callable[P, R]:
        """For `inspect.signature` and `help`."""
        return self.function


@frozen
class FunctionRun:
    """Runs a function as a tool. Without a signature the function takes the raw arguments."""

    function: Callable[..., Any]
    signature: Signature | None
    returns: Returns

    async def __call__(self, name: str, arguments: Arguments, context: CallContext) -> ToolResult:
        await trio.lowlevel.checkpoint_if_cancelled()  # a function that never waits is not begun, either
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
            # An exception while the function tidies up does not take the place of the cancel.
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
    """The result in a tuple: trio refuses a coroutine, which a plain wrapper around an async function gives."""
    return (call(),)


def _is_async(function: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


def _failure(text: str) -> ToolResult:
    return ToolResult(text, is_error=True)
