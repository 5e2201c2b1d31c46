"""Reads the `mcpServers` JSON of MCP hosts into `Server` values.

Claude Desktop and Cursor write `{"mcpServers": {name: {...}}}`, VS Code `{"servers": {name: {...}}}` with
comments and trailing commas. A bad entry does not affect the others: its server is left out, with a warning that
names server and field. No warning shows a value of the file, since it may be a secret.

This module reads and checks; it starts no server and knows no connection.
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

#: The longest legal server name, and the hex digits that keep two names apart after they were made legal.
NAME_LENGTH = 32
HASH_LENGTH = 4
#: Configuration files are a few kB. The limit keeps a path such as /dev/zero from filling the memory.
LARGEST_FILE = 16 * 1024 * 1024

_ILLEGAL_IN_NAME = re.compile(r"[^A-Za-z0-9-]")
_REFERENCE = re.compile(r"\$\{([^}]*)\}")
# All hosts know `${VAR}`; Cursor and VS Code add `${env:VAR}`, Claude Code adds `${VAR:-default}`.
_VARIABLE = re.compile(r"(?:env:)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>.*))?", re.DOTALL)
# Strings are matched first, so that a string with `//` in it stays whole. An unclosed string or comment runs to
# the end of the file: the scan looks at each character once, whatever the file holds.
_STRING = r'("(?:\\.|[^"\\])*+(?:"|\\?\Z))'
_COMMENT = re.compile(_STRING + r"|//[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
_TRAILING_COMMA = re.compile(_STRING + r"|,(?=\s*[}\]])", re.DOTALL)

#: The values that `type` may have, each with the field that such a server needs.
_TYPES = {
    "stdio": "command",
    "local": "command",
    "http": "url",
    "streamable-http": "url",
    "streamable_http": "url",
    "streamableHttp": "url",
}
#: What other hosts call the URL.
_URLS = ("url", "httpUrl", "serverUrl")
_KNOWN_FIELDS = {
    *("type", "disabled", "enabled", "command", "args", "env", "cwd", "headers", "protocol", "stop_timeout"),
    *_URLS,
}
#: Words of other hosts that mean nothing here, and what does instead.
_OF_OTHER_HOSTS = {
    "timeout": "how long a call may take is up to the program that makes it",
    "alwaysAllow": "which calls need approval is said by Policy",
    "autoApprove": "which calls need approval is said by Policy",
    "oauth": "a login is not made from this file",
}
_KNOWN_AT_TOP = {"mcpServers", "servers", "inputs", "$schema"}


@frozen
class LoadedServers:
    """The `servers` of a configuration file, in its order, and `warnings` for people to read."""

    servers: tuple[Server, ...]
    warnings: tuple[str, ...]


def load_servers(path: str | os.PathLike[str]) -> LoadedServers:
    """Read the servers of a host's configuration file; each `${VAR}` is replaced by its value in `os.environ`.

    The `env` of an entry is added to `default_environment()`. A name that is not a legal server name is changed to
    one, with a warning. A server is left out, with a warning that names it and the field, when a field has the
    wrong type, a `${VAR}` is not set and has no default (`${VAR:-default}`), an `${input:...}` would have to ask
    the user, `type` is the deprecated "sse", or it is switched off by `disabled` or `enabled`.
    `protocol` and `stop_timeout` are those of `Server`; `httpUrl` and `serverUrl` are other words for `url`. An
    unknown field is only a warning; so is a server or a member that stands in the file twice, a word of another
    host that means nothing here, and VS Code's `envFile`, which is not read. Blocks while it reads one small file.

    Args:
        path: the file, UTF-8 with or without a byte order mark; comments and trailing commas are allowed.

    Raises:
        InvalidServerError: the file is missing, unreadable or not JSON (`field` is "path"), or it has no object
            under `mcpServers` or `servers` (`field` is "mcpServers").

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
    document = _read_json(path)
    section, entries = _find_servers(document, path)
    warnings = list(_top_level_warnings(document, section))
    if isinstance(entries, _Object):
        warnings += [f'server "{name}" stands in the file twice: the last one counts' for name in entries.repeated]
    servers = []
    names = _legal_names(entries)
    for original, entry in entries.items():
        try:
            server = _make_server(names[original], entry)
        except _EntryError as error:
            warnings.append(f'server "{original}" is left out: {error.field}: {error.reason}')
            continue
        servers.append(server)
        if server.name != original:
            warnings.append(f'server "{original}" is called "{server.name}" here')
        warnings.extend(f'server "{original}": {text}' for text in _field_warnings(entry))
    return LoadedServers(tuple(servers), tuple(warnings))


def legal_name(text: str) -> str:
    """The nearest legal server name: illegal characters become hyphens, and it is cut at 32. Empty stays empty.

    >>> legal_name("python3.11")
    'python3-11'
    """
    return _ILLEGAL_IN_NAME.sub("-", text)[:NAME_LENGTH]


class _EntryError(Exception):
    """One entry of the file cannot be used. Never leaves this module: it becomes a warning."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(field, reason)
        self.field = field
        self.reason = reason


class _Object(dict[str, Any]):
    """An object of the file, and the names that it has more than once: JSON's last one counts."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        seen: set[str] = set()
        self.repeated = tuple(
            dict.fromkeys(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value] # None is false
        )


def _repeated(value: object, where: str = "") -> Iterator[str]:
    """Each name that stands twice in an object of the file, or in one inside it, with the way to it."""
    if isinstance(value, _Object):
        yield from (f"{where}{name}" for name in value.repeated)
        for name, item in value.items():
            yield from _repeated(item, f"{where}{name}.")


def _read_json(path: str | os.PathLike[str]) -> Any:
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
        return json.loads(_without_comments(data.decode("utf-8-sig")), object_pairs_hook=_Object)
    except UnicodeDecodeError as error:  # not shown: its text has bytes of the file in it
        reason = f"{error.reason} at byte {error.start}"
        raise InvalidServerError("path", f"{shown} is not UTF-8: {reason}") from None
    except (ValueError, RecursionError) as error:
        raise InvalidServerError("path", f"{shown} is not JSON: {error}") from None


def _without_comments(text: str) -> str:
    """Replace comments and trailing commas by spaces: errors still name the right line and column."""
    for pattern in (_COMMENT, _TRAILING_COMMA):
        text = pattern.sub(lambda found: found[1] or re.sub(r"[^\n]", " ", found[0]), text)
    return text


def _find_servers(document: Any, path: str | os.PathLike[str]) -> tuple[str, dict[str, Any]]:
    """The name of the member that holds the servers, and its object."""
    if isinstance(document, dict):
        for name in ("mcpServers", "servers"):
            if name in document:
                if isinstance(document[name], dict):
                    return name, document[name]
                reason = f"{name} in {os.fspath(path)}: {_wrong_type('an object', document[name])}"
                raise InvalidServerError("mcpServers", reason)
    raise InvalidServerError("mcpServers", f"{os.fspath(path)} has no object under mcpServers or servers")


def _top_level_warnings(document: Mapping[str, Any], section: str) -> Iterator[str]:
    # One warning for all of them: some hosts keep dozens of their own settings in this file.
    unknown = [name for name in document if name not in _KNOWN_AT_TOP]
    if unknown:
        yield "unknown fields beside the servers are ignored: " + ", ".join(unknown)
    if section == "mcpServers" and "servers" in document:
        yield "servers is ignored, because the file has mcpServers too"


def _field_warnings(entry: Mapping[str, Any]) -> Iterator[str]:
    for name in _repeated(entry):
        yield f"{name} stands in it twice: the last one counts"
    for name, why in _OF_OTHER_HOSTS.items():
        if name in entry:
            yield f"{name} is not read: {why}"
    unknown = [name for name in entry if name not in _KNOWN_FIELDS and name not in _OF_OTHER_HOSTS]
    if "envFile" in unknown:
        unknown.remove("envFile")
        yield "envFile is not read: the server does not get its variables"
    if unknown:
        yield "unknown fields are ignored: " + ", ".join(unknown)


def _legal_names(originals: Iterable[str]) -> dict[str, str]:
    """A legal name for each server. A server whose name is legal already always keeps it."""
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


def _make_server(name: str, entry: Any) -> Server:
    if not isinstance(entry, dict):
        raise _EntryError("entry", _wrong_type("an object", entry))
    if not name:
        raise _EntryError("name", "no legal server name can be made from it")
    disabled = entry.get("disabled")
    if not isinstance(disabled, bool | None):
        raise _EntryError("disabled", _wrong_type("true or false", disabled))
    enabled = entry.get("enabled")
    if not isinstance(enabled, bool | None):
        raise _EntryError("enabled", _wrong_type("true or false", enabled))
    if disabled or enabled is False:
        raise _EntryError("disabled" if disabled else "enabled", "it is switched off in the file")
    urls = [field for field in _URLS if entry.get(field) is not None]
    if len(urls) > 1:
        raise _EntryError(urls[1], f"given together with {urls[0]}")
    _check_type(entry, has_url=bool(urls))

    options: dict[str, Any] = {
        field: _string(entry[field], field) for field in ("command", "cwd") if entry.get(field) is not None
    }
    if urls:
        options["url"] = _string(entry[urls[0]], urls[0])
    options |= {field: entry[field] for field in ("protocol", "stop_timeout") if entry.get(field) is not None}
    if entry.get("args") is not None:
        options["args"] = tuple(_strings(entry["args"]))
    if entry.get("headers") is not None:
        headers = _object(entry["headers"], "headers")
        options["headers"] = {key: _string(value, f"headers.{key}") for key, value in headers.items()}
    env = dict(_environment(entry.get("env")))
    if "command" in options:
        # null in the file means: the server must not get this variable.
        merged: dict[str, str | None] = {**default_environment(), **env}
        options["env"] = {key: value for key, value in merged.items() if value is not None}
    elif env:
        options["env"] = env
    try:
        return Server(name, **options)
    except InvalidServerError as error:
        raise _EntryError(error.field, error.reason) from None


def _check_type(entry: Mapping[str, Any], *, has_url: bool) -> None:
    kind = entry.get("type")
    if kind is None:
        return
    if not isinstance(kind, str):
        raise _EntryError("type", _wrong_type("a string", kind))
    if kind == "sse":
        raise _EntryError("type", 'the deprecated HTTP+SSE transport is not supported; use its successor, "http"')
    if kind not in _TYPES:
        raise _EntryError("type", 'expected "stdio" or "http"')
    if entry.get(_TYPES[kind]) is None and not (_TYPES[kind] == "url" and has_url):
        raise _EntryError(_TYPES[kind], f"missing, but the type is {kind}")


def _environment(value: Any) -> Iterator[tuple[str, str | None]]:
    if value is None:
        return
    for key, item in _object(value, "env").items():
        # VS Code allows numbers and null among the values.
        if item is None:
            yield key, None
        elif isinstance(item, int) and not isinstance(item, bool):
            yield key, str(item)
        else:
            yield key, _string(item, f"env.{key}")


def _object(value: Any, field: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _EntryError(field, _wrong_type("an object", value))
    # Warnings show names: a name such as "KEY=secret" would show a value.
    if any("=" in name or ": " in name for name in value):
        raise _EntryError(field, "a name contains its value: write them as two strings")
    return value


def _strings(value: Any) -> Iterator[str]:
    if not isinstance(value, list):
        raise _EntryError("args", _wrong_type("a list of strings", value))
    for index, item in enumerate(value):
        yield _string(item, f"args[{index}]")


def _string(value: Any, field: str) -> str:
    """The string with the value of each variable in the place of its `${VAR}`."""
    if not isinstance(value, str):
        raise _EntryError(field, _wrong_type("a string", value))

    def value_of(reference: re.Match[str]) -> str:
        inner = reference[1]
        if inner.startswith("input:"):
            raise _EntryError(field, f"{reference[0]} would have to ask the user; use ${{VAR}} instead")
        variable = _VARIABLE.fullmatch(inner)
        if variable is None or "${" in (variable["default"] or ""):
            raise _EntryError(field, "a ${...} is not understood; write ${VAR} or ${VAR:-default}")
        name, default = variable["name"], variable["default"]
        found = os.environ.get(name, default)
        if found is None:
            raise _EntryError(field, f"the environment variable {name} is not set")
        return found

    return _REFERENCE.sub(value_of, value)


def _wrong_type(expected: str, value: Any) -> str:
    kinds = {bool: "true or false", str: "a string", list: "a list", dict: "an object", type(None): "null"}
    return f"expected {expected}, got {kinds.get(type(value), 'a number')}"
