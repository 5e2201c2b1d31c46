"""One request in, one answer out, in both eras. Knows no transport: what carries its words is a `Peer`.

A `Session` is one client. A request that carries the metadata of the modern era is judged by that alone; without
it the session must have begun with `initialize` (legacy). Both may be mixed on one stream.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import trio

from ..errors import InvalidArgumentsError, ProtocolError, RequestError
from ..models.result import ToolResult
from ..protocol.messages import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    MISSING_CLIENT_CAPABILITY,
    Id,
    decode_json,
    encode_any,
    encode_json,
)
from ..protocol.revisions import (
    LEGACY_VERSIONS,
    META_CAPABILITIES,
    META_CLIENT_INFO,
    META_LOG_LEVEL,
    META_SERVER_INFO,
    META_SUBSCRIPTION,
    META_VERSION,
    Era,
)
from ..tools.context import LEVELS, CallContext
from ..tools.failures import failure_text
from ..tools.tool import Tool
from .call_context import LegacyCall, ModernCall, Peer
from .params import SUPPORTED, Params, check_modern, read_params
from .registry import ToolServer
from .request_state import RequestState, digest
from .results import encode_result

logger = logging.getLogger("trio_mcp.server")

#: What is left to do for a request: gives the encoded result, or raises RequestError.
Work = Callable[[], Awaitable[bytes]]

#: What a modern client can ask for.
MODERN_METHODS = frozenset({"server/discover", "subscriptions/listen", "tools/call", "tools/list"})

_OFFERED: dict[str, Any] = {"tools": {"listChanged": True}, "logging": {}}
#: The one revision in which a client may send several messages as one (basic, "Batching").
_WITH_BATCHES = "2025-03-26"


class Session:
    """One client of a `ToolServer`.

    `announce` sends a notification that belongs to no request: legacy clients hear of list changes so.
    `signing_key` takes the place of the server's own.

    Requests of the modern era leave nothing behind in it: clients of that era may share one.
    """

    def __init__(
        self,
        server: ToolServer,
        announce: Callable[[str, bytes], None],
        *,
        signing_key: bytes | None = None,
    ) -> None:
        self._server = server
        self._announce = announce
        self._request_state = RequestState(signing_key or server.signing_key)
        self._version: str | None = None  # legacy: as agreed on in `initialize`
        self._client_info: dict[str, Any] | None = None
        self._capabilities: dict[str, Any] = {}
        self._level = "info"
        self._closing = trio.Event()

    def __repr__(self) -> str:
        return f"<Session of {self._server!r}, {self._version or 'no initialize'}>"

    @property
    def takes_batches(self) -> bool:
        """Whether this client may send an array of messages."""
        return self._version == _WITH_BATCHES

    def initialized(self) -> None:
        """The client has said that it is ready: from now on it hears of list changes."""
        if self._version is not None and not self._closing.is_set():
            self._server.listen(self, lambda: self._announce("notifications/tools/list_changed", b"{}"))

    def close(self) -> None:
        """The client will send nothing more: subscriptions end, with an answer."""
        self._server.unlisten(self)
        self._closing.set()

    def begin(self, id_: Id, method: str, params: bytes, peer: Peer) -> bytes | Work:
        """Begin to carry out a request: the encoded result, or what has to be awaited for it.

        Does not block. What a request changes in the session it changes here, in the order of the wire: a client
        may send its calls right behind `initialize`.

        Raises:
            RequestError: what the client is told instead.
        """
        with _told(method):
            found = read_params(params)
            meta = found.meta or {}
            if META_VERSION in meta:
                check_modern(meta)
                return self._begin_modern(id_, method, found, meta, peer)
            return self._begin_legacy(method, found, meta, peer)

    def begin_checked(self, id_: Id, method: str, params: Params, peer: Peer, era: Era) -> bytes | Work:
        """`begin` for whoever has read the params, and in the modern era has checked the metadata."""
        with _told(method):
            meta = params.meta or {}
            if era == "modern":
                return self._begin_modern(id_, method, params, meta, peer)
            return self._begin_legacy(method, params, meta, peer)

    def _begin_modern(
        self, id_: Id, method: str, params: Params, meta: dict[str, Any], peer: Peer
    ) -> bytes | Work:
        if method == "tools/call":
            return self._call_modern(params, meta, peer)
        if method == "tools/list":
            return self._list(params, "modern")
        if method == "subscriptions/listen":
            return self._listen(id_, params, peer)
        if method == "server/discover":
            return self._discover()
        raise _not_found(method)

    def _begin_legacy(self, method: str, params: Params, meta: dict[str, Any], peer: Peer) -> bytes | Work:
        if method == "initialize":
            return self._initialize(params)
        if method == "ping":
            return b"{}"
        if self._version is None:
            raise RequestError(
                INVALID_PARAMS, f"params._meta lacks {META_VERSION}, and there was no initialize before"
            )
        if method == "tools/call":
            call = LegacyCall(peer, meta, self._client_info, self._capabilities, self._level)
            return partial(self._finish_legacy, self._tool(params), params, call)
        if method == "tools/list":
            return self._list(params, "legacy")
        if method == "logging/setLevel":
            if params.level not in LEVELS:
                raise RequestError(INVALID_PARAMS, f"level: expected one of {', '.join(LEVELS)}")
            self._level = params.level
            return b"{}"
        raise _not_found(method)

    def _initialize(self, params: Params) -> bytes:
        # basic/lifecycle: "If the server supports the requested protocol version, it MUST respond with the same
        # version. Otherwise, the server MUST respond with another protocol version it supports."
        wanted = params.protocol_version
        if not isinstance(wanted, str):
            raise RequestError(INVALID_PARAMS, "protocolVersion: expected a string")
        self._version = wanted if wanted in LEGACY_VERSIONS else LEGACY_VERSIONS[0]
        self._client_info = params.client_info if isinstance(params.client_info, dict) else None
        self._capabilities = params.capabilities if isinstance(params.capabilities, dict) else {}
        return encode_json(
            {
                "protocolVersion": self._version,
                "capabilities": _OFFERED,
                "serverInfo": self._server.info,
                **self._instructions,
            }
        )

    def _discover(self) -> bytes:
        return encode_json(
            {
                "supportedVersions": SUPPORTED,
                "capabilities": _OFFERED,
                **self._instructions,
                "ttlMs": 0,
                "cacheScope": "private",
                **self._modern_members,
            }
        )

    def _list(self, params: Params, era: Era) -> bytes:
        if params.cursor is not None and not isinstance(params.cursor, str):
            raise RequestError(INVALID_PARAMS, "cursor: expected a string")
        page = self._server.page(params.cursor, era)
        if page is None:
            raise RequestError(INVALID_PARAMS, "cursor: not one of this server's")
        return page

    def _listen(self, id_: Id, params: Params, peer: Peer) -> Work:
        wanted = params.notifications
        if not isinstance(wanted, dict):
            raise RequestError(INVALID_PARAMS, "notifications: expected an object")
        meta = {META_SUBSCRIPTION: id_}
        accepted = {"toolsListChanged": True} if wanted.get("toolsListChanged") is True else {}
        # utilities/subscriptions: the acknowledgement is the first message of a subscription.
        peer.notify(
            "notifications/subscriptions/acknowledged", encode_any({"notifications": accepted, "_meta": meta})
        )
        key = object()
        if accepted:
            changed = encode_any({"_meta": meta})
            self._server.listen(key, lambda: peer.notify("notifications/tools/list_changed", changed))

        async def wait() -> bytes:
            try:
                await self._closing.wait()
            finally:
                self._server.unlisten(key)
            return encode_any({"resultType": "complete", "_meta": {**meta, META_SERVER_INFO: self._server.info}})

        return wait

    # --- calls

    def _tool(self, params: Params) -> Tool:
        if not isinstance(params.name, str):
            raise RequestError(INVALID_PARAMS, "name: expected a string")
        tool = self._server.find(params.name)
        if tool is None:
            raise RequestError(INVALID_PARAMS, f'unknown tool "{params.name}"')
        return tool

    async def _finish_legacy(self, tool: Tool, params: Params, call: LegacyCall) -> bytes:
        with _told("tools/call"):
            return encode_result(await self._run(tool, params, call), "legacy", self._server)

    def _call_modern(self, params: Params, meta: dict[str, Any], peer: Peer) -> Work:
        tool = self._tool(params)
        call = ModernCall(
            peer,
            meta,
            meta.get(META_CLIENT_INFO),
            meta[META_CAPABILITIES],
            meta.get(META_LOG_LEVEL),
            answers=self._answers(params, peer.principal),
            preset_answers=_given(params),
        )
        return partial(self._finish_modern, tool, params, call)

    async def _finish_modern(self, tool: Tool, params: Params, call: ModernCall) -> bytes:
        with _told("tools/call"):
            with call.scope:
                result = await self._run(tool, params, call)
            if call.missing is not None:
                raise RequestError(
                    MISSING_CLIENT_CAPABILITY,
                    f"the client does not offer {call.missing}",
                    {"requiredCapabilities": {call.missing: {}}},
                )
            if call.questions:
                return encode_any(
                    {
                        **self._modern_members,
                        "resultType": "input_required",
                        "inputRequests": call.questions,
                        "requestState": self._request_state.sign(_digest(params, call.principal), call.state),
                    }
                )
            return encode_result(result, "modern", self._server)

    def _answers(self, params: Params, principal: Any) -> dict[str, Any]:
        """The answers so far by question; None where one was asked and is not answered yet.

        Only what was asked counts (basic/patterns/mrtr: unknown keys are ignored), and only in the one call.
        """
        if params.request_state is None:
            return {}
        if not isinstance(params.request_state, str):
            raise RequestError(INVALID_PARAMS, "requestState: expected a string")
        answers = self._request_state.verify(_digest(params, principal), params.request_state)
        given = _given(params)
        for key, answer in answers.items():
            if answer is None and isinstance(given.get(key), dict):
                answers[key] = given[key]
        return answers

    async def _run(self, tool: Tool, params: Params, call: CallContext) -> ToolResult:
        """Run a tool. All its failures are results, but for arguments that are no object."""
        try:
            return await tool.run(bytes(params.arguments), call)
        except InvalidArgumentsError as error:
            if not params.has_object:
                raise RequestError(INVALID_PARAMS, str(error)) from error
            return ToolResult(str(error), is_error=True)
        except Exception as error:  # noqa: BLE001 - a remote tool's: of its connection, or of a user's `headers`
            return ToolResult(failure_text(error), is_error=True)
        except (SystemExit, BaseExceptionGroup) as error:
            # What was written for a command line ends its program. Here it would end it for every client.
            if isinstance(error, BaseExceptionGroup) and error.split((Exception, SystemExit))[1] is not None:
                raise
            return ToolResult(failure_text(error), is_error=True)

    @property
    def _instructions(self) -> dict[str, Any]:
        return {} if self._server.instructions is None else {"instructions": self._server.instructions}

    @property
    def _modern_members(self) -> dict[str, Any]:
        return {"resultType": "complete", "_meta": {META_SERVER_INFO: self._server.info}}


@contextmanager
def _told(method: str) -> Iterator[None]:
    """What goes wrong inside, as what the client is told."""
    try:
        yield
    except RequestError:
        raise
    except Exception:
        # Nothing of it goes out: an error text may hold what is not for strangers.
        logger.exception("%s failed", method)
        raise RequestError(INTERNAL_ERROR, "internal error") from None


def _not_found(method: str) -> RequestError:
    return RequestError(METHOD_NOT_FOUND, f"Method not found: {method[:100]}")


def _given(params: Params) -> dict[str, Any]:
    return params.input_responses if isinstance(params.input_responses, dict) else {}


def _digest(params: Params, principal: Any) -> str:
    """What the state of a call is bound to: the caller, the tool, and its arguments, however they are spelled."""
    arguments = bytes(params.arguments)
    caller = () if principal is None else (principal,)
    try:
        return digest("tools/call", params.name, decode_json(arguments) or {} if arguments else {}, *caller)
    except ProtocolError:
        return digest("tools/call", params.name, arguments, *caller)
