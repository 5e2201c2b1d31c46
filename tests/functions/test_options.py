"""What is said about a tool when it is made: each option, where it is listed, and what is refused."""

from __future__ import annotations

import doctest
import inspect
from typing import Any

import attrs
import pytest
import trio

from tests.exposing import ERAS, call, listed
from trio_mcp import Icon, LocalTool, Policy, Tool, ToolAnnotations, ToolServer, raw_tool, tool
from trio_mcp.functions import decorators, docstring, local_tool, options, signature
from trio_mcp.functions.types import metadata, refusal, schema, walking
from trio_mcp.models import icon as icon_module
from trio_mcp.models import tool as tool_module
from trio_mcp.protocol.revisions import Era

HINTS = {
    "read_only": "readOnlyHint",
    "destructive": "destructiveHint",
    "idempotent": "idempotentHint",
    "open_world": "openWorldHint",
}
CLOCK = Icon("https://example.org/clock.png", mime_type="image/png", sizes=["48x48", "any"], theme="dark")
DOT = Icon("data:image/gif;base64,R0lGODlh")


def nothing() -> None: ...


def made_with(how: str, **given: Any) -> Tool:
    return tool(**given)(nothing) if how == "tool" else raw_tool("nothing", "", {}, lambda _: None, **given)


MODULES = [decorators, docstring, local_tool, metadata, options, refusal, schema, signature, walking]


@pytest.mark.table("module", [*MODULES, icon_module, tool_module], ids=lambda module: module.__name__)
def test_the_examples_run(module: Any) -> None:
    assert doctest.testmod(module).failed == 0


# --- a tool that is a function still


def test_calling_a_tool_is_calling_its_function() -> None:
    @tool
    def count_words(text: str, *, least: int = 1) -> int:
        """Count."""
        return len([word for word in text.split() if len(word) >= least])

    assert isinstance(count_words, LocalTool)
    assert count_words("a b") == 2
    assert count_words(text="a bc", least=2) == 1
    assert inspect.signature(count_words) == inspect.signature(count_words.function)
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        count_words()  # type: ignore[call-arg]


async def test_calling_an_async_tool_gives_what_is_to_be_awaited() -> None:
    @tool(read_only=True)
    async def double(number: int) -> int:
        await trio.lowlevel.checkpoint()
        return 2 * number

    assert await double(2) == 4
    assert (await double.call({"number": 2})).structured == 4


def test_another_policy_leaves_it_a_function() -> None:
    @tool
    def one() -> int:
        return 1

    assert one.with_policy(Policy(timeout=1))() == 1


def test_a_bound_method_can_be_called_too() -> None:
    assert tool(_Counter().add)(2) == 2


class _Counter:
    def add(self, number: int) -> int:
        return number


def test_a_raw_tool_calls_its_handler() -> None:
    assert raw_tool("size", "", {}, len)(b"{}") == 2


# --- hints


@pytest.mark.table("how", ["tool", "raw_tool"])
@pytest.mark.table("value", [True, False])
@pytest.mark.table("option", HINTS)
async def test_a_hint_is_listed_where_it_was_given(option: str, value: bool, how: str) -> None:
    made = made_with(how, **{option: value})
    assert (await listed(made))["annotations"] == {HINTS[option]: value}
    assert getattr(made.annotations, f"{option}_hint") is value
    assert "annotations" not in await listed(made_with(how))


@pytest.mark.table("era", ERAS)
@pytest.mark.table("how", ["tool", "raw_tool"])
async def test_everything_that_is_said_is_listed(how: str, era: Era) -> None:
    policy = Policy(timeout=1)
    icons, meta = [CLOCK, DOT], {"a.b/c": [1]}
    made = made_with(how, title="T", read_only=True, open_world=False, meta=meta, icons=icons, policy=policy)
    entry = await listed(made, era=era)
    assert (entry["title"], entry["_meta"]) == ("T", {"a.b/c": [1]})
    assert entry["annotations"] == {"readOnlyHint": True, "openWorldHint": False}
    assert entry["icons"] == [
        {
            "src": "https://example.org/clock.png",
            "mimeType": "image/png",
            "sizes": ["48x48", "any"],
            "theme": "dark",
        },
        {"src": "data:image/gif;base64,R0lGODlh"},
    ]
    assert (made.title, made.spec.meta, made.policy, made.sequential) == ("T", meta, policy, False)


async def test_a_raw_tool_lists_its_output_schema_as_it_was_given() -> None:
    output = b'{ "type":"object", "x": 1.10 }'
    made = raw_tool("raw", "", {}, lambda _: {"a": 1}, output_schema=output)
    assert made.spec.output_schema_json == output
    assert (await listed(made))["outputSchema"] == {"type": "object", "x": 1.10}
    assert (await call(made)).structured == {"a": 1}


# --- what is listed is what the value says


@pytest.mark.table("how", ["tool", "raw_tool"])
async def test_annotations_that_were_changed_are_listed(how: str) -> None:
    made = made_with(how, read_only=True, idempotent=False, meta={"a": 1})
    annotations = attrs.evolve(made.annotations, read_only_hint=False, destructive_hint=False, title="T")
    spec = attrs.evolve(made.spec, annotations=annotations, meta={"b": 2})
    entry = await listed(attrs.evolve(made, spec=spec))
    assert entry["annotations"] == {
        "readOnlyHint": False,
        "idempotentHint": False,
        "destructiveHint": False,
        "title": "T",
    }
    assert entry["_meta"] == {"b": 2}


async def test_annotations_and_meta_that_were_taken_away_are_listed_no_more() -> None:
    made = tool(meta={"a": 1})(nothing)
    titled = attrs.evolve(made, spec=attrs.evolve(made.spec, annotations=ToolAnnotations(title="T")))
    bare = attrs.evolve(titled, spec=attrs.evolve(titled.spec, annotations=ToolAnnotations(), meta=None))
    assert "annotations" in await listed(titled)
    assert not {"annotations", "_meta"} & set(await listed(bare))


# --- what is refused


@pytest.mark.table("how", ["tool", "raw_tool"])
@pytest.mark.table(
    ("given", "message"),
    [
        ({"read_only": 1}, "read_only: expected bool, got int"),
        ({"destructive": "no"}, "destructive: expected bool, got str"),
        ({"idempotent": 0}, "idempotent: expected bool, got int"),
        ({"open_world": []}, "open_world: expected bool, got list"),
        ({"title": 7}, "title: expected str, got int"),
        ({"policy": {}}, "policy: expected Policy, got dict"),
        ({"meta": [1]}, "meta: expected a mapping with names that are str, got list"),
        ({"meta": {1: 1}}, "meta: expected a mapping with names that are str, got dict"),
        ({"meta": {"a": object()}}, "meta: cannot be written as JSON"),
        ({"icons": "https://a.example"}, "icons: expected a sequence of Icon, got str"),
        ({"icons": [{"src": "x"}]}, 'icons: expected Icon, got dict: write Icon("https://...")'),
        ({"icons": CLOCK}, "icons: expected a sequence of Icon, got Icon"),
    ],
    ids=str,
)
def test_an_option_of_a_wrong_type_is_refused_by_its_name(given: Any, message: str, how: str) -> None:
    with pytest.raises(TypeError) as caught:
        made_with(how, **given)
    assert str(caught.value).startswith(message)


@pytest.mark.table(
    ("given", "error"),
    [
        ({"src": 7}, TypeError("src: expected str, got int")),
        ({"src": "http://a.example/x.png"}, ValueError("src: expected an https URL or a data URI, got ")),
        ({"src": "https:///x.png"}, ValueError("src: expected an https URL")),
        ({"src": "https://a.example/\n"}, ValueError("src: expected an https URL")),
        ({"src": "javascript:alert(1)"}, ValueError("src: expected an https URL")),
        ({"src": "data:,x"}, ValueError("src: a data URI needs a type and base64")),
        ({"src": "data:image/png;base64,?"}, ValueError("src: a data URI needs a type and base64")),
        ({"mime_type": "png"}, ValueError("mime_type: expected a type such as")),
        ({"mime_type": 7}, TypeError("mime_type: expected str or None, got int")),
        ({"sizes": "48x48"}, TypeError("sizes: expected a sequence of str, got str")),
        ({"sizes": [48]}, TypeError("sizes: expected a sequence of str, got int in it")),
        ({"sizes": ["48"]}, ValueError("sizes: expected sizes such as")),
        ({"theme": "blue"}, ValueError('theme: expected "light", "dark" or None')),
    ],
    ids=str,
)
def test_an_icon_is_what_the_specification_says(given: dict[str, Any], error: Exception) -> None:
    with pytest.raises(type(error)) as caught:
        Icon(**{"src": "https://a.example/x.png", **given})
    assert str(caught.value).startswith(str(error))


@pytest.mark.table(
    ("schema", "error"),
    [
        (b"[]", ValueError("output_schema: expected a JSON object")),
        (b"{", ValueError("output_schema: ")),
        (7, TypeError("output_schema: expected a mapping or bytes, got int")),
    ],
    ids=str,
)
def test_an_output_schema_is_a_schema(schema: Any, error: Exception) -> None:
    with pytest.raises(type(error), match=str(error)):
        raw_tool("raw", "", {}, len, output_schema=schema)


# --- the decorator of a server


def test_the_decorator_of_a_server_publishes_and_returns_the_tool() -> None:
    server = ToolServer("words")

    @server.tool
    def one() -> int:
        return 1

    @server.tool(name="other.two", read_only=True)
    def two() -> int:
        return 2

    assert (one(), two()) == (1, 2)
    assert server.tools == (one, two)
    assert two.name == "other.two"


def test_what_a_server_refuses_is_not_published() -> None:
    server = ToolServer("words")
    with pytest.raises(ValueError, match="requires approval"):
        server.tool(policy=Policy(require_approval=True))(nothing)
    with pytest.raises(TypeError, match="function: expected a function, got int"):
        server.tool(7)  # type: ignore[call-overload]
    assert server.tools == ()
