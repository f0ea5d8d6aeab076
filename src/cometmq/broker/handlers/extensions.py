"""GET_EXTENSIONS (30000), CometMQ's own: by its answer a client knows what it may ask of this broker.

Apache RocketMQ answers the code with REQUEST_CODE_NOT_SUPPORTED, which says that it has none.

Mirrors: nothing.
"""

from __future__ import annotations

from cometmq.net.routes import Call, handles
from cometmq.wire.requests.extensions import SURE_ENDS, GetExtensions, GetExtensionsReply


class ExtensionHandlers:
    """Tells what this broker can."""

    def __init__(self, *, message_index_enable: bool) -> None:
        # Without the index nobody can tell how a transaction ended before the broker was started.
        self._names = [SURE_ENDS] if message_index_enable else []

    @handles(GetExtensions)
    def extensions(self, request: GetExtensions, call: Call) -> GetExtensionsReply:
        return GetExtensionsReply(",".join(self._names))
