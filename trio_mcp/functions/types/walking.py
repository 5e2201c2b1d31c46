"""The parts of an annotation: every type in it, with what stands beside it, however deep, fields of classes too.

This only looks. What a part means, and whether it can be taken, is decided elsewhere.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal, get_args, get_origin

import attrs
import msgspec
from attrs import frozen

from .metadata import is_field

#: They stand around the type of a field and say nothing of its values; typing and typing_extensions have them.
_QUALIFIERS = frozenset({"Required", "NotRequired", "ReadOnly", "Final"})


@frozen
class Part:
    """One type within an annotation.

    Attributes:
        annotation: the type, without `Annotated` around it.
        extras: what stood beside it in `Annotated`; of a field also its `pydantic.Field` default.
        owner: the class whose field it belongs to, and the field's name; None where it is of the parameter.
        whole: whether it is all of what the field is annotated with.
    """

    annotation: Any
    extras: tuple[Any, ...] = ()
    owner: tuple[type, str] | None = None
    whole: bool = False

    @property
    def place(self) -> str:
        """The field that it belongs to, for errors."""
        return "" if self.owner is None else f"{self.owner[0].__name__}.{self.owner[1]}"


def parts_of(annotation: Any) -> Iterator[Part]:
    """All parts of an annotation, the outermost first; each class once.

    >>> [(part.annotation, part.extras) for part in parts_of(Annotated[list[int], "ages"])]
    [(list[int], ('ages',)), (<class 'int'>, ())]

    Raises:
        RecursionError: it nests deeper than Python recurses, or a type alias contains itself.
    """
    yield from _parts(annotation, (), None, set(), True)


def _parts(
    annotation: Any, extras: tuple[Any, ...], owner: tuple[type, str] | None, seen: set[Any], whole: bool
) -> Iterator[Part]:
    annotation = unaliased(annotation)
    if get_origin(annotation) is Annotated:
        inner, *more = get_args(annotation)
        yield from _parts(inner, (*extras, *more), owner, seen, whole)
        return
    origin = get_origin(annotation)
    if getattr(origin, "_name", None) in _QUALIFIERS:
        yield from _parts(get_args(annotation)[0], extras, owner, seen, whole)
        return
    yield Part(annotation, extras, owner, whole)
    if origin is Literal:
        return
    cls = annotation if origin is None else origin
    if isinstance(cls, type) and has_fields(cls) and cls not in seen:
        seen.add(cls)
        for name, hint in field_hints(cls).items():
            yield from _parts(hint, _default_extras(cls, name), (cls, name), seen, True)
    for inner in get_args(annotation):
        for one in inner if isinstance(inner, list) else (inner,):  # the parameters of a Callable
            yield from _parts(one, (), owner, seen, False)


def unaliased(annotation: Any) -> Any:
    """What a `type` alias stands for, through aliases of aliases.

    Raises:
        RecursionError: it stands for itself.
    """
    for _ in range(100):
        origin = get_origin(annotation)
        if _is_alias(annotation):
            annotation = annotation.__value__
        elif _is_alias(origin):
            annotation = origin.__value__[get_args(annotation)]
        else:
            return annotation
    raise RecursionError("the alias contains itself")


def _is_alias(annotation: Any) -> bool:
    """By name: typing and typing_extensions each have such a class, and Python 3.11 has only the second."""
    return type(annotation).__name__ == "TypeAliasType"


def has_fields(cls: type) -> bool:
    """Whether this is a class whose fields make a JSON value."""
    return (
        attrs.has(cls)
        or dataclasses.is_dataclass(cls)
        or issubclass(cls, msgspec.Struct)
        or typing.is_typeddict(cls)
        or hasattr(cls, "__total__")
        or (issubclass(cls, tuple) and hasattr(cls, "_fields"))
    )


def field_hints(cls: type) -> dict[str, Any]:
    """The annotations of a class's fields; none where one of them cannot be resolved."""
    try:
        hints = typing.get_type_hints(cls, include_extras=True)
    except (NameError, TypeError, AttributeError):
        return {}
    return {
        name: hint for name, hint in hints.items() if get_origin(hint) is not ClassVar and hint is not ClassVar
    }


def _default_extras(cls: type, name: str) -> tuple[Any, ...]:
    """A `pydantic.Field` that stands as the default of a dataclass's field."""
    default = vars(cls).get(name)
    return (default,) if is_field(default) else ()
