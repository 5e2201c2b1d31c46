"""FastMCP's client. Modes: "auto" (it speaks the modern era) and "legacy"."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

from fastmcp import Client
from fastmcp.client.elicitation import ElicitResult
from fastmcp.client.transports import StdioTransport, StreamableHttpTransport
from tour import Person, Wire, failure, tour, wire


async def main(mode: Any, command: str, *args: str) -> Wire:
    person = Person()

    def transport() -> Any:
        if not args:
            return StreamableHttpTransport(command)  # the URL of a server
        return StdioTransport(command, list(args), env=dict(os.environ), keep_alive=False)

    async def on_elicit(message: str, response_type: Any, params: Any, context: Any) -> Any:
        answer = person.answer(wire(params))
        if answer["action"] != "accept":
            return ElicitResult(action=answer["action"])
        return response_type(**answer["content"])  # a class that the client made of our schema

    async with Client(transport(), mode=mode, elicitation_handler=on_elicit) as client:

        async def call(name: str, arguments: Wire, on_progress: Any = None) -> Wire:
            return wire(await client.call_tool_mcp(name, arguments, progress_handler=on_progress))

        report = {
            "revision": client.protocol_version,
            "server": wire(client.server_info),
            "instructions": client.instructions,
            **await tour(client.list_tools, call, person),
            "unknown": await failure(client.call_tool_mcp("nonesuch", {})),
        }
        # Here the output schema became a class too.
        added = await client.call_tool("add", {"a": 20, "b": 22})
        assert added.data.sum == 42, added
    async with Client(transport(), mode=mode) as client:  # one that has nobody to ask
        report["nobody"] = await failure(client.call_tool_mcp("ask", {}))
    return report


print(json.dumps(asyncio.run(main(*sys.argv[1:]))))
