"""One HTTP exchange: a request with its credentials, redirects within the origin, a reply as it comes.

With sse.py and the two files of http1 the only one that imports httpx. Knows nothing of JSON-RPC or sessions.
"""

from __future__ import annotations

import base64
import http
import traceback
import urllib.request
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Self

import httpx
import trio

from ..errors import AuthError, InvalidServerError, ServerStoppedError
from ..models.server import check_headers
from ..protocol.framing import MAX_LINE
from ..protocol.http_headers import parse_challenges
from ..redaction import secrets_of_headers
from .http1 import Body, Http1Transport

if TYPE_CHECKING:
    from ..models.server import Server

#: Redirects that one request follows, each within the origin.
MAX_REDIRECTS = 5
#: Seconds to connect. There is no other timeout: how long an answer may take is the caller's business.
TIMEOUTS = {"connect": 10.0, "read": None, "write": None, "pool": None}
#: Seconds for a transport that is not ours to let go of a response.
CLOSE_GRACE = 1.0
#: Seconds in which a response that has given its answer may still end by itself, so that its connection is kept.
LINGER = 1.0
#: Characters of a reason that are shown: h11 tells the whole of a line that is no header, which may have 100 KiB.
LONGEST_REASON = 500


class Reply:
    """What came back: the status and headers, and the body as it comes. A context manager that closes it."""

    def __init__(self, response: httpx.Response, server: Server) -> None:
        assert isinstance(response.stream, httpx.AsyncByteStream)
        self._response = response
        self._server = server
        fields = {name.lower(): value for name, value in response.headers.raw}
        if response.is_stream_consumed:  # by an auth flow that wanted to see it
            self._chunks: AsyncIterator[bytes] = _Read(response.content)
        elif b"content-encoding" in fields:
            self._chunks = _decoded(response)
        else:
            self._chunks = aiter(response.stream)
        self.status = response.status_code
        media_type = fields.get(b"content-type", b"").decode("latin-1")
        self.media_type = media_type.partition(";")[0].strip().lower()
        self.bytes_in = 0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()

    def header(self, name: str) -> str | None:
        """A header's value, if it came."""
        value: str | None = self._response.headers.get(name)
        return value

    async def next_chunk(self) -> bytes | None:
        """The next part of the body, decoded by its content-encoding; None at its end.

        Raises:
            ServerStoppedError: it broke off.
        """
        failure: httpx.HTTPError
        try:
            chunk: bytes | None = self._chunks.take() if isinstance(self._chunks, Body) else b""
            if not chunk:
                chunk = await anext(self._chunks, None)
        except httpx.HTTPError as error:
            failure = error
        else:
            if chunk is not None:
                self.bytes_in += len(chunk)
            return chunk
        raise _stopped(self._server, failure, self.status)

    async def read(self, maximum: int = MAX_LINE) -> bytes:
        """The whole body.

        Raises:
            ServerStoppedError: it broke off, or is over the maximum.
        """
        parts = []
        while (chunk := await self.next_chunk()) is not None:
            parts.append(chunk)
            if self.bytes_in > maximum:
                raise self.stopped(f"sent a body over {maximum} bytes")
        return b"".join(parts)

    def stopped(self, reason: str) -> ServerStoppedError:
        """The error that this reply is to its caller."""
        return ServerStoppedError(self._server.name, _shown(self._server, reason), status=self.status)

    @trio.lowlevel.enable_ki_protection
    async def linger(self, on_chunk: Callable[[bytes], None] | None = None) -> None:
        """Let a response that has given its answer end by itself, for a moment; then close it."""
        try:
            with trio.move_on_after(LINGER):
                while (chunk := await self.next_chunk()) is not None:
                    if on_chunk is not None:
                        on_chunk(chunk)
        except ServerStoppedError:
            pass  # nobody waits for it
        finally:
            await self.aclose()

    async def aclose(self) -> None:
        """Close it; before the end of the body this closes its connection."""
        if isinstance(self._chunks, Body):  # ours waits for nothing, somebody else's may
            await self._chunks.aclose()
            return
        with trio.move_on_after(CLOSE_GRACE, shield=True):
            if isinstance(self._chunks, AsyncGenerator):
                await self._chunks.aclose()
            await self._response.aclose()


class HttpWire:
    """Sends requests to one endpoint. What is the same in each is made once."""

    def __init__(self, server: Server) -> None:
        assert server.url is not None
        self._server = server
        self._url = _parsed(server.url)
        self._transport = server.http_transport or _default_transport(self._url)
        self._owns_transport = server.http_transport is None
        constant = {"host": self._url.netloc.decode("ascii"), "user-agent": "trio_mcp"}
        if server.bearer_token is not None:
            constant["authorization"] = f"Bearer {server.bearer_token}"
        elif server.auth is None and self._url.userinfo:
            pair = f"{self._url.username}:{self._url.password}".encode()
            constant["authorization"] = "Basic " + base64.b64encode(pair).decode("ascii")
        if isinstance(server.headers, Mapping):
            constant.update(_lowered(server.headers))
        self._constant = dict(_encoded(constant))

    async def send(self, method: str, headers: Mapping[str, str], body: bytes | None = None) -> Reply:
        """One exchange.

        Raises:
            AuthError: 401 or 403.
            ServerStoppedError: nothing came back, or a redirect that is not followed.
        """
        fields = [*self._constant.items(), *_encoded(headers)]
        if callable(self._server.headers):
            authorized = self._server.bearer_token is not None or self._server.auth is not None
            own = check_headers(self._server.headers(), authorized=authorized)
            self._server.redactor.learn(secrets_of_headers(own))
            fields = list({**dict(fields), **dict(_encoded(_lowered(own)))}.items())
        if body is not None:
            fields.append((b"content-length", b"%d" % len(body)))
        url, status = self._url, None
        for _ in range(MAX_REDIRECTS + 1):
            stream = httpx.ByteStream(body or b"")
            request = httpx.Request(method, url, headers=fields, stream=stream, extensions={"timeout": TIMEOUTS})
            failure: httpx.HTTPError | None = None
            try:
                response = await self._authorized(request)
            except httpx.HTTPError as error:
                failure = error
            if failure is not None:  # raised here, where what it is from is no context of it
                raise _stopped(self._server, failure)
            if response.status_code < 300 or not response.has_redirect_location:
                return await self._judged(response)
            status, location = response.status_code, response.headers["location"]
            await response.aclose()
            url = self._followed(url, location, status)
        raise ServerStoppedError(self._server.name, "redirects without end", status=status)

    async def aclose(self) -> None:
        """Close every connection of ours."""
        if self._owns_transport:
            await self._transport.aclose()

    async def _judged(self, response: httpx.Response) -> Reply:
        reply = Reply(response, self._server)
        if response.status_code in (401, 403):
            await reply.aclose()
            challenges = parse_challenges(response.headers.get_list("www-authenticate"))
            raise AuthError(self._server.name, response.status_code, challenges)
        return reply

    async def _authorized(self, request: httpx.Request) -> httpx.Response:
        auth = self._server.auth
        if auth is None:
            return await self._transport.handle_async_request(request)
        flow = auth.async_auth_flow(request)
        try:
            request = await anext(flow)
            while True:
                self._server.redactor.learn(secrets_of_headers(request.headers))
                response = await self._transport.handle_async_request(request)
                response.request = request
                try:
                    request = await flow.asend(response)
                except StopAsyncIteration:
                    return response
                except BaseException:
                    await Reply(response, self._server).aclose()
                    raise
                await Reply(response, self._server).linger()
        finally:
            await flow.aclose()

    def _followed(self, url: httpx.URL, location: str, status: int) -> httpx.URL:
        """Where a redirect leads, if that is within the origin: credentials never leave it."""
        name = self._server.name
        if status not in (307, 308):
            raise ServerStoppedError(name, f"redirects with {status_text(status)}", status=status)
        target = None
        with suppress(httpx.InvalidURL, ValueError):
            target = url.join(location)
        if target is None:
            raise ServerStoppedError(name, "redirects to what is no URL", status=status)
        # The raw host: to decode one may fail.
        if (target.scheme, target.raw_host, _port(target)) != (url.scheme, url.raw_host, _port(url)):
            where = f"{target.scheme}://{target.raw_host.decode('ascii')}"
            reason = f"redirects to another origin, {where}, which is not followed"
            raise ServerStoppedError(name, _shown(self._server, reason), status=status)
        return target


class _Encoded(httpx.Response):
    """Decodes a body. httpx's own has a generator in a generator, and nobody could close the inner one."""

    def aiter_raw(self, chunk_size: int | None = None) -> AsyncIterator[bytes]:
        """The body as it comes."""
        assert isinstance(self.stream, httpx.AsyncByteStream)
        return aiter(self.stream)


def _decoded(response: httpx.Response) -> AsyncIterator[bytes]:
    """The body without its content-encoding.

    Of gzip and deflate one chunk can become 64 MiB at most. Of two of them on top of one another, and of others,
    it could be gigabytes: these are refused.
    """
    codings = response.headers.get_list("content-encoding", split_commas=True)
    known = [coding for coding in map(str.lower, codings) if coding in ("gzip", "deflate", "br", "zstd")]
    if len(known) > 1 or known in (["br"], ["zstd"]):
        return _undecodable(codings)
    return _Encoded(response.status_code, headers=response.headers, stream=response.stream).aiter_bytes()


async def _undecodable(codings: list[str]) -> AsyncIterator[bytes]:
    raise httpx.DecodingError(f"it is encoded with {', '.join(codings)[:100]}, which was not asked for")
    yield b""


class _Read(httpx.AsyncByteStream):
    """A body that somebody has read already."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        content, self._content = self._content, b""
        if not content:
            raise StopAsyncIteration
        return content


def status_text(status: int) -> str:
    """A status in words.

    >>> status_text(404), status_text(599)
    ('HTTP 404 Not Found', 'HTTP 599')
    """
    try:
        return f"HTTP {status} {http.HTTPStatus(status).phrase}"
    except ValueError:
        return f"HTTP {status}"


def _default_transport(url: httpx.URL) -> httpx.AsyncBaseTransport:
    proxies = urllib.request.getproxies()
    proxy = proxies.get(url.scheme) or proxies.get("all")
    if proxy and not urllib.request.proxy_bypass(url.raw_host.decode("ascii")):
        # Without limits: a call must not wait for a hundred others to end.
        return httpx.AsyncHTTPTransport(
            proxy=proxy if "://" in proxy else f"http://{proxy}", limits=httpx.Limits()
        )
    return Http1Transport()


def _parsed(url: str) -> httpx.URL:
    """The URL, judged more strictly than `Server` can without httpx: its address, its name for IDNA, its length.

    Raises:
        InvalidServerError: it is none. The reason shows nothing of it.
    """
    with suppress(httpx.InvalidURL, ValueError):
        return httpx.URL(url)
    raise InvalidServerError("url", "has no host that can exist, or is too long")


def _port(url: httpx.URL) -> int | None:
    return url.port or {"http": 80, "https": 443}.get(url.scheme)


def _encoded(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.encode("ascii"), value.strip(" \t").encode()) for name, value in headers.items()]


def _lowered(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


_WORDS: dict[type[httpx.HTTPError], str] = {
    httpx.ConnectTimeout: "did not accept a connection in time",
    httpx.ConnectError: "cannot be reached",
    httpx.ReadError: "the connection was lost",
    httpx.WriteError: "the connection was lost",
    httpx.RemoteProtocolError: "broke HTTP",
    httpx.DecodingError: "sent a body that cannot be decoded",
}


def _stopped(server: Server, error: httpx.HTTPError, status: int | None = None) -> ServerStoppedError:
    """What went wrong on the way, in one line; with its cause, where that shows no secret."""
    if isinstance(error, httpx.LocalProtocolError):  # its text may show a header's value
        return ServerStoppedError(server.name, "the request is no legal HTTP", status=status)
    what = next((text for kind, text in _WORDS.items() if isinstance(error, kind)), type(error).__name__)
    if "CERTIFICATE" in str(error) or "SSL" in str(error):
        what = "TLS failed"
    reason = f"{what}: {error}" if str(error) else what
    stopped = ServerStoppedError(server.name, _shown(server, reason), status=status)
    # A server may have repeated a secret in what broke HTTP, and somebody's transport may show a header.
    shown = "".join(traceback.format_exception(error))
    stopped.__cause__ = error if server.redactor(shown) == shown else None
    return stopped


def _shown(server: Server, reason: str) -> str:
    """A reason that a server may have had a word in: without secrets, and then without an end that is too long."""
    shown = server.redactor(reason)
    return shown if len(shown) <= LONGEST_REASON else shown[:LONGEST_REASON] + "..."
