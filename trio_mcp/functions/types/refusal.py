"""Why a function cannot be a tool: a TypeError that names the function and one of its parameters.

This knows names only; what is refused, and why, is said by whoever raises it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class RefusedTypeError(TypeError):
    """A function cannot be a tool as it stands: the message names the function, the parameter and the reason."""


class Refusal:
    """Builds the error for one parameter of a function, or for what it returns (`parameter` is "return").

    >>> def add(a, b): ...
    >>> Refusal(add, "a")("it has no annotation")
    RefusedTypeError('add: a: it has no annotation')
    """

    def __init__(self, function: Callable[..., Any], parameter: str) -> None:
        self._where = f"{function.__qualname__}: {parameter}"

    def __call__(self, reason: str) -> RefusedTypeError:
        return RefusedTypeError(f"{self._where}: {reason}")

    def of(self, error: Exception) -> RefusedTypeError:
        """The error for an exception that a type raised while it was read."""
        if isinstance(error, RefusedTypeError):
            return error
        if isinstance(error, RecursionError):
            return self("its type nests too deeply, or contains itself: write a class with fields")
        reason = " ".join(str(error).split())
        if reason.startswith("Generating JSON schema for custom types"):
            return self(f"it has no JSON Schema: type {reason.rpartition(' type ')[2]}")
        if reason.startswith("Encoding objects of type"):
            kind = reason.removeprefix("Encoding objects of type ").removesuffix(" is unsupported")
            return self(f"a field's default is of type {kind}, which a schema cannot show: give a default_factory")
        if reason.startswith("Type unions may not contain"):
            reason += ": take one of them, or a class with a field for each"
        return self(reason or type(error).__name__)
