"""Publishes the same tool with one library: `python benchmarks/servers/exposed.py CONTENDER stdio|PORT`.

Each library is used as its own documentation shows, with an async function. driving.py starts this program.
"""

from __future__ import annotations

import importlib
import logging
import sys
from functools import partial
from typing import Any

HOST = "127.0.0.1"


async def echo(text: str) -> str:
    """Return the text."""
    return text


def trio_mcp(port: int | None) -> None:
    """This library."""
    import trio

    import trio_mcp

    server = trio_mcp.ToolServer("echo")
    server.add_tools(trio_mcp.tool(echo))
    if port is None:
        trio.run(trio_mcp.serve_stdio, server)
    else:
        trio.run(partial(trio_mcp.serve_http, server, host=HOST, port=port))


def mcp(port: int | None) -> None:
    """The official SDK."""
    server = importlib.import_module("mcp.server.mcpserver").MCPServer("echo", log_level="ERROR")
    server.tool()(echo)
    if port is None:
        server.run()
    else:
        run_app(server.streamable_http_app(json_response=True, stateless_http=True), port)


def fastmcp(port: int | None) -> None:
    """FastMCP."""
    server = importlib.import_module("fastmcp").FastMCP("echo")
    server.tool(echo)
    if port is None:
        server.run(show_banner=False, log_level="ERROR")
    else:
        run_app(server.http_app(json_response=True, stateless_http=True), port)


def hypercorn(port: int | None) -> None:
    """No MCP library: an ASGI app that echoes and checks nothing, on the server under trio_mcp.serve_http."""
    import msgspec
    import trio

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            for phase in ("startup", "shutdown"):
                await receive()
                await send({"type": f"lifespan.{phase}.complete"})
            return
        parts = []
        while (part := await receive()).get("more_body"):
            parts.append(part["body"])
        asked = msgspec.json.decode(b"".join((*parts, part["body"])))
        result = {"content": [{"type": "text", "text": asked["params"]["arguments"]["text"]}]}
        body = msgspec.json.encode({"jsonrpc": "2.0", "id": asked["id"], "result": result})
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    config = importlib.import_module("hypercorn.config").Config()
    config.bind = [f"{HOST}:{port}"]
    config.loglevel = "ERROR"
    trio.run(importlib.import_module("hypercorn.trio").serve, app, config)


def run_app(app: Any, port: int) -> None:
    """Run the app of a peer on uvicorn, without a log line for each request."""
    importlib.import_module("uvicorn").run(app, host=HOST, port=port, log_level="error", access_log=False)


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    serve_with = {one.__name__: one for one in (trio_mcp, mcp, fastmcp, hypercorn)}[sys.argv[1]]
    serve_with(None if sys.argv[2] == "stdio" else int(sys.argv[2]))
