"""One legacy session over HTTP: its running calls, its streams of events, and its questions to the client.

A client that disconnects has not cancelled anything: its calls go on, and so does the session.

Which methods count as calls, and which open a session, the table of features says. All sessions of an app are in
sessions.py.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import attrs
import trio

from ...errors import ProtocolError, RequestError
from ...protocol.messages import (
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
from ..client_state import ClientState
from ..dispatch import Answering, Dispatcher
from ..feature import FeatureTable
from ..limits import ServerLimits
from ..registry import ToolServer
from ..request_state import RequestState
from ..running import RunningRequests
from .asgi import DisconnectedError, HttpRequest
from .body import Incoming
from .capacity import Capacity
from .event_queue import EventQueue, StreamTurn, send_events


@attrs.define(eq=False)
class _Question:
    answered: trio.Event = attrs.field(factory=trio.Event)
    line: Line | None = None


class HttpSession:
    """One client that began with `initialize`. `on_used` is called whenever a use of the session has ended."""

    def __init__(
        self,
        server: ToolServer,
        features: FeatureTable,
        capacity: Capacity,
        request_state: RequestState,
        limits: ServerLimits,
        principal: Any,
        *,
        on_used: Callable[[HttpSession], None],
    ) -> None:
        # 2025-11-25, basic/transports: "The session ID SHOULD be globally unique and cryptographically secure".
        self.id: str = secrets.token_urlsafe(32)
        self.principal = principal
        self.last_used: float = trio.current_time()
        self.dispatcher: Dispatcher = Dispatcher(ClientState(server, self._announce, request_state), features)
        self._features = features
        self._capacity = capacity
        self._limits = limits
        self._on_used = on_used
        self._uses = 0
        self._running = RunningRequests()
        self._questions: PendingTable[_Question] = PendingTable()
        self._queue = EventQueue(limits)  # messages that belong to no request
        self._stream: StreamTurn | None = None  # the client's GET, which sends from that queue

    def __repr__(self) -> str:
        return f"<HttpSession of {self.dispatcher.client!r}, {len(self._running)} running>"

    @property
    def is_in_use(self) -> bool:
        """Whether a call runs in it, or its client is connected."""
        return self._uses > 0 or bool(self._running)

    @property
    def is_listened_to(self) -> bool:
        """Whether its client has a stream open for messages that belong to no request."""
        return self._stream is not None

    @contextmanager
    def used(self) -> Iterator[None]:
        """Count as in use as long as the context lasts."""
        self._uses += 1
        try:
            yield
        finally:
            self._uses -= 1
            self._on_used(self)

    def end_streams(self) -> None:
        """Ask and announce nothing more; open questions fail. Running calls may finish."""
        self.dispatcher.client.close()
        self._queue.close()
        for question in self._questions.take_all():
            question.answered.set()

    def close(self) -> None:
        """End, and cancel every running call."""
        self.end_streams()
        self._running.cancel_all()

    # --- messages of the client

    async def post(
        self, request: HttpRequest, messages: list[Incoming], *, is_batch: bool, outliving: trio.Nursery | None
    ) -> None:
        """Serve one POST. Its calls run in the nursery `outliving`; without one they end with the HTTP request.

        Raises:
            Refusal: it is not served, and why.
            DisconnectedError: the client has gone.
        """
        requests = [message for message in messages if message.kind == "request"]
        if requests:
            calls = sum(self._counts_as_call(message) for message in requests)
            self._capacity.check(requests[0].id if len(requests) == 1 else None, calls=calls)
        for message in messages:
            if message.kind == "answer":
                self._answered(message.line)
            elif message.kind == "notification":
                self._notified(message.method, bytes(message.line.params))
        if not requests:
            await request.respond(202)
            return
        reply = _Reply(self, request, len(requests), is_batch=is_batch, limits=self._limits)
        begun = [left for message in requests if (left := self._begin(message, reply)) is not None]
        if not begun:
            await reply.respond(request)
            return
        with self.used():
            try:
                async with trio.open_nursery() as nursery:
                    for id_, answering, scope in begun:
                        self._capacity.begin_call()
                        (outliving or nursery).start_soon(self._finish, id_, answering, scope, reply)
                    nursery.start_soon(request.cancel_when_gone, nursery.cancel_scope)
                    with suppress(DisconnectedError):
                        await reply.deliver(request)
                    nursery.cancel_scope.cancel()
            finally:
                reply.abandon()

    async def listen(self, request: HttpRequest) -> None:
        """Serve a GET: the stream of messages that belong to no request. A new one replaces the last.

        Raises:
            DisconnectedError: the client has gone.
        """
        if self._stream is not None:
            self._stream.end()
        turn = self._stream = StreamTurn()
        with self.used(), self._capacity.stream():
            try:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(request.cancel_when_gone, nursery.cancel_scope)
                    with suppress(DisconnectedError):
                        await send_events(request, self._queue, turn)
                    nursery.cancel_scope.cancel()
            finally:  # ASGI servers may also cancel a request whose client has gone
                if self._stream is turn:
                    self._stream = None

    def _counts_as_call(self, message: Incoming) -> bool:
        method = self._features.methods.get(message.method)
        return method is not None and method.counts_as == "call"

    def _begin(self, message: Incoming, reply: _Reply) -> tuple[Id, Answering, trio.CancelScope] | None:
        """Begin a request; None where it is answered already."""
        assert message.id is not None
        method = self._features.methods.get(message.method)
        answer: bytes | RequestError | Answering | None = self._running.refuse_repeated(message.id)
        if answer is None and method is not None and method.opens_session and reply.is_batch:
            # 2025-03-26, basic/lifecycle: "The initialize request MUST NOT be part of a JSON-RPC batch".
            answer = RequestError(INVALID_REQUEST, f"{message.method} must not be part of a batch")
        if answer is None:
            answer = self.dispatcher.begin_checked(message.id, message.method, message.params, reply, "legacy")
        if isinstance(answer, bytes | RequestError):
            reply.answered(message.id, answer)
            return None
        return message.id, answer, self._running.begin(message.id)

    async def _finish(self, id_: Id, answering: Answering, scope: trio.CancelScope, reply: _Reply) -> None:
        try:
            answer = await self._running.finish(id_, answering, scope)
        finally:
            self._capacity.end_call()
            self._on_used(self)
        reply.answered(id_, answer)

    def _notified(self, method: str, params: bytes) -> None:
        if not self._running.cancelled_by(method, params):
            self.dispatcher.notified(method, params)

    def _answered(self, line: Line) -> None:
        question = self._questions.resolve(line.id)
        if question is not None:
            question.line = line
            question.answered.set()

    # --- messages to the client

    def _announce(self, method: str, params: bytes) -> None:
        self._queue.put(notification_line(method, params), once=True)

    async def ask(self, method: str, params: bytes, queue: EventQueue | None) -> bytes:
        """Ask the client, on the stream of the call that asks if it has one (`queue`), else on the client's GET.

        Raises:
            ProtocolError: the client has no stream open, or has not answered.
            RequestError: it has answered with an error.
        """
        question = _Question()
        id_ = self._questions.add(question)
        line = request_line(id_, method, params)
        try:
            # basic/transports: "The server MUST send each of its JSON-RPC messages on only one of the streams".
            if queue is None or not queue.put(line, droppable=False):
                queue = self._queue
                if not self.is_listened_to or not queue.put(line, droppable=False):
                    raise ProtocolError(f"the client has no stream open for {method}")
            try:
                with trio.move_on_after(self._limits.session_idle):
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
    """The answer to one POST: JSON if nothing is sent but answers, else events."""

    def __init__(
        self, session: HttpSession, request: HttpRequest, requests: int, *, is_batch: bool, limits: ServerLimits
    ) -> None:
        self.principal = session.principal
        self.is_batch = is_batch
        self._session = session
        self._unanswered = requests
        self._lines: list[bytes] = []
        self._queue = EventQueue(limits) if request.takes_events else None
        self._streams = False
        self._news = trio.Event()

    def notify(self, method: str, params: bytes, *, once: bool = False) -> None:
        if self._queue is not None and self._unanswered:
            self._queue.put(notification_line(method, params), once=once)
            self._news.set()

    async def ask(self, method: str, params: bytes) -> bytes:
        self._news.set()
        return await self._session.ask(method, params, self._queue if self._unanswered else None)

    def answered(self, id_: Id, answer: bytes | RequestError | None) -> None:
        """One request has ended, with this answer; None: without one."""
        self._unanswered -= 1
        if answer is not None:
            line = answer_line(id_, answer)
            if self._streams and self._queue is not None:
                self._queue.put(line, droppable=False)
            else:
                self._lines.append(line)
        if self._unanswered == 0 and self._queue is not None and self._streams:
            self._queue.close()
        self._news.set()

    def abandon(self) -> None:
        """Send nothing more: the client has its answer, or has gone."""
        if self._queue is not None:
            self._queue.clear()

    async def deliver(self, request: HttpRequest) -> None:
        """Answer the HTTP request: with events from the first message that is no answer.

        Raises:
            DisconnectedError: the client has gone.
        """
        while self._unanswered and not self._queue:
            self._news = trio.Event()
            await self._news.wait()
        if self._queue is None or (self._lines and not self._queue):
            await self.respond(request)
            return
        self._streams = True
        for line in self._lines:
            self._queue.put(line, droppable=False)
        if self._unanswered == 0:
            self._queue.close()
        await send_events(request, self._queue)

    async def respond(self, request: HttpRequest) -> None:
        """Answer with JSON: every request has ended."""
        lines = [line.rstrip(b"\n") for line in self._lines]
        if self.is_batch:
            await request.respond(200, b"[%b]" % b",".join(lines))
        elif lines:
            await request.respond(200, lines[0])
        else:  # cancelled, and the client takes no events
            await request.respond(202)
