"""The partitions that a broker follows from one leader, and a round of fetching them.

Owner: the thread that runs the rounds; `fetcher_loop` passes it the requests of other threads
(follow, unfollow). Only `Partition` changes logs, and it refuses an old leader epoch, so a leader
change during a round does no harm.
Invariants: a partition is always fetched from its log end.
Not here: when to run a round (`fetcher_loop`), and how to reach the leader (`leader_endpoint`).

A followed partition is
- TRUNCATING: its log may have records that the leader does not have. The follower asks the leader
  for the end of its last epoch or, without epochs, truncates to the high watermark.
- FETCHING: the leader detects divergence on every fetch.
- FAILED: it waits for a newer leader epoch, or forever if the disk failed. An unexpected exception
  ends here too, so that the other partitions are still followed. The leader drops it from the ISR
  when it falls behind.
After an error the partition is delayed; the loop keeps the time.
"""

import logging
import uuid
from collections.abc import Callable, Iterable, Sequence
from enum import Enum, auto
from typing import Final

from embedkafka.broker.log.log import Log
from embedkafka.broker.replica.fetch import EpochEnd, PartitionData, PartitionFetch, bytes_of
from embedkafka.broker.replica.following.leader_endpoint import LeaderEndPoint, LeaderUnavailable
from embedkafka.broker.replica.following.truncation import truncation_for
from embedkafka.broker.replica.partition.partition import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    Partition,
)
from embedkafka.broker.replica.quota import ReplicationQuota
from embedkafka.runtime.ids import NO_LEADER_EPOCH, NO_OFFSET, TopicPartition
from embedkafka.runtime.values import dataclass, field
from embedkafka.wire.protocol.errors import ApiError, ErrorCode

_LOG = logging.getLogger(__name__)


class FollowState(Enum):
    TRUNCATING = auto()
    FETCHING = auto()
    FAILED = auto()


# Errors of our partition that mean our role changed during the fetch.
_OVERTAKEN: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
    }
)


class Followed:
    """A followed partition in one leader epoch."""

    __slots__ = (
        "fetch_offset",
        "is_in_sync",
        "last_fetched_epoch",
        "leader_epoch",
        "partition",
        "state",
        "topic_id",
        "topic_partition",
    )

    def __init__(self, partition: Partition, *, leader_epoch: int, topic_id: uuid.UUID) -> None:
        self.topic_partition = partition.topic_partition
        self.partition = partition
        self.leader_epoch = leader_epoch
        self.topic_id = topic_id
        self.state = FollowState.TRUNCATING
        self.fetch_offset = NO_OFFSET
        self.is_in_sync = False
        self.last_fetched_epoch = NO_LEADER_EPOCH

    def position_at(self, log: Log) -> None:
        """Continues from the end of the log."""
        self.fetch_offset = log.log_end_offset
        self.last_fetched_epoch = log.latest_epoch


@dataclass(slots=True)
class Round:
    """The work that a round leaves.

    `again` and `moved` are due at once; `moved` got records, and goes last so that busy partitions
    do not delay the others. `put_off` had errors. `unsettled` have records that the leader has not
    committed. `size` is what was fetched, in bytes.
    """

    again: list[TopicPartition] = field(default_factory=list)
    moved: list[TopicPartition] = field(default_factory=list)
    put_off: list[TopicPartition] = field(default_factory=list)
    unsettled: list[TopicPartition] = field(default_factory=list)
    size: int = 0


class ReplicaFetcher:
    """Fetches the followed partitions from their leader, one round at a time."""

    def __init__(
        self,
        endpoint: LeaderEndPoint,
        *,
        max_bytes: int,
        on_progress: Callable[[TopicPartition], None],
        on_failure: Callable[[TopicPartition, Exception], None],
        truncates_on_fetch: bool,
        quota: ReplicationQuota,
    ) -> None:
        self.endpoint = endpoint
        self._max_bytes = max_bytes
        self._on_progress = on_progress
        self._on_failure = on_failure
        self._truncates_on_fetch = truncates_on_fetch
        self._quota = quota
        self._followed: dict[TopicPartition, Followed] = {}

    @property
    def is_idle(self) -> bool:
        return not self._followed

    def find_state(self, topic_partition: TopicPartition) -> FollowState | None:
        followed = self._followed.get(topic_partition)
        return followed.state if followed else None

    def follow(self, followed: Followed) -> None:
        self._followed[followed.topic_partition] = followed

    def unfollow(self, topic_partition: TopicPartition) -> None:
        if self._followed.pop(topic_partition, None) is not None:
            self.endpoint.forget(topic_partition)

    def run_round(self, due: Iterable[TopicPartition]) -> Round:
        """Truncates where necessary, fetches all of `due` in one request, and appends.

        If fetches do not wait at the leader, the follower reports its new position at once.
        """
        left = Round()
        self._fetch(self._begin(due, left), left)
        if left.moved and self.endpoint.wakes:
            moved, left.moved = left.moved, []
            self._fetch([self._followed[topic_partition] for topic_partition in moved], left)
        return left

    def _begin(self, due: Iterable[TopicPartition], left: Round) -> list[Followed]:
        """The partitions of `due` that can be fetched now."""
        ready = []
        for topic_partition in due:
            followed = self._followed.get(topic_partition)
            if followed is None:
                continue
            if followed.state is FollowState.TRUNCATING:
                self._start(followed, left)
            if followed.state is FollowState.FETCHING:
                ready.append(followed)
        return ready

    def _fetch(self, wanted: Sequence[Followed], left: Round) -> None:
        todo = []
        for followed in wanted:
            if self._is_held_back(followed):
                left.put_off.append(followed.topic_partition)
            else:
                todo.append(followed)
        if not todo:
            return
        try:
            answers = self.endpoint.fetch([self._request(followed) for followed in todo])
        except LeaderUnavailable as error:
            _LOG.debug("%s", error)
            left.put_off += [followed.topic_partition for followed in todo]
            return
        for answer in answers:
            self._take(self._followed[answer.topic_partition], answer, left)
        if len(answers) < len(todo):
            # In a session the leader omits unchanged partitions (KIP-227).
            answered = {answer.topic_partition for answer in answers}
            left.again += [
                followed.topic_partition
                for followed in todo
                if followed.topic_partition not in answered
            ]

    # -- one partition

    def _is_held_back(self, followed: Followed) -> bool:
        """Whether the throttle delays this partition (KIP-73)."""
        return (
            not followed.is_in_sync
            and followed.partition.is_throttled_as_follower
            and self._quota.is_exceeded()
        )

    def _request(self, followed: Followed) -> PartitionFetch:
        log = followed.partition.log
        return PartitionFetch(
            followed.topic_partition,
            followed.fetch_offset,
            self._max_bytes,
            log.log_start_offset if log is not None else NO_OFFSET,
            followed.leader_epoch,
            followed.last_fetched_epoch if self._truncates_on_fetch else NO_LEADER_EPOCH,
            followed.topic_id,
        )

    def _take(self, followed: Followed, answer: PartitionData, left: Round) -> None:
        try:
            if answer.diverging_epoch is not None:
                self._truncate(followed, answer.diverging_epoch)
                left.again.append(followed.topic_partition)
            elif answer.error is ErrorCode.NONE:
                self._append(followed, answer, left)
            elif answer.error is ErrorCode.OFFSET_OUT_OF_RANGE:
                self._restart(followed, left)
            else:
                self._on_leader_error(followed, answer.error, left)
        except ApiError as error:
            self._on_own_error(followed, error, left)
        except OSError as error:
            # A leader in this process hands over a range of its file, not the bytes.
            _LOG.info("%s cannot be read from its leader: %s", followed.topic_partition, error)
            left.put_off.append(followed.topic_partition)
        except Exception as error:  # a bug of ours: record it and give up this partition only
            self._give_up(followed, error)

    def _append(self, followed: Followed, answer: PartitionData, left: Round) -> None:
        topic_partition, partition = followed.topic_partition, followed.partition
        moved = False
        left.size += answer.size
        if partition.has_news_of(answer):
            log, moved = partition.append_as_follower(
                bytes_of(answer.records),
                leader_epoch=followed.leader_epoch,
                high_watermark=answer.high_watermark,
                log_start_offset=answer.log_start_offset,
            )
            self._on_progress(topic_partition)
            if partition.is_throttled_as_follower:
                self._quota.record(answer.size)
            if moved:
                # The leader needs this position for acknowledgements or deleted records.
                followed.position_at(log)
        followed.is_in_sync = followed.fetch_offset >= answer.high_watermark
        if moved:
            left.moved.append(topic_partition)
        elif not self.endpoint.wakes:
            left.again.append(topic_partition)
        elif not followed.is_in_sync:
            left.put_off.append(topic_partition)  # the leader throttles it
        elif answer.high_watermark < followed.fetch_offset:
            left.unsettled.append(topic_partition)

    def _start(self, followed: Followed, left: Round) -> None:
        """Truncates a TRUNCATING partition until it can be fetched."""
        log = followed.partition.log
        if log is None:
            self._fail(followed, "it is no longer hosted")
            return
        try:
            if log.latest_epoch == NO_LEADER_EPOCH:
                self._cut(followed, log.high_watermark)
            elif self._truncates_on_fetch:
                followed.position_at(log)
            elif not self._compare_epochs(followed, log, left):
                return
        except ApiError as error:
            self._on_own_error(followed, error, left)
            return
        except LeaderUnavailable:
            left.put_off.append(followed.topic_partition)
            return
        except Exception as error:  # as in `_take`
            self._give_up(followed, error)
            return
        followed.state = FollowState.FETCHING

    def _compare_epochs(self, followed: Followed, log: Log, left: Round) -> bool:
        """Truncates by OffsetForLeaderEpoch; True when the logs agree."""
        try:
            leader_end = self.endpoint.end_offset_for_epoch(
                followed.topic_partition, log.latest_epoch, followed.leader_epoch
            )
        except ApiError as error:
            self._on_leader_error(followed, error.code, left)
            return False
        if followed.fetch_offset == NO_OFFSET:
            followed.fetch_offset = log.high_watermark
        if self._truncate(followed, leader_end):
            return True
        left.again.append(followed.topic_partition)
        return False

    def _truncate(self, followed: Followed, leader_end: EpochEnd) -> bool:
        """Removes records that the leader lacks; True when no further comparison is needed."""
        partition = followed.partition
        own_end = partition.end_offset_for_epoch(leader_end.epoch, only_leader=False)
        truncation = truncation_for(
            leader_end,
            own_end,
            fetch_offset=followed.fetch_offset,
            log_end_offset=partition.require_log().log_end_offset,
        )
        self._cut(followed, truncation.offset)
        return truncation.is_complete

    def _cut(self, followed: Followed, offset: int) -> None:
        log = followed.partition.truncate_to(offset, leader_epoch=followed.leader_epoch)
        followed.position_at(log)

    def _restart(self, followed: Followed, left: Round) -> None:
        """The leader does not have the offset.

        If this log is longer than the leader's, an unclean election lost records: truncate. If it
        ends before the leader's log start, nothing here is of use: start over.
        """
        topic_partition, epoch = followed.topic_partition, followed.leader_epoch
        log_end_offset = followed.partition.require_log().log_end_offset
        try:
            leader_end = self.endpoint.find_offset(topic_partition, LATEST_TIMESTAMP, epoch)
            leader_start = self.endpoint.find_offset(topic_partition, EARLIEST_TIMESTAMP, epoch)
        except ApiError as error:
            self._on_leader_error(followed, error.code, left)
            return
        except LeaderUnavailable:
            left.put_off.append(topic_partition)
            return
        if leader_end < log_end_offset:
            _LOG.warning("%s goes back from %d to %d", topic_partition, log_end_offset, leader_end)
            self._cut(followed, leader_end)
        elif leader_start > log_end_offset:
            _LOG.warning("%s starts over at %d", topic_partition, leader_start)
            followed.position_at(
                followed.partition.truncate_fully_and_start_at(leader_start, leader_epoch=epoch)
            )
        left.again.append(topic_partition)

    # -- errors

    def _on_leader_error(self, followed: Followed, error: ErrorCode, left: Round) -> None:
        if error is ErrorCode.FENCED_LEADER_EPOCH:
            self._fail(followed, "the leader has a newer epoch")
        else:
            _LOG.info("%s will be fetched again later: %s", followed.topic_partition, error.name)
            left.put_off.append(followed.topic_partition)

    def _on_own_error(self, followed: Followed, error: ApiError, left: Round) -> None:
        if error.code in _OVERTAKEN:
            self._fail(followed, "its role changed")
        else:
            # Also a disk error: the broker takes the partition offline if the disk failed.
            _LOG.warning("%s cannot take its leader's records: %s", followed.topic_partition, error)
            left.put_off.append(followed.topic_partition)

    def _give_up(self, followed: Followed, error: Exception) -> None:
        self._fail(followed, repr(error))
        self._on_failure(followed.topic_partition, error)

    def _fail(self, followed: Followed, reason: str) -> None:
        _LOG.info(
            "%s is no longer fetched in epoch %d: %s",
            followed.topic_partition,
            followed.leader_epoch,
            reason,
        )
        followed.state = FollowState.FAILED
