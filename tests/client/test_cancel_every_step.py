"""A cancel at every step of opening, calling, listening and closing leaves nothing behind.

A scenario is run once to the end, and then again and again: each time it is cancelled one task step later (a step
is what a task does between two yields to trio), until it is over before the cancel comes. After each run: nothing
was raised but the cancel, and no process is left, no task, no pending entry and no descriptor.

Beside fake processes every step is taken, in virtual time. Beside real children steps are sampled: their number
varies from run to run, and each run takes the time that a child takes.
"""

from __future__ import annotations

import random
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from tests.conftest import open_descriptors, processes
from tests.depth import is_thorough
from tests.fakes import (
    DEAF_TO_EOF,
    ECHO_TOOL,
    LEGACY,
    MODERN,
    POLITE,
    FakeHost,
    FakeProcess,
    Manners,
    exiting,
    serving,
    text,
)
from tests.far_end import Message
from tests.peers import peer
from trio_mcp import Server, connect, open_connection, open_connections
from trio_mcp.protocol.negotiation import ERAS
from trio_mcp.transports.stdio import transport as stdio
from trio_mcp.transports.stdio.transport import StdioTransport

#: Real runs stop after so many seconds, and not before so many steps; there are more than that is enough for.
SECONDS, FEWEST = (5.0, 5) if is_thorough() else (1.0, 2)
#: No scenario has more steps; one that never ends by itself would go on for ever.
MOST_STEPS = 3000

Scenario = Callable[[Server], Awaitable[None]]


class CancelAt(trio.abc.Instrument):
    """Cancels `scope` before the task step of this number; counts from when the scope is given."""

    def __init__(self, step: int) -> None:
        self.step = step
        self.steps = 0
        self.scope: trio.CancelScope | None = None

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        if self.scope is not None:
            self.steps += 1
            if self.steps == self.step:
                self.scope.cancel()


# --- what is cancelled


async def use(connection: Any) -> None:
    async def on_progress(*_: object) -> None:
        await trio.lowlevel.checkpoint()

    await connection.call_tool("echo", {"text": "a"}, on_progress=on_progress)


async def scoped(server: Server) -> None:
    async with open_connection(server, on_stderr=str) as connection:
        async with trio.open_nursery() as nursery:
            for _ in range(2):
                nursery.start_soon(use, connection)
        async with connection.watch_tools():
            await connection.refresh_tools()


async def in_a_nursery(server: Server) -> None:
    async with trio.open_nursery() as nursery:
        connection = await connect(nursery, server, on_stderr=str)
        await use(connection)
        await connection.aclose()


async def side_by_side(server: Server) -> None:
    servers = [server, Server("other", command=server.command, args=server.args, env=server.env)]
    async with open_connections(servers, on_error="warn") as connections:
        await use(next(iter(connections.values())))


async def closed_inside(server: Server) -> None:
    async with open_connection(server) as connection, trio.open_nursery() as nursery:
        nursery.start_soon(connection.wait_done)
        await connection.aclose()


# --- beside fakes: every step


async def progressing(process: FakeProcess, message: Message) -> None:
    """Some progress, some stderr, then the answer."""
    token = message["params"].get("_meta", {}).get("progressToken")
    for number in range(2):
        params = {"progressToken": token, "progress": number}
        await process.peer.send({"method": "notifications/progress", "params": params})
    await process.errors.send_all(b"called\n")
    await process.peer.answer(message, text("done"))


async def listening(process: FakeProcess, _: Message) -> None:
    await process.peer.send({"method": "notifications/subscriptions/acknowledged"})


FAKES: dict[str, tuple[Manners, list[Any]]] = {
    "modern": (POLITE, [serving({**MODERN, "tools/call": progressing, "subscriptions/listen": listening})]),
    "legacy": (POLITE, [serving({**LEGACY, "tools/call": progressing})]),
    "silent on the probe": (POLITE, [serving({**LEGACY, "server/discover": None, "tools/call": progressing})]),
    "started twice": (
        POLITE,
        [
            serving({"server/discover": exiting(1)}),
            serving({**LEGACY, "tools/call": progressing}),
        ],
    ),
    "deaf to EOF": (DEAF_TO_EOF, [serving({**MODERN, "tools/call": progressing}, deaf_to_eof=True)]),
}


#: Each fake and each scenario at least once; all pairs would take minutes.
PAIRS = [
    ("modern", scoped),
    ("modern", in_a_nursery),
    ("modern", side_by_side),
    ("modern", closed_inside),
    ("legacy", scoped),
    ("silent on the probe", in_a_nursery),
    ("started twice", scoped),
    ("deaf to EOF", in_a_nursery),
]


@pytest.mark.slow
@pytest.mark.parametrize(("fake", "scenario"), PAIRS, ids=[f"{fake}-{it.__name__}" for fake, it in PAIRS])
def test_beside_a_fake_process(fake: str, scenario: Scenario, monkeypatch: pytest.MonkeyPatch) -> None:
    manners, scripts = FAKES[fake]
    transports: list[StdioTransport] = []
    start = StdioTransport.start

    async def recorded(*args: Any, **options: Any) -> StdioTransport:
        transports.append(await start(*args, **options))
        return transports[-1]

    monkeypatch.setattr(StdioTransport, "start", recorded)

    async def run(instrument: CancelAt) -> None:
        tasks_before = trio.lowlevel.current_statistics().tasks_living
        async with trio.open_nursery() as nursery:
            host = FakeHost(nursery, *scripts)
            host.make = lambda: FakeProcess(manners)
            monkeypatch.setattr(stdio, "start_process", host.start_process)
            with trio.fail_after(1000), trio.CancelScope() as instrument.scope:
                await scenario(Server("s", command="/bin/server", env={"PATH": "/bin"}))
            assert all(process.handle.names[-1] == "release" for process in host.processes)
            nursery.cancel_scope.cancel()
        assert [
            transport.statistics().in_flight for transport in transports if transport.statistics().in_flight
        ] == []
        assert trio.lowlevel.current_statistics().tasks_living == tasks_before

    steps = 0
    for step in range(1, MOST_STEPS):
        ERAS.clear()
        transports.clear()
        instrument = CancelAt(step)
        trio.run(run, instrument, clock=MockClock(autojump_threshold=0), instruments=[instrument])
        if instrument.steps < step:
            break
        steps += 1
    assert steps > 20, "the scenario was cancelled in the middle"
    assert step < MOST_STEPS - 1


# --- beside real children: a sample


@pytest.mark.slow
@pytest.mark.parametrize(
    ("era", "scenario"), [("modern", scoped), ("legacy", in_a_nursery)], ids=["modern", "legacy"]
)
def test_beside_a_real_child(era: str, scenario: Scenario, nothing_left: dict[str, str]) -> None:
    (mark,) = nothing_left.values()
    children_before, descriptors_before = processes(mark), open_descriptors()

    async def run(instrument: CancelAt) -> None:
        tasks_before = trio.lowlevel.current_statistics().tasks_living
        descriptors = open_descriptors()
        with trio.fail_after(20):
            with trio.CancelScope() as instrument.scope:
                await scenario(peer(era=era, children=["quiet"], listed=[ECHO_TOOL], list_changed=True))
            instrument.scope = None
        left = processes(mark).keys() - children_before.keys()
        assert not left, "the whole group is gone the moment the scope is left"
        assert open_descriptors().keys() == descriptors.keys()
        assert trio.lowlevel.current_statistics().tasks_living == tasks_before

    whole = CancelAt(0)
    trio.run(run, whole, instruments=[whole])
    steps = list(range(1, whole.steps + 1))
    random.Random(0).shuffle(steps)
    began = time.monotonic()
    done = 0
    for step in steps:
        if done >= FEWEST and time.monotonic() - began > SECONDS:
            break
        instrument = CancelAt(step)
        trio.run(run, instrument, instruments=[instrument])
        done += 1
    assert open_descriptors().keys() == descriptors_before.keys()
    assert done >= FEWEST
