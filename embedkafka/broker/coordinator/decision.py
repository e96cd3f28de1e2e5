"""A shard's decision as one frozen value: answers, appends, and effects.

Functions that decide add to a `Decisions`; only a shard's entry points return a `Decision`. What
follows an append is a frozen dataclass with `__call__`, not a closure, so tests can compare
decisions.

Invariants: a decision is complete, and `hosting.py` adds nothing to it. An append that fails
reports through `Write.on_stored`, which decides the rest.
Not here: sockets, threads, clocks; `hosting.py` carries decisions out.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, Generic, Protocol, TypeVar

from embedkafka.runtime.values import NamedTuple
from embedkafka.wire.protocol.errors import ErrorCode

R = TypeVar("R")
E = TypeVar("E")

TOO_LARGE: Final = (
    ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.RECORD_LIST_TOO_LARGE,
    ErrorCode.INVALID_FETCH_SIZE,
)

# How a client sees the error of an append that its request led to.
_REFUSALS: Final[Mapping[ErrorCode, ErrorCode]] = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    **dict.fromkeys(TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
}
_AS_USUAL: Final[Mapping[ErrorCode, ErrorCode]] = MappingProxyType({})


def refusal_of(error: ErrorCode, own: Mapping[ErrorCode, ErrorCode] = _AS_USUAL) -> ErrorCode:
    """Translates an append's error for the client; `own` overrides the codes for one API."""
    return own.get(error, _REFUSALS.get(error, error))


class Answer(NamedTuple):
    """A response and the request that waits for it."""

    to: Callable[[Any], None]  # Any: each API answers with its own type
    response: Any  # the type that `to` takes; `Decisions.answer` checks the pair


class LogRecord(NamedTuple):
    """Key and value of one record; a value of None is a tombstone."""

    key: bytes
    value: bytes | None


class TransactionalProducer(NamedTuple):
    """Stamps a batch as part of a producer's open transaction."""

    producer_id: int
    producer_epoch: int


class Stored(NamedTuple):
    """How an append ended; `base_offset` is valid only without an error."""

    error: ErrorCode
    base_offset: int
    now_ms: int

    def told_as(self, own: Mapping[ErrorCode, ErrorCode] = _AS_USUAL) -> ErrorCode:
        """The error as the client sees it; see `refusal_of`."""
        return refusal_of(self.error, own)


class Sequel(Protocol[E]):
    """Decides what follows an append, successful or not."""

    def __call__(self, stored: Stored, out: "Decisions[E]", /) -> None: ...


class Write(NamedTuple, Generic[E]):
    """Records to append as one batch, and the sequel that runs when the append ends."""

    records: Sequence[LogRecord]
    on_stored: Sequel[E]
    producer: TransactionalProducer | None = None
    delay_ms: int = 0


class Decision(NamedTuple, Generic[E]):
    """Everything that one event led to, in the order in which it was decided."""

    answers: Sequence[Answer] = ()
    writes: Sequence[Write[E]] = ()
    effects: Sequence[E] = ()


class Decisions(Generic[E]):
    """Collects one `Decision` while rules run."""

    __slots__ = ("_answers", "_effects", "_writes")

    def __init__(self) -> None:
        self._answers: list[Answer] = []
        self._writes: list[Write[E]] = []
        self._effects: list[E] = []

    def answer(self, to: Callable[[R], None], response: R) -> None:
        self._answers.append(Answer(to, response))

    def write(
        self,
        records: Sequence[LogRecord],
        on_stored: Sequel[E],
        *,
        producer: TransactionalProducer | None = None,
        delay_ms: int = 0,
    ) -> None:
        self._writes.append(Write(records, on_stored, producer, delay_ms))

    def do(self, effect: E) -> None:
        self._effects.append(effect)

    def done(self) -> Decision[E]:
        return Decision(tuple(self._answers), tuple(self._writes), tuple(self._effects))
