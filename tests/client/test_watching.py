"""`watch_tools`: every change comes through, many at once as one, in both eras."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock, assert_checkpoints, wait_all_tasks_blocked

from tests.fakes import LEGACY, MODERN, FakeHost, FakeProcess, Reply, serving
from tests.far_end import Message
from trio_mcp import Connection, ProtocolError, RequestError, Server, ServerStoppedError, Tool, open_connection
from trio_mcp.client.watching import ACKNOWLEDGE_PATIENCE, FIRST_PAUSE, LONGEST_PAUSE

SERVER = Server("s", command="/bin/server", env={"PATH": "/bin"})
CHANGED = {"method": "notifications/tools/list_changed"}
ACKNOWLEDGED = {"method": "notifications/subscriptions/acknowledged", "params": {}}


class Listing:
    """A tools/list whose tools a test changes."""

    def __init__(self, *names: str) -> None:
        self.names = list(names)
        self.count = 0
        self.error: RequestError | None = None
        self.gate: trio.Event | None = None

    async def __call__(self, process: FakeProcess, message: Message) -> None:
        self.count += 1
        process.tasks.start_soon(self._answer, process, message)

    async def _answer(self, process: FakeProcess, message: Message) -> None:
        tools = [{"name": name, "inputSchema": {"type": "object"}} for name in self.names]
        if self.gate is not None:
            await self.gate.wait()
        if self.error is not None:
            await process.peer.refuse(message, self.error.code, self.error.message)
        else:
            await process.peer.answer(message, {"tools": tools})


async def acknowledge(process: FakeProcess, _: Message) -> None:
    """A subscription that the server keeps."""
    await process.peer.send(ACKNOWLEDGED)


def legacy(listing: Listing) -> dict[str, Reply]:
    return {**LEGACY, "tools/list": listing}


def modern(listing: Listing, listen: Reply = acknowledge) -> dict[str, Reply]:
    return {**MODERN, "tools/list": listing, "subscriptions/listen": listen}


BOTH_ERAS = pytest.mark.parametrize("replies", [legacy, modern], ids=["legacy", "modern"])


def names(tools: tuple[Tool, ...]) -> list[str]:
    return [tool.remote_name for tool in tools]


async def change(host: FakeHost, listing: Listing, *to: str) -> None:
    listing.names = list(to)
    await host.processes[-1].peer.send(CHANGED)


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
async def test_five_hundred_changes_during_one_call_are_one(host: FakeHost, replies: Any) -> None:
    listing = Listing("a")

    async def busy(process: FakeProcess, message: Message) -> None:
        listing.names = ["b"]
        await process.peer.send(*[CHANGED] * 500)
        await process.peer.answer(message, {"content": []})

    host.scripts = [serving({**replies(listing), "tools/call": busy})]
    with trio.fail_after(5):
        async with open_connection(SERVER) as connection, connection.watch_tools() as changes:
            await wait_all_tasks_blocked()
            before = listing.count
            await connection.call_tool("a")
            assert names(await anext(changes)) == ["b"]
            with trio.move_on_after(0.05) as scope:
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


# --- modern: to listen


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
            assert trio.current_time() == ACKNOWLEDGE_PATIENCE
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
    assert (FIRST_PAUSE, LONGEST_PAUSE) == (1, 60)
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
            with trio.move_on_after(ACKNOWLEDGE_PATIENCE / 2) as scope:
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
