"""Schemas that a provider would refuse: mended where the meaning stays the same, else left out or refused."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from tests.provider_shapes import PROVIDERS
from trio_mcp.agents.providers.lookup import definitions
from trio_mcp.agents.providers.schemas import SchemaRules, fitted
from trio_mcp.agents.toolbox import Toolbox
from trio_mcp.functions.decorators import raw_tool
from trio_mcp.tools.tool import Tool

OPENAI = ["openai", "openai-responses"]
A, B = {"a": {"type": "string"}}, {"b": {"type": "string"}}
CHOICE = {"type": "object", "anyOf": [{"required": ["a"]}, {"required": ["b"]}], "properties": {**A, **B}}


def having(schema: Any, name: str = "odd") -> Tool:
    return raw_tool(name, "Odd.", json.dumps(schema).encode(), bytes)


def schema_of(definition: dict[str, Any]) -> Any:
    definition = definition.get("function", definition)
    return next(definition[key] for key in ("parameters", "input_schema", "inputSchema") if key in definition)


@pytest.mark.parametrize("unsupported", ["mend", "skip", "raise"])
@pytest.mark.parametrize("provider", PROVIDERS)
def test_null_members_never_reach_a_provider(provider: Any, unsupported: Any) -> None:
    schema = {
        "type": "object",
        "required": None,
        "description": None,
        "$defs": {"x": {"enum": None, "type": "string"}},
        "properties": {
            "a": None,
            "b": {"type": ["string", None], "items": None, "anyOf": None},
            "c": {"anyOf": [{"type": "string", "title": None}, {"type": "null"}], "default": None, "const": None},
            "d": {"type": "object", "properties": [], "required": ["x", None]},
            "e": {"enum": ["x", None]},
        },
    }
    (definition,) = definitions(provider, [having(schema)], unsupported)
    assert schema_of(definition) == {
        "type": "object",
        "$defs": {"x": {"type": "string"}},
        "properties": {
            "a": {},
            "b": {"type": ["string", "null"]},
            "c": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None, "const": None},
            "d": {"type": "object", "properties": {}, "required": ["x"]},
            "e": {"enum": ["x", None]},
        },
    }


@pytest.mark.parametrize("provider", PROVIDERS)
def test_properties_that_are_null_are_left_out(provider: Any) -> None:
    (definition,) = definitions(provider, [having({"type": "object", "properties": None})])
    assert schema_of(definition) == {"type": "object", **({"properties": {}} if provider in OPENAI else {})}


@pytest.mark.parametrize("provider", OPENAI)
def test_openai_is_given_items_wherever_an_array_has_none(provider: Any) -> None:
    pair = {"type": ["array", "null"], "prefixItems": [{"type": "array"}]}
    (definition,) = definitions(provider, [having({"properties": {"a": {"type": "array"}, "b": {"not": pair}}})])
    assert schema_of(definition)["properties"] == {
        "a": {"type": "array", "items": {}},
        "b": {"not": {**pair, "prefixItems": [{"type": "array", "items": {}}], "items": {}}},
    }


@pytest.mark.parametrize(
    ("schema", "mended"),
    [
        ({"anyOf": [{"properties": A, "required": ["a"]}]}, {"properties": A, "required": ["a"]}),
        ({"oneOf": [{"required": ["a"]}], "properties": A, "required": ["b"]}, {"required": ["b", "a"]}),
        ({"anyOf": [{"required": ["a"]}, {}], "properties": A}, {"properties": A}),
        ({"allOf": [{"properties": A}, {"properties": B, "description": "x"}]}, {"properties": {**A, **B}}),
        (
            {"anyOf": [{"$ref": "#/$defs/X"}], "$defs": {"X": {"type": "object", "properties": A}}},
            {"properties": A},
        ),
        ({"allOf": [{"properties": A, "additionalProperties": False}]}, {"additionalProperties": False}),
    ],
)
@pytest.mark.parametrize("provider", ["anthropic", *OPENAI])
def test_a_keyword_at_the_root_that_is_no_choice_is_mended(provider: Any, schema: Any, mended: Any) -> None:
    (definition,) = definitions(provider, [having({"type": "object", **schema})])
    found = schema_of(definition)
    assert not {"anyOf", "oneOf", "allOf"} & set(found)
    assert mended.items() <= found.items()


REFUSED = [
    CHOICE,
    {"type": "object", "oneOf": [{"properties": A}, {"properties": B}]},
    {"type": "object", "allOf": [{"properties": A}], "properties": B, "additionalProperties": False},
    {"type": "object", "allOf": [{"properties": A}], "properties": {"a": {"type": "integer"}}},
    {"type": "object", "allOf": [{"properties": A}], "properties": {"b": {"$ref": "#/allOf/0/properties/a"}}},
    {"type": "object", "allOf": [{"$ref": "https://example.org/x"}]},
    {"type": "object", "allOf": [{"if": {}, "then": {}}], "else": {}},
    {"type": "object", "anyOf": "odd"},
]


@pytest.mark.parametrize("schema", REFUSED)
@pytest.mark.parametrize("provider", ["anthropic", *OPENAI])
def test_a_choice_at_the_root_costs_its_own_tool_and_is_told(
    provider: Any, schema: Any, caplog: pytest.LogCaptureFixture
) -> None:
    keyword = next(key for key in ("anyOf", "oneOf", "allOf") if key in schema)
    good = having({"type": "object"}, "good")
    with caplog.at_level(logging.WARNING, "trio_mcp.tools"):
        (definition,) = definitions(provider, [having(schema), good])
    assert definition.get("function", definition)["name"] == "good"
    assert caplog.messages == [f'tool "odd" was left out: "{provider}" refuses its schema: the root has {keyword}']
    with pytest.raises(ValueError, match=f'^tool "odd": "{provider}" refuses its schema: the root has {keyword}$'):
        definitions(provider, [good, having(schema)], "raise")


@pytest.mark.parametrize("name", ["a b", "größe", "", "x" * 65, "$filter"])
def test_an_argument_whose_name_anthropic_does_not_take_costs_its_tool(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    tool = having({"type": "object", "properties": {name: {}}})
    assert definitions("anthropic", [tool]) == []
    assert f'tool "odd" was left out: "anthropic" refuses its schema: the argument {name!r} has' in caplog.text
    for provider in (*OPENAI, "mcp"):
        assert len(definitions(provider, [tool], "raise")) == 1  # type: ignore[arg-type]


def test_what_could_be_mended_is_left_out_or_raised_where_that_is_wished(caplog: pytest.LogCaptureFixture) -> None:
    tool = having({"type": "object", "properties": {"a": {"type": "array"}}})
    toolbox = Toolbox([tool])
    assert toolbox.definitions("openai", unsupported="skip") == []
    assert "properties.a is an array without items" in caplog.text
    with pytest.raises(ValueError, match="array without items"):
        toolbox.definitions("openai", unsupported="raise")
    assert len(toolbox.definitions("openai")) == len(toolbox.definitions("anthropic", unsupported="raise")) == 1


def test_mcp_is_given_everything() -> None:
    assert schema_of(definitions("mcp", [having(CHOICE)], "raise")[0]) == CHOICE


def test_another_way_is_refused() -> None:
    with pytest.raises(
        ValueError,
        match=r"^unsupported: expected .*, got 'drop'$",
    ):
        definitions("mcp", [], "drop")  # type: ignore[arg-type]


def test_a_schema_that_is_nested_too_deeply_is_refused_and_raises_nothing() -> None:
    schema: Any = {}
    for _ in range(400):
        schema = {"properties": {"a": schema}}
    assert fitted(schema, SchemaRules(needs_items=True)).refused in ((), ("the schema is nested too deeply",))
