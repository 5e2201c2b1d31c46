"""Conversations as wire scripts, for `open_script`: the handshake of either era, and a call whose server asks."""

from __future__ import annotations

import json
from typing import Any

#: The capabilities of a client that answers questions.
FORMS = json.dumps({"elicitation": {"form": {}}})
DONE = {"content": [{"type": "text", "text": "done"}]}


def wire(*messages: tuple[str, dict[str, Any]]) -> str:
    """Messages as lines of a script."""
    return "".join(f"{side} {json.dumps({'jsonrpc': '2.0', **message})}\n" for side, message in messages)


def handshake(era: str) -> str:
    if era == "legacy":
        result = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {}}
        return wire(
            (">", {"method": "initialize", "id": "@i", "params": {"capabilities": {"elicitation": {"form": {}}}}}),
            ("<", {"id": "@i", "result": result}),
            (">", {"method": "notifications/initialized"}),
        )
    result = {"supportedVersions": ["2026-07-28"], "capabilities": {}, "resultType": "complete"}
    caps: dict[str, Any] = {"io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}}}
    return wire(
        (">", {"method": "server/discover", "id": "@d", "params": {"_meta": caps}}),
        ("<", {"id": "@d", "result": result}),
    )


def call_that_asks(era: str, params: dict[str, Any], *, answer: Any = None, error: Any = None) -> str:
    """A call whose server asks once, and what it must be answered."""
    question = {"method": "elicitation/create", "params": params}
    if era == "legacy":
        reply = {"error": error} if error else {"result": answer}
        return wire(
            (">", {"method": "tools/call", "id": "@c"}),
            ("<", {"id": "q", **question}),
            (">", {"id": "q", **reply}),
            ("<", {"id": "@c", "result": DONE}),
        )
    asking = wire(
        (">", {"method": "tools/call", "id": "@c"}),
        ("<", {"id": "@c", "result": {"resultType": "input_required", "inputRequests": {"k": question}}}),
    )
    if answer is None:
        return asking
    return asking + wire(
        (">", {"method": "tools/call", "id": "@c2", "params": {"inputResponses": {"k": answer}}}),
        ("<", {"id": "@c2", "result": DONE}),
    )
