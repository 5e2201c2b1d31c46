"""Forms: a class as the flat schema of an elicitation, and the answer as an instance of it."""

from __future__ import annotations

import dataclasses
import doctest
import enum
from typing import Annotated, Any, Literal, TypedDict

import attrs
import msgspec
import pytest

from trio_mcp import ElicitResult, ProtocolError
from trio_mcp.tools import forms
from trio_mcp.tools.forms import form_schema, read_answer


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Number(enum.IntEnum):
    ONE = 1


@attrs.define
class Everything:
    text: str
    number: float
    count: Annotated[int, msgspec.Meta(ge=1, le=9, title="How many", description="Not too many.")]
    sure: bool
    colour: Colour
    word: Literal["a", "b"]
    colours: list[Colour]
    words: Annotated[list[Literal["a", "b"]], msgspec.Meta(min_length=1)]
    maybe: int | None = None
    favourite: Colour = Colour.RED
    name: str = "Ada"
    some: list[Colour] = [Colour.BLUE]


CHOICE = {"type": "string", "enum": ["blue", "red"]}


def test_the_example_runs() -> None:
    assert doctest.testmod(forms).failed == 0


def test_every_kind_of_field_is_flat_as_the_specification_wants_it() -> None:
    assert form_schema(Everything) == {
        "type": "object",
        "properties": {
            "text": {"type": "string"},
            "number": {"type": "number"},
            "count": {
                "type": "integer",
                "minimum": 1,
                "maximum": 9,
                "title": "How many",
                "description": "Not too many.",
            },
            "sure": {"type": "boolean"},
            "colour": CHOICE,
            "word": {"type": "string", "enum": ["a", "b"]},
            "colours": {"type": "array", "items": CHOICE},
            "words": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}, "minItems": 1},
            "maybe": {"type": "integer"},
            "favourite": {**CHOICE, "default": "red"},
            "name": {"type": "string", "default": "Ada"},
            "some": {"type": "array", "items": CHOICE, "default": ["blue"]},
        },
        "required": ["text", "number", "count", "sure", "colour", "word", "colours", "words"],
    }


@pytest.mark.parametrize("make", [attrs.define, dataclasses.dataclass])
def test_attrs_classes_and_dataclasses_are_forms(make: Any) -> None:
    class Form:
        name: str

    assert form_schema(make(Form))["properties"] == {"name": {"type": "string"}}


def test_a_typed_dict_and_a_struct_are_forms() -> None:
    class Dict(TypedDict):
        name: str

    class Struct(msgspec.Struct):
        name: str

    assert form_schema(Dict) == form_schema(Struct)


@pytest.mark.table(
    "kind", [Everything, list[int], dict[str, int], list[str], list, list[Number], Number, int | str, None, Any]
)
def test_a_field_that_no_form_can_have_is_a_type_error_that_names_it(kind: Any) -> None:
    form = attrs.make_class("Form", {"good": attrs.field(type=int), "bad": attrs.field(type=kind)})
    with pytest.raises(TypeError, match="schema: bad: a form has only str, int, float, bool"):
        form_schema(form)


@pytest.mark.table("kind", [int, list[int], dict[str, int], str])
def test_what_has_no_fields_is_a_type_error(kind: Any) -> None:
    with pytest.raises(TypeError, match="schema: expected a class with fields"):
        form_schema(kind)


# --- answers


@attrs.define
class Form:
    name: str
    age: int = 3


def test_an_accepted_answer_is_an_instance_of_the_class() -> None:
    assert read_answer({"action": "accept", "content": {"name": "Ada"}}, Form) == ElicitResult.accept(Form("Ada"))


@pytest.mark.parametrize("action", ["decline", "cancel"])
def test_any_other_answer_has_no_content(action: Any) -> None:
    assert read_answer({"action": action, "content": {"name": "Ada"}}, Form) == ElicitResult(action)


@pytest.mark.table("answer", [None, [], "accept", {}, {"action": None}, {"action": "maybe"}])
def test_what_is_no_answer_is_never_taken_for_one(answer: Any) -> None:
    with pytest.raises(ProtocolError, match="answered without an action"):
        read_answer(answer, Form)


@pytest.mark.table(
    ("content", "reason"),
    [
        (None, "name: missing, but required"),
        ({}, "name: missing, but required"),
        ({"name": 5}, "name: expected str, got int"),
        ({"name": "Ada", "age": "3"}, "age: expected int, got str"),
        (["Ada"], "expected object, got array"),
    ],
)
def test_content_that_does_not_fit_is_never_accepted(content: Any, reason: str) -> None:
    with pytest.raises(ProtocolError) as caught:
        read_answer({"action": "accept", "content": content}, Form)
    assert str(caught.value) == f"the client's answer does not fit the form: {reason}"
