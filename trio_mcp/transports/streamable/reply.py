"""The reply to one request over HTTP: its status, its headers, and its body as it comes, decoded.

Every failure on the way becomes an `ExchangeError` here. Knows nothing of requests, JSON-RPC or sessions.
"""

from __future__ import annotations

import errno
import http
import os
import time
import traceback
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from email.utils import parsedate_to_datetime
from types import TracebackType
from typing import Self

import httpx
import trio

from ...errors import ExchangeError
from ...http.pool import Body
from ...models.server import Server
from .limits import StreamableLimits

#: Characters of a reason that are shown: h11 tells the whole of a line that is no header, which may have 100 KiB.
LONGEST_REASON = 500


class Reply:
    """A reply: its status and headers, and its body as it comes. A context manager that closes it."""

    def __init__(self, response: httpx.Response, server: Server, limits: StreamableLimits) -> None:
        assert isinstance(response.stream, httpx.AsyncByteStream)
        self._response = response
        self._server = server
        self._limits = limits
        fields = {name.lower(): value for name, value in response.headers.raw}
        if response.is_stream_consumed:  # by an auth flow that wanted to see it
            self._chunks: AsyncIterator[bytes] = _Read(response.content)
        elif b"content-encoding" in fields:
            self._chunks = _decoded(response)
        else:
            self._chunks = aiter(response.stream)
        self.status: int = response.status_code
        media_type = fields.get(b"content-type", b"").decode("latin-1")
        self.media_type: str = media_type.partition(";")[0].strip().lower()
        self.bytes_in: int = 0

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

    @property
    def retry_after(self) -> float | None:
        """The seconds of Retry-After, which also may be a date (RFC 9110); None without one that can be read."""
        value = (self.header("retry-after") or "").strip()
        if value.isdecimal() and len(value) < 10:
            return float(value)
        try:
            then = parsedate_to_datetime(value)
        except ValueError:
            return None
        return max(0.0, then.timestamp() - time.time())

    async def next_chunk(self) -> bytes | None:
        """The next part of the body, decoded by its content-encoding; None at its end.

        Raises:
            ExchangeError: it broke off.
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
        raise exchange_error(self._server, failure, status=self.status)

    async def read(self, maximum: int | None = None) -> bytes:
        """The whole body, up to `max_message` bytes where nothing else is said.

        Raises:
            ExchangeError: it broke off, or is over the maximum.
        """
        maximum = self._limits.max_message if maximum is None else maximum
        parts = []
        while (chunk := await self.next_chunk()) is not None:
            parts.append(chunk)
            if self.bytes_in > maximum:
                raise self.failure(f"sent a body over {maximum} bytes")
        return b"".join(parts)

    def failure(self, reason: str) -> ExchangeError:
        """The error that this reply means to its caller."""
        return ExchangeError(
            self._server.name, shown(self._server, reason), status=self.status, retry_after=self.retry_after
        )

    @trio.lowlevel.enable_ki_protection
    async def linger(self, on_chunk: Callable[[bytes], None] | None = None) -> None:
        """Let a response that has given its answer end by itself, for a moment; then close it."""
        try:
            with trio.move_on_after(self._limits.linger):
                while (chunk := await self.next_chunk()) is not None:
                    if on_chunk is not None:
                        on_chunk(chunk)
        except ExchangeError:
            pass  # nobody waits for it
        finally:
            await self.aclose()

    async def aclose(self) -> None:
        """Close it; before the end of the body this closes its connection."""
        if isinstance(self._chunks, Body):  # ours waits for nothing, another transport's may
            await self._chunks.aclose()
            return
        with trio.move_on_after(self._limits.close_grace, shield=True):
            if isinstance(self._chunks, AsyncGenerator):
                await self._chunks.aclose()
            await self._response.aclose()


def is_passing(status: int | None) -> bool:
    """Whether a status tells of a trouble that may pass: it says nothing of what the server speaks."""
    return status is not None and (status in (408, 425, 429) or status >= 500)


def status_text(status: int) -> str:
    """A status in words.

    >>> status_text(404), status_text(599)
    ('HTTP 404 Not Found', 'HTTP 599')
    """
    try:
        return f"HTTP {status} {http.HTTPStatus(status).phrase}"
    except ValueError:
        return f"HTTP {status}"


_WORDS: dict[type[httpx.HTTPError], str] = {
    httpx.ConnectTimeout: "did not accept a connection in time",
    httpx.ConnectError: "cannot be reached",
    httpx.ReadError: "the connection was lost",
    httpx.WriteError: "the connection was lost",
    httpx.RemoteProtocolError: "broke HTTP",
    httpx.DecodingError: "sent a body that cannot be decoded",
}


def exchange_error(
    server: Server, error: httpx.HTTPError, proxy: str = "", *, status: int | None = None
) -> ExchangeError:
    """The error of an exchange that httpx could not make: one line, with its cause where that shows no secret.

    `proxy` names the proxy that it went through.
    """
    if isinstance(error, httpx.LocalProtocolError):  # its text may show a header's value
        return ExchangeError(server.name, "the request is no legal HTTP", status=status)
    what = next((text for kind, text in _WORDS.items() if isinstance(error, kind)), type(error).__name__)
    if "CERTIFICATE" in str(error) or "SSL" in str(error):
        what = "TLS failed"
    elif os.strerror(errno.EMFILE) in str(error):
        what = "this process has reached its own limit of open files (ulimit -n), and no connection could be made"
    reason = f"{what}: {error}" if str(error) else what
    if proxy and isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.ProxyError):
        reason = f"{proxy}: {reason}"
    failure = ExchangeError(server.name, shown(server, reason), status=status)
    # A server may have repeated a secret in what broke HTTP, and somebody's transport may show a header.
    told = "".join(traceback.format_exception(error))
    failure.__cause__ = error if server.redactor(told) == told else None
    return failure


def shown(server: Server, reason: str) -> str:
    """A reason that may repeat text of the server: without its secrets, and then clipped."""
    redacted = server.redactor(reason)
    return redacted if len(redacted) <= LONGEST_REASON else redacted[:LONGEST_REASON] + "..."


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
