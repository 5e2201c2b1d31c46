"""The clients that stdio_calls.py compares; run as a program, it takes one measurement of one of them.

    python benchmarks/stdio_clients.py CLIENT ROW CALLS

Each measurement has a process to itself, so that neither the imports nor the garbage of one client count
against another, and so that the client's CPU time is the process's own. All of them start echo_server.py, and
all compare the text that comes back with the text that was sent. The measurement is one line of JSON: calls,
seconds, cpu.

Three of the five are floors, there to show what is left to win: `loop` is the bare loop that one writes first
with trio and msgspec, `floor` the least that trio and msgspec can do on this work, `sync` a blocking loop
without trio. None of the floors negotiates, cancels, counts, limits or survives an error.
"""

from __future__ import annotations

import importlib
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec
import outcome
import trio

SERVER = str(Path(__file__).with_name("echo_server.py"))

AT_ONCE = 100
WARM_UP = 200
BIG = 32 * 2**20
#: A burst that is over sooner is repeated: some milliseconds of CPU time are noise on a shared machine.
ENOUGH_SECONDS = 0.5
#: What a pipe holds.
READ_SIZE = 1 << 16

Call = Callable[[str], Awaitable[str]]


class Measurement(NamedTuple):
    """What one process measured."""

    calls: int
    seconds: float
    cpu: float


# --- trio_mcp and the official SDK, both through their public API


@asynccontextmanager
async def ours() -> AsyncGenerator[Call, None]:
    """trio_mcp."""
    import trio_mcp

    server = trio_mcp.Server("echo", command=sys.executable, args=(SERVER,), env=trio_mcp.default_environment())
    async with trio_mcp.open_connection(server) as connection:

        async def call(text: str) -> str:
            return (await connection.call_tool("echo", {"text": text})).content

        yield call


@asynccontextmanager
async def sdk() -> AsyncGenerator[Call, None]:
    """The official SDK on anyio's trio backend."""
    # Not an import statement: type checkers run where the SDK is not installed.
    mcp = importlib.import_module("mcp")
    parameters = mcp.StdioServerParameters(command=sys.executable, args=[SERVER])
    async with mcp.Client(mcp.stdio_client(parameters)) as client:
        await client.list_tools()

        async def call(text: str) -> str:
            result = await client.call_tool("echo", {"text": text})
            answer: str = result.content[0].text
            return answer

        yield call


# --- the floors


class Arguments(msgspec.Struct):
    """The arguments of `echo`."""

    text: str


class Params(msgspec.Struct):
    """The params of tools/call."""

    arguments: Arguments
    name: str = "echo"


class Request(msgspec.Struct):
    """One tools/call."""

    id: int
    params: Params
    jsonrpc: str = "2.0"
    method: str = "tools/call"


class Answer(msgspec.Struct):
    """The envelope of an answer; the result stays undecoded until its caller runs."""

    id: int
    result: msgspec.Raw


class Block(msgspec.Struct):
    """A text block."""

    text: str


class Result(msgspec.Struct):
    """The result of tools/call."""

    content: list[Block]


encode_lines = msgspec.json.Encoder().encode_lines
decode_answer = msgspec.json.Decoder(Answer).decode
decode_result = msgspec.json.Decoder(Result).decode


class Lines:
    """Chunks in, whole lines out; a line of many chunks costs no more than its length."""

    def __init__(self) -> None:
        self._unfinished: list[bytes] = []

    def feed(self, chunk: bytes) -> list[bytes]:
        if not chunk:
            raise EOFError("the server has gone")
        whole, newline, rest = chunk.rpartition(b"\n")
        if not newline:
            self._unfinished.append(chunk)
            return []
        self._unfinished.append(whole)
        lines = b"".join(self._unfinished).split(b"\n")
        self._unfinished = [rest] if rest else []
        return lines


@asynccontextmanager
async def process() -> AsyncGenerator[tuple[trio.abc.SendStream, trio.abc.ReceiveStream], None]:
    """The server, and the two pipes to it."""
    child = await trio.lowlevel.open_process(
        [sys.executable, SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert child.stdin is not None
    assert child.stdout is not None
    try:
        yield child.stdin, child.stdout
    finally:
        child.kill()
        await child.wait()


@asynccontextmanager
async def loop() -> AsyncGenerator[Call, None]:
    """The bare loop that one writes first: an Event a call, `send_all` under a lock, one reader task."""
    pending: dict[int, Callable[[bytes], None]] = {}
    sending = trio.Lock()
    number = 0

    async def read(source: trio.abc.ReceiveStream) -> None:
        lines = Lines()
        while True:
            for line in lines.feed(bytes(await source.receive_some(READ_SIZE))):
                answer = decode_answer(line)
                pending.pop(answer.id)(answer.result)

    async with process() as (sink, source), trio.open_nursery() as nursery:

        async def call(text: str) -> str:
            nonlocal number
            number += 1
            answered = trio.Event()
            result = b""

            def resolve(data: bytes) -> None:
                nonlocal result
                result = data
                answered.set()

            pending[number] = resolve
            line = encode_lines([Request(number, Params(Arguments(text)))])
            async with sending:
                await sink.send_all(line)
            await answered.wait()
            return decode_result(result).content[0].text

        nursery.start_soon(read, source)
        yield call
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def floor() -> AsyncGenerator[Call, None]:
    """The least that trio and msgspec can do.

    A call parks its task and the reader reschedules it. A lone call writes straight into the pipe; the lines
    of calls that run in the same turn of trio's loop are encoded and written together by one task. The reader
    waits for the descriptor first, which saves a turn of the loop and a failed read per chunk.
    """
    pending: dict[int, trio.lowlevel.Task] = {}
    queue: list[bytes] = []
    waiting: list[Request] = []
    idle_writer: trio.lowlevel.Task | None = None
    number = 0
    reschedule = trio.lowlevel.reschedule
    park = trio.lowlevel.wait_task_rescheduled
    current_task = trio.lowlevel.current_task

    def abort(_: object) -> trio.lowlevel.Abort:
        return trio.lowlevel.Abort.SUCCEEDED

    async def read(descriptor: int) -> None:
        lines = Lines()
        while True:
            await trio.lowlevel.wait_readable(descriptor)
            for line in lines.feed(os.read(descriptor, READ_SIZE)):
                answer = decode_answer(line)
                reschedule(pending.pop(answer.id), outcome.Value(answer.result))

    async def write(sink: trio.abc.SendStream, descriptor: int) -> None:
        nonlocal idle_writer
        while True:
            if not queue and not waiting:
                idle_writer = current_task()
                await park(abort)
            if queue:
                await sink.send_all(queue.pop(0))
            else:
                data = encode_lines(waiting)
                waiting.clear()
                queue.extend(written(descriptor, data))

    def written(descriptor: int, data: bytes) -> list[bytes]:
        """Write what the pipe takes now; what it does not take is returned."""
        try:
            count = os.write(descriptor, data)
        except BlockingIOError:
            count = 0
        return [data[count:]] if count < len(data) else []

    async with process() as (sink, source), trio.open_nursery() as nursery:
        write_to = sink.fileno()  # type: ignore[attr-defined] # trio's pipe streams have one
        read_from = source.fileno()  # type: ignore[attr-defined] # likewise

        async def call(text: str) -> str:
            nonlocal number, idle_writer
            number += 1
            request = Request(number, Params(Arguments(text)))
            if pending or queue:
                waiting.append(request)
            else:
                queue.extend(written(write_to, encode_lines([request])))
            if idle_writer is not None and (queue or waiting):
                reschedule(idle_writer)
                idle_writer = None
            pending[number] = current_task()
            return decode_result(await park(abort)).content[0].text

        nursery.start_soon(read, read_from)
        nursery.start_soon(write, sink, write_to)
        yield call
        nursery.cancel_scope.cancel()


@contextmanager
def sync() -> Iterator[Callable[[str], str]]:
    """A blocking loop without trio: one line out, one line in."""
    with subprocess.Popen(
        [sys.executable, SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        write_to, read_from = child.stdin.fileno(), child.stdout.fileno()
        lines = Lines()
        number = 0

        def call(text: str) -> str:
            nonlocal number
            number += 1
            view = memoryview(encode_lines([Request(number, Params(Arguments(text)))]))
            while view:
                view = view[os.write(write_to, view) :]
            while not (whole := lines.feed(os.read(read_from, READ_SIZE))):
                pass
            return decode_result(decode_answer(whole[0]).result).content[0].text

        yield call
        child.stdin.close()


CLIENTS: dict[str, Callable[[], AbstractAsyncContextManager[Call]]] = {
    "ours": ours,
    "sdk": sdk,
    "loop": loop,
    "floor": floor,
}


# --- measuring


def check(sent: str, received: str) -> None:
    """An echo that is none would make every figure worthless."""
    if sent != received:
        raise RuntimeError(f"sent {len(sent)} characters, received {len(received)} others")


def cpu_seconds() -> float:
    """CPU time of this process so far, the server's excluded."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def big_text() -> str:
    """32 MiB of ASCII without anything to escape."""
    sentence = "The quick brown fox jumps over the lazy dog. "
    return (sentence * (BIG // len(sentence) + 1))[:BIG]


async def burst(call: Call, calls: int, at_once: int) -> None:
    """`calls` small calls by `at_once` tasks."""

    async def worker(first: int) -> None:
        for number in range(first, calls, at_once):
            text = f"call {number}"
            check(text, await call(text))

    if at_once == 1:
        await worker(0)
        return
    async with trio.open_nursery() as nursery:
        for first in range(at_once):
            nursery.start_soon(worker, first)


async def measure(client: str, row: str, calls: int) -> Measurement:
    """One measurement, after a warm-up of small calls."""
    async with CLIENTS[client]() as call:
        if row == "32-mib":
            await burst(call, WARM_UP, 1)
            text = big_text()
            cpu, started = cpu_seconds(), time.perf_counter()
            check(text, await call(text))
            return Measurement(1, time.perf_counter() - started, cpu_seconds() - cpu)
        at_once = AT_ONCE if row == "at-once" else 1
        await burst(call, WARM_UP, at_once)
        done = 0
        cpu, started = cpu_seconds(), time.perf_counter()
        while True:
            await burst(call, calls, at_once)
            done += calls
            seconds = time.perf_counter() - started
            if seconds >= ENOUGH_SECONDS:
                return Measurement(done, seconds, cpu_seconds() - cpu)


def measure_sync() -> Measurement:
    """The 32 MiB row without trio."""
    with sync() as call:
        for number in range(WARM_UP):
            text = f"call {number}"
            check(text, call(text))
        text = big_text()
        cpu, started = cpu_seconds(), time.perf_counter()
        check(text, call(text))
        return Measurement(1, time.perf_counter() - started, cpu_seconds() - cpu)


def main(client: str, row: str, calls: str) -> None:
    """Measure and print."""
    measured = measure_sync() if client == "sync" else trio.run(measure, client, row, int(calls))
    print(json.dumps(measured._asdict()))


if __name__ == "__main__":
    main(*sys.argv[1:])
