"""Subscriptions of modern clients to the topics of all features (basic/patterns/subscriptions).

What can change is said by the features, as topics: none is known here.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from ...errors import RequestError
from ...protocol.messages import INVALID_PARAMS, encode_any
from ...protocol.revisions import META_SERVER_INFO, META_SUBSCRIPTION
from ..feature import Feature, Method, Request, Work
from ..params import Params


class ListenParams(Params):
    """The params of `subscriptions/listen`."""

    notifications: Any = None


def _listen(request: Request[ListenParams]) -> Work:
    wanted = request.params.notifications
    if not isinstance(wanted, dict):
        raise RequestError(INVALID_PARAMS, "notifications: expected an object")
    accepted = [topic for topic in request.features.topics if wanted.get(topic.filter) is True]
    meta = {META_SUBSCRIPTION: request.id}
    # The acknowledgement is the first message of a subscription.
    request.peer.notify(
        "notifications/subscriptions/acknowledged",
        encode_any({"notifications": dict.fromkeys([topic.filter for topic in accepted], True), "_meta": meta}),
    )
    subscription = object()
    changed = encode_any({"_meta": meta})
    for topic in accepted:
        tell = partial(request.peer.notify, topic.notification, changed, once=True)
        request.server.changes.listen(topic, subscription, tell)
    return partial(_wait_closing, request, subscription, meta)


async def _wait_closing(request: Request[ListenParams], subscription: object, meta: dict[str, Any]) -> bytes:
    server = request.server
    try:
        await request.client.closing.wait()
    finally:
        server.changes.unlisten(subscription)
    return encode_any({"resultType": "complete", "_meta": {**meta, META_SERVER_INFO: server.info}})


SUBSCRIPTIONS = Feature(
    methods=(Method(name="subscriptions/listen", params=ListenParams, modern=_listen, counts_as="stream"),)
)
