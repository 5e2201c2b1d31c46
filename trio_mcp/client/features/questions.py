"""The questions of a legacy server that are being answered: each in a task, not too many, none after the end."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import trio

from ...errors import RequestError
from ...protocol.messages import INTERNAL_ERROR, Id
from .elicitation import Elicitor

#: Questions of one server that are asked at once; a user answers one at a time.
MAX_QUESTIONS = 16


class PendingElicitations:
    """Runs the program's `on_elicit` for a server that asks on its own.

    `respond` sends an answer; `start_soon` starts a task that ends with the connection at the latest.
    """

    def __init__(
        self,
        elicitor: Elicitor,
        respond: Callable[[Id, bytes | RequestError], None],
        start_soon: Callable[[Callable[..., Awaitable[None]]], None],
    ) -> None:
        self._elicitor = elicitor
        self._respond = respond
        self._start_soon = start_soon
        self._scopes: set[trio.CancelScope] = set()
        self._is_over = False

    def handle(self, id_: Id, params: bytes) -> None:
        """Answer one question, soon."""

        async def answer() -> None:
            with trio.CancelScope() as scope:
                self._scopes.add(scope)
                try:
                    self._respond(id_, await self._elicitor.answer_question(params))
                finally:
                    self._scopes.discard(scope)

        if len(self._scopes) >= MAX_QUESTIONS:
            self._respond(id_, RequestError(INTERNAL_ERROR, "too many questions at once"))
        elif not self._is_over:
            self._start_soon(answer)

    def stop(self) -> None:
        """Nobody is asked on behalf of a connection that is over."""
        self._is_over = True
        for scope in self._scopes:
            scope.cancel()
