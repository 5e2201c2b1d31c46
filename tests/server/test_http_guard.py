"""Who may come in over HTTP: Host, Origin, `authorize`, and the bounds on what strangers can make a server do."""

from __future__ import annotations

import gzip
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
    serve_http,
)
from trio_mcp.server.http.asgi import HttpRequest
from trio_mcp.server.http.origin import host_of, is_loopback, origin_of


async def status(line: Line, **headers: str) -> int:
    return (await line.modern("server/discover", headers=headers)).status


async def test_on_a_loopback_address_only_names_of_this_machine_are_served() -> None:
    async with serving(echo) as served:
        line = await served.connect()
        for host in ("localhost", f"localhost:{served.port}", "127.0.0.1:1", "[::1]:80", "LOCALHOST"):
            assert await status(line, host=host) == 200, host
        for host in ("evil.example.com", "localhost.example.com:80", "10.0.0.1", "", "localhost@evil", "[::2]"):
            assert await status(line, host=host) == 403, host


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
async def test_no_web_page_may_send_that_is_not_listed_wherever_the_server_listens(host: str) -> None:
    origins = ("http://localhost:3000", "http://evil.example.com", "null", "", "http://[", "HTTP://LOCALHOST:1")
    async with serving(echo, host=host, allowed_hosts=["*"]) as served:
        line = await served.connect()
        for origin in origins:
            assert await status(line, origin=origin) == 403, origin
    options: dict[str, Any] = {
        "allowed_hosts": ["*"],
        "allowed_origins": ["http://localhost:3000", "https://app.example.com/"],
    }
    async with serving(echo, host=host, **options) as served:
        line = await served.connect()
        for origin in ("http://localhost:3000", "https://APP.example.com"):
            assert await status(line, origin=origin) == 200, origin
        for origin in origins[1:]:
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


async def test_a_page_of_another_site_runs_no_tool_by_a_request_that_browsers_send_unasked() -> None:
    ran: list[str] = []

    async def delete() -> None:
        ran.append("")

    async with serving(delete, host="0.0.0.0", allowed_hosts=["*"]) as served:
        line = await served.connect()
        evil = {"host": "evil.example", "origin": "http://evil.example"}
        for headers in ({**evil, "content_type": None}, evil, {"content_type": None}, {"content_type": ""}):
            reply = await line.modern("tools/call", name="delete", arguments={}, headers=headers)
            assert reply.status == (403 if "origin" in headers else 415), headers
    assert ran == []


async def test_without_authorize_a_server_for_the_network_says_which_names_it_has() -> None:
    for host in ("0.0.0.0", "::", "192.0.2.1", "tools.example.com", ""):
        with trio.fail_after(5), pytest.raises(ValueError, match=r"^allowed_hosts: serving at .* takes the names"):
            await serve_http(ToolServer("s"), host=host)
    async with serving(echo, host="0.0.0.0", allowed_hosts=["api.example.com"]) as served:
        line = await served.connect()
        assert await status(line, host="api.example.com:1") == 200
        assert await status(line, host="whatever.example.com") == 403


async def test_with_authorize_any_name_is_served_in_the_network_and_none_but_its_own_on_loopback() -> None:
    async def admit_all(headers: Mapping[str, str]) -> None:
        await trio.lowlevel.checkpoint()

    async with serving(echo, host="0.0.0.0", authorize=admit_all) as served:
        line = await served.connect()
        assert await status(line, host="whatever.example.com") == 200
        assert await status(line, host="whatever.example.com", origin="https://anything.example.com") == 403
    async with serving(echo, authorize=admit_all) as served:
        assert await status(await served.connect(), host="whatever.example.com") == 403


async def test_an_app_whose_address_is_not_known_serves_this_machine_alone_or_what_is_listed() -> None:
    async def ask(app: Any, *hosts: bytes) -> int:
        sent: list[Any] = []

        async def receive() -> dict[str, Any]:
            await trio.lowlevel.checkpoint()
            return {"type": "http.request", "body": b"x"}

        async def send(message: Any) -> None:
            await trio.lowlevel.checkpoint()
            sent.append(message)

        headers = [(b"content-type", b"application/json"), *((b"host", host) for host in hosts)]
        await app({"type": "http", "method": "POST", "path": "/mcp", "headers": headers}, receive, send)
        found: int = sent[0]["status"]
        return found

    own, listed = asgi_app(ToolServer("s")), asgi_app(ToolServer("s"), allowed_hosts=["a.example"])
    assert [await ask(own, b"localhost"), await ask(own, b"a.example"), await ask(own)] == [400, 403, 403]
    assert [await ask(listed, b"localhost"), await ask(listed, b"a.example")] == [403, 400]
    assert await ask(own, b"localhost", b"localhost") == 403


@pytest.mark.table(
    ("host", "name"),
    [
        ("localhost", "localhost"),
        ("LocalHost:80", "localhost"),
        ("127.0.0.1:65535", "127.0.0.1"),
        ("[::1]", "::1"),
        ("[0:0::1]:5", "::1"),
        ("my_service:8000", "my_service"),
        ("[::1].evil.example", None),
        ("[::1]evil.example", None),
        ("[::1]:80.evil.example", None),
        ("[::1", None),
        ("::1", None),
        ("[::1]]", None),
        ("[]", None),
        ("[127.0.0.1]", None),
        ("[v1.x]", None),
        ("localhost:1.evil.example", None),
        ("localhost:1:2", None),
        ("localhost:", None),
        ("localhost:65536", None),
        ("localhost:-1", None),
        ("localhost:\u0661", None),
        ("localhost@evil.example", None),
        ("evil.example@localhost", None),
        ("localhost/", None),
        ("localhost#", None),
        ("localhost\\evil", None),
        ("localhost, localhost", None),
        ("localhost\n", None),
        (" localhost", None),
        (".localhost", None),
        ("lo..calhost", None),
        ("%6cocalhost", None),
        ("", None),
    ],
    ids=repr,
)
def test_a_host_is_read_whole_or_not_at_all_in_host_and_in_origin(host: str, name: str | None) -> None:
    found = host_of(host)
    assert (None if found is None else found.name) == name
    assert (origin_of(f"http://{host}") is None) == (name is None)


@pytest.mark.table(
    ("origin", "read"),
    [
        ("http://localhost:3000", "http://localhost:3000"),
        ("HTTPS://App.Example", "https://app.example"),
        ("http://[0::1]:5", "http://[::1]:5"),
        ("chrome-extension://abcdef", "chrome-extension://abcdef"),
        ("null", "null"),
        ("http://a.example/", None),
        ("http://a.example?x", None),
        ("http://u@a.example", None),
        ("http://a.example http://b.example", None),
        ("http://a.example, http://a.example", None),
        ("//a.example", None),
        ("a.example", None),
        ("file://", None),
        ("http:a.example", None),
        ("*", None),
        ("", None),
    ],
    ids=repr,
)
def test_an_origin_is_read_whole_or_not_at_all(origin: str, read: str | None) -> None:
    assert origin_of(origin) == read


async def test_a_host_or_origin_that_is_none_is_refused_even_where_any_is_allowed() -> None:
    async with serving(echo, allowed_hosts=["*"], allowed_origins=["*"]) as served:
        line = await served.connect()
        assert await status(line, host="any.example", origin="https://any.example") == 200
        for host in ("[::1", "[::1].evil.example", "localhost:1.evil.example"):
            assert await status(line, host=host) == 403, host
            assert await status(line, origin=f"http://{host}") == 403, host


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
        begin = "POST /mcp HTTP/1.1\r\ncontent-type: application/json\r\n"
        head = f"{begin}host: {chunked.host}\r\ntransfer-encoding: chunked\r\n\r\n"
        await chunked.stream.send_all(head.encode() + b"400\r\n" + b" " * 1024 + b"\r\n0\r\n\r\n")
        reply = await chunked.stream.receive_some(1000)
        assert reply.startswith(b"HTTP/1.1 413 ")
        absurd = await served.connect()
        await absurd.stream.send_all(
            f"{begin}host: {absurd.host}\r\ncontent-length: 99999999999999\r\n\r\n".encode()
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


@pytest.mark.table(
    "coding", ["gzip", "GZIP", "br", "deflate", "zstd", "x-unknown", "gzip, identity", ""], ids=repr
)
async def test_a_body_with_a_content_encoding_is_415_whatever_its_bytes_are(coding: str) -> None:
    ran: list[str] = []

    async def run() -> None:
        ran.append("")

    async with serving(run) as served:
        line = await served.connect()
        plain = await line.modern("tools/call", name="run", arguments={}, headers={"content_encoding": coding})
        packed = await line.ask("POST", gzip.compress(b"{}"), content_encoding=coding)
        for reply in (plain, packed):
            assert (reply.status, reply.headers["accept-encoding"]) == (415, "identity")
        assert ran == []
        assert await status(line, content_encoding="identity") == 200


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
        ({"allowed_hosts": ["*.example.com"]}, ValueError),
        ({"allowed_hosts": ["https://example.com"]}, ValueError),
        ({"allowed_origins": ["example.com"]}, ValueError),
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
