"""Arguments of a local tool: decoded strictly, and what is wrong with them said so that a model can act on it."""

from __future__ import annotations

import doctest
import enum
from collections.abc import Callable
from typing import Annotated, Any, Literal, TypedDict

import attrs
import msgspec
import pytest

from tests.exposing import ERAS, failure, raw, said
from trio_mcp import InvalidArgumentsError, raw_tool, tool
from trio_mcp.models import validation as wording
from trio_mcp.protocol.revisions import Era
from trio_mcp.tools.tool import Arguments


class Colour(enum.Enum):
    RED = "red"
    GREEN = "green"


@attrs.define
class Point:
    x: int
    y: int = 0
    colour: Colour = Colour.RED


class Options(TypedDict):
    deep: bool


def taking(kind: Any) -> Callable[..., Any]:
    def take(thing: Any) -> str:
        return repr(thing)

    take.__annotations__["thing"] = kind
    return take


def test_the_example_runs() -> None:
    assert doctest.testmod(wording).failed == 0


@pytest.mark.parametrize("era", ERAS)
async def test_a_wrong_type_is_told_with_field_expectation_and_what_came(era: Era) -> None:
    @tool(name="x")
    def add(a: int, b: int) -> int:
        return a + b

    assert await failure(add, {"a": "1", "b": 2}, era=era) == 'arguments for "x": a: expected int, got str'
    local = await add.call({"a": "1", "b": 2})
    assert (local.is_error, local.content) == (True, 'arguments for "x": a: expected int, got str')


@pytest.mark.table(
    ("kind", "sent", "text"),
    [
        (int, "1", "thing: expected int, got str"),
        (int, True, "thing: expected int, got bool"),
        (int, 1.5, "thing: expected int, got float"),
        (int, None, "thing: expected int, got null"),
        (bool, "false", "thing: expected bool, got str"),
        (bool, 0, "thing: expected bool, got int"),
        (str, 1, "thing: expected str, got int"),
        (float, "1", "thing: expected float, got str"),
        (list[int], "12", "thing: expected array, got str"),
        (list[int], [1, "x"], "thing[1]: expected int, got str"),
        (dict[str, int], {"a": []}, "thing[...]: expected int, got array"),
        (dict[int, int], {"a": 1}, "a key of thing: expected int, got str"),
        (Point, [1], "thing: expected object, got array"),
        (Point, {"x": "1"}, "thing.x: expected int, got str"),
        (Point, {"y": 1}, "thing.x: missing, but required"),
        (list[Point], [{"x": 1}, {"x": 2, "colour": "blue"}], "thing[1].colour: "),
        (Options, {}, "thing.deep: missing, but required"),
        (int | str | None, [], "thing: expected int | str | null, got array"),
        (Annotated[int, msgspec.Meta(ge=1)], 0, "thing: expected int >= 1"),
        (Annotated[int, msgspec.Meta(ge=-1)], -2, "thing: expected int >= -1"),
        (Annotated[str, msgspec.Meta(max_length=1)], "ab", "thing: expected str of length <= 1"),
        (Annotated[str, msgspec.Meta(pattern="^[a-c]{1,2}$")], "d", "thing: expected str matching regex"),
        (bytes, "?", "thing: invalid base64 encoded string"),
    ],
    ids=str,
)
async def test_each_mismatch_names_the_place(kind: Any, sent: Any, text: str) -> None:
    assert (await failure(taking(kind), {"thing": sent})).startswith(f'arguments for "take": {text}')


async def test_an_integer_that_python_refuses_to_read_is_told_too() -> None:
    text = await failure(taking(int), '{"thing":' + "1" * 5000 + "}")
    assert text == 'arguments for "take": thing: integer value out of range'


@pytest.mark.table(
    ("kind", "sent", "text"),
    [
        (Colour, "blue", 'thing: expected "green" or "red", got \'blue\''),
        (Literal["a", "b"], "c", 'thing: expected "a" or "b", got \'c\''),
        (Literal[1, 2], 3, "thing: expected 1 or 2, got 3"),
        (Colour | None, "blue", 'thing: expected "green" or "red", got \'blue\''),
        (list[Colour], ["red", "blue"], 'thing[1]: expected "green" or "red", got \'blue\''),
        (dict[str, Colour], {"a": "blue"}, 'thing[...]: expected "green" or "red", got \'blue\''),
        (list[Point], [{"x": 1, "colour": "blue"}], 'thing[0].colour: expected "green" or "red", got \'blue\''),
    ],
    ids=str,
)
async def test_a_wrong_choice_names_the_choices(kind: Any, sent: Any, text: str) -> None:
    assert await failure(taking(kind), {"thing": sent}) == f'arguments for "take": {text}'


async def test_a_missing_and_an_unknown_argument_are_named() -> None:
    def add(a: int, b: int = 1) -> int:
        return a + b

    assert await failure(add) == 'arguments for "add": a: missing, but required'
    assert await failure(add, {"a": 1, "c": 2}) == 'arguments for "add": c: unknown field'
    assert await failure(add, {"a": 1, "c\nd": 2}) == 'arguments for "add": c\nd: unknown field'


async def test_nothing_blank_and_null_are_no_arguments() -> None:
    def add(a: int = 1) -> int:
        return a

    nothing: tuple[Arguments, ...] = (None, {}, "", " \n", "null", b"")
    for empty in nothing:
        assert (await tool(add).call(empty)).content == "1"
    assert await said(add) == "1"


@pytest.mark.table(
    ("arguments", "reason"),
    [("[1]", "it is an array"), ('"{}"', "it is a string"), ("{", "Expecting"), (7, "got int")],
)
async def test_what_is_no_object_raises_locally(arguments: Any, reason: str) -> None:
    @tool
    def add(a: int = 1) -> int:
        return a

    with pytest.raises(InvalidArgumentsError, match='arguments for "add" are not a JSON object: ' + reason):
        await add.call(arguments)


async def test_of_a_key_that_comes_twice_the_last_counts() -> None:
    assert await said(taking(int), '{"thing": 1, "thing": 2}') == "2"


# --- raw tools


async def test_a_raw_tool_gets_the_bytes_of_its_arguments_verbatim() -> None:
    seen: list[bytes] = []
    arguments = b'{ "a" : 1.10,\t"a": 12345678901234567890123, "\\u00e9":"\xc3\xa9"}'
    handler = raw_tool("raw", "", {"type": "object"}, seen.append)
    async with raw(handler) as client:
        await client.initialize()
        line = b'{"id":9,"method":"tools/call","params":{"name":"raw","arguments":' + arguments + b"}}\n"
        await client.send(line)
        assert (await client.take())["result"] == {"content": []}
    await handler.call(arguments.decode())
    assert seen == [arguments, arguments]


async def test_a_raw_tool_without_arguments_gets_an_empty_object() -> None:
    assert await said(raw_tool("raw", "", {}, lambda arguments: arguments.decode())) == "{}"


async def test_a_raw_handler_may_be_async_or_plain_or_a_callable_object() -> None:
    async def handle(arguments: bytes) -> int:
        return len(arguments)

    class Handler:
        async def __call__(self, arguments: bytes) -> int:
            return len(arguments)

    for handler in (handle, len, Handler(), lambda arguments: handle(arguments)):
        assert await said(raw_tool("raw", "", {}, handler), {"a": 1}) == "7"


async def test_a_raw_handler_checks_nothing_that_the_schema_says() -> None:
    schema = {"type": "object", "required": ["a"]}
    assert await said(raw_tool("raw", "", schema, lambda arguments: arguments.decode()), {"b": 1}) == '{"b":1}'
