"""OpenAI's two APIs, chat completions and responses: https://developers.openai.com/api/docs/guides/function-calling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...tools.naming import provider_name
from ...tools.policy import ToolCall
from ...tools.tool import Tool
from .answers import elements, member, read_call
from .api import Outcome, ProviderApi, Shape
from .encodable import described
from .pictures import text_and_pictures
from .schemas import SchemaRules

#: Both APIs answer 400 with these: "object schema missing properties", "array schema missing items", and "schema
#: must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level".
_RULES = SchemaRules(
    needs_properties=True,
    needs_items=True,
    refused_at_root=frozenset({"anyOf", "oneOf", "allOf", "enum", "not"}),
)


# --- chat completions


def _define_for_chat(name: str, tool: Tool, schema: Shape) -> Shape:
    return {"type": "function", "function": {"name": name, **described(tool), "parameters": schema}}


def _read_chat(message: Any) -> list[ToolCall] | None:
    choices = member(message, "choices")
    if choices:
        message = member(choices[0], "message")
    asked = elements(message, "tool_calls")
    if asked is None:
        # A message without calls has a role all the same; with a type beside it, it is Anthropic's.
        return None if member(message, "role") is None or member(message, "type") else []
    # Servers that only resemble OpenAI's leave the type out.
    functions = [call for call in asked if member(call, "type") in ("function", None)]
    return [read_call(member(call, "id"), member(call, "function"), "arguments") for call in functions]


def _tell_chat(outcomes: Sequence[Outcome]) -> list[Shape]:
    messages: list[Shape] = []
    shown: list[Shape] = []
    for outcome in outcomes:
        text, pictures = text_and_pictures(outcome)
        messages.append({"role": "tool", "tool_call_id": outcome.id, "content": text})
        if pictures:
            label = f"Images that the call {outcome.id} of the tool {provider_name(outcome.name)} returned:"
            shown.append({"type": "text", "text": label})
            shown += [{"type": "image_url", "image_url": {"url": picture.url}} for picture in pictures]
    # Tool messages take text only, and all of them come before any other message.
    return [*messages, {"role": "user", "content": shown}] if shown else messages


# --- responses


def _define_for_responses(name: str, tool: Tool, schema: Shape) -> Shape:
    # The API's default is strict, which admits few of the schemas that servers have.
    return {"type": "function", "name": name, **described(tool), "parameters": schema, "strict": False}


def _read_responses(message: Any) -> list[ToolCall] | None:
    items = elements(message, "output")
    if items is None:
        return None
    found = [item for item in items if member(item, "type") == "function_call"]
    return [read_call(member(item, "call_id"), item, "arguments") for item in found]


def _tell_responses(outcomes: Sequence[Outcome]) -> list[Shape]:
    return [_function_call_output(outcome) for outcome in outcomes]


def _function_call_output(outcome: Outcome) -> Shape:
    text, pictures = text_and_pictures(outcome)
    output: str | list[Shape] = text
    if pictures:
        output = [{"type": "input_text", "text": text}] if text else []
        output += [{"type": "input_image", "image_url": picture.url} for picture in pictures]
    return {"type": "function_call_output", "call_id": outcome.id, "output": output}


CHAT = ProviderApi(define=_define_for_chat, read=_read_chat, tell=_tell_chat, rules=_RULES)
RESPONSES = ProviderApi(define=_define_for_responses, read=_read_responses, tell=_tell_responses, rules=_RULES)
