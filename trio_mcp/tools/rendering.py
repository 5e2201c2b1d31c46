"""A tool's result as the text that a model reads: one text for each tool, whoever runs it.

This knows results, and neither tools nor models.
"""

from __future__ import annotations

from typing import Literal

from ..models.result import SILENT_FAILURE, ToolResult

#: "content": the blocks; the structured output's JSON only where there are no blocks. "structured": the structured
#: output's JSON; the blocks only where there is none.
Render = Literal["content", "structured"]


def text_beside_images(result: ToolResult, render: Render) -> str:
    """The text for a model that is shown `ToolResult.images` beside it; a failure always has one.

    >>> result = ToolResult("five", structured_json=b'{"sum": 5}')
    >>> text_beside_images(result, "content"), text_beside_images(result, "structured")
    ('five', '{"sum": 5}')
    """
    by_blocks = render == "content" or result.structured_json is None
    text = result.content if by_blocks else result.as_text()
    return SILENT_FAILURE if result.is_error and not text else text


def text_alone(result: ToolResult, render: Render) -> str:
    """The text for a model that is shown no images beside it: a line stands in the place of each image.

    >>> from trio_mcp import Image, Text
    >>> print(text_alone(ToolResult([Text("a"), Image(b"GIF89a", "image/gif")]), "content"))
    a
    [image image/gif, 6 bytes]
    """
    if not result.images or (render == "structured" and result.structured_json is not None):
        return text_beside_images(result, render)
    parts = [ToolResult(block) for block in result.blocks]
    return "\n".join(part.as_text() if part.images else part.content for part in parts)
