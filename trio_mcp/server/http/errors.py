"""What is refused over HTTP, and as what: a status, with an error of JSON-RPC as its body. No I/O."""

from __future__ import annotations

from ...errors import RequestError
from ...protocol.messages import INTERNAL_ERROR, INVALID_REQUEST, Id, answer_line
from .asgi import Headers, Refusal

#: Seconds after which a client is told to try again.
RETRY_AFTER = 1


def refusal(status: int, id_: Id | None, error: RequestError, headers: Headers = ()) -> Refusal:
    """An error of JSON-RPC as an answer of HTTP."""
    return Refusal(status, answer_line(id_, error), headers)


def invalid(reason: str, id_: Id | None = None) -> Refusal:
    """The refusal of what is no request that is allowed here."""
    return refusal(400, id_, RequestError(INVALID_REQUEST, reason))


def busy(id_: Id | None, reason: str) -> Refusal:
    """The refusal of what would be too much now."""
    return refusal(503, id_, RequestError(INTERNAL_ERROR, reason), [(b"retry-after", b"%d" % RETRY_AFTER)])


def unknown_session() -> Refusal:
    """2025-11-25, basic/transports: the server "MUST respond [...] with HTTP 404 Not Found"."""
    return refusal(404, None, RequestError(INVALID_REQUEST, "the session is not known, or has ended"))
