"""The params of a request, as far as anybody here reads them. Arguments stay the bytes that came."""

from __future__ import annotations

import math
from typing import Any

import msgspec
from msgspec import Raw

from ..errors import ProtocolError, RequestError
from ..protocol.messages import (
    INVALID_PARAMS,
    UNSUPPORTED_PROTOCOL_VERSION,
    Id,
    decode_json,
    is_id,
    reencode_json,
)
from ..protocol.revisions import (
    LEGACY_VERSIONS,
    META_CAPABILITIES,
    META_CLIENT_INFO,
    META_VERSION,
    MODERN_VERSIONS,
)

#: Every revision that is served, the newest first.
SUPPORTED = [*MODERN_VERSIONS, *LEGACY_VERSIONS]


class Params(msgspec.Struct):
    """The members of the params of any request that is served."""

    meta: dict[str, Any] | None = msgspec.field(default=None, name="_meta")
    name: Any = None
    arguments: Raw = Raw()
    cursor: Any = None
    level: Any = None
    notifications: Any = None
    input_responses: Any = msgspec.field(default=None, name="inputResponses")
    request_state: Any = msgspec.field(default=None, name="requestState")
    protocol_version: Any = msgspec.field(default=None, name="protocolVersion")
    capabilities: Any = None
    client_info: Any = msgspec.field(default=None, name="clientInfo")

    @property
    def has_object(self) -> bool:
        """Whether the arguments are an object, or absent, or null: what a tool can be called with."""
        arguments = bytes(self.arguments)
        return not arguments or arguments[:1] == b"{" or arguments == b"null"


_decode = msgspec.json.Decoder(Params).decode
_NAMES = {field.encode_name: field.name for field in msgspec.structs.fields(Params)}


def read_params(data: bytes, *, largest_odd: float = math.inf) -> Params:
    """The params of a request (`b""` where it has none). Beyond `largest_odd` bytes, plain JSON alone is read.

    Raises:
        RequestError: they are no params.
    """
    if not data or data == b"null":
        return Params()
    try:
        return _decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        if len(data) > largest_odd:
            raise RequestError(INVALID_PARAMS, "params: too long to be read, unless they are plain JSON") from None
    try:
        members = decode_json(data)
        if not isinstance(members, dict):
            raise RequestError(INVALID_PARAMS, "params: expected an object")
        meta = members.get("_meta")
        if meta is not None and not isinstance(meta, dict):
            raise RequestError(INVALID_PARAMS, "params._meta: expected an object")
        found = {_NAMES[key]: value for key, value in members.items() if key in _NAMES and key != "arguments"}
        if "arguments" in members:
            found["arguments"] = Raw(reencode_json(members["arguments"]))
    except (ProtocolError, RecursionError) as error:
        raise RequestError(INVALID_PARAMS, f"params: {error}") from error
    return Params(**found)


def cancelled_id(params: bytes) -> Id | None:
    """The request that a `notifications/cancelled` is about; None where it names none.

    basic/utilities/cancellation: "Invalid cancellation notifications SHOULD be ignored".
    """
    try:
        members = decode_json(params)
    except ProtocolError:
        return None
    id_ = members.get("requestId") if isinstance(members, dict) else None
    return id_ if is_id(id_) else None


def check_modern(meta: dict[str, Any]) -> None:
    """Check the metadata that every request of the modern era has (basic, "Request metadata").

    Raises:
        RequestError: something is missing, or the revision is not served.
    """
    check_complete(meta)
    check_served(meta)


def check_complete(meta: dict[str, Any]) -> None:
    """Check that the metadata is all there, whatever the revision.

    Raises:
        RequestError: something is missing, or is of another type.
    """
    if not isinstance(meta.get(META_VERSION), str):
        raise RequestError(INVALID_PARAMS, f"params._meta: {META_VERSION}: expected a string")
    if not isinstance(meta.get(META_CAPABILITIES), dict):
        raise RequestError(INVALID_PARAMS, f"params._meta: {META_CAPABILITIES}: expected an object")
    info = meta.get(META_CLIENT_INFO)
    if info is not None and not isinstance(info, dict):
        raise RequestError(INVALID_PARAMS, f"params._meta: {META_CLIENT_INFO}: expected an object")


def check_served(meta: dict[str, Any]) -> None:
    """Check that the revision of complete metadata is served.

    Raises:
        RequestError: it is not; `data` says which are.
    """
    version = meta[META_VERSION]
    if version not in MODERN_VERSIONS:
        raise RequestError(
            UNSUPPORTED_PROTOCOL_VERSION,
            f"protocol revision {version[:100]} is not supported",
            {"supported": SUPPORTED, "requested": version},
        )
