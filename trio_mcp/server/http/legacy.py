"""One session of the legacy era over HTTP: what runs in it, what its client is told, and what it is asked.

A client that hangs up has not cancelled anything: its calls go on, and so does the session.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import attrs
import trio

from ...errors import ProtocolError, RequestError
from ...protocol.messages import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    Id,
    Line,
    answer_line,
    encode_json,
    notification_line,
    read_error,
    request_line,
)
from ...protocol.pending import PendingTable
from ..dispatch import Session, Work
from ..params import cancelled_id
from ..registry import ToolServer
from .asgi import DisconnectedError, Request
from .body import Incoming
from .event_queue import EventQueue, Turn, send_events
from .limits import Load

logger = logging.getLogger("trio_mcp.server")


@attrs.define(eq=False)
class _Question:
    answered: trio.Event = attrs.field(factory=trio.Event)
    line: Line | None = None


class HttpSession:
    """One client that began with `initialize`.

    `patience` is how many seconds a question waits for its answer; `on_used` is called when a use has ended.
    """

    def __init__(
        self,
        server: ToolServer,
        load: Load,
        principal: Any,
        *,
        signing_key: bytes | None,
        patience: float,
        on_used: Callable[[HttpSession], None],
    ) -> None:
        # 2025-11-25, basic/transports: "The session ID SHOULD be globally unique and cryptographically secure".
        self.id = secrets.token_urlsafe(32)
        self.principal = principal
        self.dispatch = Session(server, self._announce, signing_key=signing_key)
        self.last_used = trio.current_time()
        self._load = load
        self._patience = patience
        self._on_used = on_used
        self._uses = 0
        self._running: dict[Id, trio.CancelScope] = {}
        self._questions: PendingTable[_Question] = PendingTable()
        self._own = EventQueue()  # what belongs to no request
        self._listening: Turn | None = None

    def __repr__(self) -> str:
        return f"<HttpSession of {self.dispatch!r}, {len(self._running)} running>"

    @property
    def is_in_use(self) -> bool:
        """Whether something runs in it, or its client is connected."""
        return self._uses > 0 or bool(self._running)

    @contextmanager
    def used(self) -> Iterator[None]:
        """In use as long as this lasts."""
        self._uses += 1
        try:
            yield
        finally:
            self._uses -= 1
            self._on_used(self)

    def leave(self) -> None:
        """Ask and announce nothing more; what runs may end."""
        self.dispatch.close()
        self._own.close()
        for question in self._questions.take_all():
            question.answered.set()

    def close(self) -> None:
        """End, with all that runs."""
        self.leave()
        for scope in self._running.values():
            scope.cancel()

    # --- what the client says

    async def post(
        self, request: Request, messages: list[Incoming], *, is_batch: bool, home: trio.Nursery | None
    ) -> None:
        """Serve one POST. Handlers run in `home`, or end with the request.

        Raises:
            Refusal: it is not served, and why.
            DisconnectedError: the client has gone.
        """
        requests = [message for message in messages if message.kind == "request"]
        calls = sum(message.method == "tools/call" for message in requests)
        if requests:
            self._load.check(requests[0].id if len(requests) == 1 else None, calls=calls)
        for message in messages:
            if message.kind == "answer":
                self._answered(message.line)
            elif message.kind == "notification":
                self._notified(message.line)
        if not requests:
            await request.respond(202)
            return
        reply = _Reply(self, request, requests, is_batch=is_batch)
        works = [(message.id, work) for message in requests if (work := self._begin(message, reply)) is not None]
        if not works:
            await reply.respond(request)
            return
        with self.used():
            try:
                async with trio.open_nursery() as nursery:
                    for id_, work in works:
                        assert id_ is not None
                        self._load.begin_call()
                        scope = self._running[id_] = trio.CancelScope()
                        (home or nursery).start_soon(self._finish, id_, work, scope, reply)
                    nursery.start_soon(request.cancel_when_gone, nursery.cancel_scope)
                    with suppress(DisconnectedError):
                        await reply.deliver(request)
                    nursery.cancel_scope.cancel()
            finally:
                reply.abandon()

    async def listen(self, request: Request) -> None:
        """Serve a GET: the stream of what belongs to no request. A new one takes the place of the last.

        Raises:
            DisconnectedError: the client has gone.
        """
        if self._listening is not None:
            self._listening.end()
        turn = self._listening = Turn()
        with self.used(), self._load.stream():
            try:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(request.cancel_when_gone, nursery.cancel_scope)
                    with suppress(DisconnectedError):
                        await send_events(request, self._own, turn)
                    nursery.cancel_scope.cancel()
            finally:  # whoever serves ASGI may also cancel what its client has left
                if self._listening is turn:
                    self._listening = None

    def _begin(self, message: Incoming, reply: _Reply) -> Work | None:
        """Begin a request; None where it is answered already."""
        assert message.id is not None
        answer: bytes | Work | RequestError
        try:
            # basic: "The request ID MUST NOT have been previously used by the requestor within the same session."
            if message.id in self._running:
                raise RequestError(INVALID_REQUEST, f"request {message.id!r} is still running")
            if message.method == "initialize" and reply.is_batch:
                raise RequestError(INVALID_REQUEST, "initialize must not be part of a batch")
            answer = self.dispatch.begin_checked(message.id, message.method, message.params, reply, "legacy")
        except RequestError as error:
            answer = error
        if isinstance(answer, bytes | RequestError):
            reply.answered(message.id, answer)
            return None
        return answer

    async def _finish(self, id_: Id, work: Work, scope: trio.CancelScope, reply: _Reply) -> None:
        answer: bytes | RequestError | None = None
        try:
            with scope:
                try:
                    answer = await work()
                except RequestError as error:
                    answer = error
        except Exception:
            # What goes wrong beside a cancel comes in one group with it, which only the scope takes apart.
            logger.exception("a call failed while it was cancelled")
            answer = RequestError(INTERNAL_ERROR, "internal error")
        finally:
            del self._running[id_]
            self._load.end_call()
            self._on_used(self)
        # basic/utilities/cancellation: receivers "SHOULD NOT send a response for the cancelled request"
        reply.answered(id_, None if scope.cancel_called else answer)

    def _notified(self, line: Line) -> None:
        if line.method == "notifications/initialized":
            self.dispatch.initialized()
        elif line.method == "notifications/cancelled":
            id_ = cancelled_id(bytes(line.params))
            if id_ is not None and (scope := self._running.get(id_)) is not None:
                scope.cancel()

    def _answered(self, line: Line) -> None:
        question = self._questions.resolve(line.id)
        if question is not None:
            question.line = line
            question.answered.set()

    # --- what the client is told

    def _announce(self, method: str, params: bytes) -> None:
        self._own.put(notification_line(method, params), once=True)

    async def ask(self, method: str, params: bytes, queue: EventQueue | None) -> bytes:
        """Ask the client, on the stream of the call that asks where it can be, else on its own.

        Raises:
            ProtocolError: it cannot be asked, or has not answered.
            RequestError: it has answered with an error.
        """
        question = _Question()
        id_ = self._questions.add(question)
        line = request_line(id_, method, params)
        try:
            # basic/transports: "The server MUST send each of its JSON-RPC messages on only one of the streams".
            if queue is None or not queue.put(line, droppable=False):
                queue = self._own
                if self._listening is None or not queue.put(line, droppable=False):
                    raise ProtocolError(f"the client has no stream open for {method}")
            try:
                with trio.move_on_after(self._patience):
                    await question.answered.wait()
            except trio.Cancelled:
                queue.put(notification_line("notifications/cancelled", encode_json({"requestId": id_})))
                raise
        finally:
            self._questions.forget(id_)
        if question.line is None:
            raise ProtocolError(f"the client has not answered {method}")
        if (error := question.line.error_bytes) is not None:
            raise read_error(error)
        return bytes(question.line.result)


class _Reply:
    """The answer to one POST: JSON where nothing but answers is said, else events."""

    def __init__(
        self, session: HttpSession, request: Request, requests: list[Incoming], *, is_batch: bool
    ) -> None:
        self.principal = session.principal
        self.is_batch = is_batch
        self._session = session
        self._left = len(requests)
        self._lines: list[bytes] = []
        self._queue = EventQueue() if request.takes_events else None
        self._streams = False
        self._news = trio.Event()

    def notify(self, method: str, params: bytes) -> None:
        if self._queue is not None and self._left:
            self._queue.put(notification_line(method, params))
            self._news.set()

    async def ask(self, method: str, params: bytes) -> bytes:
        self._news.set()
        return await self._session.ask(method, params, self._queue if self._left else None)

    def answered(self, id_: Id, answer: bytes | RequestError | None) -> None:
        """One request is done; None: without an answer."""
        self._left -= 1
        if answer is not None:
            line = answer_line(id_, answer)
            if self._streams and self._queue is not None:
                self._queue.put(line, droppable=False)
            else:
                self._lines.append(line)
        if self._left == 0 and self._queue is not None and self._streams:
            self._queue.close()
        self._news.set()

    def abandon(self) -> None:
        """Nobody hears it any more."""
        if self._queue is not None:
            self._queue.clear()

    async def deliver(self, request: Request) -> None:
        """Answer the request, as things come.

        Raises:
            DisconnectedError: the client has gone.
        """
        while self._left and not self._queue:
            self._news = trio.Event()
            await self._news.wait()
        if self._queue is None or (self._lines and not self._queue):
            await self.respond(request)
            return
        self._streams = True
        for line in self._lines:
            self._queue.put(line, droppable=False)
        if self._left == 0:
            self._queue.close()
        await send_events(request, self._queue)

    async def respond(self, request: Request) -> None:
        """Answer with JSON: everything has been said."""
        lines = [line.rstrip(b"\n") for line in self._lines]
        if self.is_batch:
            await request.respond(200, b"[%b]" % b",".join(lines))
        elif lines:
            await request.respond(200, lines[0])
        else:  # cancelled, and no events are taken
            await request.respond(202)
