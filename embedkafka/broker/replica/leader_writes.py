"""The two requests that change a leader's log: produce and delete records.

Invariants: nothing blocks; `on_done` is called exactly once, on this thread if there is nothing to
wait for, otherwise on the thread that completes the delayed operation.
Not here: the log's rules (`log`), and replication (`fetcher`).
"""

import logging
from collections.abc import Callable, Mapping
from typing import Final

from embedkafka.broker.log.producers.entry import AppendOrigin
from embedkafka.broker.log.validation import RecordsRejected
from embedkafka.broker.replica.delayed import DelayedDeleteRecords, DelayedProduce
from embedkafka.broker.replica.deletion import DeletedRecords
from embedkafka.broker.replica.hosted import HostedPartitions
from embedkafka.broker.replica.partition.partition import ACKS_ALL
from embedkafka.broker.replica.partition_notifier import PartitionNotifier
from embedkafka.broker.replica.produce import PartitionResponse
from embedkafka.runtime.ids import NO_OFFSET, TopicPartition
from embedkafka.runtime.topic_names import INTERNAL_TOPICS
from embedkafka.wire.protocol.errors import ApiError, ErrorCode

_LOG = logging.getLogger(__name__)

VALID_ACKS: Final = frozenset({-1, 0, 1})

# The log was not reached at all, so these answers omit its start offset.
_WITHOUT_LOG_START: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)

OnProduced = Callable[[Mapping[TopicPartition, PartitionResponse]], None]
OnDeleted = Callable[[Mapping[TopicPartition, DeletedRecords]], None]


class LeaderWrites:
    """Appends and deletes on the partitions that this broker leads."""

    def __init__(self, hosted: HostedPartitions, waiters: PartitionNotifier) -> None:
        self._hosted = hosted
        self._waiters = waiters

    def append_records(
        self,
        entries: Mapping[TopicPartition, memoryview],
        on_done: OnProduced,
        *,
        timeout_ms: float,
        required_acks: int,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        internal_topics_allowed: bool = False,
    ) -> None:
        """Appends to partitions led here; calls `on_done` once `required_acks` replicas have it."""
        if required_acks not in VALID_ACKS:
            on_done(dict.fromkeys(entries, _INVALID_ACKS))
            return
        results: dict[TopicPartition, PartitionResponse] = {}
        appended: list[tuple[TopicPartition, bool]] = []
        pending: dict[TopicPartition, int] = {}
        for topic_partition, records in entries.items():
            if topic_partition.topic in INTERNAL_TOPICS and not internal_topics_allowed:
                results[topic_partition] = _INTERNAL_TOPIC
                continue
            try:
                info, moved, is_replicated = self._hosted.require(topic_partition).append_as_leader(
                    records, required_acks=required_acks, origin=origin
                )
            except ApiError as error:
                results[topic_partition] = self._rejected(topic_partition, error)
                continue
            appended.append((topic_partition, moved))
            if not is_replicated and required_acks == ACKS_ALL:
                pending[topic_partition] = info.last_offset + 1
            results[topic_partition] = PartitionResponse(
                base_offset=info.first_offset,
                log_append_time_ms=info.log_append_time_ms,
                log_start_offset=info.log_start_offset,
            )
        if not pending:
            on_done(results)
        for topic_partition, moved in appended:
            self._waiters.on_append(topic_partition, high_watermark_advanced=moved)
        if pending:
            # Followers in this process usually have the records by now, and nothing waits.
            self._await_replicas(results, pending, on_done, timeout_ms)

    def delete_records(
        self, offsets: Mapping[TopicPartition, int], on_done: OnDeleted, *, timeout_ms: float
    ) -> None:
        """Deletes records before the offsets (-1: the high watermark), here and on followers."""
        results: dict[TopicPartition, DeletedRecords] = {}
        pending: dict[TopicPartition, int] = {}
        for topic_partition, offset in offsets.items():
            try:
                if topic_partition.topic in INTERNAL_TOPICS:
                    raise ApiError(
                        ErrorCode.INVALID_TOPIC_EXCEPTION, f"{topic_partition.topic} is internal"
                    )
                partition = self._hosted.require(topic_partition)
                requested, low_watermark = partition.delete_records(offset)
            except ApiError as error:
                _LOG.info("Cannot delete records of %s: %s", topic_partition, error)
                results[topic_partition] = DeletedRecords(error=error.code)
                continue
            results[topic_partition] = DeletedRecords(low_watermark=low_watermark)
            if low_watermark < requested:
                pending[topic_partition] = requested
        for topic_partition in pending:
            self._waiters.on_log_start(topic_partition)
        if not pending:
            on_done(results)
            return
        operation = DelayedDeleteRecords(
            timeout_ms,
            results,
            required_offsets=pending,
            require_partition=self._hosted.require,
            on_done=on_done,
        )
        self._waiters.delete_records.try_complete_else_watch(operation, list(pending))

    def _await_replicas(
        self,
        results: Mapping[TopicPartition, PartitionResponse],
        pending: Mapping[TopicPartition, int],
        on_done: OnProduced,
        timeout_ms: float,
    ) -> None:
        operation = DelayedProduce(
            timeout_ms,
            results,
            required_offsets=pending,
            require_partition=self._hosted.require,
            on_done=on_done,
        )
        self._waiters.produce.try_complete_else_watch(operation, list(pending))

    def _rejected(self, topic_partition: TopicPartition, error: ApiError) -> PartitionResponse:
        _LOG.debug("Refused an append to %s: %s", topic_partition, error)
        partition = self._hosted.find(topic_partition)
        log = partition.log if partition else None
        log_start_offset = NO_OFFSET
        if log is not None and error.code not in _WITHOUT_LOG_START:
            log_start_offset = log.log_start_offset
        if isinstance(error, RecordsRejected):
            return PartitionResponse(
                error=error.code,
                log_start_offset=log_start_offset,
                record_errors=error.record_errors,
                error_message=error.message,
            )
        return PartitionResponse(error=error.code, log_start_offset=log_start_offset)


_INVALID_ACKS: Final = PartitionResponse(error=ErrorCode.INVALID_REQUIRED_ACKS)
_INTERNAL_TOPIC: Final = PartitionResponse(error=ErrorCode.INVALID_TOPIC_EXCEPTION)
