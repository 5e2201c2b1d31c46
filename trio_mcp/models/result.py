"""The result of a tools/call: `ToolResult`, its two renderings, and `InputRequired`.

Reading a result is the hottest path of the library, and nearly all results are one text block. So one msgspec
decoder reads the members in a single pass, a plain text block needs no converter, and whatever can be derived
(`content`, `images`, `structured`) is derived when a program asks for it.

This file knows results, and nothing of who called what.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec
from attrs import Attribute, field, fields, frozen
from msgspec import Raw

from ..errors import ProtocolError
from ..protocol.messages import Undecoded, decode_json, reencode_json
from ..redaction import bounded_line
from .codec import json_type
from .content import (
    BLOCKS,
    Audio,
    Block,
    EmbeddedResource,
    Image,
    ResourceLink,
    Text,
    UnknownBlock,
    read_block,
    unknown_text,
)

#: The text of a failed tool that says nothing.
SILENT_FAILURE = "mcp: tool returned an error"


def _as_blocks(blocks: str | Block | Iterable[Block]) -> tuple[Block, ...]:
    if type(blocks) is tuple:
        found = blocks
    elif isinstance(blocks, str):
        return (Text(blocks),)
    elif isinstance(blocks, BLOCKS):
        return (blocks,)
    elif isinstance(blocks, Iterable):
        found = tuple(blocks)
    else:
        raise TypeError(f"blocks: expected text or content blocks, got {type(blocks).__name__}")
    for block in found:
        if not isinstance(block, BLOCKS):
            raise TypeError(f"blocks: expected content blocks, got {type(block).__name__}")
    return found


def _check_is_error(_: Any, __: Attribute[bool], value: Any) -> None:
    if type(value) is not bool:
        raise TypeError(f"is_error: expected bool, got {type(value).__name__}")


def _check_structured_json(_: Any, __: Attribute[bytes | None], value: Any) -> None:
    if value is not None and type(value) is not bytes:
        raise TypeError(f"structured_json: expected bytes or None, got {type(value).__name__}")


def _check_meta(_: Any, __: Attribute[dict[str, Any] | None], value: Any) -> None:
    if value is not None and not isinstance(value, dict):
        raise TypeError(f"meta: expected dict or None, got {type(value).__name__}")


@frozen
class ToolResult:
    """What a tool gave back. A failed tool is a result too, with `is_error`.

    Attributes:
        blocks: the content, as a tuple of content blocks; a string or a single block may be given for it.
        structured_json: the structured output as the server sent it, undecoded: None only where there was none,
            since `b"null"` is a value.
        meta: the wire's `_meta`.
        raw: the JSON of the whole result, as the server sent it; None where no server sent it. It is kept as long
            as the result is, so a large result takes its memory twice. Equality does not look at it.

    >>> result = ToolResult([Text("a"), Image(b"GIF89a", "image/gif"), Text("b")])
    >>> result.content
    'a\\nb'
    >>> result.images[0].mime_type
    'image/gif'
    >>> print(result.as_text())
    a
    [image image/gif, 6 bytes]
    b
    >>> ToolResult(structured_json=b'{"sum": 5}').structured
    {'sum': 5}
    """

    blocks: tuple[Block, ...] = field(default=(), converter=_as_blocks)
    is_error: bool = field(default=False, kw_only=True, validator=_check_is_error)
    structured_json: bytes | None = field(default=None, kw_only=True, validator=_check_structured_json)
    meta: dict[str, Any] | None = field(default=None, kw_only=True, validator=_check_meta)
    _sent: Undecoded | None = field(default=None, kw_only=True, eq=False, repr=False, alias="raw")

    @property
    def raw(self) -> bytes | None:
        """The JSON of the whole result, as the server sent it; None where no server sent it."""
        return None if self._sent is None else bytes(self._sent)

    @property
    def content(self) -> str:
        """The text for a model that is shown `images` beside it: text blocks, and notes for other blocks.

        Without any block it is the structured output's JSON.
        """
        if not self.blocks:
            return self._structured_text
        if len(self.blocks) == 1 and type(self.blocks[0]) is Text:  # most results
            return self.blocks[0].text
        return "\n".join(_beside_images(block) for block in self.blocks if type(block) is not Image)

    @property
    def images(self) -> tuple[Image, ...]:
        """The images, in order."""
        return tuple(block for block in self.blocks if type(block) is Image)

    @property
    def structured(self) -> Any:
        """The structured output, decoded anew each time; None where there is none.

        Raises:
            ProtocolError: `structured_json` is no JSON.
        """
        return None if self.structured_json is None else decode_json(self.structured_json)

    def as_text(self) -> str:
        """All in one text: the structured output's JSON where there is one, else a line for each block."""
        if self.structured_json is not None and not (self.structured_json == b"null" and self.blocks):
            return self._structured_text
        return "\n".join(_alone(block) for block in self.blocks)

    @property
    def _structured_text(self) -> str:
        return (self.structured_json or b"").decode("utf-8", errors="replace")


@frozen
class InputRequired:
    """The server cannot finish the call before it is told more (modern servers).

    `requests` are its questions by key, each with `method` and `params`; `state` is to be sent back as it is.
    """

    requests: dict[str, dict[str, Any]]
    state: str | None = None


#: How much of a URI, and of a media type or a kind of content, a marker shows.
URI_SHOWN = 2048
KIND_SHOWN = 200


def _beside_images(block: Block) -> str:
    """A block as `content` has it; images stand beside it."""
    if isinstance(block, Text):
        return block.text
    if isinstance(block, Audio):
        return f"[audio: {_kind(block.mime_type)}]"
    if isinstance(block, EmbeddedResource):
        return f"[binary resource: {_uri(block.uri)}]" if block.text is None else block.text
    if isinstance(block, ResourceLink):
        return f"[resource link: {_uri(block.uri)}]"
    return unknown_text(block) if isinstance(block, UnknownBlock) else ""


def _alone(block: Block) -> str:
    """A block as `as_text` has it, where the text is all there is."""
    if isinstance(block, Text):
        return block.text
    if isinstance(block, Image):
        return f"[image {_kind(block.mime_type)}, {len(block.data)} bytes]"
    if isinstance(block, Audio):
        return f"[audio {_kind(block.mime_type)}, {len(block.data)} bytes]"
    if isinstance(block, EmbeddedResource | ResourceLink):
        return f"[resource {_uri(block.uri)}]"
    return "[content]" if not block.problem and type(block.raw) is dict and block.type else unknown_text(block)


# A marker is one line, whatever a server wrote: a second line would pass for the tool's own text.
def _uri(uri: str) -> str:
    return bounded_line(uri, URI_SHOWN)


def _kind(kind: str) -> str:
    return bounded_line(kind, KIND_SHOWN)


#: Stands for structured output that is not there.
_ABSENT = Raw()
_EXPECTED: dict[type, str] = {dict: "an object", str: "a string"}
#: What servers write in the place of a boolean.
_FLAGS: dict[Any, bool] = {0: False, 1: True, "false": False, "true": True}


class _Wire(msgspec.Struct, gc=False):
    """The members of a result. An absent one has its default; the structured output stays as it came."""

    content: list[Any] = []
    structured: Raw = msgspec.field(default=_ABSENT, name="structuredContent")
    is_error: bool | None = msgspec.field(default=None, name="isError")
    meta: dict[str, Any] | None = msgspec.field(default=None, name="_meta")
    result_type: str = msgspec.field(default="complete", name="resultType")


class _Structured(msgspec.Struct):
    structured: Raw = msgspec.field(default=_ABSENT, name="structuredContent")


def _slots(cls: type) -> list[Callable[[Any, Any], None]]:
    return [getattr(cls, attribute.name).__set__ for attribute in fields(cls)]


_decode = msgspec.json.Decoder(_Wire).decode
_decode_structured = msgspec.json.Decoder(_Structured).decode


# A decoder's values need no checks: the two objects that every call needs are filled slot by slot, which takes a
# third of the time of their constructors, and halves the whole reading (4.2 to 2.1 us for a small text).
_new = object.__new__
_set_text, _set_annotations, _set_text_meta, _set_extra = _slots(Text)
_set_blocks, _set_is_error, _set_structured_json, _set_result_meta, _set_sent = _slots(ToolResult)


def read_call_result(data: Undecoded, warn: Callable[[str], object] | None = None) -> ToolResult | InputRequired:
    """Read the undecoded `result` of a tools/call.

    A member that is null is absent, and one block or a text in the place of a list is a list of it. `warn` is told
    of what a server should not have written.

    Raises:
        ProtocolError: it is no such result; the reason begins with the path.

    >>> read_call_result(b'{"content": [{"type": "text", "text": "hello"}]}').content
    'hello'
    """
    try:
        wire = _decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):  # ValidationError is a DecodeError
        wire = _decode_widely(bytes(data), warn or _ignore)
    if wire.result_type != "complete":
        return _read_input_required(bytes(data), wire.result_type)
    # Structured output may be any JSON value, null too (server/tools): presence is what counts.
    structured = wire.structured
    result = _new(ToolResult)
    blocks = tuple([_read_usual_block(value) for value in wire.content])
    if warn is not None:
        for block in blocks:
            if type(block) is UnknownBlock and block.problem:
                warn(f"a block of a result cannot be read: {block.problem}")
    _set_blocks(result, blocks)
    _set_is_error(result, wire.is_error is True)
    # A Raw holds on to the whole line that it was cut from: copied.
    _set_structured_json(result, None if structured is _ABSENT else bytes(structured))
    _set_result_meta(result, wire.meta)
    _set_sent(result, data)  # not copied: `raw` does that when somebody asks
    return result


def read_any_result(method: str, undecoded: Undecoded) -> dict[str, Any] | InputRequired:
    """A result of any method, decoded; or the questions of a server that cannot finish the request yet."""
    data = bytes(undecoded)
    result = decode_json(data)
    if result == []:  # PHP has one literal for an empty list and an empty object
        return {}
    if not isinstance(result, dict):
        raise ProtocolError(f"{method} was answered with something that is no object", data)
    kind = result.get("resultType")
    if kind is None or kind == "complete":
        return result
    required = read_call_result(data)  # which also refuses a kind that nobody knows
    assert isinstance(required, InputRequired)
    return required


def _read_usual_block(value: Any) -> Block:
    """`read_block`, quick for the usual block: text and nothing else."""
    if type(value) is dict and len(value) == 2 and value.get("type") == "text":
        text = value.get("text")
        if type(text) is str:
            block = _new(Text)
            _set_text(block, text)
            _set_annotations(block, None)
            _set_text_meta(block, None)
            _set_extra(block, None)
            return block
    return read_block(value)


def _ignore(_: str) -> None:
    """Nobody wants to be warned."""


def _decode_widely(data: bytes, warn: Callable[[str], object]) -> _Wire:
    """The members of a result that msgspec refuses: with NaN or lone surrogates in it, from PHP, or wrong."""
    members = decode_json(data)
    if members == []:
        members = {}
    if type(members) is not dict:
        raise ProtocolError(f"result: expected an object, got {json_type(members)}", data)
    wire = _Wire(
        content=_as_list(data, members.get("content"), warn),
        is_error=_as_flag(data, members.get("isError"), warn),
        meta=_as_meta(members.get("_meta"), warn),
        result_type=_member(data, members, "resultType", str) or "complete",
    )
    if "structuredContent" in members:
        try:
            wire.structured = _decode_structured(data).structured
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            wire.structured = Raw(reencode_json(members["structuredContent"]))
    return wire


def _as_list(data: bytes, content: Any, warn: Callable[[str], object]) -> list[Any]:
    if content is None:
        return []
    if type(content) is list:
        return content
    # PHP writes an object for a list from which something was taken, and `{}` for an empty one of some kinds.
    if type(content) is dict and all(key.isdecimal() for key in content):
        warn("result.content is an object with numbers for names: read as a list")
        return list(content.values())
    if type(content) is dict:
        warn("result.content is one block, and not a list: read as a list of it")
        return [content]
    if type(content) is str:
        warn("result.content is a text, and not a list: read as one block of text")
        return [{"type": "text", "text": content}]
    raise ProtocolError(f"result.content: expected an array, got {json_type(content)}", data)


def _as_flag(data: bytes, value: Any, warn: Callable[[str], object]) -> bool | None:
    if value is None or type(value) is bool:
        return value
    if type(value) in (int, float, str) and value in _FLAGS:
        warn(f"result.isError is {json_type(value)}, and not a boolean")
        return _FLAGS[value]
    raise ProtocolError(f"result.isError: expected a boolean, got {json_type(value)}", data)


def _as_meta(value: Any, warn: Callable[[str], object]) -> dict[str, Any] | None:
    if value is None or type(value) is dict:
        return value
    if value != []:
        warn(f"result._meta is {json_type(value)}, and not an object: left out")
        return None
    return {}


def _member(data: bytes, members: dict[str, Any], name: str, kind: type) -> Any:
    """One member of a result. Null stands for absent; PHP's `[]` is an empty object."""
    value = members.get(name)
    if value is None or type(value) is kind:
        return value
    if kind is dict and value == []:
        return {}
    raise ProtocolError(f"result.{name}: expected {_EXPECTED[kind]}, got {json_type(value)}", data)


def _read_input_required(data: bytes, result_type: str) -> InputRequired:
    # An absent resultType means "complete"; one that is unknown makes the answer invalid (basic).
    if result_type != "input_required":
        raise ProtocolError(f"result.resultType: {result_type!r} is unknown", data)
    members = decode_json(data)
    requests = _member(data, members, "inputRequests", dict)
    state = _member(data, members, "requestState", str)
    for key, request in (requests or {}).items():
        if type(request) is not dict:
            where = f"result.inputRequests.{key}"
            raise ProtocolError(f"{where}: expected an object, got {json_type(request)}", data)
    # At least one of the two has to be there (basic/patterns/mrtr).
    if requests is None and state is None:
        raise ProtocolError("result: input_required with neither inputRequests nor requestState", data)
    return InputRequired(requests or {}, state)
