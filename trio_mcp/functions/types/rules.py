"""Which types a tool's parameters and results may have, and how each is decoded and listed.

msgspec makes both the decoder and the schema, so that the check and the listing cannot disagree. What it would
read otherwise than Python does, or would pass over in silence, is translated here, or refused when the function
is decorated. An annotation with something of pydantic in it goes to pydantic whole.
"""

from __future__ import annotations

import dataclasses
import sys
import types
from collections.abc import Sequence
from functools import reduce
from operator import or_
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import attrs
import msgspec

from ...models.content import BLOCKS
from ...models.result import ToolResult
from ...protocol.messages import encode_json
from ...tools.context import Context
from .custom import decode_custom
from .metadata import check_field, is_bound, is_field, is_words, read_metadata, words_of
from .pydantic_types import PydanticType, check_for_pydantic, is_of_pydantic
from .refusal import Refusal
from .schema import describe_class, schema_of
from .unions import union_of, variant_of
from .walking import Part, field_hints, parts_of, unaliased

_CONTENT = (*BLOCKS, ToolResult)
_UNIONS = (Union, types.UnionType)


def argument_type(annotation: Any, refuse: Refusal) -> Any:
    """A parameter's annotation as msgspec decodes it, with `decode_custom`.

    Raises:
        TypeError: an argument cannot be of that type; it names function and parameter, and says why.
    """
    try:
        parts = list(parts_of(annotation))
        for part in parts:
            if part.annotation in _CONTENT:
                name = part.annotation.__name__
                raise refuse(f"{name} is what tools give back: take bytes (base64 in JSON), or a URI as str")
        found = pydantic_type(annotation, parts, refuse)
        if found is None:
            return msgspec_type(annotation, parts, refuse)
        made = _as_custom(parts, found)
        encode_json(schema_of(made))
    except Exception as error:
        raise refuse.of(error) from error
    return made


def pydantic_type(annotation: Any, parts: Sequence[Part], refuse: Refusal) -> PydanticType | None:
    """How pydantic reads an annotation, where something in it is pydantic's.

    Raises:
        TypeError: pydantic would pass over something in it.
        Exception: what pydantic raises for what it cannot read.
    """
    if not any(map(is_of_pydantic, parts)):
        return None
    check_for_pydantic(parts, refuse)
    for part in parts:
        for extra in part.extras:
            if is_field(extra) and part.owner is None:
                check_field(extra, refuse)
    return PydanticType.of(_for_pydantic(annotation))


def msgspec_type(annotation: Any, parts: Sequence[Part], refuse: Refusal) -> Any:
    """An annotation as msgspec decodes it, checked.

    Raises:
        TypeError, ValueError, NameError: it cannot be decoded, or has no JSON Schema.
    """
    _check_context(parts, refuse)
    for part in parts:
        _check_field(part, refuse)
    translated = _translated(annotation, refuse)
    msgspec.json.Decoder(translated, dec_hook=decode_custom)
    encode_json(schema_of(translated))
    for part in parts:
        _check_class(part.annotation, refuse)
    return translated


def is_context(annotation: Any) -> bool:
    """Whether a parameter takes the `Context` of its call: `Context` or `Context | None`."""
    annotation = unaliased(annotation)
    if get_origin(annotation) is Annotated:
        return is_context(get_args(annotation)[0])
    if get_origin(annotation) in _UNIONS:
        inner = [part for part in get_args(annotation) if part is not type(None)]
        return len(inner) == 1 and is_context(inner[0])
    return annotation is Context


def is_described(annotation: Any) -> bool:
    """Whether a translated annotation has a description of its own."""
    return get_origin(annotation) is Annotated and any(
        isinstance(extra, msgspec.Meta) and extra.description for extra in get_args(annotation)[1:]
    )


def describe_pydantic(schema: dict[str, Any], parts: Sequence[Part]) -> dict[str, Any]:
    """The schema that pydantic made, with the descriptions of fields as in `describe_class`."""
    for part in parts:
        cls = get_origin(part.annotation) or part.annotation
        if isinstance(cls, type) and not get_args(part.annotation):
            found = schema.get("$defs", {}).get(cls.__name__) or (
                schema if schema.get("title") == cls.__name__ else None
            )
            if found is not None and found.get("type") == "object":
                describe_class(cls, found, {name: name for name in field_hints(cls)})
    return schema


def _as_custom(parts: Sequence[Part], found: PydanticType) -> Any:
    made = found.as_custom("pydantic")
    schema = describe_pydantic(made.schema, parts)
    if "title" in schema and schema.get("type") == "object":
        # A model is listed under its name, as every other class is.
        name = schema["title"]
        definitions = schema.pop("$defs", {})
        schema = {"$ref": f"#/$defs/{name}", "$defs": {**definitions, name: schema}}
    description = schema.pop("description", None)
    made.schema = schema
    return made if description is None else Annotated[made, msgspec.Meta(description=description)]


def _translated(annotation: Any, refuse: Refusal) -> Any:
    annotation = unaliased(annotation)
    origin = get_origin(annotation)
    if origin is Annotated:
        inner, *extras = get_args(annotation)
        return _annotated(_translated(inner, refuse), extras, refuse)
    if origin is None or origin is Literal:
        return annotation
    args = tuple(_translated(part, refuse) for part in get_args(annotation))
    if origin in _UNIONS:
        return _union(args, refuse)
    if args == get_args(annotation):
        return annotation
    if isinstance(annotation, types.GenericAlias):
        return types.GenericAlias(origin, args)
    return annotation.copy_with(args)


def _annotated(inner: Any, extras: Sequence[Any], refuse: Refusal) -> Any:
    said = read_metadata(extras, refuse)
    if said.bounds:
        bounds = msgspec.Meta(**said.bounds)
        if get_origin(inner) in _UNIONS:
            # `None` has no bounds, the other parts have them.
            parts = [part if part is type(None) else Annotated[part, bounds] for part in get_args(inner)]
            inner = reduce(or_, parts)
        else:
            inner = Annotated[inner, bounds]
    return Annotated[inner, msgspec.Meta(**said.words)] if said.words else inner


def _union(parts: tuple[Any, ...], refuse: Refusal) -> Any:
    union = reduce(or_, parts)
    given = [part for part in parts if part is not type(None)]
    variants = [part for part in given if variant_of(part) is not None]
    if len(variants) < 2:
        return union
    made = union_of(given, refuse)
    return made | None if len(given) < len(parts) else made


def _for_pydantic(annotation: Any) -> Any:
    """An annotation without what pydantic does not know: aliases are looked through, and words become a Field."""
    annotation = unaliased(annotation)
    if get_origin(annotation) is Annotated:
        inner, *extras = get_args(annotation)
        field = sys.modules["pydantic"].Field
        known = [field(description=words_of(extra)) if is_words(extra) else extra for extra in extras]
        found = _for_pydantic(inner)
        for extra in known:
            found = Annotated[found, extra]
        return found
    args = tuple(map(_for_pydantic, get_args(annotation))) if get_origin(annotation) is not Literal else ()
    if not args or args == get_args(annotation):
        return annotation
    if get_origin(annotation) in _UNIONS:
        return reduce(or_, args)
    if isinstance(annotation, types.GenericAlias):
        return types.GenericAlias(get_origin(annotation), args)
    return annotation.copy_with(args)


def _check_context(parts: Sequence[Part], refuse: Refusal) -> None:
    if any(part.annotation is Context for part in parts):
        raise refuse("a Context is a parameter of its own: `context: Context`")


def _check_field(part: Part, refuse: Refusal) -> None:
    """Refuse what stands in a class's field beside a type and msgspec does not read there."""
    if part.owner is None:
        return
    for extra in part.extras:
        if is_bound(extra):
            raise refuse(f"{part.place}: {extra!r} is not read in a field of a class: write msgspec.Meta(...)")
        if is_words(extra) and not part.whole:
            raise refuse(f"{part.place}: {extra!r} describes a part of a field: describe the field")


def _check_class(cls: Any, refuse: Refusal) -> None:
    """Refuse a class that msgspec would build otherwise than Python does."""
    if not isinstance(cls, type):
        cls = get_origin(cls)
    if not isinstance(cls, type):
        return
    if attrs.has(cls):
        for field in attrs.fields(cls):
            if field.converter is not None or not field.init or field.alias not in (None, field.name.lstrip("_")):
                raise refuse(f"{cls.__name__}.{field.name} has a converter, an alias or init=False")
            if field.name.startswith("_"):
                raise refuse(f"{cls.__name__}.{field.name} has an alias: its name begins with an underscore")
    elif dataclasses.is_dataclass(cls):
        for part in dataclasses.fields(cls):
            if not part.init:
                raise refuse(f"{cls.__name__}.{part.name} has init=False")
