"""Annotations that only pydantic can read, by its own TypeAdapter, strictly.

An annotation with anything of pydantic in it goes there whole: pydantic reads dataclasses and containers too, and
two engines in one value would not agree. pydantic is not imported here: where it is in an annotation, the program
has imported it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import attrs
import msgspec
from attrs import frozen

from ...models.validation import NestedError
from .custom import CustomType
from .metadata import is_field, is_for_pydantic
from .refusal import Refusal
from .walking import Part


def is_of_pydantic(part: Part) -> bool:
    """Whether a part of an annotation is pydantic's: a model, a dataclass or a type of it, or metadata for it."""
    kind = part.annotation
    if "pydantic" not in sys.modules:
        return False  # a class of somebody else that only has a hook for pydantic
    if isinstance(kind, type) and (
        hasattr(kind, "__pydantic_core_schema__") or hasattr(kind, "__get_pydantic_core_schema__")
    ):
        return True
    # In a class of somebody else, pydantic alone reads a Field.
    return any(is_for_pydantic(extra) or (part.owner and is_field(extra)) for extra in part.extras)


def check_for_pydantic(parts: Iterable[Part], refuse: Refusal) -> None:
    """Refuse what pydantic would pass over in silence, or cannot read.

    Raises:
        TypeError: it names the class.
    """
    for part in parts:
        if any(isinstance(extra, msgspec.Meta) for extra in part.extras):
            raise refuse("msgspec.Meta beside a type of pydantic: write pydantic.Field")
        kind = part.annotation
        if isinstance(kind, type) and (attrs.has(kind) or issubclass(kind, msgspec.Struct)):
            raise refuse(
                f"{kind.__name__} stands beside a type of pydantic, which cannot read it: make it a dataclass"
            )


@frozen
class PydanticType:
    """One annotation that pydantic reads and writes."""

    adapter: Any

    @classmethod
    def of(cls, annotation: Any) -> PydanticType:
        """Raises whatever pydantic raises for an annotation that it cannot read."""
        return cls(sys.modules["pydantic"].TypeAdapter(annotation))

    def read(self, value: Any) -> Any:
        """The value that decoded JSON means.

        Raises:
            NestedError: it does not fit.
        """
        with _TranslatedErrors():
            return self.adapter.validate_json(msgspec.json.encode(value), strict=True)

    def write(self, value: Any) -> bytes:
        """A value as JSON; instances are taken as they are, everything else is checked.

        Raises:
            NestedError: it is not of the type.
        """
        with _TranslatedErrors():
            checked = self.adapter.validate_python(value, strict=True)
        encoded: bytes = self.adapter.dump_json(checked, by_alias=True)
        return encoded

    def schema(self, mode: str) -> dict[str, Any]:
        """The JSON Schema of arguments ("validation") or of results ("serialization")."""
        schema: dict[str, Any] = self.adapter.json_schema(
            mode=mode, ref_template="#/$defs/{model}", schema_generator=_generator()
        )
        return schema

    def as_custom(self, name: str) -> Any:
        """The annotation for msgspec's decoder."""
        return CustomType(name, self.read, self.schema("validation"))


class _TranslatedErrors:
    """Raises pydantic's errors as a `NestedError`."""

    def __enter__(self) -> None: ...

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        core = sys.modules["pydantic_core"]
        if isinstance(error, core.ValidationError):
            raise NestedError(_messages(error)) from error


def _messages(error: Any) -> Iterator[tuple[str, str]]:
    for found in error.errors(include_url=False, include_context=False, include_input=False):
        path = ""
        for step in found["loc"]:
            path += f"[{step}]" if isinstance(step, int) else f".{step}" if path else step
        text = found["msg"]
        yield path, text[:1].lower() + text[1:]


def _generator() -> Any:
    """pydantic's generator without its titles for fields, which only repeat their names."""
    base: Any = sys.modules["pydantic"].json_schema.GenerateJsonSchema
    untitled: Callable[..., bool] = lambda *_: False  # noqa: E731 - a method of a class that is made here
    return type("Untitled", (base,), {"field_title_should_be_set": untitled})
