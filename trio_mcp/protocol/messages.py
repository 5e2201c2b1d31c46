"""The JSON-RPC envelope: read one line, write one line. No I/O, and no knowledge of MCP's methods.

Reading is done in two steps, by two tasks. The task that reads the stream decodes only the envelope (`Line`):
`params`, `result` and `error` stay raw bytes, which costs a memory scan and no objects. The task that waits for
an answer decodes its own. Both use msgspec first; JSON that msgspec refuses goes once through the standard
library, which is slower and accepts more (NaN, lone surrogates, a byte order mark, bytes that are no UTF-8).
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Sequence
from typing import Any, TypeGuard

import msgspec
from msgspec import Raw

from ..errors import ProtocolError, RequestError

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
HEADER_MISMATCH = -32020
MISSING_CLIENT_CAPABILITY = -32021
UNSUPPORTED_PROTOCOL_VERSION = -32022

Id = int | str
#: Encoded JSON, which may be in pieces: a large piece is not copied only to put a few bytes around it.
Encoded = bytes | tuple[bytes, ...]
#: JSON as it came. A Raw is a part of its line that has not been copied out of it.
Undecoded = bytes | Raw
#: In bytes: a longer text is not copied, for that would be the third copy of something large.
SHORT = 64 * 1024
#: Stands for a member that is not there.
ABSENT = Raw()

# The escapes of JSON text: pairs of surrogates, halves of such pairs, all others.
_ESCAPES = re.compile(rb"\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]..|(?P<half>u[dD][89a-fA-F]..)|.)")

# What msgspec raises for input that it refuses.
_REFUSALS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class Line(msgspec.Struct):
    """One message as it came: a request, a notification or an answer, with undecoded contents.

    An absent member is None or empty. An id may be a float: 1.0 equals, and hashes like, our 1.
    """

    id: int | str | float | None = None
    method: str | None = None
    params: Raw = ABSENT
    result: Raw = ABSENT
    error: Raw = ABSENT

    @property
    def is_plain_answer(self) -> bool:
        """Whether this is a result with an integer id, as we give them, and nothing else."""
        return self.method is None and self.error is ABSENT and self.result is not ABSENT and type(self.id) is int

    @property
    def is_answer(self) -> bool:
        """Whether this has a result or an error: JSON that a server logs on stdout has neither."""
        return self.result is not ABSENT or self.error_bytes is not None

    @property
    def error_bytes(self) -> bytes | None:
        """The error, undecoded. `"error": null` beside a result is no error: JSON-RPC 1 wrote it so."""
        if self.error is ABSENT:
            return None
        found = bytes(self.error)
        return None if found == b"null" else found

    @property
    def result_kept(self) -> Undecoded:
        """The result, to be kept: a long one stays a part of its line, which is hardly longer."""
        return self.result if len(memoryview(self.result)) > SHORT else bytes(self.result)


_decode_line = msgspec.json.Decoder(Line).decode
_decode_any = msgspec.json.Decoder().decode
_check_json = msgspec.json.Decoder(Raw).decode
encode_json: Callable[[Any], bytes] = msgspec.json.Encoder().encode


def decode_json(data: Undecoded) -> Any:
    """Decode JSON as widely as Python can: msgspec first, then the standard library.

    Integers are exact; NaN and Infinity become floats; bytes that are no UTF-8 become U+FFFD.

    Raises:
        ProtocolError: neither can read it; the sender is at fault.
    """
    try:
        return _decode_any(data)
    except (*_REFUSALS, msgspec.ValidationError):
        data = bytes(data)
    try:
        return json.loads(data.decode("utf-8-sig", errors="replace"))
    except RecursionError:
        raise ProtocolError("JSON nested too deeply", data) from None
    except ValueError as error:
        raise ProtocolError(f"no JSON: {error}", data) from None


def check_json(data: bytes) -> None:
    """Check that this is JSON; nothing is built.

    Raises:
        msgspec.DecodeError: it is none, or JSON that only Python reads (NaN).
    """
    _check_json(data)


def encode_any(value: Any) -> bytes:
    """Encode a value that came from a peer: it may have lone surrogates, which msgspec does not write."""
    try:
        return encode_json(value)
    except UnicodeEncodeError:
        return reencode_json(value)


def reencode_json(value: Any) -> bytes:
    """Encode what `decode_json` gave, NaN and lone surrogates included: the inverse of its wide path."""
    return json.dumps(value, separators=(",", ":")).encode("ascii")


def one_line(data: bytes) -> bytes:
    """JSON on one line: in strings line ends are escaped, so any others stand between tokens."""
    return data.replace(b"\n", b" ").replace(b"\r", b" ") if b"\n" in data or b"\r" in data else data


def without_halves(data: bytes) -> bytes:
    r"""JSON in which each half of a surrogate pair is U+FFFD, and every other byte as it was.

    A server that cuts a text in the middle of an emoji sends such; official clients drop the whole line over it.

    >>> without_halves(rb'["\ud83d\ude00", "\ud83d", "\\ud83d"]')
    b'["\\ud83d\\ude00", "\\ufffd", "\\\\ud83d"]'
    """
    if b"\\ud" not in data and b"\\uD" not in data:
        return data
    try:
        _check_json(data)  # twenty times as quick, where all pairs are whole
    except _REFUSALS:
        return _ESCAPES.sub(lambda found: rb"\ufffd" if found["half"] else found[0], data)
    return data


def is_id(value: object) -> TypeGuard[Id]:
    """Whether a decoded value may be an id, or a progress token: a string or an integer.

    >>> [is_id(value) for value in ("a", 7, True, 7.0, None)]
    [True, True, False, False, False]
    """
    return isinstance(value, int | str) and not isinstance(value, bool)


def read_line(data: bytes, *, batches: Callable[[], bool] = lambda: True) -> Sequence[Line]:
    """Read one line: usually one message; several only where a peer sent a batch, and may (`batches`).

    Raises:
        ProtocolError: the line is no message. It costs only itself.
    """
    try:
        return (_decode_line(data),)
    except _REFUSALS:  # ValidationError is a DecodeError
        pass
    try:
        return _read_widely(data, batches())
    except RecursionError:  # what could just be decoded may be too deep to be encoded again
        raise ProtocolError("JSON nested too deeply", data) from None


def has_id(data: bytes) -> bool:
    """Whether a line that reads as a notification has an id after all, an illegal one: null, true, an object."""
    return b'"id"' in data and "id" in decode_json(data)


def read_error(data: bytes) -> RequestError | ProtocolError:
    """The error that an answer carries, as the exception to raise; ProtocolError when it is none itself."""
    try:
        found = decode_json(data)
    except ProtocolError as error:
        return error
    code = found.get("code") if isinstance(found, dict) else None
    if not isinstance(code, int) and not (isinstance(code, float) and math.isfinite(code)):
        return ProtocolError("the error of an answer is no JSON-RPC error", data)
    message = found.get("message")
    return RequestError(int(code), message if isinstance(message, str) else "", found.get("data"))


def joined(encoded: Encoded) -> bytes:
    """The same JSON in one piece."""
    return encoded if isinstance(encoded, bytes) else b"".join(encoded)


def request_line(id: int, method: str, params: Encoded) -> bytes:  # noqa: A002 - the protocol's word
    """One request as a line; `params` are encoded already, so that raw arguments pass untouched."""
    head = b'{"jsonrpc":"2.0","id":%d,"method":%b,"params":' % (id, encode_json(method))
    return b"".join((head, params, b"}\n") if isinstance(params, bytes) else (head, *params, b"}\n"))


def request_pieces(id: int, method: str, params: Encoded) -> Encoded:  # noqa: A002 - the protocol's word
    """One request as `request_line` gives it, but in pieces where the params are long and come in pieces."""
    if isinstance(params, bytes) or sum(map(len, params)) <= SHORT:
        return request_line(id, method, params)
    first, *others = params
    return (request_line(id, method, first).removesuffix(b"}\n"), *others, b"}\n")


def notification_line(method: str, params: bytes | None = None) -> bytes:
    """One notification as a line."""
    if params is None:
        return b'{"jsonrpc":"2.0","method":%b}\n' % encode_json(method)
    return b'{"jsonrpc":"2.0","method":%b,"params":%b}\n' % (encode_json(method), params)


def answer_line(id: Id | None, answer: bytes | RequestError) -> bytes:  # noqa: A002 - the protocol's word
    """One answer as a line: the encoded result, or the error. Without an id where none could be read (basic)."""
    head = b'{"jsonrpc":"2.0",' if id is None else b'{"jsonrpc":"2.0","id":%b,' % encode_any(id)
    if isinstance(answer, bytes):
        return b'%b"result":%b}\n' % (head, answer)
    error = {"code": answer.code, "message": answer.message}
    if answer.data is not None:
        error["data"] = answer.data
    return b'%b"error":%b}\n' % (head, encode_any(error))


# An answer as SDKs write it: its id stands before the result (or error), or behind it; the version is near by.
_PARTS = {
    b"version": rb"""\s*"jsonrpc"\s*:\s*"2\.0"\s*""",
    b"id": rb"""\s*"id"\s*:\s*(-?\d+|"[^"\\]*")\s*""",
    b"outcome": rb"""\s*"(?:result|error)"\s*:""",
}
_ID_FIRST = re.compile(rb"\s*\{(?:%(version)b,)?%(id)b,(?:%(version)b,)?%(outcome)b" % _PARTS)
_OUTCOME_FIRST = re.compile(rb"\s*\{(?:%(version)b,)?%(outcome)b" % _PARTS)
_ID_LAST = re.compile(rb",(?:%(version)b,)?%(id)b(?:,%(version)b)?\}\s*\Z" % _PARTS)
# A string, to the end of the line where it is never closed. Possessive: looking for its end again is quadratic.
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*+"?', re.DOTALL)
#: How much of each end of a broken line is looked at: the reader must not be held up by what is broken anyway.
_LOOKED_AT = 512


def salvage_answer_id(data: bytes) -> Id | None:
    """The id of an answer that cannot be read: cut off, nested too deeply, with a raw control character in a text.

    So its call fails at once, instead of waiting for ever. None where no id is surely the line's own: a result may
    have members of that name.

    >>> salvage_answer_id(b'{"jsonrpc":"2.0","id":7,"result":{"text":"cut o')
    7
    """
    found = _ID_FIRST.match(data, 0, _LOOKED_AT)
    seen = b"" if found is None else found[0]
    if found is None and (head := _OUTCOME_FIRST.match(data, 0, _LOOKED_AT)):
        found = _ID_LAST.search(data, max(0, len(data) - _LOOKED_AT))
        seen = head[0] if found is None else head[0] + found[0]
        between = _STRING.sub(b"", data)
        if between.count(b"{") != between.count(b"}"):  # cut behind an object of the result
            return None
    if found is None or b'"jsonrpc"' not in seen:
        return None
    try:
        id_ = _decode_any(found[1])
    except _REFUSALS:
        return None
    return id_ if is_id(id_) else None


def _read_widely(data: bytes, batches: bool) -> list[Line]:
    value = decode_json(data)
    elements = value if isinstance(value, list) and batches else [value]
    if not elements or not all(isinstance(element, dict) for element in elements):
        raise ProtocolError("a line that is no JSON-RPC message", data)
    return [_line_of(element) for element in elements]


def _line_of(members: dict[str, Any]) -> Line:
    method = members.get("method")
    if method is not None and not isinstance(method, str):
        raise ProtocolError("the method of a message is no string", reencode_json(members))
    id_ = members.get("id")
    raw = {name: Raw(reencode_json(members[name])) for name in ("params", "result", "error") if name in members}
    usable = isinstance(id_, int | str | float) and not isinstance(id_, bool)
    return Line(id=id_ if usable else None, method=method, **raw)
