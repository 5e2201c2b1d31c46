"""Which keywords of JSON Schema hold further schemas; the values of the others are data. No I/O, and no schema."""

from __future__ import annotations

#: The value is an object whose values are schemas.
NAMED_SCHEMAS = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
#: The value is a list of schemas. Before 2020-12 that of `items` could be one.
LISTED_SCHEMAS = ("allOf", "anyOf", "oneOf", "prefixItems", "items")
#: The value is a schema.
SINGLE_SCHEMAS = (
    *("items", "contains", "not", "if", "then", "else", "additionalProperties", "unevaluatedItems"),
    *("unevaluatedProperties", "propertyNames", "additionalItems"),
)
