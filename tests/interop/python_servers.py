"""The servers in Python that nobody here wrote, as data: time, git, sqlite, and one on each official SDK."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.interop import install
from tests.interop.scenario import BOTH, LEGACY, Call, Known, Scenario

SERVERS = Path(__file__).resolve().parent / "servers"


def time(tmp: Path) -> Scenario:
    """mcp-server-time."""
    berlin = {"timezone": "Europe/Berlin"}
    noon = {"source_timezone": "Asia/Kathmandu", "time": "12:00", "target_timezone": "UTC"}
    return Scenario(
        command=(str(install.program("time", "mcp-server-time")), "--local-timezone", "UTC"),
        calls=(
            Call("get_current_time", berlin, ("Europe/Berlin",), lambda it: it["timezone"] == "Europe/Berlin"),
            Call("convert_time", noon, ("06:15:00+00:00",), lambda it: it["time_difference"] == "-5.75h"),
            Call("get_current_time", {"timezone": "Mars/Olympus"}, ("Mars/Olympus",), is_error=True),
        ),
    )


def git(tmp: Path) -> Scenario:
    """mcp-server-git, on a repository with one commit, one staged file and one change that is not staged."""
    repo = tmp / "repository"
    repo.mkdir()
    # No configuration of the machine, and none of the repository's own, decides what the server finds.
    environment = {
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_SYSTEM": os.devnull,
        **{f"GIT_{who}_{what}": "a@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
    }

    def run(*arguments: str) -> None:
        subprocess.run(
            ["git", *arguments], cwd=repo, env={**os.environ, **environment}, check=True, capture_output=True
        )

    run("init", "--initial-branch=main")
    (repo / "kept.txt").write_text("one\n")
    run("add", "kept.txt")
    run("commit", "--message=the first")
    run("branch", "other")
    (repo / "kept.txt").write_text("one\ntwo\n")
    (repo / "new.txt").write_text("new\n")
    run("add", "new.txt")
    where = {"repo_path": str(repo)}
    return Scenario(
        command=(str(install.program("git", "mcp-server-git")), "--repository", str(repo)),
        environment=environment,
        calls=(
            Call("git_status", where, ("On branch main", "new.txt", "kept.txt")),
            Call("git_diff_unstaged", where, ("+two",)),
            Call("git_diff_staged", where, ("+new",)),
            Call("git_diff", {**where, "target": "other"}, ("Diff with other", "+two", "+new")),
            Call("git_log", where, ("the first",)),
            Call("git_show", {**where, "revision": "HEAD"}, ("the first", "+one")),
            Call("git_branch", {**where, "branch_type": "local"}, ("* main", "other")),
            Call("git_add", {**where, "files": ["kept.txt"]}, ("staged",)),
            Call("git_commit", {**where, "message": "the second"}, ("committed",)),
            Call("git_create_branch", {**where, "branch_name": "third"}, ("Created branch 'third'",)),
            Call("git_checkout", {**where, "branch_name": "third"}, ("third",)),
            Call("git_reset", where, ("reset",)),
            Call("git_log", {**where, "max_count": 1}, ("the second",)),
            Call("git_status", {"repo_path": str(tmp)}, ("outside",), is_error=True),
        ),
    )


def sqlite(tmp: Path) -> Scenario:
    """mcp-server-sqlite, which answers every failure as a plain text."""
    create, insert = (
        "CREATE TABLE pets (id INTEGER, name TEXT)",
        "INSERT INTO pets VALUES (1, 'Ada'), (2, 'Émile')",
    )
    return Scenario(
        command=(str(install.program("sqlite", "mcp-server-sqlite")), "--db-path", str(tmp / "pets.sqlite")),
        calls=(
            Call("create_table", {"query": create}, ("created",)),
            Call("write_query", {"query": insert}, ("'affected_rows': 2",)),
            Call("read_query", {"query": "SELECT * FROM pets"}, ("Ada", "Émile")),
            Call("list_tables", {}, ("pets",)),
            Call("describe_table", {"table_name": "pets"}, ("INTEGER", "name")),
            Call("append_insight", {"insight": "two pets"}, ("added",)),
            Call("read_query", {"query": "DELETE FROM pets"}, ("Only SELECT",)),
        ),
    )


def _sdk(environment: str, script: str, failure: str, elsewhere: tuple[str, ...]) -> Scenario:
    text = "grün \u2028 \U0001f40d\r\n\x0b"
    return Scenario(
        command=(str(install.program(environment, "python")), str(SERVERS / script)),
        calls=(
            Call("echo", {"text": text}, (text,), lambda it: it == {"result": text}),
            Call("add", {"a": 2**60, "b": 1}, (str(2**60 + 1),), lambda it: it == {"total": 2**60 + 1}),
            Call("picture", blocks=("Image",)),
            Call("steps", {"count": 3}, ("done",)),
            Call("fail", {"reason": "no luck"}, (failure,), is_error=True),
            Call("slow", {"seconds": 0.05}, ("awake",)),
            Call("add", {"a": "x"}, ("valid integer",), is_error=True),
        ),
        elsewhere=elsewhere,
    )


def sdk_v1(tmp: Path) -> Scenario:
    """A server on the official Python SDK 1.x."""
    return _sdk("sdk-v1", "sdk_v1.py", "no luck", ("ask",))


def sdk_v2(tmp: Path) -> Scenario:
    """A server on the official Python SDK 2.x, which hides what an unexpected exception said."""
    return _sdk("sdk-v2", "sdk_v2.py", "Error executing tool fail", ("ask", "grow"))


TIME = Known(time, ("time",), BOTH)
GIT = Known(git, ("git", "the git program"), BOTH)
SQLITE = Known(sqlite, ("sqlite",), LEGACY)
SDK_V1 = Known(sdk_v1, ("sdk-v1",), LEGACY)
SDK_V2 = Known(sdk_v2, ("sdk-v2",), BOTH)
