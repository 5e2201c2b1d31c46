"""The client of the official Python SDK 2.x. Modes: "auto" (it speaks the modern era) and "legacy"."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

from mcp import Client, StdioServerParameters
from mcp_types import ElicitResult
from tour import Person, Wire, failure, tour, wire


async def main(mode: Any, command: str, *args: str) -> Wire:
    parameters: Any = command  # the URL of a server
    if args:
        parameters = StdioServerParameters(command=command, args=list(args), env=dict(os.environ))
    person = Person()

    async def on_elicit(context: Any, params: Any) -> ElicitResult:
        return ElicitResult.model_validate(person.answer(wire(params)))

    async with Client(parameters, mode=mode, elicitation_callback=on_elicit) as client:

        async def tools() -> Any:
            return (await client.list_tools()).tools

        async def call(name: str, arguments: Wire, on_progress: Any = None) -> Wire:
            return wire(await client.call_tool(name, arguments, progress_callback=on_progress))

        report = {
            "revision": client.protocol_version,
            "server": wire(client.server_info),
            "instructions": client.instructions,
            **await tour(tools, call, person),
            "unknown": await failure(client.call_tool("nonesuch", {})),
        }
    async with Client(parameters, mode=mode) as client:  # one that has nobody to ask
        report["nobody"] = await failure(client.call_tool("ask", {}))
    return report


print(json.dumps(asyncio.run(main(*sys.argv[1:]))))
