"""Which requests may come in: by their Host and Origin, and by the user's `authorize`. Knows no MCP.

A web page may send requests to a server on its visitor's own machine, or in the visitor's network, under a domain
name of its own that resolves there (DNS rebinding). Browsers put that name into Host, and the page's origin into
Origin. Both are read whole and strictly: a text that is no host or no origin is refused, whatever is allowed.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import lru_cache
from inspect import isawaitable
from typing import Any

import attrs

from ...errors import Unauthorized
from ...tools.failures import reason_of
from .asgi import HttpRequest, Refusal

#: async `(headers) -> principal`, or raises `Unauthorized`; the names of the headers are in lower case.
Authorize = Callable[[Mapping[str, str]], Awaitable[Any]]

_ANY = "*"
# RFC 9110, "Host": uri-host [ ":" port ]; RFC 6454, "The Web Origin Concept": scheme "://" host [ ":" port ].
_HOST = r"(?:\[(?P<v6>[0-9a-f:.]+)\]|(?P<name>[a-z0-9_-]+(?:\.[a-z0-9_-]+)*\.?))(?::(?P<port>[0-9]{1,5}))?"
_WHOLE_HOST = re.compile(_HOST)
_WHOLE_ORIGIN = re.compile(rf"(?P<scheme>[a-z][a-z0-9+.-]*)://{_HOST}")
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
        self._hosts = _listed("allowed_hosts", allowed_hosts, _listed_host, "a host, with or without a port")
        self._origins = _listed("allowed_origins", allowed_origins, _listed_origin, "an origin") or frozenset()
        if authorize is not None and not callable(authorize):
            raise TypeError(f"authorize: expected an async function, got {type(authorize).__name__}")
        self._authorize = authorize

    def check_source(self, request: HttpRequest) -> None:
        """Check Host and Origin.

        Raises:
            Refusal: with 403.
        """
        text = request.headers.get("host", "")
        if not self._serves(host_of(text), is_missing=not text, local=request.local):
            raise Refusal(403, b"this Host is not served here (see allowed_hosts)")
        # 2025-11-25, basic/transports: "If the Origin header is present and invalid, servers MUST respond with
        # HTTP 403 Forbidden." A page of this machine is a stranger, too: anybody may have written it.
        origin = request.headers.get("origin")
        if origin is not None and not _allows(self._origins, origin_of(origin)):
            raise Refusal(403, b"this Origin is not allowed here (see allowed_origins)")

    def _serves(self, host: Host | None, *, is_missing: bool, local: Any) -> bool:
        if self._hosts is not None:
            if host is None:
                return is_missing and _ANY in self._hosts
            return _allows(self._hosts, host.text, host.name)
        # Where `authorize` decides, a name of its own gets a page nowhere; but not on this machine, where people
        # try a server out.
        if self._authorize is not None and not (local is not None and is_loopback(str(local[0]))):
            return host is not None or is_missing
        return host is not None and is_loopback(host.name)

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
            raise Refusal(refused.status, reason_of(refused).encode(), headers) from None
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


@attrs.frozen
class Host:
    """A host as Host and Origin have it: `name` is without the port and without brackets."""

    name: str
    text: str


@lru_cache(maxsize=64)
def host_of(text: str) -> Host | None:
    """The host that a text is, as a whole; None for any other text.

    >>> host_of("[::1]:80"), host_of("[::1].evil.example"), host_of("localhost:1.evil.example")
    (Host(name='::1', text='[::1]:80'), None, None)
    """
    found = _WHOLE_HOST.fullmatch(text.lower())
    return None if found is None else _host(found)


@lru_cache(maxsize=64)
def origin_of(text: str) -> str | None:
    """The origin that a text is, as a whole, in lower case; None for any other text.

    "null" is one: pages have it that hide where they are from.

    >>> origin_of("HTTPS://app.example:8443"), origin_of("http://localhost@evil.example")
    ('https://app.example:8443', None)
    """
    text = text.lower()
    if text == "null":
        return text
    found = _WHOLE_ORIGIN.fullmatch(text)
    host = None if found is None else _host(found)
    return None if found is None or host is None else f"{found['scheme']}://{host.text}"


def _host(found: re.Match[str]) -> Host | None:
    """The host in a match; None where its numbers are none."""
    port = found["port"]
    if port is not None and int(port) >= 2**16:
        return None
    name = bracketed = found["name"]
    if name is None:
        try:
            name = str(ipaddress.IPv6Address(found["v6"]))
        except ValueError:
            return None
        bracketed = f"[{name}]"
    return Host(name, bracketed if port is None else f"{bracketed}:{port}")


def _allows(allowed: frozenset[str], *spellings: str | None) -> bool:
    return any(spelling is not None and (_ANY in allowed or spelling in allowed) for spelling in spellings)


def _listed(field: str, names: Any, read: Callable[[str], str | None], expected: str) -> frozenset[str] | None:
    if names is None:
        return None
    # An iterator would be used up by the check of its types, and then let nothing in.
    is_collection = isinstance(names, Collection) and not isinstance(names, str)
    if not is_collection or not all(isinstance(name, str) for name in names):
        raise TypeError(f"{field}: expected a collection of str")
    found: set[str] = set()
    for name in names:
        spelling = _ANY if name == _ANY else read(name)
        if spelling is None:  # it would never match
            raise ValueError(f'{field}: expected {expected}, or "*" for any, got {name!r}')
        found.add(spelling)
    return frozenset(found)


def _listed_host(name: str) -> str | None:
    host = host_of(name) or host_of(f"[{name}]")  # an IPv6 address may stand without brackets
    if host is None:
        return None
    return host.name if host.text in (host.name, f"[{host.name}]") else host.text


def _listed_origin(name: str) -> str | None:
    return origin_of(name.rstrip("/"))


def _challenge(challenge: Mapping[str, str]) -> str:
    """One challenge as WWW-Authenticate has it (RFC 9110)."""
    parameters = ", ".join(
        f'{_UNSAFE.sub("", str(name))}="{_UNSAFE.sub("", str(value))}"'
        for name, value in challenge.items()
        if name not in ("scheme", "token68")
    )
    scheme = _UNSAFE.sub("", str(challenge.get("scheme", "Bearer")))
    return f"{scheme} {parameters}".rstrip()
