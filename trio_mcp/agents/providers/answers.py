"""Reads calls out of a provider's answer: an object of the provider's own package, or decoded JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...tools.policy import ToolCall


def member(value: Any, name: str) -> Any:
    """A member of a JSON object, or of the object that a provider's package made of it; None where it is absent.

    Not by `model_dump`: the packages build their models unchecked, and pydantic warns of what it did not expect.
    """
    return value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)


def elements(message: Any, name: str) -> list[Any] | None:
    """The list in a message, which may stand for the message itself; None where there is none."""
    found = message if isinstance(message, list | tuple) else member(message, name)
    return list(found) if isinstance(found, list | tuple) else None


def read_call(id_: Any, holder: Any, arguments: str) -> ToolCall:
    """The call whose name, and whose arguments under the given member, the holder has.

    The arguments stay as they came, broken JSON included: what they say is the toolbox's business.
    """
    name = member(holder, "name")
    return ToolCall(id_ or "", name if isinstance(name, str) else "", member(holder, arguments))


def read_tool_use_blocks(message: Any) -> list[ToolCall] | None:
    """The `tool_use` blocks of an Anthropic message or of a sampling result, which look the same."""
    blocks = elements(message, "content")
    if blocks is None:
        content = member(message, "content")
        if content is None or member(message, "tool_calls"):
            return None
        # Text alone; or, in MCP, a block that is not in a list.
        blocks = [content]
    found = [block for block in blocks if member(block, "type") == "tool_use"]
    return [read_call(member(block, "id"), block, "input") for block in found]
