"""A legacy stdio server of the standard library alone, whose tools do what the command line has to survive.

`--alive PORT` connects there and keeps the connection: it breaks when this process is gone. `--die TEXT` writes
the text to stderr and exits with status 3; `--odd` lists a tool that cannot be imported as well; `--empty` lists
none; `--banner TEXT` writes the text to stdout first.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import sys
from typing import Any

OBJECT = {"type": "object"}
TOOLS: list[dict[str, Any]] = [
    {
        "name": "echo",
        "description": "Says it again.\n\nA manual that no table shows.",
        "inputSchema": {
            "type": "object",
            "properties": {"text": {"type": "string"}, "times": {"type": "integer"}},
            "required": ["text"],
        },
    },
    {"name": "env", "description": "One \x1b[31mvariable\x1b[0m [bold]here[/bold].", "inputSchema": OBJECT},
    {"name": "fail", "inputSchema": OBJECT},
    {"name": "mute", "inputSchema": OBJECT},
    {"name": "steps", "inputSchema": OBJECT},
    {"name": "hang", "inputSchema": OBJECT},
    {"name": "picture", "inputSchema": OBJECT},
    {"name": "structured", "inputSchema": OBJECT},
    {"name": "surrogate", "inputSchema": OBJECT},
    {"name": "refuse", "inputSchema": OBJECT},
    {"name": "vanish", "inputSchema": OBJECT},
    {"name": "a.dotted.name.that.is.longer.than.a.model.may.be.given.by.far", "inputSchema": OBJECT},
]


def send(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def text(value: str, **more: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": value}], **more}


def call(name: str, arguments: dict[str, Any], meta: dict[str, Any]) -> dict[str, Any]:
    match name:
        case "echo":
            return text(arguments["text"])
        case "env":
            return text(os.environ.get(arguments["name"], "(unset)"))
        case "fail":
            return text("[red]it \x1b[31mfailed\x1b[0m", isError=True)
        case "mute":
            return {"content": [], "isError": True}
        case "steps":
            if "progressToken" in meta:
                for step in range(1, 4):
                    report = {"progressToken": meta["progressToken"], "progress": step, "total": 3}
                    send({"method": "notifications/progress", "params": {**report, "message": f"[b]step {step}"}})
            return text("stepped" if "progressToken" in meta else "nobody asked for steps")
        case "picture":
            image = {"type": "image", "data": "AAAA", "mimeType": "image/png"}
            return {"content": [{"type": "text", "text": "look:"}, image], "_meta": {"a": 1}}
        case "structured":
            return text("for people", structuredContent={"pi": 3.10})
        case "surrogate":
            return text("<\ud800>")
    raise AssertionError(name)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--alive", type=int)
    parser.add_argument("--die")
    parser.add_argument("--banner")
    parser.add_argument("--odd", action="store_true")
    parser.add_argument("--empty", action="store_true")
    options, _ = parser.parse_known_args()
    if options.die:
        sys.stderr.write(options.die + "\n")
        sys.exit(3)
    if options.banner:
        print(options.banner, flush=True)
    alive = socket.create_connection(("127.0.0.1", options.alive)) if options.alive else None
    tools = [] if options.empty else TOOLS + [{"name": "odd"}] * options.odd
    for line in sys.stdin:
        message = json.loads(line)
        params = message.get("params") or {}
        match message["method"]:
            case "initialize":
                result: dict[str, Any] = {
                    "protocolVersion": params["protocolVersion"],
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "scripted", "version": "1"},
                }
            case "tools/list":
                result = {"tools": tools}
            case "tools/call" if params["name"] == "hang":
                if alive:
                    alive.sendall(b"called")
                continue
            case "tools/call" if params["name"] == "vanish":
                sys.stderr.write("\x1b[31mno reason\x1b[0m\n")
                sys.stderr.flush()
                os._exit(4)
            case "tools/call" if params["name"] != "refuse":
                result = call(params["name"], params.get("arguments") or {}, params.get("_meta") or {})
            case _:
                if "id" in message:
                    send({"id": message["id"], "error": {"code": -32601, "message": "no such method"}})
                continue
        send({"id": message["id"], "result": result})


main()
