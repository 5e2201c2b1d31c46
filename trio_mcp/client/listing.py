"""tools/list, page by page, to the end; and what is made of the entries.

No page may make this loop for ever, and no entry may cost another.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import attrs
import msgspec
from msgspec import Raw

from ..errors import ProtocolError, SkippedToolError
from ..protocol.messages import decode_json, encode_any, reencode_json
from ..redaction import Redactor
from ..tools.judging import HeaderRules, judged_entries
from ..tools.tool import Tool, ToolCaller, remote_tool

#: A listing is cut here, with a warning: far beyond what any model can choose from, and little enough to hold.
MAX_PAGES = 1_000
MAX_ENTRIES = 100_000


class _Page(msgspec.Struct):
    tools: list[Raw]
    next_cursor: Any = msgspec.field(name="nextCursor", default=None)


_decode_page = msgspec.json.Decoder(_Page).decode


@attrs.frozen
class Entries:
    """Every entry of a listing, as JSON bytes, and what was odd about its pages."""

    entries: tuple[bytes, ...]
    warnings: tuple[str, ...]


async def list_entries(ask: Callable[[bytes], Awaitable[bytes]], redactor: Redactor) -> Entries:
    """List every page. `ask` sends the encoded members of the params (without braces) and gives the raw result.

    Raises:
        ProtocolError: a page is none. Whatever `ask` raises passes through; nothing is kept then.
    """
    entries: list[bytes] = []
    warnings: list[str] = []
    seen: set[str] = set()
    cursor: str | None = None
    for _ in range(MAX_PAGES):
        page = await ask(b"" if cursor is None else b'"cursor":' + encode_any(cursor))
        try:
            found, next_cursor = _read_page(page)
        except ProtocolError as error:
            error.redact(redactor)
            raise
        if found is None:
            warnings.append("tools/list: a page without a list of tools was read as empty")
        entries += found or ()
        if len(entries) > MAX_ENTRIES:
            warnings.append(f"tools/list: more than {MAX_ENTRIES} tools; the rest was left out")
            del entries[MAX_ENTRIES:]
            break
        # server/utilities/pagination: "clients MUST treat a missing nextCursor as the end of results". An empty
        # string is a cursor.
        if next_cursor is None:
            break
        if not isinstance(next_cursor, str):
            warnings.append("tools/list: nextCursor is no string; the listing ends there")
            break
        if next_cursor in seen:
            warnings.append("tools/list: a cursor came twice; the listing ends there")
            break
        seen.add(next_cursor)
        cursor = next_cursor
    else:
        warnings.append(f"tools/list: more than {MAX_PAGES} pages; the rest was left out")
    return Entries(tuple(entries), tuple(warnings))


async def choose_tools(
    entries: Iterable[bytes],
    caller: ToolCaller,
    server_name: str,
    wanted: frozenset[str] | None,
    headers: HeaderRules | None = None,
) -> tuple[tuple[Tool, ...], tuple[str, ...]]:
    """The tools that listed entries make, and warnings: what was skipped and why, what is wanted and not there.

    `wanted` keeps only these names of the server's; None keeps all.
    """
    tools: dict[str, Tool] = {}
    warnings: list[str] = []
    offered: set[str] = set()
    async for judged in judged_entries(entries, wanted, headers):
        offered.add(judged.name)
        if isinstance(judged, SkippedToolError):
            why = f" ({judged.cause})" if judged.reason == "bad-header" else ""
            warnings.append(f"{judged}{why}")
            continue
        tool = remote_tool(judged, caller, server_name)
        if tool.name in tools:
            other = tools[tool.name].remote_name
            warnings.append(f'tool "{judged.name}" was skipped: its name {tool.name} is that of "{other}" too')
        else:
            tools[tool.name] = tool
    missing = sorted(name for name in wanted or () if name not in offered)
    warnings += [f'tool "{name}" is not offered by the server' for name in missing]
    return tuple(tools.values()), tuple(warnings)


def _read_page(data: bytes) -> tuple[list[bytes] | None, Any]:
    """The entries of a page (None where it has none) and its cursor."""
    try:
        page = _decode_page(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _read_page_widely(data)
    return [bytes(entry) for entry in page.tools], page.next_cursor  # copies: a Raw holds the whole page


def _read_page_widely(data: bytes) -> tuple[list[bytes] | None, Any]:
    page = decode_json(data)
    if page == []:  # PHP has one literal for an empty list and an empty object
        page = {}
    if not isinstance(page, dict):
        raise ProtocolError("tools/list was answered with something that is no object", data)
    tools = page.get("tools")
    if tools is None:
        return None, page.get("nextCursor")
    if not isinstance(tools, list):
        raise ProtocolError("tools/list: tools is no list", data)
    return [reencode_json(tool) for tool in tools], page.get("nextCursor")
