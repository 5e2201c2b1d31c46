"""The ASGI application: which requests reach which era, start and stop.

Calls run in a nursery of the app, which the ASGI lifespan opens and closes.

Knows no method of MCP.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import attrs
import trio

from ...protocol.headers import PROTOCOL_VERSION, SESSION
from ...protocol.revisions import LEGACY_VERSIONS, MODERN_VERSIONS
from ...tools.failures import raise_unless_failure
from ..feature import FeatureTable
from ..features.table import FEATURES
from ..limits import DEFAULT_LIMITS, ServerLimits
from ..registry import ToolServer
from ..request_state import RequestState
from .asgi import JSON, DisconnectedError, HttpRequest, Lifespan, Refusal
from .body import read_post
from .capacity import Capacity
from .errors import invalid
from .modern import Modern, is_modern
from .origin import Guard
from .sessions import Sessions

logger: logging.Logger = logging.getLogger("trio_mcp.server")

_TRIO = "trio_mcp needs an ASGI server on trio, such as `hypercorn --worker-class trio`"


@attrs.frozen(kw_only=True)
class HttpStatistics:
    """What an app is doing: calls that run, streams that are open, legacy sessions, and those of them in use."""

    calls: int
    streams: int
    sessions: int
    sessions_in_use: int


class HttpApp:
    """A `ToolServer` as an ASGI application, made by `asgi_app`.

    Args:
        server: what to serve.
        path: where, below the place where the app is mounted.
        guard: which requests may come in.
        signing_key: signs the state of calls, in place of the server's own key.
        limits: the bounds of the app.
        features: what the server can do.
        clock: the time in seconds, by which a call's `requestState` expires.
    """

    def __init__(
        self,
        server: ToolServer,
        *,
        path: str = "/mcp",
        guard: Guard,
        signing_key: bytes | None = None,
        limits: ServerLimits = DEFAULT_LIMITS,
        features: FeatureTable = FEATURES,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._capacity = Capacity(max_running=limits.max_running, max_streams=limits.max_sessions)
        state = RequestState(signing_key or server.signing_key, expiry=limits.request_state_expiry, clock=clock)
        self._sessions = Sessions(server, features, self._capacity, state, limits)
        self._modern = Modern(server, features, self._capacity, state, limits)
        self._request_state = state
        self._features = features
        self._server = server
        self._path = path.rstrip("/")
        self._guard = guard
        self._limits = limits
        self._stop_by = math.inf

    def __repr__(self) -> str:
        return f"<HttpApp of {self._server!r} at {self._path or '/'}, {self._capacity.calls} running>"

    def statistics(self) -> HttpStatistics:
        """What is going on now."""
        return HttpStatistics(
            calls=self._capacity.calls,
            streams=self._capacity.streams,
            sessions=len(self._sessions),
            sessions_in_use=self._sessions.in_use,
        )

    def stop(self) -> None:
        """Take no new calls, and end every stream. Running calls get `ServerLimits.stop_grace`."""
        if not self._capacity.is_stopping:
            self._capacity.is_stopping = True
            self._stop_by = trio.current_time() + self._limits.stop_grace
            self._modern.close()
            self._sessions.end_streams()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve one ASGI connection. `Any`, because every ASGI server has types of its own."""
        if scope["type"] == "lifespan":
            await self._live(Lifespan(receive, send))
        elif scope["type"] == "http":
            if not _on_trio():
                raise RuntimeError(_TRIO)
            await self._serve(HttpRequest(scope, receive, send, limits=self._limits))
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
        if self._capacity.is_stopping:  # a second lifespan
            self._capacity.is_stopping = False
            self._modern = Modern(self._server, self._features, self._capacity, self._request_state, self._limits)
        try:
            async with trio.open_nursery() as expiry, trio.open_nursery() as handlers:
                expiry.start_soon(self._sessions.expire)
                self._sessions.nursery = handlers
                try:
                    await lifespan.started()
                    await lifespan.wait_shutdown()
                    self.stop()
                    with trio.move_on_at(self._stop_by):
                        await self._capacity.wait_idle()
                finally:
                    self._sessions.nursery = None
                    self._sessions.close()
                handlers.cancel_scope.cancel()
                expiry.cancel_scope.cancel()
        except Exception:
            # An exception beside a cancel comes in one group with it, which only the nursery takes apart.
            logger.exception("a call failed while it was cancelled")
        await lifespan.stopped()

    async def _serve(self, request: HttpRequest) -> None:
        try:
            try:
                await self._route(request)
            except Refusal as refusal:
                await request.refuse(refusal)
        except DisconnectedError:
            pass  # there is nobody to answer
        except BaseException as error:
            await raise_unless_failure(error)  # the rest is a failure of `authorize`
            logger.exception("%r failed", request)
            if not request.has_begun:
                with suppress(DisconnectedError):
                    await request.refuse(Refusal(500, b"internal error"))

    async def _route(self, request: HttpRequest) -> None:
        if request.path.rstrip("/") != self._path:
            raise Refusal(404, b"not found")
        self._guard.check_source(request)
        principal = await self._guard.admit(request)
        if request.method == "POST":
            await self._post(request, principal)
        elif request.method in ("GET", "DELETE") and _has_session(request):
            await (self._sessions.get if request.method == "GET" else self._sessions.delete)(request, principal)
        else:
            raise Refusal(405, b"only POST is served here", [(b"allow", b"POST")])

    async def _post(self, request: HttpRequest, principal: Any) -> None:
        # A browser sends any other type, and none at all, for a page of any site without asking the server first.
        media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if media_type.encode("latin-1") != JSON:
            raise Refusal(415, b"a message is application/json")
        if request.headers.get("content-encoding", "identity").lower() != "identity":
            # RFC 9110, "415 Unsupported Media Type": "If the problem was caused by an unsupported content coding,
            # the Accept-Encoding response header field ought to be used".
            accepted = [(b"accept-encoding", b"identity")]
            raise Refusal(415, b"a message comes without a Content-Encoding", accepted)
        messages, is_batch = read_post(await request.read_body(), self._features, self._limits)
        if not is_modern(request, messages[0].params):
            await self._sessions.post(request, messages, principal, is_batch=is_batch)
        elif is_batch:
            raise invalid("Invalid Request: no batches in this protocol revision")
        else:
            await self._modern.post(request, messages[0], principal)


def _has_session(request: HttpRequest) -> bool:
    """Whether a GET or DELETE is one of the legacy era: in the other there are none."""
    version = request.headers.get(PROTOCOL_VERSION.lower())
    if version in MODERN_VERSIONS:  # a session id means nothing there
        return False
    return SESSION.lower() in request.headers or version in LEGACY_VERSIONS


def _on_trio() -> bool:
    return trio.lowlevel.in_trio_run()
