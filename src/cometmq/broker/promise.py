"""What an acknowledgement means, in words: the start banner says it, so that nobody has to know the settings.

SYNC_FLUSH     on the disk           ASYNC_FLUSH    in the memory of the operating system
SYNC_MASTER    and so on a slave     ASYNC_MASTER   of this machine only
"""

from __future__ import annotations

from cometmq.broker.ha.config import HaConfig
from cometmq.broker.role import SLAVE, SYNC_MASTER
from cometmq.store.config import StoreConfig


def promise(role: str, store: StoreConfig, ha: HaConfig) -> str:
    """One sentence."""
    if role == SLAVE:
        how = "synced to its disk" if store.sync_flush else "in its memory"
        return f"a slave: it follows its master and reports to it what is {how} ({store.flush_disk_type})"
    if store.sync_flush:
        here = "is on this machine's disk: it survives a kill and a power cut"
    else:
        seconds = store.flush_commit_log_thorough_interval / 1000
        here = (
            f"is in this machine's memory, and on its disk within {seconds:g} s: it survives a kill but not a power "
            "cut, which flushDiskType=SYNC_FLUSH makes it survive"
        )
    if role == SYNC_MASTER and ha.in_sync_replicas > 1:
        others = f", and {ha.in_sync_replicas - 1} slave(s) reported it"
    else:
        others = "; no slave is waited for"
    return f"an acknowledged message {here}{others} ({store.flush_disk_type}, {role})"
