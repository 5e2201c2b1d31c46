"""Listed tools: what is judged, in which order, and what is kept as it came."""

from __future__ import annotations

import json
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trio_mcp.errors import ProtocolError, SkippedToolError
from trio_mcp.models.codec import structure
from trio_mcp.models.tool import ToolAnnotations, ToolSpec, judge_entry


def accepted(entry: dict[str, Any] | bytes) -> ToolSpec:
    data = entry if isinstance(entry, bytes) else json.dumps(entry).encode()
    spec = judge_entry(data, 0, ())
    assert isinstance(spec, ToolSpec), spec
    return spec


def listed(**members: Any) -> ToolSpec:
    return accepted({"name": "add", "inputSchema": {"type": "object"}, **members})


# --- why an entry is skipped

NAMED = '"name":"add","inputSchema":'


@pytest.mark.table(
    ("entry", "name", "reason"),
    [
        ('"add"', "", "no-object"),
        ("null", "", "no-object"),
        ("5", "", "no-object"),
        ("[]", "", "no-object"),
        ('[{"name":"add"}]', "", "no-object"),
        ("NaN", "", "no-object"),
        ("", "", "no-object"),
        ('{"name":"add"', "", "undecodable"),
        ('{"name":"add",}', "", "undecodable"),
        ('{"name":"add","inputSchema":{"default":NaN}}', "", "undecodable"),
        ('{"name":"add","inputSchema":{"type":"object"},"x":-Infinity}', "", "undecodable"),
        ('{"name":"add","inputSchema":{"default":1e999}}', "", "undecodable"),
        ("{}", "", "no-name"),
        ('{"inputSchema":{"type":"object"}}', "", "no-name"),
        ('{"name":null,"inputSchema":{"type":"object"}}', "", "no-name"),
        ('{"name":5}', "", "no-name"),
        ('{"name":""}', "", "no-name"),
        ('{"name":["add"]}', "", "no-name"),
        ('{"name":"add"}', "add", "no-schema"),
        ("{" + NAMED + "null}", "add", "no-schema"),
        ("{" + NAMED + "true}", "add", "no-schema"),
        ("{" + NAMED + '"object"}', "add", "no-schema"),
        ("{" + NAMED + "[1]}", "add", "no-schema"),
        ("{" + NAMED + '{"type":"string"}}', "add", "root-not-object"),
        ("{" + NAMED + '{"type":"array","$ref":"#/$defs/x"}}', "add", "root-not-object"),
        ("{" + NAMED + '{"type":["object"]}}', "add", "root-not-object"),
        ("{" + NAMED + '{"type":["object","null"]}}', "add", "root-not-object"),
        ("{" + NAMED + '{"type":null}}', "add", "root-not-object"),
        ("{" + NAMED + '{"$ref":"#/$defs/x","$defs":{"x":{"type":"object"}}}}', "add", "root-ref"),
    ],
)
def test_the_first_reason_that_holds_is_the_reason(entry: str, name: str, reason: str) -> None:
    skipped = judge_entry(entry.encode(), 7, ())
    assert isinstance(skipped, SkippedToolError)
    assert (skipped.name, skipped.index, skipped.reason) == (name, 7, reason)
    assert (skipped.cause is not None) == (reason == "undecodable")
    assert skipped.__cause__ is skipped.cause


def test_a_name_that_an_earlier_tool_has_is_refused_last() -> None:
    taken = {"add"}
    assert judge_entry(b'{"name":"add"}', 1, taken).reason == "no-schema"  # type: ignore[union-attr]
    skipped = judge_entry(b'{"name":"add","inputSchema":{}}', 1, taken)
    assert isinstance(skipped, SkippedToolError)
    assert (skipped.name, skipped.index, skipped.reason) == ("add", 1, "repeated-name")
    assert isinstance(judge_entry(b'{"name":"Add","inputSchema":{}}', 1, taken), ToolSpec)
    assert taken == {"add"}


@pytest.mark.table(
    ("entry", "reason"),
    [
        (b'{"name":"add"}', "no-schema"),
        (b'{"name":"add","inputSchema":{"type":"array"}}', "root-not-object"),
        (b'{"name":"add","inputSchema":{"$ref":"#"}}', "root-ref"),
        (b'{"name":"add","inputSchema":{}}', "bad-header"),
        (b'{"name":"taken","inputSchema":{}}', "bad-header"),
    ],
)
def test_headers_are_judged_after_the_schema_and_before_a_repeated_name(entry: bytes, reason: str) -> None:
    cause = ValueError("no header name")

    def check(spec: ToolSpec) -> None:
        raise cause

    skipped = judge_entry(entry, 3, {"taken"}, check)
    assert isinstance(skipped, SkippedToolError)
    assert (skipped.index, skipped.reason) == (3, reason)
    assert skipped.cause is skipped.__cause__ is (cause if reason == "bad-header" else None)


def test_a_check_sees_each_usable_entry_as_it_will_be() -> None:
    seen: list[ToolSpec] = []
    judged = judge_entry(b'{"name":"add","inputSchema":{}}', 0, (), seen.append)
    assert seen == [judged]


# --- what an accepted entry has


def test_a_whole_entry() -> None:
    entry = {
        "name": "add",
        "title": "Add",
        "description": "Adds.",
        "inputSchema": {"type": "object", "properties": {"a": {"type": "integer"}}},
        "outputSchema": {"type": "object"},
        "annotations": {
            "title": "Addition",
            "readOnlyHint": True,
            "destructiveHint": False,
            "idempotentHint": True,
            "openWorldHint": False,
            "colour": "red",
        },
        "icons": [{"src": "https://example.com/a.png"}],
        "_meta": {"com.example/k": 1},
    }
    spec = accepted(entry)
    assert spec == ToolSpec(
        "add",
        {"type": "object", "properties": {"a": {"type": "integer"}}},
        json.dumps(entry["inputSchema"]).encode(),
        title="Add",
        description="Adds.",
        output_schema={"type": "object"},
        output_schema_json=b'{"type": "object"}',
        annotations=ToolAnnotations("Addition", True, False, True, False, {"colour": "red"}),
        meta={"com.example/k": 1},
        raw=entry,
    )


def test_a_bare_entry() -> None:
    spec = listed()
    assert (spec.title, spec.description, spec.output_schema, spec.output_schema_json, spec.meta) == (None,) * 5
    assert spec.annotations == ToolAnnotations()
    hints = spec.annotations
    assert (hints.read_only_hint, hints.destructive_hint) == (False, True)
    assert (hints.idempotent_hint, hints.open_world_hint) == (False, True)


@pytest.mark.table(
    "schema",
    [
        b'{"type" : "object"}',
        b'{ "type":"object",\n\t"properties":{"a":{"default":1.10,"const":1e5}},"$schema":"x" }',
        b'{"type":"object","type":"object"}',
        b'{"$ref":"#/$defs/a","type":"object"}',
        b'{"properties":{}}',
        b"{}",
        b"{ }",
        b"[]",
        b"[ ]",
        '{"type":"object","title":"\N{SNOWMAN}\\u2603"}'.encode(),
        b'{"type":"object","maximum":123456789012345678901234567890}',
    ],
)
def test_schemas_are_kept_byte_for_byte(schema: bytes) -> None:
    spec = accepted(b'{"outputSchema" : ' + schema + b' , "name":"add", "inputSchema" :\n' + schema + b" }")
    assert type(spec.input_schema_json) is bytes
    assert spec.input_schema_json == schema
    assert spec.output_schema_json == schema
    assert spec.input_schema == (json.loads(schema) or {})


@pytest.mark.table(
    "schema",
    [None, True, "x", 5, [], [1], {}, {"type": "array"}, {"type": ["object"]}, {"$ref": "#"}, {"properties": {}}],
)
def test_a_bad_output_schema_never_costs_the_tool(schema: Any) -> None:
    spec = listed(outputSchema=schema)
    assert spec.output_schema is None
    assert spec.output_schema_json == (None if schema is None else json.dumps(schema).encode())


@pytest.mark.table("bad", [None, 5, ["x"], {"a": 1}, True])
def test_an_odd_optional_field_costs_only_itself(bad: Any) -> None:
    spec = listed(title=bad, description=bad, annotations=[bad], _meta="x")
    assert (spec.title, spec.description, spec.meta) == (None, None, None)
    assert spec.annotations == ToolAnnotations()
    assert spec.raw["title"] == bad


HINTS = ["title", "readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint", "colour"]


@given(st.dictionaries(st.sampled_from(HINTS), st.booleans() | st.text() | st.integers(0, 1) | st.none()))
def test_the_quick_reading_of_annotations_gives_what_the_converter_gives(annotations: dict[str, Any]) -> None:
    assert listed(annotations=annotations).annotations == structure(annotations, ToolAnnotations)


@pytest.mark.table("bad", ["true", 1, None, [True]])
def test_an_odd_hint_costs_only_itself(bad: Any) -> None:
    hints = listed(annotations={"readOnlyHint": bad, "idempotentHint": True}).annotations
    assert hints == ToolAnnotations(idempotent_hint=True, extra={"readOnlyHint": bad})


def test_an_entry_that_msgspec_refuses_is_read_and_its_schema_encoded_anew() -> None:
    spec = accepted(b'{"name":"add","description":"\\ud800","inputSchema": {"type" : "object"}}')
    assert spec.description == "\ud800"
    assert spec.input_schema_json == b'{"type":"object"}'
    spec = accepted(b'{"name":"add","description":"\xff","inputSchema":{"const":"\\udfff"},"outputSchema":5}')
    assert spec.description == "\N{REPLACEMENT CHARACTER}"
    assert (spec.input_schema_json, spec.output_schema_json) == (b'{"const":"\\udfff"}', b"5")


def test_names_are_the_servers_own_whatever_they_are() -> None:
    for name in ("a b", "\N{SNOWMAN}", "x" * 500, "a/b", "\n"):
        assert accepted({"name": name, "inputSchema": {}}).name == name


def test_a_spec_is_frozen_and_can_be_a_key() -> None:
    spec = listed()
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        spec.name = "x"  # type: ignore[misc]
    assert {spec: 1}[listed()] == 1
    assert spec != listed(x=1)


def test_what_cannot_be_nested_deeper_is_undecodable() -> None:
    deep = b"[" * 100_000 + b"]" * 100_000
    skipped = judge_entry(b'{"name":"add","inputSchema":{"x":' + deep + b"}}", 0, ())
    assert isinstance(skipped, SkippedToolError)
    assert skipped.reason == "undecodable"
    assert isinstance(skipped.cause, ProtocolError)


# --- any bytes at all

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.text(max_size=8), children, max_size=3),
    max_leaves=8,
)
schema_like = st.dictionaries(st.sampled_from(["type", "$ref", "properties"]), st.just("object") | json_values)
entry_like = st.fixed_dictionaries(
    {},
    optional={
        "name": st.text(max_size=8) | json_values,
        "inputSchema": schema_like | json_values,
        "outputSchema": schema_like | json_values,
        "title": json_values,
        "annotations": st.dictionaries(st.sampled_from(["title", "readOnlyHint"]), json_values) | json_values,
        "_meta": json_values,
    },
)


@given(st.binary() | (entry_like | json_values).map(lambda value: json.dumps(value).encode()))
def test_any_bytes_give_a_tool_or_a_reason(data: bytes) -> None:
    judged = judge_entry(data, 3, {"taken"})
    if isinstance(judged, ToolSpec):
        assert judged.name
        assert judged.input_schema.get("type", "object") == "object"
        assert json.loads(judged.input_schema_json) in (judged.input_schema, [])
    else:
        assert type(judged) is SkippedToolError
        assert judged.index == 3
