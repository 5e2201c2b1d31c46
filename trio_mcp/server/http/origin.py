"""Who may come in: the Host and Origin of a request, and what the user's `authorize` says of it. Knows no MCP.

A web page may send requests to a server on its visitor's own machine, by a name that it lets point there (DNS
rebinding). Browsers say the name in Host, and the page's origin in Origin.
"""

from __future__ import annotations

import ipaddress
import logging
import re
from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import lru_cache
from inspect import isawaitable
from typing import Any
from urllib.parse import urlsplit

from ...errors import AuthError
from .asgi import Refusal, Request

logger = logging.getLogger("trio_mcp.server")

#: async `(headers) -> principal`; the names of the headers are in lower case.
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

    def check_source(self, request: Request) -> None:
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

    async def admit(self, request: Request) -> Any:
        """Ask `authorize` who this is; None without one.

        Raises:
            Refusal: with 401, or what an `AuthError` says, and the challenge.
        """
        if self._authorize is None:
            return None
        try:
            asked = self._authorize(request.headers)
            if isawaitable(asked):
                return await asked
        except AuthError as error:
            status = error.status if error.status in (401, 403) else 401
            challenges = error.challenge
        except Exception as error:
            # Whatever is raised means no, and nothing of it goes out.
            logger.info("authorize refused a request: %s", type(error).__name__)
            logger.debug("authorize raised", exc_info=True)
            status, challenges = 401, ()
        else:
            raise TypeError(f"authorize: expected an async function, got one that returns {type(asked).__name__}")
        words = [_challenge(challenge) for challenge in challenges] or ["Bearer"]
        text = b"authorization is required" if status == 401 else b"this is not permitted"
        raise Refusal(status, text, [(b"www-authenticate", word.encode("latin-1", "replace")) for word in words])


@lru_cache(maxsize=64)  # for every request the same few, but for those of strangers
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
    # Of an iterator nothing would be left behind the look at its types, and nobody be let in.
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
