"""JSON output for programs; JSON that came from a server goes in verbatim."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def object_text(fields: Mapping[str, Any]) -> str:
    """One JSON object on one line. A value of type bytes is JSON already and goes in verbatim.

    >>> object_text({"name": "add", "inputSchema": b'{"type":"object"}'})
    '{"name": "add", "inputSchema": {"type":"object"}}'
    """
    members = (f"{json.dumps(name)}: {_value(value)}" for name, value in fields.items())
    return "{" + ", ".join(members) + "}"


def array_text(items: list[str]) -> str:
    """A JSON array, each item on a line of its own."""
    return "[\n" + ",\n".join(items) + "\n]" if items else "[]"


def _value(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return json.dumps(value, ensure_ascii=False)
