"""What a function returns: the schema of its structured output, and each value as a `ToolResult`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, get_args, get_origin

import msgspec

from ..models.content import BLOCKS, Text
from ..models.result import ToolResult
from ..protocol.messages import encode_json
from ..tools.failures import as_utf8
from .signature import Refusal, annotations_of, check_type, inlined_schema

_check_json = msgspec.json.Decoder(msgspec.Raw).decode

#: The schema of `list`, `Sequence[Any]` and the like. Lists of anything may be of content blocks too, which would
#: not keep to it.
_LIST_OF_ANYTHING = {"type": "array"}


class Returns:
    """The return type of a function; without a function, or without an annotation, each value decides.

    `schema` is that of the structured output. Text, None, content blocks and lists of anything have none.
    """

    def __init__(self, function: Callable[..., Any] | None = None) -> None:
        annotation = Any if function is None else annotations_of(function).get("return", Any)
        self.schema: dict[str, Any] | None = None
        self._decode: Callable[[bytes], Any] | None = None
        self._is_content = _is_content(annotation)
        self._takes_text = self._is_content or annotation in (Any, str)
        if function is None or self._is_content or annotation is Any:
            return
        check_type(annotation, Refusal(function, "return"))
        self._decode = msgspec.json.Decoder(annotation).decode
        if annotation not in (type(None), str):
            schema = inlined_schema(annotation)
            self.schema = None if schema == _LIST_OF_ANYTHING else schema

    def result(self, value: Any) -> ToolResult:
        """A value that the function returned, as the result of the tool.

        Raises:
            Exception: it is not of the declared type, or no JSON.
        """
        if isinstance(value, str):
            text = str.__str__(value)  # of an enum: its value
            if self._takes_text:
                return ToolResult(as_utf8(text))
            value = text
        elif isinstance(value, BLOCKS):
            value = ToolResult(value)
        elif self.schema is None and self._is_blocks(value):
            value = ToolResult([Text(block) if isinstance(block, str) else block for block in value])
        if isinstance(value, ToolResult):
            return self._checked(value)
        if self._is_content and value is not None:
            raise TypeError(f"expected content blocks, got {type(value).__name__}")
        encoded = encode_json(value)
        if self._decode is not None:
            self._decode(encoded)
        if value is None and self.schema is None:
            return ToolResult()
        return ToolResult(value if isinstance(value, str) else encoded.decode(), structured_json=encoded)

    def _checked(self, result: ToolResult) -> ToolResult:
        """A result that the function has made itself. A failure needs no structured output."""
        structured = result.structured_json
        if structured is not None:
            _check_json(structured)
        if self.schema is not None and not result.is_error:
            if structured is None or self._decode is None:
                raise TypeError("expected structured output, got none")
            self._decode(structured)
        return result

    def _is_blocks(self, value: Any) -> bool:
        """Whether a value is a list of content blocks, text among them; an empty one only where some may be."""
        if not isinstance(value, list | tuple) or not all(isinstance(block, (*BLOCKS, str)) for block in value):
            return False
        return self._is_content if not value else any(isinstance(block, BLOCKS) for block in value)


def _is_content(annotation: Any) -> bool:
    """Whether a return annotation means content blocks."""
    if annotation is ToolResult or annotation in BLOCKS:
        return True
    parts = get_args(annotation)
    if get_origin(annotation) is Annotated:
        return _is_content(parts[0])
    parts = tuple(part for part in parts if part not in (type(None), str, Ellipsis))
    return bool(parts) and get_origin(annotation) is not dict and all(map(_is_content, parts))
