"""Records as a broker would store them."""

from __future__ import annotations

from cometmq.wire.record import encode_record, pack_host, v6_flags

BORN_MS = 1_700_000_000_123


def make_record(
    *,
    topic: bytes = b"orders",
    queue: int = 2,
    offset: int = 7,
    body: bytes = b"42 EUR",
    properties: bytes = b"UNIQ_KEY\x01ID\x02TAGS\x01paid\x02KEYS\x01k1 k2\x02",
    born_ms: int = BORN_MS,
    store_ms: int = BORN_MS + 1,
    born_host: bytes = pack_host("10.0.0.1", 40_000),
    store_host: bytes = pack_host("10.0.0.2", 10_911),
    position: int = 0,
    sys_flag: int = 0,
    reconsume_times: int = 0,
) -> bytes:
    return encode_record(
        topic=topic,
        queue_id=queue,
        flag=0,
        queue_offset=offset,
        physical_offset=position,
        sys_flag=sys_flag | v6_flags(born_host, store_host),
        born_time_ms=born_ms,
        born_host=born_host,
        store_time_ms=store_ms,
        store_host=store_host,
        reconsume_times=reconsume_times,
        body=body,
        properties_data=properties,
    )
