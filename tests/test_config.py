"""`load_servers`: what hosts' files mean, and that one bad entry costs only itself and shows no secret."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from trio_mcp.config import LARGEST_FILE, LoadedServers, legal_name, load_servers
from trio_mcp.errors import InvalidServerError
from trio_mcp.models.server import Server, default_environment

SECRET = "hunter2-hunter2-hunter2"


@pytest.fixture
def load(tmp_path: Path) -> Any:
    """Load what is given as text, bytes or a document."""

    def load(content: Any) -> LoadedServers:
        file = tmp_path / "mcp.json"
        if isinstance(content, dict | list):
            content = json.dumps(content)
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
        return load_servers(file)

    return load


@pytest.fixture
def load_entry(load: Any) -> Any:
    """Load one entry named "one", beside a good one that must survive whatever is wrong with it."""

    def load_entry(entry: Any) -> tuple[Server | None, tuple[str, ...]]:
        loaded = load({"mcpServers": {"one": entry, "good": {"command": "good"}}})
        servers = {server.name: server for server in loaded.servers}
        assert servers["good"].command == "good"
        return servers.get("one"), loaded.warnings

    return load_entry


def test_a_server_of_claude_desktop_has_its_env_on_top_of_the_default(load: Any) -> None:
    loaded = load(
        {
            "mcpServers": {
                "time": {"command": "uvx", "args": ["mcp-server-time"], "env": {"TZ": "UTC", "PATH": "/p"}}
            }
        }
    )
    (server,) = loaded.servers
    assert loaded.warnings == ()
    assert (server.name, server.command, server.args) == ("time", "uvx", ("mcp-server-time",))
    assert server.env == {**default_environment(), "TZ": "UTC", "PATH": "/p"}


def test_a_server_without_env_gets_the_default_environment(load_entry: Any) -> None:
    server, warnings = load_entry({"command": "x"})
    assert server.env == default_environment()
    assert warnings == ()


def test_the_file_of_vs_code_has_servers_inputs_comments_and_trailing_commas(load: Any) -> None:
    loaded = load(
        """
        // what VS Code writes
        {
          "inputs": [{"id": "key", "type": "promptString"}], /* never
            asked */
          "servers": {
            "one": {"type": "stdio", "command": "a//b", "args": ["/* not a comment */", ", ]", "\\"//"],},
            "two": {"type": "http", "url": "https://example.com/mcp"}, // the end
          },
        }
        """
    )
    one, two = loaded.servers
    assert (one.command, one.args) == ("a//b", ("/* not a comment */", ", ]", '"//'))
    assert (two.url, two.command, two.env) == ("https://example.com/mcp", None, None)
    assert loaded.warnings == ()


def test_a_server_with_a_url_keeps_its_headers(load_entry: Any) -> None:
    server, warnings = load_entry({"url": "https://example.com/mcp", "headers": {"Authorization": "Bearer x"}})
    assert (server.url, server.headers) == ("https://example.com/mcp", {"Authorization": "Bearer x"})
    assert warnings == ()


@pytest.mark.table("kind", ["http", "streamable-http", "streamableHttp", "streamable_http"])
def test_every_spelling_of_streamable_http_is_known(load_entry: Any, kind: str) -> None:
    server, warnings = load_entry({"type": kind, "url": "https://example.com/mcp"})
    assert server.url == "https://example.com/mcp"
    assert warnings == ()


def test_a_byte_order_mark_is_no_part_of_the_file(load: Any) -> None:
    assert load(b'\xef\xbb\xbf{"mcpServers": {"one": {"command": "x"}}}').servers[0].name == "one"


def test_null_is_the_same_as_absent(load_entry: Any) -> None:
    fields = ("type", "disabled", "args", "env", "cwd", "url", "headers")
    server, warnings = load_entry({"command": "x", **dict.fromkeys(fields)})
    assert (server.args, server.cwd, server.env) == ((), None, default_environment())
    assert warnings == ()


def test_numbers_and_null_in_env_are_what_vs_code_makes_of_them(
    load_entry: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/home/somebody")
    server, warnings = load_entry({"command": "x", "env": {"PORT": 8080, "HOME": None}})
    assert server.env["PORT"] == "8080"
    assert "HOME" not in server.env
    assert warnings == ()


# --- variables ---------------------------------------------------------------------------------------------------


def test_variables_are_filled_in_wherever_text_stands(load: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONE", "1")
    monkeypatch.setenv("EMPTY", "")
    loaded = load(
        {
            "mcpServers": {
                "stdio": {
                    "command": "/bin/${ONE}",
                    "args": ["${ONE}${ONE}", "${env:ONE}", "${EMPTY}", "${UNSET_HERE:-a:-b}", "${ONE:-2}", "$ONE"],
                    "env": {"A": "<${ONE}>"},
                    "cwd": "/tmp/${ONE}",
                },
                "http": {"url": "https://example.com/${ONE}", "headers": {"X-One": "${env:ONE}"}},
            }
        }
    )
    stdio, http = loaded.servers
    assert stdio.command == "/bin/1"
    assert stdio.args == ("11", "1", "", "a:-b", "1", "$ONE")
    assert stdio.env["A"] == "<1>"
    assert str(stdio.cwd) == "/tmp/1"
    assert (http.url, http.headers) == ("https://example.com/1", {"X-One": "1"})
    assert loaded.warnings == ()


def test_what_a_variable_holds_is_not_expanded_again(load_entry: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONE", "${ONE}")
    assert load_entry({"command": "${ONE}"})[0].command == "${ONE}"


@pytest.mark.table(
    ("field", "entry"),
    [
        ("command", {"command": "${UNSET_HERE}"}),
        ("args[1]", {"command": "x", "args": ["a", "${UNSET_HERE}"]}),
        ("env.KEY", {"command": "x", "env": {"KEY": "${env:UNSET_HERE}"}}),
        ("cwd", {"command": "x", "cwd": "/a/${UNSET_HERE}"}),
        ("url", {"url": "https://${UNSET_HERE}/mcp"}),
        ("headers.X-Key", {"url": "https://example.com", "headers": {"X-Key": "${UNSET_HERE}"}}),
    ],
)
def test_an_unset_variable_leaves_its_server_out(load_entry: Any, field: str, entry: Any) -> None:
    server, warnings = load_entry(entry)
    assert server is None
    assert warnings == (f'server "one" is left out: {field}: the environment variable UNSET_HERE is not set',)


def test_an_input_leaves_its_server_out(load_entry: Any) -> None:
    server, (warning,) = load_entry({"command": "x", "env": {"KEY": "${input:api-key}"}})
    assert server is None
    assert (
        warning
        == 'server "one" is left out: env.KEY: ${input:api-key} would have to ask the user; use ${VAR} instead'
    )


@pytest.mark.table("text", ["${command:pick}", "${}", "${A-B}", "${UNSET_HERE:-${UNSET_TOO}}", "${/}"])
def test_a_reference_that_is_not_understood_leaves_its_server_out(load_entry: Any, text: str) -> None:
    """A half-expanded value would be worse than none."""
    server, (warning,) = load_entry({"command": "x", "args": [text]})
    assert server is None
    assert (
        'server "one" is left out: args[0]: a ${...} is not understood; write ${VAR} or ${VAR:-default}' in warning
    )


# --- entries that cannot be used ---------------------------------------------------------------------------------


@pytest.mark.table(
    ("entry", "verdict"),
    [
        (["npx"], "entry: expected an object, got a list"),
        (None, "entry: expected an object, got null"),
        ({"command": ["npx", "x"]}, "command: expected a string, got a list"),
        ({"command": "x", "args": "a b"}, "args: expected a list of strings, got a string"),
        ({"command": "x", "args": ["a", 1]}, "args[1]: expected a string, got a number"),
        ({"command": "x", "args": [None]}, "args[0]: expected a string, got null"),
        ({"command": "x", "env": ["A=1"]}, "env: expected an object, got a list"),
        ({"command": "x", "env": {"A": True}}, "env.A: expected a string, got true or false"),
        ({"command": "x", "env": {"A": 1.5}}, "env.A: expected a string, got a number"),
        ({"command": "x", "cwd": 1}, "cwd: expected a string, got a number"),
        ({"url": 1}, "url: expected a string, got a number"),
        ({"url": "https://e.com", "headers": []}, "headers: expected an object, got a list"),
        ({"url": "https://e.com", "headers": {"A": 1}}, "headers.A: expected a string, got a number"),
        ({"command": "x", "type": 1}, "type: expected a string, got a number"),
        ({"command": "x", "type": "docker"}, 'type: expected "stdio" or "http"'),
        ({"command": "x", "type": "http"}, "url: missing, but the type is http"),
        ({"url": "https://e.com", "type": "stdio"}, "command: missing, but the type is stdio"),
        ({"command": "x", "disabled": "no"}, "disabled: expected true or false, got a string"),
        ({"command": "x", "disabled": True}, "disabled: it is switched off in the file"),
    ],
)
def test_an_entry_of_the_wrong_shape_leaves_its_server_out(load_entry: Any, entry: Any, verdict: str) -> None:
    server, warnings = load_entry(entry)
    assert server is None
    assert warnings == (f'server "one" is left out: {verdict}',)


def test_the_deprecated_sse_transport_leaves_its_server_out(load_entry: Any) -> None:
    server, (warning,) = load_entry({"type": "sse", "url": "https://example.com/sse"})
    assert server is None
    assert warning.startswith('server "one" is left out: type: the deprecated HTTP+SSE transport')


@pytest.mark.table(
    ("entry", "field"),
    [
        ({}, "command"),
        ({"command": "x", "url": "https://example.com"}, "url"),
        ({"command": ""}, "command"),
        ({"url": "ftp://example.com"}, "url"),
        ({"command": "x", "headers": {"A": "b"}}, "headers"),
        ({"url": "https://example.com", "env": {"A": "b"}}, "env"),
    ],
)
def test_what_no_server_may_have_leaves_it_out_with_the_reason_of_server(
    load_entry: Any, entry: Any, field: str
) -> None:
    server, (warning,) = load_entry(entry)
    assert server is None
    assert warning.startswith('server "one" is left out: ')
    assert field in warning


def test_unknown_fields_are_warned_of_once_and_cost_nothing(load_entry: Any) -> None:
    server, warnings = load_entry({"command": "x", "gallery": [], "dev": 5, "disabled": False})
    assert server.command == "x"
    assert warnings == ('server "one": unknown fields are ignored: gallery, dev',)


def test_an_env_file_is_warned_of_by_what_it_means(load_entry: Any) -> None:
    server, warnings = load_entry({"command": "x", "envFile": "${workspaceFolder}/.env"})
    assert server is not None
    assert warnings == ('server "one": envFile is not read: the server does not get its variables',)


def test_fields_beside_the_servers_are_one_warning(load: Any) -> None:
    loaded = load({"mcpServers": {}, "globalShortcut": "", "theme": "dark", "$schema": "x", "inputs": []})
    assert loaded == LoadedServers((), ("unknown fields beside the servers are ignored: globalShortcut, theme",))


def test_mcp_servers_stands_before_servers_and_says_so(load: Any) -> None:
    loaded = load({"servers": {"two": {"command": "x"}}, "mcpServers": {"one": {"command": "x"}}})
    assert [server.name for server in loaded.servers] == ["one"]
    assert loaded.warnings == ("servers is ignored, because the file has mcpServers too",)


@pytest.mark.table(
    "entry",
    [
        {"command": "x", "env": {"API_KEY": SECRET + "${UNSET_HERE}"}},
        {"command": "x", "env": {"API_KEY": [SECRET]}},
        {"command": "x", "args": ["--token", SECRET, 1]},
        {"command": "x", "args": ["--token", "${UNSET_HERE:-" + SECRET + "${A}}"]},
        {"command": "x", "env": {"API_KEY": SECRET}, "extra": SECRET},
        {"url": "https://me:" + SECRET + "@example.com/?key=" + SECRET, "type": "stdio"},
        {"url": "ftp://me:" + SECRET + "@example.com/?key=" + SECRET},
        {"url": "https://example.com", "headers": {"X-Key": SECRET + "\r\nX: y"}},
        {"url": "https://example.com", "headers": {"Mcp-Session-Id": SECRET}},
        {"url": "https://example.com", "env": {"API_KEY": SECRET}},
        {"command": "x", "env": {"API_KEY=" + SECRET: ""}},
        {"url": "https://example.com", "headers": {"Authorization: Bearer " + SECRET: 1}},
    ],
)
def test_no_warning_shows_a_secret(load_entry: Any, entry: Any) -> None:
    _, warnings = load_entry(entry)
    assert warnings
    assert not any("hunter2" in warning for warning in warnings)


# --- names -------------------------------------------------------------------------------------------------------


def test_an_illegal_name_is_mapped_with_a_warning(load: Any) -> None:
    loaded = load({"mcpServers": {"My Server_1.0": {"command": "x"}}})
    assert [server.name for server in loaded.servers] == ["My-Server-1-0"]
    assert loaded.warnings == ('server "My Server_1.0" is called "My-Server-1-0" here',)


def test_a_long_name_is_cut_at_32(load: Any) -> None:
    assert [server.name for server in load({"mcpServers": {"é" * 40: {"command": "x"}}}).servers] == ["-" * 32]


def test_names_that_meet_get_the_hash_of_the_original_and_a_legal_one_keeps_its_own(load: Any) -> None:
    loaded = load({"mcpServers": {name: {"command": name} for name in ("a_b", "a-b", "a.b")}})
    digest = {name: sha256(name.encode()).hexdigest()[:4] for name in ("a_b", "a.b")}
    assert {server.command: server.name for server in loaded.servers} == {
        "a_b": f"a-b-{digest['a_b']}",
        "a-b": "a-b",
        "a.b": f"a-b-{digest['a.b']}",
    }
    assert len(loaded.warnings) == 2


def test_the_first_of_two_mapped_names_takes_the_plain_one(load: Any) -> None:
    loaded = load({"mcpServers": {"a b": {"command": "x"}, "a_b": {"command": "x"}}})
    assert [server.name for server in loaded.servers] == ["a-b", "a-b-" + sha256(b"a_b").hexdigest()[:4]]


def test_long_names_that_meet_stay_within_32(load: Any) -> None:
    first, second = "x" * 33, "x" * 34
    names = [
        server.name for server in load({"mcpServers": {first: {"command": "x"}, second: {"command": "x"}}}).servers
    ]
    assert names == ["x" * 32, "x" * 27 + "-" + sha256(second.encode()).hexdigest()[:4]]


def test_a_name_does_not_depend_on_whether_another_server_can_be_used(load: Any) -> None:
    """Tool names carry the server's name: they must not change with an environment variable."""
    loaded = load({"mcpServers": {"a b": {"command": "${UNSET_HERE}"}, "a_b": {"command": "x"}}})
    assert [server.name for server in loaded.servers] == ["a-b-" + sha256(b"a_b").hexdigest()[:4]]


@pytest.mark.parametrize("name", ["", "\ud800"])
def test_odd_names_cost_at_most_their_server(load: Any, name: str) -> None:
    loaded = load({"mcpServers": {name: {"command": "x"}, "good": {"command": "x"}}})
    assert [server.name for server in loaded.servers][-1] == "good"
    assert len(loaded.warnings) == 1


def test_legal_name_maps_what_a_command_is_called() -> None:
    assert legal_name("python3.11") == "python3-11"
    assert legal_name("") == ""


# --- files that are no configuration -----------------------------------------------------------------------------


@pytest.mark.table(
    ("content", "reason"),
    [
        ("", "is not JSON: Expecting value"),
        ('{"mcpServers": {"one": {"command": "x"}', "is not JSON: Expecting ',' delimiter"),
        ("{\n// comment\n\n!", "line 4 column 1"),
        ('{"mcpServers": "' + SECRET, "is not JSON: Unterminated string"),
        ("[" * 100_000, "is not JSON: "),
        (b"\xff\xfe{\x00", "is not UTF-8: invalid start byte at byte 0"),
        ("1" * 5_000, "is not JSON: "),
        (" " * (LARGEST_FILE + 1), "has more than 16777216 bytes"),
    ],
)
def test_a_file_that_is_no_json_is_an_invalid_server_error(load: Any, content: Any, reason: str) -> None:
    with pytest.raises(InvalidServerError) as caught:
        load(content)
    assert caught.value.field == "path"
    assert "mcp.json " + reason in caught.value.reason or reason in caught.value.reason
    assert "hunter2" not in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.table("document", [[], {}, {"other": {}}, {"mcpServers": []}, {"servers": None}, {"mcpServers": "x"}])
def test_a_file_without_an_object_of_servers_is_an_invalid_server_error(load: Any, document: Any) -> None:
    with pytest.raises(InvalidServerError) as caught:
        load(document)
    assert caught.value.field == "mcpServers"
    assert "mcp.json" in caught.value.reason


def test_a_missing_file_or_a_directory_is_an_invalid_server_error(tmp_path: Path) -> None:
    with pytest.raises(InvalidServerError, match=r"absent\.json cannot be read: No such file"):
        load_servers(tmp_path / "absent.json")
    with pytest.raises(InvalidServerError, match="cannot be read: Is a directory"):
        load_servers(str(tmp_path))
    with pytest.raises(InvalidServerError, match="cannot be read: embedded null"):
        load_servers("a\0b")


def test_what_is_no_path_is_an_invalid_server_error() -> None:
    with pytest.raises(InvalidServerError) as caught:
        load_servers(0)  # type: ignore[arg-type]  # the point of the test: a descriptor would be read
    assert (caught.value.field, caught.value.reason) == ("path", "expected a path, got int")


def test_unclosed_strings_and_comments_are_judged_in_one_pass(load: Any) -> None:
    """A quadratic scan of this file would take minutes."""
    for text in ('"\\' * 400_000, "/*" * 400_000, '["' + "," * 400_000):
        with pytest.raises(InvalidServerError):
            load(text)


# --- what is there twice, and the words of other hosts


def test_a_server_and_a_member_that_stand_in_the_file_twice_are_warned_of_and_the_last_counts(load: Any) -> None:
    one = '{"command": "b", "env": {"KEY": "1", "KEY": "2"}, "args": ["x"], "args": []}'
    loaded = load('{"mcpServers": {"one": {"command": "a"}, "one": ' + one + "}}")
    [server] = loaded.servers
    assert (server.command, server.args) == ("b", ())
    assert loaded.warnings == (
        'server "one" stands in the file twice: the last one counts',
        'server "one": args stands in it twice: the last one counts',
        'server "one": env.KEY stands in it twice: the last one counts',
    )


def test_a_server_that_is_not_enabled_is_left_out(load_entry: Any) -> None:
    server, warnings = load_entry({"command": "x", "enabled": False})
    assert server is None
    assert warnings == ('server "one" is left out: enabled: it is switched off in the file',)
    assert load_entry({"command": "x", "enabled": True})[1] == ()
    assert load_entry({"command": "x", "enabled": "no"})[0] is None


@pytest.mark.parametrize("word", ["url", "httpUrl", "serverUrl"])
def test_the_url_is_read_by_the_word_of_every_host(load_entry: Any, word: str) -> None:
    server, warnings = load_entry({"type": "http", word: "https://example.com/mcp"})
    assert server.url == "https://example.com/mcp"
    assert warnings == ()
    server, (warning,) = load_entry({"command": "x", word: "http://${UNSET_HERE}/"})
    assert f": {word}: " in warning


def test_two_urls_leave_a_server_out(load_entry: Any) -> None:
    server, (warning,) = load_entry({"url": "https://a.example", "httpUrl": "https://b.example"})
    assert server is None
    assert "httpUrl: given together with url" in warning


@pytest.mark.parametrize("word", ["timeout", "alwaysAllow", "autoApprove", "oauth"])
def test_a_word_of_another_host_is_named_with_what_it_means_here(load_entry: Any, word: str) -> None:
    server, (warning,) = load_entry({"command": "x", word: 1})
    assert server.command == "x"
    assert warning.startswith(f'server "one": {word} is not read: ')


def test_the_protocol_and_the_time_to_stop_are_read(load_entry: Any) -> None:
    server, warnings = load_entry({"command": "x", "protocol": "legacy", "stop_timeout": 0.5})
    assert (server.protocol, server.stop_timeout) == ("legacy", 0.5)
    assert warnings == ()
    for odd in ({"protocol": "newest"}, {"stop_timeout": "long"}, {"stop_timeout": -1}):
        server, (warning,) = load_entry({"command": "x", **odd})
        assert server is None
        assert f": {next(iter(odd))}: " in warning
