"""A server that repeats what it was told in secret, at the place it is asked to; a program over stdio.

`answers` makes the messages that it sends for one message; test_secrets_everywhere.py sends the same over HTTP.
This needs nothing but the standard library.
"""

import json
import os
import sys
from typing import Any

#: Where it can write a secret: over stdio and over HTTP.
PLACES = (
    *("opening", "version", "nothing-common", "listing", "no-list", "entries", "pages", "error", "long-error"),
    *("result-type", "no-result", "wrong-result", "asked", "form", "told", "no-error", "structured"),
)


def answers(message: dict[str, Any], era: str, place: str, secrets: Any) -> list[dict[str, Any]]:
    """The messages that this server sends when it gets one."""
    said = " ".join(secrets)
    method, id_ = message.get("method"), message.get("id")

    def result(**members: Any) -> list[dict[str, Any]]:
        return [{"jsonrpc": "2.0", "id": id_, "result": {"resultType": "complete", **members}}]

    def error(text: str = said, code: int = -32000) -> list[dict[str, Any]]:
        data = {"supported": [said], "why": [said, {said: said}]}
        return [{"jsonrpc": "2.0", "id": id_, "error": {"code": code, "message": text, "data": data}}]

    cached: dict[str, Any] = {"ttlMs": 0, "cacheScope": "private"}
    if method in ("server/discover", "initialize"):
        if place == "opening":
            return error()
        if place == "version":
            return result(protocolVersion=said, supportedVersions=said, capabilities={}, serverInfo={})
        if place == "nothing-common":
            return result(protocolVersion=said, supportedVersions=[said], capabilities={}, serverInfo={})
        if method == "initialize":
            capabilities: dict[str, Any] = {"tools": {}, "logging": {}}
            return result(protocolVersion="2025-11-25", capabilities=capabilities, serverInfo={})
        if era == "legacy":
            return error("Method not found", -32601)
        return result(supportedVersions=["2026-07-28"], capabilities={"tools": {}}, **cached)
    if method == "tools/list":
        if place == "listing":
            return error()
        if place == "no-list":
            return result(tools=said, **cached)
        tools: list[Any] = [{"name": "ask", "inputSchema": {"type": "object"}}]
        if place == "entries":
            header = {"type": "object", "properties": {"a": {"type": "string", "x-mcp-header": said}}}
            good = {"type": "object"}
            tools += [{"name": said, "inputSchema": None}, {"name": said * 30}, said]
            tools += [{"name": said + mark, "inputSchema": good} for mark in ("", "", "?")]
            tools += [{"name": "header " + said, "inputSchema": header}]
        more = {"nextCursor": [said]} if place == "pages" else {}
        return result(tools=tools, **cached, **more)
    if method == "tools/call":
        if place == "result-type":
            return [{"jsonrpc": "2.0", "id": id_, "result": {"resultType": said, "content": []}}]
        if place == "no-result":
            return [{"jsonrpc": "2.0", "id": id_, "result": said}]
        if place == "wrong-result":
            return result(content=[], isError=said)
        if place == "structured":
            return result(content=[], structuredContent={"number": said})
        if place == "no-error":
            return [{"jsonrpc": "2.0", "id": id_, "error": said}]
        if place == "long-error":
            return error(" " * (4096 - len(secrets[0]) // 2) + said)
        asks: dict[str, Any] = {"method": said, "params": {"why": said}}
        if place == "form":
            form = {"type": "object", "properties": {}, "required": [said]}
            asks = {"method": "elicitation/create", "params": {"message": "Who?", "requestedSchema": form}}
        if place in ("asked", "form") and era == "modern":
            asked = {"resultType": "input_required", "inputRequests": {said: asks}}
            return [{"jsonrpc": "2.0", "id": id_, "result": asked}]
        if place in ("asked", "form"):
            return [{"jsonrpc": "2.0", "id": said, **asks}, *error()]
        if place == "told":
            log = {"level": "error", "logger": said, "data": {"key": said, "more": [said]}}
            notes: list[Any] = [
                ("notifications/" + said, {}),
                ("notifications/message", log),
                ("notifications/message", said),
            ]
            return [*({"jsonrpc": "2.0", "method": name, "params": more} for name, more in notes), *error()]
        return error()
    return result() if method and id_ is not None else []


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    own = [os.environ["API_KEY"], *(word.rpartition("=")[2] for word in sys.argv[3:5])]
    if given["place"] == "junk":
        print("cannot log in:", *own, flush=True)
    for line in sys.stdin:
        for answer in answers(json.loads(line), given["era"], given["place"], own):
            print(json.dumps(answer), flush=True)
