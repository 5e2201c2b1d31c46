"""The request headers of MCP over HTTP, and the challenges of a refusal: names and encodings. No I/O.

A modern server routes requests by headers that repeat parts of the body (basic/transports/streamable-http): the
revision, the method, the name, and those arguments that a tool's schema marks with `x-mcp-header`.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from .schema_keywords import LISTED_SCHEMAS, NAMED_SCHEMAS, SINGLE_SCHEMAS

PROTOCOL_VERSION = "MCP-Protocol-Version"
METHOD = "Mcp-Method"
NAME = "Mcp-Name"
PARAMETER_PREFIX = "Mcp-Param-"
SESSION = "Mcp-Session-Id"
LAST_EVENT_ID = "Last-Event-ID"

#: The annotation of a property whose argument is repeated in a header.
ANNOTATION = "x-mcp-header"

# RFC 9110, "Tokens".
_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_PLAIN = re.compile(r"[\x20-\x7e]*")
_INTEGER = re.compile(r"-?[0-9]+")
_HEAD, _TAIL = "=?base64?", "?="
#: Integers beyond this are not exact in JavaScript, and the specification refuses them in a header.
_LARGEST = 2**53 - 1

#: Which member of the params a method is named by.
_NAMED_BY = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}


@attrs.frozen
class HeaderParameter:
    """One argument that is repeated in a header: the path to it, and the header's name."""

    path: tuple[str, ...]
    header: str


def header_parameters(schema: Mapping[str, Any]) -> tuple[HeaderParameter, ...]:
    """The arguments that a tool wants repeated in headers (server/tools, "x-mcp-header").

    Raises:
        ValueError: an annotation is not legal: the tool must not be used.

    >>> header_parameters({"properties": {"region": {"type": "string", "x-mcp-header": "Region"}}})
    (HeaderParameter(path=('region',), header='Mcp-Param-Region'),)
    """
    found: list[HeaderParameter] = []
    seen: set[str] = set()
    for path, value, reachable in _annotations(schema, (), False):
        where = ".".join(path) or "the root"
        if not reachable:
            raise ValueError(f"{ANNOTATION} at {where}: only a property of an object may have it")
        if not isinstance(value, str) or not _TOKEN.fullmatch(value):
            raise ValueError(f"{ANNOTATION} at {where}: {value!r} is no header name")
        if value.lower() in seen:
            raise ValueError(f"{ANNOTATION} at {where}: {value!r} comes twice")
        seen.add(value.lower())
        found.append(HeaderParameter(path, PARAMETER_PREFIX + value))
    return tuple(found)


def request_headers(
    version: str, method: str, params: Mapping[str, Any], parameters: tuple[HeaderParameter, ...] = ()
) -> dict[str, str]:
    """The headers of one modern request.

    Raises:
        ValueError: an argument cannot be a header.
    """
    headers = {PROTOCOL_VERSION: version, METHOD: method}
    # The extension io.modelcontextprotocol/tasks names its requests by the task.
    name = params.get("taskId" if method.startswith("tasks/") else _NAMED_BY.get(method, ""))
    if isinstance(name, str):
        headers[NAME] = encode_value(name)
    arguments = params.get("arguments")
    for parameter in parameters:
        value: Any = arguments
        for step in parameter.path:
            value = value.get(step) if isinstance(value, Mapping) else None
        if value is not None:
            try:
                headers[parameter.header] = encode_value(value)
            except ValueError as error:
                raise ValueError(f"{'.'.join(parameter.path)}: {error}") from None
    return headers


def encode_value(value: Any) -> str:
    """An argument as a header's value: plain where a header allows that, else in Base64.

    Raises:
        ValueError: it is no text, integer or boolean, or an integer beyond 2^53 - 1.

    >>> encode_value("plain"), encode_value("grün"), encode_value(True), encode_value(7.0)
    ('plain', '=?base64?Z3LDvG4=?=', 'true', '7')
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int):
        if abs(value) > _LARGEST:
            raise ValueError("an integer beyond 2^53 - 1 cannot be a header")
        return int.__repr__(value)  # as the body has it: an enum's own text may be its name
    if not isinstance(value, str):
        raise ValueError(f"{type(value).__name__} cannot be a header")
    looks_encoded = value.startswith(_HEAD) and value.endswith(_TAIL)
    if _PLAIN.fullmatch(value) and value == value.strip() and not looks_encoded:
        return value
    return _HEAD + base64.b64encode(value.encode("utf-8", "surrogatepass")).decode("ascii") + _TAIL


def decode_value(text: str) -> str:
    """The text that a header's value stands for: the inverse of `encode_value`, but for the type.

    Raises:
        ValueError: it has a character that a header cannot have, or is no legal Base64.

    >>> decode_value("plain"), decode_value("=?base64?Z3LDvG4=?="), decode_value("=?BASE64?eA==?=")
    ('plain', 'grün', '=?BASE64?eA==?=')
    """
    if not _PLAIN.fullmatch(text):
        raise ValueError("an illegal character")
    if not (text.startswith(_HEAD) and text.endswith(_TAIL) and len(text) >= len(_HEAD) + len(_TAIL)):
        return text
    try:
        encoded = text[len(_HEAD) : -len(_TAIL)]
        decoded = base64.b64decode(encoded, validate=True)
        if base64.b64encode(decoded).decode("ascii") != encoded:
            raise ValueError("bits are left over")
        return decoded.decode("utf-8", "surrogatepass")
    except ValueError:  # binascii.Error and UnicodeDecodeError are
        raise ValueError("no legal Base64 of UTF-8") from None


def same_value(text: str, value: Any) -> bool:
    """Whether a decoded header equals an argument: integers are compared as numbers, other values as text.

    >>> same_value("007", 7), same_value("true", True), same_value("True", True), same_value("7", "7")
    (True, True, False, True)
    """
    if isinstance(value, bool):
        return text == ("true" if value else "false")
    if isinstance(value, int | float):
        # Longer than any integer that a header may have, and int() is quadratic.
        return len(text) < 32 and _INTEGER.fullmatch(text) is not None and int(text) == value
    return isinstance(value, str) and text == value


_CHALLENGE = re.compile(
    r"""[\s,]*+(?:
        (?P<name>[!#$%&'*+\-.^_`|~\w]+)\s*=\s*(?:"(?P<quoted>(?:[^"\\]|\\.)*+)"|(?P<plain>[^\s,"=]+))(?=[\s,]|$)
      | (?P<scheme>[!#$%&'*+\-.^_`|~\w]+)(?:\s+(?P<token68>[A-Za-z0-9\-._~+/]+=*)(?=\s*(?:,|$)))?
    )""",
    re.VERBOSE,
)


def parse_challenges(values: list[str]) -> tuple[dict[str, str], ...]:
    """The challenges of WWW-Authenticate (RFC 9110): the scheme under "scheme", parameters in lower case.

    >>> parse_challenges(['Bearer realm="a, b", scope="x"'])
    ({'scheme': 'Bearer', 'realm': 'a, b', 'scope': 'x'},)
    """
    challenges: list[dict[str, str]] = []
    for value in values:
        position = 0
        while position < len(value):
            found = _CHALLENGE.match(value, position)
            if found is None or found.end() == position:
                break
            position = found.end()
            if found["scheme"]:
                challenges.append({"scheme": found["scheme"]})
                if found["token68"]:
                    challenges[-1]["token68"] = found["token68"]
            elif challenges:
                quoted = found["quoted"]
                text = found["plain"] if quoted is None else re.sub(r"\\(.)", r"\1", quoted)
                challenges[-1].setdefault(found["name"].lower(), text)
    return tuple(challenges)


def _annotations(
    schema: Any, path: tuple[str, ...], reachable: bool
) -> Iterator[tuple[tuple[str, ...], Any, bool]]:
    """Every annotation of a schema: where it stands, its value, and whether it may stand there."""
    stack: list[tuple[Any, tuple[str, ...], bool, bool]] = [(schema, path, True, reachable)]
    while stack:
        schema, path, by_properties, is_property = stack.pop()
        if not isinstance(schema, Mapping):
            continue
        if ANNOTATION in schema:
            scalar = schema.get("type") in ("string", "integer", "boolean")
            yield path, schema[ANNOTATION], by_properties and is_property and scalar
        for key in NAMED_SCHEMAS:
            inner = schema.get(key)
            if isinstance(inner, Mapping):
                here = by_properties and key == "properties"
                stack += [(part, (*path, str(name)), here, True) for name, part in inner.items()]
        for key in LISTED_SCHEMAS:
            inner = schema.get(key)
            if isinstance(inner, list):
                stack += [(part, (*path, key), False, False) for part in inner]
        stack += [(schema[key], (*path, key), False, False) for key in SINGLE_SCHEMAS if key in schema]
