"""Transactions whose coordinator is being asked whether they are open, before their first write.

Without this a late batch of a transaction that has ended could open it again, with nobody left to
end it (KIP-890). Whoever appends takes a guard, asks the coordinator, and then appends with it. A
marker or a first batch in between makes the guard worthless.

Owner: `Log._lock`, through `ProducerState`.
Not here: the question itself, which goes to another broker.
"""

from dataclasses import dataclass

from embedkafka.protocol.errors import ApiError, ErrorCode
from embedkafka.records.batch import RecordBatch


class VerificationGuard:
    """Stands for one verification; only the one that is under way opens the log."""

    __slots__ = ()


@dataclass(slots=True)
class _Verification:
    guard: VerificationGuard
    started_ms: int
    producer_epoch: int
    lowest_sequence: int


class Verifications:
    """The verifications under way in one log, at most one for each producer."""

    __slots__ = ("_by_producer",)

    def __init__(self) -> None:
        self._by_producer: dict[int, _Verification] = {}

    def begin(
        self, producer_id: int, *, producer_epoch: int, base_sequence: int, now_ms: int
    ) -> VerificationGuard:
        """A guard for the producer's next append; several appends share one."""
        known = self._by_producer.get(producer_id)
        if known is None:
            known = _Verification(VerificationGuard(), now_ms, producer_epoch, base_sequence)
            self._by_producer[producer_id] = known
        elif producer_epoch > known.producer_epoch:
            known.producer_epoch, known.lowest_sequence = producer_epoch, base_sequence
        elif producer_epoch == known.producer_epoch:
            known.lowest_sequence = min(known.lowest_sequence, base_sequence)
        return known.guard

    def check(self, batch: RecordBatch, guard: VerificationGuard | None) -> None:
        """Raises INVALID_TXN_STATE unless `guard` is the one under way for the batch's producer.

        The batch that was asked about first must also be the one that comes first.
        """
        known = self._by_producer.get(batch.producer_id)
        if guard is None or known is None or known.guard is not guard:
            raise ApiError(
                ErrorCode.INVALID_TXN_STATE,
                f"the batch of producer {batch.producer_id} was not part of an ongoing transaction",
            )
        if batch.base_sequence > known.lowest_sequence:
            raise ApiError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"sequence {batch.base_sequence} of producer {batch.producer_id} comes before "
                f"{known.lowest_sequence}, with which its transaction begins",
            )

    def end(self, producer_id: int) -> None:
        self._by_producer.pop(producer_id, None)

    def remove_older(self, started_before_ms: int) -> None:
        self._by_producer = {
            producer_id: verification
            for producer_id, verification in self._by_producer.items()
            if verification.started_ms > started_before_ms
        }

    def clear(self) -> None:
        self._by_producer.clear()
