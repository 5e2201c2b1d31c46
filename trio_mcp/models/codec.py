"""From decoded JSON to attrs classes and back: the one cattrs converter.

cattrs coerces by default ("false" becomes True, None becomes "None", "abc" a list of letters). A message that is
read must mean what its sender wrote, so every hook here is strict. Three rules are particular to MCP:

- Field names are camelCase on the wire, and `meta` is `_meta`.
- A class with a field `extra` keeps unknown fields there, and optional fields with values of a wrong type: one bad
  hint does not cost the others, and nothing is lost.
- `[]` is read as `{}` where an object is meant: PHP has one type for both.

This module knows no message, only how fields are read. cattrs is imported when the first value needs it: most
sessions see nothing but plain text, and importing cattrs costs more than starting trio.
"""

from __future__ import annotations

import binascii
from base64 import b64encode
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar, get_args, get_origin

import attrs

from ..errors import ProtocolError
from ..protocol.messages import reencode_json

if TYPE_CHECKING:
    from cattrs import Converter

T = TypeVar("T")
_Hook = Callable[[Any, Any], Any]

_JSON_NAMES = {
    "NoneType": "null",
    "dict": "object",
    "list": "array",
    "str": "string",
    "bool": "boolean",
    "int": "number",
    "float": "number",
}


class MismatchError(Exception):
    """A value does not fit a class: `path` leads to the value, `reason` says what was expected."""

    def __init__(self, reason: str, path: str = "") -> None:
        super().__init__(f"{path}: {reason}" if path else reason)
        self.reason = reason
        self.path = path

    def within(self, step: str) -> MismatchError:
        """This error seen from one level further out: `step` goes before its path."""
        return MismatchError(self.reason, step + self.path)


def structure(value: Any, cls: type[T], where: str = "$") -> T:
    """Read decoded JSON as an instance of `cls`; `where` names the value in errors.

    Raises:
        ProtocolError: it does not fit; the reason begins with the path, such as `$.tools[3].name`.
    """
    try:
        return convert(value, cls)
    except MismatchError as mismatch:
        raise ProtocolError(f"{where}{mismatch.path}: {mismatch.reason}", reencode_json(value)) from None


def convert(value: Any, cls: type[T]) -> T:
    """Like `structure`, for callers that go on when a value does not fit.

    Raises:
        MismatchError: it does not fit.
    """
    try:
        from cattrs import StructureHandlerNotFoundError
    except OSError as error:  # as where this process has no descriptor left
        raise MismatchError(f"cannot be read now: {error.strerror or error}") from error
    try:
        return _converter().structure(value, cls)
    except (MismatchError, StructureHandlerNotFoundError):
        raise
    except Exception as error:  # cattrs's own hooks raise KeyErrors and bare Exceptions
        raise MismatchError(str(error) or type(error).__name__) from error


def unstructure(instance: Any) -> dict[str, Any]:
    """An attrs instance as JSON values, without the fields that have their defaults; `extra` is put back."""
    fields: dict[str, Any] = _converter().unstructure(instance)
    return fields


def wire_name(name: str) -> str:
    """A field's name on the wire.

    >>> wire_name("mime_type"), wire_name("meta")
    ('mimeType', '_meta')
    """
    if name == "meta":
        return "_meta"
    head, *tail = name.split("_")
    return head + "".join(part.capitalize() for part in tail)


def json_type(value: Any) -> str:
    """What JSON calls the type of this value."""
    return _JSON_NAMES.get(type(value).__name__, type(value).__name__)


@cache
def _converter() -> Converter:
    from cattrs import Converter

    converter = Converter(detailed_validation=False)
    converter.register_structure_hook(str, _strictly("a string", str))
    converter.register_structure_hook(bool, _strictly("a boolean", bool))
    converter.register_structure_hook(int, _strictly("an integer", int))
    converter.register_structure_hook(float, _strictly("a number", int, float))
    converter.register_structure_hook(bytes, _base64)
    converter.register_structure_hook_factory(_is_list, lambda cls: _list_hook(converter, cls))
    converter.register_structure_hook_factory(_is_dict, lambda cls: _dict_hook(converter, cls))
    converter.register_structure_hook_factory(attrs.has, lambda cls: _class_hook(converter, cls))
    converter.register_unstructure_hook(bytes, lambda data: b64encode(data).decode("ascii"))
    converter.register_unstructure_hook(dict, lambda fields: fields)  # JSON already
    converter.register_unstructure_hook_factory(attrs.has, lambda cls: _class_unhook(converter, cls))
    return converter


def _strictly(expected: str, *kinds: type) -> _Hook:
    def hook(value: Any, _: Any) -> Any:
        if type(value) not in kinds:  # exactly: a bool is an int
            raise MismatchError(f"expected {expected}, got {json_type(value)}")
        return value

    return hook


def _base64(value: Any, _: Any) -> bytes:
    if type(value) is not str:
        raise MismatchError(f"expected base64, got {json_type(value)}")
    try:
        return binascii.a2b_base64(value, strict_mode=True)
    except ValueError:  # binascii.Error is one; characters outside ASCII raise it bare
        pass
    # As JavaScript, Go and Python also write it, where that can mean one thing only: as a data URI, over several
    # lines, in the alphabet for URLs, without the padding.
    if value[:5].lower() == "data:":
        head, _, value = value.partition(",")
        if not head.lower().endswith(";base64"):
            raise MismatchError("expected base64, got a data URI without it")
    value = "".join(value.split())
    value = value.removesuffix("=").removesuffix("=")
    if ("-" in value or "_" in value) and ("+" in value or "/" in value):
        raise MismatchError("expected base64, got both of its alphabets at once")
    value = value.replace("-", "+").replace("_", "/")
    try:
        return binascii.a2b_base64(value + "=" * (-len(value) % 4), strict_mode=True)
    except ValueError as error:
        raise MismatchError(f"expected base64: {error}") from None


def _is_list(cls: Any) -> bool:
    return get_origin(cls) in (list, tuple)


def _is_dict(cls: Any) -> bool:
    return get_origin(cls) is dict


def _list_hook(converter: Converter, cls: Any) -> _Hook:
    """For `list[T]` and `tuple[T, ...]`."""
    build, kind = get_origin(cls), get_args(cls)[0]
    hook = converter.get_structure_hook(kind)

    def read(value: Any, _: Any) -> Any:
        if type(value) is not list:
            raise MismatchError(f"expected an array, got {json_type(value)}")
        return build(_step(hook, item, kind, f"[{index}]") for index, item in enumerate(value))

    return read


def _dict_hook(converter: Converter, cls: Any) -> _Hook:
    """For `dict[str, T]`. What holds anything is not copied."""
    kind = get_args(cls)[1]
    hook = None if kind is Any else converter.get_structure_hook(kind)

    def read(value: Any, _: Any) -> Any:
        fields = _object(value)
        if hook is None:
            return fields
        return {key: _step(hook, item, kind, f".{key}") for key, item in fields.items()}

    return read


def _class_hook(converter: Converter, cls: Any) -> _Hook:
    attrs.resolve_types(cls)
    keeps_extra = any(field.name == "extra" for field in attrs.fields(cls))
    readers = [
        _Reader(field, converter.get_structure_hook(field.type))
        for field in attrs.fields(cls)
        if field.init and field.name != "extra"
    ]

    def read(value: Any, _: Any) -> Any:
        unread = dict(_object(value))
        found: dict[str, Any] = {}
        for reader in readers:
            if reader.wire not in unread:
                if reader.required:
                    raise MismatchError("is missing", f".{reader.wire}")
                continue
            try:
                item = reader.hook(unread[reader.wire], reader.kind)
            except MismatchError as mismatch:
                if keeps_extra and not reader.required:
                    continue
                raise mismatch.within(f".{reader.wire}") from None
            if item is None and keeps_extra:
                continue  # an explicit null says something else than absence
            found[reader.alias] = item
            del unread[reader.wire]
        if keeps_extra and unread:
            found["extra"] = unread
        return cls(**found)

    return read


class _Reader:
    """How one field of a class is read."""

    __slots__ = ("alias", "hook", "kind", "required", "wire")

    def __init__(self, field: attrs.Attribute[Any], hook: _Hook) -> None:
        self.alias = field.alias or field.name
        self.wire = wire_name(field.name)
        self.kind = field.type
        self.required = field.default is attrs.NOTHING
        self.hook = hook


def _class_unhook(converter: Converter, cls: Any) -> Callable[[Any], dict[str, Any]]:
    fields = [
        (field.name, wire_name(field.name), field.default) for field in attrs.fields(cls) if field.name != "extra"
    ]

    def write(instance: Any) -> dict[str, Any]:
        written = {}
        for name, wire, default in fields:
            value = getattr(instance, name)
            if value != default:
                written[wire] = converter.unstructure(value)
        for wire, value in (getattr(instance, "extra", None) or {}).items():
            written.setdefault(wire, value)
        return written

    return write


def _object(value: Any) -> dict[str, Any]:
    if type(value) is dict:
        return value
    if value == [] and type(value) is list:
        return {}
    raise MismatchError(f"expected an object, got {json_type(value)}")


def _step(hook: _Hook, value: Any, kind: Any, step: str) -> Any:
    try:
        return hook(value, kind)
    except MismatchError as mismatch:
        raise mismatch.within(step) from None
