"""The body of one POST as JSON-RPC messages, or the refusal of a body that holds no message. No I/O."""

from __future__ import annotations

from typing import Any, Literal

import attrs
import msgspec
from msgspec import Raw

from ...errors import ProtocolError, RequestError
from ...protocol.messages import PARSE_ERROR, Id, Line, decode_json, has_id, is_id, read_line, reencode_json
from ..feature import FeatureTable
from ..limits import DEFAULT_LIMITS, ServerLimits
from ..params import Params, ParamsReader, read_meta
from .asgi import Refusal
from .errors import invalid, refusal

#: A larger integer is no id that every client could read back.
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


def read_post(
    body: bytes, features: FeatureTable, limits: ServerLimits = DEFAULT_LIMITS
) -> tuple[list[Incoming], bool]:
    """The messages of a body, with the params decoded as their methods want, and whether they are a batch.

    Raises:
        Refusal: with 400, where it is no message.
    """
    is_batch = body.lstrip()[:1] == b"["
    if len(body) > limits.max_odd_json:
        _check_plain(body, is_batch)
    try:
        if is_batch:
            return [_incoming(data, features, limits) for data in _elements(body, limits.max_batch)], True
        return [_incoming(body, features, limits)], False
    except (ProtocolError, RecursionError):
        raise _reject_invalid(body) from None


def _check_plain(body: bytes, is_batch: bool) -> None:
    try:
        (_decode_batch if is_batch else _decode_line)(body)
    except msgspec.ValidationError:
        raise invalid("Invalid Request") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise refusal(400, None, RequestError(PARSE_ERROR, "Parse error")) from None


def _elements(body: bytes, max_batch: int) -> list[bytes]:
    """The messages of a batch, each encoded."""
    try:
        elements = _decode_batch(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        elements = [Raw(reencode_json(element)) for element in decode_json(body)]
    if not elements:
        raise invalid("Invalid Request: an empty batch")
    if len(elements) > max_batch:
        raise invalid(f"Invalid Request: more than {max_batch} messages in a batch")
    return [bytes(element) for element in elements]


def _incoming(data: bytes, features: FeatureTable, limits: ServerLimits) -> Incoming:
    line = read_line(data, batches=_no_batches)[0]
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
        # basic: "the ID MUST NOT be null"; a message that has an id all the same wants an answer.
        if has_id(data):
            raise invalid("Invalid Request: the id is neither a string nor an integer")
        return Incoming("notification", line, line.method, None, Params())
    id_ = _usable(line.id)
    if id_ is None:
        raise invalid("Invalid Request: the id is neither a string nor an integer")
    try:
        method = features.methods.get(line.method)
        read: ParamsReader[Any] = read_meta if method is None else method.read
        params = read(bytes(line.params), max_odd_json=limits.max_odd_json)
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


def _no_batches() -> bool:
    """A batch has been taken apart already, or is refused."""
    return False
