"""What a person or a program gets to see: text and JSON on stdout, notes and complaints on stderr.

What a server says is never taken for markup, and in tables, notes and complaints its control characters are
taken out, since a terminal obeys them. The text of a tool goes out as it came, as `cat` would give it.
"""

from __future__ import annotations

import os
import re
import select
import sys
from contextlib import suppress
from typing import TextIO

# Escape sequences as ECMA-48 has them: strings such as a window title up to their end (or the line's: one that is
# never closed must not hide the rest), CSI with parameters, the short ones; then whatever control characters are
# left, but tab and newline.
_CONTROL = re.compile(
    r"\x1b[P\]X^_][^\x07\x1b\n]*(?:\x07|\x1b\\)?|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]|\x1b[ -/]*[0-~]"
    r"|[\x00-\x08\x0b-\x1f\x7f-\x9f]"
)

#: Characters of a line that is relayed: at most 4,000 bytes as UTF-8.
RELAYED = 1_000


class CommandError(Exception):
    """The person at the command line is at fault, or the place where the output goes: one line says why."""


def clean(text: str) -> str:
    """The text without anything that a terminal would obey.

    >>> clean("\\x1b[31mred\\x1b[0m\\x07")
    'red'
    """
    return _CONTROL.sub("", text)


def one_line(text: str) -> str:
    """The text cleaned, with all white space as single spaces."""
    return " ".join(clean(text).split())


def note(text: str) -> None:
    """One line for people, on stderr."""
    _say(f"note: {one_line(text)}\n")


def complain(error: BaseException) -> None:
    """The error's own line on stderr, and under it its notes: a server's stderr, secrets redacted."""
    _say(f"trio-mcp: {one_line(str(error)) or type(error).__name__}\n")
    for text in getattr(error, "__notes__", ()):
        for line in clean(text).splitlines():
            _say(f"  {line}\n")


def relay(name: str, line: str) -> None:
    """One line of what others say on stderr, cut at 1,000 characters; dropped while nobody reads stderr.

    A pipe that takes anything takes 4 KiB: a line of this length never blocks. Whoever starts us may leave our
    stderr unread for days, and calls must not wait for that.
    """
    if sys.stderr is not None and _takes_a_line(sys.stderr):
        _say(f"{name}: {one_line(line)[:RELAYED]}\n")


def write(text: str) -> None:
    """Text on stdout, at once, as lines; what its encoding cannot express is shown escaped."""
    _write(_lines(text).encode(_stdout().encoding or "utf-8", "backslashreplace"))


def write_error(text: str) -> None:
    """The text of a failed tool on stderr, as lines, as it is."""
    _say(_lines(text))


def write_json(text: str) -> None:
    """JSON text on stdout, always UTF-8; a lone surrogate becomes the escape that JSON has for it."""
    _write(text.encode("utf-8", "backslashreplace") + b"\n")


def abandon_output() -> None:
    """Send what stdout still buffers nowhere, or the interpreter complains of it when it exits."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, _stdout().fileno())
    os.close(nowhere)


def _say(text: str) -> None:
    if sys.stderr is not None:  # print() would take stdout then
        with suppress(OSError):  # there is nobody to tell
            sys.stderr.write(text)
            sys.stderr.flush()


def _takes_a_line(stream: TextIO) -> bool:
    try:
        return bool(select.select([], [stream], [], 0)[1])
    except (OSError, ValueError):  # nothing that could be asked: no descriptor, or Windows
        return True


def _write(data: bytes) -> None:
    stdout = _stdout()
    try:
        stdout.buffer.write(data)
        stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        abandon_output()
        raise CommandError(f"stdout: {error.strerror or error}") from error


def _stdout() -> TextIO:
    if sys.stdout is None:  # it was closed before we were started
        raise CommandError("there is no stdout to write to")
    return sys.stdout


def _lines(text: str) -> str:
    return text if text.endswith("\n") or not text else text + "\n"
