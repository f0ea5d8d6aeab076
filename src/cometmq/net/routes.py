"""From a request's code to the function that answers it.

    class Offsets:
        @handles(GetMaxOffset)
        def max_offset(self, request: GetMaxOffset, call: Call) -> Header | None:
            return OffsetReply(self._store.max_offset(request.topic, request.queue_id))

A handler returns a header (success), or calls `call.reply(...)` itself, now or later, and returns `LATER`.
An `async def` handler runs as a task of the server, and so does what a plain one returns to be awaited; beyond
`UNDER_WAY_MAX` of them, or `UNDER_WAY_BYTES_MAX` in their bodies, who asks is turned away as busy. What a handler
raises from the tree in `errors` becomes the answer; this is the one place where an error becomes a code.

Mirrors: NettyRemotingAbstract.processRequestCommand.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final, TypeVar

from cometmq.errors import CometError, RequestRefused
from cometmq.net.channel import Channel, RequestSink
from cometmq.wire.codes import FLAG_ONE_WAY, FLAG_RESPONSE, VERSION_GO_AWAY, ResponseCode
from cometmq.wire.command import Body, Command, encode_head
from cometmq.wire.schema import Empty, Header

log = logging.getLogger("cometmq.net")

UNDER_WAY_MAX: Final = 10_000  # tasks of slow handlers
UNDER_WAY_BYTES_MAX: Final = 256 * 1024 * 1024

_SUCCESS: Final = int(ResponseCode.SUCCESS)
_F = TypeVar("_F", bound=Callable[..., Any])


class Later:
    """The mark that a handler answers by itself."""


LATER: Final = Later()


class Call:
    """One request under way: the command, where it came from, and the way back."""

    __slots__ = ("answered", "channel", "command")

    def __init__(self, channel: Channel, command: Command) -> None:
        self.channel = channel
        self.command = command
        self.answered = False

    @property
    def body(self) -> Body:
        return self.command.body

    def reply(
        self,
        header: Header | None = None,
        *,
        code: int = _SUCCESS,
        remark: str | None = None,
        body: Body = b"",
        ext: Mapping[str, str] | None = None,
    ) -> None:
        """Answer; only the first answer counts, and a one-way request gets none."""
        self.reply_parts(header, [body] if body else [], len(body), code=code, remark=remark, ext=ext)

    def reply_parts(
        self,
        header: Header | None,
        body: list[Any],
        body_size: int,
        *,
        code: int = _SUCCESS,
        remark: str | None = None,
        ext: Mapping[str, str] | None = None,
    ) -> None:
        """Answer with a body in pieces, which are written as they are."""
        if not self.claim():
            return
        command = self.command
        fields = header.write() if header is not None else {}
        if ext:
            fields.update(ext)
        answer = Command(
            code, opaque=command.opaque, flag=FLAG_RESPONSE, ext=fields, remark=remark, serialize=command.serialize
        )
        self.channel.send(encode_head(answer, body_size), *body)

    def reply_frame(self, *pieces: Body) -> None:
        """Answer with a frame that is encoded already."""
        if self.claim():
            self.channel.send(*pieces)

    def claim(self) -> bool:
        """Whether an answer is owed; who asks must give it."""
        if self.answered or self.command.flag & FLAG_ONE_WAY:
            return False
        self.answered = True
        return True

    def refuse(self, error: Exception) -> None:
        """Answer with an error."""
        if isinstance(error, CometError):
            code = ResponseCode[error.response]
            self.reply(code=code, remark=str(error), ext=error.fields)
        else:
            log.error("request code %d from %s failed", self.command.code, self.channel.peer, exc_info=error)
            self.reply(code=ResponseCode.SYSTEM_ERROR, remark=f"{type(error).__name__}: {error}")


Handler = Callable[[Any, Call], Any]


def handles(*requests: type[Header], raw: bool = False) -> Callable[[_F], _F]:
    """Mark a method as the handler of these requests; a `raw` one is given the fields as they came, unread."""

    def mark(function: _F) -> _F:
        function.__handles__, function.__raw__ = requests, raw  # type: ignore[attr-defined]
        return function

    return mark


class _UnderWay:
    """The tasks of slow handlers, and how large the bodies are that they may still need."""

    def __init__(self) -> None:
        self.tasks: set[asyncio.Task[None]] = set()
        self._bytes = 0

    def has_room(self, size: int) -> bool:
        return len(self.tasks) < UNDER_WAY_MAX and self._bytes + size <= UNDER_WAY_BYTES_MAX

    def add(self, task: asyncio.Task[None], size: int) -> None:
        self.tasks.add(task)
        self._bytes += size
        task.add_done_callback(partial(self._done, size))

    def _done(self, size: int, task: asyncio.Task[None]) -> None:
        self.tasks.discard(task)
        self._bytes -= size


class Routes:
    """The table of one server, and the tasks of its slow handlers."""

    def __init__(self) -> None:
        self._table: dict[int, tuple[type[Header] | None, Handler, bool]] = {}
        self._under_way = _UnderWay()

    def add(self, *services: object) -> None:
        """Take the marked methods of these objects."""
        for service in services:
            for _, method in inspect.getmembers(service, callable):
                for request in getattr(method, "__handles__", ()):
                    if request.code in self._table:
                        raise ValueError(f"{request.code!r} has two handlers")
                    header_type = None if getattr(method, "__raw__", False) else request
                    self._table[request.code] = (header_type, method, inspect.iscoroutinefunction(method))

    @property
    def codes(self) -> set[int]:
        return set(self._table)

    def without(self, codes: Iterable[int]) -> Routes:
        """The same handlers but for these codes, for another door of the same server; all handlers must be here."""
        other = Routes()
        other._table = {code: route for code, route in self._table.items() if code not in set(codes)}
        other._under_way = self._under_way
        return other

    def answer(self, channel: Channel, command: Command) -> None:
        """Find the handler, run it, and send what it returns."""
        call = Call(channel, command)
        route = self._table.get(command.code)
        if route is None:
            call.reply(
                code=ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark=f" request type {command.code} not supported"
            )
            return
        header_type, handler, is_slow = route
        try:
            request = header_type.read(command.ext) if header_type is not None else command.ext
            answer = handler(request, call)
        except Exception as error:
            call.refuse(error)
            return
        if is_slow or (answer is not LATER and inspect.iscoroutine(answer)):
            if not self._under_way.has_room(len(command.body)):
                answer.close()
                call.refuse(RequestRefused("SYSTEM_BUSY", "[OVERLOAD]system busy, start flow control for a while"))
                return
            task = asyncio.get_running_loop().create_task(self._finish(call, answer))
            self._under_way.add(task, len(command.body))
        elif answer is not LATER and isinstance(answer, Header):
            call.reply(answer)

    async def _finish(self, call: Call, running: Any) -> None:
        try:
            answer = await running
        except Exception as error:
            call.refuse(error)
            return
        if isinstance(answer, Header):
            call.reply(answer)

    async def close(self) -> None:
        """Stop what is still running."""
        tasks = list(self._under_way.tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def send_away(answer: RequestSink) -> RequestSink:
    """`answer` of a server that is about to stop: who understands it is asked to go, others are served."""

    def meet(channel: Channel, command: Command) -> None:
        if command.version >= VERSION_GO_AWAY:
            Call(channel, command).reply(code=ResponseCode.GO_AWAY, remark="please go away")
        else:
            answer(channel, command)

    return meet


DONE: Final = Empty()
"""The answer of a handler that has nothing to say but success."""
