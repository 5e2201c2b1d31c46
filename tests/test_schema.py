"""What the demo server lists and answers, against the official JSON Schema of each revision.

The schemas are no part of this repository: they are looked for in `TRIO_MCP_SCHEMAS`, else beside the checkout. A
test that finds none is skipped, and says so.
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.exposing import Client, modern, raw
from tests.far_end import Message
from trio_mcp import Audio, Context, EmbeddedResource, Image, ResourceLink, Text, ToolServer, demo, tool
from trio_mcp.protocol.revisions import LEGACY_VERSIONS, MODERN_VERSIONS

SCHEMAS = Path(os.environ.get("TRIO_MCP_SCHEMAS") or Path(__file__).resolve().parents[2] / "shared" / "schema")
FORMS: dict[str, dict[str, Any]] = {"elicitation": {"form": {}}, "sampling": {}}


@tool
async def everything() -> list[Text | Image | Audio | EmbeddedResource | ResourceLink]:
    """Give a block of each kind."""
    return [
        Text("text", annotations={"priority": 0.5, "audience": ["user"]}),
        Image(b"i", "image/png"),
        Audio(b"a", "audio/wav"),
        EmbeddedResource("file:///a", text="a"),
        EmbeddedResource("file:///b", blob=b"b", mime_type="text/plain"),
        ResourceLink("file:///c", "c", title="C", size=1),
    ]


@tool
async def chat(context: Context) -> int:
    """Say something on the side, and give a number."""
    await context.log("error", {"a": [1]})
    await context.progress(1, 2, "half")
    return 5


@tool
async def think(context: Context) -> str:
    """Ask the client's model."""
    message = {"role": "user", "content": {"type": "text", "text": "?"}}
    return str(await context.sample({"messages": [message], "maxTokens": 10}))


class Judge:
    """Validates against the definitions of one revision."""

    def __init__(self, revision: str) -> None:
        path = SCHEMAS / f"{revision}.json"
        if not path.exists():
            pytest.skip(f"there is no JSON Schema of {revision} in {SCHEMAS} (set TRIO_MCP_SCHEMAS)")
        self.revision = revision
        self._schema = json.loads(path.read_text(encoding="utf-8"))
        self._key = "$defs" if "$defs" in self._schema else "definitions"
        self._make = jsonschema.validators.validator_for(self._schema)

    def __call__(self, value: Any, *names: str) -> None:
        """The value is valid under each of the definitions that this revision has; it has to have one."""
        known = [name for name in names if name in self._schema[self._key]]
        assert known, names
        for name in known:
            self._make({**self._schema, "$ref": f"#/{self._key}/{name}"}).validate(value)

    def message(self, message: Message, name: str) -> None:
        """A whole message, and what it carries."""
        self(message, "JSONRPCMessage")
        self(message.get("result", message), name)


@pytest.fixture
def judge(request: pytest.FixtureRequest) -> Judge:
    """The judge of a revision."""
    return Judge(request.param)


MODERN = pytest.mark.parametrize("judge", MODERN_VERSIONS, indirect=True)
LEGACY = pytest.mark.parametrize("judge", LEGACY_VERSIONS, indirect=True)


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    server = ToolServer("demo", version="1", instructions="Try it.")
    server.add_tools(*demo.server.tools, everything, chat, think)
    async with raw(server=server) as client:
        yield client


@pytest.mark.parametrize("judge", [*MODERN_VERSIONS, *LEGACY_VERSIONS], indirect=True)
def test_the_judge_judges(judge: Judge) -> None:
    judge(
        {"content": [], **({"resultType": "complete"} if judge.revision in MODERN_VERSIONS else {})},
        "CallToolResult",
    )
    with pytest.raises(jsonschema.ValidationError):
        judge({"content": [{"type": "text"}]}, "CallToolResult")


CALLS: list[tuple[str, dict[str, Any]]] = [
    ("echo", {"text": "hi"}),
    ("add", {"a": 1, "b": 2}),
    ("slow", {"seconds": 0}),
    ("flaky", {}),
    ("flaky", {}),
    ("picture", {}),
    ("echo", {"text": 7}),
]


@MODERN
async def test_every_answer_of_the_modern_era_is_valid(judge: Judge, client: Client) -> None:
    judge.message(await client.modern("server/discover"), "DiscoverResult")
    listing = await client.modern("tools/list")
    judge.message(listing, "ListToolsResult")
    for entry in listing["result"]["tools"]:
        judge(entry, "Tool")
        jsonschema.Draft202012Validator.check_schema(entry["inputSchema"])
        jsonschema.Draft202012Validator.check_schema(entry.get("outputSchema", {}))
    for name, arguments in (*CALLS, ("everything", {}), ("chat", {})):
        judge.message(await client.modern("tools/call", name=name, arguments=arguments), "CallToolResult")
    for name in ("ask", "think"):
        answer = await client.modern("tools/call", name=name, meta={"clientCapabilities": FORMS})
        judge.message(answer, "InputRequiredResult")


@MODERN
async def test_every_notification_of_the_modern_era_is_valid(judge: Judge, client: Client) -> None:
    params = modern(name="chat", meta={"progressToken": "t", "logLevel": "debug"})
    await client.ask("tools/call", params)
    judge.message(await client.take(), "LoggingMessageNotification")
    judge.message(await client.take(), "ProgressNotification")
    judge.message(await client.take(), "CallToolResult")
    await client.ask("subscriptions/listen", modern(notifications={"toolsListChanged": True}))
    judge.message(await client.take(), "SubscriptionsAcknowledgedNotification")
    client.service.server.add_tools(everything)
    judge.message(await client.take(), "ToolListChangedNotification")
    await client.output.aclose()
    judge.message(await client.take(), "SubscriptionsListenResult")


@MODERN
async def test_every_error_of_the_modern_era_is_valid(judge: Judge, client: Client) -> None:
    judge.message(await client.modern("tools/call", name="ask"), "MissingRequiredClientCapabilityError")
    judge.message(
        await client.modern("tools/list", meta={"protocolVersion": "x"}), "UnsupportedProtocolVersionError"
    )
    judge.message(await client.modern("ping"), "JSONRPCErrorResponse")
    judge.message(await client.modern("tools/call", name="nowhere"), "JSONRPCErrorResponse")
    for line in (b"{\n", b"{}\n"):
        await client.send(line)
        judge.message(await client.take(), "JSONRPCErrorResponse")


#: What the older revisions have no word for. A tool that gives it is for clients that know it.
TOO_NEW = {"2024-11-05": ("everything",), "2025-03-26": ("everything",)}


@LEGACY
async def test_every_answer_of_the_legacy_era_is_valid(judge: Judge, client: Client) -> None:
    judge.message(await client.initialize(judge.revision), "InitializeResult")
    judge.message(await client.request("ping"), "EmptyResult")
    judge.message(await client.request("logging/setLevel", {"level": "error"}), "EmptyResult")
    listing = await client.request("tools/list")
    judge.message(listing, "ListToolsResult")
    for entry in listing["result"]["tools"]:
        judge(entry, "Tool")
    for name, arguments in (*CALLS, ("everything", {})):
        if name not in TOO_NEW.get(judge.revision, ()):
            answer = await client.request("tools/call", {"name": name, "arguments": arguments})
            judge.message(answer, "CallToolResult")
    answer = await client.request("tools/call", {"name": "nowhere"})
    judge(answer, "JSONRPCErrorResponse", "JSONRPCError")


@LEGACY
async def test_every_notification_and_question_of_the_legacy_era_is_valid(judge: Judge, client: Client) -> None:
    await client.initialize(judge.revision, **FORMS)
    await client.ask("tools/call", {"name": "chat", "_meta": {"progressToken": 7}})
    judge.message(await client.take(), "LoggingMessageNotification")
    judge.message(await client.take(), "ProgressNotification")
    judge.message(await client.take(), "CallToolResult")
    client.service.server.add_tools(everything)
    judge.message(await client.take(), "ToolListChangedNotification")
    await client.ask("tools/call", {"name": "think"})
    judge.message(await client.take(), "CreateMessageRequest")
    if judge.revision >= "2025-06-18":
        await client.ask("tools/call", {"name": "ask"})
        judge.message(await client.take(), "ElicitRequest")
