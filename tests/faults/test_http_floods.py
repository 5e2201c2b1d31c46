"""A legacy server over HTTP that asks without end, or whose own stream is refused for a while."""

from __future__ import annotations

import itertools
import json

import pytest
import trio

from tests.http_peer import Exchange, start_peer
from trio_mcp import ClientLimits, ServerStoppedError, StreamableLimits, open_connection


def pings(first: int, last: int) -> bytes:
    messages = ({"jsonrpc": "2.0", "id": f"p{number}", "method": "ping"} for number in range(first, last))
    return b"".join(b"data: %b\n\n" % json.dumps(message).encode() for message in messages)


async def test_many_pings_are_answered_over_few_connections(nursery: trio.Nursery) -> None:
    peer = await start_peer(nursery, "legacy")
    at_once = most = 0

    async def take(exchange: Exchange) -> None:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        await trio.lowlevel.checkpoint()
        await exchange.status("202 Accepted")
        at_once -= 1

    async def flood(exchange: Exchange) -> None:
        await exchange.events(pings(0, 400))
        await peer.heard("answer", 400)
        await exchange.event(exchange.answer_to({"content": []}))
        await exchange.end()

    peer.on["answer"] = take
    peer.calls["flood"] = flood
    with trio.fail_after(20):
        async with open_connection(peer.server()) as connection:
            await connection.call_tool("flood")
    answered = [exchange.message["id"] for exchange in peer.of("answer")]
    assert sorted(answered) == sorted(f"p{number}" for number in range(400))
    assert most <= StreamableLimits().answers_at_once


@pytest.mark.parametrize(
    "limits", [StreamableLimits(max_answers=50), StreamableLimits(max_answer_bytes=2000)], ids=["count", "bytes"]
)
async def test_a_server_that_asks_more_than_it_takes_answers_to_ends_the_connection_with_that_reason(
    nursery: trio.Nursery, limits: StreamableLimits
) -> None:
    peer = await start_peer(nursery, "legacy")

    async def never(exchange: Exchange) -> None:
        await exchange.line.wait_closed()

    async def flood(exchange: Exchange) -> None:
        await exchange.events(pings(0, 200))
        await exchange.line.wait_closed()

    peer.on["answer"] = never
    peer.calls["flood"] = flood
    with trio.fail_after(10):
        async with open_connection(peer.server(), limits=ClientLimits(streamable=limits)) as connection:
            with pytest.raises(ServerStoppedError, match="more requests than it takes answers to"):
                await connection.call_tool("flood")
            assert connection.error is not None
    assert len(peer.of("answer")) <= limits.answers_at_once


@pytest.mark.slow
@pytest.mark.parametrize("status", ["429 Too Many Requests", "500 Error", "503 Service Unavailable"])
async def test_the_servers_own_stream_is_tried_again_slower_and_slower_where_it_is_refused_for_a_while(
    nursery: trio.Nursery, status: str
) -> None:
    peer = await start_peer(nursery, "legacy")
    times: list[float] = []

    async def refuse(exchange: Exchange) -> None:
        times.append(trio.current_time())
        if len(times) < 4:
            await exchange.status(status)
        else:
            await peer.behave(exchange)

    peer.on["GET"] = refuse
    limits = ClientLimits(streamable=StreamableLimits(first_pause=0.02))
    with trio.fail_after(10):
        async with open_connection(peer.server(), limits=limits):
            await peer.heard("GET", 4)
    pauses = [later - earlier for earlier, later in itertools.pairwise(times)]
    for pause, least in zip(pauses, (0.04, 0.08, 0.16), strict=True):
        assert pause >= least
