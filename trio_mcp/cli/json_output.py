"""JSON for programs, with the parts that a server wrote spliced in as it wrote them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def object_text(fields: Mapping[str, Any]) -> str:
    """One JSON object on one line; values that are bytes are JSON already and go in verbatim.

    >>> object_text({"name": "add", "inputSchema": b'{"type":"object"}'})
    '{"name": "add", "inputSchema": {"type":"object"}}'
    """
    members = (f"{json.dumps(name)}: {_value(value)}" for name, value in fields.items())
    return "{" + ", ".join(members) + "}"


def array_text(items: list[str]) -> str:
    """A JSON array, one item a line."""
    return "[\n" + ",\n".join(items) + "\n]" if items else "[]"


def _value(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return json.dumps(value, ensure_ascii=False)
