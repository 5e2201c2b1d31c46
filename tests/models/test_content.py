"""Content blocks: read without loss, written as the specification has them."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trio_mcp.models.content import (
    Audio,
    Block,
    EmbeddedResource,
    Image,
    ResourceLink,
    Text,
    UnknownBlock,
    block_to_wire,
    read_block,
)

MARKS: dict[str, Any] = {"annotations": {"audience": ["user"], "priority": 0.5}, "_meta": {"com.example/k": None}}

KNOWN: list[tuple[dict[str, Any], Block]] = [
    ({"type": "text", "text": "hello"}, Text("hello")),
    ({"type": "text", "text": ""}, Text("")),
    ({"type": "image", "data": "R0lGODlh", "mimeType": "image/gif"}, Image(b"GIF89a", "image/gif")),
    ({"type": "image", "data": "", "mimeType": "image/gif"}, Image(b"", "image/gif")),
    ({"type": "audio", "data": "QUI=", "mimeType": "audio/wav"}, Audio(b"AB", "audio/wav")),
    (
        {"type": "resource", "resource": {"uri": "file:///a", "mimeType": "text/plain", "text": "x"}},
        EmbeddedResource("file:///a", text="x", mime_type="text/plain"),
    ),
    (
        {"type": "resource", "resource": {"uri": "file:///a", "blob": "QUI="}},
        EmbeddedResource("file:///a", blob=b"AB"),
    ),
    ({"type": "resource", "resource": {"uri": "u", "text": ""}}, EmbeddedResource("u", text="")),
    (
        {"type": "resource", "resource": {"uri": "u", "text": "x", "blob": "QUI="}},
        EmbeddedResource("u", text="x", blob=b"AB"),
    ),
    ({"type": "resource_link", "uri": "u", "name": "n"}, ResourceLink("u", "n")),
    (
        {
            "type": "resource_link",
            "uri": "u",
            "name": "n",
            "title": "T",
            "description": "D",
            "mimeType": "text/plain",
            "size": 2**60,
        },
        ResourceLink("u", "n", title="T", description="D", mime_type="text/plain", size=2**60),
    ),
]


@pytest.mark.table(("wire", "block"), KNOWN)
def test_known_blocks_are_read_and_written(wire: dict[str, Any], block: Block) -> None:
    assert read_block(wire) == block
    assert block_to_wire(block) == wire


@pytest.mark.table(("wire", "block"), KNOWN)
def test_every_block_has_annotations_and_meta(wire: dict[str, Any], block: Block) -> None:
    marked = attrs.evolve(block, annotations=MARKS["annotations"], meta=MARKS["_meta"])
    assert read_block(wire | MARKS) == marked
    assert block_to_wire(marked) == wire | MARKS


@pytest.mark.table(("wire", "block"), KNOWN)
def test_unknown_fields_are_kept(wire: dict[str, Any], block: Any) -> None:
    assert read_block(wire | {"icons": [1], "x": None}) == attrs.evolve(block, extra={"icons": [1], "x": None})
    assert block_to_wire(read_block(wire | {"icons": [1], "x": None})) == wire | {"icons": [1], "x": None}


@pytest.mark.table("bad", ["x", 5, None, True, [1]])
@pytest.mark.table(("wire", "block"), KNOWN)
def test_marks_of_a_wrong_type_cost_only_themselves(wire: dict[str, Any], block: Block, bad: Any) -> None:
    found = read_block(wire | {"annotations": bad, "_meta": bad})
    assert type(found) is type(block)
    assert (found.annotations, found.meta) == (None, None)
    assert block_to_wire(found) == wire | {"annotations": bad, "_meta": bad}


def test_what_is_inside_a_resource_is_kept_too() -> None:
    wire = {
        "type": "resource",
        "resource": {"uri": "u", "text": "x", "_meta": {"a": 1}, "new": 2, "mimeType": 5},
        "_meta": {"b": 1},
    }
    block = read_block(wire)
    inside = {"_meta": {"a": 1}, "new": 2, "mimeType": 5}
    assert block == EmbeddedResource("u", text="x", meta={"b": 1}, extra={"resource": inside})
    assert block_to_wire(block) == wire


@pytest.mark.table(
    "raw",
    [
        {"type": "hologram", "depth": 3},
        {"type": "text"},
        {"type": "text", "text": None},
        {"type": "text", "text": 5},
        {"type": "image", "data": "R0lGODlh"},
        {"type": "image", "mimeType": "image/gif"},
        {"type": "image", "data": "not base64!", "mimeType": "image/gif"},
        {"type": "image", "data": "é", "mimeType": "image/gif"},
        {"type": "image", "data": [1], "mimeType": "image/gif"},
        {"type": "audio", "data": "====", "mimeType": "audio/wav"},
        {"type": "resource"},
        {"type": "resource", "resource": "u"},
        {"type": "resource", "resource": []},
        {"type": "resource", "resource": {"uri": "u"}},
        {"type": "resource", "resource": {"text": "x"}},
        {"type": "resource", "resource": {"uri": "u", "blob": "!"}},
        {"type": "resource_link", "uri": "u"},
        {"type": "resource_link", "uri": 5, "name": "n"},
        {"type": ""},
        {"type": "Text", "text": "x"},
    ],
)
def test_what_cannot_be_read_is_kept_raw_under_its_type(raw: dict[str, Any]) -> None:
    assert read_block(raw) == UnknownBlock(raw["type"], raw)
    assert block_to_wire(read_block(raw)) == raw


@pytest.mark.table("raw", [None, 5, "hello", ["x"], True, {}, {"text": "x"}, {"type": 5}, {"type": None}])
def test_what_has_no_type_is_kept_raw_all_the_same(raw: Any) -> None:
    assert read_block(raw) == UnknownBlock("", raw)
    assert block_to_wire(read_block(raw)) == raw


def test_an_unknown_block_has_marks_where_they_are_readable() -> None:
    raw = {"type": "new", "annotations": {"priority": 1}, "_meta": 5}
    assert read_block(raw) == UnknownBlock("new", raw, annotations={"priority": 1})
    assert block_to_wire(UnknownBlock("new", {"x": 1}, meta={"k": 1})) == {
        "type": "new",
        "x": 1,
        "_meta": {"k": 1},
    }


def test_reading_leaves_its_input_alone() -> None:
    for wire, _ in KNOWN:
        before = json.dumps(wire)
        read_block(wire)
        assert json.dumps(wire) == before


@pytest.mark.table(
    ("make", "field"),
    [
        (lambda: Text(5), "text"),  # type: ignore[arg-type]
        (lambda: Text(b"x"), "text"),  # type: ignore[arg-type]
        (lambda: Text("x", meta=[]), "meta"),  # type: ignore[arg-type]
        (lambda: Text("x", annotations="user"), "annotations"),  # type: ignore[arg-type]
        (lambda: Image("R0lG", "image/gif"), "data"),  # type: ignore[arg-type]
        (lambda: Image(b"GIF", None), "mime_type"),  # type: ignore[arg-type]
        (lambda: Audio(5, "audio/wav"), "data"),  # type: ignore[arg-type]
        (lambda: EmbeddedResource("u", text=b"x"), "text"),  # type: ignore[arg-type]
        (lambda: EmbeddedResource("u", blob="x"), "blob"),  # type: ignore[arg-type]
        (lambda: ResourceLink("u", 5), "name"),  # type: ignore[arg-type]
        (lambda: ResourceLink("u", "n", size="5"), "size"),  # type: ignore[arg-type]
        (lambda: UnknownBlock(None, {}), "type"),  # type: ignore[arg-type]
    ],
)
def test_a_block_with_a_wrong_type_names_the_field(make: Any, field: str) -> None:
    with pytest.raises(TypeError, match=f"^{field}: expected"):
        make()


def test_an_embedded_resource_has_contents() -> None:
    with pytest.raises(ValueError, match="text or blob"):
        EmbeddedResource("u")


def test_what_a_block_is_made_of_beside_its_essence_is_given_by_keyword() -> None:
    with pytest.raises(TypeError):
        Text("x", {})  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        EmbeddedResource("u", "text")  # type: ignore[call-arg, arg-type]
    with pytest.raises(TypeError):
        ResourceLink("u", "n", "title")  # type: ignore[call-arg, arg-type]


def test_blocks_are_frozen_and_bytes_do_not_flood_their_reprs() -> None:
    image = Image(b"x" * 10_000, "image/png")
    assert len(repr(image)) < 200
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        image.mime_type = "image/gif"  # type: ignore[misc]
    assert hash(image) == hash(Image(b"x" * 10_000, "image/png"))


# --- round trips

words = st.text(max_size=20)
fields = st.none() | st.dictionaries(words, st.none() | st.booleans() | st.integers() | words, max_size=3)
extras = st.none() | st.dictionaries(
    words.map(lambda word: "x-" + word), st.integers() | words, min_size=1, max_size=3
)
marks = {"annotations": fields, "meta": fields, "extra": extras}
blocks: st.SearchStrategy[Block] = st.one_of(
    st.builds(Text, words, **marks),
    st.builds(Image, st.binary(), words, **marks),
    st.builds(Audio, st.binary(), words, **marks),
    st.builds(
        EmbeddedResource, words, text=words, blob=st.none() | st.binary(), mime_type=st.none() | words, **marks
    ),
    st.builds(EmbeddedResource, words, blob=st.binary(), mime_type=st.none() | words, **marks),
    st.builds(
        ResourceLink,
        words,
        words,
        title=st.none() | words,
        description=st.none() | words,
        mime_type=st.none() | words,
        size=st.none() | st.integers(),
        **marks,
    ),
)


@given(blocks)
def test_a_block_written_and_read_is_the_same(block: Block) -> None:
    assert read_block(json.loads(json.dumps(block_to_wire(block)))) == block


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | words,
    lambda children: st.lists(children, min_size=1, max_size=3) | st.dictionaries(words, children, max_size=3),
    max_leaves=8,
)
FIELDS = [
    "text",
    "data",
    "mimeType",
    "uri",
    "name",
    "title",
    "description",
    "size",
    "resource",
    "annotations",
    "_meta",
]
encoded = st.binary(max_size=9).map(lambda data: b64encode(data).decode())
inner = st.dictionaries(st.sampled_from([*FIELDS, "blob"]), encoded | json_values, max_size=5)
block_like = st.builds(
    lambda kind, members: {"type": kind, **members},
    st.sampled_from(["text", "image", "audio", "resource", "resource_link", "new"]) | json_values,
    st.dictionaries(st.sampled_from(FIELDS) | words, encoded | inner | json_values, max_size=6),
)


@given(json_values | block_like)
def test_whatever_is_read_as_a_block_is_written_as_it_came(value: Any) -> None:
    assert block_to_wire(read_block(value)) == value
