"""What a shard wants done: answers, appends and markers, as one frozen value."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

from embedkafka.protocol.errors import ErrorCode
from embedkafka.runtime.values import dataclass, field
from embedkafka.txn.metadata import Transaction
from embedkafka.txn.records import LogRecord

R = TypeVar("R")


class Answer(NamedTuple):
    """A response and the request that waits for it."""

    to: Callable[[Any], None]  # Any: each API answers with its own type
    response: Any  # the type that `to` takes; `Decisions.answer` checks the pair


class Stored(NamedTuple):
    """How an append ended, in the words of a coordinator: NOT_COORDINATOR and the like."""

    error: ErrorCode
    now_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """Records to append as one batch, and what to decide when it is stored or refused."""

    records: Sequence[LogRecord]
    on_stored: "Callable[[Stored], Decision]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Everything that one event led to.

    `markers` are prepared transactions whose outcome is to be told to their partitions; `retries`
    are appends that were refused for the moment and are due again after a while.
    """

    answers: Sequence[Answer] = ()
    writes: Sequence[Write] = ()
    markers: Sequence[Transaction] = ()
    retries: Sequence[Write] = ()


@dataclass(slots=True)
class Decisions:
    """Collects one `Decision` while a rule runs its steps."""

    answers: list[Answer] = field(default_factory=list)
    writes: list[Write] = field(default_factory=list)
    markers: list[Transaction] = field(default_factory=list)
    retries: list[Write] = field(default_factory=list)

    def answer(self, to: Callable[[R], None], response: R) -> None:
        self.answers.append(Answer(to, response))

    def write(self, records: Sequence[LogRecord], on_stored: Callable[[Stored], Decision]) -> None:
        self.writes.append(Write(records=records, on_stored=on_stored))

    def done(self) -> Decision:
        return Decision(
            answers=tuple(self.answers),
            writes=tuple(self.writes),
            markers=tuple(self.markers),
            retries=tuple(self.retries),
        )
