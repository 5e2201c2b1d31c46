"""When a connection to a process is over: exit and the end of output are two events, and either may be first."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import attrs
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.fakes import DEAF_TO_EOF, DEAF_TO_TERM, POLITE, FakeProcess, Manners
from tests.far_end import Heard, Talk
from trio_mcp.errors import ServerStartError, ServerStoppedError
from trio_mcp.models.server import Server
from trio_mcp.transports import outbox as outbox_module
from trio_mcp.transports import stdio as stdio_module
from trio_mcp.transports.base import FLUSH_GRACE
from trio_mcp.transports.process import GROUP_GRACE, TERM_GRACE
from trio_mcp.transports.stdio import DRAIN_GRACE, StdioTransport

STOP_TIMEOUT = 5.0
SERVER = Server("s", command="/bin/server", args=("--token", "s3cret-s3cret"), stop_timeout=STOP_TIMEOUT)


@attrs.define
class Served(Talk):
    """A stdio transport that runs, and the process that is none."""

    process: FakeProcess
    lines: list[str]
    gone: trio.Event = attrs.Factory(trio.Event)

    async def error(self) -> ServerStoppedError:
        """What a new call, and so every call, fails with."""
        outcome = await self.start().outcome()
        assert isinstance(outcome, ServerStoppedError)
        return outcome


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Any:
    @asynccontextmanager
    async def serve(leader: Manners = POLITE, *children: Manners) -> AsyncIterator[Served]:
        process = FakeProcess(leader, children)

        async def start_process(*_: object) -> FakeProcess:
            await trio.lowlevel.checkpoint()
            return process

        monkeypatch.setattr(stdio_module, "start_process", start_process)
        heard, lines = Heard(), list[str]()
        with trio.fail_after(100):
            transport = await StdioTransport.start(SERVER, heard.handlers, lines.append)
            async with trio.open_nursery() as nursery:
                served = Served(transport, process.peer, heard, nursery, process, lines)

                async def run() -> None:
                    await transport.run()
                    served.gone.set()

                nursery.start_soon(run)
                try:
                    yield served
                finally:
                    transport.close()

    return serve


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


async def test_a_server_that_reads_nothing_is_given_up_at_once(
    served: Any, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox_module, "OVERFULL", 1000)
    async with served(DEAF_TO_EOF) as it:
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


# --- closed by us


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
        assert trio.current_time() == STOP_TIMEOUT + TERM_GRACE


async def test_children_in_the_group_are_gone_when_run_returns(served: Any, autojump_clock: MockClock) -> None:
    async with served(POLITE, DEAF_TO_TERM) as it:
        it.transport.close()
        await it.gone.wait()
        assert it.process.handle.names[-2:] == ["SIGKILL", "release"]
        assert trio.current_time() == GROUP_GRACE


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
        assert trio.current_time() == FLUSH_GRACE + STOP_TIMEOUT + TERM_GRACE


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
            it.heard.on["now"] = fail
            await it.peer.send({"method": "now"})
            await trio.sleep_forever()
    assert it.process.handle.names[:2] == ["EOF", "SIGTERM"]
    assert it.process.handle.names[-1] == "release"


# --- start


async def test_a_start_that_fails_leaves_the_cause_not_the_seam(monkeypatch: pytest.MonkeyPatch) -> None:
    cause = FileNotFoundError()

    async def start_process(*_: object) -> FakeProcess:
        await trio.lowlevel.checkpoint()
        raise stdio_module.CannotStart("because") from cause

    monkeypatch.setattr(stdio_module, "start_process", start_process)
    with pytest.raises(ServerStartError, match="did not start: because; the server's environment") as caught:
        await StdioTransport.start(SERVER, Heard().handlers)
    assert caught.value.__cause__ is cause


async def test_on_windows_a_stdio_server_is_not_implemented(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdio_module.sys, "platform", "win32")
    with pytest.raises(NotImplementedError, match="HTTP"):
        await StdioTransport.start(SERVER, Heard().handlers)
