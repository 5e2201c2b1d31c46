"""Types that msgspec does not know and that we decode: the hooks that msgspec calls for them.

msgspec hands a type that it does not know to a hook, with the decoded JSON value. `CustomType` makes such a type
of a function and a schema, so that one msgspec decoder reads a whole signature, whoever decodes its parts.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import PurePath
from typing import Any

from ...models.validation import JSON_TYPES

PATH_SCHEMA = {"type": "string", "format": "path"}


class CustomType(type):
    """A type that exists only for the decoder: `read` makes the value of the JSON, `schema` is what is listed."""

    read: Callable[[Any], Any]
    schema: dict[str, Any]

    def __new__(cls, name: str, read: Callable[[Any], Any], schema: dict[str, Any]) -> CustomType:
        made = super().__new__(cls, name, (), {})
        made.read, made.schema = read, schema
        return made

    def __init__(cls, name: str, read: Callable[[Any], Any], schema: dict[str, Any]) -> None:
        super().__init__(name, (), {})

    def __instancecheck__(cls, instance: Any) -> bool:
        return True  # msgspec asks whether the hook gave an instance; `read` gives whatever the function takes


def decode_custom(kind: Any, value: Any) -> Any:
    """What a JSON value means for a type that msgspec does not know (msgspec's `dec_hook`).

    Raises:
        ValueError: the value does not fit; msgspec adds where it stands.
        NotImplementedError: there is no rule for the type.
    """
    if isinstance(kind, CustomType):
        return kind.read(value)
    if isinstance(kind, type) and issubclass(kind, PurePath):
        if not isinstance(value, str):
            raise ValueError(f"Expected `str`, got `{JSON_TYPES[type(value)]}`")
        return kind(value)
    raise NotImplementedError(f"no rule to decode {kind!r}")


def custom_schema(kind: Any) -> dict[str, Any]:
    """The JSON Schema of a type that msgspec does not know (msgspec's `schema_hook`)."""
    if isinstance(kind, CustomType):
        return dict(kind.schema)
    if isinstance(kind, type) and issubclass(kind, PurePath):
        return dict(PATH_SCHEMA)
    raise NotImplementedError(f"no JSON Schema for {kind!r}")


def encode_custom(value: Any) -> Any:
    """A value that msgspec cannot write, as one that it can (msgspec's `enc_hook`).

    Raises:
        TypeError: there is no rule for its type.
    """
    if isinstance(value, PurePath):
        return str(value)
    dump = getattr(type(value), "model_dump", None)
    if dump is not None:
        return dump(value, mode="json", by_alias=True)
    raise TypeError(f"a value of type {type(value).__name__} cannot be written as JSON")
