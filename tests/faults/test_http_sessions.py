"""Faults 35, 39 and 40: lost sessions, the server's own stream, and streams of events that end and go on."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from tests.http_peer import Exchange, HttpPeer, content, start_peer
from trio_mcp import (
    AuthError,
    ClientLimits,
    Connection,
    ElicitRequest,
    ElicitResult,
    RequestError,
    ServerStoppedError,
    StreamableLimits,
    open_connection,
)

QUICK = StreamableLimits(shortest_retry=0.01, first_pause=0.05)
open_quickly = partial(open_connection, limits=ClientLimits(streamable=QUICK))


def notice(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": f"notifications/{method}", "params": params}


# --- fault 35: the session is lost


async def test_a_lost_session_is_made_anew_once_for_all(nursery: trio.Nursery) -> None:
    peer = await start_peer(nursery, "legacy")
    with trio.fail_after(10):
        async with open_quickly(peer.server()) as connection:
            (old,) = peer.sessions
            peer.sessions.clear()
            async with trio.open_nursery() as callers:
                for _ in range(20):
                    callers.start_soon(connection.call_tool, "echo")
            (new,) = peer.sessions
            assert len(peer.of("initialize")) == 2
            assert len(peer.of("GET")) == 2
            await peer.heard("notifications/initialized", 2)
            again = peer.seen[peer.seen.index(peer.of("initialize")[1]) :]
            assert "mcp-session-id" not in again[0].request.headers
            after = [
                it.request.headers["mcp-session-id"] for it in again if it.method == "notifications/initialized"
            ]
            assert after == [new] != [old]
            assert connection.error is None
            assert connection.statistics().calls_failed == 0
    assert peer.sessions == set()


async def test_a_call_in_flight_in_the_old_session_is_left_alone(nursery: trio.Nursery) -> None:
    peer = await start_peer(nursery, "legacy")
    go = trio.Event()
    found = []

    async def slow(exchange: Exchange) -> None:
        await go.wait()
        await exchange.result(content("slow"))

    peer.calls["slow"] = slow

    async def call(connection: Connection) -> None:
        found.append((await connection.call_tool("slow")).content)

    with trio.fail_after(10):
        async with open_quickly(peer.server()) as connection, trio.open_nursery() as callers:
            callers.start_soon(call, connection)
            await peer.heard("tools/call")
            peer.sessions.clear()
            assert (await connection.call_tool("echo")).content == "{}"
            assert found == []
            go.set()
    assert found == ["slow"]


async def test_a_server_that_keeps_no_session_is_not_asked_for_ever(nursery: trio.Nursery) -> None:
    peer = await start_peer(nursery, "legacy")
    with trio.fail_after(10):
        async with open_quickly(peer.server()) as connection:
            peer.calls["echo"] = lambda it: it.status("404 Not Found")
            with pytest.raises(ServerStoppedError, match="does not keep its sessions"):
                await connection.call_tool("echo")
            assert len(peer.of("initialize")) == 2
            assert len(peer.of("tools/call")) == 2


async def test_a_handshake_that_is_refused_fails_its_callers_and_the_next_one_may_succeed(
    nursery: trio.Nursery,
) -> None:
    peer = await start_peer(nursery, "legacy")
    with trio.fail_after(10):
        async with open_quickly(peer.server()) as connection:
            peer.sessions.clear()
            peer.on["initialize"] = lambda it: it.status("401 Unauthorized")
            with pytest.raises(AuthError, match="401"):
                await connection.call_tool("echo")
            assert connection.error is None
            del peer.on["initialize"]
            assert (await connection.call_tool("echo")).content == "{}"


@pytest.mark.parametrize(
    ("refuse", "text", "status"),
    [
        (lambda it: it.status("500 Oh"), "HTTP 500", 500),
        (lambda it: it.error(-32603, "no more"), "no more", None),
        (lambda it: it.result({"protocolVersion": "2099-01-01"}), "protocolVersion", None),
    ],
)
async def test_a_session_that_cannot_be_made_anew_ends_the_connection(
    nursery: trio.Nursery, refuse: Any, text: str, status: int | None
) -> None:
    peer = await start_peer(nursery, "legacy")
    outcomes: list[ServerStoppedError] = []
    with trio.fail_after(10):
        async with open_quickly(peer.server()) as connection:

            async def call(name: str) -> None:
                with pytest.raises(ServerStoppedError, match=f"lost the session, .*{text}") as caught:
                    await connection.call_tool(name)
                outcomes.append(caught.value)

            async with trio.open_nursery() as callers:
                callers.start_soon(call, "wait")  # in flight in the old session
                await peer.heard("tools/call")
                peer.sessions.clear()
                peer.on["initialize"] = refuse
                for _ in range(5):
                    callers.start_soon(call, "echo")
            await call("echo")
            await connection.wait_done()
            assert connection.error is not None
            assert connection.error.status == status
            assert outcomes == [connection.error] * 7
            with pytest.raises(ServerStoppedError):
                async with connection.watch_tools() as changes:
                    await anext(changes)
    assert len(peer.of("initialize")) == 2
    assert "DELETE" not in peer.methods()


async def test_a_caller_that_gives_up_does_not_take_the_handshake_with_it(nursery: trio.Nursery) -> None:
    peer = await start_peer(nursery, "legacy")
    go = trio.Event()

    async def slow(exchange: Exchange) -> None:
        await go.wait()
        await peer.behave(exchange)

    with trio.fail_after(10):
        async with open_quickly(peer.server()) as connection:
            peer.sessions.clear()
            peer.on["initialize"] = slow
            async with trio.open_nursery() as callers:
                callers.start_soon(connection.call_tool, "echo")
                await peer.heard("initialize", 2)
                with trio.move_on_after(0.05) as scope:
                    await connection.call_tool("echo")
                assert scope.cancelled_caught
                go.set()
            assert len(peer.of("initialize")) == 2


# --- fault 39: the server's own stream


@pytest.mark.parametrize(
    "refuse",
    [
        lambda it: it.status("405 Method Not Allowed"),
        lambda it: it.status("404 Not Found"),
        lambda it: it.status("406 Not Acceptable"),
        lambda it: it.status("409 Conflict"),
        lambda it: it.status("403 Forbidden"),
        lambda it: it.status("200 OK", b"<p>Welcome", content_type="text/html"),
        lambda it: it.json({}),
        lambda it: it.status("302 Found", location="/elsewhere"),
    ],
)
async def test_a_refused_stream_is_none_and_is_not_asked_for_again(nursery: trio.Nursery, refuse: Any) -> None:
    peer = await start_peer(nursery, "legacy")
    peer.on["GET"] = refuse
    with trio.fail_after(10):
        async with open_quickly(peer.server()) as connection:
            assert (await connection.call_tool("echo")).content == "{}"
            await trio.sleep(0.2)
            assert (await connection.call_tool("echo")).content == "{}"
    assert len(peer.of("GET")) == 1


async def test_a_stream_that_is_slow_to_open_holds_nobody_up_for_long(nursery: trio.Nursery) -> None:
    limits = ClientLimits(streamable=StreamableLimits(listening_patience=0.05))
    peer = await start_peer(nursery, "legacy")
    peer.on["GET"] = lambda it: it.line.wait_closed()
    with trio.fail_after(2):
        async with open_connection(peer.server(), limits=limits) as connection:
            assert (await connection.call_tool("echo")).content == "{}"


async def test_a_stream_that_ends_is_opened_again_where_it_was(nursery: trio.Nursery) -> None:
    peer = await start_peer(nursery, "legacy")

    async def short(exchange: Exchange) -> None:
        await exchange.event(id=f"event-{len(peer.of('GET'))}", retry=20)
        if len(peer.of("GET")) == 3:
            exchange.line.reset()
        await exchange.end()

    peer.on["GET"] = short
    with trio.fail_after(10):
        async with open_quickly(peer.server()):
            await peer.heard("GET", 5)
    last = [it.request.headers.get("last-event-id") for it in peer.of("GET")[:5]]
    assert last == [None, "event-1", "event-2", "event-3", "event-4"]


@pytest.mark.slow
async def test_a_stream_that_brings_nothing_is_opened_ever_more_rarely(nursery: trio.Nursery) -> None:
    peer = await start_peer(nursery, "legacy")

    async def empty(exchange: Exchange) -> None:
        await exchange.events(b": nothing\n\n")
        await exchange.end()

    peer.on["GET"] = empty
    with trio.fail_after(10):
        async with open_quickly(peer.server()):
            await trio.sleep(1)
    assert 2 <= len(peer.of("GET")) <= 6


async def test_questions_and_notices_come_on_the_servers_own_stream(nursery: trio.Nursery) -> None:
    peer = await start_peer(nursery, "legacy", list_changed=True)
    own: list[Exchange] = []
    logged: list[Any] = []

    async def stream(exchange: Exchange) -> None:
        own.append(exchange)
        await exchange.events(b": open\n\n")
        await exchange.line.wait_closed()

    async def ask(exchange: Exchange) -> None:
        form = {"message": "who?", "requestedSchema": {"type": "object", "properties": {"a": {"type": "string"}}}}
        for method, params in (("ping", {}), ("elicitation/create", form), ("roots/list", {})):
            await own[0].event({"jsonrpc": "2.0", "id": method, "method": method, "params": params})
            await peer.heard("answer", 1 + ["ping", "elicitation/create", "roots/list"].index(method))
        await own[0].event(notice("message", level="info", data="a line"))
        await own[0].event(notice("tools/list_changed"))
        await exchange.result(content("asked"))

    async def answer(request: ElicitRequest) -> ElicitResult:
        return ElicitResult.accept({"a": request.message})

    peer.on["GET"] = stream
    peer.calls["ask"] = ask
    with trio.fail_after(10):
        async with (
            open_quickly(
                peer.server(), on_elicit=answer, on_log=lambda level, source, data: logged.append(data)
            ) as connection,
            connection.watch_tools() as changes,
        ):
            assert (await connection.call_tool("ask")).content == "asked"
            peer.tools = []
            assert await anext(changes) == ()
    answers = {it.message["id"]: it.message for it in peer.of("answer")}
    assert answers["ping"]["result"] == {}
    assert answers["elicitation/create"]["result"] == {"action": "accept", "content": {"a": "who?"}}
    assert answers["roots/list"]["error"]["code"] == -32601
    assert all("mcp-session-id" in it.request.headers for it in peer.of("answer"))
    assert logged == ["a line"]


# --- fault 40: events


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_what_else_is_in_a_stream_is_no_answer(nursery: trio.Nursery, era: str, end: str) -> None:
    peer = await start_peer(nursery, era)

    async def chatty(exchange: Exchange) -> None:
        token = exchange.params["_meta"]["progressToken"]
        parts = [
            "\ufeff: hello\n\n",
            "id: 1\nretry: 0\ndata:\n\n",
            "event: ping\ndata: {}\n\n",
            "data: {not json\n\n",
            f"data: {json.dumps(notice('progress', progressToken=token, progress=1, message='grün'))}\n\n",
            f"data: {json.dumps(notice('progress', progressToken='other', progress=2))}\n\n",
            f"data: {json.dumps(notice('of/tomorrow'))}\n\n",
            'data: {"jsonrpc":"2.0","id":99999,"result":{}}\n\n',
            f"retry: 604800000\nevent: message\ndata: {json.dumps(exchange.answer_to(content('done')))}\n\n",
        ]
        data = "".join(parts).replace("\n", end).encode()
        for at in range(0, len(data), 7):
            await exchange.events(data[at : at + 7])
        await exchange.end()

    progress = []

    async def on_progress(*step: Any) -> None:
        progress.append(step)

    peer.calls["chatty"] = chatty
    with trio.fail_after(10):
        async with open_quickly(peer.server()) as connection:
            result = await connection.call_tool("chatty", on_progress=on_progress)
            assert result.content == "done"
            assert connection.statistics().skipped_lines == 1
            assert connection.statistics().late_answers == 1
    assert progress == [(1, None, "grün")]


async def test_what_comes_on_the_servers_own_stream_is_counted_too(nursery: trio.Nursery) -> None:
    peer = await start_peer(nursery, "legacy")
    said = f"data: {json.dumps(notice('of/tomorrow', padding='x' * 5_000))}\n\ndata: {{not json\n\n".encode()
    go = trio.Event()

    async def speak(exchange: Exchange) -> None:
        await exchange.events()
        await go.wait()
        await exchange.events(said)
        await exchange.line.wait_closed()

    peer.on["GET"] = speak
    with trio.fail_after(10):
        async with open_quickly(peer.server()) as connection:
            before = connection.statistics()
            go.set()
            while (after := connection.statistics()).skipped_lines == before.skipped_lines:
                await connection.call_tool("echo")
    assert after.bytes_in - before.bytes_in > len(said)


def resumable(peer: HttpPeer, *, events: int, breaks: bool = False) -> list[Exchange]:
    """The tool `long`: its stream ends again and again, and is asked for by the id of its last event."""
    asked: list[Exchange] = []

    async def long(exchange: Exchange) -> None:
        asked.append(exchange)
        await exchange.event(id="part-0", retry=20)
        await (_break(exchange) if breaks else exchange.end())

    async def stream(exchange: Exchange) -> None:
        last = exchange.request.headers.get("last-event-id")
        if last is None:
            await peer.behave(exchange)
            return
        number = int(last.removeprefix("part-")) + 1
        answer = asked[0].answer_to(content("resumed")) if number == events else None
        await exchange.event(answer, id=f"part-{number}")
        await exchange.end()

    async def _break(exchange: Exchange) -> None:
        exchange.line.reset()

    peer.calls["long"] = long
    peer.on["GET"] = stream
    return asked


@pytest.mark.parametrize("breaks", [False, True])
async def test_an_answer_is_asked_for_by_the_last_event_until_it_comes(
    nursery: trio.Nursery, breaks: bool
) -> None:
    peer = await start_peer(nursery, "legacy")
    asked = resumable(peer, events=3, breaks=breaks)
    with trio.fail_after(10):
        async with open_quickly(peer.server()) as connection:
            assert (await connection.call_tool("long")).content == "resumed"
    assert len(asked) == 1
    assert [it.request.headers.get("last-event-id") for it in peer.of("GET")] == [
        None,
        "part-0",
        "part-1",
        "part-2",
    ]


async def test_an_answer_that_never_comes_is_given_up(nursery: trio.Nursery) -> None:
    peer = await start_peer(nursery, "legacy")
    resumable(peer, events=99)
    with trio.fail_after(10):
        async with open_quickly(peer.server()) as connection:
            with pytest.raises(ServerStoppedError, match="ended before the answer"):
                await connection.call_tool("long")
    assert len(peer.of("GET")) == 1 + QUICK.resumptions


async def test_a_server_that_does_not_resume_says_so(nursery: trio.Nursery) -> None:
    peer = await start_peer(nursery, "legacy")
    resumable(peer, events=3)
    peer.on["GET"] = lambda it: it.status("405 Method Not Allowed")
    with trio.fail_after(10):
        async with open_quickly(peer.server()) as connection:
            with pytest.raises(ServerStoppedError, match=r"cannot be resumed \(HTTP 405") as caught:
                await connection.call_tool("long")
    assert caught.value.status == 405


async def test_a_modern_answer_is_not_asked_for_again(nursery: trio.Nursery) -> None:
    peer = await start_peer(nursery, "modern")
    asked = resumable(peer, events=3)
    with trio.fail_after(10):
        async with open_quickly(peer.server()) as connection:
            with pytest.raises(ServerStoppedError, match="ended before the answer"):
                await connection.call_tool("long")
    assert len(asked) == 1
    assert "GET" not in peer.methods()


async def test_an_answer_on_the_servers_own_stream_is_one(nursery: trio.Nursery) -> None:
    peer = await start_peer(nursery, "legacy")
    own: list[Exchange] = []

    async def stream(exchange: Exchange) -> None:
        own.append(exchange)
        await exchange.events(b": open\n\n")
        await exchange.line.wait_closed()

    async def elsewhere(exchange: Exchange) -> None:
        await exchange.event(id="1", retry=60_000)
        await exchange.end()
        answer = {"jsonrpc": "2.0", "id": exchange.message["id"], "error": {"code": -5, "message": "late"}}
        await own[0].event(answer if exchange.params["arguments"] else exchange.answer_to(content("here")))

    peer.on["GET"] = stream
    peer.calls["elsewhere"] = elsewhere
    with trio.fail_after(10):
        async with open_quickly(peer.server()) as connection:
            assert (await connection.call_tool("elsewhere")).content == "here"
            with pytest.raises(RequestError, match="late"):
                await connection.call_tool("elsewhere", {"fail": True})
            await own[0].event({"jsonrpc": "2.0", "id": 99999, "result": {}})
            await wait_all_tasks_blocked(0.02)
            assert connection.statistics().late_answers == 1


async def test_the_caller_that_began_the_handshake_does_not_take_it_with_it_either(nursery: trio.Nursery) -> None:
    peer = await start_peer(nursery, "legacy")
    go = trio.Event()

    async def slow(exchange: Exchange) -> None:
        await go.wait()
        await peer.behave(exchange)

    with trio.fail_after(10):
        async with open_quickly(peer.server()) as connection:
            peer.sessions.clear()
            peer.on["initialize"] = slow
            with trio.CancelScope() as first:
                async with trio.open_nursery() as callers:
                    callers.start_soon(connection.call_tool, "echo")
                    await peer.heard("initialize", 2)
                    first.cancel()
            assert first.cancelled_caught
            async with trio.open_nursery() as callers:
                callers.start_soon(connection.call_tool, "echo")
                await peer.heard("tools/call", 2)
                go.set()
            assert len(peer.of("initialize")) == 2
            assert [it.params["requestId"] for it in peer.of("notifications/cancelled")] == []


async def test_a_connection_that_is_closed_during_the_handshake_lets_nobody_wait(nursery: trio.Nursery) -> None:
    peer = await start_peer(nursery, "legacy")
    peer.on["initialize"] = peer.behave

    async def call(connection: Connection) -> None:
        with pytest.raises(trio.ClosedResourceError):
            await connection.call_tool("echo")

    with trio.fail_after(10):
        async with trio.open_nursery() as callers:
            async with open_quickly(peer.server()) as connection:
                peer.sessions.clear()
                peer.on["initialize"] = lambda it: it.line.wait_closed()
                for _ in range(3):
                    callers.start_soon(call, connection)
                await peer.heard("initialize", 2)
                await wait_all_tasks_blocked(0.02)
