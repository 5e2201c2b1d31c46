"""Opening over HTTP: which era a server speaks, what is sent in each, and what each failure says."""

from __future__ import annotations

import ssl
import traceback
from typing import Any

import pytest
import trio
import trustme

from tests.http_peer import META, Exchange, HttpPeer, start_peer
from tests.raw_http import Line, listen
from trio_mcp import (
    AuthError,
    ClientLimits,
    InvalidServerError,
    Server,
    ServerStartError,
    open_connection,
    open_connections,
)

pytestmark = pytest.mark.usefixtures("no_descriptor_left")


async def failure(server: Server) -> ServerStartError:
    with trio.fail_after(10), pytest.raises(ServerStartError) as caught:
        async with open_connection(server):
            raise AssertionError("opened")
    assert caught.value.server == server.name
    assert server.url is not None
    assert server.url not in str(caught.value)
    return caught.value


# --- eras


async def test_a_modern_server_is_asked_twice_and_every_request_says_what_it_is(nursery: trio.Nursery) -> None:
    peer = await start_peer(nursery, "modern")
    with trio.fail_after(10):
        async with open_connection(peer.server()) as connection:
            assert connection.protocol_version == "2026-07-28"
            assert connection.server_info == {"name": "peer", "version": "1"}
            assert (await connection.call_tool("echo", {"a": 1})).content == '{"a": 1}'
    assert peer.methods() == ["server/discover", "tools/list", "tools/call"]
    for exchange in peer.seen:
        headers = exchange.request.headers
        assert (
            headers["mcp-protocol-version"] == exchange.params["_meta"][META + "protocolVersion"] == "2026-07-28"
        )
        assert headers["mcp-method"] == exchange.method
        assert headers["content-type"] == "application/json"
        assert set(headers["accept"].split(", ")) == {"application/json", "text/event-stream"}
        assert "mcp-session-id" not in headers
    assert [exchange.request.headers.get("mcp-name") for exchange in peer.seen] == [None, None, "echo"]


async def test_a_legacy_server_gets_its_handshake_session_and_end(nursery: trio.Nursery) -> None:
    peer = await start_peer(nursery, "legacy")
    with trio.fail_after(10):
        async with open_connection(peer.server()) as connection:
            assert connection.protocol_version == "2025-11-25"
            assert (await connection.call_tool("echo")).content == "{}"
            (session,) = peer.sessions
    expected = [
        "server/discover",
        "initialize",
        "notifications/initialized",
        "GET",
        "tools/list",
        "tools/call",
        "DELETE",
    ]
    assert peer.methods() == expected
    probe, handshake, *rest = peer.seen
    assert "mcp-session-id" not in probe.request.headers
    assert {"mcp-session-id", "mcp-protocol-version", "mcp-method"}.isdisjoint(handshake.request.headers)
    for exchange in rest:
        assert exchange.request.headers["mcp-session-id"] == session
        assert exchange.request.headers["mcp-protocol-version"] == "2025-11-25"
        assert "mcp-method" not in exchange.request.headers
    assert peer.of("GET")[0].request.headers["accept"] == "text/event-stream"
    assert peer.sessions == set()


async def test_a_legacy_server_without_sessions_has_none_to_end(nursery: trio.Nursery) -> None:
    peer = await start_peer(nursery, "legacy", sessions=False)
    with trio.fail_after(10):
        async with open_connection(peer.server()):
            pass
    assert "DELETE" not in peer.methods()


@pytest.mark.parametrize(
    "answer",
    [
        lambda it: it.error(-32601),
        lambda it: it.error(-32000, status="400 Bad Request"),
        lambda it: it.error(-32602, data={"supported": ["2025-11-25"]}, status="400 Bad Request"),
        lambda it: it.error(-32601, status="404 Not Found"),
        lambda it: it.error(-32601, status="500 Internal Server Error"),
        lambda it: it.status("400 Bad Request", b"no session", content_type="text/plain"),
        lambda it: it.status("404 Not Found"),
        lambda it: it.status("405 Method Not Allowed"),
        lambda it: it.status("406 Not Acceptable", b"<p>", content_type="text/html"),
        lambda it: it.status("422 Unprocessable Content", b"{}", content_type="application/json"),
        lambda it: it.result({}),
        lambda it: it.json(b"[]"),
    ],
)
async def test_what_is_not_positively_modern_is_legacy(nursery: trio.Nursery, answer: Any) -> None:
    peer = await start_peer(nursery, "legacy")
    peer.on["server/discover"] = answer
    with trio.fail_after(10):
        async with open_connection(peer.server()) as connection:
            assert connection.protocol_version == "2025-11-25"


async def test_a_version_error_is_corrected_once(nursery: trio.Nursery) -> None:
    peer = await start_peer(nursery, "modern")

    async def refuse(exchange: Exchange) -> None:
        del peer.on["server/discover"]
        await exchange.error(-32022, data={"supported": ["2026-07-28"]}, status="400 Bad Request")

    peer.on["server/discover"] = refuse
    with trio.fail_after(10):
        async with open_connection(peer.server()):
            pass
    assert peer.methods() == ["server/discover", "server/discover", "tools/list"]


async def test_the_era_is_remembered_for_the_url(nursery: trio.Nursery) -> None:
    peer = await start_peer(nursery, "legacy")
    with trio.fail_after(10):
        for _ in range(2):
            async with open_connection(peer.server()):
                pass
        assert peer.methods().count("server/discover") == 1
        peer.era = "modern"  # what was remembered is out of date
        async with open_connection(peer.server()) as connection:
            assert connection.protocol_version == "2026-07-28"


@pytest.mark.parametrize(("protocol", "method"), [("legacy", "initialize"), ("modern", "server/discover")])
async def test_a_pinned_era_is_asked_for_alone(nursery: trio.Nursery, protocol: str, method: str) -> None:
    peer = await start_peer(nursery, protocol)
    with trio.fail_after(10):
        async with open_connection(peer.server(protocol=protocol)):
            assert peer.methods()[0] == method


@pytest.mark.slow
async def test_a_slow_probe_is_waited_for(nursery: trio.Nursery) -> None:
    peer = await start_peer(nursery, "modern")

    async def slowly(exchange: Exchange) -> None:
        await trio.sleep(0.3)
        await peer.behave(exchange)

    peer.on["server/discover"] = slowly
    with trio.fail_after(10):
        async with open_connection(peer.server(), limits=ClientLimits(probe_patience=0.01)):
            assert "initialize" not in peer.methods()


# --- failures


async def test_a_refused_port_says_so() -> None:
    error = await failure(Server("s", url="http://127.0.0.1:1/mcp"))
    assert "cannot be reached" in str(error)
    assert "refused" in str(error)


@pytest.mark.table("host", ["me:swordfish-42@256.1.1.1", "ü_ü.example", "[v1.a]", "x/" + "y" * 70_000])
async def test_a_url_that_cannot_exist_is_a_mistake_in_the_configuration(host: str) -> None:
    with pytest.raises(InvalidServerError, match="url: ") as caught:
        async with open_connection(Server("s", url=f"http://{host}")):
            raise AssertionError("opened")
    assert "swordfish-42" not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("host", ["a..b", "a" * 64 + ".example"])
async def test_a_host_that_cannot_be_looked_up_says_so(host: str) -> None:
    assert "no legal name" in str(await failure(Server("s", url=f"http://{host}/")))


async def test_a_wrong_path_says_so(nursery: trio.Nursery) -> None:
    peer = await start_peer(nursery, "modern")
    error = await failure(peer.server(url=peer.listener.url + "elsewhere"))
    assert "answered with HTTP 404 Not Found: nothing of MCP is at the path of this URL" in str(error)
    assert error.status == 404


async def test_a_page_says_so(nursery: trio.Nursery) -> None:
    async def page(line: Line) -> None:
        while await line.read():
            await line.answer(b"<!doctype html><title>Welcome</title>", content_type="text/html; charset=utf-8")

    listener = await listen(nursery, page)
    error = await failure(Server("s", url=listener.url))
    assert "answered with text/html (HTTP 200 OK), not with JSON or events" in str(error)
    assert error.status == 200


async def test_a_failure_of_tls_says_so(nursery: trio.Nursery) -> None:
    async def nothing(line: Line) -> None:
        await line.read()

    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    trustme.CA().issue_cert("localhost").configure_cert(context)
    listener = await listen(nursery, nothing, context)
    assert "TLS failed: [SSL: CERTIFICATE_VERIFY_FAILED]" in str(await failure(Server("s", url=listener.url)))


async def test_an_ssl_context_of_the_program_is_used(nursery: trio.Nursery) -> None:
    authority = trustme.CA()
    theirs, ours = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH), ssl.create_default_context()
    authority.issue_cert("localhost").configure_cert(theirs)
    authority.configure_trust(ours)
    peer = HttpPeer("modern")
    peer.listener = await listen(nursery, peer.serve, theirs)
    with trio.fail_after(10):
        async with open_connection(peer.server(ssl_context=ours)) as connection:
            assert (await connection.call_tool("echo")).content == "{}"


@pytest.mark.parametrize("status", ["400 Bad Request", "404 Not Found", "405 Method Not Allowed"])
async def test_the_deprecated_transport_says_so(nursery: trio.Nursery, status: str) -> None:
    async def deprecated(line: Line) -> None:
        while request := await line.read():
            if request.method == "POST":
                await line.answer(b"no", status=status)
            else:
                await line.send(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n")
                await line.send(b"event: endpoint\ndata: /messages?session=1\n\n")
                await line.wait_closed()
                return

    listener = await listen(nursery, deprecated)
    error = await failure(Server("s", url=listener.url))
    assert "speaks the deprecated HTTP+SSE transport" in str(error)


@pytest.mark.parametrize("status", ["500 Internal Server Error", "503 Service Unavailable"])
async def test_a_server_in_trouble_is_no_legacy_server(nursery: trio.Nursery, status: str) -> None:
    peer = await start_peer(nursery, "legacy")
    peer.on["server/discover"] = lambda it: it.status(status)
    error = await failure(peer.server())
    assert f"HTTP {status}" in str(error)
    assert error.status == int(status[:3])
    assert peer.methods() == ["server/discover"]


async def test_a_connection_that_breaks_is_none_either(nursery: trio.Nursery) -> None:
    async def rude(line: Line) -> None:
        await line.read()
        line.reset()

    listener = await listen(nursery, rude)
    assert "the connection was lost" in str(await failure(Server("s", url=listener.url)))
    assert len(listener.lines) == 1


async def test_a_server_that_never_answers_is_given_up(nursery: trio.Nursery) -> None:
    peer = await start_peer(nursery, "modern")
    peer.on["server/discover"] = lambda it: it.line.wait_closed()
    error = await failure(peer.server(start_timeout=0.1))
    assert "not ready within 0.1 s" in str(error)


async def test_a_listing_that_fails_is_a_failed_start_with_its_status(nursery: trio.Nursery) -> None:
    peer = await start_peer(nursery, "modern")
    peer.on["tools/list"] = lambda it: it.status("502 Bad Gateway")
    error = await failure(peer.server())
    assert error.status == 502


# --- access


@pytest.mark.parametrize("status", ["401 Unauthorized", "403 Forbidden"])
@pytest.mark.parametrize("method", ["server/discover", "initialize", "tools/list"])
async def test_a_refusal_leaves_bare_with_its_challenge(nursery: trio.Nursery, status: str, method: str) -> None:
    era = "legacy" if method == "initialize" else "modern"
    peer = await start_peer(nursery, era)
    challenge = 'Bearer realm="x", scope="a b"'
    peer.on[method] = lambda it: it.status(status, www_authenticate=challenge)
    with trio.fail_after(10), pytest.raises(AuthError) as caught:
        async with open_connection(peer.server()):
            raise AssertionError("opened")
    assert caught.value.status == int(status[:3])
    assert caught.value.challenge == ({"scheme": "Bearer", "realm": "x", "scope": "a b"},)
    with trio.fail_after(10):
        async with open_connections([peer.server()], on_error="warn") as connections:
            assert isinstance(connections.failed["peer"], AuthError)


async def test_credentials_go_with_every_request(nursery: trio.Nursery) -> None:
    peer = await start_peer(nursery, "legacy")
    counts = iter(range(100))
    server = peer.server(bearer_token="secret-token", headers=lambda: {"X-Count": str(next(counts))})
    with trio.fail_after(10):
        async with open_connection(server) as connection:
            await connection.call_tool("echo")
    assert {exchange.request.headers["authorization"] for exchange in peer.seen} == {"Bearer secret-token"}
    found = [exchange.request.headers["x-count"] for exchange in peer.seen]
    assert sorted(found, key=int) == [str(count) for count in range(len(peer.seen))]


async def test_a_failing_function_for_headers_leaves_as_itself(nursery: trio.Nursery) -> None:
    class NoTokenError(Exception):
        pass

    broken = False

    def headers() -> dict[str, str]:
        if broken:
            raise NoTokenError
        return {}

    peer = await start_peer(nursery, "modern")
    with trio.fail_after(10):
        async with open_connection(peer.server(headers=headers)) as connection:
            broken = True
            with pytest.raises(NoTokenError):
                await connection.call_tool("echo")
            broken = False
            await connection.call_tool("echo")
            broken = True
        with pytest.raises(NoTokenError):
            async with open_connection(peer.server(headers=headers)):
                raise AssertionError("opened")
