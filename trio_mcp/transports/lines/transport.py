"""JSON-RPC over a pair of trio streams, one message a line. Both roles use it; it knows nothing of processes.

Three parties meet here. A *caller* hands its line to the outbox and sleeps. The *reader* waits for nothing but
the pipe: it reads each line, wakes the caller whose answer has come, and passes on messages that answer no
request; it never runs user code. The *writer* is the only one to write. The work for one request (running its
`on_progress`, decoding its result) is done by its caller, in the caller's own task, where it can be cancelled and
can raise.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

import trio

from ...errors import MCPError, ProtocolError, RequestError, ServerStoppedError, renewed
from ...protocol.framing import LineBuffer
from ...protocol.messages import (
    Encoded,
    Id,
    Line,
    Undecoded,
    answer_line,
    encode_json,
    has_id,
    notification_line,
    read_error,
    read_line,
    request_pieces,
    salvage_answer_id,
)
from ...protocol.pending import PendingTable, as_number
from ...protocol.progress import UNREADABLE, progress_token
from ...redaction import NOTHING_SECRET, Redactor
from ..base import NO_HEADERS, Handlers, OnRawProgress, TransportStatistics
from ..limits import LineLimits
from .invalid_lines import InvalidLines
from .outbox import Outbox
from .pending_call import PendingCall

logger: logging.Logger = logging.getLogger("trio_mcp.transports")

#: How much is read at once: what a pipe holds.
CHUNK = 64 * 1024
#: For calls that fail when there is no memory to say more.
_CLOSED = trio.ClosedResourceError("the connection was closed")


class StreamTransport:
    """A `Transport` over any pair of trio streams.

    Args:
        send: the stream to the peer.
        receive: the stream from the peer.
        handlers: what is called for messages of the peer.
        name: the server's name in errors and warnings.
        redactor: hides secrets in lines that are shown.
        write_now: a non-blocking write, where the stream has one (see `Outbox`).
        limits: the bounds of the connection.
    """

    def __init__(
        self,
        send: trio.abc.SendStream,
        receive: trio.abc.ReceiveStream,
        handlers: Handlers,
        *,
        name: str,
        redactor: Redactor = NOTHING_SECRET,
        write_now: Callable[[bytes], int] | None = None,
        limits: LineLimits | None = None,
    ) -> None:
        limits = limits or LineLimits()
        self._send = send
        self._receive = receive
        self._handlers = handlers
        self._name = name
        self._limits = limits
        self._outbox = Outbox(send, write_now, limits=limits)
        self._pending: PendingTable[PendingCall] = PendingTable()
        self._by_token: dict[int | float | None, PendingCall] = {}
        self._closing = False  # `close` was called, or it has ended: no new requests
        self._ended = False
        self._error: MCPError | None = None  # why it ended, where `close` was not the reason
        self._buffer = LineBuffer(self._limits.max_line)
        self._bytes_in = 0
        self._invalid = InvalidLines(name, redactor, limits)
        self._last_call = trio.lowlevel.ParkingLot()
        #: Set when the stream has broken or ended, or `close` was called: `run` ends the connection.
        self.wake_supervisor: trio.Event = trio.Event()
        #: Why the connection cannot go on, where the peer broke a rule; None where its stream merely ended.
        self.failure: str | None = None

    def __repr__(self) -> str:
        state = "ended" if self._ended else "closing" if self._closing else "open"
        return f"<{type(self).__name__} {self._name!r} {state}, {len(self._pending)} in flight>"

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
    ) -> Undecoded:
        """See `Transport.request`. `headers` are for HTTP alone."""
        # A request that was cancelled before it began is not sent: its tool may be one that deletes.
        await trio.lowlevel.checkpoint_if_cancelled()
        if self._outbox.is_full or self._closing:
            await trio.lowlevel.checkpoint()
            await self._outbox.wait_room()
            self._check_open()
        call = PendingCall(long_lived)
        id_ = self._pending.add(call)
        if progress_token is not None and on_progress is not None:
            self._by_token[progress_token] = call
        handed_over = False
        try:
            self._hand_over(request_pieces(id_, method, params), id_, at_once=len(self._pending) == 1)
            handed_over = True
            del params  # large params are not held while the call waits for its answer
            while call.answer is None or call.progress:
                if not call.progress:
                    await call.sleep()
                while call.progress and on_progress is not None:
                    await on_progress(call.progress.popleft())
        except BaseException:
            # Cancelled, or an exception in on_progress: this call waits for its answer no longer.
            # basic/utilities/cancellation: "The `initialize` request MUST NOT be cancelled by clients"
            was_waiting = self._pending.forget(id_)
            if was_waiting and handed_over and not self._outbox.take_back(id_) and cancellable:
                notice = {"requestId": id_, "reason": "the caller was cancelled"}
                self.notify("notifications/cancelled", encode_json(notice))
            raise
        finally:
            if progress_token is not None:
                self._by_token.pop(progress_token, None)
            if self._closing and not self._pending:
                self._last_call.unpark_all()
        if isinstance(call.answer, Exception):
            raise call.answer
        assert call.answer is not None
        return call.answer

    def notify(self, method: str, params: bytes | None = None) -> None:
        """Hand over a notification. Does nothing where the connection has ended."""
        self._hand_over(notification_line(method, params))

    def respond(
        self,
        id: Id | None,  # noqa: A002 - the protocol's word
        answer: bytes | RequestError,
        *,
        held: bool = False,
    ) -> None:
        """Answer a request of the peer. Does nothing where the connection has ended.

        With `held`, the answer has waited for room (`wait_room`), and does not count as one that piles up because
        the peer does not read.
        """
        self._hand_over(answer_line(id, answer), ("the answer to", id) if held else None)

    def is_unwritten(self, id: Id) -> bool:  # noqa: A002 - likewise
        """Whether the `held` answer to a request of the peer still waits to be written."""
        return self._outbox.is_waiting(("the answer to", id))

    async def wait_room(self) -> None:
        """Wait until a new line may be handed over. No checkpoint where there is room."""
        await self._outbox.wait_room()

    def negotiated(self, version: str) -> None:
        """Streams are the same in every revision."""

    def statistics(self) -> TransportStatistics:
        """Counts since the start."""
        return TransportStatistics(
            in_flight=len(self._pending),
            bytes_in=self._bytes_in,
            bytes_out=self._outbox.bytes_out,
            late_answers=self._pending.late,
            skipped_lines=self._invalid.skipped,
        )

    @property
    def stderr_tail(self) -> str:
        """A bare stream has no stderr."""
        return ""

    @property
    def unread_lines(self) -> tuple[str, ...]:
        """Samples of lines that are no messages, and the beginning of a line that has not ended: a question."""
        rest = self._invalid.shown(self._buffer.begun(self._limits.sample_length * 4))
        return (*self._invalid.samples, rest) if rest.strip() else tuple(self._invalid.samples)

    @property
    def samples(self) -> list[str]:
        """Clipped samples of lines that were no messages, for error texts."""
        return self._invalid.samples

    def _hand_over(self, line: Encoded, key: object = None, *, at_once: bool = False) -> None:
        if self._ended:
            return
        if key is None and self._outbox.is_overfull:
            self._fail("does not read: too many messages wait for it")
            return
        try:
            self._outbox.put(line, key, at_once=at_once)
        except OSError:
            self.wake_supervisor.set()  # `run` finds out why the pipe broke

    def _check_open(self) -> None:
        if self._error is not None:
            raise renewed(self._error)
        if self._closing:
            raise self._closed_error()

    # --- the tasks

    @trio.lowlevel.enable_ki_protection
    async def run(self) -> None:
        """Read and write until the peer ends the stream or `close` is called; see `Transport.run`."""
        with trio.CancelScope(shield=True):  # bounded: `close` ends it
            try:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self.read)
                    nursery.start_soon(self.write)
                    await self.wake_supervisor.wait()
                    if self._closing:
                        await self.drain()
                        self.end(None)
                    else:
                        self.end(ServerStoppedError(self._name, self.failure or "closed the stream"))
                    nursery.cancel_scope.cancel()
            finally:
                try:
                    # Does nothing where it has ended; after a bug of ours, no call is left waiting.
                    self.end(ServerStoppedError(self._name, "the connection failed"))
                finally:  # the peer waits for this
                    try:
                        await self._close(self._send)
                    finally:
                        await self._close(self._receive)

    @trio.lowlevel.enable_ki_protection
    async def read(self) -> None:
        """Read until the stream ends, and deliver each message. What the end means is decided by `run`."""
        buffer = self._buffer
        try:
            while chunk := await self._receive.receive_some(CHUNK):
                self._bytes_in += len(chunk)
                for line in buffer.feed(chunk):
                    self._take(line)
                if buffer.overflowed:
                    self._fail(f"sent a line over {self._limits.max_line} bytes")
                    return
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        last = buffer.finish()
        if last is not None:
            self._take(last)
        self.wake_supervisor.set()

    @trio.lowlevel.enable_ki_protection
    async def write(self) -> None:
        """Write until the stream breaks."""
        try:
            await self._outbox.write()
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            self._outbox.discard()
            self.wake_supervisor.set()

    # --- the end

    def close(self, *, drain_cancelled: bool = False) -> None:
        """See `Transport.close`."""
        self._closing = True
        if not drain_cancelled:
            self._fail_calls(None)
        self.wake_supervisor.set()

    async def drain(self) -> None:
        """Wait until cancelled requests have told the peer and all lines are written: `flush_grace` at most."""
        with trio.move_on_after(self._limits.flush_grace):
            while self._pending:
                await self._last_call.park()
            await self._outbox.wait_written()

    def end(self, error: MCPError | None) -> None:
        """Note the end: every call in flight, and each later one, raises this error (None: `close` was called)."""
        if self._ended:
            return
        self._ended = self._closing = True
        self._error = error
        try:
            self._fail_calls(error)
        finally:
            try:
                self._outbox.discard()
            finally:
                self._handlers.on_end(error)

    async def _close(self, stream: trio.abc.AsyncResource) -> None:
        with trio.move_on_after(self._limits.flush_grace):
            await stream.aclose()

    def _fail(self, reason: str) -> None:
        self.failure = self.failure or reason
        self.wake_supervisor.set()

    def _fail_calls(self, error: MCPError | None) -> None:
        failure: BaseException | None = None
        for call in self._pending.take_all():
            try:
                call.resolve(self._closed_error() if error is None else renewed(error))
            except BaseException as raised:  # noqa: BLE001 - a MemoryError; no other call may be left waiting
                failure = raised
                call.resolve(error or _CLOSED)
        if failure is not None:
            raise failure

    def _closed_error(self) -> trio.ClosedResourceError:
        return trio.ClosedResourceError(f'the connection to "{self._name}" was closed')

    # --- the reader's side

    def _take(self, data: bytes) -> None:
        try:
            messages = read_line(data, batches=self._handlers.takes_batches)
        except ProtocolError as error:
            self._take_invalid(data, error)
            return
        for message in messages:
            if message.is_plain_answer:  # nearly all are
                call = self._pending.resolve(message.id)
                if call is not None:
                    call.resolve(message.result_kept)
            elif message.method is None or (message.is_answer and self._pending.is_waiting(message.id)):
                self._answered(message, data)
            elif isinstance(message.id, int | str):
                self._handlers.on_request(message.id, message.method, bytes(message.params))
            elif message.id is not None or (self._handlers.on_invalid is not None and has_id(data)):
                self._take_invalid(data)  # basic: "Requests MUST include a string or integer ID"
            elif message.method == "notifications/progress":
                self._progressed(bytes(message.params))
            else:
                self._handlers.on_notification(message.method, bytes(message.params))

    def _answered(self, message: Line, data: bytes) -> None:
        error = message.error_bytes
        result = message.result_kept
        if message.id is not None:
            if not result and error is None and not self._pending.is_waiting(message.id):
                self._take_invalid(data)
                return
            call = self._pending.resolve(message.id)
        elif error is not None and isinstance(read_error(error), RequestError):
            # basic: the id of an error is left out when the request's id could not be read.
            call = self._pending.resolve_only(lambda waiting: not waiting.long_lived)
        else:
            self._take_invalid(data)
            return
        if call is None:
            return
        if error is not None:
            call.resolve(read_error(error))
        elif result:
            call.resolve(result)
        else:
            call.resolve(ProtocolError("an answer with neither result nor error", data))

    def _progressed(self, params: bytes) -> None:
        token = progress_token(params)
        if token is UNREADABLE:
            self._invalid.warn_once("notifications/progress", "progress without a token that could be read")
        call = self._by_token.get(as_number(token))
        if call is not None and call.answer is None:
            call.advance(params)

    def _take_invalid(self, data: bytes, error: ProtocolError | None = None) -> None:
        """Skip a line that is no message; where it is the remains of an answer to a call, that call fails."""
        self._invalid.skipped += 1
        if not data.strip():
            return
        id_ = salvage_answer_id(data) if error is not None and data.lstrip()[:1] == b"{" else None
        if error is not None and self._pending.is_waiting(id_):
            call = self._pending.resolve(id_)
            assert call is not None
            call.resolve(ProtocolError(f"an answer that cannot be read: {error.reason}", data))
            return
        if self._handlers.on_invalid is not None:
            self._handlers.on_invalid(data)
            return
        self._invalid.skip(data)
