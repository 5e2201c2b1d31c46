"""The client of the official Python SDK 1.x, which knows the legacy era only."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import ElicitResult
from tour import Person, Wire, failure, tour, wire


async def main(_mode: str, command: str, *args: str) -> Wire:
    def streams() -> Any:
        if not args:
            return streamable_http_client(command)  # the URL of a server
        return stdio_client(StdioServerParameters(command=command, args=list(args), env=dict(os.environ)))

    person = Person()

    async def on_elicit(context: Any, params: Any) -> ElicitResult:
        return ElicitResult.model_validate(person.answer(wire(params)))

    async with (
        streams() as ends,
        ClientSession(*ends[:2], elicitation_callback=on_elicit) as session,
    ):

        async def tools() -> Any:
            return (await session.list_tools()).tools

        async def call(name: str, arguments: Wire, on_progress: Any = None) -> Wire:
            return wire(await session.call_tool(name, arguments, progress_callback=on_progress))

        welcome = await session.initialize()
        await session.send_ping()
        await session.set_logging_level("debug")
        report = {
            "revision": welcome.protocolVersion,
            "server": wire(welcome.serverInfo),
            "instructions": welcome.instructions,
            **await tour(tools, call, person),
            "unknown": await failure(session.call_tool("nonesuch", {})),
        }
    async with streams() as ends, ClientSession(*ends[:2]) as session:  # nobody to ask
        await session.initialize()
        report["nobody"] = await failure(session.call_tool("ask", {}))
    return report


print(json.dumps(asyncio.run(main(*sys.argv[1:]))))
