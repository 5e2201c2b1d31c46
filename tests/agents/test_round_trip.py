"""What crosses the bridge twice comes out as it went in: local tool, server, import, second server, import.

Schemas, arguments and structured output are compared as bytes, on both wires, but for the `type` that is spliced
into a schema without one, and for line ends between tokens. Blocks and `_meta` are compared as values. Left out is
what no client of Python can hold: lone surrogates, and in schemas numbers that are no float or have over 4,300
digits.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import attrs
import pytest
import trio
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from tests.depth import examples
from tests.wiretap import Tap, open_tapped
from trio_mcp import (
    Audio,
    Connection,
    EmbeddedResource,
    Image,
    ResourceLink,
    Text,
    Tool,
    ToolAnnotations,
    ToolResult,
    ToolServer,
    ToolSpec,
    UnknownBlock,
    import_tools,
    raw_tool,
)
from trio_mcp.models.tool import judge_entry
from trio_mcp.protocol.revisions import META_SERVER_INFO, Era

ERAS = tuple(itertools.product(("modern", "legacy"), repeat=2))
eras = st.sampled_from(ERAS)


# --- JSON as text, spelled in every way that it can be

_plain = st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters='"\\'), max_size=5)
_escapes = st.sampled_from(
    [r"\n", r"\"", r"\\", r"\/", r"\u0041", r"\u00e9", r"\ud83d\ude00", r"\u0000", r"\u2028"]
)
_strings = st.lists(_plain | _escapes, max_size=4).map(lambda parts: f'"{"".join(parts)}"')
_spaces = st.sampled_from(["", "", "", " ", "  ", "\n", "\r\n", "\t", "\r"])
_numbers = st.sampled_from(
    (
        *(
            "0",
            "-0",
            "-0.0",
            "1.10",
            "1e2",
            "1E+02",
            "5e-7",
            "1.0",
            "18446744073709551616",
            "-9223372036854775809",
        ),
        *("340282366920938463463374607431768211457", "0.1000000000000000055511151231257827", "1.79769e308"),
    )
) | st.integers().map(str)
_scalars = st.sampled_from(["true", "false", "null", '"object"']) | _numbers | _strings
_keys = st.sampled_from(['"a"', '"b"', '"type"', '"$ref"', '"properties"', r'"\u0061"', r'"\u0074ype"']) | _strings


def _joined(opening: str, parts: list[tuple[str, str, str]], closing: str, space: str) -> str:
    return opening + (",".join("".join(part) for part in parts) or space) + closing


def _arrays(values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    parts = st.lists(st.tuples(_spaces, values, _spaces), max_size=4)
    return st.builds(_joined, st.just("["), parts, st.just("]"), _spaces)


def _objects(values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    names = st.tuples(_spaces, _keys, _spaces).map("".join)
    items = st.tuples(_spaces, values, _spaces).map("".join)
    parts = st.lists(st.tuples(names, st.just(":"), items), max_size=5)
    return st.builds(_joined, st.just("{"), parts, st.just("}"), _spaces)


json_texts = st.recursive(_scalars, lambda inner: _arrays(inner) | _objects(inner), max_leaves=12)
objects = _objects(json_texts)
DEEP = '{"a":' * 100 + "[[{}]]" + "}" * 100
ODD = r'{ "b":1.10,"a":1e2 ,"b" : 18446744073709551617, "\u0061":"\ud83d\ude00","n":-0,"é":[ ] }'


def on_one_line(text: str) -> bytes:
    """Text as it is to arrive."""
    return text.replace("\n", " ").replace("\r", " ").encode()


def with_type(text: str) -> bytes:
    """A schema as it is to be listed."""
    if "type" in json.loads(text):
        return on_one_line(text)
    inside = text[1:-1]
    return b'{"type":"object"}' if not inside.strip() else b'{"type":"object",' + on_one_line(inside) + b"}"


# --- the way


@asynccontextmanager
async def bridged(tool: Tool, eras: tuple[Era, Era]) -> AsyncIterator[tuple[Connection, Tap, Connection, Tap]]:
    """Both connections on the way: to the server of the tool, and to the one that publishes it again."""
    behind, front = ToolServer("behind"), ToolServer("front")
    behind.add_tools(tool)
    with trio.fail_after(20):
        async with open_tapped(behind, protocol=eras[0]) as (up, up_tap):
            imported = await import_tools(up)
            assert imported.skipped == ()
            front.add_tools(*imported.tools)
            async with open_tapped(front, protocol=eras[1]) as (down, down_tap):
                yield up, up_tap, down, down_tap


async def only(connection: Connection) -> Tool:
    imported = await import_tools(connection)
    assert imported.error is None
    (tool,) = imported.tools
    return tool


@given(objects, eras)
@example("{}", ERAS[0])
@example("{ \n }", ERAS[0])
@example(ODD, ERAS[1])
@example(DEEP, ERAS[2])
@example('{"x":1,\r\n"type" : "object"}', ERAS[3])
@settings(max_examples=examples(50))
def test_any_object_schema_survives_byte_for_byte(schema: str, eras: tuple[Era, Era]) -> None:
    root = json.loads(schema)
    assume(root["type"] == "object" if "type" in root else "$ref" not in root)
    tool = raw_tool("t", "d", schema.encode(), lambda arguments: None)
    assert tool.input_schema_json == schema.encode()
    expected = with_type(schema)

    async def main() -> None:
        async with bridged(tool, eras) as (up, up_tap, down, down_tap):
            for connection, tap in ((up, up_tap), (down, down_tap)):
                found = await only(connection)
                assert found.input_schema_json == expected
                assert found.input_schema == {"type": "object", **root}
                assert list(found.input_schema) == list(json.loads(expected)), "the order of the keys"
                assert b'"inputSchema":' + expected in tap.received

    trio.run(main)


@given(objects, eras, st.booleans())
@example(ODD, ERAS[0], True)
@example(DEEP, ERAS[1], True)
@example('{"huge":1e400,"digits":' + "9" * 5000 + "}", ERAS[2], True)
@example("{ }", ERAS[3], False)
@settings(max_examples=examples(50))
def test_any_object_arguments_survive_byte_for_byte(arguments: str, eras: tuple[Era, Era], as_text: bool) -> None:
    arrived: list[bytes] = []
    tool = raw_tool("t", "d", b"{}", arrived.append)
    expected = on_one_line(arguments)

    async def main() -> None:
        async with bridged(tool, eras) as (_, up_tap, down, down_tap):
            await (await only(down)).call(arguments if as_text else arguments.encode())
            for tap in (up_tap, down_tap):
                assert b'"arguments":' + expected in tap.sent

    trio.run(main)
    assert arrived == [expected]


# --- results

_texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=10)
_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | _texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_texts, inner, max_size=3),
    max_leaves=6,
)
_dicts = st.dictionaries(_texts.map(lambda key: f"x/{key}"), _values, min_size=1, max_size=3)
_more: dict[str, Any] = {name: st.none() | _dicts for name in ("annotations", "meta", "extra")}
_bytes = st.binary(max_size=20)
blocks = st.one_of(
    st.builds(Text, _texts),
    st.builds(Text, _texts, **_more),
    st.builds(Image, _bytes, _texts, **_more),
    st.builds(Audio, _bytes, _texts, **_more),
    st.builds(EmbeddedResource, _texts, text=_texts, mime_type=st.none() | _texts, **_more),
    st.builds(EmbeddedResource, _texts, blob=_bytes, **_more),
    st.builds(ResourceLink, _texts, _texts, size=st.none() | st.integers(), title=st.none() | _texts, **_more),
    _dicts.map(lambda fields: UnknownBlock("hologram", {"type": "hologram", **fields})),
    _dicts.map(lambda fields: UnknownBlock("image", {"type": "image", "data": "no base64!", **fields})),
    (_texts | st.integers()).map(lambda value: UnknownBlock("", value)),
)
results = st.builds(
    ToolResult,
    st.lists(blocks, max_size=4),
    is_error=st.booleans(),
    structured_json=st.none() | json_texts.map(str.encode),
    meta=st.none() | _dicts,
)


@given(results, eras)
@example(ToolResult(structured_json=b"null"), ERAS[0])
@example(ToolResult(structured_json=ODD.encode()), ERAS[1])
@example(ToolResult(structured_json=b"[1.10]", meta={"trace": 2**70}), ERAS[2])
@example(ToolResult(is_error=True), ERAS[3])
@settings(max_examples=examples(50))
def test_any_result_survives(result: ToolResult, eras: tuple[Era, Era]) -> None:
    tool = raw_tool("t", "d", b"{}", lambda arguments: result)
    structured = None if result.structured_json is None else on_one_line(result.structured_json.decode())
    sent = structured
    # server/tools: to legacy clients structured output is an object.
    if "legacy" in eras and structured is not None and not structured.startswith(b"{"):
        structured = b'{"result":%b}' % structured
    blocks = result.blocks
    if result.is_error and not (blocks and (result.content or result.images)):  # a failure has a text
        blocks = (Text(result.content or "mcp: tool returned an error"),)

    async def main() -> None:
        async with bridged(tool, eras) as (_, up_tap, down, down_tap):
            found = await (await only(down)).call(None)
            meta = {key: value for key, value in (found.meta or {}).items() if key != META_SERVER_INFO}
            assert meta == (result.meta or {})
            assert attrs.evolve(found, meta=None) == attrs.evolve(
                result, blocks=blocks, meta=None, structured_json=structured
            )
            if structured is not None:
                for tap, expected in (
                    (up_tap, sent if eras[0] == "modern" else structured),
                    (down_tap, structured),
                ):
                    assert b'"structuredContent":' + (expected or b"") in tap.received

    trio.run(main)


@pytest.mark.table("eras", ERAS)
async def test_every_other_field_of_an_entry_survives(eras: tuple[Era, Era]) -> None:
    entry = {
        "title": "A title",
        "description": "Does.\nMuch \u2028.",
        "annotations": {"title": "Another", "readOnlyHint": True, "x": [1.5, 2**70]},
        "icons": [{"src": "data:,", "sizes": ["1x1"]}],
        "_meta": {"a.b/c": None},
        "x-unknown": {"deep": [{}]},
    }
    output = b'{ "type":"object", "x" : 1.10 }'
    base = raw_tool("t", "Does.\nMuch \u2028.", b'{"type":"object"}', lambda arguments: None)
    read = judge_entry(json.dumps({**entry, "name": "t", "inputSchema": {}}).encode(), 0, ())
    assert isinstance(read, ToolSpec)
    spec = attrs.evolve(
        base.spec,
        raw=entry,
        title="A title",
        annotations=read.annotations,
        meta=read.meta,
        output_schema={},
        output_schema_json=output,
    )
    async with bridged(attrs.evolve(base, spec=spec), eras) as (up, _, down, _):
        first, second = await only(up), await only(down)
    assert {key: first.spec.raw.get(key) for key in entry} == entry
    assert first.spec.output_schema_json == output
    assert second.spec == first.spec
    assert list(second.spec.raw) == list(first.spec.raw), "the order of the keys"
    assert (second.name, second.title, second.description) == (first.name, first.title, first.description)


@pytest.mark.table("eras", ERAS)
async def test_a_title_among_the_annotations_stays_there(eras: tuple[Era, Era]) -> None:
    base = raw_tool("t", "d", b'{"type":"object"}', lambda arguments: None)
    spec = attrs.evolve(base.spec, annotations=ToolAnnotations(title="Hers"))
    async with bridged(attrs.evolve(base, spec=spec), eras) as (up, _, down, _):
        for connection in (up, down):
            found = await only(connection)
            assert (found.title, "title" in found.spec.raw) == ("Hers", False)
