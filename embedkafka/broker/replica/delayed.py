"""Requests that wait for replicas: produce with acks=all, fetch with a minimum, delete records.

Owner: each operation's lock (rank 10); deciding reads partitions and logs.
Invariants: `on_complete` answers exactly once, from the state at that moment.
Not here: waking them (`partition_notifier`), and the wire format of the answers (the handlers).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

from embedkafka.broker.replica.deletion import DeletedRecords
from embedkafka.broker.replica.fetch import FetchParams, PartitionData, PartitionFetch
from embedkafka.broker.replica.partition.partition import Partition
from embedkafka.broker.replica.produce import PartitionResponse
from embedkafka.runtime.ids import BrokerId, TopicPartition
from embedkafka.runtime.purgatory.operation import Awaited, DelayedOperation
from embedkafka.wire.protocol.errors import ApiError, ErrorCode

RequirePartition = Callable[[TopicPartition], Partition]


class DelayedProduce(DelayedOperation):
    """Waits until every appended partition's in-sync replicas have the records."""

    def __init__(
        self,
        timeout_ms: float,
        appended: Mapping[TopicPartition, PartitionResponse],
        *,
        required_offsets: Mapping[TopicPartition, int],
        require_partition: RequirePartition,
        on_done: Callable[[Mapping[TopicPartition, PartitionResponse]], None],
    ) -> None:
        super().__init__(timeout_ms)
        self._responses = dict(appended)
        self._pending = dict(required_offsets)
        self._require_partition = require_partition
        self._on_done = on_done

    def try_complete(self) -> bool:
        for topic_partition, required_offset in list(self._pending.items()):
            error = self._find_ack(topic_partition, required_offset)
            if error is None:
                continue
            del self._pending[topic_partition]
            if error is not ErrorCode.NONE:
                self._fail(topic_partition, error)
        return not self._pending

    def on_complete(self) -> None:
        for topic_partition in self._pending:
            self._fail(topic_partition, ErrorCode.REQUEST_TIMED_OUT)
        self._on_done(self._responses)

    def awaited(self) -> Iterator[Awaited]:
        for topic_partition, required_offset in self._pending.copy().items():
            try:
                missing = self._require_partition(topic_partition).find_lacking(required_offset)
            except ApiError:
                continue  # it is about to fail
            yield _missing(topic_partition, missing, f"of {required_offset}")

    def find_answer(self) -> object:
        return self._on_done

    def _find_ack(self, topic_partition: TopicPartition, required_offset: int) -> ErrorCode | None:
        try:
            return self._require_partition(topic_partition).find_ack(required_offset)
        except ApiError as error:
            return error.code

    def _fail(self, topic_partition: TopicPartition, error: ErrorCode) -> None:
        self._responses[topic_partition] = self._responses[topic_partition].failed(error)


class DelayedFetch(DelayedOperation):
    """Waits until its partitions hold `min_bytes` in all, or one of them needs an answer now."""

    def __init__(
        self,
        params: FetchParams,
        partitions: Sequence[PartitionFetch],
        *,
        is_held_back: Callable[[Partition, BrokerId], bool],
        require_partition: RequirePartition,
        read: Callable[[FetchParams, Sequence[PartitionFetch]], list[PartitionData]],
        on_done: Callable[[list[PartitionData]], None],
    ) -> None:
        super().__init__(params.max_wait_ms)
        self._params = params
        self._partitions = partitions
        self._is_held_back = is_held_back
        self._require_partition = require_partition
        self._read = read
        self._on_done = on_done

    def try_complete(self) -> bool:
        params = self._params
        accumulated = 0
        for request in self._partitions:
            try:
                partition = self._require_partition(request.topic_partition)
            except ApiError:
                return True
            available = partition.find_available(
                request, isolation=params.isolation, only_leader=params.only_leader
            )
            if available is None:
                return True
            if self._is_held_back(partition, params.replica_id):
                continue
            accumulated += available
            if accumulated >= params.min_bytes:
                return True
        return False

    def on_complete(self) -> None:
        self._on_done(self._read(self._params, self._partitions))

    def awaited(self) -> Iterator[Awaited]:
        least = self._params.min_bytes
        size = f"{least} bytes of records" if least > 1 else "records"
        for request in self._partitions:
            yield Awaited(*request.topic_partition, f"{size} from {request.fetch_offset} on")

    def find_answer(self) -> object:
        return self._on_done


class DelayedDeleteRecords(DelayedOperation):
    """Waits until every live replica has deleted the records."""

    def __init__(
        self,
        timeout_ms: float,
        deleted: Mapping[TopicPartition, DeletedRecords],
        *,
        required_offsets: Mapping[TopicPartition, int],
        require_partition: RequirePartition,
        on_done: Callable[[Mapping[TopicPartition, DeletedRecords]], None],
    ) -> None:
        super().__init__(timeout_ms)
        self._results = dict(deleted)
        self._pending = dict(required_offsets)
        self._require_partition = require_partition
        self._on_done = on_done

    def try_complete(self) -> bool:
        for topic_partition, required_offset in list(self._pending.items()):
            try:
                low_watermark = self._require_partition(topic_partition).require_low_watermark()
            except ApiError as error:
                self._settle(topic_partition, DeletedRecords(error=error.code))
                continue
            if low_watermark >= required_offset:
                self._settle(topic_partition, DeletedRecords(low_watermark=low_watermark))
        return not self._pending

    def on_complete(self) -> None:
        for topic_partition in list(self._pending):
            known = self._results[topic_partition]
            self._settle(topic_partition, known._replace(error=ErrorCode.REQUEST_TIMED_OUT))
        self._on_done(self._results)

    def awaited(self) -> Iterator[Awaited]:
        for topic_partition, required_offset in self._pending.copy().items():
            try:
                partition = self._require_partition(topic_partition)
            except ApiError:
                continue  # it is about to fail
            missing = partition.find_undeleted(required_offset)
            yield _missing(topic_partition, missing, f"and has to delete up to {required_offset}")

    def find_answer(self) -> object:
        return self._on_done

    def _settle(self, topic_partition: TopicPartition, result: DeletedRecords) -> None:
        del self._pending[topic_partition]
        self._results[topic_partition] = result


def _missing(topic_partition: TopicPartition, replicas: Mapping[BrokerId, int], to: str) -> Awaited:
    """Replicas that are not where they have to be, and where they are."""
    told = [
        f"broker {broker}, which " + (f"is at {at} {to}" if at >= 0 else "has not fetched yet")
        for broker, at in replicas.items()
    ]
    return Awaited(*topic_partition, " and ".join(told) or "more in-sync replicas", tuple(replicas))
