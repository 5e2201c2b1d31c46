"""Requests of the modern era over HTTP: each stands by itself, in a cancel scope of its own.

Nothing is kept between them, so that any process may serve any of them. Who hangs up has cancelled its request.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import trio

from ...errors import ProtocolError, RequestError
from ...protocol.headers import (
    METHOD,
    NAME,
    PROTOCOL_VERSION,
    HeaderParameter,
    decode_value,
    header_parameters,
    same_value,
)
from ...protocol.messages import (
    HEADER_MISMATCH,
    INTERNAL_ERROR,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    MISSING_CLIENT_CAPABILITY,
    Id,
    answer_line,
    decode_json,
    notification_line,
)
from ...protocol.revisions import LEGACY_VERSIONS, META_VERSION
from ...tools.tool import Tool
from ..dispatch import MODERN_METHODS, Session, Work
from ..params import Params, check_complete, check_served
from ..registry import ToolServer
from .asgi import DisconnectedError, Refusal, Request
from .body import Incoming
from .errors import invalid, refusal
from .event_queue import EventQueue, send_events
from .limits import Load

logger = logging.getLogger("trio_mcp.server")

_VERSION_HEADER = PROTOCOL_VERSION.lower()
#: What an error that is found after the checks is as a status; 200 for the rest.
_STATUS = {MISSING_CLIENT_CAPABILITY: 400, METHOD_NOT_FOUND: 404}


def is_modern(request: Request, params: Params) -> bool:
    """Whether a message is one of the modern era: it says so, or names a revision that is none of the others."""
    version = request.headers.get(_VERSION_HEADER)
    return META_VERSION in (params.meta or {}) or (version is not None and version not in LEGACY_VERSIONS)


class Modern:
    """Serves the modern era. `close` ends every subscription, with an answer."""

    def __init__(self, server: ToolServer, load: Load, signing_key: bytes | None) -> None:
        self._server = server
        self._load = load
        self._session = Session(server, _to_nobody, signing_key=signing_key)
        self._parameters: dict[str, tuple[Tool, tuple[HeaderParameter, ...]]] = {}

    def close(self) -> None:
        """End every subscription."""
        self._session.close()

    async def post(self, request: Request, incoming: Incoming, principal: Any) -> None:
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
        assert incoming.id is not None
        self._check(request, incoming.id, incoming.method, incoming.params)
        is_call = incoming.method == "tools/call"
        listens = incoming.method == "subscriptions/listen"
        self._load.check(incoming.id, calls=int(is_call), streams=int(listens))
        if listens and not request.takes_events:
            error = RequestError(INVALID_REQUEST, "a subscription is a text/event-stream")
            raise refusal(406, incoming.id, error)
        peer = _Peer(principal, EventQueue() if request.takes_events else None)
        work: bytes | Work | RequestError
        try:
            work = self._session.begin_checked(incoming.id, incoming.method, incoming.params, peer, "modern")
        except RequestError as error:
            work = error
        if isinstance(work, bytes | RequestError):
            await request.respond(_status(work), answer_line(incoming.id, work))
        elif is_call:
            self._load.begin_call()
            try:
                await self._carry_out(request, incoming.id, work, peer)
            finally:
                self._load.end_call()
        else:
            with self._load.stream():
                await self._carry_out(request, incoming.id, work, peer)

    async def _carry_out(self, request: Request, id_: Id, work: Work, peer: _Peer) -> None:
        answer: bytes | RequestError = RequestError(INTERNAL_ERROR, "internal error")
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
                try:
                    answer = await work()
                except RequestError as error:
                    answer = error
                if peer.end(answer_line(id_, answer)):
                    await sent.wait()
                scope.cancel()
        except Exception:
            # What goes wrong beside a cancel comes in one group with it, which only the nursery takes apart.
            logger.exception("a call failed while it was cancelled")
        finally:
            peer.leave()
        if not request.is_gone and not request.has_begun:
            await request.respond(_status(answer), answer_line(id_, answer))

    # --- the checks, in the order of the specification

    def _check(self, request: Request, id_: Id, method: str, params: Params) -> None:
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
        if request.headers.get(METHOD.lower()) != method:
            raise _mismatch(id_, f"the {METHOD} header is not the method")
        if method not in MODERN_METHODS:
            raise refusal(404, id_, RequestError(METHOD_NOT_FOUND, f"Method not found: {method[:100]}"))
        if method == "tools/call":
            self._check_call(request, id_, params)

    def _check_call(self, request: Request, id_: Id, params: Params) -> None:
        if self._header(request, id_, NAME) != params.name and isinstance(params.name, str):
            raise _mismatch(id_, f"the {NAME} header is not params.name")
        tool = self._server.find(params.name) if isinstance(params.name, str) else None
        if tool is None or not (parameters := self._parameters_of(tool)):
            return
        arguments = _arguments(params)
        for parameter in parameters:
            value: Any = arguments
            for step in parameter.path:
                value = value.get(step) if isinstance(value, dict) else None
            if value is None:
                if parameter.header.lower() in request.headers:
                    raise _mismatch(id_, f"the {parameter.header} header has no argument")
            elif not same_value(self._header(request, id_, parameter.header), value):
                raise _mismatch(id_, f"the {parameter.header} header is not the argument")

    def _header(self, request: Request, id_: Id, name: str) -> str:
        text = request.headers.get(name.lower())
        if text is None:
            raise _mismatch(id_, f"the {name} header is missing")
        try:
            return decode_value(text)
        except ValueError as error:
            raise _mismatch(id_, f"the {name} header has {error}") from None

    def _parameters_of(self, tool: Tool) -> tuple[HeaderParameter, ...]:
        known = self._parameters.get(tool.name)
        if known is None or known[0] is not tool:
            try:
                known = tool, header_parameters(tool.input_schema)
            except ValueError:  # no client of this era uses such a tool, and none can know its headers
                known = tool, ()
            self._parameters[tool.name] = known
        return known[1]


class _Peer:
    """The way back to the client of one request: events, from the first that there is."""

    def __init__(self, principal: Any, queue: EventQueue | None) -> None:
        self.principal = principal
        self._queue = queue
        self._stream: Callable[[EventQueue], None] | None = None
        self._streams = False

    def notify(self, method: str, params: bytes) -> None:
        if self._queue is not None:
            is_change = method == "notifications/tools/list_changed"
            self._queue.put(notification_line(method, params), once=is_change)
            self._begin()

    async def ask(self, method: str, params: bytes) -> bytes:
        raise NotImplementedError("in this era clients are asked by the answer")

    def stream_by(self, stream: Callable[[EventQueue], None]) -> None:
        """How events are sent, once there are some."""
        self._stream = stream
        self._begin()

    def end(self, line: bytes) -> bool:
        """The answer: whether it is sent as an event."""
        if self._queue is None or not self._streams:
            return False
        self._queue.put(line, droppable=False)
        self._queue.close()
        return True

    def leave(self) -> None:
        """Nothing more is heard, whatever a task says that has outlived its call."""
        self._queue = None

    def _begin(self) -> None:
        if self._queue and self._stream is not None and not self._streams:
            self._streams = True
            self._stream(self._queue)


def _arguments(params: Params) -> Any:
    """The arguments of a call, decoded; None where nothing can read them."""
    try:
        return decode_json(bytes(params.arguments) or b"{}")
    except ProtocolError:
        return None


def _status(answer: bytes | RequestError) -> int:
    return 200 if isinstance(answer, bytes) else _STATUS.get(answer.code, 200)


def _mismatch(id_: Id, reason: str) -> Refusal:
    return refusal(400, id_, RequestError(HEADER_MISMATCH, reason))


def _to_nobody(method: str, params: bytes) -> None:
    """Clients of this era hear only what they have asked for."""
