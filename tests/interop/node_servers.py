"""The servers from npm that nobody here wrote, as data: everything, filesystem, memory."""

from __future__ import annotations

import base64
from pathlib import Path

from tests.interop import install
from tests.interop.scenario import LEGACY, Call, Known, Scenario

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def _node(package: str, *arguments: str) -> tuple[str, ...]:
    return (
        str(install.node_tool("node")),
        str(install.node_module(f"@modelcontextprotocol/{package}")),
        *arguments,
    )


def everything(tmp: Path) -> Scenario:
    """server-everything, the TypeScript SDK's own demonstration."""
    chicago = {"location": "Chicago"}
    packed = {"name": "greeting.gz", "data": "data:text/plain,hello"}
    return Scenario(
        command=_node("server-everything"),
        calls=(
            Call("echo", {"message": "hällo"}, ("Echo: hällo",)),
            Call("get-sum", {"a": 2, "b": 3.5}, ("5.5",)),
            Call("get-sum", {"a": "x"}, ("expected number",), is_error=True),
            Call("get-env", {}, ("TRIO_MCP_TEST_MARK",)),
            Call(
                "get-annotated-message",
                {"messageType": "success", "includeImage": True},
                ("completed",),
                blocks=("Text", "Image"),
            ),
            Call("get-tiny-image", {}, ("image",), blocks=("Text", "Image", "Text")),
            Call(
                "get-structured-content",
                chicago,
                ("temperature",),
                lambda it: isinstance(it["humidity"], int),
            ),
            Call(
                "get-resource-links",
                {"count": 3},
                ("[resource link: demo://resource/dynamic/text/2]",),
                blocks=("Text", "ResourceLink", "ResourceLink", "ResourceLink"),
            ),
            Call(
                "get-resource-reference",
                {"resourceType": "Text", "resourceId": 2},
                ("Resource 2: This is a plaintext resource",),
                blocks=("Text", "EmbeddedResource", "Text"),
            ),
            Call(
                "get-resource-reference",
                {"resourceType": "Blob", "resourceId": 2},
                ("[binary resource: demo://resource/dynamic/blob/2]",),
                blocks=("Text", "EmbeddedResource", "Text"),
            ),
            Call("gzip-file-as-resource", {**packed, "outputType": "resource"}, blocks=("EmbeddedResource",)),
            Call("gzip-file-as-resource", {**packed, "outputType": "resourceLink"}, blocks=("ResourceLink",)),
            Call("toggle-simulated-logging", {}, ("Started",)),
            Call("toggle-simulated-logging", {}, ("Stopped",)),
            Call("toggle-subscriber-updates", {}, ("Started",)),
            Call("toggle-subscriber-updates", {}, ("Stopped",)),
            Call("trigger-long-running-operation", {"duration": 0.2, "steps": 2}, ("Steps: 2",)),
            # It only runs as a task, a draft of the last legacy revision that went away again.
            Call("simulate-research-query", {"topic": "trio"}, ("requires task augmentation",), is_error=True),
        ),
        stderr="Starting default (STDIO) server",
    )


def filesystem(tmp: Path) -> Scenario:
    """server-filesystem, on a directory with a text and a picture."""
    files = tmp.resolve() / "files"
    files.mkdir()
    (files / "a.txt").write_text("first\n")
    (files / "pixel.png").write_bytes(PIXEL)
    a, b, c = (str(files / name) for name in ("a.txt", "b.txt", "sub/c.txt"))
    everything = {"path": str(files)}
    return Scenario(
        command=_node("server-filesystem", str(files)),
        calls=(
            Call("list_allowed_directories", {}, (str(files),)),
            Call("write_file", {"path": b, "content": "one\ntwo\nthree\n"}, ("Successfully wrote",)),
            Call(
                "read_file",
                {"path": b},
                ("one\ntwo\nthree\n",),
                lambda it: it["content"] == "one\ntwo\nthree\n",
            ),
            Call("read_text_file", {"path": b, "head": 1}, ("one",), lambda it: it["content"] == "one"),
            Call("read_media_file", {"path": str(files / "pixel.png")}, blocks=("Image",)),
            Call("read_multiple_files", {"paths": [a, b]}, ("first", "three")),
            Call("edit_file", {"path": b, "edits": [{"oldText": "two", "newText": "2"}]}, ("-two", "+2")),
            Call("create_directory", {"path": str(files / "sub")}, ("created",)),
            Call("list_directory", everything, ("[FILE] a.txt", "[DIR] sub")),
            Call("list_directory_with_sizes", everything, ("Total: 3 files, 1 directories",)),
            Call("directory_tree", everything, ('"name": "sub"',)),
            Call("move_file", {"source": b, "destination": c}, ("moved",)),
            Call("search_files", {**everything, "pattern": "**/*.txt"}, (a, c)),
            Call("get_file_info", {"path": a}, ("size: 6",)),
            Call("read_text_file", {"path": "/etc/passwd"}, ("Access denied",), is_error=True),
        ),
        stderr="running on stdio",
    )


def memory(tmp: Path) -> Scenario:
    """server-memory, with its graph in a file of its own."""
    ada = {"name": "Ada", "entityType": "person", "observations": ["writes"]}
    engine = {"name": "Engine", "entityType": "machine", "observations": []}
    programs = {"from": "Ada", "to": "Engine", "relationType": "programs"}
    counts = {"entityName": "Ada", "observations": ["counts"]}
    return Scenario(
        command=_node("server-memory"),
        environment={"MEMORY_FILE_PATH": str(tmp / "memory.jsonl")},
        calls=(
            Call(
                "create_entities",
                {"entities": [ada, engine]},
                ("Ada",),
                lambda it: it["entities"] == [ada, engine],
            ),
            Call(
                "create_relations",
                {"relations": [programs]},
                ("programs",),
                lambda it: it["relations"] == [programs],
            ),
            Call(
                "add_observations",
                {"observations": [{"entityName": "Ada", "contents": ["counts"]}]},
                ("counts",),
            ),
            Call("read_graph", {}, ("Ada", "Engine"), lambda it: it["relations"] == [programs]),
            Call(
                "search_nodes",
                {"query": "counts"},
                ("Ada",),
                lambda it: [e["name"] for e in it["entities"]] == ["Ada"],
            ),
            Call("open_nodes", {"names": ["Engine"]}, ("Engine",), lambda it: it["entities"] == [engine]),
            Call("delete_observations", {"deletions": [counts]}, ("deleted",)),
            Call("delete_relations", {"relations": [programs]}, ("deleted",)),
            Call("delete_entities", {"entityNames": ["Engine"]}, ("deleted",)),
            Call("read_graph", {}, ("Ada",), lambda it: it == {"entities": [ada], "relations": []}),
        ),
        stderr="running on stdio",
    )


NEEDS = ("node", "node_modules")
EVERYTHING = Known(everything, NEEDS, LEGACY)
FILESYSTEM = Known(filesystem, NEEDS, LEGACY)
MEMORY = Known(memory, NEEDS, LEGACY)
