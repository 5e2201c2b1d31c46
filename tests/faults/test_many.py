"""Many at once: calls in flight, cancels of a server that does not read, connections. All of it on one machine's
two cores, so that what is asserted is that it ends, and what it leaves; speed is the business of benchmarks/."""

from __future__ import annotations

import json
import os
import signal
import time

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from tests.peers import ERAS, open_lives, peer
from trio_mcp import ClientLimits, Connection, ServerStoppedError, open_connection, open_connections
from trio_mcp.transports.limits import LineLimits

AT_ONCE = 2.0


@pytest.mark.slow
@pytest.mark.parametrize("era", ERAS)
async def test_10000_calls_in_flight_on_one_connection_are_all_answered(era: str) -> None:
    """The server answers none before it has all, and then the last one first."""
    count = 10_000
    answers: dict[int, str] = {}

    async def call(connection: Connection, n: int) -> None:
        answers[n] = (await connection.call_tool("gather", {"n": n, "count": count})).content

    with trio.fail_after(60):
        async with open_connection(peer(era=era)) as connection:
            before = connection.statistics().calls_done
            async with trio.open_nursery() as nursery:
                for n in range(count):
                    nursery.start_soon(call, connection, n)
                await wait_all_tasks_blocked()
                assert connection.statistics().calls_in_flight == count
            assert answers == {n: str(n) for n in range(count)}
            statistics = connection.statistics()
            assert statistics.calls_in_flight == statistics.calls_failed == statistics.late_answers == 0
            assert statistics.calls_done - before == count


async def test_2000_calls_in_flight_all_fail_at_once_when_the_server_dies() -> None:
    count = 2000
    failed = 0

    async def call(connection: Connection) -> None:
        nonlocal failed
        with pytest.raises(ServerStoppedError, match="was killed by SIGKILL"):
            await connection.call_tool("gather", {"n": 0, "count": count + 1})
        failed += 1

    with trio.fail_after(60):
        async with open_connection(peer()) as connection:
            pid = json.loads((await connection.call_tool("environment")).content)["pid"]
            async with trio.open_nursery() as nursery:
                for _ in range(count):
                    nursery.start_soon(call, connection)
                await wait_all_tasks_blocked()
                os.kill(pid, signal.SIGKILL)
                await connection.wait_done()
                began = trio.current_time()
            assert trio.current_time() - began < AT_ONCE
    assert failed == count


class _Waits(trio.abc.Instrument):
    """How often trio has had nothing to do but to wait."""

    def __init__(self) -> None:
        self.count = 0

    def before_io_wait(self, timeout: float) -> None:
        self.count += timeout > 0


@pytest.mark.slow
async def test_2000_cancels_of_a_stopped_server_return_at_once_and_closing_still_works() -> None:
    """It reads nothing, so that neither calls nor notices can be written. "At once": nobody waits for anything."""
    waits = _Waits()
    with trio.fail_after(30):
        async with open_lives() as lives:
            async with open_connection(peer(alive=lives.port, stop_timeout=0.1)) as connection:
                pid = json.loads((await connection.call_tool("environment")).content)["pid"]
                os.kill(pid, signal.SIGSTOP)
                with trio.CancelScope() as scope:
                    async with trio.open_nursery() as nursery:
                        for _ in range(2000):
                            nursery.start_soon(connection.call_tool, "hang", {"x": "x" * 1000})
                        await wait_all_tasks_blocked()
                        assert connection.statistics().calls_in_flight == 2000
                        began = time.process_time()
                        trio.lowlevel.add_instrument(waits)
                        scope.cancel()
                trio.lowlevel.remove_instrument(waits)
                assert waits.count == 0
                assert time.process_time() - began < AT_ONCE
                assert connection.statistics().calls_in_flight == 0
                began = trio.current_time()
            assert trio.current_time() - began < 0.1 + 5
            await lives.ended()


@pytest.mark.slow
async def test_a_server_that_never_reads_holds_back_its_callers_and_not_their_memory() -> None:
    """Beyond the limit of waiting lines a call waits for room, where it can be cancelled like any other."""
    limits = LineLimits(backlog=4 << 20, max_unread=8 << 20)
    with trio.fail_after(30):
        async with open_connection(peer(stop_timeout=0.1), limits=ClientLimits(lines=limits)) as connection:
            pid = json.loads((await connection.call_tool("environment")).content)["pid"]
            os.kill(pid, signal.SIGSTOP)
            text = "x" * (512 << 10)
            with trio.CancelScope() as scope:
                async with trio.open_nursery() as nursery:
                    for _ in range(20):
                        nursery.start_soon(connection.call_tool, "echo", {"x": text})
                    await wait_all_tasks_blocked()
                    assert connection.statistics().calls_in_flight == 20
                    handed_over = connection._client._transport.statistics().in_flight
                    assert 8 <= handed_over <= 9
                    scope.cancel()
            assert connection.error is None
            assert connection.statistics().calls_in_flight == 0


async def test_a_server_that_never_reads_is_given_up_when_what_cannot_be_held_back_gathers() -> None:
    """Answers to its own pings: it asks for ever and reads nothing."""
    limits = LineLimits(backlog=1 << 20, max_unread=2 << 20)
    source = """
def hang(peer, id_, arguments, meta):
    line = b'{"jsonrpc":"2.0","id":"' + b"q" * 1000 + b'","method":"ping"}\\n'
    while True:
        write_all(1, line * 100)
CALLS["hang"] = hang
"""
    with trio.fail_after(10):
        async with open_lives() as lives:
            server = peer(era="legacy", source=source, alive=lives.port, stop_timeout=0.1)
            async with open_connection(server, limits=ClientLimits(lines=limits)) as connection:
                with pytest.raises(ServerStoppedError, match="does not read"):
                    await connection.call_tool("hang")
                await lives.ended()


@pytest.mark.slow
async def test_30_servers_open_side_by_side_and_none_is_left() -> None:
    with trio.fail_after(60):
        async with open_lives() as lives:
            servers = [peer(f"s{n}", era=ERAS[n % 2], alive=lives.port, stop_timeout=10) for n in range(30)]
            async with open_connections(servers) as connections:
                assert len(connections) == 30
                async with trio.open_nursery() as nursery:
                    for connection in connections.values():
                        nursery.start_soon(connection.call_tool, "echo")
            await lives.ended()
            assert lives.starts["server"] == 30
