"""`trio-mcp demo`: starts the demo server as a child process and shows what the library can do with it."""

from __future__ import annotations

import math
import os
import sys
import time

import trio
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from ...client.connection import Connection
from ...client.opening import open_connection
from ...models.server import Server, default_environment
from ..running import run_until_signal
from ..terminal import write
from .list import table_of

CALLS, AT_ONCE = 1_000, 100


def demo() -> int:
    """Start the demo server, list and call its tools, and stop it."""
    return run_until_signal(_demo)


async def _demo() -> int:
    before = _count_resources()
    env = default_environment()
    if "PYTHONPATH" in os.environ:
        env["PYTHONPATH"] = os.environ["PYTHONPATH"]
    server = Server("demo", command=sys.executable, args=("-m", "trio_mcp.demo"), env=env)
    began = time.perf_counter()
    async with open_connection(server) as connection:
        took = time.perf_counter() - began
        info = connection.server_info
        write(
            f"{info.get('name')} {info.get('version')}, protocol {connection.protocol_version}, "
            f"{len(connection.tools)} tools, open after {took * 1000:.0f} ms\n"
        )
        write(table_of([(connection.name, tool) for tool in connection.tools]))
        write(await _many_calls(connection))
        write(await _one_cancelled(connection))
        write(await _one_failed(connection))
    tasks, descriptors, children = _count_resources()
    left = (tasks - before[0], descriptors - before[1], children)
    write("left running: {} tasks, {} descriptors, {} child processes".format(*left))
    return 0 if left == (0, 0, 0) else 2


async def _many_calls(connection: Connection) -> str:
    latencies: list[float] = []
    bar = Progress(
        TextColumn("calling echo"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
        disable=sys.stderr is None or not sys.stderr.isatty(),
    )
    waiting = iter(range(CALLS))
    with bar:
        row = bar.add_task("", total=CALLS)

        async def worker() -> None:
            for number in waiting:
                began = time.perf_counter()
                result = await connection.call_tool("echo", {"text": f"call {number}"})
                latencies.append(time.perf_counter() - began)
                if result.content != f"call {number}":
                    raise AssertionError(f"call {number} was answered with {result.content!r}")
                bar.advance(row)

        began = time.perf_counter()
        try:
            async with trio.open_nursery() as nursery:
                for _ in range(AT_ONCE):
                    nursery.start_soon(worker)
        except ExceptionGroup as group:  # the server stopped: all calls raise the same error
            raise group.exceptions[0] from None
        took = time.perf_counter() - began
    latencies.sort()
    p50, p95, p99 = (_percentile(latencies, share) * 1000 for share in (0.50, 0.95, 0.99))
    return (
        f"{CALLS} calls of echo, {AT_ONCE} at once: {CALLS / took:.0f} calls/s; "
        f"latency p50 {p50:.1f} ms, p95 {p95:.1f} ms, p99 {p99:.1f} ms"
    )


async def _one_cancelled(connection: Connection) -> str:
    steps: list[str] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        steps.append(message or f"{progress:g}")

    began = time.perf_counter()
    with trio.move_on_after(0.5) as scope:
        await connection.call_tool("slow", {"seconds": 30}, on_progress=on_progress)
    with trio.move_on_after(0.25):
        await connection.call_tool("slow", {"seconds": 1}, on_progress=on_progress)
    took = time.perf_counter() - began
    if not scope.cancelled_caught:
        return "a slow call was not cancelled"
    return f"two slow calls were cancelled after {took:.2f} s, {len(steps)} progress reports; the server was told"


async def _one_failed(connection: Connection) -> str:
    result = await connection.call_tool("flaky")
    return f"a failed tool is a result: is_error={result.is_error}, {result.content!r}"


def _percentile(ordered: list[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, math.ceil(share * len(ordered)) - 1)]


def _count_resources() -> tuple[int, int, int]:
    """How many tasks, descriptors and child processes this process has now."""
    descriptors = len(os.listdir("/dev/fd")) if os.path.isdir("/dev/fd") else 0
    return trio.lowlevel.current_statistics().tasks_living, descriptors, _has_children()


def _has_children() -> int:
    """1 when this process has at least one child, zombies included; else 0."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return 0
    return 1
