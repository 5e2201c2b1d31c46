"""`stream_pair`: two streams of one process, with a bound between them."""

from __future__ import annotations

import pytest
import trio
from trio.testing import check_two_way_stream, wait_all_tasks_blocked

from trio_mcp.transports.lines.pair import PairedStream, stream_pair


async def make() -> tuple[PairedStream, PairedStream]:
    return stream_pair()


async def make_clogged() -> tuple[PairedStream, PairedStream]:
    ours, theirs = stream_pair(bound=1)
    await ours.send_all(b"x")
    await theirs.send_all(b"x")
    return ours, theirs


async def test_it_is_a_stream_as_trio_demands() -> None:
    with trio.fail_after(20):
        await check_two_way_stream(make, make_clogged)


async def test_a_side_that_does_not_read_holds_up_the_other() -> None:
    ours, theirs = stream_pair(bound=10)
    sent = []

    async def send() -> None:
        for _ in range(4):
            await ours.send_all(b"12345")
            sent.append(5)

    with trio.fail_after(2):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(send)
            await wait_all_tasks_blocked()
            assert sum(sent) == 10
            assert await theirs.receive_some(3) == b"123"
            await wait_all_tasks_blocked()
            assert sum(sent) == 15
            while sum(sent) < 20:
                await theirs.receive_some()


@pytest.mark.parametrize("size", [1, 64 * 1024 + 1, 5_000_000])
async def test_bytes_of_any_length_come_through_as_they_were(size: int) -> None:
    ours, theirs = stream_pair()
    data = bytes(i % 251 for i in range(1000)) * (size // 1000 + 1)
    found = bytearray()
    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ours.send_all, data)
            while len(found) < len(data):
                found += await theirs.receive_some(64 * 1024)
    assert found == data
