"""What a terminal shows: the table and the bar, under a real pseudo-terminal; and what is kept from it."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import termios

import pytest

from tests.cli.command_line import COMMAND, ENVIRONMENT, SERVER
from trio_mcp.cli.json_output import array_text, object_text
from trio_mcp.cli.terminal import one_line, strip_controls

LONG = "a.dotted.name.that.is.longer.than.a.model.may.be.given.by.far"

pytestmark = pytest.mark.slow  # Python starts anew for each test


def run_in_terminal(*arguments: str, columns: int = 120) -> tuple[int, str]:
    """The exit code, and everything that reached a terminal of that width."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    environment = {**ENVIRONMENT, "TERM": "xterm"}
    for name in ("NO_COLOR", "COLUMNS", "LINES", "FORCE_COLOR", "TTY_COMPATIBLE"):
        environment.pop(name, None)
    with subprocess.Popen(
        [*COMMAND, *arguments, "--", *SERVER],
        env=environment,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    ) as process:
        os.close(theirs)
        shown = b""
        with open(ours, "rb", buffering=0) as terminal:
            while True:
                try:
                    shown += (piece := terminal.read(65536))
                except OSError:  # Linux: EIO when the last one at the other end has closed it
                    break
                if not piece:
                    break
    return process.returncode, shown.decode()


def test_the_table_fits_the_terminal_and_breaks_descriptions_not_names() -> None:
    code, shown = run_in_terminal("list", columns=100)
    lines = strip_controls(shown).splitlines()
    assert code == 0
    assert all(len(line.rstrip()) <= 100 for line in lines)
    assert any(line.split()[1:2] == [LONG] for line in lines)
    assert "[bold]here[/b" in "".join(lines)


def test_a_narrow_terminal_loses_no_letter_of_a_name() -> None:
    _, shown = run_in_terminal("list", columns=50)
    assert "…" not in shown
    letters = "".join(strip_controls(shown).split())
    assert all(part in letters for part in LONG.split("."))


def test_the_progress_of_a_call_is_a_bar_whose_messages_are_no_markup() -> None:
    code, shown = run_in_terminal("call", "steps")
    assert code == 0
    assert "steps: [b]step " in strip_controls(shown)
    assert strip_controls(shown).rstrip().endswith("stepped")


def test_a_call_without_progress_shows_nothing_but_its_text() -> None:
    code, shown = run_in_terminal("call", "echo", '{"text": "hi"}')
    assert (code, shown) == (0, "hi\r\n")


@pytest.mark.table(
    ("text", "left"),
    [
        ("a\x1b[1;31mb\x1b[0mc", "abc"),
        ("\x1b]0;title\x07x\x1b]52;c;AAAA\x1b\\y", "xy"),
        ("\x1b]0;never closed\nseen", "\nseen"),
        ("\x9b31mx\x85", "x"),
        ("\x1b(Bx\x1bcy\x1b", "xy"),
        ("a\r\nb\tc\rd\be\x7f\x00", "a\nb\tcde"),
    ],
)
def test_strip_controls_removes_whatever_a_terminal_would_obey(text: str, left: str) -> None:
    assert strip_controls(text) == left


def test_one_line_leaves_single_spaces() -> None:
    assert one_line(" a\n\tb\x1b[0m  c\r\n") == "a b c"


def test_bytes_go_into_json_verbatim() -> None:
    assert object_text({"a": 'é"', "b": b'{"x":1.10}'}) == '{"a": "é\\"", "b": {"x":1.10}}'
    assert array_text([]) == "[]"
    assert array_text(["1", "2"]) == "[\n1,\n2\n]"
