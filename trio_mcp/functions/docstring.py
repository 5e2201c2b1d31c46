"""What a docstring says about a function or a class, and about its parameters or fields.

It reads Google's form (`Args:` and an indented block), NumPy's (a heading underlined with dashes) and Sphinx's
(`:param name:`). Text in none of these forms stays in the description: a model reads it there.

Knows no types.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator

_ARGUMENTS = frozenset(
    {
        "args",
        "arguments",
        "parameters",
        "params",
        "keyword args",
        "keyword arguments",
        "other parameters",
        "attributes",
    }
)
#: Sections that tell programmers about the call; models read the schema, and what the tool answers.
_OTHERS = frozenset(
    {
        *("returns", "return", "yields", "yield", "raises", "example", "examples", "note", "notes", "see also"),
        *("warning", "warnings", "reference", "references", "todo"),
    }
)
_HEADING = re.compile(r"^(?P<name>[A-Z][A-Za-z ]*):\s*$")
_UNDERLINE = re.compile(r"^-{3,}\s*$")
_GOOGLE = re.compile(r"^(?P<name>\*{0,2}\w+)\s*(?:\([^)]*\))?\s*(?::|\s[-\u2013\u2014]\s)\s*(?P<text>.*)$")
_NUMPY = re.compile(r"^(?P<names>\*{0,2}\w+(?:\s*,\s*\*{0,2}\w+)*)\s*(?::.*)?$")
_SPHINX = re.compile(r"^:(?P<field>\w+)(?:\s+(?P<subject>[^:]*))?:\s*(?P<text>.*)$")
_SPHINX_ARGUMENTS = frozenset({"param", "parameter", "arg", "argument", "key", "keyword", "attr", "ivar", "var"})
_SPHINX_OTHERS = frozenset(
    {"type", "return", "returns", "rtype", "raise", "raises", "except", "exception", "vartype"}
)


def read_docstring(text: str | None) -> tuple[str, dict[str, str]]:
    """The description, and what is said of each parameter or field.

    >>> read_docstring(\'\'\'Add two numbers.
    ...
    ...     Args:
    ...         a: the first,
    ...             and a second line.
    ...         b: the other.
    ...
    ...     Both are whole.
    ...     \'\'\')
    ('Add two numbers.\\n\\nBoth are whole.', {'a': 'the first, and a second line.', 'b': 'the other.'})
    """
    reader = _Reader(inspect.cleandoc(text or "").splitlines())
    reader.read()
    description = re.sub(r"\n{3,}", "\n\n", "\n".join(reader.description)).strip()
    named = {name: lines for name, lines in reader.arguments.items() if not name.startswith("*")}
    return description, {name: " ".join(lines).strip() for name, lines in named.items()}


class _Reader:
    """Reads the lines of a docstring, block by block."""

    def __init__(self, lines: list[str]) -> None:
        self.description: list[str] = []
        self.arguments: dict[str, list[str]] = {}
        self._lines = lines
        self._next = 0

    def read(self) -> None:
        while self._next < len(self._lines):
            line = self._lines[self._next]
            google = _HEADING.match(line)
            underlined = _UNDERLINE.match(self._peek(1)) is not None
            name = (google["name"] if google else line.strip()).lower()
            sphinx = _SPHINX.match(line)
            if (google or underlined) and name in _ARGUMENTS | _OTHERS:
                heading = self._lines[self._next : self._next + (2 if underlined else 1)]
                self._next += len(heading)
                section = list(self._numpy_section() if underlined else self._google_section())
                if not any(map(str.strip, section)):
                    self.description += [*heading, *section]
                elif name in _ARGUMENTS:
                    unread = self._numpy(section) if underlined else self._google(section)
                    if unread:
                        self.description += ["", *heading, *unread, ""]
            elif sphinx and sphinx["field"] in _SPHINX_ARGUMENTS | _SPHINX_OTHERS:
                self._next += 1
                self._sphinx(sphinx, list(self._indented()))
            else:
                self.description.append(line)
                self._next += 1

    def _peek(self, ahead: int) -> str:
        at = self._next + ahead
        return self._lines[at] if at < len(self._lines) else ""

    def _google_section(self) -> Iterator[str]:
        """The block under a heading: it ends with the first line that is not indented."""
        return self._indented(through_blank=True)

    def _numpy_section(self) -> Iterator[str]:
        """The block under an underlined heading: it ends with the next, or with a line that names no parameter."""
        while self._next < len(self._lines):
            line = self._lines[self._next]
            flush = line.strip() and not line[0].isspace()
            if flush and (_UNDERLINE.match(self._peek(1)) or not _NUMPY.match(line)):
                return
            self._next += 1
            yield line

    def _indented(self, *, through_blank: bool = False) -> Iterator[str]:
        while self._next < len(self._lines):
            line = self._lines[self._next]
            if (line.strip() and not line[0].isspace()) or not (line.strip() or through_blank):
                return
            self._next += 1
            yield line

    def _google(self, section: list[str]) -> list[str]:
        """Read `name (type): text`; the lines that nothing can be made of."""
        unread: list[str] = []
        depth = min((_depth(line) for line in section if line.strip()), default=0)
        lines: list[str] | None = None
        for line in filter(str.strip, section):
            found = _GOOGLE.match(line.strip()) if _depth(line) == depth else None
            if found:
                lines = self.arguments.setdefault(found["name"], [])
                lines.append(found["text"])
            elif _depth(line) > depth and lines is not None:
                lines.append(line.strip())
            else:
                lines = None
                unread.append(line)
        return unread

    def _numpy(self, section: list[str]) -> list[str]:
        """Read `name : type` and the indented text below it; the lines that nothing can be made of."""
        unread: list[str] = []
        names: list[str] = []
        for line in filter(str.strip, section):
            found = _NUMPY.match(line) if _depth(line) == 0 else None
            if found:
                names = re.split(r"\s*,\s*", found["names"])
                for name in names:
                    self.arguments.setdefault(name, [])
            elif names:
                for name in names:
                    self.arguments[name].append(line.strip())
            else:
                unread.append(line)
        return unread

    def _sphinx(self, found: re.Match[str], rest: list[str]) -> None:
        """Read `:param type name: text`, and the indented lines that go on."""
        words = (found["subject"] or "").split()
        if found["field"] in _SPHINX_ARGUMENTS and words:
            self.arguments.setdefault(words[-1], []).extend([found["text"], *map(str.strip, rest)])


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip())
