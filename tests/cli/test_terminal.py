"""What a terminal shows: the table and the bar, under a real pseudo-terminal; and what is kept from it."""

from __future__ import annotations

import fcntl
import json
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


def run_in_terminal(*arguments: str, columns: int = 120, **variables: str) -> tuple[int, str]:
    """The exit code, and everything that reached a terminal of that width."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    environment = {**ENVIRONMENT, "TERM": "xterm"}
    for name in ("NO_COLOR", "COLUMNS", "LINES", "FORCE_COLOR", "TTY_COMPATIBLE"):
        environment.pop(name, None)
    environment |= variables
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


HOSTILE = "a\x1b]0;title\x07b\x1b[2J\u202ec\r\n\td"


def test_the_text_of_a_tool_is_shown_harmless_on_a_terminal_and_verbatim_in_a_pipe() -> None:
    arguments = json.dumps({"text": HOSTILE})
    _, shown = run_in_terminal("call", "echo", arguments)
    assert shown.expandtabs() == "a\\x1b]0;title\\x07b\\x1b[2J\\u202ec\r\n        d\r\n"
    piped = subprocess.run(
        [*COMMAND, "call", "echo", arguments, "--", *SERVER], env=ENVIRONMENT, capture_output=True, check=True
    )
    assert piped.stdout == f"{HOSTILE}\n".encode()
    _, as_json = run_in_terminal("call", "echo", arguments, "--json")
    assert json.loads(as_json)["content"][0]["text"] == HOSTILE


def test_the_text_of_a_failed_tool_is_shown_harmless_on_a_terminal() -> None:
    code, shown = run_in_terminal("call", "fail")
    assert (code, shown) == (1, "[red]it \\x1b[31mfailed\\x1b[0m\r\n")


def test_no_name_and_no_description_of_a_server_is_obeyed_by_the_terminal() -> None:
    _, shown = run_in_terminal("list")
    assert "\x1b[31m" not in shown
    assert "One variable [bold]here[/bold]." in " ".join(strip_controls(shown).split())


@pytest.mark.table(
    ("text", "left"),
    [
        ("a\x1b[1;31mb\x1b[0mc", "abc"),
        ("\x1b]0;title\x07x\x1b]52;c;AAAA\x1b\\y", "xy"),
        ("\x1b]0;never closed\nseen", "\nseen"),
        ("\x9b31mx\x85", "x"),
        ("\x1b(Bx\x1bcy\x1b", "xy"),
        ("a\u202eb\u2066c", "abc"),
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
