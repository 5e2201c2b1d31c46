"""What a program hears of a turn while it runs, what it can end in it, and how it finds a tool."""

from __future__ import annotations

import logging
from typing import Any

import attrs
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.exposing import ERAS
from tests.turns import Hall, calls, open_toolbox, run_one, texts
from trio_mcp import (
    Context,
    ElicitRequest,
    ElicitResult,
    Policy,
    Toolbox,
    ToolCall,
    ToolOutcome,
    ToolResult,
    UnknownToolError,
    import_tools,
    open_memory_connection,
    raw_tool,
    tool,
)
from trio_mcp import ToolServer as Publishing
from trio_mcp.protocol.revisions import Era
from trio_mcp.testing import open_functions


@tool(read_only=True)
async def count(to: int, context: Context) -> str:
    for step in range(1, to + 1):
        await context.progress(step, to, f"step {step}")
    return "counted"


# --- progress


@pytest.mark.parametrize("where", ["remote", "local"])
async def test_progress_is_told_with_its_call(where: str) -> None:
    heard: list[Any] = []

    async def on_progress(call: ToolCall, *report: Any) -> None:
        heard.append((call.id, *report))

    async with open_toolbox(count) as (toolbox, _):
        box = toolbox if where == "remote" else Toolbox([count])
        outcomes = await box.run(calls(("count", {"to": 2}), ("count", {"to": 1})), on_progress=on_progress)
    assert texts(outcomes) == ["counted", "counted"]
    assert sorted(heard) == [("1", 1, 2, "step 1"), ("1", 2, 2, "step 2"), ("2", 1, 1, "step 1")]


@pytest.mark.parametrize("where", ["remote", "local"])
async def test_what_on_progress_raises_is_the_failure_of_its_call(where: str) -> None:
    async def on_progress(call: ToolCall, *_: Any) -> None:
        if call.id == "1":
            raise ValueError("enough")

    async with open_toolbox(count) as (toolbox, _):
        box = toolbox if where == "remote" else Toolbox([count])
        turn = calls(("count", {"to": 2}), ("count", {"to": 1}))
        assert texts(await box.run(turn, on_progress=on_progress)) == ["ValueError: enough", "counted"]


# --- outcomes


async def test_each_outcome_is_told_as_soon_as_it_is_there_and_one_at_a_time() -> None:
    hall = Hall()
    told: list[str] = []
    inside = 0

    async def on_outcome(outcome: ToolOutcome) -> None:
        nonlocal inside
        inside += 1
        assert inside == 1
        for _ in range(3):
            await trio.lowlevel.checkpoint()
        inside -= 1
        told.append(outcome.id)

    turn = calls("read a", "read b", "nothing", "write c", "write d")
    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lambda: Toolbox(hall.tools).run(turn, on_outcome=on_outcome))
            for who, expected in [("", "3"), ("b", "2"), ("c", "4"), ("a", "1"), ("d", "5")]:
                hall.let_out(who)
                await wait_all_tasks_blocked()
                assert told[-1] == expected
    assert told == ["3", "2", "4", "1", "5"]


async def test_what_on_outcome_raises_is_logged_and_costs_no_outcome(caplog: pytest.LogCaptureFixture) -> None:
    async def on_outcome(outcome: ToolOutcome) -> None:
        raise RuntimeError("no screen")

    turn = calls(("count", {"to": 1}), ("count", {"to": 1}))
    assert texts(await Toolbox([count]).run(turn, on_outcome=on_outcome)) == ["counted", "counted"]
    assert [record.levelno for record in caplog.records] == [logging.ERROR] * 2
    assert caplog.messages[0] == 'on_outcome failed for a call of tool "count"'


@pytest.mark.parametrize("name", ["approve", "on_progress", "on_outcome", "on_elicit"])
async def test_what_is_no_function_is_refused_before_anything_runs(name: str) -> None:
    options: Any = {name: 7}
    with pytest.raises(TypeError, match=f"^{name}: expected an async function, got int$"):
        await Toolbox([count]).run(calls("count"), **options)


# --- questions


@attrs.frozen
class Colour:
    name: str
    shade: str = "any"


@tool
async def choose(context: Context) -> str:
    answer = await context.elicit("Which colour?", Colour)
    return f"{answer.action} {answer.content}"


async def test_a_tool_of_this_process_asks_through_the_turn() -> None:
    asked: list[str] = []

    async def on_elicit(request: ElicitRequest) -> ElicitResult:
        asked.append(request.message)
        assert list(request.schema["properties"]) == ["name", "shade"]
        return ElicitResult.accept({"name": "red"})

    outcome = await run_one(choose, "choose", on_elicit=on_elicit)
    assert (outcome.content, asked) == ("accept Colour(name='red', shade='any')", ["Which colour?"])


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (ElicitResult.decline(), "decline None"),
        (ElicitResult.cancel(), "cancel None"),
        (ElicitResult.accept({}), "the client's answer does not fit the form: name: missing, but required"),
        (ElicitResult.accept(7), "TypeError: on_elicit: expected a mapping of the form's fields, got int"),
        ("red", "TypeError: on_elicit: expected an ElicitResult, got str"),
    ],
)
async def test_other_answers_are_told_as_they_are(answer: Any, text: str) -> None:
    async def on_elicit(request: ElicitRequest) -> Any:
        return answer

    assert (await run_one(choose, "choose", on_elicit=on_elicit)).content == text


async def test_without_on_elicit_nobody_can_be_asked_and_only_the_user_can_be() -> None:
    async def on_elicit(request: ElicitRequest) -> ElicitResult:
        raise AssertionError

    @tool
    async def think(context: Context) -> str:
        return str(await context.sample({"messages": [], "maxTokens": 1}))

    assert (await run_one(choose, "choose")).content == "the client does not offer elicitation"
    assert (await run_one(think, "think", on_elicit=on_elicit)).content == "the client does not offer sampling"


async def test_the_questions_of_a_server_are_answered_by_its_connection() -> None:
    async def of_connection(request: ElicitRequest) -> ElicitResult:
        return ElicitResult.accept({"name": "blue"})

    async def of_turn(request: ElicitRequest) -> ElicitResult:
        raise AssertionError

    async with open_functions(choose, on_elicit=of_connection) as connection:
        toolbox = Toolbox(connection.tools)
        outcome = await run_one(toolbox, connection.tools[0].name, on_elicit=of_turn)
    assert outcome.content == "accept Colour(name='blue', shade='any')"


# --- ending one call


@pytest.mark.parametrize("era", ERAS)
async def test_cancel_ends_one_call_and_tells_its_server(era: Era) -> None:
    hall = Hall()
    told: list[str] = []
    outcomes: list[ToolOutcome] = []

    async def on_outcome(outcome: ToolOutcome) -> None:
        told.append(outcome.content)

    async with open_toolbox(*hall.tools, era=era) as (toolbox, _), trio.open_nursery() as nursery:

        async def run() -> None:
            outcomes.extend(await toolbox.run(calls("read a", "read b", "write c"), on_outcome=on_outcome))

        with trio.fail_after(10):
            nursery.start_soon(run)
            await wait_all_tasks_blocked()
            assert toolbox.cancel("1")
            await wait_all_tasks_blocked()
            assert told == ["cancelled"]
            assert hall.log[-1] == "a was cancelled"
            assert not toolbox.cancel("1"), "it has its outcome"
            assert not toolbox.cancel("7")
            hall.let_out("b", "c")
    assert texts(outcomes) == ["cancelled", "b was here", "c was here"]
    first = outcomes[0]
    assert (first.is_error, first.pending, first.refused, first.error) == (True, False, False, None)
    assert not toolbox.cancel("2")


async def test_a_call_that_waits_for_its_turn_or_for_approval_does_not_run() -> None:
    hall = Hall()
    read, write = hall.tools
    outcomes: list[ToolOutcome] = []

    async def approve(call: ToolCall) -> bool:
        await trio.sleep_forever()
        return True

    toolbox = Toolbox([write, read.with_policy(Policy(require_approval=True))])

    async def run() -> None:
        outcomes.extend(await toolbox.run(calls("write a", "write b", "read c", "write d"), approve=approve))

    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(run)
            await wait_all_tasks_blocked()
            assert [toolbox.cancel(id_) for id_ in ("2", "3")] == [True, True]
            hall.let_out("a", "d")
    assert texts(outcomes) == ["a was here", "cancelled", "cancelled", "d was here"]
    assert [line for line in hall.log if line[0] in "bc"] == []


async def test_a_call_that_fails_in_tidying_up_was_cancelled(autojump_clock: MockClock) -> None:
    @tool
    async def clumsy() -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise ValueError("in tidying up")

    async def wrapper(call: ToolCall, proceed: Any) -> ToolResult:
        try:
            return await proceed(call)  # type: ignore[no-any-return]
        except trio.Cancelled:
            raise ValueError("in tidying up") from None

    toolbox = Toolbox([clumsy.with_policy(Policy(wrap=[wrapper], timeout=60))])
    async with trio.open_nursery() as nursery:

        async def stop() -> None:
            await trio.sleep(3)
            toolbox.cancel("1")

        nursery.start_soon(stop)
        (outcome,) = await toolbox.run(calls("clumsy"))
    assert (outcome.content, outcome.error, outcome.seconds) == ("cancelled", None, 3)


async def test_a_call_that_ends_all_the_same_has_its_result() -> None:
    @tool
    async def stubborn() -> str:
        toolbox.cancel("1")
        return "done"

    toolbox = Toolbox([stubborn])
    assert texts(await toolbox.run(calls("stubborn"))) == ["done"]


# --- one tool, one text


@pytest.mark.parametrize("era", ERAS)
async def test_a_tool_has_one_text_whoever_runs_it(era: Era) -> None:
    @tool
    async def both() -> ToolResult:
        return ToolResult("five", structured_json=b'{"sum":5}')

    server = Publishing("sums")
    server.add_tools(both)
    async with open_memory_connection(server, protocol=era) as connection:
        imported = (await import_tools(connection)).tools
        for one, text in ((connection.tools[0], "five"), (imported[0], '{"sum":5}'), (both, "five")):
            assert (await run_one(one, one.name)).content == await one.invoke({}) == text
            for render, chosen in (("content", "five"), ("structured", '{"sum":5}')):
                policy: Any = Policy(render=render)  # type: ignore[arg-type]
                other = one.with_policy(policy)
                assert other.render == render
                assert (await run_one(other, one.name)).content == await other.invoke({}) == chosen


def test_a_render_that_there_is_not_is_refused() -> None:
    with pytest.raises(ValueError, match=r'^render: expected "content", "structured" or None, got'):
        Policy(render="both")  # type: ignore[arg-type]


# --- finding a tool


def named(name: str, remote: str = "") -> Any:
    found = raw_tool(remote or name, "Odd.", {}, bytes)
    return attrs.evolve(found, name=name)


def test_a_tool_is_found_by_either_name() -> None:
    one, two = named("mcp__a__find", "find"), named("mcp__b__send", "send")
    toolbox = Toolbox([one, two])
    assert toolbox["mcp__a__find"] is toolbox["find"] is one
    assert toolbox["send"] is two
    assert list(toolbox) == [one, two]
    assert "mcp__a__find" in toolbox
    assert "nothing" not in toolbox
    assert 5 not in toolbox


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("fin", ("find",)),
        ("mcp__a__fnid", ("mcp__a__find",)),
        ("xyz", ()),
        ("same", ("mcp__a__same", "mcp__b__same")),
    ],
)
def test_an_unknown_name_is_told_with_the_nearest(name: str, nearest: tuple[str, ...]) -> None:
    toolbox = Toolbox(
        [named("mcp__a__find", "find"), named("mcp__a__same", "same"), named("mcp__b__same", "same")]
    )
    with pytest.raises(UnknownToolError) as caught:
        toolbox[name]
    assert caught.value.nearest[: len(nearest)] == nearest
    text = f'unknown tool "{name}"'
    assert str(caught.value).startswith(f'{text}; did you mean "{nearest[0]}"' if nearest else text)


def test_a_name_that_is_no_text_is_a_type_error() -> None:
    wrong: Any = 0
    with pytest.raises(TypeError, match=r"^name: expected str, got int$"):
        Toolbox([])[wrong]
