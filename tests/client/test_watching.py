"""`watch_tools`: every change comes through, many at once as one, in both eras."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock, assert_checkpoints, wait_all_tasks_blocked

from tests.client.changing_server import CHANGED, Listing, change, legacy, modern, names
from tests.fakes import FakeHost, FakeProcess, serving
from tests.far_end import Message
from trio_mcp import Connection, RequestError, Server, ServerStoppedError, open_connection

SERVER = Server("s", command="/bin/server", env={"PATH": "/bin"})
BOTH_ERAS = pytest.mark.parametrize("replies", [legacy, modern], ids=["legacy", "modern"])


@BOTH_ERAS
async def test_each_change_replaces_the_tools_and_is_given_out(host: FakeHost, replies: Any) -> None:
    listing = Listing("a")
    host.scripts = [serving(replies(listing))]
    with trio.fail_after(5):
        async with open_connection(SERVER) as connection, connection.watch_tools() as changes:
            for tools in (["a", "b"], ["b"], []):
                await change(host, listing, *tools)
                with assert_checkpoints():
                    assert names(await anext(changes)) == tools
                assert names(connection.tools) == tools


@BOTH_ERAS
async def test_five_hundred_changes_during_one_call_are_one(
    host: FakeHost, autojump_clock: MockClock, replies: Any
) -> None:
    listing = Listing("a")

    async def busy(process: FakeProcess, message: Message) -> None:
        listing.names = ["b"]
        await process.peer.send(*[CHANGED] * 500)
        await process.peer.answer(message, {"content": []})

    host.scripts = [serving({**replies(listing), "tools/call": busy})]
    with trio.fail_after(1000):
        async with open_connection(SERVER) as connection, connection.watch_tools() as changes:
            await wait_all_tasks_blocked()
            before = listing.count
            await connection.call_tool("a")
            assert names(await anext(changes)) == ["b"]
            with trio.move_on_after(100) as scope:
                await anext(changes)
            assert scope.cancelled_caught
            assert listing.count <= before + 2


@BOTH_ERAS
async def test_changes_since_the_last_listing_come_first(host: FakeHost, replies: Any) -> None:
    listing = Listing("a")
    host.scripts = [serving(replies(listing))]
    with trio.fail_after(5):
        async with open_connection(SERVER) as connection:
            await change(host, listing, "b")
            await wait_all_tasks_blocked()
            assert names(connection.tools) == ["a"], "nobody listens: nothing is listed by itself"
            async with connection.watch_tools() as changes:
                assert names(await anext(changes)) == ["b"]


@BOTH_ERAS
async def test_what_refresh_tools_has_listed_is_no_change(
    host: FakeHost, autojump_clock: MockClock, replies: Any
) -> None:
    listing = Listing("a")
    host.scripts = [serving(replies(listing))]
    with trio.fail_after(1000):
        async with open_connection(SERVER) as connection:
            await change(host, listing, "b")
            await wait_all_tasks_blocked()
            await connection.refresh_tools()
            async with connection.watch_tools() as changes:
                with trio.move_on_after(100) as scope:
                    await anext(changes)
                assert scope.cancelled_caught


@BOTH_ERAS
async def test_a_server_that_changes_nothing_never_yields(
    host: FakeHost, autojump_clock: MockClock, replies: Any
) -> None:
    host.scripts = [serving(replies(Listing("a")))]
    with trio.fail_after(10_000):
        async with open_connection(SERVER) as connection, connection.watch_tools() as changes:
            with trio.move_on_after(5000) as scope:
                await anext(changes)
            assert scope.cancelled_caught


@BOTH_ERAS
async def test_two_watchers_both_see_a_change_that_is_listed_once(host: FakeHost, replies: Any) -> None:
    listing = Listing("a")
    host.scripts = [serving(replies(listing))]
    seen: list[list[str]] = []

    async def watch(connection: Connection) -> None:
        async with connection.watch_tools() as changes:
            seen.append(names(await anext(changes)))

    with trio.fail_after(5):
        async with open_connection(SERVER) as connection:
            async with trio.open_nursery() as nursery:
                for _ in range(2):
                    nursery.start_soon(watch, connection)
                await wait_all_tasks_blocked()
                before = listing.count
                await change(host, listing, "b")
            assert seen == [["b"], ["b"]]
            assert listing.count == before + 1


@BOTH_ERAS
async def test_a_change_during_a_listing_is_listed_again(host: FakeHost, replies: Any) -> None:
    listing = Listing("a")
    host.scripts = [serving(replies(listing))]
    with trio.fail_after(5):
        async with open_connection(SERVER) as connection, connection.watch_tools() as changes:
            await wait_all_tasks_blocked()
            listing.gate = trio.Event()
            async with trio.open_nursery() as nursery:

                async def meanwhile() -> None:
                    await change(host, listing, "b")
                    await wait_all_tasks_blocked()
                    await change(host, listing, "c")
                    await wait_all_tasks_blocked()
                    assert listing.gate is not None
                    listing.gate.set()

                nursery.start_soon(meanwhile)
                assert names(await anext(changes)) == ["b"]
            assert names(await anext(changes)) == ["c"]


@BOTH_ERAS
async def test_a_cancel_while_the_list_is_fetched_loses_no_change(
    host: FakeHost, autojump_clock: MockClock, replies: Any
) -> None:
    listing = Listing("a")
    host.scripts = [serving(replies(listing))]
    with trio.fail_after(5):
        async with open_connection(SERVER) as connection, connection.watch_tools() as changes:
            await wait_all_tasks_blocked()
            listing.gate = trio.Event()
            await change(host, listing, "b")
            with trio.move_on_after(1) as scope:
                await anext(changes)
            assert scope.cancelled_caught
            listing.gate.set()
            assert names(await anext(changes)) == ["b"]


@BOTH_ERAS
async def test_a_failed_listing_is_raised_the_old_list_stays_and_the_next_change_counts(
    host: FakeHost, replies: Any
) -> None:
    listing = Listing("a")
    host.scripts = [serving(replies(listing))]
    with trio.fail_after(5):
        async with open_connection(SERVER) as connection, connection.watch_tools() as changes:
            await wait_all_tasks_blocked()
            listing.error = RequestError(-32603, "not now")
            await change(host, listing, "b")
            with pytest.raises(RequestError, match="not now"):
                await anext(changes)
            assert names(connection.tools) == ["a"]
            listing.error = None
            await change(host, listing, "c")
            assert names(await anext(changes)) == ["c"]


@BOTH_ERAS
async def test_it_ends_when_the_connection_is_closed(
    host: FakeHost, autojump_clock: MockClock, replies: Any
) -> None:
    host.scripts = [serving(replies(Listing("a")))]
    ended = trio.Event()

    async def watch(connection: Connection) -> None:
        async with connection.watch_tools() as changes:
            async for _ in changes:
                raise AssertionError("nothing has changed")
        ended.set()

    with trio.fail_after(5):
        async with open_connection(SERVER) as connection, trio.open_nursery() as nursery:
            nursery.start_soon(watch, connection)
            await wait_all_tasks_blocked()
            await connection.aclose()
            await ended.wait()
            async with connection.watch_tools() as changes:
                assert [tools async for tools in changes] == []
            assert trio.current_time() == 0, "nothing to wait for on a closed connection"


@BOTH_ERAS
async def test_it_raises_when_the_connection_is_lost(
    host: FakeHost, autojump_clock: MockClock, replies: Any
) -> None:
    host.scripts = [serving(replies(Listing("a")))]
    with trio.fail_after(5):
        async with open_connection(SERVER) as connection:
            async with connection.watch_tools() as changes:
                host.processes[0].exit(3)
                for _ in range(2):
                    with pytest.raises(ServerStoppedError, match="status 3"):
                        await anext(changes)
            async with connection.watch_tools() as changes:
                with pytest.raises(ServerStoppedError):
                    await anext(changes)
            assert trio.current_time() == 0


async def test_refreshing_in_the_loop_is_no_deadlock(host: FakeHost) -> None:
    listing = Listing("a")
    host.scripts = [serving(legacy(listing))]
    with trio.fail_after(5):
        async with open_connection(SERVER) as connection, connection.watch_tools() as changes:
            await change(host, listing, "b")
            async for _ in changes:
                await connection.refresh_tools()
                break
            assert names(connection.tools) == ["b"]
