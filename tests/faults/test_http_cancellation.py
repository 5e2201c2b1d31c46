"""Faults 43 to 47 over HTTP: cancelling, callbacks, and many servers; and what a connection mends by itself."""

from __future__ import annotations

import enum
from typing import Any

import pytest
import trio

from tests.http_peer import OBJECT, Exchange, content, start_peer
from trio_mcp import (
    InvalidArgumentsError,
    ProtocolError,
    RequestError,
    ServerStartError,
    open_connection,
    open_connections,
)
from trio_mcp.client.limits import ClientLimits

ERAS = ("modern", "legacy")


# --- faults 43 and 44: cancelling


@pytest.mark.parametrize("begun", [False, True])
async def test_cancelling_a_modern_call_closes_its_response_and_posts_nothing(
    nursery: trio.Nursery, begun: bool
) -> None:
    peer = await start_peer(nursery, "modern")
    closed = trio.Event()

    async def slow(exchange: Exchange) -> None:
        if begun:
            await exchange.events(b": working\n\n")
        await exchange.line.wait_closed()
        closed.set()

    peer.calls["slow"] = slow
    with trio.fail_after(10):
        async with open_connection(peer.server()) as connection:
            with trio.move_on_after(0.1) as scope:
                await connection.call_tool("slow")
            assert scope.cancelled_caught
            await closed.wait()
            assert (await connection.call_tool("echo")).content == "{}"
            assert connection.statistics().calls_in_flight == 0
    assert "notifications/cancelled" not in peer.methods()


@pytest.mark.parametrize("begun", [False, True])
async def test_cancelling_a_legacy_call_posts_the_notice(nursery: trio.Nursery, begun: bool) -> None:
    peer = await start_peer(nursery, "legacy")

    async def slow(exchange: Exchange) -> None:
        if begun:
            await exchange.event(id="1")
        await exchange.line.wait_closed()

    peer.calls["slow"] = slow
    with trio.fail_after(10):
        async with open_connection(peer.server()) as connection:
            with trio.move_on_after(0.1):
                await connection.call_tool("slow")
            notice = await peer.heard("notifications/cancelled")
            assert notice.params["requestId"] == peer.of("tools/call")[0].message["id"]
            assert "mcp-session-id" in notice.request.headers


@pytest.mark.slow
async def test_the_notice_goes_out_where_the_body_is_cancelled(nursery: trio.Nursery) -> None:
    peer = await start_peer(nursery, "legacy")
    with trio.fail_after(10):
        with trio.move_on_after(0.3):
            async with open_connection(peer.server()) as connection:
                await connection.call_tool("wait")
        await peer.heard("notifications/cancelled")
    assert peer.methods()[-1] == "DELETE"


@pytest.mark.parametrize("method", ["server/discover", "initialize"])
async def test_no_notice_is_posted_for_the_handshake(nursery: trio.Nursery, method: str) -> None:
    peer = await start_peer(nursery, "legacy")
    peer.on[method] = lambda it: it.line.wait_closed()
    with trio.fail_after(10):
        with trio.move_on_after(0.2):
            async with open_connection(peer.server()):
                raise AssertionError("opened")
    assert "notifications/cancelled" not in peer.methods()


@pytest.mark.parametrize("era", ERAS)
async def test_closing_fails_what_is_in_flight(nursery: trio.Nursery, era: str) -> None:
    peer = await start_peer(nursery, era)
    raised: list[Exception] = []

    async def call(connection: Any) -> None:
        try:
            await connection.call_tool("wait")
        except trio.ClosedResourceError as error:
            raised.append(error)

    with trio.fail_after(5):
        async with trio.open_nursery() as callers, open_connection(peer.server()) as connection:
            callers.start_soon(call, connection)
            await peer.heard("tools/call")
            await connection.aclose()
            assert connection.done.is_set()
            assert connection.error is None
            with pytest.raises(trio.ClosedResourceError):
                await connection.call_tool("echo")
    assert len(raised) == 1


@pytest.mark.slow
async def test_a_server_that_is_deaf_to_the_end_of_the_session_is_not_waited_for(nursery: trio.Nursery) -> None:
    peer = await start_peer(nursery, "legacy")
    peer.on["DELETE"] = lambda it: it.line.wait_closed()
    with trio.fail_after(3):
        async with open_connection(peer.server()):
            pass


# --- fault 45: callbacks


@pytest.mark.parametrize("era", ERAS)
async def test_a_callback_may_call_the_same_server(nursery: trio.Nursery, era: str) -> None:
    peer = await start_peer(nursery, era)

    async def steps(exchange: Exchange) -> None:
        for step in range(3):
            params = {"progressToken": exchange.params["_meta"]["progressToken"], "progress": step}
            await exchange.event({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
        await exchange.event(exchange.answer_to(content("done")))
        await exchange.end()

    peer.calls["steps"] = steps
    seen = []
    with trio.fail_after(10):
        async with open_connection(peer.server()) as connection:

            async def on_progress(progress: float, total: float | None, message: str | None) -> None:
                seen.append((progress, (await connection.call_tool("echo", {"a": progress})).content))

            assert (await connection.call_tool("steps", on_progress=on_progress)).content == "done"
            assert seen == [(step, f'{{"a": {step}}}') for step in range(3)] or len(seen) == 3

            async def broken(*step: Any) -> None:
                raise ZeroDivisionError

            with pytest.raises(ZeroDivisionError):
                await connection.call_tool("steps", on_progress=broken)
            assert (await connection.call_tool("echo")).content == "{}"


async def test_a_modern_server_asks_in_its_answer(nursery: trio.Nursery) -> None:
    peer = await start_peer(nursery, "modern")

    async def ask(exchange: Exchange) -> None:
        question = {"k": {"method": "roots/list", "params": {}}}
        await exchange.result({"resultType": "input_required", "inputRequests": question})

    peer.calls["ask"] = ask
    with trio.fail_after(10):
        async with open_connection(peer.server()) as connection:
            with pytest.raises(ProtocolError, match="asks for roots/list, which is not offered"):
                await connection.call_tool("ask")


# --- faults 46 and 47: many servers, bare errors


@pytest.mark.slow
async def test_one_bad_server_of_many_costs_only_itself(nursery: trio.Nursery) -> None:
    peers = {name: await start_peer(nursery, "modern") for name in ("a", "b", "hangs", "crashes", "e")}
    peers["hangs"].on["server/discover"] = lambda it: it.line.wait_closed()

    async def crash(exchange: Exchange) -> None:
        exchange.line.reset()

    peers["crashes"].on["server/discover"] = crash
    servers = [peer.server(name=name, start_timeout=1) for name, peer in peers.items()]
    with trio.fail_after(5):
        async with open_connections(servers, on_error="warn") as connections:
            assert list(connections) == ["a", "b", "e"]
            assert set(connections.failed) == {"hangs", "crashes"}
        with pytest.raises(ServerStartError, match='"crashes"'):
            async with open_connections(servers):
                raise AssertionError("opened")


async def test_an_error_of_the_body_leaves_bare(nursery: trio.Nursery) -> None:
    peer = await start_peer(nursery, "legacy")
    with trio.fail_after(5), pytest.raises(ZeroDivisionError):
        async with open_connection(peer.server()):
            raise ZeroDivisionError


# --- headers of tools

REGION = {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}
BAD = {"type": "object", "properties": {"a": {"type": "number", "x-mcp-header": "A"}}}


async def test_arguments_become_headers_and_bad_tools_are_dropped(nursery: trio.Nursery) -> None:
    peer = await start_peer(nursery, "modern")
    peer.tools += [{"name": "near", "inputSchema": REGION}, {"name": "bad", "inputSchema": BAD}]
    peer.calls["near"] = peer.calls["echo"]
    with trio.fail_after(10):
        async with open_connection(peer.server()) as connection:
            assert [tool.remote_name for tool in connection.tools] == ["echo", "wait", "near"]
            (warning,) = connection.warnings
            assert 'tool "bad" at index 3 was skipped: bad-header (x-mcp-header at a:' in warning
            await connection.call_tool("near", {"region": "grün"})
            await connection.call_tool("near", '{"region": null}')
            with pytest.raises(InvalidArgumentsError, match="region: list cannot be a header"):
                await connection.call_tool("near", {"region": []})
    assert [it.request.headers.get("mcp-param-region") for it in peer.of("tools/call")] == [
        "=?base64?Z3LDvG4=?=",
        None,
    ]


async def test_the_legacy_era_knows_no_such_headers(nursery: trio.Nursery) -> None:
    peer = await start_peer(nursery, "legacy")
    peer.tools += [{"name": "bad", "inputSchema": BAD}]
    with trio.fail_after(10):
        async with open_connection(peer.server()) as connection:
            assert [tool.remote_name for tool in connection.tools] == ["echo", "wait", "bad"]
            assert connection.warnings == ()


async def test_a_header_mismatch_is_mended_by_one_listing_and_one_retry(nursery: trio.Nursery) -> None:
    peer = await start_peer(nursery, "modern")

    async def strict(exchange: Exchange) -> None:
        if "mcp-param-region" in exchange.request.headers:
            await exchange.result(content("near"))
        else:
            await exchange.error(-32020, "header mismatch", status="400 Bad Request")

    peer.calls["echo"] = strict
    with trio.fail_after(10):
        async with open_connection(peer.server()) as connection:
            with pytest.raises(RequestError, match="header mismatch"):
                await connection.call_tool("echo", {"region": "x"})
            assert len(peer.of("tools/list")) == 2
            peer.tools[0] = {"name": "echo", "inputSchema": REGION}
            assert (await connection.call_tool("echo", {"region": "x"})).content == "near"
            assert len(peer.of("tools/list")) == 3
            first, second = (it.message["id"] for it in peer.of("tools/call")[-2:])
            assert first != second


async def test_a_version_error_in_passing_is_retried_once(nursery: trio.Nursery) -> None:
    peer = await start_peer(nursery, "modern")
    refusals = 1

    async def moody(exchange: Exchange) -> None:
        nonlocal refusals
        if refusals:
            refusals -= 1
            supported = {"supported": ["2026-07-28"]}
            await exchange.error(-32022, data=supported, status="400 Bad Request")
        else:
            await exchange.result(content("x"))

    peer.calls["moody"] = moody
    with trio.fail_after(10):
        async with open_connection(peer.server()) as connection:
            assert (await connection.call_tool("moody")).content == "x"
            refusals = 2
            with pytest.raises(RequestError):
                await connection.call_tool("moody")
            assert len(peer.of("tools/call")) == 4


async def test_other_requests_name_what_they_are_about(nursery: trio.Nursery) -> None:
    peer = await start_peer(nursery, "modern")
    peer.on["resources/read"] = lambda it: it.result({"resultType": "complete", "contents": []})
    with trio.fail_after(10):
        async with open_connection(peer.server()) as connection:
            await connection.request("resources/read", {"uri": "file:///grün", "_meta": {"a": 1}})
    assert peer.seen[-1].request.headers["mcp-name"] == "=?base64?ZmlsZTovLy9ncsO8bg==?="


class Size(enum.IntEnum):
    SMALL = 3


async def test_headers_are_made_of_values_and_raw_arguments_are_decoded(
    nursery: trio.Nursery,
) -> None:
    peer = await start_peer(nursery, "modern")
    properties = {
        "region": {"type": "string", "x-mcp-header": "Region"},
        "size": {"type": "integer", "x-mcp-header": "Size"},
    }
    peer.tools = [{"name": "echo", "inputSchema": {"type": "object", "properties": properties}}]
    with trio.fail_after(10):
        async with open_connection(peer.server()) as connection:
            for arguments in ({"region": "grün", "size": Size.SMALL}, '{"region": "grün",\n"size": 3}'):
                await connection.call_tool("echo", arguments)
                headers = peer.seen[-1].request.headers
                assert headers["mcp-param-region"] == "=?base64?Z3LDvG4=?="
                assert headers["mcp-param-size"] == "3"
            await connection.request("tools/call", {"name": "echo", "arguments": {"size": 4}})
            assert peer.seen[-1].request.headers["mcp-param-size"] == "4"
            assert peer.seen[-1].request.headers["mcp-name"] == "echo"


# --- watching


async def test_a_listening_that_breaks_is_begun_again(nursery: trio.Nursery) -> None:
    limits = ClientLimits(first_listen_pause=0.02)
    peer = await start_peer(nursery, "modern", list_changed=True)

    async def listen(exchange: Exchange) -> None:
        tag = {"_meta": {"io.modelcontextprotocol/subscriptionId": exchange.message["id"]}}
        number = len(peer.of("subscriptions/listen"))
        if number == 2:
            await exchange.status("503 Service Unavailable")
            return
        acknowledged = {**tag, "notifications": {"toolsListChanged": True}}
        await exchange.event(
            {"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": acknowledged}
        )
        peer.tools = [{"name": f"tool-{number}", "inputSchema": OBJECT}]
        await exchange.event({"jsonrpc": "2.0", "method": "notifications/tools/list_changed", "params": tag})
        await peer.heard("tools/list", number + 1)
        if number == 3:
            await exchange.line.wait_closed()
        else:
            exchange.line.reset()

    peer.on["subscriptions/listen"] = listen
    with trio.fail_after(10):
        async with (
            open_connection(peer.server(), limits=limits) as connection,
            connection.watch_tools() as changes,
        ):
            seen = []
            async for tools in changes:
                seen.append([tool.remote_name for tool in tools])
                if seen[-1] == ["tool-3"]:
                    break
    assert seen[0] == ["tool-1"]
    assert len(peer.of("subscriptions/listen")) == 3


@pytest.mark.parametrize("status", ["404 Not Found", "405 Method Not Allowed", "401 Unauthorized"])
async def test_a_refused_listening_is_not_begun_again(nursery: trio.Nursery, status: str) -> None:
    limits = ClientLimits(first_listen_pause=0.01)
    peer = await start_peer(nursery, "modern", list_changed=True)
    peer.on["subscriptions/listen"] = lambda it: it.status(status)
    with trio.fail_after(10):
        async with open_connection(peer.server(), limits=limits) as connection, connection.watch_tools():
            await trio.sleep(0.1)
    assert len(peer.of("subscriptions/listen")) == 1
