"""The level of the log messages that a client wants (server/utilities/logging).

A modern client says it in each request's metadata, and so needs no method.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...errors import RequestError
from ...protocol.messages import INVALID_PARAMS
from ...protocol.revisions import Era
from ...tools.context import LEVELS
from ..feature import Feature, Method, Request
from ..params import Params
from ..registry import ToolServer


class SetLevelParams(Params):
    """The params of `logging/setLevel`."""

    level: Any = None


def _set_level(request: Request[SetLevelParams]) -> bytes:
    level = request.params.level
    if level not in LEVELS:
        raise RequestError(INVALID_PARAMS, f"level: expected one of {', '.join(LEVELS)}")
    request.client.log_level = level
    return b"{}"


def _capabilities(server: ToolServer, era: Era) -> Mapping[str, Any]:
    return {"logging": {}}


LOGGING = Feature(
    methods=(Method(name="logging/setLevel", params=SetLevelParams, legacy=_set_level),),
    capabilities=_capabilities,
)
