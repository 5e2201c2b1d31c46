"""The cookies of one connection over HTTP, such as a load balancer sets to keep a client with one backend.

They go to the origin that set them, because a connection speaks to one origin only. Their values are secrets: the
caller has them redacted. Knows no HTTP library.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from email.utils import parsedate_to_datetime

import attrs

#: Cookies of one connection, and bytes of one: what browsers keep of a site (RFC 6265, "Limits").
MOST = 50
LARGEST = 4096


@attrs.frozen
class _Cookie:
    value: str
    path: str
    expires: float


class Cookies:
    """Keeps what Set-Cookie says, and gives it back for each request.

    >>> cookies = Cookies("lb.example", is_secure=True)
    >>> cookies.learn(["LB=backend-a; Path=/; HttpOnly"], "/mcp")
    ['backend-a']
    >>> cookies.header("/mcp")
    'LB=backend-a'
    """

    def __init__(self, host: str, *, is_secure: bool) -> None:
        self._host = host.lower()
        self._is_secure = is_secure
        self._kept: dict[tuple[str, str], _Cookie] = {}

    def __repr__(self) -> str:
        return f"<{len(self._kept)} cookies>"

    def learn(self, fields: Iterable[str], path: str) -> list[str]:
        """Take the Set-Cookie fields of a response to a request for `path`; the values that are new."""
        return [value for field in fields for value in self._learn(field, path)]

    def _learn(self, field: str, requested: str) -> Iterator[str]:
        pair, *rest = field.split(";")
        name, sign, value = (part.strip() for part in pair.partition("="))
        if not sign or not name or len(field) > LARGEST or not field.isascii() or not field.isprintable():
            return
        options = {key.strip().lower(): text.strip() for key, _, text in (part.partition("=") for part in rest)}
        domain = options.get("domain", "").lstrip(".").lower()
        if domain and domain != self._host and not self._host.endswith("." + domain):
            return
        if "secure" in options and not self._is_secure:
            return
        path = options.get("path", "")
        if not path.startswith("/"):  # RFC 6265, "Paths and Path-Match": the folder of what was requested
            path = requested.rpartition("/")[0] or "/"
        expires = _expiry(options)
        self._kept.pop((name, path), None)
        if expires > time.time():
            self._kept[name, path] = _Cookie(value, path, expires)
            if len(self._kept) > MOST:
                del self._kept[next(iter(self._kept))]
            yield value

    def header(self, path: str) -> str | None:
        """The value of Cookie for a request for `path`; None without any."""
        now = time.time()
        found = [
            f"{name}={cookie.value}"
            for (name, _), cookie in self._kept.items()
            if cookie.expires > now and _is_within(path, cookie.path)
        ]
        return "; ".join(found) or None


def _expiry(options: dict[str, str]) -> float:
    """When a cookie ends; that of a session has no end here."""
    age = options.get("max-age", "")
    if age.removeprefix("-").isdecimal():
        return time.time() + int(age[:12]) if int(age[:12]) > 0 else 0.0
    try:
        return parsedate_to_datetime(options["expires"]).timestamp()
    except (KeyError, ValueError, OverflowError):
        return float("inf")


def _is_within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder if folder.endswith("/") else folder + "/")
