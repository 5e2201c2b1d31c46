"""What is wrong before anything is started: one line on stderr and exit code 2. All of it runs in this process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command_line import ENVIRONMENT, PATIENCE, config, entry
from trio_mcp.cli.app import run, split
from trio_mcp.cli.targets import nearest
from trio_mcp.version import __version__


@pytest.fixture
def outcome(capsys: pytest.CaptureFixture[str]) -> Any:
    """Run the command line here: exit code, stdout, stderr."""

    def outcome(*arguments: str) -> tuple[int, str, str]:
        code = run(arguments)
        return (code, *capsys.readouterr())

    return outcome


@pytest.mark.table(
    ("arguments", "said"),
    [
        (("list",), "which server? give --config FILE, --url URL or -- COMMAND ARGS…"),
        (("list", "--"), "there is no command after --: write -- COMMAND ARGS…"),
        (("list", "one", "--", "x"), 'leave out "one": with -- there is no server name'),
        (("list", "--config", "f", "--", "x"), "give only one of --config FILE, --url URL and -- COMMAND ARGS…"),
        (("list", "--config", "absent.json"), "absent.json cannot be read: No such file or directory"),
        (("list", "--config"), "--config"),
        (("list", "one", "two"), "two"),
        (("list", "--nope"), "nope"),
        (("nope",), "nope"),
        (("call", "--", "x"), "call takes TOOL [JSON], and --url URL or -- COMMAND ARGS…"),
        (("call", "a", "b", "c", "--", "x"), "call takes TOOL [JSON], and --url URL or -- COMMAND ARGS…"),
        (("call", "--url", "http://h/"), "call takes TOOL [JSON], and --url URL or -- COMMAND ARGS…"),
        (("list", "one", "--url", "http://h/"), 'leave out "one": with --url there is no server name'),
        (
            ("list", "--url", "http://h/", "--", "x"),
            "give only one of --config FILE, --url URL and -- COMMAND ARGS…",
        ),
        (("list", "--url", "http://h/", "--config", "f"), "give only one of --config FILE, --url URL and"),
        (("list", "--url", "ftp://h/"), "url: is no http or https URL"),
        (("list", "--url", "http://["), "url: is no http or https URL"),
        (("list", "--url", "http://me:hidden@h/"), "a password does not belong on a command line"),
        (("list", "--header", "A: b"), "--header and --bearer-env need --url URL"),
        (("list", "--bearer-env", "A"), "--header and --bearer-env need --url URL"),
        (
            ("list", "--url", "http://h/", "--bearer-env", "NOT_SET"),
            "environment variable NOT_SET is not set or empty",
        ),
        (
            ("list", "--url", "http://h/", "--header", "A: ${NOT_SET}"),
            "--header A: the environment variable NOT_SET",
        ),
        (("list", "--url", "http://h/", "--header", "A"), "--header takes 'Name: ${VAR}'"),
        (("list", "--url", "http://h/", "--header", "X-Api-Key: hidden"), "a secret does not belong on a command"),
        (("list", "--url", "http://h/", "--header", "Authorization: Bearer hidden"), "a secret does not belong"),
        (("list", "--url", "http://h/", "--header", "Mcp-Name: x"), "belongs to the transport"),
        (("call", "one", "--config", "f"), "call takes SERVER TOOL [JSON] --config FILE"),
        (("call", "one", "echo", "--jsn", "--config", "f"), "unknown option --jsn"),
        (("call", "one", "echo"), "which server?"),
        (("call", "one", '{"text": "a"}', "--config", "f"), "--config FILE: one of the two names is missing"),
        (("list", "--", ""), "command"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_code_2(outcome: Any, arguments: tuple[str, ...], said: str) -> None:
    code, out, err = outcome(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith("trio-mcp: ")
    assert said in err
    assert err.count("\n") == 1
    assert "hidden" not in err


def test_an_unknown_server_exits_2_and_names_what_may_have_been_meant(outcome: Any, tmp_path: Path) -> None:
    file = config(tmp_path, weather=entry())
    near = f'trio-mcp: no server "wether" in {file}; did you mean "weather"?\n'
    assert outcome("list", "wether", "--config", file) == (2, "", near)
    assert outcome("list", "x", "--config", file) == (
        2,
        "",
        f'trio-mcp: no server "x" in {file}; its servers are weather\n',
    )


def test_a_file_without_servers_is_a_note(outcome: Any, tmp_path: Path) -> None:
    file = config(tmp_path)
    assert outcome("list", "--config", file) == (0, "", f"note: {file} has no server that could be started\n")


def test_help_tells_the_ways_to_call(outcome: Any) -> None:
    code, out, err = outcome("call", "--help")
    assert (code, err) == (0, "")
    assert "trio-mcp call TOOL [JSON] [--json] -- COMMAND ARGS…" in out


def test_nothing_asked_is_the_help_and_exit_code_2(outcome: Any) -> None:
    code, out, _ = outcome()
    assert code == 2
    assert "list" in out


def test_version_answers_without_the_extra() -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "trio_mcp", "--version"],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    assert done.stdout == f"trio-mcp {__version__}\n"
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "trio_mcp.version" in imported
    assert not imported & {"cyclopts", "rich", "trio", "httpx", "attrs", "msgspec"}


@pytest.mark.parametrize("missing", ["cyclopts", "rich"])
def test_without_the_extra_there_is_a_sentence_and_exit_code_2(missing: str) -> None:
    code = f"import sys; sys.modules[{missing!r}] = None; from trio_mcp.__main__ import main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", code, "list"],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"trio-mcp: the command line needs {missing}: pip install 'trio-mcp[cli]'\n"


@pytest.mark.table("text", ["{", "[1]", '{"a": NaN}', "1", '{"a": 1} x'])
def test_bad_json_exits_2_before_anything_is_started(outcome: Any, text: str) -> None:
    code, out, err = outcome("call", "echo", text, "--", "no-such-command-here")
    assert (code, out) == (2, "")
    assert err.startswith('trio-mcp: arguments for "echo" are not a JSON object: ')


def test_split_is_at_the_first_dashes_alone() -> None:
    assert split(["call", "t", "--", "x", "--", "y"]) == (["call", "t"], ("x", "--", "y"))
    assert split(["list", "--"]) == (["list"], ())
    assert split(["list"]) == (["list"], None)


def test_nearest_says_nothing_where_nothing_is_near() -> None:
    assert nearest("zzz", ["echo"]) == ""
    assert nearest("ech", ["echo", "etch", "add"]) == '; did you mean "etch" or "echo"?'
