"""Texts and JSON objects that every client can encode: lone surrogates become U+FFFD.

A server may send half of a surrogate pair as a JSON escape. UTF-8 has no bytes for it, so that one such text would
cost the whole request.
"""

from __future__ import annotations

from typing import Any

from ...protocol.messages import decode_json, encode_any, without_halves
from ...tools.tool import Tool


def encodable(text: str) -> str:
    """The text with U+FFFD in place of lone surrogates.

    >>> encodable("half " + chr(0xD83D))
    'half \ufffd'
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def own_copy(value: dict[str, Any]) -> dict[str, Any]:
    """A copy of a JSON object for the caller to keep and to change, with U+FFFD in place of lone surrogates."""
    own: dict[str, Any] = decode_json(without_halves(encode_any(value)))
    return own


def described(tool: Tool) -> dict[str, str]:
    """The member `description` of a tool's definition; none where the tool has no description."""
    return {"description": encodable(tool.description)} if tool.description else {}
