"""Lets servers ask the user, by the program's `on_elicit` (specification: client/elicitation).

Only forms are offered. Fields that the handler leaves out are filled in from the form's defaults, and its answer
is checked against the form before it is sent, all but `pattern`: Python's regular expressions backtrack, so that a
stranger's `^(a+)+$` would stop this whole process. In which task the handler runs is decided in answering.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec

from ...errors import SENTENCE_SHOWN, RequestError
from ...models.elicitation import ElicitRequest, ElicitResult, OnElicit
from ...models.validation import validation_message
from ...protocol.arguments import encode_arguments
from ...protocol.messages import INVALID_PARAMS
from ...redaction import NOTHING_SECRET, Redactor, bounded_line
from ...tools.awaiting import awaited
from ..feature import Feature, ServerRequest


def elicitation(on_elicit: OnElicit, redactor: Redactor = NOTHING_SECRET) -> Feature:
    """The feature that puts a server's questions to this handler. Its failure tells a legacy server "cancel".

    The error about an answer that does not fit names fields of the server's form: `redactor` goes over it.
    """

    async def answer(request: ElicitRequest) -> dict[str, Any]:
        result = await awaited("on_elicit", on_elicit(request))
        if not isinstance(result, ElicitResult):
            raise TypeError(f"on_elicit: expected an ElicitResult, got {type(result).__name__}")
        if result.action != "accept":
            return {"action": result.action}
        content = _filled_in(result.content, request.schema, redactor)
        encode_arguments("elicitation", content)  # NaN would go out as null
        return {"action": "accept", "content": content}

    return Feature(
        capabilities={"elicitation": {"form": {}}},
        requests={
            "elicitation/create": ServerRequest(
                read=_read_request,
                answer=answer,
                fallback={"action": "cancel"},
                failure='on_elicit failed; the server is told "cancel"',
            )
        },
    )


def _read_request(params: Any) -> ElicitRequest:
    if not isinstance(params, dict):
        raise RequestError(INVALID_PARAMS, "params: expected an object")
    # An absent mode means form; no other is offered.
    if params.get("mode", "form") != "form":
        raise RequestError(INVALID_PARAMS, f"mode {params.get('mode')!r} is not offered")
    message, schema = params.get("message"), params.get("requestedSchema")
    if not isinstance(message, str) or not isinstance(schema, dict):
        raise RequestError(INVALID_PARAMS, "a form needs a message and a requestedSchema")
    return ElicitRequest(message, schema, params)


def _filled_in(content: Any, schema: dict[str, Any], redactor: Redactor) -> dict[str, Any]:
    """The content, checked against the form, with the form's defaults where a field is missing.

    Raises:
        ValueError: it does not fit the form.
    """
    properties = schema.get("properties")
    properties = properties if isinstance(properties, dict) else {}
    if content is None:
        content = {}
    if not isinstance(content, Mapping):
        raise _misfit(f"expected a mapping of the form's fields, got {type(content).__name__}", redactor)
    defaults = {
        name: field["default"]
        for name, field in properties.items()
        if isinstance(field, dict) and field.get("default") is not None
    }
    filled = {**defaults, **content}
    required = schema.get("required")
    for name in required if isinstance(required, list) else ():
        if isinstance(name, str) and name not in filled:
            raise _misfit(f"{name}: missing, but required", redactor)
    for name, value in filled.items():
        if name not in properties:
            raise _misfit(f"{name}: the form has no such field", redactor)
        kind = _type_of(properties[name])
        try:
            msgspec.convert(value, kind)
        except msgspec.ValidationError as error:
            text = validation_message(error, msgspec.json.schema(kind))
            raise _misfit(f"{name}{text if text[0] == '[' else f': {text}'}", redactor) from None
    return filled


def _misfit(text: str, redactor: Redactor) -> ValueError:
    return ValueError(bounded_line(redactor(f"elicitation: {text}"), SENTENCE_SHOWN))


def _type_of(field: Any) -> Any:
    """The type that a field of a form admits. An unknown kind of field admits anything: the server checks too."""
    if not isinstance(field, dict):
        return Any
    choices = _choices(field)
    if choices:
        return Literal[tuple(choices)]
    match field.get("type"):
        case "string":
            # No `pattern`: the server checks it.
            return _bounded(str, field, min_length="minLength", max_length="maxLength")
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
    except (TypeError, ValueError):  # the server's bound is no legal one: the field goes without it
        return base
    return bounded
