"""What stands beside a type in `Annotated`, as msgspec's `Meta`: bounds, patterns, descriptions.

This file reads msgspec's own `Meta`, the classes of annotated_types, `pydantic.Field`, `Doc` and a bare string.
Each is honoured or refused, never dropped; metadata of somebody else (PEP 593 lets anybody write there) is left
alone. Neither annotated_types nor pydantic is imported: a program that uses them has done so.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from attrs import field, frozen

from .refusal import Refusal

_BOUNDS = ("ge", "gt", "le", "lt", "multiple_of", "pattern", "min_length", "max_length", "tz")
_WORDS = ("title", "description", "examples", "extra_json_schema", "extra")
_LARGER = frozenset({"ge", "gt", "min_length"})
_SMALLER = frozenset({"le", "lt", "max_length"})
#: What `pydantic.Field` can say about a field of a class, and not about an argument.
_OF_FIELDS = (
    "alias",
    "validation_alias",
    "serialization_alias",
    "exclude",
    "frozen",
    "init",
    "init_var",
    "kw_only",
    "validate_default",
)


@frozen
class Metadata:
    """What a row of metadata says: `bounds` of values, and `words` for whoever reads the schema."""

    bounds: dict[str, Any] = field(factory=dict)
    words: dict[str, Any] = field(factory=dict)


def is_field(extra: Any) -> bool:
    """Whether this is a `pydantic.Field(...)`."""
    fields = sys.modules.get("pydantic.fields")
    return fields is not None and isinstance(extra, fields.FieldInfo)


def is_words(extra: Any) -> bool:
    """Whether this only describes: a bare string, or the `Doc` of PEP 727."""
    return isinstance(extra, str) or (
        type(extra).__name__ == "Doc" and isinstance(getattr(extra, "documentation", None), str)
    )


def words_of(extra: Any) -> str:
    """The description in a bare string or a `Doc`."""
    return extra if isinstance(extra, str) else str(extra.documentation)


def is_bound(extra: Any) -> bool:
    """Whether this is a constraint of annotated_types."""
    known = sys.modules.get("annotated_types")
    return known is not None and isinstance(extra, (known.BaseMetadata, known.GroupedMetadata))


def is_for_pydantic(extra: Any) -> bool:
    """Whether only pydantic can carry this out: validators of its own, and what `Field` says beyond a `Meta`."""
    if is_field(extra):
        return extra.discriminator is not None or any(is_for_pydantic(part) for part in extra.metadata)
    if hasattr(extra, "__get_pydantic_core_schema__"):
        return True
    return _is_of_pydantic(extra) and not _is_pattern(extra) and _strict(extra) is not True


def read_metadata(extras: Iterable[Any], refuse: Refusal) -> Metadata:
    """What the metadata of one `Annotated` says, all together. Of two bounds of one kind the narrower counts.

    Raises:
        TypeError: something of it cannot be said to a model, or not about an argument.

    >>> def grow(age): ...
    >>> read_metadata(["In years.", msgspec.Meta(ge=0), msgspec.Meta(ge=18)], Refusal(grow, "age"))
    Metadata(bounds={'ge': 18}, words={'description': 'In years.'})
    """
    said = Metadata()
    for extra in extras:
        for name, value in _one(extra, refuse):
            if name in _BOUNDS:
                said.bounds[name] = _narrower(name, said.bounds.get(name, value), value, refuse)
            elif name == "extra_json_schema":
                said.words[name] = {**said.words.get(name, {}), **value}
            else:
                said.words[name] = value
    return said


def _one(extra: Any, refuse: Refusal) -> Iterator[tuple[str, Any]]:
    if isinstance(extra, msgspec.Meta):
        for name in (*_BOUNDS, *_WORDS):
            if getattr(extra, name) is not None:
                yield name, getattr(extra, name)
    elif is_words(extra):
        yield "description", words_of(extra)
    elif is_field(extra):
        yield from _of_field(extra, refuse)
    elif _is_pattern(extra):
        yield "pattern", extra.pattern
    elif is_bound(extra) and _strict(extra) is None:
        yield from _of_bound(extra, refuse)


def _of_field(info: Any, refuse: Refusal) -> Iterator[tuple[str, Any]]:
    check_field(info, refuse)
    for name in ("title", "description", "examples"):
        if getattr(info, name) is not None:
            yield name, getattr(info, name)
    if info.deprecated:
        yield "extra_json_schema", {"deprecated": True}
    if info.json_schema_extra is not None:
        if not isinstance(info.json_schema_extra, dict):
            raise refuse("Field(json_schema_extra=...) is a function: write a dict")
        yield "extra_json_schema", info.json_schema_extra
    for part in info.metadata:
        yield from _one(part, refuse)


def check_field(info: Any, refuse: Refusal) -> None:
    """Refuse what a `pydantic.Field` says that an argument cannot follow.

    Raises:
        TypeError: it names the option.
    """
    blank = type(info)()
    for name in _OF_FIELDS:
        if getattr(info, name, None) != getattr(blank, name, None):
            advice = "rename the parameter" if name.endswith("alias") else "leave it out"
            raise refuse(f"Field({name}=...) has no meaning for an argument: {advice}")


def _of_bound(extra: Any, refuse: Refusal) -> Iterator[tuple[str, Any]]:
    known = sys.modules["annotated_types"]
    if isinstance(extra, known.Timezone):
        if extra.tz not in (None, ...):
            raise refuse(
                f"{extra!r}: a schema says only whether there is a time zone: write Timezone(...) or None"
            )
        yield "tz", extra.tz is ...
        return
    if isinstance(extra, known.GroupedMetadata):
        for part in extra:
            yield from _of_bound(part, refuse)
        return
    found = [(name, getattr(extra, name)) for name in _BOUNDS if getattr(extra, name, None) is not None]
    if not found:
        raise refuse(f"{extra!r} cannot be said in a JSON Schema: check it in the function, and describe it")
    yield from found


def _narrower(name: str, one: Any, other: Any, refuse: Refusal) -> Any:
    if one == other:
        return one
    if name in _LARGER:
        return max(one, other)
    if name in _SMALLER:
        return min(one, other)
    raise refuse(f"two values of {name}: {one!r} and {other!r}: write one")


def _is_of_pydantic(extra: Any) -> bool:
    return type(extra).__module__.partition(".")[0] == "pydantic"


def _is_pattern(extra: Any) -> bool:
    """pydantic keeps what annotated_types has no class for in an object with just these attributes."""
    of_pydantic = _is_of_pydantic(extra) and isinstance(getattr(extra, "pattern", None), str)
    return of_pydantic and set(vars(extra)) == {"pattern"}


def _strict(extra: Any) -> bool | None:
    """Of pydantic's `Strict`, whether it is strict, as we are anyhow; None of anything else."""
    found = getattr(extra, "strict", None) if type(extra).__name__ == "Strict" else None
    return found if isinstance(found, bool) else None
