"""The params of requests: each method has a struct of its own, decoded once. Arguments stay bytes.

Knows no feature: each brings the struct of its own params.
"""

from __future__ import annotations

import math
from typing import Any, Generic, TypeVar

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
    """The params that every request may have. A method adds its own members in a subclass.

    A member that the client must get right is typed `Any` and checked by the method's handler, which knows how
    to say what was expected. A member typed `Raw` keeps its bytes.
    """

    meta: dict[str, Any] | None = msgspec.field(default=None, name="_meta")


AnyParams = TypeVar("AnyParams", bound=Params)


class ParamsReader(Generic[AnyParams]):
    """Reads the params of one method.

    >>> ParamsReader(Params)(b'{"_meta": {"progressToken": 7}, "name": "unknown members are ignored"}')
    Params(meta={'progressToken': 7})
    """

    def __init__(self, struct: type[AnyParams]) -> None:
        self._struct = struct
        self._decode = msgspec.json.Decoder(struct).decode
        fields = msgspec.structs.fields(struct)
        self._names = {field.encode_name: field.name for field in fields}
        self._undecoded = {field.encode_name for field in fields if field.type is Raw}

    def __call__(self, data: bytes, *, max_odd_json: float = math.inf) -> AnyParams:
        """Read the params of a request; `b""` stands for none.

        JSON that only Python reads (NaN, lone surrogates) is read up to `max_odd_json` bytes.

        Raises:
            RequestError: they are no object, or cannot be read.
        """
        if not data or data == b"null":
            return self._struct()
        try:
            return self._decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            if len(data) > max_odd_json:
                raise RequestError(
                    INVALID_PARAMS, "params: too long to be read, unless they are plain JSON"
                ) from None
        try:
            members = decode_json(data)
            if not isinstance(members, dict):
                raise RequestError(INVALID_PARAMS, "params: expected an object")
            meta = members.get("_meta")
            if meta is not None and not isinstance(meta, dict):
                raise RequestError(INVALID_PARAMS, "params._meta: expected an object")
            found: dict[str, Any] = {
                name: Raw(reencode_json(members[key])) if key in self._undecoded else members[key]
                for key, name in self._names.items()
                if key in members
            }
        except (ProtocolError, RecursionError) as error:
            raise RequestError(INVALID_PARAMS, f"params: {error}") from error
        return self._struct(**found)


#: Reads the params of an unknown method, as far as its `_meta`.
read_meta: ParamsReader[Params] = ParamsReader(Params)


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
        RequestError: a member is missing, or the revision is not served.
    """
    check_complete(meta)
    check_served(meta)


def check_complete(meta: dict[str, Any]) -> None:
    """Check that the metadata has every member that it must have, whatever the revision.

    Raises:
        RequestError: a member is missing, or is of another type.
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
