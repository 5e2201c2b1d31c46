"""The outcome of one call of a model's turn, as data. Knows no provider: `providers` gives it back to a model."""

from __future__ import annotations

from typing import Any

from attrs import field, frozen

from ..models.content import Image
from ..models.result import ToolResult
from ..tools.failures import error_behind, failure_text
from ..tools.policy import ToolCall
from ..tools.rendering import Render, text_beside_images


@frozen
class ToolOutcome:
    """The outcome of one `ToolCall`. Every failure is one of these, never an exception.

    Attributes:
        id: the call's.
        name: the tool's, as the model called it.
        content: the text for the model: the result as the tool's `Policy.render` says, or what went wrong.
        images: the images of the result, in order.
        structured: the structured output, decoded; None where there is none. `max_result_bytes` does not cut it.
        is_error: whether the call failed; true for a pending and for a refused one too.
        pending: whether it was not run, because nobody was asked to approve it.
        refused: whether it was not run, because whoever was asked said no.
        error: the exception behind a failure; None where the tool itself said that it failed, and where the call
            was refused or cancelled. A tool of a server raises nothing here: its server sends the text alone.
        seconds: how long it ran, without the waiting for approval and for its turn; 0 if it did not.

    >>> ToolOutcome("call_1", "add", "5", structured={"sum": 5}).is_error
    False
    """

    id: str
    name: str
    content: str
    images: tuple[Image, ...] = ()
    structured: Any = None
    is_error: bool = False
    pending: bool = False
    error: BaseException | None = None
    seconds: float = 0.0
    refused: bool = field(default=False, kw_only=True)


def returned(call: ToolCall, result: ToolResult, render: Render, limit: int | None, seconds: float) -> ToolOutcome:
    """The outcome of a call that gave a result, its text cut to so many bytes.

    Raises:
        ProtocolError: its structured output is no JSON.
    """
    return ToolOutcome(
        call.id,
        call.name,
        cut(text_beside_images(result, render), limit),
        result.images,
        result.structured,
        is_error=result.is_error,
        error=error_behind(result),
        seconds=seconds,
    )


def failed(
    call: ToolCall, error: BaseException, *, limit: int | None = None, seconds: float = 0.0, pending: bool = False
) -> ToolOutcome:
    """The outcome of a call that raised."""
    content = cut(failure_text(error), limit)
    return ToolOutcome(call.id, call.name, content, is_error=True, pending=pending, error=error, seconds=seconds)


def refused(call: ToolCall, reason: str) -> ToolOutcome:
    """The outcome of a call that somebody said no to, perhaps with a reason.

    >>> refused(ToolCall("1", "pay"), "too much").content
    'the user refused: too much'
    """
    text = f"the user refused: {reason}" if reason.strip() else "the user refused"
    return ToolOutcome(call.id, call.name, text, is_error=True, refused=True)


def cancelled(call: ToolCall, seconds: float) -> ToolOutcome:
    """The outcome of a call that `Toolbox.cancel` ended."""
    return ToolOutcome(call.id, call.name, "cancelled", is_error=True, seconds=seconds)


def cut(text: str, limit: int | None) -> str:
    """The text, or as much of it as takes so many bytes of UTF-8, and a note how many are missing.

    >>> print(cut("naïve", 3))
    na
    …[truncated 4 bytes]
    """
    if limit is None:
        return text
    # JSON may bring lone surrogates, which UTF-8 has no bytes for: counted like any character of that range.
    encoded = text.encode("utf-8", "surrogatepass")
    if len(encoded) <= limit:
        return text
    while encoded[limit] & 0b1100_0000 == 0b1000_0000:  # a byte that continues a character
        limit -= 1
    return f"{encoded[:limit].decode('utf-8', 'surrogatepass')}\n…[truncated {len(encoded) - limit} bytes]"
