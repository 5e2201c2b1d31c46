"""The `mcpServers` JSON that every MCP host reads, as `Server` values.

Claude Desktop and Cursor write `{"mcpServers": {name: {...}}}`, VS Code `{"servers": {name: {...}}}` with
comments and trailing commas. One bad entry costs only itself: it is left out with a warning that names server
and field. No warning shows a value of the file: it may be a secret.

This file reads and judges; it starts nothing and knows no connection.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from attrs import frozen

from .errors import InvalidServerError
from .models.server import Server, default_environment

#: The longest legal server name, and how many hex digits tell two mapped names apart.
NAME_LENGTH = 32
HASH_LENGTH = 4
#: Configurations are a few kB. The cap keeps a path such as /dev/zero from filling the memory.
LARGEST_FILE = 16 * 1024 * 1024

_ILLEGAL_IN_NAME = re.compile(r"[^A-Za-z0-9-]")
_REFERENCE = re.compile(r"\$\{([^}]*)\}")
# `${VAR}` is everybody's, `${env:VAR}` Cursor's and VS Code's, `${VAR:-default}` Claude Code's.
_VARIABLE = re.compile(r"(?:env:)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>.*))?", re.DOTALL)
# Strings are matched first, so that what looks like a comment inside one stays. What is never closed runs to
# the end: each character is looked at once, whatever the file is.
_STRING = r'("(?:\\.|[^"\\])*+(?:"|\\?\Z))'
_COMMENT = re.compile(_STRING + r"|//[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
_TRAILING_COMMA = re.compile(_STRING + r"|,(?=\s*[}\]])", re.DOTALL)

#: What `type` may say, and the field that such a server needs.
_TYPES = {
    "stdio": "command",
    "local": "command",
    "http": "url",
    "streamable-http": "url",
    "streamable_http": "url",
    "streamableHttp": "url",
}
_KNOWN_FIELDS = {"type", "disabled", "command", "args", "env", "cwd", "url", "headers"}
_KNOWN_AT_TOP = {"mcpServers", "servers", "inputs", "$schema"}


@frozen
class LoadedServers:
    """What a configuration file gave: `servers` in its order, and `warnings` for people to read."""

    servers: tuple[Server, ...]
    warnings: tuple[str, ...]


def load_servers(path: str | os.PathLike[str]) -> LoadedServers:
    """Read the servers of a host's configuration file, its `${VAR}` filled in from `os.environ`.

    `env` of an entry is added to `default_environment()`. A name that is no legal server name is mapped to
    one, with a warning. A server is left out, with a warning that names it and the field, when a field has
    the wrong type, a `${VAR}` is unset (`${VAR:-default}` has a value then), an `${input:...}` would need a
    person, `type` is the deprecated "sse", or `disabled` is true. Unknown fields are a warning only; so is
    VS Code's `envFile`, which is not read. Blocks for the time it takes to read one small file.

    Args:
        path: the file, UTF-8 with or without a byte order mark; comments and trailing commas are allowed.

    Raises:
        InvalidServerError: the file is missing, unreadable or no such JSON (`field` is "path"), or it has no
            object under `mcpServers` or `servers` (`field` is "mcpServers").

    Example:
        >>> import json, pathlib, tempfile
        >>> file = pathlib.Path(tempfile.mkdtemp(), "mcp.json")
        >>> entry = {"command": "uvx", "args": ["mcp-server-time"]}
        >>> _ = file.write_text(json.dumps({"mcpServers": {"my time": entry}}))
        >>> loaded = load_servers(file)
        >>> [(server.name, server.command, server.args) for server in loaded.servers]
        [('my-time', 'uvx', ('mcp-server-time',))]
        >>> loaded.warnings
        ('server "my time" is called "my-time" here',)
    """
    document = _read(path)
    section, entries = _section(document, path)
    warnings = list(_warnings_at_top(document, section))
    servers = []
    names = _names(entries)
    for original, entry in entries.items():
        try:
            server = _server(names[original], entry)
        except _LeftOut as left_out:
            warnings.append(f'server "{original}" is left out: {left_out.field}: {left_out.reason}')
            continue
        servers.append(server)
        if server.name != original:
            warnings.append(f'server "{original}" is called "{server.name}" here')
        warnings.extend(f'server "{original}": {text}' for text in _warnings_of_fields(entry))
    return LoadedServers(tuple(servers), tuple(warnings))


def legal_name(text: str) -> str:
    """The nearest legal server name: other characters become hyphens, cut at 32. Empty stays empty.

    >>> legal_name("python3.11")
    'python3-11'
    """
    return _ILLEGAL_IN_NAME.sub("-", text)[:NAME_LENGTH]


class _LeftOut(Exception):  # noqa: N818  # no error of anybody's: it carries one entry's verdict out
    def __init__(self, field: str, reason: str) -> None:
        super().__init__(field, reason)
        self.field = field
        self.reason = reason


def _read(path: str | os.PathLike[str]) -> Any:
    if not isinstance(path, str | os.PathLike):
        raise InvalidServerError("path", f"expected a path, got {type(path).__name__}")
    shown = os.fspath(path)
    try:
        with open(path, "rb") as file:
            data = file.read(LARGEST_FILE + 1)
    except OSError as error:
        raise InvalidServerError("path", f"{shown} cannot be read: {error.strerror or error}") from error
    except ValueError as error:  # a NUL in the path
        raise InvalidServerError("path", f"{shown!r} cannot be read: {error}") from error
    if len(data) > LARGEST_FILE:
        raise InvalidServerError("path", f"{shown} has more than {LARGEST_FILE} bytes")
    try:
        # Windows editors put a byte order mark first.
        return json.loads(_plain_json(data.decode("utf-8-sig")))
    except UnicodeDecodeError as error:  # its own text shows bytes of the file
        reason = f"{error.reason} at byte {error.start}"
        raise InvalidServerError("path", f"{shown} is not UTF-8: {reason}") from None
    except (ValueError, RecursionError) as error:
        raise InvalidServerError("path", f"{shown} is not JSON: {error}") from None


def _plain_json(text: str) -> str:
    """Comments and trailing commas blanked out; lines and columns stay, so that errors point to the place."""
    for pattern in (_COMMENT, _TRAILING_COMMA):
        text = pattern.sub(lambda found: found[1] or re.sub(r"[^\n]", " ", found[0]), text)
    return text


def _section(document: Any, path: str | os.PathLike[str]) -> tuple[str, dict[str, Any]]:
    """The object of servers, and the name that it stands under."""
    if isinstance(document, dict):
        for name in ("mcpServers", "servers"):
            if name in document:
                if isinstance(document[name], dict):
                    return name, document[name]
                reason = f"{name} in {os.fspath(path)}: {_mismatch('an object', document[name])}"
                raise InvalidServerError("mcpServers", reason)
    raise InvalidServerError("mcpServers", f"{os.fspath(path)} has no object under mcpServers or servers")


def _warnings_at_top(document: Mapping[str, Any], section: str) -> Iterator[str]:
    # One warning for all: the files of some hosts carry dozens of fields that are no business of ours.
    unknown = [name for name in document if name not in _KNOWN_AT_TOP]
    if unknown:
        yield "unknown fields beside the servers are ignored: " + ", ".join(unknown)
    if section == "mcpServers" and "servers" in document:
        yield "servers is ignored: mcpServers is there as well"


def _warnings_of_fields(entry: Mapping[str, Any]) -> Iterator[str]:
    unknown = [name for name in entry if name not in _KNOWN_FIELDS]
    if "envFile" in unknown:
        unknown.remove("envFile")
        yield "envFile is not read: the server does not get its variables"
    if unknown:
        yield "unknown fields are ignored: " + ", ".join(unknown)


def _names(originals: Iterable[str]) -> dict[str, str]:
    """A legal name for each; a name that is legal as it stands is never taken from its server."""
    names = {name: name for name in originals if legal_name(name) == name}
    taken = set(names)
    for original in originals:
        if original in names:
            continue
        name = legal_name(original)
        if name in taken:
            digits = hashlib.sha256(original.encode("utf-8", "surrogatepass")).hexdigest()[:HASH_LENGTH]
            name = f"{name[: NAME_LENGTH - HASH_LENGTH - 1]}-{digits}"
        names[original] = "" if name in taken else name
        taken.add(name)
    return names


def _server(name: str, entry: Any) -> Server:
    if not isinstance(entry, dict):
        raise _LeftOut("entry", _mismatch("an object", entry))
    if not name:
        raise _LeftOut("name", "no legal name can be made of it")
    disabled = entry.get("disabled")
    if not isinstance(disabled, bool | None):
        raise _LeftOut("disabled", _mismatch("true or false", disabled))
    if disabled:
        raise _LeftOut("disabled", "it is switched off in the file")
    _check_type(entry)

    options: dict[str, Any] = {
        field: _text(entry[field], field) for field in ("command", "cwd", "url") if entry.get(field) is not None
    }
    if entry.get("args") is not None:
        options["args"] = tuple(_texts(entry["args"]))
    if entry.get("headers") is not None:
        headers = _named(entry["headers"], "headers")
        options["headers"] = {key: _text(value, f"headers.{key}") for key, value in headers.items()}
    env = dict(_environment(entry.get("env")))
    if "command" in options:
        # A variable that is null in the file is one that the server is not to have.
        merged: dict[str, str | None] = {**default_environment(), **env}
        options["env"] = {key: value for key, value in merged.items() if value is not None}
    elif env:
        options["env"] = env
    try:
        return Server(name, **options)
    except InvalidServerError as error:
        raise _LeftOut(error.field, error.reason) from None


def _check_type(entry: Mapping[str, Any]) -> None:
    kind = entry.get("type")
    if kind is None:
        return
    if not isinstance(kind, str):
        raise _LeftOut("type", _mismatch("a string", kind))
    if kind == "sse":
        raise _LeftOut("type", 'the deprecated HTTP+SSE transport is not supported; "http" is its successor')
    if kind not in _TYPES:
        raise _LeftOut("type", "neither stdio nor http")
    if entry.get(_TYPES[kind]) is None:
        raise _LeftOut(_TYPES[kind], f"missing, though the type is {kind}")


def _environment(value: Any) -> Iterator[tuple[str, str | None]]:
    if value is None:
        return
    for key, item in _named(value, "env").items():
        # VS Code allows numbers and null among the values.
        if item is None:
            yield key, None
        elif isinstance(item, int) and not isinstance(item, bool):
            yield key, str(item)
        else:
            yield key, _text(item, f"env.{key}")


def _named(value: Any, field: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _LeftOut(field, _mismatch("an object", value))
    # Names are shown in warnings, so what has its value in it must not pass for one.
    if any("=" in name or ": " in name for name in value):
        raise _LeftOut(field, "a name in it has its value in it as well")
    return value


def _texts(value: Any) -> Iterator[str]:
    if not isinstance(value, list):
        raise _LeftOut("args", _mismatch("a list of strings", value))
    for index, item in enumerate(value):
        yield _text(item, f"args[{index}]")


def _text(value: Any, field: str) -> str:
    """The string with its references filled in."""
    if not isinstance(value, str):
        raise _LeftOut(field, _mismatch("a string", value))

    def filled(reference: re.Match[str]) -> str:
        inner = reference[1]
        if inner.startswith("input:"):
            raise _LeftOut(field, f"{reference[0]} would have to be asked of a person")
        variable = _VARIABLE.fullmatch(inner)
        if variable is None or "${" in (variable["default"] or ""):
            raise _LeftOut(field, "a ${...} in it is not understood")
        name, default = variable["name"], variable["default"]
        found = os.environ.get(name, default)
        if found is None:
            raise _LeftOut(field, f"${{{name}}} is not set")
        return found

    return _REFERENCE.sub(filled, value)


def _mismatch(expected: str, value: Any) -> str:
    kinds = {bool: "true or false", str: "a string", list: "a list", dict: "an object", type(None): "null"}
    return f"expected {expected}, got {kinds.get(type(value), 'a number')}"
