"""The ASGI application: which requests reach which era, the bounds of it all, start and stop.

It keeps what runs in its own nursery, which the lifespan of the server behind ASGI opens and closes.
"""

from __future__ import annotations

import logging
import math
from contextlib import suppress
from typing import Any

import trio

from ...protocol.headers import PROTOCOL_VERSION, SESSION
from ...protocol.revisions import LEGACY_VERSIONS, MODERN_VERSIONS
from ..registry import ToolServer
from .asgi import JSON, DisconnectedError, Lifespan, Refusal, Request
from .body import read_post
from .errors import invalid
from .limits import Load
from .modern import Modern, is_modern
from .origin import Guard
from .sessions import Sessions

logger = logging.getLogger("trio_mcp.server")

#: Bytes of one request: arguments with a few pictures in them fit, and it is what a stranger can make us hold.
MAX_BODY = 16 * 2**20
#: Calls that run at once, in both eras together: each is a task and what its tool needs, and has a connection.
MAX_RUNNING = 1000
#: Sessions of the legacy era, and streams of either: each is some kilobytes, or a connection.
MAX_SESSIONS = 10_000
#: Seconds without any use after which a session ends: clients that crash never say that they have gone.
SESSION_IDLE = 1800.0
#: Seconds that calls get to end when the server stops: below the 10 s after which containers are killed.
STOP_GRACE = 5.0

_TRIO = "trio_mcp needs an ASGI server on trio, such as `hypercorn --worker-class trio`"


class HttpApp:
    """A `ToolServer` as an ASGI application."""

    def __init__(
        self,
        server: ToolServer,
        *,
        path: str,
        guard: Guard,
        signing_key: bytes | None,
        max_body: int,
        max_running: int,
        max_sessions: int,
        session_idle: float,
    ) -> None:
        self.load = Load(max_running, max_sessions)
        self.sessions = Sessions(server, self.load, signing_key=signing_key, most=max_sessions, idle=session_idle)
        self._signing_key = signing_key
        self._modern = Modern(server, self.load, signing_key)
        self._server = server
        self._path = path.rstrip("/")
        self._guard = guard
        self._max_body = max_body
        self._stop_by = math.inf

    def __repr__(self) -> str:
        return f"<HttpApp of {self._server!r} at {self._path or '/'}, {self.load.calls} running>"

    def stop(self) -> None:
        """Take no new calls, end every stream; what runs has `STOP_GRACE` left."""
        if not self.load.is_stopping:
            self.load.is_stopping = True
            self._stop_by = trio.current_time() + STOP_GRACE
            self._modern.close()
            self.sessions.leave()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve what the server behind ASGI hands over. Each has types of its own for that."""
        if scope["type"] == "lifespan":
            await self._live(Lifespan(receive, send))
        elif scope["type"] == "http":
            if not _on_trio():
                raise RuntimeError(_TRIO)
            await self._serve(Request(scope, receive, send))
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close"})
        else:
            raise NotImplementedError(f"ASGI {scope['type']}")

    async def _live(self, lifespan: Lifespan) -> None:
        await lifespan.wait_startup()
        if not _on_trio():
            await lifespan.failed(_TRIO)
            return
        if self.load.is_stopping:  # it has lived before
            self.load.is_stopping = False
            self._modern = Modern(self._server, self.load, self._signing_key)
        try:
            async with trio.open_nursery() as expiry, trio.open_nursery() as handlers:
                expiry.start_soon(self.sessions.expire)
                self.sessions.nursery = handlers
                try:
                    await lifespan.started()
                    await lifespan.wait_shutdown()
                    self.stop()
                    with trio.move_on_at(self._stop_by):
                        await self.load.wait_idle()
                finally:
                    self.sessions.nursery = None
                    self.sessions.close()
                handlers.cancel_scope.cancel()
                expiry.cancel_scope.cancel()
        except Exception:
            # What goes wrong beside a cancel comes in one group with it, which only the nursery takes apart.
            logger.exception("a call failed while it was cancelled")
        await lifespan.stopped()

    async def _serve(self, request: Request) -> None:
        try:
            try:
                await self._route(request)
            except Refusal as refusal:
                await request.refuse(refusal)
        except DisconnectedError:
            pass  # there is nobody to answer
        except Exception:
            logger.exception("%r failed", request)
            if not request.has_begun:
                with suppress(DisconnectedError):
                    await request.refuse(Refusal(500, b"internal error"))

    async def _route(self, request: Request) -> None:
        if request.path.rstrip("/") != self._path:
            raise Refusal(404, b"not found")
        self._guard.check_source(request)
        principal = await self._guard.admit(request)
        if request.method == "POST":
            await self._post(request, principal)
        elif request.method in ("GET", "DELETE") and _has_session(request):
            await (self.sessions.get if request.method == "GET" else self.sessions.delete)(request, principal)
        else:
            raise Refusal(405, b"only POST is served here", [(b"allow", b"POST")])

    async def _post(self, request: Request, principal: Any) -> None:
        media_type = request.headers.get("content-type", "application/json").partition(";")[0].strip().lower()
        if media_type.encode("latin-1") != JSON:  # also what keeps a form of some web page out
            raise Refusal(415, b"a message is application/json")
        messages, is_batch = read_post(await request.read_body(self._max_body))
        if not is_modern(request, messages[0].params):
            await self.sessions.post(request, messages, principal, is_batch=is_batch)
        elif is_batch:
            raise invalid("Invalid Request: no batches in this protocol revision")
        else:
            await self._modern.post(request, messages[0], principal)


def _has_session(request: Request) -> bool:
    """Whether a GET or DELETE is one of the legacy era: in the other there are none."""
    version = request.headers.get(PROTOCOL_VERSION.lower())
    if version in MODERN_VERSIONS:  # a session's id means nothing there
        return False
    return SESSION.lower() in request.headers or version in LEGACY_VERSIONS


def _on_trio() -> bool:
    return trio.lowlevel.in_trio_run()
