"""Faults 33, 34, 36 to 38 and 41: statuses, errors in bodies, redirects, slow answers, many calls, secrets."""

from __future__ import annotations

import gzip
import json
import traceback
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import trio
from trio.testing import MockClock

from tests.http_peer import Exchange, content, start_peer
from tests.raw_http import Line, listen
from trio_mcp import (
    ClientLimits,
    Connection,
    ExchangeError,
    InvalidServerError,
    ProtocolError,
    RequestError,
    Server,
    ServerStartError,
    ServerStoppedError,
    StreamableLimits,
    open_connection,
)

ERAS = ("modern", "legacy")


# --- fault 33: a failed request


@pytest.mark.parametrize("era", ERAS)
async def test_one_of_fifty_gets_503_and_the_others_their_answers(nursery: trio.Nursery, era: str) -> None:
    peer = await start_peer(nursery, era)
    arrived = 0
    everybody = trio.Event()

    async def together(exchange: Exchange) -> None:
        nonlocal arrived
        arrived += 1
        if arrived == 50:
            everybody.set()
        await everybody.wait()
        number = exchange.params["arguments"]["number"]
        if number == 17:
            await exchange.status("503 Service Unavailable", b"<p>busy", content_type="text/html")
        else:
            await exchange.result(content(str(number)))

    peer.calls["together"] = together
    outcomes: dict[int, str] = {}

    async def call(connection: Connection, number: int) -> None:
        try:
            outcomes[number] = (await connection.call_tool("together", {"number": number})).content
        except ServerStoppedError as error:
            outcomes[number] = f"error {error.status}"

    with trio.fail_after(20):
        async with open_connection(peer.server()) as connection:
            async with trio.open_nursery() as callers:
                for number in range(50):
                    callers.start_soon(call, connection, number)
            assert outcomes == {number: str(number) for number in range(50)} | {17: "error 503"}
            assert connection.error is None
            assert not connection.done.is_set()
            assert (await connection.call_tool("echo")).content == "{}"
            assert connection.statistics().calls_failed == 1


async def reset(exchange: Exchange) -> None:
    exchange.line.reset()


async def close_in_the_head(exchange: Exchange) -> None:
    await exchange.line.send(b"HTTP/1.1 200 OK\r\ncontent-ty")
    await trio.aclose_forcefully(exchange.line.stream)


async def close_in_the_body(exchange: Exchange) -> None:
    await exchange.line.send(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 99\r\n\r\n{")
    await trio.aclose_forcefully(exchange.line.stream)


async def reset_in_the_body(exchange: Exchange) -> None:
    await exchange.line.send(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 99\r\n\r\n{")
    exchange.line.reset()


async def end_without_an_answer(exchange: Exchange) -> None:
    await exchange.event(
        {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "x", "data": 1}}
    )
    await exchange.end()


async def break_an_event_stream(exchange: Exchange) -> None:
    await exchange.events(b"data: {")
    exchange.line.reset()


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(
    ("rude", "text"),
    [
        (reset, "the connection was lost"),
        (close_in_the_head, "without a response"),
        (close_in_the_body, "broke HTTP"),
        (reset_in_the_body, "the connection was lost"),
        (end_without_an_answer, "ended before the answer"),
        (break_an_event_stream, "the connection was lost"),
        (lambda it: it.status("202 Accepted"), "answered with no content"),
        (lambda it: it.status("500 Internal Server Error"), "HTTP 500 Internal Server Error"),
        (lambda it: it.status("599 Odd"), "HTTP 599"),
        (lambda it: it.json(b"{}", status="418 I'm a Teapot"), "HTTP 418"),
    ],
)
async def test_the_error_goes_to_exactly_that_call(nursery: trio.Nursery, era: str, rude: Any, text: str) -> None:
    peer = await start_peer(nursery, era)
    peer.calls["rude"] = rude
    with trio.fail_after(10):
        async with open_connection(peer.server()) as connection, trio.open_nursery() as callers:
            callers.start_soon(connection.call_tool, "wait")
            await peer.heard("tools/call")
            with pytest.raises(ServerStoppedError, match=text):
                await connection.call_tool("rude")
            assert (await connection.call_tool("echo")).content == "{}"
            assert connection.statistics().calls_in_flight == 1, "the other one still waits"
            assert len([it for it in peer.of("tools/call") if it.params["name"] == "rude"]) == 1, (
                "nothing is resent"
            )
            callers.cancel_scope.cancel()


@pytest.mark.parametrize("body", [b"[]", b"{}", b"{not json", b"", b'{"jsonrpc":"2.0","id":99999,"result":{}}'])
async def test_json_that_is_no_answer_is_an_error_of_the_protocol(nursery: trio.Nursery, body: bytes) -> None:
    peer = await start_peer(nursery)
    peer.calls["odd"] = lambda it: it.json(body)
    with trio.fail_after(10):
        async with open_connection(peer.server()) as connection:
            with pytest.raises(ProtocolError):
                await connection.call_tool("odd")
            assert (await connection.call_tool("echo")).content == "{}"


async def test_a_body_over_the_cap_costs_its_call(nursery: trio.Nursery) -> None:
    peer = await start_peer(nursery)
    peer.calls["big"] = lambda it: it.result(content("x" * 100_000))

    async def big_event(exchange: Exchange) -> None:
        await exchange.event(exchange.answer_to(content("x" * 100_000)))

    peer.calls["big event"] = big_event
    with trio.fail_after(10):
        async with open_connection(peer.server()) as connection:
            assert len((await connection.call_tool("big")).content) == 100_000
            assert len((await connection.call_tool("big event")).content) == 100_000
        limits = ClientLimits(streamable=StreamableLimits(max_message=50_000))
        async with open_connection(peer.server(), limits=limits) as connection:
            with pytest.raises(ServerStoppedError, match="sent a body over 50000 bytes"):
                await connection.call_tool("big")
            with pytest.raises(ServerStoppedError, match="sent an event over 50000 bytes"):
                await connection.call_tool("big event")


@pytest.mark.parametrize("status", ["200 OK", "400 Bad Request"])
async def test_compressed_answers_are_read(nursery: trio.Nursery, status: str) -> None:
    peer = await start_peer(nursery)

    async def packed(exchange: Exchange) -> None:
        body = gzip.compress(json.dumps(exchange.answer_to(content("hello"))).encode())
        await exchange.json(body, content_encoding="gzip")

    async def packed_events(exchange: Exchange) -> None:
        event = f"data: {json.dumps(exchange.answer_to(content('hello')))}\n\n".encode()
        head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-encoding: gzip\r\n\r\n"
        compressor = gzip.compress(event)
        await exchange.line.send(head + compressor)
        await exchange.line.wait_closed()

    peer.calls.update({"packed": packed, "packed events": packed_events})
    peer.calls["broken"] = lambda it: it.json(b"no gzip at all", content_encoding="gzip")
    with trio.fail_after(10):
        async with open_connection(peer.server()) as connection:
            assert (await connection.call_tool("packed")).content == "hello"
            assert (await connection.call_tool("packed events")).content == "hello"
            with pytest.raises(ServerStoppedError, match="cannot be decoded"):
                await connection.call_tool("broken")


async def test_one_failed_exchange_is_told_apart_from_a_lost_server(nursery: trio.Nursery) -> None:
    peer = await start_peer(nursery)
    peer.calls["bad"] = lambda it: it.status("502 Bad Gateway")
    with trio.fail_after(10):
        async with open_connection(peer.server()) as connection:
            with pytest.raises(ExchangeError) as caught:
                await connection.call_tool("bad")
            assert connection.error is None
            assert not connection.done.is_set()
            assert (await connection.call_tool("echo")).content == "{}"
    assert isinstance(caught.value, ServerStoppedError)
    assert str(caught.value) == 'server "peer" failed one request: answered with HTTP 502 Bad Gateway'
    assert caught.value.status == 502


# --- fault 34: an error in the body of a refusal


@pytest.mark.parametrize(
    ("era", "status"),
    [
        *(
            (era, status)
            for era in ERAS
            for status in ("400 Bad Request", "410 Gone", "500 Internal Server Error")
        ),
        ("modern", "404 Not Found"),  # legacy: a lost session
    ],
)
async def test_the_json_rpc_error_of_a_refusal_is_raised(nursery: trio.Nursery, era: str, status: str) -> None:
    peer = await start_peer(nursery, era)
    peer.calls["bad"] = lambda it: it.error(-32602, "unknown tool", {"a": 1}, status=status)
    with trio.fail_after(10):
        async with open_connection(peer.server()) as connection:
            with pytest.raises(RequestError) as caught:
                await connection.call_tool("bad")
    assert (caught.value.code, caught.value.message, caught.value.data) == (-32602, "unknown tool", {"a": 1})


async def test_an_error_without_an_id_is_that_of_the_request(nursery: trio.Nursery) -> None:
    peer = await start_peer(nursery)
    error = {"jsonrpc": "2.0", "error": {"code": -32700, "message": "cannot read that"}}
    peer.calls["bad"] = lambda it: it.json(error, status="400 Bad Request")
    peer.calls["null"] = lambda it: it.json({**error, "id": None}, status="400 Bad Request")
    peer.calls["other"] = lambda it: it.json({**error, "id": 99999}, status="400 Bad Request")
    with trio.fail_after(10):
        async with open_connection(peer.server()) as connection:
            for name in ("bad", "null"):
                with pytest.raises(RequestError, match="cannot read that"):
                    await connection.call_tool(name)
            with pytest.raises(ServerStoppedError, match="HTTP 400"):
                await connection.call_tool("other")


async def test_a_refusal_whose_body_never_ends_is_one_all_the_same(nursery: trio.Nursery) -> None:
    limits = ClientLimits(streamable=StreamableLimits(refusal_patience=0.1))
    peer = await start_peer(nursery)

    async def endless(exchange: Exchange) -> None:
        await exchange.line.send(b"HTTP/1.1 500 Oh\r\ncontent-length: 99\r\n\r\n")
        await exchange.line.wait_closed()

    peer.calls["endless"] = endless
    with trio.fail_after(5):
        async with open_connection(peer.server(), limits=limits) as connection:
            with pytest.raises(ServerStoppedError, match="HTTP 500"):
                await connection.call_tool("endless")


# --- fault 36: redirects


@pytest.mark.parametrize("status", ["307 Temporary Redirect", "308 Permanent Redirect"])
async def test_a_redirect_within_the_origin_is_followed(nursery: trio.Nursery, status: str) -> None:
    peer = await start_peer(nursery)

    async def slash(line: Line) -> None:
        while request := await line.read():
            if not request.target.endswith("/"):
                await line.answer(status=status, location=request.target + "/")
                continue
            assert request.headers["authorization"] == "Bearer secret-token"
            exchange = Exchange(peer, line, request, json.loads(request.body))
            exchange.request.target = request.target.rstrip("/")
            await peer.behave(exchange)

    listener = await listen(nursery, slash)
    url = f"{listener.url}{peer.url.rpartition('/')[2]}"
    with trio.fail_after(10):
        async with open_connection(Server("s", url=url, bearer_token="secret-token")) as connection:
            assert (await connection.call_tool("echo")).content == "{}"


@pytest.mark.parametrize(
    ("status", "location", "text"),
    [
        ("307 Temporary Redirect", "http://elsewhere.example/mcp", "another origin, http://elsewhere.example"),
        ("307 Temporary Redirect", "https://localhost/", "another origin, https://localhost"),
        ("308 Permanent Redirect", "//127.0.0.1:9/", "another origin"),
        ("307 Temporary Redirect", "/mcp?key=hidden-value", "redirects without end"),
        ("302 Found", "/elsewhere", "redirects with HTTP 302 Found"),
        ("307 Temporary Redirect", "http://[", "redirects"),
    ],
)
async def test_no_other_redirect_is_followed(nursery: trio.Nursery, status: str, location: str, text: str) -> None:
    requests = 0

    async def redirect(line: Line) -> None:
        nonlocal requests
        while await line.read():
            requests += 1
            await line.answer(status=status, location=location)

    listener = await listen(nursery, redirect)
    with trio.fail_after(10), pytest.raises(ServerStartError, match=text) as caught:
        async with open_connection(Server("s", url=listener.url, bearer_token="secret-token")):
            raise AssertionError("opened")
    assert requests == (StreamableLimits().max_redirects + 1 if "end" in text else 1)
    assert "hidden-value" not in str(caught.value)


# --- fault 37: no hidden timeout


@pytest.mark.slow
@pytest.mark.parametrize("era", ERAS)
async def test_a_first_byte_after_seven_seconds_is_waited_for(
    nursery: trio.Nursery, era: str, fast_clock: MockClock
) -> None:
    peer = await start_peer(nursery, era)

    async def slow(exchange: Exchange) -> None:
        await trio.sleep(7)
        await exchange.result(content("at last"))

    peer.calls["slow"] = slow
    with trio.fail_after(15):
        async with open_connection(peer.server()) as connection:
            assert (await connection.call_tool("slow")).content == "at last"


# --- fault 38: limits of pools


@pytest.mark.parametrize("era", ERAS)
async def test_two_hundred_slow_calls_run_at_once_beside_an_open_stream(nursery: trio.Nursery, era: str) -> None:
    peer = await start_peer(nursery, era, list_changed=True)
    arrived = 0
    everybody = trio.Event()

    async def together(exchange: Exchange) -> None:
        nonlocal arrived
        arrived += 1
        if arrived == 200:
            everybody.set()
        await everybody.wait()
        await exchange.result(content("x"))

    peer.calls["together"] = together
    with trio.fail_after(30):
        async with open_connection(peer.server()) as connection, trio.open_nursery() as callers:
            for _ in range(200):
                callers.start_soon(connection.call_tool, "together")


# --- fault 41: secrets


class Echoing(httpx.AsyncBaseTransport):
    """Fails with everything that it knows."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError(f"no way to {request.url} with {dict(request.headers)}")


SECRET = "swordfish-42"


@pytest.mark.parametrize(
    "fields",
    [
        {"bearer_token": SECRET},
        {"headers": {"X-Api-Key": SECRET}},
        {"headers": {"Cookie": f"session={SECRET}"}},
        {"url": f"http://localhost:1/mcp?api_key={SECRET}"},
        {"url": f"http://me:{SECRET}@localhost:1/mcp"},
    ],
)
@pytest.mark.parametrize("transport", [None, Echoing()])
async def test_no_secret_is_shown_anywhere(
    caplog: pytest.LogCaptureFixture, fields: dict[str, Any], transport: Any
) -> None:
    server = Server("s", **{"url": "http://localhost:1/mcp", "http_transport": transport, **fields})
    with trio.fail_after(10), pytest.raises(ServerStartError) as caught:
        async with open_connection(server):
            raise AssertionError("opened")
    shown = [repr(server), str(caught.value), repr(caught.value), *getattr(caught.value, "__notes__", [])]
    shown += [record.getMessage() for record in caplog.records if record.name.startswith("trio_mcp")]
    if transport is None:  # what somebody else's exception says is in the traceback
        shown += traceback.format_exception(caught.value)
    assert not [text for text in shown if SECRET in text]


async def test_a_header_that_is_no_legal_http_is_not_shown(nursery: trio.Nursery) -> None:
    peer = await start_peer(nursery)
    secret = "pass\x85word-é"
    with trio.fail_after(10):
        async with open_connection(peer.server(headers=lambda: {"X-Key": f"  {secret} "})) as connection:
            await connection.call_tool("echo")
        with pytest.raises(InvalidServerError) as caught:
            async with open_connection(peer.server(headers=lambda: {"X-Key": f"{secret}\r\nX: y"})):
                raise AssertionError("opened")
    assert secret not in "".join(traceback.format_exception(caught.value))


# --- somebody else's parts


class Recording(httpx.AsyncBaseTransport):
    """Somebody's transport: httpx's own, watched."""

    def __init__(self) -> None:
        self.inner = httpx.AsyncHTTPTransport()
        self.requests: list[httpx.Request] = []
        self.is_closed = False

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        return await self.inner.handle_async_request(request)

    async def aclose(self) -> None:
        self.is_closed = True
        await self.inner.aclose()


@pytest.fixture
async def recording() -> AsyncIterator[Recording]:
    transport = Recording()
    yield transport
    assert not transport.is_closed, "it is not ours to close"
    await transport.aclose()


@pytest.mark.parametrize("era", ERAS)
async def test_somebodys_transport_is_used_and_left_open(
    nursery: trio.Nursery, recording: Recording, era: str
) -> None:
    peer = await start_peer(nursery, era)
    with trio.fail_after(10):
        async with open_connection(peer.server(http_transport=recording)) as connection:
            assert (await connection.call_tool("echo")).content == "{}"
    assert len(recording.requests) == len(peer.seen)


async def test_an_auth_flow_is_driven(nursery: trio.Nursery) -> None:
    class Renewing(httpx.Auth):
        requires_response_body = True

        def __init__(self) -> None:
            self.token = "old"
            self.bodies: list[bytes] = []

        def auth_flow(self, request: httpx.Request) -> Any:
            request.headers["Authorization"] = f"Bearer {self.token}"
            response = yield request
            self.bodies.append(response.content)
            if response.status_code == 401:
                self.token = "new"
                request.headers["Authorization"] = f"Bearer {self.token}"
                yield request

    peer = await start_peer(nursery)

    async def guarded(exchange: Exchange) -> None:
        if exchange.request.headers["authorization"] != "Bearer new":
            await exchange.status("401 Unauthorized", b"who?")
        else:
            await peer.behave(exchange)

    peer.on["server/discover"] = guarded
    auth = Renewing()
    with trio.fail_after(10):
        async with open_connection(peer.server(auth=auth)) as connection:
            assert (await connection.call_tool("echo")).content == "{}"
    assert auth.bodies[0] == b"who?"
    assert [it.request.headers["authorization"] for it in peer.seen] == ["Bearer old", *["Bearer new"] * 3]


async def test_userinfo_of_the_url_is_basic_authentication(nursery: trio.Nursery) -> None:
    peer = await start_peer(nursery)
    url = peer.url.replace("://", "://me:pass%20word@")
    with trio.fail_after(10):
        async with open_connection(peer.server(url=url)):
            pass
    assert {it.request.headers["authorization"] for it in peer.seen} == {"Basic bWU6cGFzcyB3b3Jk"}
    assert "@" not in peer.seen[0].request.headers["host"]
