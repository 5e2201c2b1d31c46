"""Parameters as a schema: its shape in the listing, what it says of each, what functions may look like."""

from __future__ import annotations

import dataclasses
import enum
import functools
from collections.abc import Callable
from typing import Annotated, Any, Literal, NamedTuple, TypedDict

import attrs
import msgspec
import pytest

from tests.exposing import as_json, call, listed, said
from trio_mcp import Context, tool


class Colour(enum.Enum):
    RED = "red"
    GREEN = "green"


@attrs.define
class Point:
    """A place."""

    x: int
    y: int = 0


@dataclasses.dataclass
class Size:
    width: float
    tags: list[str] = dataclasses.field(default_factory=list)


class Options(TypedDict, total=False):
    deep: bool


class Pair(NamedTuple):
    first: int
    second: str


@attrs.define
class Node:
    value: int
    children: list[Node] = attrs.field(factory=list)


async def schema_of(function: Callable[..., Any]) -> dict[str, Any]:
    """The input schema as a client is told it, and as this process has it: they are the same."""
    made = tool(function)
    entry = await listed(made)
    assert entry["inputSchema"] == made.input_schema
    assert made.input_schema_json == as_json(made.input_schema).encode()
    found: dict[str, Any] = entry["inputSchema"]
    return found


async def test_the_schema_is_an_object_at_the_root_without_a_reference_and_without_a_title() -> None:
    def move(to: Point, fast: bool = False) -> None: ...

    assert await schema_of(move) == {
        "type": "object",
        "properties": {"to": {"$ref": "#/$defs/Point"}, "fast": {"type": "boolean", "default": False}},
        "required": ["to"],
        "additionalProperties": False,
        "$defs": {
            "Point": {
                "title": "Point",
                "description": "A place.",
                "type": "object",
                "properties": {"x": {"type": "integer"}, "y": {"type": "integer", "default": 0}},
                "required": ["x"],
            }
        },
    }


async def test_a_function_without_parameters_has_an_empty_object() -> None:
    def nothing() -> None: ...

    assert await schema_of(nothing) == {"type": "object", "properties": {}, "additionalProperties": False}


@pytest.mark.table(
    ("kind", "schema"),
    [
        (str, {"type": "string"}),
        (int, {"type": "integer"}),
        (float, {"type": "number"}),
        (bool, {"type": "boolean"}),
        (None, {"type": "null"}),
        (Any, {}),
        (bytes, {"type": "string", "contentEncoding": "base64"}),
        (list[int], {"type": "array", "items": {"type": "integer"}}),
        (dict[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}),
        (int | None, {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
        (Literal["a", "b"], {"enum": ["a", "b"]}),
        (Annotated[int, msgspec.Meta(ge=1, le=9)], {"type": "integer", "minimum": 1, "maximum": 9}),
    ],
    ids=str,
)
async def test_each_plain_type_has_its_schema(kind: Any, schema: dict[str, Any]) -> None:
    def take(thing: Any) -> None: ...

    take.__annotations__["thing"] = kind
    assert (await schema_of(take))["properties"]["thing"] == schema


@pytest.mark.table("kind", [Point, Size, Options, Pair, Colour, Node], ids=lambda kind: kind.__name__)
async def test_each_class_stands_under_defs(kind: Any) -> None:
    def take(thing: Any) -> None: ...

    take.__annotations__["thing"] = kind
    schema = await schema_of(take)
    assert schema["properties"]["thing"] == {"$ref": f"#/$defs/{kind.__name__}"}
    assert kind.__name__ in schema["$defs"]


@pytest.mark.table(
    ("kind", "sent", "repr_"),
    [
        (Point, {"x": 1}, "Point(x=1, y=0)"),
        (Size, {"width": 2, "tags": ["a"]}, "Size(width=2.0, tags=['a'])"),
        (Options, {"deep": True, "unknown": 1}, "{'deep': True}"),
        (Pair, [1, "b"], "Pair(first=1, second='b')"),
        (Colour, "green", "<Colour.GREEN: 'green'>"),
        (Node, {"value": 1, "children": [{"value": 2}]}, "Node(value=1, children=[Node(value=2, children=[])])"),
        (Literal["a", 1], 1, "1"),
        (Point | int | None, {"x": 3, "y": 4}, "Point(x=3, y=4)"),
        (Point | int | None, None, "None"),
        (float, 3, "3.0"),
        (int, 10**30, str(10**30)),
        (bytes, "aGk=", "b'hi'"),
        (tuple[int, ...], [1, 2], "(1, 2)"),
        (dict[Colour, Point], {"red": {"x": 1}}, "{<Colour.RED: 'red'>: Point(x=1, y=0)}"),
        (Any, {"a": [None]}, "{'a': [None]}"),
    ],
    ids=str,
)
async def test_an_argument_arrives_as_its_type(kind: Any, sent: Any, repr_: str) -> None:
    def show(thing: Any) -> str:
        return repr(thing)

    show.__annotations__["thing"] = kind
    assert await said(show, {"thing": sent}) == repr_


# --- descriptions


async def test_a_description_from_meta_stands_in_the_schema() -> None:
    def add(a: Annotated[int, msgspec.Meta(description="The first.")]) -> None: ...

    assert (await schema_of(add))["properties"]["a"] == {"type": "integer", "description": "The first."}


async def test_a_description_from_the_docstring_stands_in_the_schema_of_classes_too() -> None:
    def add(a: Annotated[int, msgspec.Meta(ge=1)], to: Point) -> None:
        """Add.

        Args:
            a: The first,
                which is long.
            to: Where.
        """

    properties = (await schema_of(add))["properties"]
    assert properties["a"] == {"type": "integer", "minimum": 1, "description": "The first, which is long."}
    assert properties["to"] == {"$ref": "#/$defs/Point", "description": "Where."}


async def test_meta_wins_over_the_docstring() -> None:
    def add(a: Annotated[int, msgspec.Meta(description="From Meta.")]) -> None:
        """Add.

        Args:
            a: From the docstring.
        """

    assert (await schema_of(add))["properties"]["a"]["description"] == "From Meta."


# --- defaults


async def test_a_parameter_with_a_default_may_be_left_out_and_the_schema_names_it() -> None:
    def take(
        number: int = 3, colour: Colour = Colour.RED, point: Point = Point(1), nothing: int | None = None
    ) -> str:
        return f"{number} {colour} {point} {nothing}"

    schema = await schema_of(take)
    assert "required" not in schema
    assert {name: field["default"] for name, field in schema["properties"].items()} == {
        "number": 3,
        "colour": "red",
        "point": {"x": 1, "y": 0},
        "nothing": None,
    }
    assert await said(take) == "3 Colour.RED Point(x=1, y=0) None"


async def test_a_default_that_can_be_changed_is_made_anew_for_each_call() -> None:
    """However deep: what one call does to its default, no other sees, and no caller of the function."""
    default = {"list": [[1]]}

    def take(things: dict[str, list[list[int]]] = default, more: list[Point] = []) -> str:  # noqa: B006
        things["list"][0].append(2)
        more.append(Point(1))
        return f"{things} {more}"

    made = tool(take)
    assert made.input_schema["properties"]["things"]["default"] == {"list": [[1]]}
    assert made.input_schema["properties"]["more"]["default"] == []
    for _ in range(2):
        assert await said(made) == "{'list': [[1, 2]]} [Point(x=1, y=0)]"
    assert default == {"list": [[1]]}


# --- what functions may look like


async def test_keyword_only_parameters_are_parameters() -> None:
    def add(a: int, *, b: int = 1) -> int:
        return a + b

    assert (await schema_of(add))["required"] == ["a"]
    assert await said(add, {"a": 2, "b": 5}) == "7"


@pytest.mark.table("name", ["self", "cls", "_hidden", "args", "kwargs", "class_", "name", "meta", "schema"])
async def test_a_parameter_may_have_any_other_name(name: str) -> None:
    """Whatever the library builds its decoder of, no name collides with it."""
    scope: dict[str, Any] = {}
    exec(f"def take({name}: int, also: int = 1) -> int: return {name} + also", scope)
    assert await said(scope["take"], {name: 2}) == "3"


async def test_a_tool_context_is_injected_and_not_in_the_schema() -> None:
    async def take(a: int, context: Context, b: int = 1) -> str:
        return f"{a} {b} {type(context).__name__}"

    assert list((await schema_of(take))["properties"]) == ["a", "b"]
    assert await said(take, {"a": 1}) == "1 1 Context"


async def test_a_tool_context_may_be_keyword_only_and_have_a_default() -> None:
    async def take(*, context: Context = None) -> str:  # type: ignore[assignment]
        return type(context).__name__

    assert await said(take) == "Context"


async def test_a_tool_context_may_be_optional() -> None:
    async def take(context: Context | None = None) -> str:
        return type(context).__name__

    async def describe(context: Annotated[Context | None, "The call."]) -> str:
        return type(context).__name__

    for function in (take, describe):
        assert (await schema_of(function))["properties"] == {}
        assert await said(function) == "Context"


class Counter:
    """Keeps count."""

    def __init__(self) -> None:
        self.count = 0

    def add(self, number: int) -> int:
        """Count on."""
        self.count += number
        return self.count

    async def tell(self, context: Context) -> int:
        return self.count

    @classmethod
    def name(cls, suffix: str) -> str:
        return cls.__name__ + suffix

    @staticmethod
    def double(number: int) -> int:
        return 2 * number


async def test_a_bound_method_is_a_tool_without_its_self() -> None:
    counter = Counter()
    entry = await listed(counter.add)
    assert (entry["name"], entry["description"]) == ("add", "Count on.")
    assert list(entry["inputSchema"]["properties"]) == ["number"]
    assert await said(counter.add, {"number": 2}) == "2"
    assert await said(counter.tell) == "2"
    assert await said(Counter.name, {"suffix": "!"}) == "Counter!"
    assert await said(Counter.double, {"number": 2}) == "4"


async def test_a_wrapped_function_keeps_its_parameters() -> None:
    def logged(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

        return wrapper

    @logged
    def move(to: Point) -> str:
        return str(to)

    assert list((await schema_of(move))["properties"]) == ["to"]
    assert await said(move, {"to": {"x": 1}}) == "Point(x=1, y=0)"


async def test_a_nested_function_may_name_local_classes_that_only_annotations_use() -> None:
    """With `from __future__ import annotations` such a class is in no closure."""

    @attrs.define
    class Local:
        a: int

    @attrs.define
    class Other:
        b: int

    @tool
    def inner(thing: Local) -> Other:
        return Other(thing.a)  # this one is in the closure

    assert inner.output_schema is not None
    assert await said(inner, {"thing": {"a": 5}}) == '{"b":5}'


async def test_a_nested_function_may_name_itself() -> None:
    """Its own name has no value yet when it is decorated."""

    @tool
    def down(number: int) -> str:
        return "done" if number == 0 else down.function(number - 1)

    assert await said(down, {"number": 3}) == "done"


def test_a_local_variable_of_somebody_else_is_never_taken_for_the_class_that_is_meant() -> None:
    Point = str  # noqa: N806, F841 - shadows the global in this function alone
    assert "Point" in tool(takes_a_point).input_schema["$defs"]


def takes_a_point(point: Point) -> None:
    """Names the global class."""


async def test_attrs_validators_run() -> None:
    @attrs.define
    class Positive:
        number: int = attrs.field(validator=attrs.validators.gt(0))

    @tool
    def take(thing: Positive) -> str:
        return str(thing.number)

    assert await said(take, {"thing": {"number": 1}}) == "1"
    result = await call(take, {"thing": {"number": 0}})
    assert result.is_error
    assert result.content == "arguments for \"take\": thing: 'number' must be > 0: 0"


async def test_whatever_a_validator_raises_is_a_failure_of_the_call() -> None:
    def check(instance: Any, attribute: Any, value: Any) -> None:
        raise LookupError("no such number")

    @attrs.define
    class Known:
        number: int = attrs.field(validator=check)

    @tool
    def take(thing: Known) -> None: ...

    result = await call(take, {"thing": {"number": 0}})
    assert (result.is_error, result.content) == (True, 'arguments for "take": no such number')
