"""The listing of a server's tools, page by page, as each era has it.

Knows no request and no transport. A page is made once and kept until the tools change.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ...models.tool import other_members
from ...protocol.messages import decode_json, encode_any, encode_json, one_line, without_halves
from ...protocol.revisions import Era
from ...tools.tool import Tool
from ..registry import ToolServer

#: A reference to a place in the schema that is not among its definitions, or to an anchor, or relative to an id.
_MOVING = re.compile(rb'"\$(?:ref|dynamicRef)"\s*:\s*"(?!#/(?:\$defs|definitions)/)|"\$(?:id|recursiveRef)"\s*:')

#: What official clients refuse a whole listing over where it is something else.
_KINDS = {"annotations": dict, "_meta": dict, "icons": list}
_HINTS = {
    "title": str,
    **dict.fromkeys(("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"), bool),
}


def page(server: ToolServer, cursor: str | None, era: Era) -> bytes | None:
    """One page of the listing, encoded; None for a cursor that this server did not give, or gives no more."""
    return server.derived(("tools/list", era, cursor), lambda: _make_page(server, cursor, era))


def _make_page(server: ToolServer, cursor: str | None, era: Era) -> bytes | None:
    tools = server.tools
    start = 0
    if cursor is not None:
        # A cursor names the tool before the page: a tool that is removed meanwhile takes its cursor with it.
        names = [tool.name for tool in tools]
        if server.page_size is None or cursor not in names:
            return None
        start = names.index(cursor) + 1
    end = len(tools) if server.page_size is None else start + server.page_size
    entries = b",".join(listed(tool, era) for tool in tools[start:end])
    members = [b'"tools":[%b]' % entries]
    if end < len(tools):
        members.append(b'"nextCursor":' + encode_any(tools[end - 1].name))
    if era == "modern":
        members.append(b'"ttlMs":0,"cacheScope":"private"')
        members.append(encode_json(server.modern_members)[1:-1])
    return b"{%b}" % b",".join(members)


def listed(tool: Tool, era: Era) -> bytes:
    """A tool as tools/list has it, encoded: its schemas byte for byte, but for line ends between tokens."""
    spec = tool.spec
    members: dict[str, Any] = {"name": tool.name}
    if spec.title is not None:
        members["title"] = spec.title
    if tool.description:
        members["description"] = tool.description
    encoded = encode_any(members)[:-1] + b',"inputSchema":' + _with_type(spec.input_schema, spec.input_schema_json)
    output = spec.output_schema_json
    # Legacy clients refuse the whole listing over an output schema whose root is no object, and all of them over
    # one that is no schema.
    if output is not None and output.lstrip()[:1] == b"{":
        if era == "legacy" and spec.output_schema is None:
            output = _wrapped(output)
        if output is not None:
            encoded += b',"outputSchema":' + output
    rest = _of_kinds(other_members(spec), _KINDS)
    if "annotations" in rest:
        rest["annotations"] = _of_kinds(rest["annotations"], _HINTS)
    return without_halves(one_line(encoded) + (b"," + encode_any(rest)[1:-1] if rest else b"") + b"}")


def _of_kinds(members: dict[str, Any], kinds: Mapping[str, type]) -> dict[str, Any]:
    return {key: value for key, value in members.items() if isinstance(value, kinds.get(key, object))}


def _wrapped(output: bytes) -> bytes | None:
    """The schema of `{"result": value}` for the schema of a value; None where it refers to places that move."""
    schema = decode_json(output)
    # Definitions stay at the root, where references look for them.
    moved = {key: schema.pop(key) for key in ("$schema", "$defs", "definitions") if key in schema}
    if _MOVING.search(output):
        return None
    if not moved:  # byte for byte
        return b'{"type":"object","properties":{"result":%b},"required":["result"]}' % output
    wrapped = {"type": "object", "properties": {"result": schema}, "required": ["result"], **moved}
    return encode_any(wrapped)


def _with_type(schema: dict[str, Any], encoded: bytes) -> bytes:
    """The schema's bytes, with the type spliced in where the root has none: clients insist on it."""
    if "type" in schema:
        return encoded
    rest = encoded.strip()[1:-1].strip()
    return b'{"type":"object"}' if not rest else b'{"type":"object",' + encoded.strip()[1:]
