"""Writes plain requests of HTTP/1.1: the body is whole in memory, and no header is about the connection.

h11 checks, copies and searches the headers of a request several times, which is a fifth of the cost of a small
call. Requests that are not plain are left to h11, which writes them or says what is wrong with them. No I/O; knows
no httpx.
"""

from __future__ import annotations

import re
from functools import lru_cache

import h11

# RFC 9112, "Request Target"; RFC 9110, "Tokens" and "Field Values".
_TARGET = re.compile(rb"[!-~]+").fullmatch
_NAME = re.compile(rb"[!#$%&'*+\-.^_`|~0-9a-z]+").fullmatch
_VALUE = re.compile(rb"(?:[!-~\x80-\xff](?:[\t -~\x80-\xff]*[!-~\x80-\xff])?)?").fullmatch

#: Fields that are about the connection, not the request: RFC 9110, "Connection", and the fields that it may name.
_CONNECTION = frozenset((b"connection", b"expect", b"te", b"trailer", b"transfer-encoding", b"upgrade"))

#: By method, the request that h11 is given in place of a plain one: it needs no more of it to read the response.
STAND_INS = {
    method: h11.Request(method=method, target="/", headers=[("Host", "")])
    for method in ("GET", "POST", "PUT", "PATCH", "DELETE")
}


def plain_request(method: str, target: bytes, fields: list[tuple[bytes, bytes]], body: bytes) -> bytes | None:
    """The bytes of a plain request, whose method is one of `STAND_INS`; None for any other request.

    >>> plain_request("POST", b"/mcp", [(b"Host", b"localhost"), (b"Content-Length", b"2")], b"{}")
    b'POST /mcp HTTP/1.1\\r\\nHost: localhost\\r\\nContent-Length: 2\\r\\n\\r\\n{}'
    """
    if method not in STAND_INS or not _TARGET(target):
        return None
    lines = [b"%b %b HTTP/1.1\r\n" % (method.encode("ascii"), target)]
    by_name = {}
    for name, value in fields:
        lowered = _lowered(name)
        if lowered is None or not _VALUE(value):
            return None
        by_name[lowered] = value
        lines.append(b"%b: %b\r\n" % (name, value))
    is_framed = by_name.get(b"content-length", b"0") == b"%d" % len(body)
    if not is_framed or len(by_name) < len(fields) or next(iter(by_name), None) != b"host":
        return None
    return b"%b\r\n%b" % (b"".join(lines), body)


@lru_cache(256)  # the requests of a program have few names among them
def _lowered(name: bytes) -> bytes | None:
    """A field's name in lower case, as it is compared; None where the field is not plain."""
    lowered = name.lower()
    return lowered if _NAME(lowered) and lowered not in _CONNECTION else None
