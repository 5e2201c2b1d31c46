"""Requests of the modern era over HTTP: each stands by itself, in a cancel scope of its own.

Nothing is kept between them, so that any process may serve any of them. A client that disconnects has cancelled
its request. The table of features says which headers a request must have, and what it counts as.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import trio

from ...errors import RequestError
from ...protocol.headers import (
    METHOD,
    NAME,
    PROTOCOL_VERSION,
    decode_value,
    same_value,
)
from ...protocol.messages import (
    HEADER_MISMATCH,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    MISSING_CLIENT_CAPABILITY,
    Id,
    answer_line,
    notification_line,
)
from ...protocol.revisions import LEGACY_VERSIONS, META_VERSION
from ...tools.failures import raise_unless_failure
from ..client_state import ClientState
from ..dispatch import Answering, Dispatcher, internal_error, method_not_found
from ..feature import FeatureTable, Method
from ..limits import ServerLimits
from ..params import Params, check_complete, check_served
from ..registry import ToolServer
from ..request_state import RequestState
from .asgi import DisconnectedError, HttpRequest, Refusal
from .body import Incoming
from .capacity import Capacity
from .errors import invalid, refusal
from .event_queue import EventQueue, send_events

logger: logging.Logger = logging.getLogger("trio_mcp.server")

_VERSION_HEADER = PROTOCOL_VERSION.lower()
_METHOD_HEADER = METHOD.lower()
#: The HTTP status of an error that is found after the checks; 200 for the rest.
_STATUS = {MISSING_CLIENT_CAPABILITY: 400, METHOD_NOT_FOUND: 404}


def is_modern(request: HttpRequest, params: Params) -> bool:
    """Whether a message is one of the modern era: by its metadata, or a header that names no legacy revision."""
    version = request.headers.get(_VERSION_HEADER)
    return META_VERSION in (params.meta or {}) or (version is not None and version not in LEGACY_VERSIONS)


class Modern:
    """Serves the modern era. `close` ends every subscription, with an answer."""

    def __init__(
        self,
        server: ToolServer,
        features: FeatureTable,
        capacity: Capacity,
        request_state: RequestState,
        limits: ServerLimits,
    ) -> None:
        self._server = server
        self._features = features
        self._capacity = capacity
        self._limits = limits
        self._client = ClientState(server, _announce_nothing, request_state)  # all clients of this era
        self._dispatcher = Dispatcher(self._client, features)

    def close(self) -> None:
        """End every subscription."""
        self._client.close()

    async def post(self, request: HttpRequest, incoming: Incoming, principal: Any) -> None:
        """Serve one message.

        Raises:
            Refusal: it is not served, and why.
            DisconnectedError: the client has gone.
        """
        if incoming.kind == "answer":
            raise invalid("Invalid Request: nothing was asked")
        if incoming.kind == "notification":
            await request.respond(202)
            return
        id_ = incoming.id
        assert id_ is not None
        method = self._check(request, id_, incoming.method, incoming.params)
        is_stream = method.counts_as == "stream"
        self._capacity.check(id_, calls=int(method.counts_as == "call"), streams=int(is_stream))
        if is_stream and not request.takes_events:
            raise refusal(406, id_, RequestError(INVALID_REQUEST, "a subscription is a text/event-stream"))
        peer = _Peer(principal, EventQueue(self._limits) if request.takes_events else None)
        answer = self._dispatcher.begin_checked(id_, method.name, incoming.params, peer, "modern")
        if isinstance(answer, bytes | RequestError):
            await request.respond(_status(answer), answer_line(id_, answer))
        elif is_stream:
            with self._capacity.stream():
                await self._carry_out(request, id_, answer, peer)
        else:
            self._capacity.begin_call()
            try:
                await self._carry_out(request, id_, answer, peer)
            finally:
                self._capacity.end_call()

    async def _carry_out(self, request: HttpRequest, id_: Id, answering: Answering, peer: _Peer) -> None:
        answer: bytes | RequestError = internal_error()
        sent = trio.Event()
        try:
            async with trio.open_nursery() as nursery:
                scope = nursery.cancel_scope

                async def stream(queue: EventQueue) -> None:
                    try:
                        await send_events(request, queue)
                        sent.set()
                    except DisconnectedError:
                        scope.cancel()

                # streamable-http: "closing the SSE response stream" is how a client cancels its request.
                nursery.start_soon(request.cancel_when_gone, scope)
                peer.stream_by(lambda queue: nursery.start_soon(stream, queue))
                answer = await answering()
                if peer.end(answer_line(id_, answer)):
                    await sent.wait()
                scope.cancel()
        except BaseException as error:
            if not isinstance(error, Exception):
                await raise_unless_failure(error)
            # An exception beside a cancel comes in one group with it, which only the nursery takes apart.
            logger.exception("a call failed while it was cancelled")
        finally:
            peer.stop_sending()
        if not request.is_gone and not request.has_begun:
            await request.respond(_status(answer), answer_line(id_, answer))

    # --- the checks, in the order of the specification

    def _check(self, request: HttpRequest, id_: Id, name: str, params: Params) -> Method[Any]:
        meta = params.meta or {}
        version = request.headers.get(_VERSION_HEADER)
        if version is None:
            raise _mismatch(id_, f"the {PROTOCOL_VERSION} header is missing")
        try:
            check_complete(meta)
            # "the server MUST reject requests where the header and the body disagree", whatever they say.
            if version != meta[META_VERSION]:
                raise _mismatch(id_, f"the {PROTOCOL_VERSION} header is not params._meta's revision")
            check_served(meta)
        except RequestError as error:
            raise refusal(400, id_, error) from None
        if request.headers.get(_METHOD_HEADER) != name:
            raise _mismatch(id_, f"the {METHOD} header is not the method")
        method = self._features.methods.get(name)
        if method is None or method.modern is None:
            raise refusal(404, id_, method_not_found(name))
        self._check_repeated(request, id_, method, params)
        return method

    def _check_repeated(self, request: HttpRequest, id_: Id, method: Method[Any], params: Params) -> None:
        """Check the headers that repeat params of the method."""
        if method.mcp_name is not None:
            named, said = method.mcp_name(params), _header(request, id_, NAME)
            if said != named and isinstance(named, str):  # else the handler refuses the params
                raise _mismatch(id_, f"the {NAME} header is not the name in params")
        for header, value in method.header_params(self._server, params):
            if value is None:
                if header.lower() in request.headers:
                    raise _mismatch(id_, f"the {header} header has no argument")
            elif not same_value(_header(request, id_, header), value):
                raise _mismatch(id_, f"the {header} header is not the argument")


def _header(request: HttpRequest, id_: Id, name: str) -> str:
    text = request.headers.get(name.lower())
    if text is None:
        raise _mismatch(id_, f"the {name} header is missing")
    try:
        return decode_value(text)
    except ValueError as error:
        raise _mismatch(id_, f"the {name} header has {error}") from None


class _Peer:
    """The way back to the client of one request: a stream of events, which begins with the first notification."""

    def __init__(self, principal: Any, queue: EventQueue | None) -> None:
        self.principal = principal
        self._queue = queue
        self._stream: Callable[[EventQueue], None] | None = None
        self._streams = False

    def notify(self, method: str, params: bytes, *, once: bool = False) -> None:
        if self._queue is not None:
            self._queue.put(notification_line(method, params), once=once)
            self._begin()

    async def ask(self, method: str, params: bytes) -> bytes:
        raise NotImplementedError("in this era clients are asked by the answer")

    def stream_by(self, stream: Callable[[EventQueue], None]) -> None:
        """Set how the queue is sent, once it has a message."""
        self._stream = stream
        self._begin()

    def end(self, line: bytes) -> bool:
        """Send the answer as an event, if there is a stream of events; whether there is."""
        if self._queue is None or not self._streams:
            return False
        self._queue.put(line, droppable=False)
        self._queue.close()
        return True

    def stop_sending(self) -> None:
        """Drop further notifications: a task of the tool may outlive its call."""
        self._queue = None

    def _begin(self) -> None:
        if self._queue and self._stream is not None and not self._streams:
            self._streams = True
            self._stream(self._queue)


def _status(answer: bytes | RequestError) -> int:
    return 200 if isinstance(answer, bytes) else _STATUS.get(answer.code, 200)


def _mismatch(id_: Id, reason: str) -> Refusal:
    return refusal(400, id_, RequestError(HEADER_MISMATCH, reason))


def _announce_nothing(method: str, params: bytes) -> None:
    """Clients of this era are told only of what they subscribe to."""
