"""What a shard wants done: answers, timers and appends, as one frozen value.

Invariants: a decision is complete, the shell adds nothing; carrying it out cannot fail half way,
for appends report through `Write.on_stored`, which decides what follows.
Not here: sockets, threads, clocks; `service.py` carries decisions out.
"""

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, NamedTuple, TypeVar

from embedkafka.protocol.errors import ErrorCode
from embedkafka.runtime.values import dataclass, field

R = TypeVar("R")


class TimerKind(Enum):
    """What happens when the timer fires."""

    SESSION = "session"  # a member, or a pending one, has been silent
    JOIN = "join"  # the rebalance, or its initial delay, is over
    SYNC = "sync"  # members that joined have not synced
    CONSUMER_SESSION = "consumer-session"
    CONSUMER_REBALANCE = "consumer-rebalance"  # it has not given up what it was asked to
    CONSUMER_JOIN = "consumer-join"  # a classic member of a consumer group has not joined again
    CONSUMER_SYNC = "consumer-sync"  # it has joined, and not synced


class TimerKey(NamedTuple):
    """Names a timer; setting a timer replaces the one of the same key."""

    kind: TimerKind
    group_id: str
    member_id: str = ""


class SetTimer(NamedTuple):
    """Starts a timer, anew unless `if_absent`, which leaves a running one alone."""

    key: TimerKey
    delay_ms: int
    if_absent: bool = False


class CancelTimer(NamedTuple):
    key: TimerKey


class Answer(NamedTuple):
    """A response and the request that waits for it."""

    to: Callable[[Any], None]  # Any: each API answers with its own type
    response: Any  # the type that `to` takes; `Decisions.answer` checks the pair


class LogRecord(NamedTuple):
    """Key and value of one record of the offsets topic; a value of None is a tombstone."""

    key: bytes
    value: bytes | None


class TransactionalProducer(NamedTuple):
    """Stamps a batch as part of a producer's open transaction."""

    producer_id: int
    producer_epoch: int


class Stored(NamedTuple):
    """How an append ended: `base_offset` counts only without error."""

    error: ErrorCode
    base_offset: int
    now_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """Records to append as one batch, and what to decide when it is stored or refused."""

    records: Sequence[LogRecord]
    on_stored: "Callable[[Stored], Decision]"
    producer: TransactionalProducer | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Everything that one event led to, in the order in which it was decided."""

    answers: Sequence[Answer] = ()
    timers: Sequence[SetTimer | CancelTimer] = ()
    writes: Sequence[Write] = ()


@dataclass(slots=True)
class Decisions:
    """Collects one `Decision` while a rule runs its steps."""

    answers: list[Answer] = field(default_factory=list)
    timers: list[SetTimer | CancelTimer] = field(default_factory=list)
    writes: list[Write] = field(default_factory=list)

    def answer(self, to: Callable[[R], None], response: R) -> None:
        self.answers.append(Answer(to, response))

    def include(self, decision: Decision) -> None:
        """Takes over everything that another rule has decided."""
        self.answers += decision.answers
        self.timers += decision.timers
        self.writes += decision.writes

    def set_timer(self, key: TimerKey, delay_ms: int, *, if_absent: bool = False) -> None:
        self.timers.append(SetTimer(key, delay_ms, if_absent))

    def cancel_timer(self, key: TimerKey) -> None:
        self.timers.append(CancelTimer(key))

    def write(
        self,
        records: Sequence[LogRecord],
        on_stored: Callable[[Stored], Decision],
        producer: TransactionalProducer | None = None,
    ) -> None:
        self.writes.append(Write(records=records, on_stored=on_stored, producer=producer))

    def done(self) -> Decision:
        return Decision(
            answers=tuple(self.answers), timers=tuple(self.timers), writes=tuple(self.writes)
        )
