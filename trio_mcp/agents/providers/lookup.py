"""Tools, calls and outcomes in the shapes of the APIs of providers, each looked up by the provider's name.

Pure functions. How calls are run is the toolbox's business.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any, Literal, get_args

from attrs import evolve

from ...errors import NAME_SHOWN, SENTENCE_SHOWN
from ...redaction import bounded_line
from ...tools.naming import provider_name
from ...tools.policy import ToolCall
from ...tools.tool import Tool
from .anthropic import ANTHROPIC
from .api import Outcome, ProviderApi, Shape
from .mcp import MCP
from .openai import CHAT, RESPONSES
from .schemas import fitted

#: "anthropic" (messages), "openai" (chat completions), "openai-responses" or "mcp" (sampling).
Provider = Literal["anthropic", "openai", "openai-responses", "mcp"]

#: What becomes of a tool whose schema a provider would refuse.
Unsupported = Literal["mend", "skip", "raise"]

_APIS: dict[Provider, ProviderApi] = {
    "anthropic": ANTHROPIC,
    "openai": CHAT,
    "openai-responses": RESPONSES,
    "mcp": MCP,
}

logger: logging.Logger = logging.getLogger("trio_mcp.tools")


def definitions(provider: Provider, tools: Iterable[Tool], unsupported: Unsupported = "mend") -> list[Shape]:
    """The tools as the provider's API takes them in its `tools` parameter.

    A name that providers do not take (`[A-Za-z0-9_-]`, 1 to 64 characters) is mended; `calls` maps it back. So is
    a schema: members that are null are left out of it. What else the provider would refuse (over which it refuses
    the whole request) is up to `unsupported`: arrays without `items` and `anyOf` at the root (OpenAI), names of
    arguments outside `[a-zA-Z0-9_.-]{1,64}` and `anyOf` at the root (Anthropic). MCP's sampling takes everything.

    Args:
        provider: "anthropic" (messages), "openai" (chat completions), "openai-responses" or "mcp" (sampling).
        tools: in the order that the model sees.
        unsupported: "mend" changes the schema where the new one means the same, and else leaves the tool out;
            "skip" leaves the tool out; "raise" raises. Where a tool is left out, the logger `trio_mcp.tools` warns
            of it, with its name and the reason.

    Raises:
        ValueError: no such provider, or two tools would have one name; with "raise" also a schema that the
            provider would refuse.

    >>> from trio_mcp import tool
    >>> @tool
    ... async def double(number: int) -> int:
    ...     "Double a number."
    ...     return 2 * number
    >>> [definition] = definitions("anthropic", [double])
    >>> definition["name"], definition["description"], definition["input_schema"]["required"]
    ('double', 'Double a number.', ['number'])
    """
    api = _find(provider)
    if unsupported not in get_args(Unsupported):
        raise ValueError(f'unsupported: expected "mend", "skip" or "raise", got {unsupported!r}')
    defined = []
    for name, tool in provider_names(tools).items():
        found = fitted(tool.input_schema, api.rules)
        reasons = found.refused if unsupported == "mend" else (*found.refused, *found.mended)
        if not reasons:
            defined.append(api.define(name, tool, found.schema))
        elif unsupported == "raise":
            raise ValueError(f'tool "{tool.name}": "{provider}" refuses its schema: {"; ".join(reasons)}')
        else:
            why = bounded_line("; ".join(reasons), SENTENCE_SHOWN)
            shown = bounded_line(tool.name, NAME_SHOWN)
            logger.warning('tool "%s" was left out: "%s" refuses its schema: %s', shown, provider, why)
    return defined


def calls(provider: Provider, message: Any, tools: Iterable[Tool] = ()) -> list[ToolCall]:
    """The calls that a model asks for, in its order; empty when it asks for none.

    The arguments are as the API gives them: JSON text from OpenAI, a mapping from the others.

    Args:
        provider: as for `definitions`.
        message: what the API answered (a message, chat completion, response or sampling result), as the object of
            the provider's own package or as decoded JSON; or the list in it that holds the calls. Of several
            choices the first counts. Calls of other things than functions, such as tools that the provider's
            servers run themselves, are left out.
        tools: those that were defined. A call of a mended name is given the name of its tool.

    Raises:
        TypeError: the message is none of the provider's.
        ValueError: no such provider, or two tools would have one name.

    >>> call = {"id": "call_1", "type": "function", "function": {"name": "double", "arguments": '{"number": 4}'}}
    >>> calls("openai", {"role": "assistant", "tool_calls": [call]})
    [ToolCall(id='call_1', name='double', arguments='{"number": 4}')]
    """
    asked = _find(provider).read(message)
    if asked is None:
        raise TypeError(f'message: expected what "{provider}" answers with, got {type(message).__name__}')
    own = {given: tool.name for given, tool in provider_names(tools).items()}
    return [evolve(call, name=own.get(call.name, call.name)) for call in asked]


def results(provider: Provider, outcomes: Iterable[Outcome]) -> list[Shape]:
    """Messages, or input items, that tell the model how its calls went, to be added to the conversation.

    The outcomes of one turn belong into one call of this function: Anthropic and MCP want them in one message,
    and OpenAI's chat wants nothing between them. An image of a type that the provider does not look at becomes a
    note in the text.

    Args:
        provider: as for `definitions`.
        outcomes: those of all calls of the turn, in any order.

    Raises:
        ValueError: no such provider.

    >>> from trio_mcp import ToolOutcome
    >>> results("openai", [ToolOutcome("call_1", "double", "8")])
    [{'role': 'tool', 'tool_call_id': 'call_1', 'content': '8'}]
    """
    tell = _find(provider).tell
    told = list(outcomes)
    return tell(told) if told else []


def provider_names(tools: Iterable[Tool]) -> dict[str, Tool]:
    """The tools by the names that providers know them under.

    Raises:
        ValueError: two tools would have one name.
    """
    named: dict[str, Tool] = {}
    for tool in tools:
        name = provider_name(tool.name)
        if name in named:
            raise ValueError(f'tools "{named[name].name}" and "{tool.name}": both would be defined as "{name}"')
        named[name] = tool
    return named


def _find(provider: Provider) -> ProviderApi:
    found = _APIS.get(provider)
    if found is None:
        known = ", ".join(f'"{name}"' for name in _APIS)
        raise ValueError(f"provider: expected one of {known}, got {provider!r}")
    return found
