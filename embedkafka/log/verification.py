"""Transactions whose coordinator is being asked whether they are open, before their first write.

Without this a late batch of a transaction that has ended could open it again, with nobody left to
end it (KIP-890). Whoever appends begins a verification, asks the coordinator, and confirms it; then
the log takes the batch. A marker or a first batch in between makes the verification worthless,
however late the coordinator's answer comes.

Owner: `Log._lock`, through `ProducerState`.
Not here: the question itself, which may go to another broker.
"""

from typing import Final

from embedkafka.protocol.errors import ApiError, ErrorCode
from embedkafka.records.batch import RecordBatch

_UNCONFIRMED: Final = -1


class Verification:
    """One question about a producer's transaction; only the one under way opens the log.

    `bumps_epochs` tells of a producer that takes a new epoch with every transaction.
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
        """Another batch waits for the same answer."""
        if producer_epoch > self.producer_epoch:
            self.producer_epoch, self.lowest_sequence = producer_epoch, base_sequence
        elif producer_epoch == self.producer_epoch:
            self.lowest_sequence = min(self.lowest_sequence, base_sequence)


class Verifications:
    """The verifications under way in one log, at most one for each producer."""

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
        """The coordinator vouches for the epoch; too late if the verification is over."""
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
        """Raises OUT_OF_ORDER_SEQUENCE_NUMBER unless the batch is the one that begins.

        That is the lowest of those that wait; and for a new epoch with each transaction, the very
        first, for then the log need not have heard of the producer (`is_first`) to know it.
        """
        known = self._by_producer.get(batch.producer_id)
        if known is None:
            return
        begins_at = 0 if known.bumps_epochs and is_first else known.lowest_sequence
        if batch.base_sequence > begins_at:
            raise ApiError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"sequence {batch.base_sequence} of producer {batch.producer_id} comes before "
                f"{begins_at}, with which its transaction begins",
            )

    def end(self, producer_id: int, *, marker_epoch: int | None) -> None:
        """A batch, or the marker of a transaction, has been written.

        Where every transaction has its epoch, the marker has that of the next one: a verification
        of that epoch is for the next transaction, and goes on.
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

    def clear(self) -> None:
        self._by_producer.clear()
