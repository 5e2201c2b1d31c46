"""To legacy clients structured output is an object: any other value goes to them as `{"result": value}`."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import attrs
import pytest

from tests.exposing import raw
from trio_mcp import ToolServer, tool


@dataclass
class Pear:
    weight: int
    inside: list[Pear] = field(default_factory=list)


def a_list() -> list[int]:
    return [1, 2]


def an_empty_list() -> list[str]:
    return []


def a_number() -> int:
    return 5


def nothing() -> int | None:
    return None


def either() -> dict[str, int] | list[int]:
    return {"a": 1}


def pears() -> list[Pear]:
    return [Pear(1, [Pear(2)])]


def unsaid():  # type: ignore[no-untyped-def]
    return [1]


def an_object() -> dict[str, int]:
    return {"a": 1}


def a_text() -> str:
    return "x"


CASES: list[tuple[Callable[..., Any], Any]] = [
    (a_list, {"result": [1, 2]}),
    (an_empty_list, {"result": []}),
    (a_number, {"result": 5}),
    (nothing, {"result": None}),
    (either, {"result": {"a": 1}}),
    (pears, {"result": [{"weight": 1, "inside": [{"weight": 2, "inside": []}]}]}),
    (unsaid, {"result": [1]}),
    (an_object, {"a": 1}),
    (a_text, None),
]


@pytest.mark.table(("function", "structured"), CASES)
async def test_a_legacy_client_gets_an_object_that_is_of_the_schema_it_was_told(
    function: Callable[..., Any], structured: Any
) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    async with raw(function) as client:
        await client.initialize()
        (entry,) = (await client.request("tools/list"))["result"]["tools"]
        result = (await client.request("tools/call", {"name": entry["name"]}))["result"]
    assert result.get("structuredContent") == structured
    if "outputSchema" in entry:
        assert entry["outputSchema"]["type"] == "object"
        jsonschema.validate(result["structuredContent"], entry["outputSchema"])
    else:
        assert function in (unsaid, a_text)


async def test_a_modern_client_gets_the_value_as_it_is() -> None:
    async with raw(a_list) as client:
        (entry,) = (await client.modern("tools/list"))["result"]["tools"]
        result = (await client.modern("tools/call", name="a_list"))["result"]
    assert result["structuredContent"] == [1, 2]
    assert entry["outputSchema"]["type"] == "array"


@pytest.mark.table(
    "schema",
    [
        {"type": "array", "items": {"anyOf": [{"type": "integer"}, {"$ref": "#"}]}},
        {"type": "array", "prefixItems": [{"type": "integer"}], "items": {"$ref": "#/prefixItems/0"}},
        {"$id": "https://x.example/list", "type": "array"},
        {"type": "array", "items": {"$ref": "#item"}, "$defs": {"a": {"$anchor": "item"}}},
    ],
    ids=str,
)
async def test_a_schema_that_would_mean_something_else_when_wrapped_is_left_out(schema: Any) -> None:
    made = tool(a_list)
    spec = attrs.evolve(made.spec, output_schema_json=json.dumps(schema).encode())
    server = ToolServer("s")
    server.add_tools(attrs.evolve(made, spec=spec))
    async with raw(server=server) as client:
        await client.initialize()
        (entry,) = (await client.request("tools/list"))["result"]["tools"]
        result = (await client.request("tools/call", {"name": "a_list"}))["result"]
    assert "outputSchema" not in entry
    assert result["structuredContent"] == {"result": [1, 2]}
