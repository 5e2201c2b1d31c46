"""The features that every server has. A new feature is a file beside this one, and one entry here."""

from __future__ import annotations

from ..feature import FeatureTable
from .lifecycle import LIFECYCLE
from .logging import LOGGING
from .subscriptions import SUBSCRIPTIONS
from .tools import TOOLS

FEATURES = FeatureTable([LIFECYCLE, TOOLS, LOGGING, SUBSCRIPTIONS])
