"""The one list of what may differ between the answers of Apache RocketMQ 5.5.0 and of CometMQ, and why.

Answers are compared field by field; each difference must be covered by an entry here. An entry is either a *mask*
(a value that differs between any two servers: a time, a port) or a *difference* that is meant.
`docs/reference/compat.md` is rendered from this list (`python -m tests.differential.compat`), and an entry that
covers nothing fails the tests, so the list cannot grow stale.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Final, Literal


class _Nothing:
    def __repr__(self) -> str:
        return "(nothing)"


NOTHING: Final = _Nothing()
"""The value of a field that one of the two answers does not have."""


@dataclass(frozen=True)
class Difference:
    """One place where two answers differ. `where` is a dotted path in the answer."""

    code: int
    variant: str
    where: str
    java: Any
    comet: Any
    java_answer: dict[str, Any]
    comet_answer: dict[str, Any]

    def __str__(self) -> str:
        return f"[{self.variant}] {self.where}: Java {_short(self.java)} · CometMQ {_short(self.comet)}"


@dataclass(frozen=True)
class Entry:
    """What may differ."""

    title: str
    kind: Literal["mask", "difference"]
    why: str
    where: str
    """A pattern of paths, `*` for anything."""
    codes: frozenset[int] = frozenset()
    """Only in answers to these requests; empty means all."""
    when: Callable[[Difference], bool] = lambda difference: True

    def covers(self, difference: Difference) -> bool:
        return (
            (not self.codes or difference.code in self.codes)
            and fnmatchcase(difference.where, self.where)
            and self.when(difference)
        )


_ADDRESS = re.compile(r"127\.0\.0\.1:\d+\Z")
_OF_ONE_SERVER: Final = ("configStorePath", "kvConfigPath", "listenPort", "rocketmqHome")
_WAITING_TOPICS: Final = ("SCHEDULE_TOPIC_XXXX", "rmq_sys_wheel_timer")
_TIME_MIN_MS: Final = 1_600_000_000_000


def _both(check: Callable[[Any], bool]) -> Callable[[Difference], bool]:
    return lambda difference: check(difference.java) and check(difference.comet)


def _is_address(value: Any) -> bool:
    return isinstance(value, str) and _ADDRESS.match(value) is not None


def _is_time(value: Any) -> bool:
    return isinstance(value, int | str) and str(value).isdigit() and int(value) > _TIME_MIN_MS


def _is_whole(value: Any) -> bool:
    return isinstance(value, int | str) and str(value).isdigit()


def _is_message_id(value: Any) -> bool:
    return isinstance(value, str) and re.fullmatch(r"[0-9A-F]{32}(,[0-9A-F]{32})*", value) is not None


def _same_failure(difference: Difference) -> bool:
    code = difference.java_answer.get("code")
    return code == difference.comet_answer.get("code") and code != 0


def _is_made_up_id(value: Any) -> bool:
    return isinstance(value, str) and re.fullmatch(r"[0-9A-F]{32}|[0-9A-F]{56}", value) is not None


def _is_receipt(value: Any) -> bool:
    return isinstance(value, str) and re.fullmatch(r"\d+ \d{13} \d+ \d [012] broker-a \d+ \d+", value) is not None


def _of_a_pop(one: Difference) -> bool:
    if one.where == "ext.popTime":
        return _both(_is_time)(one)
    if one.where == "ext.reviveQid":
        return all(value in tuple("01234567") for value in (one.java, one.comet))
    return one.where == "ext.invisibleTime" and _both(_is_whole)(one) and abs(int(one.java) - int(one.comet)) < 5_000


def _variant(pattern: str) -> Callable[[Difference], bool]:
    return lambda one: re.match(pattern, one.variant) is not None


def _one_more(one: Difference) -> bool:
    """Where the original has delivered one message more."""
    if one.where == "body":
        return len(one.java) == len(one.comet) + 1
    if one.where == "code":
        return str(one.java).startswith("0 ") and str(one.comet).startswith("19 ")
    return one.where in ("ext.maxOffset", "ext.nextBeginOffset") and int(one.java) == int(one.comet) + 1


def _made_up_id_in_record(one: Difference) -> bool:
    """A record that is larger by as much as its made-up id is longer."""
    number = int(one.where.split(".")[1])
    java, comet = one.java_answer["body"][number], one.comet_answer["body"][number]
    ids = [record["properties"].get("UNIQ_KEY", "") for record in (java, comet)]
    return all(map(_is_made_up_id, ids)) and one.java - one.comet == len(ids[0]) - len(ids[1])


def _mark_in_record(one: Difference) -> bool:
    """A record that is larger by as much as the mark of its delivery takes."""
    number = int(one.where.split(".")[1])
    mark = one.comet_answer["body"][number]["properties"].get("__COMET_DELIVERED")
    return mark is not None and one.comet - one.java == len("__COMET_DELIVERED") + 1 + len(mark) + 1


def _same_recall_handle(one: Difference) -> bool:
    """Two handles that differ in the time of delivery only."""
    java, comet = (base64.urlsafe_b64decode(text).decode().split(" ") for text in (one.java, one.comet))
    return java[:3] + java[4:] == comet[:3] + comet[4:] and _is_time(java[3]) and _is_time(comet[3])


ENTRIES: Final = (
    Entry(
        title="Deliveries carry a mark",
        kind="difference",
        why="A message that waited (for its delay level or its time) has one property more when it is delivered: the "
        "record it was made from. So a broker that was killed knows what it delivered; the original delivers again.",
        where="body.*.properties.__COMET_DELIVERED",
        when=lambda one: one.java is NOTHING,
    ),
    Entry(
        title="Size of a delivery's mark",
        kind="difference",
        why="The same, in the size of the stored message.",
        where="body.*.size",
        when=_mark_in_record,
    ),
    Entry(
        title="Times of messages that wait",
        kind="mask",
        why="When they go to wait, and until when, differs between any two runs. CometMQ delivers at the millisecond "
        "asked for, to within a twentieth of `timerPrecisionMs`; the original at the end of the tick.",
        where="body.*.properties.TIMER_*",
        when=_both(_is_time),
    ),
    Entry(
        title="Places in the queue of messages that wait for their time",
        kind="mask",
        why="All of them share one queue, also what the broker itself lets wait, like the checkpoints of pop.",
        where="ext.queueOffset",
        when=lambda one: (
            _both(_is_whole)(one)
            and ("recallHandle" in one.java_answer["ext"] or _variant("to a retry topic / asked")(one))
        ),
    ),
    Entry(
        title="Places of messages that wait",
        kind="mask",
        why="The same in the stored message.",
        where="body.*.queueOffset",
        when=lambda one: one.java_answer["body"][int(one.where.split(".")[1])]["topic"] in _WAITING_TOPICS,
    ),
    Entry(
        title="Where a master serves its slaves",
        kind="mask",
        why="Two servers have two addresses.",
        where="ext.master*ddress",
        codes=frozenset({906}),
    ),
    Entry(
        title="How many checkpoints of pop wait",
        kind="mask",
        why="Two servers write them at two times.",
        where="body.json.timingCount.rmq_sys_REVIVE_LOG_*.count",
        codes=frozenset({61}),
    ),
    Entry(
        title="Recall handles",
        kind="mask",
        why="They hold the time of delivery.",
        where="ext.recallHandle",
        when=_same_recall_handle,
    ),
    Entry(
        title="How far the timer is",
        kind="mask",
        why="GET_TIMER_CHECK_POINT answers with times and offsets of all that was sent so far.",
        where="body",
        codes=frozenset({60}),
        when=_both(lambda value: isinstance(value, str)),
    ),
    Entry(
        title="Times of timer counts",
        kind="mask",
        why="Two servers count at two times.",
        where="body.json.timingCount.*.timeStamp",
        when=_both(_is_time),
    ),
    Entry(
        "Times and addresses of a pushed message",
        "mask",
        "When and from where it came differs between any two runs, and so does where it is in the log.",
        "pushed.*",
        when=lambda one: (
            _both(_is_time)(one)
            or _both(_is_address)(one)
            or (_both(_is_whole)(one) and one.where.endswith("physicalOffset"))
        ),
    ),
    Entry(
        title="Language",
        kind="difference",
        why="The language field of an answer says PYTHON, not JAVA.",
        where="language",
    ),
    Entry(
        title="Header form of answers",
        kind="difference",
        why="CometMQ answers in the header form of the request. The original answers in the one it is set to, "
        "JSON by default. Clients read both.",
        where="form",
    ),
    Entry(
        title="Error sentences",
        kind="difference",
        why="The code is the same; the remark is a sentence, where the original may give the name of an exception and "
        "its stack.",
        where="remark",
        when=_same_failure,
    ),
    Entry(
        title="Success without a sentence",
        kind="difference",
        why="The original leaves its initial remark, `not set any response code`, in some answers of success.",
        where="remark",
        when=lambda one: one.java == "not set any response code" and one.comet is None,
    ),
    Entry(
        title="Settings of Java's machinery",
        kind="difference",
        why="GET_NAMESRV_CONFIG lists the settings that CometMQ has: those of thread pools, Netty buffers and the "
        "like are not among them.",
        where="body.*",
        codes=frozenset({318, 319}),
        when=lambda one: one.comet is NOTHING,
    ),
    Entry(
        title="Settings that would have no effect",
        kind="difference",
        why="UPDATE_NAMESRV_CONFIG refuses keys that CometMQ does not know or cannot change while it runs (code 16) "
        "and values that cannot be read (code 29). The original answers success and changes nothing.",
        where="code",
        codes=frozenset({318}),
        when=_variant("unknown key|key of the Java machinery|wrong type key|not a line"),
    ),
    Entry(
        title="Brokers without a name, cluster or address",
        kind="difference",
        why="A registration that leaves one of these out is answered with success but has no effect. The original "
        "keeps a broker that cannot be reached, or a null that breaks its later listings.",
        where="*",
        codes=frozenset({103}),
        when=_variant(r"missing broker(Name|Addr) / after|missing clusterName / after"),
    ),
    Entry(
        title="Topics registered without a name",
        kind="difference",
        why="A topic without `topicName` is known by its key in the table. The original loses it and those after it.",
        where="code",
        codes=frozenset({103}),
        when=_variant(r"missing body\..*\.topicName / after"),
    ),
    Entry(
        title="Refused registrations leave nothing behind",
        kind="difference",
        why="An unknown broker that registers a single topic is refused by both; the original lists it in its cluster "
        "from then on.",
        where="body.json.*AddrTable.*",
        codes=frozenset({103}),
        when=_variant(r"one topic only / after|missing body\..*\.\{topic\}(_2)? / after"),
    ),
    Entry(
        title="Heartbeats are taken whole or not at all",
        kind="difference",
        why="Of a heartbeat that is refused (no client id, a producer group without a name) the original keeps the "
        "consumers it read first.",
        where="code",
        codes=frozenset({34}),
        when=_variant(r"missing body\.(clientID|producerDataSet\.0\.groupName) / after"),
    ),
    Entry(
        title="Locks of nobody",
        kind="difference",
        why="LOCK_BATCH_MQ without a client id is refused by both; the original keeps a lock without a holder, and "
        "nobody can lock that queue again.",
        where="code",
        codes=frozenset({41}),
        when=_variant(r"missing body\.clientId / after"),
    ),
    Entry(
        title="Wrong filters are refused",
        kind="difference",
        why="A pull that brings a filter that cannot be read gets code 23 and the place of the fault. The original "
        "delivers every message to it.",
        where="code",
        codes=frozenset({11, 361}),
        when=lambda one: one.java.startswith("0 ") and one.comet.startswith("23 the "),
    ),
    Entry(
        title="Filters have a maximum",
        kind="difference",
        why="A SQL92 filter has at most 32,768 characters, 4,096 parts and 128 levels of nesting (code 23), so that "
        "what one message costs is bounded. The original takes what its stack takes.",
        where="code",
        codes=frozenset({46}),
        when=lambda one: one.java == "0" and one.comet.endswith("write it flatter"),
    ),
    Entry(
        title="The first verdict on a transaction stands",
        kind="difference",
        why="END_TRANSACTION for a transaction that has ended is answered with success if it says the same again, also "
        "after a restart, and code 604 if not. Nothing is delivered twice, nor after a rollback, nor after it was "
        "given up. The original does what it is told each time.",
        where="code",
        codes=frozenset({37}),
        when=lambda one: one.java.startswith("0") and one.comet.startswith("604 The transaction is"),
    ),
    Entry(
        title="Only half messages are ended",
        kind="difference",
        why="END_TRANSACTION for a message of another topic is refused (code 1). The original delivers any message "
        "that has the properties of a half message.",
        where="code",
        codes=frozenset({37}),
        when=lambda one: one.java == "0" and one.comet.endswith("is not a half message"),
    ),
    Entry(
        title="Extensions",
        kind="difference",
        why="GET_EXTENSIONS (30000) and END_TRANSACTIONS (30001) are CometMQ's own. The original refuses them as not "
        "supported (code 3), by which a client knows that they are not there.",
        where="code",
        codes=frozenset({30000, 30001}),
        when=lambda one: one.java.startswith("3 "),
    ),
    Entry(
        title="Messages delivered by a second or forged END_TRANSACTION",
        kind="difference",
        why="There are none in CometMQ, as above.",
        where="*",
        codes=frozenset({37}),
        when=lambda one: one.variant.endswith("after 2 11") and _one_more(one),
    ),
    Entry(
        title="Only transactions are resumed",
        kind="difference",
        why="RESUME_CHECK_HALF_MESSAGE takes half messages and those of TRANS_CHECK_MAX_TIME_TOPIC, if they were not "
        "committed or rolled back. The original puts any message into the half topic.",
        where="code",
        codes=frozenset({323}),
        when=lambda one: one.java == "0" and "is neither a half message" in one.comet,
    ),
    Entry(
        title="Flags of checked transactions",
        kind="difference",
        why="A transaction keeps its flag when it is stored again for a check. The original sets it to 0.",
        where="body.0.flag",
        codes=frozenset({37}),
        when=lambda one: one.java == 0,
    ),
    Entry(
        title="Transactions that are given up say which they were",
        kind="difference",
        why="A message of TRANS_CHECK_MAX_TIME_TOPIC names the place of its half message, as prepared offset, and the "
        "offset of its first copy, in TRAN_PREPARED_QUEUE_OFFSET, so that none is given up or resumed twice. "
        "The original ignores both there.",
        where="body.0.*",
        codes=frozenset({37}),
        when=lambda one: (
            one.variant.endswith(" 12")
            and one.where.rpartition(".")[2] in ("preparedOffset", "TRAN_PREPARED_QUEUE_OFFSET", "size")
        ),
    ),
    Entry(
        title="Places in the queue of half messages",
        kind="mask",
        why="They depend on how often open transactions were checked before.",
        where="ext.queueOffset",
        codes=frozenset({37, 323}),
        when=_both(_is_whole),
    ),
    Entry(
        title="Places of half messages and of those given up",
        kind="mask",
        why="They depend on everything else that the broker has stored.",
        where="body.0.*Offset",
        codes=frozenset({37}),
        when=lambda one: one.where.endswith("preparedOffset") or one.variant.endswith(" 12"),
    ),
    Entry(
        title="Places and times of a half message that a producer is asked about",
        kind="mask",
        why="They depend on everything else that the broker has stored.",
        where="pushed.0.*",
        codes=frozenset({37}),
        when=lambda one: (
            _both(_is_address)(one)
            or _both(_is_time)(one)
            or _both(_is_message_id)(one)
            or (_both(_is_whole)(one) and one.where.endswith("Offset"))
        ),
    ),
    Entry(
        title="Topics that stay forbidden",
        kind="difference",
        why="Allowing a group to read a topic allows it that topic. The original forgets all topics that the group is "
        "forbidden to read.",
        where="body.json.readable",
        codes=frozenset({353}),
        when=lambda one: (one.java, one.comet) == (True, False),
    ),
    Entry(
        title="Times in an empty queue of batches",
        kind="difference",
        why="In a queue of a topic of `queue.type=BatchCQ` to which nothing was sent yet, a time is answered as in any "
        "empty queue (offset 0, earliest time -1). The original fails (code 1).",
        where="code",
        codes=frozenset({29}),
        when=_variant("(earliest )?in an empty queue / asked"),
    ),
    Entry(
        title="Cleaning queues beside an empty queue of batches",
        kind="difference",
        why="CLEAN_EXPIRED_CONSUMEQUEUE passes it over. The original fails (code 1).",
        where="code",
        codes=frozenset({306}),
        when=lambda one: "mappedFile" in (one.java_answer["remark"] or ""),
    ),
    Entry(
        title="Pulls ahead of their heartbeat",
        kind="difference",
        why="A pull that knows newer tags than the group's last heartbeat is served unfiltered, and the client picks "
        "what it wants, as it always does. The original answers code 25 until the next heartbeat, which can take 30 s.",
        where="code",
        codes=frozenset({11, 361}),
        when=lambda one: one.java.startswith("25 ") and one.comet.startswith("0 "),
    ),
    Entry(
        title="Headers that cannot be read",
        kind="difference",
        why="A connection that sends a header of an unknown form, or a binary header that is cut short, is closed. "
        "The original leaves it open and silent.",
        where="end",
        when=lambda one: (one.java, one.comet) == ("open", "closed"),
    ),
    Entry(
        title="Ids that the broker makes up",
        kind="mask",
        why="A message that came without a unique key gets one, made of address, process and time.",
        where="ext.transactionId",
        when=_both(_is_made_up_id),
    ),
    Entry(
        title="Ids that the broker makes up, stored",
        kind="mask",
        why="The same in the stored message.",
        where="body.*.properties.UNIQ_KEY",
        when=_both(_is_made_up_id),
    ),
    Entry(
        title="Length of ids that the broker makes up",
        kind="mask",
        why="32 characters with an IPv4 address, 56 with IPv6: the address the original finds depends on the machine.",
        where="body.*.size",
        when=_made_up_id_in_record,
    ),
    Entry(
        title="Message ids",
        kind="mask",
        why="They hold the port of the broker and the place in its log.",
        where="ext.msgId",
        when=_both(_is_message_id),
    ),
    Entry(
        title="Message ids in messages that were sent back",
        kind="mask",
        why="They hold the port of the broker and the place in its log.",
        where="body.*.properties.ORIGIN_MESSAGE_ID",
        when=_both(_is_message_id),
    ),
    Entry(
        title="What waits is not sent back",
        kind="difference",
        why="Half messages and delayed ones that wait in the broker's own topics belong to no consumer: none can "
        "send them back. The original hands them out by way of the retry topic.",
        where="code",
        codes=frozenset({36}),
        when=lambda one: str(one.java).startswith("0") and "belongs to the broker" in str(one.comet_answer["remark"]),
    ),
    Entry(
        title="Refused send-backs leave nothing behind",
        kind="difference",
        why="A message that cannot be sent back makes no retry topic. The original makes it before it looks for the "
        "message.",
        where="code",
        codes=frozenset({36}),
        when=lambda one: one.variant.endswith(" 351") and (str(one.java)[:2], str(one.comet)[:2]) == ("0", "17"),
    ),
    Entry(
        title="Times in messages",
        kind="mask",
        why="Two servers store at two times.",
        where="body.*Time",
        when=_both(_is_time),
    ),
    Entry(
        title="Times in fields",
        kind="mask",
        why="Two servers store at two times.",
        where="ext.*imestamp",
        when=_both(_is_time),
    ),
    Entry(
        title="Addresses in messages",
        kind="mask",
        why="Each server and each connection has its own port.",
        where="body.*Host",
        when=_both(_is_address),
    ),
    Entry(
        title="Times and revive queues of pops",
        kind="mask",
        why="Two servers hand messages out at two times, and count from there how long an ordered message is held. "
        "Revive queues are taken in turn, whoever pops.",
        where="ext.*",
        when=_of_a_pop,
    ),
    Entry(
        title="Times of the first pop",
        kind="mask",
        why="Two servers hand messages out at two times.",
        where="body.*.properties.1ST_POP_TIME",
        when=_both(_is_time),
    ),
    Entry(
        title="Receipts",
        kind="mask",
        why="They hold the time of the pop and the number of its revive queue.",
        where="body.*.properties.POP_CK",
        when=_both(_is_receipt),
    ),
    Entry(
        title="Places in the log",
        kind="mask",
        why="They depend on everything else that the broker has stored.",
        where="body.*physicalOffset",
        when=_both(_is_whole),
    ),
    Entry(
        title="Where a master's log ends",
        kind="mask",
        why="It depends on everything else that the broker has stored.",
        where="body.*masterCommitLogMaxOffset",
        codes=frozenset({907}),
        when=_both(_is_whole),
    ),
    Entry(
        title="What a CometMQ slave asks of its master",
        kind="difference",
        why="The status of a master carries `cometmq`, from which a CometMQ slave learns that it can ask for the whole "
        "log. Java skips the key.",
        where="body.json.cometmq*",
        codes=frozenset({907}),
    ),
    Entry(
        title="Places in the log that the index knows",
        kind="mask",
        why="They depend on everything else that the broker has stored.",
        where="ext.indexLastUpdatePhyoffset",
        when=_both(_is_whole),
    ),
    Entry(
        title="Data versions",
        kind="mask",
        why="They count changes, and hold the time of the last one.",
        where="body.json.*ataVersion.*",
        when=_both(_is_whole),
    ),
    Entry(
        title="Folders and ports in settings",
        kind="mask",
        why="Each server has its own.",
        where="body.*",
        codes=frozenset({318, 319}),
        when=lambda one: one.where.removeprefix("body.") in _OF_ONE_SERVER,
    ),
)


def differences(code: int, variant: str, java: dict[str, Any], comet: dict[str, Any]) -> Iterator[Difference]:
    """Every place where two answers differ, whether covered or not; of two that ended differently, only the codes."""
    if java.get("code") != comet.get("code"):
        yield Difference(code, variant, "code", _ending(java), _ending(comet), java, comet)
        return
    for where, left, right in _walk("", java, comet):
        yield Difference(code, variant, where, left, right, java, comet)


def _ending(answer: dict[str, Any]) -> str:
    return f"{answer.get('code', answer.get('answer'))} {answer.get('remark') or ''}".strip()


def covering(difference: Difference) -> Entry | None:
    """The first entry that covers a difference."""
    return next((entry for entry in ENTRIES if entry.covers(difference)), None)


def _walk(path: str, left: Any, right: Any) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(left, dict) and isinstance(right, dict):
        for key in sorted({*left, *right}):
            yield from _walk(f"{path}.{key}" if path else key, left.get(key, NOTHING), right.get(key, NOTHING))
    elif isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        for number, (one, other) in enumerate(zip(left, right, strict=True)):
            yield from _walk(f"{path}.{number}", one, other)
    elif left != right or type(left) is not type(right):
        yield path, left, right


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 160 else f"{text[:150]}… ({len(text)} characters)"
