"""A server's question to the user, and the answer (client/elicitation). Nobody is asked here."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Literal, Self

from attrs import Attribute, field, frozen


def _check_action(_: Any, __: Attribute[str], value: Any) -> None:
    if value not in ("accept", "decline", "cancel"):
        raise ValueError(f'action: expected "accept", "decline" or "cancel", got {value!r}')


@frozen
class ElicitRequest:
    """A question to the user, as a form.

    `message` is what to show; `schema` the JSON Schema of the form: an object with flat properties. `raw` is the
    whole request, unknown fields included.
    """

    message: str
    schema: dict[str, Any]
    raw: dict[str, Any] = field(factory=dict, repr=False)


@frozen
class ElicitResult:
    """The user's answer. `content` is what they filled in, only when they accepted.

    >>> ElicitResult.accept({"name": "Ada"})
    ElicitResult(action='accept', content={'name': 'Ada'})
    >>> ElicitResult.decline()
    ElicitResult(action='decline', content=None)
    """

    action: Literal["accept", "decline", "cancel"] = field(validator=_check_action)
    content: Any = None

    @classmethod
    def accept(cls, content: Any) -> Self:
        """The user filled in the form: a mapping of its fields."""
        return cls("accept", content)

    @classmethod
    def decline(cls) -> Self:
        """The user said no."""
        return cls("decline")

    @classmethod
    def cancel(cls) -> Self:
        """The user dismissed the question."""
        return cls("cancel")


#: Answers a question to the user: `async (ElicitRequest) -> ElicitResult`.
OnElicit = Callable[[ElicitRequest], Awaitable[ElicitResult]]
