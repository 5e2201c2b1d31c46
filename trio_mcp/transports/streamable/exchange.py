"""One request over HTTP and its answer: reads the messages of a reply, and says where each goes.

The task that made the request reads the reply: nothing has to be correlated, and progress is delivered by the
reader itself. Only messages that a legacy server sends on another stream have to find their request: those are
handed on. Knows nothing of sessions, and no method of MCP but that of progress.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

import attrs
import trio

from ...errors import ExchangeError, ProtocolError, RequestError, ServerStoppedError
from ...protocol.messages import Line, read_error, read_line
from ...protocol.pending import as_number
from ...protocol.progress import progress_token
from ...protocol.sse import EventBuffer
from ..base import Handlers, OnRawProgress
from ..lines.pending_call import PROGRESS_WAITING
from .limits import StreamableLimits
from .reply import Reply, status_text

JSON = "application/json"
EVENTS = "text/event-stream"
PROGRESS = "notifications/progress"


@attrs.define
class Counts:
    """Counts of all exchanges of one connection: bytes of messages, and messages that could not be read."""

    bytes_in: int = 0
    skipped: int = 0


class Exchange:
    """One request, from its first byte to its answer; or, without an id, a stream of the server's own messages.

    `answer` is the undecoded result, or the error that answers it. `scope` surrounds the caller's work for it;
    `is_reporting` says that its `on_progress` runs, or has raised. `elsewhere` takes answers to other requests,
    and their progress from the server's own stream.
    """

    def __init__(
        self,
        server: str,
        handlers: Handlers,
        counts: Counts,
        elsewhere: Callable[[Line], None],
        limits: StreamableLimits,
        progress_token: int | None = None,
        on_progress: OnRawProgress | None = None,
    ) -> None:
        self.id: int | None = None
        self.answer: bytes | Exception | None = None
        self.scope: trio.CancelScope = trio.CancelScope()
        self.is_reporting: bool = False
        self._counts = counts
        self._elsewhere = elsewhere
        self._limits = limits
        self._server = server
        self._handlers = handlers
        self._progress_token = progress_token
        self._on_progress = on_progress
        self._waiting: deque[bytes] | None = None  # progress that came on the server's own stream

    def resolve(self, message: Line) -> None:
        """Keep the answer."""
        if message.error_bytes is not None:
            self.answer = read_error(message.error_bytes)
        elif message.is_answer:
            self.answer = bytes(message.result)
        else:
            self.answer = ProtocolError("an answer with neither result nor error")

    async def read(self, reply: Reply, buffer: EventBuffer) -> EventBuffer | None:
        """Read a reply that is no refusal; the buffer of events that ended without the answer, if they did.

        Raises:
            ExchangeError, ProtocolError: this is no answer.
        """
        if reply.media_type == JSON:
            body = await reply.read()
            self._counts.bytes_in += len(body)
            for message in read_line(body):
                await self._take(message)
            if self.answer is None:
                raise ProtocolError("the response has no answer to the request", body)
            return None
        if reply.media_type == EVENTS:
            await self.read_events(reply, buffer)
            return None if self.answer is not None else buffer
        what = reply.media_type or "no content"
        raise reply.failure(f"answered with {what} ({status_text(reply.status)}), not with JSON or events")

    async def read_events(self, reply: Reply, buffer: EventBuffer) -> None:
        """Read events until the answer is among them, or they end.

        Raises:
            ExchangeError: they broke off, or one is too long.
        """
        while self.answer is None and (chunk := await reply.next_chunk()) is not None:
            for message in self._messages(buffer, chunk):
                await self._take(message)
            if buffer.overflowed and self.answer is None:
                reason = f"sent an event over {self._limits.max_message} bytes"
                raise ExchangeError(self._server, reason, status=reply.status)

    def read_rest(self, buffer: EventBuffer, chunk: bytes) -> None:
        """After the answer: drop progress, deliver other notifications."""
        for message in self._messages(buffer, chunk):
            if message.method != PROGRESS:
                self._take_now(message)

    def _messages(self, buffer: EventBuffer, chunk: bytes) -> Iterator[Line]:
        self._counts.bytes_in += len(chunk)
        for event in buffer.feed(chunk):
            if event.event != "message" or not event.data:
                continue
            try:
                yield from read_line(event.data)
            except ProtocolError:
                self._counts.skipped += 1

    async def refused(self, reply: Reply) -> Exception:
        """The error of a 4xx or 5xx: the JSON-RPC error in its body, where there is one for this request."""
        body = b""
        try:
            if reply.media_type != EVENTS:
                with trio.move_on_after(self._limits.refusal_patience):
                    body = await reply.read(self._limits.max_refusal)
            self._counts.bytes_in += len(body)
            messages = read_line(body)
        except (ServerStoppedError, ProtocolError):
            messages = ()
        for message in messages:
            if message.error_bytes is not None and self._is_answered_by(message):
                error = read_error(message.error_bytes)
                if isinstance(error, RequestError):
                    error.status, error.retry_after = reply.status, reply.retry_after
                    return error
        return reply.failure(f"answered with {status_text(reply.status)}")

    async def _take(self, message: Line) -> None:
        if message.method != PROGRESS:
            self._take_now(message)
        elif self._on_progress is not None and self._is_ours(bytes(message.params)):
            self.is_reporting = True
            await self._on_progress(bytes(message.params))
            self.is_reporting = False
        elif self.id is None:
            self._elsewhere(message)

    def keep_progress(self, params: bytes) -> bool:
        """Keep progress from the server's own stream for `deliver`; False where it is not this request's."""
        if self._on_progress is None or not self._is_ours(params):
            return False
        if self._waiting is None:
            self._waiting = deque(maxlen=PROGRESS_WAITING)
        self._waiting.append(params)
        return True

    async def deliver(self) -> None:
        """Deliver kept progress, in the caller's task: another task has read it."""
        while self._waiting and self._on_progress is not None:
            await self._on_progress(self._waiting.popleft())

    def _take_now(self, message: Line) -> None:
        if message.method is None:
            if self.answer is None and self._is_answered_by(message):
                self.resolve(message)
            else:
                self._elsewhere(message)
        elif isinstance(message.id, int | str):
            self._handlers.on_request(message.id, message.method, bytes(message.params))
        else:
            self._handlers.on_notification(message.method, bytes(message.params))

    def _is_answered_by(self, message: Line) -> bool:
        if self.id is None:
            return False
        # An error without an id, in the reply to one request, is about that request.
        return as_number(message.id) == self.id or (message.id is None and message.error_bytes is not None)

    def _is_ours(self, params: bytes) -> bool:
        return as_number(progress_token(params)) == self._progress_token
