"""Http1Transport, alone and under httpx, against servers with and without manners."""

from __future__ import annotations

import gzip
import ssl
import zlib
from collections.abc import AsyncIterator

import httpx
import pytest
import trio
import trustme
from trio.testing import MockClock, assert_checkpoints, wait_all_tasks_blocked

from tests.raw_http import Line, listen
from trio_mcp.http.limits import PoolLimits
from trio_mcp.http.pool import Http1Transport


@pytest.fixture(autouse=True)
def _nothing_is_left(no_descriptor_left: None) -> None:
    pass


@pytest.fixture
async def transport() -> AsyncIterator[Http1Transport]:
    async with Http1Transport() as transport:
        yield transport


@pytest.fixture
def authority() -> trustme.CA:
    return trustme.CA()


async def polite(line: Line) -> None:
    """Echo, for as long as the client likes."""
    while request := await line.read():
        await line.answer(f"{request.method} {request.target} ".encode() + request.body)


async def get(transport: Http1Transport, url: str, **extensions: object) -> bytes:
    request = httpx.Request("GET", url, extensions=extensions)
    response = await transport.handle_async_request(request)
    return await response.aread()


# --- under httpx


async def test_it_serves_an_httpx_client(nursery: trio.Nursery, transport: Http1Transport) -> None:
    listener = await listen(nursery, polite)
    async with httpx.AsyncClient(transport=transport) as client:
        assert (await client.get(listener.url + "a?b=c")).text == "GET /a?b=c "
        assert (await client.post(listener.url, content=b"x" * 1_000_000)).text == "POST / " + "x" * 1_000_000
        assert (await client.put(listener.url, json={"a": 1})).text == 'PUT / {"a":1}'
    assert len(listener.lines) == 1


async def test_a_body_without_a_length_goes_out_in_chunks(
    nursery: trio.Nursery, transport: Http1Transport
) -> None:
    async def parts() -> AsyncIterator[bytes]:
        yield b"one"
        yield b""
        yield b"three"

    listener = await listen(nursery, polite)
    async with httpx.AsyncClient(transport=transport) as client:
        assert (await client.post(listener.url, content=parts())).content == (
            b"POST / 3\r\none\r\n5\r\nthree\r\n0\r\n\r\n"
        )


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
async def test_compressed_bodies_are_decoded(
    nursery: trio.Nursery, transport: Http1Transport, encoding: str
) -> None:
    async def serve(line: Line) -> None:
        while await line.read():
            body = gzip.compress(b"hello" * 1000) if encoding == "gzip" else zlib.compress(b"hello" * 1000)
            await line.answer(body, content_encoding=encoding)

    listener = await listen(nursery, serve)
    async with httpx.AsyncClient(transport=transport) as client:
        assert (await client.get(listener.url)).content == b"hello" * 1000


async def test_tls_is_checked_and_spoken(nursery: trio.Nursery, authority: trustme.CA) -> None:
    theirs = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost").configure_cert(theirs)
    ours = ssl.create_default_context()
    authority.configure_trust(ours)
    listener = await listen(nursery, polite, theirs)
    async with Http1Transport(ours) as transport:
        for _ in range(3):
            assert await get(transport, listener.url) == b"GET / "
        assert len(listener.lines) == 1, "a TLS connection is kept too"
    async with Http1Transport() as transport:
        with pytest.raises(httpx.ConnectError, match="certificate verify failed"):
            await get(transport, listener.url)


async def test_a_server_without_tls_is_told_from_one_that_is_not_there(
    nursery: trio.Nursery, transport: Http1Transport
) -> None:
    async def plain(line: Line) -> None:
        await line.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    listener = await listen(nursery, plain)
    with pytest.raises(httpx.ConnectError, match=r"(?i)ssl|wrong version"):
        await get(transport, listener.url.replace("http:", "https:"))
    with pytest.raises(httpx.ConnectError, match="refused"):
        await get(transport, "http://127.0.0.1:1/")
    assert repr(transport) == "<Http1Transport, 0 connections in use, 0 idle>"


# --- connections


async def test_the_connection_used_last_is_used_next(nursery: trio.Nursery, transport: Http1Transport) -> None:
    served = []

    async def serve(line: Line) -> None:
        while await line.read():
            served.append(listener.lines.index(line))
            await line.answer(b"x")

    listener = await listen(nursery, serve)
    requests = [httpx.Request("GET", listener.url) for _ in range(3)]
    responses = [await transport.handle_async_request(request) for request in requests]
    assert repr(transport) == "<Http1Transport, 3 connections in use, 0 idle>"
    for response in (responses[2], responses[0], responses[1]):
        await response.aread()
    assert repr(transport) == "<Http1Transport, 0 connections in use, 3 idle>"
    for _ in range(2):
        await get(transport, listener.url)
    assert served == [0, 1, 2, 1, 1]


async def test_nothing_waits_for_a_free_connection(nursery: trio.Nursery, transport: Http1Transport) -> None:
    arrived = 0
    everybody = trio.Event()

    async def serve(line: Line) -> None:
        nonlocal arrived
        while await line.read():
            arrived += 1
            if arrived == 200:
                everybody.set()
            await everybody.wait()
            await line.answer(b"x")

    listener = await listen(nursery, serve)
    with trio.fail_after(20):
        async with trio.open_nursery() as callers:
            for _ in range(200):
                callers.start_soon(get, transport, listener.url)


async def test_idle_connections_have_a_limit(nursery: trio.Nursery) -> None:
    listener = await listen(nursery, polite)
    async with Http1Transport(limits=PoolLimits(max_idle=2)) as transport:
        responses = [await transport.handle_async_request(httpx.Request("GET", listener.url)) for _ in range(4)]
        for response in responses:
            await response.aread()
        assert repr(transport) == "<Http1Transport, 0 connections in use, 2 idle>"


async def test_the_connections_of_a_burst_that_the_server_has_closed_are_let_go_with_the_next_use(
    nursery: trio.Nursery,
) -> None:
    closed = 0

    async def serve(line: Line) -> None:
        nonlocal closed
        request = await line.read()
        assert request is not None
        await line.answer(b"x")
        if request.target == "/burst":
            await trio.aclose_forcefully(line.stream)
            closed += 1
        else:
            await trio.sleep_forever()

    listener = await listen(nursery, serve)
    async with Http1Transport(limits=PoolLimits(sweep_pause=0)) as transport:
        requests = [httpx.Request("GET", listener.url + "burst") for _ in range(20)]
        responses = [await transport.handle_async_request(request) for request in requests]
        await wait_all_tasks_blocked()
        assert closed == 20
        for response in responses:
            await response.aread()
        await get(transport, listener.url)
        assert repr(transport) == "<Http1Transport, 0 connections in use, 1 idle>"


async def test_a_connection_that_was_idle_too_long_is_not_used(nursery: trio.Nursery) -> None:
    listener = await listen(nursery, polite)
    async with Http1Transport(limits=PoolLimits(idle_expiry=0)) as transport:
        await get(transport, listener.url)
        await get(transport, listener.url)
    assert len(listener.lines) == 2


@pytest.mark.parametrize("end", ["close", "408", "reset"])
async def test_an_idle_connection_that_the_server_ended_is_noticed_before_a_request_is_written(
    nursery: trio.Nursery, transport: Http1Transport, end: str
) -> None:
    ended = trio.Event()
    heard = []

    async def serve(line: Line) -> None:
        request = await line.read()
        assert request is not None
        heard.append(request.target)
        await line.answer(b"x")
        if request.target == "/last":
            if end == "408":
                await line.send(b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\n\r\n")
            elif end == "reset":
                line.reset()
        if end != "408" or request.target != "/last":
            await trio.aclose_forcefully(line.stream)
        ended.set()
        if end == "408":
            await trio.sleep_forever()

    listener = await listen(nursery, serve)
    await get(transport, listener.url + "last")
    await ended.wait()
    await wait_all_tasks_blocked(0.05)
    assert await get(transport, listener.url + "next") == b"x"
    assert heard == ["/last", "/next"]
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\nconnection: close\r\n\r\nx",
        b"HTTP/1.0 200 OK\r\ncontent-length: 1\r\n\r\nx",
        b"HTTP/1.1 200 OK\r\n\r\nx",
        b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nx and more",
    ],
)
async def test_a_connection_that_cannot_be_kept_is_closed(
    nursery: trio.Nursery, transport: Http1Transport, answer: bytes
) -> None:
    async def serve(line: Line) -> None:
        await line.read()
        await line.send(answer)
        if b"content-length" not in answer:
            await trio.aclose_forcefully(line.stream)
        else:
            await line.wait_closed()

    listener = await listen(nursery, serve)
    with trio.fail_after(5):
        assert await get(transport, listener.url) == b"x"
    assert repr(transport) == "<Http1Transport, 0 connections in use, 0 idle>"


@pytest.mark.parametrize(
    ("method", "answer"),
    [
        ("HEAD", b"HTTP/1.1 200 OK\r\ncontent-length: 5000\r\n\r\n"),
        ("GET", b"HTTP/1.1 204 No Content\r\n\r\n"),
        ("GET", b"HTTP/1.1 304 Not Modified\r\ncontent-length: 5\r\n\r\n"),
        (
            "POST",
            b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\n\r\nHTTP/1.1 202 A\r\ncontent-length:0\r\n\r\n",
        ),
        ("GET", b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\ntrailer: x\r\n\r\n"),
    ],
)
async def test_a_response_without_a_body_has_none_and_leaves_the_connection_usable(
    nursery: trio.Nursery, transport: Http1Transport, method: str, answer: bytes
) -> None:
    async def serve(line: Line) -> None:
        while await line.read():
            await line.send(answer)

    listener = await listen(nursery, serve)
    with trio.fail_after(5):
        for _ in range(2):
            response = await transport.handle_async_request(httpx.Request(method, listener.url))
            assert await response.aread() == b""
        response = await transport.handle_async_request(httpx.Request(method, listener.url))
        await response.aclose()  # unread: but all of it has come
    assert len(listener.lines) == 1
    assert repr(transport) == "<Http1Transport, 0 connections in use, 1 idle>"


# --- rude servers


async def expect(
    transport: Http1Transport, nursery: trio.Nursery, sent: bytes, kind: type[Exception], match: str
) -> None:
    """The request fails so, is sent once, and leaves nothing behind."""
    requests = 0

    async def serve(line: Line) -> None:
        nonlocal requests
        while await line.read():
            requests += 1
            await line.send(sent)
            await trio.aclose_forcefully(line.stream)
            return

    listener = await listen(nursery, serve)
    with trio.fail_after(5), pytest.raises(kind, match=match):
        await get(transport, listener.url)
    assert requests == 1
    assert repr(transport) == "<Http1Transport, 0 connections in use, 0 idle>"


@pytest.mark.parametrize(
    ("sent", "kind", "match"),
    [
        (b"", httpx.RemoteProtocolError, "without a response"),
        (b"HTTP/1.1 200 O", httpx.RemoteProtocolError, "without a response"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf", httpx.RemoteProtocolError, "body"),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nab", httpx.RemoteProtocolError, "body"),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n", httpx.RemoteProtocolError, "chunk"),
        (b"SSH-2.0-OpenSSH_9.6\r\n\r\n", httpx.RemoteProtocolError, "status line"),
        (b"HTTP/1.1 200 OK\r\na: " + b"x" * 200_000, httpx.RemoteProtocolError, "too long"),
    ],
)
async def test_half_a_response_is_an_error(
    nursery: trio.Nursery, transport: Http1Transport, sent: bytes, kind: type[Exception], match: str
) -> None:
    await expect(transport, nursery, sent, kind, match)


@pytest.mark.parametrize("sent", [b"", b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf"])
async def test_so_is_a_reset(nursery: trio.Nursery, transport: Http1Transport, sent: bytes) -> None:
    async def serve(line: Line) -> None:
        await line.read()
        await line.send(sent)
        line.reset()

    listener = await listen(nursery, serve)
    with trio.fail_after(5), pytest.raises(httpx.ReadError, match="reset"):
        await get(transport, listener.url)


async def test_an_answer_before_the_whole_request_was_read_is_an_answer(
    nursery: trio.Nursery, transport: Http1Transport
) -> None:
    async def serve(line: Line) -> None:
        await line.read_head()
        await line.answer(b"too big", status="413 Content Too Large", connection="close")
        assert isinstance(line.stream, trio.SocketStream)
        await line.stream.send_eof()
        await line.wait_closed()

    listener = await listen(nursery, serve)
    async with httpx.AsyncClient(transport=transport) as client:
        with trio.fail_after(10):
            response = await client.post(listener.url, content=b"x" * 5_000_000)
    assert (response.status_code, response.text) == (413, "too big")


@pytest.mark.parametrize("kind", [trio.BrokenResourceError, trio.ClosedResourceError, OSError, LookupError])
async def test_what_the_source_of_a_body_raises_leaves_as_itself(
    nursery: trio.Nursery, transport: Http1Transport, kind: type[Exception]
) -> None:
    async def source() -> AsyncIterator[bytes]:
        yield b"half"
        raise kind("mine")

    listener = await listen(nursery, polite)
    async with httpx.AsyncClient(transport=transport, timeout=None) as client:
        with trio.fail_after(5), pytest.raises(kind, match="mine"):
            await client.post(listener.url, content=source())
    assert repr(transport) == "<Http1Transport, 0 connections in use, 0 idle>"


async def test_another_protocol_is_no_response(nursery: trio.Nursery, transport: Http1Transport) -> None:
    async def serve(line: Line) -> None:
        await line.read()
        await line.send(b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n")
        await line.wait_closed()

    listener = await listen(nursery, serve)
    async with httpx.AsyncClient(transport=transport) as client:
        with pytest.raises(httpx.RemoteProtocolError, match="another protocol"):
            await client.get(listener.url, headers={"Connection": "upgrade", "Upgrade": "x"})


async def test_a_header_that_cannot_be_sent_is_a_local_error(
    nursery: trio.Nursery, transport: Http1Transport
) -> None:
    listener = await listen(nursery, polite)
    request = httpx.Request("GET", listener.url, headers={"a": "b\r\nc: d"})
    with pytest.raises(httpx.LocalProtocolError):
        await transport.handle_async_request(request)
    assert repr(transport) == "<Http1Transport, 0 connections in use, 0 idle>"


# --- plain requests, which h11 does not write


def plain(method: str, url: str, body: bytes = b"") -> httpx.Request:
    headers = {"Host": httpx.URL(url).netloc.decode(), "Content-Length": str(len(body))}
    return httpx.Request(method, url, headers=headers, stream=httpx.ByteStream(body))


async def test_a_plain_request_of_any_size_arrives_and_its_connection_is_kept(
    nursery: trio.Nursery, transport: Http1Transport
) -> None:
    listener = await listen(nursery, polite)
    with trio.fail_after(10):
        for size in (0, 1, 10_000_000, 2):
            with assert_checkpoints():
                response = await transport.handle_async_request(plain("POST", listener.url + "a?b=c", b"x" * size))
            assert await response.aread() == b"POST /a?b=c " + b"x" * size
        response = await transport.handle_async_request(plain("DELETE", listener.url))
        assert await response.aread() == b"DELETE / "
    assert len(listener.lines) == 1


async def test_a_cancelled_task_sends_nothing(nursery: trio.Nursery, transport: Http1Transport) -> None:
    requests = []

    async def serve(line: Line) -> None:
        while request := await line.read():
            requests.append(request.target)
            await line.answer()

    listener = await listen(nursery, serve)
    with trio.fail_after(5):
        await (await transport.handle_async_request(plain("POST", listener.url + "first"))).aread()
        with trio.CancelScope() as scope:
            scope.cancel()
            await transport.handle_async_request(plain("POST", listener.url + "second"))
        assert scope.cancelled_caught
        await wait_all_tasks_blocked()
    assert requests == ["/first"]


# --- streaming, cancelling, time


async def test_a_body_is_given_out_as_it_comes_and_its_early_end_closes_the_connection(
    nursery: trio.Nursery, transport: Http1Transport
) -> None:
    closed = trio.Event()

    async def serve(line: Line) -> None:
        await line.read()
        await line.send(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\none\r\n")
        await line.wait_closed()
        closed.set()

    listener = await listen(nursery, serve)
    with trio.fail_after(5):
        response = await transport.handle_async_request(httpx.Request("GET", listener.url))
        assert isinstance(response.stream, httpx.AsyncByteStream)
        async for chunk in response.stream:
            assert chunk == b"one"
            break
        await response.aclose()
        await response.aclose()
        await closed.wait()


@pytest.mark.parametrize("sent", [b"", b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf"])
async def test_cancelling_closes_the_connection(
    nursery: trio.Nursery, transport: Http1Transport, sent: bytes
) -> None:
    closed = trio.Event()

    async def serve(line: Line) -> None:
        await line.read()
        await line.send(sent)
        await line.wait_closed()
        closed.set()

    listener = await listen(nursery, serve)
    with trio.fail_after(5):
        async with httpx.AsyncClient(transport=transport) as client:
            with trio.move_on_after(0.1):
                await client.get(listener.url)
            await closed.wait()
    assert repr(transport) == "<Http1Transport, 0 connections in use, 0 idle>"


async def test_closing_the_transport_closes_what_is_in_use(nursery: trio.Nursery) -> None:
    closed = trio.Event()

    async def serve(line: Line) -> None:
        await line.read()
        await line.send(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf")
        await line.wait_closed()
        closed.set()

    transport = Http1Transport()
    listener = await listen(nursery, serve)
    response = await transport.handle_async_request(httpx.Request("GET", listener.url))
    with assert_checkpoints():
        await transport.aclose()
    with trio.fail_after(5):
        await closed.wait()
        with pytest.raises(httpx.ReadError):
            await response.aread()


async def test_times_are_kept_step_by_step(
    nursery: trio.Nursery, transport: Http1Transport, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def deaf(line: Line) -> None:
        await trio.sleep_forever()

    listener = await listen(nursery, deaf)
    with trio.fail_after(10):
        with pytest.raises(httpx.ReadTimeout, match=r"not done within 0\.05 s"):
            await get(transport, listener.url, timeout={"read": 0.05})
        request = httpx.Request(
            "POST", listener.url, content=b"x" * 50_000_000, extensions={"timeout": {"write": 0.05}}
        )
        with pytest.raises(httpx.WriteTimeout):
            await transport.handle_async_request(request)

        async def never(*args: object, **kwargs: object) -> None:
            await trio.sleep_forever()

        # No port of this machine leaves a client without an answer.
        monkeypatch.setattr(trio, "open_tcp_stream", never)
        with pytest.raises(httpx.ConnectTimeout):
            await get(transport, "http://localhost:1/", timeout={"connect": 0.05})
    nursery.cancel_scope.cancel()


async def test_connecting_is_bounded_where_nothing_is_said(
    transport: Http1Transport, monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    async def never(*args: object, **kwargs: object) -> None:
        await trio.sleep_forever()

    monkeypatch.setattr(trio, "open_tcp_stream", never)  # as above
    began = trio.current_time()
    with pytest.raises(httpx.ConnectTimeout):
        await get(transport, "http://localhost:1/")
    assert trio.current_time() - began == PoolLimits().connect_timeout
