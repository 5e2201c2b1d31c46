"""What `@tool` refuses when it decorates: a TypeError that names the function and the parameter."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import attrs
import msgspec
import pytest

from trio_mcp import Context, Image, Policy, Text, ToolResult, raw_tool, tool


def refusal(function: Callable[..., Any], **options: Any) -> str:
    with pytest.raises(TypeError) as caught:
        tool(**options)(function)
    return str(caught.value)


def test_a_parameter_without_an_annotation_is_refused() -> None:
    def add(a: int, b):  # type: ignore[no-untyped-def]
        return a + b

    assert refusal(add).endswith("add: b: it has no annotation")


def test_variable_arguments_are_refused() -> None:
    def many(*numbers: int) -> None: ...
    def named(**numbers: int) -> None: ...

    assert refusal(many).endswith("many: numbers: *args and **kwargs have no schema")
    assert refusal(named).endswith("named: numbers: *args and **kwargs have no schema")


def test_a_positional_only_parameter_is_refused() -> None:
    def add(a: int, /, b: int) -> None: ...

    assert refusal(add).endswith("add: a: a positional-only parameter has no name to be called by")


def test_a_name_with_two_underscores_is_refused() -> None:
    def hidden(__a: int) -> None: ...

    assert "hidden: __a: a name that begins with two underscores" in refusal(hidden)


@attrs.define
class Cat:
    name: str


@attrs.define
class Dog:
    name: str


def test_a_union_that_json_cannot_tell_apart_is_refused() -> None:
    def stroke(animal: Cat | Dog) -> None: ...

    text = refusal(stroke)
    assert "stroke: animal: Cat and Dog cannot be told apart in JSON: give each a field of the same name" in text


@pytest.mark.table("kind", [object, complex, Callable, Iterator[int]], ids=str)
def test_a_type_without_a_schema_is_refused(kind: Any) -> None:
    def take(thing: Any) -> None: ...

    take.__annotations__["thing"] = kind
    assert "take: thing: it has no JSON Schema: type " in refusal(take)


@attrs.define
class Converted:
    number: int = attrs.field(converter=int)


@attrs.define
class Aliased:
    number: int = attrs.field(alias="n")


@attrs.define
class Private:
    _number: int


@attrs.define
class Derived:
    number: int = attrs.field(init=False, default=1)


@dataclasses.dataclass
class DerivedData:
    number: int = dataclasses.field(init=False, default=1)


@attrs.define
class Outside:
    inner: list[dict[str, Converted]]


@dataclasses.dataclass
class Ring:
    next: Ring | None = None
    odd: DerivedData | None = None


@pytest.mark.table(
    ("kind", "field"),
    [
        (Converted, "Converted.number"),
        (Aliased, "Aliased.number"),
        (Private, "Private._number"),
        (Derived, "Derived.number"),
        (DerivedData, "DerivedData.number"),
        (Outside, "Converted.number"),
        (Ring, "DerivedData.number"),
        (list[Converted | None], "Converted.number"),
    ],
    ids=str,
)
def test_a_class_that_msgspec_would_not_build_as_python_does_is_refused_however_deep(
    kind: Any, field: str
) -> None:
    def take(thing: Any) -> None: ...

    take.__annotations__["thing"] = kind
    assert f"take: thing: {field} has " in refusal(take)


def test_the_return_type_is_judged_alike() -> None:
    def give() -> Converted: ...  # type: ignore[empty-body]
    def gives() -> object: ...

    assert "give: return: Converted.number has a converter" in refusal(give)
    assert "gives: return: it has no JSON Schema: type <class 'object'>" in refusal(gives)


def test_an_annotation_that_cannot_be_resolved_is_refused() -> None:
    def take(thing: Nowhere) -> None: ...  # type: ignore[name-defined]  # noqa: F821

    assert "take: thing: its annotation cannot be resolved: name 'Nowhere' is not defined" in refusal(take)


def test_a_tool_context_on_a_plain_function_is_refused() -> None:
    def plain(context: Context) -> None: ...

    assert "plain: context: a Context is for async functions" in refusal(plain)


def test_a_context_within_another_type_is_refused() -> None:
    async def take(contexts: list[Context]) -> None: ...

    assert refusal(take).endswith("take: contexts: a Context is a parameter of its own: `context: Context`")


@pytest.mark.parametrize("kind", [Image, list[Image], Text | None, ToolResult], ids=str)
def test_a_content_block_is_no_argument(kind: Any) -> None:
    def show(thing: Any) -> None: ...

    show.__annotations__["thing"] = kind
    assert "show: thing: " in refusal(show)
    assert "is what tools give back: take bytes (base64 in JSON), or a URI as str" in refusal(show)


def test_the_self_of_a_method_is_refused_with_what_to_write() -> None:
    class Counter:
        def add(self, number: int) -> int:
            return number

    text = refusal(Counter.add)
    assert text.endswith("add: self: it has no annotation: decorate the bound method, `tool(instance.method)`")


def test_a_second_tool_context_is_refused() -> None:
    async def two(one: Context, other: Context) -> None: ...

    assert refusal(two).endswith("two: other: there is a Context already")


def test_a_default_that_json_cannot_say_is_refused() -> None:
    def take(thing: Any = object()) -> None: ...

    assert "take: thing: its default cannot be written as JSON" in refusal(take)


def test_generators_are_refused() -> None:
    async def stream() -> AsyncIterator[int]:
        yield 1

    def count() -> Iterator[int]:
        yield 1

    assert refusal(stream).endswith("stream: a generator function: a tool returns once")
    assert refusal(count).endswith("count: a generator function: a tool returns once")


class Callable_:  # noqa: N801 - a callable that is no function
    def __call__(self, a: int) -> int:
        return a


@pytest.mark.table(
    ("thing", "kind"),
    [
        (Callable_(), "Callable_"),
        (Callable_, "type"),
        (functools.partial(print, 1), "partial"),
        (len, "builtin_function_or_method"),
        (tool(name="t")(lambda: None), "LocalTool"),
        ("x", "str"),
    ],
)
def test_what_is_no_python_function_is_refused(thing: Any, kind: str) -> None:
    assert refusal(thing) == f"function: expected a function, got {kind}"


@pytest.mark.table("name", ["", "a b", "a/b", "é", "x" * 65, "a\n", 7, "mcp:x"])
def test_a_name_outside_the_rule_is_a_value_error(name: Any) -> None:
    with pytest.raises(ValueError, match="name: expected 1 to 64 of"):
        tool(name=name)(lambda: None)
    with pytest.raises(ValueError, match="name: expected 1 to 64 of"):
        raw_tool(name, "", {"type": "object"}, len)


@pytest.mark.table("name", ["a", "x" * 64, "A.b_c-9", "."])
def test_a_name_within_the_rule_is_taken(name: str) -> None:
    assert tool(name=name)(lambda: None).name == name


def test_a_lambda_needs_a_name() -> None:
    with pytest.raises(ValueError, match="<lambda>"):
        tool(lambda: None)


@pytest.mark.parametrize("field", ["title", "description"])
def test_a_text_that_is_no_str_is_refused(field: str) -> None:
    def nothing() -> None: ...

    assert refusal(nothing, **{field: 7}) == f"{field}: expected str, got int"


def test_a_policy_that_is_no_policy_is_refused() -> None:
    def nothing() -> None: ...

    assert refusal(nothing, policy={"timeout": 1}) == "policy: expected Policy, got dict"
    assert tool(policy=Policy(timeout=1))(nothing).policy.timeout == 1


# --- raw_tool


@pytest.mark.table(
    "schema",
    [
        {"type": "string"},
        {"type": ["object"]},
        {"$ref": "#/$defs/x"},
        b'"object"',
        b"null",
        b"",
        b"{",
        b'{"type":"object"},"x":{}',
        b'{"type":"object"} {}',
    ],
    ids=repr,
)
def test_a_raw_schema_whose_root_is_no_object_is_a_value_error(schema: Any) -> None:
    with pytest.raises(ValueError, match="schema: "):
        raw_tool("raw", "", schema, len)


def test_a_raw_tool_of_wrong_types_is_refused() -> None:
    with pytest.raises(TypeError, match="handler: expected a function, got int"):
        raw_tool("raw", "", {}, 7)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="description: expected str, got NoneType"):
        raw_tool("raw", None, {}, len)  # type: ignore[arg-type]


def test_what_msgspec_itself_says_is_told_with_the_parameter() -> None:
    class Struct(msgspec.Struct, tag=True):
        a: int

    def take(thing: int | float | list[int] | set[int]) -> None: ...

    def taken(thing: Struct | dict[str, int]) -> None: ...

    assert "take: thing: Type unions may not contain more than one array-like" in refusal(take)
    assert "taken: thing: Type unions may not contain" in refusal(taken)
