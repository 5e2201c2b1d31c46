"""What a docstring gives to the listing: the description before the first section, and the parameters' texts."""

from __future__ import annotations

import doctest

import pytest

from tests.exposing import listed
from trio_mcp import raw_tool, tool
from trio_mcp.functions import docstring
from trio_mcp.functions.docstring import read_docstring


def test_the_example_runs() -> None:
    assert doctest.testmod(docstring).failed == 0


@pytest.mark.table("text", [None, "", "   \n  "])
def test_no_docstring_says_nothing(text: str | None) -> None:
    assert read_docstring(text) == ("", {})


def test_paragraphs_before_the_first_section_are_the_description() -> None:
    text = """One line.

    A second paragraph: with a colon,
    and two lines.

    Returns:
        Something else.

    Not the description any more.
    """
    assert read_docstring(text) == ("One line.\n\nA second paragraph: with a colon,\nand two lines.", {})


@pytest.mark.table("section", ["Args", "Arguments", "Parameters", "Keyword Args"])
def test_each_name_of_the_section_is_understood(section: str) -> None:
    assert read_docstring(f"Do.\n\n    {section}:\n        a: one.\n") == ("Do.", {"a": "one."})


def test_types_in_brackets_and_lines_that_go_on_are_understood() -> None:
    text = """Do.

    Args:
        a (int): the first,
            goes on: here.

            And here.
        b (list[int], optional): the second
        *rest: not a parameter's name
        c:
            alone.

    Raises:
        d: no parameter.
    """
    description, parameters = read_docstring(text)
    assert description == "Do."
    assert parameters["a"] == "the first, goes on: here. And here."
    assert parameters["c"] == "alone."
    assert set(parameters) == {"a", "b", "c"}


def test_a_section_word_within_a_line_begins_no_section() -> None:
    assert read_docstring("The Args: are these.") == ("The Args: are these.", {})


async def test_the_description_is_listed_without_the_sections() -> None:
    def add(a: int) -> int:
        """Add numbers.

        Args:
            a: The first.

        Returns:
            The sum.
        """
        return a

    entry = await listed(add)
    assert entry["description"] == "Add numbers."
    assert entry["inputSchema"]["properties"]["a"]["description"] == "The first."


async def test_what_the_docstring_says_of_unknown_parameters_and_the_context_is_left_out() -> None:
    def add(a: int) -> int:
        """Add.

        Args:
            context: Injected.
            b: No such parameter.
        """
        return a

    assert (await listed(add))["inputSchema"]["properties"] == {"a": {"type": "integer"}}


async def test_an_explicit_description_wins_and_the_parameters_keep_theirs() -> None:
    @tool(description="Mine.")
    def add(a: int) -> int:
        """Add.

        Args:
            a: The first.
        """
        return a

    entry = await listed(add)
    assert entry["description"] == "Mine."
    assert entry["inputSchema"]["properties"]["a"]["description"] == "The first."


async def test_without_a_docstring_no_description_is_listed() -> None:
    def bare() -> None: ...

    assert "description" not in await listed(bare)
    assert tool(bare).description == ""


async def test_a_raw_tool_has_the_description_that_it_was_given() -> None:
    entry = await listed(raw_tool("raw", "Args: all.", {"type": "object"}, lambda arguments: None))
    assert entry["description"] == "Args: all."
