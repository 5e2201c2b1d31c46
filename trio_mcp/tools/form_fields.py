"""What stands beside the types of a form's fields in `Annotated`, and msgspec does not read there.

Read are `Doc` and bare strings (descriptions), `pydantic.Field`, and the bounds of annotated_types. Each is
honoured in the schema and in the check of the answer, or refused; what belongs to somebody else (PEP 593) is left
alone. Neither pydantic nor annotated_types is imported: both are known by what their values have.
"""

from __future__ import annotations

import types
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import msgspec
from attrs import define, field

from ..models.validation import validation_message

_BOUNDS = ("ge", "gt", "le", "lt", "multiple_of", "min_length", "max_length", "pattern")
_KINDS: dict[str, Any] = {"string": str, "integer": int, "number": float, "array": list[str]}
#: Whose values beside a type are constraints: one that is not understood must not be dropped.
_OF_CONSTRAINTS = ("annotated_types", "pydantic", "pydantic_core")


@define
class FormField:
    """What was said of one field: `words` for people, `bounds` of its value."""

    words: dict[str, str] = field(factory=dict)
    bounds: dict[str, Any] = field(factory=dict)

    def add_to(self, name: str, flat: dict[str, Any]) -> None:
        """Say it in the field's schema.

        Raises:
            TypeError: the bounds are not for such a field.
        """
        if self.bounds:
            schema = msgspec.json.schema(self._checked(name, flat))
            flat.update({key: value for key, value in schema.items() if key not in ("type", "items")})
        for key, text in self.words.items():
            flat.setdefault(key, text)

    def check(self, name: str, flat: Mapping[str, Any], value: Any) -> str:
        """Why a value is outside the bounds; empty where it is not."""
        if self.bounds and value is not None:
            try:
                msgspec.convert(value, self._checked(name, flat))
            except msgspec.ValidationError as error:
                return f"{name}: {validation_message(error)}"
        return ""

    def _checked(self, name: str, flat: Mapping[str, Any]) -> Any:
        kind = _KINDS.get(flat.get("type", ""))
        try:
            if kind is None or "enum" in flat:
                raise TypeError("a choice has no bounds")
            checked = Annotated[kind, msgspec.Meta(**self.bounds)]  # type: ignore[valid-type] # made here
            msgspec.json.Decoder(checked)
        except (TypeError, ValueError) as error:
            raise TypeError(f"schema: {name}: {error}") from None
        return checked


def form_fields(schema: Any) -> dict[str, FormField]:
    """What is said of each field, by the field's name in JSON.

    Raises:
        TypeError: something that is said cannot be said in a form; it names the field.
    """
    try:
        hints = get_type_hints(schema, include_extras=True)
    except (NameError, TypeError, AttributeError):  # msgspec says what is wrong with such a class
        return {}
    names = dict(
        zip(getattr(schema, "__struct_fields__", ()), getattr(schema, "__struct_encode_fields__", ()), strict=True)
    )
    found = {}
    for name, hint in hints.items():
        said = FormField()
        if _is_field(getattr(schema, name, None)):
            raise TypeError(f"schema: {name}: a Field as default is not read: write Annotated[..., Field(...)]")
        for extra in _extras(hint):
            _read(name, extra, said)
        if said.words or said.bounds:
            found[names.get(name, name)] = said
    return found


def _extras(hint: Any) -> Iterator[Any]:
    """What stands beside a type, also within `X | None`."""
    origin = get_origin(hint)
    if origin is Annotated:
        yield from get_args(hint)[1:]
        yield from _extras(get_args(hint)[0])
    elif origin in (Union, types.UnionType) or getattr(origin, "_name", "") in ("Required", "NotRequired"):
        for inner in get_args(hint):
            yield from _extras(inner)


def _read(name: str, extra: Any, said: FormField) -> None:
    if isinstance(extra, msgspec.Meta):
        return  # msgspec has read it
    if isinstance(extra, str):
        said.words.setdefault("description", extra)
    elif isinstance(getattr(extra, "documentation", None), str):
        said.words.setdefault("description", extra.documentation)
    elif _is_field(extra):
        _read_field(name, extra, said)
    elif type(extra).__module__.partition(".")[0] in _OF_CONSTRAINTS:
        for part in extra if isinstance(extra, Iterable) else (extra,):
            _read_bounds(name, part, said)


def _read_field(name: str, info: Any, said: FormField) -> None:
    for key in ("title", "description"):
        if getattr(info, key) is not None:
            said.words.setdefault(key, getattr(info, key))
    blank = type(info)()
    known = {"annotation", "title", "description", "metadata", "examples"}
    for key in type(info).__slots__:
        if key[0] != "_" and key not in known and getattr(info, key, None) != getattr(blank, key, None):
            raise TypeError(f"schema: {name}: Field({key}=...) has no meaning in a form: leave it out")
    for part in info.metadata:
        _read_bounds(name, part, said)


def _read_bounds(name: str, extra: Any, said: FormField) -> None:
    bounds = {bound: getattr(extra, bound) for bound in _BOUNDS if getattr(extra, bound, None) is not None}
    if not bounds and getattr(extra, "strict", None) is not True:
        raise TypeError(f"schema: {name}: {extra!r} cannot be said in a form: check it in the tool")
    for bound, value in bounds.items():
        if said.bounds.setdefault(bound, value) != value:
            raise TypeError(f"schema: {name}: two values of {bound}: write one")


def _is_field(extra: Any) -> bool:
    return type(extra).__name__ == "FieldInfo" and type(extra).__module__ == "pydantic.fields"
