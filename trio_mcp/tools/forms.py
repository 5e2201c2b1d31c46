"""Forms that a user fills in: a class as a flat schema that clients can show, and the answer as an instance.

This module asks nobody: `Context.elicit` does.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ..errors import ProtocolError
from ..models.elicitation import ElicitResult
from ..models.validation import validation_message
from .form_fields import form_fields

_PLAIN = ("string", "integer", "number", "boolean")


def form_schema(schema: type) -> dict[str, Any]:
    """The JSON Schema of a form, flat as the specification wants it (client/elicitation, "Requested Schema").

    Raises:
        TypeError: the class has no fields, or one that no form can have; it names the field.

    >>> class Person(msgspec.Struct):
    ...     name: str
    ...     age: int | None = None
    >>> form_schema(Person)["properties"]
    {'name': {'type': 'string'}, 'age': {'type': 'integer'}}
    """
    (root,), named = msgspec.json.schema_components([schema], ref_template="{name}")
    form = named.get(root.get("$ref", ""), root)
    if form.get("type") != "object" or "properties" not in form:
        raise TypeError(f"schema: expected a class with fields, got {schema!r}")
    properties = {}
    said = form_fields(schema)
    for name, field in form["properties"].items():
        properties[name] = flat = _flat(field, named)
        choices = flat.get("items", {}) if flat.get("type") == "array" else {}
        if flat.get("type") not in _PLAIN and not (choices.get("type") == "string" and "enum" in choices):
            raise TypeError(f"schema: {name}: a form has only str, int, float, bool, enums and lists of enums")
        if name in said:
            said[name].add_to(name, flat)
    return {"type": "object", "properties": properties, "required": form.get("required", [])}


def read_answer(answer: Any, schema: type) -> ElicitResult:
    """The result of an elicitation/create; the content of an accepted one is an instance of the class.

    Raises:
        ProtocolError: it is no such result, or the content does not fit the class.
    """
    action = answer.get("action") if isinstance(answer, dict) else None
    if action not in ("accept", "decline", "cancel"):
        raise ProtocolError("elicitation/create was answered without an action")
    if action != "accept":
        return ElicitResult(action)
    try:
        content: Any = msgspec.convert(answer.get("content") or {}, schema)
    except msgspec.ValidationError as error:
        raise ProtocolError(f"the client's answer does not fit the form: {validation_message(error)}") from error
    if said := form_fields(schema):
        properties = form_schema(schema)["properties"]
        for name, one in said.items():
            if reason := one.check(name, properties[name], (answer.get("content") or {}).get(name)):
                raise ProtocolError(f"the client's answer does not fit the form: {reason}")
    return ElicitResult("accept", content)


def _flat(field: dict[str, Any], named: dict[str, Any]) -> dict[str, Any]:
    """A field with what it refers to in its place. `X | None` is X: a form leaves out what is not known."""
    flat = {key: value for key, value in field.items() if key not in ("$ref", "anyOf")}
    if flat.get("default", ...) is None:
        del flat["default"]
    inner = [named[field["$ref"]]] if "$ref" in field else field.get("anyOf", [])
    inner = [part for part in inner if part != {"type": "null"}]
    if len(inner) == 1:
        # The name of an enum is no label for people.
        flat = {**{key: value for key, value in _flat(inner[0], named).items() if key != "title"}, **flat}
    if "items" in flat:
        flat["items"] = _flat(flat["items"], named)
    if "enum" in flat and all(isinstance(choice, str) for choice in flat["enum"]):
        flat["type"] = "string"
    return flat
