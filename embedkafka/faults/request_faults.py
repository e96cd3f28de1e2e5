"""Requests that fail: refused, delayed, cut off or never answered.

Owner: `_lock` (leaf) guards the list of faults; each fault's condition guards its counts.
Invariants: a request meets one fault at most: the oldest that matches and has hits left.
Not here: the methods and arguments that users see (`injection`); brokers and networks that fail as
a whole (`network`, `session_link`, `pausable_clock`).
"""

import random
from collections import Counter
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Final, Self

from embedkafka.faults.links import Links
from embedkafka.faults.named_entities import FindTopic, contents_of
from embedkafka.faults.redirected_reply import BrokenOff, OnReply, diverted, joined
from embedkafka.runtime.arguments import require_int, require_number
from embedkafka.runtime.clock import REAL_TIME, Clock
from embedkafka.runtime.failures import AwaitTimeout, Failures, InvalidArgument
from embedkafka.runtime.ids import BrokerId
from embedkafka.runtime.locks import LEAF_RANK, leaf_condition, ranked_lock
from embedkafka.runtime.scheduler import ThreadScheduler
from embedkafka.runtime.values import dataclass
from embedkafka.security.principals import ANONYMOUS
from embedkafka.wire.net.request_channel import Request
from embedkafka.wire.protocol import codec
from embedkafka.wire.protocol.api_keys import ApiKey
from embedkafka.wire.protocol.errors import ErrorCode, ProtocolError
from embedkafka.wire.protocol.headers import (
    RequestHeader,
    decode_request_header,
    decode_response_header,
    encode_response_header,
)
from embedkafka.wire.protocol.message import schema_of
from embedkafka.wire.protocol.messages.registry import request_type, response_type
from embedkafka.wire.protocol.wire_types import Part

Handle = Callable[[Request], None]
Predicate = Callable[[object], object]
"""Looks at a decoded request."""

_NAMED: Final = (
    "broker",
    "client_id",
    "user",
    "topic",
    "partition",
    "group",
    "transactional_id",
    "when",
)
"""The filters in the words that describe a fault."""
_THROTTLE_TIME: Final = "throttle_time_ms"
_NEVER: Final = random.Random(0)
"""For faults that leave nothing to chance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The requests that a fault hits; None matches all."""

    api: ApiKey | None = None
    broker: BrokerId | None = None
    client_id: str | None = None
    user: str | None = None
    topic: str | None = None
    partition: int | None = None
    group: str | None = None
    transactional_id: str | None = None
    when: Predicate | None = None

    def __str__(self) -> str:
        chosen = [f"{n}={_text(getattr(self, n))}" for n in _NAMED if getattr(self, n) is not None]
        api = "any request" if self.api is None else self.api.name
        return " with ".join([api, *([", ".join(chosen)] if chosen else [])])

    def may_accept(self, header: RequestHeader, broker: BrokerId, request: Request) -> bool:
        """Whether a request matches as far as its header and its connection tell."""
        return (
            self.api in (None, header.api_key)
            and self.broker in (None, broker)
            and self.client_id in (None, header.client_id)
            and (self.user is None or self.user == _user(request))
        )

    def accepts(self, message: object, find_topic: FindTopic) -> bool:
        """Whether a request that may be accepted matches the rest."""
        if (self.topic, self.partition, self.group, self.transactional_id) != (None,) * 4:
            found = contents_of(message, find_topic)
            if (
                self.topic not in (None, *found.topics)
                or self.partition not in (None, *found.partitions)
                or self.group not in (None, *found.groups)
                or self.transactional_id not in (None, *found.transactional_ids)
            ):
                return False
        return self.when is None or bool(self.when(message))


@dataclass(frozen=True, slots=True, kw_only=True)
class Frequency:
    """Which of the matching requests a fault hits."""

    after: int = 0
    """How many pass first."""
    times: int | None = 1
    """How many are hit; None is all that follow."""
    nth: int | None = None
    """Only the n-th of each client."""
    probability: float = 1.0

    def __str__(self) -> str:
        said = [
            f"after {self.after}" if self.after else "",
            "" if self.times is None else f"{self.times} times" if self.times > 1 else "once",
            "" if self.nth is None else f"call {self.nth} of each client",
            "" if self.probability == 1 else f"with probability {self.probability:g}",
        ]
        return ", ".join(filter(None, said))


@dataclass(frozen=True, slots=True, kw_only=True)
class Meeting:
    """A request that a fault hits."""

    request: Request
    message: object
    api: ApiKey
    version: int
    correlation_id: int
    handle: Handle
    since: int
    """The round of `HeldRequests` in which the request came."""


Act = Callable[[Meeting], None]


class Fault:
    """A fault that `kafka.faults` has set. Leaving its `with` block removes it."""

    def __init__(
        self,
        faults: "RequestFaults",
        what: str,
        target: Target,
        act: Act,
        frequency: Frequency,
        rng: random.Random,
    ) -> None:
        self._what = what
        self._target = target
        self._act = act
        self._faults = faults
        self._frequency = frequency
        self._rng = rng
        self._passes_left = frequency.after
        self._hits_left = frequency.times
        self._calls: Counter[str | None] = Counter()
        self._hits = 0
        self._mistake: Exception | None = None
        self._met = leaf_condition("hits of a fault")

    def __repr__(self) -> str:
        return f"<Fault {self}>"

    def __str__(self) -> str:
        said = filter(None, (f"{self._what}: {self._target}", str(self._frequency)))
        return f"{', '.join(said)} ({self._hits} hits)"

    @property
    def hits(self) -> int:
        """How many requests the fault has hit.

        Raises:
            InvalidArgument: the predicate `when` has failed.
        """
        self._raise_mistake()
        return self._hits

    def await_hits(self, count: int = 1, *, timeout_s: float = 30.0) -> None:
        """Waits until the fault has hit `count` requests.

        Args:
            count: the number of hits since the fault was set.
            timeout_s: how long to wait, in seconds of real time.

        Raises:
            AwaitTimeout: there were fewer hits in that time.
            InvalidArgument: `count` is less than 1, `timeout_s` is negative, or the predicate
                `when` has failed.
        """
        require_int("count", count, least=1)
        require_number("timeout_s", timeout_s)
        deadline_ms = REAL_TIME.monotonic_ms() + timeout_s * 1000
        with self._met:
            while self._hits < count:
                self._raise_mistake()
                if not REAL_TIME.wait_until(self._met, deadline_ms) and self._hits < count:
                    raise AwaitTimeout(
                        f"waited {timeout_s:g} s for {count} requests like {self._target}; "
                        f"there were {self._hits}"
                    )

    @property
    def is_over(self) -> bool:
        """Whether it has hit as many requests as it was to hit."""
        return self._hits_left == 0

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
        if exc is None:
            self._raise_mistake()

    def _accepts(self, message: object, find_topic: FindTopic) -> bool:
        """Whether it wants this request. A predicate that fails wants none, and is reported."""
        try:
            return self._target.accepts(message, find_topic)
        except Exception as error:  # the test's; its author must see it, the client need not
            with self._met:
                self._mistake = self._mistake or error
                self._met.notify_all()
            return False

    def _raise_mistake(self) -> None:
        if self._mistake is not None:
            raise InvalidArgument(
                f"the predicate `when` of a fault failed: {self._mistake!r}"
            ) from self._mistake

    def _take(self, client_id: str | None) -> bool:
        """Counts a matching request; true if the fault hits it."""
        frequency = self._frequency
        with self._met:
            if frequency.nth is not None:
                self._calls[client_id] += 1
                if self._calls[client_id] != frequency.nth:
                    return False
            if self._passes_left:
                self._passes_left -= 1
                return False
            if self._hits_left == 0 or self._rng.random() >= frequency.probability:
                return False
            if self._hits_left is not None:
                self._hits_left -= 1
            self._hits += 1
            self._met.notify_all()
            return True


class RequestFaults:
    """The request faults of one cluster."""

    def __init__(
        self,
        clock: Clock,
        failures: Failures,
        rng: random.Random,
        *,
        source_of: Callable[[Request], BrokerId | None] = lambda request: None,
    ) -> None:
        """`source_of` finds the broker that sent a request; None is a client."""
        self._lock = ranked_lock("request faults", LEAF_RANK)
        self._faults: tuple[Fault, ...] = ()
        self._late = ThreadScheduler("ek-faults", clock, failures)
        self._rng = rng
        self._source_of = source_of
        self.links = Links(self._late, clock, rng)
        self.links.subscribe(self._arm)
        self._is_armed = False

    def refuse(self, target: Target, code: ErrorCode, frequency: Frequency) -> Fault:
        def act(meeting: Meeting) -> None:
            if can_fail(meeting.api):
                _refuse(meeting, code)
            else:
                meeting.handle(meeting.request)

        return self._add(f"error {code.name}", target, act, frequency)

    def delay(self, target: Target, ms: float, frequency: Frequency) -> Fault:
        held = self.links.held

        def act(meeting: Meeting) -> None:
            def go_on() -> None:
                if held.let_go(meeting.request):
                    meeting.handle(meeting.request)

            held.hold(meeting.request, since=meeting.since)
            self._late.once(f"late {meeting.api.name}", ms, go_on)

        return self._add(f"delay {ms:g} ms", target, act, frequency)

    def drop_reply(self, target: Target, frequency: Frequency) -> Fault:
        def act(meeting: Meeting) -> None:
            def keep_silent(parts: Sequence[Part]) -> None:
                """The broker reads nothing more from the connection until the client hangs up."""
                self.links.held.hold(meeting.request, since=meeting.since)

            _handle(meeting, instead_of_reply=keep_silent)

        return self._add("drop reply", target, act, frequency)

    def disconnect(self, target: Target, frequency: Frequency, *, handled: bool) -> Fault:
        def act(meeting: Meeting) -> None:
            def hang_up(parts: Sequence[Part]) -> None:
                meeting.request.close_connection("a fault closes it")

            if handled:
                _handle(meeting, instead_of_reply=hang_up)
            else:
                hang_up(())

        return self._add("disconnect", target, act, frequency)

    def throttle(self, target: Target, ms: int, frequency: Frequency) -> Fault:
        def act(meeting: Meeting) -> None:
            def reply(parts: Sequence[Part]) -> None:
                meeting.request.reply(_throttled(meeting, parts, ms))

            if can_throttle(meeting.api):
                _handle(meeting, instead_of_reply=reply)
            else:
                meeting.handle(meeting.request)

        return self._add(f"throttle {ms} ms", target, act, frequency)

    def break_reply(self, target: Target, after_bytes: int, frequency: Frequency) -> Fault:
        def act(meeting: Meeting) -> None:
            def reply(parts: Sequence[Part]) -> None:
                begun = joined(parts)[:after_bytes]
                meeting.request.reply([begun, BrokenOff()])  # type: ignore[list-item]  # as a file

            _handle(meeting, instead_of_reply=reply)

        return self._add(f"break reply after {after_bytes} bytes", target, act, frequency)

    def new_seed(self) -> int:
        """The seed of a plan, from the cluster's own."""
        with self._lock:
            return self._rng.getrandbits(32)

    @property
    def all(self) -> Sequence[Fault]:
        """The faults that were set and not removed."""
        return self._faults

    @property
    def active(self) -> list[Fault]:
        """The faults that may still hit."""
        return [fault for fault in self._faults if not fault.is_over]

    def clear(self) -> None:
        """Removes all faults, those of links too."""
        with self._lock:
            self._faults = ()
        self.links.clear()
        self._arm()

    def around(self, broker: BrokerId, handle: Handle, find_topic: FindTopic) -> Handle:
        """`handle` with the faults in front, for the requests to `broker`."""

        def handle_or_fail(request: Request) -> None:
            if self._is_armed:
                self._cross(broker, request, handle, find_topic)
            else:
                handle(request)

        return handle_or_fail

    def close(self) -> None:
        self.clear()
        self._late.shutdown()

    def _add(self, what: str, target: Target, act: Act, frequency: Frequency) -> Fault:
        with self._lock:
            rng = random.Random(self._rng.getrandbits(64)) if frequency.probability < 1 else _NEVER
            fault = Fault(self, what, target, act, frequency, rng)
            self._faults = (*self._faults, fault)
        self._arm()
        return fault

    def _remove(self, fault: Fault) -> None:
        with self._lock:
            self._faults = tuple(other for other in self._faults if other is not fault)
        self._arm()

    def _arm(self) -> None:
        self._is_armed = bool(self._faults or self.links.faults)

    def _cross(
        self, broker: BrokerId, request: Request, handle: Handle, find_topic: FindTopic
    ) -> None:
        """Takes a request over its link, and then to the faults of requests."""
        since = self.links.held.round  # before a fault counts it
        fault = None
        if self.links.faults:
            fault = self.links.find(self._source_of(request), broker)

        def meet(request: Request) -> None:
            self._meet(broker, request, handle, find_topic, since)

        if fault is None:
            meet(request)
        else:
            fault._carry(request, meet, since)

    def _meet(
        self,
        broker: BrokerId,
        request: Request,
        handle: Handle,
        find_topic: FindTopic,
        since: int,
    ) -> None:
        meeting = self._find_meeting(broker, request, handle, find_topic, since)
        if meeting is None:
            handle(request)
        else:
            fault, met = meeting
            fault._act(met)

    def _find_meeting(
        self,
        broker: BrokerId,
        request: Request,
        handle: Handle,
        find_topic: FindTopic,
        since: int,
    ) -> tuple[Fault, Meeting] | None:
        try:
            header, body = decode_request_header(request.frame)
            faults = [
                fault for fault in self._faults if fault._target.may_accept(header, broker, request)
            ]
            if not faults:
                return None
            api = ApiKey(header.api_key)
            message: object = codec.decode(
                request_type(api), header.api_version, body, surplus_allowed=True
            )
        except ProtocolError:
            return None  # the broker has an answer to that
        for fault in faults:
            if fault._accepts(message, find_topic) and fault._take(header.client_id):
                return fault, Meeting(
                    request=request,
                    message=message,
                    api=api,
                    version=header.api_version,
                    correlation_id=header.correlation_id,
                    handle=handle,
                    since=since,
                )
        return None


def _handle(meeting: Meeting, *, instead_of_reply: OnReply) -> None:
    meeting.handle(diverted(meeting.request, instead_of_reply))


def _refuse(meeting: Meeting, code: ErrorCode) -> None:
    if getattr(meeting.message, "acks", None) == 0:
        meeting.request.no_reply()  # the client expects no answer
        return
    from embedkafka.wire.protocol.refusals import refusal

    response = refusal(meeting.message, code, meeting.version)
    header = encode_response_header(meeting.api, meeting.version, meeting.correlation_id)
    meeting.request.reply([header, *codec.encode_parts(response, meeting.version)])


def can_fail(api_key: ApiKey) -> bool:
    """Whether every answer of this API has a place for an error."""
    from embedkafka.wire.protocol.refusals import can_refuse

    return api_key is not ApiKey.METADATA and can_refuse(api_key)


def can_throttle(api_key: ApiKey) -> bool:
    """Whether responses of this API may ask the client to wait."""
    fields = schema_of(response_type(api_key)).fields
    return any(field.name == _THROTTLE_TIME for field in fields)


def _throttled(meeting: Meeting, parts: Sequence[Part], ms: int) -> list[Part]:
    """The reply `parts` with another throttle time; unchanged if its version has none."""
    _, body = decode_response_header(meeting.api, meeting.version, joined(parts))
    response = codec.decode(response_type(meeting.api), meeting.version, body)
    fields = schema_of(type(response)).fields
    values = {field.name: getattr(response, field.name) for field in fields}
    changed = type(response)(**{**values, _THROTTLE_TIME: ms})
    header = encode_response_header(meeting.api, meeting.version, meeting.correlation_id)
    return [header, *codec.encode_parts(changed, meeting.version)]


def _user(request: Request) -> str:
    """Whom the client has logged in as."""
    principal = ANONYMOUS if request.principal is None else request.principal
    return str(principal.name)


def _text(value: object) -> str:
    return getattr(value, "__name__", None) or repr(value)
