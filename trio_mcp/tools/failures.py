"""What went wrong, as the text that a model reads: one place, so that a toolbox and a server say the same.

This knows exceptions, and nothing of tools.
"""

from __future__ import annotations

import trio

from ..errors import ApprovalRequiredError, InvalidArgumentsError, MCPError, ToolError, UnknownToolError

#: What a failed tool says that says nothing.
SILENT_FAILURE = "mcp: tool returned an error"

#: What these say is meant for the model as it is; the others tell of a connection, and are marked so.
_FOR_MODELS = (ApprovalRequiredError, InvalidArgumentsError, ToolError, UnknownToolError)


def text_of(error: BaseException) -> str:
    """What an exception says, or its type where it says nothing. Of a group of one, what that one says.

    >>> text_of(ExceptionGroup("unhandled errors", [KeyError("colour")]))
    "'colour'"
    >>> text_of(ValueError())
    'ValueError'
    """
    error = _innermost(error)
    return as_utf8(str(error)) or type(error).__name__


def failure_text(error: BaseException) -> str:
    """The same for a call that may have failed on its way: a lost server or a broken protocol is marked `mcp: `.

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
    """A group of one is not what went wrong, its one exception is."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error
