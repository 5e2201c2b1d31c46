"""Many requests from many connections, some of whose clients hang up in the middle of an answer: nothing is left.

The suite runs a short one. `python tests/server/test_http_soak.py` runs 10,000 requests from 200 connections, and
prints what the server process was like in between.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.serving import Line  # noqa: E402 - run as a script, the tests are no package that is installed

PROGRAM = """
import gc, os, sys, trio
from functools import partial
from trio_mcp import Context, HttpApp, ServerLimits, ToolServer, serve_http, tool
from trio_mcp.server.http import legacy

limits = ServerLimits(connection_idle=float(sys.argv[1]))  # so long a connection is kept whose client has closed

@tool
async def echo(text: str) -> str:
    return text

@tool
async def report(text: str, context: Context) -> str:
    for step in range(3):
        await context.progress(step)
        await trio.sleep(0.002)
    return text

@tool
async def statistics() -> dict[str, int]:
    gc.collect()
    (found,) = (one for one in gc.get_objects() if isinstance(one, HttpApp))
    counts = found.statistics()
    return {
        "calls": counts.calls - 1,
        "streams": counts.streams,
        "sessions": counts.sessions,
        "session objects": sum(isinstance(one, legacy.HttpSession) for one in gc.get_objects()),
        "tasks": trio.lowlevel.current_statistics().tasks_living,
        "descriptors": len(os.listdir("/dev/fd")),
        "resident": int(open("/proc/self/statm").read().split()[1]) * 4096 if os.path.exists("/proc") else 0,
    }

server = ToolServer("soaked")
server.add_tools(echo, report, statistics)

async def main():
    async with trio.open_nursery() as nursery:
        print(await nursery.start(partial(serve_http, server, port=0, limits=limits)), flush=True)

trio.run(main)
"""

#: The share of requests whose client hangs up.
RUDE = 0.05


@attrs.define(eq=False)
class Soak:
    """One client process for the server on a port."""

    port: int
    keep_alive: float
    answered: int = 0
    hung_up: int = 0

    async def connect(self, session: str | None = None) -> Line:
        stream = await trio.open_tcp_stream("127.0.0.1", self.port)
        return Line(stream, f"127.0.0.1:{self.port}", session=session)

    async def statistics(self) -> dict[str, int]:
        """What the server says of itself, when nobody else is connected."""
        line = await self.connect()
        reply = await line.modern("tools/call", name="statistics", arguments={})
        await line.stream.aclose()
        found: dict[str, int] = reply.result["structuredContent"]
        return found

    async def client(self, requests: int, seed: int) -> None:
        """One client: requests one after the other, on one connection until it hangs up."""
        chance = random.Random(seed)
        is_legacy = seed % 2 == 0
        line = await self.connect()
        if is_legacy:
            await line.initialize()
        for number in range(requests):
            name, text = chance.choice(("echo", "report")), f"{seed}/{number}"
            params: dict[str, Any] = {"name": name, "arguments": {"text": text}}
            if is_legacy:
                await line.begin_legacy("tools/call", {**params, "_meta": {"progressToken": 1}}, number)
            else:
                await line.begin_modern("tools/call", number, **params, meta={"progressToken": 1})
            if chance.random() < RUDE:
                await trio.sleep(chance.random() * 0.02)
                if name == "report" and chance.random() < 0.5:
                    await line.head()
                await line.stream.aclose()
                self.hung_up += 1
                line = await self.connect(line.session)
                continue
            reply = await line.rest(await line.head())
            assert reply.status == 200, (reply, text)
            assert reply.result["content"] == [{"type": "text", "text": text}]
            self.answered += 1
        if is_legacy:
            assert (await line.ask("DELETE")).status == 204
        await line.stream.aclose()

    async def run(self, requests: int, connections: int) -> None:
        """All clients at once."""
        async with trio.open_nursery() as nursery:
            for seed in range(connections):
                nursery.start_soon(self.client, requests // connections, seed)

    async def settled(self, before: dict[str, int]) -> dict[str, int]:
        """What the server says once it has noticed that everybody has gone."""
        deadline = trio.current_time() + 20
        while True:
            await trio.sleep(self.keep_alive + 0.5)  # whoever asked last is a connection too
            found = await self.statistics()
            same = all(found[key] <= before[key] for key in before if key != "resident")
            if same or trio.current_time() > deadline:
                return found


@contextmanager
def soaked(keep_alive: float) -> Iterator[Soak]:
    """A server, which has nothing to complain of."""
    server = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(keep_alive)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert server.stdout is not None
    try:
        yield Soak(int(server.stdout.readline().split(":")[2].split("/")[0]), keep_alive)
    finally:
        server.terminate()
        _, said = server.communicate()
    assert said == ""


async def soak(soaking: Soak, requests: int, connections: int) -> list[dict[str, int]]:
    """The server's figures before, after one half, and after the other."""
    await soaking.run(connections * 2, connections)  # what is made once has been made
    soaking.answered = soaking.hung_up = 0
    await trio.sleep(soaking.keep_alive + 0.5)
    found = [await soaking.statistics()]
    for _ in range(2):
        await soaking.run(requests // 2, connections)
        found.append(await soaking.settled(found[0]))
    return found


def judge(found: list[dict[str, int]], soaking: Soak, requests: int) -> None:
    before, half, after = found
    assert soaking.answered + soaking.hung_up == requests
    assert soaking.hung_up > requests * RUDE / 2
    for now in (half, after):
        assert (now["calls"], now["streams"], now["sessions"], now["session objects"]) == (0, 0, 0, 0)
        assert now["tasks"] <= before["tasks"]
        assert now["descriptors"] <= before["descriptors"]
    assert after["resident"] < half["resident"] * 1.1


@pytest.mark.slow
async def test_nothing_is_left_of_many_requests_and_memory_is_flat() -> None:
    with soaked(1) as soaking, trio.fail_after(100):
        judge(await soak(soaking, 800, 40), soaking, 800)


async def _report() -> None:
    requests, connections = 10_000, 200
    with soaked(5) as soaking:
        began = time.monotonic()
        found = await soak(soaking, requests, connections)
        took = time.monotonic() - began
        figures: dict[str, Any] = {"before": found[0], "after one half": found[1], "after both": found[2]}
        print(json.dumps(figures, indent=1))
        print(f"{soaking.answered} answered, {soaking.hung_up} hung up, {took:.0f} s")
        judge(found, soaking, requests)


if __name__ == "__main__":
    trio.run(_report)
