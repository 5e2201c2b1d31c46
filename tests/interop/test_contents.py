"""What else the servers show: progress, pictures, annotations, resources, changing lists, questions."""

from __future__ import annotations

import pytest
import trio

from tests.interop import node_servers, python_servers
from tests.interop.scenario import PATIENCE, Known, Scenario
from trio_mcp import (
    EmbeddedResource,
    Image,
    ProtocolError,
    RequestError,
    ResourceLink,
    Text,
    open_connection,
)

pytestmark = pytest.mark.interop

SDK = pytest.mark.parametrize(
    ("known", "protocol"),
    [
        pytest.param(python_servers.SDK_V1, "auto", id="sdk-v1"),
        pytest.param(python_servers.SDK_V2, "modern", id="sdk-v2-modern"),
        pytest.param(python_servers.SDK_V2, "legacy", id="sdk-v2-legacy"),
    ],
)


@SDK
async def test_progress_arrives_in_order_and_before_the_answer(
    scenario: Scenario, protocol: str, nothing_left: dict[str, str]
) -> None:
    seen: list[tuple[float, float | None, str | None]] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        seen.append((progress, total, message))

    with trio.fail_after(PATIENCE):
        async with open_connection(scenario.server(nothing_left, protocol=protocol)) as connection:
            result = await connection.call_tool("steps", {"count": 5}, on_progress=on_progress)
    assert result.content == "done"
    assert seen == [(step, 5, f"step {step}") for step in range(1, 6)]


@pytest.mark.parametrize("known", [node_servers.EVERYTHING], ids=["everything"])
async def test_progress_of_a_server_in_typescript(scenario: Scenario, nothing_left: dict[str, str]) -> None:
    seen: list[float] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        assert total == 4
        seen.append(progress)

    with trio.fail_after(PATIENCE):
        async with open_connection(scenario.server(nothing_left)) as connection:
            await connection.call_tool(
                "trigger-long-running-operation", {"duration": 0.4, "steps": 4}, on_progress=on_progress
            )
    assert seen == [1, 2, 3, 4]


@SDK
async def test_a_picture_arrives_byte_for_byte(
    scenario: Scenario, protocol: str, nothing_left: dict[str, str]
) -> None:
    with trio.fail_after(PATIENCE):
        async with open_connection(scenario.server(nothing_left, protocol=protocol)) as connection:
            result = await connection.call_tool("picture")
    assert [(image.data, image.mime_type) for image in result.images] == [(node_servers.PIXEL, "image/png")]
    assert result.content == ""
    assert result.as_text() == f"[image image/png, {len(node_servers.PIXEL)} bytes]"


@SDK
async def test_annotations_decide_whether_a_tool_may_run_beside_others(
    scenario: Scenario, protocol: str, nothing_left: dict[str, str]
) -> None:
    with trio.fail_after(PATIENCE):
        async with open_connection(scenario.server(nothing_left, protocol=protocol)) as connection:
            tools = {tool.remote_name: tool for tool in connection.tools}
    assert tools["echo"].annotations is not None
    assert tools["echo"].annotations.read_only_hint is True
    assert tools["echo"].sequential is False
    assert tools["add"].sequential is True
    assert tools["add"].title == "Addition"
    assert tools["add"].output_schema is not None
    assert tools["add"].output_schema["required"] == ["total"]


@pytest.mark.parametrize("known", [node_servers.EVERYTHING], ids=["everything"])
async def test_blocks_keep_their_annotations_and_links(scenario: Scenario, nothing_left: dict[str, str]) -> None:
    with trio.fail_after(PATIENCE):
        async with open_connection(scenario.server(nothing_left)) as connection:
            said = await connection.call_tool(
                "get-annotated-message", {"messageType": "error", "includeImage": True}
            )
            links = await connection.call_tool("get-resource-links", {"count": 2})
            whole = await connection.call_tool("get-resource-reference", {"resourceType": "Blob", "resourceId": 7})
            page = await connection.request("resources/list")
            read = await connection.request("resources/read", {"uri": "demo://resource/dynamic/text/2"})
            with pytest.raises(RequestError) as caught:
                await connection.request("no/such/method")
    text, image = said.blocks
    assert isinstance(text, Text)
    assert isinstance(image, Image)
    assert text.annotations == {"priority": 1, "audience": ["user", "assistant"]}
    assert image.data.startswith(b"\x89PNG")
    _, first, second = links.blocks
    assert isinstance(first, ResourceLink)
    assert isinstance(second, ResourceLink)
    assert (second.uri, second.name, second.mime_type) == (
        "demo://resource/dynamic/text/2",
        "Text Resource 2",
        "text/plain",
    )
    _, resource, _ = whole.blocks
    assert isinstance(resource, EmbeddedResource)
    assert resource.blob is not None
    assert resource.blob.startswith(b"Resource 7: This is a base64 blob")
    assert page["resources"]
    assert read["contents"][0]["text"].startswith("Resource 2")
    assert caught.value.code == -32601


@pytest.mark.parametrize("known", [python_servers.SDK_V2], ids=["sdk-v2"])
async def test_a_tool_that_appears_later_is_seen_by_a_watcher(
    scenario: Scenario, nothing_left: dict[str, str]
) -> None:
    """The modern SDK server tells of its changes only on a stream that was asked for."""
    with trio.fail_after(PATIENCE):
        async with (
            open_connection(scenario.server(nothing_left, protocol="modern")) as connection,
            connection.watch_tools() as changes,
        ):
            before = {tool.remote_name for tool in connection.tools}
            await connection.call_tool("grow", {"name": "leaf"})
            async for tools in changes:
                if {tool.remote_name for tool in tools} == before | {"leaf"}:
                    break
            assert (await connection.call_tool("leaf")).content == "leaf"


@SDK
async def test_a_server_that_asks_the_user_fails_that_call_alone(
    known: Known, scenario: Scenario, protocol: str, nothing_left: dict[str, str]
) -> None:
    """Nothing was advertised, so the SDK refuses to ask, or asks and is refused: clear either way."""
    with trio.fail_after(PATIENCE):
        async with open_connection(scenario.server(nothing_left, protocol=protocol)) as connection:
            if known is python_servers.SDK_V1:  # it turns the refusal into the tool's own failure
                result = await connection.call_tool("ask")
                assert result.is_error
                assert "elicitation" in result.content
            else:
                with pytest.raises((RequestError, ProtocolError), match="elicitation"):
                    await connection.call_tool("ask")
            assert (await connection.call_tool("echo", {"text": "on"})).content == "on"
