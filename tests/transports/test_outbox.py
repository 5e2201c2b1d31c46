"""Lines on their way out: order, joining, taking back, room."""

from __future__ import annotations

import os

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import MemorySendStream, lockstep_stream_one_way_pair, wait_all_tasks_blocked

from trio_mcp.transports.limits import LineLimits
from trio_mcp.transports.lines.outbox import Outbox

LIMIT = 5
BATCH = LineLimits().batch


async def written(outbox: Outbox, stream: MemorySendStream) -> bytes:
    """Run the writer until everything is written; what came out."""
    with trio.fail_after(LIMIT):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(outbox.write)
            await outbox.wait_written()
            nursery.cancel_scope.cancel()
    return bytes(stream.get_data_nowait()) if outbox.bytes_out else b""


class NonBlocking:
    """A non-blocking write that takes so many bytes each time."""

    def __init__(self, *takes: int) -> None:
        self.takes = list(takes)
        self.data = b""

    def __call__(self, data: bytes) -> int:
        taken = self.takes.pop(0)
        self.data += data[:taken]
        return taken


async def test_lines_are_written_in_the_order_in_which_they_were_handed_over() -> None:
    stream = MemorySendStream()
    outbox = Outbox(stream)
    for number in range(100):
        outbox.put(b"%d\n" % number, number if number % 2 else None)
    assert await written(outbox, stream) == b"".join(b"%d\n" % number for number in range(100))
    assert outbox.is_empty


async def test_what_has_gathered_is_joined_into_batches() -> None:
    sizes: list[int] = []

    class Counting(trio.abc.SendStream):
        async def send_all(self, data: bytes | bytearray | memoryview) -> None:
            sizes.append(len(data))
            await trio.lowlevel.checkpoint()

        async def wait_send_all_might_not_block(self) -> None: ...

        async def aclose(self) -> None: ...

    outbox = Outbox(Counting())
    for _ in range(1000):
        outbox.put(b"x" * 999 + b"\n")
    with trio.fail_after(LIMIT):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(outbox.write)
            await outbox.wait_written()
            nursery.cancel_scope.cancel()
    assert len(sizes) == 16  # of 1,000,000 bytes
    assert max(sizes) <= BATCH
    assert outbox.bytes_out == sum(sizes) == 1_000_000


async def test_a_line_longer_than_a_batch_goes_out_alone_and_whole() -> None:
    stream = MemorySendStream()
    outbox = Outbox(stream)
    long = b"x" * (3 * BATCH) + b"\n"
    for line in (b"before\n", long, b"after\n"):
        outbox.put(line)
    assert await written(outbox, stream) == b"before\n" + long + b"after\n"


async def test_a_long_line_in_pieces_goes_out_whole_and_none_of_them_is_copied() -> None:
    sent: list[object] = []

    class Noting(trio.abc.SendStream):
        async def send_all(self, data: bytes | bytearray | memoryview) -> None:
            sent.append(data)
            await trio.lowlevel.checkpoint()

        async def wait_send_all_might_not_block(self) -> None: ...

        async def aclose(self) -> None: ...

    long = b"x" * (3 * BATCH)
    outbox = Outbox(Noting(), NonBlocking())  # which would raise: a long line is left to the writer
    outbox.put((b"head ", long, b" tail\n"), 1, at_once=True)
    outbox.put((b"sh", b"ort\n"), 2)
    with trio.fail_after(LIMIT):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(outbox.write)
            await outbox.wait_written()
            nursery.cancel_scope.cancel()
    assert sent == [b"head ", long, b" tail\n", b"short\n"]
    assert sent[1] is long
    assert outbox.bytes_out == len(long) + 17


async def test_a_long_line_in_pieces_is_taken_back_as_one() -> None:
    stream = MemorySendStream()
    outbox = Outbox(stream, limits=LineLimits(backlog=BATCH))
    outbox.put((b"head ", b"x" * BATCH, b"\n"), 1)
    outbox.put(b"other\n", 2)
    assert outbox.is_full
    assert outbox.take_back(1)
    assert not outbox.is_full
    assert await written(outbox, stream) == b"other\n"


async def test_a_line_that_waits_can_be_taken_back_as_if_it_had_never_been() -> None:
    stream = MemorySendStream()
    outbox = Outbox(stream)
    for key in (1, 2, 3):
        outbox.put(b"%d\n" % key, key)
    assert outbox.take_back(2)
    assert not outbox.take_back(2)
    assert await written(outbox, stream) == b"1\n3\n"


async def test_a_line_that_is_being_written_cannot_be_taken_back() -> None:
    send, receive = lockstep_stream_one_way_pair()
    outbox = Outbox(send)
    outbox.put(b"first\n", 1)
    with trio.fail_after(LIMIT):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(outbox.write)
            await wait_all_tasks_blocked()
            outbox.put(b"second\n", 2)
            assert not outbox.take_back(1)
            assert outbox.take_back(2)
            assert not outbox.is_empty
            assert await receive.receive_some() == b"first\n"
            await outbox.wait_written()
            nursery.cancel_scope.cancel()


async def test_a_line_that_finds_nothing_before_it_is_written_at_once() -> None:
    write_now = NonBlocking(6)
    outbox = Outbox(MemorySendStream(), write_now)
    outbox.put(b"first\n", 1, at_once=True)
    assert (write_now.data, outbox.bytes_out, outbox.is_empty) == (b"first\n", 6, True)
    assert not outbox.take_back(1)


async def test_a_line_is_not_written_past_one_that_waits() -> None:
    stream = MemorySendStream()
    write_now = NonBlocking(3)
    outbox = Outbox(stream, write_now)
    outbox.put(b"first\n", 1, at_once=True)
    outbox.put(b"second\n", 2, at_once=True)
    assert write_now.data == b"fir"
    assert await written(outbox, stream) == b"st\nsecond\n"
    assert outbox.bytes_out == 13


async def test_a_line_is_not_written_past_one_that_the_writer_holds() -> None:
    send, receive = lockstep_stream_one_way_pair()
    write_now = NonBlocking()
    outbox = Outbox(send, write_now)
    outbox.put(b"first\n")
    with trio.fail_after(LIMIT):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(outbox.write)
            await wait_all_tasks_blocked()
            outbox.put(b"second\n", 2, at_once=True)  # NonBlocking() would raise
            assert await receive.receive_some() == b"first\n"
            assert await receive.receive_some() == b"second\n"
            nursery.cancel_scope.cancel()


async def test_a_line_of_which_a_part_was_written_cannot_be_taken_back() -> None:
    """The peer would wait for its end for ever."""
    stream = MemorySendStream()
    outbox = Outbox(stream, NonBlocking(3))
    outbox.put(b"first\n", 1, at_once=True)
    assert not outbox.take_back(1)
    assert await written(outbox, stream) == b"st\n"


async def test_a_line_of_which_nothing_could_be_written_at_once_can_be_taken_back() -> None:
    stream = MemorySendStream()
    outbox = Outbox(stream, NonBlocking(0))
    outbox.put(b"first\n", 1, at_once=True)
    assert outbox.take_back(1)
    assert outbox.is_empty
    assert await written(outbox, stream) == b""


async def test_a_broken_pipe_is_told_to_who_writes_at_once() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        outbox = Outbox(MemorySendStream(), lambda data: os.write(writer, data))
        with pytest.raises(BrokenPipeError):
            outbox.put(b"line\n", at_once=True)
        assert outbox.is_empty
    finally:
        os.close(writer)


async def test_a_new_request_waits_for_room_and_a_written_batch_makes_some() -> None:
    send, receive = lockstep_stream_one_way_pair()
    outbox = Outbox(send, limits=LineLimits(backlog=10, max_unread=20))
    outbox.put(b"123456789")
    assert not outbox.is_full
    outbox.put(b"x")
    assert outbox.is_full
    assert not outbox.is_overfull
    order: list[str] = []

    async def wait() -> None:
        await outbox.wait_room()
        order.append("room")

    with trio.fail_after(LIMIT):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            await wait_all_tasks_blocked()
            order.append("write")
            nursery.start_soon(outbox.write)
            await wait_all_tasks_blocked()
            await receive.receive_some()
            await wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
    assert order == ["write", "room"]


async def test_taking_a_line_back_makes_room() -> None:
    outbox = Outbox(MemorySendStream(), limits=LineLimits(backlog=10))
    outbox.put(b"x" * 10, 1)
    with trio.fail_after(LIMIT):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(outbox.wait_room)
            await wait_all_tasks_blocked()
            outbox.take_back(1)


async def test_overfull_counts_every_waiting_byte() -> None:
    outbox = Outbox(MemorySendStream(), limits=LineLimits(max_unread=20))
    outbox.put(b"x" * 19)
    assert not outbox.is_overfull
    outbox.put(b"x")
    assert outbox.is_overfull


async def test_discarding_frees_who_waits_for_room_and_who_waits_for_the_last_byte() -> None:
    outbox = Outbox(MemorySendStream(), limits=LineLimits(backlog=10))
    outbox.put(b"x" * 10)
    with trio.fail_after(LIMIT):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(outbox.wait_room)
            nursery.start_soon(outbox.wait_written)
            await wait_all_tasks_blocked()
            outbox.discard()
    assert outbox.is_empty
    assert not outbox.take_back(1)


async def test_a_writer_whose_stream_breaks_says_so() -> None:
    send, receive = lockstep_stream_one_way_pair()
    await receive.aclose()
    outbox = Outbox(send)
    outbox.put(b"line\n")
    with trio.fail_after(LIMIT), pytest.raises(trio.BrokenResourceError):
        await outbox.write()


#: None is for lines that cannot be taken back.
KEYS = st.sampled_from([None, 1, 2, ("a", 1)])


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["put", "put", "back"]), KEYS), max_size=60))
async def test_counts_equal_what_waits(steps: list[tuple[str, object]]) -> None:
    stream = MemorySendStream()
    outbox = Outbox(stream)
    waiting: list[tuple[object, bytes]] = []
    for number, (what, key) in enumerate(steps):
        if what == "put":
            line = b"%d" % number * (number + 1) + b"\n"
            outbox.put(line, key)
            waiting.append((key, line))
        elif outbox.take_back(key):
            taken = next(found for found in waiting if found[0] == key)
            waiting.remove(taken)
            if any(found[0] == key for found in waiting):
                return  # which of two of one key comes back is not promised
        assert outbox._size == sum(len(line) for _, line in waiting)
        assert outbox._unread == sum(len(line) for key, line in waiting if key is None)
    assert await written(outbox, stream) == b"".join(line for _, line in waiting)
    assert (outbox._size, outbox._unread) == (0, 0)
