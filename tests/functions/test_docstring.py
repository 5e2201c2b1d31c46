"""What a docstring gives to the listing: the description before the first section, and the parameters' texts."""

from __future__ import annotations

import dataclasses
import doctest
from typing import Annotated

import pytest

from tests.exposing import listed
from trio_mcp import raw_tool, tool
from trio_mcp.functions import docstring
from trio_mcp.functions.docstring import read_docstring


def test_the_example_runs() -> None:
    assert doctest.testmod(docstring).failed == 0


@pytest.mark.parametrize("text", [None, "", "   \n  "])
def test_no_docstring_says_nothing(text: str | None) -> None:
    assert read_docstring(text) == ("", {})


def test_paragraphs_outside_of_sections_are_the_description() -> None:
    text = """One line.

    A second paragraph: with a colon,
    and two lines.

    Returns:
        Something else.

    A line that is not indented ends a section.
    """
    assert read_docstring(text) == (
        "One line.\n\nA second paragraph: with a colon,\nand two lines.\n\n"
        "A line that is not indented ends a section.",
        {},
    )


@pytest.mark.parametrize("section", ["Args", "Arguments", "Parameters", "Keyword Args"])
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


# --- forms


def test_a_line_that_is_not_indented_ends_the_parameters() -> None:
    text = """Run a query.

    Args:
        sql: What to run.

    The result has one line for each row.

    Usage:
        run("select 1")

    Other Parameters:
        limit: How many rows.
    """
    assert read_docstring(text) == (
        'Run a query.\n\nThe result has one line for each row.\n\nUsage:\n    run("select 1")',
        {"sql": "What to run.", "limit": "How many rows."},
    )


def test_a_dash_parts_name_and_text_as_a_colon_does() -> None:
    assert read_docstring("Run.\n\nArgs:\n    sql - what to run\n    limit (int) – at most\n") == (
        "Run.",
        {"sql": "what to run", "limit": "at most"},
    )


def test_what_cannot_be_read_stays_in_the_description() -> None:
    text = """Run.

    Args:
        All of them are optional!
        sql: What to run.

    Returns:
    A list.
    """
    assert read_docstring(text) == (
        "Run.\n\nArgs:\n    All of them are optional!\n\nReturns:\nA list.",
        {"sql": "What to run."},
    )


def test_numpy_sections_are_read() -> None:
    text = """Run a query.

    Longer.

    Parameters
    ----------
    sql : str
        What to run.

        Any dialect.
    first, last : int, optional
        The rows.
    bare

    Other Parameters
    ----------------
    limit : int
        How many.

    Returns
    -------
    list
        The rows.
    """
    assert read_docstring(text) == (
        "Run a query.\n\nLonger.",
        {
            "sql": "What to run. Any dialect.",
            "first": "The rows.",
            "last": "The rows.",
            "bare": "",
            "limit": "How many.",
        },
    )


def test_a_sentence_after_a_numpy_section_is_the_description() -> None:
    text = "Run.\n\nParameters\n----------\nsql : str\n    What.\n\nThe result is a list of rows.\n"
    assert read_docstring(text) == ("Run.\n\nThe result is a list of rows.", {"sql": "What."})


def test_sphinx_fields_are_read() -> None:
    text = """Run a query.

    :param sql: What to run,
        however long.
    :param int limit: How many.
    :type sql: str
    :keyword deep: All of it.
    :returns: The rows.
    :raises ValueError: Never.

    More.
    """
    assert read_docstring(text) == (
        "Run a query.\n\nMore.",
        {"sql": "What to run, however long.", "limit": "How many.", "deep": "All of it."},
    )


def test_a_line_that_only_looks_like_a_sphinx_field_stays() -> None:
    assert read_docstring("Run.\n\n:shrug: it happens") == ("Run.\n\n:shrug: it happens", {})


# --- classes


@dataclasses.dataclass
class Order:
    """What somebody buys.

    Args:
        item: Its number in the catalogue.
        count: How many.
    """

    item: str
    count: Annotated[int, "From the field."] = 1


@dataclasses.dataclass
class Bare:
    """
    Attributes:
        item: Its number.
    """

    item: str


async def test_what_a_class_says_of_its_fields_stands_at_the_fields() -> None:
    def buy(order: Order, bare: Bare | None = None) -> None: ...

    schemas = (await listed(buy))["inputSchema"]["$defs"]
    assert schemas["Order"]["description"] == "What somebody buys."
    assert schemas["Order"]["properties"] == {
        "item": {"type": "string", "description": "Its number in the catalogue."},
        "count": {"type": "integer", "default": 1, "description": "From the field."},
    }
    assert "description" not in schemas["Bare"]
    assert schemas["Bare"]["properties"]["item"]["description"] == "Its number."
