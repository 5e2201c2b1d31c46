"""What every exception of trio_mcp has: it can be copied and pickled whole, and a server's secrets hidden in it.

This file knows no exception but the base; errors.py has them all.
"""

from __future__ import annotations

from typing import Any, ClassVar

from .redaction import Redactor

#: How long the sentence of an error is at most, in characters: a screenful.
SENTENCE_SHOWN = 4096
#: How much of a name that a peer chose stands in a sentence.
NAME_SHOWN = 200


class MCPError(Exception):
    """The base of trio_mcp's exceptions. A wrong argument is a TypeError or ValueError; cancels are trio's."""

    args: tuple[Any, ...]
    __notes__: list[str]
    #: Attributes that stay as they came, and whose documentation says so.
    _verbatim: ClassVar[frozenset[str]] = frozenset({"stderr_tail"})

    def redact(self, redactor: Redactor) -> None:
        """Hide a server's secrets in the text, the attributes, the notes and the causes of this error."""
        seen: set[int] = set()
        error: BaseException | None = self
        while error is not None and id(error) not in seen:
            seen.add(id(error))
            if isinstance(error, MCPError):
                error._redact(redactor)
            # What is no error of ours cannot be mended, so that one with a secret in it is left out.
            if tells_secret(error.__context__, redactor):
                error.__context__ = None
            if tells_secret(error.__cause__, redactor):
                error.__cause__ = None
            error = error.__cause__ or error.__context__

    def _redact(self, redactor: Redactor) -> None:
        for name, value in self.__dict__.items():
            if name not in self._verbatim and not isinstance(value, BaseException):
                self.__dict__[name] = redactor.in_value(value)
        self.args = redactor.in_value(self.args)

    def _set_text(self, text: str) -> None:
        """What `str` gives."""
        self.args = (text,)

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (type(self), self.args, dict(self.__dict__))


def tells_secret(error: BaseException | None, redactor: Redactor) -> bool:
    """Whether somebody else's exception shows a secret."""
    return error is not None and not isinstance(error, MCPError) and redactor.is_told_by(error)


def _restore(cls: type[MCPError], args: tuple[Any, ...], state: dict[str, Any]) -> MCPError:
    """Rebuild from the state, not from the constructor's facts: copying and pickling keep notes as they were."""
    error = cls.__new__(cls, *args)
    error.args = args
    error.__dict__.update(state)
    if "__notes__" in state:
        error.__dict__["__notes__"] = list(state["__notes__"])
    return error


def renewed(error: Any) -> Any:
    """A new equal instance without the traceback of the old one: each raise needs its own."""
    cls, args, state = error.__reduce__()[1]
    return _restore(cls, args, state)
