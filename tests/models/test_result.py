"""Results of tools/call: how they are read, and the two renderings of the design's table."""

from __future__ import annotations

import json
import pickle
from contextlib import suppress
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from trio_mcp.errors import ProtocolError
from trio_mcp.models.content import (
    Audio,
    Block,
    EmbeddedResource,
    Image,
    ResourceLink,
    Text,
    UnknownBlock,
    read_block,
)
from trio_mcp.models.result import InputRequired, ToolResult, read_call_result

PICTURE = Image(b"x" * 1234, "image/png")
SOUND = Audio(b"x" * 1234, "audio/wav")


def read(**members: Any) -> ToolResult:
    result = read_call_result(json.dumps(members).encode())
    assert isinstance(result, ToolResult)
    return result


@pytest.mark.table(
    "data",
    [
        b'{"content":[{"type":"text","text":"a"}],"structuredContent":{"n":1.10}}',
        b'{"content":[],"structuredContent":NaN}',
        b'{"resultType":"input_required","requestState":"s"}',
    ],
)
def test_a_result_reads_the_same_while_it_is_still_a_part_of_its_line(data: bytes) -> None:
    assert read_call_result(Raw(data)) == read_call_result(data)


@pytest.mark.table("data", [b'{"content":7}', b"[1]", b'{"resultType":"odd"}', b'{"content":['])
def test_a_wrong_result_is_refused_the_same_while_it_is_still_a_part_of_its_line(data: bytes) -> None:
    errors = []
    for given_as in (data, Raw(data)):
        with pytest.raises(ProtocolError) as caught:
            read_call_result(given_as)
        errors.append((caught.value.reason, caught.value.payload))
    assert errors[0] == errors[1]


# --- the table of renderings

UNREAD_SOUND = "[content: audio.data: expected base64, got number]"


@pytest.mark.table(
    ("block", "content", "as_text"),
    [
        (Text("hello"), "hello", "hello"),
        (Text(""), "", ""),
        (Text("two\nlines"), "two\nlines", "two\nlines"),
        (PICTURE, "", "[image image/png, 1234 bytes]"),
        (SOUND, "[audio: audio/wav]", "[audio audio/wav, 1234 bytes]"),
        (EmbeddedResource("file:///a", text="inside"), "inside", "[resource file:///a]"),
        (EmbeddedResource("file:///a", text=""), "", "[resource file:///a]"),
        (EmbeddedResource("file:///a", blob=b"x"), "[binary resource: file:///a]", "[resource file:///a]"),
        (EmbeddedResource("file:///a", text="inside", blob=b"x"), "inside", "[resource file:///a]"),
        (ResourceLink("file:///a", "a"), "[resource link: file:///a]", "[resource file:///a]"),
        (UnknownBlock("hologram", {"type": "hologram"}), "[content: hologram]", "[content]"),
        (read_block({"type": "audio", "data": 5, "mimeType": "audio/wav"}), UNREAD_SOUND, UNREAD_SOUND),
    ],
)
def test_each_kind_of_block_is_rendered_as_the_table_says(block: Block, content: str, as_text: str) -> None:
    result = ToolResult([block])
    assert (result.content, result.as_text()) == (content, as_text)
    assert result.images == ((block,) if isinstance(block, Image) else ())
    failed = ToolResult([block], is_error=True)
    assert (failed.content, failed.as_text()) == (content, as_text)


def test_parts_are_joined_by_newlines_in_order_and_images_stand_beside() -> None:
    other = Image(b"yy", "image/gif")
    result = ToolResult([Text("a"), PICTURE, Text(""), SOUND, other, Text("b")])
    assert result.content == "a\n\n[audio: audio/wav]\nb"
    assert result.images == (PICTURE, other)
    assert result.as_text() == (
        "a\n[image image/png, 1234 bytes]\n\n[audio audio/wav, 1234 bytes]\n[image image/gif, 2 bytes]\nb"
    )


def test_structured_output_is_the_content_only_where_there_are_no_blocks() -> None:
    sent = b'{"sum" : 5}'
    assert ToolResult(structured_json=sent).content == '{"sum" : 5}'
    assert ToolResult("five", structured_json=sent).content == "five"
    assert ToolResult("", structured_json=sent).content == ""
    assert ToolResult(PICTURE, structured_json=sent).content == ""


def test_structured_output_takes_the_place_of_everything_in_the_one_text() -> None:
    sent = b'{"sum" : 5}'
    assert ToolResult(structured_json=sent).as_text() == '{"sum" : 5}'
    assert ToolResult([Text("five"), PICTURE], structured_json=sent).as_text() == '{"sum" : 5}'
    assert ToolResult("five", structured_json=b"null").as_text() == "five"  # to most who write it, it is absent
    assert ToolResult(structured_json=b"null").as_text() == "null"


def test_nothing_renders_as_nothing() -> None:
    assert (ToolResult().content, ToolResult().as_text(), ToolResult().images) == ("", "", ())


# --- ToolResult as users make it


def test_blocks_may_be_text_one_block_or_many() -> None:
    assert ToolResult() == ToolResult(()) == ToolResult([])
    assert ToolResult("x") == ToolResult(Text("x")) == ToolResult([Text("x")]) == ToolResult(iter([Text("x")]))
    assert ToolResult("x").blocks == (Text("x"),)


@pytest.mark.table(
    ("make", "field"),
    [
        (lambda: ToolResult(5), "blocks"),  # type: ignore[arg-type]
        (lambda: ToolResult(None), "blocks"),  # type: ignore[arg-type]
        (lambda: ToolResult(b"x"), "blocks"),  # type: ignore[arg-type]
        (lambda: ToolResult(["x"]), "blocks"),  # type: ignore[list-item]
        (lambda: ToolResult(("x",)), "blocks"),  # type: ignore[arg-type]
        (lambda: ToolResult({"type": "text"}), "blocks"),  # type: ignore[dict-item]
        (lambda: ToolResult(is_error=1), "is_error"),  # type: ignore[arg-type]
        (lambda: ToolResult(structured_json="{}"), "structured_json"),  # type: ignore[arg-type]
        (lambda: ToolResult(structured_json={}), "structured_json"),  # type: ignore[arg-type]
        (lambda: ToolResult(meta=[]), "meta"),  # type: ignore[arg-type]
    ],
)
def test_a_result_with_a_wrong_type_names_the_field(make: Any, field: str) -> None:
    with pytest.raises(TypeError, match=f"^{field}: expected"):
        make()


def test_results_are_frozen_and_without_a_dict() -> None:
    result = ToolResult("x")
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        result.is_error = True  # type: ignore[misc]
    assert not hasattr(result, "__dict__")
    with pytest.raises(TypeError):
        ToolResult("x", True)  # type: ignore[call-arg]


def test_structured_is_decoded_and_absent_is_not_null() -> None:
    assert ToolResult(structured_json=b'{"n": 12345678901234567890}').structured == {"n": 12345678901234567890}
    assert ToolResult(structured_json=b"null").structured is None
    assert ToolResult(structured_json=b"null") != ToolResult()
    with pytest.raises(ProtocolError):
        _ = ToolResult(structured_json=b"{").structured


# --- reading


def test_a_small_text_is_read_as_the_constructor_would_make_it() -> None:
    """Results are filled slot by slot: none may stay empty."""
    result = read(content=[{"type": "text", "text": "5"}])
    assert result == ToolResult("5")
    assert repr(result) == repr(ToolResult("5"))
    assert hash(result) == hash(ToolResult("5"))
    assert pickle.loads(pickle.dumps(result)) == result
    assert attrs.evolve(result, is_error=True) == ToolResult("5", is_error=True)


def test_blocks_of_all_kinds_are_read_in_order() -> None:
    result = read(
        content=[
            {"type": "text", "text": "a"},
            {"type": "text", "text": "b", "annotations": {"priority": 1}},
            {"type": "image", "data": "QUI=", "mimeType": "image/png"},
            {"type": "hologram"},
            {"type": "text", "text": 5},
            {"type": "text", "txt": "x"},
            "stray",
        ]
    )
    assert result.blocks == (
        Text("a"),
        Text("b", annotations={"priority": 1}),
        Image(b"AB", "image/png"),
        UnknownBlock("hologram", {"type": "hologram"}),
        UnknownBlock("text", {"type": "text", "text": 5}),
        UnknownBlock("text", {"type": "text", "txt": "x"}),
        UnknownBlock("", "stray"),
    )


@pytest.mark.table("data", [b"{}", b"[]", b" { } ", b'{"content":[]}', b'{"content":[],"isError":false}'])
def test_missing_content_is_empty(data: bytes) -> None:
    assert read_call_result(data) == ToolResult()


def test_meta_and_unknown_members_do_no_harm() -> None:
    result = read(content=[], _meta={"com.example/k": 1}, new={"deep": []}, resultType="complete", ttlMs="x")
    assert result == ToolResult(meta={"com.example/k": 1})
    assert read(content=[], _meta=[]).meta == {}


def test_null_stands_for_absent_where_the_member_is_optional() -> None:
    assert read(content=[], isError=None, _meta=None) == ToolResult()


def test_a_failed_tool_is_a_result() -> None:
    assert read(content=[{"type": "text", "text": "no"}], isError=True) == ToolResult("no", is_error=True)


@pytest.mark.table(
    "sent",
    [
        b"null",
        b"false",
        b"0",
        b'""',
        b"[]",
        b"{}",
        b'{"b" : 1,\n "a":[ 1.10, 2E3 ]}',
        b'{"a":1,"a":2}',
        b"123456789012345678901234567890",
        '"\N{SNOWMAN}\\u2603"'.encode(),
    ],
)
def test_structured_output_is_kept_byte_for_byte(sent: bytes) -> None:
    line = b'{"content":[], "structuredContent" : ' + sent + b' , "isError":true}'
    result = read_call_result(line)
    assert isinstance(result, ToolResult)
    assert type(result.structured_json) is bytes
    assert result.structured_json == sent
    assert result.content == sent.decode()
    assert result.is_error


def test_structured_output_stays_verbatim_where_another_member_needs_the_wide_reading() -> None:
    result = read_call_result(b'{"structuredContent": {"a" : 1.10}, "_meta": []}')
    assert result == ToolResult(structured_json=b'{"a" : 1.10}', meta={})
    result = read_call_result(b'{"content":[{"type":"text","text":"\xff"}],"structuredContent":{"a" : 1.10}}')
    assert result == ToolResult("\N{REPLACEMENT CHARACTER}", structured_json=b'{"a" : 1.10}')


@pytest.mark.table(
    ("data", "expected"),
    [
        (b'{"content":[{"type":"text","text":"\\ud800"}]}', ToolResult("\ud800")),
        (b'\xef\xbb\xbf{"content":[]}', ToolResult()),
        (b'{"content":[{"type":"new","n":Infinity}]}', ToolResult(read_block({"type": "new", "n": float("inf")}))),
        (b'{"structuredContent":{"a":NaN}}', ToolResult(structured_json=b'{"a":NaN}')),
        (b'{"structuredContent":"\\ud800"}', ToolResult(structured_json=b'"\\ud800"')),
    ],
)
def test_what_msgspec_refuses_is_read_all_the_same(data: bytes, expected: ToolResult) -> None:
    assert read_call_result(data) == expected


def test_integers_are_exact() -> None:
    result = read(content=[{"type": "new", "n": 2**70 + 1}], structuredContent={"n": 2**53 + 1})
    assert isinstance(result.blocks[0], UnknownBlock)
    assert result.blocks[0].raw["n"] == 2**70 + 1
    assert result.structured == {"n": 2**53 + 1}


@pytest.mark.table(
    ("data", "reason"),
    [
        (b"null", "result: expected an object, got null"),
        (b"5", "result: expected an object, got number"),
        (b'"x"', "result: expected an object, got string"),
        (b"[1]", "result: expected an object, got array"),
        (b'{"content":5}', "result.content: expected an array, got number"),
        (b'{"content":[],"isError":"maybe"}', "result.isError: expected a boolean, got string"),
        (b'{"content":[],"isError":{}}', "result.isError: expected a boolean, got object"),
        (b'{"content":[],"resultType":5}', "result.resultType: expected a string, got number"),
        (b'{"content":[],"resultType":"task"}', "result.resultType: 'task' is unknown"),
        (b'{"content":[],"resultType":""}', "result.resultType: '' is unknown"),
        (b"{", "no JSON"),
        (b"", "no JSON"),
    ],
)
def test_what_is_no_result_is_a_protocol_error_with_its_path(data: bytes, reason: str) -> None:
    with pytest.raises(ProtocolError) as caught:
        read_call_result(data)
    assert caught.value.reason.startswith(reason)
    assert caught.value.payload == data.decode()


BLOCK = b'{"type":"text","text":"hi"}'


@pytest.mark.table(
    ("data", "expected", "warnings"),
    [
        # Null is absent: Go writes it for a nil slice, JavaScript for a member that was not set.
        (b'{"content":null,"structuredContent":{"a":1}}', ToolResult(structured_json=b'{"a":1}'), 0),
        (b'{"content":null,"isError":null,"_meta":null,"resultType":null}', ToolResult(), 0),
        (b'{"content":[%b],"resultType":null}' % BLOCK, ToolResult("hi"), 0),
        (b'{"isError":true}', ToolResult(is_error=True), 0),
        # One for a list.
        (b'{"content":%b}' % BLOCK, ToolResult("hi"), 1),
        (b'{"content":"hi"}', ToolResult("hi"), 1),
        # PHP: an object for a list without its first entry, a list for an empty object, and the reverse.
        (b'{"content":{"1":%b}}' % BLOCK, ToolResult("hi"), 1),
        (b'{"content":{}}', ToolResult(), 1),
        (b'{"content":[],"_meta":[]}', ToolResult(meta={}), 0),
        (b"[]", ToolResult(), 0),
        # A number or a text for a boolean; another member that says nothing of the result.
        (b'{"content":[%b],"isError":0}' % BLOCK, ToolResult("hi"), 1),
        (b'{"content":[%b],"isError":1}' % BLOCK, ToolResult("hi", is_error=True), 1),
        (b'{"content":[%b],"isError":"true"}' % BLOCK, ToolResult("hi", is_error=True), 1),
        (b'{"content":[%b],"_meta":"x"}' % BLOCK, ToolResult("hi"), 1),
        (b'{"content":[%b],"_meta":[1]}' % BLOCK, ToolResult("hi"), 1),
    ],
)
def test_a_result_as_php_go_and_javascript_write_it_is_read(
    data: bytes, expected: ToolResult, warnings: int
) -> None:
    told: list[str] = []
    assert read_call_result(data, told.append) == expected
    assert len(told) == warnings


@pytest.mark.table(
    ("entry", "text"),
    [
        (b'"hello"', '"hello"'),
        (b"5", "5"),
        (b"null", "null"),
        (b'["a", {"b": 1}]', '["a", {"b": 1}]'),
        (b'{"text":"no type"}', '{"text": "no type"}'),
        (b'{"type":"text","text":5}', "[content: text.text: expected a string, got number]"),
        (b'{"type":"text","text":null}', "[content: text.text: expected a string, got null]"),
        (b'{"type":"image","data":"QUI="}', "[content: image.mimeType: is missing]"),
    ],
)
def test_an_entry_that_is_no_block_shows_as_its_json_or_as_why_it_cannot_be_read(entry: bytes, text: str) -> None:
    result = read_call_result(b'{"content":[%b]}' % entry)
    assert isinstance(result, ToolResult)
    assert result.content == result.as_text() == text


@pytest.mark.table(
    "data",
    [
        "QUJD+/8=",
        "QUJD-_8=",
        "QUJD-_8",
        "QUJD+/8",
        "QUJD\r\n+/8=\n",
        "QUJD +/8=",
        "data:image/png;base64,QUJD+/8=",
    ],
)
def test_base64_is_read_in_every_form_that_means_one_thing(data: str) -> None:
    assert read(content=[{"type": "image", "data": data, "mimeType": "image/png"}]).images == (
        Image(b"ABC\xfb\xff", "image/png"),
    )


@pytest.mark.table("data", ["not base64!", "QUJD-/8=", "A", "data:image/png,abc", "QU=D"])
def test_base64_that_may_mean_anything_is_a_note_that_says_why_and_a_warning(data: str) -> None:
    told: list[str] = []
    sent = {"content": [{"type": "image", "data": data, "mimeType": "image/png"}]}
    result = read_call_result(json.dumps(sent).encode(), told.append)
    assert isinstance(result, ToolResult)
    assert result.content.startswith("[content: image.data: expected base64")
    assert data not in result.content
    [warning] = told
    assert "image.data: expected base64" in warning


# --- input_required


def test_input_required_has_requests_a_state_or_both() -> None:
    question = {"method": "elicitation/create", "params": {"message": "?"}}
    both = read_call_result(
        json.dumps(
            {"resultType": "input_required", "inputRequests": {"k": question}, "requestState": "s"}
        ).encode()
    )
    assert both == InputRequired({"k": question}, "s")
    asks = read_call_result(
        json.dumps({"resultType": "input_required", "inputRequests": {"k": question}}).encode()
    )
    assert asks == InputRequired({"k": question}, None)
    waits = read_call_result(b'{"resultType":"input_required","requestState":"","inputRequests":null}')
    assert waits == InputRequired({}, "")


@pytest.mark.table(
    ("members", "reason"),
    [
        ({}, "result: input_required with neither"),
        ({"inputRequests": None, "requestState": None}, "result: input_required with neither"),
        ({"inputRequests": ["k"]}, "result.inputRequests: expected an object, got array"),
        ({"inputRequests": {"k": "ask"}}, "result.inputRequests.k: expected an object, got string"),
        ({"inputRequests": {"k": None}}, "result.inputRequests.k: expected an object, got null"),
        ({"requestState": 5}, "result.requestState: expected a string, got number"),
    ],
)
def test_malformed_input_required_is_a_protocol_error(members: dict[str, Any], reason: str) -> None:
    with pytest.raises(ProtocolError) as caught:
        read_call_result(json.dumps({"resultType": "input_required", **members}).encode())
    assert caught.value.reason.startswith(reason)


# --- any bytes at all

words = st.text(max_size=10)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | words,
    lambda children: st.lists(children, max_size=3) | st.dictionaries(words, children, max_size=3),
    max_leaves=8,
)
FIELDS = ["text", "data", "mimeType", "uri", "name", "resource", "annotations", "_meta"]
block_like = st.builds(
    lambda kind, members: {"type": kind, **members},
    st.sampled_from(["text", "image", "audio", "resource", "resource_link"]) | json_values,
    st.dictionaries(st.sampled_from(FIELDS), json_values, max_size=5),
)
result_like = st.fixed_dictionaries(
    {},
    optional={
        "content": st.lists(block_like | json_values, max_size=4) | json_values,
        "isError": st.booleans() | json_values,
        "structuredContent": json_values,
        "_meta": json_values,
        "resultType": st.sampled_from(["complete", "input_required"]) | json_values,
        "inputRequests": st.dictionaries(words, json_values, max_size=2) | json_values,
        "requestState": json_values,
    },
)


@given(
    st.binary()
    | result_like.map(lambda value: json.dumps(value).encode())
    | result_like.map(lambda value: json.dumps(value, ensure_ascii=False).encode("utf-16-le", "surrogatepass"))
)
def test_any_bytes_give_a_result_or_a_protocol_error(data: bytes) -> None:
    with suppress(ProtocolError):
        result = read_call_result(data)
        if isinstance(result, ToolResult):
            assert isinstance(result.content, str)
            assert isinstance(result.as_text(), str)
            assert isinstance(result.images, tuple)
        else:
            assert isinstance(result, InputRequired)


@given(result_like.map(lambda value: json.dumps(value).encode()), st.integers(0, 400), st.binary(max_size=3))
def test_a_damaged_result_gives_a_result_or_a_protocol_error(data: bytes, place: int, damage: bytes) -> None:
    with suppress(ProtocolError):
        result = read_call_result(data[:place] + damage + data[place + len(damage) :])
        assert isinstance(result, ToolResult | InputRequired)


@pytest.mark.table("depth", [100, 990, 1000, 5000, 100_000])
@pytest.mark.table("member", [b'"content":[', b'"structuredContent":[', b'"_meta":{"a":'])
def test_depth_costs_that_call_alone(depth: int, member: bytes) -> None:
    end = b"]" if member.endswith(b"[") else b"}"
    with suppress(ProtocolError):
        read_call_result(b"{" + member + b"[" * depth + b"]" * depth + end + b"}")
