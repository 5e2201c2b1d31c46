"""MCP's sampling with tools: https://modelcontextprotocol.io/specification/2025-11-25/client/sampling."""

from __future__ import annotations

from collections.abc import Sequence

from ...models.content import block_to_wire
from ...tools.tool import Tool
from .answers import read_tool_use_blocks
from .api import Outcome, ProviderApi, Shape
from .encodable import described, encodable, own_copy
from .schemas import SchemaRules


def _define(name: str, tool: Tool, schema: Shape) -> Shape:
    title = {"title": encodable(tool.title)} if tool.title else {}
    return {"name": name, **title, **described(tool), "inputSchema": schema}


def _tell(outcomes: Sequence[Outcome]) -> list[Shape]:
    # client/sampling: "When a user message contains tool results (type: "tool_result"), it MUST contain ONLY tool
    # results."
    return [{"role": "user", "content": [_tool_result_content(outcome) for outcome in outcomes]}]


def _tool_result_content(outcome: Outcome) -> Shape:
    text = [{"type": "text", "text": encodable(outcome.content)}] if outcome.content else []
    # schema, ToolResultContent: "An optional structured result object". A value that is no object is in the text.
    structured = outcome.structured
    return {
        "type": "tool_result",
        "toolUseId": outcome.id,
        "content": [*text, *(block_to_wire(image) for image in outcome.images)],
        **({"structuredContent": own_copy(structured)} if isinstance(structured, dict) else {}),
        "isError": outcome.is_error,
    }


#: The client chooses the model, so that no provider's rules are known here.
MCP = ProviderApi(define=_define, read=read_tool_use_blocks, tell=_tell, rules=SchemaRules())
