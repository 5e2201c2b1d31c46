"""Messages about values that do not fit a type, for a model: where, what was expected, what came.

This reads the errors of msgspec, and of decoders that msgspec calls for types of somebody else. It knows neither
functions nor tools.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

_EXPECTED = re.compile(r"Expected `(?P<expected>[^`]*)`(?P<bound>[^,-]*)(?:, got `(?P<got>[^`]*)`)?")
_PATH = re.compile(r" - at `(?P<key>key` in `)?\$(?P<path>[^`]*)`$")
_FIELD = re.compile(r"object (missing required|contains unknown) field (.*)", re.DOTALL)
_STEP = re.compile(r"\[[^\[\]]*\]|[^.\[\]]+")

#: What msgspec's errors call the types of decoded JSON values.
JSON_TYPES: dict[type[Any], str] = {
    type(None): "null",
    dict: "object",
    list: "array",
    str: "str",
    bool: "bool",
    int: "int",
    float: "float",
}


class NestedError(ValueError):
    """What a decoder of its own found wrong within a value that msgspec gave it.

    `found` has a path within the value, such as `items[0].name`, empty for the value itself, and a text, for each
    thing that is wrong.
    """

    def __init__(self, found: Iterable[tuple[str, str]]) -> None:
        self.found: tuple[tuple[str, str], ...] = tuple(found)
        super().__init__("; ".join(f"{path}: {text}" if path else text for path, text in self.found))


def validation_message(error: msgspec.ValidationError, schema: dict[str, Any] | None = None) -> str:
    """Why a value could not be decoded. With the schema, the choices of an enum are named.

    >>> try:
    ...     msgspec.json.decode(b'{"a": "x"}', type=dict[str, int])
    ... except msgspec.ValidationError as error:
    ...     validation_message(error)
    '[...]: expected int, got str'
    """
    return "; ".join(f"{path}: {text}" if path else text for path, text in located(error, schema))


def located(error: msgspec.ValidationError, schema: dict[str, Any] | None = None) -> list[tuple[str, str]]:
    """The same in parts: where, and what is wrong there. Most often it is one thing."""
    text = str(error)
    found = _PATH.search(text)
    path = found["path"].removeprefix(".") if found else ""
    if isinstance(error.__cause__, NestedError):
        return [(_joined(path, inner), text) for inner, text in error.__cause__.found]
    text = _PATH.sub("", text)
    expected = _EXPECTED.fullmatch(text)
    choices = _choices(schema, path) if schema is not None and text.startswith("Invalid enum value") else ""
    if expected:
        text = f"expected {expected['expected']}{expected['bound'].rstrip()}"
        text += f", got {expected['got']}" if expected["got"] else ""
    elif choices:
        text = f"expected {choices}, got {text.removeprefix('Invalid enum value ')}"
    else:
        text = text[:1].lower() + text[1:].replace("`", "")
    field = _FIELD.fullmatch(text)
    if field:
        path = _joined(path, field[2])
        text = "missing, but required" if field[1].startswith("missing") else "unknown field"
    if found and found["key"]:
        path = f"a key of {path}" if path else "a key"
    return [(path, text)]


def _joined(path: str, inner: str) -> str:
    """A path and the steps that follow it."""
    return f"{path}.{inner}" if path and inner and not inner.startswith("[") else path + inner


def _choices(schema: dict[str, Any], path: str) -> str:
    """The values that the schema admits at a path; empty where it does not lead to an enum."""
    nodes: list[dict[str, Any]] = [schema]
    for step in _STEP.findall(path):
        nodes = [inner for node in nodes for inner in _inside(schema, node, step)]
    values = [value for node in nodes for part in _parts(schema, node) for value in part.get("enum", ())]
    return " or ".join(json.dumps(value, ensure_ascii=False) for value in values)


def _inside(schema: dict[str, Any], node: dict[str, Any], step: str) -> Iterator[dict[str, Any]]:
    for part in _parts(schema, node):
        named, members, others = part.get("properties", {}), part.get("items"), part.get("additionalProperties")
        for inner in (members, others) if step.startswith("[") else (named.get(step),):
            if isinstance(inner, dict):
                yield inner


def _parts(schema: dict[str, Any], node: dict[str, Any]) -> list[dict[str, Any]]:
    """A node of the schema with its reference followed, and each part of a union."""
    if "$ref" in node:
        node = schema.get("$defs", {}).get(node["$ref"].removeprefix("#/$defs/"), {})
    return [node, *(inner for part in node.get("anyOf", ()) for inner in _parts(schema, part))]
