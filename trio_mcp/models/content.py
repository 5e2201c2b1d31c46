"""Content blocks: what tools give back, one class for each kind of the specification, and `UnknownBlock`.

Reading never fails and loses nothing. A block of an unknown kind, a block without a required field, a block whose
base64 does not decode: each is kept as an `UnknownBlock` with the value as it came. Unknown fields of a known kind
are in `extra`. So `block_to_wire(read_block(value))` equals `value`. How blocks are shown to a model is decided
by `ToolResult`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, cast

import attrs
from attrs import field, frozen

from ..redaction import bounded_line
from .codec import MismatchError, convert, unstructure

#: How much of a type of a server's, in characters, a note about a block shows.
_SHOWN = 100


def _is(*kinds: type) -> Callable[[Any, attrs.Attribute[Any], Any], None]:
    def check(_: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
        if type(value) not in kinds and not isinstance(value, kinds):
            expected = " or ".join("None" if kind is type(None) else kind.__name__ for kind in kinds)
            raise TypeError(f"{attribute.name}: expected {expected}, got {type(value).__name__}")

    return check


_NONE = type(None)
_a_str = _is(str)
_some_bytes = _is(bytes)
_str_or_none = _is(str, _NONE)
_dict_or_none = _is(dict, _NONE)


def _size(data: bytes | None) -> str:
    return "None" if data is None else f"<{len(data)} bytes>"


_OF_ALL_KINDS = ("annotations", "meta", "extra")


def _own_first(_: type, fields: list[attrs.Attribute[Any]]) -> list[attrs.Attribute[Any]]:
    """The fields of one kind of block stand before the fields of all kinds, in its repr and its slots."""
    return sorted(fields, key=lambda field: field.name in _OF_ALL_KINDS)


@frozen
class _Labelled:
    """What every block may have beside its content."""

    annotations: dict[str, Any] | None = field(default=None, kw_only=True, validator=_dict_or_none)
    meta: dict[str, Any] | None = field(default=None, kw_only=True, validator=_dict_or_none)


@frozen
class _Known(_Labelled):
    """What a block of a kind that this library knows has besides: its unknown fields, kept in `extra`."""

    extra: dict[str, Any] | None = field(default=None, kw_only=True, validator=_dict_or_none)


@frozen(field_transformer=_own_first)
class Text(_Known):
    """Text, the usual content.

    Like all blocks it has `annotations` (audience, priority, lastModified), `meta` (the wire's `_meta`) and
    `extra` (fields that this library does not know), each a dict or None.

    >>> Text("hello").text
    'hello'
    """

    text: str = field(validator=_a_str)


@frozen(field_transformer=_own_first)
class Image(_Known):
    """An image: its bytes, decoded, and their media type.

    >>> Image(b"GIF89a", "image/gif")
    Image(data=<6 bytes>, mime_type='image/gif', annotations=None, meta=None, extra=None)
    """

    data: bytes = field(validator=_some_bytes, repr=_size)
    mime_type: str = field(validator=_a_str)


@frozen(field_transformer=_own_first)
class Audio(_Known):
    """A sound: its bytes, decoded, and their media type."""

    data: bytes = field(validator=_some_bytes, repr=_size)
    mime_type: str = field(validator=_a_str)


@frozen(field_transformer=_own_first)
class EmbeddedResource(_Known):
    """A resource with its contents: `text`, or `blob` (bytes, decoded). Of both, the text is shown.

    `annotations` and `meta` are the block's. What else the inside has, its own `_meta` included, is in
    `extra["resource"]`.

    Raises:
        ValueError: neither `text` nor `blob`.
    """

    uri: str = field(validator=_a_str)
    text: str | None = field(default=None, kw_only=True, validator=_str_or_none)
    blob: bytes | None = field(default=None, kw_only=True, validator=_is(bytes, _NONE), repr=_size)
    mime_type: str | None = field(default=None, kw_only=True, validator=_str_or_none)

    def __attrs_post_init__(self) -> None:
        if self.text is None and self.blob is None:
            raise ValueError("an embedded resource has text or blob")


@frozen(field_transformer=_own_first)
class ResourceLink(_Known):
    """A resource that can be read from the server; `size` is in bytes."""

    uri: str = field(validator=_a_str)
    name: str = field(validator=_a_str)
    title: str | None = field(default=None, kw_only=True, validator=_str_or_none)
    description: str | None = field(default=None, kw_only=True, validator=_str_or_none)
    mime_type: str | None = field(default=None, kw_only=True, validator=_str_or_none)
    size: int | None = field(default=None, kw_only=True, validator=_is(int, _NONE))


@frozen(field_transformer=_own_first)
class UnknownBlock(_Labelled):
    """A member of `content` that this library cannot read: `raw` is its JSON value, decoded.

    Usually it is an object with a new type, but servers have sent plain strings too; `type` is then empty.
    `problem` says what is wrong with a block of a known type; equality does not look at it.
    """

    type: str = field(validator=_a_str)
    raw: Any
    problem: str | None = field(default=None, kw_only=True, validator=_str_or_none, eq=False, repr=False)


Block = Text | Image | Audio | EmbeddedResource | ResourceLink | UnknownBlock
BLOCKS = (Text, Image, Audio, EmbeddedResource, ResourceLink, UnknownBlock)

_KINDS: dict[str, type[Text | Image | Audio | ResourceLink]] = {
    "text": Text,
    "image": Image,
    "audio": Audio,
    "resource_link": ResourceLink,
}
_TYPES = {kind: name for name, kind in _KINDS.items()}


def read_block(value: Any) -> Block:
    """Read one member of a result's `content`. Never raises.

    >>> read_block({"type": "text", "text": "hello"}).text
    'hello'
    >>> read_block({"type": "hologram", "depth": 3})
    UnknownBlock(type='hologram', raw={'type': 'hologram', 'depth': 3}, annotations=None, meta=None)
    """
    if type(value) is not dict:
        return UnknownBlock("", value)
    type_ = value.get("type")
    if type(type_) is not str:
        return UnknownBlock("", value)
    fields = {name: item for name, item in value.items() if name != "type"}
    problem = None
    try:
        if type_ == "resource":
            return _read_resource(fields)
        if type_ in _KINDS:
            return convert(fields, _KINDS[type_])
    except MismatchError as mismatch:  # a known type whose fields are wrong: kept as unknown
        problem = f"{type_}{mismatch.path}: {mismatch.reason}"
    annotations, meta = value.get("annotations"), value.get("_meta")
    return UnknownBlock(
        type_,
        value,
        annotations=annotations if type(annotations) is dict else None,
        meta=meta if type(meta) is dict else None,
        problem=problem,
    )


def unknown_text(block: UnknownBlock) -> str:
    """An unknown block as a model is shown it: its JSON where it is no object, else a note.

    >>> unknown_text(UnknownBlock("", ["a", 1]))
    '["a", 1]'
    >>> unknown_text(UnknownBlock("hologram", {"type": "hologram"}))
    '[content: hologram]'
    """
    if type(block.raw) is not dict:
        return json.dumps(block.raw, ensure_ascii=False)
    if block.problem:
        return f"[content: {bounded_line(block.problem, _SHOWN)}]"
    return (
        f"[content: {bounded_line(block.type, _SHOWN)}]"
        if block.type
        else json.dumps(block.raw, ensure_ascii=False)
    )


def block_to_wire(block: Block) -> dict[str, Any]:
    """A block as the JSON object that goes over the wire.

    >>> block_to_wire(Image(b"GIF89a", "image/gif"))
    {'type': 'image', 'data': 'R0lGODlh', 'mimeType': 'image/gif'}
    """
    if isinstance(block, EmbeddedResource):
        return _resource_to_wire(block)
    if not isinstance(block, UnknownBlock):
        return {"type": _TYPES[type(block)], **unstructure(block)}
    if not isinstance(block.raw, dict):
        return cast("dict[str, Any]", block.raw)  # it came as something else than an object, and leaves as that
    ours = {"type": block.type or None, "annotations": block.annotations, "_meta": block.meta}
    return {**{name: value for name, value in ours.items() if value is not None}, **block.raw}


@frozen
class _Contents:
    """The member `resource` of a block of type "resource"."""

    uri: str
    text: str | None = None
    blob: bytes | None = None
    mime_type: str | None = None
    extra: dict[str, Any] | None = None


def _read_resource(fields: dict[str, Any]) -> EmbeddedResource:
    contents = convert(fields.pop("resource", None), _Contents)
    outside = convert(fields, _Known)
    if contents.text is None and contents.blob is None:
        raise MismatchError("has neither text nor blob", ".resource")
    extra = outside.extra
    if contents.extra:
        extra = {**(extra or {}), "resource": contents.extra}
    return EmbeddedResource(
        contents.uri,
        text=contents.text,
        blob=contents.blob,
        mime_type=contents.mime_type,
        annotations=outside.annotations,
        meta=outside.meta,
        extra=extra,
    )


def _resource_to_wire(block: EmbeddedResource) -> dict[str, Any]:
    extra = dict(block.extra or {})
    contents = _Contents(block.uri, block.text, block.blob, block.mime_type, extra.pop("resource", None))
    outside = _Known(annotations=block.annotations, meta=block.meta, extra=extra)
    return {"type": "resource", "resource": unstructure(contents), **unstructure(outside)}
