"""Modern servers tell of changes only those who listen: one listen for all watchers, made again, ended."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.client.changing_server import ACKNOWLEDGED, Listing, change, modern, names
from tests.fakes import MODERN, FakeHost, FakeProcess, serving
from tests.far_end import Message
from trio_mcp import ProtocolError, Server, open_connection
from trio_mcp.client.limits import ClientLimits

LIMITS = ClientLimits()

SERVER = Server("s", command="/bin/server", env={"PATH": "/bin"})


def listens(host: FakeHost) -> list[float]:
    (process,) = host.processes
    return [
        at for at, method in zip(process.times, process.methods, strict=True) if method == "subscriptions/listen"
    ]


async def test_watchers_share_one_listen_which_ends_with_the_last(host: FakeHost) -> None:
    host.scripts = [serving(modern(Listing("a")))]
    with trio.fail_after(5):
        async with open_connection(SERVER) as connection:
            async with connection.watch_tools():
                async with connection.watch_tools():
                    assert len(listens(host)) == 1
                await wait_all_tasks_blocked()
                assert host.processes[0].params("notifications/cancelled") == []
            await wait_all_tasks_blocked()
            listen = next(it for it in host.processes[0].heard if it["method"] == "subscriptions/listen")
            assert listen["params"]["notifications"] == {"toolsListChanged": True}
            (notice,) = host.processes[0].params("notifications/cancelled")
            assert notice["requestId"] == listen["id"]
            async with connection.watch_tools():
                assert len(listens(host)) == 2


@pytest.mark.parametrize("tools", [{}, {"listChanged": False}, []])
async def test_a_server_that_tells_of_no_changes_is_not_listened_to(host: FakeHost, tools: Any) -> None:
    discover = {**MODERN["server/discover"], "capabilities": {"tools": tools}}  # type: ignore[dict-item]
    host.scripts = [serving({**modern(Listing("a")), "server/discover": discover})]
    with trio.fail_after(5):
        async with open_connection(SERVER) as connection, connection.watch_tools():
            await wait_all_tasks_blocked()
            assert listens(host) == []


async def test_what_changed_before_the_acknowledgement_is_found(host: FakeHost) -> None:
    """Between the listing and the acknowledgement the server tells nobody."""
    listing = Listing("a")
    host.scripts = [serving(modern(listing))]
    with trio.fail_after(5):
        async with open_connection(SERVER) as connection:
            listing.names = ["b"]
            async with connection.watch_tools() as changes:
                assert names(await anext(changes)) == ["b"]


async def test_a_server_that_never_acknowledges_is_not_waited_for_longer_than_the_patience(
    host: FakeHost, autojump_clock: MockClock
) -> None:
    listing = Listing("a")
    host.scripts = [serving(modern(listing, None))]
    with trio.fail_after(100):
        async with open_connection(SERVER) as connection, connection.watch_tools() as changes:
            assert trio.current_time() == LIMITS.acknowledge_patience
            await change(host, listing, "b")
            assert names(await anext(changes)) == ["b"]


async def test_a_listen_that_the_server_ends_is_made_again_ever_more_slowly(
    host: FakeHost, autojump_clock: MockClock
) -> None:
    host.scripts = [serving(modern(Listing("a"), {}))]
    with trio.fail_after(10_000):
        async with open_connection(SERVER) as connection, connection.watch_tools():
            began = listens(host)[0]
            await trio.sleep_until(began + 250)
    assert (LIMITS.first_listen_pause, LIMITS.longest_listen_pause) == (1, 60)
    assert [at - began for at in listens(host)] == [0, 1, 3, 7, 15, 31, 63, 123, 183, 243]


async def test_a_subscription_that_held_long_is_made_again_soon(host: FakeHost, autojump_clock: MockClock) -> None:
    async def end_after_100_seconds(process: FakeProcess, message: Message) -> None:
        async def end() -> None:
            await process.peer.send(ACKNOWLEDGED)
            await trio.sleep(100)
            await process.peer.answer(message, {})

        process.tasks.start_soon(end)

    host.scripts = [serving(modern(Listing("a"), end_after_100_seconds))]
    with trio.fail_after(10_000):
        async with open_connection(SERVER) as connection, connection.watch_tools():
            await trio.sleep(350)
    assert listens(host) == [0, 101, 202, 303]


async def test_what_changed_while_nobody_listened_is_found_after_listening_again(
    host: FakeHost, autojump_clock: MockClock
) -> None:
    listing = Listing("a")

    async def end_at_once(process: FakeProcess, message: Message) -> None:
        await process.peer.send(ACKNOWLEDGED)
        await process.peer.answer(message, {})

    async def meanwhile() -> None:
        await trio.sleep(0.5)
        listing.names = ["b"]

    host.scripts = [serving(modern(listing, end_at_once))]
    with trio.fail_after(100):
        async with open_connection(SERVER) as connection, connection.watch_tools() as changes:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(meanwhile)
                assert names(await anext(changes)) == ["b"]
            assert trio.current_time() == 1


@pytest.mark.parametrize(
    "answer", [{"error": {"code": -32601, "message": "no"}}, {}, {"error": 7}, {"result": 7}], ids=repr
)
async def test_a_listen_that_is_refused_or_answered_with_nonsense_costs_the_connection_nothing(
    host: FakeHost, autojump_clock: MockClock, answer: Any
) -> None:
    async def reply(process: FakeProcess, message: Message) -> None:
        await process.peer.send({"id": message["id"], **answer})

    listing = Listing("a")
    host.scripts = [serving(modern(listing, reply))]
    with trio.fail_after(100):
        async with open_connection(SERVER) as connection, connection.watch_tools() as changes:
            await wait_all_tasks_blocked()
            await change(host, listing, "b")
            assert names(await anext(changes)) == ["b"]


async def test_a_watcher_that_is_cancelled_while_it_begins_to_listen_leaves_no_listener(
    host: FakeHost, autojump_clock: MockClock
) -> None:
    host.scripts = [serving(modern(Listing("a"), None))]
    with trio.fail_after(100):
        async with open_connection(SERVER) as connection:
            with trio.move_on_after(LIMITS.acknowledge_patience / 2) as scope:
                async with connection.watch_tools():
                    raise AssertionError("entered")
            assert scope.cancelled_caught
            await wait_all_tasks_blocked()
            assert len(host.processes[0].params("notifications/cancelled")) == 1
            assert connection.statistics().calls_in_flight == 0


async def test_an_error_in_the_body_leaves_bare(host: FakeHost) -> None:
    host.scripts = [serving(modern(Listing("a")))]
    with trio.fail_after(5), pytest.raises(ProtocolError, match="mine"):
        async with open_connection(SERVER) as connection, connection.watch_tools():
            raise ProtocolError("mine")
