"""Faults 17, 33, 36, 41 and 43 over HTTP, from servers that answer twice or for others, and repeat secrets."""

from __future__ import annotations

import gzip
import json
import traceback
from typing import Any

import httpx
import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from tests.http_peer import Exchange, content, start_peer
from tests.raw_http import Line, listen
from trio_mcp import ProtocolError, Server, ServerStartError, ServerStoppedError, open_connection
from trio_mcp.protocol.revisions import Era, ProtocolChoice

ERAS: tuple[Era, ...] = ("modern", "legacy")


# --- fault 17: answers that nobody waits for


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("as_events", [False, True])
async def test_the_first_of_two_answers_counts(nursery: trio.Nursery, era: Era, as_events: bool) -> None:
    peer = await start_peer(nursery, era)

    async def twice(exchange: Exchange) -> None:
        answers = [exchange.answer_to(content(text)) for text in ("first", "second")]
        if as_events:
            await exchange.events("".join(f"data: {json.dumps(answer)}\n\n" for answer in answers).encode())
            await exchange.end()
        else:
            await exchange.json(answers)

    peer.calls["twice"] = twice
    with trio.fail_after(10):
        async with open_connection(peer.server()) as connection:
            assert (await connection.call_tool("twice")).content == "first"
            assert connection.statistics().late_answers == 1
            assert (await connection.call_tool("echo")).content == "{}"


async def test_a_modern_reply_answers_its_own_request_alone(nursery: trio.Nursery) -> None:
    peer = await start_peer(nursery, "modern")
    waiting = trio.Event()
    taken: list[Any] = []

    async def own(exchange: Exchange) -> None:
        taken.append(exchange.message["id"])
        await waiting.wait()
        await exchange.result(content("mine"))

    async def others(exchange: Exchange) -> None:
        await exchange.json({**exchange.answer_to(content("stolen")), "id": taken[0]})

    peer.calls |= {"own": own, "others": others}
    outcome: list[Any] = []
    with trio.fail_after(10):
        async with open_connection(peer.server()) as connection, trio.open_nursery() as callers:

            async def call() -> None:
                outcome.append((await connection.call_tool("own")).content)

            callers.start_soon(call)
            await peer.heard("tools/call")
            with pytest.raises(ProtocolError, match="no answer to the request"):
                await connection.call_tool("others")
            assert connection.statistics().late_answers == 1
            waiting.set()
    assert outcome == ["mine"]


# --- fault 43: a caller that gives up


async def test_an_exception_in_on_progress_tells_a_legacy_server(nursery: trio.Nursery) -> None:
    peer = await start_peer(nursery, "legacy")

    async def slow(exchange: Exchange) -> None:
        params = {"progressToken": exchange.params["_meta"]["progressToken"], "progress": 1}
        await exchange.event({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
        await exchange.line.wait_closed()

    async def on_progress(*_: Any) -> None:
        raise LookupError("enough")

    peer.calls["slow"] = slow
    with trio.fail_after(10):
        async with open_connection(peer.server()) as connection:
            with pytest.raises(LookupError, match="enough"):
                await connection.call_tool("slow", on_progress=on_progress)
            notice = await peer.heard("notifications/cancelled")
    assert notice.params["requestId"] == peer.of("tools/call")[0].message["id"]


# --- fault 41: a server that repeats a secret

SECRET = "swordfish-42"


@pytest.mark.parametrize("protocol", ["auto", "legacy"])
@pytest.mark.parametrize(
    "sent",
    [
        f"HTTP/1.1 {SECRET}\r\n\r\n",
        f"HTTP/1.1 200 OK\r\n{SECRET}\r\n\r\n",
        f"HTTP/1.1 200 OK\r\ncontent-type: text/{SECRET}\r\ncontent-length: 0\r\n\r\n",
        f"HTTP/1.1 307 Moved\r\nlocation: http://{SECRET}.example/\r\ncontent-length: 0\r\n\r\n",
        f"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n{SECRET}\r\n",
    ],
)
async def test_a_secret_that_the_server_repeats_is_in_no_error_of_the_chain(
    nursery: trio.Nursery, sent: str, protocol: ProtocolChoice
) -> None:
    async def serve(line: Line) -> None:
        while await line.read():
            await line.send(sent.encode())
            await line.stream.aclose()

    listener = await listen(nursery, serve)
    server = Server("s", url=listener.url, bearer_token=SECRET, protocol=protocol)
    with trio.fail_after(10), pytest.raises(ServerStartError) as caught:
        async with open_connection(server):
            raise AssertionError("opened")
    assert not [text for text in _chain(caught.value) if SECRET in text]


async def test_a_secret_in_the_error_of_a_listing_is_no_context_either(nursery: trio.Nursery) -> None:
    peer = await start_peer(nursery)
    peer.on["tools/list"] = lambda exchange: exchange.error(-32603, f"bad token {SECRET}")
    with trio.fail_after(10), pytest.raises(ServerStartError, match="bad token") as caught:
        async with open_connection(peer.server(bearer_token=SECRET)):
            raise AssertionError("opened")
    assert not [text for text in _chain(caught.value) if SECRET in text]


async def test_a_header_of_an_auth_flow_that_is_no_legal_http_is_not_shown(nursery: trio.Nursery) -> None:
    class Wrong(httpx.Auth):
        def auth_flow(self, request: httpx.Request) -> Any:
            request.headers["Authorization"] = f"Bearer {SECRET}\n"
            yield request

    peer = await start_peer(nursery)
    with trio.fail_after(10), pytest.raises(ServerStartError, match="no legal HTTP") as caught:
        async with open_connection(peer.server(auth=Wrong())):
            raise AssertionError("opened")
    assert not [text for text in _chain(caught.value) if SECRET in text]


def _chain(error: BaseException | None) -> list[str]:
    """What is said by an error and by everything that it is from or came in."""
    if error is None:
        return []
    shown = ["".join(traceback.format_exception(error, chain=False)), repr(error)]
    return [*shown, *_chain(error.__cause__), *_chain(error.__context__)]


# --- bodies without measure


@pytest.mark.parametrize("codings", ["gzip, gzip", "deflate,GZIP", "br", "zstd"])
@pytest.mark.parametrize("status", ["200 OK", "400 Bad Request"])
async def test_a_body_encoded_in_a_way_that_has_no_bound_is_not_decoded(
    nursery: trio.Nursery, codings: str, status: str
) -> None:
    peer = await start_peer(nursery)
    body = gzip.compress(gzip.compress(b" " * 10_000_000))

    async def bomb(exchange: Exchange) -> None:
        await exchange.json(body, status=status, content_encoding=codings)

    peer.calls["bomb"] = bomb
    with trio.fail_after(10):
        async with open_connection(peer.server()) as connection:
            with pytest.raises(ServerStoppedError, match=r"which was not asked for|HTTP 400"):
                await connection.call_tool("bomb")
            assert (await connection.call_tool("echo")).content == "{}"
            assert connection.statistics().bytes_in < 10_000


@pytest.mark.slow
async def test_a_challenge_without_end_is_not_read_to_it(nursery: trio.Nursery) -> None:
    peer = await start_peer(nursery)
    challenges = []

    async def endless(exchange: Exchange) -> None:
        if "authorization" in exchange.request.headers:
            await peer.behave(exchange)
            return
        challenges.append(exchange)
        head = 'HTTP/1.1 401 No\r\nwww-authenticate: Digest realm="x", nonce="abc", qop="auth"\r\n'
        await exchange.line.send(f"{head}transfer-encoding: chunked\r\n\r\n".encode())
        while True:
            await exchange.line.send(b"10000\r\n" + bytes(0x10000) + b"\r\n")

    peer.on["server/discover"] = endless
    with trio.fail_after(10):
        async with open_connection(peer.server(auth=httpx.DigestAuth("me", SECRET))) as connection:
            assert (await connection.call_tool("echo")).content == "{}"
    assert len(challenges) == 1


class Token(httpx.Auth):
    def auth_flow(self, request: httpx.Request) -> Any:
        request.headers["Authorization"] = f"Bearer {SECRET}"
        yield request


@pytest.mark.parametrize(
    "fields",
    [
        {"headers": lambda: {"X-Api-Key": SECRET}},
        {"headers": lambda: {"Cookie": f"a={SECRET}"}},
        {"auth": Token()},
    ],
)
async def test_what_a_function_or_a_flow_gave_is_a_secret_as_well(
    nursery: trio.Nursery, caplog: pytest.LogCaptureFixture, fields: dict[str, Any]
) -> None:
    peer = await start_peer(nursery)

    async def junk(exchange: Exchange) -> None:
        await exchange.json(f"{{not json {SECRET}".encode())

    async def broken(exchange: Exchange) -> None:
        params = {"level": "info", "data": SECRET}
        await exchange.event({"jsonrpc": "2.0", "method": "notifications/message", "params": params})
        await exchange.event({"jsonrpc": "2.0", "method": f"notifications/{SECRET}"})
        await exchange.line.send(f"{SECRET}\r\n".encode())

    peer.calls |= {"junk": junk, "broken": broken}
    shown = []
    with trio.fail_after(10):
        async with open_connection(peer.server(**fields)) as connection:
            for name, kind in (("junk", ProtocolError), ("broken", ServerStoppedError)):
                with pytest.raises(kind) as caught:
                    await connection.call_tool(name)
                shown += _chain(caught.value)
    shown += [record.getMessage() for record in caplog.records]
    assert "peer" in "".join(shown)
    assert not [text for text in shown if SECRET in text]


async def test_an_answer_on_another_stream_does_not_cut_off_on_progress(nursery: trio.Nursery) -> None:
    peer = await start_peer(nursery, "legacy")
    own: list[Exchange] = []
    answered = trio.Event()

    async def stream(exchange: Exchange) -> None:
        own.append(exchange)
        await exchange.events(b": open\n\n")
        await exchange.line.wait_closed()

    async def elsewhere(exchange: Exchange) -> None:
        params = {"progressToken": exchange.params["_meta"]["progressToken"], "progress": 1}
        await exchange.event({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
        await reporting.wait()
        await own[0].event(exchange.answer_to(content("here")))
        await wait_all_tasks_blocked(0.02)
        answered.set()
        await exchange.line.wait_closed()

    reporting = trio.Event()
    reported = []

    async def on_progress(progress: float, *_: Any) -> None:
        reporting.set()
        await answered.wait()
        reported.append(progress)

    peer.on["GET"] = stream
    peer.calls["elsewhere"] = elsewhere
    with trio.fail_after(10):
        async with open_connection(peer.server()) as connection:
            result = await connection.call_tool("elsewhere", on_progress=on_progress)
    assert (result.content, reported) == ("here", [1])


@pytest.mark.parametrize("era", ERAS)
async def test_what_comes_behind_the_answer_is_taken_and_progress_is_not(nursery: trio.Nursery, era: Era) -> None:
    peer = await start_peer(nursery, era)
    logged, progress, go = [], [], trio.Event()

    async def chatty(exchange: Exchange) -> None:
        await exchange.event(exchange.answer_to(content("first")))
        await go.wait()  # the call has returned
        await exchange.event(exchange.answer_to(content("second")))
        params: dict[str, Any] = {"progressToken": exchange.params["_meta"]["progressToken"], "progress": 1}
        await exchange.event({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
        params = {"level": "info", "data": "done"}
        await exchange.event({"jsonrpc": "2.0", "method": "notifications/message", "params": params})
        await exchange.end()

    async def on_progress(*step: Any) -> None:
        progress.append(step)

    peer.calls["chatty"] = chatty
    with trio.fail_after(10):
        async with open_connection(peer.server(), on_log=lambda *item: logged.append(item)) as connection:
            assert (await connection.call_tool("chatty", on_progress=on_progress)).content == "first"
            go.set()
            await wait_all_tasks_blocked(0.02)
            assert connection.statistics().late_answers == 1
            assert (await connection.call_tool("echo")).content == "{}"
    assert logged == [("info", None, "done")]
    assert not progress


# --- Ctrl-C


async def test_ctrl_c_hits_the_users_task_and_none_of_the_connections(nursery: trio.Nursery) -> None:
    peer = await start_peer(nursery, "legacy")
    protected: dict[str, bool] = {}

    class Watched(httpx.AsyncHTTPTransport):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            body = await request.aread()
            method = json.loads(body)["method"] if body else request.method
            protected[method] = trio.lowlevel.currently_ki_protected()
            return await super().handle_async_request(request)

    peer.on["GET"] = lambda exchange: exchange.events(b": open\n\n")
    with trio.fail_after(10):
        async with Watched() as transport:
            async with open_connection(peer.server(http_transport=transport)) as connection:
                await connection.call_tool("echo")
                assert protected.pop("initialize") is False
                peer.sessions.clear()
                await connection.call_tool("echo")
    assert {method for method, is_so in protected.items() if is_so} == {
        *("DELETE", "GET", "initialize", "notifications/initialized")
    }


# --- fault 20: progress on the server's own stream


async def test_progress_on_the_servers_own_stream_is_delivered_before_the_call_returns(
    nursery: trio.Nursery,
) -> None:
    peer = await start_peer(nursery, "legacy")
    own: list[Exchange] = []

    async def stream(exchange: Exchange) -> None:
        own.append(exchange)
        await exchange.events(b": open\n\n")
        await exchange.line.wait_closed()

    async def slow(exchange: Exchange) -> None:
        token = exchange.params["_meta"]["progressToken"]
        for params in ({"progressToken": token, "progress": n, "total": 2} for n in (1, 2)):
            await own[0].event({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
        unknown = {"progressToken": "unknown", "progress": 1}
        await own[0].event({"jsonrpc": "2.0", "method": "notifications/progress", "params": unknown})
        await wait_all_tasks_blocked(0.02)
        await exchange.result(content("done"))

    progress = []

    async def on_progress(*step: Any) -> None:
        await trio.lowlevel.checkpoint()
        progress.append(step)

    peer.on["GET"] = stream
    peer.calls["slow"] = slow
    with trio.fail_after(10):
        async with open_connection(peer.server()) as connection:
            assert (await connection.call_tool("slow", on_progress=on_progress)).content == "done"
            assert connection.statistics().late_answers == 0
    assert progress == [(1, 2, None), (2, 2, None)]


@pytest.mark.parametrize("sent", ["HTTP/1.1 200 OK\r\n{}\r\n\r\n", "HTTP/1.1 200 OK\r\ncontent-type: {}\r\n\r\n"])
async def test_what_a_server_says_of_itself_is_clipped_behind_its_secrets(
    nursery: trio.Nursery, sent: str
) -> None:
    async def serve(line: Line) -> None:
        await line.read()
        await line.send(sent.format((SECRET + "-") * 6000).encode())

    listener = await listen(nursery, serve)
    with trio.fail_after(10), pytest.raises(ServerStartError) as caught:
        async with open_connection(Server("s", url=listener.url, bearer_token=SECRET, protocol="legacy")):
            raise AssertionError("opened")
    assert len(str(caught.value)) < 600
    assert "swordfish" not in str(caught.value)
