"""A server on one pair of streams: how it ends, what it still answers, and what it never waits for."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from trio.testing import MockClock, lockstep_stream_pair, memory_stream_pair, wait_all_tasks_blocked

from tests.exposing import HANDSHAKE, Client, modern
from tests.far_end import EndOfInput, byte_by_byte
from trio_mcp import ServerLimits, ToolServer, tool
from trio_mcp.server.streams import StreamService

EOF_GRACE = ServerLimits().eof_grace


async def echo(text: str) -> str:
    return text


async def sleep(seconds: float) -> str:
    await trio.sleep(seconds)
    return f"slept {seconds:g}"


async def forever() -> None:
    await trio.sleep_forever()


@asynccontextmanager
async def serving(
    pair: Any = memory_stream_pair, *, grace: float = EOF_GRACE
) -> AsyncIterator[tuple[Client, trio.Event]]:
    """A server whose end of the stream is closed once it has ended, as its callers do; the event says that."""
    server = ToolServer("server")
    server.add_tools(tool(echo), tool(sleep), tool(forever))
    ours, theirs = pair()
    service = StreamService(server, theirs, theirs, grace=grace)
    over = trio.Event()

    async def run() -> None:
        await service.run()
        over.set()
        await trio.aclose_forcefully(theirs)

    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(run)
            yield Client(ours, service), over
            nursery.cancel_scope.cancel()


async def answers(client: Client) -> dict[Any, Any]:
    """Everything that is still said, by id, until the server has closed the stream."""
    found: dict[Any, Any] = {}
    data = client._rest + b"".join(line + b"\n" for line in client._lines)
    client._lines.clear()
    client._rest = data
    while True:
        try:
            message = await client.take()
        except EndOfInput:
            return found
        found[message["id"]] = message


@pytest.mark.parametrize(
    "pair", [memory_stream_pair, byte_by_byte, lockstep_stream_pair], ids=lambda p: p.__name__
)
async def test_ten_calls_then_the_end_of_input_are_ten_answers(pair: Any) -> None:
    """All in one write, and the stream is closed right behind it: no call may be lost between two tasks."""
    async with serving(pair) as (client, over):
        async with trio.open_nursery() as nursery:
            found: dict[Any, Any] = {}

            async def read() -> None:
                found.update(await answers(client))

            nursery.start_soon(read)
            params = [modern(name="echo", arguments={"text": str(number)}) for number in range(10)]
            await client.send(
                *({"id": id_, "method": "tools/call", "params": it} for id_, it in enumerate(params))
            )
            await client.output.aclose()
        assert {id_: found[id_]["result"]["content"][0]["text"] for id_ in found} == {
            number: str(number) for number in range(10)
        }
        await over.wait()


async def test_a_last_request_without_its_line_end_is_answered() -> None:
    async with serving() as (client, _):
        await client.send(b'{"jsonrpc":"2.0","id":5,"method":"ping"}')
        await client.output.aclose()
        assert (await answers(client))[5]["result"] == {}


async def test_nothing_to_answer_costs_no_wait(autojump_clock: MockClock) -> None:
    async with serving() as (client, over):
        await client.initialize()
        await client.output.aclose()
        await over.wait()
        assert trio.current_time() == 0


@pytest.mark.parametrize(("seconds", "in_time"), [(0, True), (1.4, True), (1.6, False), (1000, False)])
async def test_a_call_in_flight_gets_its_grace_and_is_then_cancelled(
    seconds: float, in_time: bool, autojump_clock: MockClock
) -> None:
    async with serving() as (client, over):
        id_ = await client.ask("tools/call", modern(name="sleep", arguments={"seconds": seconds}))
        await wait_all_tasks_blocked()
        await client.output.aclose()
        found = await answers(client)
        assert (id_ in found) == in_time
        await over.wait()
        assert trio.current_time() == pytest.approx(min(seconds, EOF_GRACE))


async def test_the_grace_is_below_the_two_seconds_that_hosts_wait() -> None:
    assert EOF_GRACE == 1.5


async def test_what_is_done_in_the_grace_is_answered_and_the_rest_is_not(autojump_clock: MockClock) -> None:
    async with serving() as (client, _):
        for id_, seconds in enumerate((1000, 1, 0.5)):
            await client.ask("tools/call", modern(name="sleep", arguments={"seconds": seconds}), id_=id_)
        await wait_all_tasks_blocked()
        await client.output.aclose()
        assert list(await answers(client)) == [2, 1]


async def test_stop_takes_no_new_requests_and_gives_the_same_grace(autojump_clock: MockClock) -> None:
    async with serving() as (client, over):
        before = await client.ask("tools/call", modern(name="sleep", arguments={"seconds": 1}))
        await wait_all_tasks_blocked()
        client.service.stop()
        await wait_all_tasks_blocked()
        after = await client.ask("ping")
        await client.send(b"{\n")
        found = await answers(client)
        assert (before in found, after in found, None in found) == (True, False, False)
        await over.wait()
        assert trio.current_time() == 1


async def test_a_cancel_is_heard_during_the_grace(autojump_clock: MockClock) -> None:
    async with serving() as (client, over):
        id_ = await client.ask("tools/call", modern(name="forever"))
        await wait_all_tasks_blocked()
        client.service.stop()
        await client.tell("notifications/cancelled", {"requestId": id_})
        await over.wait()
        assert trio.current_time() == 0


async def test_a_client_that_does_not_listen_any_more_ends_the_server(autojump_clock: MockClock) -> None:
    """Killed with calls in flight: handlers get the grace, and nothing waits for answers to be read."""
    async with serving() as (client, over):
        await client.initialize()
        for _ in range(100):
            await client.ask("tools/call", {"name": "forever"})
        await wait_all_tasks_blocked()
        await client.receive.aclose()
        await client.output.aclose()
        await over.wait()
        assert trio.current_time() == EOF_GRACE


async def test_a_write_that_fails_ends_the_server_although_the_client_still_sends(
    autojump_clock: MockClock,
) -> None:
    async with serving() as (client, over):
        await client.receive.aclose()
        await client.ask("ping")
        await over.wait()
        assert trio.current_time() == 0


async def test_answers_that_nobody_can_read_are_not_waited_for(autojump_clock: MockClock) -> None:
    """The last call is done a second after the client has stopped listening: that is when the server ends."""
    async with serving() as (client, over):
        await client.ask("tools/call", modern(name="sleep", arguments={"seconds": 1}))
        await wait_all_tasks_blocked()
        await client.receive.aclose()
        await client.ask("ping")
        await over.wait()
        assert trio.current_time() == 1


async def test_a_client_that_never_reads_does_not_hold_up_the_end(autojump_clock: MockClock) -> None:
    async with serving(lockstep_stream_pair) as (client, over):
        await client.ask("ping")
        await client.output.aclose()
        await over.wait()
        assert trio.current_time() <= EOF_GRACE + 1


async def test_cancelling_the_server_cancels_its_handlers() -> None:
    ended = []

    @tool
    async def wait() -> None:
        try:
            await trio.sleep_forever()
        finally:
            ended.append(1)

    server = ToolServer("server")
    server.add_tools(wait)
    ours, theirs = memory_stream_pair()
    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(StreamService(server, theirs, theirs, grace=1000).run)
            client = Client(ours, None)  # type: ignore[arg-type]
            await client.ask("tools/call", modern(name="wait"))
            await wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
    assert ended == [1]


async def test_a_tool_that_fails_while_the_server_ends_does_not_fail_the_server(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail_late() -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise ValueError("late")

    @tool
    async def group() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(fail_late)
            nursery.start_soon(trio.sleep_forever)

    server = ToolServer("server")
    server.add_tools(group)
    ours, theirs = memory_stream_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(StreamService(server, theirs, theirs, grace=1).run)
        client = Client(ours, None)  # type: ignore[arg-type]
        await client.ask("tools/call", modern(name="group"))
        await wait_all_tasks_blocked()
        await ours.aclose()
    assert [record.levelno for record in caplog.records] == [logging.ERROR]


async def test_two_clients_of_one_server_know_nothing_of_one_another() -> None:
    async with serving() as (one, _):
        server = one.service.server
        ours, theirs = memory_stream_pair()
        async with trio.open_nursery() as nursery:
            service = StreamService(server, theirs, theirs, grace=1)
            nursery.start_soon(service.run)
            other = Client(ours, service)
            await one.initialize()
            assert (await other.request("tools/list"))["error"]["code"] == -32602
            await other.request("initialize", {**HANDSHAKE, "protocolVersion": "2024-11-05"})
            assert (await one.request("tools/list"))["result"]["tools"]
            await other.tell("notifications/cancelled", {"requestId": 1})
            await ours.aclose()
        assert (await one.request("ping"))["result"] == {}


async def test_the_repr_tells_what_runs() -> None:
    async with serving() as (client, _):
        await client.initialize()
        await client.ask("tools/call", {"name": "forever"})
        await wait_all_tasks_blocked()
        assert repr(client.service) == (
            "<StreamService of <ClientState at <ToolServer 'server', 3 tools>, 2025-11-25>, 1 running>"
        )
