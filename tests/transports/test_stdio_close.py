"""Closing a connection to a process: what still happens, how long it takes, what is gone at the end."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.fakes import DEAF_TO_EOF, DEAF_TO_TERM, POLITE, Manners
from tests.transports.conftest import STOP_TIMEOUT, Served
from trio_mcp.errors import ServerStoppedError
from trio_mcp.transports.base import FLUSH_GRACE
from trio_mcp.transports.limits import ProcessLimits

LIMITS = ProcessLimits()


async def test_a_plain_close_of_a_polite_server_costs_no_time_and_is_no_error(
    served: Any, autojump_clock: MockClock
) -> None:
    async with served(POLITE) as it:
        it.transport.close()
        await it.gone.wait()
    assert trio.current_time() == 0
    assert it.heard.ends == [None]
    assert it.process.handle.names == ["EOF", "SIGTERM", "SIGCONT", "reap", "release"]


async def test_close_during_drain_grace_is_a_close(served: Any, autojump_clock: MockClock) -> None:
    async with served(DEAF_TO_EOF) as it:
        it.process.output.close()
        await wait_all_tasks_blocked()
        it.transport.close()
        assert isinstance(await it.start().outcome(), trio.ClosedResourceError)
        await it.gone.wait()
        assert it.heard.ends == [None]


async def test_calls_are_failed_at_once_by_close_not_at_the_end_of_the_ladder(
    served: Any, autojump_clock: MockClock
) -> None:
    async with served(DEAF_TO_TERM) as it:
        call, _ = await it.ask()
        it.transport.close()
        assert isinstance(await call.outcome(), trio.ClosedResourceError)
        assert trio.current_time() == 0
        await it.gone.wait()
        assert trio.current_time() == STOP_TIMEOUT + LIMITS.term_grace


async def test_children_in_the_group_are_gone_when_run_returns(served: Any, autojump_clock: MockClock) -> None:
    async with served(POLITE, DEAF_TO_TERM) as it:
        it.transport.close()
        await it.gone.wait()
        assert it.process.handle.names[-2:] == ["SIGKILL", "release"]
        assert trio.current_time() == LIMITS.group_grace


async def test_a_server_that_reads_nothing_is_closed_within_flush_grace_more(
    served: Any, autojump_clock: MockClock
) -> None:
    async with served(DEAF_TO_TERM) as it:
        it.process.stdin.send_all_hook = trio.sleep_forever
        call = it.start()
        await wait_all_tasks_blocked()
        it.transport.close()
        await it.gone.wait()
        assert isinstance(await call.outcome(), trio.ClosedResourceError)
        assert trio.current_time() == FLUSH_GRACE + STOP_TIMEOUT + LIMITS.term_grace


async def test_output_and_stderr_are_drained_while_the_ladder_runs(served: Any, autojump_clock: MockClock) -> None:
    """Or a server that flushes could never exit."""
    async with served(Manners(eof=2.0)) as it:
        it.transport.close()
        await trio.sleep(1)
        await it.process.errors.send_all(b"flushed\n" * 100_000)
        await it.peer.send(b"x" * 1_000_000)
        await it.gone.wait()
        assert trio.current_time() == 2
        assert it.lines == ["flushed"] * 100_000
        assert it.transport.statistics().bytes_in == 1_000_000
        assert it.transport.stderr_tail == ("flushed\n" * 100_000)[-64 * 1024 :]


async def test_the_last_of_stderr_is_waited_for_after_a_plain_close_too(
    served: Any, autojump_clock: MockClock
) -> None:
    async with served(POLITE) as it:
        it.process.output_is_held = True
        it.transport.close()
        await trio.sleep(LIMITS.drain_grace / 2)
        await it.process.errors.send_all(b"tidied up")
        it.process.let_go()
        await it.gone.wait()
        assert trio.current_time() == LIMITS.drain_grace / 2
    assert it.lines == ["tidied up"]


async def test_a_grandchild_that_holds_stderr_does_not_hold_up_a_close_for_longer_than_drain_grace(
    served: Any, autojump_clock: MockClock
) -> None:
    async with served(POLITE) as it:
        it.process.output_is_held = True
        it.transport.close()
        await it.gone.wait()
        assert trio.current_time() == LIMITS.drain_grace


async def test_an_outer_cancel_does_not_end_it_before_close_does(served: Any, autojump_clock: MockClock) -> None:
    async with served() as it:
        it.nursery.cancel_scope.cancel()
        with trio.CancelScope(shield=True):
            await trio.sleep(100 - 1)
            call, request = await _shielded_ask(it)
            await it.peer.answer(request, "alive")
            assert await call.outcome() == b'"alive"'


async def _shielded_ask(it: Served) -> Any:
    call = it.start()
    call.scope.shield = True
    return call, await it.peer.take()


async def test_whatever_fails_inside_the_group_is_ended(served: Any, autojump_clock: MockClock) -> None:
    """A bug in a handler, or in the reader itself, must not leave a process behind."""

    def fail() -> None:
        raise RuntimeError("a bug")

    with pytest.RaisesGroup(pytest.RaisesExc(RuntimeError, match="a bug"), flatten_subgroups=True):
        async with served(DEAF_TO_EOF) as it:
            call, _ = await it.ask()
            call.scope.shield = True
            it.heard.on["now"] = fail
            await it.peer.send({"method": "now"})
            await trio.sleep_forever()
    assert isinstance(call.error, ServerStoppedError), "and no call hangs"
    assert it.process.handle.names[:2] == ["EOF", "SIGTERM"]
    assert it.process.handle.names[-1] == "release"
