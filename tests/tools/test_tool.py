"""Tool: what it says of itself, and how calls go through to its connection."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import attrs
import pytest
import trio
import trio.testing

from trio_mcp.errors import (
    InvalidArgumentsError,
    ProtocolError,
    RequestError,
    ServerStoppedError,
    ToolError,
    UnknownToolError,
)
from trio_mcp.models.content import Image, Text
from trio_mcp.models.result import ToolResult
from trio_mcp.models.tool import ToolSpec, judge_entry
from trio_mcp.tools.context import OnProgress
from trio_mcp.tools.policy import Policy
from trio_mcp.tools.tool import Arguments, Tool, remote_tool


@attrs.define(eq=False)
class FakeConnection:
    """Answers each call with the same result or error, and remembers what it was asked."""

    answer: ToolResult | Exception = attrs.field(factory=lambda: ToolResult("5"))
    asked: list[tuple[Any, ...]] = attrs.field(factory=list)

    async def call_tool(
        self,
        name: str,
        arguments: Arguments = None,
        *,
        on_progress: OnProgress | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> ToolResult:
        self.asked.append((name, arguments, on_progress, meta))
        await trio.lowlevel.checkpoint()
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def spec(**members: Any) -> ToolSpec:
    judged = judge_entry(json.dumps({"name": "add", "inputSchema": {}, **members}).encode(), 0, ())
    assert isinstance(judged, ToolSpec)
    return judged


def tool(answer: ToolResult | Exception | None = None, **members: Any) -> Tool:
    connection = FakeConnection() if answer is None else FakeConnection(answer)
    return remote_tool(spec(**members), connection, "calc")


# --- what it says


def test_a_remote_tool_says_where_it_comes_from() -> None:
    found = tool(name="add.up", description="Adds numbers.\nAll of them.")
    assert found.name == "mcp__calc__add_up_d514abbd"
    assert found.remote_name == "add.up"
    assert found.description == "Tool add.up from the MCP server calc. Adds numbers.\nAll of them."
    assert (found.origin, found.function) == ("mcp", None)
    assert found.spec == spec(name="add.up", description="Adds numbers.\nAll of them.")


@pytest.mark.table("description", [None, "", 5])
def test_without_a_description_there_is_one_sentence(description: Any) -> None:
    assert tool(description=description).description == "Tool add from the MCP server calc."


@pytest.mark.table(
    ("members", "title"),
    [
        ({"title": "A", "annotations": {"title": "B"}}, "A"),
        ({"annotations": {"title": "B"}}, "B"),
        ({"title": 5, "annotations": {"title": "B"}}, "B"),
        ({}, None),
    ],
)
def test_the_title_is_the_tools_own_or_its_annotations(members: dict[str, Any], title: str | None) -> None:
    assert tool(**members).title == title


@pytest.mark.table(
    ("schema", "completed"),
    [
        ({"type": "object", "properties": {}}, {"type": "object", "properties": {}}),
        ({"properties": {}}, {"type": "object", "properties": {}}),
        ({}, {"type": "object"}),
        ([], {"type": "object"}),
    ],
)
def test_a_type_is_added_to_the_schema_and_not_to_its_bytes(schema: Any, completed: Any) -> None:
    found = tool(inputSchema=schema)
    assert found.input_schema == completed
    assert found.input_schema_json == json.dumps(schema).encode()
    assert found.spec.input_schema == (schema or {})


def test_schemas_and_annotations_are_the_specs() -> None:
    found = tool(outputSchema={"type": "object"}, annotations={"idempotentHint": True})
    assert found.output_schema == {"type": "object"}
    assert found.annotations.idempotent_hint


@pytest.mark.table(
    ("annotations", "sequential"),
    [
        ({}, True),
        ({"readOnlyHint": False}, True),
        ({"readOnlyHint": True}, False),
        ({"readOnlyHint": "true"}, True),
    ],
)
def test_only_a_tool_marked_read_only_may_run_beside_others(annotations: Any, sequential: bool) -> None:
    found = tool(annotations=annotations)
    assert found.sequential is sequential
    assert found.with_policy(Policy(sequential=True)).sequential
    assert found.with_policy(Policy(sequential=False)).sequential is sequential


def test_a_policy_replaces_the_one_before_and_changes_nothing_else() -> None:
    found = tool()
    assert found.policy == Policy()
    other = found.with_policy(Policy(timeout=3, origin="acme"))
    assert (other.policy, other.origin, found.origin) == (Policy(timeout=3, origin="acme"), "acme", "mcp")
    assert other.with_policy(Policy()) == found
    assert other != found


@pytest.mark.table("policy", [None, {"timeout": 3}, Policy])
def test_a_policy_is_a_policy(policy: Any) -> None:
    with pytest.raises(TypeError, match=r"^policy: expected Policy"):
        tool().with_policy(policy)


def test_a_tool_is_frozen_and_can_be_a_key() -> None:
    connection = FakeConnection()
    one, two = (remote_tool(spec(), connection, "calc") for _ in range(2))
    assert one == two
    assert {one: "x"}[two] == "x"
    assert one != remote_tool(spec(), FakeConnection(), "calc")
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        one.name = "x"  # type: ignore[misc]


def test_the_repr_shows_nothing_of_the_connection() -> None:
    assert "FakeConnection" not in repr(tool())


# --- calling


@pytest.mark.table("arguments", [{"a": 1}, '{"a": 1}', b'{"a": 1}', None])
async def test_arguments_go_to_the_connection_as_they_are(arguments: Any) -> None:
    connection = FakeConnection()
    found = remote_tool(spec(name="add.up"), connection, "calc")

    async def on_progress(progress: float, total: float | None, message: str | None) -> None: ...

    with trio.testing.assert_checkpoints():
        result = await found.call(arguments, on_progress=on_progress)
    assert result is connection.answer
    assert connection.asked == [("add.up", arguments, on_progress, None)]
    assert connection.asked[0][1] is arguments


async def test_a_failed_tool_is_data_to_call_and_an_error_to_invoke() -> None:
    failed = ToolResult([Text("no such file"), Image(b"x", "image/png")], is_error=True)
    found = tool(failed)
    assert await found.call({}) is failed
    with pytest.raises(ToolError) as caught:
        await found.invoke({})
    assert str(caught.value) == caught.value.text == "no such file"
    assert caught.value.result is failed


@pytest.mark.parametrize("silent", [ToolResult(is_error=True), ToolResult("", is_error=True)])
async def test_a_failed_tool_that_says_nothing_gets_a_text(silent: ToolResult) -> None:
    with pytest.raises(ToolError) as caught:
        await tool(silent).invoke(None)
    assert str(caught.value) == "mcp: tool returned an error"


async def test_what_invoke_raises_says_what_the_server_said_as_a_toolbox_tells_it() -> None:
    failed = ToolResult("disk full", structured_json=b'{"free":0}', is_error=True)
    with pytest.raises(ToolError, match=r"^disk full$"):
        await tool(failed).invoke({})
    unsaid = ToolResult(structured_json=b'{"free":0}', is_error=True)
    with pytest.raises(ToolError, match=r'^{"free":0}$'):
        await tool(unsaid).invoke({})


async def test_invoke_gives_the_one_text() -> None:
    assert await tool(ToolResult([Text("a"), Text("b")])).invoke({}) == "a\nb"
    assert await tool(ToolResult("5", structured_json=b'{"n" : 5}')).invoke({}) == "5"
    assert await tool(ToolResult(structured_json=b'{"n" : 5}')).invoke({}) == '{"n" : 5}'
    picture = ToolResult([Text("a"), Image(b"GIF89a", "image/gif")])
    assert await tool(picture).invoke({}) == "a\n[image image/gif, 6 bytes]"
    assert await tool(ToolResult()).invoke({}) == ""


@pytest.mark.table("method", ["call", "invoke"])
@pytest.mark.table(
    "error",
    [
        ServerStoppedError("calc", returncode=1),
        RequestError(-32603, "no"),
        ProtocolError("no result"),
        UnknownToolError("another"),
        InvalidArgumentsError("another", "nested call"),
        KeyError("from on_progress"),
    ],
)
async def test_what_the_connection_raises_leaves_as_itself(method: str, error: Exception) -> None:
    with pytest.raises(type(error)) as caught:
        await getattr(tool(error), method)({})
    assert caught.value is error


async def test_refusals_carry_the_name_that_the_caller_used() -> None:
    cause = ValueError("why")
    refused = InvalidArgumentsError("add", "got int")
    refused.__cause__ = cause
    with pytest.raises(InvalidArgumentsError) as caught:
        await tool(refused).call({})
    assert str(caught.value) == 'arguments for "mcp__calc__add" are not a JSON object: got int'
    assert caught.value.__cause__ is cause
    with pytest.raises(UnknownToolError) as unknown:
        await tool(UnknownToolError("add")).call({})
    assert str(unknown.value) == 'unknown tool "mcp__calc__add"'
