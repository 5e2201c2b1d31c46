"""Forms: a class as the flat schema of an elicitation, and the answer as an instance of it."""

from __future__ import annotations

import dataclasses
import doctest
import enum
from typing import Annotated, Any, Literal, TypedDict

import annotated_types
import attrs
import msgspec
import pytest
from pydantic import Field

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


class Doc:
    """The class of PEP 727, as typing_extensions has it."""

    def __init__(self, documentation: str) -> None:
        self.documentation = documentation


@attrs.define
class Described:
    name: Annotated[str, "What to call you."]
    town: Annotated[str, Doc("Where you live.")]
    age: Annotated[int, Field(ge=18, title="Age", description="In years.")]
    size: Annotated[float, annotated_types.Interval(gt=0, le=3)] | None = None
    code: Annotated[str, Field(pattern="^[A-Z]+$", max_length=4)] = "A"
    note: Annotated[str, object()] = ""


def test_what_describes_and_bounds_a_field_is_in_the_form() -> None:
    properties = form_schema(Described)["properties"]
    assert properties == {
        "name": {"type": "string", "description": "What to call you."},
        "town": {"type": "string", "description": "Where you live."},
        "age": {"type": "integer", "title": "Age", "description": "In years.", "minimum": 18},
        "size": {"type": "number", "exclusiveMinimum": 0, "maximum": 3},
        "code": {"type": "string", "default": "A", "pattern": "^[A-Z]+$", "maxLength": 4},
        "note": {"type": "string", "default": ""},
    }


@pytest.mark.table(
    ("content", "reason"),
    [
        ({"age": 17}, "age: expected int >= 18"),
        ({"size": 0}, "size: expected float > 0"),
        ({"size": 3.5}, "size: expected float <= 3"),
        ({"code": "abc"}, "code: expected str matching regex '^[A-Z]+$'"),
        ({"code": "ABCDE"}, "code: expected str of length <= 4"),
    ],
)
def test_an_answer_outside_of_the_bounds_is_never_accepted(content: Any, reason: str) -> None:
    good = {"name": "Ada", "town": "Rome", "age": 18}
    assert read_answer({"action": "accept", "content": good}, Described).content.age == 18
    with pytest.raises(ProtocolError) as caught:
        read_answer({"action": "accept", "content": {**good, **content}}, Described)
    assert str(caught.value).startswith(f"the client's answer does not fit the form: {reason}")


@pytest.mark.table(
    ("kind", "reason"),
    [
        (Annotated[str, annotated_types.Predicate(str.islower)], "cannot be said in a form"),
        (Annotated[str, Field(alias="other")], "has no meaning in a form"),
        (Annotated[str, Field(default="x")], "has no meaning in a form"),
        (Annotated[bool, Field(ge=1)], "a choice has no bounds"),
        (Annotated[Colour, Field(min_length=1)], "a choice has no bounds"),
        (Annotated[str, Field(ge=1)], "bad"),
        (Annotated[int, Field(ge=1), annotated_types.Ge(2)], "two values of ge"),
    ],
)
def test_what_cannot_be_said_in_a_form_is_refused_and_never_dropped(kind: Any, reason: str) -> None:
    form = attrs.make_class("Form", {"bad": attrs.field(type=kind)})
    with pytest.raises(TypeError, match=f"schema: bad: .*{reason}|schema: {reason}"):
        form_schema(form)


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
