"""Encodes a tool's arguments as one line of JSON, or refuses them with a clear reason.

Arguments come in two forms. A mapping is encoded; a value that JSON cannot express is refused, with its place,
instead of being turned into something similar. Raw JSON text, as a model produced it, is checked and then
forwarded as it is: the server judges its digits, its duplicate keys and its spaces. Either way the result is one
JSON object on one line.

This file knows nothing of tools but the name that goes into the error, and nothing of their schemas.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from math import isfinite
from typing import Any

import msgspec

from ..errors import InvalidArgumentsError
from .messages import one_line

#: How much of a key and of a whole path an error shows, in characters: enough to find the place.
KEY_SHOWN = 40
PATH_SHOWN = 200

_TOO_DEEP = "nested too deep, or containing itself"

# Types whose every value msgspec either writes as JSON means it or refuses: it refuses lone surrogates, and
# integers beyond CPython's limit on digits.
_SCALARS = frozenset({str, int, bool, type(None)})
_JSON_WORDS = {list: "an array", str: "a string", bool: "a boolean", int: "a number", float: "a number"}


class _AnyObject(msgspec.Struct):
    """Decoding into a struct without fields checks the grammar of one JSON object and builds nothing."""


_encode = msgspec.json.Encoder().encode
_check_object = msgspec.json.Decoder(_AnyObject).decode


class _RefusedError(Exception):
    """A reason. On its way out it gathers the keys and indexes that lead to the value, the innermost first."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        self.steps: list[str | int] = []

    def __str__(self) -> str:
        path = "".join(map(_shown_step, reversed(self.steps))).removeprefix(".")
        if len(path) > PATH_SHOWN:
            path = "…" + path[-PATH_SHOWN:]
        return f"{path}: {self.reason}" if path else self.reason


def encode_arguments(
    name: str, arguments: Mapping[str, Any] | str | bytes | bytearray | memoryview | None
) -> bytes:
    """The arguments of one call of the tool `name`: one line that holds one JSON object.

    A mapping holds JSON values at any depth: mappings with string keys, lists and tuples, strings, integers
    (as long as CPython writes them out), finite floats, booleans, None, and subclasses of these like
    `StrEnum`. Raw JSON text, or its UTF-8 bytes, goes out verbatim, but for LF and CR between tokens, which
    become spaces: official servers read with universal newlines, and a bare CR would split the line. None,
    blank text and JSON null go out as `{}`.

    Raises:
        InvalidArgumentsError: for everything else. Its `reason` is one line that says where and what.

    >>> encode_arguments("sum", {"a": 1, "b": (2.5, None)})
    b'{"a":1,"b":[2.5,null]}'
    >>> encode_arguments("sum", '{"a": 1.10,\\n "a": 2}')
    b'{"a": 1.10,  "a": 2}'
    """
    try:
        if type(arguments) is dict:  # first, because this is what most calls have
            return _from_mapping(arguments)
        if arguments is None:
            return b"{}"
        if isinstance(arguments, str):
            return _checked_json(_utf8(arguments))
        if isinstance(arguments, (bytes, bytearray, memoryview)):
            return _checked_json(_checked_bytes(arguments))
        if isinstance(arguments, Mapping):
            return _from_mapping(arguments)
        raise _RefusedError(f"got {type(arguments).__name__}")
    except _RefusedError as refusal:
        raise InvalidArgumentsError(name, str(refusal)) from None
    except RecursionError:
        raise InvalidArgumentsError(name, _TOO_DEEP) from None


def _utf8(text: str) -> bytes:
    try:
        return str.encode(text)
    except UnicodeEncodeError as error:
        raise _RefusedError(f"lone surrogate at character {error.start}") from None


def _checked_bytes(data: bytes | bytearray | memoryview) -> bytes:
    try:
        data = bytes(data)
        if not data.isascii():
            data.decode()  # msgspec does not look into the strings that it skips
    except UnicodeDecodeError as error:
        raise _RefusedError(f"invalid UTF-8 at byte {error.start}") from None
    except ValueError as error:
        raise _RefusedError(str(error)) from None  # a released memoryview
    return data


def _checked_json(data: bytes) -> bytes:
    """`data`, which is UTF-8, checked and on one line."""
    try:
        _check_object(data)
    except msgspec.DecodeError:
        return _empty_or_refused(data.decode())
    return one_line(data)


def _empty_or_refused(text: str) -> bytes:
    """`{}` for text that means no arguments; else raises the reason, in the standard library's words."""
    if not text or text.isspace() or text.strip(" \t\r\n") == "null":
        return b"{}"
    if text.startswith("\ufeff"):
        raise _RefusedError("it begins with a byte order mark")
    try:
        # Digits are not looked at: the standard library refuses integers that are too long for it.
        value = json.loads(text, parse_constant=_refuse_constant, parse_int=lambda digits: 0)
    except json.JSONDecodeError as error:
        raise _RefusedError(str(error)) from None
    if not isinstance(value, dict):
        raise _RefusedError(f"it is {_JSON_WORDS[type(value)]}")
    # The standard library lets these pass. Official servers drop such a line, and the call is never answered.
    raise _RefusedError("lone surrogate in an escape")


def _refuse_constant(constant: str) -> float:
    raise _RefusedError(f"{constant} is no JSON number")


def _from_mapping(arguments: Mapping[str, Any]) -> bytes:
    if _is_plain(arguments):
        try:
            return _encode(arguments)
        except (ValueError, OverflowError):
            pass  # the slow walk finds the place
    return _encode(_rebuilt(arguments))


def _is_plain(container: Any) -> bool:
    """Whether msgspec may be given this dict, list or tuple as it is. Every call walks here: kept flat."""
    kind = type(container)
    if kind is dict:
        for key, value in container.items():
            if type(key) is not str:
                return False
            kind = type(value)
            if kind in _SCALARS or (kind is float and isfinite(value)):
                continue
            if not _is_plain(value):
                return False
        return True
    if kind is list or kind is tuple:
        for value in container:
            kind = type(value)
            if kind in _SCALARS or (kind is float and isfinite(value)):
                continue
            if not _is_plain(value):
                return False
        return True
    return False


def _rebuilt(value: Any) -> Any:
    """`value` rebuilt from the plain types; raises the reason where it cannot be.

    msgspec would write bytes, dates, sets, decimals, classes and NaN as something else that is JSON, and turn
    keys into strings: the server would be given arguments that the caller did not write.
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _rebuilt_str(value)
    if isinstance(value, int):
        return _rebuilt_int(value)
    if isinstance(value, float):
        if not isfinite(value):
            raise _RefusedError(f"{float.__repr__(value)} is no JSON number")
        return float.__float__(value)
    if isinstance(value, (list, tuple)):
        return [_rebuilt_item(index, item) for index, item in enumerate(value)]
    if isinstance(value, Mapping):
        return {_rebuilt_key(key): _rebuilt_item(key, item) for key, item in value.items()}
    raise _RefusedError(f"{type(value).__name__} is no JSON value")


def _rebuilt_item(step: str | int, item: Any) -> Any:
    try:
        return _rebuilt(item)
    except _RefusedError as refusal:
        refusal.steps.append(step)
        raise


def _rebuilt_key(key: Any) -> str:
    if not isinstance(key, str):
        raise _RefusedError(f"a key is {type(key).__name__}, not str")
    try:
        return _rebuilt_str(key)
    except _RefusedError as refusal:
        raise _RefusedError(f"a key: {refusal.reason}") from None


def _rebuilt_str(value: str) -> str:
    _utf8(value)
    return str.__str__(value)


def _rebuilt_int(value: int) -> int:
    try:
        int.__repr__(value)
    except ValueError:
        digits = sys.get_int_max_str_digits()
        raise _RefusedError(f"an integer of more than {digits} digits cannot be written out") from None
    return int.__int__(value)


def _shown_step(step: str | int) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    if step.isidentifier() and len(step) <= KEY_SHOWN:
        return f".{step}"
    return f"[{json.dumps(step[:KEY_SHOWN])}]"
