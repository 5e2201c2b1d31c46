"""Hides secrets in arguments, environments, headers and URLs.

A value is secret by the *name* it stands under, and from then on by its *value* wherever else it turns up: in a
server's stderr, or in a skipped line. Short values are hidden by name alone: replacing every "1234" in a text
would destroy the text and protect no secret.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from urllib.parse import parse_qsl, unquote, urlsplit

MASK = "***"
#: Below this many characters a value is too common a string to be searched for in other texts.
SHORTEST_VALUE = 8
#: How many values a `Redactor` learns: enough for the tokens of a call in flight, few enough to search for.
LEARNED = 32

_SECRET_NAME = re.compile(r"token|key|secret|password|auth|cookie", re.IGNORECASE)
# `--x=v` and `X=v`, and the `Name: value` of curl-like header options.
_ASSIGNMENT = re.compile(r"(?P<name>-{0,2}[\w.-]+)(?P<sign>=|:\s*)(?P<value>.*)", re.DOTALL)
# Up to the last @ before the path: a password may have an unescaped @ or slash in it.
_USERINFO = re.compile(r"(?<=://)(?:[^/?#\s@:]*:[^?#\s]*|[^/?#\s@]+)(?=@)")
# `name=value` in a query, a fragment or a shell's command line; `--name value` there; `"name": "value"` in JSON.
_PAIRS = (
    re.compile(r"(?:^|(?<=[?&#;\s]))(?P<name>[\w.-]+)(?P<sign>=)(?P<value>[^&#;\s\"']+)"),
    re.compile(r"(?:^|(?<=\s))(?P<name>--?[\w-]+)(?P<sign>\s+)(?P<value>[^\s\"';-][^\s\"';]*)"),
    re.compile(r"(?P<name>\"[\w.-]+\")(?P<sign>\s*:\s*\")(?P<value>[^\"]+)"),
)


def is_secret_name(name: str) -> bool:
    """Whether values under this name are hidden. A secret-like word may stand anywhere in it, in any case."""
    return _SECRET_NAME.search(name) is not None


def redact_url(url: str) -> str:
    """The URL without userinfo, query and fragment, which is all that is ever shown of one.

    >>> redact_url("https://me:pw@example.com:8443/mcp?key=abc")
    'https://example.com:8443/mcp'
    """
    without_tail = re.split(r"[?#]", url, maxsplit=1)[0]
    return re.sub(r"(?<=://)[^/]*@", "", without_tail)


def secrets_of_headers(headers: Mapping[str, str]) -> Iterator[str]:
    """Values under secret-like names, and the parts of them that may turn up elsewhere: the token of
    `Bearer <token>`, the values of `Cookie: a=b; c=d`.
    """
    for name, value in headers.items():
        if is_secret_name(name):
            yield value
            yield from value.split()[1:]
            yield from (part.partition("=")[2].strip() for part in value.split(";"))


def redact_arguments(arguments: Sequence[str]) -> tuple[str, ...]:
    """A command line with the values under secret-like names replaced.

    >>> redact_arguments(["serve", "--api-key", "abc", "--port=1", "TOKEN=abc"])
    ('serve', '--api-key', '***', '--port=1', 'TOKEN=***')
    """
    return tuple(shown for shown, _ in _shown_and_secrets(arguments))


def secret_values(
    *,
    arguments: Sequence[str] = (),
    named: Mapping[str, str] | None = None,
    url: str | None = None,
    others: Iterable[str] = (),
) -> Iterator[str]:
    """Every value that must be hidden: from a command line, named values, a URL, and `others` as they are."""
    for _, secrets in _shown_and_secrets(arguments):
        yield from secrets
    yield from (value for name, value in (named or {}).items() if is_secret_name(name))
    if url is not None:
        yield from _secrets_of_text(url)
        parts = urlsplit(url)
        yield from (value for name, value in parse_qsl(parts.query) if is_secret_name(name))
    yield from others


class Redactor:
    """Replaces known secret values in a text. Its repr tells only how many it knows.

    It can `learn` more: headers from a function or a flow of authentication are known only when they are used.

    >>> Redactor(["hunter2hunter2"])("login with hunter2hunter2 failed")
    'login with *** failed'
    """

    __slots__ = ("_given", "_learned", "_pattern")

    def __init__(self, values: Iterable[str] = ()) -> None:
        self._given = frozenset(value for value in values if len(value) >= SHORTEST_VALUE)
        self._learned: list[str] = []
        self._compile()

    def learn(self, values: Iterable[str]) -> None:
        """Hide these too. Beyond `LEARNED` values, those learned longest ago are forgotten."""
        known = {*self._given, *self._learned}
        new = [value for value in dict.fromkeys(values) if len(value) >= SHORTEST_VALUE and value not in known]
        if new:
            self._learned = [*self._learned, *new][-LEARNED:]
            self._compile()

    def _compile(self) -> None:
        # The longest first: one secret may begin with another.
        values = sorted({*self._given, *self._learned}, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, values))) if values else None

    def __call__(self, text: str) -> str:
        return self._pattern.sub(MASK, text) if self._pattern else text

    def __repr__(self) -> str:
        return f"<Redactor of {len(self._given) + len(self._learned)} values>"


NOTHING_SECRET = Redactor()


def _shown_and_secrets(arguments: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """Each argument as it is shown, with the secret values in it."""
    follows_secret_option = False
    for argument in arguments:
        if follows_secret_option:
            # It may be an option again, and a secret one; hiding its name costs nothing.
            follows_secret_option = argument.startswith("-") and is_secret_name(argument)
            yield MASK, [argument]
            continue
        found = _ASSIGNMENT.fullmatch(argument)
        if found and is_secret_name(found["name"]):
            yield found["name"] + found["sign"] + MASK, [found["value"], *found["value"].split()[1:]]
        elif found and _ASSIGNMENT.fullmatch(found["value"]):  # --header=Authorization: x, --env=API_KEY=x
            ((shown, secrets),) = _shown_and_secrets([found["value"]])
            yield found["name"] + found["sign"] + shown, secrets
        else:
            follows_secret_option = argument.startswith("-") and not found and is_secret_name(argument)
            yield _redact_text(argument), list(_secrets_of_text(argument))


def _redact_text(text: str) -> str:
    def shown(pair: re.Match[str]) -> str:
        return pair["name"] + pair["sign"] + MASK if is_secret_name(pair["name"]) else pair[0]

    text = _USERINFO.sub(MASK, text)
    for pairs in _PAIRS:
        text = pairs.sub(shown, text)
    return text


def _secrets_of_text(text: str) -> Iterator[str]:
    for userinfo in _USERINFO.findall(text):
        yield from {userinfo, *userinfo.split(":", 1), *map(unquote, userinfo.split(":", 1))}
    for pairs in _PAIRS:
        for pair in pairs.finditer(text):
            if is_secret_name(pair["name"]):
                yield from {pair["value"], unquote(pair["value"])}
