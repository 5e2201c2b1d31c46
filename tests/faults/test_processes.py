"""Faults 1, 2, 7 and 8: what becomes of a server's processes when they, or we, end."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.peers import ERAS, open_lives, peer
from trio_mcp import ClientLimits, ServerStartError, ServerStoppedError, connect, open_connection
from trio_mcp.transports.limits import ProcessLimits

ROOT = Path(__file__).parents[2]

#: What "at once" means on a slow machine.
AT_ONCE = 2.0


@asynccontextmanager
async def running(argv: list[str], **options: Any) -> AsyncIterator[trio.Process]:
    """A process that is gone when the body ends, whatever happens."""
    started: trio.Process = await trio.lowlevel.open_process(argv, **options)
    try:
        yield started
    finally:
        with trio.CancelScope(shield=True):  # bounded by SIGKILL
            started.kill()
            await started.wait()
            for stream in (started.stdin, started.stdout):
                if stream is not None:
                    await stream.aclose()


# --- fault 1: a grandchild survives close


@pytest.mark.parametrize("era", ERAS)
async def test_a_server_behind_a_wrapper_that_waits_is_gone_with_the_wrapper(era: str) -> None:
    with trio.fail_after(20):
        async with open_lives() as lives:
            async with open_connection(peer(era=era, wrapper="waits", alive=lives.port)) as connection:
                assert (await connection.call_tool("echo", {"a": 1})).content == '{"a": 1}'
                await lives.came("wrapper")
            await lives.ended("server")
            await lives.ended("wrapper")


@pytest.mark.slow
async def test_a_server_that_outlives_its_wrapper_at_close_is_ended_too() -> None:
    """The wrapper dies of SIGTERM at once; the real server, deaf to everything polite, still has to go."""
    with trio.fail_after(20):
        async with open_lives() as lives:
            server = peer(wrapper="waits", on_eof="ignore", on_term="ignore", alive=lives.port, stop_timeout=0.1)
            async with open_connection(server):
                await lives.came("wrapper")
            await lives.ended("server")
            await lives.ended("wrapper")


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["auto", "modern", "legacy"])
async def test_a_wrapper_that_leaves_at_once_is_refused_in_words_and_what_it_left_is_gone(protocol: str) -> None:
    """The sleeper holds the pipes, so that their end never comes."""
    with trio.fail_after(20):
        async with open_lives() as lives:
            # Silent as well: a server that answers before its wrapper's end is noticed would be up for a moment.
            server = peer(wrapper="leaves", start_delay=3600, alive=lives.port, protocol=protocol, stop_timeout=30)
            began = trio.current_time()
            with pytest.raises(ServerStartError, match="puts into the background is not supported") as caught:
                async with open_connection(server):
                    raise AssertionError("it opened")
            assert trio.current_time() - began < 2 * AT_ONCE  # two starts in "auto"
            assert caught.value.returncode == 0
            await lives.ended("wrapper")
            assert not lives.is_alive("server")


@pytest.mark.slow
@pytest.mark.parametrize("era", ERAS)
async def test_the_children_that_a_polite_server_leaves_are_gone_at_once(era: str) -> None:
    """Whether they hold our pipes or ignore SIGTERM. Nobody waits for `stop_timeout`."""
    with trio.fail_after(20):
        async with open_lives() as lives:
            server = peer(era=era, children=["quiet", "holding", "stubborn"], alive=lives.port, stop_timeout=30)
            async with open_connection(server) as connection:
                await connection.call_tool("echo")
                began = trio.current_time()
            assert trio.current_time() - began < AT_ONCE
            for label in ("server", "child0", "child1", "child2"):
                await lives.ended(label)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has pidfds")
@pytest.mark.parametrize("missing", ["PIDFD_SIGNAL_PROCESS_GROUP", "pidfd_open"])
async def test_nothing_is_left_where_the_kernel_is_older(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Linux before 6.9 knows no group behind a pidfd; before 5.3, and in some sandboxes, there is no pidfd."""

    def refuse(*_: object) -> None:
        raise OSError(errno.EINVAL if missing != "pidfd_open" else errno.ENOSYS, "too old")

    monkeypatch.setattr(signal, "pidfd_send_signal", refuse)
    if missing == "pidfd_open":
        monkeypatch.setattr(os, "pidfd_open", refuse)
    with trio.fail_after(20):
        async with open_lives() as lives:
            server = peer(children=["quiet", "stubborn"], alive=lives.port, stop_timeout=30)
            async with open_connection(server) as connection:
                assert (await connection.call_tool("echo")).content == "{}"
                began = trio.current_time()
            assert trio.current_time() - began < AT_ONCE
            for label in ("server", "child0", "child1"):
                await lives.ended(label)
            async with open_connection(server) as connection:
                with pytest.raises(ServerStoppedError, match="exited with status 3"):
                    await connection.call_tool("exit", {"status": 3})


@pytest.mark.slow
async def test_a_child_that_leaves_the_group_and_holds_the_pipes_does_not_hold_up_the_close() -> None:
    """It is not ours any more, and lives on; the end of the pipes, which never comes, is not waited for."""
    with trio.fail_after(20):
        async with open_lives() as lives:
            server = peer(children=["escaped"], alive=lives.port, stop_timeout=30)
            async with open_connection(server) as connection:
                await connection.call_tool("echo")
                began = trio.current_time()
            assert trio.current_time() - began < AT_ONCE
            await lives.ended()
            assert lives.is_alive("child0")
            async with open_connection(server) as connection:
                began = trio.current_time()
                with pytest.raises(ServerStoppedError, match="exited with status 3"):
                    await connection.call_tool("exit", {"status": 3})
                assert trio.current_time() - began < AT_ONCE


@pytest.mark.slow
async def test_the_children_of_a_server_that_dies_are_gone_while_the_body_goes_on() -> None:
    """The ladder starts at the loss, not at the close."""
    with trio.fail_after(20):
        async with open_lives() as lives:
            server = peer(children=["quiet", "holding", "stubborn"], alive=lives.port, stop_timeout=30)
            async with open_connection(server) as connection:
                with pytest.raises(Exception, match="was killed by SIGKILL"):
                    await connection.call_tool("kill", {"signal": signal.SIGKILL})
                for label in ("server", "child0", "child1", "child2"):
                    await lives.ended(label)


@pytest.mark.slow
async def test_processes_of_other_groups_are_left_alone() -> None:
    """A server's neighbour, and a process of our own group, outlive it, whatever it takes to end it."""
    with trio.fail_after(20):
        async with open_lives() as lives:
            ours = peer(alive=lives.port, label="ours")
            assert ours.command is not None
            bystander = running([ours.command, *ours.args], stdin=subprocess.PIPE)
            neighbour = open_connection(peer("neighbour", alive=lives.port, label="neighbour"))
            async with bystander as process_of_ours, neighbour as connection:
                await lives.came("ours")
                async with open_connection(peer(on_eof="ignore", children=["stubborn"], stop_timeout=0.1)):
                    pass
                assert (await connection.call_tool("echo")).content == "{}"
                assert process_of_ours.stdin is not None
                await process_of_ours.stdin.aclose()
                assert await process_of_ours.wait() == 0  # politely, by EOF: nobody had signalled it


# --- fault 2: close without a bound, or without grace


@pytest.mark.slow
async def test_a_server_deaf_to_eof_and_sigterm_is_gone_within_the_bound() -> None:
    with trio.fail_after(20):
        async with open_lives() as lives:
            server = peer(on_eof="ignore", on_term="ignore", alive=lives.port, stop_timeout=0.2)
            async with open_connection(server):
                began = trio.current_time()
            assert 0.2 + ProcessLimits().term_grace <= trio.current_time() - began < 0.2 + 5
            await lives.ended()


@pytest.mark.slow
async def test_a_server_deaf_to_eof_gets_sigterm_after_stop_timeout_and_may_tidy_up() -> None:
    with trio.fail_after(20):
        async with open_lives() as lives:
            source = "signal.signal(signal.SIGTERM, lambda *_: (peer.tell('tidied up'), os._exit(0)))"
            server = peer(on_eof="ignore", source=source, alive=lives.port, stop_timeout=0.2)
            async with open_connection(server):
                began = trio.current_time()
            assert 0.2 <= trio.current_time() - began < AT_ONCE
            await lives.ended()
            assert lives.said["server"][-1] == "tidied up"


@pytest.mark.slow
@pytest.mark.parametrize("era", ERAS)
async def test_a_polite_server_gets_the_time_it_needs_itself_and_no_more_is_spent(
    era: str, tmp_path: Path
) -> None:
    marker = tmp_path / "marker"
    with trio.fail_after(20):
        async with open_connection(peer(era=era, on_eof=0.4, marker=str(marker), stop_timeout=30)):
            began = trio.current_time()
        assert 0.4 <= trio.current_time() - began < 0.4 + 1
    assert marker.read_text() == "tidied up"


async def test_a_server_that_writes_much_at_the_end_can_still_exit_politely(tmp_path: Path) -> None:
    """Both pipes are drained while it is waited for."""
    marker = tmp_path / "marker"
    with trio.fail_after(20):
        async with open_connection(peer(flood=1 << 20, marker=str(marker), stop_timeout=30)) as connection:
            began = trio.current_time()
        assert trio.current_time() - began < AT_ONCE
    assert marker.exists()
    assert connection.error is None


@pytest.mark.slow
async def test_a_stopped_server_ends_too() -> None:
    """SIGSTOP: it acts on nothing but SIGCONT and SIGKILL."""
    with trio.fail_after(20):
        async with open_lives() as lives:
            async with open_connection(peer(alive=lives.port, stop_timeout=0.1)) as connection:
                with trio.move_on_after(0.2):
                    await connection.call_tool("kill", {"signal": signal.SIGSTOP})
                began = trio.current_time()
            assert trio.current_time() - began < AT_ONCE
            await lives.ended()


@pytest.mark.slow
async def test_a_cancelled_caller_does_not_cut_the_grace(tmp_path: Path) -> None:
    """The scope around the connection is cancelled; the server still gets to write its marker."""
    marker = tmp_path / "marker"
    with trio.fail_after(20):
        async with open_lives() as lives:
            with trio.CancelScope() as scope:
                server = peer(on_eof=0.4, marker=str(marker), alive=lives.port, stop_timeout=30)
                async with open_connection(server) as connection:
                    scope.cancel()
                    await connection.call_tool("hang")
            assert scope.cancelled_caught
            await lives.ended()
    assert marker.exists()


@pytest.mark.slow
async def test_a_cancelled_caller_does_not_stop_the_ladder() -> None:
    with trio.fail_after(20):
        async with open_lives() as lives:
            server = peer(on_eof="ignore", on_term="ignore", alive=lives.port, stop_timeout=0.1)
            with trio.move_on_after(10) as scope:
                async with open_connection(server, limits=ClientLimits(process=ProcessLimits(term_grace=0.2))):
                    scope.cancel()
            await lives.ended()


@pytest.mark.slow
async def test_cancelling_aclose_stops_the_waiting_and_not_the_closing() -> None:
    with trio.fail_after(20):
        async with open_lives() as lives, trio.open_nursery() as nursery:
            server = peer(on_eof="ignore", alive=lives.port, stop_timeout=0.3)
            connection = await connect(nursery, server)
            with trio.move_on_after(0.05) as scope:
                await connection.aclose()
            assert scope.cancelled_caught
            assert lives.is_alive()
            await connection.wait_done()
            await lives.ended()
            await connection.aclose()  # and again


# --- faults 7 and 8: the terminal's Ctrl-C; a host that is killed

HOST = """
import signal, sys, trio
from tests.peers import peer
from trio_mcp import open_connections

async def main():
    servers = [peer(name, alive=int(sys.argv[1]), label=name, stop_timeout=30) for name in ("one", "two")]
    async with open_connections(servers) as connections:
        with trio.open_signal_receiver(signal.SIGINT) as signals:
            sys.stdout.write("open\\n")
            sys.stdout.flush()
            async for _ in signals:
                result = await connections["one"].call_tool("echo", {"still": "here"})
                sys.stdout.write(result.content + "\\n")
                sys.stdout.flush()

trio.run(main)
"""


async def _line(stream: trio.abc.ReceiveStream | None) -> bytes:
    assert stream is not None
    line = b""
    while not line.endswith(b"\n"):
        chunk = await stream.receive_some()
        assert chunk, line
        line += chunk
    return line


async def test_ctrl_c_reaches_the_program_alone_and_a_killed_program_takes_its_servers_along() -> None:
    """A terminal signals its foreground group: that of the program. SIGKILL leaves it no time to do anything."""
    with trio.fail_after(30):
        async with open_lives() as lives:
            argv = [sys.executable, "-c", HOST, str(lives.port)]
            options = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "cwd": ROOT}
            async with running(argv, **options, start_new_session=True) as host:
                assert await _line(host.stdout) == b"open\n"
                os.killpg(host.pid, signal.SIGINT)
                assert await _line(host.stdout) == b'{"still": "here"}\n'
                assert lives.is_alive("one")
                assert lives.is_alive("two")
                host.kill()
                await host.wait()
                # Each reads the end of its input: neither holds the other's open.
                await lives.ended("one")
                await lives.ended("two")
                assert lives.said["one"][-1] == lives.said["two"][-1] == "eof"


@pytest.mark.parametrize("era", ERAS)
async def test_a_server_leads_a_session_and_a_group_of_its_own(era: str) -> None:
    with trio.fail_after(10):
        async with open_connection(peer(era=era)) as connection:
            facts = (await connection.call_tool("environment")).content
    found = json.loads(facts)
    assert found["pid"] == found["sid"] == found["pgid"] != os.getpid()
