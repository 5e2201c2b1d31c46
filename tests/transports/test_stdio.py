"""When a connection to a process is over: exit and the end of output are two events, and either may be first."""

from __future__ import annotations

import signal
import sys
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from tests.fakes import DEAF_TO_EOF, DEAF_TO_TERM, FakeProcess
from tests.far_end import Heard
from tests.transports.conftest import SERVER, STOP_TIMEOUT
from trio_mcp.errors import ServerStartError, ServerStoppedError
from trio_mcp.transports.limits import LineLimits, ProcessLimits
from trio_mcp.transports.stdio.process import CannotStart
from trio_mcp.transports.stdio.transport import StdioTransport

DRAIN_GRACE = ProcessLimits().drain_grace

# --- exit first


async def test_a_call_in_flight_fails_at_exit_with_the_status(served: Any, autojump_clock: MockClock) -> None:
    async with served() as it:
        call, _ = await it.ask()
        await trio.sleep(10)
        it.process.exit(3)
        error = await call.outcome()
        assert trio.current_time() == 10
        assert str(error) == 'server "s" stopped: exited with status 3'
        assert error.returncode == 3
        assert error.command == ("/bin/server", "--token", "***")


async def test_a_signal_is_named(served: Any, autojump_clock: MockClock) -> None:
    async with served() as it:
        it.process.exit(-signal.SIGSEGV)
        assert (await it.error()).reason == "was killed by SIGSEGV"


async def test_what_is_in_the_pipe_at_exit_is_read(served: Any, autojump_clock: MockClock) -> None:
    async with served() as it:
        (answered, request), (other, _) = await it.ask(), await it.ask()
        await it.peer.answer(request, "last words")
        it.process.exit(1)
        assert await answered.outcome() == b'"last words"'
        assert isinstance(await other.outcome(), ServerStoppedError)


@pytest.mark.parametrize(("at", "in_time"), [(DRAIN_GRACE - 0.01, True), (DRAIN_GRACE + 0.01, False)])
async def test_a_grandchild_that_holds_the_output_has_drain_grace(
    served: Any, autojump_clock: MockClock, at: float, in_time: bool
) -> None:
    async with served() as it:
        call, request = await it.ask()
        it.process.output_is_held = True
        it.process.exit(0)
        await trio.sleep(at)
        if in_time:
            await it.peer.answer(request, "from the grandchild")
            assert await call.outcome() == b'"from the grandchild"'
        else:
            assert call.over.is_set()
            assert isinstance(await call.outcome(), ServerStoppedError)


async def test_a_connection_whose_output_is_held_ends_at_exit_plus_drain_grace(
    served: Any, autojump_clock: MockClock
) -> None:
    async with served() as it:
        call, _ = await it.ask()
        it.process.output_is_held = True
        it.process.exit(0)
        error = await call.outcome()
        assert trio.current_time() == DRAIN_GRACE
        assert error.returncode == 0
        assert "a server that its wrapper puts into the background is not supported" in str(error)


async def test_only_a_polite_exit_looks_like_a_server_in_the_background(
    served: Any, autojump_clock: MockClock
) -> None:
    async with served() as it:
        it.process.output_is_held = True
        it.process.exit(3)
        assert (await it.error()).reason == "exited with status 3"


async def test_the_tail_of_stderr_is_whole_when_the_error_is_raised(
    served: Any, autojump_clock: MockClock
) -> None:
    async with served() as it:
        call, _ = await it.ask()
        it.process.output_is_held = True
        await it.process.errors.send_all(b"Traceback\n")
        it.process.exit(1)
        it.process.output.close()
        await trio.sleep(DRAIN_GRACE / 2)
        await it.process.errors.send_all(b"MyError: the reason")
        it.process.errors.close()
        error = await call.outcome()
        assert trio.current_time() == DRAIN_GRACE / 2, "nothing left to wait for"
        assert error.stderr_tail == "Traceback\nMyError: the reason"
        assert it.lines == ["Traceback", "MyError: the reason"]


async def test_an_unknown_status_is_not_0(
    served: Any, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served() as it:
        it.process.handle._status = None
        it.process.exit(None)
        error = await it.error()
        assert (error.returncode, error.reason) == (None, "exit status unknown")


# --- end of output first


@pytest.mark.parametrize("pause", [0.0, DRAIN_GRACE / 2, DRAIN_GRACE - 0.001])
async def test_an_exit_soon_after_the_end_of_output_gives_the_error_its_status(
    served: Any, autojump_clock: MockClock, pause: float
) -> None:
    async with served() as it:
        call, _ = await it.ask()
        it.process.output.close()
        await trio.sleep(pause)
        it.process.exit(4)
        error = await call.outcome()
        assert (error.returncode, trio.current_time()) == (4, pause)


async def test_a_server_that_closes_its_output_and_lives_on_is_given_up_after_drain_grace(
    served: Any, autojump_clock: MockClock
) -> None:
    async with served(DEAF_TO_EOF) as it:
        call, _ = await it.ask()
        it.process.output.close()
        error = await call.outcome()
        assert trio.current_time() == DRAIN_GRACE
        assert (error.reason, error.returncode) == ("closed its output", None)


async def test_the_ladder_starts_at_the_loss_not_at_close(served: Any, autojump_clock: MockClock) -> None:
    async with served(DEAF_TO_EOF) as it:
        it.process.output.close()
        await it.gone.wait()
        stopped = DRAIN_GRACE + STOP_TIMEOUT
        assert it.process.handle.log[:2] == [(DRAIN_GRACE, "EOF"), (stopped, "SIGTERM")]
        assert trio.current_time() == stopped
        await trio.sleep(50)
    assert trio.current_time() == stopped + 50


async def test_calls_during_the_ladder_fail_at_once(served: Any, autojump_clock: MockClock) -> None:
    async with served(DEAF_TO_TERM) as it:
        it.process.output.close()
        await trio.sleep(1)
        assert (await it.error()).reason == "closed its output"
        assert trio.current_time() == 1


# --- broken input


async def test_a_server_that_closes_its_input_is_given_up_after_drain_grace(
    served: Any, autojump_clock: MockClock
) -> None:
    async with served(DEAF_TO_EOF) as it:
        await it.peer.receive.aclose()
        call = it.start()
        error = await call.outcome()
        assert trio.current_time() == DRAIN_GRACE
        assert (error.reason, error.returncode) == ("closed its input", None)


async def test_a_broken_write_to_a_server_that_is_dying_names_the_exit(
    served: Any, autojump_clock: MockClock
) -> None:
    async with served() as it:
        await it.peer.receive.aclose()
        call = it.start()
        await trio.sleep(DRAIN_GRACE / 2)
        it.process.exit(5)
        error = await call.outcome()
        assert error.reason == "exited with status 5"


# --- at fault


async def test_a_server_that_reads_nothing_is_given_up_at_once(served: Any, autojump_clock: MockClock) -> None:
    async with served(DEAF_TO_EOF, lines=LineLimits(max_unread=1000)) as it:
        it.process.stdin.send_all_hook = trio.sleep_forever
        call = it.start()
        for _ in range(100):
            it.transport.notify("n")
        error = await call.outcome()
        assert (error.reason, error.returncode) == ("does not read: too many messages wait for it", None)
        assert trio.current_time() == 0


async def test_lines_that_were_no_messages_are_shown_in_the_note_redacted(
    served: Any, autojump_clock: MockClock
) -> None:
    async with served() as it:
        await it.peer.send(b"starting with s3cret-s3cret\n")
        it.process.exit(1)
        error = await it.error()
        assert error.junk == ("starting with ***",)
        assert any("starting with ***" in note for note in error.__notes__)


# --- start


async def test_a_start_that_fails_leaves_the_cause_not_the_seam() -> None:
    cause = FileNotFoundError()

    async def start_process(*_: object) -> FakeProcess:
        await trio.lowlevel.checkpoint()
        raise CannotStart("because") from cause

    with pytest.raises(ServerStartError, match="did not start: because; the server's environment") as caught:
        await StdioTransport.start(SERVER, Heard().handlers, start_process=start_process)
    assert caught.value.__cause__ is cause


async def test_on_windows_a_stdio_server_is_not_implemented(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(NotImplementedError, match="HTTP"):
        await StdioTransport.start(SERVER, Heard().handlers)
