"""The sessions of the legacy era over HTTP: which there are, whose they are, and how long they last."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import trio

from ...errors import RequestError
from ...protocol.headers import PROTOCOL_VERSION, SESSION
from ...protocol.messages import answer_line
from ...protocol.revisions import LEGACY_VERSIONS
from ..registry import ToolServer
from .asgi import Refusal, Request
from .body import Incoming
from .errors import busy, invalid, unknown_session
from .legacy import HttpSession
from .limits import Load

_SESSION_HEADER = SESSION.lower()
_VERSION_HEADER = PROTOCOL_VERSION.lower()


class Sessions:
    """Serves the legacy era.

    `nursery`, while there is one, is where calls run that outlive the request they came with.
    """

    def __init__(
        self, server: ToolServer, load: Load, *, signing_key: bytes | None, most: int, idle: float
    ) -> None:
        self.nursery: trio.Nursery | None = None
        self._server = server
        self._load = load
        self._signing_key = signing_key
        self._most = most
        self._idle = idle
        # The one that has not been used for longest comes first.
        self._sessions: OrderedDict[str, HttpSession] = OrderedDict()

    def __len__(self) -> int:
        return len(self._sessions)

    def leave(self) -> None:
        """The server stops: streams end, and questions without an answer; calls may end."""
        for session in self._sessions.values():
            session.leave()

    def close(self) -> None:
        """End every session, with all that runs."""
        for session in self._sessions.values():
            session.close()
        self._sessions.clear()

    async def expire(self) -> None:
        """End sessions that nobody uses, for ever."""
        while True:
            self._sweep()
            wait = self._idle
            if self._sessions:
                wait = next(iter(self._sessions.values())).last_used + self._idle - trio.current_time()
            # A moment at least, where all that is old is in use.
            await trio.sleep(min(max(wait, self._idle / 10, 0.01), self._idle))

    async def post(self, request: Request, messages: list[Incoming], principal: Any, *, is_batch: bool) -> None:
        """Serve one POST.

        Raises:
            Refusal: it is not served, and why.
            DisconnectedError: the client has gone.
        """
        first = messages[0]
        if first.method == "initialize" and first.kind == "request" and not is_batch:
            await self._initialize(request, first, principal)
            return
        session = self._find(request, principal)
        if is_batch and not session.dispatch.takes_batches:
            raise invalid("Invalid Request: no batches in this protocol revision")
        await session.post(request, messages, is_batch=is_batch, home=self.nursery)

    async def get(self, request: Request, principal: Any) -> None:
        """Serve one GET, the stream of the server's own messages.

        Raises:
            Refusal: it is not served, and why.
            DisconnectedError: the client has gone.
        """
        session = self._find(request, principal)
        if not request.takes_events:
            raise Refusal(406, b"the stream is a text/event-stream")
        self._load.check(None, streams=1)
        await session.listen(request)

    async def delete(self, request: Request, principal: Any) -> None:
        """Serve one DELETE, the end of a session.

        Raises:
            Refusal: it is not served, and why.
            DisconnectedError: the client has gone.
        """
        session = self._find(request, principal)
        del self._sessions[session.id]
        session.close()
        await request.respond(204)

    async def _initialize(self, request: Request, message: Incoming, principal: Any) -> None:
        assert message.id is not None
        self._load.check(message.id)
        self._sweep()
        if len(self._sessions) >= self._most:
            raise busy(message.id, "too many sessions are open")
        session = HttpSession(
            self._server,
            self._load,
            principal,
            signing_key=self._signing_key,
            patience=self._idle,
            on_used=self._used,
        )
        headers: list[tuple[bytes, bytes]] = []
        try:
            answer = session.dispatch.begin_checked(
                message.id, message.method, message.params, _Nowhere(principal), "legacy"
            )
            assert isinstance(answer, bytes)
            line = answer_line(message.id, answer)
            self._sessions[session.id] = session
            headers.append((_SESSION_HEADER.encode(), session.id.encode()))
        except RequestError as error:
            line = answer_line(message.id, error)
        await request.respond(200, line, headers=headers)

    def _find(self, request: Request, principal: Any) -> HttpSession:
        id_ = request.headers.get(_SESSION_HEADER)
        if id_ is None:
            raise invalid(f"the {SESSION} header is missing, and this is no initialize")
        # "If the server receives a request with an invalid or unsupported MCP-Protocol-Version, it MUST respond
        # with 400 Bad Request." Without one it is 2025-03-26, which had none.
        if request.headers.get(_VERSION_HEADER, LEGACY_VERSIONS[0]) not in LEGACY_VERSIONS:
            raise invalid(f"the {PROTOCOL_VERSION} header names no revision with sessions")
        self._sweep()
        session = self._sessions.get(id_)
        # Whoever has read another's id somewhere is told no more than whoever has guessed one.
        if session is None or session.principal != principal:
            raise unknown_session()
        self._used(session)
        return session

    def _used(self, session: HttpSession) -> None:
        session.last_used = trio.current_time()
        if session.id in self._sessions:  # it may have ended meanwhile
            self._sessions.move_to_end(session.id)

    def _sweep(self) -> None:
        """End what has not been used for too long. What runs is use."""
        now = trio.current_time()
        for _ in range(len(self._sessions)):
            session = next(iter(self._sessions.values()))
            if session.last_used + self._idle > now:
                break
            if session.is_in_use:
                self._used(session)
            else:
                del self._sessions[session.id]
                session.close()


class _Nowhere:
    """The way back to a client during the handshake: nothing is said but the answer."""

    def __init__(self, principal: Any) -> None:
        self.principal = principal

    def notify(self, method: str, params: bytes) -> None:
        raise NotImplementedError

    async def ask(self, method: str, params: bytes) -> bytes:
        raise NotImplementedError
