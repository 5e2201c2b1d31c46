"""What is never shown: hidden by name wherever it stands, and by value wherever else it turns up."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trio_mcp.redaction import (
    LEARNED,
    NOTHING_SECRET,
    Redactor,
    is_secret_name,
    redact_arguments,
    redact_url,
    secret_values,
)


@pytest.mark.table(
    "name",
    ["token", "API_KEY", "apiKey", "x-secret-y", "PASSWORD", "Authorization", "OAUTH", "cookie", "Set-Cookie"],
)
def test_a_name_is_secret_by_what_it_contains_in_any_case(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.table("name", ["", "HOME", "user", "port", "to-ken", "pass"])
def test_other_names_are_not_secret(name: str) -> None:
    assert not is_secret_name(name)


@pytest.mark.table(
    ("arguments", "shown"),
    [
        (["--token", "abc"], ["--token", "***"]),
        (["--token=abc"], ["--token=***"]),
        (["-key", "abc"], ["-key", "***"]),
        (["TOKEN=abc"], ["TOKEN=***"]),
        (["--API-Key", "abc", "--port", "80"], ["--API-Key", "***", "--port", "80"]),
        (["--token", "-x"], ["--token", "***"]),
        (["--token", "--verbose"], ["--token", "***"]),
        (["--token"], ["--token"]),
        (["--token="], ["--token=***"]),
        (["--token=a=b"], ["--token=***"]),
        (["--token=two\nlines"], ["--token=***"]),
        (["--token=abc", "def"], ["--token=***", "def"]),
        (["-H", "Authorization: Bearer abc"], ["-H", "Authorization: ***"]),
        (["-H", "Accept: text/html"], ["-H", "Accept: text/html"]),
        (["--port=80", "PATH=/bin"], ["--port=80", "PATH=/bin"]),
        (["https://me:pw@example.com/"], ["https://***@example.com/"]),
        (["--url=https://me:pw@example.com/"], ["--url=https://***@example.com/"]),
        (["postgres://me:pw@db:5432/x?sslmode=off"], ["postgres://***@db:5432/x?sslmode=off"]),
        (["https://example.com/?page=1&api_key=abc#x"], ["https://example.com/?page=1&api_key=***#x"]),
        (["me@example.com", "a:b@c"], ["me@example.com", "a:b@c"]),
        ([], []),
        ([""], [""]),
    ],
)
def test_arguments_are_hidden_under_secret_names(arguments: list[str], shown: list[str]) -> None:
    assert redact_arguments(arguments) == tuple(shown)


@pytest.mark.table(
    ("url", "shown"),
    [
        ("https://example.com/mcp", "https://example.com/mcp"),
        ("https://me:pw@example.com:8443/mcp?key=abc#part", "https://example.com:8443/mcp"),
        ("https://me@example.com", "https://example.com"),
        ("https://me:p@w@example.com/a@b", "https://example.com/a@b"),
        ("https://example.com?key=abc", "https://example.com"),
        ("https://example.com#key", "https://example.com"),
        ("http://[::1]:8000/?x", "http://[::1]:8000/"),
        ("https://example.com/a?x=https://me:pw@b", "https://example.com/a"),
    ],
)
def test_a_url_is_shown_without_userinfo_query_and_fragment(url: str, shown: str) -> None:
    assert redact_url(url) == shown


def test_secret_values_come_from_everywhere() -> None:
    found = secret_values(
        arguments=["--token", "first", "--password=second", "https://me:third@example.com/"],
        named={"API_KEY": "fourth", "HOME": "/home/me"},
        url="https://you:fi%66th@example.com/?auth=six%74h&page=seventh",
        others=["eighth"],
    )
    values = set(found)
    assert {"first", "second", "third", "fourth", "fifth", "sixth", "eighth"} <= values
    assert not {"/home/me", "seventh", "1"} & values


def test_the_parts_of_a_credential_are_secret_alone() -> None:
    assert "abcdefgh" in set(secret_values(arguments=["Authorization: Bearer abcdefgh"]))


def test_short_values_are_not_looked_for_in_other_texts() -> None:
    redact = Redactor(["1234567", "12345678"])
    assert redact("1234567 and 12345678") == "1234567 and ***"


def test_the_longer_of_two_secrets_that_begin_alike_is_hidden_whole() -> None:
    redact = Redactor(["password1", "password1-and-more"])
    assert redact("password1-and-more password1") == "*** ***"


def test_secrets_are_text_and_no_patterns() -> None:
    assert Redactor([".*.*.*.*"])("anything else") == "anything else"
    assert Redactor([".*.*.*.*"])("see .*.*.*.*!") == "see ***!"


def test_with_nothing_to_hide_the_text_stays() -> None:
    assert NOTHING_SECRET("as it was") == "as it was"
    assert Redactor(["short"])("short") == "short"


def test_a_redactor_does_not_show_what_it_knows() -> None:
    assert repr(Redactor(["hunter2hunter2"])) == "<Redactor of 1 values>"
    assert not hasattr(Redactor(["hunter2hunter2"]), "__dict__")


@given(st.lists(st.text(min_size=8, max_size=20), max_size=5), st.text(max_size=50))
def test_no_long_secret_is_left_in_any_text(secrets: list[str], text: str) -> None:
    shown = Redactor(secrets)("".join([text, *secrets, text]))
    assert not any(secret in shown.replace("***", "\0") for secret in secrets)


@given(
    st.text(st.characters(exclude_characters="\0"), min_size=1).filter(lambda value: not value.startswith("--"))
)
def test_whatever_follows_a_secret_option_is_hidden(value: str) -> None:
    assert redact_arguments(["--secret", value, "end"]) == ("--secret", "***", "end")
    assert redact_arguments([f"--secret={value}"]) == ("--secret=***",)


def test_what_is_learned_is_hidden_too_and_the_oldest_of_it_forgotten() -> None:
    redactor = Redactor(["configured"])
    redactor.learn(["learned-1", "short", "configured"])
    assert redactor("configured learned-1 short") == "*** *** short"
    redactor.learn(f"later-{number}-" for number in range(LEARNED))
    assert redactor("configured learned-1 later-0- later-31-") == "*** learned-1 *** ***"
    assert repr(redactor) == f"<Redactor of {LEARNED + 1} values>"
