"""One measurement of one client: `python benchmarks/measure.py CONTENDER WORK` prints a line of JSON.

WORK is a JSON object; its member "do" says which function of this file is measured. Each measurement has a
process to itself, so that neither the imports nor the garbage of one client count against another, and so that the
client's CPU time is the process's own. Whatever comes back is compared with what was sent.

The work runs through anyio, which adds one frame to a task and nothing to a call: so it is written once for trio
and asyncio. What it costs to start the tasks of a benchmark is not part of what is measured.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any

import anyio
from clients import http_floors, libraries, stdio_floors
from clients.blocking import blocking
from clients.clock import Instant, now, resident
from clients.target import Client, Target, target

WARM_UP = 100
#: A burst that is over sooner is repeated: some milliseconds of CPU time are noise on a shared machine.
ENOUGH_SECONDS = 0.5

Work = dict[str, Any]
Open = Callable[[Target], AbstractAsyncContextManager[Client]]
Found = dict[str, float]

#: How each contender is opened, and the backend that it runs on.
CLIENTS: dict[str, tuple[Open, str]] = {
    "trio_mcp": (libraries.trio_mcp, "trio"),
    "mcp-trio": (libraries.mcp, "trio"),
    "mcp-asyncio": (libraries.mcp, "asyncio"),
    "fastmcp": (libraries.fastmcp, "asyncio"),
    "loop": (stdio_floors.loop, "trio"),
    "floor": (stdio_floors.floor, "trio"),
    "httpx": (http_floors.httpx, "trio"),
    "blocking": (blocking, "trio"),
}


def check(sent: str, received: str) -> None:
    """An echo that is none would make every figure worthless."""
    if sent != received:
        raise RuntimeError(f"sent {len(sent)} characters, received {len(received)} others")


def ascii_text(size: int) -> str:
    """So many characters without anything to escape."""
    sentence = "The quick brown fox jumps over the lazy dog. "
    return (sentence * (size // len(sentence) + 1))[:size]


async def burst(call: Callable[[str], Awaitable[str]], calls: int, in_flight: int) -> tuple[int, Instant]:
    """`calls` by `in_flight` tasks. The clock runs from when all stand at a gate until the last is done."""
    each = max(1, calls // in_flight)
    gate, end = anyio.Event(), anyio.Event()
    ready = done = 0
    began = ended = Instant(0, 0)

    async def worker(first: int) -> None:
        nonlocal ready, done, began, ended
        ready += 1
        if ready == in_flight:
            began = now()
            gate.set()
        await gate.wait()
        for number in range(each):
            text = f"call {first} {number}"
            check(text, await call(text))
        done += 1
        if done == in_flight:
            ended = now()
            end.set()
        await end.wait()

    async with anyio.create_task_group() as tasks:
        for first in range(in_flight):
            tasks.start_soon(worker, first)
    return each * in_flight, began.until(ended)


async def calls(opened: Open, where: Target, work: Work) -> Found:
    """Small calls, so many at once."""
    in_flight, wanted = work["in_flight"], work["calls"]
    async with opened(where) as client:
        await burst(client.call, WARM_UP, min(in_flight, WARM_UP))
        done, seconds, cpu = 0, 0.0, 0.0
        while seconds < ENOUGH_SECONDS:
            count, passed = await burst(client.call, wanted, in_flight)
            done, seconds, cpu = done + count, seconds + passed.seconds, cpu + passed.cpu
    return {"units": done, "seconds": seconds, "cpu": cpu}


async def large(opened: Open, where: Target, work: Work) -> Found:
    """Texts of one size, one after the other."""
    text = ascii_text(work["size"])
    async with opened(where) as client:
        await burst(client.call, WARM_UP, 1)
        began = now()
        for _ in range(work["calls"]):
            check(text, await client.call(text))
        passed = began.until(now())
    count = work["calls"]
    return {"units": count, "bytes": count * work["size"], "seconds": passed.seconds, "cpu": passed.cpu}


async def listing(opened: Open, where: Target, work: Work) -> Found:
    """The whole listing, some times."""
    async with opened(where) as client:
        began = now()
        for _ in range(work["times"]):
            if await client.count_tools() != work["tools"]:
                raise RuntimeError("tools are missing")
        passed = began.until(now())
    return {"units": work["times"], "seconds": passed.seconds, "cpu": passed.cpu}


async def opening(opened: Open, where: Target, work: Work) -> Found:
    """Open, list and close, one server after the other; and what each leaves behind."""

    async def once() -> None:
        async with opened(where):
            pass

    for _ in range(work["warm_up"]):
        await once()
    memory, began = resident(), now()
    for _ in range(work["times"]):
        await once()
    passed = began.until(now())
    kept = (resident() - memory) / work["times"]
    return {"units": work["times"], "seconds": passed.seconds, "cpu": passed.cpu, "kept": kept}


async def servers(opened: Open, where: Target, work: Work) -> Found:
    """Open so many servers at once, each in its own task; call each once; close them. `held` is KiB for each."""
    count = work["count"]

    async def all_open(count: int) -> float:
        done = anyio.Event()
        up = 0
        held = 0.0

        async def one(number: int) -> None:
            nonlocal up, held
            async with opened(where) as client:
                check(f"server {number}", await client.call(f"server {number}"))
                up += 1
                if up == count:
                    held = resident()
                    done.set()
                await done.wait()

        async with anyio.create_task_group() as tasks:
            for number in range(count):
                tasks.start_soon(one, number)
        return held

    await all_open(1)
    memory, began = resident(), now()
    held = (await all_open(count) - memory) / count
    passed = began.until(now())
    return {"units": count, "seconds": passed.seconds, "cpu": passed.cpu, "held": held}


WORKS = {one.__name__: one for one in (calls, large, listing, opening, servers)}


def measured(contender: str, work: Work) -> Found:
    """One measurement."""
    with target(work) as where:
        opened, backend = CLIENTS[contender]
        if contender == "loop" and where.url:
            opened = http_floors.loop
        return anyio.run(partial(WORKS[work["do"]], opened, where, work), backend=backend)


if __name__ == "__main__":
    print(json.dumps(measured(sys.argv[1], json.loads(sys.argv[2]))))
