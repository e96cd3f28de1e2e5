"""Serves fetches at once, or when there is enough to answer.

Invariants: nothing blocks; `on_done` is called exactly once. A follower's position is recorded when
its fetch arrives, and not again when a waiting fetch is answered.
Not here: fetch sessions (`fetch_session`), which select the partitions to send.
"""

from collections.abc import Callable, Sequence

from embedkafka.broker.replica.delayed import DelayedFetch
from embedkafka.broker.replica.fetch import FetchParams, PartitionData, PartitionFetch
from embedkafka.broker.replica.hosted import HostedPartitions
from embedkafka.broker.replica.isr_updates import IsrUpdates
from embedkafka.broker.replica.partition.partition import Partition
from embedkafka.broker.replica.partition.values import NO_EFFECTS, FollowerEffects
from embedkafka.broker.replica.partition_notifier import PartitionNotifier
from embedkafka.broker.replica.quota import ReplicationQuota
from embedkafka.broker.replica.replica_selector import ReplicaSelector
from embedkafka.runtime.failures import Failures
from embedkafka.runtime.ids import BrokerId
from embedkafka.wire.protocol.errors import ApiError, ErrorCode
from embedkafka.wire.protocol.wire_types import ZERO_UUID

OnFetched = Callable[[list[PartitionData]], None]


class FetchService:
    """Serves consumers and followers from the logs of this broker."""

    def __init__(
        self,
        hosted: HostedPartitions,
        waiters: PartitionNotifier,
        isr_updates: IsrUpdates,
        selector: ReplicaSelector | None,
        quota: ReplicationQuota,
        failures: Failures,
    ) -> None:
        self._hosted = hosted
        self._waiters = waiters
        self._isr_updates = isr_updates
        self._selector = selector
        self._quota = quota
        self._failures = failures
        self.bytes_out: dict[BrokerId, int] = {}
        """What each follower has fetched; it fetches one after the other, so none is lost."""

    def fetch_messages(
        self, params: FetchParams, partitions: Sequence[PartitionFetch], on_done: OnFetched
    ) -> None:
        """Answers now, or when `params.min_bytes` are there or `params.max_wait_ms` have passed."""
        if params.is_from_follower:
            answers = self._read_and_note(params, partitions)
        else:
            answers = self._read(params, partitions)
        if _must_answer_now(params, answers):
            on_done(answers)
            return
        operation = DelayedFetch(
            params,
            partitions,
            is_held_back=self._is_held_back,
            require_partition=self._hosted.require,
            read=self._read,
            on_done=on_done,
        )
        keys = [request.topic_partition for request in partitions]
        self._waiters.fetch.try_complete_else_watch(operation, keys)

    def read_as_follower(
        self, follower_id: BrokerId, broker_epoch: int, partitions: Sequence[PartitionFetch]
    ) -> list[PartitionData]:
        """Reads once for a follower in this process, each partition up to its limit."""
        answers: list[PartitionData] = []
        noted: list[tuple[Partition, FollowerEffects]] = []
        for request in partitions:
            try:
                partition = self._require(request)
                is_held_back = self._is_held_back(partition, follower_id)
                data, effects = partition.fetch_as_follower(
                    follower_id,
                    request,
                    max_bytes=0 if is_held_back else request.max_bytes,
                    min_one_message=not is_held_back,
                    broker_epoch=broker_epoch,
                )
            except Exception as error:
                answers.append(self._refused(request, error))
                continue
            self._count(partition, data, follower_id)
            answers.append(data)
            if effects is not NO_EFFECTS:
                noted.append((partition, effects))
        for partition, effects in noted:
            self._act_on(partition, effects)
        return answers

    def _read_and_note(
        self, params: FetchParams, partitions: Sequence[PartitionFetch]
    ) -> list[PartitionData]:
        """Reads for a follower on the wire, and records its positions."""
        noted: list[tuple[Partition, FollowerEffects]] = []

        def read(request: PartitionFetch, limit: int, min_one_message: bool) -> PartitionData:
            partition = self._require(request)
            is_held_back = self._is_held_back(partition, params.replica_id)
            data, effects = partition.fetch_as_follower(
                params.replica_id,
                request,
                max_bytes=0 if is_held_back else limit,
                min_one_message=min_one_message and not is_held_back,
                broker_epoch=params.broker_epoch,
            )
            self._count(partition, data, params.replica_id)
            noted.append((partition, effects))
            return data

        answers = self._read_within_limits(params, partitions, read)
        for partition, effects in noted:
            self._act_on(partition, effects)
        return answers

    def _read(
        self, params: FetchParams, partitions: Sequence[PartitionFetch]
    ) -> list[PartitionData]:
        def read(request: PartitionFetch, limit: int, min_one_message: bool) -> PartitionData:
            partition = self._require(request)
            preferred = self._find_preferred_replica(partition, params, request)
            if preferred is not None:
                return partition.redirect(request, preferred)
            is_held_back = self._is_held_back(partition, params.replica_id)
            data = partition.fetch(
                request,
                isolation=params.isolation,
                only_leader=params.only_leader,
                max_bytes=0 if is_held_back else limit,
                min_one_message=min_one_message and not is_held_back,
            )
            if params.is_from_follower:
                self._count(partition, data, params.replica_id)
            return data

        return self._read_within_limits(params, partitions, read)

    def _read_within_limits(
        self,
        params: FetchParams,
        partitions: Sequence[PartitionFetch],
        read: Callable[[PartitionFetch, int, bool], PartitionData],
    ) -> list[PartitionData]:
        """Reads in the request's order until its limit; the first batch may exceed it (KIP-74)."""
        left = params.max_bytes
        min_one_message = not params.hard_max_bytes
        answers: list[PartitionData] = []
        for request in partitions:
            try:
                data = read(request, min(request.max_bytes, left), min_one_message)
            except Exception as error:
                answers.append(self._refused(request, error))
                continue
            size = data.size
            if size:
                min_one_message = False
                left = max(0, left - size)
            answers.append(data)
        return answers

    def _refused(self, request: PartitionFetch, error: Exception) -> PartitionData:
        """The answer after an error. A bug affects one partition of a fetch only, as in Kafka."""
        if isinstance(error, ApiError):
            return PartitionData(request.topic_partition, error.code)
        broker_id = self._hosted.broker_id
        self._failures.record(f"broker {broker_id} reading {request.topic_partition}", error)
        return PartitionData(request.topic_partition, ErrorCode.UNKNOWN_SERVER_ERROR)

    def _require(self, request: PartitionFetch) -> Partition:
        partition = self._hosted.require(request.topic_partition)
        if request.topic_id != ZERO_UUID:
            partition.require_topic_id(request.topic_id)
        return partition

    def _find_preferred_replica(
        self, partition: Partition, params: FetchParams, request: PartitionFetch
    ) -> BrokerId | None:
        if self._selector is None or params.client_metadata is None or params.is_from_follower:
            return None
        replicas = partition.readable_replicas(request.fetch_offset)
        if not replicas:
            return None
        chosen = self._selector.select(params.client_metadata, replicas)
        return None if chosen is replicas[0] else chosen.broker_id

    def _is_held_back(self, partition: Partition, replica_id: BrokerId) -> bool:
        """Whether the quota delays a follower's records (KIP-73)."""
        return (
            replica_id >= 0
            and partition.is_throttled_as_leader
            and replica_id not in partition.isr
            and self._quota.is_exceeded()
        )

    def _count(self, partition: Partition, data: PartitionData, follower_id: BrokerId) -> None:
        size = data.size
        if size:
            self.bytes_out[follower_id] = self.bytes_out.get(follower_id, 0) + size
        if partition.is_throttled_as_leader:
            self._quota.record(data.size)

    def _act_on(self, partition: Partition, effects: FollowerEffects) -> None:
        if effects.proposal is not None:
            self._isr_updates.submit(partition, effects.proposal)
        if effects.high_watermark_advanced:
            self._waiters.on_high_watermark(partition.topic_partition)
        if effects.log_start_moved:
            self._waiters.on_follower_log_start(partition.topic_partition)


def _must_answer_now(params: FetchParams, answers: Sequence[PartitionData]) -> bool:
    return (
        params.max_wait_ms <= 0
        or not answers
        or sum(data.size for data in answers) >= params.min_bytes
        or any(
            data.error is not ErrorCode.NONE
            or data.diverging_epoch is not None
            or data.preferred_read_replica >= 0
            for data in answers
        )
    )
