"""Hosts the shards that this broker leads: loads them, carries out their decisions, releases them.

Owner: the `coordinator` loop; every method runs there.
Invariants: a shard answers only after its log is replayed and the broker knows the cluster's
topics, or it would take them for deleted. Earlier requests wait a moment. A shard that fails to
load is loaded again later, from the start. A released shard answers its waiting requests, but it
writes nothing and has no effects; whether its last appends took effect is for the next
coordinator to say.
Not here: the decisions (a `CoordinatorShard`), the way onto the loop (`runtime.py`).
"""

import logging
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from functools import partial
from typing import Final, Generic, TypeVar

from embedkafka.broker.coordinator.decision import (
    Decision,
    Decisions,
    Stored,
    TransactionalProducer,
    Write,
)
from embedkafka.broker.coordinator.early_requests import EarlyRequests
from embedkafka.broker.coordinator.ports import (
    CoordinatorParts,
    CoordinatorShard,
    Effects,
    KnownLeaders,
)
from embedkafka.runtime.ids import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, TopicPartition
from embedkafka.wire.protocol.errors import ApiError, ErrorCode
from embedkafka.wire.records.batch import read_batches
from embedkafka.wire.records.builder import build_batch
from embedkafka.wire.records.compression import Compression

_LOG = logging.getLogger(__name__)

S = TypeVar("S", bound=CoordinatorShard)
E = TypeVar("E")

_NO_PRODUCER: Final = TransactionalProducer(NO_PRODUCER_ID, NO_PRODUCER_EPOCH)
_RELOAD_MS: Final = 1_000  # delay before a shard that failed to load is loaded again


class _Phase(Enum):
    LOADING = "loading"
    LOADED = "loaded"  # waits for the controller to announce all topics
    ACTIVE = "active"
    FAILED = "failed"
    RELEASED = "released"


class HostedShard(Generic[S]):
    """A shard, its leader epoch and its phase."""

    __slots__ = ("epoch", "phase", "shard", "topic_partition")

    def __init__(self, topic_partition: TopicPartition, shard: S, epoch: int) -> None:
        self.topic_partition = topic_partition
        self.shard = shard
        self.epoch = epoch
        self.phase = _Phase.LOADING

    @property
    def is_active(self) -> bool:
        return self.phase is _Phase.ACTIVE

    @property
    def is_loading(self) -> bool:
        """Whether the shard will answer soon."""
        return self.phase is _Phase.LOADING or self.phase is _Phase.LOADED


class ShardHost(Generic[S, E]):
    """Holds shards by partition."""

    def __init__(
        self,
        topic: str,
        parts: CoordinatorParts,
        *,
        leaders: KnownLeaders,
        new_shard: Callable[[int, int], S],
        effects: Effects[S, E],
        is_bound_to_epoch: bool,
        compression: Compression = Compression.NONE,
    ) -> None:
        """`new_shard` takes partition and leader epoch.

        `is_bound_to_epoch`: a newer leader epoch makes the host load the shard again.
        """
        self._topic = topic
        self._loop, self._clock, self._timer = parts.loop, parts.clock, parts.timer
        self._logs, self._failures = parts.logs, parts.failures
        self._leaders = leaders
        self._new_shard = new_shard
        self._effects = effects
        self._is_bound_to_epoch = is_bound_to_epoch
        self._compression = compression
        self._hosted: dict[int, HostedShard[S]] = {}
        self._arrivals = EarlyRequests(parts.timer, parts.loop.post)

    # Looking up

    def require(self, partition: int) -> HostedShard[S]:
        """The shard if it may answer, else raises ApiError with the client's error code."""
        self._loop.assert_inside()
        hosted = self._hosted.get(partition)
        if hosted is not None and hosted.is_active:
            return hosted
        if hosted is not None and hosted.is_loading:
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        raise ApiError(ErrorCode.NOT_COORDINATOR)

    def when_settled(self, partitions: Iterable[int], action: Callable[[], None]) -> None:
        """Runs `action` when each shard can answer or is known to be elsewhere, or after a while.

        Kafka refuses at once, and the client tries again after its back-off.
        """
        self._loop.assert_inside()
        unsettled = {partition for partition in partitions if not self._is_settled(partition)}
        if unsettled:
            self._arrivals.wait(unsettled, action)
        else:
            action()

    def on_leaders_changed(self) -> None:
        """The controller has announced leaders or topics."""
        for hosted in list(self._hosted.values()):
            if hosted.phase is _Phase.LOADED:
                self._activate(hosted)
        for partition in self._arrivals.partitions:
            if self._is_settled(partition):
                self._arrivals.settle(partition)

    def _is_settled(self, partition: int) -> bool:
        hosted = self._hosted.get(partition)
        return self._leaders.is_elsewhere(partition) if hosted is None else not hosted.is_loading

    def active(self) -> Iterator[HostedShard[S]]:
        """All shards that may answer."""
        self._loop.assert_inside()
        return (hosted for hosted in list(self._hosted.values()) if hosted.is_active)

    @property
    def is_loading(self) -> bool:
        return any(hosted.is_loading for hosted in self._hosted.values())

    # Leadership

    def lead(self, partition: int, epoch: int) -> None:
        """Starts to load the partition; a shard that needs no reload only takes the new epoch."""
        self._loop.assert_inside()
        held = self._hosted.get(partition)
        if held is not None:
            if not self._is_bound_to_epoch and held.phase is not _Phase.FAILED:
                held.epoch = max(held.epoch, epoch)
                return
            if held.epoch >= epoch:
                return
            self._release(held)
        self._begin_loading(TopicPartition(self._topic, partition), epoch)

    def _begin_loading(self, topic_partition: TopicPartition, epoch: int) -> None:
        partition = topic_partition.partition
        hosted = HostedShard(topic_partition, self._new_shard(partition, epoch), epoch)
        self._hosted[partition] = hosted
        try:
            start = self._logs.log_start_offset(topic_partition)
        except ApiError as error:
            self._fail(hosted, error)
            return
        self._load(hosted, start)

    def _load(self, hosted: HostedShard[S], offset: int) -> None:
        """Replays one read; other events run before the next."""
        self._loop.assert_inside()
        if not hosted.is_loading:
            return
        try:
            records = self._logs.read(hosted.topic_partition, offset)
        except ApiError as error:  # the log went away
            self._fail(hosted, error)
            return
        next_offset = offset
        try:
            for batch in read_batches(records):
                hosted.shard.replay_batch(batch)
                next_offset = batch.next_offset
        except Exception as error:  # raised again: the loop records it
            self._fail(hosted, error)
            raise
        if next_offset > offset:
            self._loop.post(partial(self._load, hosted, next_offset))
            return
        self._activate(hosted)

    def _activate(self, hosted: HostedShard[S]) -> None:
        """Lets a loaded shard answer if the broker knows the cluster's topics.

        A broker learns which partitions it leads before it learns of all topics. A coordinator
        that decided in between would take away partitions of topics that exist.
        """
        if not self._leaders.is_informed:
            hosted.phase = _Phase.LOADED
            return
        hosted.phase = _Phase.ACTIVE
        self.carry_out(hosted, hosted.shard.on_loaded(now_ms=self._clock.now_ms()))
        self._arrivals.settle(hosted.topic_partition.partition)

    def _fail(self, hosted: HostedShard[S], error: Exception) -> None:
        """As in Kafka, the partition has no coordinator now, and clients look for another one."""
        _LOG.error("%s could not be loaded: %r", hosted.topic_partition, error)
        hosted.phase = _Phase.FAILED
        self._arrivals.settle(hosted.topic_partition.partition)
        self._timer.add(_RELOAD_MS, partial(self._loop.post, partial(self._reload, hosted)))

    def _reload(self, hosted: HostedShard[S]) -> None:
        if hosted.phase is not _Phase.FAILED:
            return
        self._release(hosted)
        if not self._leaders.is_elsewhere(hosted.topic_partition.partition):
            self._begin_loading(hosted.topic_partition, hosted.epoch)

    def resign(self, partition: int, epoch: int | None) -> None:
        """Releases the shard, unless its epoch is newer."""
        self._loop.assert_inside()
        hosted = self._hosted.get(partition)
        if hosted is None or (epoch is not None and epoch < hosted.epoch):
            return
        self._release(hosted)
        self._arrivals.settle(partition)

    def resign_all(self) -> None:
        for partition in list(self._hosted):
            self.resign(partition, None)
        self._arrivals.settle_all()

    def _release(self, hosted: HostedShard[S]) -> None:
        del self._hosted[hosted.topic_partition.partition]
        hosted.phase = _Phase.RELEASED
        self._effects.cancel(hosted.topic_partition.partition)
        self.carry_out(hosted, hosted.shard.on_unloaded())

    # Decisions

    def carry_out(self, hosted: HostedShard[S], decision: Decision[E]) -> None:
        """Answers come last: an answered client may move the clock, so its timers must be set."""
        self._loop.assert_inside()
        if hosted.is_active:
            for effect in decision.effects:
                self._effects.carry_out(hosted.topic_partition.partition, hosted.shard, effect)
        for write in decision.writes:
            self._append_in_time(hosted, write)
        for answer in decision.answers:
            try:
                answer.to(answer.response)
            except Exception as error:  # the other clients must hear too; it is recorded
                where = f"{hosted.topic_partition} answering {type(answer.response).__name__}"
                self._failures.record(where, error)

    def _append_in_time(self, hosted: HostedShard[S], write: Write[E]) -> None:
        append = partial(self._append, hosted, write)
        if write.delay_ms:
            self._timer.add(write.delay_ms, partial(self._loop.post, append))
        else:
            append()

    def _append(self, hosted: HostedShard[S], write: Write[E]) -> None:
        def on_done(error: ErrorCode, base_offset: int) -> None:
            self._loop.post(partial(self._on_appended, hosted, write, error, base_offset))

        if not hosted.is_active:
            on_done(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
            return
        now_ms = self._clock.now_ms()
        records = [(now_ms, record.key, record.value, ()) for record in write.records]
        producer = write.producer or _NO_PRODUCER
        batch = build_batch(
            records,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            transactional=write.producer is not None,
            compression=self._compression,
        )
        self._logs.append(hosted.topic_partition, batch, on_done)

    def _on_appended(
        self, hosted: HostedShard[S], write: Write[E], error: ErrorCode, base_offset: int
    ) -> None:
        if not hosted.is_active:
            # The records may be stored; only the next coordinator can say so.
            error = ErrorCode.NOT_LEADER_OR_FOLLOWER
        stored = Stored(error, base_offset, self._clock.now_ms())
        out: Decisions[E] = Decisions()
        write.on_stored(stored, out)
        self.carry_out(hosted, out.done())
