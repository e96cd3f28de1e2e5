"""A leader in another process: Fetch, OffsetForLeaderEpoch and ListOffsets on the wire.

Owner: the fetching thread; other threads may call `close`, which ends a call in progress.
Invariants: one connection at a time; after a failure the next call opens a new one.
Not here: the partitions that a fetch must list (`follower_session`).
"""

import uuid
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from embedkafka.broker.log.reads import NO_RECORDS
from embedkafka.broker.replica.config import ReplicaConfig
from embedkafka.broker.replica.fetch import EpochEnd, PartitionData, PartitionFetch
from embedkafka.broker.replica.following.follower_session import FollowerSession, SessionFetch
from embedkafka.broker.replica.following.leader_endpoint import LeaderUnavailable
from embedkafka.runtime.ids import BrokerId, TopicPartition
from embedkafka.wire.net.client import BrokerClient
from embedkafka.wire.protocol.errors import ApiError, ErrorCode
from embedkafka.wire.protocol.messages.core import (
    FetchRequest,
    FetchResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)

FETCH_BY_ID: Final = 17
FETCH_BY_NAME: Final = 12
LIST_OFFSETS: Final = 7
OFFSET_FOR_LEADER_EPOCH: Final = 4

_NO_DIVERGENCE: Final = FetchResponse.Topic.Partition.EpochEndOffset()


class RemoteLeader:
    """Talks to the leader's broker through the client that `connect` opens.

    `connect` raises `LeaderUnavailable` if it does not know the broker's address. Fetches carry the
    follower's `broker_epoch` (KIP-903).
    """

    wakes = False

    def __init__(
        self,
        leader_id: BrokerId,
        follower_id: BrokerId,
        connect: Callable[[BrokerId], BrokerClient],
        config: ReplicaConfig,
        broker_epoch: Callable[[], int],
    ) -> None:
        self._leader_id = leader_id
        self._follower_id = follower_id
        self._connect = connect
        self._config = config
        self._broker_epoch = broker_epoch
        self._session = FollowerSession()
        self._client: BrokerClient | None = None
        self._open = True

    def fetch(self, partitions: Sequence[PartitionFetch]) -> Sequence[PartitionData]:
        fetch = self._session.begin(partitions)
        try:
            response: FetchResponse = self._call(
                self._fetch_request(fetch), FETCH_BY_ID if fetch.by_id else FETCH_BY_NAME
            )
        except LeaderUnavailable:
            self._session.reset()
            raise
        if response.error_code:
            self._on_refusal(_error(response.error_code))
            return ()
        self._session.accept(response.session_id)
        names = {request.topic_id: request.topic_partition.topic for request in partitions}
        return [
            _partition_data(names[topic.topic_id] if fetch.by_id else topic.topic, partition)
            for topic in response.responses
            for partition in topic.partitions
        ]

    def end_offset_for_epoch(
        self, topic_partition: TopicPartition, epoch: int, current_leader_epoch: int
    ) -> EpochEnd:
        request = OffsetForLeaderEpochRequest(
            replica_id=self._follower_id,
            topics=[
                OffsetForLeaderEpochRequest.Topic(
                    topic=topic_partition.topic,
                    partitions=[
                        OffsetForLeaderEpochRequest.Topic.Partition(
                            partition=topic_partition.partition,
                            current_leader_epoch=current_leader_epoch,
                            leader_epoch=epoch,
                        )
                    ],
                )
            ],
        )
        response: OffsetForLeaderEpochResponse = self._call(request, OFFSET_FOR_LEADER_EPOCH)
        partition = response.topics[0].partitions[0]
        _raise_on_error(partition.error_code, topic_partition)
        return EpochEnd(partition.leader_epoch, partition.end_offset)

    def find_offset(
        self, topic_partition: TopicPartition, timestamp: int, current_leader_epoch: int
    ) -> int:
        request = ListOffsetsRequest(
            replica_id=self._follower_id,
            topics=[
                ListOffsetsRequest.Topic(
                    name=topic_partition.topic,
                    partitions=[
                        ListOffsetsRequest.Topic.Partition(
                            partition_index=topic_partition.partition,
                            current_leader_epoch=current_leader_epoch,
                            timestamp=timestamp,
                        )
                    ],
                )
            ],
        )
        response: ListOffsetsResponse = self._call(request, LIST_OFFSETS)
        partition = response.topics[0].partitions[0]
        _raise_on_error(partition.error_code, topic_partition)
        return partition.offset

    def forget(self, topic_partition: TopicPartition) -> None:
        """The next fetch omits it, and the leader's session drops it."""

    def close(self) -> None:
        self._open = False
        client = self._client
        if client is not None:
            client.close()

    def _call(self, request: object, version: int) -> Any:  # the response's class varies
        try:
            return self._require_client().call(request, version)
        except OSError as error:
            raise LeaderUnavailable(f"broker {self._leader_id}: {error}") from error

    def _require_client(self) -> BrokerClient:
        if not self._open:
            raise LeaderUnavailable(f"broker {self._leader_id} is no longer followed")
        if self._client is None or self._client.is_closed:
            self._client = self._connect(self._leader_id)
        return self._client

    def _on_refusal(self, error: ErrorCode) -> None:
        if not self._session.refuse(error):
            raise LeaderUnavailable(f"broker {self._leader_id} refused a fetch: {error.name}")

    def _fetch_request(self, fetch: SessionFetch) -> FetchRequest:
        return FetchRequest(
            replica_id=self._follower_id,
            replica_state=FetchRequest.ReplicaState(
                replica_id=self._follower_id, replica_epoch=self._broker_epoch()
            ),
            max_wait_ms=self._config.replica_fetch_wait_max_ms,
            min_bytes=self._config.replica_fetch_min_bytes,
            max_bytes=self._config.replica_fetch_response_max_bytes,
            session_id=fetch.session_id,
            session_epoch=fetch.epoch,
            topics=[
                FetchRequest.Topic(
                    topic=topic,
                    topic_id=topic_id,
                    partitions=[_fetch_partition(request) for request in group],
                )
                for (topic, topic_id), group in _by_topic(fetch.changed)
            ],
            forgotten_topics_data=[
                FetchRequest.ForgottenTopic(
                    topic=topic,
                    topic_id=topic_id,
                    partitions=[request.topic_partition.partition for request in group],
                )
                for (topic, topic_id), group in _by_topic(fetch.forgotten)
            ],
        )


_ERRORS: Final = {error.value: error for error in ErrorCode}


def _error(code: int) -> ErrorCode:
    """UNKNOWN_SERVER_ERROR for codes that only newer brokers know."""
    return _ERRORS.get(code, ErrorCode.UNKNOWN_SERVER_ERROR)


def _raise_on_error(code: int, topic_partition: TopicPartition) -> None:
    if code:
        raise ApiError(_error(code), f"{topic_partition} at its leader")


def _by_topic(
    partitions: Iterable[PartitionFetch],
) -> Iterable[tuple[tuple[str, uuid.UUID], list[PartitionFetch]]]:
    groups: dict[tuple[str, uuid.UUID], list[PartitionFetch]] = {}
    for request in partitions:
        key = (request.topic_partition.topic, request.topic_id)
        groups.setdefault(key, []).append(request)
    return groups.items()


def _fetch_partition(request: PartitionFetch) -> FetchRequest.Topic.Partition:
    return FetchRequest.Topic.Partition(
        partition=request.topic_partition.partition,
        current_leader_epoch=request.current_leader_epoch,
        fetch_offset=request.fetch_offset,
        last_fetched_epoch=request.last_fetched_epoch,
        log_start_offset=request.log_start_offset,
        partition_max_bytes=request.max_bytes,
    )


def _partition_data(topic: str, partition: FetchResponse.Topic.Partition) -> PartitionData:
    diverging = partition.diverging_epoch
    records = partition.records
    return PartitionData(
        topic_partition=TopicPartition(topic, partition.partition_index),
        error=_error(partition.error_code),
        high_watermark=partition.high_watermark,
        last_stable_offset=partition.last_stable_offset,
        log_start_offset=partition.log_start_offset,
        records=records if isinstance(records, memoryview) else NO_RECORDS,
        diverging_epoch=(
            None if diverging == _NO_DIVERGENCE else EpochEnd(diverging.epoch, diverging.end_offset)
        ),
    )
