"""One HTTP request as ASGI hands it over: headers, body, what is answered, and whether the client is there.

Knows no MCP. The server behind ASGI tells of a disconnect through `receive` alone, and holds a bounded queue for
it: whoever answers without having read the body has to empty that queue, or both would wait for each other.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any

import trio

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Headers = Iterable[tuple[bytes, bytes]]

#: Seconds that a body may take, and bytes that buy one more. Who is slower than that, byte by byte, holds a
#: connection for nothing.
BODY_PATIENCE = 30.0
BODY_PACE = 4096
#: Seconds that a refused body is read and thrown away: a client that is still sending does not read the refusal.
DISCARD_PATIENCE = 5.0

JSON = b"application/json"
EVENTS = b"text/event-stream"


class DisconnectedError(Exception):
    """The client has gone: there is nobody to answer."""


class Refusal(Exception):  # noqa: N818 - a refusal is an answer
    """An answer of plain HTTP, which ends whatever is being done for a request."""

    def __init__(self, status: int, body: bytes = b"", headers: Headers = ()) -> None:
        super().__init__(status)
        self.status = status
        self.body = body
        self.headers = tuple(headers)


class Request:
    """One request, and the way to answer it."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.method: str = scope["method"]
        self.headers = _headers(scope.get("headers") or ())
        self.path = _path(scope)
        # Where it came in: (host, port), or None where that is not known.
        self.local: Any = scope.get("server")
        self.is_gone = False
        self.has_begun = False  # the answer: its head has been sent
        self._receive = receive
        self._send = send
        self._has_ended = False  # the body
        self._is_done = False  # the answer, up to its last byte

    def __repr__(self) -> str:
        return f"<Request {self.method} {self.path}>"

    @property
    def takes_events(self) -> bool:
        """Whether the client takes server-sent events. One that does not say what it takes, takes anything."""
        accept = self.headers.get("accept", "*/*").lower()
        return any(accepted in accept for accepted in (EVENTS.decode(), "text/*", "*/*"))

    # --- what the client says

    async def read_body(self, limit: int) -> bytes:
        """The whole body.

        Raises:
            Refusal: it is longer than `limit`, or its sender stopped half-way.
            DisconnectedError: the client has gone.
        """
        too_long = Refusal(413, b"the body is longer than %d bytes" % limit)
        length = self.headers.get("content-length", "")
        if length.isdecimal() and (len(length) > 18 or int(length) > limit):
            raise too_long
        # Most bodies come in one piece. More are put together as they come: a list of a million pieces of a few
        # bytes each takes many times as much as they do.
        first, rest = b"", bytearray()
        with trio.move_on_after(BODY_PATIENCE) as scope:
            while not self._has_ended:
                chunk = await self._next()
                if len(first) + len(rest) + len(chunk) > limit:
                    raise too_long
                if first:
                    rest += chunk
                else:
                    first = chunk
                scope.deadline += len(chunk) / BODY_PACE
        if scope.cancelled_caught:
            raise Refusal(408, b"the body did not come")
        return first + rest if rest else first

    async def cancel_when_gone(self, scope: trio.CancelScope) -> None:
        """Cancel `scope` once the client has gone. What it still sends is thrown away."""
        await self._wait_end()
        # A server tells of the end also when all has been sent; whoever has sent it is still busy with that.
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
            self._has_ended = True
            self.is_gone = not self._is_done
            raise DisconnectedError
        self._has_ended = self._has_ended or not message.get("more_body", False)
        body: bytes = message.get("body", b"")
        return body

    async def _discard(self) -> None:
        while not self._has_ended:
            await self._next()

    # --- what it is answered

    async def respond(
        self, status: int, body: bytes = b"", media_type: bytes = JSON, headers: Headers = ()
    ) -> None:
        """Answer with one body.

        Raises:
            DisconnectedError: the client has gone.
        """
        about = list(headers)
        if status != 204:  # RFC 9110: it has no content, and must not say how long that is
            about.append((b"content-length", b"%d" % len(body)))
        if body:
            about.append((b"content-type", media_type))
        await self.begin(status, about)
        await self.write(body, more=False)

    async def refuse(self, refusal: Refusal) -> None:
        """Answer with a refusal, whatever of the body is still on its way.

        Raises:
            DisconnectedError: the client has gone.
        """
        media_type = JSON if refusal.body.startswith(b"{") else b"text/plain; charset=utf-8"
        if not self._has_ended:
            with trio.move_on_after(DISCARD_PATIENCE):
                await self._discard()
        if self._has_ended:
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
        self._is_done = not more
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
    """The ASGI lifespan: tells the server behind it when we are ready, and us when it stops."""

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive = receive
        self._send = send

    async def wait_startup(self) -> None:
        """Until the server is about to start."""
        while (await self._receive())["type"] != "lifespan.startup":
            pass

    async def started(self) -> None:
        """Let it take requests."""
        await self._send({"type": "lifespan.startup.complete"})

    async def failed(self, reason: str) -> None:
        """It must not take any."""
        await self._send({"type": "lifespan.startup.failed", "message": reason})

    async def wait_shutdown(self) -> None:
        """Until no more requests come."""
        while (await self._receive())["type"] != "lifespan.shutdown":
            pass

    async def stopped(self) -> None:
        """Nothing is left to do."""
        await self._send({"type": "lifespan.shutdown.complete"})


def _headers(pairs: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """By lower-case name; a repeated one has its values joined, so that it passes for neither."""
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
