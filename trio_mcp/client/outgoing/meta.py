"""Puts `_meta` into the params of requests: members of the revision, the progress token, members of the caller.

Knows no method and no transport.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...errors import InvalidArgumentsError
from ...protocol.arguments import encode_arguments
from ...protocol.messages import Encoded, encode_json


class RequestMeta:
    """Puts `_meta` into params. Members that are the same in every request are encoded once.

    `constant` holds the members that every request of the modern era carries; without it (legacy) a request has
    `_meta` only for a progress token or members of the caller.

    >>> b"".join(RequestMeta().params(b'"cursor":"2"', "tools/list", token=7))
    b'{"cursor":"2","_meta":{"progressToken":7}}'
    """

    def __init__(self, constant: Mapping[str, Any] | None = None) -> None:
        self._constant = encode_json(constant)[1:-1] if constant else b""
        self._reserved = frozenset(constant or ())  # the caller cannot replace them

    def params(
        self, members: Encoded, name: str, *, given: Mapping[str, Any] | None = None, token: int | None = None
    ) -> tuple[bytes, ...]:
        """The params of a request, encoded, in pieces: `members` (without braces), and `_meta` behind them.

        Raises:
            InvalidArgumentsError: `given` cannot be encoded; it names `name`.
        """
        meta = self._constant
        if token is not None:
            meta = join_members(meta, b'"progressToken":%d' % token)
        if given is not None and not isinstance(given, Mapping):
            raise InvalidArgumentsError(name, f"meta: expected a mapping, got {type(given).__name__}")
        if given:
            rest = {key: value for key, value in given.items() if not self._is_ours(key, token)}
            meta = join_members(meta, encode_arguments(name, rest)[1:-1])
        pieces = (members,) if isinstance(members, bytes) else members
        if not meta:
            return (b"{", *pieces, b"}")
        return (b"{", *pieces, b',"_meta":{' if members else b'"_meta":{', meta, b"}}")

    def _is_ours(self, key: Any, token: int | None) -> bool:
        if key == "progressToken":
            return token is not None
        return key in self._reserved


def join_members(first: bytes, second: bytes) -> bytes:
    """The members of two encoded objects (without braces) as those of one; either may be empty."""
    return b"%b,%b" % (first, second) if first and second else first or second
