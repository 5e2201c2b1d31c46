"""The images of an outcome as Anthropic and OpenAI are shown them: base64 text, or a note in place of an image.

MCP's sampling takes images of every type, and needs nothing of this.
"""

from __future__ import annotations

from base64 import b64encode

from attrs import frozen

from ...models.result import ToolResult
from .api import Outcome
from .encodable import encodable

#: The types that both Anthropic and OpenAI look at; they refuse the whole request over an image of any other.
_IMAGE_TYPES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})


@frozen
class Picture:
    """An image of a type that the provider looks at; `data` is base64."""

    media_type: str
    data: str

    @property
    def url(self) -> str:
        """The image as a data URL."""
        return f"data:{self.media_type};base64,{self.data}"


def text_and_pictures(outcome: Outcome) -> tuple[str, list[Picture]]:
    """The outcome's text, with a note for each image that the provider does not look at, and the other images."""
    texts = [outcome.content] if outcome.content else []
    pictures = []
    for image in outcome.images:
        media_type = image.mime_type.partition(";")[0].strip().lower()
        media_type = "image/jpeg" if media_type == "image/jpg" else media_type
        if media_type in _IMAGE_TYPES and image.data:  # an empty image is refused like one of another type
            pictures.append(Picture(media_type, b64encode(image.data).decode()))
        else:
            texts.append(ToolResult(image).as_text())
    return encodable("\n".join(texts)), pictures
