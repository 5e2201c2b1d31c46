"""Whole turns through the providers' own clients, on trio, with the network replaced at the HTTP level.

Each test has two requests: the model asks for calls, is told how they went, and is done. What the client made of
our definitions and results is what the API would receive.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx2
import pytest
import trio
from anthropic import AsyncAnthropic, DefaultAsyncHttpxClient
from anthropic.types.message_create_params import MessageCreateParamsNonStreaming
from openai import AsyncOpenAI
from openai import DefaultAsyncHttpxClient as OpenAIHttpxClient
from openai.types.chat.completion_create_params import CompletionCreateParamsNonStreaming
from openai.types.responses.response_create_params import ResponseCreateParamsNonStreaming

from tests.provider_shapes import (
    ANTHROPIC_ANSWER,
    ANTHROPIC_CALLS,
    OPENAI_ANSWER,
    OPENAI_CALLS,
    RESPONSES_ANSWER,
    TURN,
    assert_is,
)
from trio_mcp.agents.providers.lookup import Provider, calls, definitions, results
from trio_mcp.functions.decorators import raw_tool
from trio_mcp.tools.policy import ToolCall

TOOLS = [
    raw_tool("add", "Adds.", {"type": "object", "properties": {}}, bytes),
    raw_tool("get.time", "", {}, bytes),
]
QUESTION = {"role": "user", "content": "What is 2 + 3, and when?"}


def scripted(*answers: Any) -> tuple[httpx2.MockTransport, list[Any]]:
    """A transport that gives these answers in order, and the bodies of the requests that it was sent."""
    bodies: list[Any] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        bodies.append(json.loads(request.read()))
        return httpx2.Response(200, json=answers[len(bodies) - 1])

    return httpx2.MockTransport(answer), bodies


async def _anthropic(transport: httpx2.MockTransport) -> tuple[list[ToolCall], list[ToolCall]]:
    http_client = DefaultAsyncHttpxClient(transport=transport)
    async with AsyncAnthropic(api_key="none", http_client=http_client) as client:
        conversation: list[Any] = [QUESTION]
        asked = []
        for _ in range(2):
            tools: Any = definitions("anthropic", TOOLS)
            message = await client.messages.create(
                model="claude-opus-4-8", max_tokens=100, messages=conversation, tools=tools
            )
            asked.append(calls("anthropic", message, TOOLS))
            conversation += [{"role": "assistant", "content": message.content}, *results("anthropic", TURN)]
        return asked[0], asked[1]


async def _openai(transport: httpx2.MockTransport) -> tuple[list[ToolCall], list[ToolCall]]:
    async with AsyncOpenAI(api_key="none", http_client=OpenAIHttpxClient(transport=transport)) as client:
        conversation: list[Any] = [QUESTION]
        asked = []
        for _ in range(2):
            tools: Any = definitions("openai", TOOLS)
            completion = await client.chat.completions.create(model="gpt-5", messages=conversation, tools=tools)
            asked.append(calls("openai", completion, TOOLS))
            conversation += [completion.choices[0].message, *results("openai", TURN)]
        return asked[0], asked[1]


async def _responses(transport: httpx2.MockTransport) -> tuple[list[ToolCall], list[ToolCall]]:
    async with AsyncOpenAI(api_key="none", http_client=OpenAIHttpxClient(transport=transport)) as client:
        conversation: list[Any] = [QUESTION]
        asked = []
        for _ in range(2):
            tools: Any = definitions("openai-responses", TOOLS)
            response = await client.responses.create(model="gpt-5", input=conversation, tools=tools)
            asked.append(calls("openai-responses", response, TOOLS))
            conversation += [*response.output, *results("openai-responses", TURN)]
        return asked[0], asked[1]


REQUESTS = {
    "anthropic": MessageCreateParamsNonStreaming,
    "openai": CompletionCreateParamsNonStreaming,
    "openai-responses": ResponseCreateParamsNonStreaming,
}
TEXT = {"type": "text", "text": "It is 5."}
SPOKEN = {"role": "assistant", "content": "It is 5.", "refusal": None}
LAST_ITEM = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "It is 5.", "annotations": []}],
}
FIRST_CHOICE = {"index": 0, "finish_reason": "stop", "logprobs": None, "message": SPOKEN}


@pytest.mark.parametrize(
    ("provider", "talk", "answers", "asked", "messages"),
    [
        pytest.param(
            "anthropic",
            _anthropic,
            (ANTHROPIC_ANSWER, {**ANTHROPIC_ANSWER, "content": [TEXT], "stop_reason": "end_turn"}),
            ANTHROPIC_CALLS,
            "messages",
            id="anthropic",
        ),
        pytest.param(
            "openai",
            _openai,
            (OPENAI_ANSWER, {**OPENAI_ANSWER, "choices": [FIRST_CHOICE]}),
            OPENAI_CALLS,
            "messages",
            id="openai",
        ),
        pytest.param(
            "openai-responses",
            _responses,
            (RESPONSES_ANSWER, {**RESPONSES_ANSWER, "output": [LAST_ITEM]}),
            OPENAI_CALLS,
            "input",
            id="openai-responses",
        ),
    ],
)
async def test_the_client_sends_what_we_made_and_we_read_what_it_got(
    provider: Provider, talk: Callable[..., Any], answers: Any, asked: list[ToolCall], messages: str
) -> None:
    transport, bodies = scripted(*answers)
    with trio.fail_after(60):
        first, second = await talk(transport)
    assert first == asked
    assert second == []
    for body in bodies:
        assert_is(REQUESTS[provider], body)
    told = results(provider, TURN)
    assert [body["tools"] for body in bodies] == [definitions(provider, TOOLS)] * 2
    assert bodies[0][messages] == [QUESTION]
    assert bodies[1][messages][-len(told) :] == told
    # The model's own part goes back as it came, but for what the client leaves out.
    own = json.dumps(bodies[1][messages][1 : -len(told)])
    assert all(call.id in own for call in asked)
