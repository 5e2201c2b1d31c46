"""The names under which agents see remote tools, and under which providers take any tool.

Transcripts of conversations that programs have stored carry these names: the rules never change.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from hashlib import sha256

#: The longest name of a tool that providers take, in characters.
MAX_NAME = 64
#: Hex digits of the digest in a name that was changed: 32 bits tell the tools of one server apart.
_DIGITS = 8

#: Names longer than this, and names beyond so many, are not looked at for what was meant: some milliseconds.
COMPARED = 128
NAMES_COMPARED = 2_000

_ILLEGAL = re.compile(r"[^A-Za-z0-9_-]")
_NAME = re.compile(r"mcp__[A-Za-z0-9-]{1,32}__[A-Za-z0-9_-]+")


def tool_name(server: str, tool: str) -> str:
    """The name of a server's tool: `mcp__<server>__<tool>`, a pure function of its arguments.

    Where the tool's own name has a character outside `[A-Za-z0-9_-]`, or makes the whole longer than 64,
    illegal characters become `_`, the name is cut, and an underscore and the first 8 hex digits of SHA-256 of
    the original name follow, so that different tools keep different names.

    Raises:
        TypeError: a name is no str.

    >>> tool_name("time", "get_current_time")
    'mcp__time__get_current_time'
    >>> tool_name("time", "get.time")
    'mcp__time__get_time_1d1114c3'
    """
    plain = "__".join(("mcp", server, tool))
    if len(plain) <= MAX_NAME and not _ILLEGAL.search(tool):
        return plain
    return _cut(f"mcp__{server}__{_ILLEGAL.sub('_', tool)}", tool)


def provider_name(name: str) -> str:
    """The name under which providers take a tool: its own where that is legal, else changed as by `tool_name`.

    >>> provider_name("get_current_time"), provider_name("get.time")
    ('get_current_time', 'get_time_1d1114c3')
    """
    if 0 < len(name) <= MAX_NAME and not _ILLEGAL.search(name):
        return name
    return _cut(_ILLEGAL.sub("_", name), name)


def is_tool_name(name: str) -> bool:
    """Whether a name has the form that `tool_name` gives.

    Raises:
        TypeError: this is no str.

    >>> is_tool_name("mcp__time__get_current_time"), is_tool_name("get_current_time")
    (True, False)
    """
    return len(name) <= MAX_NAME and _NAME.fullmatch(name) is not None


def nearest_names(wrong: str, names: Iterable[str]) -> list[str]:
    """The names that may have been meant by one that is none of them, the nearest first: three at most.

    >>> nearest_names("ecko", ["echo", "add"])
    ['echo']
    """
    from difflib import get_close_matches  # slow to import, and needed by mistakes alone

    # Comparing two names takes the product of their lengths, and a stranger's may have any.
    short = [name for name in dict.fromkeys(names) if len(name) <= COMPARED][:NAMES_COMPARED]
    return get_close_matches(str(wrong)[:COMPARED], short, n=3)


def _cut(legal: str, original: str) -> str:
    """Legal characters, cut so that a digest of the original name fits behind them."""
    suffix = "_" + sha256(original.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]
    return legal[: MAX_NAME - len(suffix)] + suffix
