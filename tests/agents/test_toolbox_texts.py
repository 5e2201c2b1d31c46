"""What a model reads when a call fails: each line of the table of texts, in a Toolbox and from a ToolServer."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from tests.exposing import ERAS
from tests.turns import calls, open_toolbox, renamed, run_one, texts
from trio_mcp import (
    ApprovalRequiredError,
    InvalidArgumentsError,
    InvalidServerError,
    Policy,
    ProtocolError,
    RequestError,
    ServerStoppedError,
    Toolbox,
    ToolCall,
    ToolError,
    ToolResult,
    ToolServer,
    UnknownToolError,
    open_connection,
    open_memory_connection,
    raw_tool,
    tool,
)
from trio_mcp.protocol.revisions import Era
from trio_mcp.testing import misbehaving_server
from trio_mcp.tools.failures import failure_text, text_of
from trio_mcp.tools.tool import remote_tool


@tool
async def add(a: int, b: int = 0) -> int:
    return a + b


@tool
async def fail(text: str = "") -> str:
    raise ValueError(text)


# --- unknown tool


@pytest.mark.table("name", ["x", "", "Add", "mcp__memory__add", "a\nb", None, 5, ["add"]])
async def test_an_unknown_tool_is_named_as_the_model_called_it(name: Any) -> None:
    async with open_toolbox(add) as (toolbox, connection):
        before = connection.statistics().bytes_out
        outcome = await run_one(toolbox, name)
        assert connection.statistics().bytes_out == before
    assert outcome.content == f'unknown tool "{name}"'.replace("\n", r"\n")
    assert (outcome.is_error, outcome.pending, outcome.seconds) == (True, False, 0)
    assert isinstance(outcome.error, UnknownToolError)


async def test_a_tool_that_the_connection_hides_is_unknown_too() -> None:
    class Hiding:
        async def call_tool(self, name: str, *_: Any, **__: Any) -> ToolResult:
            raise UnknownToolError(name)

    toolbox = Toolbox([remote_tool(add.spec, Hiding(), "memory")])
    outcome = await run_one(toolbox, "mcp__memory__add", {"a": 1})
    assert outcome.content == 'unknown tool "mcp__memory__add"'


# --- bad arguments


@pytest.mark.table("where", ["remote", "local"])
@pytest.mark.table(
    ("arguments", "reason"),
    [
        ('{"a": 1', "Expecting ',' delimiter: line 1 column 8 (char 7)"),
        ("[1]", "it is an array"),
        ('"a"', "it is a string"),
        ('{"a": 1} {"a": 2}', "Extra data: line 1 column 10 (char 9)"),
        (b'{"a": "\xff"}', "invalid UTF-8 at byte 7"),
        ({"a": float("nan")}, "a: nan is no JSON number"),
        ({"a": print}, "a: builtin_function_or_method is no JSON value"),
        (5, "got int"),
        ([], "got list"),
    ],
    ids=str,
)
async def test_arguments_that_are_no_json_object_say_why(where: str, arguments: Any, reason: str) -> None:
    async with open_toolbox(add) as (toolbox, _):
        outcome = await run_one(toolbox if where == "remote" else add, "add", arguments)
    assert outcome.content == f'arguments for "add" are not a JSON object: {reason}'
    assert outcome.is_error
    assert isinstance(outcome.error, InvalidArgumentsError)


@pytest.mark.table("where", ["remote", "local"])
@pytest.mark.table(
    ("arguments", "reason"),
    [
        ({"a": "1"}, "a: expected int, got str"),
        ({"b": 1}, "a: missing, but required"),
        ({"a": 1, "c": 2}, "c: unknown field"),
    ],
    ids=str,
)
async def test_arguments_of_a_typed_tool_say_which_field_what_was_expected_and_what_came(
    where: str, arguments: Any, reason: str
) -> None:
    async with open_toolbox(add) as (toolbox, _):
        outcome = await run_one(toolbox if where == "remote" else add, "add", arguments)
    assert outcome.content == f'arguments for "add": {reason}'
    assert (outcome.is_error, outcome.error) == (True, None)


# --- exceptions, failed tools


@pytest.mark.table("where", ["remote", "local"])
@pytest.mark.table(
    ("text", "said"), [("no such file", "ValueError: no such file"), ("", "ValueError"), ("é", "ValueError: é")]
)
async def test_an_exception_in_a_local_tool_is_its_text_or_its_type(where: str, text: str, said: str) -> None:
    async with open_toolbox(fail) as (toolbox, _):
        outcome = await run_one(toolbox if where == "remote" else fail, "fail", {"text": text})
    assert (outcome.content, outcome.is_error) == (said, True)
    assert type(outcome.error) is (ValueError if where == "local" else type(None)), "it does not cross the wire"


async def test_a_tool_error_is_told_in_its_own_words() -> None:
    @tool
    async def pick(fruit: str) -> str:
        raise ToolError(f"there are no {fruit}s")

    async with open_toolbox(pick) as (toolbox, _):
        for one in (toolbox, pick):
            outcome = await run_one(one, "pick", {"fruit": "pear"})
            assert (outcome.content, outcome.is_error) == ("there are no pears", True)
    assert isinstance(outcome.error, ToolError)
    assert outcome.error.result is None


async def test_an_exception_that_cannot_be_printed_is_its_type() -> None:
    class OddError(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    @tool
    async def odd() -> None:
        raise OddError

    assert (await run_one(odd, "odd")).content == "OddError"


async def test_an_exception_in_a_plain_function_is_text_too() -> None:
    def broken(_: bytes) -> None:
        raise KeyError("colour")

    assert (await run_one(raw_tool("broken", "Broken.", {}, broken), "broken")).content == "KeyError: 'colour'"


async def test_a_group_of_exceptions_in_a_local_tool_does_not_leak() -> None:
    @tool
    async def split(count: int) -> None:
        async def explode(number: int) -> None:
            raise ValueError(f"part {number}")

        async with trio.open_nursery() as nursery:
            for number in range(count):
                nursery.start_soon(explode, number)

    assert (await run_one(split, "split", {"count": 1})).content == "ValueError: part 0"
    assert (await run_one(split, "split", {"count": 2})).content.endswith("(2 sub-exceptions)")


@pytest.mark.table("where", ["remote", "local"])
@pytest.mark.table(
    ("result", "said"),
    [
        (ToolResult("  no such\nfile ", is_error=True), "  no such\nfile "),
        (ToolResult(is_error=True), "mcp: tool returned an error"),
        (ToolResult("", is_error=True), "mcp: tool returned an error"),
        (ToolResult(is_error=True, structured_json=b'{"code":5}'), '{"code":5}'),
    ],
)
async def test_a_failed_tool_says_what_its_server_says_or_that_it_failed(
    where: str, result: ToolResult, said: str
) -> None:
    bad = raw_tool("bad", "Bad.", {}, lambda _: result)
    async with open_toolbox(bad) as (toolbox, _):
        outcome = await run_one(toolbox if where == "remote" else bad, "bad")
    assert (outcome.content, outcome.is_error, outcome.error) == (said, True, None)


async def test_a_tool_that_succeeds_and_says_nothing_says_nothing() -> None:
    outcome = await run_one(raw_tool("quiet", "Quiet.", {}, lambda _: None), "quiet")
    assert (outcome.content, outcome.is_error) == ("", False)


# --- lost servers, broken protocol


async def test_a_server_that_dies_in_a_call_is_told_as_mcp_and_the_error(nothing_left: dict[str, str]) -> None:
    server = misbehaving_server("dies on call", env=nothing_left)
    with trio.fail_after(20):
        async with open_connection(server) as connection:
            outcomes = await Toolbox(renamed(one) for one in connection.tools).run(calls("work", "work"))
    assert texts(outcomes) == ['mcp: server "misbehaving" stopped: exited with status 3'] * 2
    for outcome in outcomes:
        assert outcome.is_error
        assert isinstance(outcome.error, ServerStoppedError)
        assert outcome.error.returncode == 3


async def test_a_dead_server_costs_only_its_own_calls(nothing_left: dict[str, str]) -> None:
    server = misbehaving_server("dies on call", env=nothing_left)
    with trio.fail_after(20):
        async with open_connection(server) as connection, open_toolbox(add) as (other, _):
            toolbox = Toolbox([*other.tools, *map(renamed, connection.tools)])
            outcomes = await toolbox.run(calls(("add", {"a": 1}), "work", ("add", {"a": 2})))
    assert [outcome.is_error for outcome in outcomes] == [False, True, False]


async def test_a_connection_that_was_closed_is_told_as_mcp() -> None:
    async with open_toolbox(add) as (toolbox, connection):
        await connection.aclose()
        outcome = await run_one(toolbox, "add", {"a": 1})
    assert outcome.content.startswith("mcp: ")
    assert isinstance(outcome.error, trio.ClosedResourceError)


@pytest.mark.parametrize("era", ERAS)
async def test_an_error_that_a_server_answers_is_told_as_mcp_with_its_code(era: Era) -> None:
    server = ToolServer("s")
    server.add_tools(add)
    async with open_memory_connection(server, protocol=era) as connection:
        toolbox = Toolbox(connection.tools)
        server.remove_tool("add")
        outcome = await run_one(toolbox, "mcp__memory__add", {"a": 1})
    assert outcome.content == 'mcp: unknown tool "add" (code -32602)'
    assert isinstance(outcome.error, RequestError)


# --- approval, timeout, cap


async def test_a_call_that_needs_approval_says_so() -> None:
    outcome = await run_one(add.with_policy(Policy(require_approval=True)), "add", {"a": 1})
    assert outcome.content == 'tool "add" requires approval'


@pytest.mark.parametrize(
    ("timeout", "said"), [(0.1, "0.1s"), (2, "2s"), (2.0, "2s"), (1.5, "1.5s"), (0, "0s"), (90, "90s")]
)
async def test_a_call_that_took_too_long_says_how_long(timeout: float, said: str, autojump_clock: Any) -> None:
    @tool
    async def slow() -> None:
        await trio.sleep_forever()

    async with open_toolbox(slow, policy=Policy(timeout=timeout)) as (toolbox, _):
        outcome = await Toolbox(toolbox.tools).run([ToolCall("1", "slow")])
    assert texts(outcome) == [f'tool "slow" timed out after {said}']
    assert outcome[0].is_error
    assert isinstance(outcome[0].error, trio.TooSlowError)
    assert outcome[0].seconds == pytest.approx(timeout)


async def test_a_text_that_is_cut_says_how_many_bytes_are_missing() -> None:
    long = raw_tool("long", "Long.", {}, lambda _: "x" * 500)
    async with open_toolbox(long, policy=Policy(max_result_bytes=8)) as (toolbox, _):
        outcome = await run_one(toolbox, "long")
    assert outcome.content == "xxxxxxxx\n…[truncated 492 bytes]"


# --- the one function behind it, which a server uses too


@pytest.mark.table(
    ("error", "text"),
    [
        (InvalidArgumentsError("x", "got int"), 'arguments for "x" are not a JSON object: got int'),
        (UnknownToolError("x"), 'unknown tool "x"'),
        (ApprovalRequiredError("x"), 'tool "x" requires approval'),
        (ToolError("no such file", ToolResult("no such file", is_error=True)), "no such file"),
        (ServerStoppedError("s", returncode=1), 'mcp: server "s" stopped: exited with status 1'),
        (RequestError(-32603, "no"), "mcp: no (code -32603)"),
        (ProtocolError("no result"), "mcp: no result"),
        (InvalidServerError("name", "is empty"), "mcp: name: is empty"),
        (trio.ClosedResourceError(), "mcp: ClosedResourceError"),
        (trio.ClosedResourceError("closed here"), "mcp: closed here"),
        (ValueError("mine"), "ValueError: mine"),
        (ValueError(), "ValueError"),
        (OSError(2, "No such file"), "FileNotFoundError: [Errno 2] No such file"),
        (ExceptionGroup("two levels", [ExceptionGroup("of one", [ProtocolError("no")])]), "mcp: no"),
        (ExceptionGroup("two", [ValueError("a"), ValueError("b")]), "ExceptionGroup: two (2 sub-exceptions)"),
        (ValueError("a file named \udcff"), r"ValueError: a file named \udcff"),
    ],
    ids=repr,
)
def test_an_exception_as_a_tool_text(error: Exception, text: str) -> None:
    assert failure_text(error) == text
    assert text_of(error) == text.removeprefix("mcp: ")


@pytest.mark.parametrize("era", ERAS)
async def test_a_server_says_of_a_lost_server_behind_it_what_a_toolbox_says(
    era: Era, nothing_left: dict[str, str]
) -> None:
    said = 'mcp: server "misbehaving" stopped: exited with status 3'
    with trio.fail_after(20):
        async with open_connection(misbehaving_server("dies on call", env=nothing_left)) as behind:
            async with open_toolbox(*behind.tools, era=era) as (toolbox, _):
                outcome = await run_one(toolbox, "mcp__misbehaving__work")
    assert (outcome.content, outcome.is_error, outcome.error) == (said, True, None)


@pytest.mark.parametrize("era", ERAS)
async def test_a_server_says_of_a_closed_connection_behind_it_what_a_toolbox_says(era: Era) -> None:
    async with open_toolbox(add) as (_, behind):
        found = behind.tools
        await behind.aclose()
        there = await run_one(found[0], found[0].name, {"a": 1})
        async with open_toolbox(*found, era=era) as (toolbox, _):
            outcome = await run_one(toolbox, found[0].name, {"a": 1})
    assert outcome.content == there.content
    assert outcome.content.startswith("mcp: ")
