"""Prints the output of commands: text and JSON on stdout, notes and errors on stderr.

Text from a server is never read as markup. In tables, notes and errors its control characters are removed, since a
terminal obeys them. In the text of a tool they show as escapes where a terminal would obey them; a pipe or a file
gets the text unchanged, as JSON always is.
"""

from __future__ import annotations

import os
import re
import select
import sys
from contextlib import suppress
from typing import TextIO

# Escape sequences of ECMA-48: strings such as a window title, up to their end or the end of the line (an unclosed
# one must not hide the rest); CSI with parameters; the short ones. Then all other control characters except tab
# and newline.
_CONTROL = re.compile(
    r"\x1b[P\]X^_][^\x07\x1b\n]*(?:\x07|\x1b\\)?|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]|\x1b[ -/]*[0-~]"
    r"|[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]"
)
# Each of them alone, and what turns the direction of text.
_OBEYED = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")

#: A relayed line is cut at so many characters, which are at most 4,000 bytes of UTF-8.
MAX_RELAYED = 1_000


class CommandError(Exception):
    """The command line is wrong, or its input or output fails: one line says why and what to do."""


def strip_controls(text: str) -> str:
    """The text without escape sequences and control characters, which a terminal would obey.

    >>> strip_controls("\\x1b[31mred\\x1b[0m\\x07")
    'red'
    """
    return _CONTROL.sub("", text)


def one_line(text: str) -> str:
    """The text without control characters, and with single spaces for all white space."""
    return " ".join(strip_controls(text).split())


def escape_controls(text: str) -> str:
    """The text with escapes in place of what a terminal would obey; line ends and tabs stay.

    >>> escape_controls("\\x1b[31mred\\r\\n")
    '\\\\x1b[31mred\\n'
    """
    return _OBEYED.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text.replace("\r\n", "\n"))


def note(text: str) -> None:
    """Print one line for people on stderr."""
    _write_stderr(f"note: {one_line(text)}\n")


def print_error(error: BaseException) -> None:
    """Print the error's text in one line on stderr, then its notes: a server's stderr, secrets redacted."""
    _write_stderr(f"trio-mcp: {one_line(str(error)) or type(error).__name__}\n")
    for text in getattr(error, "__notes__", ()):
        for line in strip_controls(text).splitlines():
            _write_stderr(f"  {line}\n")


def relay(name: str, line: str) -> None:
    """Print a line from a server or a logger on stderr, cut at 1,000 characters; drop it while stderr is full.

    A pipe that is ready to write takes 4 KiB: a line of this length never blocks. The program that started us may
    leave our stderr unread for days, and calls must not wait for it.
    """
    if sys.stderr is not None and _has_room_for_a_line(sys.stderr):
        _write_stderr(f"{name}: {one_line(line)[:MAX_RELAYED]}\n")


def write(text: str) -> None:
    """Print text on stdout at once, with a line end; characters that its encoding lacks are escaped."""
    _write_stdout(_with_line_end(text).encode(_stdout().encoding or "utf-8", "backslashreplace"))


def write_result(text: str) -> None:
    """Print the text of a tool on stdout: unchanged, but for what a terminal would obey."""
    write(escape_controls(text) if _stdout().isatty() else text)


def write_error(text: str) -> None:
    """Print the text of a failed tool on stderr, with a line end; for a terminal with its controls escaped."""
    if sys.stderr is not None and sys.stderr.isatty():
        text = escape_controls(text)
    _write_stderr(_with_line_end(text))


def write_json(text: str) -> None:
    """Print JSON on stdout, always as UTF-8; a lone surrogate becomes its JSON escape."""
    _write_stdout(text.encode("utf-8", "backslashreplace") + b"\n")


def discard_output() -> None:
    """Throw away what stdout still buffers: the interpreter would try to write it at exit and print an error."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, _stdout().fileno())
    os.close(devnull)


def _write_stderr(text: str) -> None:
    if sys.stderr is not None:  # stderr was closed: print() would write to stdout instead
        with suppress(OSError):  # stderr fails: the failure cannot be reported anywhere
            sys.stderr.write(text)
            sys.stderr.flush()


def _has_room_for_a_line(stream: TextIO) -> bool:
    try:
        return bool(select.select([], [stream], [], 0)[1])
    except (OSError, ValueError):  # the stream has no descriptor, or this is Windows
        return True


def _write_stdout(data: bytes) -> None:
    stdout = _stdout()
    try:
        stdout.buffer.write(data)
        stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        discard_output()
        raise CommandError(f"cannot write to stdout: {error.strerror or error}") from error


def _stdout() -> TextIO:
    if sys.stdout is None:  # it was closed before we were started
        raise CommandError("stdout is closed: redirect it to a file or a pipe")
    return sys.stdout


def _with_line_end(text: str) -> str:
    return text if text.endswith("\n") or not text else text + "\n"
