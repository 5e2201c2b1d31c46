"""Measures one client: `python benchmarks/measure.py CONTENDER WORK` prints a line of JSON.

WORK is a JSON object; its member "do" names the function of this file that does the work. Each measurement has a
process of its own: the imports and the garbage of one client do not count against another, and the client's CPU
time is that of the process. Every answer is compared with the text that was sent.

The work is written once for trio and asyncio, with anyio, which adds one frame to a task and nothing to a call.
Starting the tasks of a benchmark is not measured.
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
#: A burst that ends sooner is repeated: some milliseconds of CPU time are noise on a shared machine.
ENOUGH_SECONDS = 0.5

Work = dict[str, Any]
OpenClient = Callable[[Target], AbstractAsyncContextManager[Client]]
Measurement = dict[str, float]

#: How each contender is opened, and the backend that it runs on.
CLIENTS: dict[str, tuple[OpenClient, str]] = {
    "trio_mcp": (libraries.trio_mcp, "trio"),
    "mcp-trio": (libraries.mcp, "trio"),
    "mcp-asyncio": (libraries.mcp, "asyncio"),
    "fastmcp": (libraries.fastmcp, "asyncio"),
    "loop": (stdio_floors.loop, "trio"),
    "floor": (stdio_floors.floor, "trio"),
    "httpx": (http_floors.httpx, "trio"),
    "blocking": (blocking, "trio"),
}


def check_echo(sent: str, received: str) -> None:
    """Raise if the echo differs from the text: every figure would be worthless."""
    if sent != received:
        raise RuntimeError(f"sent {len(sent)} characters, received {len(received)} others")


def ascii_text(size: int) -> str:
    """A text of `size` characters that JSON does not escape."""
    sentence = "The quick brown fox jumps over the lazy dog. "
    return (sentence * (size // len(sentence) + 1))[:size]


async def burst(call: Callable[[str], Awaitable[str]], calls: int, in_flight: int) -> tuple[int, Instant]:
    """`calls` calls in `in_flight` tasks. The clock runs from when all wait at a gate until the last is done."""
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
            check_echo(text, await call(text))
        done += 1
        if done == in_flight:
            ended = now()
            end.set()
        await end.wait()

    async with anyio.create_task_group() as tasks:
        for first in range(in_flight):
            tasks.start_soon(worker, first)
    return each * in_flight, began.until(ended)


async def calls(open_client: OpenClient, where: Target, work: Work) -> Measurement:
    """Small calls, `in_flight` of them at once."""
    in_flight, wanted = work["in_flight"], work["calls"]
    async with open_client(where) as client:
        await burst(client.call, WARM_UP, min(in_flight, WARM_UP))
        done, seconds, cpu = 0, 0.0, 0.0
        while seconds < ENOUGH_SECONDS:
            count, passed = await burst(client.call, wanted, in_flight)
            done, seconds, cpu = done + count, seconds + passed.seconds, cpu + passed.cpu
    return {"units": done, "seconds": seconds, "cpu": cpu}


async def large(open_client: OpenClient, where: Target, work: Work) -> Measurement:
    """Texts of one size, one after the other."""
    text = ascii_text(work["size"])
    async with open_client(where) as client:
        await burst(client.call, WARM_UP, 1)
        began = now()
        for _ in range(work["calls"]):
            check_echo(text, await client.call(text))
        passed = began.until(now())
    count = work["calls"]
    return {"units": count, "bytes": count * work["size"], "seconds": passed.seconds, "cpu": passed.cpu}


async def listing(open_client: OpenClient, where: Target, work: Work) -> Measurement:
    """List all tools, several times."""
    async with open_client(where) as client:
        began = now()
        for _ in range(work["times"]):
            if await client.count_tools() != work["tools"]:
                raise RuntimeError("tools are missing")
        passed = began.until(now())
    return {"units": work["times"], "seconds": passed.seconds, "cpu": passed.cpu}


async def opening(open_client: OpenClient, where: Target, work: Work) -> Measurement:
    """Open, list and close one server after the other. `kept` is the KiB that each leaves behind."""

    async def once() -> None:
        async with open_client(where):
            pass

    for _ in range(work["warm_up"]):
        await once()
    memory, began = resident(), now()
    for _ in range(work["times"]):
        await once()
    passed = began.until(now())
    kept = (resident() - memory) / work["times"]
    return {"units": work["times"], "seconds": passed.seconds, "cpu": passed.cpu, "kept": kept}


async def servers(open_client: OpenClient, where: Target, work: Work) -> Measurement:
    """Open `count` servers at once, each in its own task; call each; close them. `held` is KiB for each."""
    count = work["count"]

    async def all_open(count: int) -> float:
        done = anyio.Event()
        up = 0
        held = 0.0

        async def one(number: int) -> None:
            nonlocal up, held
            async with open_client(where) as client:
                check_echo(f"server {number}", await client.call(f"server {number}"))
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


def measure(contender: str, work: Work) -> Measurement:
    """Measure one contender."""
    with target(work) as where:
        open_client, backend = CLIENTS[contender]
        if contender == "loop" and where.url:
            open_client = http_floors.loop
        return anyio.run(partial(WORKS[work["do"]], open_client, where, work), backend=backend)


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1], json.loads(sys.argv[2]))))
