"""Answers a server's questions to the user with the program's `on_elicit` (specification: client/elicitation).

Forms only. What the handler leaves out is filled in from the form's defaults, and what it says is checked against
the form before it is sent.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any, Literal

import msgspec

from ...errors import ProtocolError, RequestError
from ...models.elicitation import ElicitRequest, ElicitResult
from ...models.result import InputRequired
from ...models.validation import validation_message
from ...protocol.arguments import encode_arguments
from ...protocol.messages import INVALID_PARAMS, decode_json, encode_any, encode_json, reencode_json

logger = logging.getLogger("trio_mcp.client")

OnElicit = Callable[[ElicitRequest], Awaitable[ElicitResult]]

#: RequestState of one call in which the server may ask again; beyond it, it never means to finish.
MAX_ROUNDS = 10

_CANCEL = encode_json({"action": "cancel"})


class Elicitor:
    """What one connection does with questions; without a handler it answers none."""

    def __init__(self, name: str, on_elicit: OnElicit | None) -> None:
        self._name = name
        self._on_elicit = on_elicit

    @property
    def capabilities(self) -> dict[str, Any]:
        """What this client can be asked for."""
        return {} if self._on_elicit is None else {"elicitation": {"form": {}}}

    async def answer_round(self, required: InputRequired, payload: bytes) -> bytes:
        """Modern: answer every question of one round; the members that the next request has besides.

        Runs the handler in this task, and what it raises passes through.

        Raises:
            ProtocolError: the server asks for something that is not offered.
            ValueError: the handler's answer does not fit the form.
        """
        members = []
        if required.requests:
            answers = {}
            for key, question in required.requests.items():
                method = question.get("method")
                if method != "elicitation/create" or self._on_elicit is None:
                    raise not_offered(method, payload)
                request = _read_request(question.get("params"))
                if isinstance(request, RequestError):
                    raise ProtocolError(f"{method}: {request.message}", payload)
                answers[key] = await self._ask(request, self._on_elicit)
            members.append(b'"inputResponses":' + encode_any(answers))
        # basic/patterns/mrtr: the client "MUST" send the state back as it is, and only where there was one.
        if required.state is not None:
            members.append(b'"requestState":' + reencode_json(required.state))
        return b",".join(members)

    async def answer_question(self, params: bytes) -> bytes | RequestError:
        """Legacy: answer one question, whatever the handler does: an exception in it answers "cancel"."""
        if self._on_elicit is None:
            raise RuntimeError("nobody may ask without a handler")
        try:
            request = _read_request(decode_json(params) if params else None)
        except ProtocolError as error:
            request = RequestError(INVALID_PARAMS, str(error))
        if isinstance(request, RequestError):
            return request
        try:
            return encode_json(await self._ask(request, self._on_elicit))
        except Exception:
            logger.exception('server "%s": on_elicit failed; the server is told "cancel"', self._name)
            return _CANCEL

    async def _ask(self, request: ElicitRequest, on_elicit: OnElicit) -> dict[str, Any]:
        result = await on_elicit(request)
        if not isinstance(result, ElicitResult):
            raise TypeError(f"on_elicit: expected an ElicitResult, got {type(result).__name__}")
        if result.action != "accept":
            return {"action": result.action}
        content = _filled_in(result.content, request.schema)
        encode_arguments("elicitation", content)  # NaN would go out as null
        return {"action": "accept", "content": content}


def not_offered(method: object, payload: bytes) -> ProtocolError:
    """The error of a call whose server asks for something that this client does not offer."""
    what = method[:100] if isinstance(method, str) else "more input"
    return ProtocolError(f"the server asks for {what}, which is not offered", payload)


def _read_request(params: Any) -> ElicitRequest | RequestError:
    if not isinstance(params, dict):
        return RequestError(INVALID_PARAMS, "params: expected an object")
    # An absent mode means form; no other is offered.
    if params.get("mode", "form") != "form":
        return RequestError(INVALID_PARAMS, f"mode {params.get('mode')!r} is not offered")
    message, schema = params.get("message"), params.get("requestedSchema")
    if not isinstance(message, str) or not isinstance(schema, dict):
        return RequestError(INVALID_PARAMS, "a form needs a message and a requestedSchema")
    return ElicitRequest(message, schema, params)


def _filled_in(content: Any, schema: dict[str, Any]) -> dict[str, Any]:
    """The content with the form's defaults where it has nothing, checked.

    Raises:
        ValueError: it does not fit the form.
    """
    properties = schema.get("properties")
    properties = properties if isinstance(properties, dict) else {}
    if content is None:
        content = {}
    if not isinstance(content, Mapping):
        raise ValueError(f"elicitation: expected a mapping of the form's fields, got {type(content).__name__}")
    defaults = {
        name: field["default"]
        for name, field in properties.items()
        if isinstance(field, dict) and field.get("default") is not None
    }
    filled = {**defaults, **content}
    required = schema.get("required")
    for name in required if isinstance(required, list) else ():
        if isinstance(name, str) and name not in filled:
            raise ValueError(f"elicitation: {name}: missing, but required")
    for name, value in filled.items():
        if name not in properties:
            raise ValueError(f"elicitation: {name}: the form has no such field")
        kind = _type_of(properties[name])
        try:
            msgspec.convert(value, kind)
        except msgspec.ValidationError as error:
            text = validation_message(error, msgspec.json.schema(kind))
            raise ValueError(f"elicitation: {name}{text if text[0] == '[' else f': {text}'}") from None
    return filled


def _type_of(field: Any) -> Any:
    """The type that a field of a form admits. What is not understood admits anything: the server checks too."""
    if not isinstance(field, dict):
        return Any
    choices = _choices(field)
    if choices:
        return Literal[tuple(choices)]
    match field.get("type"):
        case "string":
            return _bounded(str, field, min_length="minLength", max_length="maxLength", pattern="pattern")
        case "integer":
            return _bounded(int, field, ge="minimum", le="maximum")
        case "number":
            return _bounded(float, field, ge="minimum", le="maximum")
        case "boolean":
            return bool
        case "array":
            items = _type_of(field.get("items"))
            return _bounded(list[items], field, min_length="minItems", max_length="maxItems")  # type: ignore[valid-type] # made here
    return Any


def _choices(field: dict[str, Any]) -> list[str]:
    """The values of a choice: `enum`, or `const` in `oneOf` and `anyOf`."""
    options = field.get("enum")
    if not isinstance(options, list):
        titled = field.get("oneOf", field.get("anyOf"))
        parts = titled if isinstance(titled, list) else []
        options = [part.get("const") for part in parts if isinstance(part, dict)]
    return [option for option in options if isinstance(option, str)]


def _bounded(base: Any, field: dict[str, Any], **bounds: str) -> Any:
    found = {ours: field[theirs] for ours, theirs in bounds.items() if field.get(theirs) is not None}
    try:
        bounded = Annotated[base, msgspec.Meta(**found)] if found else base
        msgspec.json.Decoder(bounded)
    except (TypeError, ValueError, re.error):  # a bound that is none
        return base
    return bounded
