"""Toolbox: which calls run side by side, which one at a time, and what is given back in which order."""

from __future__ import annotations

import threading
from typing import Any

import attrs
import pytest
import trio
from trio.testing import MockClock, assert_checkpoints, wait_all_tasks_blocked

from tests.exposing import ERAS
from tests.turns import Hall, calls, open_toolbox, run_one, texts
from trio_mcp import (
    Context,
    Image,
    Policy,
    Text,
    Toolbox,
    ToolCall,
    ToolOutcome,
    ToolResult,
    raw_tool,
    tool,
)
from trio_mcp.protocol.revisions import Era
from trio_mcp.testing import open_functions


@tool(read_only=True)
async def echo(text: str = "") -> str:
    return text


# --- what a toolbox is


def test_two_tools_of_one_name_are_refused_with_both_origins() -> None:
    other = raw_tool("echo", "Echo.", {"type": "object"}, bytes).with_policy(Policy(origin="acme"))
    with pytest.raises(ValueError, match=r'^tools: "echo" comes twice, from local and from acme$'):
        Toolbox([echo, other])
    with pytest.raises(ValueError, match='"echo" comes twice, from local and from local'):
        Toolbox([echo, echo])


async def test_a_tool_of_a_server_and_a_local_one_of_one_name_are_refused_too() -> None:
    async with open_functions(echo) as connection:
        (remote,) = connection.tools
        local = attrs.evolve(echo, name=remote.name)
        with pytest.raises(ValueError, match='"mcp__memory__echo" comes twice, from mcp and from local'):
            Toolbox([remote, local])


@pytest.mark.table("thing", [None, "echo", print])
def test_what_is_no_tool_is_refused(thing: Any) -> None:
    with pytest.raises(TypeError, match=f"^tools: expected Tool, got {type(thing).__name__}$"):
        Toolbox([echo, thing])


def test_a_toolbox_keeps_the_order_of_its_tools_and_says_how_many_it_has() -> None:
    hall = Hall()
    toolbox = Toolbox(iter([echo, *hall.tools]))
    assert [one.name for one in toolbox.tools] == ["echo", "read", "write"]
    assert repr(toolbox) == "<Toolbox of 3 tools>"


def test_one_tool_in_place_of_several_is_refused() -> None:
    tools: Any = echo
    with pytest.raises(TypeError, match=r"^tools: expected several Tool values, got LocalTool$"):
        Toolbox(tools)


async def test_one_call_in_place_of_several_is_refused() -> None:
    (call,) = calls("echo")
    one: Any = call
    with pytest.raises(TypeError, match=r"^calls: expected several ToolCall values, got ToolCall$"):
        await Toolbox([echo]).run(one)


@pytest.mark.table("wrong", [None, "echo", {"id": "1", "name": "echo"}])
async def test_what_is_no_call_is_refused_before_anything_runs(wrong: Any) -> None:
    hall = Hall()
    with pytest.raises(TypeError, match=f"^calls: expected ToolCall, got {type(wrong).__name__}$"):
        await Toolbox(hall.tools).run([*calls("read a"), wrong])
    assert hall.log == []


async def test_an_approve_that_is_no_function_is_refused() -> None:
    approve: Any = True
    with pytest.raises(TypeError, match=r"^approve: expected an async function, got bool$"):
        await Toolbox([echo]).run(calls("echo"), approve=approve)


# --- what comes back


@pytest.mark.parametrize("era", ERAS)
async def test_an_outcome_has_the_text_the_images_and_the_structured_output(era: Era) -> None:
    @tool
    async def chart() -> ToolResult:
        return ToolResult(
            [Text("one"), Image(b"GIF", "image/gif"), Text("two"), Image(b"PNG", "image/png")],
            structured_json=b'{"points": [1, 2]}',
        )

    async with open_toolbox(chart, era=era) as (toolbox, _):
        outcome = await run_one(toolbox, "chart")
    assert attrs.evolve(outcome, seconds=0) == ToolOutcome(
        "1",
        "chart",
        "one\ntwo",
        (Image(b"GIF", "image/gif"), Image(b"PNG", "image/png")),
        {"points": [1, 2]},
    )


async def test_structured_output_without_blocks_is_the_text() -> None:
    bare = raw_tool("bare", "Bare.", {}, lambda _: ToolResult(structured_json=b'{"n" : 1.10}'))
    outcome = await run_one(bare, "bare")
    assert (outcome.content, outcome.structured) == ('{"n" : 1.10}', {"n": 1.1})


def test_an_outcome_is_frozen() -> None:
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        ToolOutcome("1", "x", "").content = "other"  # type: ignore[misc]


@pytest.mark.table("arguments", [{"text": "a"}, '{"text": "a"}', b'{"text":"a"}'])
async def test_arguments_are_a_mapping_or_what_the_model_wrote(arguments: Any) -> None:
    async with open_toolbox(echo) as (toolbox, _):
        assert (await run_one(toolbox, "echo", arguments)).content == "a"
        assert (await run_one(toolbox, "echo")).content == ""


async def test_raw_arguments_reach_the_server_as_the_model_wrote_them() -> None:
    seen = []
    record = raw_tool("record", "Record.", {}, lambda arguments: seen.append(arguments))
    async with open_toolbox(record) as (toolbox, _):
        await run_one(toolbox, "record", '{"a": 1.10, "b":1e2,\n "a": 123456789012345678901234567890}')
    assert seen == [b'{"a": 1.10, "b":1e2,  "a": 123456789012345678901234567890}']


async def test_outcomes_come_in_the_order_of_the_calls_whatever_ends_first() -> None:
    hall = Hall()
    async with open_toolbox(*hall.tools) as (toolbox, _), trio.open_nursery() as nursery:
        outcomes: list[ToolOutcome] = []
        turn = calls("write a", "read b", "nothing x", "read c", "write d", ("read", "[]"))
        turn[4] = attrs.evolve(turn[4], id="1")  # models have sent one id twice

        async def run() -> None:
            outcomes.extend(await toolbox.run(iter(turn)))

        with trio.fail_after(10):
            nursery.start_soon(run)
            for name in "cbad":
                await wait_all_tasks_blocked()
                hall.let_out(name)
    assert [(outcome.id, outcome.name) for outcome in outcomes] == [(call.id, call.name) for call in turn]
    said = texts(outcomes)
    assert said[:5] == ["a was here", "b was here", 'unknown tool "nothing"', "c was here", "d was here"]
    assert said[5].startswith('arguments for "read" are not a JSON object')


@pytest.mark.table("turn", [[], calls("nothing"), calls("echo")], ids=len)
async def test_a_turn_is_a_checkpoint_even_where_nothing_runs(turn: list[ToolCall]) -> None:
    toolbox = Toolbox([echo])
    with assert_checkpoints():
        assert len(await toolbox.run(turn)) == len(turn)
    with trio.CancelScope() as scope:
        scope.cancel()
        await toolbox.run(turn)
    assert scope.cancelled_caught


async def test_an_outcome_tells_how_long_the_call_ran_without_the_waiting_for_its_turn(
    autojump_clock: MockClock,
) -> None:
    @tool
    async def slow(seconds: float) -> str:
        await trio.sleep(seconds)
        if seconds > 2:
            raise ValueError("too long")
        return "done"

    async def approve(call: ToolCall) -> bool:
        await trio.sleep(100)
        return True

    async with open_toolbox(slow, policy=Policy(require_approval=True)) as (toolbox, _):
        turn = calls(("slow", {"seconds": 1}), ("slow", {"seconds": 3}), "nothing")
        began = trio.current_time()
        outcomes = await toolbox.run(turn, approve=approve)
        assert trio.current_time() - began == pytest.approx(204)
    assert [outcome.seconds for outcome in outcomes] == pytest.approx([1, 3, 0])


# --- side by side, and one at a time


async def test_parallel_safe_calls_run_side_by_side_and_beside_a_sequential_one() -> None:
    hall = Hall()
    async with open_toolbox(*hall.tools) as (toolbox, _), trio.open_nursery() as nursery:
        with trio.fail_after(10):
            nursery.start_soon(toolbox.run, calls("write a", "read b", "write c", "read d"))
            await wait_all_tasks_blocked()
            assert sorted(hall.log) == ["a came", "b came", "d came"]
            hall.let_out(*"abcd")


async def test_sequential_calls_run_one_at_a_time_in_the_order_of_the_calls() -> None:
    hall = Hall()
    async with open_toolbox(*hall.tools) as (toolbox, _), trio.open_nursery() as nursery:
        with trio.fail_after(10):
            nursery.start_soon(toolbox.run, calls("write a", "write b", "write c"))
            hall.let_out("b", "c")
            await wait_all_tasks_blocked()
            assert hall.log == ["a came"]
            hall.let_out("a")
    assert hall.log == ["a came", "a went", "b came", "b went", "c came", "c went"]


async def test_a_failed_sequential_call_does_not_keep_the_next_from_running() -> None:
    hall = Hall()
    hall.let_out("b")
    async with open_toolbox(*hall.tools) as (toolbox, _):
        outcomes = await toolbox.run(calls(("write", {"who": 1}), ("write", "{"), "write b"))
    assert [outcome.is_error for outcome in outcomes] == [True, True, False]
    assert outcomes[0].content == 'arguments for "write": who: expected str, got int'


async def test_sequential_calls_of_two_runs_of_one_toolbox_never_overlap() -> None:
    hall = Hall()
    async with open_toolbox(*hall.tools) as (toolbox, _), trio.open_nursery() as nursery:
        with trio.fail_after(10):
            nursery.start_soon(toolbox.run, calls("write a1", "write a2", "read a3"))
            nursery.start_soon(toolbox.run, calls("write b1", "write b2", "read b3"))
            hall.let_out("a3", "b3")
            await wait_all_tasks_blocked()
            assert sum(line in ("a1 came", "b1 came") for line in hall.log) == 1, "reads apart, one is inside"
            hall.let_out("a1", "a2", "b1", "b2")
    writes = [line.split() for line in hall.log if line[1] in "12"]
    assert [kind for _, kind in writes] == ["came", "went"] * 4
    assert [who for who, _ in writes[::2]] == [who for who, _ in writes[1::2]]
    for run in "ab":
        assert [who for who, _ in writes[::2] if who[0] == run] == [f"{run}1", f"{run}2"]


async def test_two_toolboxes_know_nothing_of_each_other() -> None:
    hall = Hall()
    one, two = Toolbox(hall.tools), Toolbox(hall.tools)
    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(one.run, calls("write a"))
            nursery.start_soon(two.run, calls("write b"))
            await wait_all_tasks_blocked()
            assert sorted(hall.log) == ["a came", "b came"]
            hall.let_out("a", "b")


async def test_a_policy_makes_a_read_only_tool_sequential_and_never_the_reverse() -> None:
    hall = Hall()
    read, write = hall.tools
    toolbox = Toolbox([read.with_policy(Policy(sequential=True)), write.with_policy(Policy(sequential=False))])
    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(toolbox.run, calls("read a", "write b"))
            await wait_all_tasks_blocked()
            assert hall.log == ["a came"]
            hall.let_out("a", "b")


async def test_a_hundred_parallel_safe_calls_are_in_flight_at_once() -> None:
    hall = Hall()
    names = [f"n{number}" for number in range(100)]
    async with open_toolbox(*hall.tools) as (toolbox, connection), trio.open_nursery() as nursery:
        with trio.fail_after(10):
            nursery.start_soon(toolbox.run, calls(*(f"read {name}" for name in names)))
            await wait_all_tasks_blocked()
            assert connection.statistics().calls_in_flight == 100
            hall.let_out(*names)


# --- calls inside of calls


def nested(hall: Hall) -> Toolbox:
    """A toolbox whose sequential tool `outer` writes in the same toolbox, twice at once."""
    box: list[Toolbox] = []

    @tool
    async def outer(who: str) -> str:
        async with trio.open_nursery() as nursery:
            for number in range(2):
                nursery.start_soon(box[0].run, calls(f"write {who}{number}"))
        return f"{who} is done"

    box.append(Toolbox([*hall.tools, outer]))
    return box[0]


async def test_a_sequential_call_that_runs_another_in_the_same_toolbox_does_not_wait_for_itself() -> None:
    hall = Hall()
    hall.let_out("a0", "a1")
    with trio.fail_after(10):
        assert texts(await nested(hall).run(calls("outer a"))) == ["a is done"]
    assert len(hall.log) == 4
    for came, went in zip(hall.log[::2], hall.log[1::2], strict=True):
        assert (came[2:], went) == (" came", f"{came[:2]} went"), "one at a time in there too"


async def test_what_a_sequential_call_runs_belongs_to_its_turn() -> None:
    hall = Hall()
    toolbox = nested(hall)
    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(toolbox.run, calls("outer a", "write b"))
            await wait_all_tasks_blocked()
            nursery.start_soon(toolbox.run, calls("write c"))
            hall.let_out("b", "c")
            await wait_all_tasks_blocked()
            assert [line for line in hall.log if line[0] in "bc"] == []
            hall.let_out("a0", "a1")
    assert sorted(hall.log[4:]) == ["b came", "b went", "c came", "c went"]


async def test_a_task_that_outlives_its_turn_waits_like_any_other() -> None:
    hall = Hall()
    box: list[Toolbox] = []
    go_on = trio.Event()
    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:

            async def later() -> None:
                await go_on.wait()
                await box[0].run(calls("write late"))

            @tool
            async def leave_behind() -> None:
                nursery.start_soon(later)

            box.append(Toolbox([*hall.tools, leave_behind]))
            await box[0].run(calls("leave_behind"))
            nursery.start_soon(box[0].run, calls("write a"))
            await wait_all_tasks_blocked()
            go_on.set()
            hall.let_out("late")
            await wait_all_tasks_blocked()
            assert hall.log == ["a came"]
            hall.let_out("a")
    assert hall.log == ["a came", "a went", "late came", "late went"]


async def test_a_toolbox_can_be_used_again_in_another_run_of_trio() -> None:
    toolbox = Toolbox([echo.with_policy(Policy(sequential=True))])

    def elsewhere() -> list[str]:
        return texts(trio.run(toolbox.run, calls(("echo", {"text": "a"}))))

    assert await trio.to_thread.run_sync(elsewhere) == ["a"]
    assert texts(await toolbox.run(calls(("echo", {"text": "b"})))) == ["b"]


async def test_progress_of_a_tool_in_a_toolbox_goes_nowhere_and_costs_nothing() -> None:
    @tool
    async def count(context: Context) -> str:
        for step in range(3):
            await context.progress(step)
        return "counted"

    async with open_toolbox(count) as (toolbox, _):
        assert (await run_one(toolbox, "count")).content == "counted"
    assert (await run_one(count, "count")).content == "counted"


async def test_plain_functions_run_side_by_side_in_threads() -> None:
    barrier = threading.Barrier(3, timeout=5)

    @tool(read_only=True)
    def meet() -> int:
        return int(barrier.wait())

    with trio.fail_after(10):
        outcomes = await Toolbox([meet]).run(calls("meet", "meet", "meet"))
    assert sorted(texts(outcomes)) == ["0", "1", "2"]
