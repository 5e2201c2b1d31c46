"""The server under test of the official conformance suite: `server.py PORT` serves http://localhost:PORT/mcp.

Its tools have the names and do the things that the suite's scenarios ask for (their descriptions say so).
"""

from __future__ import annotations

import base64
import json
import sys
from functools import partial
from typing import Any

import attrs
import trio

from trio_mcp import (
    Audio,
    Context,
    EmbeddedResource,
    Image,
    Text,
    ToolServer,
    raw_tool,
    serve_http,
    tool,
)

#: The smallest PNG there is, and a WAV file without a sound.
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
WAV = base64.b64decode("UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAAAAA==")

SCHEMA_2020_12 = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}
WITH_HEADER = {
    "type": "object",
    "properties": {"region": {"type": "string", "x-mcp-header": "Region"}},
    "required": ["region"],
}
DEFAULTS = {
    "name": {"type": "string", "default": "John Doe"},
    "age": {"type": "integer", "default": 30},
    "score": {"type": "number", "default": 95.5},
    "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
    "verified": {"type": "boolean", "default": True},
}
ENUMS = {
    "untitledSingle": {"type": "string", "enum": ["option1", "option2", "option3"]},
    "titledSingle": {
        "type": "string",
        "oneOf": [{"const": "value1", "title": "First Option"}, {"const": "value2", "title": "Second Option"}],
    },
    "legacyEnum": {"type": "string", "enum": ["opt1", "opt2"], "enumNames": ["Option One", "Option Two"]},
    "untitledMulti": {"type": "array", "items": {"type": "string", "enum": ["option1", "option2", "option3"]}},
    "titledMulti": {
        "type": "array",
        "items": {
            "anyOf": [{"const": "value1", "title": "First Choice"}, {"const": "value2", "title": "Second Choice"}]
        },
    },
}

server = ToolServer("trio_mcp conformance", version="1")


@attrs.frozen
class Confirmation:
    ok: bool


@attrs.frozen
class Person:
    name: str


@attrs.frozen
class Colour:
    color: str


@attrs.frozen
class Contact:
    username: str
    email: str


def sampling(text: str) -> dict[str, Any]:
    """The params of a sampling/createMessage."""
    return {"messages": [{"role": "user", "content": {"type": "text", "text": text}}], "maxTokens": 100}


def form(properties: dict[str, Any], message: str = "Please fill this in") -> dict[str, Any]:
    """The params of an elicitation/create."""
    return {"message": message, "requestedSchema": {"type": "object", "properties": properties}}


@tool
async def test_simple_text() -> str:
    """Return a text."""
    return "This is a simple text response for testing."


@tool
async def test_image_content() -> Image:
    """Return an image."""
    return Image(PNG, "image/png")


@tool
async def test_audio_content() -> Audio:
    """Return a sound."""
    return Audio(WAV, "audio/wav")


@tool
async def test_embedded_resource() -> EmbeddedResource:
    """Return a resource."""
    return EmbeddedResource("test://embedded-resource", text="This is a resource.", mime_type="text/plain")


@tool
async def test_multiple_content_types() -> list[Text | Image | EmbeddedResource]:
    """Return a text, an image and a resource."""
    resource = EmbeddedResource("test://mixed-content-resource", text="{}", mime_type="application/json")
    return [Text("Multiple content types test:"), Image(PNG, "image/png"), resource]


@tool
async def test_error_handling() -> str:
    """Fail."""
    raise RuntimeError("This tool intentionally returns an error for testing")


@tool
async def test_tool_with_progress(context: Context) -> str:
    """Tell how far it is."""
    for done in (0, 50, 100):
        await context.progress(done, 100, f"{done} of 100")
        await trio.sleep(0.05)
    return "done"


@tool
async def test_tool_with_logging(context: Context) -> str:
    """Log three messages."""
    for message in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await context.log("info", message)
        await trio.sleep(0.05)
    return "done"


@tool
async def test_logging_tool(context: Context) -> str:
    """Log one message."""
    await context.log("info", "a message")
    return "done"


@tool
async def test_sampling(prompt: str, context: Context) -> str:
    """Ask the client's model."""
    return f"LLM response: {json.dumps(await context.sample(sampling(prompt)))}"


@tool
async def test_missing_capability(context: Context) -> str:
    """Need a model."""
    return json.dumps(await context.sample(sampling("Hello")))


@tool
async def test_elicitation(message: str, context: Context) -> str:
    """Ask the user."""
    return f"User response: {await context.elicit(message, Contact)}"


@tool
async def test_elicitation_sep1034_defaults(context: Context) -> str:
    """Ask the user with a form that has defaults."""
    return f"Elicitation completed: {await context.ask('elicitation/create', form(DEFAULTS))}"


@tool
async def test_elicitation_sep1330_enums(context: Context) -> str:
    """Ask the user with a form of choices."""
    return f"Elicitation completed: {await context.ask('elicitation/create', form(ENUMS))}"


@tool
async def test_streaming_elicitation(context: Context) -> str:
    """Ask the user, and tell how far it is."""
    await context.progress(1, 2)
    return f"{await context.elicit('Go on?', Confirmation)}"


@tool
async def test_trigger_tool_change() -> str:
    """Change the list of tools."""

    @tool
    async def test_added() -> str:
        """There since test_trigger_tool_change was called."""
        return "here"

    server.add_tools(test_added)
    return "changed"


@tool
async def test_input_required_result_elicitation(context: Context) -> str:
    """Ask for a name, under a key that clients know."""
    params = form({"name": {"type": "string"}}, "What is your name?")
    answer = await context.ask("elicitation/create", params, key="user_name")
    return f"Hello, {answer.get('content', {}).get('name', 'nobody')}!"


@tool
async def test_input_required_result_sampling(context: Context) -> str:
    """Ask the client's model."""
    return json.dumps(await context.sample(sampling("What is the capital of France?")))


@tool
async def test_input_required_result_list_roots(context: Context) -> str:
    """Ask for the roots."""
    return json.dumps(await context.ask("roots/list", {}))


@tool
async def test_input_required_result_request_state(context: Context) -> str:
    """Ask for a confirmation."""
    return f"state-ok: {await context.elicit('Please confirm', Confirmation)}"


@tool
async def test_input_required_result_tampered_state(context: Context) -> str:
    """Ask for a confirmation whose state must not be changed."""
    return f"{await context.elicit('Please confirm', Confirmation)}"


@tool
async def test_input_required_result_multiple_inputs(context: Context) -> str:
    """Ask three things at once."""
    answers: list[Any] = []

    async def ask(method: str, params: dict[str, Any]) -> None:
        answers.append(await context.ask(method, params))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask, "elicitation/create", form({"name": {"type": "string"}}))
        nursery.start_soon(ask, "sampling/createMessage", sampling("Generate a greeting"))
        nursery.start_soon(ask, "roots/list", {})
    return json.dumps(answers)


@tool
async def test_input_required_result_multi_round(context: Context) -> str:
    """Ask two things, one after the other."""
    name = await context.elicit("What is your name?", Person)
    colour = await context.elicit("What is your favourite colour?", Colour)
    return f"{name} {colour}"


@tool
async def test_input_required_result_capabilities(context: Context) -> str:
    """Ask what the client can be asked."""
    return json.dumps(await context.sample(sampling("Hello")))


def only_text(arguments: bytes) -> str:
    """What a tool does whose schema alone is tested."""
    return f"called with {len(arguments)} bytes"


# The suite calls the first one without arguments.
server.add_tools(
    *(found for name, found in list(globals().items()) if name.startswith("test_")),
    raw_tool("json_schema_2020_12_tool", "Tool with JSON Schema 2020-12 features", SCHEMA_2020_12, only_text),
    raw_tool("test_custom_header", "Tool with an argument that is repeated in a header", WITH_HEADER, only_text),
)


if __name__ == "__main__":
    port = int(sys.argv[1])
    # The suite sends the origin of a local page, and expects it to be let in.
    origins = [f"http://{name}:{port}" for name in ("localhost", "127.0.0.1")]
    trio.run(partial(serve_http, server, host="localhost", port=port, allowed_origins=origins))
