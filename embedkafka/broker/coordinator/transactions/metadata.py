"""The state of a transactional id, and the steps from one state to the next.

A `Transaction` is a frozen value. A step returns the next value, which takes effect when its
record is stored. Steps check that the move is legal; `shard.py` checks who may ask for it.
"""

from collections.abc import Iterable
from typing import Final

from embedkafka.broker.coordinator.transactions.states import TxnState, move
from embedkafka.runtime.ids import (
    MAX_PRODUCER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    TopicPartition,
)
from embedkafka.runtime.values import dataclass, replace
from embedkafka.wire.protocol.errors import ApiError, ErrorCode
from embedkafka.wire.records.record import NO_TIMESTAMP

# Clients never get the greatest epoch: the coordinator needs it to fence them.
LAST_CLIENT_EPOCH: Final = MAX_PRODUCER_EPOCH - 1

EPOCH_BUMP_VERSION: Final = 2
"""The first transaction version in which every end of a transaction takes a new epoch (KIP-890)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """The state of one transactional id."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: TxnState
    partitions: frozenset[TopicPartition]
    start_timestamp_ms: int
    last_update_timestamp_ms: int
    # Of the step before: tells a retry across a change of producer id from an impostor.
    previous_producer_id: int = NO_PRODUCER_ID
    # When the producer id has run out of epochs: the id that follows, once complete.
    next_producer_id: int = NO_PRODUCER_ID
    # Not stored: only the same coordinator recognizes a retry of InitProducerId.
    last_producer_epoch: int = NO_PRODUCER_EPOCH
    client_version: int = 0

    @property
    def is_epoch_exhausted(self) -> bool:
        return self.producer_epoch >= LAST_CLIENT_EPOCH

    # From Empty and the Complete states

    def initialized(
        self, *, expected_epoch: int | None, timeout_ms: int, now_ms: int
    ) -> "Transaction":
        """The next epoch, for a producer that starts or (with `expected_epoch`) recovers.

        Raises ApiError if the producer was fenced: its epoch is neither the current nor the last.
        """
        epoch, last_epoch = self.producer_epoch + 1, NO_PRODUCER_EPOCH
        if expected_epoch is not None:
            is_first = self.producer_epoch == NO_PRODUCER_EPOCH
            if is_first or expected_epoch == self.producer_epoch:
                last_epoch = self.producer_epoch
            elif expected_epoch == self.last_producer_epoch:
                # The client repeats a request whose answer was lost.
                epoch, last_epoch = self.producer_epoch, self.last_producer_epoch
            else:
                raise ApiError(ErrorCode.PRODUCER_FENCED)
        return self._emptied(
            producer_id=self.producer_id,
            producer_epoch=epoch,
            last_producer_epoch=last_epoch,
            timeout_ms=timeout_ms,
            now_ms=now_ms,
        )

    def rotated(
        self, producer_id: int, *, keep_last_epoch: bool, timeout_ms: int, now_ms: int
    ) -> "Transaction":
        """A new producer id, from epoch 0 on: the old one has run out of epochs."""
        return self._emptied(
            producer_id=producer_id,
            producer_epoch=0,
            last_producer_epoch=self.producer_epoch if keep_last_epoch else NO_PRODUCER_EPOCH,
            timeout_ms=timeout_ms,
            now_ms=now_ms,
        )

    def _emptied(
        self,
        *,
        producer_id: int,
        producer_epoch: int,
        last_producer_epoch: int,
        timeout_ms: int,
        now_ms: int,
    ) -> "Transaction":
        return replace(
            self,
            state=move(self.state, TxnState.EMPTY),
            producer_id=producer_id,
            previous_producer_id=self.producer_id,
            producer_epoch=producer_epoch,
            last_producer_epoch=last_producer_epoch,
            timeout_ms=timeout_ms,
            partitions=frozenset(),
            start_timestamp_ms=NO_TIMESTAMP,
            last_update_timestamp_ms=now_ms,
        )

    # The transaction

    def with_partitions(
        self, partitions: Iterable[TopicPartition], *, client_version: int, now_ms: int
    ) -> "Transaction":
        """Adds partitions; the first ones start the transaction."""
        is_open = self.state is TxnState.ONGOING
        return replace(
            self,
            state=move(self.state, TxnState.ONGOING),
            previous_producer_id=self.producer_id,
            partitions=self.partitions.union(partitions),
            start_timestamp_ms=self.start_timestamp_ms if is_open else now_ms,
            last_update_timestamp_ms=now_ms,
            client_version=client_version,
        )

    def prepared(
        self, *, committed: bool, client_version: int, next_producer_id: int, now_ms: int
    ) -> "Transaction":
        """Settles the outcome and, with the epoch bump, the producer's next epoch."""
        target = TxnState.PREPARE_COMMIT if committed else TxnState.PREPARE_ABORT
        epoch, last_epoch = self.producer_epoch, self.last_producer_epoch
        if client_version >= EPOCH_BUMP_VERSION:
            last_epoch = self.producer_epoch
            epoch = min(last_epoch + 1, MAX_PRODUCER_EPOCH)
        return replace(
            self,
            state=move(self.state, target),
            previous_producer_id=self.producer_id,
            next_producer_id=next_producer_id,
            producer_epoch=epoch,
            last_producer_epoch=last_epoch,
            # The abort of a transaction that never reached us needs a start time: now.
            start_timestamp_ms=(
                self.start_timestamp_ms if self.state is TxnState.ONGOING else now_ms
            ),
            last_update_timestamp_ms=now_ms,
            client_version=client_version,
        )

    def fenced(self, *, client_version: int, next_producer_id: int, now_ms: int) -> "Transaction":
        """Prepares an abort on the coordinator's initiative.

        It takes a new epoch in every version, which fences the producer: it can no longer end the
        transaction in another way.
        """
        has_bump = client_version >= EPOCH_BUMP_VERSION
        fence = move(self.state, TxnState.PREPARE_EPOCH_FENCE)
        return replace(
            self,
            state=move(fence, TxnState.PREPARE_ABORT),
            previous_producer_id=self.producer_id,
            next_producer_id=next_producer_id,
            producer_epoch=min(self.producer_epoch + 1, MAX_PRODUCER_EPOCH),
            last_producer_epoch=self.producer_epoch if has_bump else NO_PRODUCER_EPOCH,
            last_update_timestamp_ms=now_ms,
            client_version=client_version,
        )

    def completed(self, *, now_ms: int) -> "Transaction":
        """Ends the transaction: every partition has its marker."""
        is_commit = self.state is TxnState.PREPARE_COMMIT
        target = TxnState.COMPLETE_COMMIT if is_commit else TxnState.COMPLETE_ABORT
        is_rotation = (
            self.client_version >= EPOCH_BUMP_VERSION and self.next_producer_id != NO_PRODUCER_ID
        )
        return replace(
            self,
            state=move(self.state, target),
            producer_id=self.next_producer_id if is_rotation else self.producer_id,
            producer_epoch=0 if is_rotation else self.producer_epoch,
            previous_producer_id=self.producer_id,
            next_producer_id=NO_PRODUCER_ID,
            partitions=frozenset(),
            last_update_timestamp_ms=now_ms,
        )


def new_transaction(
    transactional_id: str, *, producer_id: int, timeout_ms: int, now_ms: int
) -> Transaction:
    """A new transactional id; `initialized` gives it its first epoch."""
    return Transaction(
        transactional_id=transactional_id,
        producer_id=producer_id,
        producer_epoch=NO_PRODUCER_EPOCH,
        timeout_ms=timeout_ms,
        state=TxnState.EMPTY,
        partitions=frozenset(),
        start_timestamp_ms=NO_TIMESTAMP,
        last_update_timestamp_ms=now_ms,
    )
