"""What the brokers are asked: one script for each request code, and a few scenes."""

from __future__ import annotations

import struct
import zlib
from dataclasses import replace
from typing import Any

from .namesrv_scripts import code_is, topic_config
from .script import Ask, Await, Pushed, Script

QUEUES = 2
SUBSCRIPTION = 4  # sysFlag of a pull: it carries its own subscription
SUSPEND = 2
COMMIT = 1
LARGE = 4 * 1024 * 1024

CREATE = Ask(
    17,
    {
        "topic": "{topic}",
        "defaultTopic": "TBW102",
        "readQueueNums": str(QUEUES),
        "writeQueueNums": str(QUEUES),
        "perm": "6",
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": "0",
        "order": "false",
        "attributes": "+message.type=NORMAL",
        "force": "false",
    },
)
TOPIC_CONFIG = Ask(351, {"topic": "{topic}"})
GROUP = {
    "groupName": "{group}",
    "consumeEnable": True,
    "consumeFromMinEnable": True,
    "consumeBroadcastEnable": True,
    "consumeMessageOrderly": False,
    "retryQueueNums": 1,
    "retryMaxTimes": 5,
    "brokerId": 0,
    "whichBrokerWhenConsumeSlowly": 1,
    "notifyConsumerIdsChangedEnable": True,
    "groupSysFlag": 0,
    "consumeTimeoutMinute": 15,
    "attributes": {},
}
CREATE_GROUP = Ask(200, body=GROUP)
RETRY_POLICIES: dict[str, Any] = {
    "that grow": {
        "type": "EXPONENTIAL",
        "exponentialRetryPolicy": {"initial": 100, "max": 1_000, "multiplier": 3},
    },
    "that grow by themselves": {"type": "EXPONENTIAL", "exponentialRetryPolicy": {}},
    "made to measure": {"type": "CUSTOMIZED", "customizedRetryPolicy": {"next": [1_000, 2_000]}},
    "made to no measure": {"type": "CUSTOMIZED"},
    "of no known kind": {"type": "NONSENSE"},
    "of two kinds": {"exponentialRetryPolicy": {"max": "9"}, "customizedRetryPolicy": {}, "more": 1},
    "of letters": {"type": "CUSTOMIZED", "customizedRetryPolicy": {"next": ["soon"]}},
}
GROUP_CONFIG = Ask(352, {"group": "{group}"})

PROPERTIES = "KEYS\x01{key}\x02TAGS\x01a\x02UNIQ_KEY\x01{key}_unique\x02WAIT\x01true\x02"
SEND = Ask(
    10,
    {
        "producerGroup": "{group}",
        "topic": "{topic}",
        "defaultTopic": "TBW102",
        "defaultTopicQueueNums": "4",
        "queueId": "1",
        "sysFlag": "0",
        "bornTimestamp": "{now}",
        "flag": "7",
        "properties": PROPERTIES,
        "reconsumeTimes": "0",
        "unitMode": "false",
        "maxReconsumeTimes": "3",
        "batch": "false",
    },
    b"hello",
    keep="sent",
)
LETTERS = dict(zip(SEND.fields, "abcdefghijklm", strict=True))
SEND_V2 = replace(
    SEND, code=310, fields={**{LETTERS[name]: value for name, value in SEND.fields.items()}, "n": "broker-a"}
)


def sub_record(body: bytes, properties: bytes, flag: int = 0) -> bytes:
    """One message of a batch as clients pack it: size, magic, CRC, flag, body, properties."""
    size = 4 + 4 + 4 + 4 + 4 + len(body) + 2 + len(properties)
    head = struct.pack(">iiiii", size, 0, zlib.crc32(body) & 0x7FFFFFFF, flag, len(body))
    return head + body + struct.pack(">h", len(properties)) + properties


BATCH = b"".join(sub_record(b"m%d" % n, b"TAGS\x01a\x02UNIQ_KEY\x01unique%d\x02" % n) for n in range(3))
SEND_BATCH = replace(SEND_V2.but(m="true", i="WAIT\x01true\x02"), code=320, body=BATCH)

MAX_OFFSET = Ask(30, {"topic": "{topic}", "queueId": "1", "committed": "true"})


def stored(count: int) -> Ask:
    """Ask until queue 1 holds so many messages."""
    return replace(MAX_OFFSET, until=lambda answer, _known: answer.get("ext", {}).get("offset") == str(count))


PULL = Ask(
    11,
    {
        "consumerGroup": "{group}",
        "topic": "{topic}",
        "queueId": "1",
        "queueOffset": "0",
        "maxMsgNums": "32",
        "sysFlag": str(SUBSCRIPTION),
        "commitOffset": "0",
        "suspendTimeoutMillis": "1000",
        "subscription": "*",
        "subVersion": "0",
        "expressionType": "TAG",
        "maxMsgBytes": "262144",
        "requestSource": "0",
    },
)
THREE = (
    CREATE,
    SEND_V2,
    SEND_V2.but(i=PROPERTIES.replace("\x01a\x02", "\x01b\x02")),
    SEND_V2.but(i="KEYS\x01{key} other\x02"),
    stored(3),
)
# Messages become visible in the order in which they were stored: when the last one is, all are.
READ_BACK = (
    SEND_V2.but(b="{topic}_last"),
    replace(
        MAX_OFFSET.but(topic="{topic}_last"), until=lambda answer, _known: answer.get("ext", {}).get("offset") == "1"
    ),
    PULL,
)

UPDATE_OFFSET = Ask(15, {"consumerGroup": "{group}", "topic": "{topic}", "queueId": "1", "commitOffset": "2"})
QUERY_OFFSET = Ask(14, {"consumerGroup": "{group}", "topic": "{topic}", "queueId": "1", "setZeroIfNotFound": "false"})
QUERY = Ask(
    12,
    {
        "topic": "{topic}",
        "key": "{key}",
        "maxNum": "32",
        "beginTimestamp": "0",
        "endTimestamp": "9999999999999",
    },
    until=code_is(0),
)
QUERY_ONCE = replace(QUERY, until=None)
VIEW = Ask(33, {"topic": "{topic}", "offset": "{sent[physical]}"})

SUBSCRIPTION_DATA: dict[str, Any] = {
    "classFilterMode": False,
    "codeSet": [],
    "expressionType": "TAG",
    "subString": "*",
    "subVersion": 1,
    "tagsSet": [],
    "topic": "{topic}",
}
SQL92 = {"expressionType": "SQL92", "subString": "a > 1"}
HEARTBEAT = Ask(
    34,
    body={
        "clientID": "{client}",
        "consumerDataSet": [
            {
                "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
                "consumeType": "CONSUME_PASSIVELY",
                "groupName": "{group}",
                "messageModel": "CLUSTERING",
                "subscriptionDataSet": [SUBSCRIPTION_DATA],
                "unitMode": False,
            }
        ],
        "heartbeatFingerprint": 0,
        "producerDataSet": [{"groupName": "{group}_p"}],
        "withoutSub": False,
    },
)
MEMBERS = Ask(38, {"consumerGroup": "{group}"})
UNREGISTER = Ask(35, {"clientID": "{client}", "producerGroup": "{group}_p", "consumerGroup": "{group}"})
CHECK = Ask(
    46,
    body={"clientId": "{client}", "group": "{group}", "namespace": "", "subscriptionData": SUBSCRIPTION_DATA},
)


def _sends(send: Ask, topic: str, properties: str, queue: str, flag: str) -> dict[str, Ask]:
    """What else can be wrong with a message."""
    return {
        "empty body": replace(send, body=None),
        "body too large": replace(send, body=bytes(LARGE + 1)),
        "topic with a slash": send.but(**{topic: "{topic}/.."}),
        "topic too long": send.but(**{topic: "{topic}" + "x" * 128}),
        "topic empty": send.but(**{topic: ""}),
        "system topic": send.but(**{topic: "SCHEDULE_TOPIC_XXXX"}),
        "properties too large": send.but(**{properties: "KEYS\x01" + "k" * 32_768 + "\x02"}),
        "properties of rubbish": send.but(**{properties: "\x02\x01\x02novalue\x01\x02alone\x02"}),
        "queue out of range": send.but(**{queue: "9"}),
        "compressed": send.but(**{flag: "1"}),
    }


def _batches() -> dict[str, Ask]:
    lying = bytearray(BATCH)
    lying[0:4] = struct.pack(">i", 1 << 20)
    long_body = bytearray(BATCH)
    long_body[16:20] = struct.pack(">i", 1 << 20)
    negative = bytearray(BATCH)
    negative[16:20] = struct.pack(">i", -5)
    return {
        "cut short": replace(SEND_BATCH, body=BATCH[:-3]),
        "size lies": replace(SEND_BATCH, body=bytes(lying)),
        "body size lies": replace(SEND_BATCH, body=bytes(long_body)),
        "body size negative": replace(SEND_BATCH, body=bytes(negative)),
        "one message": replace(SEND_BATCH, body=sub_record(b"alone", b"TAGS\x01a\x02")),
        "properties without an end": replace(SEND_BATCH, body=sub_record(b"alone", b"TAGS\x01a")),
        "to a retry topic": SEND_BATCH.but(b="%RETRY%{group}"),
        "absent topic": SEND_BATCH.but(b="absent_{topic}"),
    }


def _pulls(pull: Ask) -> dict[str, Ask]:
    return {
        "tag b": pull.but(subscription="b"),
        "tags": pull.but(subscription="a || b"),
        "no such tag": pull.but(subscription="zz"),
        "offset too small": pull.but(queueOffset="-1"),
        "offset at the end": pull.but(queueOffset="3"),
        "offset beyond the end": pull.but(queueOffset="77"),
        "one message": pull.but(maxMsgNums="1"),
        "no messages": pull.but(maxMsgNums="0"),
        "queue out of range": pull.but(queueId="9"),
        "queue negative": pull.but(queueId="-1"),
        "no subscription known": pull.but(sysFlag="0"),
        "commits an offset": pull.but(sysFlag=str(SUBSCRIPTION | COMMIT), commitOffset="2"),
        "SQL92": pull.but(expressionType="SQL92", subscription="a > 1"),
        "unknown expression type": pull.but(expressionType="XPATH"),
        "system group": pull.but(consumerGroup="CID_RMQ_SYS_X"),
        "topic empty": pull.but(topic=""),
        "group empty": pull.but(consumerGroup=""),
    }


SCRIPTS: tuple[Script, ...] = (
    Script(
        "broker",
        SEND,
        before=(CREATE,),
        after=READ_BACK,
        fresh=True,
        more=_sends(SEND, "topic", "properties", "queueId", "sysFlag"),
    ),
    Script("broker", SEND_V2, before=(CREATE,), after=READ_BACK, fresh=True, more=_sends(SEND_V2, "b", "i", "e", "f")),
    Script("broker", SEND_BATCH, before=(CREATE,), after=READ_BACK, fresh=True, more=_batches()),
    Script("broker", PULL, before=(CREATE_GROUP, *THREE), after=(QUERY_OFFSET,), more=_pulls(PULL)),
    Script(
        "broker",
        replace(PULL, code=361),
        before=(CREATE_GROUP, *THREE),
        more=_pulls(replace(PULL, code=361)),
    ),
    Script(
        "broker",
        QUERY_ONCE,
        before=(*THREE, QUERY),
        more={
            "other key": QUERY_ONCE.but(key="other"),
            "absent key": QUERY_ONCE.but(key="absent"),
            "unique key": QUERY_ONCE.but(key="{key}_unique", _UNIQUE_KEY_QUERY="true"),
            "too late": QUERY_ONCE.but(beginTimestamp="9999999999998"),
            "at most one": QUERY_ONCE.but(maxNum="1"),
        },
    ),
    Script(
        "broker",
        QUERY_OFFSET,
        before=(CREATE_GROUP, *THREE, UPDATE_OFFSET),
        more={
            "never committed": QUERY_OFFSET.but(queueId="0"),
            "never committed, zero wanted": QUERY_OFFSET.but(queueId="0", setZeroIfNotFound="true"),
            "queue out of range": QUERY_OFFSET.but(queueId="9"),
        },
    ),
    Script(
        "broker",
        UPDATE_OFFSET,
        before=(CREATE_GROUP, *THREE),
        after=(QUERY_OFFSET,),
        more={
            "backwards": UPDATE_OFFSET.but(commitOffset="1"),
            "beyond the end": UPDATE_OFFSET.but(commitOffset="1000"),
            "negative": UPDATE_OFFSET.but(commitOffset="-5"),
            "queue out of range": UPDATE_OFFSET.but(queueId="9"),
        },
    ),
    Script(
        "broker",
        CREATE,
        after=(TOPIC_CONFIG,),
        fresh=True,
        more={
            "topic with a slash": CREATE.but(topic="{topic}/.."),
            "topic too long": CREATE.but(topic="{topic}" + "x" * 128),
            "topic empty": CREATE.but(topic=""),
            "system topic": CREATE.but(topic="TBW102"),
            "no permission at all": CREATE.but(perm="0"),
            "permission out of range": CREATE.but(perm="99"),
            "no queues": CREATE.but(readQueueNums="0", writeQueueNums="0"),
            "negative queues": CREATE.but(readQueueNums="-1", writeQueueNums="-1"),
            "unknown attribute": CREATE.but(attributes="+no.such=1"),
            "attribute that is none": CREATE.but(attributes="rubbish"),
            "attribute of a wrong value": CREATE.but(attributes="+message.type=WRONG"),
            "several attributes": CREATE.but(attributes="+message.type=FIFO,+queue.type=SimpleCQ"),
            "ordered": CREATE.but(order="true"),
            "retry topic": CREATE.but(topic="%RETRY%{group}"),
            "LMQ topic": CREATE.but(topic="%LMQ%{topic}"),
            "unknown filter type": CREATE.but(topicFilterType="WRONG"),
        },
    ),
    Script(
        "broker",
        Ask(18, body={"topicConfigList": [topic_config("{topic}"), topic_config("{topic}_2", perm=4)]}),
        after=(TOPIC_CONFIG, TOPIC_CONFIG.but(topic="{topic}_2")),
        fresh=True,
        more={
            "no topics": Ask(18, body={"topicConfigList": []}),
            "one is bad": Ask(18, body={"topicConfigList": [topic_config("{topic}"), topic_config("a/b")]}),
        },
    ),
    Script(
        "broker",
        Ask(21),
        before=(CREATE,),
        more={
            "in pages": Ask(21, {"topicSeq": "0", "maxTopicNum": "100000"}),
            "behind the end": Ask(21, {"topicSeq": "100000", "maxTopicNum": "10"}),
            "wrong type": Ask(21, {"topicSeq": "wrong", "maxTopicNum": "wrong"}),
        },
    ),
    Script(
        "broker",
        Ask(29, {"topic": "{topic}", "queueId": "1", "timestamp": "{now}", "boundaryType": "LOWER"}),
        before=THREE,
        more={
            "before everything": Ask(29, {"topic": "{topic}", "queueId": "1", "timestamp": "0"}),
            "after everything": Ask(29, {"topic": "{topic}", "queueId": "1", "timestamp": "9999999999999"}),
            "before everything, upper": Ask(
                29, {"topic": "{topic}", "queueId": "1", "timestamp": "0", "boundaryType": "UPPER"}
            ),
            "after everything, upper": Ask(
                29, {"topic": "{topic}", "queueId": "1", "timestamp": "9999999999999", "boundaryType": "UPPER"}
            ),
            "empty queue": Ask(29, {"topic": "{topic}", "queueId": "0", "timestamp": "{now}"}),
            "unknown boundary": Ask(
                29, {"topic": "{topic}", "queueId": "1", "timestamp": "{now}", "boundaryType": "MIDDLE"}
            ),
        },
    ),
    Script(
        "broker",
        MAX_OFFSET,
        before=THREE,
        more={"empty queue": MAX_OFFSET.but(queueId="0"), "queue out of range": MAX_OFFSET.but(queueId="9")},
    ),
    Script(
        "broker",
        Ask(31, {"topic": "{topic}", "queueId": "1"}),
        before=THREE,
        more={"empty queue": Ask(31, {"topic": "{topic}", "queueId": "0"})},
    ),
    Script(
        "broker",
        Ask(32, {"topic": "{topic}", "queueId": "1"}),
        before=THREE,
        more={"empty queue": Ask(32, {"topic": "{topic}", "queueId": "0"})},
    ),
    Script(
        "broker",
        VIEW,
        before=(CREATE, SEND_V2, stored(1)),
        more={"beyond the end": VIEW.but(offset="99999999999"), "negative": VIEW.but(offset="-1")},
    ),
    Script("broker", HEARTBEAT, before=(CREATE,), after=(MEMBERS, GROUP_CONFIG), fresh=True),
    Script("broker", UNREGISTER, before=(CREATE, HEARTBEAT), after=(MEMBERS,), fresh=True),
    Script("broker", MEMBERS, before=(CREATE, HEARTBEAT)),
    Script("broker", Ask(43), before=(CREATE_GROUP, *THREE, UPDATE_OFFSET)),
    Script(
        "broker",
        CHECK,
        before=(CREATE,),
        more={
            "SQL92": replace(
                CHECK,
                body={**CHECK.body, "subscriptionData": {**SUBSCRIPTION_DATA, **SQL92}},
            ),
        },
    ),
    Script(
        "broker",
        CREATE_GROUP,
        after=(GROUP_CONFIG,),
        fresh=True,
        more={
            "name with a slash": replace(CREATE_GROUP, body={**GROUP, "groupName": "{group}/.."}),
            "name too long": replace(CREATE_GROUP, body={**GROUP, "groupName": "{group}" + "x" * 256}),
            **{
                f"retries {name}": replace(CREATE_GROUP, body={**GROUP, "groupRetryPolicy": policy})
                for name, policy in RETRY_POLICIES.items()
            },
        },
    ),
    Script(
        "broker",
        Ask(201),
        before=(CREATE_GROUP,),
        more={
            "in pages": Ask(201, {"groupSeq": "0", "maxGroupNum": "100000"}),
            "wrong type": Ask(201, {"groupSeq": "wrong", "maxGroupNum": "wrong"}),
        },
    ),
    Script(
        "broker",
        Ask(207, {"groupName": "{group}", "cleanOffset": "true"}),
        before=(CREATE_GROUP, *THREE, UPDATE_OFFSET),
        after=(GROUP_CONFIG, QUERY_OFFSET),
        fresh=True,
        more={"keeps offsets": Ask(207, {"groupName": "{group}", "cleanOffset": "false"})},
    ),
    Script(
        "broker",
        Ask(215, {"topic": "{topic}"}),
        before=THREE,
        after=(TOPIC_CONFIG, MAX_OFFSET),
        fresh=True,
        more={"empty": Ask(215, {"topic": ""}), "system topic": Ask(215, {"topic": "TBW102"})},
    ),
    Script(
        "broker",
        Ask(225, body={"groupConfigList": [GROUP, {**GROUP, "groupName": "{group}_2", "retryMaxTimes": 2}]}),
        after=(GROUP_CONFIG, GROUP_CONFIG.but(group="{group}_2")),
        fresh=True,
    ),
    Script("broker", Ask(306), before=(CREATE,)),
    Script("broker", Ask(316), before=(*THREE, Ask(215, {"topic": "{topic}"})), after=(MAX_OFFSET,)),
    Script("broker", Ask(329)),
    Script("broker", TOPIC_CONFIG, before=(CREATE,)),
    Script("broker", GROUP_CONFIG, before=(CREATE_GROUP,)),
    Script("broker", Ask(9999), title="broker unknown code", more={"negative": Ask(-7), "of the NameServer": Ask(103)}),
    Script(
        "broker",
        SEND_V2,
        title="broker creates a topic by itself",
        after=(
            TOPIC_CONFIG,
            stored(1),
            PULL,
            SEND_V2.but(b="{topic}_many", d="99"),
            TOPIC_CONFIG.but(topic="{topic}_many"),
            SEND_V2.but(b="{topic}_orphan", c="absent_{topic}"),
            SEND_V2.but(b="{topic}_0", d="0"),
        ),
    ),
    Script(
        "broker",
        SEND_V2.but(e="-1"),
        title="broker chooses the queue",
        before=(CREATE.but(writeQueueNums="1"),),
    ),
    Script(
        "broker",
        replace(SEND_V2, one_way=True, keep=""),
        title="broker one-way send",
        before=(CREATE,),
        after=(stored(1), PULL),
    ),
    Script(
        "broker",
        replace(PULL.but(sysFlag=str(SUBSCRIPTION | SUSPEND), suspendTimeoutMillis="8000"), pending="pull"),
        title="broker long polling wakes on arrival",
        before=(CREATE_GROUP, CREATE),
        after=(SEND_V2, Await("pull")),
    ),
    Script(
        "broker",
        replace(HEARTBEAT, peer="second", body={**HEARTBEAT.body, "clientID": "{client}_second"}),
        title="broker tells members of each other",
        before=(CREATE, replace(HEARTBEAT, peer="first"), Pushed("first")),
        after=(
            Pushed("first"),
            MEMBERS,
            replace(UNREGISTER.but(clientID="{client}_second"), peer="second"),
            Pushed("first"),
            MEMBERS,
        ),
    ),
    Script(
        "broker",
        PULL.but(sysFlag="0"),
        title="broker pulls what a heartbeat subscribed",
        before=(*THREE, HEARTBEAT),
        more={
            "newer subscription": PULL.but(sysFlag="0", subVersion="2"),
            "other topic": PULL.but(sysFlag="0", topic="TBW102"),
        },
    ),
    Script(
        "broker",
        SEND_V2,
        title="broker permissions",
        before=(
            CREATE.but(perm="4"),
            CREATE.but(topic="{topic}_w", perm="2"),
            SEND_V2.but(b="{topic}_w"),
            CREATE_GROUP,
        ),
        after=(*READ_BACK, PULL.but(topic="{topic}_w")),
    ),
    Script(
        "broker",
        PULL,
        title="broker group that may not consume",
        before=(replace(CREATE_GROUP, body={**GROUP, "consumeEnable": False}), *THREE),
    ),
    Script(
        "broker",
        MAX_OFFSET,
        title="broker topic deleted and made again",
        before=(*THREE, Ask(215, {"topic": "{topic}"}), CREATE),
        after=(SEND_V2, stored(1), PULL, VIEW),
    ),
    Script(
        "broker",
        TOPIC_CONFIG,
        title="broker topic altered",
        before=(CREATE, CREATE.but(readQueueNums="5", writeQueueNums="3", attributes="")),
        after=(
            CREATE.but(attributes="-message.type"),
            TOPIC_CONFIG,
            CREATE.but(attributes="+message.type=FIFO"),
            TOPIC_CONFIG,
        ),
    ),
    Script(
        "broker",
        replace(SEND_V2, body=bytes(range(256)) * 4000),
        title="broker large message",
        before=(CREATE,),
        after=(stored(1), PULL, PULL.but(maxMsgBytes="100")),
    ),
)
