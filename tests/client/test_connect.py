"""`connect`: a connection that lives in the caller's nursery, like any task."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock, assert_checkpoints, wait_all_tasks_blocked

from tests.fakes import DEAF_TO_TERM, MODERN, FakeHost, FakeProcess, exiting, serving
from trio_mcp import Connection, InvalidServerError, Server, ServerStartError, ServerStoppedError, connect
from trio_mcp.transports.base import FLUSH_GRACE

SERVER = Server("s", command="/bin/server", env={"PATH": "/bin"})


async def test_it_keeps_the_nursery_open_until_aclose(host: FakeHost) -> None:
    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            with assert_checkpoints():
                connection = await connect(nursery, SERVER)
            assert len(nursery.child_tasks) == 1
            assert (await connection.call_tool("echo", {"a": 1})).content == '{"a": 1}'
            with assert_checkpoints():
                await connection.aclose()
            assert connection.done.is_set()
    assert connection.error is None
    assert host.processes[0].handle.names[-1] == "release"


async def test_cancelling_the_nursery_closes_it(host: FakeHost) -> None:
    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            connection = await connect(nursery, SERVER)
            nursery.cancel_scope.cancel()
    assert connection.done.is_set()
    assert connection.error is None
    assert host.processes[0].handle.names[-1] == "release"


async def test_a_cancelled_calls_notice_is_written_when_the_nursery_is_cancelled(host: FakeHost) -> None:
    host.scripts = [serving({**MODERN, "tools/call": None})]
    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            connection = await connect(nursery, SERVER)
            for _ in range(3):
                nursery.start_soon(connection.call_tool, "echo")
            await wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
    assert len(host.processes[0].params("notifications/cancelled")) == 3


async def test_new_calls_are_refused_and_others_may_leave_when_the_nursery_is_cancelled(
    host: FakeHost, autojump_clock: MockClock
) -> None:
    host.scripts = [serving({**MODERN, "tools/call": None})]
    refused = trio.Event()

    async def call_shielded(connection: Connection) -> None:
        with trio.CancelScope(shield=True), pytest.raises(trio.ClosedResourceError):
            await connection.call_tool("echo")
        assert trio.current_time() == FLUSH_GRACE
        with trio.CancelScope(shield=True), pytest.raises(trio.ClosedResourceError):
            await connection.call_tool("echo")
        refused.set()

    with trio.fail_after(100):
        async with trio.open_nursery() as nursery:
            connection = await connect(nursery, SERVER)
            nursery.start_soon(call_shielded, connection)
            await wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
    assert refused.is_set()
    assert trio.current_time() == FLUSH_GRACE


async def test_a_loss_neither_cancels_the_nursery_nor_keeps_it_open(host: FakeHost) -> None:
    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            connection = await connect(nursery, SERVER)
            host.processes[0].exit(3)
            await connection.wait_done()
            await wait_all_tasks_blocked()
            assert not nursery.cancel_scope.cancel_called
            assert len(nursery.child_tasks) == 0
    assert isinstance(connection.error, ServerStoppedError)


async def test_a_scope_around_it_bounds_the_opening_alone(host: FakeHost, autojump_clock: MockClock) -> None:
    with trio.fail_after(100):
        async with trio.open_nursery() as nursery:
            with trio.move_on_after(10) as scope:
                connection = await connect(nursery, SERVER)
            await trio.sleep(50)
            assert not scope.cancelled_caught
            assert (await connection.call_tool("echo")).content == "{}"
            await connection.aclose()


async def test_a_cancelled_opening_leaves_the_nursery_as_it_was(host: FakeHost, autojump_clock: MockClock) -> None:
    host.scripts = [serving({**MODERN, "server/discover": None, "initialize": None})]
    with trio.fail_after(100):
        async with trio.open_nursery() as nursery:
            with trio.move_on_after(10) as scope:
                await connect(nursery, SERVER)
            assert scope.cancelled_caught
            assert len(nursery.child_tasks) == 0
            assert host.processes[0].handle.names[-1] == "release"
            assert not nursery.cancel_scope.cancel_called


async def test_a_failed_opening_leaves_bare_and_the_nursery_as_it_was(host: FakeHost) -> None:
    host.scripts = [serving({"server/discover": exiting(1), "initialize": exiting(1)})]
    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            with pytest.raises(ServerStartError):
                await connect(nursery, SERVER)
            assert len(nursery.child_tasks) == 0
            assert not nursery.cancel_scope.cancel_called


async def test_a_close_from_a_cancelled_task_goes_on_without_it(host: FakeHost, autojump_clock: MockClock) -> None:
    host.scripts = [serving(MODERN, deaf_to_eof=True)]
    host.make = lambda: FakeProcess(DEAF_TO_TERM)
    with trio.fail_after(100):
        async with trio.open_nursery() as nursery:
            connection = await connect(nursery, SERVER)
            with trio.move_on_after(1) as scope:
                await connection.aclose()
            assert scope.cancelled_caught
            assert trio.current_time() == 1
            await connection.wait_done()
            assert trio.current_time() == 7
    assert host.processes[0].handle.names[-1] == "release"


@pytest.mark.parametrize("options", [{"client_info": 1}, {"on_stderr": 1}])
async def test_a_wrong_argument_is_named_before_anything_is_started(host: FakeHost, options: Any) -> None:
    async with trio.open_nursery() as nursery:
        with pytest.raises(InvalidServerError):
            await connect(nursery, SERVER, **options)
        with pytest.raises(InvalidServerError, match="server: expected a Server"):
            await connect(nursery, None)  # type: ignore[arg-type]
    assert host.processes == []


async def test_a_wrong_nursery_is_named(host: FakeHost) -> None:
    with pytest.raises(TypeError, match="nursery"):
        await connect(SERVER, SERVER)  # type: ignore[arg-type]


async def test_many_connections_live_in_one_nursery(host: FakeHost) -> None:
    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            connections = [await connect(nursery, SERVER) for _ in range(5)]
            await connections[0].aclose()
            for connection in connections[1:]:
                assert (await connection.call_tool("echo")).content == "{}"
            nursery.cancel_scope.cancel()
    assert all(process.handle.names[-1] == "release" for process in host.processes)
