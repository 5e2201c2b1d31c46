"""Openings that fail: too slow, exited, refused. What the error says, at which second, and what is left."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock

from tests.fakes import DEAF_TO_TERM, LEGACY, MODERN, FakeHost, FakeProcess, after, exiting, serving
from trio_mcp import RequestError, Server, ServerStartError, ServerStoppedError, open_connection
from trio_mcp.transports.limits import ProcessLimits

TERM_GRACE = ProcessLimits().term_grace

ENV = {"PATH": "/bin"}
SERVER = Server("s", command="/bin/server", env=ENV)
DISCOVER, INITIALIZE = MODERN["server/discover"], LEGACY["initialize"]

MODERN_OPENING = ["server/discover", "tools/list"]
LEGACY_OPENING = ["initialize", "notifications/initialized", "tools/list"]


def server(**fields: Any) -> Server:
    return Server("s", command="/bin/server", env=ENV, **fields)


async def opened(it: Server = SERVER, **options: Any) -> tuple[str, float]:
    """The revision agreed on, and at which second."""
    with trio.fail_after(10_000):
        async with open_connection(it, **options) as connection:
            at = trio.current_time()
            assert [tool.remote_name for tool in connection.tools] == ["echo"]
            return connection.protocol_version, at


async def start_error(it: Server = SERVER) -> ServerStartError:
    with trio.fail_after(10_000), pytest.raises(ServerStartError) as caught:
        async with open_connection(it):
            pass
    return caught.value


def notes(error: BaseException) -> str:
    return "\n".join(error.__notes__)


# --- start_timeout

SILENT: dict[str, dict[str, Any]] = {
    "the probe": {"server/discover": None, "initialize": None},
    "the handshake": {**LEGACY, "initialize": None},
    "the listing": {**LEGACY, "tools/list": None},
    "the modern listing": {**MODERN, "tools/list": None},
}


@pytest.mark.parametrize("phase", SILENT)
async def test_start_timeout_bounds_each_phase(host: FakeHost, autojump_clock: MockClock, phase: str) -> None:
    host.scripts = [serving(SILENT[phase])]
    error = await start_error(server(start_timeout=10))
    assert trio.current_time() == 10, "a polite server adds nothing"
    assert str(error) == 'server "s" did not start: it was not ready within 10 s (start_timeout)'
    assert error.returncode is None
    assert host.processes[0].handle.names[-1] == "release"


async def test_start_timeout_bounds_all_phases_together(host: FakeHost, autojump_clock: MockClock) -> None:
    slow = {name: after(4, reply) for name, reply in LEGACY.items()}
    host.scripts = [serving({**slow, "server/discover": None})]
    await start_error(server(start_timeout=10))  # 3 + 4, and 4 more would be 11
    assert trio.current_time() == 10
    host.scripts = [serving({**slow, "server/discover": None})]
    began = trio.current_time()
    await opened(server(start_timeout=11.5))
    assert trio.current_time() == began + 8, "the era is known by now"


async def test_the_whole_ladder_comes_on_top_of_start_timeout(host: FakeHost, autojump_clock: MockClock) -> None:
    host.scripts = [serving({}, deaf_to_eof=True)]
    host.make = lambda: FakeProcess(DEAF_TO_TERM)
    host.scripts = [serving(SILENT["the probe"], deaf_to_eof=True)]
    await start_error(server(start_timeout=10, stop_timeout=5))
    assert trio.current_time() == 10 + 5 + TERM_GRACE
    assert host.processes[0].handle.log[-1] == (17, "release")


async def test_without_start_timeout_a_slow_server_has_all_the_time(
    host: FakeHost, autojump_clock: MockClock
) -> None:
    host.scripts = [serving({**MODERN, "server/discover": after(5000, DISCOVER), "initialize": None})]
    assert await opened(server(start_timeout=None)) == ("2026-07-28", 5000)


async def test_the_error_of_a_timeout_has_the_tail_of_stderr(host: FakeHost, autojump_clock: MockClock) -> None:
    async def complain(process: FakeProcess) -> None:
        await process.errors.send_all(b"waiting for the database\n")
        await serving(SILENT["the probe"])(process)

    host.scripts = [complain]
    error = await start_error(server(start_timeout=10))
    assert error.stderr_tail == "waiting for the database\n"
    assert "waiting" not in str(error)
    assert "waiting for the database" in notes(error)


# --- exits


async def test_a_legacy_server_that_exits_on_the_probe_is_started_once_more_and_initialized_plainly(
    host: FakeHost, autojump_clock: MockClock
) -> None:
    host.scripts = [serving({**LEGACY, "server/discover": exiting(1, b"unknown method\n")})]
    assert await opened() == ("2025-11-25", 0)
    assert [process.methods for process in host.processes] == [["server/discover"], LEGACY_OPENING]


async def test_and_that_is_remembered(host: FakeHost, autojump_clock: MockClock) -> None:
    host.scripts = [serving({**LEGACY, "server/discover": exiting(1)})]
    await opened()
    await opened()
    assert [process.methods for process in host.processes[2:]] == [LEGACY_OPENING]


async def test_a_broken_command_costs_two_starts_and_the_error_has_both_tails(
    host: FakeHost, autojump_clock: MockClock
) -> None:
    host.scripts = [
        serving({"server/discover": exiting(2, b"missing API_KEY\n")}),
        serving({"initialize": exiting(3, b"still missing API_KEY\n")}),
    ]
    error = await start_error()
    assert trio.current_time() == 0
    assert len(host.processes) == 2
    assert str(error) == 'server "s" did not start: exited with status 3'
    assert (error.returncode, error.stderr_tail) == (3, "still missing API_KEY\n")
    assert "stderr of the first start: missing API_KEY" in notes(error)
    assert "stderr: still missing API_KEY" in notes(error)
    assert isinstance(error.__cause__, ServerStoppedError)
    assert all(process.handle.names[-1] == "release" for process in host.processes)


@pytest.mark.parametrize("protocol", ["modern", "legacy", "2025-06-18", "2026-07-28"])
async def test_only_auto_starts_a_server_twice(host: FakeHost, autojump_clock: MockClock, protocol: str) -> None:
    host.scripts = [serving({"server/discover": exiting(2), "initialize": exiting(2)})]
    await start_error(server(protocol=protocol))
    assert len(host.processes) == 1


async def test_when_only_junk_came_before_the_exit_the_note_shows_it(
    host: FakeHost, autojump_clock: MockClock
) -> None:
    async def usage(process: FakeProcess) -> None:
        await process.peer.send(b"usage: server [--stdio]\n")
        process.exit(64)

    host.scripts = [usage]
    error = await start_error()
    assert error.returncode == 64
    assert "usage: server [--stdio]" in notes(error)


async def test_an_exit_during_the_listing_is_a_start_error_with_its_cause(
    host: FakeHost, autojump_clock: MockClock
) -> None:
    host.scripts = [serving({**MODERN, "tools/list": exiting(9, b"why\n")})]
    error = await start_error()
    assert (error.returncode, error.stderr_tail) == (9, "why\n")
    assert isinstance(error.__cause__, ServerStoppedError)


async def test_a_listing_that_is_refused_is_a_start_error_with_its_cause(
    host: FakeHost, autojump_clock: MockClock
) -> None:
    host.scripts = [serving({**MODERN, "tools/list": RequestError(-32603, "oops")})]
    error = await start_error()
    assert str(error) == 'server "s" did not start: tools/list failed: oops (code -32603)'
    assert isinstance(error.__cause__, RequestError)


async def test_a_refused_handshake_is_a_start_error_with_the_servers_words(
    host: FakeHost, autojump_clock: MockClock
) -> None:
    host.scripts = [serving({"initialize": RequestError(-32602, "go away")})]
    assert "initialize failed: go away (code -32602)" in str(await start_error())
