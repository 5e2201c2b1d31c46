"""`list` and `call` as a person meets them: a real command line, a real server behind it, exit codes and all."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from tests.cli.command_line import ENVIRONMENT, SERVER, config, entry, run

SECRET = "hunter2-hunter2-hunter2"
LONG = "a.dotted.name.that.is.longer.than.a.model.may.be.given.by.far"

pytestmark = pytest.mark.skipif(os.name != "posix", reason="stdio servers are POSIX only")


# --- list --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_list_shows_each_tool_on_a_line_with_names_whole(tmp_path: Path) -> None:
    done = run("list", "--config", config(tmp_path, one=entry(), two=entry()))
    assert (done.returncode, done.stderr) == (0, "")
    heading, *lines = done.stdout.splitlines()
    assert heading.split() == ["server", "tool", "arguments", "description"]
    assert [line.split()[:2] for line in lines if "echo" in line] == [["one", "echo"], ["two", "echo"]]
    assert sum(LONG in line.split() for line in lines) == 2
    (echo, _) = (line for line in lines if "echo" in line)
    assert echo.endswith("text, times?  Says it again.")
    assert echo.index("Says") == heading.index("description")


def test_list_takes_what_a_terminal_would_obey_out_of_a_description(tmp_path: Path) -> None:
    done = run("list", "--", *SERVER)
    assert "One variable [bold]here[/bold]." in done.stdout
    assert "\x1b" not in done.stdout


def test_list_of_one_server_starts_only_that_one(tmp_path: Path) -> None:
    done = run("list", "one", "--json", "--config", config(tmp_path, one=entry(), two=entry("--die", "never")))
    assert (done.returncode, done.stderr) == (0, "")
    assert {row["server"] for row in json.loads(done.stdout)} == {"one"}


def test_list_json_is_an_array_with_the_schemas_as_sent() -> None:
    done = run("list", "--json", "--", *SERVER)
    assert (done.returncode, done.stderr) == (0, "")
    rows = json.loads(done.stdout)
    name = "python" + "-".join(Path(sys.executable).name.removeprefix("python").split("."))
    assert list(rows[0]) == ["server", "name", "remote_name", "description", "inputSchema"]
    assert (rows[0]["server"], rows[0]["name"], rows[0]["remote_name"]) == (name, f"mcp__{name}__echo", "echo")
    assert rows[0]["description"].endswith("Says it again.\n\nA manual that no table shows.")
    assert rows[0]["inputSchema"]["required"] == ["text"]
    assert rows[-1]["remote_name"] == LONG
    assert '"inputSchema": {"type": "object"}}' in done.stdout


def test_a_broken_server_is_reported_and_the_good_ones_are_listed_all_the_same(tmp_path: Path) -> None:
    """The reason in one line, the stderr tail below it without escape sequences, and no secret anywhere."""
    bad = entry("--die", f"\x1b[31mcannot log in with {SECRET}\x1b[0m", "--token", SECRET)
    done = run("list", "--json", "--config", config(tmp_path, bad=bad, good=entry()))
    assert done.returncode == 2
    assert {row["server"] for row in json.loads(done.stdout)} == {"good"}
    first, *rest = done.stderr.splitlines()
    assert first.startswith('trio-mcp: server "bad" did not start: ')
    assert "status 3" in first
    assert any("cannot log in with ***" in line and line.startswith("  ") for line in rest)
    assert SECRET not in done.stderr
    assert "\x1b" not in done.stderr
    assert done.stderr.count("did not start") == 1


def test_a_command_that_does_not_exist_is_one_line_and_exit_code_2() -> None:
    done = run("list", "--", "no-such-command-here")
    assert (done.returncode, done.stdout) == (2, "")
    assert 'trio-mcp: server "no-such-command-here" did not start: ' in done.stderr


def test_warnings_of_the_file_and_of_the_server_are_notes(tmp_path: Path) -> None:
    file = config(tmp_path, one=entry("--odd"), two={"command": "x", "disabled": True})
    done = run("list", "--json", "--config", file)
    assert done.returncode == 0
    assert 'note: server "two" is left out: disabled' in done.stderr
    assert 'note: server "one": ' in done.stderr
    assert "odd" in done.stderr
    assert "odd" not in {row["remote_name"] for row in json.loads(done.stdout)}


def test_what_the_library_warns_of_is_a_note_without_escape_sequences() -> None:
    done = run("call", "echo", '{"text": "hi"}', "--", *SERVER, "--banner", "\x1b[31mWelcome!\x1b[0m")
    assert (done.returncode, done.stdout) == (0, "hi\n")
    assert done.stderr.startswith("note: server ")
    assert "Welcome!" in done.stderr
    assert "\x1b" not in done.stderr


def test_a_server_without_tools_is_an_empty_array_and_a_note() -> None:
    done = run("list", "--json", "--", *SERVER, "--empty")
    assert (done.returncode, json.loads(done.stdout)) == (0, [])
    assert "has no tools" in done.stderr


def test_a_file_without_servers_lists_nothing(tmp_path: Path) -> None:
    done = run("list", "--json", "--config", config(tmp_path))
    assert (done.returncode, done.stdout) == (0, "[]\n")


def test_a_server_by_url_that_is_not_there_is_a_sentence(tmp_path: Path) -> None:
    done = run("list", "--json", "--config", config(tmp_path, far={"url": "http://127.0.0.1:9/mcp"}, one=entry()))
    assert done.returncode == 2
    assert {row["server"] for row in json.loads(done.stdout)} == {"one"}
    assert done.stderr.startswith('trio-mcp: server "far" did not start: cannot be reached: ')


# --- call --------------------------------------------------------------------------------------------------------


def test_call_prints_the_text_as_it_came() -> None:
    text = "[bold]no markup[/bold] \x1b[31mred\x1b[0m :smile: é"
    done = run("call", "echo", json.dumps({"text": text}), "--", *SERVER)
    assert (done.returncode, done.stdout, done.stderr) == (0, text + "\n", "")


@pytest.mark.parametrize("name", ["echo", "mcp__one__echo"])
def test_call_takes_the_own_name_of_a_tool_and_its_mcp_name(tmp_path: Path, name: str) -> None:
    done = run("call", "one", name, '{"text": "hi"}', "--config", config(tmp_path, one=entry()))
    assert (done.returncode, done.stdout) == (0, "hi\n")


def test_call_does_not_double_the_newline_at_the_end() -> None:
    assert run("call", "echo", '{"text": "hi\\n"}', "--", *SERVER).stdout == "hi\n"


def test_call_without_json_sends_no_arguments_and_the_blocks_are_shown_for_people() -> None:
    assert run("call", "picture", "--", *SERVER).stdout == "look:\n[image image/png, 3 bytes]\n"
    assert run("call", "structured", "--", *SERVER).stdout == "for people\n"


def test_a_dash_reads_the_arguments_from_stdin() -> None:
    done = run("call", "echo", "-", "--", *SERVER, input='{\r\n"text": "from stdin"}\n')
    assert (done.returncode, done.stdout) == (0, "from stdin\n")


def test_call_json_is_the_result_with_everything_in_it() -> None:
    picture = run("call", "picture", "--json", "--", *SERVER)
    assert json.loads(picture.stdout) == {
        "content": [
            {"type": "text", "text": "look:"},
            {"type": "image", "data": "AAAA", "mimeType": "image/png"},
        ],
        "_meta": {"a": 1},
    }
    structured = run("call", "structured", "--json", "--", *SERVER)
    assert json.loads(structured.stdout)["structuredContent"] == {"pi": 3.10}


def test_a_lone_surrogate_is_escaped_in_text_and_stays_json_in_json() -> None:
    assert run("call", "surrogate", "--", *SERVER).stdout == "<\\ud800>\n"
    done = run("call", "surrogate", "--json", "--", *SERVER)
    assert json.loads(done.stdout)["content"][0]["text"] == "<\ud800>"


@pytest.mark.slow
def test_text_that_the_terminal_cannot_express_is_escaped_and_json_is_utf_8_all_the_same() -> None:
    ascii_only = {**ENVIRONMENT, "PYTHONIOENCODING": "ascii"}
    arguments = ("echo", '{"text": "\\u20ac"}')
    assert run("call", *arguments, "--", *SERVER, env=ascii_only).stdout == "\\u20ac\n"
    as_sent = run("call", *arguments, "--json", "--", *SERVER, env=ascii_only).stdout
    assert json.loads(as_sent)["content"][0]["text"] == "€"


def test_a_failed_tool_exits_1_with_its_text_on_stderr_as_it_came() -> None:
    done = run("call", "fail", "--", *SERVER)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "[red]it \x1b[31mfailed\x1b[0m\n")


def test_a_failed_tool_with_json_exits_1_with_the_json_on_stdout() -> None:
    done = run("call", "fail", "--json", "--", *SERVER)
    assert done.returncode == 1
    assert json.loads(done.stdout)["isError"] is True
    assert "failed" in done.stderr


def test_a_tool_that_fails_without_a_word_gets_the_standard_text() -> None:
    done = run("call", "mute", "--", *SERVER)
    assert (done.returncode, done.stderr) == (1, "mcp: tool returned an error\n")


def test_an_unknown_tool_exits_2_and_names_what_may_have_been_meant() -> None:
    done = run("call", "ecko", "--", *SERVER)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == 'trio-mcp: unknown tool "ecko"; did you mean "echo"?\n'


def test_a_request_error_exits_2() -> None:
    done = run("call", "refuse", "--", *SERVER)
    assert (done.returncode, done.stderr) == (2, "trio-mcp: no such method (code -32601)\n")


def test_a_server_lost_during_the_call_exits_2_with_its_stderr() -> None:
    done = run("call", "vanish", "--", *SERVER)
    assert done.returncode == 2
    assert "stopped: exited with status 4" in done.stderr.splitlines()[0]
    assert "no reason" in done.stderr
    assert "\x1b" not in done.stderr


def test_behind_the_dashes_the_server_gets_the_environment_of_the_caller() -> None:
    done = run("call", "env", '{"name": "HERE"}', "--", *SERVER, env={**ENVIRONMENT, "HERE": "yes"})
    assert done.stdout == "yes\n"


def test_in_a_file_the_server_gets_its_env_and_the_safe_few(tmp_path: Path) -> None:
    file = config(tmp_path, one=entry(env={"MINE": "${HERE}"}))
    environment = {**ENVIRONMENT, "HERE": "yes"}
    for name, expected in (("MINE", "yes\n"), ("HERE", "(unset)\n"), ("PATH", os.environ["PATH"] + "\n")):
        done = run("call", "one", "env", json.dumps({"name": name}), "--config", file, env=environment)
        assert (done.stdout, done.returncode) == (expected, 0)


def test_what_follows_the_dashes_is_the_servers_even_where_it_looks_like_ours() -> None:
    done = run("call", "echo", '{"text": "x"}', "--", *SERVER, "--json", "--config", "absent", "--")
    assert (done.returncode, done.stdout) == (0, "x\n")


def test_no_progress_is_asked_for_where_nobody_could_see_it() -> None:
    assert run("call", "steps", "--", *SERVER).stdout == "nobody asked for steps\n"
