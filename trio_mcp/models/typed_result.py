"""Structured output decoded as a class of the program: attrs, dataclass, TypedDict, msgspec.Struct, pydantic.

msgspec decodes every kind but pydantic's, which pydantic's own TypeAdapter decodes in programs that have loaded
pydantic. This file knows results, and nothing of who called what.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Generic, TypeVar, get_args

import msgspec
from attrs import define, field

from ..errors import ProtocolError, ToolError
from ..protocol.messages import decode_json
from .result import SILENT_FAILURE, ToolResult
from .validation import validation_message

Value = TypeVar("Value")

#: Decodes JSON as one class. Raises ProtocolError for a misfit; the reason begins with the path.
Decode = Callable[[bytes], Value]

_WHERE = "structuredContent"


@define(frozen=True)
class TypedToolResult(ToolResult, Generic[Value]):
    """A `ToolResult` whose structured output has been decoded as a class: `call_tool(..., returns=...)`.

    >>> TypedToolResult(structured_json=b'{"sum": 5}', _decoded={"sum": 5}).value
    {'sum': 5}
    """

    _decoded: Value | None = field(default=None, kw_only=True, eq=False, repr=False, alias="_decoded")

    @property
    def value(self) -> Value:
        """The structured output as an instance of the class.

        Raises:
            ToolError: the tool failed, and a failed tool has no value.
        """
        if self.is_error:
            raise ToolError(self.content or SILENT_FAILURE, self)
        return self._decoded  # type: ignore[return-value] # read_typed has set it


def read_typed(result: ToolResult, decode: Decode[Value]) -> TypedToolResult[Value]:
    """The same result, with its structured output decoded. A failed tool's is left alone.

    Raises:
        ProtocolError: there is no structured output, or it does not fit; the reason begins with the path.
    """
    decoded: Value | None = None
    if not result.is_error:
        if result.structured_json is None:
            raise ProtocolError(f"{_WHERE}: missing, but a value was asked for (returns=)", result.content)
        decoded = decode(result.structured_json)
    return TypedToolResult(
        result.blocks,
        is_error=result.is_error,
        structured_json=result.structured_json,
        meta=result.meta,
        raw=result._sent,
        _decoded=decoded,
    )


def decoder_of(cls: type[Value]) -> Decode[Value]:
    """What decodes JSON as this class.

    Raises:
        TypeError: neither msgspec nor pydantic can decode it.

    >>> decoder_of(dict[str, int])(b'{"a": 1}')
    {'a': 1}
    """
    try:
        decode: Decode[Value] = _decoder_of(cls)  # type: ignore[arg-type] # mypy: a class that is no Hashable
    except TypeError as error:
        raise TypeError(f"returns: {cls!r} cannot be decoded: {error}") from None
    return decode


@lru_cache(maxsize=256)
def _decoder_of(cls: Any) -> Decode[Any]:
    if _is_of_pydantic(cls):
        return _pydantic_decoder(cls)
    schema = msgspec.json.schema(cls)  # refuses classes that the decoder would only compare with
    decode = msgspec.json.Decoder(cls).decode

    def read(data: bytes) -> Any:
        try:
            return decode(data)
        except msgspec.ValidationError as error:
            raise _misfit(validation_message(error, schema), data) from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            value = decode_json(data)  # NaN, lone surrogates
        try:
            return msgspec.convert(value, cls)
        except msgspec.ValidationError as error:
            raise _misfit(validation_message(error, schema), data) from None

    return read


def _pydantic_decoder(cls: Any) -> Decode[Any]:
    import pydantic

    adapter = pydantic.TypeAdapter(cls)

    def read(data: bytes) -> Any:
        try:
            return adapter.validate_json(data)
        except pydantic.ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            path = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in first["loc"])
            raise _misfit(f"{path.removeprefix('.')}: {first['msg']}" if path else first["msg"], data) from None

    return read


def _is_of_pydantic(cls: Any) -> bool:
    """Whether the class is a pydantic model, or holds one (`list[Model]`). Nothing is loaded to find out."""
    pydantic = sys.modules.get("pydantic")
    if pydantic is None:
        return False
    if isinstance(cls, type) and issubclass(cls, pydantic.BaseModel):
        return True
    return hasattr(cls, "__pydantic_validator__") or any(map(_is_of_pydantic, get_args(cls)))


def _misfit(text: str, data: bytes) -> ProtocolError:
    # "a.b: expected int, got str", "[0].a: ..." or, for the value itself, "expected object, got array".
    path, colon, reason = text.partition(": ")
    if not colon or path.startswith("a key"):
        return ProtocolError(f"{_WHERE}: {text}", data)
    return ProtocolError(f"{_WHERE}{'' if path.startswith('[') else '.'}{path}: {reason}", data)
