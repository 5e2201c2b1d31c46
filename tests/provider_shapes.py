"""The providers' side: what their APIs answer in one turn, and the check that a value is what their APIs take.

Their packages' parameter types are checked with pydantic, which takes what is lazily iterable for a list and drops
members that a type does not have: `assert_is` goes through all of it and compares what is left with what went in.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import TypeAdapter

from trio_mcp.agents.outcome import ToolOutcome as ToolOutcome
from trio_mcp.models.content import Image
from trio_mcp.tools.policy import ToolCall

PROVIDERS = ["anthropic", "openai", "openai-responses", "mcp"]


def exhausted(value: Any) -> Any:
    """The value with everything iterable gone through, which is when pydantic validates it."""
    if isinstance(value, Mapping):
        return {name: exhausted(item) for name, item in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, str | bytes):
        return [exhausted(item) for item in value]
    return value


def assert_is(type_: Any, value: Any) -> None:
    """Assert that the value is one of the provider's type, and has no member that the type does not have."""
    adapter = TypeAdapter(type_)  # what it gave needs it to the end
    assert exhausted(adapter.validate_python(value, strict=True)) == value


ANTHROPIC_ANSWER = {
    "id": "msg_01",
    "type": "message",
    "role": "assistant",
    "model": "claude-opus-4-8",
    "content": [
        {"type": "thinking", "thinking": "Two at once.", "signature": "c2lnbmVk"},
        {"type": "text", "text": "I look."},
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}},
        {"type": "tool_use", "id": "toolu_1", "name": "add", "input": {"b": 2, "a": 36893488147419103232}},
        {"type": "tool_use", "id": "toolu_2", "name": "get_time_1d1114c3", "input": {}},
    ],
    "stop_reason": "tool_use",
    "stop_sequence": None,
    "usage": {"input_tokens": 1, "output_tokens": 1},
}
ANTHROPIC_CALLS = [
    ToolCall("toolu_1", "add", {"b": 2, "a": 36893488147419103232}),
    ToolCall("toolu_2", "get.time", {}),
]

#: Broken, as models make it; and with what a decoder would lose.
BROKEN = '{"a": 1,'
EXACT = '{"b":1.10, "a":1e2}'

OPENAI_ANSWER = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1700000000,
    "model": "gpt-5",
    "choices": [
        {
            "index": 0,
            "finish_reason": "tool_calls",
            "logprobs": None,
            "message": {
                "role": "assistant",
                "content": None,
                "refusal": None,
                "tool_calls": [
                    {"id": "call_1", "type": "function", "function": {"name": "add", "arguments": BROKEN}},
                    {"id": "call_9", "type": "custom", "custom": {"name": "shell", "input": "ls"}},
                    {
                        "id": "call_2",
                        "type": "function",
                        "function": {"name": "get_time_1d1114c3", "arguments": EXACT},
                    },
                ],
            },
        }
    ],
}
OPENAI_CALLS = [ToolCall("call_1", "add", BROKEN), ToolCall("call_2", "get.time", EXACT)]

RESPONSES_ANSWER = {
    "id": "resp_1",
    "object": "response",
    "created_at": 1700000000.0,
    "model": "gpt-5",
    "status": "completed",
    "output": [
        {"id": "rs_1", "type": "reasoning", "summary": []},
        {
            "id": "fc_1",
            "type": "function_call",
            "call_id": "call_1",
            "name": "add",
            "arguments": BROKEN,
            "status": "completed",
        },
        {"id": "ctc_1", "type": "custom_tool_call", "call_id": "call_9", "name": "shell", "input": "ls"},
        {
            "id": "fc_2",
            "type": "function_call",
            "call_id": "call_2",
            "name": "get_time_1d1114c3",
            "arguments": EXACT,
            "status": "completed",
        },
    ],
    "parallel_tool_calls": True,
    "tool_choice": "auto",
    "tools": [],
}

#: A CreateMessageResult.
MCP_ANSWER = {
    "role": "assistant",
    "model": "a-model",
    "stopReason": "toolUse",
    "content": [
        {"type": "text", "text": "I look."},
        {"type": "tool_use", "id": "toolu_1", "name": "add", "input": {"b": 2, "a": 36893488147419103232}},
        {"type": "tool_use", "id": "toolu_2", "name": "get_time_1d1114c3", "input": {}, "_meta": {"cache": 1}},
    ],
}

PNG = Image(b"\x89PNG", "image/png")
SUM = ToolOutcome("1", "add", "5", structured={"sum": 5})
PICTURE = ToolOutcome("2", "paint", "as wished", images=(PNG,))
FAILURE = ToolOutcome("3", "fail", "mcp: tool returned an error", is_error=True)
TURN = [SUM, PICTURE, FAILURE]


def asking(provider: str, id_: str, name: str, arguments: Any) -> dict[str, Any]:
    """An answer, as decoded JSON, in which a model asks for one call."""
    if provider == "openai":
        call = {"id": id_, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
        return {"role": "assistant", "content": None, "tool_calls": [call]}
    if provider == "openai-responses":
        call = {"type": "function_call", "call_id": id_, "name": name, "arguments": json.dumps(arguments)}
        return {"object": "response", "output": [call]}
    block = {"type": "tool_use", "id": id_, "name": name, "input": arguments}
    return {"role": "assistant", "content": [block], "model": "a-model"}
