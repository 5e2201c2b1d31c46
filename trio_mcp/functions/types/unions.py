"""Unions of classes that msgspec cannot tell apart, and that the JSON can.

Two ways to tell: each class has a field of one name with a `Literal` of its own, or no object can fit two of
them. What neither tells apart is refused, with what to write.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import reduce
from operator import or_
from typing import Any, get_origin

import msgspec
import msgspec.inspect as shapes
from attrs import frozen

from ...models.validation import NestedError, located
from .custom import CustomType, decode_custom
from .refusal import Refusal
from .schema import schema_of

_ADVICE = 'give each a field of the same name with its own Literal, such as `kind: Literal["cat"]`'


@frozen
class _Variant:
    """One class of a union: what an object of it has to have, and may have, by the names in JSON."""

    annotation: Any
    required: frozenset[str]
    allowed: frozenset[str]
    tags: dict[str, frozenset[str]]

    @property
    def name(self) -> str:
        cls = get_origin(self.annotation) or self.annotation
        return str(getattr(cls, "__name__", cls))


def variant_of(annotation: Any) -> _Variant | None:
    """A part of a union as a variant, where it is a class whose values are objects."""
    shape = _bare(shapes.type_info(annotation))
    if not isinstance(shape, shapes.DataclassType | shapes.TypedDictType | shapes.StructType):
        return None
    if getattr(shape, "array_like", False) or getattr(shape, "tag", None) is not None:
        return None
    tags = {}
    for field in shape.fields:
        kind = _bare(field.type)
        if isinstance(kind, shapes.LiteralType) and all(isinstance(value, str) for value in kind.values):
            tags[field.encode_name] = frozenset(str(value) for value in kind.values)
    return _Variant(
        annotation,
        frozenset(field.encode_name for field in shape.fields if field.required),
        frozenset(field.encode_name for field in shape.fields),
        tags,
    )


def union_of(parts: Sequence[Any], refuse: Refusal) -> Any:
    """A type that decodes to one of several classes, or to another part of the union.

    Raises:
        TypeError: the JSON does not tell which class is meant.
    """
    variants = [variant for variant in map(variant_of, parts) if variant is not None]
    others = [part for part in parts if variant_of(part) is None]
    for other in others:
        if isinstance(_bare(shapes.type_info(other)), shapes.DictType | shapes.AnyType | shapes.CustomType):
            names = " and ".join(variant.name for variant in variants)
            raise refuse(f"{names} cannot be told from {other}: leave one of them out")
    tag = _common_tag(variants)
    if tag is None:
        _check_structure(variants, refuse)
    union = _Union(
        variants, tag, msgspec.json.Decoder(reduce(or_, others), dec_hook=decode_custom) if others else None
    )
    schemas = [_variant_schema(variant, tag) for variant in variants]
    name = "_or_".join(variant.name for variant in variants)
    return CustomType(name, union.read, {"anyOf": [*schemas, *map(schema_of, others)]})


def _variant_schema(variant: _Variant, tag: str | None) -> dict[str, Any]:
    """The schema of one class within the union, which tells it from the others."""
    schema = schema_of(variant.annotation)
    schema = {"title": variant.name, **schema}
    if tag is None:
        return {**schema, "additionalProperties": False}
    return {**schema, "required": sorted({*schema.get("required", ()), tag}, key=list(schema["properties"]).index)}


class _Union:
    """Decodes a value of a union."""

    def __init__(self, variants: Sequence[_Variant], tag: str | None, others: Any) -> None:
        self._variants = variants
        self._tag = tag
        self._others = others
        self._decoders = {
            variant.name: msgspec.json.Decoder(variant.annotation, dec_hook=decode_custom) for variant in variants
        }

    def read(self, value: Any) -> Any:
        decoder = self._decoders[self._choose(value).name] if isinstance(value, dict) else self._others
        names = " or ".join(variant.name for variant in self._variants)
        if decoder is None:
            raise NestedError([("", f"expected an object: {names}")])
        try:
            return decoder.decode(msgspec.json.encode(value))
        except msgspec.ValidationError as error:
            raise NestedError(located(error)) from error

    def _choose(self, value: dict[str, Any]) -> _Variant:
        if self._tag is not None:
            return self._by_tag(self._tag, value)
        for variant in self._variants:
            if variant.required <= value.keys() <= variant.allowed:
                return variant
        shapes_ = "; ".join(
            f"{variant.name} has {', '.join(sorted(variant.allowed))}"
            + (f" and needs {', '.join(sorted(variant.required))}" if variant.required else "")
            for variant in self._variants
        )
        raise NestedError([("", f"these fields fit none of: {shapes_}")])

    def _by_tag(self, tag: str, value: dict[str, Any]) -> _Variant:
        choices = " or ".join(
            json.dumps(choice) for variant in self._variants for choice in sorted(variant.tags[tag])
        )
        if tag not in value:
            raise NestedError([(tag, f"missing, but required: {choices}")])
        for variant in self._variants:
            if value[tag] in variant.tags[tag]:
                return variant
        raise NestedError([(tag, f"expected {choices}, got {value[tag]!r}")])


def _common_tag(variants: Sequence[_Variant]) -> str | None:
    for name in variants[0].tags:
        values = [value for variant in variants for value in variant.tags.get(name, ())]
        if all(name in variant.tags for variant in variants) and len(set(values)) == len(values):
            return name
    return None


def _check_structure(variants: Sequence[_Variant], refuse: Refusal) -> None:
    for index, one in enumerate(variants):
        for other in variants[index + 1 :]:
            # Some object fits both if each knows all that the other needs.
            if one.required <= other.allowed and other.required <= one.allowed:
                raise refuse(f"{one.name} and {other.name} cannot be told apart in JSON: {_ADVICE}")


def _bare(shape: Any) -> Any:
    while isinstance(shape, shapes.Metadata):
        shape = shape.type
    return shape
