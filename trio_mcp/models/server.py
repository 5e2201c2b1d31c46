"""`Server`: how one server is reached, as data. Nothing is started here and nothing is looked up.

Every rule about its fields is kept at construction, so that a mistake in a configuration shows where it was
made; what only the start can tell (a missing command, NUL bytes) is left to the start. httpx is known by name
only: importing it costs more than all the rest.

Secrets: what is shown of a server, its repr and its command line in errors, goes through `redactor`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, get_args
from urllib.parse import urlsplit

from attrs import Attribute, field, fields, frozen

from ..errors import InvalidServerError
from ..protocol.revisions import ProtocolChoice
from ..redaction import MASK, Redactor, redact_arguments, redact_url, secret_values, secrets_of_headers

if TYPE_CHECKING:
    import ssl

    import httpx

    Headers = Mapping[str, str] | Callable[[], Mapping[str, str]]
    Path = str | os.PathLike[str]

_NAME = re.compile(r"[A-Za-z0-9-]{1,32}")
_SAFE_VARIABLES = ("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER")
_PROTOCOLS: tuple[str, ...] = get_args(ProtocolChoice)

# RFC 9110, 5.6.2 and 5.5: a field name is a token; a value has no control characters but tab. It is sent as UTF-8,
# which has no surrogates.
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE = re.compile(r"[^\x00-\x08\x0a-\x1f\x7f\ud800-\udfff]*")
_TOKEN = re.compile(r"[\x21-\x7e]+")
# What the transport writes itself: a second one would contradict it.
_OUR_HEADERS = frozenset(
    {
        "accept",
        "content-length",
        "content-type",
        "last-event-id",
        "mcp-method",
        "mcp-name",
        "mcp-protocol-version",
        "mcp-session-id",
        "transfer-encoding",
    }
)
_OUR_HEADER_PREFIX = "mcp-param-"

_STDIO_FIELDS = ("args", "env", "cwd", "stop_timeout")
_HTTP_FIELDS = ("bearer_token", "headers", "auth", "http_transport", "ssl_context")


def default_environment() -> dict[str, str]:
    """The safe few of this process's environment, to build a server's on: HOME, LOGNAME, PATH, SHELL, TERM, USER.

    >>> sorted(set(default_environment()) - {"HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER"})
    []
    """
    return {name: os.environ[name] for name in _SAFE_VARIABLES if name in os.environ}


def check_headers(headers: Any, *, authorized: bool = False) -> dict[str, str]:
    """Extra headers for requests, checked: a mapping of str to str without the transport's own.

    Args:
        headers: what `Server.headers` is, or what it returned.
        authorized: `bearer_token` or `auth` is given as well, so that there may be no Authorization.

    Raises:
        InvalidServerError: for the field "headers"; the reason never shows a value.
    """
    if not isinstance(headers, Mapping):
        raise _wrong_type("headers", "a mapping or a function that returns one", headers)
    for name, value in headers.items():
        if not isinstance(name, str):
            raise _wrong_type("headers", "names that are str", name)
        if not isinstance(value, str):
            raise _wrong_type("headers", f"a str for {name!r}", value)
        lowered = name.lower()
        if not _HEADER_NAME.fullmatch(name):
            raise InvalidServerError("headers", f"{_without_value(name)!r} is no header name")
        if not _HEADER_VALUE.fullmatch(value):
            raise InvalidServerError("headers", f"the value of {name!r} has control characters or surrogates")
        if lowered in _OUR_HEADERS or lowered.startswith(_OUR_HEADER_PREFIX):
            raise InvalidServerError("headers", f"{name!r} belongs to the transport")
        if authorized and lowered == "authorization":
            raise InvalidServerError("headers", f"{name!r} together with bearer_token or auth")
    return dict(headers)


def _wrong_type(name: str, expected: str, value: Any) -> InvalidServerError:
    return InvalidServerError(name, f"expected {expected}, got {type(value).__name__}")


def _as_command(command: Path | None) -> str | None:
    return _as_path("command", command)


def _as_cwd(cwd: Path | None) -> str | None:
    return _as_path("cwd", cwd)


def _as_path(name: str, value: Path | None) -> str | None:
    if value is None:
        return None
    text = os.fspath(value) if isinstance(value, os.PathLike) else value
    if not isinstance(text, str):
        raise _wrong_type(name, "str or a path", value)
    if not text:
        raise InvalidServerError(name, "is empty")
    return text


def _as_args(args: Sequence[Path]) -> tuple[str, ...]:
    if isinstance(args, str | bytes | bytearray | memoryview) or not isinstance(args, Sequence):
        raise _wrong_type("args", "a sequence of str", args)
    found = []
    for index, item in enumerate(args):
        text = os.fspath(item) if isinstance(item, os.PathLike) else item
        if not isinstance(text, str):
            raise _wrong_type("args", f"a str at {index}", item)
        found.append(text)
    return tuple(found)


def _as_env(env: Mapping[str, str] | None) -> dict[str, str] | None:
    if env is None:
        return None
    if not isinstance(env, Mapping):
        raise _wrong_type("env", "a mapping", env)
    for name, value in env.items():
        if not isinstance(name, str):
            raise _wrong_type("env", "names that are str", name)
        if not name or "=" in name:
            raise InvalidServerError("env", f"{_without_value(name)!r} is no name of a variable")
        if not isinstance(value, str):
            raise _wrong_type("env", f"a str for {name!r}", value)
    return dict(env)


def _as_headers(headers: Headers | None) -> dict[str, str] | Callable[[], Mapping[str, str]] | None:
    if headers is None or (callable(headers) and not isinstance(headers, Mapping)):
        return headers
    return check_headers(headers)


def _as_tools(tools: Iterable[str] | None) -> tuple[str, ...] | None:
    if tools is None:
        return None
    if isinstance(tools, str | bytes | bytearray | memoryview | Mapping) or not isinstance(tools, Iterable):
        raise _wrong_type("tools", "names of tools", tools)
    found = tuple(tools)
    for item in found:
        if not isinstance(item, str):
            raise _wrong_type("tools", "names that are str", item)
    return found


def _check_name(_: Any, __: Attribute[str], value: Any) -> None:
    if not isinstance(value, str):
        raise _wrong_type("name", "str", value)
    if not _NAME.fullmatch(value):
        raise InvalidServerError("name", f"{value!r} is not 1 to 32 ASCII letters, digits and hyphens")


def _check_seconds(_: Any, attribute: Attribute[Any], value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _wrong_type(attribute.name, "seconds", value)
    try:
        seconds = float(value)
    except OverflowError:
        raise InvalidServerError(attribute.name, "is too long") from None
    if not seconds >= 0:  # NaN too
        raise InvalidServerError(attribute.name, f"{value} is no number of seconds")


def _check_bound(instance: Any, attribute: Attribute[Any], value: Any) -> None:
    if value is not None:
        _check_seconds(instance, attribute, value)


def _check_url(_: Any, __: Attribute[str | None], value: Any) -> None:
    if value is None:
        return
    if not isinstance(value, str):
        raise _wrong_type("url", "str", value)
    # The reasons show nothing of it: a URL may carry a password anywhere, above all a malformed one.
    if any(character <= " " or character == "\x7f" or "\ud800" <= character <= "\udfff" for character in value):
        raise InvalidServerError("url", "has spaces, control characters or surrogates")
    try:
        parts = urlsplit(value)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise InvalidServerError("url", "is no http or https URL with a host")


def _check_bearer_token(_: Any, __: Attribute[str | None], value: Any) -> None:
    if value is None:
        return
    if not isinstance(value, str):
        raise _wrong_type("bearer_token", "str", value)
    if not _TOKEN.fullmatch(value):
        raise InvalidServerError("bearer_token", "is empty, or has spaces or characters outside ASCII")


def _check_method(expected: str, method: str) -> Callable[[Any, Attribute[Any], Any], None]:
    """By method, not by class: the class is httpx's, which is not imported for this."""

    def check(_: Any, attribute: Attribute[Any], value: Any) -> None:
        usable = callable(getattr(value, method, None)) and not isinstance(value, type)
        if value is not None and not usable:
            raise _wrong_type(attribute.name, expected, value)

    return check


def _check_ssl_context(_: Any, __: Attribute[ssl.SSLContext | None], value: Any) -> None:
    # By method: a program may have a class of its own, and loading ssl costs more than this whole file.
    if value is not None and (isinstance(value, type) or not callable(getattr(value, "wrap_bio", None))):
        raise _wrong_type("ssl_context", "an ssl.SSLContext", value)


def _check_protocol(_: Any, __: Attribute[str], value: Any) -> None:
    if not isinstance(value, str):
        raise _wrong_type("protocol", "str", value)
    if value not in _PROTOCOLS:
        raise InvalidServerError("protocol", f"{value!r} is none of {', '.join(_PROTOCOLS)}")


@frozen(repr=False)
class Server:
    """How to reach one server: a process to start (`command`), or a Streamable HTTP endpoint (`url`).

    Args:
        name: goes into every tool name; 1 to 32 ASCII letters, digits and hyphens.
        command: the program to start, with `args`; never a shell. A bare name is looked up on the PATH of `env`
            when that has one, else on this process's.
        args: its arguments.
        env: its WHOLE environment; None gives it none. `default_environment()` is a start.
        cwd: where it runs.
        stop_timeout: seconds it gets to exit after its input is closed, before it is signalled.
        start_timeout: seconds that start, negotiation and the first listing may take together; None: no bound.
        url: the endpoint.
        bearer_token: sent as `Authorization: Bearer <token>` with every request.
        headers: extra headers for every request: a mapping, or a function that returns one, called each time.
        auth: an `httpx.Auth`.
        http_transport: an `httpx.AsyncBaseTransport`; never closed by this library.
        ssl_context: an `ssl.SSLContext` for an https URL: a private authority, a client certificate. None for the
            usual authorities.
        tools: keep only the tools of these names (the server's own); `()` keeps none, None keeps all.
        protocol: "auto", "modern", "legacy", or a revision such as "2025-11-25".

    Raises:
        InvalidServerError: a field is wrong, alone or together with another.

    >>> Server("time", command="mcp-server-time", env={"PATH": "/usr/bin"})
    Server(name='time', command='mcp-server-time', env={'PATH': '***'})
    """

    name: str = field(validator=_check_name)
    command: str | None = field(default=None, kw_only=True, converter=_as_command)
    args: tuple[str, ...] = field(default=(), kw_only=True, converter=_as_args)
    env: dict[str, str] | None = field(default=None, kw_only=True, converter=_as_env, hash=False)
    cwd: str | None = field(default=None, kw_only=True, converter=_as_cwd)
    stop_timeout: float = field(default=5.0, kw_only=True, validator=_check_seconds)
    start_timeout: float | None = field(default=60.0, kw_only=True, validator=_check_bound)
    url: str | None = field(default=None, kw_only=True, validator=_check_url)
    bearer_token: str | None = field(default=None, kw_only=True, validator=_check_bearer_token)
    headers: dict[str, str] | Callable[[], Mapping[str, str]] | None = field(
        default=None, kw_only=True, converter=_as_headers, hash=False
    )
    auth: httpx.Auth | None = field(
        default=None, kw_only=True, validator=_check_method("an httpx.Auth", "async_auth_flow")
    )
    http_transport: httpx.AsyncBaseTransport | None = field(
        default=None,
        kw_only=True,
        validator=_check_method("an httpx.AsyncBaseTransport", "handle_async_request"),
    )
    ssl_context: ssl.SSLContext | None = field(default=None, kw_only=True, validator=_check_ssl_context)
    tools: tuple[str, ...] | None = field(default=None, kw_only=True, converter=_as_tools)
    protocol: ProtocolChoice = field(default="auto", kw_only=True, validator=_check_protocol)

    def __attrs_post_init__(self) -> None:
        if self.command is None and self.url is None:
            raise InvalidServerError("command", "neither command nor url is given")
        if self.command is not None and self.url is not None:
            raise InvalidServerError("url", "given together with command")
        foreign, kind = (_HTTP_FIELDS, "HTTP") if self.url is None else (_STDIO_FIELDS, "stdio")
        for name, _ in self._given():
            if name in foreign:
                raise InvalidServerError(name, f"is for {kind} servers only")
        if self.ssl_context is not None and self.http_transport is not None:
            raise InvalidServerError("ssl_context", "given together with http_transport, which has its own")
        if self.ssl_context is not None and not (self.url or "").lower().startswith("https:"):
            raise InvalidServerError("ssl_context", "is for https URLs only")
        if self.bearer_token is not None and self.auth is not None:
            raise InvalidServerError("auth", "given together with bearer_token")
        if isinstance(self.headers, dict):
            check_headers(self.headers, authorized=self.bearer_token is not None or self.auth is not None)

    @cached_property
    def redactor(self) -> Redactor:
        """Replaces this server's secrets in a text."""
        return Redactor(self._secrets())

    @cached_property
    def redacted_command(self) -> tuple[str, ...]:
        """The command and its arguments, as they may be shown. Empty for HTTP servers."""
        if self.command is None:
            return ()
        return tuple(self.redactor(shown) for shown in redact_arguments((self.command, *self.args)))

    def __repr__(self) -> str:
        shown = {name: repr(value) for name, value in self._given()}
        if self.command is not None:
            command, *args = self.redacted_command
            shown["command"] = repr(command)
            if args:
                shown["args"] = repr(tuple(args))
        if self.cwd is not None:
            shown["cwd"] = repr(self.redactor(self.cwd))
        if self.url is not None:
            shown["url"] = repr(self.redactor(redact_url(self.url)))
        if self.bearer_token is not None:
            shown["bearer_token"] = repr(MASK)
        for name in ("env", "headers"):
            values = getattr(self, name)
            if isinstance(values, dict):
                shown[name] = repr(dict.fromkeys(values, MASK))
        # A function's repr may show what it is bound to; these objects hold credentials.
        for name in ("headers", "auth", "http_transport", "ssl_context"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, dict):
                shown[name] = f"<{type(value).__name__}>"
        return f"Server({', '.join(f'{name}={text}' for name, text in shown.items())})"

    def _given(self) -> Iterator[tuple[str, Any]]:
        """The fields that differ from their defaults."""
        for attribute in fields(type(self)):
            value = getattr(self, attribute.name)
            if value != attribute.default:
                yield attribute.name, value

    def _secrets(self) -> Iterator[str]:
        headers = self.headers if isinstance(self.headers, dict) else {}
        command = () if self.command is None else (self.command, *self.args)
        yield from secret_values(arguments=command, named=self.env, url=self.url)
        if self.bearer_token is not None:
            yield self.bearer_token
        yield from secrets_of_headers(headers)


def _without_value(name: str) -> str:
    """A wrong name as it may be shown: whoever wrote `KEY=value` or `Name: value` there put a secret into it."""
    return re.split(r"[=:\s]", name, maxsplit=1)[0]
