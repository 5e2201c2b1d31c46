"""A turn of a toolbox for each provider, from the definitions to the results, with tools of a real connection."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any

import attrs
import pytest
import trio

from tests.provider_shapes import PNG, PROVIDERS, asking
from trio_mcp.agents.providers.lookup import Provider
from trio_mcp.agents.toolbox import Toolbox
from trio_mcp.functions.decorators import tool
from trio_mcp.memory import open_memory_connection
from trio_mcp.models.content import Text
from trio_mcp.server.registry import ToolServer


@tool(name="paint.quickly", read_only=True)
async def paint(colour: str) -> list[Any]:
    """Paint something."""
    return [Text(f"all in {colour}"), PNG]


@pytest.mark.table("provider", PROVIDERS)
async def test_a_model_calls_a_tool_by_a_mended_name_and_sees_what_it_returned(provider: Provider) -> None:
    server = ToolServer("art")
    server.add_tools(paint)
    with trio.fail_after(10):
        async with open_memory_connection(server, name="art") as connection:
            [listed] = connection.tools
            toolbox = Toolbox([attrs.evolve(listed, name="paint.quickly")])
            [definition] = toolbox.definitions(provider)
            name = definition.get("function", definition)["name"]
            assert name == "paint_quickly_972faa5b"
            calls = toolbox.calls(provider, asking(provider, "call_1", name, {"colour": "red"}))
            assert [call.name for call in calls] == ["paint.quickly"]
            told = json.dumps(toolbox.results(provider, await toolbox.run(calls)))
    assert "call_1" in told
    assert "all in red" in told
    assert b64encode(PNG.data).decode() in told


@pytest.mark.parametrize("provider", ["openai", "openai-responses"])
async def test_broken_arguments_come_back_to_the_model_as_a_failed_call(provider: Provider) -> None:
    toolbox = Toolbox([paint])
    answer = asking(provider, "call_1", "paint", {})
    [call] = answer.get("tool_calls") or answer["output"]
    call.get("function", call).update(name="paint_quickly_972faa5b", arguments='{"colour": ')
    [outcome] = await toolbox.run(toolbox.calls(provider, answer))
    assert outcome.is_error
    assert outcome.content.startswith('arguments for "paint.quickly" are not a JSON object: ')
    assert outcome.content in str(toolbox.results(provider, [outcome]))
