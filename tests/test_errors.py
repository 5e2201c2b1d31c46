"""The exceptions: their kinds, their texts, and what they keep from models, logs and each other."""

from __future__ import annotations

import copy
import pickle
import signal
import traceback
from typing import Any

import pytest

from trio_mcp import errors
from trio_mcp.errors import (
    ApprovalRequiredError,
    AuthError,
    ExchangeError,
    InvalidArgumentsError,
    InvalidServerError,
    MCPError,
    NotOfferedError,
    ProtocolError,
    RequestError,
    ServerStartError,
    ServerStoppedError,
    SkippedToolError,
    ToolError,
    ToolImportError,
    Unauthorized,
    UnknownToolError,
    describe_exit,
    renewed,
)
from trio_mcp.models.result import ToolResult
from trio_mcp.redaction import Redactor

SECRET = "hunter2-hunter2"


def stopped(**facts: Any) -> ServerStoppedError:
    return ServerStoppedError(
        "time",
        **{
            "command": ("serve", "--token", "***"),
            "returncode": -9,
            "stderr_tail": f"first line\nlogged in with {SECRET}\n",
            "redactor": Redactor([SECRET]),
            **facts,
        },
    )


def skipped(index: int, reason: str = "no-schema") -> SkippedToolError:
    return SkippedToolError(f"tool{index}", index, reason)


EVERY_ERROR: list[MCPError] = [
    InvalidServerError("url", "is no URL"),
    InvalidArgumentsError("add", "got int"),
    UnknownToolError("add", nearest=["added"]),
    ServerStartError("time", "timed out after 60s", status=503),
    stopped(),
    ExchangeError("time", "answered with HTTP 502 Bad Gateway", status=502),
    RequestError(-32602, "Unknown tool", {"name": "add"}),
    ProtocolError("no JSON", b"{"),
    AuthError("time", 401, [{"scheme": "Bearer", "realm": "x"}]),
    Unauthorized({"scheme": "Bearer", "error": "invalid_token"}),
    ToolError("no such file", ToolResult("no such file", is_error=True)),
    ApprovalRequiredError("add"),
    NotOfferedError("sampling"),
    skipped(3),
    ToolImportError("some tools", [skipped(1), skipped(2)]),
]


# --- kinds


@pytest.mark.table(
    ("error", "base"),
    [
        (InvalidServerError, ValueError),
        (InvalidArgumentsError, ValueError),
        (UnknownToolError, LookupError),
        (ToolImportError, ExceptionGroup),
    ],
)
def test_some_errors_are_builtin_ones_too(error: type[Exception], base: type[Exception]) -> None:
    assert issubclass(error, base)
    assert issubclass(error, MCPError)


def test_every_public_exception_is_an_mcp_error_and_has_an_example_here() -> None:
    public = {
        value
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, Exception) and not name.startswith("_")
    }
    assert public == {type(error) for error in EVERY_ERROR} | {MCPError}
    assert all(isinstance(error, MCPError) for error in EVERY_ERROR)


def test_no_error_about_the_peer_is_a_value_error() -> None:
    """Else `except ValueError` around your own mistakes would hide theirs."""
    for error in EVERY_ERROR:
        if not isinstance(error, InvalidServerError | InvalidArgumentsError):
            assert not isinstance(error, ValueError)


# --- texts


@pytest.mark.table(
    ("error", "text"),
    [
        (InvalidServerError("url", "is no URL"), "url: is no URL"),
        (InvalidArgumentsError("add", "got int"), 'arguments for "add" are not a JSON object: got int'),
        (UnknownToolError("add"), 'unknown tool "add"'),
        (UnknownToolError("ad", ["add"]), 'unknown tool "ad"; did you mean "add"?'),
        (UnknownToolError("ad", ("add", "ads")), 'unknown tool "ad"; did you mean "add" or "ads"?'),
        (ServerStartError("time", "no such command"), 'server "time" did not start: no such command'),
        (ServerStartError("time", returncode=2), 'server "time" did not start: exited with status 2'),
        (ServerStoppedError("time", returncode=0), 'server "time" stopped: exited with status 0'),
        (ServerStoppedError("time", returncode=-9), 'server "time" stopped: was killed by SIGKILL'),
        (ServerStoppedError("time", "closed its output"), 'server "time" stopped: closed its output'),
        (RequestError(-32602, "Unknown tool"), "Unknown tool (code -32602)"),
        (ProtocolError("no JSON", "{"), "no JSON"),
        (AuthError("time", 401), 'server "time" refused access: HTTP 401'),
        (ToolError("no such file", ToolResult()), "no such file"),
        (ToolError("no such file"), "no such file"),
        (ApprovalRequiredError("add"), 'tool "add" requires approval'),
        (NotOfferedError("sampling"), "the client does not offer sampling"),
        (SkippedToolError("add", 3, "no-schema"), 'tool "add" at index 3 was skipped: no-schema'),
        (SkippedToolError("", 0, "no-name"), 'tool "" at index 0 was skipped: no-name'),
    ],
)
def test_the_sentence_is_the_classs_business(error: MCPError, text: str) -> None:
    assert str(error) == text


@pytest.mark.table(
    ("returncode", "words"),
    [
        (0, "exited with status 0"),
        (255, "exited with status 255"),
        (-signal.SIGTERM, "was killed by SIGTERM"),
        (-99, "was killed by signal 99"),
        (None, "exit status unknown"),
    ],
)
def test_how_a_process_ended(returncode: int | None, words: str) -> None:
    assert describe_exit(returncode) == words


def test_attributes_are_the_facts() -> None:
    error = stopped(status=502)
    assert (error.server, error.returncode, error.status) == ("time", -9, 502)
    assert error.command == ("serve", "--token", "***")
    assert error.stderr_tail == f"first line\nlogged in with {SECRET}\n"
    assert error.reason == "was killed by SIGKILL"
    refused = AuthError("time", 403, [{"scheme": "Bearer", "scope": "x"}])
    assert (refused.server, refused.status, refused.challenge) == (
        "time",
        403,
        ({"scheme": "Bearer", "scope": "x"},),
    )
    assert (RequestError(1, "m").data, RequestError(1, "m", {"a": 1}).data) == (None, {"a": 1})


# --- what a model sees, and what a traceback shows


def test_the_text_is_one_line_and_leaves_stderr_and_command_to_the_note() -> None:
    error = stopped(reason="broke\n  in two")
    assert str(error) == 'server "time" stopped: broke in two'
    for shown in (str(error), repr(error)):
        assert "\n" not in shown
        assert "first line" not in shown
        assert "--token" not in shown
    printed = "".join(traceback.format_exception(error))
    assert "serve --token ***" in printed
    assert "first line" in printed
    assert SECRET not in printed
    assert "logged in with ***" in printed


def test_the_reason_is_redacted_as_well() -> None:
    error = stopped(reason=f"said {SECRET}")
    assert SECRET not in str(error) + error.reason


def test_empty_facts_leave_no_note() -> None:
    assert not hasattr(ServerStartError("time", "no", stderr_tail=" \n"), "__notes__")


def test_both_starts_and_the_junk_are_told() -> None:
    error = ServerStartError("time", "no", stderr_tail="two", first_stderr_tail="one", junk=["hello", "world"])
    assert error.__notes__ == [
        "stderr of the first start: one",
        "stderr: two",
        "lines on stdout that were no messages:\n  hello\n  world",
    ]


def test_a_long_tail_is_shown_by_its_end_and_kept_whole() -> None:
    tail = "x" * 50_000 + "the end\n"
    error = ServerStartError("time", "no", stderr_tail=tail)
    (note,) = error.__notes__
    assert note.endswith("the end")
    assert len(note) < 5_000
    assert error.stderr_tail == tail


@pytest.mark.table(
    ("payload", "kept"),
    [
        (b"", ""),
        (b"{oops", "{oops"),
        ("x" * 1000, "x" * 200),
        (b"x" * 1000, "x" * 200),
        ("\N{SNOWMAN}" * 1000, "\N{SNOWMAN}" * 200),
        (("\N{SNOWMAN}" * 1000).encode(), "\N{SNOWMAN}" * 200),
        (b"\xff", "\N{REPLACEMENT CHARACTER}"),
    ],
)
def test_a_payload_is_clipped(payload: str | bytes, kept: str) -> None:
    error = ProtocolError("no JSON", payload)
    assert error.payload == kept
    assert getattr(error, "__notes__", []) == ([f"payload: {kept}"] if kept else [])


# --- groups


def test_skipped_tools_can_be_caught_and_split() -> None:
    group = ToolImportError("some tools", [skipped(1), skipped(2, "no-name")])
    try:
        raise group
    except* SkippedToolError as caught:
        assert [error.index for error in caught.exceptions] == [1, 2]  # type: ignore[union-attr]  # noqa: PT017
    matched, rest = group.split(lambda error: isinstance(error, SkippedToolError) and error.reason == "no-name")
    assert type(matched) is type(rest) is ToolImportError
    assert matched is not None
    assert [error.index for error in matched.exceptions] == [2]  # type: ignore[union-attr]


def test_what_except_star_leaves_is_still_an_import_error() -> None:
    group = ToolImportError("some tools", [skipped(1), skipped(2, "no-name")])
    group.add_note("kept")
    part = group.subgroup(lambda error: isinstance(error, SkippedToolError) and error.index == 1)
    assert type(part) is ToolImportError
    assert (part.message, part.exceptions, part.__notes__) == ("some tools", (group.exceptions[0],), ["kept"])
    assert group.subgroup(ProtocolError) is None
    caught: list[int] = []
    try:
        try:
            raise group
        except* ProtocolError:
            pytest.fail("there is none")
    except* SkippedToolError as left:
        assert type(left) is ToolImportError  # noqa: PT017 - pytest.raises knows no except*
        caught += [error.index for error in left.exceptions]  # type: ignore[union-attr]
    assert caught == [1, 2]


def test_an_import_error_in_a_group_of_a_nursery_keeps_its_kind() -> None:
    group = ExceptionGroup("nursery", [ToolImportError("some tools", [skipped(1)]), ValueError("other")])
    matched, rest = group.split(SkippedToolError)
    assert matched is not None
    assert rest is not None
    assert type(matched.exceptions[0]) is ToolImportError
    assert [type(error) for error in rest.exceptions] == [ValueError]


def test_an_import_error_names_ten_tools_and_why_and_counts_the_others() -> None:
    few = ToolImportError("2 tools were skipped", [skipped(1), SkippedToolError("", 7, "no-name")])
    assert str(few) == '2 tools were skipped: "tool1" (no-schema), index 7 (no-name)'
    ten = ToolImportError("10 tools were skipped", [skipped(number) for number in range(10)])
    assert str(ten).endswith('"tool9" (no-schema)')
    many = ToolImportError("12 tools were skipped", [skipped(number) for number in range(12)])
    assert str(many).endswith('"tool9" (no-schema), and 2 more')
    nested = ToolImportError("some tools", [ToolImportError("more", [skipped(1)]), skipped(2)])  # type: ignore[list-item]
    assert str(nested) == 'some tools: "tool1" (no-schema), "tool2" (no-schema)'


def test_an_unknown_tools_error_has_the_nearest_names() -> None:
    assert UnknownToolError("ad", ["add"]).nearest == ("add",)
    assert UnknownToolError("ad").nearest == ()


def test_the_cause_of_a_skip_is_also_its_dunder_cause() -> None:
    cause = ProtocolError("no JSON")
    error = SkippedToolError("", 0, "undecodable", cause)
    assert error.cause is error.__cause__ is cause
    assert skipped(0).__cause__ is None


# --- copies


@pytest.mark.table("error", EVERY_ERROR, ids=lambda error: type(error).__name__)
@pytest.mark.table("duplicate", [copy.copy, copy.deepcopy, lambda error: pickle.loads(pickle.dumps(error))])
def test_a_copy_has_the_same_text_facts_and_notes(error: Any, duplicate: Any) -> None:
    other = duplicate(error)
    assert type(other) is type(error)
    assert other is not error
    assert str(other) == str(error)
    assert vars(other).keys() == vars(error).keys()
    assert getattr(other, "__notes__", None) == getattr(error, "__notes__", None)
    if isinstance(error, ToolError):
        assert (other.text, other.result) == (error.text, error.result)
    other.add_note("only here")
    assert "only here" not in getattr(error, "__notes__", [])


def test_later_calls_on_a_lost_connection_get_a_new_equal_error() -> None:
    first = stopped()
    with pytest.raises(ServerStoppedError):
        raise first
    later = renewed(first)
    assert later == first
    assert later is not first
    assert hash(later) == hash(first)
    assert (later.__traceback__, later.__context__) == (None, None)
    assert first.__traceback__ is not None
    assert later.__notes__ == first.__notes__


def test_errors_about_different_ends_are_different() -> None:
    assert stopped() != stopped(returncode=1)
    assert stopped() != stopped(stderr_tail="other")
    assert ServerStoppedError("time", "x") != ServerStartError("time", "x")
    assert stopped() != "stopped"
