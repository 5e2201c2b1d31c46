"""What became of one call of a model's turn, as data. Knows no provider: `providers` gives it back to a model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrs import frozen

from ..tools.failures import SILENT_FAILURE, failure_text

if TYPE_CHECKING:
    from ..models.content import Image
    from ..models.result import ToolResult
    from ..tools.policy import ToolCall


@frozen
class ToolOutcome:
    """What became of one `ToolCall`. Every failure is one of these, never an exception.

    Attributes:
        id: the call's.
        name: the tool's, as the model called it.
        content: the text for the model: `ToolResult.content`, or what went wrong.
        images: the images of the result, in order.
        structured: the structured output, decoded; None where there is none. `max_result_bytes` does not cut it.
        is_error: whether the call failed; true for a pending one too.
        pending: whether it was not run, because nobody has approved it.
        error: the exception behind a failure; None where the tool itself said that it failed.
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
    error: Exception | None = None
    seconds: float = 0.0


def returned(call: ToolCall, result: ToolResult, limit: int | None, seconds: float) -> ToolOutcome:
    """The outcome of a call that gave a result, its text cut to so many bytes.

    Raises:
        ProtocolError: its structured output is no JSON.
    """
    content = result.content
    if result.is_error and not content:
        content = SILENT_FAILURE
    return ToolOutcome(
        call.id,
        call.name,
        cut(content, limit),
        result.images,
        result.structured,
        is_error=result.is_error,
        seconds=seconds,
    )


def failed(
    call: ToolCall, error: Exception, *, limit: int | None = None, seconds: float = 0.0, pending: bool = False
) -> ToolOutcome:
    """The outcome of a call that raised."""
    content = cut(failure_text(error), limit)
    return ToolOutcome(call.id, call.name, content, is_error=True, pending=pending, error=error, seconds=seconds)


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
