"""Verifies with the coordinator that a transaction is open, before its first write.

Otherwise a late batch of an ended transaction could open it again, and nothing would ever end it
(KIP-890). The appending thread starts a verification, asks the coordinator, and confirms it; then
the log accepts the batch. A marker or a first batch in between ends the verification, however late
the coordinator's answer arrives.

Owner: `Log._lock`, through `ProducerState`.
Not here: the request, which may go to another broker.
"""

from typing import Final

from embedkafka.wire.protocol.errors import ApiError, ErrorCode
from embedkafka.wire.records.batch import RecordBatch

_UNCONFIRMED: Final = -1


class Verification:
    """One request about a producer's transaction; only the current one can be confirmed.

    `bumps_epochs`: the producer takes a new epoch with every transaction.
    """

    __slots__ = (
        "bumps_epochs",
        "confirmed_epoch",
        "lowest_sequence",
        "producer_epoch",
        "producer_id",
        "started_ms",
    )

    def __init__(
        self,
        producer_id: int,
        producer_epoch: int,
        base_sequence: int,
        *,
        bumps_epochs: bool,
        now_ms: int,
    ) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.lowest_sequence = base_sequence
        self.bumps_epochs = bumps_epochs
        self.started_ms = now_ms
        self.confirmed_epoch = _UNCONFIRMED

    def note(self, producer_epoch: int, base_sequence: int) -> None:
        """Adds a batch that waits for the same answer."""
        if producer_epoch > self.producer_epoch:
            self.producer_epoch, self.lowest_sequence = producer_epoch, base_sequence
        elif producer_epoch == self.producer_epoch:
            self.lowest_sequence = min(self.lowest_sequence, base_sequence)


class Verifications:
    """The current verifications of one log, at most one per producer."""

    __slots__ = ("_by_producer",)

    def __init__(self) -> None:
        self._by_producer: dict[int, Verification] = {}

    def begin(
        self,
        producer_id: int,
        *,
        producer_epoch: int,
        base_sequence: int,
        bumps_epochs: bool,
        now_ms: int,
    ) -> Verification:
        """The verification for the producer's next append; several appends share one."""
        known = self._by_producer.get(producer_id)
        if known is None:
            known = self._by_producer[producer_id] = Verification(
                producer_id, producer_epoch, base_sequence, bumps_epochs=bumps_epochs, now_ms=now_ms
            )
        else:
            known.note(producer_epoch, base_sequence)
        return known

    def confirm(self, verification: Verification, producer_epoch: int) -> None:
        """Notes that the coordinator has confirmed the epoch, unless the verification has ended."""
        if self._by_producer.get(verification.producer_id) is verification:
            verification.confirmed_epoch = producer_epoch

    def require_confirmed(self, batch: RecordBatch) -> None:
        """Raises INVALID_TXN_STATE unless the batch's transaction has been confirmed."""
        known = self._by_producer.get(batch.producer_id)
        if known is None or known.confirmed_epoch != batch.producer_epoch:
            raise ApiError(
                ErrorCode.INVALID_TXN_STATE,
                f"the batch of producer {batch.producer_id} was not part of an ongoing transaction",
            )

    def check_sequence(self, batch: RecordBatch, *, is_first: bool) -> None:
        """Raises OUT_OF_ORDER_SEQUENCE_NUMBER unless the batch starts the transaction.

        That is the waiting batch with the lowest sequence. If each transaction has a new epoch and
        the log does not know the producer yet (`is_first`), the sequence must be 0.
        """
        known = self._by_producer.get(batch.producer_id)
        if known is None:
            return
        begins_at = known.lowest_sequence
        if known.bumps_epochs and is_first:
            begins_at = min(begins_at, 0)
        if batch.base_sequence > begins_at:
            raise ApiError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"sequence {batch.base_sequence} of producer {batch.producer_id} comes before "
                f"{begins_at}, with which its transaction begins",
            )

    def end(self, producer_id: int, *, marker_epoch: int | None) -> None:
        """Ends the verification when a batch, or the marker of a transaction, has been written.

        If every transaction has a new epoch, the marker has the next one: a verification for that
        epoch belongs to the next transaction, and continues.
        """
        known = self._by_producer.get(producer_id)
        if known is None or (known.bumps_epochs and known.producer_epoch == marker_epoch):
            return
        del self._by_producer[producer_id]

    def remove_older(self, started_before_ms: int) -> None:
        self._by_producer = {
            producer_id: verification
            for producer_id, verification in self._by_producer.items()
            if verification.started_ms > started_before_ms
        }
