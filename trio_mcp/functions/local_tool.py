"""`LocalTool`: a Python function that is a tool, and a function still; and how such a tool runs.

Arguments are decoded by the function's `Signature`, and its value becomes a result by its `Returns`: this knows no
type of either.
"""

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
from ..tools.failures import RaisedResult, raise_unless_failure, reason_of
from ..tools.tool import Arguments, Tool
from .returns import Returns
from .signature import Signature

P = ParamSpec("P")
R = TypeVar("R")

logger: logging.Logger = logging.getLogger("trio_mcp.tools")

#: Plain functions that run at once. Their own limiter: trio's default one would stall the start of processes.
THREADS = 40

#: Threads of plain functions in all, those among them that nobody waits for any more. A function whose call was
#: cancelled goes on: it must not keep others from running, and a client that cancels must not start ever more.
ALL_THREADS = 10 * THREADS

_limiters: trio.lowlevel.RunVar[tuple[trio.CapacityLimiter, trio.CapacityLimiter]] = trio.lowlevel.RunVar(
    "trio_mcp tool threads"
)


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
        except BaseException as error:  # noqa: BLE001 - whatever the validators of a user's class raise
            await raise_unless_failure(error, ends=(SystemExit,))
            return _raised(f'arguments for "{name}": {reason_of(error)}', error)
        if self.signature is None:
            call = partial(self.function, encoded)
        else:
            if self.signature.context is not None:
                keywords[self.signature.context] = Context(context)
            call = partial(self.function, **keywords)
        try:
            value = await (call() if _is_async(self.function) else _in_thread(call))
        except BaseException as error:
            await raise_unless_failure(error, ends=(SystemExit,))
            logger.debug('tool "%s" failed', name, exc_info=True)
            return RaisedResult.of(error)
        try:
            return self.returns.result(value)
        except BaseException as error:  # noqa: BLE001 - what encoding, or the validators of a user's class, raise
            await raise_unless_failure(error, ends=(SystemExit,))
            reason = reason_of(error)
            if isinstance(error, msgspec.ValidationError):
                reason = validation_message(error, self.returns.schema)
            return _raised(f'tool "{name}" returned a value that does not match its return type: {reason}', error)


async def _in_thread(call: Callable[[], Any]) -> Any:
    try:
        awaited, in_all = _limiters.get()
    except LookupError:
        awaited, in_all = trio.CapacityLimiter(THREADS), trio.CapacityLimiter(ALL_THREADS)
        _limiters.set((awaited, in_all))
    caller = object()  # not the task: it may call a tool within a tool
    try:
        awaited.acquire_on_behalf_of_nowait(caller)
    except trio.WouldBlock:
        await awaited.acquire_on_behalf_of(caller)
    try:
        (value,) = await trio.to_thread.run_sync(partial(_boxed, call), limiter=in_all, abandon_on_cancel=True)
    finally:  # also when it was abandoned
        awaited.release_on_behalf_of(caller)
    return await value if isinstance(value, Awaitable) else value


def _boxed(call: Callable[[], Any]) -> tuple[Any]:
    """The result in a tuple: trio refuses a coroutine, which a plain wrapper around an async function gives."""
    return (call(),)


def _is_async(function: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


def _raised(text: str, error: BaseException) -> ToolResult:
    return RaisedResult(text, is_error=True, error=error)


def _failure(text: str) -> ToolResult:
    return ToolResult(text, is_error=True)
