"""import_tools over HTTP: tools with headers that are not legal are skipped, those of the others go out."""

from __future__ import annotations

import json
from typing import Any

import trio

from tests.http_peer import HttpPeer, start_peer
from trio_mcp import Connection, ImportedTools, ToolServer, import_tools, open_connection, open_memory_connection

PLAIN = {"type": "object"}


def marked(header: Any, **more: Any) -> dict[str, Any]:
    """A schema whose argument `region` is repeated in a header."""
    return {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": header}}, **more}


def entry(name: str, schema: Any) -> dict[str, Any]:
    return {"name": name, "inputSchema": schema}


async def imported(peer: HttpPeer, **fields: Any) -> tuple[ImportedTools, Connection]:
    with trio.fail_after(10):
        async with open_connection(peer.server(**fields)) as connection:
            return await import_tools(connection), connection


def reasons(found: ImportedTools) -> list[tuple[str, int, str]]:
    return [(it.name, it.index, it.reason) for it in found.skipped]


async def test_illegal_headers_skip_the_tool_with_the_cause(nursery: trio.Nursery) -> None:
    peer = await start_peer(nursery)
    peer.tools = [
        entry("good", marked("Region")),
        entry("bad", marked("not a token")),
        entry("number", {"type": "object", "properties": {"n": {"type": "number", "x-mcp-header": "N"}}}),
    ]
    found, connection = await imported(peer)
    assert [it.name for it in found.tools] == ["good"]
    assert reasons(found) == [("bad", 1, "bad-header"), ("number", 2, "bad-header")]
    assert str(found.skipped[0].cause) == "x-mcp-header at region: 'not a token' is no header name"
    assert found.skipped[0].__cause__ is found.skipped[0].cause
    assert connection.warnings[0].startswith(
        'tool "bad" at index 1 was skipped: bad-header (x-mcp-header at region'
    )


async def test_bad_header_comes_after_the_schema_and_before_a_repeated_name(nursery: trio.Nursery) -> None:
    peer = await start_peer(nursery)
    bad = marked("not a token")
    peer.tools = [
        entry("a", bad),
        entry("a", PLAIN),
        entry("a", bad),
        entry("a", {**bad, "type": "array"}),
        entry("a", PLAIN),
    ]
    found, _ = await imported(peer)
    assert [it.spec.input_schema for it in found.tools] == [PLAIN]
    assert reasons(found) == [
        ("a", 0, "bad-header"),
        ("a", 2, "bad-header"),
        ("a", 3, "root-not-object"),
        ("a", 4, "repeated-name"),
    ]


async def test_what_the_filter_hides_is_not_skipped_for_its_headers(nursery: trio.Nursery) -> None:
    peer = await start_peer(nursery)
    peer.tools = [entry("good", PLAIN), entry("bad", marked(7))]
    found, _ = await imported(peer, tools=("good",))
    assert ([it.name for it in found.tools], found.skipped) == (["good"], ())


async def test_headers_are_no_reason_in_the_legacy_era_nor_on_a_stream(nursery: trio.Nursery) -> None:
    peer = await start_peer(nursery, "legacy")
    peer.tools = [entry("odd", marked("not a token"))]
    found, _ = await imported(peer)
    assert (len(found.tools), found.skipped) == (1, ())
    front = ToolServer("front")
    front.add_tools(*found.tools)
    async with open_memory_connection(front) as connection:
        again = await import_tools(connection)
        assert (len(again.tools), again.skipped) == (1, ())


async def test_an_imported_tool_repeats_its_arguments_in_headers(nursery: trio.Nursery) -> None:
    """Also one that the connection's own listing has never seen."""
    peer = await start_peer(nursery)
    with trio.fail_after(10):
        async with open_connection(peer.server()) as connection:
            peer.tools = [entry("echo", marked("Region")), entry("wait", PLAIN)]
            found = await import_tools(connection, prefix="far_")
            assert (await found.tools[0].call({"region": "eu"})).content == json.dumps({"region": "eu"})
            assert [it.spec.input_schema for it in connection.tools] == [PLAIN, PLAIN], "its own list stays"
    headers = peer.of("tools/call")[0].request.headers
    assert (headers["mcp-name"], headers["mcp-param-region"]) == ("echo", "eu")


async def test_the_headers_are_those_of_the_entry_that_stands(nursery: trio.Nursery) -> None:
    peer = await start_peer(nursery)
    peer.tools = [entry("echo", marked("Region")), entry("echo", marked("Other")), entry("echo", PLAIN)]
    with trio.fail_after(10):
        async with open_connection(peer.server()) as connection:
            found = await import_tools(connection)
            for it in (*connection.tools, *found.tools):
                await it.call({"region": "eu"})
    for exchange in peer.of("tools/call"):
        assert exchange.request.headers["mcp-param-region"] == "eu"
        assert "mcp-param-other" not in exchange.request.headers


async def test_a_gateway_repeats_arguments_in_headers_upstream(nursery: trio.Nursery) -> None:
    peer = await start_peer(nursery)
    peer.tools = [entry("echo", marked("Region"))]
    with trio.fail_after(10):
        async with open_connection(peer.server()) as up:
            front = ToolServer("front")
            front.add_tools(*(await import_tools(up)).tools)
            async with open_memory_connection(front) as connection:
                await connection.call_tool("echo", '{"region": "us"}')
    assert peer.of("tools/call")[0].request.headers["mcp-param-region"] == "us"
