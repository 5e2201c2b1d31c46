"""Anthropic's messages API: https://platform.claude.com/docs/en/agents-and-tools/tool-use/implement-tool-use."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ...tools.tool import Tool
from .answers import read_tool_use_blocks
from .api import Outcome, ProviderApi, Shape
from .encodable import described
from .pictures import text_and_pictures
from .schemas import SchemaRules

#: The API answers 400 with these two: "Property keys should match pattern '^[a-zA-Z0-9_.-]{1,64}$'", and
#: "input_schema does not support oneOf, allOf, or anyOf at the top level".
_RULES = SchemaRules(
    property_key=re.compile(r"[a-zA-Z0-9_.-]{1,64}"), refused_at_root=frozenset({"anyOf", "oneOf", "allOf"})
)


def _define(name: str, tool: Tool, schema: Shape) -> Shape:
    return {"name": name, **described(tool), "input_schema": schema}


def _tell(outcomes: Sequence[Outcome]) -> list[Shape]:
    # One message: "`tool_use` ids must have `tool_result` blocks immediately after", says the API.
    return [{"role": "user", "content": [_tool_result(outcome) for outcome in outcomes]}]


def _tool_result(outcome: Outcome) -> Shape:
    text, pictures = text_and_pictures(outcome)
    content: str | list[Shape] = text
    if pictures:
        # "text content blocks must contain non-whitespace text", says the API.
        content = [{"type": "text", "text": text}] if text.strip() else []
        for picture in pictures:
            source = {"type": "base64", "media_type": picture.media_type, "data": picture.data}
            content.append({"type": "image", "source": source})
    return {"type": "tool_result", "tool_use_id": outcome.id, "content": content, "is_error": outcome.is_error}


ANTHROPIC = ProviderApi(define=_define, read=read_tool_use_blocks, tell=_tell, rules=_RULES)
