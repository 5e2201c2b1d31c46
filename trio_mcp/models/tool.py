"""A tool as its server lists it, and the one function that judges a listed entry.

An entry is kept as it came: the schemas as bytes, everything else in `raw`. Judging checks only the two members
that a client needs, a name and the schema of an object: one odd tool must not cost the others, and one odd field
must not cost the tool.

This module knows neither the names that agents see nor how a tool is called.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Container
from typing import Any

import msgspec
from attrs import field, frozen
from msgspec import Raw

from ..errors import ProtocolError, SkippedToolError
from ..protocol.messages import ABSENT, decode_json, reencode_json
from .codec import structure, wire_name


@frozen
class ToolAnnotations:
    """What a server says about the effects of a tool. Hints, never guarantees; absent ones have their defaults.

    `extra` holds members that the specification does not know, and hints of a wrong type, as they came.
    """

    title: str | None = None
    read_only_hint: bool = False
    destructive_hint: bool = True
    idempotent_hint: bool = False
    open_world_hint: bool = True
    extra: dict[str, Any] | None = None


@frozen
class ToolSpec:
    """A tool as listed.

    `input_schema_json` and `output_schema_json` are the schemas as the server sent them, byte for byte;
    `input_schema` is the first decoded, `output_schema` the second where its root is an object schema, else
    None: a bad output schema never costs the tool. `raw` is the whole entry, decoded, with unknown fields.
    `title`, `description` and `meta` are None where the server gave none, or something of the wrong type.
    """

    name: str
    input_schema: dict[str, Any] = field(hash=False)
    input_schema_json: bytes
    title: str | None = None
    description: str | None = None
    output_schema: dict[str, Any] | None = field(default=None, hash=False)
    output_schema_json: bytes | None = None
    annotations: ToolAnnotations = field(factory=ToolAnnotations, hash=False)
    meta: dict[str, Any] | None = field(default=None, hash=False)
    raw: dict[str, Any] = field(factory=dict, hash=False, repr=False)


_NO_ANNOTATIONS = ToolAnnotations()
#: The usual annotations are read without the converter, which takes ten times as long, and a moment to be loaded.
_HINTS = {
    wire_name(name): (name, str if name == "title" else bool)
    for name in ("title", "read_only_hint", "destructive_hint", "idempotent_hint", "open_world_hint")
}


def other_members(spec: ToolSpec) -> dict[str, Any]:
    """The members of a listed tool beside name, title, description and schemas, those unknown to us included.

    Where `annotations` or `meta` were changed since the tool was read, the fields count; hints that were not
    changed stay as they came.

    >>> spec = ToolSpec("a", {}, b"{}", annotations=ToolAnnotations(read_only_hint=True), raw={"icons": []})
    >>> other_members(spec)
    {'icons': [], 'annotations': {'readOnlyHint': True}}
    """
    members = {key: value for key, value in spec.raw.items() if key not in _IN_FIELDS}
    before = _read_annotations(members.get("annotations"))
    if before != spec.annotations:
        members["annotations"] = _changed_hints(members.get("annotations"), before, spec.annotations)
        if not members["annotations"]:
            del members["annotations"]
    if spec.meta != _as_object(members.get("_meta")):
        members["_meta"] = spec.meta
        if spec.meta is None:
            del members["_meta"]
    return members


def _changed_hints(said: Any, before: ToolAnnotations, now: ToolAnnotations) -> dict[str, Any]:
    """The annotations as they are listed after a change: hints that did not change stay said, or unsaid."""
    hints = dict(now.extra or {})
    for wire, (name, _) in _HINTS.items():
        hint = getattr(now, name)
        unchanged = hint == getattr(before, name)
        if hint is not None and (not unchanged or (type(said) is dict and wire in said)):
            hints[wire] = hint
    return hints


#: Members of an entry that stand in fields of a `ToolSpec`, or that are not passed on: `execution` is about tasks,
#: which are not offered here.
_IN_FIELDS = frozenset({"name", "title", "description", "inputSchema", "outputSchema", "execution"})


class _Schemas(msgspec.Struct):
    """The schemas of an entry, undecoded."""

    input: Raw = msgspec.field(default=ABSENT, name="inputSchema")
    output: Raw = msgspec.field(default=ABSENT, name="outputSchema")


_decode_entry = msgspec.json.Decoder(dict[str, Any]).decode
_decode_schemas = msgspec.json.Decoder(_Schemas).decode


def judge_entry(
    data: bytes, index: int, taken: Container[str], check: Callable[[ToolSpec], None] | None = None
) -> ToolSpec | SkippedToolError:
    """One entry of a tools/list, still undecoded: the tool, or why it cannot be used.

    `index` is its place over all pages, `taken` holds the names that earlier entries have, `check` raises
    ValueError for a tool whose headers are not legal (HTTP). Never raises; the reasons are judged in the order
    that `SkippedToolError` names them.

    >>> judge_entry(b'{"name": "add", "inputSchema": {"type": "object"}}', 0, ()).input_schema_json
    b'{"type": "object"}'
    >>> judge_entry(b'{"name": "add"}', 7, ())
    SkippedToolError('tool "add" at index 7 was skipped: no-schema')
    """
    if not data.lstrip(b" \t\r\n\xef\xbb\xbf").startswith(b"{"):
        return SkippedToolError("", index, "no-object")
    try:
        entry, input_json, output_json = _decode(data)
    except (ProtocolError, ValueError, RecursionError) as error:
        return SkippedToolError("", index, "undecodable", error)
    name = entry.get("name")
    if type(name) is not str or not name:
        return SkippedToolError("", index, "no-name")
    schema = _as_object(entry.get("inputSchema"))
    reason = _why_not(schema)
    if reason is not None or schema is None:
        return SkippedToolError(name, index, reason or "no-schema")
    output = entry.get("outputSchema")
    spec = ToolSpec(
        name,
        schema,
        input_json,
        title=_if_text(entry.get("title")),
        description=_if_text(entry.get("description")),
        output_schema=output if type(output) is dict and output.get("type") == "object" else None,
        output_schema_json=None if output is None else output_json,
        annotations=_read_annotations(entry.get("annotations")),
        meta=_as_object(entry.get("_meta")),
        raw=entry,
    )
    if check is not None:
        try:
            check(spec)
        except ValueError as error:
            return SkippedToolError(name, index, "bad-header", error)
    return SkippedToolError(name, index, "repeated-name") if name in taken else spec


def _decode(data: bytes) -> tuple[dict[str, Any], bytes, bytes]:
    """The entry and its two schemas as bytes.

    Raises:
        ProtocolError: nobody can read it.
        ValueError: it has a number that JSON does not have.
    """
    try:
        schemas = _decode_schemas(data)
        return _decode_entry(data), bytes(schemas.input), bytes(schemas.output)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    entry = decode_json(data)
    json.dumps(entry, allow_nan=False)
    return entry, reencode_json(entry.get("inputSchema")), reencode_json(entry.get("outputSchema"))


def _why_not(schema: dict[str, Any] | None) -> str | None:
    # The input schema has to be a schema object, not null (server/tools).
    if schema is None:
        return "no-schema"
    if "type" in schema:
        return None if schema["type"] == "object" else "root-not-object"
    return "root-ref" if "$ref" in schema else None


def _read_annotations(value: Any) -> ToolAnnotations:
    if type(value) is not dict or not value:
        return _NO_ANNOTATIONS
    hints: dict[str, Any] = {}
    for wire, item in value.items():
        name, kind = _HINTS.get(wire, ("", None))
        if type(item) is not kind:  # there is something for `extra`
            return structure(value, ToolAnnotations)
        hints[name] = item
    return ToolAnnotations(**hints)


def _as_object(value: Any) -> dict[str, Any] | None:
    if type(value) is dict:
        return value
    return {} if value == [] else None


def _if_text(value: Any) -> str | None:
    return value if type(value) is str else None
