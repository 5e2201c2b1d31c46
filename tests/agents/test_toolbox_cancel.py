"""What is no outcome: a cancel, and what ends a program. Neither is swallowed or leaves anything behind."""

from __future__ import annotations

import signal
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.client.test_cancel_every_step import CancelAt
from tests.peers import open_lives, peer
from tests.strays import raise_stray_cancel
from tests.turns import Hall, calls, open_toolbox, renamed, run_one, texts
from trio_mcp import (
    Context,
    ElicitRequest,
    ElicitResult,
    Policy,
    Toolbox,
    ToolCall,
    ToolResult,
    open_connection,
    tool,
)
from trio_mcp.tools.failures import STRAY_CANCEL

#: More steps than any turn here has.
MOST_STEPS = 1000


@tool(read_only=True)
async def look(text: str) -> str:
    await trio.sleep(1)
    return text


@tool
async def change(text: str) -> str:
    await trio.sleep(1)
    return text


@tool
async def gated(text: str) -> str:
    await trio.sleep(1)
    return text


@tool(read_only=True)
async def slow() -> None:
    await trio.sleep(100)


# --- a cancel


async def test_a_cancel_ends_every_call_and_tells_their_servers() -> None:
    hall = Hall()
    async with open_toolbox(*hall.tools) as (toolbox, connection):
        with trio.fail_after(10), trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(toolbox.run, calls("read a", "write b", "write c", "read d"))
                await wait_all_tasks_blocked()
                scope.cancel()
        assert scope.cancelled_caught
        await wait_all_tasks_blocked()
        assert connection.statistics().calls_in_flight == 0
        assert sorted(hall.log[3:]) == ["a was cancelled", "b was cancelled", "d was cancelled"], "c never came"


async def test_a_cancelled_turn_tells_a_server_in_a_process_of_its_own(nothing_left: dict[str, str]) -> None:
    with trio.fail_after(20):
        async with open_lives() as lives:
            async with open_connection(peer(alive=lives.port)) as connection:
                toolbox = Toolbox(map(renamed, connection.tools))
                with trio.CancelScope() as scope:
                    async with trio.open_nursery() as nursery:
                        nursery.start_soon(toolbox.run, calls(("hang", {}), ("hang", {})))
                        nursery.start_soon(toolbox.run, calls(("hang", {})))
                        await lives.called(1)
                        scope.cancel()
                assert scope.cancelled_caught
                await lives.heard("notifications/cancelled")
                (outcome,) = await toolbox.run(calls(("echo", {"text": "still there"})))
                assert outcome.content == '{"text": "still there"}'


async def test_a_cancelled_run_returns_nothing_even_where_some_calls_are_done() -> None:
    hall = Hall()
    hall.let_out("a")
    returned: list[Any] = []
    toolbox = Toolbox(hall.tools)

    async def run() -> None:
        returned.append(await toolbox.run(calls("read a", "read b")))

    with trio.fail_after(10), trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(run)
            await wait_all_tasks_blocked()
            scope.cancel()
    assert scope.cancelled_caught
    assert returned == []


async def test_a_cancel_while_somebody_is_asked_for_approval_passes() -> None:
    async def approve(call: ToolCall) -> bool:
        await trio.sleep_forever()
        raise AssertionError

    toolbox = Toolbox([look.with_policy(Policy(require_approval=True))])
    with trio.move_on_after(0.01) as scope:
        await toolbox.run(calls(("look", {"text": "a"})), approve=approve)
    assert scope.cancelled_caught


async def test_a_deadline_of_the_caller_beats_a_later_timeout(autojump_clock: MockClock) -> None:
    toolbox = Toolbox([slow.with_policy(Policy(timeout=50))])
    with pytest.raises(trio.TooSlowError), trio.fail_after(10):
        await toolbox.run(calls("slow"))
    assert trio.current_time() == pytest.approx(10, abs=0.1)


async def test_what_goes_wrong_beside_a_cancel_is_no_exception_of_the_run() -> None:
    async def clumsy(call: ToolCall, proceed: Any) -> ToolResult:
        async def tidy_up() -> None:
            try:
                await trio.sleep_forever()
            finally:
                raise ValueError("in tidying up")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(tidy_up)
            result: ToolResult = await proceed(call)
            return result

    async with open_toolbox(slow, policy=Policy(wrap=[clumsy])) as (toolbox, _):
        with trio.fail_after(10), trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(toolbox.run, calls("slow", "slow"))
                await wait_all_tasks_blocked()
                scope.cancel()
        assert scope.cancelled_caught


@pytest.mark.slow
def test_a_cancel_at_every_step_leaves_no_task_no_call_and_no_turn_behind() -> None:
    async def approve(call: ToolCall) -> bool:
        await trio.sleep(1)
        return True

    async def twice(call: ToolCall, proceed: Any) -> ToolResult:
        await proceed(call)
        result: ToolResult = await proceed(call)
        return result

    turn = calls(
        ("look", {"text": "a"}),
        ("change", {"text": "b"}),
        ("gated", {"text": "c"}),
        "slow",
        ("change", {"text": "d"}),
    )
    wanted = ["a", "b", "c", 'tool "slow" timed out after 2s', "d"]
    finished: list[list[str]] = []

    async def run(instrument: CancelAt) -> None:
        async with open_toolbox(look, change, gated, slow) as (whole, connection):
            policies = {
                "look": Policy(wrap=[twice], timeout=10),
                "gated": Policy(require_approval=True),
                "slow": Policy(timeout=2),
            }
            toolbox = Toolbox(one.with_policy(policies.get(one.name, Policy())) for one in whole.tools)
            tasks_before = trio.lowlevel.current_statistics().tasks_living
            with trio.CancelScope() as instrument.scope:
                async with trio.open_nursery() as nursery:

                    async def other() -> None:
                        assert texts(await toolbox.run(turn[1:2])) == ["b"]

                    nursery.start_soon(other)
                    finished.append(texts(await toolbox.run(turn, approve=approve)))
            instrument.scope = None
            await wait_all_tasks_blocked()
            assert trio.lowlevel.current_statistics().tasks_living == tasks_before
            assert connection.statistics().calls_in_flight == 0
            assert texts(await toolbox.run(turn[1:2])) == ["b"], "the turn is free again"

    steps = 0
    for step in range(1, MOST_STEPS):
        instrument = CancelAt(step)
        trio.run(run, instrument, clock=MockClock(autojump_threshold=0), instruments=[instrument])
        if instrument.steps < step:
            break
        steps += 1
    assert steps > 40, "the turn was cancelled in the middle"
    assert step < MOST_STEPS - 1
    assert finished
    assert all(outcome == wanted for outcome in finished)


# --- what ends a program


@pytest.mark.table("kind", [KeyboardInterrupt, SystemExit])
@pytest.mark.table("place", ["tool", "wrapper", "approve", "thread"])
async def test_what_ends_a_program_passes_bare_and_ends_the_other_calls(kind: Any, place: str) -> None:
    hall = Hall()

    async def stop(*_: Any) -> Any:
        await wait_all_tasks_blocked()
        raise kind

    @tool
    async def stopping() -> None:
        if place == "tool":
            await stop()

    @tool
    def stopping_thread() -> None:
        trio.from_thread.run(wait_all_tasks_blocked)
        raise kind

    policy = Policy(wrap=[stop] if place == "wrapper" else (), require_approval=place == "approve")
    chosen = stopping_thread if place == "thread" else stopping
    toolbox = Toolbox([hall.tools[0], chosen.with_policy(policy)])
    with trio.fail_after(10), pytest.raises(kind):
        await toolbox.run(calls("read a", chosen.name), approve=stop)
    assert hall.log == ["a came", "a was cancelled"]
    hall.let_out("b")
    assert (await run_one(toolbox, "read", {"who": "b"})).content == "b was here"


async def test_what_ends_a_program_passes_out_of_a_group_too() -> None:
    async def stopping(call: ToolCall, proceed: Any) -> ToolResult:
        async def fail() -> None:
            raise ValueError("beside it")

        async def stop() -> None:
            raise KeyboardInterrupt

        async with trio.open_nursery() as nursery:
            nursery.start_soon(fail)
            nursery.start_soon(stop)
        raise AssertionError

    toolbox = Toolbox([look.with_policy(Policy(wrap=[stopping]))])
    with pytest.raises(KeyboardInterrupt):
        await toolbox.run(calls(("look", {"text": "a"})))


async def test_what_ends_a_program_passes_while_a_turn_is_cancelled_too() -> None:
    async def stopping(call: ToolCall, proceed: Any) -> ToolResult:
        async def stop() -> None:
            try:
                await trio.sleep_forever()
            finally:
                raise KeyboardInterrupt

        async with trio.open_nursery() as nursery:
            nursery.start_soon(stop)
            result: ToolResult = await proceed(call)
            return result

    toolbox = Toolbox([slow.with_policy(Policy(wrap=[stopping]))])
    with pytest.raises(KeyboardInterrupt), trio.move_on_after(0.01):
        await toolbox.run(calls("slow"))


def test_ctrl_c_ends_a_turn_that_waits_for_a_thread_and_a_task() -> None:
    hall = Hall()

    @tool
    def interrupt() -> None:
        trio.from_thread.run(wait_all_tasks_blocked)
        signal.raise_signal(signal.SIGINT)

    async def main() -> None:
        with trio.fail_after(10):
            await Toolbox([hall.tools[0], interrupt]).run(calls("read a", "interrupt", "interrupt"))

    with pytest.raises(KeyboardInterrupt):
        trio.run(main)
    assert hall.log == ["a came", "a was cancelled"]


@pytest.mark.slow
@pytest.mark.parametrize("function", ["approve", "on_outcome", "on_progress", "on_elicit"])
async def test_a_function_that_raises_a_cancel_of_somebody_elses_scope_costs_only_its_call(function: str) -> None:
    @tool(name="fails", policy=Policy(require_approval=True))
    async def fails(context: Context) -> str:
        await context.progress(1)
        await context.ask("elicitation/create", {"message": "m", "requestedSchema": {}})
        return "done"

    async def approve(call: ToolCall) -> bool:
        return True

    async def on_elicit(request: ElicitRequest) -> ElicitResult:
        return ElicitResult.decline()

    functions: Any = {"approve": approve, "on_elicit": on_elicit, function: raise_stray_cancel}
    toolbox = Toolbox([fails, change])
    first, second = await toolbox.run([*calls("fails"), ToolCall("2", "change", {"text": "b"})], **functions)
    assert first.content == ("done" if function == "on_outcome" else STRAY_CANCEL)
    assert second.content == "b"
