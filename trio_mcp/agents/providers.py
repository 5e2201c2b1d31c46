"""Tools, calls and outcomes in the shapes of the providers' APIs: Anthropic, OpenAI's two, MCP sampling.

Pure functions. No provider's package is imported: what comes is read by its members, be it the object of a
provider's package or decoded JSON, and what goes is plain dicts. How calls are run is the toolbox's business,
and so is what the arguments say: they leave as they came, broken JSON included.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from attrs import evolve, frozen

from ..models.content import Image, block_to_wire
from ..models.result import ToolResult
from ..protocol.messages import decode_json, encode_any, without_halves
from ..tools.naming import provider_name
from ..tools.policy import ToolCall
from ..tools.tool import Tool

#: What both Anthropic and OpenAI look at; they refuse the whole request over any other image.
_IMAGE_TYPES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})

Shape = dict[str, Any]


class Outcome(Protocol):
    """What a provider is told of a call; a `ToolOutcome` is one."""

    @property
    def id(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def content(self) -> str: ...
    @property
    def images(self) -> tuple[Image, ...]: ...
    @property
    def structured(self) -> Any: ...
    @property
    def is_error(self) -> bool: ...


def definitions(provider: str, tools: Iterable[Tool]) -> list[Shape]:
    """The tools as the provider's API takes them in its `tools` parameter.

    A name that providers do not take (`[A-Za-z0-9_-]`, 1 to 64 characters) is mended; `calls` maps it back.

    Args:
        provider: "anthropic" (messages), "openai" (chat completions), "openai-responses" or "mcp" (sampling).
        tools: in the order that the model sees.

    Raises:
        ValueError: no such provider, or two tools would have one name.

    >>> from trio_mcp import tool
    >>> @tool
    ... async def double(number: int) -> int:
    ...     "Double a number."
    ...     return 2 * number
    >>> [definition] = definitions("anthropic", [double])
    >>> definition["name"], definition["description"], definition["input_schema"]["required"]
    ('double', 'Double a number.', ['number'])
    """
    define = _find(provider).define
    return [define(name, tool) for name, tool in given_names(tools).items()]


def calls(provider: str, message: Any, tools: Iterable[Tool] = ()) -> list[ToolCall]:
    """The calls that a model asks for, in its order; empty when it asks for none.

    The arguments are as the API gives them: JSON text from OpenAI, a mapping from the others.

    Args:
        provider: as for `definitions`.
        message: what the API answered (a message, chat completion, response or sampling result), as the object of
            the provider's own package or as decoded JSON; or the list in it that holds the calls. Of several
            choices the first counts. Calls that are not of functions, such as those that the provider's servers
            run themselves, are left out.
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
    own = {given: tool.name for given, tool in given_names(tools).items()}
    return [evolve(call, name=own.get(call.name, call.name)) for call in asked]


def results(provider: str, outcomes: Iterable[Outcome]) -> list[Shape]:
    """What tells the model how its calls went: messages, or input items, to be added to the conversation.

    The outcomes of one turn belong into one call of this function: Anthropic and MCP want them in one message,
    and OpenAI's chat wants nothing between them. An image of a type that the provider does not look at becomes a
    note in the text.

    Args:
        provider: as for `definitions`.
        outcomes: those of all calls of the turn, in any order.

    Raises:
        ValueError: no such provider.
    """
    tell = _find(provider).tell
    told = list(outcomes)
    return tell(told) if told else []


def given_names(tools: Iterable[Tool]) -> dict[str, Tool]:
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


def _member(value: Any, name: str) -> Any:
    """A member of a JSON object, or of the object that a provider's package made of it; None where it is absent.

    Not by `model_dump`: the packages build their models unchecked, and pydantic warns of what it did not expect.
    """
    return value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)


def _elements(message: Any, name: str) -> list[Any] | None:
    """The list in a message, which may stand for the message itself; None where there is none."""
    found = message if isinstance(message, list | tuple) else _member(message, name)
    return list(found) if isinstance(found, list | tuple) else None


def _call(id_: Any, holder: Any, arguments: str) -> ToolCall:
    name = _member(holder, "name")
    return ToolCall(id_ or "", name if isinstance(name, str) else "", _member(holder, arguments))


def _described(tool: Tool) -> Shape:
    return {"description": _encodable(tool.description)} if tool.description else {}


def _own(value: Shape) -> Shape:
    """A JSON object for the caller to keep and to change, and without lone surrogates: see `_encodable`."""
    own: Shape = decode_json(without_halves(encode_any(value)))
    return own


def _schema(tool: Tool) -> Shape:
    schema = _own(tool.input_schema)
    # As PHP servers write an object that is empty. Providers would refuse the request over it.
    return {**schema, "properties": {}} if schema.get("properties") == [] else schema


def _parameters(tool: Tool) -> Shape:
    schema = _schema(tool)
    # OpenAI refuses the request over "object schema missing properties", which many tools without arguments have.
    schema.setdefault("properties", {})
    return schema


def _encodable(text: str) -> str:
    """The text without lone surrogates: no client could encode the request."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


@frozen
class _Picture:
    media_type: str
    data: str

    @property
    def url(self) -> str:
        return f"data:{self.media_type};base64,{self.data}"


def _text_and_pictures(outcome: Outcome) -> tuple[str, list[_Picture]]:
    """What Anthropic and OpenAI are shown: notes take the place of images that they do not look at."""
    texts = [outcome.content] if outcome.content else []
    pictures = []
    for image in outcome.images:
        media_type = image.mime_type.partition(";")[0].strip().lower()
        media_type = "image/jpeg" if media_type == "image/jpg" else media_type
        if media_type in _IMAGE_TYPES and image.data:  # an empty one is refused like any other type
            pictures.append(_Picture(media_type, b64encode(image.data).decode()))
        else:
            texts.append(ToolResult(image).as_text())
    return _encodable("\n".join(texts)), pictures


# Anthropic: https://platform.claude.com/docs/en/agents-and-tools/tool-use/implement-tool-use


def _define_for_anthropic(name: str, tool: Tool) -> Shape:
    return {"name": name, **_described(tool), "input_schema": _schema(tool)}


def _read_blocks(message: Any) -> list[ToolCall] | None:
    """The `tool_use` blocks of an Anthropic message or of a sampling result, which look the same."""
    blocks = _elements(message, "content")
    if blocks is None:
        content = _member(message, "content")
        if content is None or _member(message, "tool_calls"):
            return None
        # Text alone; or, in MCP, a block that is not in a list.
        blocks = [content]
    found = [block for block in blocks if _member(block, "type") == "tool_use"]
    return [_call(_member(block, "id"), block, "input") for block in found]


def _tell_anthropic(outcomes: Sequence[Outcome]) -> list[Shape]:
    return [{"role": "user", "content": [_tool_result(outcome) for outcome in outcomes]}]


def _tool_result(outcome: Outcome) -> Shape:
    text, pictures = _text_and_pictures(outcome)
    content: str | list[Shape] = text
    if pictures:
        # "text content blocks must contain non-whitespace text", says the API.
        content = [{"type": "text", "text": text}] if text.strip() else []
        for picture in pictures:
            source = {"type": "base64", "media_type": picture.media_type, "data": picture.data}
            content.append({"type": "image", "source": source})
    return {"type": "tool_result", "tool_use_id": outcome.id, "content": content, "is_error": outcome.is_error}


# OpenAI, chat completions: https://developers.openai.com/api/docs/guides/function-calling


def _define_for_chat(name: str, tool: Tool) -> Shape:
    function = {"name": name, **_described(tool), "parameters": _parameters(tool)}
    return {"type": "function", "function": function}


def _read_chat(message: Any) -> list[ToolCall] | None:
    choices = _member(message, "choices")
    if choices:
        message = _member(choices[0], "message")
    asked = _elements(message, "tool_calls")
    if asked is None:
        # A message without calls has a role all the same; with a type beside it, it is Anthropic's.
        return None if _member(message, "role") is None or _member(message, "type") else []
    # Servers that only resemble OpenAI's leave the type out.
    functions = [call for call in asked if _member(call, "type") in ("function", None)]
    return [_call(_member(call, "id"), _member(call, "function"), "arguments") for call in functions]


def _tell_chat(outcomes: Sequence[Outcome]) -> list[Shape]:
    messages: list[Shape] = []
    shown: list[Shape] = []
    for outcome in outcomes:
        text, pictures = _text_and_pictures(outcome)
        messages.append({"role": "tool", "tool_call_id": outcome.id, "content": text})
        if pictures:
            label = f"Images that the call {outcome.id} of the tool {provider_name(outcome.name)} returned:"
            shown.append({"type": "text", "text": label})
            shown += [{"type": "image_url", "image_url": {"url": picture.url}} for picture in pictures]
    # Tool messages take text only, and all of them come before any other message.
    return [*messages, {"role": "user", "content": shown}] if shown else messages


# OpenAI, responses: the same page


def _define_for_responses(name: str, tool: Tool) -> Shape:
    # Strict is the API's default, and admits few of the schemas that there are.
    return {
        "type": "function",
        "name": name,
        **_described(tool),
        "parameters": _parameters(tool),
        "strict": False,
    }


def _read_responses(message: Any) -> list[ToolCall] | None:
    items = _elements(message, "output")
    if items is None:
        return None
    found = [item for item in items if _member(item, "type") == "function_call"]
    return [_call(_member(item, "call_id"), item, "arguments") for item in found]


def _tell_responses(outcomes: Sequence[Outcome]) -> list[Shape]:
    return [_function_call_output(outcome) for outcome in outcomes]


def _function_call_output(outcome: Outcome) -> Shape:
    text, pictures = _text_and_pictures(outcome)
    output: str | list[Shape] = text
    if pictures:
        output = [{"type": "input_text", "text": text}] if text else []
        output += [{"type": "input_image", "image_url": picture.url} for picture in pictures]
    return {"type": "function_call_output", "call_id": outcome.id, "output": output}


# MCP, sampling with tools: https://modelcontextprotocol.io/specification/2025-11-25/client/sampling


def _define_for_mcp(name: str, tool: Tool) -> Shape:
    title = {"title": _encodable(tool.title)} if tool.title else {}
    return {"name": name, **title, **_described(tool), "inputSchema": _own(tool.input_schema)}


def _tell_mcp(outcomes: Sequence[Outcome]) -> list[Shape]:
    # A message with tool results has nothing else in it (client/sampling).
    return [{"role": "user", "content": [_tool_result_content(outcome) for outcome in outcomes]}]


def _tool_result_content(outcome: Outcome) -> Shape:
    text = [{"type": "text", "text": _encodable(outcome.content)}] if outcome.content else []
    # "An optional structured result object": what is no object is in the text.
    structured = outcome.structured
    return {
        "type": "tool_result",
        "toolUseId": outcome.id,
        "content": [*text, *(block_to_wire(image) for image in outcome.images)],
        **({"structuredContent": _own(structured)} if isinstance(structured, dict) else {}),
        "isError": outcome.is_error,
    }


@frozen
class _Provider:
    """How one API wants tools defined, asks for calls, and is told of their outcomes."""

    define: Callable[[str, Tool], Shape]
    read: Callable[[Any], list[ToolCall] | None]
    tell: Callable[[Sequence[Outcome]], list[Shape]]


_PROVIDERS = {
    "anthropic": _Provider(_define_for_anthropic, _read_blocks, _tell_anthropic),
    "openai": _Provider(_define_for_chat, _read_chat, _tell_chat),
    "openai-responses": _Provider(_define_for_responses, _read_responses, _tell_responses),
    "mcp": _Provider(_define_for_mcp, _read_blocks, _tell_mcp),
}


def _find(provider: str) -> _Provider:
    found = _PROVIDERS.get(provider)
    if found is None:
        known = ", ".join(f'"{name}"' for name in _PROVIDERS)
        raise ValueError(f"provider: expected one of {known}, got {provider!r}")
    return found
