"""Cookies over HTTP: a balancer that keeps a client with one backend by them, and where they never go."""

from __future__ import annotations

import logging
import traceback

import httpx
import pytest
import trio

from tests.http_peer import Exchange, start_peer
from trio_mcp import ExchangeError, open_connection
from trio_mcp.transports.streamable.cookies import MOST, Cookies

ERAS = ("modern", "legacy")
BACKEND = "backend-a-0123456789"


@pytest.mark.parametrize("era", ERAS)
async def test_cookies_are_kept_for_the_connection_and_never_shown(
    nursery: trio.Nursery, era: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    peer = await start_peer(nursery, era)

    async def choose(exchange: Exchange) -> None:
        cookie = f"LB={BACKEND}; Path=/; HttpOnly"
        if era == "modern":
            versions = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}
            await exchange.result({"resultType": "complete", **versions}, set_cookie=cookie)
        else:
            await exchange.json(
                {"jsonrpc": "2.0", "id": exchange.message["id"], "error": {"code": -32601, "message": "no"}},
                set_cookie=cookie,
            )

    async def fail(exchange: Exchange) -> None:
        await exchange.status(f"500 {exchange.request.headers['cookie']}", content_type="text/html")

    peer.on["server/discover"] = choose
    peer.calls["fail"] = fail
    with trio.fail_after(10):
        async with open_connection(peer.server(headers={"Cookie": "mine=1"})) as connection:
            await connection.call_tool("echo")
            with pytest.raises(ExchangeError) as caught:
                await connection.call_tool("fail")
            shown = f"{connection!r} {''.join(traceback.format_exception(caught.value))}"
    probe, *rest = peer.seen
    assert probe.request.headers["cookie"] == "mine=1"
    assert {exchange.request.headers.get("cookie") for exchange in rest} == {f"mine=1; LB={BACKEND}"}
    assert BACKEND not in shown + caplog.text


async def test_two_connections_have_cookies_of_their_own(nursery: trio.Nursery) -> None:
    peer = await start_peer(nursery, "modern")

    async def choose(exchange: Exchange) -> None:
        versions = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}
        await exchange.result({"resultType": "complete", **versions}, set_cookie=f"LB={len(peer.seen)}")

    peer.on["server/discover"] = choose
    with trio.fail_after(10):
        for _ in range(2):
            async with open_connection(peer.server()):
                pass
    probes = peer.of("server/discover")
    assert [probe.request.headers.get("cookie") for probe in probes] == [None, None]
    listings = peer.of("tools/list")
    assert [listing.request.headers["cookie"] for listing in listings] == ["LB=1", "LB=3"]


async def test_a_redirect_to_another_origin_gets_no_cookie(nursery: trio.Nursery) -> None:
    peer, other = await start_peer(nursery, "modern"), await start_peer(nursery, "modern")

    async def away(exchange: Exchange) -> None:
        await exchange.status("307 Temporary Redirect", location=other.url, set_cookie=f"LB={BACKEND}")

    peer.calls["away"] = away
    with trio.fail_after(10):
        async with open_connection(peer.server()) as connection:
            with pytest.raises(ExchangeError, match="another origin"):
                await connection.call_tool("away")
    assert other.seen == []


def test_a_cookie_is_sent_where_it_belongs_and_forgotten_when_it_ends() -> None:
    cookies = Cookies("api.example.com", is_secure=False)
    cookies.learn(["a=1; Path=/mcp", "b=2; Path=/other", "c=3; Domain=example.com; Path=/"], "/mcp")
    cookies.learn(["d=4; Domain=evil.com", "e=5; Secure", "f=6; Max-Age=0", "no cookie", "g=\x00", "=h"], "/mcp")
    assert cookies.header("/mcp") == "a=1; c=3"
    assert cookies.header("/mcpx") == "c=3"
    past = "Thu, 01 Jan 1970 00:00:00 GMT"
    cookies.learn([f"a=; Path=/mcp; Expires={past}", "c=7; Domain=example.com; Path=/"], "/mcp")
    assert cookies.header("/mcp") == "c=7"
    assert "7" not in repr(cookies)


def test_a_server_cannot_make_the_cookies_grow() -> None:
    cookies = Cookies("localhost", is_secure=False)
    cookies.learn([f"n{number}={number}; Path=/" for number in range(10 * MOST)], "/")
    assert (cookies.header("/") or "").count("=") == MOST
    assert cookies.learn(["large=" + "x" * 10_000], "/") == []


class Reads(httpx.AsyncBaseTransport):
    """Somebody's transport, which logs bodies."""

    def __init__(self) -> None:
        self.inner = httpx.AsyncHTTPTransport()
        self.bodies: list[bytes] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.bodies.append(request.content)
        return await self.inner.handle_async_request(request)


@pytest.mark.parametrize("era", ERAS)
async def test_a_transport_of_the_program_may_read_the_body_of_a_request(nursery: trio.Nursery, era: str) -> None:
    peer = await start_peer(nursery, era)
    transport = Reads()
    with trio.fail_after(10):
        async with open_connection(peer.server(http_transport=transport)) as connection:
            await connection.call_tool("echo", {"a": 1})
        await transport.inner.aclose()
    assert any(b'"tools/call"' in body for body in transport.bodies)
