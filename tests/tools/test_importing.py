"""import_tools, through real connections: names, what is skipped and why, what a failed listing leaves."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
import trio
from trio.testing import assert_checkpoints

from tests.exposing import ERAS
from tests.peers import peer
from trio_mcp import (
    Connection,
    ImportedTools,
    InvalidArgumentsError,
    MCPError,
    Policy,
    ProtocolError,
    RequestError,
    Server,
    ServerStoppedError,
    SkippedToolError,
    Tool,
    ToolImportError,
    ToolServer,
    import_tools,
    open_connection,
    open_memory_connection,
    raw_tool,
    tool,
)
from trio_mcp.protocol.revisions import Era

EVERY_ERA = pytest.mark.parametrize("era", ERAS)
OBJECT = {"type": "object"}


def echoing(name: str, description: str = "Gives it back.", schema: bytes = b'{"type":"object"}') -> Tool:
    return raw_tool(name, description, schema, lambda arguments: arguments.decode())


def serving(*tools: Tool, **options: Any) -> ToolServer:
    server = ToolServer("server", **options)
    server.add_tools(*tools)
    return server


async def imported_from(server: ToolServer, era: Era = "modern", **options: Any) -> ImportedTools:
    with trio.fail_after(10):
        async with open_memory_connection(server, protocol=era) as connection:
            return await import_tools(connection, **options)


async def imported_from_peer(server: Server) -> ImportedTools:
    with trio.fail_after(20):
        async with open_connection(server) as connection:
            return await import_tools(connection)


# --- names and calls


@EVERY_ERA
async def test_names_and_descriptions_are_the_servers_own(era: Era) -> None:
    imported = await imported_from(serving(echoing("a.b"), echoing("c", "")), era)
    assert [(it.name, it.remote_name, it.description) for it in imported.tools] == [
        ("a.b", "a.b", "Gives it back."),
        ("c", "c", ""),
    ]
    assert (imported.skipped, imported.error) == ((), None)


@EVERY_ERA
async def test_the_prefix_stands_before_each_name_and_the_server_is_called_by_its_own(era: Era) -> None:
    with trio.fail_after(10):
        async with open_memory_connection(serving(echoing("a"), echoing("b")), protocol=era) as connection:
            imported = await import_tools(connection, prefix="up/")
            assert [it.name for it in imported.tools] == ["up/a", "up/b"]
            assert (await imported.tools[1].call('{"x": 1.10}')).content == '{"x": 1.10}'
            with pytest.raises(InvalidArgumentsError, match=r'^arguments for "up/a" are not a JSON object: '):
                await imported.tools[0].call("[]")


async def test_names_are_never_changed_however_odd_they_are() -> None:
    odd = ["mcp__x__y", "a b", "ü" * 80, "\n", "."]
    listed = [{"name": name, "inputSchema": OBJECT} for name in odd]
    assert [it.name for it in (await imported_from_peer(peer(listed=listed))).tools] == odd


@EVERY_ERA
async def test_every_page_is_listed(era: Era) -> None:
    names = [f"t{number}" for number in range(7)]
    imported = await imported_from(serving(*map(echoing, names), page_size=2), era)
    assert [it.name for it in imported.tools] == names


async def test_the_policy_is_that_of_every_tool() -> None:
    policy = Policy(timeout=3, origin="acme")
    imported = await imported_from(serving(echoing("a"), echoing("b")), policy=policy)
    assert [(it.policy, it.origin) for it in imported.tools] == [(policy, "acme")] * 2
    imported = await imported_from(serving(echoing("a")))
    assert [(it.policy, it.origin) for it in imported.tools] == [(Policy(), "mcp")]


@pytest.mark.table(
    ("options", "text"),
    [
        ({"prefix": None}, "prefix: expected str, got NoneType"),
        ({"prefix": b"x"}, "prefix: expected str, got bytes"),
        ({"policy": {"timeout": 1}}, "policy: expected Policy, got dict"),
    ],
)
async def test_an_argument_of_the_wrong_type_is_named(options: Any, text: str) -> None:
    with pytest.raises(TypeError, match=text):
        await imported_from(serving(echoing("a")), **options)


async def test_what_matters_of_an_entry_is_kept() -> None:
    @tool(title="Adding", read_only=True)
    def add(a: int, b: int) -> dict[str, int]:
        """Add two numbers."""
        return {"sum": a + b}

    (found,) = (await imported_from(serving(add))).tools
    assert (found.title, found.description, found.sequential) == ("Adding", "Add two numbers.", False)
    assert found.input_schema == add.input_schema
    assert found.output_schema == add.output_schema
    assert found.spec.raw["annotations"] == {"readOnlyHint": True}


# --- the connection


async def test_the_connection_stays_open_and_keeps_its_own_tools() -> None:
    server = serving(echoing("a"))
    with trio.fail_after(10):
        async with open_memory_connection(server, name="up") as connection:
            before = connection.tools, connection.warnings
            server.add_tools(echoing("late"))
            with assert_checkpoints():
                imported = await import_tools(connection)
            assert [it.name for it in imported.tools] == ["a", "late"], "it lists anew"
            assert (connection.tools, connection.warnings) == before
            assert not connection.done.is_set()
            assert (await imported.tools[1].call({})).content == "{}"


async def test_a_server_without_tools_is_asked_for_none() -> None:
    source = "Peer.capabilities = lambda self: {}"
    with trio.fail_after(20):
        async with open_connection(peer(source=source)) as connection:
            with assert_checkpoints():
                assert await import_tools(connection) == ImportedTools((), ())
            seen = json.loads((await connection.call_tool("seen")).content)
    assert "tools/list" not in [message["method"] for message in seen]


async def test_what_the_filter_hides_is_neither_imported_nor_skipped() -> None:
    listed = [
        {"name": "a", "inputSchema": OBJECT},
        {"name": "hidden", "inputSchema": OBJECT},
        {"name": "hidden and bad"},
        {"name": "bad"},
        {"name": "hidden", "inputSchema": OBJECT},
        {"inputSchema": OBJECT},
    ]
    imported = await imported_from_peer(peer(listed=listed, tools=("a", "bad", "not offered")))
    assert [it.name for it in imported.tools] == ["a"]
    assert [(it.name, it.index, it.reason) for it in imported.skipped] == [
        ("bad", 3, "no-schema"),
        ("", 5, "no-name"),
    ]


async def test_an_empty_filter_keeps_none() -> None:
    imported = await imported_from_peer(
        peer(listed=[{"name": "a", "inputSchema": OBJECT}, {"name": "b"}], tools=())
    )
    assert imported == ImportedTools((), ())


# --- what is skipped

NAN = float("nan")
RUDE: list[tuple[Any, str, str]] = [
    ("text", "", "no-object"),
    (None, "", "no-object"),
    ([], "", "no-object"),
    (7, "", "no-object"),
    ({"name": "nan", "inputSchema": {"maximum": NAN}}, "", "undecodable"),
    ({"name": NAN}, "", "undecodable"),
    ({"inputSchema": OBJECT}, "", "no-name"),
    ({"name": "", "inputSchema": []}, "", "no-name"),
    ({"name": 7}, "", "no-name"),
    ({"name": "absent"}, "absent", "no-schema"),
    ({"name": "null", "inputSchema": None}, "null", "no-schema"),
    ({"name": "text", "inputSchema": "object"}, "text", "no-schema"),
    ({"name": "list", "inputSchema": [{}]}, "list", "no-schema"),
    ({"name": "array", "inputSchema": {"type": "array"}}, "array", "root-not-object"),
    ({"name": "types", "inputSchema": {"type": ["object"]}}, "types", "root-not-object"),
    ({"name": "both", "inputSchema": {"type": "array", "$ref": "#"}}, "both", "root-not-object"),
    ({"name": "ref", "inputSchema": {"$ref": "#/$defs/x"}}, "ref", "root-ref"),
    ({"name": "first", "inputSchema": OBJECT}, "first", "repeated-name"),
    ({"name": "first", "inputSchema": {"$ref": "#"}}, "first", "root-ref"),
    ({"name": "first"}, "first", "no-schema"),
]
GOOD: list[Any] = [
    {"name": "untyped", "inputSchema": {"properties": {}}},
    {"name": "php", "inputSchema": [], "annotations": []},
    {"name": "typed ref", "inputSchema": {"type": "object", "$ref": "#/$defs/x"}},
    {"name": "odd", "inputSchema": OBJECT, "title": 1, "description": ["x"], "annotations": "no", "_meta": 3},
]
FIRST = {"name": "first", "inputSchema": OBJECT}


def rude_pages() -> dict[str, Any]:
    """The rude listing over three pages and an empty one: `first`, what is skipped, what is good."""
    entries = [entry for entry, _, _ in RUDE]
    return {
        "": {"tools": [FIRST, *entries[:5]], "nextCursor": "2"},
        "2": {"tools": [], "nextCursor": "3"},
        "3": {"tools": entries[5:], "nextCursor": "4"},
        "4": {"tools": GOOD},
    }


@EVERY_ERA
async def test_what_cannot_be_imported_is_skipped_with_its_reason_and_the_others_stay(era: Era) -> None:
    imported = await imported_from_peer(peer(era=era, pages=rude_pages()))
    assert [it.name for it in imported.tools] == ["first", "untyped", "php", "typed ref", "odd"]
    assert [(it.name, it.index, it.reason) for it in imported.skipped] == [
        (name, index, reason) for index, (_, name, reason) in enumerate(RUDE, start=1)
    ]


async def test_the_cause_is_there_where_there_is_one() -> None:
    for skipped in (await imported_from_peer(peer(pages=rude_pages()))).skipped:
        assert skipped.cause is skipped.__cause__
        assert (skipped.cause is None) == (skipped.reason != "undecodable")


async def test_what_was_skipped_is_a_group_to_raise_to_catch_and_to_split() -> None:
    imported = await imported_from_peer(peer(pages=rude_pages()))
    error = imported.error
    assert isinstance(error, ToolImportError)
    assert error.exceptions == imported.skipped
    text = str(error)
    assert text.startswith(f"{len(RUDE)} tools were skipped: index 1 (no-object), index 2 (no-object), ")
    assert text.endswith(f'"absent" (no-schema), and {len(RUDE) - 10} more')
    caught: list[SkippedToolError] = []
    try:
        raise error
    except* SkippedToolError as group:
        assert type(group) is ToolImportError  # noqa: PT017 - pytest.raises knows no except*
        caught += group.exceptions  # type: ignore[arg-type]
    assert tuple(caught) == imported.skipped
    nameless, named = error.split(lambda one: isinstance(one, SkippedToolError) and not one.name)
    assert type(nameless) is type(named) is ToolImportError
    assert nameless is not None
    assert {one.reason for one in nameless.exceptions} == {  # type: ignore[union-attr]
        "no-object",
        "undecodable",
        "no-name",
    }
    everything, nothing = error.split(SkippedToolError)
    assert type(everything) is ToolImportError
    assert (everything.exceptions, everything.message, nothing) == (error.exceptions, error.message, None)
    none, rest = error.split(ProtocolError)
    assert (none, type(rest)) == (None, ToolImportError)
    with pytest.raises(MCPError):
        raise error
    assert imported.error is not error, "each raise gets its own, without the traceback of the one before"


async def test_the_first_importable_occurrence_of_a_name_stands_and_a_skipped_one_claims_nothing() -> None:
    listed = [
        {"name": "a"},
        {"name": "a", "inputSchema": {"type": "array"}},
        {"name": "a", "description": "third", "inputSchema": OBJECT},
        {"name": "a", "description": "fourth", "inputSchema": OBJECT},
    ]
    imported = await imported_from_peer(peer(listed=listed))
    assert [it.description for it in imported.tools] == ["third"]
    assert [(it.index, it.reason) for it in imported.skipped] == [
        (0, "no-schema"),
        (1, "root-not-object"),
        (3, "repeated-name"),
    ]


async def test_one_skipped_tool_reads_well() -> None:
    error = (await imported_from_peer(peer(listed=[{"name": "a"}]))).error
    assert str(error) == '1 tool was skipped: "a" (no-schema)'


OUTPUTS: list[tuple[Any, Any]] = [
    ({"type": "object", "x": 1}, {"type": "object", "x": 1}),
    ({"type": "array"}, None),
    ({"type": ["object"]}, None),
    ({"properties": {}}, None),
    ({"$ref": "#"}, None),
    ("text", None),
    (7, None),
    ([], None),
    (None, None),
]


async def test_a_bad_output_schema_never_costs_the_tool_and_its_bytes_stay() -> None:
    listed = [
        {"name": f"t{index}", "inputSchema": OBJECT, "outputSchema": schema}
        for index, (schema, _) in enumerate(OUTPUTS)
    ]
    imported = await imported_from_peer(peer(listed=listed))
    assert imported.skipped == ()
    assert [it.output_schema for it in imported.tools] == [kept for _, kept in OUTPUTS]
    assert [it.spec.output_schema_json for it in imported.tools] == [
        None if schema is None else json.dumps(schema).encode() for schema, _ in OUTPUTS
    ]


async def test_a_schema_without_type_is_completed_and_its_bytes_are_verbatim() -> None:
    listed = [
        {"name": "untyped", "inputSchema": {"properties": {"a": {}}, "x": 1.5}},
        {"name": "empty", "inputSchema": {}},
        {"name": "php", "inputSchema": []},
    ]
    imported = await imported_from_peer(peer(listed=listed))
    assert [it.input_schema for it in imported.tools] == [
        {"type": "object", "properties": {"a": {}}, "x": 1.5},
        OBJECT,
        OBJECT,
    ]
    assert [it.input_schema_json for it in imported.tools] == [
        b'{"properties": {"a": {}}, "x": 1.5}',
        b"{}",
        b"[]",
    ]


async def test_odd_pages_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    pages = {"": {"tools": [{"name": "a", "inputSchema": OBJECT}], "nextCursor": "x"}, "x": {"nextCursor": "x"}}
    with trio.fail_after(20):
        async with open_connection(peer(pages=pages)) as connection:
            caplog.clear()
            with caplog.at_level(logging.WARNING, "trio_mcp.client"):
                imported = await import_tools(connection)
    assert [it.name for it in imported.tools] == ["a"]
    assert [record.getMessage() for record in caplog.records] == [
        'server "peer": tools/list: a page without a list of tools was read as empty',
        'server "peer": tools/list: a cursor came twice; the listing ends there',
    ]


# --- a listing that fails

# The first listing, at opening, is good; the next one goes wrong on its second page.
GOES_WRONG = """
listings = []
def page(cursor):
    if not cursor:
        listings.append(1)
    if cursor and len(listings) > 1:
        {what}
    tools = [{{"name": "hang" if cursor else "seen", "inputSchema": OBJECT}}]
    return {{"tools": tools}} if cursor else {{"tools": tools, "nextCursor": "2"}}
peer.page = page
"""


async def failed(what: str, error: type[Exception], era: Era) -> tuple[Exception, Connection]:
    """The error of an import whose second page goes wrong; the connection, which is closed by now."""
    with trio.fail_after(20):
        async with open_connection(peer(era=era, source=GOES_WRONG.format(what=what))) as connection:
            with pytest.raises(error) as caught:
                await import_tools(connection)
            assert [it.remote_name for it in connection.tools] == ["seen", "hang"]
            if error is not ServerStoppedError:
                assert not connection.done.is_set()
    return caught.value, connection


@EVERY_ERA
@pytest.mark.parametrize(
    ("what", "error"),
    [
        ("return {'tools': 7}", ProtocolError),
        ("os._exit(3)", ServerStoppedError),
    ],
)
async def test_a_listing_that_fails_is_an_ordinary_error(what: str, error: type[Exception], era: Era) -> None:
    caught, _ = await failed(what, error, era)
    assert not isinstance(caught, BaseExceptionGroup)


async def test_a_listing_that_is_refused_is_a_request_error() -> None:
    source = "real = peer.page\nlistings = []\n" + (
        "def request(id_, method, params):\n"
        "    listings.append(method)\n"
        "    if listings.count('tools/list') > 1:\n"
        "        return peer.refuse(id_, -32603, 'not now')\n"
        "    return Peer.request(peer, id_, method, params)\n"
        "peer.request = request\n"
    )
    with trio.fail_after(20):
        async with open_connection(peer(source=source)) as connection:
            with pytest.raises(RequestError, match="not now"):
                await import_tools(connection)


async def test_importing_over_a_closed_connection_raises_closed() -> None:
    async with open_memory_connection(serving(echoing("a"))) as connection:
        pass
    with pytest.raises(trio.ClosedResourceError):
        await import_tools(connection)


@pytest.mark.slow
@EVERY_ERA
async def test_a_deadline_in_the_middle_of_a_listing_passes_through_unchanged(era: Era) -> None:
    # A page that never comes; everything else is answered.
    source = GOES_WRONG.format(what="raise StopIteration") + (
        "real = peer.request\n"
        "def request(*args):\n"
        "    try: real(*args)\n"
        "    except StopIteration: pass\n"
        "peer.request = request\n"
    )
    with trio.fail_after(20):
        async with open_connection(peer(era=era, source=source)) as connection:
            with pytest.raises(trio.TooSlowError) as caught:
                with trio.fail_after(0.3):
                    await import_tools(connection)
            assert not hasattr(caught.value, "__notes__")
            assert [it.remote_name for it in connection.tools] == ["seen", "hang"]
            assert "tools/list" in (await connection.call_tool("seen")).content, "the connection still works"


async def test_a_cancelled_import_leaves_the_connection_as_it_was() -> None:
    with trio.fail_after(10):
        async with open_memory_connection(serving(echoing("a"))) as connection:
            with trio.CancelScope() as scope:
                scope.cancel()
                await import_tools(connection)
            assert scope.cancelled_caught
            assert [it.name for it in (await import_tools(connection)).tools] == ["a"]


async def test_many_imports_at_once_are_all_alike() -> None:
    found: list[ImportedTools] = []
    server = serving(*(echoing(f"t{number}") for number in range(20)), page_size=3)
    with trio.fail_after(10):
        async with open_memory_connection(server) as connection:

            async def one() -> None:
                found.append(await import_tools(connection))

            async with trio.open_nursery() as nursery:
                for _ in range(10):
                    nursery.start_soon(one)
    assert found == [found[0]] * 10
    assert len(found[0].tools) == 20


@pytest.mark.parametrize("wrong", [None, "server", ToolServer("s")])
async def test_importing_from_what_is_no_connection_is_a_type_error(wrong: Any) -> None:
    with pytest.raises(TypeError, match=f"^connection: expected Connection, got {type(wrong).__name__}$"):
        await import_tools(wrong)
