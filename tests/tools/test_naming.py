"""Tool names, which stored transcripts carry: the values here may never change."""

from __future__ import annotations

import re
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trio_mcp.tools.naming import is_tool_name, provider_name, tool_name


@pytest.mark.table(
    ("server", "tool", "name"),
    [
        ("time", "get_current_time", "mcp__time__get_current_time"),
        ("my-server-2", "A-b_9", "mcp__my-server-2__A-b_9"),
        ("s", "__", "mcp__s____"),
        # 64 characters just fit
        ("s", "x" * 56, "mcp__s__" + "x" * 56),
        # printf 'get.time' | sha256sum
        ("time", "get.time", "mcp__time__get_time_1d1114c3"),
        ("time", "get/time", "mcp__time__get_time_d29812cc"),
        ("s", "x" * 57, "mcp__s__" + "x" * 47 + "_ae14a256"),
        ("s", "é" * 60, "mcp__s__" + "_" * 47 + "_f989aaf5"),
        ("s" * 32, "list.everything", "mcp__" + "s" * 32 + "__list_everything_64765164"),
        ("s" * 32, "y" * 100, "mcp__" + "s" * 32 + "__" + "y" * 16 + "_56846f2d"),
        ("s", "\ud800", "mcp__s____91a681b9"),
        ("s", " ", "mcp__s____36a9e7f1"),
    ],
)
def test_names_are_a_promise_across_releases(server: str, tool: str, name: str) -> None:
    assert tool_name(server, tool) == name
    assert len(name) <= 64


@given(st.from_regex(r"[A-Za-z0-9-]{1,32}", fullmatch=True), st.text(min_size=1))
def test_every_name_has_the_shape_and_is_told_by_its_hash(server: str, tool: str) -> None:
    name = tool_name(server, tool)
    assert is_tool_name(name)
    assert name.startswith(f"mcp__{server}__")
    if name != f"mcp__{server}__{tool}":
        assert name.endswith("_" + sha256(tool.encode()).hexdigest()[:8])


@given(st.text(st.characters(codec=None)))
def test_any_text_has_a_name(tool: str) -> None:
    """Lone surrogates too: JSON can carry them."""
    assert len(tool_name("server", tool)) <= 64


def test_tools_that_clean_to_the_same_keep_different_names() -> None:
    assert len({tool_name("s", tool) for tool in ("a.b", "a/b", "a b", "a_b", "a:b")}) == 5


def test_long_tools_that_begin_alike_keep_different_names() -> None:
    assert tool_name("s", "x" * 80 + "1") != tool_name("s", "x" * 80 + "2")


@pytest.mark.table(
    "name",
    [
        "",
        "get_current_time",
        "mcp__time",
        "mcp__time__",
        "mcp____get",
        "mcp_time_get",
        "MCP__time__get",
        "mcp__a_b__",
        "mcp__ti me__get",
        "mcp__time__get.time",
        "mcp__time__get\n",
        "mcp__" + "s" * 33 + "__get",
        "mcp__s__" + "x" * 57,
        "xmcp__time__get",
        "mcp__zéro__get",
    ],
)
def test_other_names_are_not_of_the_shape(name: str) -> None:
    assert not is_tool_name(name)


@given(st.text(st.characters(codec=None)))
def test_providers_take_the_name_of_any_tool(tool: str) -> None:
    name = provider_name(tool)
    assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name)
    assert provider_name(name) == name
    if name != tool:
        assert name.endswith("_" + sha256(tool.encode("utf-8", "surrogatepass")).hexdigest()[:8])


def test_a_name_that_providers_take_stays() -> None:
    assert provider_name(tool_name("time", "get.time")) == "mcp__time__get_time_1d1114c3"


def test_names_that_are_no_text_are_a_type_error() -> None:
    wrong: Any = None
    for ask in (lambda: tool_name(wrong, "add"), lambda: tool_name("calc", wrong), lambda: is_tool_name(wrong)):
        with pytest.raises(TypeError):
            ask()
