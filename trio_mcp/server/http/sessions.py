"""All legacy sessions over HTTP: how they begin, to which principal each belongs, and when they end.

What a session does with its messages is in legacy.py.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import trio

from ...errors import RequestError
from ...protocol.headers import PROTOCOL_VERSION, SESSION
from ...protocol.messages import Id, answer_line
from ...protocol.revisions import LEGACY_VERSIONS
from ..feature import FeatureTable
from ..limits import ServerLimits
from ..registry import ToolServer
from ..request_state import RequestState
from .asgi import HttpRequest, Refusal
from .body import Incoming
from .capacity import Capacity
from .errors import busy, invalid, unknown_session
from .legacy import HttpSession

_SESSION_HEADER = SESSION.lower()
_VERSION_HEADER = PROTOCOL_VERSION.lower()


class Sessions:
    """Serves the legacy era.

    `nursery`, while there is one, is where calls run that outlive the HTTP request they came with.
    """

    def __init__(
        self,
        server: ToolServer,
        features: FeatureTable,
        capacity: Capacity,
        request_state: RequestState,
        limits: ServerLimits,
    ) -> None:
        self.nursery: trio.Nursery | None = None
        self._server = server
        self._features = features
        self._capacity = capacity
        self._request_state = request_state
        self._limits = limits
        # The least recently used session comes first.
        self._sessions: OrderedDict[str, HttpSession] = OrderedDict()

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def in_use(self) -> int:
        """How many sessions have a running call, or a client that is connected."""
        return sum(session.is_in_use for session in self._sessions.values())

    def end_streams(self) -> None:
        """End the streams and open questions of every session. Running calls may finish."""
        for session in self._sessions.values():
            session.end_streams()

    def close(self) -> None:
        """End every session, and cancel its calls."""
        for session in self._sessions.values():
            session.close()
        self._sessions.clear()

    async def expire(self) -> None:
        """End idle sessions, for ever."""
        while True:
            self._end_idle()
            idle = wait = self._limits.session_idle
            if self._sessions:
                wait = next(iter(self._sessions.values())).last_used + idle - trio.current_time()
            # Never without a pause: the least recently used session may be in use for long.
            await trio.sleep(min(max(wait, idle / 10, 0.01), idle))

    async def post(
        self, request: HttpRequest, messages: list[Incoming], principal: Any, *, is_batch: bool
    ) -> None:
        """Serve one POST.

        Raises:
            Refusal: it is not served, and why.
            DisconnectedError: the client has gone.
        """
        first = messages[0]
        if first.kind == "request" and not is_batch:
            method = self._features.methods.get(first.method)
            if method is not None and method.opens_session:
                await self._open(request, first, principal)
                return
        session = self._find(request, principal)
        if is_batch and not session.dispatcher.takes_batches:
            raise invalid("Invalid Request: no batches in this protocol revision")
        await session.post(request, messages, is_batch=is_batch, outliving=self.nursery)

    async def get(self, request: HttpRequest, principal: Any) -> None:
        """Serve one GET, the stream of the server's own messages.

        Raises:
            Refusal: it is not served, and why.
            DisconnectedError: the client has gone.
        """
        session = self._find(request, principal)
        if not request.takes_events:
            raise Refusal(406, b"the stream is a text/event-stream")
        self._capacity.check(None, streams=1)
        await session.listen(request)

    async def delete(self, request: HttpRequest, principal: Any) -> None:
        """Serve one DELETE, the end of a session.

        Raises:
            Refusal: it is not served, and why.
            DisconnectedError: the client has gone.
        """
        session = self._find(request, principal)
        del self._sessions[session.id]
        session.close()
        await request.respond(204)

    async def _open(self, request: HttpRequest, message: Incoming, principal: Any) -> None:
        assert message.id is not None
        self._capacity.check(message.id)
        self._end_idle()
        session = HttpSession(
            self._server,
            self._features,
            self._capacity,
            self._request_state,
            self._limits,
            principal,
            on_used=self._used,
        )
        answer = session.dispatcher.begin_checked(
            message.id, message.method, message.params, _HandshakePeer(principal), "legacy"
        )
        assert isinstance(answer, bytes | RequestError)  # such a method is answered at once
        headers: list[tuple[bytes, bytes]] = []
        if isinstance(answer, bytes):
            if len(self._sessions) >= self._limits.max_sessions:
                self._make_room(message.id)
            self._sessions[session.id] = session
            headers.append((_SESSION_HEADER.encode(), session.id.encode()))
        await request.respond(200, answer_line(message.id, answer), headers=headers)

    def _make_room(self, id_: Id) -> None:
        """End the session that has been unused for longest: most clients that leave say nothing of it.

        Raises:
            Refusal: with 503, if every session is in use.
        """
        unused = next((session for session in self._sessions.values() if not session.is_in_use), None)
        if unused is None:
            raise busy(id_, "too many sessions are open")
        del self._sessions[unused.id]
        unused.close()

    def _find(self, request: HttpRequest, principal: Any) -> HttpSession:
        id_ = request.headers.get(_SESSION_HEADER)
        if id_ is None:
            raise invalid(f"the {SESSION} header is missing, and this is no initialize")
        # "If the server receives a request with an invalid or unsupported MCP-Protocol-Version, it MUST respond
        # with 400 Bad Request." Without one it is 2025-03-26, which had none.
        if request.headers.get(_VERSION_HEADER, LEGACY_VERSIONS[0]) not in LEGACY_VERSIONS:
            raise invalid(f"the {PROTOCOL_VERSION} header names no revision with sessions")
        self._end_idle()
        session = self._sessions.get(id_)
        # A client that has read another's id somewhere is told no more than one that has guessed an id.
        if session is None or session.principal != principal:
            raise unknown_session()
        self._used(session)
        return session

    def _used(self, session: HttpSession) -> None:
        session.last_used = trio.current_time()
        if session.id in self._sessions:  # it may have ended meanwhile
            self._sessions.move_to_end(session.id)

    def _end_idle(self) -> None:
        """End the sessions that have been idle for too long. A running call and an open stream are use."""
        now = trio.current_time()
        for _ in range(len(self._sessions)):
            session = next(iter(self._sessions.values()))
            if session.last_used + self._limits.session_idle > now:
                break
            if session.is_in_use:
                self._used(session)
            else:
                del self._sessions[session.id]
                session.close()


class _HandshakePeer:
    """The peer of a handshake: nothing is sent but the answer."""

    def __init__(self, principal: Any) -> None:
        self.principal = principal

    def notify(self, method: str, params: bytes, *, once: bool = False) -> None:
        raise NotImplementedError

    async def ask(self, method: str, params: bytes) -> bytes:
        raise NotImplementedError
