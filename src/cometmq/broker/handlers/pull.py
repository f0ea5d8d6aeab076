"""Pulling: a range of one queue, as it is stored, or a wait until there is one.

Messages leave as slices of the log. A range that is old enough to be on disk only is read in a thread, so
a consumer far behind does not stop the others; there, too, an expression is asked about such records.

Mirrors: PullMessageProcessor, DefaultPullMessageResultHandler.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from operator import attrgetter
from typing import Final

from cometmq.broker.acting.reading_place import ReadingPlace
from cometmq.broker.broadcast_offsets import BroadcastOffsets, Puller
from cometmq.broker.cold_search import ColdSearch
from cometmq.broker.config import BrokerConfig
from cometmq.broker.filters import Filters
from cometmq.broker.groups import SYSTEM_GROUPS, Groups
from cometmq.broker.long_polling import LongPolling, ParkedPull
from cometmq.broker.members import Members
from cometmq.broker.offsets import Offsets
from cometmq.broker.statistics import Reads
from cometmq.broker.topics import Topics
from cometmq.errors import RequestRefused, UnitsDoubted
from cometmq.filter import tags
from cometmq.model import names
from cometmq.model.group import GroupConfig
from cometmq.model.subscription import SubscriptionData, is_tag_type
from cometmq.model.sysflag import Perm, PullFlag
from cometmq.model.topic import TopicConfig
from cometmq.net.routes import LATER, Call, Later, handles
from cometmq.store.engine import Store
from cometmq.store.reader import Matches, ReadResult, ReadStatus, RecordFilter
from cometmq.wire.bodies.heartbeat import CONSUME_ACTIVELY
from cometmq.wire.codes import Forbidden, ResponseCode, SerializeType
from cometmq.wire.command import Body
from cometmq.wire.reply_template import ReplyTemplate
from cometmq.wire.requests.consume import LitePullMessage, PullMessage, PullMessageReply

COLD_READERS: Final = 4
SYSTEM_PULLERS: Final = frozenset({*SYSTEM_GROUPS, "DEFAULT_CONSUMER", "SCHEDULE_CONSUMER", "__MONITOR_CONSUMER"})

_CODES: Final = {
    ReadStatus.FOUND: int(ResponseCode.SUCCESS),
    ReadStatus.MESSAGE_WAS_REMOVING: int(ResponseCode.PULL_RETRY_IMMEDIATELY),
    ReadStatus.NO_MATCHED_MESSAGE: int(ResponseCode.PULL_RETRY_IMMEDIATELY),
    ReadStatus.NO_MATCHED_LOGIC_QUEUE: int(ResponseCode.PULL_NOT_FOUND),
    ReadStatus.NO_MESSAGE_IN_QUEUE: int(ResponseCode.PULL_NOT_FOUND),
    ReadStatus.OFFSET_FOUND_NULL: int(ResponseCode.PULL_NOT_FOUND),
    ReadStatus.OFFSET_OVERFLOW_ONE: int(ResponseCode.PULL_NOT_FOUND),
    ReadStatus.OFFSET_OVERFLOW_BADLY: int(ResponseCode.PULL_OFFSET_MOVED),
    ReadStatus.OFFSET_TOO_SMALL: int(ResponseCode.PULL_OFFSET_MOVED),
}
# As plain numbers: an enum member costs a function call for each `&`.
_COMMIT_OFFSET, _SUSPEND, _SUBSCRIPTION = map(int, (PullFlag.COMMIT_OFFSET, PullFlag.SUSPEND, PullFlag.SUBSCRIPTION))
_READ: Final = int(Perm.READ)
_JSON: Final = int(SerializeType.JSON)
_FOUND_REPLY: Final = ReplyTemplate(
    {},
    ("suggestWhichBrokerId", "nextBeginOffset", "minOffset", "maxOffset", "topicSysFlag", "groupSysFlag"),
    ReadStatus.FOUND.name,
)
_FOUND_FIELDS: Final = attrgetter(
    "suggest_which_broker_id", "next_begin_offset", "min_offset", "max_offset", "topic_sys_flag", "group_sys_flag"
)
_NOT_FOUND: Final = int(ResponseCode.PULL_NOT_FOUND)
_OFFSET_MOVED: Final = int(ResponseCode.PULL_OFFSET_MOVED)
_NOTHING_STORED: Final = (ReadStatus.NO_MATCHED_LOGIC_QUEUE, ReadStatus.NO_MESSAGE_IN_QUEUE)


@dataclass(slots=True)
class PullContext:
    """A pull that has passed its checks."""

    request: PullMessage
    topic: TopicConfig
    group: GroupConfig
    matches: Matches | None
    broadcaster: Puller | None = None


def _forbidden(by: Forbidden, remark: str) -> RequestRefused:
    return RequestRefused("NO_PERMISSION", remark, {"forbiddenType": str(int(by))})


class Pull:
    """Serves pulls and parks those that find nothing."""

    def __init__(
        self,
        config: BrokerConfig,
        topics: Topics,
        groups: Groups,
        members: Members,
        offsets: Offsets,
        broadcasts: BroadcastOffsets,
        filters: Filters,
        store: Store,
        place: ReadingPlace,
        reads: Reads,
    ) -> None:
        self._config = config
        self._topics = topics
        self._groups = groups
        self._members = members
        self._offsets = offsets
        self._broadcasts = broadcasts
        self._filters = filters
        self._store = store
        self._place = place
        self._reads = reads
        self._readers = ThreadPoolExecutor(COLD_READERS, "cometmq-cold-read")
        self._cold_search = ColdSearch(store, self._readers)
        self.long_polling = LongPolling(self._wake)
        offsets.on_reset.append(self._wake_group)

    @handles(PullMessage, LitePullMessage)
    def pull(self, request: PullMessage, call: Call) -> Later:
        context = self._check(request, call)
        self._run(context, call, may_park=True)
        return LATER

    def _run(self, context: PullContext, call: Call, *, may_park: bool) -> None:
        request = context.request
        reset = self._offsets.take_reset(request.consumer_group, request.topic, request.queue_id)
        if reset is not None:  # what the pull commits is from before, and not taken
            self._offsets.commit_pull(request.consumer_group, request.topic, request.queue_id, reset)
            queue = request.topic, request.queue_id
            self._send_elsewhere(context, call, reset, self._store.min_offset(*queue), self._store.max_offset(*queue))
            return
        context.broadcaster = self._broadcasts.puller(request, call.channel)
        if context.broadcaster is not None:
            start = self._broadcasts.start(request, context.broadcaster)
            if start is not None:
                self._broadcasts.pulled(request, context.broadcaster, start)
                self._send_elsewhere(context, call, start)
                return
        topic, queue_id, offset, matches = request.topic, request.queue_id, request.queue_offset, context.matches
        if matches is None and context.broadcaster is None and self._answer_quickly(context, call, may_park=may_park):
            return
        if isinstance(matches, RecordFilter) and self._cold_search.is_needed(topic, queue_id, offset):

            def found(result: ReadResult, pieces: list[Body] | None) -> None:
                self._settle(context, call, result, pieces, may_park=may_park)

            self._cold_search.start(topic, queue_id, offset, request.max_msg_nums, matches, found, call.refuse)
            return
        result = self._store.read(topic, queue_id, offset, request.max_msg_nums, None, matches)
        self._settle(context, call, result, may_park=may_park)

    def _answer_quickly(self, context: PullContext, call: Call, *, may_park: bool) -> bool:
        """Serve a consumer that keeps up; False, and nothing done, where the patient way is needed."""
        request, command = context.request, call.command
        if command.serialize != _JSON:
            return False
        quick = self._store.quick
        found = quick.units(request.topic, request.queue_id, request.queue_offset, request.max_msg_nums)
        if found is None:
            return False
        units, next_offset, low, high = found
        group = context.group
        suggested = self._place.suggest(group)
        head = _FOUND_REPLY.fill(
            command.opaque, suggested, next_offset, low, high, context.topic.sys_flag, group.group_sys_flag
        )
        frame = quick.framed(head, units, request.queue_id, request.queue_offset)
        if frame is None:
            return False
        self._reads.note(next_offset - request.queue_offset)
        self._commit(request, next_offset, may_park=may_park)
        call.reply_frame(frame)
        return True

    def _commit(self, request: PullMessage, next_offset: int, *, may_park: bool) -> None:
        """Note how far the pull came, and what it says of the consumer; a parked one has said it before."""
        self._offsets.commit_pull(request.consumer_group, request.topic, request.queue_id, next_offset)
        if may_park and request.sys_flag & _COMMIT_OFFSET:
            self._offsets.commit(request.consumer_group, request.topic, request.queue_id, request.commit_offset)

    def _settle(
        self, context: PullContext, call: Call, result: ReadResult, pieces: list[Body] | None = None, *, may_park: bool
    ) -> None:
        """Commit what the pull commits, then answer it or let it wait."""
        request = context.request
        self._reads.note(len(result.ranges))
        code = _CODES[result.status]
        if result.status in _NOTHING_STORED and request.queue_offset != 0:
            code = _OFFSET_MOVED
        code = self._place.code(code, is_far_behind=result.suggest_slave)
        if context.broadcaster is not None:
            offset = result.next_offset if code == _OFFSET_MOVED else request.queue_offset
            self._broadcasts.pulled(request, context.broadcaster, offset)
        self._commit(request, result.next_offset, may_park=may_park)
        if may_park and code == _NOT_FOUND and request.sys_flag & _SUSPEND and self._park(context, call):
            return
        self._answer(context, call, result, code, pieces)

    def _park(self, context: PullContext, call: Call) -> bool:
        request = context.request
        timeout_ms = request.suspend_timeout_millis
        if not self._config.long_polling_enable:
            timeout_ms = self._config.short_polling_time_mills
        key = request.topic, request.queue_id
        return self.long_polling.park(key, request.queue_offset, timeout_ms / 1000, call, context)

    def _wake(self, pull: ParkedPull, timed_out: bool) -> bool:
        """Run a parked pull again; False leaves it parked."""
        context: PullContext = pull.context
        try:
            if not timed_out and context.matches is not None and not self._finds(pull, context.matches):
                return False
            self._run(context, pull.call, may_park=False)
        except Exception as error:  # as in `Routes.answer`; and who is woken after it must have his turn
            pull.call.refuse(error)
        return True

    def _wake_group(self, group: str, topic: str, queue_id: int) -> None:
        """Let a group that was moved know at once."""
        self.long_polling.wake((topic, queue_id), lambda pull: pull.context.request.consumer_group == group)

    def _finds(self, pull: ParkedPull, matches: Matches) -> bool:
        """Whether something came that the pull wants; looks at all of it, for no later arrival may follow."""
        topic, queue_id = pull.key
        while True:
            found = self._store.read(topic, queue_id, pull.offset, 1, None, matches)
            if found.status is ReadStatus.FOUND or found.next_offset <= pull.offset:
                return found.status is ReadStatus.FOUND
            pull.offset = found.next_offset

    # --- the answer

    def _answer(
        self, context: PullContext, call: Call, result: ReadResult, code: int, pieces: list[Body] | None
    ) -> None:
        header = PullMessageReply(
            suggest_which_broker_id=self._place.suggest(context.group, is_far_behind=result.suggest_slave),
            next_begin_offset=result.next_offset,
            min_offset=result.min_offset,
            max_offset=result.max_offset,
            topic_sys_flag=context.topic.sys_flag,
            group_sys_flag=context.group.group_sys_flag,
        )
        remark = result.status.name
        if result.status is not ReadStatus.FOUND:
            call.reply(header, code=code, remark=remark)
        elif pieces is not None:
            self._send(call, header, remark, pieces)
        elif not result.cold:
            self._send(call, header, remark, self._store.slices(result.ranges))
        else:
            self._load(call, header, remark, result)

    def _load(self, call: Call, header: PullMessageReply, remark: str, result: ReadResult) -> None:
        loop = asyncio.get_running_loop()
        reading = loop.run_in_executor(self._readers, self._store.load_found, result)
        reading.add_done_callback(lambda done: self._send_cold(call, header, remark, result, done))

    def _send_elsewhere(
        self, context: PullContext, call: Call, offset: int, min_offset: int = 0, max_offset: int = 0
    ) -> None:
        """Tell a client whose group was moved where to go on."""
        header = PullMessageReply(
            suggest_which_broker_id=self._place.suggest(context.group),
            next_begin_offset=offset,
            min_offset=min_offset,
            max_offset=max_offset,
            topic_sys_flag=context.topic.sys_flag,
            group_sys_flag=context.group.group_sys_flag,
        )
        call.reply(header, code=_OFFSET_MOVED, remark="OFFSET_RESET")

    def _send_cold(
        self,
        call: Call,
        header: PullMessageReply,
        remark: str,
        result: ReadResult,
        done: asyncio.Future[list[bytes]],
    ) -> None:
        if done.cancelled():
            return
        fault = done.exception()
        if isinstance(fault, UnitsDoubted):
            try:
                self._load(call, header, remark, self._store.mended(result))
            except Exception as error:  # a callback has nobody above it
                call.refuse(error)
        elif isinstance(fault, Exception):
            call.refuse(fault)
        elif pieces := done.result():
            self._send(call, header, remark, pieces)
        else:  # retention was faster
            removed = ReadStatus.MESSAGE_WAS_REMOVING
            call.reply(header, code=_CODES[removed], remark=removed.name)

    @staticmethod
    def _send(call: Call, header: PullMessageReply, remark: str, pieces: Sequence[Body]) -> None:
        size = sum(map(len, pieces))
        if call.command.serialize == _JSON:
            call.reply_frame(_FOUND_REPLY.fill(call.command.opaque, *_FOUND_FIELDS(header), body_size=size), *pieces)
        else:
            call.reply_parts(header, list(pieces), size, remark=remark)

    # --- checks

    def _check(self, request: PullMessage, call: Call) -> PullContext:
        config = self._config
        self._place.check()
        if not config.broker_permission & _READ:
            raise _forbidden(Forbidden.BROKER, f"the broker[{config.broker_ip1}] pulling message is forbidden")
        if isinstance(request, LitePullMessage) and not config.lite_pull_message_enable:
            raise _forbidden(Forbidden.BROKER, f"the broker[{config.broker_ip1}] for lite pull consumer is forbidden")
        group = self._groups.find(request.consumer_group)
        if group is None:
            raise RequestRefused(
                "SUBSCRIPTION_GROUP_NOT_EXIST",
                f"subscription group [{request.consumer_group}] does not exist: create it, "
                "or set autoCreateSubscriptionGroup=true",
            )
        if not group.consume_enable:
            raise _forbidden(Forbidden.GROUP, f"subscription group no permission, {request.consumer_group}")
        topic = self._topics.get(request.topic)
        if topic is None:
            raise RequestRefused("TOPIC_NOT_EXIST", f"topic[{request.topic}] not exist, apply first please!")
        if not topic.perm & _READ:
            raise _forbidden(Forbidden.TOPIC, f"the topic[{request.topic}] pulling message is forbidden")
        if not 0 <= request.queue_id < topic.read_queue_nums:
            raise RequestRefused(
                "INVALID_PARAMETER",
                f"queueId[{request.queue_id}] is illegal, topic:[{request.topic}] "
                f"topicConfig.readQueueNums:[{topic.read_queue_nums}] consumer:[{call.channel.peer}]",
            )
        subscription = self._subscription(request, group)
        if config.reject_pull_consumer_enable:
            self._refuse_pull_consumer(request.consumer_group, call)
        if subscription.is_tag:
            return PullContext(request, topic, group, tags.matcher(subscription))
        if not config.enable_property_filter:
            raise RequestRefused(
                "SYSTEM_ERROR",
                f"The broker does not support consumer to filter message by {subscription.expression_type}",
            )
        return PullContext(request, topic, group, self._filters.matcher(subscription))

    def _refuse_pull_consumer(self, name: str, call: Call) -> None:
        group = self._members.consumer_group(name)
        if group is not None and (group.consume_type != CONSUME_ACTIVELY or call.channel in group.clients):
            return
        if name not in SYSTEM_PULLERS and not name.startswith(names.SYSTEM_GROUP_PREFIX):
            raise RequestRefused(
                "SUBSCRIPTION_NOT_EXIST",
                "the consumer's group info not exist, or the pull consumer is rejected by server: "
                "rejectPullConsumerEnable is true",
            )

    def _subscription(self, request: PullMessage, group: GroupConfig) -> SubscriptionData:
        """From the request if it brings one, else from the group's heartbeats."""
        if request.sys_flag & _SUBSCRIPTION:
            brought = tags.build(request.topic, request.subscription, request.expression_type)
            self._members.brought(request.consumer_group, brought)
            return brought
        known = self._members.consumer_group(request.consumer_group)
        if known is None:
            raise RequestRefused("SUBSCRIPTION_NOT_EXIST", "the consumer's group info not exist")
        if not group.consume_broadcast_enable and known.is_broadcasting:
            raise _forbidden(
                Forbidden.BROADCASTING, f"the consumer group[{request.consumer_group}] can not consume by broadcast way"
            )
        if not self._groups.may_read(request.consumer_group, request.topic):
            raise _forbidden(
                Forbidden.SUBSCRIPTION,
                f"the consumer group[{request.consumer_group}] is forbidden for topic[{request.topic}]",
            )
        subscription = known.subscriptions.get(request.topic)
        if subscription is None:
            raise RequestRefused("SUBSCRIPTION_NOT_EXIST", "the consumer's subscription not exist")
        if subscription.sub_version < request.sub_version:
            if not (subscription.is_tag and is_tag_type(request.expression_type)):
                raise RequestRefused("SUBSCRIPTION_NOT_LATEST", "the consumer's subscription not latest")
            # The heartbeat that tells the newer tags is late, by up to 30 s if a rebalance kept the client from it.
            # Until it comes every message goes out: clients compare tags themselves, for the broker knows hashes only.
            return tags.parse(request.topic, None)
        return subscription if subscription.is_tag else self._filters.registered(subscription, request)

    def close(self) -> None:
        self.long_polling.close()
        self._cold_search.close()
        self._readers.shutdown(cancel_futures=True)
