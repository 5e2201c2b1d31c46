"""The body of one POST as JSON-RPC: the messages in it, and what is refused because it is none. No I/O."""

from __future__ import annotations

from typing import Any, Literal

import attrs
import msgspec
from msgspec import Raw

from ...errors import ProtocolError, RequestError
from ...protocol.messages import PARSE_ERROR, Id, Line, decode_json, has_id, is_id, read_line, reencode_json
from ..params import Params, read_params
from .asgi import Refusal
from .errors import invalid, refusal

#: Messages in one batch at most (2025-03-26): each may be a call.
LONGEST_BATCH = 100
#: Bytes of a body that may be odd JSON, with NaN or halves of characters. Reading that takes fifty times as long
#: as JSON that is none: 16 MiB of it from a stranger would hold up everybody else for eight seconds.
LARGEST_ODD = 2**20
#: Beyond, an integer cannot be written as an id by everybody.
_LARGEST_ID = 2**63 - 1


class _Versioned(msgspec.Struct):
    jsonrpc: Any = None


_decode_versioned = msgspec.json.Decoder(_Versioned).decode
_decode_line = msgspec.json.Decoder(Line).decode
_decode_batch = msgspec.json.Decoder(list[Raw]).decode

Kind = Literal["request", "notification", "answer"]


@attrs.frozen
class Incoming:
    """One message. `id` is None but for requests; `params` are those of a request, and empty otherwise."""

    kind: Kind
    line: Line
    method: str
    id: Id | None
    params: Params


def read_post(body: bytes) -> tuple[list[Incoming], bool]:
    """The messages of a body, and whether they are a batch.

    Raises:
        Refusal: with 400, where it is no message.
    """
    is_batch = body.lstrip()[:1] == b"["
    if len(body) > LARGEST_ODD:
        _check_plain(body, is_batch)
    try:
        if is_batch:
            return _batch(body), True
        return [_incoming(read_line(body, batches=_none_here)[0], body)], False
    except (ProtocolError, RecursionError):
        raise _reject_invalid(body) from None


def _check_plain(body: bytes, is_batch: bool) -> None:
    try:
        (_decode_batch if is_batch else _decode_line)(body)
    except msgspec.ValidationError:
        raise invalid("Invalid Request") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise refusal(400, None, RequestError(PARSE_ERROR, "Parse error")) from None


def _batch(body: bytes) -> list[Incoming]:
    try:
        elements = _decode_batch(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        elements = [Raw(reencode_json(element)) for element in decode_json(body)]
    if not elements:
        raise invalid("Invalid Request: an empty batch")
    if len(elements) > LONGEST_BATCH:
        raise invalid(f"Invalid Request: more than {LONGEST_BATCH} messages in a batch")
    encoded = [bytes(element) for element in elements]
    return [_incoming(read_line(data, batches=_none_here)[0], data) for data in encoded]


def _incoming(line: Line, data: bytes) -> Incoming:
    # JSON-RPC 2.0: "jsonrpc: A String specifying the version of the JSON-RPC protocol. MUST be exactly "2.0"."
    if _version_of(data) != "2.0":
        raise invalid("Invalid Request: jsonrpc is not 2.0", _usable(line.id))
    if line.method is None:
        if not line.is_answer:
            raise invalid("Invalid Request: neither a method nor a result", _usable(line.id))
        return Incoming("answer", line, "", None, Params())
    if line.is_answer:
        raise invalid("Invalid Request: both a method and a result", _usable(line.id))
    if line.id is None:
        # basic: "the ID MUST NOT be null"; what has an id all the same wants an answer.
        if has_id(data):
            raise invalid("Invalid Request: the id is neither a string nor an integer")
        return Incoming("notification", line, line.method, None, Params())
    id_ = _usable(line.id)
    if id_ is None:
        raise invalid("Invalid Request: the id is neither a string nor an integer")
    try:
        params = read_params(bytes(line.params), largest_odd=LARGEST_ODD)
    except RequestError as error:
        raise refusal(400, id_, error) from None
    return Incoming("request", line, line.method, id_, params)


def _version_of(data: bytes) -> Any:
    try:
        return _decode_versioned(data).jsonrpc
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return decode_json(data).get("jsonrpc")  # it has been read as an object before


def _usable(id_: Any) -> Id | None:
    if not is_id(id_) or (isinstance(id_, int) and abs(id_) > _LARGEST_ID):
        return None
    return id_


def _reject_invalid(body: bytes) -> Refusal:
    try:
        value = decode_json(body)
    except (ProtocolError, RecursionError):
        return refusal(400, None, RequestError(PARSE_ERROR, "Parse error"))
    return invalid("Invalid Request", _usable(value.get("id")) if isinstance(value, dict) else None)


def _none_here() -> bool:
    """Batches have been taken apart already, or are refused."""
    return False
