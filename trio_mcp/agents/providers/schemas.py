"""Schemas of arguments as a provider takes them: what it would refuse is mended where the meaning stays the same.

A provider refuses the whole request, with every tool in it, over one schema. So a schema that a server wrote is
judged here first. This module knows JSON Schema, and neither tools nor requests.
"""

from __future__ import annotations

import re
from typing import Any

from attrs import field, frozen

from ...protocol.messages import encode_json
from ...protocol.schema_keywords import LISTED_SCHEMAS, NAMED_SCHEMAS, SINGLE_SCHEMAS
from .encodable import own_copy

Schema = dict[str, Any]

#: Keywords whose value is data, which may be null.
_DATA = frozenset(("const", "default", "example"))
#: Keywords that look at others beside them, which they would find changed in another place.
_NEIGHBOURS = (
    frozenset(("additionalProperties", "patternProperties", "properties", "unevaluatedProperties")),
    frozenset(("else", "if", "then")),
)
#: Keywords that say nothing about which values are valid.
_COMMENTS = frozenset(("$comment", "$schema", "description", "examples", "title"))
_LOCAL = re.compile(r"#/(\$defs|definitions)/([^/~%]+)")


@frozen(kw_only=True)
class SchemaRules:
    """What a provider takes as the schema of a tool's arguments.

    Attributes:
        needs_properties: the root must have `properties`.
        needs_items: an array must have `items`.
        property_key: what the name of an argument must match; None for anything.
        refused_at_root: keywords that the root must not have.
    """

    needs_properties: bool = False
    needs_items: bool = False
    property_key: re.Pattern[str] | None = None
    refused_at_root: frozenset[str] = frozenset()


@frozen
class FittedSchema:
    """A schema as a provider takes it, as far as that is possible.

    Attributes:
        schema: the schema, a copy for the caller to keep and to change.
        mended: faults over which the provider would have refused it; `schema` means the same without them.
        refused: faults over which the provider refuses it: no schema without them means the same.
    """

    schema: Schema
    mended: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()


@frozen
class _Fitting:
    """One schema on its way through the rules."""

    rules: SchemaRules
    mended: list[str] = field(factory=list)
    refused: list[str] = field(factory=list)

    def walk(self, schema: Any, path: str) -> Any:
        """A schema and those in it without null members, and with `items` where the provider needs them."""
        if not isinstance(schema, dict):
            return {} if schema is None else schema
        found: Schema = {}
        for keyword, value in schema.items():
            where = f"{path}.{keyword}" if path else keyword
            if keyword in _DATA:
                found[keyword] = value
            elif keyword == "type" and isinstance(value, list):  # YAML reads `[string, null]` so
                found[keyword] = ["null" if kind is None else kind for kind in value]
            elif value is None:  # as servers write a member that they have no value for
                continue
            elif keyword in NAMED_SCHEMAS and isinstance(value, dict):
                found[keyword] = {name: self.walk(part, f"{where}.{name}") for name, part in value.items()}
            elif keyword in NAMED_SCHEMAS and value == []:  # PHP has one literal for an empty list and object
                found[keyword] = {}
            elif keyword in LISTED_SCHEMAS and isinstance(value, list):
                found[keyword] = [self.walk(part, f"{where}.{place}") for place, part in enumerate(value)]
            elif keyword in SINGLE_SCHEMAS:
                found[keyword] = self.walk(value, where)
            elif keyword == "required" and isinstance(value, list):
                found[keyword] = [name for name in value if name is not None]
            else:
                found[keyword] = value
        kinds = found.get("type")
        is_array = kinds == "array" or (isinstance(kinds, list) and "array" in kinds)
        if self.rules.needs_items and is_array and "items" not in found:
            found["items"] = {}  # the default
            self.mended.append(f"{path or 'the root'} is an array without items")
        return found

    def fit_root(self, schema: Schema) -> Schema:
        """The root without the keywords that the provider refuses there."""
        for keyword in self.rules.refused_at_root.intersection(schema):
            merged = _without_branches(schema, keyword)
            if merged is None:
                self.refused.append(f"the root has {keyword}")
            else:
                schema = merged
                self.mended.append(f"the root has {keyword}")
        if self.rules.needs_properties:
            # Not worth a word: most tools without arguments leave it out.
            schema.setdefault("properties", {})
        properties = schema.get("properties")
        if self.rules.property_key is not None and isinstance(properties, dict):
            for name in properties:
                if not self.rules.property_key.fullmatch(name):
                    pattern = self.rules.property_key.pattern
                    self.refused.append(f"the argument {name!r} has a name that does not match {pattern}")
        return schema


def fitted(schema: Schema, rules: SchemaRules) -> FittedSchema:
    """A schema by the rules of a provider. Members that are null are left out, whatever the rules say.

    >>> found = fitted({"type": "object", "properties": {"a": {"type": "array"}}, "required": None}, SchemaRules())
    >>> found.schema
    {'type': 'object', 'properties': {'a': {'type': 'array'}}}
    >>> fitted(found.schema, SchemaRules(needs_items=True)).mended
    ('properties.a is an array without items',)
    """
    fitting = _Fitting(rules)
    own = own_copy(schema)
    try:
        own = fitting.fit_root(fitting.walk(own, ""))
    except RecursionError:
        return FittedSchema(own, refused=("the schema is nested too deeply",))
    return FittedSchema(own, tuple(fitting.mended), tuple(fitting.refused))


def _without_branches(schema: Schema, keyword: str) -> Schema | None:
    """The root with the branches of one keyword in it, where that means the same; else None.

    One branch alone, or one that every value fits, is not a choice; all of `allOf` hold.
    """
    branches = schema[keyword]
    if keyword not in ("anyOf", "oneOf", "allOf") or not isinstance(branches, list):
        return None
    if b'"#/%b' % keyword.encode() in encode_json(schema):  # something refers to a branch
        return None
    root: Schema | None = {name: value for name, value in schema.items() if name != keyword}
    if keyword == "anyOf" and any(branch is True or branch == {} for branch in branches):
        return root
    if keyword != "allOf" and len(branches) != 1:
        return None
    for branch in branches:
        root = root and _merged(root, _resolved(branch, schema))
    return root


def _resolved(branch: Any, root: Schema) -> Any:
    """A branch; where it does nothing but refer to a definition of the root, that definition."""
    if isinstance(branch, dict) and set(branch) == {"$ref"}:
        local = _LOCAL.fullmatch(str(branch["$ref"]))
        named = root.get(local[1]) if local else None
        return named.get(local[2]) if local and isinstance(named, dict) else None
    return branch


def _merged(root: Schema, branch: Any) -> Schema | None:
    """Both schemas as one, where each keyword of theirs means there what it means in its own place; else None."""
    if not isinstance(branch, dict) or "$id" in branch:
        return None
    for group in _NEIGHBOURS:
        theirs, ours = group.intersection(branch), group.intersection(root)
        if theirs and ours and theirs | ours != {"properties"}:
            return None
    found = dict(root)
    for keyword, value in branch.items():
        if keyword not in found:
            found[keyword] = value
        elif keyword == "properties" and isinstance(value, dict) and isinstance(found[keyword], dict):
            if any(found[keyword].get(name, part) != part for name, part in value.items()):
                return None
            found[keyword] = {**found[keyword], **value}
        elif keyword == "required" and isinstance(value, list) and isinstance(found[keyword], list):
            found[keyword] = list(dict.fromkeys([*found[keyword], *value]))
        elif keyword not in _COMMENTS and found[keyword] != value:
            return None
    return found
