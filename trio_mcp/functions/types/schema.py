"""The JSON Schema of a type that msgspec decodes, completed with what msgspec does not say.

msgspec makes the schema; this file adds the format of dates and times, descriptions of the fields of classes (from
`Doc`, a bare string, or the class's docstring), and the definitions that pydantic's types bring along.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import msgspec.inspect as shapes

from ..docstring import read_docstring
from .custom import custom_schema
from .metadata import is_words, words_of
from .walking import Part, parts_of

_ROOT = "#/$defs/"
_CLASSES = (shapes.StructType, shapes.TypedDictType, shapes.DataclassType, shapes.NamedTupleType)


def schema_of(annotation: Any) -> dict[str, Any]:
    """The JSON Schema of a type, its root in place and without a title; what it refers to is under `$defs`.

    >>> schema_of(list[int])
    {'type': 'array', 'items': {'type': 'integer'}}
    """
    root, named = schema_components(annotation)
    if root.get("$ref", "").startswith(_ROOT):
        name = root["$ref"].removeprefix(_ROOT)
        # The entry of a type that contains itself must stay.
        inlined = dict(named[name]) if _refers_to(named, root["$ref"]) else named.pop(name)
        root = {**inlined, **{key: value for key, value in root.items() if key != "$ref"}}
    root.pop("title", None)
    if not root.get("required", True):
        del root["required"]
    return {**root, "$defs": named} if named else root


def schema_components(annotation: Any) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """The JSON Schema of a type, and of the classes in it by name; it refers to them below `$defs`."""
    shape = shapes.type_info(annotation)
    classes = dict(_classes(shape, {}))
    (root, *references), named = msgspec.json.schema_components(
        [annotation, *classes], schema_hook=custom_schema, ref_template=_ROOT + "{name}"
    )
    _add_formats(shape, root)
    for (cls, of_class), reference in zip(classes.items(), references, strict=True):
        node = named[reference["$ref"].removeprefix(_ROOT)]
        for field in of_class.fields:
            _add_formats(field.type, node.get("properties", {}).get(field.encode_name, {}))
        names = {field.name: field.encode_name for field in of_class.fields}
        describe_class(getattr(cls, "__origin__", None) or cls, node, names)
    return _with_definitions(root, named), named


def describe_class(cls: type, schema: dict[str, Any], names: Mapping[str, str]) -> None:
    """Say what a class's docstring and the metadata of its fields say; `names` has the fields' names in JSON.

    A part of the docstring that tells of the fields leaves the description of the class.
    """
    description, of_fields = read_docstring(cls.__doc__)
    properties = schema.get("properties", {})
    if schema.get("description") and schema["description"].strip() == inspect.cleandoc(cls.__doc__ or "").strip():
        schema["description"] = description
        if not description:
            del schema["description"]
    of_fields = {**of_fields, **dict(_described_fields(cls))}
    for name, text in of_fields.items():
        found = properties.get(names.get(name, name))
        if isinstance(found, dict):
            found.setdefault("description", text)


def _described_fields(cls: type) -> Iterator[tuple[str, str]]:
    part: Part
    for part in parts_of(cls):
        if part.whole and part.owner is not None and part.owner[0] is cls:
            for extra in filter(is_words, part.extras):
                yield part.owner[1], words_of(extra)


def _classes(shape: Any, found: dict[Any, Any]) -> dict[Any, Any]:
    """The classes with fields that a type is made of, each with its shape."""
    if isinstance(shape, _CLASSES):
        if shape.cls not in found:
            found[shape.cls] = shape
            for field in shape.fields:
                _classes(field.type, found)
    else:
        for inner in _inside(shape):
            _classes(inner, found)
    return found


def _inside(shape: Any) -> tuple[Any, ...]:
    names = ("type", "item_type", "key_type", "value_type")
    single = tuple(getattr(shape, name) for name in names if hasattr(shape, name))
    return (*single, *getattr(shape, "item_types", ()), *getattr(shape, "types", ()))


def _add_formats(shape: Any, node: dict[str, Any]) -> None:
    """Say `format` where msgspec leaves it out since it reads more: models write what a format says."""
    if isinstance(shape, shapes.Metadata):
        _add_formats(shape.type, node)
    elif isinstance(shape, shapes.DateTimeType):
        node.setdefault("format", "date-time")
    elif isinstance(shape, shapes.TimeType):
        node.setdefault("format", "time")
    elif isinstance(shape, shapes.CollectionType):
        _add_formats(shape.item_type, node.get("items", {}))
    elif isinstance(shape, shapes.DictType):
        _add_formats(shape.value_type, node.get("additionalProperties", {}))
    elif isinstance(shape, shapes.TupleType):
        for inner, schema in zip(shape.item_types, node.get("prefixItems", ()), strict=False):
            _add_formats(inner, schema)
    elif isinstance(shape, shapes.UnionType):
        dates = [inner for inner in shape.types if _is_date(inner)]
        for schema in node.get("anyOf", ()):
            # A union has at most one type that is a string, and at most one that is an array.
            for inner in dates if schema == {"type": "string"} else ():
                _add_formats(inner, schema)
            for inner in shape.types if "items" in schema or "additionalProperties" in schema else ():
                _add_formats(inner, schema)


def _is_date(shape: Any) -> bool:
    while isinstance(shape, shapes.Metadata):
        shape = shape.type
    return isinstance(shape, shapes.DateTimeType | shapes.TimeType)


def _with_definitions(node: Any, named: dict[str, dict[str, Any]]) -> Any:
    """Move the definitions that a type brought along to the root. A name that is taken gets a number."""
    _hoist(node, named)
    for schema in list(named.values()):
        _hoist(schema, named)
    return node


def _hoist(node: Any, named: dict[str, dict[str, Any]]) -> None:
    if isinstance(node, list):
        for inner in node:
            _hoist(inner, named)
    if not isinstance(node, dict):
        return
    brought = node.pop("$defs", {})
    renamed: dict[str, str] = {}
    for name, schema in brought.items():
        free, number = name, 2
        while free in named and named[free] != schema:
            free, number = f"{name}_{number}", number + 1
        renamed[_ROOT + name] = _ROOT + free
    if any(old != new for old, new in renamed.items()):
        _rename(node, renamed)
        _rename(brought, renamed)
    for name, schema in brought.items():
        named[renamed[_ROOT + name].removeprefix(_ROOT)] = schema
    for inner in node.values():
        _hoist(inner, named)


def _rename(node: Any, renamed: Mapping[str, str]) -> None:
    if isinstance(node, dict):
        if isinstance(node.get("$ref"), str):
            node["$ref"] = renamed.get(node["$ref"], node["$ref"])
        for inner in node.values():
            _rename(inner, renamed)
    elif isinstance(node, list):
        for inner in node:
            _rename(inner, renamed)


def _refers_to(schema: Any, reference: str) -> bool:
    if isinstance(schema, dict):
        return schema.get("$ref") == reference or any(_refers_to(part, reference) for part in schema.values())
    return isinstance(schema, list) and any(_refers_to(part, reference) for part in schema)
