"""What may be shown of a text that somebody else wrote: no secret, and one line without control characters.

Secrets stand in arguments, environments, headers and URLs. A value is secret by the *name* it stands under, and
from then on by its *value* wherever else it turns up: in a server's stderr, or in a skipped line. Short values are
hidden by name alone: replacing every "1234" in a text would destroy the text and protect no secret.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlsplit

MASK = "***"
#: Below this many characters a value is too common a string to be searched for in other texts.
SHORTEST_VALUE = 8
#: How many values a `Redactor` learns: enough for the tokens of a call in flight, few enough to search for.
LEARNED = 32

# Control characters, line ends, what turns the direction of text, what cannot be seen, and halves of surrogates.
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]")

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


def bounded_line(text: str, most: int) -> str:
    """The text on one line, cut at so many characters; what cannot be seen, or is obeyed, shows as its escape.

    For texts of a peer in sentences of ours: markers, errors, warnings, lines of a log.

    >>> bounded_line("one\\ntwo\\x1b[0m", 100)
    'one\\\\ntwo\\\\x1b[0m'
    >>> bounded_line("abcdef", 5)
    'abcde...'
    """
    if len(text) <= most and text.isascii() and text.isprintable():
        return text
    shown = text[:most] + "..." if len(text) > most else text
    return _UNPRINTABLE.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), shown)


def _spellings(value: str) -> set[str]:
    """How a secret is written by those who quote it: JSON, with and without escapes, Python, URLs."""
    quoted = {json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1], repr(value)[1:-1]}
    return quoted | {quote(value, safe="", errors="replace"), quote(value, errors="replace")}


class Redactor:
    """Replaces known secret values in a text, also as JSON, Python and URLs write them.

    Its repr tells only how many it knows.

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
        known = {*self._given, *self._learned}
        values = sorted(known.union(*map(_spellings, known)), key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, values))) if values else None

    def __call__(self, text: str) -> str:
        return self._pattern.sub(MASK, text) if self._pattern else text

    def in_value(self, value: Any) -> Any:
        """The same in every text of a JSON value; where nothing is hidden, the value itself."""
        if self._pattern is None:
            return value
        try:
            return self._in_value(value)
        except RecursionError:  # so deep that nobody reads it
            return MASK

    def is_told_by(self, error: BaseException) -> bool:
        """Whether an exception shows one of them: in its text, its repr or its notes."""
        return any(self(text) != text for text in (str(error), repr(error), *getattr(error, "__notes__", ())))

    def _in_value(self, value: Any) -> Any:
        if isinstance(value, str):
            return self(value)
        if isinstance(value, bytes):
            return self(value.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
        if type(value) is list or type(value) is tuple:
            return type(value)(self._in_value(inner) for inner in value)
        if type(value) is dict:
            return {self._in_value(key): self._in_value(inner) for key, inner in value.items()}
        return value

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
