"""`trio-mcp serve`: what it serves, how it ends, and what it says of a target that is none."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.child import Child, call, line, parsed, text_of
from tests.cli.command_line import COMMAND, ENVIRONMENT, PATIENCE, run
from tests.exposing import HANDSHAKE
from trio_mcp.cli import app

MODULE = '''
import sys, time
from trio_mcp import ToolServer, raw_tool, tool

print("hello from the module")

@tool
def shout(text: str) -> str:
    """Say it louder."""
    return text.upper()

def block() -> str:
    sys.stderr.write("blocking\\n")
    sys.stderr.flush()
    time.sleep(1000)

everything = [shout, tool(block)]
generated = (tool(name=name)(lambda: None) for name in ("a", "b"))
server = ToolServer("mine", version="3")
server.add_tools(shout)

class Holder:
    class inner:
        tools = (shout,)

plain = len
number = 7
text = "shout"
mapping = {"shout": shout}
twice = [shout, shout]
empty = []
'''


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "mine.py").write_text(MODULE)
    (tmp_path / "broken.py").write_text("x = 1\n1/0\n")
    (tmp_path / "leaving.py").write_text("import sys\nsys.exit('not today')\n")
    (tmp_path / "missing.py").write_text("import nowhere_at_all\n")
    (tmp_path / "wrong.py").write_text("def wrong(:\n")
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("")
    (tmp_path / "package" / "inside.py").write_text(MODULE)
    return tmp_path


Here = Callable[..., int]


@pytest.fixture
def here(directory: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Here]:
    """Run the command line in this process, in the directory: many quick refusals need no process each."""
    monkeypatch.chdir(directory)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield lambda *arguments: app.run(arguments)
    for name in [*(path.stem for path in directory.glob("*.py")), "package", "package.inside"]:
        sys.modules.pop(name, None)


def served(directory: Path, target: str) -> tuple[str, list[str]]:
    """The name and the tools of what is served."""
    lines = line(1, "initialize", HANDSHAKE) + line(2, "tools/list")
    done = run("serve", target, input=lines, cwd=directory)
    assert done.returncode == 0, done.stderr
    answers = parsed(done.stdout)
    return answers[1]["serverInfo"]["name"], [entry["name"] for entry in answers[2]["tools"]]


@pytest.mark.parametrize(
    ("target", "name", "tools"),
    [
        ("mine:shout", "mine", ["shout"]),
        ("mine:everything", "mine", ["shout", "block"]),
        ("mine:server", "mine", ["shout"]),
        ("mine:generated", "mine", ["a", "b"]),
        ("mine:Holder.inner.tools", "mine", ["shout"]),
        ("mine:empty", "mine", []),
        ("package.inside:everything", "package.inside", ["shout", "block"]),
        ("trio_mcp.demo:server", "trio-mcp-demo", ["echo", "add", "slow", "flaky", "picture", "ask"]),
    ],
)
def test_a_tool_a_list_or_a_server_is_served(directory: Path, target: str, name: str, tools: list[str]) -> None:
    assert served(directory, target) == (name, tools)


def test_what_the_module_prints_is_not_for_the_client(directory: Path) -> None:
    done = run("serve", "mine:shout", input=line(1, "ping"), cwd=directory)
    assert (json.loads(done.stdout)["id"], done.stderr) == (1, "hello from the module\n")


@pytest.mark.parametrize(
    ("target", "complaint"),
    [
        ("mine", "expected MODULE:TOOLS, such as words:server, got 'mine'"),
        ("mine:", "expected MODULE:TOOLS, such as words:server, got 'mine:'"),
        (":shout", "expected MODULE:TOOLS, such as words:server, got ':shout'"),
        ("nowhere:tools", "there is no module 'nowhere' (looked in "),
        ("mine.py:shout", "there is no module 'mine.py' (looked in "),
        ("package.nowhere:tools", "there is no module 'package.nowhere' (looked in "),
        ("missing:tools", "importing missing failed: ModuleNotFoundError: No module named 'nowhere_at_all'"),
        ("broken:tools", "importing broken failed: ZeroDivisionError: division by zero (broken.py:2)"),
        ("leaving:tools", "importing leaving failed: SystemExit: not today (leaving.py:2)"),
        ("wrong:tools", "importing wrong failed: SyntaxError: invalid syntax (wrong.py, line 1)\n"),
        ("./mine:shout", "'./mine' is a file, not a module: mine:shout, from its directory"),
        ("package/inside.py:shout", "'package/inside.py' is a file, not a module: inside:shout, "),
        ("mine:block", "mine:block is a function, neither a tool nor a list of tools nor a ToolServer; @tool"),
        ("mine:nothing", "mine has no 'nothing'"),
        ("mine:Holder.nothing", "mine has no 'Holder.nothing'"),
        ("mine:plain", "mine:plain is a builtin_function_or_method, neither a tool nor a list of tools"),
        ("mine:number", "mine:number is a int, neither a tool nor a list of tools nor a ToolServer"),
        ("mine:text", "mine:text is a str, neither"),
        ("mine:mapping", "mine:mapping: tools: expected Tool, got str"),
        ("mine:twice", "mine:twice: tools: 'shout' comes twice"),
    ],
)
def test_a_target_that_is_none_is_one_line_and_exit_code_2(
    directory: Path, target: str, complaint: str, here: Here, capfd: pytest.CaptureFixture[str]
) -> None:
    assert here("serve", target) == 2
    out, err = capfd.readouterr()
    said = err.replace("hello from the module\n", "")
    assert (out, said.count("\n"), "Traceback" in said) == ("", 1, False)
    assert said.startswith(f"trio-mcp: {complaint}")


def test_no_target_leaves_the_process_with_a_traceback(directory: Path) -> None:
    done = run("serve", "broken:tools", cwd=directory)
    complaint = "trio-mcp: importing broken failed: ZeroDivisionError: division by zero (broken.py:2)\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", complaint)


def test_without_a_target_the_usage_error_is_exit_code_2(here: Here, capfd: pytest.CaptureFixture[str]) -> None:
    assert here("serve") == 2
    out, err = capfd.readouterr()
    assert (out, "MODULE:TOOLS" in err) == ("", True)


@pytest.mark.slow
def test_at_a_terminal_it_says_what_it_waits_for_and_how_to_end_it(directory: Path) -> None:
    ours, theirs = pty.openpty()
    os.write(ours, b"\x04")  # what Ctrl-D sends: the end of the input
    done = subprocess.run(
        [*COMMAND, "serve", "mine:server"],
        env=ENVIRONMENT,
        cwd=directory,
        stdin=theirs,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    os.close(theirs)
    os.close(ours)
    assert (done.returncode, done.stdout) == (0, "")
    said = "note: mine waits for a client on stdin and stdout; Ctrl-C ends it\n"
    assert done.stderr == "hello from the module\n" + said


@pytest.mark.slow
@pytest.mark.parametrize(("closing", "number"), [("<&-", 0), (">&-", 1)])
def test_a_closed_descriptor_is_one_line_and_exit_code_2(directory: Path, closing: str, number: int) -> None:
    done = subprocess.run(
        ["sh", "-c", f'exec "$@" {closing}', "sh", *COMMAND, "serve", "trio_mcp.demo:server"],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    complaint = f"trio-mcp: descriptor {number} is closed: there is no client to serve over stdio\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", complaint)


# --- signals


@contextmanager
def serving(directory: Path, target: str) -> Iterator[Child]:
    """A command that serves, up to its first answer."""
    process = subprocess.Popen(
        [*COMMAND, "serve", target],
        env=ENVIRONMENT,
        cwd=directory,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )
    with process:
        try:
            child = Child(process)
            child.send(line("first", "ping"))
            assert child.take() == ("first", {})
            yield child
        finally:
            process.kill()


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_with_exit_code_0_and_no_traceback(directory: Path, number: signal.Signals) -> None:
    with serving(directory, "trio_mcp.demo:server") as server:
        server.process.send_signal(number)
        assert server.ended_within(2) < 2
        assert (server.stdout.read(), server.stderr.read()) == ("", "")


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_at_a_signal_a_call_in_flight_gets_its_grace_and_a_blocking_one_does_not_hold_it_up(
    directory: Path, number: signal.Signals
) -> None:
    with serving(directory, "mine:everything") as server:
        assert server.stderr.readline() == "hello from the module\n"
        server.send(call(1, "block"))
        assert server.stderr.readline() == "blocking\n"
        server.process.send_signal(number)
        server.process.send_signal(number)  # a second one does not hurry it into a traceback
        server.ended_within(1.5 + 2)
        assert (server.stdout.read(), server.stderr.read()) == ("", "")


@pytest.mark.slow
def test_a_call_that_is_done_within_the_grace_is_answered_after_a_signal(directory: Path) -> None:
    with serving(directory, "trio_mcp.demo:server") as server:
        server.send(call(1, "slow", seconds=0.5), line(2, "ping"))
        assert server.take() == (2, {})
        server.process.send_signal(signal.SIGTERM)
        id_, result = server.take()
        assert (id_, text_of(result)) == (1, "took 0.5 s")
        server.ended_within(2)
