"""`Faults`: what a test holds as `kafka.faults`.

Not here: brokers and networks that fail as a whole; see `OwnedBroker` and
`kafka.brokers.partition`.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypedDict, Unpack

from embedkafka.faults.disk import Disk
from embedkafka.faults.links import CLIENTS, LinkFault, Speed
from embedkafka.faults.names import parse_apis, parse_error
from embedkafka.faults.plans import Choose, FaultPlan, make_plan
from embedkafka.faults.request_faults import (
    Fault,
    Frequency,
    Predicate,
    RequestFaults,
    Target,
    can_fail,
    can_throttle,
)
from embedkafka.runtime.arguments import (
    require_int,
    require_known,
    require_number,
    require_text,
    shown,
)
from embedkafka.runtime.failures import InvalidArgument
from embedkafka.runtime.ids import BrokerId
from embedkafka.wire.protocol.api_keys import ApiKey
from embedkafka.wire.protocol.errors import ErrorCode

_MAX_INT: Final = 2**31 - 1


class RequestFilter(TypedDict, total=False):
    """Which requests a fault hits. By default: the next one of its API, on any broker.

    Every key is a keyword argument of `Faults.error` and its siblings.
    """

    broker: int
    """Only requests to the broker with this id."""
    client_id: str
    """Only requests with this client id."""
    user: str
    """Only requests of clients that have logged in as this user; `ANONYMOUS` has not."""
    topic: str
    """Only requests that name this topic."""
    partition: int
    """Only requests that name a partition with this number."""
    group: str
    """Only requests that name this consumer group."""
    transactional_id: str
    """Only requests with this transactional id."""
    when: Predicate
    """Only requests for which this function of the decoded request is true."""
    after: int
    """Lets this many matching requests pass first. Default: 0."""
    times: int | None
    """Hits this many requests, or all that follow if None. Default: 1, and None with `nth` or
    `probability`."""
    nth: int
    """Only the n-th matching request of each client id, from 1 on."""
    probability: float
    """Hits a matching request with this probability; the cluster's `seed` repeats the choices."""


class Faults:
    """Makes requests and disks fail.

    Each method takes an API and a `RequestFilter` as keyword arguments. The API is `"any"`, an
    `ApiKey`, or a name in any of Kafka's spellings: `"OffsetFetch"`, `"OFFSET_FETCH"`. Each returns
    a `Fault`, which also works in a `with` statement:

        with kafka.faults.error("PRODUCE", "NOT_ENOUGH_REPLICAS", topic="orders", times=2) as fault:
            orders.send("hello")  # the producer retries twice
            assert fault.hits == 2

    A request meets one fault at most: the oldest that matches and has hits left. Faults apply to
    requests from clients and from other brokers.

    Every method raises `InvalidArgument` for an unknown API, broker or filter.
    """

    def __init__(
        self,
        requests: RequestFaults,
        *,
        disk: Callable[[BrokerId], Disk],
        disks: Callable[[], Sequence[Disk]],
        choices: Callable[[], Mapping[str, Choose]],
        require_broker: Callable[[int], BrokerId],
    ) -> None:
        self._requests = requests
        self._disk = disk
        self._disks = disks
        self._choices = choices
        self._require_broker = require_broker

    def error(
        self, api: ApiKey | str, code: ErrorCode | str, **where: Unpack[RequestFilter]
    ) -> Fault:
        """Answers with an error code instead of handling the request.

        Args:
            api: the API, such as "PRODUCE".
            code: the error, by name in any of Kafka's spellings or as an `ErrorCode`.
            **where: the requests to hit.

        With `"any"`, requests pass whose responses have no field for an error.

        Raises:
            InvalidArgument: also if responses of this API have no field for an error.
        """
        key, error = parse_apis(api), parse_error(code)
        if key is not None and not can_fail(key):
            raise InvalidArgument(
                f"{key.name} responses have no field for an error: use `delay`, `drop_reply` or "
                "`disconnect`"
            )
        return self._requests.refuse(self._target(key, where), error, _frequency(where))

    def delay(self, api: ApiKey | str, ms: float, **where: Unpack[RequestFilter]) -> Fault:
        """Handles the request `ms` milliseconds later, on the cluster's clock.

        If a fault breaks its connection before that, the request is lost.

        Args:
            api: the API, such as "FETCH".
            ms: the delay in milliseconds; `kafka.clock.advance` shortens it.
            **where: the requests to hit.
        """
        require_number("ms", ms)
        target = self._target(parse_apis(api), where)
        return self._requests.delay(target, ms, _frequency(where))

    def drop_reply(self, api: ApiKey | str, **where: Unpack[RequestFilter]) -> Fault:
        """Handles the request and never answers: the client waits until its timeout.

        Args:
            api: the API, such as "PRODUCE".
            **where: the requests to hit.
        """
        target = self._target(parse_apis(api), where)
        return self._requests.drop_reply(target, _frequency(where))

    def disconnect(
        self, api: ApiKey | str, *, handled: bool = False, **where: Unpack[RequestFilter]
    ) -> Fault:
        """Closes the connection instead of answering.

        Args:
            api: the API, such as "PRODUCE".
            handled: whether the broker handles the request first. False by default.
            **where: the requests to hit.
        """
        target = self._target(parse_apis(api), where)
        return self._requests.disconnect(target, _frequency(where), handled=handled)

    def throttle(self, api: ApiKey | str, ms: int, **where: Unpack[RequestFilter]) -> Fault:
        """Handles the request, and asks the client in the answer to wait before its next one.

        Args:
            api: the API, such as "PRODUCE". With `"any"`, requests pass that cannot be throttled.
            ms: the throttle time in the answer, in milliseconds.
            **where: the requests to hit.

        Raises:
            InvalidArgument: also if responses of this API have no throttle time.
        """
        key = parse_apis(api)
        require_int("ms", ms, least=0, most=_MAX_INT)
        if key is not None and not can_throttle(key):
            raise InvalidArgument(f"{key.name} responses have no throttle time: use `delay`")
        return self._requests.throttle(self._target(key, where), ms, _frequency(where))

    def break_reply(
        self, api: ApiKey | str, *, after_bytes: int, **where: Unpack[RequestFilter]
    ) -> Fault:
        """Handles the request, sends the first bytes of the answer, and closes the connection.

        Args:
            api: the API, such as "FETCH".
            after_bytes: how many bytes are sent after those that announce the length.
            **where: the requests to hit.
        """
        require_int("after_bytes", after_bytes, least=0)
        target = self._target(parse_apis(api), where)
        return self._requests.break_reply(target, after_bytes, _frequency(where))

    def slow_link(
        self,
        source: int | str,
        target: int | None = None,
        *,
        latency_ms: float = 0,
        jitter_ms: float = 0,
        bytes_per_s: float | None = None,
    ) -> LinkFault:
        """Makes a link slow, in both directions.

            kafka.faults.slow_link("clients", latency_ms=50, jitter_ms=20)
            kafka.faults.slow_link(1, 2, latency_ms=100)  # also replication between them

        Between brokers, `bytes_per_s` holds up requests; replication has Kafka's own throttle,
        `leader.replication.throttled.rate`.

        Args:
            source: a broker's id, or `"clients"`.
            target: a broker's id; all brokers by default.
            latency_ms: the delay in each direction, in milliseconds of the cluster's clock.
            jitter_ms: a random addition of at most this; the cluster's `seed` repeats it.
            bytes_per_s: what all connections of the link share, in each direction.
        """
        if bytes_per_s is not None and require_number("bytes_per_s", bytes_per_s) == 0:
            raise InvalidArgument("bytes_per_s must be more than 0: `stall_link` lets nothing pass")
        speed = Speed(
            latency_ms=require_number("latency_ms", latency_ms),
            jitter_ms=require_number("jitter_ms", jitter_ms),
            bytes_per_s=bytes_per_s,
        )
        if not str(speed):
            raise InvalidArgument("say how slow: `latency_ms`, `jitter_ms` or `bytes_per_s`")
        return self._requests.links.slow(*self._link(source, target), speed)

    def cut_link(self, source: int | str, target: int | None = None) -> LinkFault:
        """Cuts a link in one direction: connections from `source` break and are refused.

        The other way they work. `kafka.brokers.partition` cuts both ways, and ZooKeeper too.

        Args:
            source: a broker's id, or `"clients"`.
            target: a broker's id; all brokers by default.
        """
        return self._requests.links.cut(*self._link(source, target))

    def stall_link(self, source: int | str, target: int | None = None) -> LinkFault:
        """Lets a link swallow everything, while connections stay open on both ends.

        Requests that were swallowed arrive when the fault is removed. Answers that the broker was
        about to send when it was set still arrive.

        Args:
            source: a broker's id, or `"clients"`.
            target: a broker's id; all brokers by default.
        """
        return self._requests.links.stall(*self._link(source, target))

    def plan(
        self,
        *,
        seed: int | None = None,
        steps: int = 10,
        allow: Sequence[str] | None = None,
    ) -> FaultPlan:
        """Makes a random sequence of faults, and prints it: a failed test shows how to repeat it.

        Args:
            seed: repeats an earlier plan, on a cluster with as many brokers. By default each plan
                is another one; the cluster's `seed` repeats them all.
            steps: how many faults, one after the other.
            allow: the kinds that may occur: "kill", "restart", "pause", "elect_controller",
                "partition" (with three brokers or more), "slow_link", "cut_link", "stall_link",
                "disconnect", "delay", "error", "slow_disk". All by default.

        Raises:
            InvalidArgument: there is no such kind, or there are no steps.
        """
        chosen = self._requests.new_seed() if seed is None else seed
        plan = make_plan(self._choices(), seed=chosen, steps=steps, allow=allow)
        print(plan)
        return plan

    @property
    def active(self) -> list[str]:
        """What is set now, one line for each fault."""
        return [
            *map(str, self._requests.active),
            *map(str, self._requests.links.faults),
            *(line for disk in self._disks() for line in disk.describe()),
        ]

    @property
    def standing(self) -> list[Fault | LinkFault]:
        """The faults of requests and links that were set and not removed."""
        return [*self._requests.all, *self._requests.links.faults]

    @property
    def has_disk_faults(self) -> bool:
        """Whether any disk fails or is slow."""
        return any(disk.describe() for disk in self._disks())

    def clear(self) -> None:
        """Ends all faults of requests, links and disks.

        What a disk lost stays lost, and a broker that died of it stays dead.
        """
        self._requests.clear()
        self.heal_disks()

    def heal_disks(self) -> None:
        """Ends all faults of disks."""
        for disk in self._disks():
            disk.heal()

    def disk(self, broker_id: int) -> Disk:
        """The disk of a broker, to fill, break or write-protect it.

        Args:
            broker_id: the broker's id; it need not be running.
        """
        return self._disk(self._require_broker(broker_id))

    def _link(
        self, source: int | str, target: int | None
    ) -> tuple[BrokerId | str, BrokerId | None]:
        if isinstance(source, str) and source != CLIENTS:
            raise InvalidArgument(
                f"source must be a broker's id or {CLIENTS!r}, got {shown(source)}"
            )
        start = source if isinstance(source, str) else self._require_broker(source)
        end = None if target is None else self._require_broker(target)
        if start == end:
            raise InvalidArgument(f"broker {end} has no link to itself")
        return start, end

    def _target(self, api: ApiKey | None, where: RequestFilter) -> Target:
        for name in where:
            require_known("filter", name, RequestFilter.__annotations__)
        broker = where.get("broker")
        for name in ("client_id", "user", "topic", "group", "transactional_id"):
            if where.get(name) is not None:
                require_text(name, where.get(name))
        if where.get("partition") is not None:
            require_int("partition", where.get("partition"), least=0)
        when = where.get("when")
        if when is not None and not callable(when):
            raise InvalidArgument(f"when must be a function of a request, got {shown(when)}")
        return Target(
            api=api,
            broker=None if broker is None else self._require_broker(broker),
            client_id=where.get("client_id"),
            user=where.get("user"),
            when=when,
            topic=where.get("topic"),
            partition=where.get("partition"),
            group=where.get("group"),
            transactional_id=where.get("transactional_id"),
        )


def _frequency(where: RequestFilter) -> Frequency:
    nth, probability = where.get("nth"), where.get("probability", 1.0)
    goes_on = nth is not None or "probability" in where
    times = where.get("times", None if goes_on else 1)
    if require_number("probability", probability) > 1:
        raise InvalidArgument(f"probability must be from 0 to 1, got {shown(probability)}")
    return Frequency(
        after=require_int("after", where.get("after", 0), least=0),
        times=None if times is None else require_int("times", times, least=1),
        nth=None if nth is None else require_int("nth", nth, least=1),
        probability=probability,
    )
