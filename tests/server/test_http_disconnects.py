"""Clients that hang up, read slowly or not at all: what happens to their calls, and to nobody else's."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import attrs
import pytest
import trio
from trio.testing import MockClock

from tests.exposing import ERAS
from tests.serving import Served, echo, serving, until
from trio_mcp import Context, ProtocolError, Server, ServerLimits, ToolServer, open_connection
from trio_mcp.server.http.asgi import HttpRequest, Refusal
from trio_mcp.server.http.event_queue import EventQueue

LIMITS = ServerLimits()


@attrs.frozen
class Form:
    name: str


CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "wait", "arguments": {}}}


class Waiting:
    """A tool that waits for ever, and counts how its calls go."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._moved = trio.lowlevel.ParkingLot()

    def _count(self, what: str) -> None:
        self.counts[what] += 1
        self._moved.unpark_all()

    async def until(self, what: str, times: int) -> None:
        while self.counts[what] < times:
            await self._moved.park()

    async def wait(self, context: Context, report: bool = False) -> str:
        self._count("entered")
        try:
            if report:
                await context.progress(1)
            await trio.sleep_forever()
        except trio.Cancelled:
            self._count("cancelled")
            raise
        return "never"


@pytest.mark.parametrize("report", [False, True], ids=["before an answer", "amid events"])
async def test_a_client_that_hangs_up_has_cancelled_its_request_and_no_other(report: bool) -> None:
    waiting = Waiting()
    async with serving(waiting.wait) as served:
        lines = [await served.connect() for _ in range(3)]
        for line in lines:
            meta = {"progressToken": 1}
            await line.begin_modern("tools/call", name="wait", arguments={"report": report}, meta=meta)
        await waiting.until("entered", 3)
        if report:
            await lines[1].more(await lines[1].head(), 1)
        await lines[1].stream.aclose()
        await waiting.until("cancelled", 1)
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert waiting.counts == {"entered": 3, "cancelled": 1}
        for line in (lines[0], lines[2]):
            await line.stream.aclose()
        await waiting.until("cancelled", 3)


async def test_a_client_that_hangs_up_on_a_subscription_is_forgotten() -> None:
    server = ToolServer("s")
    async with serving(server=server) as served:
        for _ in range(5):
            line = await served.connect()
            await line.begin_modern("subscriptions/listen", notifications={"toolsListChanged": True})
            await line.more(await line.head(), 1)
            await line.stream.aclose()
        await until(lambda: not len(server.changes))


async def test_our_own_clients_cancel_reaches_the_handler() -> None:
    waiting = Waiting()
    async with serving(waiting.wait) as served:
        for number, protocol in enumerate(ERAS, 1):
            async with open_connection(Server("s", url=served.url, protocol=protocol)) as connection:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(connection.call_tool, "wait")
                    await waiting.until("entered", number)
                    nursery.cancel_scope.cancel()
                await waiting.until("cancelled", number)


async def chatter(context: Context) -> str:
    for number in range(5_000):
        await context.log("error", f"{number:05} " + "x" * 6000)
    return "said it all"


async def _chat(served: Served, legacy: bool) -> tuple[int, str]:
    line = await served.connect()
    params = {"name": "chatter", "arguments": {}}
    if legacy:
        await line.initialize()
        await line.begin_legacy("tools/call", params)
    else:
        await line.begin_modern("tools/call", name="chatter", arguments={}, meta={"logLevel": "debug"})
    reply = await line.head()
    await trio.sleep(1)  # the tool has long said everything
    await line.rest(reply)
    return len(reply.events), reply.events[-1]["result"]["content"][0]["text"]


@pytest.mark.slow
@pytest.mark.parametrize("legacy", [False, True], ids=["modern", "legacy"])
async def test_who_reads_too_slowly_loses_news_and_never_the_answer(legacy: bool) -> None:
    async with serving(chatter) as served:
        count, text = await _chat(served, legacy)
        assert text == "said it all"
        assert LIMITS.max_queued <= count < 5_000


def test_an_event_queue_is_bounded_in_messages_and_in_bytes_and_keeps_what_must_not_be_lost() -> None:
    queue = EventQueue()
    queue.put(b"question", droppable=False)
    for number in range(LIMITS.max_queued + 10):
        queue.put(b"%d" % number)
    assert len(queue) == LIMITS.max_queued
    queue.put(b"x" * (LIMITS.max_queued_bytes - 100))
    assert len(queue) < LIMITS.max_queued
    queue.put(b"y" * LIMITS.max_queued_bytes, droppable=False)
    queue.put(b"z" * 10, droppable=False)
    assert len(queue) == 3


async def test_an_event_queue_that_is_closed_gives_what_it_has_and_takes_no_more() -> None:
    queue = EventQueue()
    assert queue.put(b"once", once=True)
    assert queue.put(b"once", once=True)
    queue.close()
    assert not queue.put(b"more")
    assert await queue.take() == b"data: once\n\n"
    assert await queue.take() == b""


HEAD = "POST /mcp HTTP/1.1\r\ncontent-type: application/json\r\n"


async def test_a_client_that_says_nothing_more_half_way_is_sent_away() -> None:
    async with serving(echo, limits=ServerLimits(body_patience=0.1, discard_patience=0.1)) as served:
        line = await served.connect()
        body = json.dumps(CALL).encode()
        head = f"{HEAD}host: {line.host}\r\ncontent-length: {len(body)}\r\n\r\n"
        await line.stream.send_all(head.encode() + body[:10])
        reply = await line.stream.receive_some(1000)
        assert reply.startswith(b"HTTP/1.1 408 ")
        while await line.stream.receive_some(1000):
            pass  # and the connection is closed


@pytest.mark.parametrize(("size", "status", "periods"), [(1, 408, 3), (10 * LIMITS.body_pace, 413, 5)])
async def test_a_client_that_sends_byte_by_byte_is_sent_away_too(
    size: int, status: int, periods: int, autojump_clock: MockClock
) -> None:
    async def unsent(_: object) -> None:
        raise AssertionError

    async def receive() -> dict[str, Any]:
        await trio.sleep(10)
        return {"type": "http.request", "body": b"x" * size, "more_body": True}

    assert LIMITS.body_patience == 30
    limits = attrs.evolve(LIMITS, max_body=40 * LIMITS.body_pace)
    request = HttpRequest({"method": "POST", "path": "/mcp"}, receive, unsent, limits=limits)
    began = trio.current_time()
    with pytest.raises(Refusal) as caught:
        await request.read_body()
    assert (caught.value.status, round((trio.current_time() - began) / 10)) == (status, periods)


async def test_a_client_that_goes_half_way_leaves_nothing_behind() -> None:
    async with serving(echo) as served:
        for _ in range(20):
            line = await served.connect()
            head = f"{HEAD}host: {line.host}\r\ncontent-length: 1000\r\n\r\n"
            await line.stream.send_all(head.encode() + b"{")
            await line.stream.aclose()
        line = await served.connect()
        assert (await line.modern("tools/list")).status == 200


@pytest.mark.parametrize("legacy", [False, True], ids=["modern", "legacy"])
async def test_a_connection_is_as_good_after_events_as_after_json(legacy: bool) -> None:
    """Hypercorn tells of an end also when the answer is complete, and is not done yet itself."""

    async def report(context: Context) -> str:
        await context.progress(1)
        return "reported"

    async with serving(report) as served:
        line = await served.connect()
        if legacy:
            await line.initialize()
        params = {"name": "report", "arguments": {}}

        async def ask(**headers: str) -> str:
            if legacy:
                reply = await line.legacy("tools/call", {**params, "_meta": {"progressToken": 1}}, **headers)
            else:
                reply = await line.modern("tools/call", **params, meta={"progressToken": 1}, headers=headers)
            text: str = reply.events[1]["result"]["content"][0]["text"]
            return text

        for _ in range(30):
            assert await ask() == "reported"
        assert await ask(connection="close") == "reported"
        assert await line.stream.receive_some() == b""


async def test_a_task_that_outlives_its_call_speaks_to_nobody() -> None:
    contexts: list[Context] = []

    async def leave(context: Context) -> str:
        contexts.append(context)
        return "left"

    async with serving(leave) as served:
        modern, legacy = await served.connect(), await served.connect()
        await legacy.initialize(elicitation={})
        meta = {"progressToken": 1}
        assert (await modern.modern("tools/call", name="leave", arguments={}, meta=meta)).status == 200
        params = {"name": "leave", "arguments": {}, "_meta": meta}
        assert (await legacy.legacy("tools/call", params)).status == 200
        for context in contexts:
            await context.progress(1)
        with pytest.raises(ProtocolError, match="no stream open"):
            await contexts[1].elicit("?", Form)
        assert (await modern.modern("tools/list")).status == 200
