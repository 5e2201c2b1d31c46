"""A cancelled request: who is told, what is taken back, and what happens when answer and cancel meet."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import trio
from trio.testing import Sequencer, lockstep_stream_pair, memory_stream_pair, wait_all_tasks_blocked

from tests.far_end import Call, Heard, Message, Peer, Talk, byte_by_byte, talking
from trio_mcp.transports.limits import LineLimits
from trio_mcp.transports.lines.transport import StreamTransport

PAIRS = [memory_stream_pair, byte_by_byte, lockstep_stream_pair]
EVERY_PAIR = pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.__name__)


async def next_request(talk: Talk) -> Message:
    """What the peer is told next, when another request follows: nothing else, if nothing was told before."""
    return (await talk.ask("next"))[1]


async def started(talk: Talk, method: str) -> Call:
    """A request that has got as far as it gets without the peer."""
    call = talk.start(method)
    await wait_all_tasks_blocked()
    return call


@EVERY_PAIR
async def test_cancelling_a_request_that_was_written_tells_the_peer(pair: Callable[[], Any]) -> None:
    async with talking(pair) as talk:
        call, request = await talk.ask()
        call.scope.cancel()
        notice = await talk.peer.take()
        assert notice["method"] == "notifications/cancelled"
        assert notice["params"]["requestId"] == request["id"]
        assert isinstance(notice["params"]["reason"], str)
        assert await call.outcome() is None
        assert talk.transport.statistics().in_flight == 0


@EVERY_PAIR
async def test_a_request_that_is_not_cancellable_leaves_silently(pair: Callable[[], Any]) -> None:
    """The `initialize` request MUST NOT be cancelled by clients."""
    async with talking(pair) as talk:
        call, _ = await talk.ask("initialize", cancellable=False)
        call.scope.cancel()
        await call.over.wait()
        assert (await next_request(talk))["method"] == "next"


async def test_a_request_that_still_waits_to_be_written_is_taken_back_and_nobody_is_told() -> None:
    async with talking(lockstep_stream_pair) as talk:
        calls = [
            await started(talk, method) for method in ("first", "second", "third")
        ]  # the writer holds the first
        calls[1].scope.cancel()
        await calls[1].over.wait()
        assert [(await talk.peer.take())["method"] for _ in range(2)] == ["first", "third"]
        assert (await next_request(talk))["method"] == "next"


async def test_a_request_that_the_writer_holds_is_not_cut() -> None:
    """Half a line in the pipe would make the connection useless."""
    async with talking(lockstep_stream_pair) as talk:
        call = talk.start("long", b'{"text":"%b"}' % (b"x" * 200_000))
        await wait_all_tasks_blocked()
        call.scope.cancel()
        await call.over.wait()
        assert (await talk.peer.take())["method"] == "long"
        assert (await talk.peer.take())["method"] == "notifications/cancelled"


async def test_a_call_in_a_scope_that_was_cancelled_before_sends_nothing() -> None:
    """As in all of trio: what is cancelled from the start does not happen. The tool may be one that deletes."""
    sent: list[bytes] = []

    def write_now(data: bytes) -> int:
        sent.append(data)
        return len(data)

    async with talking(write_now=write_now) as talk:
        call = talk.start("too late")
        call.scope.cancel()
        await call.over.wait()
        assert call.scope.cancelled_caught
        assert sent == []


async def test_two_thousand_cancels_of_a_peer_that_reads_nothing_wait_for_nothing() -> None:
    async with talking(lockstep_stream_pair) as talk:
        calls = [await started(talk, "held"), *(talk.start() for _ in range(2000))]
        await wait_all_tasks_blocked()
        for call in calls:
            call.scope.cancel()
        for call in calls:
            await call.over.wait()
        assert (await talk.peer.take())["method"] == "held"
        assert (await talk.peer.take())["params"]["requestId"] == 1
        assert (await next_request(talk))["method"] == "next"


async def test_a_cancel_while_waiting_for_room_leaves_no_trace() -> None:
    async with talking(lockstep_stream_pair, limits=LineLimits(backlog=100)) as talk:
        calls = [await started(talk, f"m{number}") for number in range(6)]
        assert talk.transport.statistics().in_flight < 6
        calls[5].scope.cancel()
        await calls[5].over.wait()
        assert {(await talk.peer.take())["method"] for _ in range(5)} == {f"m{number}" for number in range(5)}
        assert (await next_request(talk))["method"] == "next"


# --- races, both orders


async def test_an_answer_that_comes_before_the_cancel_wins_though_the_caller_has_not_run_yet() -> None:
    """Both in one step of the reader: the caller is awake already, and cancelling finds nothing to interrupt."""
    async with talking() as talk:
        call, request = await talk.ask()
        talk.heard.on["then"] = call.scope.cancel
        await talk.peer.send({"id": request["id"], "result": "answer"}, {"method": "then"})
        assert await call.outcome() == b'"answer"'
        assert (await next_request(talk))["method"] == "next"
        assert talk.transport.statistics().late_answers == 0


async def test_a_cancel_that_comes_before_the_answer_wins_and_tells_nobody_of_what_is_answered() -> None:
    async with talking() as talk:
        call, request = await talk.ask()
        talk.heard.on["first"] = call.scope.cancel
        await talk.peer.send({"method": "first"}, {"id": request["id"], "result": "answer"})
        assert await call.outcome() is None
        assert call.scope.cancelled_caught
        assert (await next_request(talk))["method"] == "next"
        assert talk.transport.statistics().in_flight == 1


@pytest.mark.parametrize("cancel_first", [True, False])
async def test_an_answer_and_a_cancel_from_two_tasks_leave_the_same_order(cancel_first: bool) -> None:
    async with talking() as talk:
        sequence = Sequencer()
        call, request = await talk.ask()

        async def cancel() -> None:
            async with sequence(0 if cancel_first else 1):
                call.scope.cancel()
                await wait_all_tasks_blocked()

        async def answer() -> None:
            async with sequence(1 if cancel_first else 0):
                await talk.peer.answer(request, "answer")
                await wait_all_tasks_blocked()

        async with trio.open_nursery() as both:
            both.start_soon(cancel)
            both.start_soon(answer)
        assert await call.outcome() == (None if cancel_first else b'"answer"')
        assert talk.transport.statistics().late_answers == (1 if cancel_first else 0)
        assert talk.transport.statistics().in_flight == 0


async def test_an_answer_before_the_end_is_delivered_and_the_call_without_one_fails() -> None:
    async with talking() as talk:
        (answered, request), (unanswered, _) = await talk.ask(), await talk.ask()
        await talk.peer.answer(request, "answer")
        await talk.peer.output.aclose()
        assert await answered.outcome() == b'"answer"'
        assert isinstance(await unanswered.outcome(), Exception)


async def test_an_answer_after_the_close_is_late() -> None:
    """Close, then answer, in one step of the reader."""
    async with talking() as talk:
        call, request = await talk.ask()
        talk.heard.on["first"] = talk.transport.close
        await talk.peer.send({"method": "first"}, {"id": request["id"], "result": "answer"})
        assert isinstance(await call.outcome(), trio.ClosedResourceError)
        assert talk.transport.statistics().late_answers == 1


async def test_an_answer_before_the_close_stands() -> None:
    async with talking() as talk:
        call, request = await talk.ask()
        talk.heard.on["then"] = talk.transport.close
        await talk.peer.send({"id": request["id"], "result": "answer"}, {"method": "then"})
        assert await call.outcome() == b'"answer"'


@pytest.mark.parametrize("cancel_first", [True, False])
async def test_a_cancel_and_the_end_in_one_step_leave_nothing_in_flight(cancel_first: bool) -> None:
    async with talking() as talk:
        call, _ = await talk.ask()

        def both() -> None:
            if cancel_first:
                call.scope.cancel()
            talk.transport.close()
            call.scope.cancel()

        talk.heard.on["now"] = both
        await talk.peer.send({"method": "now"})
        outcome = await call.outcome()
        assert outcome is None if cancel_first else isinstance(outcome, trio.ClosedResourceError)
        assert talk.transport.statistics().in_flight == 0


async def test_an_outer_cancel_takes_the_callers_first_and_their_notices_are_still_written() -> None:
    """The body dies first: the tasks of the transport are shielded until `close`."""
    ours, theirs = memory_stream_pair()
    transport = StreamTransport(ours.send_stream, ours.receive_stream, Heard().handlers, name="peer")
    peer = Peer(theirs.receive_stream, theirs.send_stream)
    calls = [Call(transport, "m", b"{}", {}) for _ in range(3)]
    with trio.fail_after(5):
        async with trio.open_nursery() as outer:
            outer.start_soon(transport.run)
            for call in calls:
                outer.start_soon(call.run)
            assert [(await peer.take())["id"] for _ in calls] == [1, 2, 3]
            outer.cancel_scope.cancel()
            transport.close(drain_cancelled=True)
        told = [(await peer.take())["params"]["requestId"] for _ in calls]
    assert sorted(told) == [1, 2, 3]
    assert all(call.result is None and call.error is None for call in calls)
