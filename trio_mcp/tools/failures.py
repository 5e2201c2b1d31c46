"""What went wrong, as the text that a model reads, so that a toolbox and a server say the same.

This knows exceptions and results, and neither tools nor how they are called.
"""

from __future__ import annotations

import logging

import attrs
import trio

from ..errors import (
    NAME_SHOWN,
    ApprovalRequiredError,
    InvalidArgumentsError,
    MCPError,
    ToolError,
    UnknownToolError,
)
from ..models.result import SILENT_FAILURE as SILENT_FAILURE
from ..models.result import ToolResult
from ..nursery import is_of, must_pass
from ..redaction import bounded_line

logger: logging.Logger = logging.getLogger("trio_mcp.tools")


#: The text of a `trio.Cancelled` that a function raised which nobody had cancelled.
STRAY_CANCEL = "trio.Cancelled of another cancel scope was raised: nothing is cancelled here"
#: The text of a tool that raised, where the server tells no more.
MASKED_FAILURE = "the tool failed"


class CallTimedOutError(trio.TooSlowError):
    """A call took longer than the `timeout` of its tool's policy."""

    def __init__(self, name: str, timeout: float) -> None:
        super().__init__(f'tool "{bounded_line(name, NAME_SHOWN)}" timed out after {timeout:.15g}s')


#: The texts of these are sentences about a tool's call, meant for the model as they are.
_FOR_MODELS = (ApprovalRequiredError, CallTimedOutError, InvalidArgumentsError, ToolError, UnknownToolError)
#: Sentences too: the type in front of them would say nothing more.
_SENTENCES = (MCPError, trio.ClosedResourceError, *_FOR_MODELS)


@attrs.frozen(eq=False)
class RaisedResult(ToolResult):
    """The result of a call that raised: the exception's text for the model, and the exception for this process.

    It equals a `ToolResult` with the same members; the exception does not cross the wire.

    >>> RaisedResult.of(KeyError("pear")).content
    "KeyError: 'pear'"
    """

    error: BaseException | None = attrs.field(default=None, kw_only=True)

    @classmethod
    def of(cls, error: BaseException) -> RaisedResult:
        """The result of a call that raised this."""
        return cls(text_of(error), is_error=True, error=error)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ToolResult):
            return NotImplemented
        compared = [field.name for field in attrs.fields(ToolResult) if field.eq]
        return all(getattr(self, name) == getattr(other, name) for name in compared)

    def __hash__(self) -> int:
        return ToolResult.__hash__(self)


def error_behind(result: ToolResult) -> BaseException | None:
    """The exception that a result is made of; None where the tool itself said that it failed."""
    return result.error if isinstance(result, RaisedResult) else None


def masked(result: ToolResult, name: str) -> ToolResult:
    """A failed result as strangers may read it: without the text of an exception that was not meant for them."""
    error = error_behind(result)
    if error is None or isinstance(_innermost(error), _FOR_MODELS):
        return result
    logger.error('tool "%s" failed', name, exc_info=error)
    return ToolResult(MASKED_FAILURE, is_error=True)


def with_failure_text(result: ToolResult) -> ToolResult:
    """A result as it goes over the wire: a failed one that shows nothing says that it failed.

    >>> with_failure_text(ToolResult(is_error=True)).content
    'mcp: tool returned an error'
    """
    if not result.is_error or (result.blocks and (result.content or result.images)):
        return result
    return attrs.evolve(result, blocks=result.content or SILENT_FAILURE)


async def raise_unless_failure(error: BaseException, *, ends: tuple[type[BaseException], ...] = ()) -> None:
    """Raise again what is no failure of the code that raised it: a cancel of this task, or the end of the program.

    The rest is a failure of that code alone: `asyncio.CancelledError` out of a nested event loop, the panic of an
    extension module, or a `trio.Cancelled` that was meant for another task.

    Args:
        error: what was raised, perhaps a group.
        ends: besides KeyboardInterrupt, what ends the program.

    Raises:
        BaseException: the error itself, or the cancel of this task, which takes the place of a failure.
    """
    if must_pass(error, (KeyboardInterrupt, *ends)):
        raise error
    if is_of(error, trio.Cancelled):
        logger.debug("a cancel came out of a call that nobody cancelled", exc_info=error)
        return
    # An exception while a function tidies up does not take the place of the cancel.
    await trio.lowlevel.checkpoint_if_cancelled()


def text_of(error: BaseException) -> str:
    """What a model reads of an exception: its type and what it says. Of a group of one, of that one.

    The exceptions of this library are sentences, and told without their type: raise a `ToolError` to choose the
    words.

    >>> text_of(ExceptionGroup("unhandled errors", [KeyError("pear")]))
    "KeyError: 'pear'"
    >>> text_of(ValueError())
    'ValueError'
    >>> text_of(ToolError("there are no pears"))
    'there are no pears'
    """
    error = _innermost(error)
    if isinstance(error, trio.Cancelled):  # where a cancel is in effect, there is nobody to tell
        return STRAY_CANCEL
    reason, kind = reason_of(error), type(error).__name__
    return reason if isinstance(error, _SENTENCES) or reason == kind else f"{kind}: {reason}"


def reason_of(error: BaseException) -> str:
    """What an exception says, for a sentence that has a beginning; its type where it says nothing.

    >>> reason_of(ValueError("is negative")), reason_of(ValueError())
    ('is negative', 'ValueError')
    """
    error = _innermost(error)
    try:
        text = as_utf8(str(error))
    except KeyboardInterrupt:
        raise
    except BaseException:  # noqa: BLE001 - whatever the `__str__` of a user's exception raises
        text = ""
    return text or type(error).__name__


def failure_text(error: BaseException) -> str:
    """What a model reads of a call that raised: a lost server or a broken protocol is marked `mcp: `.

    >>> failure_text(UnknownToolError("x"))
    'unknown tool "x"'
    >>> failure_text(trio.ClosedResourceError())
    'mcp: ClosedResourceError'
    """
    error = _innermost(error)
    of_connection = isinstance(error, MCPError | trio.ClosedResourceError) and not isinstance(error, _FOR_MODELS)
    return f"mcp: {text_of(error)}" if of_connection else text_of(error)


def as_utf8(text: str) -> str:
    """The text, with lone surrogates (of file names, say) shown as escapes: official clients drop such a line."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def _innermost(error: BaseException) -> BaseException:
    """What went wrong: of a group of one its one exception, of others those beside the cancels in it."""
    while isinstance(error, BaseExceptionGroup):
        rest = error.split(trio.Cancelled)[1]
        if rest is not None:
            error = rest
        if len(error.exceptions) > 1:
            break
        error = error.exceptions[0]
    return error
