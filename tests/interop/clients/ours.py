"""Our own client, beside those that nobody here wrote. Modes: "modern" and "legacy"."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Awaitable
from functools import partial
from typing import Any, cast

import trio
from tour import Person, Wire, tour

from trio_mcp import ElicitRequest, ElicitResult, RequestError, Server, ToolResult, open_connection
from trio_mcp.models.content import block_to_wire
from trio_mcp.protocol.revisions import ProtocolChoice


def wire(result: ToolResult) -> Wire:
    """A result in the spelling of the wire."""
    found: Wire = {"content": [block_to_wire(block) for block in result.blocks], "isError": result.is_error}
    if result.structured_json is not None:
        found["structuredContent"] = result.structured
    return found


async def failure(call: Awaitable[ToolResult]) -> Wire:
    """The error that a call is answered with, or else its result."""
    try:
        return wire(await call)
    except RequestError as error:
        return {"code": error.code, "message": error.message, "data": error.data}


async def gather(*calls: Awaitable[Any]) -> list[Any]:
    """Await many at once."""
    found: list[Any] = [None] * len(calls)

    async def one(index: int, call: Awaitable[Any]) -> None:
        found[index] = await call

    async with trio.open_nursery() as nursery:
        for index, call in enumerate(calls):
            nursery.start_soon(one, index, call)
    return found


async def main(mode: str, command: str, *args: str) -> Wire:
    person = Person()
    protocol = cast(ProtocolChoice, mode)  # as the command line says
    if args:
        server = Server("ours", command=command, args=args, env=dict(os.environ), protocol=protocol)
    else:
        server = Server("ours", url=command, protocol=protocol)

    async def on_elicit(request: ElicitRequest) -> ElicitResult:
        answer = person.answer({"message": request.message, "requestedSchema": request.schema})
        return ElicitResult(answer["action"], answer.get("content"))

    async with open_connection(server, on_elicit=on_elicit) as connection:

        async def tools() -> Any:
            return [tool.spec.raw for tool in connection.tools]

        async def call(name: str, arguments: Wire, on_progress: Any = None) -> Wire:
            return wire(await connection.call_tool(name, arguments, on_progress=on_progress))

        report = {
            "revision": connection.protocol_version,
            "server": connection.server_info,
            "instructions": connection.instructions,
            **await tour(tools, call, person, gather),
            "unknown": await failure(connection.call_tool("nonesuch", {})),
        }
    async with open_connection(server) as connection:  # one that has nobody to ask
        report["nobody"] = await failure(connection.call_tool("ask", {}))
    return report


print(json.dumps(trio.run(partial(main, *sys.argv[1:]))))
