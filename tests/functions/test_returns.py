"""Return types beyond the plain ones: content blocks where they may stand, models, paths, unions."""

from __future__ import annotations

import dataclasses
import datetime
import doctest
import pathlib
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal

import pydantic
import pytest
from pydantic import Field
from typing_extensions import TypeAliasType

from trio_mcp import Audio, Image, Text, ToolResult, tool
from trio_mcp.functions import returns

IMAGE = Image(b"GIF89a", "image/gif")
Pics = TypeAliasType("Pics", list[Image])


class Model(pydantic.BaseModel):
    """A model."""

    count: int = Field(ge=1, alias="howMany")
    at: datetime.date | None = None

    @pydantic.computed_field  # type: ignore[prop-decorator]
    @property
    def double(self) -> int:
        """Twice."""
        return 2 * self.count


@dataclasses.dataclass
class Cat:
    lives: int
    kind: Literal["cat"] = "cat"


@dataclasses.dataclass
class Dog:
    name: str
    kind: Literal["dog"] = "dog"


def giving(value: Any, kind: Any = ...) -> Callable[..., Any]:
    """A function that returns the value, and is annotated to return a `kind` (`...`: not annotated)."""

    async def give():  # type: ignore[no-untyped-def]
        return value

    if kind is not ...:
        give.__annotations__["return"] = kind
    return give


def test_the_examples_run() -> None:
    assert doctest.testmod(returns).failed == 0


# --- content blocks


@pytest.mark.table(
    ("kind", "value"),
    [
        (Pics, [IMAGE]),
        (Pics | None, [IMAGE]),
        (Annotated[Pics, "The pictures."], [IMAGE]),
        (list[Annotated[Image, "One."]], [IMAGE]),
        (Sequence[Image | str], [IMAGE]),
        (Image | Audio | None, IMAGE),
        (tuple[Image, str], (IMAGE, "a")),
        (list[Text] | Image, IMAGE),
        (str | Image, IMAGE),
    ],
    ids=str,
)
async def test_blocks_are_blocks_alone_and_in_lists(kind: Any, value: Any) -> None:
    made = tool(giving(value, kind))
    assert made.spec.output_schema_json is None
    result = await made.call(None)
    assert (result.images, result.structured_json) == ((IMAGE,), None)


@pytest.mark.table(
    "kind",
    [
        dict[str, Image],
        list[Image | dict[str, int]],
        list[dict[str, int] | Image],
        list[list[Image]],
        set[Image],
        Image | int,
        list[ToolResult],
        tuple[Image, int],
    ],
    ids=str,
)
def test_blocks_elsewhere_are_refused(kind: Any) -> None:
    with pytest.raises(TypeError, match=r"give: return: \w+ within .*: content blocks stand alone, or in a list"):
        tool(giving(None, kind))


@pytest.mark.table("value", [{"a": IMAGE}, [{"a": 1}, IMAGE], [[IMAGE]], {"a": [{"b": (IMAGE,)}]}], ids=str)
@pytest.mark.table("kind", [..., Any, dict[str, Any] | list[Any]], ids=str)
async def test_blocks_elsewhere_in_a_value_are_a_failure(value: Any, kind: Any) -> None:
    result = await tool(giving(value, kind)).call(None)
    assert result.is_error
    assert "Image within another value: return blocks alone, or in a list of blocks and str" in result.content


# --- models


async def test_a_model_is_structured_output_as_it_writes_itself() -> None:
    made = tool(giving(Model(howMany=2, at=datetime.date(2026, 7, 28)), Model))
    assert made.output_schema is not None
    assert made.output_schema["required"] == ["howMany", "double"]
    assert made.output_schema["description"] == "A model."
    result = await made.call(None)
    assert result.structured == {"howMany": 2, "at": "2026-07-28", "double": 4}


async def test_a_model_without_an_annotation_is_written_too() -> None:
    result = await tool(giving({"all": [Model(howMany=1)]})).call(None)
    assert result.structured == {"all": [{"howMany": 1, "at": None, "double": 2}]}


@pytest.mark.table(
    ("value", "reason"),
    [({"howMany": 0}, "howMany: input should be greater than or equal to 1"), (5, "input should be a valid dict")],
)
async def test_what_is_no_such_model_is_a_failure(value: Any, reason: str) -> None:
    result = await tool(giving(value, Model)).call(None)
    assert result.content.startswith(
        f'tool "give" returned a value that does not match its return type: {reason}'
    ), result.content


async def test_a_result_with_structured_output_of_its_own_is_checked_against_the_model() -> None:
    good = ToolResult("x", structured_json=b'{"howMany":1}')
    assert not (await tool(giving(good, Model)).call(None)).is_error
    bad = ToolResult("x", structured_json=b'{"howMany":0}')
    assert (await tool(giving(bad, Model)).call(None)).is_error


async def test_lists_of_models_are_structured_too() -> None:
    made = tool(giving([Model(howMany=1)], list[Model]))
    assert made.output_schema is None
    assert (await made.call(None)).structured == [{"howMany": 1, "at": None, "double": 2}]


# --- the rest


async def test_a_path_is_its_text() -> None:
    made = tool(giving([pathlib.Path("/a")], list[pathlib.Path]))
    assert (await made.call(None)).structured == ["/a"]


async def test_a_union_of_classes_is_told_apart_in_results_too() -> None:
    for value in (Cat(9), Dog("Rex")):
        result = await tool(giving(value, Cat | Dog)).call(None)
        assert result.structured == dataclasses.asdict(value)
    assert (await tool(giving({"kind": "cow"}, Cat | Dog)).call(None)).is_error
