"""`open_connection` as a scope: what leaves it, in which shape, and in which order things die in it."""

from __future__ import annotations

import gc
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest
import trio
from trio.testing import MockClock, assert_checkpoints, wait_all_tasks_blocked

from tests.fakes import DEAF_TO_TERM, MODERN, FakeHost, FakeProcess, exiting, serving
from trio_mcp import Connection, InvalidServerError, Server, ServerStartError, ServerStoppedError, open_connection
from trio_mcp.transports.limits import ProcessLimits

TERM_GRACE = ProcessLimits().term_grace

SERVER = Server("s", command="/bin/server", env={"PATH": "/bin"})
HANGING = serving({**MODERN, "tools/call": None})


async def crash() -> None:
    raise RuntimeError("internal")


# --- errors


async def test_an_error_of_the_body_leaves_bare(host: FakeHost) -> None:
    error = ValueError("mine")
    with trio.fail_after(5), pytest.raises(ValueError) as caught:
        async with open_connection(SERVER):
            raise error
    assert caught.value is error
    assert not hasattr(error, "__notes__")


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, GeneratorExit])
async def test_so_does_what_is_no_exception(host: FakeHost, kind: type[BaseException]) -> None:
    error = kind()
    with trio.fail_after(5), pytest.raises(kind) as caught:
        async with open_connection(SERVER):
            raise error
    assert caught.value is error


async def test_a_group_of_the_body_leaves_as_it_is(host: FakeHost) -> None:
    group = ExceptionGroup("mine", [ValueError("one")])
    with trio.fail_after(5), pytest.raises(ExceptionGroup) as caught:
        async with open_connection(SERVER):
            raise group
    assert caught.value is group
    assert not hasattr(group, "__notes__"), "nothing else went wrong"


async def test_the_bodys_context_and_cause_stay(host: FakeHost) -> None:
    cause = OSError("below")
    with trio.fail_after(5), pytest.raises(ValueError) as caught:
        async with open_connection(SERVER):
            raise ValueError("above") from cause
    assert caught.value.__cause__ is cause


async def with_a_crash(body: Callable[[], Awaitable[None]]) -> None:
    """A connection one of whose own tasks crashes beside this body."""
    with trio.fail_after(5):
        async with open_connection(SERVER) as connection:
            connection._client.start_soon(crash)
            await body()


async def test_an_error_of_the_body_wins_over_an_internal_one_which_becomes_its_note(host: FakeHost) -> None:
    async def fail() -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise ValueError("mine")

    with pytest.raises(ValueError, match="mine") as caught:
        await with_a_crash(fail)
    assert any("internal" in note for note in caught.value.__notes__)


async def test_an_internal_error_under_a_body_that_waits_leaves_bare(host: FakeHost) -> None:
    """The body is cancelled by it; that Cancelled has done its duty, and must not get out."""
    with pytest.raises(RuntimeError, match="internal"):
        await with_a_crash(trio.sleep_forever)


async def test_an_internal_error_is_not_lost_in_an_outer_cancel(host: FakeHost) -> None:
    scope = trio.CancelScope()

    async def be_cancelled() -> None:
        scope.cancel()
        await trio.sleep_forever()

    with pytest.raises(RuntimeError, match="internal"), scope:
        await with_a_crash(be_cancelled)


async def test_a_start_error_leaves_bare(host: FakeHost) -> None:
    host.scripts = [serving({"server/discover": exiting(1), "initialize": exiting(1)})]
    with trio.fail_after(5), pytest.raises(ServerStartError):
        async with open_connection(SERVER):
            raise AssertionError("opened")


class OwnError(Exception):
    """One that nobody else raises."""


async def test_errors_leave_no_cycle_that_keeps_the_connection_alive(host: FakeHost) -> None:
    async def fail() -> None:
        async with open_connection(SERVER):
            raise OwnError

    gc.collect()
    gc.disable()
    try:
        with trio.fail_after(5), suppress(OwnError):
            await fail()
        assert [thing for thing in gc.get_objects() if type(thing) is OwnError] == []
    finally:
        gc.enable()


# --- lifetimes


async def test_leaving_the_scope_ends_the_process_and_sets_done(host: FakeHost) -> None:
    with trio.fail_after(5):
        async with open_connection(SERVER) as connection:
            assert not connection.done.is_set()
            assert host.processes[0].handle.names == []
    assert connection.done.is_set()
    assert connection.error is None
    assert host.processes[0].handle.names == ["EOF", "SIGTERM", "SIGCONT", "reap", "release"]


async def test_opening_and_closing_are_checkpoints(host: FakeHost) -> None:
    context = open_connection(SERVER)
    with trio.fail_after(5):
        with assert_checkpoints():
            await context.__aenter__()
        with assert_checkpoints():
            await context.__aexit__(None, None, None)


async def test_an_outer_cancel_bounds_the_body_and_is_caught_outside(host: FakeHost) -> None:
    with trio.fail_after(5):
        with trio.CancelScope() as scope:
            async with open_connection(SERVER):
                scope.cancel()
                await trio.sleep_forever()
        assert scope.cancelled_caught
    assert host.processes[0].handle.names[-1] == "release"


async def test_the_ladder_is_climbed_under_an_outer_cancel(host: FakeHost, autojump_clock: MockClock) -> None:
    host.scripts = [serving(MODERN, deaf_to_eof=True)]
    host.make = lambda: FakeProcess(DEAF_TO_TERM)
    with trio.move_on_after(1):
        async with open_connection(SERVER):
            await trio.sleep_forever()
    assert trio.current_time() == 1 + SERVER.stop_timeout + TERM_GRACE
    assert host.processes[0].handle.names[-1] == "release"


@pytest.mark.parametrize("silent", ["server/discover", "tools/list"])
async def test_a_cancelled_opening_leaves_nothing(host: FakeHost, silent: str) -> None:
    host.scripts = [serving({**MODERN, silent: None})]
    with trio.fail_after(5):
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_hold_open)
                await wait_all_tasks_blocked()
                scope.cancel()
        assert scope.cancelled_caught
    assert host.processes[0].handle.names[-1] == "release"


async def _hold_open() -> None:
    async with open_connection(SERVER):
        raise AssertionError("opened")


async def test_an_opening_in_a_cancelled_scope_starts_nothing(host: FakeHost) -> None:
    with trio.fail_after(5), trio.CancelScope() as scope:
        scope.cancel()
        await _hold_open()
    assert scope.cancelled_caught
    assert host.processes == []


async def test_a_call_that_an_outer_cancel_ends_still_tells_the_server(host: FakeHost) -> None:
    """The body dies first: were the writer in the same scope, the notice would be lost."""
    host.scripts = [HANGING]
    with trio.fail_after(5), trio.CancelScope() as scope:
        async with open_connection(SERVER) as connection, trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(connection.call_tool, "echo")
            await wait_all_tasks_blocked()
            scope.cancel()
    (process,) = host.processes
    asked = [message["id"] for message in process.heard if message["method"] == "tools/call"]
    told = [params["requestId"] for params in process.params("notifications/cancelled")]
    assert sorted(told) == asked
    assert len(asked) == 3


async def test_a_shielded_cleanup_in_the_body_can_still_call(host: FakeHost) -> None:
    with trio.fail_after(5), trio.CancelScope() as scope:
        async with open_connection(SERVER) as connection:
            try:
                scope.cancel()
                await trio.sleep_forever()
            finally:
                with trio.CancelScope(shield=True):
                    result = await connection.call_tool("echo", {"last": True})
    assert result.content == '{"last": true}'


async def test_calls_of_other_tasks_under_the_same_cancel_tell_the_server_too(host: FakeHost) -> None:
    """The body, too, leaves with a group of `Cancelled` where it holds a nursery."""
    host.scripts = [HANGING]

    async def hold(outer: trio.Nursery) -> None:
        async with open_connection(SERVER) as connection, trio.open_nursery() as inner:
            inner.start_soon(trio.sleep_forever)
            for _ in range(10):
                outer.start_soon(connection.call_tool, "echo")
            await wait_all_tasks_blocked()
            outer.cancel_scope.cancel()

    with trio.fail_after(5):
        async with trio.open_nursery() as outer:
            await hold(outer)
    assert len(host.processes[0].params("notifications/cancelled")) == 10


async def test_calls_of_other_tasks_fail_as_closed_when_the_body_ends(host: FakeHost) -> None:
    host.scripts = [HANGING]
    failed = trio.Event()

    async def call(connection: Connection) -> None:
        with pytest.raises(trio.ClosedResourceError, match='the connection to "s" was closed'):
            await connection.call_tool("echo")
        failed.set()

    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            async with open_connection(SERVER) as connection:
                nursery.start_soon(call, connection)
                await wait_all_tasks_blocked()
            await failed.wait()
            with pytest.raises(trio.ClosedResourceError):
                await connection.call_tool("echo")


async def test_a_loss_does_not_cancel_the_body(host: FakeHost) -> None:
    with trio.fail_after(5):
        async with open_connection(SERVER) as connection:
            host.processes[0].exit(7)
            await connection.wait_done()
            assert isinstance(connection.error, ServerStoppedError)
            assert connection.error.returncode == 7
            await trio.lowlevel.checkpoint()
            for _ in range(2):
                with pytest.raises(ServerStoppedError) as caught:
                    await connection.call_tool("echo")
                assert caught.value == connection.error
                assert caught.value is not connection.error
    assert connection.error.returncode == 7


async def test_two_connections_to_one_server_are_two_processes(host: FakeHost) -> None:
    with trio.fail_after(5):
        async with open_connection(SERVER) as one, open_connection(SERVER) as other:
            await one.aclose()
            assert (await other.call_tool("echo")).content == "{}"
    assert len(host.processes) == 2


async def test_its_repr_tells_version_state_and_tools(host: FakeHost) -> None:
    with trio.fail_after(5):
        async with open_connection(SERVER) as connection:
            assert repr(connection) == "<Connection 's' 2026-07-28 open, 1 tools>"
    assert repr(connection) == "<Connection 's' 2026-07-28 ended, 1 tools>"


# --- wrong arguments


class Unencodable:
    """No JSON value."""


BAD_OPTIONS: list[tuple[dict[str, Any], str]] = [
    ({"server": None}, "server: expected a Server, got NoneType"),
    ({"server": "s"}, "server: expected a Server, got str"),
    ({"client_info": "me"}, "client_info: expected a mapping, got str"),
    ({"client_info": {}}, "client_info: name: expected a str, got NoneType"),
    ({"client_info": {"name": "me"}}, "client_info: version: expected a str, got NoneType"),
    ({"client_info": {"name": "me", "version": 1}}, "client_info: version: expected a str, got int"),
    ({"client_info": {"name": "me", "version": "1", "x": Unencodable()}}, "client_info: .*"),
    ({"client_info": {"name": "me", "version": "1", "x": float("nan")}}, "client_info: .*"),
    ({"client_info": {"name": "\ud800", "version": "1"}}, "client_info: .*"),
    ({"on_stderr": 7}, "on_stderr: expected a function, got int"),
    ({"on_log": 7}, "on_log: expected a function, got int"),
    ({"on_elicit": 7}, "on_elicit: expected a function, got int"),
]


@pytest.mark.parametrize(("options", "text"), BAD_OPTIONS, ids=[text for _, text in BAD_OPTIONS])
async def test_a_wrong_argument_is_named_before_anything_is_started(
    host: FakeHost, options: dict[str, Any], text: str
) -> None:
    with trio.fail_after(5), pytest.raises(InvalidServerError, match=f"^{text}$") as caught:
        async with open_connection(**{"server": SERVER, **options}):
            raise AssertionError("opened")
    assert caught.value.field == text.partition(":")[0]
    assert host.processes == []
