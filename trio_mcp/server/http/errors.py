"""The refusals of HTTP requests: a status, with a JSON-RPC error as its body. No I/O."""

from __future__ import annotations

from ...errors import RequestError
from ...protocol.messages import INTERNAL_ERROR, INVALID_REQUEST, Id, answer_line
from .asgi import Headers, Refusal

#: Seconds after which a client is told to try again.
RETRY_AFTER = 1


def refusal(status: int, id_: Id | None, error: RequestError, headers: Headers = ()) -> Refusal:
    """A JSON-RPC error as an HTTP answer."""
    return Refusal(status, answer_line(id_, error), headers)


def invalid(reason: str, id_: Id | None = None) -> Refusal:
    """The refusal of a message that is not valid here."""
    return refusal(400, id_, RequestError(INVALID_REQUEST, reason))


def busy(id_: Id | None, reason: str) -> Refusal:
    """The refusal of a request that the server has no room for now."""
    return refusal(503, id_, RequestError(INTERNAL_ERROR, reason), [(b"retry-after", b"%d" % RETRY_AFTER)])


def unknown_session() -> Refusal:
    """The refusal of a session id that names none.

    2025-11-25, basic/transports: the server "MUST respond [...] with HTTP 404 Not Found".
    """
    return refusal(404, None, RequestError(INVALID_REQUEST, "the session is not known, or has ended"))
