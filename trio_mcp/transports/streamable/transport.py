"""Streamable HTTP as a `Transport`: one exchange a request, in both eras.

Knows no method of MCP but cancellation and the two of the handshake. The legacy era's sessions are in session.py,
the meaning of a reply in exchange.py, its bytes in reply.py, and sending in endpoint.py.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial

import trio

from ...errors import ExchangeError, MCPError, RequestError, ServerStoppedError, renewed
from ...models.server import Server
from ...protocol.messages import (
    METHOD_NOT_FOUND,
    Encoded,
    Id,
    Line,
    answer_line,
    encode_json,
    notification_line,
    request_line,
)
from ...protocol.pending import PendingTable
from ...protocol.revisions import LEGACY_VERSIONS
from ...protocol.sse import EventBuffer
from ..base import FLUSH_GRACE, NO_HEADERS, Handlers, OnRawProgress, SessionLostError, TransportStatistics
from .endpoint import Endpoint
from .exchange import EVENTS, JSON, Counts, Exchange
from .limits import StreamableLimits
from .reply import LONGEST_REASON, Reply, is_passing, status_text
from .session import Session

logger: logging.Logger = logging.getLogger("trio_mcp.transports")

#: The requests whose answers tell what a server speaks.
_OPENING = ("server/discover", "initialize")
_POST = {"Content-Type": JSON, "Accept": f"{JSON}, {EVENTS}"}


class HttpTransport:
    """A `Transport` over Streamable HTTP. A request in a session that was lost raises SessionLostError."""

    def __init__(self, server: Server, handlers: Handlers, limits: StreamableLimits | None = None) -> None:
        self._limits = StreamableLimits() if limits is None else limits
        self._name = server.name
        self._redactor = server.redactor
        self._wire = Endpoint(server, self._limits)
        self._handlers = handlers
        self._session = Session(server.name, self._wire, self._exchange, self._limits)
        self._is_legacy = False
        self._pending: PendingTable[Exchange] = PendingTable()
        self._nursery: trio.Nursery
        self._posting = 0
        self._answers: deque[bytes] = deque()  # that no task posts yet
        self._answers_size = 0
        self._posters = 0
        self._left = trio.lowlevel.ParkingLot()
        self._closing = trio.Event()
        self._ended = False
        self._lost: ServerStoppedError | None = None
        self._counts = Counts()
        self._bytes_out = 0

    def __repr__(self) -> str:
        state = "ended" if self._ended else "closing" if self._closing.is_set() else "open"
        return f"<HttpTransport {self._name!r} {state}, {len(self._pending)} in flight>"

    # --- the caller's side

    async def request(
        self,
        method: str,
        params: Encoded,
        *,
        headers: Mapping[str, str] = NO_HEADERS,
        progress_token: int | None = None,
        on_progress: OnRawProgress | None = None,
        cancellable: bool = True,
        long_lived: bool = False,
    ) -> bytes:
        """See `Transport.request`. Each request has its own response: it needs no `long_lived`."""
        await trio.lowlevel.checkpoint_if_cancelled()
        self._check_open()
        exchange = self._exchange(progress_token, on_progress)
        exchange.id = self._pending.add(exchange)
        try:
            with exchange.scope:
                try:
                    await self._perform(exchange, method, params, headers)
                except RequestError as error:
                    raise self._told(method, error) from None
                except BaseException as error:
                    # basic/transports, 2025-11-25: "Disconnection SHOULD NOT be interpreted as the client
                    # cancelling its request". In the modern era it is: the response has been closed.
                    gave_up = isinstance(error, trio.Cancelled) or exchange.is_reporting
                    if self._is_legacy and cancellable and gave_up and not exchange.scope.cancel_called:
                        notice = {"requestId": exchange.id, "reason": "the caller was cancelled"}
                        self.notify("notifications/cancelled", encode_json(notice))
                    raise
        finally:
            self._pending.forget(exchange.id)
            self._left.unpark_all()
        await exchange.deliver()
        if isinstance(exchange.answer, Exception):
            raise exchange.answer
        if exchange.answer is None:  # the scope was cancelled by the end of the connection
            self._check_open()
        assert exchange.answer is not None
        return exchange.answer

    def notify(self, method: str, params: bytes | None = None) -> None:
        """Post a notification, in a task of the transport."""
        then = self._opened if method == "notifications/initialized" else None
        self._post_soon(notification_line(method, params), then)

    def respond(self, id: Id | None, answer: bytes | RequestError) -> None:  # noqa: A002 - the protocol's word
        """Post an answer to a request of the server, by one of few tasks of the transport."""
        if self._ended or self._lost is not None:
            return
        line = answer_line(id, answer)
        limits = self._limits
        if len(self._answers) >= limits.max_answers or self._answers_size + len(line) > limits.max_answer_bytes:
            self._forget_answers()
            self._lose("sends more requests than it takes answers to", None)
            return
        self._answers.append(line)
        self._answers_size += len(line)
        self._posting += 1
        if self._posters < limits.answers_at_once:
            self._posters += 1
            self._nursery.start_soon(self._post_answers)

    def negotiated(self, version: str) -> None:
        """Legacy requests bear the revision from now on; modern ones do so by their own headers."""
        self._is_legacy = version in LEGACY_VERSIONS
        if self._is_legacy:
            self._session.begin(version)

    def statistics(self) -> TransportStatistics:
        """Counts since the start."""
        return TransportStatistics(
            in_flight=len(self._pending),
            bytes_in=self._counts.bytes_in,
            bytes_out=self._bytes_out,
            late_answers=self._pending.late,
            skipped_lines=self._counts.skipped,
        )

    @property
    def stderr_tail(self) -> str:
        """There is no process."""
        return ""

    # --- life

    @trio.lowlevel.enable_ki_protection
    async def run(self) -> None:
        """See `Transport.run`."""
        with trio.CancelScope(shield=True):  # bounded: `close` ends it
            try:
                async with trio.open_nursery() as nursery:
                    self._nursery = nursery
                    await self._closing.wait()
                    with trio.move_on_after(FLUSH_GRACE):
                        while len(self._pending) or self._posting:
                            await self._left.park()
                    if self._session.has_id and self._lost is None:
                        await self._session.delete()
                    self._end(None)
                    nursery.cancel_scope.cancel()
            except BaseException:  # a bug of ours must leave no call waiting
                if self._lost is None:
                    self._lost = ServerStoppedError(self._name, "the connection failed", redactor=self._redactor)
                self._end(self._lost)
                raise
            finally:
                with trio.move_on_after(FLUSH_GRACE):
                    await self._wire.aclose()

    def _end(self, error: ServerStoppedError | None) -> None:
        if self._ended:
            return
        self._ended = True
        self._closing.set()
        try:
            self._cut_off()
        finally:
            self._handlers.on_end(error)

    def close(self, *, drain_cancelled: bool = False) -> None:
        """See `Transport.close`."""
        self._closing.set()
        if not drain_cancelled:
            self._cut_off()

    def _cut_off(self) -> None:
        for exchange in self._pending.waiters():
            exchange.scope.cancel()

    def _lose(self, reason: str, status: int | None) -> ServerStoppedError:
        error = ServerStoppedError(self._name, reason, status=status, redactor=self._redactor)
        if not self._closing.is_set():
            self._lost = error
            self._handlers.on_end(error)
            self.close()
        return error

    def _check_open(self) -> None:
        if self._lost is not None:
            raise renewed(self._lost)
        if self._closing.is_set():
            raise trio.ClosedResourceError(f'the connection to "{self._name}" was closed')

    # --- exchanges

    def _exchange(self, progress_token: int | None = None, on_progress: OnRawProgress | None = None) -> Exchange:
        return Exchange(
            self._name,
            self._handlers,
            self._counts,
            self._came_elsewhere,
            self._limits,
            progress_token,
            on_progress,
        )

    async def _perform(self, exchange: Exchange, method: str, params: Encoded, headers: Mapping[str, str]) -> None:
        assert exchange.id is not None
        body = request_line(exchange.id, method, params)
        if method == "initialize":
            await self._initialize(exchange, body)
            return
        if not self._is_legacy:
            if await self._post(exchange, {**_POST, **headers}, body) is not None:
                # basic/transports: there is no resumption.
                raise ExchangeError(self._name, "the response ended before the answer", status=200)
            return
        await self._session.wait_ready()
        session = self._session.headers
        rest = await self._post(exchange, {**_POST, **session}, body, in_session=self._session.has_id)
        if rest is not None:
            await self._session.resume(exchange, rest)

    def _told(self, method: str, error: RequestError) -> RequestError | ExchangeError:
        """The error of a refused request. While opening, a status that may pass says nothing of the revision."""
        names_revisions = isinstance(error.data, dict) and "supported" in error.data
        is_word = method not in _OPENING or error.code == METHOD_NOT_FOUND or names_revisions
        if is_word or error.status is None or not is_passing(error.status):
            return error
        said = self._redactor(error.message)[:LONGEST_REASON]
        reason = f"answered with {status_text(error.status)}: {said}"
        return ExchangeError(self._name, reason, status=error.status, retry_after=error.retry_after)

    async def _initialize(self, exchange: Exchange, body: bytes) -> None:
        try:
            if await self._post(exchange, _POST, body, self._session.offer) is not None:
                raise ExchangeError(self._name, "the response ended before the answer", status=200)
        except (ServerStoppedError, RequestError) as error:
            # 2025-11-25, "Backwards Compatibility": a GET tells whether this is the transport of 2024-11-05.
            is_word = isinstance(error, RequestError) and not is_passing(error.status)
            refused = is_word or error.status in (400, 404, 405)
            if refused and await self._is_deprecated():
                reason = "speaks the deprecated HTTP+SSE transport of 2024-11-05, which is not supported"
                status = None if isinstance(error, RequestError) else error.status
                raise ExchangeError(self._name, reason, status=status) from None
            if isinstance(error, ServerStoppedError) and error.status == 404:
                reason = f"answered with {status_text(404)}: nothing of MCP is at the path of this URL"
                raise ExchangeError(self._name, reason, status=404) from error
            raise

    async def _post(
        self,
        exchange: Exchange,
        headers: Mapping[str, str],
        body: bytes,
        on_reply: Callable[[Reply], None] | None = None,
        *,
        in_session: bool = False,
    ) -> EventBuffer | None:
        """Post a request and read until its answer; the buffer of events that ended without it, if they did."""
        self._bytes_out += len(body)
        number = self._session.number
        reply = await self._wire.send("POST", headers, body)
        buffer = EventBuffer(self._limits.max_message)
        lingers = False
        try:
            if reply.status >= 400:
                error = await exchange.refused(reply)
                if in_session and reply.status == 404:
                    # 2025-11-25, "Session Management": a 404 says that nothing was done.
                    raise SessionLostError(number, self._lose)
                raise error
            if on_reply is not None:
                on_reply(reply)
            try:
                rest = await exchange.read(reply, buffer)
            except ServerStoppedError:
                # Legacy: a stream that breaks off may be resumed like one that ended.
                if not self._is_legacy or buffer.last_event_id is None or buffer.overflowed:
                    raise
                rest = buffer
            lingers = reply.media_type == EVENTS and exchange.answer is not None
            return rest
        finally:
            if lingers and not self._ended:
                self._nursery.start_soon(reply.linger, partial(exchange.read_rest, buffer))
            else:
                await reply.aclose()

    def _came_elsewhere(self, message: Line) -> None:
        """Take a message that came on a stream which is not that of its request.

        Legacy servers send answers so after a resumption, and progress on their own stream where they do not say
        which request a notification is about.
        """
        if message.method is not None:
            params = bytes(message.params)
            for waiting in self._pending.waiters():
                if waiting.keep_progress(params):
                    break
            return
        if not self._is_legacy:
            self._pending.late += 1
            return
        exchange = self._pending.resolve(message.id)
        if exchange is None:
            return
        if exchange.answer is not None:  # the first answer counts
            self._pending.late += 1
            return
        exchange.resolve(message)
        if not exchange.is_reporting:  # else it looks for the answer when its `on_progress` has returned
            exchange.scope.cancel()

    async def _is_deprecated(self) -> bool:
        buffer = EventBuffer()
        try:
            with trio.move_on_after(self._limits.endpoint_patience):
                async with await self._wire.send("GET", {"Accept": EVENTS}) as reply:
                    while reply.status == 200 and reply.media_type == EVENTS:
                        chunk = await reply.next_chunk()
                        events = buffer.feed(chunk) if chunk is not None else []
                        if chunk is None or events:
                            return any(event.event == "endpoint" for event in events)
        except MCPError:
            pass  # the error of the handshake tells more
        return False

    def _post_soon(self, line: bytes, then: Callable[[], None] | None = None) -> None:
        if not self._ended:
            self._posting += 1
            self._bytes_out += len(line)
            self._nursery.start_soon(self._post_line, line, then)

    @trio.lowlevel.enable_ki_protection
    async def _post_answers(self) -> None:
        try:
            while self._answers:
                line = self._answers.popleft()
                self._answers_size -= len(line)
                self._bytes_out += len(line)
                await self._post_line(line, None)
        finally:
            self._posters -= 1

    def _forget_answers(self) -> None:
        self._posting -= len(self._answers)
        self._answers.clear()
        self._answers_size = 0

    @trio.lowlevel.enable_ki_protection
    async def _post_line(self, line: bytes, then: Callable[[], None] | None) -> None:
        try:
            headers = {**_POST, **self._session.headers}
            async with await self._wire.send("POST", headers, line) as reply:
                if reply.status >= 400:
                    what = status_text(reply.status)
                    logger.warning('server "%s": a notification was refused: %s', self._name, what)
        except MCPError as error:
            logger.warning('server "%s": a notification was not sent: %s', self._name, error)
        except Exception:  # the function for the headers
            logger.exception('server "%s": a notification was not sent', self._name)
        finally:
            self._posting -= 1
            self._left.unpark_all()
            if then is not None:
                then()

    def _opened(self) -> None:
        if not self._closing.is_set():
            self._session.open(self._nursery)
