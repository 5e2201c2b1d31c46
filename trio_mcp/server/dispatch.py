"""One request in, one answer out, in both eras. Looks methods up in a table, and knows none itself.

A request that carries the metadata of the modern era is judged by that alone; without it the client must have
begun with `initialize` (legacy). Both may be mixed on one stream.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from ..errors import RequestError
from ..protocol.messages import INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, Id
from ..protocol.revisions import META_VERSION, Era
from ..tools.failures import raise_unless_failure
from .client_state import ClientState
from .feature import FeatureTable, Method, Peer, Request, Work
from .params import Params, check_modern, read_meta

logger: logging.Logger = logging.getLogger("trio_mcp.server")

#: What is left to be awaited for a request: gives the answer, and raises nothing but a cancel.
Answering = Callable[[], Awaitable[bytes | RequestError]]

#: The one revision in which a client may send several messages as one (basic, "Batching").
_WITH_BATCHES = "2025-03-26"


class Dispatcher:
    """Carries out the requests of one client, or of all modern ones, with the features of a table."""

    def __init__(self, client: ClientState, features: FeatureTable) -> None:
        self.client = client
        self._features = features
        self._methods = features.methods

    def __repr__(self) -> str:
        return f"<Dispatcher for {self.client!r}>"

    @property
    def takes_batches(self) -> bool:
        """Whether this client may send an array of messages."""
        return self.client.version == _WITH_BATCHES

    def notified(self, method: str, params: bytes) -> None:
        """The client has sent a notification."""
        self._features.notified(self.client, method, params)

    def begin(self, id_: Id, method: str, params: bytes, peer: Peer) -> bytes | RequestError | Answering:
        """Begin to carry out a request: the answer, or what has to be awaited for it.

        Does not block. What a request changes in the client's state it changes here, in the order of the wire: a
        client may send its calls right behind `initialize`.
        """
        try:
            entry = self._methods.get(method)
            found = (read_meta if entry is None else entry.read)(params)
            if found.meta is not None and META_VERSION in found.meta:
                check_modern(found.meta)
                return self._begin(id_, method, entry, found, peer, "modern")
            return self._begin(id_, method, entry, found, peer, "legacy")
        except Exception as error:  # noqa: BLE001 - becomes the answer
            return _as_answer(method, error)

    def begin_checked(
        self, id_: Id, method: str, params: Params, peer: Peer, era: Era
    ) -> bytes | RequestError | Answering:
        """`begin` for a caller that has read the params, and in the modern era has checked the metadata."""
        try:
            return self._begin(id_, method, self._methods.get(method), params, peer, era)
        except Exception as error:  # noqa: BLE001 - becomes the answer
            return _as_answer(method, error)

    def _begin(
        self, id_: Id, name: str, method: Method[Any] | None, params: Params, peer: Peer, era: Era
    ) -> bytes | Answering:
        client = self.client
        if client.version is None and era == "legacy" and (method is None or method.needs_initialize):
            raise RequestError(
                INVALID_PARAMS, f"params._meta lacks {META_VERSION}, and there was no initialize before"
            )
        handler = None if method is None else method.modern if era == "modern" else method.legacy
        if handler is None:
            raise method_not_found(name)
        meta = params.meta or {}
        request = Request(id_, name, era, params, meta, peer, client, client.server, self._features)
        answer = handler(request)
        return answer if isinstance(answer, bytes) else partial(_carry_out, name, answer)


async def _carry_out(method: str, work: Work) -> bytes | RequestError:
    try:
        return await work()
    except BaseException as error:  # noqa: BLE001 - becomes the answer
        if not isinstance(error, Exception):
            await raise_unless_failure(error)
        return _as_answer(method, error)


def _as_answer(method: str, error: BaseException) -> RequestError:
    """The error that the client is told: a RequestError as it is, of any other only that there was one."""
    if isinstance(error, RequestError):
        return error
    # The text of an error may hold secrets.
    logger.error("%s failed", method, exc_info=error)
    return internal_error()


def internal_error() -> RequestError:
    """The answer to a request that failed by a fault of ours."""
    return RequestError(INTERNAL_ERROR, "internal error")


def method_not_found(method: str) -> RequestError:
    """The answer to a request of a method that is not served in its era."""
    return RequestError(METHOD_NOT_FOUND, f"Method not found: {method[:100]}")
