"""One HTTP request as ASGI hands it over: its headers and body, its answer, and whether the client is still there.

Knows no MCP. The ASGI server reports a disconnect through `receive` alone, behind a bounded queue: an answer that
is sent before the body has been read needs a task that empties the queue, or both sides would wait for each other.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any

import trio

from ..limits import DEFAULT_LIMITS, ServerLimits

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Headers = Iterable[tuple[bytes, bytes]]

JSON = b"application/json"
EVENTS = b"text/event-stream"


class DisconnectedError(Exception):
    """The client has disconnected: there is nobody to answer."""


class Refusal(Exception):  # noqa: N818 - a refusal is an answer
    """A request is not served: the HTTP answer that says so."""

    def __init__(self, status: int, body: bytes = b"", headers: Headers = ()) -> None:
        super().__init__(status)
        self.status = status
        self.body = body
        self.headers: tuple[tuple[bytes, bytes], ...] = tuple(headers)


class HttpRequest:
    """One HTTP request, and the way to answer it.

    Attributes:
        method: the HTTP method.
        headers: by name in lower case; the values of a repeated one are joined.
        path: below the place where the app is mounted.
        local: the address that it came in at, (host, port); None where the ASGI server does not say.
        is_gone: whether the client has disconnected before its answer was complete.
        has_begun: whether the head of the answer has been sent.
    """

    def __init__(
        self, scope: Scope, receive: Receive, send: Send, *, limits: ServerLimits = DEFAULT_LIMITS
    ) -> None:
        self.method: str = scope["method"]
        self.headers: dict[str, str] = _headers(scope.get("headers") or ())
        self.path: str = _path(scope)
        self.local: Any = scope.get("server")
        self.is_gone: bool = False
        self.has_begun: bool = False
        self._receive = receive
        self._send = send
        self._limits = limits
        self._body_has_ended = False
        self._is_answered = False  # up to the last byte

    def __repr__(self) -> str:
        return f"<HttpRequest {self.method} {self.path}>"

    @property
    def takes_events(self) -> bool:
        """Whether the client takes server-sent events. Without an Accept header it takes anything."""
        accept = self.headers.get("accept", "*/*").lower()
        return any(accepted in accept for accepted in (EVENTS.decode(), "text/*", "*/*"))

    # --- the request

    async def read_body(self) -> bytes:
        """Read the whole body.

        Raises:
            Refusal: it is longer than `ServerLimits.max_body` or comes too slowly.
            DisconnectedError: the client has gone.
        """
        limit = self._limits.max_body
        too_long = Refusal(413, b"the body is longer than %d bytes" % limit)
        length = self.headers.get("content-length", "")
        if length.isdecimal() and (len(length) > 18 or int(length) > limit):
            raise too_long
        # Most bodies come in one chunk. Further chunks are joined as they come: a list of a million chunks of a
        # few bytes would take many times their size.
        first, rest = b"", bytearray()
        with trio.move_on_after(self._limits.body_patience) as scope:
            while not self._body_has_ended:
                chunk = await self._next()
                if len(first) + len(rest) + len(chunk) > limit:
                    raise too_long
                if first:
                    rest += chunk
                else:
                    first = chunk
                scope.deadline += len(chunk) / self._limits.body_pace
        if scope.cancelled_caught:
            raise Refusal(408, b"the body did not come")
        return first + rest if rest else first

    async def cancel_when_gone(self, scope: trio.CancelScope) -> None:
        """Cancel `scope` once the client has gone. Further bytes of its body are discarded."""
        await self._wait_end()
        # ASGI servers report a disconnect also after a complete answer, whose sender may still be in `send`.
        if self.is_gone:
            scope.cancel()

    async def _wait_end(self) -> None:
        try:
            while True:
                await self._next()
        except DisconnectedError:
            pass

    async def _next(self) -> bytes:
        message = await self._receive()
        if message["type"] == "http.disconnect":
            self._body_has_ended = True
            self.is_gone = not self._is_answered
            raise DisconnectedError
        self._body_has_ended = self._body_has_ended or not message.get("more_body", False)
        body: bytes = message.get("body", b"")
        return body

    async def _discard(self) -> None:
        while not self._body_has_ended:
            await self._next()

    # --- the answer

    async def respond(
        self, status: int, body: bytes = b"", media_type: bytes = JSON, headers: Headers = ()
    ) -> None:
        """Answer with one body.

        Raises:
            DisconnectedError: the client has gone.
        """
        about = list(headers)
        if status != 204:  # RFC 9110: it has no content, and must not have a Content-Length
            about.append((b"content-length", b"%d" % len(body)))
        if body:
            about.append((b"content-type", media_type))
        await self.begin(status, about)
        await self.write(body, more=False)

    async def refuse(self, refusal: Refusal) -> None:
        """Answer with a refusal, even if the client still sends its body.

        Raises:
            DisconnectedError: the client has gone.
        """
        media_type = JSON if refusal.body.startswith(b"{") else b"text/plain; charset=utf-8"
        if not self._body_has_ended:
            with trio.move_on_after(self._limits.discard_patience):
                await self._discard()
        if self._body_has_ended:
            await self.respond(refusal.status, refusal.body, media_type, refusal.headers)
            return
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._wait_end)
            try:
                closing = (*refusal.headers, (b"connection", b"close"))
                await self.respond(refusal.status, refusal.body, media_type, closing)
            except DisconnectedError:
                pass
            nursery.cancel_scope.cancel()

    async def begin(self, status: int, headers: Headers) -> None:
        """Send the head of an answer. The body is the caller's: `write`."""
        self.has_begun = True
        await self._tell({"type": "http.response.start", "status": status, "headers": list(headers)})

    async def write(self, data: bytes, *, more: bool = True) -> None:
        """Send a part of the body; the last one unless there is `more`."""
        self._is_answered = not more
        await self._tell({"type": "http.response.body", "body": data, "more_body": more})

    async def _tell(self, message: Message) -> None:
        if self.is_gone:
            raise DisconnectedError
        try:
            await self._send(message)
        except (OSError, trio.BrokenResourceError, trio.ClosedResourceError):
            # ASGI: "If send is called after the client has disconnected, servers should raise an OSError."
            self.is_gone = True
            raise DisconnectedError from None


class Lifespan:
    """The ASGI lifespan: the app reports when it is ready, and is told when the ASGI server stops."""

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive = receive
        self._send = send

    async def wait_startup(self) -> None:
        """Wait until the ASGI server is about to start."""
        while (await self._receive())["type"] != "lifespan.startup":
            pass

    async def started(self) -> None:
        """Report that requests may come."""
        await self._send({"type": "lifespan.startup.complete"})

    async def failed(self, reason: str) -> None:
        """Report that the app cannot serve."""
        await self._send({"type": "lifespan.startup.failed", "message": reason})

    async def wait_shutdown(self) -> None:
        """Wait until no more requests come."""
        while (await self._receive())["type"] != "lifespan.shutdown":
            pass

    async def stopped(self) -> None:
        """Report that the app has ended."""
        await self._send({"type": "lifespan.shutdown.complete"})


def _headers(pairs: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """The headers by lower-case name. The values of a repeated one are joined, so that none counts alone."""
    found: dict[str, str] = {}
    for raw_name, raw_value in pairs:
        name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1").strip(" \t")
        found[name] = f"{found[name]}, {value}" if name in found else value
    return found


def _path(scope: Scope) -> str:
    """The path below where the app is mounted."""
    path: str = scope["path"]
    root: str = scope.get("root_path") or ""
    if root and (path == root or path.startswith(root.rstrip("/") + "/")):
        path = path[len(root.rstrip("/")) :]
    return path
