"""Key-value settings, and the NameServer's own.

Mirrors: DefaultRequestProcessor.putKVConfig and its neighbours.
"""

from __future__ import annotations

from cometmq.errors import RequestRefused
from cometmq.namesrv.kv import KvTable
from cometmq.namesrv.settings import Settings
from cometmq.net.routes import DONE, LATER, Call, Later, handles
from cometmq.wire.bodies.kv import encode_kv_table
from cometmq.wire.requests.namesrv import (
    DeleteKvConfig,
    GetKvConfig,
    GetKvListByNamespace,
    GetNamesrvConfig,
    KvConfigReply,
    PutKvConfig,
    UpdateNamesrvConfig,
)
from cometmq.wire.schema import Header


class KvHandlers:
    """Values by namespace and key."""

    def __init__(self, kv: KvTable) -> None:
        self._kv = kv

    @handles(PutKvConfig)
    def put(self, request: PutKvConfig, call: Call) -> Header:
        if request.namespace is None or request.key is None:
            raise RequestRefused("SYSTEM_ERROR", "namespace or key is null")
        self._kv.put(request.namespace, request.key, request.value)
        return DONE

    @handles(GetKvConfig)
    def get(self, request: GetKvConfig, call: Call) -> Header:
        value = self._kv.get(request.namespace or "", request.key or "")
        if value is None:
            raise RequestRefused(
                "QUERY_NOT_FOUND",
                f"No config item, Namespace: {_shown(request.namespace)} Key: {_shown(request.key)}",
            )
        return KvConfigReply(value)

    @handles(DeleteKvConfig)
    def delete(self, request: DeleteKvConfig, call: Call) -> Header:
        if request.namespace is not None and request.key is not None:
            self._kv.delete(request.namespace, request.key)
        return DONE

    @handles(GetKvListByNamespace)
    def namespace(self, request: GetKvListByNamespace, call: Call) -> Later:
        pairs = self._kv.namespace(request.namespace or "")
        if pairs is None:
            raise RequestRefused("QUERY_NOT_FOUND", f"No config item, Namespace: {_shown(request.namespace)}")
        call.reply(body=encode_kv_table(pairs))
        return LATER


class SettingsHandlers:
    """The NameServer's settings, shown and changed while it runs."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    @handles(GetNamesrvConfig)
    def show(self, request: GetNamesrvConfig, call: Call) -> Later:
        call.reply(body=self._settings.render().encode())
        return LATER

    @handles(UpdateNamesrvConfig)
    def update(self, request: UpdateNamesrvConfig, call: Call) -> Header:
        if call.body:
            try:
                text = str(call.body, "utf-8")
            except UnicodeDecodeError:
                raise RequestRefused("SYSTEM_ERROR", "the body is not UTF-8: key=value lines are expected") from None
            self._settings.update(text)
        return DONE


def _shown(text: str | None) -> str:
    return "null" if text is None else text
