"""Faults 3, 6 and 10: servers that go away while they are in use, floods on stderr, writes to the dead."""

from __future__ import annotations

import json
import logging
import os
import signal
import traceback
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from tests.peers import ERAS, open_lives, peer
from trio_mcp import Connection, ServerStoppedError, open_connection
from trio_mcp.protocol.revisions import Era

AT_ONCE = 2.0

#: How a server goes away: the tool that does it, its arguments, the exit status, the words.
DEATHS: dict[str, tuple[str, dict[str, Any], int | None, str]] = {
    "exit 1": ("exit", {"status": 1, "moan": "out of memory\n"}, 1, "exited with status 1"),
    "exit 0": ("exit", {"status": 0, "moan": "out of memory\n"}, 0, "exited with status 0"),
    "SIGKILL": ("kill", {"signal": signal.SIGKILL}, -signal.SIGKILL, "was killed by SIGKILL"),
    "SIGSEGV": ("kill", {"signal": signal.SIGSEGV}, -signal.SIGSEGV, "was killed by SIGSEGV"),
    "closed stdout": ("close", {"descriptor": 1}, None, "closed its output"),
}

#: Of an argument: written at once, and larger than any pipe.
SIZES = (1, 5 << 20)


async def stopped_by(connection: Connection, tool: str, arguments: Any = None) -> ServerStoppedError:
    with pytest.raises(ServerStoppedError) as caught:
        await connection.call_tool(tool, arguments)
    return caught.value


# --- fault 3: the server dies mid-call and the call hangs


@pytest.mark.slow
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("death", DEATHS)
async def test_every_pending_call_fails_at_once_and_says_how_the_server_ended(era: Era, death: str) -> None:
    tool, arguments, returncode, words = DEATHS[death]
    errors = []
    with trio.fail_after(20):
        async with open_lives() as lives, open_connection(peer(era=era, alive=lives.port)) as connection:

            async def be_pending() -> None:
                errors.append(await stopped_by(connection, "hang"))

            async with trio.open_nursery() as nursery:
                for _ in range(10):
                    nursery.start_soon(be_pending)
                await lives.called(10)
                began = trio.current_time()
                errors.append(await stopped_by(connection, tool, arguments))
            assert trio.current_time() - began < AT_ONCE
            errors.append(await stopped_by(connection, "echo"))  # a later call, at once, with the same
            await connection.wait_done()
            assert connection.error == errors[0]
            await lives.ended()  # before the connection is left
    for error in errors:
        assert str(error) == f'server "peer" stopped: {words}'
        assert error.returncode == returncode
        assert connection.server is not None
        assert error.command == connection.server.redacted_command
        assert error.stderr_tail == arguments.get("moan", "")
        assert error == errors[0]
    assert len({id(error) for error in errors}) == len(errors)  # each raise has its own traceback
    if "moan" in arguments:
        assert "out of memory" in "".join(traceback.format_exception(errors[0]))
        assert "out of memory" not in str(errors[0])


@pytest.mark.parametrize("era", ERAS)
async def test_an_answer_written_just_before_the_end_is_delivered(era: Era) -> None:
    """What is in the pipe is read, although the leader has exited already."""
    source = (
        "def last(peer, id_, arguments, meta): echo(peer, id_, arguments, meta); os._exit(3)\nCALLS['echo'] = last"
    )
    source = "from scripted_tools import echo\n" + source
    with trio.fail_after(10):
        async with open_connection(peer(era=era, source=source)) as connection:
            assert (await connection.call_tool("echo", {"last": 1})).content == '{"last": 1}'
            await connection.wait_done()
            assert (await stopped_by(connection, "echo")).returncode == 3


@pytest.mark.slow
async def test_a_child_that_holds_stdout_does_not_hide_the_death_of_the_server() -> None:
    with trio.fail_after(10):
        async with open_lives() as lives:
            server = peer(children=["holding"], alive=lives.port)
            async with open_connection(server) as connection:
                began = trio.current_time()
                error = await stopped_by(connection, "exit", {"status": 4})
                assert trio.current_time() - began < AT_ONCE
                assert error.returncode == 4
                await lives.ended("child0")


async def test_after_a_plain_close_there_is_no_error_and_calls_say_closed() -> None:
    with trio.fail_after(10):
        async with open_connection(peer()) as connection:
            pass
        assert connection.done.is_set()
        assert connection.error is None
        with pytest.raises(trio.ClosedResourceError):
            await connection.call_tool("echo")
        with pytest.raises(trio.ClosedResourceError):
            await connection.refresh_tools()
        with pytest.raises(trio.ClosedResourceError):
            await connection.tools[0].call({})


async def test_aclose_fails_the_calls_in_flight() -> None:
    with trio.fail_after(10):
        async with open_lives() as lives, open_connection(peer(alive=lives.port)) as connection:

            async def be_pending() -> None:
                with pytest.raises(trio.ClosedResourceError):
                    await connection.call_tool("hang")

            async with trio.open_nursery() as nursery:
                nursery.start_soon(be_pending)
                await lives.called()
                await connection.aclose()
            await lives.ended()


# --- fault 6: stderr fills its pipe


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("endless", [False, True])
async def test_256_kib_of_stderr_before_each_answer_stop_nobody(era: Era, endless: bool) -> None:
    lines: list[str] = []
    with trio.fail_after(20):
        server = peer(era=era, source="write_all(2, b'm' * (256 * 1024))")
        async with open_connection(server, on_stderr=lines.append) as connection:
            for _ in range(4):
                arguments = {"size": 256 * 1024, "endless": endless}
                assert (await connection.call_tool("moan", arguments)).content == "moaned"
            assert len(connection.stderr_tail) <= 64 * 1024
    assert len(connection.stderr_tail) == 64 * 1024
    assert max(map(len, lines)) <= 64 * 1024


async def test_a_sink_of_stderr_that_fails_costs_one_line_each_and_stops_nobody(
    caplog: pytest.LogCaptureFixture,
) -> None:
    heard = []

    def sink(line: str) -> None:
        heard.append(line)
        raise ZeroDivisionError(line)

    with trio.fail_after(20):
        async with open_connection(peer(moan="first\nsecond\n"), on_stderr=sink) as connection:
            assert (await connection.call_tool("moan", {"size": 1000})).content == "moaned"
    assert heard[:2] == ["first", "second"]
    raised = [record for record in caplog.records if record.exc_info]
    assert len(raised) == len(heard)
    assert {record.levelno for record in raised} == {logging.ERROR}


# --- fault 10: writes to a dead server raise raw errors of the pipe


async def process_id(connection: Connection) -> int:
    return int(json.loads((await connection.call_tool("environment")).content)["pid"])


@pytest.mark.parametrize("size", SIZES)
async def test_a_call_to_a_server_that_has_just_died_says_that_it_stopped(size: int) -> None:
    """The pipe is broken and nobody here has noticed: the kernel kills it before this task runs again."""
    with trio.fail_after(10):
        async with open_connection(peer()) as connection:
            pid = await process_id(connection)
            os.kill(pid, signal.SIGKILL)
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)  # noqa: ASYNC222 - nobody is to run meanwhile
            error = await stopped_by(connection, "echo", {"x": "x" * size})
            assert error.returncode == -signal.SIGKILL
            assert await stopped_by(connection, "echo", {"x": "x" * size}) == error
            with pytest.raises(ServerStoppedError):
                await connection.refresh_tools()
            with pytest.raises(ServerStoppedError):
                await connection.request("resources/list")


@pytest.mark.parametrize("size", SIZES)
async def test_a_server_that_dies_before_it_reads_a_call_fails_it_with_its_status(size: int) -> None:
    """5 MiB are begun and never finished."""
    with trio.fail_after(10):
        async with open_connection(peer()) as connection:
            pid = await process_id(connection)
            os.kill(pid, signal.SIGSTOP)
            async with trio.open_nursery() as nursery:

                async def call() -> None:
                    error = await stopped_by(connection, "echo", {"x": "x" * size})
                    assert error.returncode == -signal.SIGKILL

                nursery.start_soon(call)
                await wait_all_tasks_blocked()
                os.kill(pid, signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.parametrize("size", SIZES)
async def test_a_server_that_closes_its_input_and_lives_on_is_lost(size: int) -> None:
    source = """
def deaf(peer, id_, arguments, meta, close=CALLS["close"]):
    close(peer, id_, {"descriptor": 0}, meta)
    peer.answer(id_, text("deaf"))
    while True:
        signal.pause()
CALLS["close"] = deaf
"""
    with trio.fail_after(10):
        async with open_lives() as lives, open_connection(peer(source=source, alive=lives.port)) as connection:
            assert (await connection.call_tool("close")).content == "deaf"
            assert lives.is_alive()
            error = await stopped_by(connection, "echo", {"x": "x" * size})
            assert error.reason == "closed its input"
            assert error.returncode is None
            await lives.ended()
