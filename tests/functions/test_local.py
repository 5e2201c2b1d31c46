"""A local tool as a whole: what it is called, what its function may return, and what it says when that fails."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from types import GenericAlias
from typing import Annotated, Any, Literal

import attrs
import msgspec
import pytest
import trio

from tests.exposing import ERAS, as_json, call, failure, listed, said
from trio_mcp import (
    Audio,
    EmbeddedResource,
    Image,
    Policy,
    ResourceLink,
    Text,
    ToolError,
    ToolResult,
    raw_tool,
    tool,
)
from trio_mcp.protocol.revisions import Era


@attrs.define
class Sum:
    sum: int


@attrs.define
class Tree:
    value: int
    left: Tree | None = None


def giving(value: Any, kind: Any = ...) -> Callable[..., Any]:
    """A function that returns the value, and is annotated to return a `kind` (`...`: not annotated)."""

    def give():  # type: ignore[no-untyped-def]
        return value

    if kind is not ...:
        give.__annotations__["return"] = kind
    return give


# --- what it is


def test_a_tool_knows_what_it_is() -> None:
    def add(a: int) -> Sum:
        """Add."""
        return Sum(a)

    made = tool(add)
    assert (made.name, made.description, made.title, made.remote_name) == ("add", "Add.", None, "add")
    assert (made.origin, made.function, made.policy) == ("local", add, Policy())
    assert made.spec.name == "add"


def test_the_decorator_takes_name_title_description_and_policy() -> None:
    policy = Policy(timeout=1, origin="mine")

    @tool(name="plus.1", title="Plus", description="Adds.", policy=policy)
    def add(a: int) -> int:
        """Not this."""
        return a

    assert (add.name, add.title, add.description, add.origin) == ("plus.1", "Plus", "Adds.", "mine")
    assert add.policy is policy


@pytest.mark.parametrize("era", ERAS)
async def test_name_title_and_description_are_listed(era: Era) -> None:
    entry = await listed(tool(name="plus.1", title="Plus", description="Adds.")(giving(1)), era=era)
    assert (entry["name"], entry["title"], entry["description"]) == ("plus.1", "Plus", "Adds.")


async def test_a_tool_is_sequential_unless_it_is_read_only() -> None:
    reading, writing = tool(read_only=True)(giving(1)), tool(giving(1))
    assert (reading.sequential, writing.sequential) == (False, True)
    assert (await listed(reading))["annotations"] == {"readOnlyHint": True}
    assert "annotations" not in await listed(writing)
    assert raw_tool("raw", "", {}, len).sequential


async def test_policy_alone_can_make_a_read_only_tool_sequential() -> None:
    assert tool(read_only=True, policy=Policy(sequential=True))(giving(1)).sequential


# --- what it returns


@pytest.mark.table("era", ERAS)
@pytest.mark.table("kind", [..., str, Any])
async def test_a_str_is_one_text_block_and_nothing_structured(kind: Any, era: Era) -> None:
    result = await call(giving('say "é"\n\u2028', kind), era=era)
    assert (result.blocks, result.structured_json, result.is_error) == ((Text('say "é"\n\u2028'),), None, False)


@pytest.mark.table(
    "block",
    [
        Text("t", annotations={"priority": 1}),
        Image(b"\x89PNG", "image/png"),
        Audio(b"RIFF", "audio/wav"),
        EmbeddedResource("file:///a", text="hello", mime_type="text/plain"),
        EmbeddedResource("file:///b", blob=b"\0"),
        ResourceLink("file:///c", "c", title="C", size=3),
    ],
    ids=lambda block: type(block).__name__,
)
async def test_a_content_block_is_given_as_it_is(block: Any) -> None:
    several = GenericAlias(list, (type(block),))  # list[...] of a class that is known now only
    for value, kind in ((block, ...), (block, type(block)), ([block], several), ((block,), ...)):
        result = await call(giving(value, kind))
        assert (result.blocks, result.structured_json) == ((block,), None)
        assert "outputSchema" not in await listed(giving(value, kind))


@pytest.mark.table(
    "kind", [..., list[Text | Image], list[str | Image | Text], tuple[Text | Image, ...], list[Text] | list[Image]]
)
async def test_a_list_of_blocks_is_these_blocks_and_a_str_among_them_is_text(kind: Any) -> None:
    blocks = ["a", Text("b"), Image(b"i", "image/gif")]
    result = await call(giving(blocks, kind))
    assert result.blocks == (Text("a"), *blocks[1:])
    assert result.structured_json is None


@pytest.mark.table("kind", [list, list[Any], tuple[Any, ...], Sequence[Any]], ids=str)
async def test_in_a_list_of_anything_the_values_decide_whether_they_are_blocks(kind: Any) -> None:
    blocks = ["a", Image(b"i", "image/gif")]
    result = await call(giving(blocks, kind))
    assert (result.blocks, result.structured_json) == ((Text("a"), blocks[1]), None)
    assert (await call(giving([1, "x"], kind))).structured_json == b'[1,"x"]'
    assert "outputSchema" not in await listed(giving(blocks, kind)), "which blocks would not keep to"
    assert "does not match its return type" in await failure(giving({"a": 1}, kind))


async def test_an_empty_list_is_no_blocks_where_blocks_were_announced_and_json_elsewhere() -> None:
    assert (await call(giving([], list[Text]))).blocks == ()
    assert (await call(giving([]))).content == "[]"
    assert (await call(giving([], list[int]))).structured == []


async def test_a_tool_result_is_given_as_it_is_with_its_meta() -> None:
    given = ToolResult([Text("x")], is_error=True, structured_json=b'{"a": 1.10}', meta={"mine": 1})
    result = await call(giving(given, ToolResult))
    assert (result.blocks, result.is_error, result.structured_json) == (given.blocks, True, b'{"a": 1.10}')
    assert result.meta is not None
    assert result.meta["mine"] == 1
    assert "outputSchema" not in await listed(giving(given, ToolResult))


@pytest.mark.table("kind", [..., None, Any, ToolResult | None])
async def test_none_is_no_block(kind: Any) -> None:
    result = await call(giving(None, kind))
    assert (result.blocks, result.structured_json) == ((), None)
    assert "outputSchema" not in await listed(giving(None, kind))


async def test_none_with_an_output_schema_is_null_in_text_and_structured() -> None:
    result = await call(giving(None, int | None))
    assert (result.blocks, result.structured_json) == ((Text("null"),), b"null")


@pytest.mark.table(
    ("value", "kind", "text", "schema"),
    [
        (5, int, "5", {"type": "integer"}),
        (True, bool, "true", {"type": "boolean"}),
        ([1, 2], list[int], "[1,2]", {"type": "array", "items": {"type": "integer"}}),
        ({"a": None}, dict[str, Any], '{"a":null}', {"type": "object"}),
        ({"a": 1}, dict, '{"a":1}', {"type": "object"}),
        (
            Sum(3),
            Sum,
            '{"sum":3}',
            {"type": "object", "properties": {"sum": {"type": "integer"}}, "required": ["sum"]},
        ),
        (3, int | str, "3", {"anyOf": [{"type": "integer"}, {"type": "string"}]}),
    ],
    ids=str,
)
async def test_anything_else_is_json_in_a_text_block_and_structured_with_its_schema(
    value: Any, kind: Any, text: str, schema: dict[str, Any]
) -> None:
    result = await call(giving(value, kind))
    assert (result.blocks, result.structured_json) == ((Text(text),), text.encode())
    assert (await listed(giving(value, kind)))["outputSchema"] == schema


@pytest.mark.table("value", [5, {"a": [1.5]}, Sum(3), [1, "x"], ["x"]], ids=str)
async def test_without_a_return_annotation_the_value_decides_and_there_is_no_output_schema(value: Any) -> None:
    result = await call(giving(value))
    expected = as_json(msgspec.to_builtins(value))
    assert (result.content, result.structured_json) == (expected, expected.encode())
    assert "outputSchema" not in await listed(giving(value))
    assert tool(giving(value)).output_schema is None


async def test_a_str_under_a_schema_is_text_and_structured() -> None:
    for kind in (str | None, Literal["a"], Annotated[str, msgspec.Meta(max_length=1)]):
        result = await call(giving("a", kind))
        assert (result.blocks, result.structured_json) == ((Text("a"),), b'"a"')


async def test_an_enum_that_is_a_str_is_its_value() -> None:
    class Colour(str, enum.Enum):  # noqa: UP042 - the kind whose str() is not its value
        RED = "red"

    assert await said(giving(Colour.RED)) == await said(giving(Colour.RED, Colour)) == "red"


async def test_an_output_type_that_contains_itself_has_an_object_at_the_root() -> None:
    schema = (await listed(giving(Tree(1), Tree)))["outputSchema"]
    assert schema["type"] == "object"
    assert "$ref" not in schema
    assert "title" not in schema
    assert schema["properties"]["left"]["anyOf"] == [{"$ref": "#/$defs/Tree"}, {"type": "null"}]
    assert "Tree" in schema["$defs"]
    assert (await call(giving(Tree(1, Tree(2)), Tree))).structured == {
        "value": 1,
        "left": {"value": 2, "left": None},
    }


# --- what does not match


@pytest.mark.table(
    ("value", "kind", "reason"),
    [
        ("5", int, "expected int, got str"),
        (5, str, "expected str, got int"),
        (None, str, "expected str, got null"),
        (5, None, "expected null, got int"),
        ({"sum": "x"}, Sum, "sum: expected int, got str"),
        (Sum("x"), Sum, "sum: expected int, got str"),  # type: ignore[arg-type]
        ({}, Sum, "sum: missing, but required"),
        ([1, None], list[int], "[1]: expected int, got null"),
        ("c", Literal["a", "b"], 'expected "a" or "b", got \'c\''),
        (float("nan"), float, "expected float, got null"),
        ({"a": 1}, Image, "expected content blocks, got dict"),
        (Image(b"", "i"), Sum, "expected structured output, got none"),
        (ToolResult("x"), Sum, "expected structured output, got none"),
        (ToolResult(structured_json=b'{"sum":"x"}'), Sum, "sum: expected int, got str"),
    ],
    ids=str,
)
async def test_a_value_of_another_type_is_an_error_result(value: Any, kind: Any, reason: str) -> None:
    text = f'tool "give" returned a value that does not match its return type: {reason}'
    assert await failure(giving(value, kind)) == text


@pytest.mark.table("value", [object(), {1j: 2}, {"a": object()}, ["\ud800"], ToolResult(structured_json=b"{")])
async def test_a_value_that_is_no_json_is_an_error_result(value: Any) -> None:
    assert (await failure(giving(value))).startswith('tool "give" returned a value that does not match')


async def test_a_failed_tool_result_needs_no_structured_output() -> None:
    assert await failure(giving(ToolResult("no", is_error=True), Sum)) == "no"


async def test_structured_output_of_several_lines_does_not_break_the_wire() -> None:
    result = await call(giving(ToolResult(structured_json=b'{\n"a":\r\n1}')))
    assert result.structured == {"a": 1}


async def test_a_schema_of_several_lines_does_not_break_the_wire() -> None:
    entry = await listed(raw_tool("raw", "", b'{\r\n  "type": "object"\n}', len))
    assert entry["inputSchema"] == {"type": "object"}


async def test_text_that_is_no_utf8_is_shown_escaped() -> None:
    """File names are like that. A client of another library would never answer such a line."""
    assert await said(giving("caf\udce9.txt")) == "caf\\udce9.txt"


# --- what it raises


@pytest.mark.table("era", ERAS)
@pytest.mark.table(
    ("error", "text"),
    [
        (ValueError("no such city"), "ValueError: no such city"),
        (ValueError(), "ValueError"),
        (KeyError("a"), "KeyError: 'a'"),
        (ExceptionGroup("many", [ExceptionGroup("one", [OSError("disk full")])]), "OSError: disk full"),
        (ExceptionGroup("two", [OSError("a"), OSError("b")]), "ExceptionGroup: two (2 sub-exceptions)"),
        (OSError("caf\udce9"), "OSError: caf\\udce9"),
    ],
    ids=str,
)
async def test_an_exception_is_an_error_result_with_its_text(error: Exception, text: str, era: Era) -> None:
    def plain() -> None:
        raise error

    async def asynchronous() -> None:
        raise error

    for function in (plain, asynchronous):
        assert await failure(function, era=era) == text
        local = await tool(function).call(None)
        assert (local.is_error, local.content) == (True, text)


async def test_invoke_returns_the_text_and_raises_what_failed() -> None:
    def half(number: int) -> int:
        if number % 2:
            raise ValueError("odd")
        return number // 2

    made = tool(half)
    assert await made.invoke({"number": 4}) == "2"
    with pytest.raises(ToolError, match=r"^ValueError: odd$"):
        await made.invoke({"number": 3})
    with pytest.raises(ToolError, match='arguments for "half": number: expected int, got str'):
        await made.invoke({"number": "3"})


async def test_a_cancel_passes_through_a_tool() -> None:
    @tool
    async def wait() -> None:
        await trio.sleep_forever()

    with trio.move_on_after(0) as scope:
        await wait.call(None)
    assert scope.cancelled_caught
