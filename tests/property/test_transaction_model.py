"""Transactions against a small model, with kills at every point: one visible message or none, and none forgotten.

The store, the window, the ops, the checks and the handlers are the real ones; the steps say when bytes are written and
flushed, when offsets are saved, and before which of its messages the broker dies.
"""

from __future__ import annotations

import asyncio
import inspect
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.unit.broker.transaction_kit import COMMIT, GROUP, ROLLBACK, TOPIC, Begun
from tests.unit.store.kit import HandClock, QuickFs, open_small, read_all

from cometmq.broker.config import BrokerConfig
from cometmq.broker.inner_messages import InnerMessage, InnerMessages
from cometmq.broker.inner_reader import InnerReader
from cometmq.broker.members import Client, Members
from cometmq.broker.offsets import Offsets
from cometmq.broker.topics import Topics
from cometmq.broker.transaction.checks import Checks
from cometmq.broker.transaction.ends import Ends
from cometmq.broker.transaction.handlers import TransactionHandlers
from cometmq.broker.transaction.many import ManyHandlers
from cometmq.broker.transaction.metrics import TransactionMetrics
from cometmq.broker.transaction.recovery import recover
from cometmq.broker.transaction.service import Transactions
from cometmq.errors import RequestRefused
from cometmq.model import names, properties
from cometmq.store.append import Appended
from cometmq.store.config import ASYNC_FLUSH
from cometmq.store.engine import Store
from cometmq.store.tables import TableFile
from cometmq.wire.bodies.positions import Position, pack_positions
from cometmq.wire.requests.extensions import Ended, EndTransactions
from cometmq.wire.requests.transaction import CheckTransactionState

CHECKS_MAX = 3
TIMEOUT_MS = 6_000


class Killed(Exception):
    """The broker died before it stored its next message."""


class Mortal(InnerMessages):
    """Writes down each message at once, and dies before one of them if told to."""

    fuse: int | None = None
    store: Store

    def put(self, message: InnerMessage, *, from_producer: bool = False) -> Appended:
        if self.fuse is not None:
            if not self.fuse:
                self.store.write()
                raise Killed
            self.fuse -= 1
        return super().put(message, from_producer=from_producer)


class Turns:
    """In place of the loop's turns: the test says when they end."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.waiting: list[Any] = []

    def end_turn_soon(self) -> None:
        pass

    def when_safe(self, end_offset: int, settle: Any) -> None:
        self.waiting.append(settle)

    async def safe(self, end_offset: int) -> None:
        self.end()

    def end(self) -> None:
        self.store.write()
        self.store.dispatch()
        waiting, self.waiting = self.waiting, []
        for settle in waiting:
            settle(None)


class Producer:
    """The far end of a producer's connection."""

    is_open = is_writable = True

    def __init__(self) -> None:
        self.asked: list[Begun] = []

    def notify(self, request: CheckTransactionState, body: bytes) -> None:
        assert request.msg_id is not None
        self.asked.append(Begun(request.msg_id, request.commit_log_offset, request.tran_state_table_offset))


class Answer:
    """A call that remembers its answer."""

    done = False

    def __init__(self, body: bytes = b"") -> None:
        self.body = body
        self.outcomes = b""

    def reply(self, *, body: bytes = b"") -> None:
        self.done = True
        self.outcomes = body


@dataclass
class Modelled:
    """A transaction: its copies, what was answered about its end, and what was asked before a kill."""

    copies: list[Begun]
    verdict: int | None = None
    tried: set[int] = field(default_factory=set)


class TransactionMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.folder = tempfile.TemporaryDirectory()
        self.clock = HandClock()
        self.model: dict[str, Modelled] = {}
        self.count = 0
        self.patient: set[str] = set()

    @initialize(op_size=st.sampled_from([8, 4096]))
    def open(self, op_size: int) -> None:
        self.config = BrokerConfig(
            transaction_check_max=CHECKS_MAX,
            transaction_time_out=TIMEOUT_MS,
            transaction_op_msg_max_size=op_size,
            transaction_op_batch_interval=1_000_000_000,  # a step of its own, not the wall's time, writes them
        )
        self.start()

    def start(self) -> None:
        self.loop.run_until_complete(self._start())

    async def _start(self) -> None:
        clock, config = self.clock, self.config
        self.store = store = open_small(Path(self.folder.name), QuickFs(), clock, flush_disk_type=ASYNC_FLUSH)

        def table(name: str) -> TableFile:
            return TableFile(QuickFs(), f"{store.config.config_dir}/{name}")

        self.turns = turns = Turns(store)
        self.messages = Mortal(store, turns)  # type: ignore[arg-type]
        self.messages.store = store
        self.offsets = Offsets(table("consumerOffset.json"), config, clock)
        topics = Topics(table("topics.json"), config, clock)
        metrics = TransactionMetrics(table("transactionMetrics"), clock)
        reader = InnerReader(store)
        self.service = Transactions(config, store, self.messages, self.offsets, topics, metrics, clock)
        recover(store, self.offsets, self.service)
        turns.end()
        self.messages.add_stage(self.service.begin, properties.TRANSACTION_PREPARED, producers_only=True)
        ends = Ends(store, self.service)
        self.handlers = TransactionHandlers(config, store, reader, turns, self.service, ends, clock)  # type: ignore[arg-type]
        self.many = ManyHandlers(reader, turns, ends)  # type: ignore[arg-type]
        members = Members(clock)
        self.producer = Producer()
        members.register_producer(Client(self.producer, "one"), GROUP)  # type: ignore[arg-type]
        self.checks = Checks(config, store, reader, turns, members, self.service, clock)  # type: ignore[arg-type]

    # --- steps

    @rule(count=st.integers(1, 12), immunity=st.sampled_from([None, "1", "60"]), patient=st.booleans())
    def begin(self, count: int, immunity: str | None, patient: bool) -> None:
        for _ in range(count):
            self.count += 1
            key = str(self.count)
            found = {"TRAN_MSG": "true", "PGROUP": GROUP, "UNIQ_KEY": key}
            if immunity is not None:
                found[properties.CHECK_IMMUNITY_TIME_IN_SECONDS] = immunity
            if patient:
                found[properties.PATIENCE_MARK] = "mark"
                self.patient.add(key)
            message = InnerMessage(TOPIC, 0, key.encode(), found, born_time_ms=self.clock.ms)
            placed = self.messages.put(message, from_producer=True)
            self.model[key] = Modelled([Begun(key, placed.physical_offset, placed.queue_offset)])
        self.turns.end()

    @precondition(lambda self: self.model)
    @rule(data=st.data(), verdict=st.sampled_from([COMMIT, ROLLBACK]), dies=st.sampled_from([None, None, 0, 1, "cut"]))
    def end(self, data: st.DataObject, verdict: int, dies: int | str | None) -> None:
        key = data.draw(st.sampled_from(sorted(self.model)))
        self.end_one(data.draw(st.sampled_from(self.model[key].copies)), verdict, dies)

    def end_one(self, copy: Begun, verdict: int, dies: int | str | None = None) -> None:
        self.loop.run_until_complete(self._end_one(copy, verdict, dies))

    async def _end_one(self, copy: Begun, verdict: int, dies: int | str | None) -> None:
        known = self.model[copy.key]
        answer = Answer()
        self.messages.fuse = dies if isinstance(dies, int) else None
        try:
            waits: object = self.handlers.end(copy.end(verdict, checked=True), answer)  # type: ignore[arg-type]
            if inspect.isawaitable(waits):  # it ended before this broker started
                await waits
        except RequestRefused as refused:
            assert refused.response == "ILLEGAL_OPERATION"
            self.refused(copy, verdict)
            return
        except Killed:
            known.tried.add(verdict)
            await self._reopen()
            return
        finally:
            self.messages.fuse = None
        if dies == "cut":
            known.tried.add(verdict)
            await self._reopen()
            return
        assert not answer.done, "nothing is answered before it is safe"
        self.turns.end()
        assert answer.done
        assert known.verdict in (None, verdict), "the first verdict stands"
        known.verdict = verdict

    def refused(self, copy: Begun, verdict: int) -> None:
        """Only another verdict than the first is refused, whatever happened in between."""
        known = self.model[copy.key]
        assert known.verdict not in (None, verdict) or known.tried or copy.key in self.given_up()

    @precondition(lambda self: self.model)
    @rule(data=st.data(), verdict=st.sampled_from([COMMIT, ROLLBACK]), dies=st.sampled_from([None, None, 0, 2, 5]))
    def end_many(self, data: st.DataObject, verdict: int, dies: int | None) -> None:
        keys = data.draw(st.lists(st.sampled_from(sorted(self.model)), min_size=1, max_size=8))
        copies = [data.draw(st.sampled_from(self.model[key].copies)) for key in keys]
        self.loop.run_until_complete(self._end_many(copies, verdict, dies))

    async def _end_many(self, copies: list[Begun], verdict: int, dies: int | None) -> None:
        positions = [Position(one.half_offset, one.physical_offset) for one in copies]
        answer = Answer(pack_positions(positions))
        self.messages.fuse = dies
        try:
            await self.many.end_many(EndTransactions(GROUP, verdict), answer)  # type: ignore[arg-type]
        except Killed:
            for copy in copies:
                if self.model[copy.key].verdict is None:
                    self.model[copy.key].tried.add(verdict)
            await self._reopen()
            return
        finally:
            self.messages.fuse = None
        assert len(answer.outcomes) == len(copies)
        for copy, ended in zip(copies, answer.outcomes, strict=True):
            if ended == Ended.AS_ASKED:
                assert self.model[copy.key].verdict in (None, verdict), "the first verdict stands"
                self.model[copy.key].verdict = verdict
            else:
                assert ended == Ended.OTHERWISE
                self.refused(copy, verdict)

    @rule(
        ms=st.sampled_from([1, 2_000, 7_000, 61_000, 601_000, 1_300_000]),
        dies=st.sampled_from([None, None, 0, 1, 2, 3, 7]),
    )
    def check(self, ms: int, dies: int | None) -> None:
        self.clock.ms += ms
        self.messages.fuse = dies
        producer, before = self.producer, len(self.producer.asked)
        try:
            self.loop.run_until_complete(self.checks.round())
        except Killed:
            self.loop.run_until_complete(self._reopen())
        finally:
            self.messages.fuse = None
            self.turns.end()
        for copy in producer.asked[before:]:  # those before may have ended since
            known = self.model[copy.key]
            assert known.verdict is None, "nobody is asked about what has ended"
            if copy not in known.copies:
                known.copies.append(copy)

    @rule()
    def answer_checks(self) -> None:
        asked, self.producer.asked = self.producer.asked, []
        for copy in asked:
            self.end_one(copy, COMMIT)

    @rule()
    def write_ops(self) -> None:
        self.service.ops.write()
        self.turns.end()

    @rule(flush=st.booleans())
    def save(self, flush: bool) -> None:
        if flush:
            self.store.flush_log()
        self.service.save_progress()
        self.offsets.persist()

    @rule()
    def kill(self) -> None:
        self.loop.run_until_complete(self._reopen())

    async def _reopen(self) -> None:
        self.service.ops._timer = None
        self.store.abandon()
        await self._start()

    @rule()
    def stop(self) -> None:
        self.loop.run_until_complete(self.service.close(self.turns))  # type: ignore[arg-type]
        self.save(flush=True)
        self.store.close()
        self.start()

    # --- what holds

    def visible(self) -> Counter[str]:
        return Counter(record.body.decode() for record in read_all(self.store, TOPIC))

    def given_up(self) -> Counter[str]:
        return Counter(record.body.decode() for record in read_all(self.store, names.CHECK_MAX_TIME_TOPIC))

    @invariant()
    def one_or_none(self) -> None:
        if not hasattr(self, "store"):
            return
        visible, given_up = self.visible(), self.given_up()
        assert max([*visible.values(), *given_up.values()], default=0) <= 1
        assert not visible.keys() & given_up.keys()
        assert not self.patient & given_up.keys(), "patient ones are not given up for what nobody answered"
        for key, known in self.model.items():
            if known.verdict == COMMIT:
                assert visible[key] == 1
            elif known.verdict == ROLLBACK or COMMIT not in known.tried:
                assert not visible[key]

    def teardown(self) -> None:
        if hasattr(self, "store"):
            for _ in range(CHECKS_MAX + 2):
                self.check(61_000, None)
                self.answer_checks()
            self.one_or_none()
            visible, given_up = self.visible(), self.given_up()
            for key, known in self.model.items():
                ended = visible[key] or given_up[key] or known.verdict == ROLLBACK or ROLLBACK in known.tried
                assert ended, f"{key} was forgotten"
            self.write_ops()
            assert self.service.window.base == self.store.max_offset(names.HALF_TOPIC, 0)
            self.store.close()
        self.loop.close()
        self.folder.cleanup()


TransactionMachine.TestCase.settings = settings(
    max_examples=50, stateful_step_count=20, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
TestTransactions: Any = TransactionMachine.TestCase
