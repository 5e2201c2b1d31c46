"""Progress runs in the caller's own task: in order, all of it before the answer; it can raise and be cancelled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import trio
from trio.testing import lockstep_stream_pair, memory_stream_pair, wait_all_tasks_blocked

from tests.far_end import Talk, byte_by_byte, talking
from trio_mcp.transports.lines.pending_call import PROGRESS_WAITING

PAIRS = [memory_stream_pair, byte_by_byte, lockstep_stream_pair]
EVERY_PAIR = pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.__name__)


def step(number: float, token: object = 7) -> dict[str, Any]:
    return {"method": "notifications/progress", "params": {"progressToken": token, "progress": number}}


def answer(request: dict[str, Any], result: object = None) -> dict[str, Any]:
    return {"id": request["id"], "result": result}


class Steps:
    """An on_progress that writes down what it is given."""

    def __init__(self, seen: list[bytes] | None = None) -> None:
        self.seen = seen or []
        self.task: trio.lowlevel.Task | None = None

    async def __call__(self, params: bytes) -> None:
        self.task = trio.lowlevel.current_task()
        self.seen.append(params)
        await trio.lowlevel.checkpoint()

    @property
    def numbers(self) -> list[int]:
        return [int(params.split(b'"progress": ')[1].rstrip(b"}")) for params in self.seen]


@EVERY_PAIR
async def test_progress_before_and_with_the_answer_is_delivered_in_order(pair: Callable[[], Any]) -> None:
    async with talking(pair) as talk:
        steps = Steps()
        call, request = await talk.ask(progress_token=7, on_progress=steps)
        await talk.peer.send(step(1))
        await talk.peer.send(step(2), step(3), answer(request, "done"))
        assert await call.outcome() == b'"done"'
        assert steps.numbers == [1, 2, 3]


async def test_progress_after_the_answer_is_dropped() -> None:
    async with talking() as talk:
        steps = Steps()
        call, request = await talk.ask(progress_token=7, on_progress=steps)
        await talk.peer.send(step(1), answer(request), step(2))
        await call.outcome()
        await talk.peer.send(step(3))
        await wait_all_tasks_blocked()
        assert steps.numbers == [1]


async def test_progress_runs_in_the_task_that_called() -> None:
    async with talking() as talk:
        steps = Steps()

        async def call() -> None:
            await talk.transport.request("m", b"{}", progress_token=7, on_progress=steps)
            assert steps.task is trio.lowlevel.current_task()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(call)
            await talk.peer.send(step(1), answer(await talk.peer.take()))


@pytest.mark.table("token", [7, "7", 7.0], ids=repr)
async def test_a_token_that_comes_back_as_a_string_or_a_float_is_taken(token: object) -> None:
    async with talking() as talk:
        steps = Steps()
        call, request = await talk.ask(progress_token=7, on_progress=steps)
        await talk.peer.send(step(1, token), answer(request))
        await call.outcome()
        assert len(steps.seen) == 1


@pytest.mark.table("token", [0, 8, "", "seven", None, True, [7], {}, 1e300], ids=repr)
async def test_a_token_that_is_not_ours_reaches_nobody(token: object) -> None:
    async with talking() as talk:
        steps = Steps()
        call, request = await talk.ask(progress_token=1, on_progress=steps)
        await talk.peer.send(step(1, token), answer(request))
        assert await call.outcome() == b"null"
        assert steps.seen == []
        assert talk.heard.notifications == []


async def test_token_0_is_a_token() -> None:
    async with talking() as talk:
        steps = Steps()
        call, request = await talk.ask(progress_token=0, on_progress=steps)
        await talk.peer.send(step(1, 0), answer(request))
        await call.outcome()
        assert steps.numbers == [1]


@pytest.mark.parametrize("params", [b"", b',"params":{}', b',"params":[]', b',"params":null', b',"params":7'])
async def test_progress_without_a_token_is_dropped_with_one_warning(
    params: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async with talking() as talk:
        call, request = await talk.ask(progress_token=7, on_progress=Steps())
        line = b'{"jsonrpc":"2.0","method":"notifications/progress"' + params + b"}\n"
        await talk.peer.send(line, line, answer(request))
        await call.outcome()
    assert len(caplog.records) == 1


async def test_each_call_gets_its_own_progress() -> None:
    async with talking() as talk:
        one, two = Steps(), Steps()
        first, request = await talk.ask(progress_token=1, on_progress=one)
        second, other = await talk.ask(progress_token=2, on_progress=two)
        await talk.peer.send(step(10, 1), step(20, 2), step(11, 1), answer(other), answer(request))
        await first.outcome()
        await second.outcome()
        assert (one.numbers, two.numbers) == ([10, 11], [20])


async def test_beyond_a_thousand_waiting_the_oldest_is_dropped() -> None:
    assert PROGRESS_WAITING == 1000
    async with talking() as talk:
        seen: list[bytes] = []
        go_on = trio.Event()

        async def slow(params: bytes) -> None:
            seen.append(params)
            await go_on.wait()

        call, request = await talk.ask(progress_token=7, on_progress=slow)
        await talk.peer.send(step(-1))
        await wait_all_tasks_blocked()
        await talk.peer.send(*[step(number) for number in range(1001)], answer(request))
        await wait_all_tasks_blocked()
        go_on.set()
        await call.outcome()
        assert Steps(seen).numbers == [-1, *range(1, 1001)]


async def test_a_slow_on_progress_holds_up_its_own_call_alone() -> None:
    async with talking() as talk:
        go_on = trio.Event()

        async def slow(_: bytes) -> None:
            await go_on.wait()

        held, request = await talk.ask(progress_token=7, on_progress=slow)
        await talk.peer.send(step(1), answer(request))
        other, its_request = await talk.ask()
        await talk.peer.answer(its_request, "other")
        assert await other.outcome() == b'"other"'
        assert not held.over.is_set()
        go_on.set()
        assert await held.outcome() == b"null"


async def test_an_exception_in_on_progress_leaves_as_itself_and_the_peer_is_told() -> None:
    async with talking() as talk:

        async def fail(_: bytes) -> None:
            raise KeyError("mine")

        call, request = await talk.ask(progress_token=7, on_progress=fail)
        await talk.peer.send(step(1))
        assert (await talk.peer.take())["params"]["requestId"] == request["id"]
        error = await call.outcome()
        assert isinstance(error, KeyError)
        assert error.args == ("mine",)
        assert talk.transport.statistics().in_flight == 0


async def test_an_exception_in_on_progress_after_the_answer_tells_nobody() -> None:
    async with talking() as talk:

        async def fail(_: bytes) -> None:
            raise KeyError("mine")

        call, request = await talk.ask(progress_token=7, on_progress=fail)
        await talk.peer.send(step(1), answer(request))
        assert isinstance(await call.outcome(), KeyError)
        assert (await talk.ask("next"))[1]["method"] == "next"


async def test_a_cancel_reaches_on_progress() -> None:
    async with talking() as talk:
        reached = trio.Event()

        async def wait(_: bytes) -> None:
            reached.set()
            await trio.sleep_forever()

        call, request = await talk.ask(progress_token=7, on_progress=wait)
        await talk.peer.send(step(1))
        await reached.wait()
        call.scope.cancel()
        assert await call.outcome() is None
        assert (await talk.peer.take())["params"]["requestId"] == request["id"]


async def test_on_progress_may_call_the_same_connection() -> None:
    """In a receive loop it would wait for an answer that only the loop could read."""
    async with talking() as talk:
        inner: list[bytes] = []

        async def call_again(_: bytes) -> None:
            inner.append(await talk.transport.request("inner", b"{}"))

        call, request = await talk.ask("outer", progress_token=7, on_progress=call_again)
        await talk.peer.send(step(1))
        its_request = await talk.peer.take()
        assert its_request["method"] == "inner"
        await talk.peer.send(answer(request, "outer"), answer(its_request, "inner"))
        assert await call.outcome() == b'"outer"'
        assert inner == [b'"inner"']


async def _progress_then_end(talk: Talk, steps: Steps) -> Any:
    call, _ = await talk.ask(progress_token=7, on_progress=steps)
    await talk.peer.send(step(1), step(2))
    await talk.peer.output.aclose()
    return await call.outcome()


async def test_progress_that_came_before_the_end_is_delivered_before_the_error() -> None:
    async with talking() as talk:
        steps = Steps()
        assert isinstance(await _progress_then_end(talk, steps), Exception)
        assert steps.numbers == [1, 2]


async def test_a_flood_of_progress_does_not_starve_a_cancel() -> None:
    async with talking() as talk:

        async def plain(_: bytes) -> None:
            """No checkpoint of its own."""

        call, _ = await talk.ask(progress_token=7, on_progress=plain)
        for number in range(100):
            await talk.peer.send(step(number))
        call.scope.cancel()
        assert await call.outcome() is None
