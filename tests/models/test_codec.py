"""The converter: strict where cattrs guesses, and one way out for everything that does not fit."""

from __future__ import annotations

import enum
from contextlib import suppress
from typing import Any, Literal

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trio_mcp.errors import ProtocolError
from trio_mcp.models.codec import MismatchError, convert, structure, unstructure, wire_name


@attrs.frozen
class Inner:
    count: int
    ratio: float = 0.0


class Colour(enum.Enum):
    RED = "red"


@attrs.frozen
class Outer:
    """No `extra`: what does not fit is refused, what is unknown is dropped."""

    title: str
    is_open: bool = False
    inner_parts: list[Inner] = attrs.field(factory=list)
    by_name: dict[str, Inner] = attrs.field(factory=dict)
    raw_data: bytes | None = None
    pair: tuple[str, ...] = ()
    kind: Literal["a", "b"] = "a"
    colour: Colour | None = None
    meta: dict[str, Any] | None = None


@attrs.frozen
class Keeping:
    title: str
    size: int | None = None
    is_open: bool = False
    extra: dict[str, Any] | None = None


def test_field_names_are_camel_case_on_the_wire() -> None:
    value = {
        "title": "t",
        "isOpen": True,
        "innerParts": [{"count": 1, "ratio": 2}],
        "byName": {"x": {"count": 2}},
        "rawData": "QUI=",
        "pair": ["a", "b"],
        "kind": "b",
        "colour": "red",
        "_meta": {"k": None},
    }
    expected = Outer("t", True, [Inner(1, 2)], {"x": Inner(2)}, b"AB", ("a", "b"), "b", Colour.RED, {"k": None})
    assert structure(value, Outer) == expected


def test_absent_fields_have_their_defaults() -> None:
    assert structure({"title": "t"}, Outer) == Outer("t")


@pytest.mark.table(
    ("value", "reason"),
    [
        ({}, "$.title: is missing"),
        ({"title": None}, "$.title: expected a string, got null"),
        ({"title": 5}, "$.title: expected a string, got number"),
        ({"title": "t", "isOpen": "false"}, "$.isOpen: expected a boolean, got string"),
        ({"title": "t", "isOpen": 0}, "$.isOpen: expected a boolean, got number"),
        ({"title": "t", "isOpen": None}, "$.isOpen: expected a boolean, got null"),
        ({"title": "t", "innerParts": "abc"}, "$.innerParts: expected an array, got string"),
        ({"title": "t", "innerParts": {}}, "$.innerParts: expected an array, got object"),
        ({"title": "t", "innerParts": [{"count": 1}, 5]}, "$.innerParts[1]: expected an object, got number"),
        ({"title": "t", "innerParts": [{"count": "1"}]}, "$.innerParts[0].count: expected an integer, got string"),
        (
            {"title": "t", "innerParts": [{"count": True}]},
            "$.innerParts[0].count: expected an integer, got boolean",
        ),
        ({"title": "t", "innerParts": [{"count": 1.5}]}, "$.innerParts[0].count: expected an integer, got number"),
        ({"title": "t", "innerParts": [{"count": 1, "ratio": True}]}, "$.innerParts[0].ratio: expected a number"),
        ({"title": "t", "byName": {"x": {}}}, "$.byName.x.count: is missing"),
        ({"title": "t", "byName": [1]}, "$.byName: expected an object, got array"),
        ({"title": "t", "rawData": "QÜI="}, "$.rawData: expected base64: "),
        ({"title": "t", "rawData": 5}, "$.rawData: expected base64, got number"),
        ({"title": "t", "pair": "ab"}, "$.pair: expected an array, got string"),
        ({"title": "t", "pair": ["a", 1]}, "$.pair[1]: expected a string, got number"),
        ({"title": "t", "kind": "c"}, "$: "),
        ({"title": "t", "colour": "blue"}, "$: "),
        ({"title": "t", "_meta": 5}, "$._meta: expected an object, got number"),
        ("abc", "$: expected an object, got string"),
        ([5], "$: expected an object, got array"),
        (None, "$: expected an object, got null"),
    ],
)
def test_what_does_not_fit_is_a_protocol_error_with_its_path(value: Any, reason: str) -> None:
    with pytest.raises(ProtocolError) as caught:
        structure(value, Outer)
    assert caught.value.reason.startswith(reason)
    assert caught.value.payload


def test_the_root_of_the_path_is_the_callers_word() -> None:
    with pytest.raises(ProtocolError) as caught:
        structure({}, Outer, "result")
    assert caught.value.reason == "result.title: is missing"


def test_convert_leaves_the_choice_to_its_caller() -> None:
    with pytest.raises(MismatchError) as caught:
        convert({"title": "t", "innerParts": [{}]}, Outer)
    assert (caught.value.path, caught.value.reason) == (".innerParts[0].count", "is missing")


def test_an_empty_list_is_an_empty_object_where_an_object_is_meant() -> None:
    assert structure({"title": "t", "_meta": [], "byName": []}, Outer) == Outer("t", meta={})
    assert structure({"title": "t", "innerParts": []}, Outer) == Outer("t")


def test_unknown_fields_are_dropped_without_extra_and_kept_with_it() -> None:
    assert structure({"title": "t", "new": 1}, Outer) == Outer("t")
    assert structure({"title": "t", "new": 1}, Keeping) == Keeping("t", extra={"new": 1})


def test_with_extra_a_bad_optional_field_costs_only_itself() -> None:
    value = {"title": "t", "size": "big", "isOpen": None}
    assert structure(value, Keeping) == Keeping("t", extra={"size": "big", "isOpen": None})


def test_with_extra_a_bad_required_field_is_refused() -> None:
    with pytest.raises(ProtocolError):
        structure({"title": 5}, Keeping)


def test_integers_are_exact() -> None:
    assert structure({"count": 2**70 + 1}, Inner).count == 2**70 + 1


def test_reading_leaves_its_input_alone() -> None:
    value = {"title": "t", "size": 1, "new": [1]}
    structure(value, Keeping)
    assert value == {"title": "t", "size": 1, "new": [1]}


def test_defaults_are_not_written() -> None:
    assert unstructure(Keeping("t")) == {"title": "t"}
    assert unstructure(Keeping("t", 0, True)) == {"title": "t", "size": 0, "isOpen": True}


def test_what_is_known_wins_over_extra() -> None:
    assert unstructure(Keeping("t", 5, extra={"size": 6, "new": 1})) == {"title": "t", "size": 5, "new": 1}


def test_programming_mistakes_are_not_blamed_on_the_peer() -> None:
    from cattrs import StructureHandlerNotFoundError

    with pytest.raises(StructureHandlerNotFoundError):
        structure({}, object)


@pytest.mark.table(
    ("name", "wire"), [("title", "title"), ("mime_type", "mimeType"), ("meta", "_meta"), ("a_b_c", "aBC")]
)
def test_wire_names(name: str, wire: str) -> None:
    assert wire_name(name) == wire


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda children: st.lists(children, max_size=4) | st.dictionaries(st.text(), children, max_size=4),
    max_leaves=12,
)
FIELDS = ["title", "isOpen", "innerParts", "byName", "rawData", "pair", "kind", "colour", "_meta", "count", "size"]
objects = st.dictionaries(st.sampled_from(FIELDS) | st.text(), json_values, max_size=6)


@given(json_values | objects, st.sampled_from([Outer, Inner, Keeping]))
def test_any_value_gives_an_instance_or_a_protocol_error(value: Any, cls: type) -> None:
    with suppress(ProtocolError):
        assert type(structure(value, cls)) is cls


@given(objects.map(lambda fields: {"title": "t", **fields}).filter(lambda fields: type(fields["title"]) is str))
def test_with_extra_nothing_is_lost(fields: dict[str, Any]) -> None:
    written = unstructure(structure(fields, Keeping))
    defaults = {"size": None, "isOpen": False}
    assert {**defaults, **written} == {**defaults, **fields}
