"""The client under test of the official conformance suite: `client.py URL`. See run.py.

The suite says in the environment which scenario it plays and which revision is spoken. What a scenario needs
beyond opening the connection stands in a function of its own.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Awaitable, Callable

import trio

from trio_mcp import Connection, ElicitRequest, ElicitResult, Server, open_connection

#: Seconds: the suite's own bound is 30, and it waits for whoever survives that.
PATIENCE = 25.0

Scenario = Callable[[Connection], Awaitable[None]]


async def only_list(connection: Connection) -> None:
    """Opening has listed the tools."""
    await connection.refresh_tools()


async def add_numbers(connection: Connection) -> None:
    await connection.call_tool("add_numbers", {"a": 5, "b": 3})


async def elicitation_defaults(connection: Connection) -> None:
    await connection.call_tool("test_client_elicitation_defaults")


async def reconnection(connection: Connection) -> None:
    await connection.call_tool("test_reconnection")


async def standard_headers(connection: Connection) -> None:
    for tool in connection.tools:
        await tool.call({})
    for method, call, key, member in (
        ("resources/list", "resources/read", "resources", "uri"),
        ("prompts/list", "prompts/get", "prompts", "name"),
    ):
        for found in (await connection.request(method)).get(key, ()):
            await connection.request(call, {member: found[member]})


async def custom_headers(connection: Connection) -> None:
    for call in json.loads(os.environ["MCP_CONFORMANCE_CONTEXT"])["toolCalls"]:
        await connection.call_tool(call["name"], call.get("arguments"))


async def valid_tools(connection: Connection) -> None:
    for tool in connection.tools:
        await tool.call({"region": "us-west1"})


async def request_state(connection: Connection) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(connection.call_tool, "test_mrtr_echo_state")
        nursery.start_soon(connection.call_tool, "test_mrtr_unrelated")
    await connection.call_tool("test_mrtr_no_state")
    await connection.call_tool("test_mrtr_no_result_type")


async def echo_schema(connection: Connection) -> None:
    (tool,) = (tool for tool in connection.tools if tool.remote_name == "json_schema_2020_12_tool")
    await connection.call_tool("json_schema_echo", {"schema": tool.input_schema})


SCENARIOS: dict[str, Scenario] = {
    "tools_call": add_numbers,
    "elicitation-sep1034-client-defaults": elicitation_defaults,
    "sse-retry": reconnection,
    "http-standard-headers": standard_headers,
    "http-custom-headers": custom_headers,
    "http-invalid-tool-headers": valid_tools,
    "sep-2322-client-request-state": request_state,
    "json-schema-2020-12-preservation": echo_schema,
}


async def accept(request: ElicitRequest) -> ElicitResult:
    """Yes to whatever needs a yes; the form's defaults do the rest."""
    properties = request.schema.get("properties", {})
    return ElicitResult.accept({"confirmed": True} if "confirmed" in properties else {})


async def main(url: str) -> None:
    """Play the scenario."""
    is_modern = os.environ.get("MCP_CONFORMANCE_PROTOCOL_VERSION", "2025-11-25") >= "2026"
    server = Server("conformance", url=url, protocol="modern" if is_modern else "legacy")
    scenario = SCENARIOS.get(os.environ.get("MCP_CONFORMANCE_SCENARIO", ""), only_list)
    with trio.fail_after(PATIENCE):
        async with open_connection(server, on_elicit=accept) as connection:
            await scenario(connection)


if __name__ == "__main__":
    trio.run(main, sys.argv[-1])
