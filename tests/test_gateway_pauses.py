"""open_gateway: when an upstream is started again, and how long opening waits. Upstreams and time are fakes."""

from __future__ import annotations

import logging
from itertools import pairwise

import pytest
import trio
from trio.testing import MockClock

from tests.fakes import LEGACY, FakeHost, FakeProcess, serving
from trio_mcp import Server, ToolServer, open_gateway
from trio_mcp.protocol.negotiation import ERAS
from trio_mcp.server.registry import TOOLS_CHANGED
from trio_mcp.transports.stdio import transport as stdio

NAMED = "mcp__s__echo"


@pytest.fixture(autouse=True)
def _no_era_is_remembered() -> None:
    ERAS.clear()


@pytest.fixture
def host(nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch) -> FakeHost:
    host = FakeHost(nursery, serving(LEGACY))
    monkeypatch.setattr(stdio, "start_process", host.start_process)
    return host


def server(name: str = "s", *, start_timeout: float | None = 60.0) -> Server:
    return Server(
        name, command="/bin/server", env={"PATH": "/bin"}, protocol="legacy", start_timeout=start_timeout
    )


def listed(gateway: ToolServer) -> list[str]:
    return [tool.name for tool in gateway.tools]


async def dies_at_once(process: FakeProcess) -> None:
    starts.append(trio.current_time())
    process.exit(1)


starts: list[float] = []


@pytest.fixture(autouse=True)
def _nothing_started() -> None:
    starts.clear()


def pauses() -> list[float]:
    """The seconds between the starts, without what a start and an end take themselves."""
    return [float(round(after - before)) for before, after in pairwise(starts)]


async def test_the_pauses_between_starts_are_doubled_up_to_a_minute(
    host: FakeHost, autojump_clock: MockClock
) -> None:
    host.scripts = [dies_at_once]
    with trio.move_on_after(400):
        async with open_gateway([server()]):
            await trio.sleep_forever()
    assert pauses()[:9] == [1, 2, 4, 8, 16, 32, 60, 60, 60]


@pytest.mark.parametrize(("lives", "expected"), [(61, [62, 62, 62, 62]), (50, [51, 52, 54, 58])])
async def test_one_that_stays_up_for_a_minute_is_started_again_after_a_second(
    host: FakeHost, autojump_clock: MockClock, lives: float, expected: list[float]
) -> None:
    async def live(process: FakeProcess) -> None:
        starts.append(trio.current_time())
        process.tasks.start_soon(serving(LEGACY), process)
        await trio.sleep(lives)
        process.exit(0)

    host.scripts = [live]
    with trio.move_on_after(400):
        async with open_gateway([server()]):
            await trio.sleep_forever()
    assert pauses()[:4] == expected


async def test_a_flapping_server_is_warned_of_once(
    host: FakeHost, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    host.scripts = [dies_at_once]
    with trio.move_on_after(300):
        async with open_gateway([server()]):
            await trio.sleep_forever()
    said = [level for name, level, _ in caplog.record_tuples if name == "trio_mcp.gateway"]
    assert len(starts) > 5
    assert said.count(logging.WARNING) == 1


async def test_opening_waits_ten_seconds_for_a_slow_server_whose_tools_follow(
    host: FakeHost, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async def slow(process: FakeProcess) -> None:
        await trio.sleep(25)
        await serving(LEGACY)(process)

    host.scripts = [slow]
    began = trio.current_time()
    async with open_gateway([server(start_timeout=None)]) as gateway:
        assert trio.current_time() - began == pytest.approx(10)
        assert listed(gateway) == []
        assert 'server "s" is still starting: its tools will follow' in caplog.text
        changed = trio.Event()
        gateway.changes.listen(TOOLS_CHANGED, "test", changed.set)
        await changed.wait()
        assert trio.current_time() - began == pytest.approx(25)
        assert listed(gateway) == [NAMED]


async def test_opening_waits_no_longer_than_the_last_server_takes(
    host: FakeHost, autojump_clock: MockClock
) -> None:
    async def slow(process: FakeProcess) -> None:
        await trio.sleep(4)
        await serving(LEGACY)(process)

    host.scripts = [slow]
    began = trio.current_time()
    async with open_gateway([server(), server("t")]) as gateway:
        assert trio.current_time() - began == pytest.approx(4)
        assert listed(gateway) == [NAMED, "mcp__t__echo"]


async def test_the_tools_of_a_lost_server_are_gone_before_it_has_ended(
    host: FakeHost, autojump_clock: MockClock
) -> None:
    """It has closed its output, and takes its time to exit."""

    async def close_output(process: FakeProcess) -> None:
        process.tasks.start_soon(serving(LEGACY, deaf_to_eof=True), process)
        await trio.sleep(5)
        process.let_go()

    host.scripts = [close_output]
    async with open_gateway([server()]) as gateway:
        assert listed(gateway) == [NAMED]
        changed = trio.Event()
        gateway.changes.listen(TOOLS_CHANGED, "test", changed.set)
        began = trio.current_time()
        await changed.wait()
        assert listed(gateway) == []
        assert trio.current_time() - began < 5 + 1
        assert not host.processes[0].handle.has_died
