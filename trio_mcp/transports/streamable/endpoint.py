"""Sends requests to one endpoint, with their credentials, and follows redirects within its origin.

Knows nothing of JSON-RPC or sessions.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from contextlib import suppress

import httpx

from ...errors import AuthError, ExchangeError, InvalidServerError
from ...models.server import Server, check_headers
from ...protocol.headers import parse_challenges
from ...redaction import secrets_of_headers
from .cookies import Cookies
from .limits import StreamableLimits
from .proxy import Way, way_to
from .reply import Reply, exchange_error, shown, status_text

#: Seconds to connect. There is no other timeout: how long an answer may take is the caller's business.
TIMEOUTS: dict[str, float | None] = {"connect": 10.0, "read": None, "write": None, "pool": None}


class Endpoint:
    """Sends requests to one endpoint. Headers that are the same in each request are made once."""

    def __init__(self, server: Server, limits: StreamableLimits) -> None:
        assert server.url is not None
        self._server = server
        self._limits = limits
        self._url = _parsed(server.url)
        self._way = Way(server.http_transport) if server.http_transport else way_to(self._url, server.ssl_context)
        self._transport = self._way.transport
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
        #: Somebody else's code may look at the body, which httpx allows once it is marked as read.
        self._is_looked_at = server.http_transport is not None or server.auth is not None
        self._cookies: Cookies | None = None

    async def send(self, method: str, headers: Mapping[str, str], body: bytes | None = None) -> Reply:
        """One exchange.

        Raises:
            AuthError: 401 or 403.
            ExchangeError: nothing came back, or a redirect that is not followed.
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
        for _ in range(self._limits.max_redirects + 1):
            stream = httpx.ByteStream(body or b"")
            sent = fields if self._cookies is None else self._with_cookies(fields, self._cookies, url)
            request = httpx.Request(method, url, headers=sent, stream=stream, extensions={"timeout": TIMEOUTS})
            if self._is_looked_at:
                request.read()
            response = await self._attempt(request)
            if isinstance(response, httpx.HTTPError):  # raised here, so that it is no context of ours
                raise exchange_error(self._server, response, self._way.proxy)
            if "set-cookie" in response.headers:
                self._keep_cookies(response, url)
            if response.status_code < 300 or not response.has_redirect_location:
                return await self._judged(response)
            status, location = response.status_code, response.headers["location"]
            await response.aclose()
            url = self._followed(url, location, status)
        raise ExchangeError(self._server.name, "redirects without end", status=status)

    async def aclose(self) -> None:
        """Close every connection of ours."""
        if self._owns_transport:
            await self._transport.aclose()

    def _keep_cookies(self, response: httpx.Response, url: httpx.URL) -> None:
        if self._cookies is None:
            self._cookies = Cookies(url.raw_host.decode("ascii"), is_secure=url.scheme == "https")
        self._server.redactor.learn(self._cookies.learn(response.headers.get_list("set-cookie"), url.path))

    def _with_cookies(
        self, fields: list[tuple[bytes, bytes]], cookies: Cookies, url: httpx.URL
    ) -> list[tuple[bytes, bytes]]:
        """The fields, with the cookies of the connection behind those that the program gives."""
        kept = cookies.header(url.path)
        if kept is None:
            return fields
        given = [value.decode() for name, value in fields if name == b"cookie"]
        others = [field for field in fields if field[0] != b"cookie"]
        return [*others, (b"cookie", "; ".join([*given, kept]).encode())]

    async def _judged(self, response: httpx.Response) -> Reply:
        reply = Reply(response, self._server, self._limits)
        if response.status_code in (401, 403):
            await reply.aclose()
            challenges = parse_challenges(response.headers.get_list("www-authenticate"))
            raise AuthError(self._server.name, response.status_code, challenges)
        return reply

    async def _attempt(self, request: httpx.Request) -> httpx.Response | httpx.HTTPError:
        try:
            return await self._authorized(request)
        except httpx.HTTPError as error:
            return error

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
                    await Reply(response, self._server, self._limits).aclose()
                    raise
                await Reply(response, self._server, self._limits).linger()
        finally:
            await flow.aclose()

    def _followed(self, url: httpx.URL, location: str, status: int) -> httpx.URL:
        """Where a redirect leads, if that is within the origin: credentials never leave it."""
        name = self._server.name
        if status not in (307, 308):
            raise ExchangeError(name, f"redirects with {status_text(status)}", status=status)
        target = None
        with suppress(httpx.InvalidURL, ValueError):
            target = url.join(location)
        if target is None:
            raise ExchangeError(name, "redirects to what is no URL", status=status)
        # The raw host: to decode one may fail.
        if (target.scheme, target.raw_host, _port(target)) != (url.scheme, url.raw_host, _port(url)):
            where = f"{target.scheme}://{target.raw_host.decode('ascii')}"
            reason = f"redirects to another origin, {where}, which is not followed"
            raise ExchangeError(name, shown(self._server, reason), status=status)
        return target


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
