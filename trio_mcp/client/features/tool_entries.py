"""Reads tools/list, page by page, to the end; judges its entries, and makes tools of them.

No page may make this loop for ever, and no entry may cost another. The entries are judged here for
`Connection.tools`, where a skipped one becomes a warning, and for `import_tools`, where it is data. The state of a
connection's list is in tool_list.py.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import attrs
import msgspec
import trio
from msgspec import Raw

from ...errors import NAME_SHOWN, SENTENCE_SHOWN, ProtocolError, SkippedToolError
from ...models.tool import ToolSpec, judge_entry
from ...protocol.messages import decode_json, encode_any, reencode_json
from ...redaction import Redactor, bounded_line
from ...tools.tool import Tool, ToolCaller, remote_tool
from ..outgoing.headers import RequestHeaders

#: Entries that are judged in one go: a few milliseconds.
ENTRIES_AT_ONCE = 500


class _Page(msgspec.Struct):
    tools: list[Raw]
    next_cursor: Any = msgspec.field(name="nextCursor", default=None)


_decode_page = msgspec.json.Decoder(_Page).decode


@attrs.frozen
class Entries:
    """Every entry of a listing, as JSON bytes, and warnings about its pages."""

    entries: tuple[bytes, ...]
    warnings: tuple[str, ...]


async def list_entries(
    list_page: Callable[[bytes], Awaitable[bytes]], redactor: Redactor, *, max_pages: int, max_entries: int
) -> Entries:
    """List every page. `list_page` sends the encoded members of the params and gives the undecoded result.

    Raises:
        ProtocolError: a result is no page. What `list_page` raises passes through; nothing is kept then.
    """
    entries: list[bytes] = []
    warnings: list[str] = []
    seen: set[str] = set()
    cursor: str | None = None
    for _ in range(max_pages):
        page = await list_page(b"" if cursor is None else b'"cursor":' + encode_any(cursor))
        try:
            found, next_cursor = _read_page(page, warnings.append)
        except ProtocolError as error:
            error.redact(redactor)
            raise
        entries += found
        if len(entries) > max_entries:
            warnings.append(f"tools/list: more than {max_entries} tools; the rest was left out")
            del entries[max_entries:]
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
        warnings.append(f"tools/list: more than {max_pages} pages; the rest was left out")
    return Entries(tuple(entries), tuple(warnings))


async def judge_entries(
    entries: Iterable[bytes], wanted: frozenset[str] | None, headers: RequestHeaders | None, redactor: Redactor
) -> tuple[ToolSpec | SkippedToolError, ...]:
    """Judge entries one by one, in their order; those whose names the filter hides are left out.

    `wanted` keeps only these names of the server's; None keeps all. The first usable entry of a name counts, and a
    skipped entry claims neither its name nor its headers. What is said of one goes through `redactor`.
    """
    found: list[ToolSpec | SkippedToolError] = []
    taken: set[str] = set()
    check = None if headers is None else headers.check
    for index, entry in enumerate(entries):
        if index % ENTRIES_AT_ONCE == 0:
            await trio.lowlevel.checkpoint()
        judged = judge_entry(entry, index, taken, check)
        # An entry without a usable name cannot be told from one that is wanted.
        if wanted is not None and judged.name and judged.name not in wanted:
            continue
        if isinstance(judged, ToolSpec):
            taken.add(judged.name)
            if headers is not None:
                headers.learn(judged)
        else:
            judged.redact(redactor)
        found.append(judged)
    return tuple(found)


def choose_tools(
    judged: Iterable[ToolSpec | SkippedToolError],
    caller: ToolCaller,
    server_name: str,
    wanted: frozenset[str] | None,
    redactor: Redactor,
) -> tuple[tuple[Tool, ...], tuple[str, ...]]:
    """The tools of judged entries, and warnings: entries that were skipped and why, wanted names not offered."""
    tools: dict[str, Tool] = {}
    warnings: list[str] = []
    offered: set[str] = set()
    for found in judged:
        offered.add(found.name)
        if isinstance(found, SkippedToolError):
            why = f" ({found.cause})" if found.reason == "bad-header" and found.cause is not None else ""
            warnings.append(bounded_line(f"{found}{why}", SENTENCE_SHOWN))
            continue
        tool = remote_tool(found, caller, server_name)
        if tool.name in tools:
            name, other = (
                bounded_line(redactor(one), NAME_SHOWN) for one in (found.name, tools[tool.name].remote_name)
            )
            warnings.append(f'tool "{name}" was skipped: its name {redactor(tool.name)} is that of "{other}" too')
        else:
            tools[tool.name] = tool
    missing = sorted(name for name in wanted or () if name not in offered)
    warnings += [f'tool "{name}" is not offered by the server' for name in missing]
    return tuple(tools.values()), tuple(warnings)


def _read_page(data: bytes, warn: Callable[[str], object]) -> tuple[list[bytes], Any]:
    """The entries of a page, and its cursor."""
    try:
        page = _decode_page(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _read_page_widely(data, warn)
    return [bytes(entry) for entry in page.tools], page.next_cursor  # copies: a Raw holds the whole page


def _read_page_widely(data: bytes, warn: Callable[[str], object]) -> tuple[list[bytes], Any]:
    page = decode_json(data)
    if page == []:  # PHP has one literal for an empty list and an empty object
        page = {}
    if not isinstance(page, dict):
        raise ProtocolError("tools/list was answered with something that is no object", data)
    tools = page.get("tools")
    if isinstance(tools, dict) and "name" in tools:
        warn("tools/list: tools is one tool, and not a list: read as a list of it")
        tools = [tools]
    elif isinstance(tools, dict) and tools:  # PHP writes one for a list from which something was taken
        warn("tools/list: tools is an object, and not a list: its values were read")
        tools = list(tools.values())
    elif tools is None or tools == {}:
        warn("tools/list: a page without a list of tools was read as empty")
        tools = []
    elif not isinstance(tools, list):
        raise ProtocolError("tools/list: tools is no list", data)
    return [reencode_json(tool) for tool in tools], page.get("nextCursor")
