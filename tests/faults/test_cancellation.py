"""Faults 43 and 45 to 47: cancelled calls, users' functions, many servers at once, and the one real error."""

from __future__ import annotations

import json
import os
import signal
from contextlib import suppress
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from tests.peers import ERAS, Lives, open_lives, peer, raw
from trio_mcp import (
    Connection,
    InvalidServerError,
    MCPError,
    ServerStartError,
    ServerStoppedError,
    connect,
    open_connection,
    open_connections,
)
from trio_mcp.client.limits import ClientLimits

AT_ONCE = 2.0


async def received(connection: Connection, method: str) -> list[dict[str, Any]]:
    """The params of the messages with this method that the server has received."""
    seen = json.loads((await connection.call_tool("seen")).content)
    return [message.get("params") for message in seen if message.get("method") == method]


# --- fault 43: no cancel notice when a call times out


@pytest.mark.parametrize("era", ERAS)
async def test_a_call_that_times_out_tells_the_server_and_leaves_nothing_here(era: str) -> None:
    with trio.fail_after(10):
        async with open_lives() as lives, open_connection(peer(era=era, alive=lives.port)) as connection:
            with pytest.raises(trio.TooSlowError):
                with trio.fail_after(0.1):
                    await connection.call_tool("hang")
            assert connection.statistics().calls_in_flight == 0
            await lives.heard("notifications/cancelled")
            [notice] = await received(connection, "notifications/cancelled")
            called = next(line for line in lives.said["server"] if line.startswith("hang "))
            assert called == f"hang {notice['requestId']}"


@pytest.mark.parametrize("era", ERAS)
async def test_each_of_many_cancelled_calls_is_told_by_its_own_id_also_when_the_connection_is_left(
    era: str,
) -> None:
    """The outer scope is cancelled: calls, body and connection at once; the notices still go out first."""
    with trio.fail_after(10):
        async with open_lives() as lives:
            with trio.CancelScope() as scope:
                opened = open_connection(peer(era=era, alive=lives.port))
                async with opened as connection, trio.open_nursery() as nursery:
                    for _ in range(20):
                        nursery.start_soon(connection.call_tool, "hang")
                    await lives.called(20)
                    scope.cancel()
            await lives.ended()
            assert lives.said["server"].count("notifications/cancelled") == 20
            assert lives.said["server"][-1] == "eof"


async def test_the_same_with_connect_when_the_nursery_is_cancelled() -> None:
    with trio.fail_after(10):
        async with open_lives() as lives:
            async with trio.open_nursery() as nursery:
                connection = await connect(nursery, peer(alive=lives.port))
                for _ in range(20):
                    nursery.start_soon(connection.call_tool, "hang")
                await lives.called(20)
                nursery.cancel_scope.cancel()
            await lives.ended()
            assert lives.said["server"].count("notifications/cancelled") == 20


@pytest.mark.parametrize("era", ERAS)
async def test_an_exception_in_on_progress_tells_the_server_too(era: str) -> None:
    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        raise ZeroDivisionError("in on_progress")

    step = '{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%TOKEN%,"progress":1}}\n'
    with trio.fail_after(10):
        async with open_connection(peer(era=era)) as connection:
            with pytest.raises(ZeroDivisionError):
                await connection.call_tool("say", raw(step, answer=False), on_progress=on_progress)
            assert connection.statistics().calls_in_flight == 0
            assert len(await received(connection, "notifications/cancelled")) == 1


@pytest.mark.parametrize(
    ("protocol", "methods"),
    [
        ("auto", ["server/discover", "initialize"]),
        ("modern", ["server/discover"]),
        ("legacy", ["initialize"]),
    ],
)
async def test_a_given_up_opening_sends_no_cancel_notice_for_the_probe_or_initialize(
    protocol: str, methods: list[str]
) -> None:
    source = "peer.message = lambda message: peer.tell(message['method'])"
    with trio.fail_after(10):
        async with open_lives() as lives:
            server = peer(protocol=protocol, source=source, alive=lives.port, stop_timeout=10)
            with trio.CancelScope() as scope:
                async with trio.open_nursery() as nursery:

                    async def open_it() -> None:
                        async with open_connection(server, limits=ClientLimits(probe_patience=0.05)):
                            raise AssertionError("it opened")

                    nursery.start_soon(open_it)
                    await lives.heard(methods[-1])
                    scope.cancel()
            await lives.ended()
            assert lives.said["server"] == [*methods, "eof"]


async def test_a_request_that_was_not_written_yet_is_taken_back_without_a_trace() -> None:
    """A stopped server: its pipe is full, and what waits behind can still be taken back."""
    with trio.fail_after(10):
        async with open_connection(peer()) as connection:
            pid = json.loads((await connection.call_tool("environment")).content)["pid"]
            os.kill(pid, signal.SIGSTOP)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(connection.call_tool, "echo", {"x": "x" * (1 << 20)})
                await wait_all_tasks_blocked()
                with trio.CancelScope() as scope:
                    nursery.start_soon(_cancel_when_blocked, scope)
                    await connection.call_tool("echo", {"never": "sent"})
                assert scope.cancelled_caught
                os.kill(pid, signal.SIGCONT)
            calls = [params["arguments"] for params in await received(connection, "tools/call")]
            assert {"never": "sent"} not in calls
            assert await received(connection, "notifications/cancelled") == []


async def _cancel_when_blocked(scope: trio.CancelScope) -> None:
    await wait_all_tasks_blocked()
    scope.cancel()


async def test_a_call_cancelled_half_written_leaves_whole_lines() -> None:
    with trio.fail_after(10):
        async with open_connection(peer()) as connection:
            with trio.CancelScope() as scope:
                scope.cancel()
                await connection.call_tool("echo", {"x": "x" * (5 << 20)})
            with trio.move_on_after(0.001):
                await connection.call_tool("echo", {"x": "x" * (5 << 20)})
            assert (await connection.call_tool("echo", {"after": 1})).content == '{"after": 1}'


# --- fault 45: callbacks run inside the receive loop


@pytest.mark.parametrize("era", ERAS)
async def test_on_progress_may_call_the_same_server(era: str) -> None:
    answers = []

    async with open_connection(peer(era=era)) as connection:

        async def on_progress(progress: float, total: float | None, message: str | None) -> None:
            answers.append((await connection.call_tool("echo", {"n": progress})).content)
            await connection.refresh_tools()

        with trio.fail_after(10):
            result = await connection.call_tool("progress", {"steps": 3}, on_progress=on_progress)
        assert result.content == "done"
        assert answers == ['{"n": 1.0}', '{"n": 2.0}', '{"n": 3.0}']


async def test_an_on_progress_that_never_returns_holds_up_no_other_call_and_can_be_cancelled() -> None:
    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        await trio.sleep_forever()

    with trio.fail_after(10):
        async with open_connection(peer()) as connection:
            with trio.CancelScope() as scope:
                async with trio.open_nursery() as nursery:

                    async def blocked() -> None:
                        await connection.call_tool("progress", {"steps": 5000}, on_progress=on_progress)

                    nursery.start_soon(blocked)
                    await wait_all_tasks_blocked()
                    for n in range(100):
                        assert (await connection.call_tool("echo", {"n": n})).content == f'{{"n": {n}}}'
                    scope.cancel()
            assert scope.cancelled_caught
            assert (await connection.call_tool("echo")).content == "{}"


async def test_on_stderr_is_called_in_order_and_all_of_it_is_delivered_before_the_connection_is_left() -> None:
    lines: list[str] = []
    source = "peer.eof = lambda: (write_all(2, b''.join(b'line %d\\n' % n for n in range(500))), os._exit(0))"
    with trio.fail_after(10):
        async with open_connection(peer(moan="first\n", source=source), on_stderr=lines.append):
            pass
    assert lines == ["first", *(f"line {n}" for n in range(500))]


# --- fault 46: serial start of many servers; a bad one fails or blocks all


@pytest.mark.slow
async def test_five_servers_start_side_by_side_and_bad_ones_cost_only_themselves() -> None:
    """One hangs, one crashes; the others take half a second each."""
    with trio.fail_after(20):
        async with open_lives() as lives:
            options = {"start_delay": 0.5, "alive": lives.port}
            servers = [
                peer("one", **options),
                peer("hangs", source="peer.message = lambda message: None", start_timeout=1.5, alive=lives.port),
                peer("two", **options),
                peer("crashes", die=9, alive=lives.port),
                peer("three", **options),
            ]
            began = trio.current_time()
            async with open_connections(servers, on_error="warn") as connections:
                assert trio.current_time() - began < 1.5 + AT_ONCE
                assert list(connections) == ["one", "two", "three"]
                assert set(connections.failed) == {"hangs", "crashes"}
                assert "start_timeout" in str(connections.failed["hangs"])
                assert "exited with status 9" in str(connections.failed["crashes"])
                for connection in connections.values():
                    assert (await connection.call_tool("echo")).content == "{}"
                assert {tool.name.split("__")[1] for tool in connections.tools} == {"one", "two", "three"}
            await lives.ended()


async def test_the_first_failure_leaves_bare_and_the_other_servers_are_gone() -> None:
    with trio.fail_after(20):
        async with open_lives() as lives:
            hanging = "peer.message = lambda message: None"
            servers = [
                peer("good", alive=lives.port),
                peer("hangs", source=hanging, alive=lives.port),
                peer("crashes", start_delay=0.3, source="os._exit(9)", alive=lives.port),
            ]
            with pytest.raises(ServerStartError) as caught:
                async with open_connections(servers):
                    raise AssertionError("it opened")
            assert caught.value.server == "crashes"
            await lives.ended()


@pytest.mark.slow
async def test_a_server_lost_later_costs_the_others_nothing_and_all_close_side_by_side() -> None:
    with trio.fail_after(20):
        servers = [peer(name, on_eof=0.4, stop_timeout=10) for name in ("one", "two", "three", "four")]
        async with open_connections(servers) as connections:
            with pytest.raises(ServerStoppedError):
                await connections["one"].call_tool("exit", {"status": 1})
            assert (await connections["two"].call_tool("echo")).content == "{}"
            assert connections["one"].error is not None
            assert connections["two"].error is None
            began = trio.current_time()
        assert trio.current_time() - began < 0.4 + 1


async def test_two_servers_of_one_name_are_refused_before_anything_starts() -> None:
    async with open_lives() as lives:
        servers = [peer("same", alive=lives.port), peer("same", alive=lives.port)]
        with pytest.raises(InvalidServerError, match="name"):
            async with open_connections(servers):
                raise AssertionError("it opened")
        assert not lives.starts


# --- fault 47: exception groups hide the one real error


class _OwnError(Exception):
    pass


@pytest.mark.parametrize("dies", [False, True])
async def test_an_exception_of_the_body_leaves_as_itself_also_when_the_server_died_meanwhile(dies: bool) -> None:
    async def body(connection: Connection) -> None:
        if dies:
            with suppress(ServerStoppedError):
                await connection.call_tool("exit", {"status": 1})
        raise _OwnError

    with trio.fail_after(10):
        with pytest.raises(_OwnError):
            async with open_connection(peer()) as connection:
                await body(connection)
        with pytest.raises(_OwnError):
            async with open_connections([peer("one"), peer("two")]):
                raise _OwnError


async def test_a_group_raised_by_the_body_is_left_as_it_is() -> None:
    group = ExceptionGroup("mine", [ValueError("only one in it")])
    with trio.fail_after(10):
        with pytest.raises(ExceptionGroup) as caught:
            async with open_connection(peer()):
                raise group
        assert caught.value is group
        with pytest.raises(ExceptionGroup) as caught:
            async with open_connections([peer("one"), peer("two")]):
                raise group
        assert caught.value is group


async def test_a_lost_server_leaves_the_scope_bare() -> None:
    with trio.fail_after(10):
        with pytest.raises(ServerStoppedError, match="exited with status 6"):
            async with open_connection(peer()) as connection:
                await connection.call_tool("exit", {"status": 6})
        with pytest.raises(ServerStartError):
            async with open_connection(peer(die=1)):
                raise AssertionError("it opened")


async def test_a_lost_connection_of_connect_cancels_nobody() -> None:
    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            connection = await connect(nursery, peer())
            with pytest.raises(ServerStoppedError):
                await connection.call_tool("exit", {"status": 6})
            await connection.wait_done()
            await trio.lowlevel.checkpoint()  # nobody was cancelled
            with pytest.raises(MCPError):
                await connection.call_tool("echo")


async def test_a_failed_connect_raises_bare_and_leaves_the_nursery_alone() -> None:
    async def look(lives: Lives) -> None:
        async with trio.open_nursery() as nursery:
            with pytest.raises(ServerStartError):
                await connect(nursery, peer(die=1, alive=lives.port))
            await trio.lowlevel.checkpoint()
            assert not nursery.child_tasks
        await lives.ended()

    with trio.fail_after(10):
        async with open_lives() as lives:
            await look(lives)
