"""The shards of the transaction log that this broker leads: loading, carrying out, letting go.

Owner: the `coordinator` loop; other threads only post to it.
Invariants: a shard answers only when its log has been replayed to the end; it lives under one
leader epoch, for that is the coordinator epoch in its markers: a newer one means loading anew.
Not here: what to decide (`shard.py`) and what requests look like (`service.py`).
"""

import logging
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from functools import partial
from typing import Final

from embedkafka.protocol.errors import ApiError, ErrorCode
from embedkafka.purgatory.arrivals import Arrivals
from embedkafka.records.batch import read_batches
from embedkafka.records.builder import build_batch
from embedkafka.runtime.clock import Clock
from embedkafka.runtime.ids import TopicPartition
from embedkafka.txn.config import TxnConfig
from embedkafka.txn.decision import Decision, Stored, Write
from embedkafka.txn.markers import MarkerOrder, Markers
from embedkafka.txn.ports import (
    CoordinatorLeaders,
    CoordinatorLoop,
    CoordinatorTimer,
    MarkerSender,
    PartitionReader,
    PartitionWriter,
)
from embedkafka.txn.records import TRANSACTION_TOPIC
from embedkafka.txn.shard import TxnShard

_LOG = logging.getLogger(__name__)

# How a refused append looks to the producer.
_STORE_ERRORS: Final[Mapping[ErrorCode, ErrorCode]] = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}


class _Phase(Enum):
    LOADING = "loading"
    ACTIVE = "active"
    RELEASED = "released"


class HostedShard:
    """A shard and how far it has come."""

    __slots__ = ("phase", "shard")

    def __init__(self, shard: TxnShard) -> None:
        self.shard = shard
        self.phase = _Phase.LOADING

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(TRANSACTION_TOPIC, self.shard.partition)


class ShardHost:
    """Holds shards by partition; every method runs on the loop."""

    def __init__(
        self,
        *,
        new_shard: Callable[[int, int], TxnShard],
        config: TxnConfig,
        loop: CoordinatorLoop,
        clock: Clock,
        timer: CoordinatorTimer,
        writer: PartitionWriter,
        reader: PartitionReader,
        markers: MarkerSender,
        leaders: CoordinatorLeaders | None,
    ) -> None:
        """Without `leaders` a partition is thought to be led elsewhere until it is led here."""
        self._new_shard = new_shard
        self._loop = loop
        self._clock = clock
        self._timer = timer
        self._writer = writer
        self._reader = reader
        self._retry_backoff_ms = config.retry_backoff_ms
        self._markers = Markers(
            sender=markers,
            loop=loop,
            timer=timer,
            retry_backoff_ms=config.retry_backoff_ms,
            on_marked=self._on_marked,
        )
        self._leaders = leaders
        self._hosted: dict[int, HostedShard] = {}
        self._arrivals = Arrivals(timer, loop.post)

    # Looking up

    def require(self, partition: int) -> HostedShard:
        """The shard, if it may answer; else ApiError with what to tell the client."""
        self._loop.assert_inside()
        hosted = self._hosted.get(partition)
        if hosted is None:
            raise ApiError(ErrorCode.NOT_COORDINATOR)
        if hosted.phase is _Phase.LOADING:
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return hosted

    def when_settled(self, partition: int, action: Callable[[], None]) -> None:
        """Runs `action` when the shard can answer or is known not to be here, or after a while.

        Kafka refuses at once, with errors that have the client try again after a back-off.
        """
        self._loop.assert_inside()
        if self._is_settled(partition):
            action()
        else:
            self._arrivals.wait([partition], action)

    def on_leaders_changed(self) -> None:
        """The broker has heard who leads the partitions."""
        for partition in self._arrivals.partitions:
            if self._is_settled(partition):
                self._arrivals.settle(partition)

    def _is_settled(self, partition: int) -> bool:
        hosted = self._hosted.get(partition)
        if hosted is not None:
            return hosted.phase is _Phase.ACTIVE
        return self._leaders is None or self._leaders.is_elsewhere(partition)

    def active(self) -> Iterator[HostedShard]:
        """All shards that may answer."""
        self._loop.assert_inside()
        hosted = list(self._hosted.values())
        return (one for one in hosted if one.phase is _Phase.ACTIVE)

    @property
    def is_loading(self) -> bool:
        return any(one.phase is _Phase.LOADING for one in self._hosted.values())

    # Leadership

    def lead(self, partition: int, epoch: int) -> None:
        """Loads the partition, anew if it is held under an older epoch."""
        self._loop.assert_inside()
        held = self._hosted.get(partition)
        if held is not None:
            if held.shard.coordinator_epoch >= epoch:
                return
            self._release(held)
        hosted = self._hosted[partition] = HostedShard(self._new_shard(partition, epoch))
        try:
            start = self._reader.log_start_offset(hosted.topic_partition)
        except ApiError as error:
            self._give_up(hosted, error)
            return
        self._load(hosted, start)

    def _load(self, hosted: HostedShard, offset: int) -> None:
        """Replays one read, then lets other events in before the next."""
        self._loop.assert_inside()
        if hosted.phase is not _Phase.LOADING:
            return
        next_offset = offset
        try:
            for batch in read_batches(self._reader.read(hosted.topic_partition, offset)):
                hosted.shard.replay_batch(batch)
                next_offset = batch.next_offset
        except ApiError as error:
            self._give_up(hosted, error)
            return
        if next_offset > offset:
            self._loop.post(partial(self._load, hosted, next_offset))
            return
        hosted.phase = _Phase.ACTIVE
        self.carry_out(hosted, hosted.shard.on_loaded(now_ms=self._clock.now_ms()))
        self._arrivals.settle(hosted.shard.partition)

    def _give_up(self, hosted: HostedShard, error: ApiError) -> None:
        # The log went away while loading, or is damaged: as in Kafka, the partition then has no
        # coordinator here, and clients are sent to look for one.
        _LOG.error("%s could not be loaded: %s", hosted.topic_partition, error)
        self._release(hosted)
        self._arrivals.settle(hosted.shard.partition)

    def resign(self, partition: int, epoch: int | None) -> None:
        """Lets the shard go, unless it is held under a newer epoch already."""
        self._loop.assert_inside()
        hosted = self._hosted.get(partition)
        if hosted is None or (epoch is not None and epoch < hosted.shard.coordinator_epoch):
            return
        self._release(hosted)
        self._arrivals.settle(partition)

    def resign_all(self) -> None:
        for partition in list(self._hosted):
            self.resign(partition, None)
        self._arrivals.settle_all()

    def _release(self, hosted: HostedShard) -> None:
        del self._hosted[hosted.shard.partition]
        hosted.phase = _Phase.RELEASED
        self._markers.cancel(hosted.shard.partition)

    # Decisions

    def carry_out(self, hosted: HostedShard, decision: Decision) -> None:
        self._loop.assert_inside()
        for write in decision.writes:
            self._append(hosted, write)
        for answer in decision.answers:
            answer.to(answer.response)
        if hosted.phase is not _Phase.ACTIVE:
            return
        for write in decision.retries:
            retry = partial(self._append, hosted, write)
            self._timer.add(self._retry_backoff_ms, partial(self._loop.post, retry))
        for transaction in decision.markers:
            order = MarkerOrder(
                transaction,
                shard_partition=hosted.shard.partition,
                coordinator_epoch=hosted.shard.coordinator_epoch,
            )
            self._markers.send(order)

    def _on_marked(self, order: MarkerOrder) -> None:
        hosted = self._hosted[order.shard_partition]
        decision = hosted.shard.on_marked(
            order.transaction.transactional_id, now_ms=self._clock.now_ms()
        )
        self.carry_out(hosted, decision)

    def _append(self, hosted: HostedShard, write: Write) -> None:
        def on_done(error: ErrorCode, base_offset: int) -> None:
            self._loop.post(partial(self._on_appended, hosted, write, error))

        if hosted.phase is not _Phase.ACTIVE:
            on_done(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
            return
        now_ms = self._clock.now_ms()
        batch = build_batch([(now_ms, r.key, r.value, ()) for r in write.records])
        self._writer.append(hosted.topic_partition, batch, on_done)

    def _on_appended(self, hosted: HostedShard, write: Write, error: ErrorCode) -> None:
        if hosted.phase is not _Phase.ACTIVE:
            # The record may count, but it is for the next coordinator to say so.
            error = ErrorCode.NOT_LEADER_OR_FOLLOWER
        stored = Stored(_STORE_ERRORS.get(error, error), self._clock.now_ms())
        self.carry_out(hosted, write.on_stored(stored))
