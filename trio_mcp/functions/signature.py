"""A Python function's parameters as a JSON Schema and a strict decoder.

One engine (msgspec) does both, so that the schema and the check cannot disagree. What it does not apply as
Python would is refused when the function is decorated, naming the parameter.
"""

from __future__ import annotations

import dataclasses
import inspect
import sys
import typing
from collections.abc import Callable, Iterator
from contextlib import suppress
from copy import deepcopy
from functools import partial
from types import FrameType, SimpleNamespace
from typing import Annotated, Any, get_args, get_origin

import attrs
import msgspec

from ..tools.context import Context


class Signature:
    """What a function takes: `schema` for the listing, `decode` for a call.

    `context` is the name of the parameter that takes the `Context`, if there is one.
    """

    def __init__(self, function: Callable[..., Any], descriptions: dict[str, str]) -> None:
        self.context: str | None = None
        fields: list[Any] = []
        hints = annotations_of(function)
        for parameter in inspect.signature(function).parameters.values():
            refuse = Refusal(function, parameter.name)
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                raise refuse("*args and **kwargs have no schema")
            if parameter.kind is parameter.POSITIONAL_ONLY:
                raise refuse("a positional-only parameter has no name to be called by")
            if parameter.name.startswith("__"):
                raise refuse("a name that begins with two underscores is not for callers")
            if parameter.name not in hints:
                raise refuse("it has no annotation")
            annotation = hints[parameter.name]
            if annotation is Context:
                if self.context is not None:
                    raise refuse("there is a Context already")
                self.context = parameter.name
                continue
            check_type(annotation, refuse)
            if parameter.name in descriptions and not _is_described(annotation):
                annotation = Annotated[annotation, msgspec.Meta(description=descriptions[parameter.name])]
            if parameter.default is parameter.empty:
                fields.append((parameter.name, annotation))
            else:
                fields.append((parameter.name, *_with_default(annotation, parameter.default, refuse)))
        self._names = tuple(field[0] for field in fields)
        struct = msgspec.defstruct(
            f"{function.__name__} arguments", fields, kw_only=True, forbid_unknown_fields=True
        )
        self._decode = msgspec.json.Decoder(struct).decode
        self.schema = inlined_schema(struct)

    def decode(self, arguments: bytes) -> dict[str, Any]:
        """The keyword arguments that these bytes mean.

        Raises:
            msgspec.ValidationError: they do not fit; `worded` says it in words for a model.
            msgspec.DecodeError: they are no JSON.
            Exception: what the validators of a user's class raise.
        """
        found = self._decode(arguments)
        return {name: getattr(found, name) for name in self._names}


def inlined_schema(annotation: Any) -> dict[str, Any]:
    """The JSON Schema of a type, its root in place and without a title; what it refers to is under `$defs`."""
    (root,), named = msgspec.json.schema_components([annotation], ref_template="#/$defs/{name}")
    if "$ref" in root:
        name = root["$ref"].removeprefix("#/$defs/")
        # The entry of a type that contains itself must stay.
        inlined = dict(named[name]) if _refers_to(named, root["$ref"]) else named.pop(name)
        root = {**inlined, **{key: value for key, value in root.items() if key != "$ref"}}
    root.pop("title", None)
    if not root.get("required", True):
        del root["required"]
    return {**root, "$defs": named} if named else root


class Refusal:
    """Builds the TypeError that names a function and one of its parameters (or "return")."""

    def __init__(self, function: Callable[..., Any], parameter: str) -> None:
        self._where = f"{function.__qualname__}: {parameter}"

    def __call__(self, reason: str) -> TypeError:
        return TypeError(f"{self._where}: {reason}")


def annotations_of(function: Callable[..., Any]) -> dict[str, Any]:
    """The annotations, resolved one by one, so that an error can name the parameter."""
    function = inspect.unwrap(function)
    names = _nested_names(function)
    hints: dict[str, Any] = {}
    for name, annotation in inspect.get_annotations(function).items():
        holder = SimpleNamespace(__annotations__={name: annotation})
        try:
            hints |= typing.get_type_hints(holder, function.__globals__, names, include_extras=True)
        except (NameError, TypeError, SyntaxError, AttributeError) as error:
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


def check_type(annotation: Any, refuse: Refusal) -> None:
    """Whether a type has a schema, and msgspec makes of it what Python would.

    Raises:
        TypeError: it has none, or does not; it names the parameter.
    """
    try:
        msgspec.json.Decoder(annotation)
        msgspec.json.schema_components([annotation])
    except (TypeError, ValueError, NameError) as error:
        reason = " ".join(str(error).split())
        if reason.startswith("Generating JSON schema for custom types"):
            reason = f"it has no JSON Schema: type {reason.rpartition(' type ')[2]}"
        raise refuse(reason) from error
    for cls in _classes(annotation, set()):
        if attrs.has(cls):
            for field in attrs.fields(cls):
                if (
                    field.converter is not None
                    or not field.init
                    or field.alias not in (None, field.name.lstrip("_"))
                ):
                    raise refuse(f"{cls.__name__}.{field.name} has a converter, an alias or init=False")
                if field.name.startswith("_"):
                    raise refuse(f"{cls.__name__}.{field.name} has an alias: its name begins with an underscore")
        elif dataclasses.is_dataclass(cls):
            for part in dataclasses.fields(cls):
                if not part.init:
                    raise refuse(f"{cls.__name__}.{part.name} has init=False")


def _classes(annotation: Any, seen: set[Any]) -> Iterator[type]:
    """Every class with fields that a type is made of."""
    if isinstance(annotation, type) and annotation not in seen and get_origin(annotation) is None:
        seen.add(annotation)
        if attrs.has(annotation) or dataclasses.is_dataclass(annotation) or hasattr(annotation, "__annotations__"):
            yield annotation
            try:
                inner = typing.get_type_hints(annotation, include_extras=True)
            except (NameError, TypeError):
                inner = {}
            for part in inner.values():
                yield from _classes(part, seen)
    for part in (get_origin(annotation), *get_args(annotation)):
        if part is not None:
            yield from _classes(part, seen)


def _is_described(annotation: Any) -> bool:
    return get_origin(annotation) is Annotated and any(
        isinstance(extra, msgspec.Meta) and extra.description for extra in get_args(annotation)[1:]
    )


def _with_default(annotation: Any, value: Any, refuse: Refusal) -> tuple[Any, Any]:
    """A type and a default as msgspec takes them. What can be changed is made anew for each call."""
    try:
        written = msgspec.to_builtins(value, str_keys=True)
    except (TypeError, ValueError) as error:
        raise refuse(f"its default cannot be written as JSON: {error}") from error
    try:
        hash(value)
    except TypeError:
        in_schema = msgspec.Meta(extra_json_schema={"default": written})
        return Annotated[annotation, in_schema], msgspec.field(default_factory=partial(deepcopy, value))
    return annotation, value


def _refers_to(schema: Any, reference: str) -> bool:
    if isinstance(schema, dict):
        return schema.get("$ref") == reference or any(_refers_to(part, reference) for part in schema.values())
    return isinstance(schema, list) and any(_refers_to(part, reference) for part in schema)
