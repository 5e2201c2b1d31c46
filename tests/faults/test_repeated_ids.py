"""A client that uses a request id again before it has its answer: the first is answered, the second refused."""

from __future__ import annotations

import json

import trio
from trio.testing import wait_all_tasks_blocked

from trio_mcp import ToolServer, tool
from trio_mcp.server.streams import StreamService
from trio_mcp.transports.lines.pair import stream_pair

CALL = b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"large"}}\n'
BEGIN = (
    b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},'
    b'"clientInfo":{"name":"x","version":"1"}}}\n{"jsonrpc":"2.0","method":"notifications/initialized"}\n'
)


async def test_an_id_that_is_used_again_costs_no_answer() -> None:
    """Its first answer is done and waits to be written, as the client does not read."""
    runs = []

    @tool
    async def large() -> str:
        runs.append(1)
        return "x" * 200_000

    server = ToolServer("large")
    server.add_tools(large)
    ours, theirs = stream_pair()
    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(StreamService(server, theirs, theirs, grace=0).run)
            await ours.send_all(BEGIN)
            for id_ in (1, 3):  # on their way: the pair is full, and the writer waits
                await ours.send_all(CALL % id_)
                await wait_all_tasks_blocked()
            await ours.send_all(CALL % 2)
            await wait_all_tasks_blocked()  # waits in the outbox
            await ours.send_all(CALL % 2 + CALL % 2)
            await wait_all_tasks_blocked()
            data = b""
            while data.count(b"\n") < 6:
                data += await ours.receive_some()
            await ours.aclose()
    answers = [json.loads(line) for line in data.splitlines()]
    assert [answer["id"] for answer in answers] == [0, 1, 3, 2, 2, 2]
    assert ["result" in answer for answer in answers] == [True, True, True, True, False, False]
    assert [answer["error"]["code"] for answer in answers[4:]] == [-32600, -32600]
    assert len(runs) == 3
