"""Which requests may come in: by their Host and Origin, and by the user's `authorize`. Knows no MCP.

A web page may send requests to a server on its visitor's own machine, under a domain name of its own that resolves
to that machine (DNS rebinding). Browsers put the name into Host, and the page's origin into Origin.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import lru_cache
from inspect import isawaitable
from typing import Any
from urllib.parse import urlsplit

from ...errors import Unauthorized
from .asgi import HttpRequest, Refusal

#: async `(headers) -> principal`, or raises `Unauthorized`; the names of the headers are in lower case.
Authorize = Callable[[Mapping[str, str]], Awaitable[Any]]

_ANY = "*"
_BRACKETED = re.compile(r"^\[([^\]]*)\]$")  # an IPv6 address without a port, as URLs and Host have it
_UNSAFE = re.compile(r'[\x00-\x1f\x7f"\\]')


class Guard:
    """Lets requests in, or refuses them."""

    def __init__(
        self,
        *,
        allowed_hosts: Collection[str] | None = None,
        allowed_origins: Collection[str] | None = None,
        authorize: Authorize | None = None,
    ) -> None:
        self._hosts = _names("allowed_hosts", allowed_hosts)
        self._origins = _names("allowed_origins", allowed_origins)
        if authorize is not None and not callable(authorize):
            raise TypeError(f"authorize: expected an async function, got {type(authorize).__name__}")
        self._authorize = authorize

    def check_source(self, request: HttpRequest) -> None:
        """Check Host and Origin.

        Raises:
            Refusal: with 403.
        """
        on_loopback = request.local is not None and is_loopback(str(request.local[0]))
        if self._hosts is not None or on_loopback:
            host = request.headers.get("host", "").lower()
            if not (_is_local(host) if self._hosts is None else _allows(self._hosts, host, _without_port(host))):
                raise Refusal(403, b"this Host is not served here")
        # 2025-11-25, basic/transports: "If the Origin header is present and invalid, servers MUST respond with
        # HTTP 403 Forbidden."
        origin = request.headers.get("origin")
        if origin is not None and (self._origins is not None or on_loopback):
            origin = origin.lower()
            if not (_is_local_origin(origin) if self._origins is None else _allows(self._origins, origin)):
                raise Refusal(403, b"this Origin is not allowed here")

    async def admit(self, request: HttpRequest) -> Any:
        """Ask `authorize` for the principal of a request; None without an `authorize`.

        Raises:
            Refusal: with the status and the challenge of an `Unauthorized`.
            Exception: any other one that `authorize` raises is a fault of it.
        """
        if self._authorize is None:
            return None
        try:
            asked = self._authorize(request.headers)
            if isawaitable(asked):
                return await asked
        except Unauthorized as refused:
            challenges = [_challenge(challenge) for challenge in refused.challenge] or ["Bearer"]
            headers = [(b"www-authenticate", challenge.encode("latin-1", "replace")) for challenge in challenges]
            raise Refusal(refused.status, str(refused).encode(), headers) from None
        raise TypeError(f"authorize: expected an async function, got one that returns {type(asked).__name__}")


@lru_cache(maxsize=64)  # most requests have one of a few; strangers may send any number
def is_loopback(host: str) -> bool:
    """Whether a name or an address, without a port, means this machine.

    >>> [is_loopback(name) for name in ("localhost", "127.0.0.1", "::1", "localhost.example.com", "0.0.0.0")]
    [True, True, True, False, False]
    """
    if host == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback


def _is_local(host: str) -> bool:
    return is_loopback(_without_port(host))


def _is_local_origin(origin: str) -> bool:
    try:
        parts = urlsplit(origin)
        return parts.scheme in ("http", "https") and is_loopback(parts.hostname or "")
    except ValueError:
        return False


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    name, _, port = host.rpartition(":")
    return name if name and port.isdecimal() else host


def _allows(allowed: frozenset[str], *spellings: str) -> bool:
    return _ANY in allowed or any(spelling in allowed for spelling in spellings)


def _names(field: str, names: Any) -> frozenset[str] | None:
    if names is None:
        return None
    # An iterator would be used up by the check of its types, and then let nothing in.
    is_collection = isinstance(names, Collection) and not isinstance(names, str)
    if not is_collection or not all(isinstance(name, str) for name in names):
        raise TypeError(f"{field}: expected a collection of str")
    return frozenset(_BRACKETED.sub(r"\1", name.lower().rstrip("/")) for name in names)


def _challenge(challenge: Mapping[str, str]) -> str:
    """One challenge as WWW-Authenticate has it (RFC 9110)."""
    parameters = ", ".join(
        f'{_UNSAFE.sub("", str(name))}="{_UNSAFE.sub("", str(value))}"'
        for name, value in challenge.items()
        if name not in ("scheme", "token68")
    )
    scheme = _UNSAFE.sub("", str(challenge.get("scheme", "Bearer")))
    return f"{scheme} {parameters}".rstrip()
