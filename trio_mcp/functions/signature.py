"""A Python function's signature: its annotations resolved, its parameters as one JSON Schema and one decoder.

This reads signatures; which types they may have is decided in `types`.
"""

from __future__ import annotations

import inspect
import sys
import typing
from collections.abc import Callable, Iterator
from contextlib import suppress
from copy import deepcopy
from functools import partial
from types import FrameType, SimpleNamespace
from typing import Annotated, Any

import msgspec

from .types.custom import decode_custom, encode_custom
from .types.metadata import is_field
from .types.refusal import Refusal
from .types.rules import argument_type, is_context, is_described
from .types.schema import schema_of


class Signature:
    """What a function takes: `schema` for the listing, `decode` for a call.

    `context` is the name of the parameter that takes the `Context`, if there is one.

    >>> def add(a: int, b: int = 1) -> int: ...
    >>> Signature(add, {}).decode(b'{"a": 2}')
    {'a': 2, 'b': 1}
    """

    def __init__(self, function: Callable[..., Any], descriptions: dict[str, str]) -> None:
        self.context: str | None = None
        fields: list[Any] = []
        hints = annotations_of(function)
        for parameter in inspect.signature(function).parameters.values():
            refuse = Refusal(function, parameter.name)
            _check_kind(parameter, hints, refuse)
            annotation = hints[parameter.name]
            if _takes_context(annotation, refuse):
                if self.context is not None:
                    raise refuse("there is a Context already")
                self.context = parameter.name
            else:
                fields.append(_field(parameter, annotation, descriptions.get(parameter.name), refuse))
        self._names = tuple(field[0] for field in fields)
        struct = msgspec.defstruct(
            f"{function.__name__} arguments", fields, kw_only=True, forbid_unknown_fields=True
        )
        self._decode = msgspec.json.Decoder(struct, dec_hook=decode_custom).decode
        self.schema: dict[str, Any] = schema_of(struct)

    def decode(self, arguments: bytes) -> dict[str, Any]:
        """The keyword arguments that these bytes mean.

        Raises:
            msgspec.ValidationError: they do not fit; `validation_message` says it for a model.
            msgspec.DecodeError: they are no JSON.
            Exception: what the validators of a user's class raise.
        """
        found = self._decode(arguments)
        return {name: getattr(found, name) for name in self._names}


def annotations_of(function: Callable[..., Any]) -> dict[str, Any]:
    """The annotations, resolved one by one, so that an error can name the parameter.

    Raises:
        TypeError: one of them names something that does not exist.
    """
    function = inspect.unwrap(function)
    names = _nested_names(function)
    hints: dict[str, Any] = {}
    for name, annotation in inspect.get_annotations(function).items():
        holder = SimpleNamespace(__annotations__={name: annotation})
        try:
            hints |= typing.get_type_hints(holder, function.__globals__, names, include_extras=True)
        except RecursionError as error:
            raise Refusal(function, name).of(error) from error
        except Exception as error:
            raise Refusal(function, name)(f"its annotation cannot be resolved: {error}") from error
    return hints


def _nested_names(function: Callable[..., Any]) -> dict[str, Any]:
    """What the annotations of a nested function may name, besides what is global.

    A class that stands only in annotations is in no closure. While the function around still runs, its variables
    are looked at, and no others: it is the one whose code contains this function's.
    """
    code = function.__code__
    frame: FrameType | None = sys._getframe() if "<locals>" in function.__qualname__ else None
    while frame is not None and code not in frame.f_code.co_consts:
        frame = frame.f_back
    names = {} if frame is None else dict(frame.f_locals)
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        with suppress(ValueError):  # it has no value yet: the tool's own name
            names[name] = cell.cell_contents
    return names


def _check_kind(parameter: inspect.Parameter, hints: dict[str, Any], refuse: Refusal) -> None:
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        raise refuse("*args and **kwargs have no schema")
    if parameter.kind is parameter.POSITIONAL_ONLY:
        raise refuse("a positional-only parameter has no name to be called by")
    if parameter.name.startswith("__"):
        raise refuse("a name that begins with two underscores is not for callers")
    if parameter.name not in hints:
        advice = ": decorate the bound method, `tool(instance.method)`" if parameter.name == "self" else ""
        raise refuse(f"it has no annotation{advice}")


def _takes_context(annotation: Any, refuse: Refusal) -> bool:
    try:
        return is_context(annotation)
    except RecursionError as error:
        raise refuse.of(error) from error


def _field(parameter: inspect.Parameter, annotation: Any, description: str | None, refuse: Refusal) -> Any:
    """A parameter as a field of the struct that msgspec decodes: name, type and, if it has one, default."""
    default = parameter.default
    factory: Callable[[], Any] | None = None
    if is_field(default):
        # Before the metadata of the annotation: bounds hold for the value that comes, before validators change it.
        inner, *extras = typing.get_args(annotation) if _is_annotated(annotation) else (annotation,)
        annotation = Annotated[(inner, default, *extras)]
        default, factory = _default_of(default, refuse)
    kind = argument_type(annotation, refuse)
    if description and not is_described(kind):
        kind = Annotated[kind, msgspec.Meta(description=description)]
    if factory is not None:
        return parameter.name, kind, msgspec.field(default_factory=factory)
    if default is parameter.empty:
        return parameter.name, kind
    return parameter.name, *_with_default(kind, default, refuse)


def _is_annotated(annotation: Any) -> bool:
    return typing.get_origin(annotation) is Annotated


def _default_of(info: Any, refuse: Refusal) -> tuple[Any, Callable[[], Any] | None]:
    """The default that a `pydantic.Field(...)` in the place of a default means, or the function that makes it."""
    if info.default_factory is not None:
        if info.default_factory_takes_validated_data:
            raise refuse("Field(default_factory=...) may not take the other fields: an argument has none")
        return inspect.Parameter.empty, info.default_factory
    return (inspect.Parameter.empty if info.is_required() else info.default), None


def _with_default(annotation: Any, value: Any, refuse: Refusal) -> Iterator[Any]:
    """A type and a default as msgspec takes them. What can be changed is made anew for each call."""
    try:
        written = msgspec.to_builtins(value, str_keys=True, enc_hook=encode_custom)
    except (TypeError, ValueError) as error:
        raise refuse(f"its default cannot be written as JSON: {error}") from error
    if _is_plain(value):
        yield from (annotation, value)
    else:
        yield Annotated[annotation, msgspec.Meta(extra_json_schema={"default": written})]
        yield msgspec.field(default_factory=partial(deepcopy, value))


def _is_plain(value: Any) -> bool:
    """Whether msgspec can take a default as it is: nobody can change it, and msgspec writes it into the schema."""
    try:
        hash(value)
        msgspec.to_builtins(value, str_keys=True)
    except (TypeError, ValueError):
        return False
    return True
