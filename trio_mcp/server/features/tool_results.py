"""A tool's result as it goes over the wire, in either era. Knows no call and no transport."""

from __future__ import annotations

import json

import msgspec

from ...models.content import Text, block_to_wire
from ...models.result import ToolResult
from ...models.tool import ToolSpec
from ...protocol.messages import check_json, encode_any, encode_json, one_line, without_halves
from ...protocol.revisions import META_SERVER_INFO, Era
from ...tools.failures import with_failure_text
from ..registry import ToolServer


def encode_result(result: ToolResult, era: Era, server: ToolServer, spec: ToolSpec) -> bytes:
    """A result of a tool, encoded. Its structured output and `_meta` pass unchanged, as far as they are JSON."""
    if result.is_error:
        result = with_failure_text(result)
    content = [
        {"type": "text", "text": block.text}
        if type(block) is Text and block == Text(block.text)
        else block_to_wire(block)
        for block in result.blocks
    ]
    members = [b'"content":' + encode_any(content)]
    structured = result.structured_json
    if structured is not None:
        as_json = _as_json(structured)
        # To legacy clients structured output is an object; to modern ones any value.
        if era == "modern" or not is_wrapped(spec, structured):
            members.append(b'"structuredContent":' + as_json)
        elif spec.output_schema is None:
            members.append(b'"structuredContent":{"result":%b}' % as_json)
    if result.is_error:
        members.append(b'"isError":true')
    if era == "modern":
        if result.meta:
            meta = {META_SERVER_INFO: server.info, **result.meta}
            members.append(b'"resultType":"complete","_meta":' + encode_any(meta))
        else:
            members.append(encode_json(server.modern_members)[1:-1])
    elif result.meta:
        members.append(b'"_meta":' + encode_any(result.meta))
    return without_halves(b"{%b}" % b",".join(members))


def is_wrapped(spec: ToolSpec, structured: bytes) -> bool:
    """Whether structured output is no object, or that of a tool whose schema is not one of objects.

    The values of such a tool go to legacy clients as `{"result": value}`, objects among them too: what a client
    gets is of one shape.
    """
    if structured.lstrip()[:1] != b"{":
        return True
    return spec.output_schema is None and spec.output_schema_json is not None


def _as_json(structured: bytes) -> bytes:
    """Structured output on one line, byte for byte, but for NaN and Infinity, which become null.

    They are no JSON: a client drops a line with them, and waits for ever for its answer.
    """
    if b"NaN" in structured or b"Infinity" in structured:
        try:
            check_json(structured)
        except msgspec.DecodeError:
            return encode_any(json.loads(structured, parse_constant=lambda _: None))
    return one_line(structured)
