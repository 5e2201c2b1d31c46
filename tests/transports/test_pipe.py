"""The reading end of a pipe: what it gives, when it waits, how it is closed."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest
import trio
from trio.testing import assert_checkpoints, wait_all_tasks_blocked

from trio_mcp.transports.stdio.pipe import PipeReader

LIMIT = 5


@pytest.fixture
async def pipe() -> AsyncIterator[tuple[PipeReader, int]]:
    """A reader, and the descriptor to write to, which a test may close."""
    there, here = os.pipe()
    reader = PipeReader(there)
    yield reader, here
    await reader.aclose()
    with suppress(OSError):
        os.close(here)


async def test_it_gives_what_there_is_and_nothing_at_the_end(pipe: tuple[PipeReader, int]) -> None:
    reader, writer = pipe
    os.write(writer, b"one two")
    with trio.fail_after(LIMIT):
        with assert_checkpoints():
            assert await reader.receive_some(3) == b"one"
        assert await reader.receive_some() == b" two"
        os.close(writer)
        assert await reader.receive_some() == b""


async def test_a_chunk_costs_one_turn_of_the_event_loop(pipe: tuple[PipeReader, int]) -> None:
    reader, writer = pipe
    steps = 0

    class Steps(trio.abc.Instrument):
        def before_task_step(self, task: trio.lowlevel.Task) -> None:
            nonlocal steps
            steps += task is reading

    reading = trio.lowlevel.current_task()
    with trio.fail_after(LIMIT):
        trio.lowlevel.add_instrument(instrument := Steps())
        for _ in range(10):
            os.write(writer, b"chunk")
            assert await reader.receive_some() == b"chunk"
        trio.lowlevel.remove_instrument(instrument)
    assert steps == 10


async def test_who_waits_is_told_of_the_close_and_so_is_who_comes_later(pipe: tuple[PipeReader, int]) -> None:
    reader, _ = pipe

    async def wait() -> None:
        with pytest.raises(trio.ClosedResourceError):
            await reader.receive_some()

    with trio.fail_after(LIMIT):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            await wait_all_tasks_blocked()
            await reader.aclose()
        await wait()
        with assert_checkpoints():
            await reader.aclose()


async def test_waiting_can_be_cancelled_and_loses_nothing(pipe: tuple[PipeReader, int]) -> None:
    reader, writer = pipe
    with trio.fail_after(LIMIT):
        with trio.move_on_after(0) as scope:
            await reader.receive_some()
        assert scope.cancelled_caught
        os.write(writer, b"kept")
        assert await reader.receive_some() == b"kept"


async def test_what_somebody_else_has_read_is_waited_for_again() -> None:
    descriptor, writer = os.pipe()
    reader, other = PipeReader(descriptor), PipeReader(os.dup(descriptor))
    found: list[bytes] = []

    async def read(stream: PipeReader) -> None:
        found.append(await stream.receive_some())

    with trio.fail_after(LIMIT):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(read, reader)
            nursery.start_soon(read, other)
            await wait_all_tasks_blocked()
            os.write(writer, b"first")
            await wait_all_tasks_blocked()
            assert found == [b"first"]
            os.write(writer, b"second")
    assert found == [b"first", b"second"]
    await reader.aclose()
    await other.aclose()
    os.close(writer)
