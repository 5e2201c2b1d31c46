"""The state that a modern client carries from one round of a request to the next, signed so that it is trusted.

A tool that asks something is answered in a later request, which may reach another process. The answers so far
travel in `requestState`; the signature covers the request that they belong to, and when the state expires.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
import time
from collections.abc import Callable
from typing import Any

import msgspec

from ..errors import RequestError
from ..protocol.messages import INVALID_PARAMS, decode_json, reencode_json

#: Bytes of a key at least: 128 bits, so that nobody guesses it from a state.
SHORTEST_KEY = 16


def _as_data(value: Any) -> Any:
    """A principal may be any object. One without attributes is equal to no other, and to itself only once."""
    return [type(value).__qualname__, getattr(value, "__dict__", None) or secrets.token_hex()]


_encode = msgspec.json.Encoder(order="sorted", enc_hook=_as_data).encode


class RequestState:
    """Signs and verifies the state of requests with one key. A state is valid for `expiry` seconds."""

    def __init__(self, key: bytes, *, expiry: float, clock: Callable[[], float] = time.time) -> None:
        self._key = key
        self._expiry = expiry
        self._clock = clock

    def __repr__(self) -> str:
        return f"<RequestState, valid for {self._expiry:g} s>"

    def sign(self, request: str, answers: dict[str, Any]) -> str:
        """The state of a request with the answers so far."""
        payload = base64.urlsafe_b64encode(reencode_json([request, self._clock() + self._expiry, answers]))
        return f"{payload.decode()}.{self._sign(payload)}"

    def verify(self, request: str, state: str) -> dict[str, Any]:
        """The answers that a state holds.

        Raises:
            RequestError: it was not signed here for this request, or has expired.
        """
        payload, _, signature = state.encode("utf-8", "replace").rpartition(b".")
        if not hmac.compare_digest(self._sign(payload).encode(), signature):
            raise RequestError(INVALID_PARAMS, "requestState is not what this server gave")
        signed_for, expires, answers = decode_json(base64.urlsafe_b64decode(payload))
        if signed_for != request:
            raise RequestError(INVALID_PARAMS, "requestState belongs to another call")
        if expires < self._clock():
            raise RequestError(INVALID_PARAMS, "requestState has expired")
        found: dict[str, Any] = answers
        return found

    def _sign(self, payload: bytes) -> str:
        return hmac.new(self._key, payload, hashlib.sha256).hexdigest()


def check_signing_key(field: str, key: bytes | None) -> None:
    """Check a key that a user gave in `field`. None stands for a random one.

    Raises:
        ValueError: it is no bytes, or too short. The key is not in the text.
    """
    if key is not None and (type(key) is not bytes or len(key) < SHORTEST_KEY):
        raise ValueError(f"{field}: expected at least {SHORTEST_KEY} bytes")


def digest(*parts: Any) -> str:
    """A name for JSON values, the same for every spelling of them."""
    try:
        encoded = _encode(parts)
    except UnicodeEncodeError:  # lone surrogates
        data = msgspec.to_builtins(parts, str_keys=True, order="sorted", enc_hook=_as_data)
        encoded = json.dumps(data, sort_keys=True).encode()
    return hashlib.sha256(encoded).hexdigest()
