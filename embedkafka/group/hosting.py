"""The shards that this broker leads: loading them, carrying out their decisions, letting go.

Owner: the `coordinator` loop; other threads only post to it.
Invariants: a shard answers only when its log has been replayed to the end, and who came before
that waits a moment; a timer that was replaced or cancelled is never delivered; whatever a shard
still owes when it is let go is answered, but sets no timer and writes nothing.
Not here: what to decide (`shard.py`) and what requests look like (`service.py`).
"""

import logging
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from functools import partial

from embedkafka.group.decision import CancelTimer, Decision, SetTimer, Stored, TimerKey, Write
from embedkafka.group.ports import (
    CoordinatorLoop,
    CoordinatorTimer,
    OffsetsLeaders,
    PartitionReader,
    PartitionWriter,
    TimerTask,
)
from embedkafka.group.records import OFFSETS_TOPIC
from embedkafka.group.shard import Shard
from embedkafka.protocol.errors import ApiError, ErrorCode
from embedkafka.purgatory.arrivals import Arrivals
from embedkafka.records.batch import read_batches
from embedkafka.records.builder import build_batch
from embedkafka.runtime.clock import Clock
from embedkafka.runtime.ids import TopicPartition

_LOG = logging.getLogger(__name__)


class _Phase(Enum):
    LOADING = "loading"
    ACTIVE = "active"
    RELEASED = "released"


class HostedShard:
    """A shard with the leader epoch it is held under and its running timers."""

    __slots__ = ("epoch", "phase", "shard", "timers")

    def __init__(self, shard: Shard, epoch: int) -> None:
        self.shard = shard
        self.epoch = epoch
        self.phase = _Phase.LOADING
        self.timers: dict[TimerKey, TimerTask] = {}

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(OFFSETS_TOPIC, self.shard.partition)


class ShardHost:
    """Holds shards by partition; every method but `post` runs on the loop."""

    def __init__(
        self,
        *,
        new_shard: Callable[[int], Shard],
        loop: CoordinatorLoop,
        clock: Clock,
        timer: CoordinatorTimer,
        writer: PartitionWriter,
        reader: PartitionReader,
        leaders: OffsetsLeaders | None,
    ) -> None:
        """Without `leaders` a partition is thought to be led elsewhere until it is led here."""
        self._new_shard = new_shard
        self._loop = loop
        self._clock = clock
        self._timer = timer
        self._writer = writer
        self._reader = reader
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

    def when_settled(self, partitions: Iterable[int], action: Callable[[], None]) -> None:
        """Runs `action` when the shards can answer or are known not to be here, or after a while.

        Kafka refuses at once, with errors that have the client try again after a back-off.
        """
        self._loop.assert_inside()
        unsettled = {partition for partition in partitions if not self._is_settled(partition)}
        if unsettled:
            self._arrivals.wait(unsettled, action)
        else:
            action()

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
        """Begins to load the partition; a newer epoch of a shard at hand is only noted."""
        self._loop.assert_inside()
        hosted = self._hosted.get(partition)
        if hosted is not None:
            hosted.epoch = max(hosted.epoch, epoch)
            return
        hosted = self._hosted[partition] = HostedShard(self._new_shard(partition), epoch)
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
        del self._hosted[hosted.shard.partition]
        hosted.phase = _Phase.RELEASED
        self._arrivals.settle(hosted.shard.partition)

    def resign(self, partition: int, epoch: int | None) -> None:
        """Lets the shard go, unless it is held under a newer epoch already."""
        self._loop.assert_inside()
        hosted = self._hosted.get(partition)
        if hosted is None or (epoch is not None and epoch < hosted.epoch):
            return
        del self._hosted[partition]
        for task in hosted.timers.values():
            task.cancel()
        hosted.timers.clear()
        hosted.phase = _Phase.RELEASED
        self.carry_out(hosted, hosted.shard.on_unloaded(now_ms=self._clock.now_ms()))
        self._arrivals.settle(partition)

    def resign_all(self) -> None:
        for partition in list(self._hosted):
            self.resign(partition, None)
        self._arrivals.settle_all()

    # Decisions

    def carry_out(self, hosted: HostedShard, decision: Decision) -> None:
        self._loop.assert_inside()
        if hosted.phase is _Phase.ACTIVE:
            for change in decision.timers:
                match change:
                    case SetTimer():
                        self._set_timer(hosted, change)
                    case CancelTimer():
                        self._cancel_timer(hosted, change.key)
        for write in decision.writes:
            self._append(hosted, write)
        for answer in decision.answers:
            answer.to(answer.response)

    def _set_timer(self, hosted: HostedShard, change: SetTimer) -> None:
        if change.if_absent and change.key in hosted.timers:
            return
        self._cancel_timer(hosted, change.key)
        ticket: list[TimerTask] = []
        due = partial(self._on_timer, hosted, change.key, ticket)
        task = self._timer.add(change.delay_ms, partial(self._loop.post, due))
        ticket.append(task)
        hosted.timers[change.key] = task

    def _cancel_timer(self, hosted: HostedShard, key: TimerKey) -> None:
        task = hosted.timers.pop(key, None)
        if task is not None:
            task.cancel()

    def _on_timer(self, hosted: HostedShard, key: TimerKey, ticket: list[TimerTask]) -> None:
        """Delivers a timer, unless it was replaced while this event was in the queue."""
        if hosted.phase is not _Phase.ACTIVE or hosted.timers.get(key) not in ticket:
            return
        del hosted.timers[key]
        self.carry_out(hosted, hosted.shard.on_timer(key, now_ms=self._clock.now_ms()))

    def _append(self, hosted: HostedShard, write: Write) -> None:
        on_done = partial(self._post_appended, hosted, write)
        if hosted.phase is not _Phase.ACTIVE:
            on_done(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
            return
        now_ms = self._clock.now_ms()
        records = [(now_ms, record.key, record.value, ()) for record in write.records]
        producer = write.producer
        if producer is None:
            batch = build_batch(records)
        else:
            batch = build_batch(
                records,
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                transactional=True,
            )
        self._writer.append(hosted.topic_partition, batch, on_done)

    def _post_appended(
        self, hosted: HostedShard, write: Write, error: ErrorCode, base_offset: int
    ) -> None:
        self._loop.post(partial(self._on_appended, hosted, write, error, base_offset))

    def _on_appended(
        self, hosted: HostedShard, write: Write, error: ErrorCode, base_offset: int
    ) -> None:
        stored = Stored(error, base_offset, self._clock.now_ms())
        self.carry_out(hosted, write.on_stored(stored))
