"""Answers what servers ask, by the handlers of a feature table, in the way of each era.

A legacy server sends requests on its own: each is answered in a task of the connection, a bounded number at once
and none after the end. A modern server cannot finish a call before it has been told more: its questions are
answered in the task of that call. This file knows no method.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import trio

from ...errors import ProtocolError, RequestError
from ...models.result import InputRequired
from ...nursery import must_pass
from ...protocol.messages import INTERNAL_ERROR, INVALID_PARAMS, Id, decode_json, encode_any, reencode_json
from ..feature import ServerRequest

logger: logging.Logger = logging.getLogger("trio_mcp.client")


class PendingAnswers:
    """The requests of a legacy server that are being answered.

    `respond` sends an answer; `start_soon` starts a task that ends with the connection at the latest; `most`
    bounds the answers that are being made at once.
    """

    def __init__(
        self,
        server_name: str,
        requests: Mapping[str, ServerRequest[Any]],
        respond: Callable[[Id, bytes | RequestError], None],
        start_soon: Callable[[Callable[..., Awaitable[None]]], bool],
        most: int,
    ) -> None:
        self._server_name = server_name
        self._requests = requests
        self._respond = respond
        self._start_soon = start_soon
        self._most = most
        self._scopes: set[trio.CancelScope] = set()
        self._is_over = False

    def handle(self, id_: Id, method: str, params: bytes) -> bool:
        """Answer a request, soon; False where no feature knows its method."""
        request = self._requests.get(method)
        if request is None:
            return False

        scope = trio.CancelScope()

        async def answer() -> None:
            try:
                with scope:
                    self._respond(id_, await self._answer(method, request, params))
            finally:
                self._scopes.discard(scope)

        if len(self._scopes) >= self._most:
            self._respond(id_, RequestError(INTERNAL_ERROR, "too many questions at once"))
        elif not self._is_over:
            self._scopes.add(scope)  # counted now: its task begins when many more may have come
            if not self._start_soon(answer):
                self._scopes.discard(scope)
        return True

    def stop(self) -> None:
        """Answer nothing any more: the connection is over, and nobody reads an answer."""
        self._is_over = True
        for scope in self._scopes:
            scope.cancel()

    async def _answer(self, method: str, request: ServerRequest[Any], params: bytes) -> bytes | RequestError:
        try:
            asked = request.read(decode_json(params) if params else None)
        except ProtocolError as error:
            return RequestError(INVALID_PARAMS, str(error))
        except RequestError as error:
            return error
        try:
            return encode_any(dict(await request.answer(asked)))
        except BaseException as raised:
            if must_pass(raised):
                raise
            logger.exception('server "%s": %s', self._server_name, request.failure)
            if request.fallback is None:
                return RequestError(INTERNAL_ERROR, f"{method} failed")
            return encode_any(dict(request.fallback))


async def answer_round(
    requests: Mapping[str, ServerRequest[Any]], required: InputRequired, payload: bytes
) -> bytes:
    """Answer every question of a modern server; the encoded members that the next request has besides.

    Runs the handlers in this task, one after the other, and what they raise passes through. `payload` is what the
    server sent, for errors.

    Raises:
        ProtocolError: the server asks for something that this client does not offer, or asks it wrongly.
    """
    members = []
    if required.requests:
        answers = {}
        for key, question in required.requests.items():
            method = question.get("method")
            request = requests.get(method) if isinstance(method, str) else None
            if request is None:
                raise _not_offered(method, payload)
            try:
                asked = request.read(question.get("params"))
            except RequestError as error:
                raise ProtocolError(f"{method}: {error.message}", payload) from None
            answers[key] = dict(await request.answer(asked))
        members.append(b'"inputResponses":' + encode_any(answers))
    # basic/patterns/mrtr: the client "MUST" send the state back as it is, and only where there was one.
    if required.state is not None:
        members.append(b'"requestState":' + reencode_json(required.state))
    return b",".join(members)


def _not_offered(method: object, payload: bytes) -> ProtocolError:
    # Not cut here: a secret in it is still to be found.
    what = method if isinstance(method, str) else "more input"
    return ProtocolError(f"the server asks for {what}, which is not offered", payload)
