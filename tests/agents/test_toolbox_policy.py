"""A policy at work in Toolbox.run: approval, wrappers, timeout, the cap of the text."""

from __future__ import annotations

import threading
from typing import Any

import attrs
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.turns import Hall, calls, open_toolbox, run_one, texts
from trio_mcp import (
    ApprovalRequiredError,
    Context,
    Image,
    Policy,
    ServerStoppedError,
    Text,
    Tool,
    Toolbox,
    ToolCall,
    ToolError,
    ToolResult,
    raw_tool,
    tool,
)
from trio_mcp.agents.outcome import cut

GATED = Policy(require_approval=True)


@tool(read_only=True)
async def echo(text: str = "") -> str:
    return text


@tool(read_only=True)
async def sleep(seconds: float) -> str:
    await trio.sleep(seconds)
    return "awake"


def under(one: Tool, **policy: Any) -> Tool:
    return one.with_policy(Policy(**policy))


# --- approval


async def test_without_approve_a_gated_call_is_pending_and_does_not_run() -> None:
    hall = Hall()
    outcome = await run_one(under(hall.tools[1], require_approval=True), "write", {"who": "a"})
    assert (outcome.pending, outcome.is_error, outcome.seconds) == (True, True, 0)
    assert outcome.content == 'tool "write" requires approval'
    assert isinstance(outcome.error, ApprovalRequiredError)
    assert hall.log == []


@pytest.mark.table(
    ("answer", "text"),
    [
        *((no, "the user refused") for no in (False, None, 0, "", " ")),
        ("too much", "the user refused: too much"),
        ("no", "the user refused: no"),
        ("yes", "the user refused: yes"),
    ],
)
async def test_a_call_that_is_not_approved_is_refused_and_says_why(answer: Any, text: str) -> None:
    async def approve(call: ToolCall) -> Any:
        return answer

    outcome = await run_one(
        under(echo, require_approval=True, max_result_bytes=1), "echo", {"text": "a"}, approve=approve
    )
    assert (outcome.refused, outcome.pending, outcome.is_error, outcome.content) == (True, False, True, text)
    assert (outcome.error, outcome.seconds) == (None, 0)


async def test_approve_sees_the_call_and_true_lets_it_run() -> None:
    asked: list[ToolCall] = []

    async def approve(call: ToolCall) -> bool:
        asked.append(call)
        return True

    async with open_toolbox(echo, policy=GATED) as (toolbox, _):
        outcome = await run_one(toolbox, "echo", '{"text": "a"}', approve=approve)
    assert (outcome.content, outcome.pending, outcome.is_error) == ("a", False, False)
    assert asked == [ToolCall("1", "echo", '{"text": "a"}')]


@pytest.mark.table("answer", [1, [False], ToolResult("yes")], ids=str)
async def test_an_answer_that_is_neither_yes_nor_no_is_no_approval(answer: Any) -> None:
    async def approve(call: ToolCall) -> Any:
        return answer

    outcome = await run_one(under(echo, require_approval=True), "echo", approve=approve)
    assert outcome.content == f"TypeError: approve: expected True, False or a text, got {type(answer).__name__}"
    assert (outcome.is_error, outcome.pending) == (True, False)


@pytest.mark.table("answer", [True, False, None])
async def test_an_approve_that_is_not_async_approves_nothing_and_is_told_so(answer: Any) -> None:
    outcome = await run_one(under(echo, require_approval=True), "echo", approve=lambda call: answer)
    said = f"TypeError: approve: expected an async function, this one returned {type(answer).__name__}"
    assert outcome.content == said
    assert (outcome.is_error, outcome.pending) == (True, False)


async def test_approve_is_asked_of_no_other_call() -> None:
    asked: list[str] = []

    async def approve(call: ToolCall) -> bool:
        asked.append(call.name)
        return False

    toolbox = Toolbox([under(echo, require_approval=True), sleep])
    outcomes = await toolbox.run(calls("nothing", ("sleep", {"seconds": 0}), "echo"), approve=approve)
    assert asked == ["echo"]
    assert [outcome.refused for outcome in outcomes] == [False, False, True]


@pytest.mark.table(
    ("error", "text"),
    [
        (ValueError("no terminal"), "ValueError: no terminal"),
        (KeyError(), "KeyError"),
        (ServerStoppedError("ui", returncode=1), 'mcp: server "ui" stopped: exited with status 1'),
        (ExceptionGroup("ui", [ValueError("no terminal")]), "ValueError: no terminal"),
    ],
)
async def test_what_approve_raises_is_the_failure_of_that_call_alone(error: Exception, text: str) -> None:
    async def approve(call: ToolCall) -> bool:
        if call.id == "1":
            raise error
        return True

    toolbox = Toolbox([under(echo, require_approval=True)])
    one, two = await toolbox.run(calls("echo", ("echo", {"text": "b"})), approve=approve)
    assert (one.content, one.is_error, one.pending, one.error) == (text, True, False, error)
    assert two.content == "b"


@pytest.mark.table("arguments", ["{", "[]", [1]])
async def test_nobody_is_asked_to_approve_arguments_that_are_no_object(arguments: Any) -> None:
    async def approve(call: ToolCall) -> bool:
        raise AssertionError

    outcome = await run_one(under(echo, require_approval=True), "echo", arguments, approve=approve)
    assert (outcome.is_error, outcome.pending) == (True, False)
    assert outcome.content.startswith('arguments for "echo" are not a JSON object: ')


async def test_a_sequential_call_is_approved_when_its_turn_comes_and_holds_up_no_other_run() -> None:
    hall = Hall()
    may = trio.Event()

    async def approve(call: ToolCall) -> bool:
        hall.log.append(f"{call.arguments['who']} asked")
        await may.wait()
        return True

    write = hall.tools[1]
    toolbox = Toolbox([write, attrs.evolve(write, name="gated").with_policy(GATED)])
    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:

            async def run() -> None:
                await toolbox.run(calls("write a", "gated b", "gated c", "write d"), approve=approve)

            nursery.start_soon(run)
            await wait_all_tasks_blocked()
            assert hall.log == ["a came"]
            hall.let_out("a")
            await wait_all_tasks_blocked()
            assert hall.log[2:] == ["b asked"], "c and d wait behind it"
            hall.let_out("e")
            await toolbox.run(calls("write e"))
            assert hall.log[3:] == ["e came", "e went"], "another run does not"
            hall.let_out("b", "c", "d")
            may.set()
    assert hall.log[5:] == ["b came", "b went", "c asked", "c came", "c went", "d came", "d went"]


async def test_parallel_safe_calls_are_approved_side_by_side() -> None:
    may = trio.Event()
    asked: set[str] = set()

    async def approve(call: ToolCall) -> bool:
        asked.add(call.id)
        await may.wait()
        return True

    toolbox = Toolbox([under(echo, require_approval=True)])
    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:

            async def run() -> None:
                assert len(await toolbox.run(calls("echo", "echo", "echo"), approve=approve)) == 3

            nursery.start_soon(run)
            await wait_all_tasks_blocked()
            assert asked == {"1", "2", "3"}
            may.set()


# --- wrappers


async def test_wrappers_run_the_outermost_first() -> None:
    order: list[str] = []

    def named(name: str) -> Any:
        async def wrapper(call: ToolCall, proceed: Any) -> ToolResult:
            order.append(f"{name} {call.id} {call.name} {call.arguments}")
            result: ToolResult = await proceed(call)
            order.append(f"{name} got {result.content}")
            return ToolResult(f"{result.content}<{name}")

        return wrapper

    async with open_toolbox(echo, policy=Policy(wrap=[named("a"), named("b")])) as (toolbox, _):
        outcome = await run_one(toolbox, "echo", '{"text": "x"}')
    assert outcome.content == "x<b<a"
    assert order == ['a 1 echo {"text": "x"}', 'b 1 echo {"text": "x"}', "b got x", "a got x<b"]


async def test_a_wrapper_may_go_on_again() -> None:
    tries: list[int] = []

    @tool
    async def flaky() -> str:
        tries.append(1)
        if len(tries) < 3:
            raise ValueError("not yet")
        return "now"

    async def retry(call: ToolCall, proceed: Any) -> ToolResult:
        while True:
            result: ToolResult = await proceed(call)
            if not result.is_error:
                return result

    async with open_toolbox(flaky, policy=Policy(wrap=[retry])) as (toolbox, _):
        outcome = await run_one(toolbox, "flaky")
    assert (outcome.content, outcome.is_error, len(tries)) == ("now", False, 3)


async def test_a_wrapper_sees_what_the_call_raises_and_may_answer_instead() -> None:
    async def fallback(call: ToolCall, proceed: Any) -> ToolResult:
        try:
            await proceed(call)
        except trio.ClosedResourceError:
            return ToolResult("the server is closed", is_error=True)
        return ToolResult("fine")

    async with open_toolbox(echo, policy=Policy(wrap=[fallback])) as (toolbox, connection):
        assert (await run_one(toolbox, "echo")).content == "fine"
        await connection.aclose()
        outcome = await run_one(toolbox, "echo")
    assert (outcome.content, outcome.is_error, outcome.error) == ("the server is closed", True, None)


async def test_a_wrapper_may_answer_without_going_on() -> None:
    async def cached(call: ToolCall, proceed: Any) -> ToolResult:
        return ToolResult([Text("from memory"), Image(b"x", "image/png")], structured_json=b"null")

    hall = Hall()
    outcome = await run_one(under(hall.tools[0], wrap=[cached]), "read", {"who": "a"})
    assert (outcome.content, outcome.images, outcome.structured) == (
        "from memory",
        (Image(b"x", "image/png"),),
        None,
    )
    assert hall.log == []


async def test_a_wrapper_may_change_the_arguments() -> None:
    async def polite(call: ToolCall, proceed: Any) -> ToolResult:
        result: ToolResult = await proceed(attrs.evolve(call, id="other", arguments={"text": "please"}))
        return result

    async with open_toolbox(echo, policy=Policy(wrap=[polite])) as (toolbox, _):
        outcome = await run_one(toolbox, "echo", "[1]")
    assert (outcome.id, outcome.content) == ("1", "please")


async def test_a_wrapper_cannot_turn_a_call_into_one_of_another_tool() -> None:
    async def sly(call: ToolCall, proceed: Any) -> ToolResult:
        result: ToolResult = await proceed(attrs.evolve(call, name="write"))
        return result

    hall = Hall()
    read, write = hall.tools
    outcome = await run_one(Toolbox([under(read, wrap=[sly]), write]), "read", {"who": "a"})
    assert outcome.content == 'ValueError: a wrapper of tool "read" went on with a call of "write"'
    assert outcome.is_error
    assert isinstance(outcome.error, ValueError)
    assert hall.log == []


@pytest.mark.table("thing", [None, "echo", {"text": "a"}])
async def test_a_wrapper_goes_on_with_a_call(thing: Any) -> None:
    async def wrong(call: ToolCall, proceed: Any) -> ToolResult:
        result: ToolResult = await proceed(thing)
        return result

    outcome = await run_one(under(echo, wrap=[wrong]), "echo")
    said = f'TypeError: a wrapper of tool "echo" went on with {type(thing).__name__}, not a ToolCall'
    assert (outcome.content, outcome.is_error) == (said, True)


@pytest.mark.table("thing", [None, "done", {"content": []}])
async def test_a_wrapper_that_returns_no_result_is_a_failure_that_says_so(thing: Any) -> None:
    seen: list[str] = []

    async def outer(call: ToolCall, proceed: Any) -> ToolResult:
        try:
            result: ToolResult = await proceed(call)
        except TypeError as error:
            seen.append(str(error))
            raise
        return result

    async def wrong(call: ToolCall, proceed: Any) -> Any:
        await proceed(call)
        return thing

    outcome = await run_one(under(echo, wrap=[outer, wrong]), "echo")
    said = f'a wrapper of tool "echo" returned {type(thing).__name__}, not a ToolResult'
    assert (outcome.content, outcome.is_error, seen) == (f"TypeError: {said}", True, [said])


@pytest.mark.table(
    ("error", "text"),
    [
        (ValueError("not today"), "ValueError: not today"),
        (ZeroDivisionError(), "ZeroDivisionError"),
        (ServerStoppedError("cache", returncode=1), 'mcp: server "cache" stopped: exited with status 1'),
        (ToolError("not found", ToolResult("not found", is_error=True)), "not found"),
        (
            ExceptionGroup("two", [ValueError("a"), ExceptionGroup("b", [KeyError()])]),
            "ExceptionGroup: two (2 sub-exceptions)",
        ),
    ],
)
async def test_what_a_wrapper_raises_is_the_failure_of_that_call(error: Exception, text: str) -> None:
    async def angry(call: ToolCall, proceed: Any) -> ToolResult:
        raise error

    toolbox = Toolbox([under(echo, wrap=[angry]), sleep])
    one, two = await toolbox.run(calls("echo", ("sleep", {"seconds": 0})))
    assert (one.content, one.is_error, one.error) == (text, True, error)
    assert two.content == "awake"


async def test_a_wrapper_that_is_no_async_function_is_a_failure() -> None:
    def plain(call: ToolCall, proceed: Any) -> Any:
        return ToolResult("done")

    outcome = await run_one(under(echo, wrap=[plain]), "echo")
    assert outcome.is_error
    assert isinstance(outcome.error, TypeError)


async def test_structured_output_that_is_no_json_is_a_failure_and_not_an_exception() -> None:
    async def careless(call: ToolCall, proceed: Any) -> ToolResult:
        return ToolResult("fine", structured_json=b"{nonsense")

    outcome = await run_one(under(echo, wrap=[careless]), "echo")
    assert outcome.is_error
    assert outcome.content.startswith("mcp: ")


async def test_a_wrapper_can_end_one_call_of_a_turn_by_a_cancel_scope_of_its_own() -> None:
    scopes: dict[str, trio.CancelScope] = {}

    async def stoppable(call: ToolCall, proceed: Any) -> ToolResult:
        with trio.CancelScope() as scopes[call.id]:
            result: ToolResult = await proceed(call)
            return result
        return ToolResult("stopped by the user", is_error=True)

    hall = Hall()
    said: list[str] = []
    async with open_toolbox(*hall.tools, policy=Policy(wrap=[stoppable])) as (toolbox, _):

        async def run() -> None:
            said.extend(texts(await toolbox.run(calls("read a", "read b", "write c", "write d"))))

        with trio.fail_after(10):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(run)
                await wait_all_tasks_blocked()
                scopes["1"].cancel()
                scopes["3"].cancel()
                await wait_all_tasks_blocked()
                assert sorted(hall.log[3:]) == ["a was cancelled", "c was cancelled", "d came"]
                hall.let_out("b", "d")
    assert said == ["stopped by the user", "b was here", "stopped by the user", "d was here"]


# --- timeout


async def test_a_timeout_ends_the_call_and_tells_the_server(autojump_clock: MockClock) -> None:
    hall = Hall()
    async with open_toolbox(*hall.tools, policy=Policy(timeout=5)) as (toolbox, connection):
        began = trio.current_time()
        outcomes = await toolbox.run(calls("read a", "nothing"))
        assert trio.current_time() - began == pytest.approx(5)
        await wait_all_tasks_blocked()
        assert hall.log == ["a came", "a was cancelled"]
        assert connection.statistics().calls_in_flight == 0
    assert texts(outcomes) == ['tool "read" timed out after 5s', 'unknown tool "nothing"']


async def test_a_call_within_its_timeout_is_left_alone(autojump_clock: MockClock) -> None:
    async with open_toolbox(sleep, policy=Policy(timeout=5)) as (toolbox, _):
        outcomes = await toolbox.run(calls(("sleep", {"seconds": 4.9}), ("sleep", {"seconds": 5.1})))
    assert [outcome.is_error for outcome in outcomes] == [False, True]


async def test_a_timeout_bounds_wrappers_and_call_together(autojump_clock: MockClock) -> None:
    async def twice(call: ToolCall, proceed: Any) -> ToolResult:
        await proceed(call)
        result: ToolResult = await proceed(call)
        return result

    toolbox = Toolbox([under(sleep, timeout=5, wrap=[twice])])
    outcomes = await toolbox.run(calls(("sleep", {"seconds": 2}), ("sleep", {"seconds": 3})))
    assert texts(outcomes) == ["awake", 'tool "sleep" timed out after 5s']


async def test_a_timeout_counts_neither_the_wait_for_a_turn_nor_for_approval(autojump_clock: MockClock) -> None:
    async def approve(call: ToolCall) -> bool:
        await trio.sleep(60)
        return True

    policy = Policy(timeout=5, sequential=True, require_approval=True)
    async with open_toolbox(sleep, policy=policy) as (toolbox, _):
        turn = calls(*[("sleep", {"seconds": 4})] * 3)
        began = trio.current_time()
        assert texts(await toolbox.run(turn, approve=approve)) == ["awake"] * 3
        assert trio.current_time() - began == pytest.approx(3 * 64)


async def test_after_a_timeout_the_next_sequential_call_runs(autojump_clock: MockClock) -> None:
    policy = Policy(timeout=5, sequential=True)
    outcomes = await Toolbox([sleep.with_policy(policy)]).run(
        calls(("sleep", {"seconds": 6}), ("sleep", {"seconds": 4}))
    )
    assert texts(outcomes) == ['tool "sleep" timed out after 5s', "awake"]


async def test_a_deadline_of_the_tools_own_is_not_taken_for_the_policys(autojump_clock: MockClock) -> None:
    async def impatient(call: ToolCall, proceed: Any) -> ToolResult:
        with trio.fail_after(1):
            result: ToolResult = await proceed(call)
            return result

    outcomes = await Toolbox([under(sleep, timeout=5, wrap=[impatient])]).run(calls(("sleep", {"seconds": 9})))
    assert texts(outcomes) == ["TooSlowError"]


async def test_what_goes_wrong_after_a_timeout_is_the_timeouts_cause(autojump_clock: MockClock) -> None:
    async def clumsy(call: ToolCall, proceed: Any) -> ToolResult:
        try:
            result: ToolResult = await proceed(call)
            return result
        finally:
            raise ValueError("in tidying up")

    async def clumsy_side_by_side(call: ToolCall, proceed: Any) -> ToolResult:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(clumsy, call, proceed)
            await trio.sleep_forever()
        raise AssertionError

    for wrapper in (clumsy, clumsy_side_by_side):
        (outcome,) = await Toolbox([under(sleep, timeout=5, wrap=[wrapper])]).run(calls(("sleep", {"seconds": 9})))
        assert outcome.content == 'tool "sleep" timed out after 5s'
        assert outcome.error is not None
        assert "in tidying up" in repr(outcome.error.__cause__)


async def test_a_tool_that_fails_after_a_timeout_has_timed_out_all_the_same(autojump_clock: MockClock) -> None:
    @tool(policy=Policy(timeout=5))
    async def clumsy() -> None:
        try:
            await trio.sleep(9)
        finally:
            raise ValueError("in tidying up")

    outcome = await run_one(clumsy, "clumsy")
    assert (outcome.content, outcome.is_error) == ('tool "clumsy" timed out after 5s', True)


async def test_what_still_comes_after_a_timeout_is_taken(autojump_clock: MockClock) -> None:
    async def saves_something(call: ToolCall, proceed: Any) -> ToolResult:
        try:
            await proceed(call)
        except trio.Cancelled:
            return ToolResult("half of it")
        raise AssertionError

    (outcome,) = await Toolbox([under(sleep, timeout=5, wrap=[saves_something])]).run(
        calls(("sleep", {"seconds": 9}))
    )
    assert (outcome.content, outcome.is_error) == ("half of it", False)


async def test_a_timeout_does_not_wait_for_a_plain_functions_thread() -> None:
    let_go = threading.Event()

    @tool
    def stubborn() -> None:
        let_go.wait(10)

    with trio.fail_after(5):
        outcome = await run_one(under(stubborn, timeout=0.05), "stubborn")
    let_go.set()
    assert outcome.content == 'tool "stubborn" timed out after 0.05s'


# --- the cap


@pytest.mark.parametrize("is_error", [False, True])
async def test_the_cap_cuts_what_a_tool_says_whether_it_failed_or_not(is_error: bool) -> None:
    long = raw_tool("long", "Long.", {}, lambda _: ToolResult("é" * 10, is_error=is_error))
    async with open_toolbox(long, policy=Policy(max_result_bytes=5)) as (toolbox, _):
        outcome = await run_one(toolbox, "long")
    assert (outcome.content, outcome.is_error) == ("éé\n…[truncated 16 bytes]", is_error)


async def test_the_cap_cuts_the_text_of_an_exception_too() -> None:
    async def angry(call: ToolCall, proceed: Any) -> ToolResult:
        raise ValueError("x" * 100)

    outcome = await run_one(under(echo, wrap=[angry], max_result_bytes=10), "echo")
    assert outcome.content == "ValueError\n…[truncated 102 bytes]"


async def test_the_cap_leaves_images_and_structured_output_whole() -> None:
    chart = raw_tool(
        "chart",
        "Chart.",
        {},
        lambda _: ToolResult([Text("long text"), Image(b"x" * 99, "image/png")], structured_json=b'{"a":"long"}'),
    )
    outcome = await run_one(under(chart, max_result_bytes=4), "chart")
    assert outcome.content == "long\n…[truncated 5 bytes]"
    assert (outcome.images, outcome.structured) == ((Image(b"x" * 99, "image/png"),), {"a": "long"})


async def test_the_cap_comes_after_the_wrappers() -> None:
    seen: list[int] = []

    async def longer(call: ToolCall, proceed: Any) -> ToolResult:
        result: ToolResult = await proceed(call)
        seen.append(len(result.content))
        return ToolResult(result.content * 2)

    outcome = await run_one(under(echo, wrap=[longer], max_result_bytes=5), "echo", {"text": "abcd"})
    assert (outcome.content, seen) == ("abcda\n…[truncated 3 bytes]", [4])


async def test_what_the_toolbox_itself_says_is_never_cut(autojump_clock: MockClock) -> None:
    toolbox = Toolbox(
        [
            under(echo, require_approval=True, max_result_bytes=0),
            under(sleep, timeout=1, max_result_bytes=0),
        ]
    )
    outcomes = await toolbox.run(calls("echo", ("sleep", {"seconds": 2}), "nothing", ("sleep", 5)))
    assert texts(outcomes) == [
        'tool "echo" requires approval',
        'tool "sleep" timed out after 1s',
        'unknown tool "nothing"',
        'arguments for "sleep" are not a JSON object: got int',
    ]


async def test_a_text_with_a_lone_surrogate_is_cut_like_any_other() -> None:
    odd = raw_tool("odd", "Odd.", {}, lambda _: None)

    async def surrogate(call: ToolCall, proceed: Any) -> ToolResult:
        return ToolResult("ab\ud83dcd")

    outcome = await run_one(under(odd, wrap=[surrogate], max_result_bytes=4), "odd")
    assert outcome.content == "ab\n…[truncated 5 bytes]"
    outcome = await run_one(under(odd, wrap=[surrogate], max_result_bytes=5), "odd")
    assert outcome.content == "ab\ud83d\n…[truncated 2 bytes]"


TEXTS = st.text(st.one_of(st.characters(), st.characters(categories=["Cs"]), st.sampled_from("aé€😀\u0301")))


@given(TEXTS)
def test_at_every_position_the_cut_keeps_whole_characters_and_counts_the_rest(text: str) -> None:
    whole = text.encode("utf-8", "surrogatepass")
    assert cut(text, None) == cut(text, len(whole)) == cut(text, len(whole) + 1) == text
    for limit in range(len(whole)):
        kept, _, note = cut(text, limit).rpartition("\n")
        assert text.startswith(kept)
        size = len(kept.encode("utf-8", "surrogatepass"))
        assert note == f"…[truncated {len(whole) - size} bytes]"
        following = len(text[len(kept)].encode("utf-8", "surrogatepass"))
        assert size <= limit < size + following, "as much as fits, and not a character more"


@pytest.mark.parametrize("function", ["approve", "on_progress", "on_elicit", "wrap"])
async def test_a_plain_function_where_an_async_one_belongs_is_named(function: str) -> None:
    wrap: Any = [lambda *_: True] if function == "wrap" else []

    @tool(policy=Policy(require_approval=function == "approve", wrap=wrap))
    async def talk(context: Context) -> str:
        if function == "on_progress":
            await context.progress(1)
        else:
            await context.ask("elicitation/create", {"message": "m", "requestedSchema": {}})
        return "done"

    functions: Any = {} if wrap else {function: lambda *_: True}
    (outcome,) = await Toolbox([talk]).run([ToolCall("1", "talk")], **functions)
    assert outcome.content == f"TypeError: {function}: expected an async function, this one returned bool"
