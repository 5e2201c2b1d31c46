"""Requests of the modern era that may take several rounds (basic/patterns/mrtr). Knows no feature.

A handler that wants to ask the client something is unwound, and the request is answered with the questions and
a signed state. The client sends the request again, with that state and the answers, and the handler runs anew.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

import msgspec

from ...errors import RequestError
from ...protocol.messages import INVALID_PARAMS, MISSING_CLIENT_CAPABILITY, encode_any
from ..feature import Request, Work
from ..params import Params
from ..request_state import digest
from .call_context import ModernCall


class RoundParams(Params):
    """The params of a request that may take several rounds."""

    input_responses: Any = msgspec.field(default=None, name="inputResponses")
    request_state: Any = msgspec.field(default=None, name="requestState")


def begin_round(
    request: Request[RoundParams],
    run: Callable[[ModernCall], Awaitable[bytes]],
    same_request: Callable[[], Sequence[Any]],
) -> Work:
    """Begin one round of a request.

    Args:
        request: the request of this round.
        run: carries the request out, and gives the encoded result if it is not unwound.
        same_request: gives JSON values that are equal in every round of a request, and differ from those of other
            requests. A state is valid for them, the method and the principal alone. Called only where needed.

    Raises:
        RequestError: the state that the client sent is not one for this request, or has expired.
    """
    call = ModernCall(request, _answers(request, same_request), _given(request.params))
    return partial(_finish, request, run, call, same_request)


async def _finish(
    request: Request[RoundParams],
    run: Callable[[ModernCall], Awaitable[bytes]],
    call: ModernCall,
    same_request: Callable[[], Sequence[Any]],
) -> bytes:
    result = b""
    with call.scope:
        result = await run(call)
    if call.missing is not None:
        raise RequestError(
            MISSING_CLIENT_CAPABILITY,
            f"the client does not offer {call.missing}",
            {"requiredCapabilities": {call.missing: {}}},
        )
    if call.questions:
        state = request.client.request_state.sign(_name_of(request, same_request), call.state)
        return encode_any(
            {
                **request.server.modern_members,
                "resultType": "input_required",
                "inputRequests": call.questions,
                "requestState": state,
            }
        )
    return result


def _answers(request: Request[RoundParams], same_request: Callable[[], Sequence[Any]]) -> dict[str, Any]:
    """The answers so far by question; None where one was asked and is not answered yet.

    Only what was asked counts (basic/patterns/mrtr: unknown keys are ignored), and only in the one request.
    """
    state = request.params.request_state
    if state is None:
        return {}
    if not isinstance(state, str):
        raise RequestError(INVALID_PARAMS, "requestState: expected a string")
    answers = request.client.request_state.verify(_name_of(request, same_request), state)
    given = _given(request.params)
    for key, answer in answers.items():
        if answer is None and isinstance(given.get(key), dict):
            answers[key] = given[key]
    return answers


def _given(params: RoundParams) -> dict[str, Any]:
    return params.input_responses if isinstance(params.input_responses, dict) else {}


def _name_of(request: Request[RoundParams], same_request: Callable[[], Sequence[Any]]) -> str:
    """A name for the request that its state is valid for: the caller's, however the arguments are spelled."""
    principal = request.peer.principal
    return digest(request.method, *same_request(), *(() if principal is None else (principal,)))
