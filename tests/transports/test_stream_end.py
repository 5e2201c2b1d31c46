"""The end of a stream transport, by close and by loss, and what happens when the peer does not keep up."""

from __future__ import annotations

import pytest
import trio
from trio.testing import (
    MockClock,
    assert_checkpoints,
    lockstep_stream_pair,
    memory_stream_pair,
    wait_all_tasks_blocked,
)

from tests.far_end import Call, EndOfInput, Heard, Peer, Talk, talking
from trio_mcp.errors import ServerStoppedError
from trio_mcp.transports.base import FLUSH_GRACE
from trio_mcp.transports.limits import LineLimits
from trio_mcp.transports.lines.transport import StreamTransport

CLOSED = 'the connection to "peer" was closed'


async def test_when_the_peer_ends_the_stream_every_call_in_flight_fails() -> None:
    async with talking() as talk:
        asked = [await talk.ask() for _ in range(3)]
        await talk.peer.output.aclose()
        errors = [await call.outcome() for call, _ in asked]
        assert all(isinstance(error, ServerStoppedError) for error in errors)
        assert errors[0] == errors[1]
        assert errors[0] is not errors[1], "each raise needs its own traceback"
        assert talk.heard.ends == [errors[0]]


async def test_after_a_loss_each_later_call_raises_a_new_equal_error_at_once() -> None:
    async with talking() as talk:
        call, _ = await talk.ask()
        await talk.peer.output.aclose()
        first = await call.outcome()
        later = await talk.start().outcome()
        assert later == first
        assert later is not first


async def test_when_the_peer_stops_reading_a_write_ends_the_connection() -> None:
    async with talking() as talk:
        await talk.peer.receive.aclose()
        assert isinstance(await talk.start().outcome(), ServerStoppedError)


async def test_a_broken_non_blocking_write_ends_the_connection() -> None:
    def broken(_: bytes) -> int:
        raise BrokenPipeError

    async with talking(write_now=broken) as talk:
        assert isinstance(await talk.start().outcome(), ServerStoppedError)


async def test_close_fails_calls_in_flight_and_later_ones_as_closed_by_us() -> None:
    async with talking() as talk:
        call, _ = await talk.ask()
        talk.transport.close()
        for outcome in (await call.outcome(), await talk.start().outcome()):
            assert isinstance(outcome, trio.ClosedResourceError)
            assert str(outcome) == CLOSED
        await wait_all_tasks_blocked()
        assert talk.heard.ends == [None]


async def test_close_may_be_called_often_and_after_the_end() -> None:
    async with talking() as talk:
        for _ in range(3):
            talk.transport.close()
            talk.transport.close(drain_cancelled=True)
            await wait_all_tasks_blocked()
    talk.transport.close()
    assert talk.heard.ends == [None]


async def test_the_end_is_told_once_and_the_first_reason_stands() -> None:
    async with talking() as talk:
        talk.transport.end(ServerStoppedError("peer", "first"))
        talk.transport.end(ServerStoppedError("peer", "second"))
        talk.transport.end(None)
        error = await talk.start().outcome()
        assert isinstance(error, ServerStoppedError)
        assert error.reason == "first"
        assert len(talk.heard.ends) == 1


async def test_close_lets_what_was_handed_over_be_written_and_then_ends_the_stream() -> None:
    async with talking(lockstep_stream_pair) as talk:
        for number in range(3):
            talk.transport.notify(f"n{number}")
        talk.transport.close()
        assert [(await talk.peer.take())["method"] for _ in range(3)] == ["n0", "n1", "n2"]
        with pytest.raises(EndOfInput):
            await talk.peer.take()


async def test_close_waits_for_a_peer_that_reads_nothing_no_longer_than_flush_grace(
    autojump_clock: MockClock,
) -> None:
    async with talking(lockstep_stream_pair, limit=100) as talk:
        talk.transport.notify("n")
        await wait_all_tasks_blocked()
        talk.transport.close()
    # The stream itself takes no time to close: only the flush waited.
    assert trio.current_time() == FLUSH_GRACE


async def test_close_with_nothing_to_write_costs_no_time(autojump_clock: MockClock) -> None:
    async with talking(lockstep_stream_pair, limit=100) as talk:
        call, _ = await talk.ask()
        talk.transport.close()
        await call.over.wait()
    assert trio.current_time() == 0


async def test_close_costs_no_time_where_the_write_broke_meanwhile(autojump_clock: MockClock) -> None:
    """The writer died with a line in its hands: nobody will ever say that it was written."""
    async with talking(limit=100) as talk:
        await talk.peer.receive.aclose()
        talk.transport.notify("n")
        talk.transport.close()
    assert trio.current_time() == 0


async def test_requests_that_are_being_cancelled_get_a_moment_to_leave(autojump_clock: MockClock) -> None:
    async with talking(limit=100) as talk:

        async def tidy_up(_: bytes) -> None:
            try:
                await trio.sleep_forever()
            finally:
                with trio.CancelScope(shield=True):
                    await trio.sleep(FLUSH_GRACE / 2)

        call, request = await talk.ask(progress_token=1, on_progress=tidy_up)
        await talk.peer.send({"method": "notifications/progress", "params": {"progressToken": 1}})
        await wait_all_tasks_blocked()
        call.scope.cancel()
        talk.transport.close(drain_cancelled=True)
        assert (await talk.peer.take())["params"]["requestId"] == request["id"]
        assert await call.outcome() is None
        with pytest.raises(EndOfInput):
            await talk.peer.take()
        assert trio.current_time() == FLUSH_GRACE / 2


async def test_a_request_that_does_not_leave_fails_after_flush_grace(autojump_clock: MockClock) -> None:
    async with talking(limit=100) as talk:
        call, _ = await talk.ask()
        talk.transport.close(drain_cancelled=True)
        assert isinstance(await call.outcome(), trio.ClosedResourceError)
        assert trio.current_time() == FLUSH_GRACE


async def test_a_request_that_is_answered_while_others_leave_has_its_answer() -> None:
    async with talking() as talk:
        call, request = await talk.ask()
        talk.transport.close(drain_cancelled=True)
        await talk.peer.answer(request, "in time")
        assert await call.outcome() == b'"in time"'


async def test_new_requests_are_refused_while_others_leave() -> None:
    async with talking() as talk:
        call, _ = await talk.ask()
        talk.transport.close(drain_cancelled=True)
        assert isinstance(await talk.start().outcome(), trio.ClosedResourceError)
        assert not call.over.is_set()


async def test_a_refused_request_is_a_checkpoint() -> None:
    async with talking() as talk:
        talk.transport.close()
        with assert_checkpoints():
            try:
                await talk.transport.request("m", b"{}")
            except trio.ClosedResourceError:
                refused = True
        assert refused


async def test_notices_and_answers_after_the_end_go_nowhere() -> None:
    async with talking() as talk:
        talk.transport.close()
        await wait_all_tasks_blocked()
        talk.transport.notify("n")
        talk.transport.respond(1, b"{}")
        assert talk.transport.statistics().bytes_out == 0


async def test_run_is_shielded_from_the_first_moment_and_ends_with_close() -> None:
    ours, theirs = memory_stream_pair()
    heard = Heard()
    transport = StreamTransport(ours.send_stream, ours.receive_stream, heard.handlers, name="peer")
    peer = Peer(theirs.receive_stream, theirs.send_stream)
    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(transport.run)
            nursery.cancel_scope.cancel()
            with trio.CancelScope(shield=True):
                call = Call(transport, "m", b"{}", {})
                async with trio.open_nursery() as inner:
                    inner.start_soon(call.run)
                    await peer.answer(await peer.take(), "alive")
                assert call.result == b'"alive"'
            transport.close()
    assert heard.ends == [None]


async def test_close_before_run_ends_it_at_once() -> None:
    ours, _ = memory_stream_pair()
    transport = StreamTransport(ours.send_stream, ours.receive_stream, Heard().handlers, name="peer")
    transport.close()
    with trio.fail_after(5):
        await transport.run()


# --- a peer that does not keep up


SMALL = LineLimits(backlog=200, max_unread=1000)


async def fill(talk: Talk) -> list[Call]:
    """Start requests until one has to wait for room; that one is the last."""
    calls: list[Call] = []
    while True:
        calls.append(talk.start(f"m{len(calls)}"))
        await wait_all_tasks_blocked()
        if talk.transport.statistics().in_flight < len(calls):
            return calls


async def test_a_request_waits_for_room_and_goes_on_when_the_peer_reads() -> None:
    async with talking(lockstep_stream_pair, limits=SMALL) as talk:
        calls = await fill(talk)
        for _ in calls:
            await talk.peer.answer(await talk.peer.take(), {})
        for call in calls:
            assert await call.outcome() == b"{}"


async def test_room_comes_also_where_a_request_is_taken_back() -> None:
    async with talking(lockstep_stream_pair, limits=SMALL) as talk:
        calls = await fill(talk)
        for call in calls[1:-1]:
            call.scope.cancel()
        await wait_all_tasks_blocked()
        assert talk.transport.statistics().in_flight == 2
        assert {(await talk.peer.take())["method"] for _ in range(2)} == {"m0", f"m{len(calls) - 1}"}


async def test_a_request_that_waits_for_room_when_the_peer_ends_the_stream_fails_with_the_reason() -> None:
    async with talking(lockstep_stream_pair, limits=SMALL) as talk:
        calls = await fill(talk)
        await talk.peer.output.aclose()
        errors = [await call.outcome() for call in calls]
        assert all(isinstance(error, ServerStoppedError) for error in errors)
        assert errors[-1] == errors[0]


async def test_a_request_that_waits_for_room_at_close_fails_as_closed(autojump_clock: MockClock) -> None:
    async with talking(lockstep_stream_pair, limits=SMALL, limit=100) as talk:
        calls = await fill(talk)
        talk.transport.close()
        for call in calls:
            assert isinstance(await call.outcome(), trio.ClosedResourceError)
        assert trio.current_time() <= FLUSH_GRACE


async def test_notices_fit_beyond_full_and_a_peer_that_lets_them_gather_is_given_up() -> None:
    async with talking(lockstep_stream_pair, limits=SMALL) as talk:
        calls = await fill(talk)
        talk.transport.notify("n")
        await wait_all_tasks_blocked()
        assert not talk.heard.ends
        for _ in range(50):
            talk.transport.notify("n")
        error = await calls[0].outcome()
        assert isinstance(error, ServerStoppedError)
        assert error.reason == "does not read: too many messages wait for it"


async def test_a_large_request_and_a_large_answer_at_once_do_not_deadlock() -> None:
    """Two full pipes: the peer writes all of its answer before it reads on."""
    async with talking(lockstep_stream_pair) as talk:
        first = talk.start("first")
        request = await talk.peer.take()
        second = talk.start("second", b'{"text":"%b"}' % (b"x" * 1_000_000))
        await wait_all_tasks_blocked()
        await talk.peer.answer(request, "y" * 1_000_000)
        assert len(await first.outcome()) == 1_000_002  # type: ignore[arg-type]
        await talk.peer.answer(await talk.peer.take(), {})
        assert await second.outcome() == b"{}"
