"""Clients over stdio without an MCP library, on trio: they show how fast a client could be.

`loop` is the bare loop that one would write first with trio and msgspec; `floor` is the least that these can do.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import outcome
import trio

from .lines import (
    READ_SIZE,
    Arguments,
    Lines,
    Params,
    Request,
    decode_answer,
    decode_result,
    encode_lines,
    request_line,
)
from .target import Client, Target


@asynccontextmanager
async def process(target: Target) -> AsyncGenerator[tuple[trio.abc.SendStream, trio.abc.ReceiveStream], None]:
    """Start the server; gives the two pipes to it."""
    child = await trio.lowlevel.open_process(list(target.command), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdin is not None
    assert child.stdout is not None
    try:
        yield child.stdin, child.stdout
    finally:
        child.kill()
        await child.wait()


async def cannot_list() -> int:
    """The floors cannot list tools."""
    raise NotImplementedError


@asynccontextmanager
async def loop(target: Target) -> AsyncGenerator[Client, None]:
    """The bare loop that one would write first: an Event a call, `send_all` under a lock, one reader task."""
    pending: dict[int, Callable[[bytes], None]] = {}
    sending = trio.Lock()
    number = 0

    async def read(source: trio.abc.ReceiveStream) -> None:
        lines = Lines()
        while True:
            for line in lines.feed(bytes(await source.receive_some(READ_SIZE))):
                answer = decode_answer(line)
                pending.pop(answer.id)(answer.result)

    async with process(target) as (sink, source), trio.open_nursery() as nursery:

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
            line = request_line(number, text)
            async with sending:
                await sink.send_all(line)
            await answered.wait()
            return decode_result(result).content[0].text

        nursery.start_soon(read, source)
        yield Client(call, cannot_list)
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def floor(target: Target) -> AsyncGenerator[Client, None]:
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
                queue.extend(write_now(descriptor, data))

    def write_now(descriptor: int, data: bytes) -> list[bytes]:
        """Write as much as the pipe takes now; return the rest."""
        try:
            count = os.write(descriptor, data)
        except BlockingIOError:
            count = 0
        return [data[count:]] if count < len(data) else []

    async with process(target) as (sink, source), trio.open_nursery() as nursery:
        write_to = sink.fileno()  # type: ignore[attr-defined] # trio's pipe streams have one
        read_from = source.fileno()  # type: ignore[attr-defined] # likewise

        async def call(text: str) -> str:
            nonlocal number, idle_writer
            number += 1
            request = Request(number, Params(Arguments(text)))
            if pending or queue:
                waiting.append(request)
            else:
                queue.extend(write_now(write_to, encode_lines([request])))
            if idle_writer is not None and (queue or waiting):
                reschedule(idle_writer)
                idle_writer = None
            pending[number] = current_task()
            return decode_result(await park(abort)).content[0].text

        nursery.start_soon(read, read_from)
        nursery.start_soon(write, sink, write_to)
        yield Client(call, cannot_list)
        nursery.cancel_scope.cancel()
