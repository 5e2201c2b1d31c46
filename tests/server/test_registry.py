"""ToolServer: what it takes, how it is listed page by page, who hears of changes."""

from __future__ import annotations

import json
from typing import Any

import attrs
import pytest
import trio

from tests.exposing import ERAS, Client, modern, raw
from trio_mcp import (
    Policy,
    RequestError,
    Text,
    Tool,
    ToolServer,
    UnknownToolError,
    open_memory_connection,
    raw_tool,
    tool,
)
from trio_mcp.protocol.revisions import Era


def named(name: str, value: Any = None) -> Tool:
    """A tool of that name, which returns a value."""

    async def give() -> Any:
        return value

    return tool(name=name)(give)


def serving(*names: str, **options: Any) -> ToolServer:
    server = ToolServer("server", **options)
    server.add_tools(*map(named, names))
    return server


async def names_of(server: ToolServer, era: Era = "modern") -> list[str]:
    with trio.fail_after(5):
        async with open_memory_connection(server, protocol=era) as connection:
            return [found.remote_name for found in connection.tools]


# --- what it is


@pytest.mark.parametrize("era", ERAS)
async def test_a_client_is_told_name_version_and_instructions(era: Era) -> None:
    async with open_memory_connection(serving(version="1.2", instructions="Be kind."), protocol=era) as connection:
        assert connection.server_info == {"name": "server", "version": "1.2"}
        assert connection.instructions == "Be kind."
        assert connection.capabilities == {"tools": {"listChanged": True}, "logging": {}}


async def test_without_instructions_none_are_sent() -> None:
    for era in ERAS:
        async with open_memory_connection(serving(), protocol=era) as connection:
            assert connection.instructions is None
            assert connection.server_info["version"] == "0"


@pytest.mark.table(
    ("options", "error", "text"),
    [
        ({"name": 7}, TypeError, "name: expected str, got int"),
        ({"name": ""}, ValueError, "name: is empty"),
        ({"version": None}, TypeError, "version: expected str, got NoneType"),
        ({"instructions": b"x"}, TypeError, "instructions: expected str, got bytes"),
        ({"page_size": 0}, ValueError, "page_size: expected at least 1, got 0"),
        ({"page_size": -1}, ValueError, "page_size: expected at least 1"),
        ({"page_size": True}, ValueError, "page_size: expected at least 1"),
        ({"page_size": 1.5}, ValueError, "page_size: expected at least 1"),
        ({"signing_key": b"short"}, ValueError, "signing_key: expected at least 16 bytes"),
        ({"signing_key": "x" * 32}, ValueError, "signing_key: expected at least 16 bytes"),
    ],
)
def test_an_argument_that_is_wrong_is_named(options: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        ToolServer(**{"name": "server", **options})


# --- what it takes


def test_what_is_no_tool_is_a_type_error() -> None:
    def forgotten() -> None: ...

    with pytest.raises(TypeError, match="tools: expected Tool, got function"):
        serving().add_tools(named("a"), forgotten)  # type: ignore[arg-type]


def test_a_name_that_comes_twice_in_one_call_is_a_value_error_and_nothing_is_added() -> None:
    server = serving()
    with pytest.raises(ValueError, match="tools: 'a' comes twice"):
        server.add_tools(named("a"), named("b"), named("a"))
    assert server.tools == ()


def test_a_tool_that_requires_approval_is_a_value_error_and_nothing_is_added() -> None:
    server = serving()
    with pytest.raises(ValueError, match="tools: 'b' requires approval, and MCP has no channel for that"):
        server.add_tools(named("a"), named("b").with_policy(Policy(require_approval=True)))
    assert server.tools == ()


async def test_a_name_from_an_earlier_call_is_replaced_in_its_place() -> None:
    server = serving("a", "b")
    server.add_tools(named("a", "new"))
    assert await names_of(server) == ["a", "b"]
    async with open_memory_connection(server) as connection:
        assert (await connection.call_tool("a")).content == "new"


async def test_a_tool_that_is_removed_is_unknown() -> None:
    server = serving("a", "b")
    async with open_memory_connection(server) as connection:
        server.remove_tool("a")
        assert await names_of(server) == ["b"]
        with pytest.raises(RequestError, match=r'^unknown tool "a" '):
            await connection.call_tool("a")


def test_removing_an_unknown_name_raises() -> None:
    with pytest.raises(UnknownToolError, match='unknown tool "x"'):
        serving("a").remove_tool("x")


async def test_a_call_that_has_begun_outlives_its_tool() -> None:
    release = trio.Event()

    @tool
    async def wait() -> str:
        await release.wait()
        return "done"

    server = serving()
    server.add_tools(wait)
    with trio.fail_after(5):
        async with raw(server=server) as client:
            await client.initialize()
            id_ = await client.ask("tools/call", {"name": "wait"})
            await client.request("ping")
            server.remove_tool("wait")
            assert (await client.take())["method"] == "notifications/tools/list_changed"
            release.set()
            answer = await client.take()
            assert (answer["id"], answer["result"]["content"][0]["text"]) == (id_, "done")


async def test_timeout_cap_and_wrap_are_not_applied() -> None:
    """The exposition is the tool, not an agent."""

    async def wrapper(call: Any, proceed: Any) -> Any:
        raise AssertionError("wrapped")

    policy = Policy(timeout=0, max_result_bytes=1, wrap=(wrapper,))
    server = serving()
    server.add_tools(named("a", "a long text").with_policy(policy))
    async with open_memory_connection(server) as connection:
        assert (await connection.call_tool("a")).content == "a long text"


# --- pages


@pytest.mark.table("era", ERAS)
@pytest.mark.table("size", [1, 2, 3, 5, 6, None])
async def test_every_page_size_lists_every_tool_in_order(size: int | None, era: Era) -> None:
    assert await names_of(serving(*"abcde", page_size=size), era) == list("abcde")


async def pages_of(client: Client, era: Era) -> list[tuple[list[str], str | None]]:
    """The names on each page, and its cursor."""
    pages: list[tuple[list[str], str | None]] = []
    cursor: str | None = None
    while True:
        params: dict[str, Any] = {} if cursor is None else {"cursor": cursor}
        answer = await client.request("tools/list", modern(**params) if era == "modern" else params)
        result = answer["result"]
        cursor = result.get("nextCursor")
        pages.append(([entry["name"] for entry in result["tools"]], cursor))
        if cursor is None:
            return pages


@pytest.mark.parametrize("era", ERAS)
async def test_a_page_has_so_many_tools_and_the_last_no_cursor(era: Era) -> None:
    async with raw(server=serving(*"abcde", page_size=2)) as client:
        await client.initialize()
        pages = await pages_of(client, era)
        assert [names for names, _ in pages] == [["a", "b"], ["c", "d"], ["e"]]
        assert pages[-1][1] is None


async def test_an_empty_listing_is_one_empty_page() -> None:
    async with raw(server=serving(page_size=1)) as client:
        result = (await client.modern("tools/list"))["result"]
        assert (result["tools"], "nextCursor" in result) == ([], False)


@pytest.mark.table("cursor", ["", "never", 7, ["a"], {}])
async def test_a_cursor_that_never_was_is_invalid_params(cursor: Any) -> None:
    async with raw(server=serving(*"abc", page_size=1)) as client:
        assert (await client.modern("tools/list", cursor=cursor))["error"]["code"] == -32602


async def test_a_cursor_without_pages_is_invalid_params_and_null_is_none() -> None:
    async with raw(server=serving("a")) as client:
        assert (await client.modern("tools/list", cursor="a"))["error"]["code"] == -32602
        assert len((await client.modern("tools/list", cursor=None))["result"]["tools"]) == 1


async def test_a_cursor_survives_tools_that_are_added_and_removed_elsewhere() -> None:
    server = serving(*"abcd", page_size=2)
    async with raw(server=server) as client:
        cursor = (await client.modern("tools/list"))["result"]["nextCursor"]
        server.remove_tool("a")
        server.add_tools(named("e"))
        result = (await client.modern("tools/list", cursor=cursor))["result"]
        assert [entry["name"] for entry in result["tools"]] == ["c", "d"]


async def test_modern_pages_say_how_long_they_are_good_for() -> None:
    async with raw(server=serving("a")) as client:
        for method in ("tools/list", "server/discover"):
            result = (await client.modern(method))["result"]
            assert (result["ttlMs"], result["cacheScope"], result["resultType"]) == (0, "private", "complete")
            assert result["_meta"]["io.modelcontextprotocol/serverInfo"] == {"name": "server", "version": "0"}


async def test_legacy_pages_have_nothing_of_the_modern_era() -> None:
    async with raw(server=serving("a")) as client:
        await client.initialize()
        assert set((await client.request("tools/list"))["result"]) == {"tools"}


# --- schemas


@attrs.define
class Sum:
    sum: int


async def test_an_output_schema_whose_root_is_no_object_is_wrapped_in_one_for_legacy_clients() -> None:
    def number() -> int: ...  # type: ignore[empty-body]
    def add() -> Sum: ...  # type: ignore[empty-body]
    def either() -> Sum | None: ...

    server = serving()
    server.add_tools(tool(number), tool(add), tool(either))
    async with raw(server=server) as client:
        await client.initialize()
        modern_list = (await client.modern("tools/list"))["result"]["tools"]
        assert [entry["name"] for entry in modern_list if "outputSchema" in entry] == ["number", "add", "either"]
        legacy_list = (await client.request("tools/list"))["result"]["tools"]
        for old, new in zip(legacy_list, modern_list, strict=True):
            wrapped: dict[str, Any] = {
                "type": "object",
                "properties": {"result": new["outputSchema"]},
                "required": ["result"],
            }
            if old["name"] == "either":  # its definitions stay at the root
                wrapped["$defs"] = wrapped["properties"]["result"].pop("$defs")
            assert old["outputSchema"] == (new["outputSchema"] if old["name"] == "add" else wrapped)


@pytest.mark.table(
    ("given", "listed"),
    [
        (b"{}", b'{"type":"object"}'),
        (b" { } ", b'{"type":"object"}'),
        (b"[]", b'{"type":"object"}'),
        (b'{"properties":{}}', b'{"type":"object","properties":{}}'),
        (b'{ "x": 1.10,  "type": "object", "x": 2 }', b'{ "x": 1.10,  "type": "object", "x": 2 }'),
        (b'{"x":1,\n\t"type":\r\n"object"}', b'{"x":1, \t"type":  "object"}'),
    ],
)
async def test_schema_bytes_are_listed_verbatim_with_the_type_where_it_was_missing(
    given: bytes, listed: bytes
) -> None:
    server = serving()
    server.add_tools(raw_tool("raw", "d", given, lambda arguments: None))
    for era in ERAS:
        async with open_memory_connection(server, protocol=era) as connection:
            assert connection.tools[0].input_schema_json == listed


async def test_a_remote_tool_passes_through_with_what_its_server_said() -> None:
    """A gateway: schemas and arguments byte for byte, unknown fields kept; the name is the tool's."""
    schema = '{ "type":"object", "x-mine": 1.10 }'
    entry = {"name": "a", "title": "A", "description": "Does.", "icons": [{"src": "data:,"}], "_meta": {"m": 1}}
    behind = ToolServer("behind")
    upstream = raw_tool("a", "Does.", schema.encode(), lambda arguments: Text(arguments.decode()))
    spec = attrs.evolve(
        upstream.spec, raw=entry, title="A", meta={"m": 1}, output_schema_json=b'{"type": "number"}'
    )
    behind.add_tools(attrs.evolve(upstream, spec=spec))
    front = ToolServer("front")
    async with open_memory_connection(behind, name="up") as up:
        front.add_tools(*up.tools)
        async with open_memory_connection(front) as connection:
            (found,) = connection.tools
            assert found.remote_name == "mcp__up__a"
            assert found.input_schema_json == schema.encode()
            assert found.spec.output_schema_json == b'{"type": "number"}'
            assert found.title == "A"
            assert {key: found.spec.raw[key] for key in ("icons", "_meta")} == {
                key: entry[key] for key in ("icons", "_meta")
            }
            assert (await found.call('{ "a" : 1.10 }')).content == '{ "a" : 1.10 }'
            result = json.dumps(found.spec.raw["description"])
            assert "Tool a from the MCP server up. Does." in result


# --- changes


@pytest.mark.parametrize("era", ERAS)
async def test_a_connected_client_hears_of_every_change(era: Era) -> None:
    server = serving("a")
    with trio.fail_after(5):
        async with open_memory_connection(server, protocol=era) as connection, connection.watch_tools() as changes:
            server.add_tools(named("b"))
            assert [found.remote_name for found in await changes.__anext__()] == ["a", "b"]
            server.remove_tool("a")
            assert [found.remote_name for found in await changes.__anext__()] == ["b"]
            server.add_tools(named("b"))  # replaced: a change too
            assert [found.remote_name for found in await changes.__anext__()] == ["b"]


async def test_adding_nothing_is_no_change() -> None:
    server = serving("a")
    async with raw(server=server) as client:
        await client.initialize()
        await client.request("ping")
        server.add_tools()
        assert await client.silent()


async def test_a_legacy_client_hears_of_nothing_before_it_says_that_it_is_ready() -> None:
    server = serving("a")
    async with raw(server=server) as client:
        await client.request("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}})
        server.add_tools(named("b"))
        assert await client.silent()
        await client.tell("notifications/initialized")
        await client.request("ping")
        server.add_tools(named("c"))
        assert await client.take() == {
            "jsonrpc": "2.0",
            "method": "notifications/tools/list_changed",
            "params": {},
        }


async def test_a_client_that_is_gone_is_told_nothing_more() -> None:
    server = serving("a")
    for era in ERAS:
        async with open_memory_connection(server, protocol=era) as connection, connection.watch_tools():
            pass
    assert len(server.changes) == 0
    server.add_tools(named("b"))
