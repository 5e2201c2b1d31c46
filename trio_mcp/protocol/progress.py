"""Which request a progress notification is about (basic/utilities/progress). No I/O."""

from __future__ import annotations

import msgspec

from ..errors import ProtocolError
from .messages import decode_json


class _Unreadable:
    """Stands for a token that cannot be one."""

    def __repr__(self) -> str:
        return "UNREADABLE"


UNREADABLE = _Unreadable()


class _Params(msgspec.Struct):
    token: int | str | float | None = msgspec.field(name="progressToken")


_decode_params = msgspec.json.Decoder(_Params).decode

Token = int | str | float | None | _Unreadable


def progress_token(params: bytes) -> Token:
    """The token in the undecoded params of a progress notification; UNREADABLE where it is missing or no token.

    None stands for null: some servers send it for requests that asked for no progress.

    >>> progress_token(b'{"progressToken": 7, "progress": 1}'), progress_token(b'{"progress": 1}')
    (7, UNREADABLE)
    """
    try:
        return _decode_params(params).token
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    try:
        token = decode_json(params)["progressToken"]
    except (ProtocolError, TypeError, LookupError):
        return UNREADABLE
    return token if token is None or isinstance(token, int | str | float) else UNREADABLE
