"""Who may come in over HTTP: Host, Origin, `authorize`, and the bounds on what strangers can make a server do."""

from __future__ import annotations

import tracemalloc
from collections.abc import Mapping
from typing import Any

import pytest
import trio

from tests.serving import Line, echo, serving, until
from trio_mcp import (
    AuthError,
    Context,
    Server,
    ServerLimits,
    ToolServer,
    Unauthorized,
    asgi_app,
    open_connection,
)
from trio_mcp.server.http.asgi import HttpRequest
from trio_mcp.server.http.origin import is_loopback


async def status(line: Line, **headers: str) -> int:
    return (await line.modern("server/discover", headers=headers)).status


async def test_on_a_loopback_address_only_names_of_this_machine_are_served() -> None:
    async with serving(echo) as served:
        line = await served.connect()
        for host in ("localhost", f"localhost:{served.port}", "127.0.0.1:1", "[::1]:80", "LOCALHOST"):
            assert await status(line, host=host) == 200, host
        for host in ("evil.example.com", "localhost.example.com:80", "10.0.0.1", "", "localhost@evil", "[::2]"):
            assert await status(line, host=host) == 403, host


async def test_on_a_loopback_address_only_pages_of_this_machine_may_send() -> None:
    async with serving(echo) as served:
        line = await served.connect()
        for origin in ("http://localhost:3000", "https://127.0.0.1", "http://[::1]:5"):
            assert await status(line, origin=origin) == 200, origin
        for origin in (
            *("http://evil.example.com", "null", "", "file://", "http://localhost.evil.example", "localhost"),
            *("http://[", "http://localhost@evil.example"),
        ):
            assert await status(line, origin=origin) == 403, origin


async def test_names_that_are_allowed_are_served_and_no_others() -> None:
    hosts = ["api.example.com", "other.example.com:8443", "[2001:db8::1]", "2001:db8::2"]
    origins = ["https://app.example.com/"]
    async with serving(echo, allowed_hosts=hosts, allowed_origins=origins) as served:
        line = await served.connect()
        assert await status(line, host="api.example.com") == 200
        assert await status(line, host="API.example.com:99") == 200
        assert await status(line, host="other.example.com:8443") == 200
        for address in ("[2001:db8::1]", "[2001:db8::1]:99", "[2001:db8::2]:99"):
            assert await status(line, host=address) == 200, address
        assert await status(line, host="other.example.com") == 403
        assert await status(line, host="localhost") == 403
        assert await status(line, host="api.example.com", origin="https://app.example.com") == 200
        assert await status(line, host="api.example.com", origin="http://app.example.com") == 403


async def test_elsewhere_than_on_loopback_any_name_is_served() -> None:
    async with serving(echo, host="0.0.0.0") as served:
        line = await served.connect()
        assert await status(line, host="whatever.example.com", origin="https://anything.example.com") == 200


async def test_elsewhere_names_and_origins_are_bounded_each_by_itself() -> None:
    async with serving(echo, host="0.0.0.0", allowed_origins=()) as served:
        line = await served.connect()
        assert await status(line, host="whatever.example.com") == 200
        assert await status(line, host="whatever.example.com", origin="https://anything.example.com") == 403
    async with serving(echo, host="0.0.0.0", allowed_hosts=["api.example.com"]) as served:
        line = await served.connect()
        assert await status(line, host="api.example.com", origin="https://anything.example.com") == 200
        assert await status(line, host="whatever.example.com") == 403


LOOPBACK = ("127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1", "localhost")


def test_an_address_that_merely_looks_local_is_not() -> None:
    assert [is_loopback(name) for name in LOOPBACK] == [True] * 5
    assert not any(is_loopback(name) for name in ("", "0.0.0.0", "127.0.0.1.example.com", "128.0.0.1", "::"))


async def admit(headers: Mapping[str, str]) -> Any:
    match headers.get("authorization", "").partition(" ")[2]:
        case "good":
            return {"user": "ada"}
        case "weak":
            challenge = {"scheme": "Bearer", "error": "insufficient_scope", "scope": 'a "b'}
            raise Unauthorized(challenge, status=403)
        case "several":
            raise Unauthorized([{"scheme": "Bearer"}, {"scheme": "DPoP", "algs": "ES256"}])
        case "broken":
            raise RuntimeError("the secret database at 10.0.0.1 is down")
        case _:
            raise Unauthorized


async def test_who_is_not_authorized_is_told_how_to_be() -> None:
    async def name(context: Context) -> str:
        return str(context.principal["user"])

    async with serving(name, authorize=admit) as served:
        line = await served.connect()
        for method, body in (("POST", b"{}"), ("GET", b""), ("DELETE", b"")):
            refused = await line.ask(method, body)
            assert (refused.status, refused.headers["www-authenticate"]) == (401, "Bearer")
            assert refused.body == b"authorization is required"
        weak = await line.ask("POST", b"{}", authorization="Bearer weak")
        assert weak.status == 403
        assert weak.headers["www-authenticate"] == 'Bearer error="insufficient_scope", scope="a b"'
        several = await line.ask("POST", b"{}", authorization="Bearer several")
        assert several.headers["www-authenticate"] == 'DPoP algs="ES256"'  # the last of two headers
        fields: dict[str, str | None] = {"authorization": "Bearer good"}
        good = await line.modern("tools/call", name="name", arguments={}, headers=fields)
        assert good.result["content"][0]["text"] == "ada"
        for protocol in ("modern", "legacy"):
            server = Server("s", url=served.url, protocol=protocol, bearer_token="good")
            async with open_connection(server) as connection:
                assert (await connection.call_tool("name")).content == "ada"
        with pytest.raises(AuthError) as caught:
            async with open_connection(Server("s", url=served.url, bearer_token="bad")):
                pass
        assert caught.value.challenge == ({"scheme": "Bearer"},)


async def test_an_authorize_that_fails_lets_nobody_in_and_is_told_to_the_log_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with serving(echo, authorize=admit) as served:
        failed = await (await served.connect()).ask("POST", b"{}", authorization="Bearer broken")
    assert (failed.status, failed.body) == (500, b"internal error")
    assert "www-authenticate" not in failed.headers
    (record,) = caplog.records
    assert "the secret database" in caplog.text
    assert record.exc_info is not None


def test_unauthorized_is_401_or_403() -> None:
    assert str(Unauthorized()) == "authorization is required"
    assert (Unauthorized({"scheme": "Basic"}).challenge, Unauthorized().challenge) == (({"scheme": "Basic"},), ())
    with pytest.raises(ValueError, match="status: expected 401 or 403, got 500"):
        Unauthorized(status=500)  # type: ignore[arg-type]


async def test_what_a_challenge_says_cannot_break_its_header() -> None:
    async def refuse(headers: Mapping[str, str]) -> None:
        raise Unauthorized([{"scheme": "Be\r\narer", "max_age\n": 5}])  # type: ignore[dict-item]

    async with serving(echo, authorize=refuse) as served:
        refused = await (await served.connect()).ask("POST", b"{}")
    assert (refused.status, refused.headers["www-authenticate"]) == (401, 'Bearer max_age="5"')


async def test_an_authorize_that_is_not_async_lets_nobody_in_and_is_told_to_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with serving(echo, authorize=lambda headers: "ada") as served:
        refused = await (await served.connect()).ask("POST", b"{}")
    assert (refused.status, refused.body) == (500, b"internal error")
    assert "authorize: expected an async function, got one that returns str" in caplog.text


async def test_a_body_beyond_the_bound_is_refused_whether_or_not_it_says_so() -> None:
    async with serving(echo, max_body=1000) as served:
        line = await served.connect()
        refused = await line.ask("POST", b"[" + b"1," * 500 + b"1]")
        assert refused.status == 413
        assert (await line.modern("tools/list")).status == 200  # the connection is as good as before
        chunked = await served.connect()
        head = f"POST /mcp HTTP/1.1\r\nhost: {chunked.host}\r\ntransfer-encoding: chunked\r\n\r\n"
        await chunked.stream.send_all(head.encode() + b"400\r\n" + b" " * 1024 + b"\r\n0\r\n\r\n")
        reply = await chunked.stream.receive_some(1000)
        assert reply.startswith(b"HTTP/1.1 413 ")
        absurd = await served.connect()
        await absurd.stream.send_all(
            f"POST /mcp HTTP/1.1\r\nhost: {absurd.host}\r\ncontent-length: 99999999999999\r\n\r\n".encode()
        )
        await absurd.stream.send_all(b" " * 10)
        await absurd.stream.send_eof()
        while await absurd.stream.receive_some(1000):
            pass


@pytest.mark.slow
async def test_a_body_takes_no_more_for_coming_in_small_pieces() -> None:
    pieces = 20_000

    async def unsent(_: object) -> None:
        raise AssertionError

    async def receive() -> dict[str, Any]:
        nonlocal pieces
        await trio.lowlevel.checkpoint()
        pieces -= 1
        return {"type": "http.request", "body": b"%02d" % (pieces % 97), "more_body": pieces > 0}

    limits = ServerLimits(max_body=40_000)
    request = HttpRequest({"method": "POST", "path": "/mcp"}, receive, unsent, limits=limits)
    tracemalloc.start()
    try:
        body = await request.read_body()
        assert tracemalloc.get_traced_memory()[1] < 10 * len(body)
    finally:
        tracemalloc.stop()
    assert (len(body), body[:6], body[-4:]) == (40_000, b"171615", b"0100")


async def test_a_huge_body_that_is_refused_early_neither_hangs_nor_is_kept() -> None:
    """Hypercorn hands over at most ten pieces that nobody takes, and then waits."""
    async with serving(echo, authorize=admit) as served:
        line = await served.connect()
        reply = await line.ask("POST", b" " * 5_000_000)
        assert reply.status == 401
        assert (await line.ask("POST", b"{}")).status == 401


async def test_only_so_many_calls_run_at_once() -> None:
    opened = trio.Event()
    entered: list[str] = []

    async def wait() -> str:
        entered.append("")
        await opened.wait()
        return "through"

    async with serving(wait, max_running=2) as served:
        modern, legacy, third = [await served.connect() for _ in range(3)]
        await legacy.initialize()
        await third.initialize()
        await modern.begin_modern("tools/call", name="wait", arguments={})
        await legacy.begin_legacy("tools/call", {"name": "wait", "arguments": {}})
        await until(lambda: len(entered) == 2)
        for reply in (
            await third.legacy("tools/call", {"name": "wait", "arguments": {}}, 7),
            await third.modern("tools/call", 7, name="wait", arguments={}),
        ):
            assert (reply.status, reply.json["id"]) == (503, 7)
            assert reply.headers["retry-after"] == "1"
        assert (await third.modern("tools/list")).status == 200
        opened.set()
        for line in (modern, legacy):
            assert (await line.rest(await line.head())).result["content"][0]["text"] == "through"
        assert (await third.modern("tools/call", name="wait", arguments={})).status == 200


async def test_only_so_many_streams_are_open() -> None:
    async with serving(echo, max_sessions=1) as served:
        first, second = await served.connect(), await served.connect()
        await first.begin_modern("subscriptions/listen", notifications={})
        await first.more(await first.head(), 1)
        assert (await second.modern("subscriptions/listen", notifications={})).status == 503


@pytest.mark.table(
    ("method", "path", "status"),
    [
        ("GET", "/mcp", 405),
        ("PUT", "/mcp", 405),
        ("OPTIONS", "/mcp", 405),
        ("DELETE", "/mcp", 405),
        ("POST", "/", 404),
        ("POST", "/mcp/more", 404),
        ("POST", "/mcp/", 400),
        ("POST", "/mcp?x=1", 400),
    ],
)
async def test_only_the_one_path_and_the_methods_it_has(method: str, path: str, status: int) -> None:
    async with serving(echo) as served:
        line = await served.connect()
        reply = await line.ask(method, b"x" if method == "POST" else b"", path=path)
        assert reply.status == status
        if status == 405:
            assert reply.headers["allow"] == "POST"


async def test_forms_of_web_pages_are_refused() -> None:
    async with serving(echo) as served:
        line = await served.connect()
        for media_type in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
            assert (await line.ask("POST", b"{}", content_type=media_type)).status == 415
        assert (await line.ask("POST", b"{}", content_type="Application/JSON; charset=utf-8")).status == 400


@pytest.mark.table(
    ("options", "error"),
    [
        ({"path": "mcp"}, ValueError),
        ({"path": 7}, TypeError),
        ({"signing_key": b"short"}, ValueError),
        ({"signing_key": "a text of sixteen letters"}, ValueError),
        ({"max_body": 0}, ValueError),
        ({"max_running": True}, ValueError),
        ({"max_sessions": 1.5}, ValueError),
        ({"session_idle": 0}, ValueError),
        ({"session_idle": "60"}, ValueError),
        ({"allowed_hosts": "example.com"}, TypeError),
        ({"allowed_origins": [1]}, TypeError),
        ({"allowed_hosts": 5}, TypeError),
        ({"allowed_origins": iter(["https://app.example.com"])}, TypeError),
        ({"authorize": "me"}, TypeError),
    ],
    ids=str,
)
def test_an_option_that_is_none_is_refused_by_name(options: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error, match=next(iter(options))):
        asgi_app(ToolServer("mine"), **options)
    with pytest.raises(TypeError, match="server"):
        asgi_app(asgi_app(ToolServer("mine")))  # type: ignore[arg-type]
