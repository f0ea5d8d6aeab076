"""A running server pair of either kind, asked over raw connections.

What is kept of a run is plain data; a request that gets no answer, or whose connection is closed, is an answer too.
"""

from __future__ import annotations

import asyncio
import json
import time
import zlib
from dataclasses import dataclass, field
from typing import Any

import orjson

from cometmq.errors import PeerTimeout, PeerUnreachable
from cometmq.model import properties
from cometmq.net.channel import Channel
from cometmq.net.pool import connect
from cometmq.wire.codes import FLAG_ONE_WAY, FLAG_RESPONSE, RequestCode, ResponseCode, SerializeType
from cometmq.wire.command import Command, encode_command

from .reply import mark, plain, records_of
from .script import Ask, Await, Closed, Form, Pause, Pushed, Script, Server, Silent, Step, fill

ANSWER_TIMEOUT_MS = 4_000
UNTIL_TIMEOUT_S = 40.0  # a broker of the original may look only every 30 s for a route that was not there yet
PUSHED_TIMEOUT_S = 8.0
UNTIL_PAUSE_S = 0.02

NAMES = ("topic", "group", "cluster", "broker", "namespace", "client", "key")

Answers = dict[str, dict[str, Any]]


@dataclass
class Target:
    """Where the servers of one kind are."""

    kind: str
    addresses: dict[Server, str]

    async def run(self, script: Script, form: Form) -> Answers:
        """Ask everything a script has to ask, in one header form; answers by variant and step."""
        return await _Run(self, script, form).all_variants()


@dataclass
class _Run:
    target: Target
    script: Script
    form: Form
    channels: dict[str, Channel] = field(default_factory=dict)
    pushed: dict[str, asyncio.Queue[Command]] = field(default_factory=dict)
    pending: dict[str, asyncio.Task[dict[str, Any]]] = field(default_factory=dict)
    names: dict[str, Any] = field(default_factory=dict)
    answers: Answers = field(default_factory=dict)
    mark: str = ""

    async def all_variants(self) -> Answers:
        try:
            for number, (variant, ask) in enumerate(self.script.variants().items()):
                if self.script.fresh or number == 0:
                    self._new_names(number)
                    await self._steps(f"{variant} / before", self.script.before)
                await self._step(f"{variant} / asked", ask)
                await self._steps(f"{variant} / after", self.script.after)
        finally:
            for channel in self.channels.values():
                channel.close()
        return self.answers

    def _new_names(self, number: int) -> None:
        self.mark = mark(self.script.name, self.form, number)
        self.names = {kind: f"{self.mark}{kind}" for kind in NAMES}
        now_ms = int(time.time() * 1000)
        self.names.update(now=str(now_ms), soon=str(now_ms + 1_500), tomorrow=str(now_ms + 86_400_000))

    async def _steps(self, where: str, steps: tuple[Step, ...]) -> None:
        for number, step in enumerate(steps):
            what = step.code if isinstance(step, Ask) else type(step).__name__.lower()
            await self._step(f"{where} {number} {what}", step)

    async def _step(self, where: str, step: Step) -> None:
        if isinstance(step, Await):
            self.answers[where] = await self.pending.pop(step.pending)
        elif isinstance(step, Pause):
            await asyncio.sleep(step.s)
        elif isinstance(step, Pushed):
            self.answers[where] = await self._pushed(step)
        elif isinstance(step, Closed):
            self.channels.pop(step.peer).close()
        elif isinstance(step, Silent):
            await asyncio.sleep(0.3)
            self.answers[where] = {"pushed": self.pushed[step.peer].qsize()}
        elif step.pending:
            self.pending[step.pending] = asyncio.ensure_future(self._ask(step))
            await asyncio.sleep(0.1)  # time to arrive and be held; nothing tells when it is
        elif step.until is not None:
            self.answers[where] = await self._ask_until(step)
        else:
            self.answers[where] = await self._ask(step)

    async def _pushed(self, step: Pushed) -> dict[str, Any]:
        queue = self.pushed[step.peer]
        try:
            async with asyncio.timeout(PUSHED_TIMEOUT_S):
                commands = [await queue.get()]
        except TimeoutError:
            return {"pushed": "nothing"}
        if step.keep:
            self.names[step.keep] = dict(commands[0].ext)
        while not queue.empty():
            commands.append(queue.get_nowait())
        # How often the same is said does not matter, and neither does the order of different things.
        told = {json.dumps(told_by(one), sort_keys=True) for one in commands}
        return {"pushed": [json.loads(one) for one in sorted(told)]}

    async def _ask_until(self, ask: Ask) -> dict[str, Any]:
        assert ask.until is not None
        deadline = time.monotonic() + UNTIL_TIMEOUT_S
        while True:
            answer = await self._ask(ask)
            if ask.until(answer, self.names) or time.monotonic() > deadline:
                return answer
            await asyncio.sleep(UNTIL_PAUSE_S)
            if ask.again is not None:
                await self._ask(ask.again)

    async def _ask(self, ask: Ask) -> dict[str, Any]:
        body = ask.body
        if body is None:
            body = b""
        elif not isinstance(body, bytes):
            body = orjson.dumps(fill(body, self.names))
        self.names["crc"] = str(zlib.crc32(body) & 0x7FFFFFFF)
        command = Command(
            ask.code,
            ext=fill(dict(ask.fields), self.names),
            body=body,
            version=ask.version,
            language=ask.language,
            serialize=SerializeType.JSON if self.form == "json" else SerializeType.ROCKETMQ,
        )
        try:
            channel = await self._channel(ask.peer)
            if ask.one_way:
                command.flag |= FLAG_ONE_WAY
                channel.send(encode_command(command))
                return {"answer": "none wanted"}
            answer = await channel.exchange(command, timeout_ms=ANSWER_TIMEOUT_MS)
        except PeerTimeout:
            return {"answer": "none"}
        except PeerUnreachable:
            return {"answer": "the connection was closed"}
        if ask.only_known:
            return {"known": answer.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED}
        found = plain(ask.code, answer, self.mark)
        if ask.keep:
            records = found["body"] if isinstance(found["body"], list) else []
            at = records[-1]["physicalOffset"] if records else _physical_offset(answer.ext.get("msgId", ""))
            self.names[ask.keep] = {**answer.ext, "physical": str(at), "msgId": answer.ext.get("msgId", "")}
        return found

    async def _channel(self, peer: str) -> Channel:
        channel = self.channels.get(peer)
        if channel is None or not channel.is_open:
            pushed = self.pushed.setdefault(peer, asyncio.Queue())
            address = self.target.addresses[self.script.server]

            def take(sender: Channel, command: Command) -> None:
                pushed.put_nowait(command)
                if not command.flag & FLAG_ONE_WAY:
                    done = Command(0, opaque=command.opaque, flag=FLAG_RESPONSE, serialize=command.serialize)
                    sender.send(encode_command(done))

            channel = await connect(address, on_request=take)
            self.channels[peer] = channel
        return channel


def told_by(command: Command) -> dict[str, Any]:
    """What the server said by itself, with the message's properties one by one."""
    ext: dict[str, Any] = dict(command.ext)
    if "properties" in ext:
        ext["properties"] = properties.parse(ext["properties"])
    body: Any = bytes(command.body)
    is_record = command.code in (RequestCode.CHECK_TRANSACTION_STATE, RequestCode.CONSUME_MESSAGE_DIRECTLY)
    body = records_of(body) if is_record else body.decode("latin-1")
    if command.code == RequestCode.CONSUME_MESSAGE_DIRECTLY:
        ext["msgId"] = len(ext["msgId"])  # it names a port and a place in the log
    return {"code": command.code, "flag": command.flag, "ext": ext, "body": body}


def _physical_offset(message_id: str) -> str:
    """The place in the log that an offset message id ends with."""
    first = message_id.split(",")[0]
    return str(int(first[-16:], 16)) if len(first) == 32 else ""
