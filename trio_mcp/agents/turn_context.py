"""What the tools of one model turn can say and ask: the `CallContext` of a call that a toolbox runs.

Progress goes to the turn's `on_progress`, a question to the user to its `on_elicit`. A tool of a server gives its
progress here too; its questions are answered by its connection, whose requests carry them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from ..models.elicitation import ElicitRequest, ElicitResult, OnElicit
from ..tools.awaiting import awaited
from ..tools.context import LocalCall
from ..tools.policy import ToolCall

#: An async function `(call, progress, total, message)`.
OnCallProgress = Callable[[ToolCall, float, float | None, str | None], Awaitable[None]]


class TurnContext(LocalCall):
    """The context of one call in a turn."""

    def __init__(self, call: ToolCall, on_progress: OnCallProgress | None, on_elicit: OnElicit | None) -> None:
        super().__init__(None if on_progress is None else self._progress)
        self._of_call = call
        self._on_call_progress = on_progress
        self._on_elicit = on_elicit

    async def _progress(self, progress: float, total: float | None, message: str | None) -> None:
        if self._on_call_progress is not None:
            pending = self._on_call_progress(self._of_call, progress, total, message)
            await awaited("on_progress", pending)

    async def ask(self, method: str, params: Mapping[str, Any], key: str | None = None) -> Any:
        """Answer a form by `on_elicit`. There is nobody to ask anything else.

        Raises:
            NotOfferedError: the turn has no `on_elicit`, or the question is none to the user.
            TypeError, ValueError: the question is no form, or `on_elicit` gave something else than an answer.
        """
        if self._on_elicit is None or method != "elicitation/create":
            return await super().ask(method, params, key)
        message, schema = params.get("message"), params.get("requestedSchema")
        if not isinstance(message, str) or not isinstance(schema, dict):
            raise ValueError("params: a form needs a message and a requestedSchema")
        answer = await awaited("on_elicit", self._on_elicit(ElicitRequest(message, schema, dict(params))))
        if not isinstance(answer, ElicitResult):
            raise TypeError(f"on_elicit: expected an ElicitResult, got {type(answer).__name__}")
        if answer.action != "accept":
            return {"action": answer.action}
        content = {} if answer.content is None else answer.content
        if not isinstance(content, Mapping):
            raise TypeError(f"on_elicit: expected a mapping of the form's fields, got {type(content).__name__}")
        return {"action": "accept", "content": dict(content)}
