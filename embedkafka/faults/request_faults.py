"""Requests that fail: refused, delayed, cut off or never answered.

Owner: `_lock` (leaf) guards the list of faults; each fault's condition guards its counts.
Invariants: a request meets one fault at most: the oldest that matches and has hits left.
Not here: the methods and arguments that users see (`injection`); brokers and networks that fail as
a whole (`network`, `session_link`, `pausable_clock`).
"""

from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Self
from uuid import UUID

from embedkafka.faults.error_responses import error_response
from embedkafka.net.request_channel import Request
from embedkafka.protocol import codec
from embedkafka.protocol.api_keys import ApiKey
from embedkafka.protocol.errors import ErrorCode, ProtocolError
from embedkafka.protocol.headers import decode_request_header, encode_response_header
from embedkafka.protocol.message import Schema, schema_of
from embedkafka.protocol.messages.registry import request_type
from embedkafka.protocol.wire_types import Part
from embedkafka.runtime.arguments import require_int, require_number
from embedkafka.runtime.clock import REAL_TIME, Clock
from embedkafka.runtime.failures import AwaitTimeout, Failures
from embedkafka.runtime.ids import BrokerId
from embedkafka.runtime.locks import LEAF_RANK, leaf_condition, ranked_lock
from embedkafka.runtime.scheduler import ThreadScheduler
from embedkafka.runtime.values import dataclass

Handle = Callable[[Request], None]
FindTopic = Callable[[UUID], str | None]
"""Finds a topic's name, for requests that carry only its id."""

_TOPIC_NAMES = frozenset({"topic", "name", "topic_name", "topics"})
_PARTITION_NAMES = frozenset({"index", "partition", "partition_index", "partition_indexes"})
_GROUP_NAMES = frozenset({"group_id", "groups_names", "key", "coordinator_keys"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The requests that a fault hits; None matches all."""

    api: ApiKey
    broker: BrokerId | None = None
    topic: str | None = None
    partition: int | None = None
    group: str | None = None
    transactional_id: str | None = None

    def __str__(self) -> str:
        names = ("broker", "topic", "partition", "group", "transactional_id")
        chosen = [f"{n}={getattr(self, n)!r}" for n in names if getattr(self, n) is not None]
        return " with ".join([self.api.name, *([", ".join(chosen)] if chosen else [])])

    @property
    def looks_inside(self) -> bool:
        """Whether it must see the request's body."""
        inside = (self.topic, self.partition, self.group, self.transactional_id)
        return any(wanted is not None for wanted in inside)

    def accepts(self, message: object, find_topic: FindTopic) -> bool:
        """Whether a request of this API to this broker matches the rest."""
        topics, partitions, groups = _contents(message, find_topic)
        return (
            (self.topic is None or self.topic in topics)
            and (self.partition is None or self.partition in partitions)
            and (self.group is None or self.group in groups)
            and self.transactional_id in (None, getattr(message, "transactional_id", None))
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Meeting:
    """A request that a fault hits."""

    request: Request
    message: object
    api: ApiKey
    version: int
    correlation_id: int
    handle: Handle


Act = Callable[[Meeting], None]


class Fault:
    """A fault that `kafka.faults` has set. Leaving its `with` block removes it."""

    def __init__(
        self, faults: "RequestFaults", target: Target, act: Act, *, after: int, times: int | None
    ) -> None:
        self._target = target
        self._act = act
        self._faults = faults
        self._passes_left = after
        self._hits_left = times
        self._hits = 0
        self._met = leaf_condition("hits of a fault")

    def __repr__(self) -> str:
        return f"Fault({self._target}, {self._hits} hits)"

    @property
    def hits(self) -> int:
        """How many requests the fault has hit."""
        return self._hits

    def await_hits(self, count: int = 1, *, timeout_s: float = 30.0) -> None:
        """Waits until the fault has hit `count` requests.

        Args:
            count: the number of hits since the fault was set.
            timeout_s: how long to wait, in seconds of real time.

        Raises:
            AwaitTimeout: there were fewer hits in that time.
            InvalidArgument: `count` is less than 1, or `timeout_s` is negative.
        """
        require_int("count", count, least=1)
        require_number("timeout_s", timeout_s)
        deadline_ms = REAL_TIME.monotonic_ms() + timeout_s * 1000
        with self._met:
            while self._hits < count:
                if not REAL_TIME.wait_until(self._met, deadline_ms) and self._hits < count:
                    raise AwaitTimeout(
                        f"waited {timeout_s:g} s for {count} requests like {self._target}; "
                        f"there were {self._hits}"
                    )

    def remove(self) -> None:
        """Removes the fault: requests pass from now on. A second call does nothing."""
        self._faults._remove(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.remove()

    def _take(self) -> bool:
        """Counts a matching request; true if the fault hits it."""
        with self._met:
            if self._passes_left:
                self._passes_left -= 1
                return False
            if self._hits_left == 0:
                return False
            if self._hits_left is not None:
                self._hits_left -= 1
            self._hits += 1
            self._met.notify_all()
            return True


class RequestFaults:
    """The request faults of one cluster."""

    def __init__(self, clock: Clock, failures: Failures) -> None:
        self._lock = ranked_lock("request faults", LEAF_RANK)
        self._faults: tuple[Fault, ...] = ()
        self._late = ThreadScheduler("ek-faults", clock, failures)

    def refuse(self, target: Target, code: ErrorCode, *, after: int, times: int | None) -> Fault:
        return self._add(target, lambda meeting: _refuse(meeting, code), after, times)

    def delay(self, target: Target, ms: float, *, after: int, times: int | None) -> Fault:
        def act(meeting: Meeting) -> None:
            name = f"late {meeting.api.name}"
            self._late.once(name, ms, lambda: meeting.handle(meeting.request))

        return self._add(target, act, after, times)

    def drop_reply(self, target: Target, *, after: int, times: int | None) -> Fault:
        def act(meeting: Meeting) -> None:
            _handle(meeting, instead_of_reply=_no_reply)

        return self._add(target, act, after, times)

    def disconnect(self, target: Target, *, handled: bool, after: int, times: int | None) -> Fault:
        def act(meeting: Meeting) -> None:
            def hang_up() -> None:
                meeting.request.close_connection("a fault closes it")

            if handled:
                _handle(meeting, instead_of_reply=hang_up)
            else:
                hang_up()

        return self._add(target, act, after, times)

    def clear(self) -> None:
        """Removes all faults."""
        with self._lock:
            self._faults = ()

    def around(self, broker: BrokerId, handle: Handle, find_topic: FindTopic) -> Handle:
        """`handle` with the faults in front, for the requests to `broker`."""

        def handle_or_fail(request: Request) -> None:
            if self._faults:
                self._meet(broker, request, handle, find_topic)
            else:
                handle(request)

        return handle_or_fail

    def close(self) -> None:
        self.clear()
        self._late.shutdown()

    def _add(self, target: Target, act: Act, after: int, times: int | None) -> Fault:
        fault = Fault(self, target, act, after=after, times=times)
        with self._lock:
            self._faults = (*self._faults, fault)
        return fault

    def _remove(self, fault: Fault) -> None:
        with self._lock:
            self._faults = tuple(other for other in self._faults if other is not fault)

    def _meet(
        self, broker: BrokerId, request: Request, handle: Handle, find_topic: FindTopic
    ) -> None:
        try:
            header, body = decode_request_header(request.frame)
        except ProtocolError:
            handle(request)
            return
        faults = [
            fault
            for fault in self._faults
            if fault._target.api == header.api_key and fault._target.broker in (None, broker)
        ]
        if not faults:
            handle(request)
            return
        api = ApiKey(header.api_key)
        message: object = codec.decode(request_type(api), header.api_version, body)
        for fault in faults:
            target = fault._target
            if target.looks_inside and not target.accepts(message, find_topic):
                continue
            if fault._take():
                fault._act(
                    Meeting(
                        request=request,
                        message=message,
                        api=api,
                        version=header.api_version,
                        correlation_id=header.correlation_id,
                        handle=handle,
                    )
                )
                return
        handle(request)


class _Diverted:
    """`ReplyPort` of a request that is handled and whose reply is lost."""

    def __init__(self, request: Request, instead_of_reply: Callable[[], None]) -> None:
        self._request = request
        self._instead_of_reply = instead_of_reply
        self.id = request.connection_id
        self.listener = request.listener
        self.is_control_plane = request.is_control_plane
        self.client_address = request.client_address
        self.principal = request.principal

    def reply(self, parts: Iterable[Part]) -> None:
        self._instead_of_reply()

    def no_reply(self) -> None:
        self._request.no_reply()

    def close_for(self, reason: str) -> None:
        self._request.close_connection(reason)


def _handle(meeting: Meeting, *, instead_of_reply: Callable[[], None]) -> None:
    request = meeting.request
    port = _Diverted(request, instead_of_reply)
    meeting.handle(Request(request.frame, port, request.received_ms))


def _no_reply() -> None:
    """The connection stays muted: the broker reads nothing more until the client hangs up."""


def _refuse(meeting: Meeting, code: ErrorCode) -> None:
    if getattr(meeting.message, "acks", None) == 0:
        meeting.request.no_reply()  # the client expects no answer
        return
    response = error_response(meeting.api, meeting.message, code, version=meeting.version)
    header = encode_response_header(meeting.api, meeting.version, meeting.correlation_id)
    meeting.request.reply([header, *codec.encode_parts(response, meeting.version)])


def _contents(message: object, find_topic: FindTopic) -> tuple[set[str], set[int], set[str]]:
    """The topics, partitions and groups that a request names anywhere."""
    topics: set[str] = set()
    partitions: set[int] = set()
    groups: set[str] = set()
    waiting = [message]
    while waiting:
        value = waiting.pop()
        for field in _schema(value).fields:
            for item in _items(getattr(value, field.name)):
                if isinstance(item, UUID):
                    topics.add(find_topic(item) or "")
                elif isinstance(item, str):
                    if field.name in _TOPIC_NAMES:
                        topics.add(item)
                    elif field.name in _GROUP_NAMES:
                        groups.add(item)
                elif isinstance(item, int):
                    if field.name in _PARTITION_NAMES:
                        partitions.add(item)
                elif isinstance(getattr(type(item), "__schema__", None), Schema):
                    waiting.append(item)
    return topics, partitions, groups


def _items(value: object) -> Iterable[object]:
    return value if isinstance(value, list | tuple) else (value,)


def _schema(value: object) -> Schema:
    return schema_of(type(value))
