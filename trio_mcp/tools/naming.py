"""The names under which agents see remote tools.

Stored transcripts carry them: what stands here never changes.
"""

from __future__ import annotations

import re
from hashlib import sha256

#: What providers take as a tool's name.
MAX_NAME = 64
_DIGITS = 8

_ILLEGAL = re.compile(r"[^A-Za-z0-9_-]")
_NAME = re.compile(r"mcp__[A-Za-z0-9-]{1,32}__[A-Za-z0-9_-]+")


def tool_name(server: str, tool: str) -> str:
    """The name of a server's tool: `mcp__<server>__<tool>`, a pure function of its arguments.

    Where the tool's own name has a character outside `[A-Za-z0-9_-]`, or makes the whole longer than 64,
    illegal characters become `_`, the name is cut, and an underscore and the first 8 hex digits of SHA-256 of
    the original name follow, so that different tools keep different names.

    >>> tool_name("time", "get_current_time")
    'mcp__time__get_current_time'
    >>> tool_name("time", "get.time")
    'mcp__time__get_time_1d1114c3'
    """
    plain = f"mcp__{server}__{tool}"
    if len(plain) <= MAX_NAME and not _ILLEGAL.search(tool):
        return plain
    suffix = "_" + sha256(tool.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]
    return f"mcp__{server}__{_ILLEGAL.sub('_', tool)}"[: MAX_NAME - len(suffix)] + suffix


def is_tool_name(name: str) -> bool:
    """Whether a name has the shape that `tool_name` gives.

    >>> is_tool_name("mcp__time__get_current_time"), is_tool_name("get_current_time")
    (True, False)
    """
    return len(name) <= MAX_NAME and _NAME.fullmatch(name) is not None
