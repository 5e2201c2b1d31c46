"""What providers take and give, checked against the types of their own packages. No network.

MCP has no such package here: its shapes are written out, from the schema of revision 2025-11-25.
"""

from __future__ import annotations

import copy
import json
from base64 import b64encode
from types import SimpleNamespace
from typing import Any

import pytest
from anthropic.types import ImageBlockParam, Message, MessageParam, ToolParam, ToolResultBlockParam
from attrs import evolve
from openai.types.chat import (
    ChatCompletion,
    ChatCompletionFunctionToolParam,
    ChatCompletionToolMessageParam,
    ChatCompletionUserMessageParam,
)
from openai.types.responses import FunctionToolParam, Response
from openai.types.responses.response_input_param import FunctionCallOutput
from pydantic import ValidationError

from tests.provider_shapes import (
    ANTHROPIC_ANSWER,
    ANTHROPIC_CALLS,
    FAILURE,
    MCP_ANSWER,
    OPENAI_ANSWER,
    OPENAI_CALLS,
    PNG,
    PROVIDERS,
    RESPONSES_ANSWER,
    SUM,
    TURN,
    ToolOutcome,
    asking,
    assert_is,
)
from trio_mcp.agents.providers.lookup import Provider, calls, definitions, results
from trio_mcp.functions.decorators import raw_tool
from trio_mcp.functions.decorators import tool as as_tool
from trio_mcp.memory import open_memory_connection
from trio_mcp.models.content import Image, Text
from trio_mcp.models.result import ToolResult
from trio_mcp.models.tool import ToolSpec, judge_entry
from trio_mcp.server.registry import ToolServer
from trio_mcp.tools.policy import ToolCall
from trio_mcp.tools.tool import Arguments, Tool, remote_tool

PNG_DATA = b64encode(PNG.data).decode()
PNG_URL = f"data:image/png;base64,{PNG_DATA}"
TIFF = Image(b"II*\0 and so on", "image/tiff")


def test_the_check_itself_sees_what_is_wrong() -> None:
    good = {"type": "tool_result", "tool_use_id": "1", "content": [{"type": "text", "text": "a"}]}
    assert_is(ToolResultBlockParam, good)
    with pytest.raises(AssertionError):
        assert_is(ToolResultBlockParam, {**good, "isError": True})
    with pytest.raises(ValidationError):
        assert_is(ToolResultBlockParam, {**good, "is_error": "no"})
    with pytest.raises((ValidationError, AssertionError)):
        assert_is(ToolResultBlockParam, {**good, "content": [{"type": "text"}]})
    with pytest.raises((ValidationError, AssertionError)):
        assert_is(ImageBlockParam, {"type": "image", "source": {"type": "base64", "media_type": "image/tiff"}})


class Nobody:
    """A connection that no test here calls."""

    async def call_tool(self, name: str, arguments: Arguments = None, **_: Any) -> ToolResult:
        raise AssertionError("called")


def listed(**entry: Any) -> Tool:
    """A remote tool as its server lists it."""
    spec = judge_entry(json.dumps({"name": "add", "inputSchema": {"type": "object"}, **entry}).encode(), 0, ())
    assert isinstance(spec, ToolSpec)
    return remote_tool(spec, Nobody(), "calc")


def named(name: str) -> Tool:
    """A tool of just that name, as importing gives it."""
    return evolve(listed(), name=name)


SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
ADD = listed(title="Addition", description="Adds.", inputSchema=SCHEMA, outputSchema={"type": "object"})
DESCRIPTION = "Tool add from the MCP server calc. Adds."


# --- definitions


@pytest.mark.table(
    ("provider", "type_", "definition"),
    [
        (
            "anthropic",
            ToolParam,
            {"name": "mcp__calc__add", "description": DESCRIPTION, "input_schema": SCHEMA},
        ),
        (
            "openai",
            ChatCompletionFunctionToolParam,
            {
                "type": "function",
                "function": {"name": "mcp__calc__add", "description": DESCRIPTION, "parameters": SCHEMA},
            },
        ),
        (
            "openai-responses",
            FunctionToolParam,
            {
                "type": "function",
                "name": "mcp__calc__add",
                "description": DESCRIPTION,
                "parameters": SCHEMA,
                "strict": False,
            },
        ),
    ],
)
def test_a_tool_is_defined_as_the_api_takes_it(provider: Provider, type_: Any, definition: dict[str, Any]) -> None:
    assert definitions(provider, [ADD]) == [definition]
    assert_is(type_, definition)


def test_for_mcp_a_tool_is_a_tool_object() -> None:
    """`Tool` has name and inputSchema, and may have title and description."""
    assert definitions("mcp", [ADD]) == [
        {"name": "mcp__calc__add", "title": "Addition", "description": DESCRIPTION, "inputSchema": SCHEMA}
    ]


def schema_in(provider: Provider, definition: dict[str, Any]) -> Any:
    definition = definition.get("function", definition)
    return definition[{"anthropic": "input_schema", "mcp": "inputSchema"}.get(provider, "parameters")]


@pytest.mark.table("provider", PROVIDERS)
async def test_tools_of_a_connection_are_defined_in_their_order(provider: Provider) -> None:
    @as_tool(read_only=True)
    async def first(number: int) -> int:
        """Come first."""
        return number

    @as_tool
    async def second() -> None:
        """Come second."""

    server = ToolServer("numbers")
    server.add_tools(first, second)
    async with open_memory_connection(server, name="numbers") as connection:
        defined = definitions(provider, connection.tools)
        assert [schema_in(provider, definition) for definition in defined] == [
            tool.input_schema for tool in connection.tools
        ]
    functions = [definition.get("function", definition) for definition in defined]
    assert [function["name"] for function in functions] == ["mcp__numbers__first", "mcp__numbers__second"]
    assert functions[1]["description"] == "Tool second from the MCP server numbers. Come second."


@pytest.mark.table("provider", PROVIDERS)
def test_a_schema_without_type_is_given_one(provider: Provider) -> None:
    [definition] = definitions(provider, [listed(inputSchema={"properties": {"a": {}}})])
    assert schema_in(provider, definition) == {"type": "object", "properties": {"a": {}}}


@pytest.mark.table(
    ("provider", "schema"),
    [
        ("anthropic", {"type": "object"}),
        ("openai", {"type": "object", "properties": {}}),
        ("openai-responses", {"type": "object", "properties": {}}),
        ("mcp", {"type": "object"}),
    ],
)
def test_openai_alone_is_given_properties_where_there_are_none(provider: Provider, schema: Any) -> None:
    """Otherwise it refuses the whole request: "object schema missing properties"."""
    [definition] = definitions(provider, [listed()])
    assert schema_in(provider, definition) == schema


@pytest.mark.table("provider", ["anthropic", "openai", "openai-responses"])
def test_an_empty_object_of_a_php_server_is_an_object(provider: Provider) -> None:
    [definition] = definitions(provider, [listed(inputSchema={"type": "object", "properties": []})])
    assert schema_in(provider, definition) == {"type": "object", "properties": {}}


@pytest.mark.table("provider", PROVIDERS)
def test_a_tool_without_description_is_defined_without_one(provider: Provider) -> None:
    [definition] = definitions(provider, [raw_tool("bare", "", {"type": "object"}, bytes)])
    assert "description" not in definition.get("function", definition)


@pytest.mark.table("provider", PROVIDERS)
def test_defining_leaves_the_tool_as_it_is_and_so_does_changing_the_definition(provider: Provider) -> None:
    tool = listed(inputSchema={"type": "object", "properties": {"a": {"type": "object"}}})
    before = copy.deepcopy(tool.input_schema)
    [definition] = definitions(provider, [tool])
    for schema in (schema_in(provider, definition), schema_in(provider, definition)["properties"]["a"]):
        schema["additionalProperties"] = False  # as OpenAI's strict mode wants it
    assert tool.input_schema == before


@pytest.mark.table("provider", PROVIDERS)
def test_a_lone_surrogate_in_a_description_does_not_cost_the_request(provider: Provider) -> None:
    [definition] = definitions(
        provider, [listed(title="\udc00", description="half \ud83d of a pair, \ud83d\ude00")]
    )
    text = definition.get("function", definition)["description"]
    assert text == "Tool add from the MCP server calc. half \ufffd of a pair, \U0001f600"
    assert json.dumps(definition, ensure_ascii=False).encode()


@pytest.mark.table("provider", PROVIDERS)
def test_a_lone_surrogate_in_a_schema_does_not_cost_the_request(provider: Provider) -> None:
    properties = {"a": {"description": "half \ud83d of a pair, \ud83d\ude00 \\ud83d"}}
    [definition] = definitions(provider, [listed(inputSchema={"properties": properties})])
    text = schema_in(provider, definition)["properties"]["a"]["description"]
    assert text == "half \ufffd of a pair, \U0001f600 \\ud83d"


# --- names


LONG = "a" * 65


@pytest.mark.table("provider", PROVIDERS)
@pytest.mark.table(
    ("name", "given"),
    [
        ("get_current_time", "get_current_time"),
        ("a" * 64, "a" * 64),
        # printf 'get.time' | sha256sum
        ("get.time", "get_time_1d1114c3"),
        (LONG, "a" * 55 + "_635361c4"),
        ("", "_e3b0c442"),
        ("naïve\n", "na_ve__e5264d07"),
    ],
)
def test_a_name_that_providers_refuse_is_mended_and_mapped_back(provider: Provider, name: str, given: str) -> None:
    [definition] = definitions(provider, [named(name)])
    assert definition.get("function", definition)["name"] == given
    assert calls(provider, asking(provider, "1", given, {}), [named(name)])[0].name == name


@pytest.mark.table("provider", PROVIDERS)
def test_other_names_of_a_call_stay(provider: Provider) -> None:
    """A model may make one up, or read the tool's own name somewhere."""
    tools = [named("get.time")]
    assert calls(provider, asking(provider, "1", "get.time", {}), tools)[0].name == "get.time"
    assert calls(provider, asking(provider, "1", "get_date", {}), tools)[0].name == "get_date"
    assert calls(provider, asking(provider, "1", "get_time_1d1114c3", {}))[0].name == "get_time_1d1114c3"


@pytest.mark.table("provider", PROVIDERS)
def test_a_mended_name_that_meets_another_is_refused(provider: Provider) -> None:
    tools = [named("get.time"), named("get_time_1d1114c3")]
    for ask in (
        lambda: definitions(provider, tools),
        lambda: calls(provider, asking(provider, "1", "x", {}), tools),
    ):
        with pytest.raises(ValueError) as caught:
            ask()
        assert str(caught.value) == (
            'tools "get.time" and "get_time_1d1114c3": both would be defined as "get_time_1d1114c3"'
        )


# --- calls


MESSAGE = OPENAI_ANSWER["choices"][0]["message"]  # type: ignore[index]
COMPLETION = ChatCompletion.model_validate(OPENAI_ANSWER)


@pytest.mark.table(
    ("provider", "message", "found"),
    [
        pytest.param(
            "anthropic", Message.model_validate(ANTHROPIC_ANSWER), ANTHROPIC_CALLS, id="anthropic object"
        ),
        pytest.param("anthropic", ANTHROPIC_ANSWER, ANTHROPIC_CALLS, id="anthropic dict"),
        pytest.param("anthropic", ANTHROPIC_ANSWER["content"], ANTHROPIC_CALLS, id="anthropic list"),
        pytest.param("openai", COMPLETION, OPENAI_CALLS, id="openai completion"),
        pytest.param("openai", COMPLETION.choices[0].message, OPENAI_CALLS, id="openai message"),
        pytest.param("openai", COMPLETION.choices[0].message.tool_calls, OPENAI_CALLS, id="openai list"),
        pytest.param("openai", OPENAI_ANSWER, OPENAI_CALLS, id="openai completion dict"),
        pytest.param("openai", MESSAGE, OPENAI_CALLS, id="openai message dict"),
        pytest.param(
            "openai-responses", Response.model_validate(RESPONSES_ANSWER), OPENAI_CALLS, id="response object"
        ),
        pytest.param(
            "openai-responses",
            Response.model_validate(RESPONSES_ANSWER).output,
            OPENAI_CALLS,
            id="response objects in a list",
        ),
        pytest.param("openai-responses", RESPONSES_ANSWER, OPENAI_CALLS, id="response dict"),
        pytest.param("openai-responses", RESPONSES_ANSWER["output"], OPENAI_CALLS, id="response list"),
        pytest.param("mcp", MCP_ANSWER, ANTHROPIC_CALLS, id="mcp"),
        pytest.param("mcp", MCP_ANSWER["content"], ANTHROPIC_CALLS, id="mcp list"),
        pytest.param("mcp", SimpleNamespace(**MCP_ANSWER), ANTHROPIC_CALLS, id="mcp object"),
    ],
)
def test_calls_come_in_order_and_with_their_arguments_untouched(
    provider: Provider, message: Any, found: list[ToolCall]
) -> None:
    assert calls(provider, message, [named("get.time")]) == found


@pytest.mark.table(
    ("provider", "message"),
    [
        ("anthropic", {"role": "assistant", "content": "Hello."}),
        (
            "anthropic",
            Message.model_validate({**ANTHROPIC_ANSWER, "content": [{"type": "text", "text": "Hello."}]}),
        ),
        ("anthropic", {"role": "assistant", "content": []}),
        ("openai", {"role": "assistant", "content": "Hello."}),
        ("openai", {"role": "assistant", "content": "Hello.", "tool_calls": None}),
        ("openai", {"choices": [{"message": {"role": "assistant", "content": "Hello."}}]}),
        ("openai-responses", {"output": [{"type": "message", "role": "assistant", "content": []}]}),
        ("openai-responses", []),
        ("mcp", {"role": "assistant", "model": "m", "content": {"type": "text", "text": "Hello."}}),
    ],
)
def test_a_message_without_calls_has_none(provider: Provider, message: Any) -> None:
    assert calls(provider, message) == []


def test_a_sampling_result_may_have_one_block_that_is_in_no_list() -> None:
    block = {"type": "tool_use", "id": "1", "name": "add", "input": {"a": 1}}
    assert calls("mcp", {**MCP_ANSWER, "content": block}) == [ToolCall("1", "add", {"a": 1})]


def test_servers_that_resemble_openai_may_leave_out_type_and_id() -> None:
    call = {"function": {"name": "add", "arguments": {"a": 1}}}
    assert calls("openai", {"role": "assistant", "tool_calls": [call]}) == [ToolCall("", "add", {"a": 1})]


@pytest.mark.table("name", [["add"], {"a": 1}, 5, None])
def test_a_name_that_is_no_text_is_an_unknown_tools_and_costs_no_other_call(name: Any) -> None:
    blocks: list[Any] = [{"type": "tool_use", "id": "1", "name": odd, "input": {}} for odd in (name, "add")]
    assert calls("anthropic", {"content": blocks}, [ADD]) == [ToolCall("1", "", {}), ToolCall("1", "add", {})]


def test_an_answer_that_was_not_validated_can_be_read() -> None:
    """The packages build their models unchecked, so that a new API does not break an old client."""
    message = Message.construct(
        role="assistant", content=[{"type": "tool_use", "id": "1", "name": "x", "input": 5}]
    )
    assert calls("anthropic", message) == [ToolCall("1", "x", 5)]


@pytest.mark.table(
    ("provider", "message"),
    [
        ("anthropic", None),
        ("anthropic", "text"),
        ("anthropic", COMPLETION),
        ("anthropic", {**MESSAGE, "content": "I look."}),
        ("openai", Message.model_validate(ANTHROPIC_ANSWER)),
        ("openai", None),
        ("openai", 5),
        ("openai", {"error": {"message": "overloaded"}}),
        ("openai", Response.model_validate(RESPONSES_ANSWER)),
        ("openai-responses", COMPLETION),
        ("openai-responses", Message.model_validate(ANTHROPIC_ANSWER)),
        ("mcp", {"model": "m"}),
    ],
)
def test_what_is_no_answer_of_the_provider_is_refused(provider: Provider, message: Any) -> None:
    """An agent whose turn seems to be over, because its author named the wrong provider, is hard to mend."""
    with pytest.raises(TypeError) as caught:
        calls(provider, message)
    expected = f'message: expected what "{provider}" answers with, got {type(message).__name__}'
    assert str(caught.value) == expected


# --- results


def test_anthropic_is_told_all_outcomes_in_one_message() -> None:
    told = results("anthropic", TURN)
    source = {"type": "base64", "media_type": "image/png", "data": PNG_DATA}
    content = [{"type": "text", "text": "as wished"}, {"type": "image", "source": source}]
    assert told == [
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "1", "content": "5", "is_error": False},
                {"type": "tool_result", "tool_use_id": "2", "content": content, "is_error": False},
                {"type": "tool_result", "tool_use_id": "3", "content": FAILURE.content, "is_error": True},
            ],
        }
    ]
    assert_is(MessageParam, told[0])


def test_openai_is_told_each_outcome_in_a_message_and_shown_the_images_in_one_behind_them() -> None:
    told = results("openai", TURN)
    assert told == [
        {"role": "tool", "tool_call_id": "1", "content": "5"},
        {"role": "tool", "tool_call_id": "2", "content": "as wished"},
        {"role": "tool", "tool_call_id": "3", "content": FAILURE.content},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "Images that the call 2 of the tool paint returned:"},
                {"type": "image_url", "image_url": {"url": PNG_URL}},
            ],
        },
    ]
    for message in told[:3]:
        assert_is(ChatCompletionToolMessageParam, message)
    assert_is(ChatCompletionUserMessageParam, told[3])
    assert results("openai", [SUM, FAILURE]) == [told[0], told[2]]


def test_openai_responses_are_told_each_outcome_in_an_item() -> None:
    told = results("openai-responses", TURN)
    shown = [{"type": "input_text", "text": "as wished"}, {"type": "input_image", "image_url": PNG_URL}]
    assert told == [
        {"type": "function_call_output", "call_id": "1", "output": "5"},
        {"type": "function_call_output", "call_id": "2", "output": shown},
        {"type": "function_call_output", "call_id": "3", "output": FAILURE.content},
    ]
    for item in told:
        assert_is(FunctionCallOutput, item)


def test_mcp_is_told_all_outcomes_in_one_message() -> None:
    """`ToolResultContent`: toolUseId and content must be there, structuredContent is an object."""
    image = {"type": "image", "data": PNG_DATA, "mimeType": "image/png"}
    assert results("mcp", TURN) == [
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "toolUseId": "1",
                    "content": [{"type": "text", "text": "5"}],
                    "structuredContent": {"sum": 5},
                    "isError": False,
                },
                {
                    "type": "tool_result",
                    "toolUseId": "2",
                    "content": [{"type": "text", "text": "as wished"}, image],
                    "isError": False,
                },
                {
                    "type": "tool_result",
                    "toolUseId": "3",
                    "content": [{"type": "text", "text": FAILURE.content}],
                    "isError": True,
                },
            ],
        }
    ]


@pytest.mark.table("structured", [[1], "text", 5, None])
def test_structured_output_that_is_no_object_does_not_go_to_mcp(structured: Any) -> None:
    [message] = results("mcp", [ToolOutcome("1", "x", "1", structured=structured)])
    assert "structuredContent" not in message["content"][0]


def test_structured_output_that_no_client_could_encode_goes_to_mcp_as_far_as_it_is_json() -> None:
    for odd, sent in (("\ud83d", "\ufffd"), (float("nan"), None)):
        [message] = results("mcp", [ToolOutcome("1", "x", "1", structured={"a": [odd, 2**70]})])
        assert message["content"][0]["structuredContent"] == {"a": [sent, 2**70]}


def test_mcp_is_given_images_of_every_type_and_all_that_they_carry() -> None:
    image = Image(TIFF.data, "image/tiff", annotations={"audience": ["user"]}, meta={"page": 1})
    [message] = results("mcp", [ToolOutcome("1", "scan", "", images=(image,))])
    data = b64encode(TIFF.data).decode()
    assert message["content"][0]["content"] == [
        {
            "type": "image",
            "data": data,
            "mimeType": "image/tiff",
            "annotations": {"audience": ["user"]},
            "_meta": {"page": 1},
        }
    ]


NOTE = "[image image/tiff, 14 bytes]"


@pytest.mark.parametrize(("text", "shown"), [("scanned", f"scanned\n{NOTE}"), ("", NOTE)])
def test_an_image_that_the_provider_does_not_look_at_is_a_note(text: str, shown: str) -> None:
    outcome = ToolOutcome("1", "scan", text, images=(TIFF,))
    [anthropic] = results("anthropic", [outcome])
    assert anthropic["content"][0]["content"] == shown
    assert_is(MessageParam, anthropic)
    assert results("openai", [outcome]) == [{"role": "tool", "tool_call_id": "1", "content": shown}]
    assert results("openai-responses", [outcome])[0]["output"] == shown


def test_an_empty_image_is_a_note() -> None:
    """The APIs refuse the whole request over one."""
    outcome = ToolOutcome("1", "scan", "", images=(Image(b"", "image/png"),))
    for provider in ("anthropic", "openai", "openai-responses"):
        assert "[image image/png, 0 bytes]" in json.dumps(results(provider, [outcome]))
        assert "base64" not in json.dumps(results(provider, [outcome]))


def test_a_note_and_an_image_come_together() -> None:
    outcome = ToolOutcome("1", "scan", "", images=(TIFF, PNG))
    [message] = results("anthropic", [outcome])
    assert [block["type"] for block in message["content"][0]["content"]] == ["text", "image"]
    assert_is(MessageParam, message)
    tool, user = results("openai", [outcome])
    assert tool["content"] == NOTE
    assert user["content"][1]["image_url"]["url"] == PNG_URL
    [item] = results("openai-responses", [outcome])
    assert item["output"] == [{"type": "input_text", "text": NOTE}, {"type": "input_image", "image_url": PNG_URL}]


@pytest.mark.parametrize(
    ("mime_type", "sent"),
    [
        ("image/jpeg", "image/jpeg"),
        ("image/jpg", "image/jpeg"),
        ("IMAGE/GIF", "image/gif"),
        (" image/webp ;quality=80", "image/webp"),
    ],
)
def test_media_types_are_sent_as_the_api_spells_them(mime_type: str, sent: str) -> None:
    outcome = ToolOutcome("1", "paint", "", images=(Image(b"x", mime_type),))
    [message] = results("anthropic", [outcome])
    assert message["content"][0]["content"][0]["source"]["media_type"] == sent
    assert_is(MessageParam, message)
    assert results("openai", [outcome])[1]["content"][1]["image_url"]["url"] == f"data:{sent};base64,eA=="
    assert results("openai-responses", [outcome])[0]["output"][0]["image_url"] == f"data:{sent};base64,eA=="


@pytest.mark.parametrize("text", ["", " \n"])
def test_blank_text_beside_an_image_is_no_text_block_for_anthropic(text: str) -> None:
    """The API refuses "text content blocks" without "non-whitespace text"."""
    [message] = results("anthropic", [ToolOutcome("1", "paint", text, images=(PNG,))])
    assert [block["type"] for block in message["content"][0]["content"]] == ["image"]


def test_an_outcome_without_text_says_so() -> None:
    silent = ToolOutcome("1", "quiet", "")
    [message] = results("anthropic", [silent])
    assert message["content"][0]["content"] == ""
    assert results("openai", [silent]) == [{"role": "tool", "tool_call_id": "1", "content": ""}]
    assert results("openai-responses", [silent])[0]["output"] == ""
    [message] = results("mcp", [silent])
    assert message["content"][0]["content"] == []


@pytest.mark.table("provider", PROVIDERS)
def test_no_outcomes_are_nothing_to_tell(provider: Provider) -> None:
    assert results(provider, []) == []


@pytest.mark.table("provider", PROVIDERS)
def test_a_lone_surrogate_in_a_text_does_not_cost_the_conversation(provider: Provider) -> None:
    told = results(provider, [ToolOutcome("1", "x", "a\ud800b", images=(PNG,))])
    assert "a\ufffdb" in json.dumps(told, ensure_ascii=False).encode().decode()


@pytest.mark.table("provider", PROVIDERS)
async def test_what_a_server_returned_is_shown_to_the_model(provider: Provider) -> None:
    @as_tool
    async def paint() -> list[Any]:
        return [Text("as wished"), PNG]

    server = ToolServer("art")
    server.add_tools(paint)
    async with open_memory_connection(server, name="art") as connection:
        result = await connection.tools[0].call({})
    outcome = ToolOutcome("1", "mcp__art__paint", result.content, result.images, result.structured)
    told = json.dumps(results(provider, [outcome]))
    assert "as wished" in told
    assert PNG_DATA in told


# --- every function


@pytest.mark.table("provider", ["", "claude", "Anthropic", None])
def test_an_unknown_provider_is_refused_with_the_names_of_the_known(provider: Any) -> None:
    for ask in (
        lambda: definitions(provider, []),
        lambda: calls(provider, {}),
        lambda: results(provider, []),
    ):
        with pytest.raises(ValueError) as caught:
            ask()
        expected = 'provider: expected one of "anthropic", "openai", "openai-responses", "mcp", got '
        assert str(caught.value) == f"{expected}{provider!r}"
