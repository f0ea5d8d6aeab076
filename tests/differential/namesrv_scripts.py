"""What the NameServers are asked: one script for each request code, and a few scenes.

Brokers are played by the script: they register, and are gone when its connection closes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from .script import Ask, Script

OLD_VERSION = 300  # V4_6_1, from before clients read strict JSON


def code_is(code: int) -> Any:
    return lambda answer, _known: answer.get("code") == code


def topic_config(name: str, **changed: Any) -> dict[str, Any]:
    return {
        "attributes": {},
        "order": False,
        "perm": 6,
        "readQueueNums": 4,
        "topicFilterType": "SINGLE_TAG",
        "topicName": name,
        "topicSysFlag": 0,
        "writeQueueNums": 4,
        **changed,
    }


DATA_VERSION = {"counter": 3, "stateVersion": 0, "timestamp": 1_700_000_000_000}


def registration(*topics: dict[str, Any]) -> dict[str, Any]:
    return {
        "filterServerList": [],
        "topicConfigSerializeWrapper": {
            "dataVersion": DATA_VERSION,
            "topicConfigTable": {topic["topicName"]: topic for topic in topics},
        },
    }


REGISTER = Ask(
    103,
    {
        "brokerName": "{broker}",
        "brokerAddr": "10.0.0.1:10911",
        "clusterName": "{cluster}",
        "haServerAddr": "10.0.0.1:10912",
        "brokerId": "0",
        "heartbeatTimeoutMillis": "60000",
        "enableActingMaster": "false",
        "compressed": "false",
        "bodyCrc32": "{crc}",
    },
    # Two topics: the original takes a table of one for an addition by a broker it should already know.
    registration(topic_config("{topic}"), topic_config("{topic}_2", perm=4, readQueueNums=1, order=True)),
)
REGISTER_SLAVE = REGISTER.but(brokerAddr="10.0.0.2:10911", haServerAddr="10.0.0.2:10912", brokerId="1")
ROUTE = Ask(105, {"topic": "{topic}", "acceptStandardJsonOnly": "true"})
CLUSTERS = Ask(106)
PUT = Ask(100, {"namespace": "{namespace}", "key": "{key}", "value": "some value"})
GET = Ask(101, {"namespace": "{namespace}", "key": "{key}"})
PUT_ORDER = Ask(100, {"namespace": "ORDER_TOPIC_CONFIG", "key": "{topic}", "value": "{broker}:4"})
ORDER_TOPICS = Ask(219, {"namespace": "ORDER_TOPIC_CONFIG"})
DROP_ORDER = Ask(102, {"namespace": "ORDER_TOPIC_CONFIG", "key": "{topic}"})
ALL_TOPICS = Ask(206)
MEMBER_GROUP = Ask(901, {"clusterName": "{cluster}", "brokerName": "{broker}"})
UNREGISTER = Ask(
    104, {"brokerName": "{broker}", "brokerAddr": "10.0.0.1:10911", "clusterName": "{cluster}", "brokerId": "0"}
)
# The original unregisters later, but in order: when the last one is gone, the ones before are dealt with. A bad one
# takes all that were drawn from the queue with it down, so the last one is asked for again until it worked.
LAST = {"brokerName": "{broker}_last", "brokerAddr": "10.0.0.9:10911", "clusterName": "{cluster}_last"}
REGISTER_LAST = replace(
    REGISTER.but(**LAST), body=registration(topic_config("{topic}_last"), topic_config("{topic}_last_2"))
)
UNREGISTER_LAST = UNREGISTER.but(**LAST)
SETTLED = (UNREGISTER_LAST, replace(ROUTE.but(topic="{topic}_last"), until=code_is(17), again=UNREGISTER_LAST))
QUERY_VERSION = Ask(
    322,
    {"brokerName": "{broker}", "brokerAddr": "10.0.0.1:10911", "clusterName": "{cluster}", "brokerId": "0"},
    DATA_VERSION,
)
UNIT_TOPICS = registration(
    topic_config("{topic}_plain"),
    topic_config("{topic}_unit", topicSysFlag=1),
    topic_config("{topic}_sub", topicSysFlag=2),
    topic_config("{topic}_both", topicSysFlag=3),
)
REGISTER_UNITS = replace(REGISTER, body=UNIT_TOPICS)

SCRIPTS: tuple[Script, ...] = (
    Script("namesrv", PUT, after=(GET,), fresh=True),
    Script("namesrv", GET, before=(PUT,)),
    Script("namesrv", Ask(102, {"namespace": "{namespace}", "key": "{key}"}), before=(PUT,), after=(GET,), fresh=True),
    Script(
        "namesrv",
        UNREGISTER,
        before=(REGISTER, REGISTER_SLAVE, REGISTER_LAST),
        after=(*SETTLED, CLUSTERS, ROUTE),
        fresh=True,
    ),
    Script(
        "namesrv",
        ROUTE,
        before=(REGISTER, REGISTER_SLAVE),
        more={
            "old client": replace(ROUTE, version=OLD_VERSION, fields={"topic": "{topic}"}),
            "old client asks for standard JSON": replace(ROUTE, version=OLD_VERSION),
            "empty topic": ROUTE.but(topic=""),
        },
    ),
    Script("namesrv", CLUSTERS, before=(REGISTER, REGISTER_SLAVE)),
    Script("namesrv", Ask(205, {"brokerName": "{broker}"}), before=(REGISTER,), after=(ROUTE,), fresh=True),
    Script("namesrv", ALL_TOPICS, before=(REGISTER,)),
    Script(
        "namesrv",
        Ask(216, {"topic": "{topic}", "clusterName": "{cluster}"}),
        before=(REGISTER,),
        after=(ROUTE,),
        fresh=True,
    ),
    Script(
        "namesrv",
        Ask(
            217,
            {"topic": "{topic}"},
            {
                "queueDatas": [
                    {"brokerName": "{broker}", "perm": 6, "readQueueNums": 3, "topicSysFlag": 0, "writeQueueNums": 3}
                ],
                "brokerDatas": [],
            },
        ),
        before=(replace(REGISTER, body=registration(topic_config("{topic}_a"), topic_config("{topic}_b"))),),
        after=(ROUTE,),
        fresh=True,
    ),
    Script("namesrv", Ask(219, {"namespace": "{namespace}"}), before=(PUT, PUT.but(key="{key}_2"))),
    Script("namesrv", Ask(224, {"cluster": "{cluster}"}), before=(REGISTER,)),
    Script("namesrv", Ask(304), before=(REGISTER,)),
    Script("namesrv", Ask(311), before=(REGISTER_UNITS,)),
    Script("namesrv", Ask(312), before=(REGISTER_UNITS,)),
    Script("namesrv", Ask(313), before=(REGISTER_UNITS,)),
    Script(
        "namesrv",
        Ask(318, body=b"scanNotActiveBrokerInterval=6000\n"),
        after=(Ask(319),),
        more={
            "black list": Ask(318, body=b"kvConfigPath=/nowhere\n"),
            "unknown key": Ask(318, body=b"no.such.key=1\n"),
            "another key": Ask(318, body=b"productEnvName=tested\n"),
            "key of the Java machinery": Ask(318, body=b"serverWorkerThreads=9\n"),
            "wrong type key": Ask(318, body=b"scanNotActiveBrokerInterval=wrong\n"),
            "not a line": Ask(318, body=b"\x00\x01"),
        },
    ),
    Script("namesrv", Ask(319)),
    Script(
        "namesrv",
        QUERY_VERSION,
        before=(REGISTER,),
        more={"changed": replace(QUERY_VERSION, body={**DATA_VERSION, "counter": 4})},
    ),
    Script(
        "namesrv",
        Ask(327, {"brokerName": "{broker}"}),
        before=(REGISTER, Ask(205, {"brokerName": "{broker}"})),
        after=(ROUTE,),
        fresh=True,
    ),
    Script("namesrv", MEMBER_GROUP, before=(REGISTER, REGISTER_SLAVE)),
    Script(
        "namesrv",
        Ask(
            904,
            {
                "clusterName": "{cluster}",
                "brokerAddr": "10.0.0.1:10911",
                "brokerName": "{broker}",
                "brokerId": "0",
                "epoch": "1",
                "maxOffset": "0",
                "confirmOffset": "0",
                "heartbeatTimeoutMills": "60000",
                "electionPriority": "1",
            },
        ),
        before=(REGISTER,),
    ),
    Script("namesrv", Ask(9999), title="namesrv unknown code", more={"negative": Ask(-7), "of the broker": Ask(310)}),
    Script(
        "namesrv",
        ROUTE,
        title="namesrv order topic",
        before=(PUT_ORDER, REGISTER),
        after=(ORDER_TOPICS, DROP_ORDER, ROUTE, ORDER_TOPICS, REGISTER),
    ),
    Script(
        "namesrv",
        ROUTE,
        title="namesrv slave acts as master",
        before=(REGISTER_SLAVE.but(enableActingMaster="true"),),
        after=(CLUSTERS, MEMBER_GROUP),
    ),
    Script(
        "namesrv",
        ROUTE,
        title="namesrv topic dropped by its broker",
        before=(REGISTER,),
        after=(
            replace(
                REGISTER,
                body={
                    "filterServerList": [],
                    "topicConfigSerializeWrapper": {
                        "dataVersion": {**DATA_VERSION, "counter": 9},
                        "topicConfigTable": {"{topic}_new": topic_config("{topic}_new")},
                    },
                },
            ),
            ROUTE,
            ROUTE.but(topic="{topic}_new"),
            QUERY_VERSION,
        ),
    ),
    # Last, because nameless brokers stay in the tables of the original and spoil its later lists.
    Script(
        "namesrv",
        REGISTER,
        after=(ROUTE, CLUSTERS),
        fresh=True,
        more={
            "wrong checksum": REGISTER.but(bodyCrc32="12345"),
            "no checksum": REGISTER.but(bodyCrc32="0"),
            "a slave without its master": REGISTER_SLAVE,
            "one topic only": replace(REGISTER, body=registration(topic_config("{topic}"))),
            "no topics": replace(REGISTER, body=registration()),
            "compressed is a lie": REGISTER.but(compressed="true"),
        },
    ),
)
