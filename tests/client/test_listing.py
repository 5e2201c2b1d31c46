"""The list of tools: every page, what is skipped and why, listing again."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import assert_checkpoints

from tests.fakes import LEGACY, MODERN, FakeHost, FakeProcess, Reply, exiting, serving
from tests.far_end import Message
from trio_mcp import (
    ClientLimits,
    Connection,
    ProtocolError,
    RequestError,
    Server,
    ServerStartError,
    ServerStoppedError,
    open_connection,
    tool_name,
)

SERVER = Server("s", command="/bin/server", env={"PATH": "/bin"})
OBJECT = {"type": "object"}


def tool(name: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "inputSchema": OBJECT, **more}


def pages(*found: Any) -> Reply:
    """A listing in pages; the cursor is the index of the next one."""

    async def reply(process: FakeProcess, message: Message) -> None:
        index = int(message.get("params", {}).get("cursor", 0))
        page = {"tools": found[index]}
        if index + 1 < len(found):
            page["nextCursor"] = str(index + 1)
        await process.peer.answer(message, page)

    return reply


async def opened(host: FakeHost, reply: Reply, server: Server = SERVER, **limits: Any) -> Connection:
    """Open with this listing, and close again."""
    host.scripts = [serving({**MODERN, "tools/list": reply})]
    with trio.fail_after(20):
        async with open_connection(server, limits=ClientLimits(**limits)) as connection:
            pass
    return connection


def remote_names(connection: Connection) -> list[str]:
    return [it.remote_name for it in connection.tools]


async def test_every_page_is_listed_in_order(host: FakeHost) -> None:
    connection = await opened(host, pages([tool("a"), tool("b")], [], [tool("c")]))
    assert remote_names(connection) == ["a", "b", "c"]
    assert connection.warnings == ()
    assert [it.name for it in connection.tools] == ["mcp__s__a", "mcp__s__b", "mcp__s__c"]


async def test_an_empty_cursor_is_a_cursor(host: FakeHost) -> None:
    async def reply(process: FakeProcess, message: Message) -> None:
        if "cursor" in message["params"]:
            await process.peer.answer(message, {"tools": [tool("b")]})
        else:
            await process.peer.answer(message, {"tools": [tool("a")], "nextCursor": ""})

    assert remote_names(await opened(host, reply)) == ["a", "b"]


async def test_a_cursor_that_comes_twice_ends_the_listing_with_a_warning(host: FakeHost) -> None:
    connection = await opened(host, {"tools": [tool("a")], "nextCursor": "same"})
    assert "tools/list: a cursor came twice; the listing ends there" in connection.warnings
    assert remote_names(connection) == ["a"]


@pytest.mark.parametrize("cursor", [7, {}, [], True], ids=repr)
async def test_a_cursor_that_is_no_string_ends_the_listing_with_a_warning(host: FakeHost, cursor: Any) -> None:
    connection = await opened(host, {"tools": [tool("a")], "nextCursor": cursor})
    assert remote_names(connection) == ["a"]
    assert connection.warnings == ("tools/list: nextCursor is no string; the listing ends there",)


async def test_pages_and_tools_are_bounded(host: FakeHost) -> None:
    connection = await opened(host, pages(*[[tool(f"t{number}")] for number in range(5)]), max_pages=3)
    assert remote_names(connection) == ["t0", "t1", "t2"]
    assert connection.warnings == ("tools/list: more than 3 pages; the rest was left out",)
    connection = await opened(host, pages([tool("a"), tool("b"), tool("c")], [tool("d")]), max_entries=2)
    assert remote_names(connection) == ["a", "b"]
    assert connection.warnings == ("tools/list: more than 2 tools; the rest was left out",)


ODD_PAGES: list[tuple[Any, list[str]]] = [
    ({}, ["tools/list: a page without a list of tools was read as empty"]),
    ({"tools": None}, ["tools/list: a page without a list of tools was read as empty"]),
    ([], ["tools/list: a page without a list of tools was read as empty"]),
]


@pytest.mark.parametrize(("page", "warnings"), ODD_PAGES, ids=[repr(page) for page, _ in ODD_PAGES])
async def test_a_page_without_tools_is_a_warning(host: FakeHost, page: Any, warnings: list[str]) -> None:
    async def reply(process: FakeProcess, message: Message) -> None:
        await process.peer.answer(message, page)

    connection = await opened(host, reply)
    assert connection.tools == ()
    assert list(connection.warnings) == warnings


@pytest.mark.parametrize("page", [7, "x", None, {"tools": 7}, {"tools": "x"}], ids=repr)
async def test_a_page_that_is_none_is_a_start_error_with_its_cause(host: FakeHost, page: Any) -> None:
    async def reply(process: FakeProcess, message: Message) -> None:
        await process.peer.answer(message, page)

    with pytest.raises(ServerStartError, match="tools/list") as caught:
        await opened(host, reply)
    assert isinstance(caught.value.__cause__, ProtocolError)


async def test_one_bad_tool_costs_itself_alone_and_the_reason_can_be_read(host: FakeHost) -> None:
    bad = [
        "text",
        7,
        None,
        {"name": "x"},
        tool(""),
        tool("y", inputSchema=None),
        tool("z", inputSchema={"type": "array"}),
    ]
    connection = await opened(host, pages([tool("a"), *bad, tool("b"), tool("a")]))
    assert remote_names(connection) == ["a", "b"]
    assert len(connection.warnings) == len(bad) + 1
    assert 'tool "x" at index 4 was skipped: no-schema' in connection.warnings
    assert connection.warnings[-1] == 'tool "a" at index 9 was skipped: repeated-name'


async def test_two_tools_that_meet_in_one_name_are_one_and_a_warning(
    host: FakeHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trio_mcp.tools.tool.tool_name", lambda server, name: "mcp__s__same")
    connection = await opened(host, pages([tool("a"), tool("b")]))
    assert remote_names(connection) == ["a"]
    assert connection.warnings == ('tool "b" was skipped: its name mcp__s__same is that of "a" too',)


async def test_odd_names_are_cleaned_and_called_by_the_servers_own(host: FakeHost) -> None:
    odd = "files/read é" + "x" * 80
    host.scripts = [serving({**MODERN, "tools/list": {"tools": [tool(odd)]}})]
    with trio.fail_after(5):
        async with open_connection(SERVER) as connection:
            (only,) = connection.tools
            assert only.name == tool_name("s", odd)
            assert len(only.name) <= 64
            await only.call({})
    assert host.processes[0].params("tools/call")[0]["name"] == odd


# --- the filter


def filtered(*tools: str) -> Server:
    return Server("s", command="/bin/server", env={"PATH": "/bin"}, tools=tools)


async def test_the_filter_keeps_the_servers_order_and_warns_of_what_is_missing(host: FakeHost) -> None:
    connection = await opened(host, pages([tool("a"), tool("b"), tool("c")]), filtered("c", "z", "a", "z"))
    assert remote_names(connection) == ["a", "c"]
    assert connection.warnings == ('tool "z" is not offered by the server',)


async def test_an_empty_filter_keeps_none(host: FakeHost) -> None:
    connection = await opened(host, pages([tool("a")]), filtered())
    assert (connection.tools, connection.warnings) == ((), ())


async def test_what_the_filter_leaves_out_is_no_warning_even_where_it_is_bad(host: FakeHost) -> None:
    connection = await opened(host, pages([tool("a"), {"name": "bad"}, {"name": "worse"}]), filtered("a", "bad"))
    assert remote_names(connection) == ["a"]
    assert 'tool "bad" at index 1 was skipped: no-schema' in connection.warnings
    assert not any("worse" in warning for warning in connection.warnings)


# --- listing again


class Changing:
    """A listing that a test changes."""

    def __init__(self) -> None:
        self.reply: Reply = {"tools": [tool("a")]}

    async def __call__(self, process: FakeProcess, message: Message) -> None:
        if isinstance(self.reply, RequestError):
            await process.peer.refuse(message, self.reply.code, self.reply.message)
        elif callable(self.reply):
            await self.reply(process, message)
        else:
            await process.peer.answer(message, self.reply)


async def test_refresh_tools_replaces_tools_and_warnings(host: FakeHost) -> None:
    changing = Changing()
    host.scripts = [serving({**MODERN, "tools/list": changing})]
    with trio.fail_after(5):
        async with open_connection(SERVER) as connection:
            before = connection.tools
            changing.reply = pages([tool("b")], [tool("c"), "odd"])
            with assert_checkpoints():
                await connection.refresh_tools()
            assert remote_names(connection) == ["b", "c"]
            assert len(connection.warnings) == 1
            assert [it.remote_name for it in before] == ["a"]
            assert (await before[0].call({})).content == "{}", "a tool that was listed once can still be called"


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (RequestError(-32603, "not now"), RequestError),
        ({"tools": 7}, ProtocolError),
        (exiting(1), ServerStoppedError),
    ],
)
async def test_a_refresh_that_fails_leaves_the_previous_list(
    host: FakeHost, reply: Any, error: type[Exception]
) -> None:
    changing = Changing()
    host.scripts = [serving({**MODERN, "tools/list": changing})]
    with trio.fail_after(5):
        async with open_connection(SERVER) as connection:
            changing.reply = reply
            with pytest.raises(error):
                await connection.refresh_tools()
            assert remote_names(connection) == ["a"]


async def test_a_refresh_that_fails_on_the_second_page_leaves_the_previous_list(host: FakeHost) -> None:
    changing = Changing()

    async def half(process: FakeProcess, message: Message) -> None:
        if "cursor" in message["params"]:
            await process.peer.refuse(message, -32603)
        else:
            await process.peer.answer(message, {"tools": [tool("b")], "nextCursor": "2"})

    host.scripts = [serving({**MODERN, "tools/list": changing})]
    with trio.fail_after(5):
        async with open_connection(SERVER) as connection:
            changing.reply = half
            with pytest.raises(RequestError):
                await connection.refresh_tools()
            assert remote_names(connection) == ["a"]


async def test_refreshing_without_the_capability_asks_nothing(host: FakeHost) -> None:
    discover = {"supportedVersions": ["2026-07-28"], "capabilities": {}}
    host.scripts = [serving({"server/discover": discover})]
    with trio.fail_after(5):
        async with open_connection(SERVER) as connection:
            with assert_checkpoints():
                await connection.refresh_tools()
    assert host.processes[0].methods == ["server/discover"]


async def test_many_refreshes_at_once_are_one_after_the_other(host: FakeHost) -> None:
    host.scripts = [serving({**LEGACY, "tools/list": pages([tool("a")], [tool("b")])})]
    with trio.fail_after(5):
        async with open_connection(SERVER) as connection:
            async with trio.open_nursery() as nursery:
                for _ in range(5):
                    nursery.start_soon(connection.refresh_tools)
            assert remote_names(connection) == ["a", "b"]
    cursors = [params.get("cursor") for params in host.processes[0].params("tools/list")]
    assert cursors == [None, "1"] * 6
