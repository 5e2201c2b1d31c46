"""Every annotation that a parameter may have: its schema, a value that passes, and one that does not."""

from __future__ import annotations

import collections.abc
import dataclasses
import datetime
import decimal
import enum
import pathlib
import types
import typing
import uuid
from collections.abc import Callable
from typing import Annotated, Any, Generic, Literal, NamedTuple, NewType, NotRequired, Required, TypedDict, TypeVar

import annotated_types
import attrs
import jsonschema
import msgspec
import pydantic
import pydantic.dataclasses
import pytest
from pydantic import AfterValidator, Field, StringConstraints
from typing_extensions import Doc, TypeAliasType

from trio_mcp import tool

T = TypeVar("T")


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    LOW = 1


@attrs.define
class Point:
    x: int


@dataclasses.dataclass
class Cat:
    lives: int
    kind: Literal["cat"] = "cat"


@dataclasses.dataclass
class Dog:
    tricks: list[str]
    kind: Literal["dog"] = "dog"


@attrs.define
class Circle:
    radius: float


@attrs.define
class Square:
    side: float
    name: str = ""


@dataclasses.dataclass
class Event:
    at: datetime.datetime
    times: list[datetime.time] = dataclasses.field(default_factory=list)
    until: datetime.datetime | None = None
    file: pathlib.Path = dataclasses.field(default_factory=pathlib.Path)


@dataclasses.dataclass
class PathDefault:
    file: pathlib.Path = pathlib.Path("a")


@dataclasses.dataclass
class Box(Generic[T]):
    inside: T


class Options(TypedDict):
    deep: bool


class Pair(NamedTuple):
    first: int
    second: str


class Struct(msgspec.Struct):
    a: int


class Model(pydantic.BaseModel):
    """A model.

    Attributes:
        count: How many.
    """

    count: int = Field(ge=1)
    label: str = Field("none", alias="name")


class Tree(pydantic.BaseModel):
    value: int
    children: list[Tree] = []


class Numbers(pydantic.RootModel[list[int]]):
    pass


class CatModel(pydantic.BaseModel):
    kind: Literal["cat"]


class DogModel(pydantic.BaseModel):
    kind: Literal["dog"]


@pydantic.dataclasses.dataclass
class Checked:
    number: int = Field(gt=0)


@dataclasses.dataclass
class Shelf:
    """Holds models."""

    models: list[Model]
    height: Annotated[int, Field(le=3), Doc("In metres.")] = 1


class Wishes(TypedDict, total=False):
    deep: Required[Annotated[bool, "All of it."]]
    most: NotRequired[Annotated[int, Doc("At most.")]]


Person = TypeAliasType("Person", Annotated[str, msgspec.Meta(min_length=1)])
Listed = TypeAliasType("Listed", list[T], type_params=(T,))
Age = NewType("Age", int)


def even(number: int) -> int:
    if number % 2:
        raise ValueError("is odd")
    return number


def text(**more: Any) -> dict[str, Any]:
    return {"type": "string", **more}


def integer(**more: Any) -> dict[str, Any]:
    return {"type": "integer", **more}


CAT = {
    "title": "Cat",
    "type": "object",
    "properties": {"lives": integer(), "kind": {"enum": ["cat"], "default": "cat"}},
    "required": ["lives", "kind"],
}
DOG = {
    "title": "Dog",
    "type": "object",
    "properties": {
        "tricks": {"type": "array", "items": text()},
        "kind": {"enum": ["dog"], "default": "dog"},
    },
    "required": ["tricks", "kind"],
}
CIRCLE = {
    "title": "Circle",
    "type": "object",
    "properties": {"radius": {"type": "number"}},
    "required": ["radius"],
    "additionalProperties": False,
}
SQUARE = {
    "title": "Square",
    "type": "object",
    "properties": {"side": {"type": "number"}, "name": text(default="")},
    "required": ["side"],
    "additionalProperties": False,
}
NOW = "2026-07-28T12:00:00Z"

TABLE: list[tuple[Any, dict[str, Any] | None, Any, Any]] = [
    # the annotation, its schema (None: a reference to a class), a value that passes, one that does not
    (str, text(), "a", 1),
    (int, integer(), 1, "1"),
    (float, {"type": "number"}, 1, "1"),
    (bool, {"type": "boolean"}, True, 1),
    (None, {"type": "null"}, None, 0),
    (bytes, text(contentEncoding="base64"), "aGk=", "?"),
    (decimal.Decimal, text(format="decimal"), "1.10", "x"),
    (datetime.datetime, text(format="date-time"), NOW, "yesterday"),
    (datetime.date, text(format="date"), "2026-07-28", NOW),
    (datetime.time, text(format="time"), "12:00:00Z", "noon"),
    (datetime.timedelta, text(format="duration"), "PT5S", "five"),
    (uuid.UUID, text(format="uuid"), str(uuid.UUID(int=1)), "1"),
    (pathlib.Path, text(format="path"), "/tmp/a", 1),
    (pathlib.PurePosixPath | None, {"anyOf": [text(format="path"), {"type": "null"}]}, None, 1),
    (Literal["a", 1], {"enum": [1, "a"]}, 1, "b"),
    (Colour, None, "red", "blue"),
    (Level, None, 1, 2),
    (Age, integer(), 1, "1"),
    # containers
    (list[int], {"type": "array", "items": integer()}, [1], ["1"]),
    (collections.abc.Sequence[int], {"type": "array", "items": integer()}, [1], "1"),
    (set[int], {"type": "array", "items": integer(), "uniqueItems": True}, [1], [None]),
    (dict[str, int], {"type": "object", "additionalProperties": integer()}, {"a": 1}, {"a": "1"}),
    (list[datetime.datetime], {"type": "array", "items": text(format="date-time")}, [NOW], ["x"]),
    (
        datetime.datetime | int | None,
        {"anyOf": [text(format="date-time"), integer(), {"type": "null"}]},
        NOW,
        "x",
    ),
    (
        dict[str, list[pathlib.Path]],
        {"type": "object", "additionalProperties": {"type": "array", "items": text(format="path")}},
        {"a": ["b"]},
        {"a": [1]},
    ),
    (int | str | None, {"anyOf": [integer(), text(), {"type": "null"}]}, "a", []),
    # classes
    (Point, None, {"x": 1}, {"x": "1"}),
    (Options, None, {"deep": True}, {}),
    (Wishes, None, {"deep": True}, {"most": 1}),
    (Pair, None, [1, "a"], [1]),
    (Struct, None, {"a": 1}, {}),
    (Box[int], None, {"inside": 1}, {"inside": "1"}),
    (Event, None, {"at": NOW, "times": ["12:00:00"], "file": "b"}, {"at": NOW, "file": 1}),
    # unions of classes
    (Cat | Dog, {"anyOf": [CAT, DOG]}, {"kind": "dog", "tricks": []}, {"tricks": []}),
    (Circle | Square, {"anyOf": [CIRCLE, SQUARE]}, {"side": 1}, {"side": 1, "radius": 1}),
    (Cat | Dog | None, {"anyOf": [{"anyOf": [CAT, DOG]}, {"type": "null"}]}, None, 1),
    (Cat | int | Dog, {"anyOf": [CAT, DOG, integer()]}, 3, "3"),
    (list[Cat | Dog], {"type": "array", "items": {"anyOf": [CAT, DOG]}}, [{"kind": "cat", "lives": 9}], [{}]),
    # aliases
    (Person, text(minLength=1), "a", ""),
    (Listed[int], {"type": "array", "items": integer()}, [1], ["1"]),
    (list[Person], {"type": "array", "items": text(minLength=1)}, ["a"], [""]),
    # metadata: msgspec, annotated_types, pydantic, words
    (Annotated[int, msgspec.Meta(ge=1)], integer(minimum=1), 1, 0),
    (Annotated[int, annotated_types.Ge(1)], integer(minimum=1), 1, 0),
    (Annotated[int, annotated_types.Gt(1)], integer(exclusiveMinimum=1), 2, 1),
    (Annotated[int, annotated_types.Le(1)], integer(maximum=1), 1, 2),
    (Annotated[int, annotated_types.Lt(1)], integer(exclusiveMaximum=1), 0, 1),
    (Annotated[int, annotated_types.Interval(ge=1, lt=3)], integer(minimum=1, exclusiveMaximum=3), 2, 3),
    (Annotated[int, annotated_types.MultipleOf(5)], integer(multipleOf=5), 5, 6),
    (Annotated[int, annotated_types.Ge(1), annotated_types.Ge(3)], integer(minimum=3), 3, 2),
    (Annotated[str, annotated_types.MinLen(2)], text(minLength=2), "ab", "a"),
    (Annotated[str, annotated_types.MaxLen(2)], text(maxLength=2), "ab", "abc"),
    (
        Annotated[list[int], annotated_types.Len(1, 2)],
        {"type": "array", "items": integer(), "minItems": 1, "maxItems": 2},
        [1],
        [],
    ),
    (Annotated[datetime.datetime, annotated_types.Timezone(...)], text(format="date-time"), NOW, NOW[:-1]),
    (Annotated[int | None, annotated_types.Ge(1)], {"anyOf": [integer(minimum=1), {"type": "null"}]}, None, 0),
    (Annotated[int, Field(ge=1, description="How many.")], integer(minimum=1, description="How many."), 1, 0),
    (Annotated[str, Field(pattern="^a")], text(pattern="^a"), "ab", "b"),
    (Annotated[str, Field(min_length=1, strict=True, examples=["a"])], text(minLength=1, examples=["a"]), "a", ""),
    (
        Annotated[str, Field(title="T", deprecated=True, json_schema_extra={"x": 1})],
        text(title="T", deprecated=True, x=1),
        "a",
        1,
    ),
    (pydantic.PositiveInt, integer(exclusiveMinimum=0), 1, 0),
    (Annotated[int, "In years."], integer(description="In years."), 1, "1"),
    (Annotated[int, Doc("In years.")], integer(description="In years."), 1, "1"),
    (Annotated[int, object()], integer(), 1, "1"),
    (list[Annotated[int, annotated_types.Ge(1)]], {"type": "array", "items": integer(minimum=1)}, [1], [0]),
    # pydantic's own
    (Model, None, {"count": 1, "name": "a"}, {"count": 0}),
    (Tree, None, {"value": 1, "children": [{"value": 2}]}, {"value": 1, "children": [{}]}),
    (Numbers, None, [1], ["1"]),
    (Checked, None, {"number": 1}, {"number": 0}),
    (Shelf, None, {"models": [{"count": 1}], "height": 3}, {"models": [], "height": 4}),
    (list[Model], {"type": "array", "items": {"$ref": "#/$defs/Model"}}, [{"count": 1}], [{"count": "1"}]),
    (
        Model | Literal["all"] | None,
        {"anyOf": [{"$ref": "#/$defs/Model"}, {"const": "all", "type": "string"}, {"type": "null"}]},
        "all",
        "none",
    ),
    (pydantic.AnyUrl, text(format="uri", minLength=1), "https://a.example", "no"),
    (Annotated[int, AfterValidator(even)], integer(), 2, 1),
    (Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)], text(minLength=1), " a ", "  "),
    (Annotated[Model, "Which."], None, {"count": 1}, {}),
    (list[Annotated[pydantic.AnyUrl, Doc("Where.")]], None, ["https://a.example"], ["no"]),
    (Annotated[CatModel | DogModel, Field(discriminator="kind")], None, {"kind": "cat"}, {"kind": "cow"}),
]  # fmt: skip


def taking(kind: Any) -> Callable[..., Any]:
    def take(thing: Any) -> str:
        return repr(thing)

    take.__annotations__["thing"] = kind
    return take


@pytest.mark.table(
    ("kind", "schema", "good", "bad"),
    TABLE,
    ids=[
        f"{place}-{str(row[0])[:40]}" if " at 0x" not in str(row[0]) else str(place)
        for place, row in enumerate(TABLE)
    ],
)
async def test_an_annotation_has_a_schema_and_takes_what_the_schema_takes(
    kind: Any, schema: dict[str, Any] | None, good: Any, bad: Any
) -> None:
    made = tool(taking(kind))
    whole = made.input_schema
    jsonschema.Draft202012Validator.check_schema(whole)
    jsonschema.validate({"thing": good}, whole)
    if schema is not None:
        assert whole["properties"]["thing"] == schema
    result = await made.call({"thing": good})
    assert not result.is_error, result.content
    result = await made.call({"thing": bad})
    assert result.is_error
    assert result.content.startswith('arguments for "take": thing'), result.content


@pytest.mark.skipif("sys.version_info < (3, 12)", reason="the statement `type X = ...`")
def test_the_type_statement_makes_an_alias_too() -> None:
    scope: dict[str, Any] = {}
    exec("type Ids = list[int]\ntype Json = dict[str, Json] | int", scope)
    assert tool(taking(scope["Ids"])).input_schema["properties"]["thing"]["items"] == {"type": "integer"}
    assert "take: thing: its type nests too deeply, or contains itself" in refusal(scope["Json"])


# --- what is said about values that do not fit


@pytest.mark.table(
    ("kind", "sent", "reason"),
    [
        (Cat | Dog, {"kind": "cow"}, 'thing.kind: expected "cat" or "dog", got \'cow\''),
        (Cat | Dog, {}, 'thing.kind: missing, but required: "cat" or "dog"'),
        (Cat | Dog, [], "thing: expected an object: Cat or Dog"),
        (list[Cat | Dog], [{"kind": "cat", "lives": "x"}], "thing[0].lives: expected int, got str"),
        (
            Circle | Square,
            {"x": 1},
            "thing: these fields fit none of: Circle has radius and needs radius; Square has name, side and needs",
        ),
        (pathlib.Path, 1, "thing: expected str, got int"),
        (list[Model], [{"count": 0}], "thing[0].count: input should be greater than or equal to 1"),
        (dict[str, Model], {"a": {}}, "thing.a.count: field required"),
        (
            Model,
            {"count": 0, "name": 1},
            "thing.count: input should be greater than or equal to 1; thing.name: input",
        ),
    ],
    ids=str,
)
async def test_what_does_not_fit_is_told_with_its_place(kind: Any, sent: Any, reason: str) -> None:
    result = await tool(taking(kind)).call({"thing": sent})
    assert result.content.startswith(f'arguments for "take": {reason}')


# --- defaults, descriptions, definitions


async def test_a_field_of_pydantic_may_stand_as_the_default() -> None:
    @tool
    def take(
        a: int = Field(ge=1, description="The first."),
        b: int = Field(2, le=9),
        c: list[int] = Field(default_factory=list),
    ) -> list[Any]:
        c.append(a)
        return [a, b, c]

    assert take.input_schema["required"] == ["a"]
    assert take.input_schema["properties"]["a"] == integer(minimum=1, description="The first.")
    assert take.input_schema["properties"]["b"] == integer(default=2, maximum=9)
    for _ in range(2):
        assert (await take.call({"a": 1})).structured == [1, 2, [1]]
    assert (await take.call({"a": 0})).content == 'arguments for "take": a: expected int >= 1'


async def test_a_default_may_be_what_only_we_can_write() -> None:
    @tool
    def take(model: Model = Model(count=1, name="none"), file: pathlib.Path = pathlib.Path("/a")) -> str:
        return f"{model!r} {file}"

    assert take.input_schema["properties"]["model"]["default"] == {"count": 1, "name": "none"}
    assert take.input_schema["properties"]["file"] == text(format="path", default="/a")
    assert (await take.call(None)).content == "Model(count=1, label='none') /a"


def test_a_docstring_describes_what_nothing_else_does() -> None:
    @tool
    def take(a: Annotated[int, "Its own."], model: Model) -> None:
        """Take.

        Args:
            a: Not this.
            model: Which.
        """

    properties = take.input_schema["properties"]
    assert properties["a"]["description"] == "Its own."
    assert properties["model"] == {"$ref": "#/$defs/Model", "description": "Which."}


def test_models_are_described_as_classes_are() -> None:
    found = tool(taking(Model)).input_schema["$defs"]["Model"]
    assert found["description"] == "A model."
    assert found["properties"]["count"] == integer(minimum=1, description="How many.")
    shelf = tool(taking(Shelf)).input_schema["$defs"]["Shelf"]
    assert shelf["properties"]["height"] == integer(default=1, maximum=3, description="In metres.")


def test_what_stands_around_the_type_of_a_field_does_not_hide_its_description() -> None:
    properties = tool(taking(Wishes)).input_schema["$defs"]["Wishes"]["properties"]
    assert properties["deep"]["description"] == "All of it."
    assert properties["most"]["description"] == "At most."


async def test_a_default_beside_validators_of_pydantic_is_taken() -> None:
    @tool
    def take(
        a: Annotated[int, AfterValidator(even)] = Field(2, ge=1),
        b: Annotated[list[int], AfterValidator(sorted)] = Field(default_factory=list, description="Some."),
    ) -> list[Any]:
        return [a, b]

    assert "required" not in take.input_schema
    assert take.input_schema["properties"]["a"] == integer(minimum=1, default=2)
    assert (await take.call(None)).structured == [2, []]
    assert (await take.call({"a": 4, "b": [2, 1]})).structured == [4, [1, 2]]


def test_definitions_of_one_name_do_not_mix() -> None:
    def make() -> Any:
        class Model(pydantic.BaseModel):
            other: str

        return Model

    other = make()

    def take(one: Any, two: Any, three: Any) -> None: ...

    take.__annotations__ |= {"one": Model, "two": other, "three": types.GenericAlias(list, (other,))}
    schema = tool(take).input_schema
    assert schema["properties"]["one"] == {"$ref": "#/$defs/Model"}
    assert schema["properties"]["two"] == {"$ref": "#/$defs/Model_2"}
    assert schema["properties"]["three"]["items"] == {"$ref": "#/$defs/Model_2"}
    assert "other" in schema["$defs"]["Model_2"]["properties"]


def test_times_within_classes_show_their_format() -> None:
    properties = tool(taking(Event)).input_schema["$defs"]["Event"]["properties"]
    assert properties["at"] == text(format="date-time")
    assert properties["times"]["items"] == text(format="time")
    assert properties["until"]["anyOf"] == [text(format="date-time"), {"type": "null"}]
    assert properties["file"]["format"] == "path"


# --- what is refused


def refusal(kind: Any) -> str:
    with pytest.raises(TypeError) as caught:
        tool(taking(kind))
    return str(caught.value)


@dataclasses.dataclass
class Bounded:
    count: Annotated[int, annotated_types.Ge(1)]


@dataclasses.dataclass
class HalfDescribed:
    counts: list[Annotated[int, "Each."]]


@dataclasses.dataclass
class Choice:
    animal: Cat | Dog


@attrs.define
class AroundModel:
    model: Model


DEEP: Any = int
for _ in range(2000):
    DEEP = list[DEEP]


@pytest.mark.table(
    ("kind", "reason"),
    [
        (Annotated[str, annotated_types.Predicate(str.islower)], "cannot be said in a JSON Schema"),
        (Annotated[float, annotated_types.Unit("m")], "cannot be said in a JSON Schema"),
        (Annotated[datetime.datetime, annotated_types.Timezone("Europe/Berlin")], "a schema says only whether"),
        (Annotated[str, annotated_types.Ge(1)], "Can only set `ge` on a numeric type"),
        (Annotated[int, annotated_types.Ge(datetime.date.min)], "ge"),
        (Annotated[str, Field(pattern="a"), Field(pattern="b")], "two values of pattern"),
        (Annotated[int, Field(alias="n")], "Field(alias=...) has no meaning for an argument: rename the"),
        (Annotated[int, Field(exclude=True)], "Field(exclude=...) has no meaning"),
        (Annotated[Model, Field(validation_alias="n")], "Field(validation_alias=...) has no meaning"),
        (Annotated[Model, msgspec.Meta(description="x")], "msgspec.Meta beside a type of pydantic"),
        (Bounded, "Bounded.count: Ge(ge=1) is not read in a field of a class: write msgspec.Meta"),
        (HalfDescribed, "HalfDescribed.counts: 'Each.' describes a part of a field"),
        (Choice, "Type unions may not contain more than one"),
        (AroundModel, "AroundModel stands beside a type of pydantic, which cannot read it: make it a dataclass"),
        (datetime.datetime | str, "Type unions may not contain more than one str-like type"),
        (Circle | Point | dict[str, int], "Circle and Point cannot be told from dict[str, int]"),
        (PathDefault, "a field's default is of type PosixPath, which a schema cannot show: give a"),
        (typing.Iterator[int], "it has no JSON Schema"),
    ],
    ids=lambda value: str(value)[:60],
)  # fmt: skip
def test_what_cannot_be_honoured_is_refused(kind: Any, reason: str) -> None:
    text = refusal(kind)
    assert text.startswith("taking.<locals>.take: thing: ")
    assert reason in text


def test_what_nests_too_deeply_is_refused() -> None:
    assert "take: thing: its type nests too deeply" in refusal(DEEP)
