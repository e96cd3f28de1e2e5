"""One partition of the transaction log: its transactional ids, and the decision on each event.

The shard has no thread, no clock and no log. A step of a transaction takes effect when its record
is stored; until then other requests for the id answer CONCURRENT_TRANSACTIONS.

Owner: the `coordinator` loop.
Invariants: an id has at most one step in flight. A transaction whose outcome is stored will be
completed, by this coordinator or by the next.
Not here: the delivery of markers (`marker_delivery.py`), the form of requests (`service.py`).
"""

import logging
from collections.abc import Callable, Iterable, Iterator, MutableMapping, Sequence
from typing import Final

from embedkafka.broker.coordinator.decision import LogRecord, Stored
from embedkafka.broker.coordinator.transactions.config import TxnConfig
from embedkafka.broker.coordinator.transactions.decision import (
    Decision,
    Decisions,
    SendMarkers,
    Sequel,
)
from embedkafka.broker.coordinator.transactions.metadata import (
    EPOCH_BUMP_VERSION,
    LAST_CLIENT_EPOCH,
    Transaction,
    new_transaction,
)
from embedkafka.broker.coordinator.transactions.records import (
    read_transaction,
    read_transactional_id,
    tombstone,
    transaction_record,
)
from embedkafka.broker.coordinator.transactions.states import EXPIRABLE, PREPARED, TxnState
from embedkafka.runtime.ids import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, TopicPartition
from embedkafka.runtime.values import NamedTuple, dataclass
from embedkafka.wire.protocol.codec import leading_version
from embedkafka.wire.protocol.errors import ApiError, ErrorCode, ProtocolError
from embedkafka.wire.records.batch import Batch

_LOG = logging.getLogger(__name__)

# States without an end before them that a client could repeat.
_NOT_ENDED: Final = frozenset({TxnState.EMPTY, TxnState.ONGOING})


class ProducerIdAndEpoch(NamedTuple):
    producer_id: int = NO_PRODUCER_ID
    epoch: int = NO_PRODUCER_EPOCH


class Result(NamedTuple):
    """The answer to InitProducerId and EndTxn: an error, or the id and epoch to use next."""

    error: ErrorCode
    producer: ProducerIdAndEpoch = ProducerIdAndEpoch()


ResultReply = Callable[[Result], None]
ErrorReply = Callable[[ErrorCode], None]


class Entry:
    """A transactional id: its stored state, and the state of the step in flight.

    From the moment an outcome is stored, its completion is the step in flight.
    """

    __slots__ = ("current", "pending")

    def __init__(self, current: Transaction) -> None:
        self.current = current
        self.pending: TxnState | None = None

    def reach(self, target: Transaction) -> None:
        self.current = target
        self.pending = None

    def is_owned_by(self, producer: ProducerIdAndEpoch) -> bool:
        return producer == (self.current.producer_id, self.current.producer_epoch)


class TxnShard:
    """State and rules of one partition of the transaction log, under one leader epoch."""

    def __init__(
        self,
        partition: int,
        coordinator_epoch: int,
        config: TxnConfig,
        new_producer_id: Callable[[], int],
    ) -> None:
        self.partition = partition
        self.coordinator_epoch = coordinator_epoch
        self._config = config
        self._new_producer_id = new_producer_id
        self._entries: dict[str, Entry] = {}

    def find(self, transactional_id: str) -> Transaction | None:
        entry = self._entries.get(transactional_id)
        return None if entry is None or entry.pending is TxnState.DEAD else entry.current

    def transactions(self) -> Iterator[Transaction]:
        return (e.current for e in self._entries.values() if e.pending is not TxnState.DEAD)

    # InitProducerId

    def init(
        self,
        transactional_id: str,
        *,
        timeout_ms: int,
        expected: ProducerIdAndEpoch | None,
        reply: ResultReply,
        now_ms: int,
    ) -> Decision:
        """Gives a starting producer the next epoch, and fences earlier producers with the id.

        `expected` comes from a producer that recovers from an error and keeps its id.
        """
        out = Decisions()
        try:
            entry = self._require_or_create(transactional_id, timeout_ms, now_ms)
            _refuse_init(entry, expected)
            if entry.current.state is TxnState.ONGOING:
                self._abort(entry, AnswerComeAgain(reply=reply), out, now_ms)
            else:
                target = self._initialized(entry.current, expected, timeout_ms, now_ms)
                self._step(entry, target, AnswerProducer(entry=entry, reply=reply), out)
        except ApiError as error:
            out.answer(reply, Result(error.code))
        return out.done()

    def _require_or_create(self, transactional_id: str, timeout_ms: int, now_ms: int) -> Entry:
        entry = self._entries.get(transactional_id)
        if entry is None:
            created = new_transaction(
                transactional_id,
                producer_id=self._new_producer_id(),
                timeout_ms=timeout_ms,
                now_ms=now_ms,
            )
            entry = self._entries[transactional_id] = Entry(created)
        return entry

    def _initialized(
        self,
        current: Transaction,
        expected: ProducerIdAndEpoch | None,
        timeout_ms: int,
        now_ms: int,
    ) -> Transaction:
        is_current = expected is None or expected.epoch == current.producer_epoch
        if current.is_epoch_exhausted and is_current:
            return current.rotated(
                self._new_producer_id(),
                keep_last_epoch=expected is not None,
                timeout_ms=timeout_ms,
                now_ms=now_ms,
            )
        return current.initialized(
            expected_epoch=None if expected is None else expected.epoch,
            timeout_ms=timeout_ms,
            now_ms=now_ms,
        )

    # AddPartitionsToTxn, AddOffsetsToTxn

    def add_partitions(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        partitions: frozenset[TopicPartition],
        *,
        client_version: int,
        reply: ErrorReply,
        now_ms: int,
    ) -> Decision:
        """Adds partitions to the transaction, or starts one with them."""
        out = Decisions()
        try:
            # In this order: the producer may already have the id and epoch of the step in flight.
            self._refuse_step_under_way(transactional_id)
            entry = self._require_owned(transactional_id, producer)
        except ApiError as error:
            out.answer(reply, error.code)
            return out.done()
        current = entry.current
        if current.state is TxnState.ONGOING and partitions <= current.partitions:
            out.answer(reply, ErrorCode.NONE)
            return out.done()
        target = current.with_partitions(partitions, client_version=client_version, now_ms=now_ms)
        self._step(entry, target, AnswerError(reply=reply), out)
        return out.done()

    def verify_partitions(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        partitions: Iterable[TopicPartition],
    ) -> dict[TopicPartition, ErrorCode]:
        """Tells leaders whether partitions are in the transaction (KIP-890)."""
        try:
            current = self._require_owned(transactional_id, producer).current
            if current.state in PREPARED:
                raise ApiError(ErrorCode.CONCURRENT_TRANSACTIONS)
        except ApiError as error:
            return dict.fromkeys(partitions, error.code)
        return {
            tp: ErrorCode.NONE if tp in current.partitions else ErrorCode.TRANSACTION_ABORTABLE
            for tp in partitions
        }

    def _refuse_step_under_way(self, transactional_id: str) -> None:
        entry = self._entries.get(transactional_id)
        if entry is not None and entry.pending is not None:
            raise ApiError(ErrorCode.CONCURRENT_TRANSACTIONS)

    def _require_owned(self, transactional_id: str, producer: ProducerIdAndEpoch) -> Entry:
        entry = self._entries.get(transactional_id)
        if entry is None or entry.current.producer_id != producer.producer_id:
            raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        if entry.current.producer_epoch != producer.epoch:
            raise ApiError(ErrorCode.PRODUCER_FENCED)
        return entry

    # EndTxn

    def end(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        *,
        committed: bool,
        client_version: int,
        reply: ResultReply,
        now_ms: int,
    ) -> Decision:
        """Settles the outcome; markers follow after the answer."""
        out = Decisions()
        try:
            if client_version >= EPOCH_BUMP_VERSION:
                entry, is_known = self._end_with_bump(transactional_id, producer, committed)
            else:
                entry, is_known = self._end_without_bump(transactional_id, producer, committed)
            if is_known:
                out.answer(reply, Result(ErrorCode.NONE, _producer_of(entry.current)))
                return out.done()
            next_id = self._following_id(entry.current, client_version)
        except ApiError as error:
            out.answer(reply, Result(error.code))
            return out.done()
        target = entry.current.prepared(
            committed=committed,
            client_version=client_version,
            next_producer_id=next_id,
            now_ms=now_ms,
        )
        self._step(entry, target, Prepared(entry=entry, reply=reply), out)
        return out.done()

    def _end_without_bump(
        self, transactional_id: str, producer: ProducerIdAndEpoch, committed: bool
    ) -> tuple[Entry, bool]:
        """The entry to prepare; with True, its transaction has already ended with this outcome."""
        entry = self._require_owned(transactional_id, producer)
        if entry.pending is not None:
            raise ApiError(ErrorCode.CONCURRENT_TRANSACTIONS)
        if entry.current.state is TxnState.ONGOING:
            return entry, False
        _require_ended(entry.current.state, committed)
        return entry, True

    def _end_with_bump(
        self, transactional_id: str, producer: ProducerIdAndEpoch, committed: bool
    ) -> tuple[Entry, bool]:
        """Like `_end_without_bump`, but a retry has the epoch before the current one."""
        self._refuse_step_under_way(transactional_id)
        entry = self._entries.get(transactional_id)
        if entry is None:
            raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        current = entry.current
        is_retry = _is_retried_end(current, producer)
        if current.producer_id != producer.producer_id and not is_retry:
            raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        if not entry.is_owned_by(producer):
            if not is_retry or current.state in _NOT_ENDED:
                raise ApiError(ErrorCode.PRODUCER_FENCED)
            _require_ended(current.state, committed)
            return entry, True
        if committed and current.state is not TxnState.ONGOING:
            # There is nothing to commit: clients add partitions first.
            raise ApiError(ErrorCode.INVALID_TXN_STATE)
        return entry, False

    def _following_id(self, current: Transaction, client_version: int) -> int:
        """The next producer id, if the end of the transaction takes the last epoch of this one.

        Raises ApiError if there is none to be had now.
        """
        if client_version >= EPOCH_BUMP_VERSION and current.is_epoch_exhausted:
            return self._new_producer_id()
        return NO_PRODUCER_ID

    def _abort(self, entry: Entry, then: Sequel, out: Decisions, now_ms: int) -> None:
        """Aborts on the coordinator's initiative, under a new epoch. May raise ApiError."""
        version = self._config.transaction_version
        target = entry.current.fenced(
            client_version=version,
            next_producer_id=self._following_id(entry.current, version),
            now_ms=now_ms,
        )
        self._step(entry, target, Aborted(entry=entry, then=then), out)

    def on_marked(self, transactional_id: str, *, now_ms: int) -> Decision:
        """Every partition has its marker: the transaction ends when that is stored."""
        out = Decisions()
        entry = self._entries[transactional_id]
        target = entry.current.completed(now_ms=now_ms)
        record = transaction_record(target, transaction_version=self._config.transaction_version)
        step = Completed(
            entry=entry, target=target, record=record, retry_ms=self._config.retry_backoff_ms
        )
        out.write([record], step)
        return out.done()

    # Time

    def abort_timed_out(self, *, now_ms: int) -> Decision:
        """Aborts transactions that run longer than their producer's timeout."""
        out = Decisions()
        for entry in self._entries.values():
            current = entry.current
            is_open = current.state is TxnState.ONGOING and entry.pending is None
            if is_open and current.start_timestamp_ms + current.timeout_ms < now_ms:
                _LOG.info("transaction %s has timed out", current.transactional_id)
                try:
                    self._abort(entry, _nothing, out, now_ms)
                except ApiError as error:  # the next check tries again
                    _LOG.warning("%s was not aborted: %s", current.transactional_id, error)
        return out.done()

    def expire(self, *, now_ms: int) -> Decision:
        """Deletes transactional ids that no producer has used for long."""
        out = Decisions()
        deadline_ms = now_ms - self._config.transactional_id_expiration_ms
        doomed = [
            entry
            for entry in self._entries.values()
            if entry.pending is None
            and entry.current.state in EXPIRABLE
            and entry.current.last_update_timestamp_ms <= deadline_ms
        ]
        for entry in doomed:
            entry.pending = TxnState.DEAD
        if doomed:
            records = [tombstone(entry.current.transactional_id) for entry in doomed]
            out.write(records, IdsExpired(entries=self._entries, doomed=doomed, then=_nothing))
        return out.done()

    def forget(self, transactional_id: str, *, reply: ErrorReply, now_ms: int) -> Decision:
        """Deletes an id however recent it is.

        An open transaction is aborted first: CONCURRENT_TRANSACTIONS asks the caller to come again.
        """
        out = Decisions()
        entry = self._entries.get(transactional_id)
        if entry is None:
            out.answer(reply, ErrorCode.NONE)
        elif entry.pending is None and entry.current.state in EXPIRABLE:
            entry.pending = TxnState.DEAD
            expired = IdsExpired(
                entries=self._entries, doomed=[entry], then=AnswerError(reply=reply)
            )
            out.write([tombstone(transactional_id)], expired)
        else:
            if entry.pending is None and entry.current.state is TxnState.ONGOING:
                self._abort(entry, _nothing, out, now_ms)
            out.answer(reply, ErrorCode.CONCURRENT_TRANSACTIONS)
        return out.done()

    # Steps

    def _step(self, entry: Entry, target: Transaction, then: Sequel, out: Decisions) -> None:
        """Stores `target`, which takes effect when it is stored; then `then` decides."""
        entry.pending = target.state
        record = transaction_record(target, transaction_version=self._config.transaction_version)
        out.write([record], StepStored(entry=entry, target=target, then=then))

    # Loading

    def replay_batch(self, batch: Batch) -> None:
        """Applies one batch of the log."""
        for record in batch.records():
            if record.key is None:
                raise ProtocolError(f"the record at offset {record.offset} has no key")
            transactional_id = read_transactional_id(record.key)
            if transactional_id is None:
                # As in Kafka, a record that a newer broker has left is skipped.
                _LOG.warning(
                    "transaction log partition %d: the record at offset %d is of unknown type %d",
                    self.partition,
                    record.offset,
                    leading_version(record.key),
                )
            elif record.value is None:
                self._entries.pop(transactional_id, None)
            else:
                loaded = read_transaction(transactional_id, record.value)
                self._entries[transactional_id] = Entry(loaded)

    def on_loaded(self, *, now_ms: int) -> Decision:
        """Completes the transactions that the former coordinator had only prepared."""
        out = Decisions()
        for entry in self._entries.values():
            if entry.current.state in PREPARED:
                entry.pending = entry.current.completed(now_ms=now_ms).state
                out.do(SendMarkers(entry.current))
        return out.done()

    def on_unloaded(self) -> Decision:
        """Requests wait only for appends, which answer them when they end."""
        return Decision()


@dataclass(frozen=True, slots=True, kw_only=True)
class StepStored:
    """Continues after the record of a step: the id reaches `target`, or stays where it is."""

    entry: Entry
    target: Transaction
    then: Sequel

    def __call__(self, stored: Stored, out: Decisions) -> None:
        if stored.error is ErrorCode.NONE:
            self.entry.reach(self.target)
        else:
            self.entry.pending = None
        self.then(stored, out)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """Continues when an outcome is stored: answers EndTxn, if one waits, and sends markers."""

    entry: Entry
    reply: ResultReply | None

    def __call__(self, stored: Stored, out: Decisions) -> None:
        if stored.error is not ErrorCode.NONE:
            if self.reply is not None:
                out.answer(self.reply, Result(stored.told_as()))
            return
        completed = self.entry.current.completed(now_ms=stored.now_ms)
        self.entry.pending = completed.state
        if self.reply is not None:
            out.answer(self.reply, Result(ErrorCode.NONE, _producer_of(completed)))
        out.do(SendMarkers(self.entry.current))


@dataclass(frozen=True, slots=True, kw_only=True)
class Aborted:
    """Continues when an abort that no EndTxn asked for is stored."""

    entry: Entry
    then: Sequel

    def __call__(self, stored: Stored, out: Decisions) -> None:
        self.then(stored, out)
        Prepared(entry=self.entry, reply=None)(stored, out)


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed:
    """Continues when the end of a transaction is stored; tries again if it was not.

    The markers are written, so there is no way back, and no client waits for an answer.
    """

    entry: Entry
    target: Transaction
    record: LogRecord
    retry_ms: int

    def __call__(self, stored: Stored, out: Decisions) -> None:
        if stored.error is ErrorCode.NONE:
            self.entry.reach(self.target)
        elif stored.told_as() is not ErrorCode.NOT_COORDINATOR:
            out.write([self.record], self, delay_ms=self.retry_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class IdsExpired:
    """Continues after the tombstones of transactional ids."""

    entries: MutableMapping[str, Entry]
    doomed: Sequence[Entry]
    then: Sequel

    def __call__(self, stored: Stored, out: Decisions) -> None:
        for entry in self.doomed:
            entry.pending = None
            if stored.error is ErrorCode.NONE:
                del self.entries[entry.current.transactional_id]
        self.then(stored, out)


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerProducer:
    """Answers InitProducerId with the id and epoch that the entry has reached."""

    entry: Entry
    reply: ResultReply

    def __call__(self, stored: Stored, out: Decisions) -> None:
        is_good = stored.error is ErrorCode.NONE
        producer = _producer_of(self.entry.current) if is_good else ProducerIdAndEpoch()
        out.answer(self.reply, Result(stored.told_as(), producer))


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerComeAgain:
    """Answers InitProducerId during an open transaction: the client retries after the abort."""

    reply: ResultReply

    def __call__(self, stored: Stored, out: Decisions) -> None:
        is_good = stored.error is ErrorCode.NONE
        error = ErrorCode.CONCURRENT_TRANSACTIONS if is_good else stored.told_as()
        out.answer(self.reply, Result(error))


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerError:
    """Answers with the error of the append, or with none."""

    reply: ErrorReply

    def __call__(self, stored: Stored, out: Decisions) -> None:
        out.answer(self.reply, stored.told_as())


def _nothing(stored: Stored, out: Decisions) -> None:
    """No client waits."""


def _producer_of(transaction: Transaction) -> ProducerIdAndEpoch:
    return ProducerIdAndEpoch(transaction.producer_id, transaction.producer_epoch)


def _refuse_init(entry: Entry, expected: ProducerIdAndEpoch | None) -> None:
    if entry.pending is not None:
        raise ApiError(ErrorCode.CONCURRENT_TRANSACTIONS)
    if expected is not None and not _may_recover(entry.current, expected):
        raise ApiError(ErrorCode.PRODUCER_FENCED)


def _may_recover(current: Transaction, expected: ProducerIdAndEpoch) -> bool:
    """Whether a producer that names its id may get a new epoch.

    It may if the id is unused, if it is the current producer, or if it was the current one until
    its epochs ran out and it missed that answer.
    """
    return (
        current.producer_epoch == NO_PRODUCER_EPOCH
        or expected.producer_id == current.producer_id
        or (
            expected.producer_id == current.previous_producer_id
            and expected.epoch >= LAST_CLIENT_EPOCH
        )
    )


def _is_retried_end(current: Transaction, producer: ProducerIdAndEpoch) -> bool:
    """Whether the producer has already ended this transaction and missed the answer."""
    if producer.producer_id == current.producer_id:
        return producer.epoch + 1 == current.producer_epoch
    return (
        producer.producer_id == current.previous_producer_id
        and producer.epoch == LAST_CLIENT_EPOCH
        and current.producer_epoch == 0
    )


def _require_ended(state: TxnState, committed: bool) -> None:
    """Raises ApiError unless the transaction has ended with this outcome."""
    if state is not (TxnState.COMPLETE_COMMIT if committed else TxnState.COMPLETE_ABORT):
        raise ApiError(ErrorCode.INVALID_TXN_STATE)
