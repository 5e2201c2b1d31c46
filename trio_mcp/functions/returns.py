"""What a function returns: the schema of its structured output, and each value as a `ToolResult`.

Which types it may have is decided in `types`.
"""

from __future__ import annotations

import collections.abc
import types
from collections.abc import Callable, Iterable
from typing import Annotated, Any, Union, get_args, get_origin

import msgspec

from ..models.content import BLOCKS, Text
from ..models.result import ToolResult
from ..protocol.messages import check_json
from ..tools.failures import as_utf8
from .signature import annotations_of
from .types.custom import decode_custom, encode_custom
from .types.pydantic_types import PydanticType
from .types.refusal import Refusal
from .types.rules import describe_pydantic, msgspec_type, pydantic_type
from .types.schema import schema_of
from .types.walking import parts_of, unaliased

_encode = msgspec.json.Encoder(enc_hook=encode_custom).encode

#: The schema of `list`, `Sequence[Any]` and the like. Lists of anything may be of content blocks too, which would
#: not keep to it.
_LIST_OF_ANYTHING = {"type": "array"}
_UNIONS = (Union, types.UnionType)
_LISTS = (list, tuple, collections.abc.Sequence, collections.abc.Iterable, collections.abc.Collection)
_CONTAINERS = (list, tuple, set, frozenset)
#: Annotations that say nothing of what is inside.
_ANYTHING = frozenset({Any, dict, list, tuple, set, frozenset, collections.abc.Mapping, collections.abc.Sequence})


class Returns:
    """The return type of a function; without a function, or without an annotation, each value decides.

    `schema` is that of the structured output. Text, None, content blocks and lists of anything have none.

    >>> def measure(text: str) -> int: ...
    >>> Returns(measure).result(5)
    ToolResult(blocks=(Text(text='5', annotations=None, meta=None, extra=None),), is_error=False, \
structured_json=b'5', meta=None)

    Raises:
        TypeError: values of the type cannot be results; it names the function and "return".
    """

    def __init__(self, function: Callable[..., Any] | None = None) -> None:
        annotation = Any if function is None else annotations_of(function).get("return", Any)
        self.schema: dict[str, Any] | None = None
        self._decode: Callable[[bytes], Any] | None = None
        self._pydantic: PydanticType | None = None
        self._is_content = self._takes_text = self._takes_anything = False
        refuse = Refusal(function or Returns, "return")
        try:
            self._read(unaliased(annotation), refuse)
        except Exception as error:
            raise refuse.of(error) from error

    def _read(self, annotation: Any, refuse: Refusal) -> None:
        self._is_content = is_content(annotation)
        self._takes_text = self._is_content or annotation in (Any, str)
        if self._is_content:
            return
        parts = list(parts_of(annotation))
        self._takes_anything = any(part.annotation in _ANYTHING for part in parts if _hashable(part.annotation))
        for part in parts:
            if part.annotation in (*BLOCKS, ToolResult):
                name = part.annotation.__name__
                raise refuse(
                    f"{name} within {annotation}: content blocks stand alone, or in a list with blocks and str"
                )
        if annotation is Any:
            return
        self._pydantic = pydantic_type(annotation, parts, refuse)
        if self._pydantic is not None:
            self.schema = describe_pydantic(self._pydantic.schema("serialization"), parts)
            self.schema.pop("title", None)
            return
        kind = msgspec_type(annotation, parts, refuse)
        self._decode = msgspec.json.Decoder(kind, dec_hook=decode_custom).decode
        if kind not in (type(None), str):
            schema = schema_of(kind)
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
        if self._takes_anything:
            _refuse_blocks(value)
        encoded = self._encoded(value)
        if value is None and self.schema is None:
            return ToolResult()
        return ToolResult(value if isinstance(value, str) else encoded.decode(), structured_json=encoded)

    def _encoded(self, value: Any) -> bytes:
        """The value as JSON, checked against the declared type."""
        if self._pydantic is not None:
            return self._pydantic.write(value)
        encoded = _encode(value)
        if self._decode is not None:
            self._decode(encoded)
        return encoded

    def _checked(self, result: ToolResult) -> ToolResult:
        """A result that the function has made itself. A failure needs no structured output."""
        structured = result.structured_json
        if structured is not None:
            check_json(structured)
        if self.schema is not None and not result.is_error:
            if structured is None:
                raise TypeError("expected structured output, got none")
            if self._pydantic is not None:
                self._pydantic.read(msgspec.json.decode(structured))
            elif self._decode is not None:
                self._decode(structured)
        return result

    def _is_blocks(self, value: Any) -> bool:
        """Whether a value is a list of content blocks, text among them; an empty one only where some may be."""
        if not isinstance(value, list | tuple) or not all(isinstance(block, (*BLOCKS, str)) for block in value):
            return False
        return self._is_content if not value else any(isinstance(block, BLOCKS) for block in value)


def is_content(annotation: Any) -> bool:
    """Whether a return annotation means content blocks: alone, in a list, with text beside them.

    >>> from trio_mcp import Image
    >>> is_content(list[Image | str]), is_content(dict[str, Image]), is_content(list[str])
    (True, False, False)
    """
    annotation = unaliased(annotation)
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return is_content(parts[0])
    if origin in _UNIONS:
        parts = tuple(part for part in map(_bare, parts) if part not in (type(None), str))
        return bool(parts) and all(map(is_content, parts))
    if origin in _LISTS:
        parts = tuple(part for part in map(_bare, parts) if part is not Ellipsis)
        return any(map(_is_block, parts)) and all(part is str or _is_block(part) for part in parts)
    return annotation is ToolResult or annotation in BLOCKS


def _is_block(annotation: Any) -> bool:
    """Whether an annotation means one block, text among the choices."""
    annotation = _bare(annotation)
    if get_origin(annotation) in _UNIONS:
        parts = tuple(map(_bare, get_args(annotation)))
        return any(part in BLOCKS for part in parts) and all(part is str or _is_block(part) for part in parts)
    return annotation in BLOCKS


def _bare(annotation: Any) -> Any:
    annotation = unaliased(annotation)
    return _bare(get_args(annotation)[0]) if get_origin(annotation) is Annotated else annotation


def _refuse_blocks(value: Any) -> None:
    """Content blocks within another value would show as their fields.

    Raises:
        TypeError: there is one.
    """
    if isinstance(value, BLOCKS):
        raise TypeError(
            f"{type(value).__name__} within another value: return blocks alone, or in a list of blocks and str"
        )
    inside: Iterable[Any] = ()
    if isinstance(value, dict):
        inside = value.values()
    elif isinstance(value, _CONTAINERS):
        inside = value
    for item in inside:
        _refuse_blocks(item)


def _hashable(annotation: Any) -> bool:
    try:
        hash(annotation)
    except TypeError:
        return False
    return True
