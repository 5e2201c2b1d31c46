"""The headers of modern requests, the annotations that ask for them, and the challenges of a refusal."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trio_mcp.protocol.headers import (
    HeaderParameter,
    decode_value,
    encode_value,
    header_parameters,
    parse_challenges,
    request_headers,
    same_value,
)

REGION = {"type": "string", "x-mcp-header": "Region"}


def obj(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


# --- annotations


def test_annotations_are_found_at_any_depth_of_properties() -> None:
    schema = obj(a=REGION, b=obj(c={"type": "boolean", "x-mcp-header": "Dry-Run"}), d={"type": "integer"})
    found = {parameter.path: parameter.header for parameter in header_parameters(schema)}
    assert found == {("a",): "Mcp-Param-Region", ("b", "c"): "Mcp-Param-Dry-Run"}


def test_a_schema_without_annotations_has_none() -> None:
    assert header_parameters({}) == header_parameters(obj(a={"type": "string"})) == ()


@pytest.mark.table(
    "schema",
    [
        obj(**{"x-mcp-header": {"type": "string"}}),
        obj(a={"const": {"x-mcp-header": "no name"}}),
        obj(a={"type": "string", "default": {"x-mcp-header": 1}, "examples": [{"x-mcp-header": 1}]}),
    ],
)
def test_what_only_looks_like_an_annotation_is_none(schema: dict[str, Any]) -> None:
    assert header_parameters(schema) == ()


@pytest.mark.table("name", ["", "a b", "a:b", "grün", "a\n", "a\t", 5, None, ["a"]])
def test_a_value_that_is_no_header_name_is_refused(name: Any) -> None:
    with pytest.raises(ValueError, match="is no header name"):
        header_parameters(obj(a={"type": "string", "x-mcp-header": name}))


def test_one_name_twice_is_refused_in_any_case() -> None:
    with pytest.raises(ValueError, match="comes twice"):
        header_parameters(obj(a=REGION, b={"type": "string", "x-mcp-header": "REGION"}))


@pytest.mark.table("kind", ["number", "object", "array", "null", ["string"], None])
def test_only_strings_integers_and_booleans_may_have_one(kind: Any) -> None:
    with pytest.raises(ValueError, match="only a property"):
        header_parameters(obj(a={"type": kind, "x-mcp-header": "A"}))


@pytest.mark.table(
    "schema",
    [
        {"type": "string", "x-mcp-header": "A"},
        obj(a={"type": "array", "items": REGION}),
        obj(a={"items": [REGION]}),
        {"anyOf": [obj(a=REGION)]},
        obj(a={"oneOf": [REGION]}),
        {"allOf": [{"properties": {"a": REGION}}]},
        {"not": obj(a=REGION)},
        {"if": obj(a=REGION)},
        {"then": obj(a=REGION)},
        {"$defs": {"a": REGION}},
        {"$defs": {"a": obj(b=REGION)}},
        {"patternProperties": {"a": REGION}},
        {"additionalProperties": REGION},
    ],
)
def test_one_that_properties_alone_do_not_lead_to_is_refused(schema: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="only a property"):
        header_parameters(schema)


def test_a_schema_deeper_than_the_stack_is_no_trouble() -> None:
    schema: dict[str, Any] = REGION
    for _ in range(5000):
        schema = obj(a=schema)
    (found,) = header_parameters(schema)
    assert len(found.path) == 5000


# --- requests


def test_every_request_names_its_revision_and_method() -> None:
    headers = request_headers("2026-07-28", "tools/list", {"cursor": "x", "name": "y"})
    assert headers == {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/list"}


@pytest.mark.table(
    ("method", "member"),
    [("tools/call", "name"), ("prompts/get", "name"), ("resources/read", "uri"), ("tasks/get", "taskId")],
)
def test_what_a_request_is_about_is_its_name(method: str, member: str) -> None:
    headers = request_headers("2026-07-28", method, {member: "grün", "other": 1})
    assert headers["Mcp-Name"] == "=?base64?Z3LDvG4=?="


def test_annotated_arguments_become_headers_where_they_are_given() -> None:
    parameters = tuple(
        HeaderParameter(path, f"Mcp-Param-{path[-1]}") for path in [("a",), ("b", "c"), ("b", "d"), ("e", "f")]
    )
    params = {"name": "t", "arguments": {"a": "x", "b": {"c": 5, "d": None}, "e": "no object"}}
    headers = request_headers("2026-07-28", "tools/call", params, parameters)
    assert headers.keys() - {"MCP-Protocol-Version", "Mcp-Method", "Mcp-Name"} == {
        "Mcp-Param-a",
        "Mcp-Param-c",
    }
    assert headers["Mcp-Param-c"] == "5"


def test_an_argument_that_cannot_be_a_header_is_named() -> None:
    parameters = (HeaderParameter(("a", "b"), "Mcp-Param-B"),)
    with pytest.raises(ValueError, match=r"^a\.b: list cannot be a header"):
        request_headers("2026-07-28", "tools/call", {"name": "t", "arguments": {"a": {"b": []}}}, parameters)


# --- values


@pytest.mark.table(
    ("value", "text"),
    [
        ("", ""),
        ("us west 1", "us west 1"),
        ("~!#", "~!#"),
        (" x", "=?base64?IHg=?="),
        ("x ", "=?base64?eCA=?="),
        ("a\tb", "=?base64?YQli?="),
        ("a\nb", "=?base64?YQpi?="),
        ("é", "=?base64?w6k=?="),
        ("=?base64?eA==?=", "=?base64?PT9iYXNlNjQ/ZUE9PT89?="),
        ("=?base64?eA==", "=?base64?eA=="),
        ("=?BASE64?eA==?=", "=?BASE64?eA==?="),
        (True, "true"),
        (False, "false"),
        (0, "0"),
        (-7, "-7"),
        (7.0, "7"),
        (2**53 - 1, "9007199254740991"),
    ],
)
def test_a_value_is_plain_where_it_can_be(value: Any, text: str) -> None:
    assert encode_value(value) == text


@pytest.mark.table("value", [2**53, -(2**53), 1e300, 1.5, float("nan"), float("inf"), None, [], {}])
def test_what_no_header_can_carry_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match="cannot be a header"):
        encode_value(value)


@given(st.text())
def test_any_text_comes_back_from_a_legal_header(text: str) -> None:
    encoded = encode_value(text)
    assert all("\x20" <= character <= "\x7e" for character in encoded)
    assert encoded == encoded.strip()
    if encoded.startswith("=?base64?") and encoded.endswith("?="):
        encoded = base64.b64decode(encoded[9:-2], validate=True).decode()
    assert encoded == text


@given(st.text() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1))
def test_a_header_is_the_argument_that_it_was_made_of(value: Any) -> None:
    assert same_value(decode_value(encode_value(value)), value)


@pytest.mark.table(
    ("text", "value"),
    [
        ("plain", "plain"),
        ("=?base64?SGVsbG8=?=", "Hello"),
        ("=?base64??=", ""),
        ("=?BASE64?SGVsbG8=?=", "=?BASE64?SGVsbG8=?="),
        ("=?base64?SGVsbG8=", "=?base64?SGVsbG8="),
        ("SGVsbG8=", "SGVsbG8="),
        ("=?base64?=", "=?base64?="),
    ],
)
def test_what_is_not_quite_encoded_stands_for_itself(text: str, value: str) -> None:
    assert decode_value(text) == value


@pytest.mark.table(
    "text",
    [
        *("=?base64?SGVsbG8?=", "=?base64?SGVsbG8==?=", "=?base64?SGVs bG8=?=", "=?base64?SGVsbG8-?="),
        *("=?base64?SGVsbG9=?=", "=?base64?/w==?=", "grün", "a\tb", "a\x00b", "\x7f"),
    ],
)
def test_what_no_client_would_write_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"an illegal character|no legal Base64 of UTF-8"):
        decode_value(text)


@pytest.mark.table(
    ("text", "value"),
    [
        *(("1", True), ("True", True), ("7.0", 7), ("", 0), ("+7", 7), (" 7", 7), ("\u0667", 7), ("x", 7)),
        *(("null", None), ("[]", []), ("{}", {}), ("7", [7]), ("A", "a"), ("7", 7.5), ("9" * 100, 10**100 - 1)),
    ],
)
def test_another_value_is_another(text: str, value: Any) -> None:
    assert not same_value(text, value)


# --- challenges


@pytest.mark.table(
    ("values", "challenges"),
    [
        (["Bearer"], [{"scheme": "Bearer"}]),
        (["Basic realm=simple"], [{"scheme": "Basic", "realm": "simple"}]),
        (
            ['Bearer realm="a, \\"b\\"", Scope = "x y"'],
            [{"scheme": "Bearer", "realm": 'a, "b"', "scope": "x y"}],
        ),
        (
            ['Negotiate dG9rZW4=, Bearer error="insufficient_scope",scope="a"', "DPoP algs=ES256"],
            [
                {"scheme": "Negotiate", "token68": "dG9rZW4="},
                {"scheme": "Bearer", "error": "insufficient_scope", "scope": "a"},
                {"scheme": "DPoP", "algs": "ES256"},
            ],
        ),
        (  # without the commas, as many servers write it
            ['Bearer error=insufficient_scope scope="a b" resource_metadata="https://x/?a=b"'],
            [
                {
                    "scheme": "Bearer",
                    "error": "insufficient_scope",
                    "scope": "a b",
                    "resource_metadata": "https://x/?a=b",
                }
            ],
        ),
        (["Basic, Bearer a=1"], [{"scheme": "Basic"}, {"scheme": "Bearer", "a": "1"}]),
        ([", ,Bearer a=1,,b=2"], [{"scheme": "Bearer", "a": "1", "b": "2"}]),
        ([], []),
        (["", "@@@"], []),
        (['Bearer a="never closed'], [{"scheme": "Bearer"}]),
    ],
)
def test_challenges_are_read(values: list[str], challenges: list[dict[str, str]]) -> None:
    assert list(parse_challenges(values))[: len(challenges)] == challenges


@given(st.lists(st.text(alphabet='aB =",\\\t@é'), max_size=3))
def test_any_challenge_gives_dicts(values: list[str]) -> None:
    assert all("scheme" in challenge for challenge in parse_challenges(values))


def test_a_long_challenge_takes_no_long_time() -> None:
    for value in ('Bearer a="' + "\\" * 50_000, "a" * 50_000, "Bearer " + "a=" * 25_000, "B " * 25_000):
        parse_challenges([value])
