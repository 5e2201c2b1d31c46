"""Faults 25 to 28: lists of tools that are odd, long, full of strange names, or change all the time."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from tests.peers import ERAS, peer
from trio_mcp import Connection, ServerStartError, ServerStoppedError, open_connection, open_connections, tool_name

OBJECT = {"type": "object"}


def named(*names: str) -> list[dict[str, Any]]:
    return [{"name": name, "inputSchema": OBJECT} for name in names]


def names(connection: Connection) -> list[str]:
    return [tool.remote_name for tool in connection.tools]


async def listings(connection: Connection) -> int:
    """How many tools/list the server has seen."""
    seen = json.loads((await connection.call_tool("seen")).content)
    return sum(message.get("method") == "tools/list" for message in seen)


# --- fault 25: one bad tool loses the list

BAD_TOOLS: dict[str, Any] = {
    "missing schema": ({"name": "bad"}, "no-schema"),
    "null schema": ({"name": "bad", "inputSchema": None}, "no-schema"),
    "text schema": ({"name": "bad", "inputSchema": "object"}, "no-schema"),
    "boolean schema": ({"name": "bad", "inputSchema": True}, "no-schema"),
    "array schema": ({"name": "bad", "inputSchema": {"type": "array"}}, "root-not-object"),
    "list of types": ({"name": "bad", "inputSchema": {"type": ["object"]}}, "root-not-object"),
    "reference": ({"name": "bad", "inputSchema": {"$ref": "#/x"}}, "root-ref"),
    "no name": ({"inputSchema": OBJECT}, "no-name"),
    "number as name": ({"name": 17, "inputSchema": OBJECT}, "no-name"),
    "a string": ("bad", "no-object"),
    "null": (None, "no-object"),
    "a list": ([], "no-object"),
    "a number": (4.5, "no-object"),
    "repeated": ({"name": "first", "inputSchema": OBJECT}, "repeated-name"),
}


@pytest.mark.parametrize("era", ERAS)
async def test_bad_entries_are_skipped_with_a_reason_each_and_the_others_stay(era: str) -> None:
    entries = [entry for entry, _ in BAD_TOOLS.values()]
    listed = [*named("first"), *entries, *named("last")]
    with trio.fail_after(10):
        async with open_connection(peer(era=era, listed=listed)) as connection:
            assert names(connection) == ["first", "last"]
            warnings = connection.warnings
    assert len(warnings) == len(BAD_TOOLS)
    for index, ((_, reason), warning) in enumerate(zip(BAD_TOOLS.values(), warnings, strict=True), start=1):
        assert warning.endswith(f"at index {index} was skipped: {reason}")


async def test_a_bad_output_schema_costs_nothing() -> None:
    bad: tuple[Any, ...] = (None, "text", 17, [], {"type": "array"}, {"type": "strange"}, {"$ref": "#/x"})
    listed = [{"name": f"t{n}", "inputSchema": OBJECT, "outputSchema": schema} for n, schema in enumerate(bad)]
    with trio.fail_after(10):
        async with open_connection(peer(listed=listed)) as connection:
            assert connection.warnings == ()
            assert [tool.output_schema for tool in connection.tools] == [None] * len(bad)


async def test_odd_members_of_an_entry_cost_that_member_alone() -> None:
    odd = {"title": 1, "description": ["x"], "annotations": "none", "_meta": 3, "icons": 7, "execution": None}
    with trio.fail_after(10):
        async with open_connection(peer(listed=[{"name": "odd", "inputSchema": OBJECT, **odd}])) as connection:
            [tool] = connection.tools
    assert connection.warnings == ()
    assert (tool.title, tool.spec.description, tool.spec.meta) == (None, None, None)
    assert tool.spec.raw["icons"] == 7


async def test_empty_lists_where_objects_are_meant_are_read_as_objects() -> None:
    """PHP has one literal for both."""
    listed = [{"name": "php", "inputSchema": [], "annotations": []}]
    with trio.fail_after(10):
        async with open_connection(peer(listed=listed)) as connection:
            assert connection.tools[0].input_schema == OBJECT


# --- fault 26: only the first page is read; a cursor that never advances


@pytest.mark.parametrize("era", ERAS)
async def test_every_page_is_read_in_order_and_an_empty_one_is_a_page(era: str) -> None:
    pages = {
        "": {"tools": named("a", "seen"), "nextCursor": "two"},
        "two": {"tools": [], "nextCursor": "drei/ü"},
        "drei/ü": {"tools": named("b"), "nextCursor": "4"},
        "4": {"tools": named("c"), "nextCursor": None},
    }
    with trio.fail_after(10):
        async with open_connection(peer(era=era, pages=pages)) as connection:
            assert names(connection) == ["a", "seen", "b", "c"]
            assert connection.warnings == ()
            assert await listings(connection) == 4


@pytest.mark.parametrize(
    "pages",
    [
        {"": {"tools": named("a", "seen"), "nextCursor": "x"}, "x": {"tools": named("b"), "nextCursor": "x"}},
        {
            "": {"tools": named("a", "seen"), "nextCursor": "x"},
            "x": {"tools": named("b"), "nextCursor": "y"},
            "y": {"tools": [], "nextCursor": "x"},
        },
        {"": {"tools": named("a", "seen", "b"), "nextCursor": 17}},
        {"": {"tools": named("a", "seen", "b"), "nextCursor": ["x"]}},
    ],
    ids=["the same", "a circle", "a number", "a list"],
)
async def test_a_cursor_that_leads_nowhere_ends_the_listing_with_a_warning(pages: dict[str, Any]) -> None:
    with trio.fail_after(10):
        async with open_connection(peer(pages=pages)) as connection:
            assert names(connection) == ["a", "seen", "b"]
            assert len(connection.warnings) == 1
            assert await listings(connection) == len(pages)


async def test_pages_without_end_are_cut_with_a_warning() -> None:
    """Each page has a new cursor."""
    source = """
peer.page = lambda cursor: {"tools": [], "nextCursor": str(int(cursor or 0) + 1)}
"""
    with trio.fail_after(30):
        async with open_connection(peer(source=source)) as connection:
            assert connection.tools == ()
            assert connection.warnings == ("tools/list: more than 1000 pages; the rest was left out",)
            assert await listings(connection) == 1000


@pytest.mark.table("page", ["text", None, 17, {"tools": "text"}])
async def test_a_page_that_is_none_is_a_start_error_that_says_so(page: Any) -> None:
    source = "peer.answer = lambda id_, result: peer.send({'id': id_, 'result': result})"
    with trio.fail_after(10):
        with pytest.raises(ServerStartError, match="tools/list failed: ") as caught:
            async with open_connection(peer(era="legacy", pages={"": page}, source=source)):
                raise AssertionError("it opened")
    assert caught.value.__cause__ is not None


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(
    ("tools", "found"),
    [
        ({}, []),
        (None, []),
        ({"name": "a", "inputSchema": OBJECT}, ["a"]),
        ({"1": {"name": "a", "inputSchema": OBJECT}, "3": {"name": "b", "inputSchema": OBJECT}}, ["a", "b"]),
    ],
    ids=["empty object", "null", "one for a list", "values"],
)
async def test_tools_that_are_no_list_are_read_as_php_and_go_mean_them(
    era: str, tools: Any, found: list[str]
) -> None:
    with trio.fail_after(10):
        async with open_connection(peer(era=era, pages={"": {"tools": tools}})) as connection:
            assert names(connection) == found
            [warning] = connection.warnings
            assert warning.startswith("tools/list: ")


async def test_a_page_without_tools_is_an_empty_one_with_a_warning() -> None:
    with trio.fail_after(10):
        async with open_connection(peer(pages={"": {}})) as connection:
            assert connection.tools == ()
            assert len(connection.warnings) == 1


async def test_without_the_tools_capability_nothing_is_asked() -> None:
    with trio.fail_after(10):
        async with open_connection(peer(source="peer.capabilities = lambda: {}")) as connection:
            assert connection.tools == ()
            await connection.refresh_tools()
            assert await listings(connection) == 0


async def test_a_listing_that_fails_later_is_raised_and_the_old_list_stays() -> None:
    with trio.fail_after(10):
        async with open_connection(peer()) as connection:
            before = connection.tools
            await connection.call_tool("change", {"times": 0, "tools": "nonsense"})
            with pytest.raises(Exception, match="tools is no list"):
                await connection.refresh_tools()
            assert connection.tools is before


# --- fault 27: names


async def test_the_same_name_on_two_servers_and_strange_names_stay_apart() -> None:
    strange = ["search", "a.b/c d", "x" * 100, "ü", "\U0001f600"]
    with trio.fail_after(10):
        servers = [peer(name, listed=named(*strange)) for name in ("one", "two")]
        async with open_connections(servers) as connections:
            tools = connections.tools
            assert len({tool.name for tool in tools}) == 2 * len(strange)
            for tool in tools:
                assert len(tool.name) <= 64
                assert tool.name.isascii()
            assert connections["one"].tools[0].name == "mcp__one__search"
            assert connections["two"].tools[0].name == "mcp__two__search"
            assert [tool.remote_name for tool in connections["two"].tools] == strange


async def test_two_names_that_clean_to_the_same_are_told_apart_and_both_can_be_called() -> None:
    listed = named("a.b", "a/b", "a_b")
    source = """
for name in ("a.b", "a/b", "a_b"):
    CALLS[name] = lambda peer, id_, arguments, meta, name=name: peer.answer(id_, text(name))
"""
    with trio.fail_after(10):
        async with open_connection(peer("s", listed=listed, source=source)) as connection:
            assert [tool.name for tool in connection.tools] == [
                "mcp__s__a_b_" + hashlib.sha256(b"a.b").hexdigest()[:8],
                "mcp__s__a_b_" + hashlib.sha256(b"a/b").hexdigest()[:8],
                "mcp__s__a_b",
            ]
            for tool in connection.tools:
                assert await tool.invoke({}) == tool.remote_name


async def test_two_names_that_meet_all_the_same_cost_the_later_tool_with_a_warning() -> None:
    """A tool whose own name is what another's is made into."""
    made = tool_name("s", "a.b").removeprefix("mcp__s__")
    with trio.fail_after(10):
        async with open_connection(peer("s", listed=named("a.b", made))) as connection:
            assert names(connection) == ["a.b"]
            [warning] = connection.warnings
    assert made in warning
    assert "a.b" in warning


async def test_the_filter_keeps_what_is_named_and_warns_of_what_is_not_offered() -> None:
    with trio.fail_after(10):
        async with open_connection(peer(tools=("seen", "nowhere"))) as connection:
            assert names(connection) == ["seen"]
            assert connection.warnings == ('tool "nowhere" is not offered by the server',)
            before = len(json.loads((await connection.call_tool("seen")).content))
            with pytest.raises(LookupError, match='unknown tool "echo"'):
                await connection.call_tool("echo")
            assert len(json.loads((await connection.call_tool("seen")).content)) == before + 1  # nothing was sent


# --- fault 28: list_changed


@pytest.mark.parametrize("era", ERAS)
async def test_500_changes_during_one_call_are_coalesced_and_the_watcher_may_call_the_server(era: str) -> None:
    with trio.fail_after(20):
        async with open_connection(peer(era=era, list_changed=True)) as connection:
            count = len(connection.tools)
            before = await listings(connection)
            async with connection.watch_tools() as changes:
                arguments = {"times": 500, "tools": named("seen", "change", "new")}
                result = await connection.call_tool("change", arguments)
                assert result.content == "changed"
                async for tools in changes:
                    assert await listings(connection) > before
                    await connection.refresh_tools()
                    if len(tools) != count:
                        break
                assert [tool.remote_name for tool in tools] == ["seen", "change", "new"]
                assert names(connection) == ["seen", "change", "new"]
                relisted = await listings(connection) - before
    assert relisted <= 6  # a doubt at the start, the changes in one or two chunks, and our own refreshes


async def test_watchers_share_one_relisting() -> None:
    seen = 0

    async def watch(connection: Connection) -> None:
        nonlocal seen
        async with connection.watch_tools() as changes:
            assert len(await changes.__anext__()) == 2
        seen += 1

    with trio.fail_after(10):
        async with open_connection(peer(era="legacy", list_changed=True)) as connection:
            async with trio.open_nursery() as nursery:
                for _ in range(10):
                    nursery.start_soon(watch, connection)
                await wait_all_tasks_blocked()
                await connection.call_tool("change", {"tools": named("seen", "new")})
            assert seen == 10
            assert await listings(connection) == 2


async def test_changes_without_a_watcher_cost_nothing() -> None:
    with trio.fail_after(10):
        async with open_connection(peer(era="legacy", list_changed=True)) as connection:
            await connection.call_tool("change", {"times": 500})
            assert await listings(connection) == 1


@pytest.mark.parametrize("era", ERAS)
async def test_watching_ends_at_close_and_raises_at_loss(era: str) -> None:
    with trio.fail_after(10):
        opened = open_connection(peer(era=era, list_changed=True))
        async with opened as connection, connection.watch_tools() as changes, trio.open_nursery() as nursery:
            nursery.start_soon(connection.aclose)
            async for _ in changes:
                pass
        opened = open_connection(peer(era=era, list_changed=True))
        async with opened as connection, connection.watch_tools() as changes:
            with pytest.raises(ServerStoppedError):
                await connection.call_tool("exit", {"status": 1})
            with pytest.raises(ServerStoppedError, match="exited with status 1"):
                async for _ in changes:
                    pass


async def test_a_modern_server_is_listened_to_only_while_somebody_watches() -> None:
    def listening(received: list[dict[str, Any]]) -> list[str]:
        ours = ("subscriptions/listen", "notifications/cancelled")
        return [message["method"] for message in received if message.get("method") in ours]

    async def seen(connection: Connection) -> list[str]:
        return listening(json.loads((await connection.call_tool("seen")).content))

    with trio.fail_after(10):
        async with open_connection(peer(era="modern", list_changed=True)) as connection:
            assert await seen(connection) == []
            async with connection.watch_tools() as first, connection.watch_tools() as second:
                await connection.call_tool("change")
                await first.__anext__()
                await second.__anext__()
                assert await seen(connection) == ["subscriptions/listen"]
            while len(await seen(connection)) < 2:
                await trio.lowlevel.checkpoint()
            assert await seen(connection) == ["subscriptions/listen", "notifications/cancelled"]
