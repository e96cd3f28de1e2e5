"""A partition on one broker: its log, and its role as leader or follower.

Owner: `Partition._lock` (rank 20) guards leadership, epochs and the leader's state.
Invariants: the leader epoch never goes back; requests for another leader epoch are refused.
Not here: completing delayed requests, and writing in-sync sets. Methods return the changes, and the
caller acts on them after the lock is released.
"""

import uuid
from collections.abc import Callable, Sequence
from typing import Final

from embedkafka.broker.log.log import AppendInfo, FetchDataInfo, FetchIsolation, Log
from embedkafka.broker.log.producers.entry import AppendOrigin
from embedkafka.broker.log.reads import NO_RECORDS
from embedkafka.broker.replica.fetch import EpochEnd, PartitionData, PartitionFetch
from embedkafka.broker.replica.partition.isr import FollowerProgress
from embedkafka.broker.replica.partition.leader_state import LeaderState
from embedkafka.broker.replica.partition.values import (
    NO_EFFECTS,
    FollowerEffects,
    IsrProposal,
    LeaderAndIsrPartitionState,
    OffsetAnswer,
    OffsetSearch,
    PartitionView,
    ReplicaView,
)
from embedkafka.broker.replica.quota import is_throttled
from embedkafka.runtime.clock import Clock
from embedkafka.runtime.ids import (
    NO_BROKER_EPOCH,
    NO_LEADER,
    NO_LEADER_EPOCH,
    NO_OFFSET,
    BrokerId,
    LeaderEpoch,
    TopicPartition,
)
from embedkafka.runtime.locks import PARTITION_RANK, ranked_lock
from embedkafka.wire.protocol.errors import ApiError, ErrorCode
from embedkafka.wire.protocol.wire_types import MAX_LONG
from embedkafka.zk.payloads import NO_ASSIGNMENT

ACKS_ALL: Final = -1
HIGH_WATERMARK: Final = -1

_MAX_TIME: Final = MAX_LONG
LATEST_TIMESTAMP: Final = -1
EARLIEST_TIMESTAMP: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL_TIMESTAMP: Final = -4
LATEST_TIERED_TIMESTAMP: Final = -5
EARLIEST_PENDING_UPLOAD_TIMESTAMP: Final = -6


class Partition:
    """A hosted replica. Single attributes may be read without the lock; they are replaced whole."""

    def __init__(
        self,
        topic_partition: TopicPartition,
        *,
        broker_id: BrokerId,
        clock: Clock,
        lag_time_max_ms: float,
        is_eligible: Callable[[BrokerId], bool],
    ) -> None:
        self.topic_partition = topic_partition
        self.broker_id = broker_id
        self.log: Log | None = None
        self.leader_id = NO_LEADER
        self.leader_epoch = LeaderEpoch(NO_LEADER_EPOCH)
        self.assignment = NO_ASSIGNMENT
        self._clock = clock
        self._lag_time_max_ms = lag_time_max_ms
        self._is_eligible = is_eligible
        self._lock = ranked_lock(f"partition {topic_partition}", PARTITION_RANK)
        self._partition_epoch = 0
        self._leading: LeaderState | None = None

    @property
    def is_leader(self) -> bool:
        return self._leading is not None

    @property
    def isr(self) -> tuple[BrokerId, ...]:
        """The in-sync set in the store; only the leader knows it."""
        leading = self._leading
        return () if leading is None else leading.isr

    @property
    def is_throttled_as_leader(self) -> bool:
        """Whether the quota counts records sent to followers that are out of sync."""
        log = self.log
        return log is not None and self._is_in(log.config.leader_replication_throttled_replicas)

    @property
    def is_throttled_as_follower(self) -> bool:
        """Whether the quota counts records fetched from the leader."""
        log = self.log
        return log is not None and self._is_in(log.config.follower_replication_throttled_replicas)

    def _is_in(self, throttled: Sequence[str]) -> bool:
        # Every fetch of a follower checks this, and the list is nearly always empty.
        return bool(throttled) and is_throttled(
            throttled, self.topic_partition.partition, self.broker_id
        )

    # -- leadership

    def make_leader(self, state: LeaderAndIsrPartitionState, log: Log) -> None:
        """Leads from `state.leader_epoch` on."""
        now_ms = self._clock.monotonic_ms()
        with self._lock:
            # After another leader's epoch followers may have truncated, so their positions count
            # only if this epoch is the next one. Kafka keeps them in any case.
            is_next = state.leader_epoch == self.leader_epoch + 1
            predecessor = self._leading if is_next else None
            self._enter_epoch(state, log)
            log.assign_epoch_start(state.leader_epoch, log.log_end_offset)
            self._leading = LeaderState(
                self.topic_partition,
                self.broker_id,
                state,
                log,
                lag_time_max_ms=self._lag_time_max_ms,
                is_eligible=self._is_eligible,
                now_ms=now_ms,
                predecessor=predecessor,
            )
            self._leading.advance_high_watermark(now_ms)

    def make_follower(self, state: LeaderAndIsrPartitionState, log: Log) -> None:
        """Follows `state.leader` from `state.leader_epoch` on."""
        with self._lock:
            self._leading = None
            self._enter_epoch(state, log)

    def stop(self) -> None:
        """Releases the log; later calls on this partition are refused."""
        with self._lock:
            self._leading = None
            self.leader_id = NO_LEADER
            self.log = None

    # -- the leader's log

    def append_as_leader(
        self, records: memoryview, *, required_acks: int, origin: AppendOrigin
    ) -> tuple[AppendInfo, bool, bool]:
        """Appends; returns whether the high watermark moved, and whether it passed the append."""
        with self._lock:
            log, leading = self._require_leading(NO_LEADER_EPOCH)
            if required_acks == ACKS_ALL and not leading.has_enough_replicas:
                raise ApiError(
                    ErrorCode.NOT_ENOUGH_REPLICAS,
                    f"{self.topic_partition}: {len(leading.isr)} in-sync replicas "
                    f"({', '.join(map(str, leading.isr))}), {leading.min_isr} required",
                )
            now_ms = self._clock.monotonic_ms()
            leading.note_append(now_ms)
            info = log.append_as_leader(records, leader_epoch=self.leader_epoch, origin=origin)
            moved = leading.advance_high_watermark(now_ms)
            return info, moved, log.high_watermark > info.last_offset

    def find_ack(self, required_offset: int) -> ErrorCode | None:
        """The result of an acks=all append up to `required_offset`; None while replicas lack it."""
        with self._lock:
            log, leading = self.log, self._leading
            if leading is None or log is None:
                return ErrorCode.NOT_LEADER_OR_FOLLOWER
            if log.high_watermark < required_offset:
                return None
            if not leading.has_kept_enough_replicas:
                return ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
            return ErrorCode.NONE

    def find_lacking(self, required_offset: int) -> dict[BrokerId, int]:
        """The replicas that keep an acks=all append from being committed, and their ends."""
        with self._lock:
            leading = self._leading
            return {} if leading is None else leading.find_lacking(required_offset)

    def find_undeleted(self, required_offset: int) -> dict[BrokerId, int]:
        """The live replicas whose log still starts before this offset, and where."""
        with self._lock:
            leading = self._leading
            return {} if leading is None else leading.find_undeleted(required_offset)

    def delete_records(self, offset: int) -> tuple[int, int]:
        """Moves the log start to `offset`; -1 means the high watermark.

        Returns the offset and the current low watermark.
        """
        with self._lock:
            log, leading = self._require_leading(NO_LEADER_EPOCH)
            if not log.config.deletes:
                raise ApiError(
                    ErrorCode.POLICY_VIOLATION, f"{self.topic_partition} is compacted only"
                )
            requested = log.high_watermark if offset == HIGH_WATERMARK else offset
            if not 0 <= requested <= log.high_watermark:
                raise ApiError(
                    ErrorCode.OFFSET_OUT_OF_RANGE,
                    f"{self.topic_partition}: cannot delete up to {requested}, "
                    f"the high watermark is {log.high_watermark}",
                )
            log.increment_log_start_offset(requested)
            return requested, leading.low_watermark()

    def require_low_watermark(self) -> int:
        """The smallest log start of all live replicas."""
        with self._lock:
            _, leading = self._require_leading(NO_LEADER_EPOCH)
            return leading.low_watermark()

    # -- reading

    def fetch(
        self,
        request: PartitionFetch,
        *,
        isolation: FetchIsolation,
        only_leader: bool,
        max_bytes: int,
        min_one_message: bool,
    ) -> PartitionData:
        """Reads for a consumer, or again for a follower whose position is recorded."""
        with self._lock:
            log = self._require_log(request.current_leader_epoch, only_leader=only_leader)
            diverging = _find_divergence(log, request)
            if diverging is not None:
                return self._answer(log, None, diverging)
            data = log.read(
                request.fetch_offset,
                max_bytes=max_bytes,
                isolation=isolation,
                min_one_message=min_one_message,
            )
            return self._answer(log, data, None)

    def fetch_as_follower(
        self,
        follower_id: BrokerId,
        request: PartitionFetch,
        *,
        max_bytes: int,
        min_one_message: bool,
        broker_epoch: int = NO_BROKER_EPOCH,
    ) -> tuple[PartitionData, FollowerEffects]:
        """Records the follower's position, and reads from there up to the log end."""
        now_ms = self._clock.monotonic_ms()
        with self._lock:
            log, leading = self._require_leading(request.current_leader_epoch)
            follower = self._require_follower(leading, follower_id, request)
            if broker_epoch != NO_BROKER_EPOCH:
                self._note_life(follower, broker_epoch)
            diverging = _find_divergence(log, request)
            if diverging is not None:
                return self._answer(log, None, diverging), NO_EFFECTS
            data = None
            if request.fetch_offset != log.log_end_offset:
                data = log.read(
                    request.fetch_offset,
                    max_bytes=max_bytes,
                    isolation=FetchIsolation.LOG_END,
                    min_one_message=min_one_message,
                )
            effects = leading.note_fetch(follower, request, now_ms)
            return self._answer(log, data, None), effects

    def find_available(
        self, request: PartitionFetch, *, isolation: FetchIsolation, only_leader: bool
    ) -> int | None:
        """The bytes that a waiting fetch would get; None if it must be answered now."""
        with self._lock:
            try:
                log = self._require_log(request.current_leader_epoch, only_leader=only_leader)
                if _find_divergence(log, request) is not None:
                    return None
                if request.fetch_offset >= log.end_offset_for(isolation):
                    return 0 if request.fetch_offset <= log.log_end_offset else None
                start = log.read(
                    request.fetch_offset, max_bytes=1, isolation=isolation, min_one_message=True
                ).fetch_offset
            except ApiError:
                return None
            end = log.offset_metadata(isolation)
            if end.segment_base_offset != start.segment_base_offset:
                return None  # a read stays within one segment, so waiting brings no more
            return min(end.position - start.position, request.max_bytes)

    def redirect(self, request: PartitionFetch, replica: BrokerId) -> PartitionData:
        """Sends a consumer to `replica` instead of reading here (KIP-392)."""
        with self._lock:
            log = self._require_log(request.current_leader_epoch, only_leader=True)
            return self._answer(log, None, None)._replace(preferred_read_replica=replica)

    def readable_replicas(self, fetch_offset: int) -> tuple[ReplicaView, ...]:
        """In-sync replicas that hold `fetch_offset`, the leader first; none unless leading."""
        now_ms = self._clock.monotonic_ms()
        with self._lock:
            leading = self._leading
            return () if leading is None else leading.readable_replicas(fetch_offset, now_ms)

    def behind_ms(self) -> dict[BrokerId, float]:
        """How long ago each follower last had all records, if it ever had, of one that leads."""
        now_ms = self._clock.monotonic_ms()
        with self._lock:
            return {} if self._leading is None else self._leading.behind_ms(now_ms)

    def find_offset(
        self,
        timestamp: int,
        *,
        isolation: FetchIsolation,
        current_leader_epoch: int = NO_LEADER_EPOCH,
        only_leader: bool = True,
    ) -> OffsetAnswer | None:
        """Completes `search_offset` on this thread; None if no record is that young."""
        found = self.search_offset(
            timestamp,
            isolation=isolation,
            current_leader_epoch=current_leader_epoch,
            only_leader=only_leader,
        )
        return found.finish() if isinstance(found, OffsetSearch) else found

    def search_offset(
        self,
        timestamp: int,
        *,
        isolation: FetchIsolation,
        current_leader_epoch: int = NO_LEADER_EPOCH,
        only_leader: bool = True,
    ) -> OffsetAnswer | OffsetSearch:
        """Serves ListOffsets: an end of the log, or the first offset at or after a time.

        Clients (any isolation but LOG_END) see nothing beyond the high watermark, and get no end
        offset until it has passed the records of earlier leaders (KIP-207).
        """
        with self._lock:
            log = self._require_log(current_leader_epoch, only_leader=only_leader)
            if timestamp in (EARLIEST_TIMESTAMP, EARLIEST_LOCAL_TIMESTAMP):
                start_offset = log.log_start_offset
                return OffsetAnswer(
                    timestamp=-1, offset=start_offset, leader_epoch=log.epoch_at(start_offset)
                )
            if timestamp in (LATEST_TIERED_TIMESTAMP, EARLIEST_PENDING_UPLOAD_TIMESTAMP):
                return OffsetAnswer(timestamp=-1, offset=NO_OFFSET, leader_epoch=NO_LEADER_EPOCH)
            end_offset = log.end_offset_for(isolation)
            if timestamp == LATEST_TIMESTAMP:
                self._require_settled(log, isolation)
                return OffsetAnswer(timestamp=-1, offset=end_offset, leader_epoch=self.leader_epoch)
            search = (
                log.search_max_timestamp()
                if timestamp == MAX_TIMESTAMP
                else log.search_timestamp(timestamp)
            )

        def finish() -> OffsetAnswer | None:
            found = None if search is None else search.finish()
            if found is not None and found.offset < end_offset:
                return OffsetAnswer(
                    timestamp=found.timestamp, offset=found.offset, leader_epoch=found.leader_epoch
                )
            with self._lock:
                self._require_settled(log, isolation)
            return None

        return OffsetSearch(is_slow=search is not None and search.is_slow, finish=finish)

    def find_segment_offsets(
        self, timestamp: int, *, max_count: int, isolation: FetchIsolation, only_leader: bool
    ) -> list[int]:
        """Serves ListOffsets v0: start offsets of segments up to a time, newest first."""
        with self._lock:
            log = self._require_log(NO_LEADER_EPOCH, only_leader=only_leader)
            if timestamp == EARLIEST_TIMESTAMP:
                offsets = [log.log_start_offset]
            else:
                latest = _MAX_TIME if timestamp == LATEST_TIMESTAMP else timestamp
                offsets = log.find_segment_offsets(latest)
            chosen = offsets[: max(max_count, 0)]
            end_offset = log.end_offset_for(isolation)
            visible = [offset for offset in chosen if offset <= end_offset]
            return visible if visible == chosen else [end_offset, *visible]

    def end_offset_for_epoch(
        self, epoch: int, *, current_leader_epoch: int = NO_LEADER_EPOCH, only_leader: bool = True
    ) -> EpochEnd:
        """The largest epoch up to `epoch` and its end; (-1, -1) if there is none."""
        with self._lock:
            log = self._require_log(current_leader_epoch, only_leader=only_leader)
            return _end_of_epoch(log, epoch)

    # -- the follower's log

    def append_as_follower(
        self, records: memoryview, *, leader_epoch: int, high_watermark: int, log_start_offset: int
    ) -> tuple[Log, bool]:
        """Appends records from the leader of `leader_epoch`, and adopts its offsets.

        The flag says whether an end of the log moved.
        """
        with self._lock:
            log = self._require_followed(leader_epoch)
            end_offset = log.log_end_offset
            if records:
                log.append_as_follower(records)
            moved = log.log_end_offset != end_offset
            if log.high_watermark != high_watermark:
                log.update_high_watermark(high_watermark)
            if log_start_offset > log.log_start_offset:
                moved |= log.increment_log_start_offset(log_start_offset)
            return log, moved

    def has_news_of(self, answer: PartitionData) -> bool:
        """Whether `append_as_follower` has anything to do. The fetch after an append only reports
        the follower's position, and mostly brings nothing."""
        log = self.log
        return (
            log is None
            or answer.size > 0
            or answer.high_watermark != log.high_watermark
            or answer.log_start_offset > log.log_start_offset
        )

    def truncate_to(self, offset: int, *, leader_epoch: int) -> Log:
        """Removes records that the leader of `leader_epoch` does not have."""
        with self._lock:
            log = self._require_followed(leader_epoch)
            log.truncate_to(offset)
            return log

    def truncate_fully_and_start_at(self, offset: int, *, leader_epoch: int) -> Log:
        """Removes all records, because the leader's log starts after the end of this one."""
        with self._lock:
            log = self._require_followed(leader_epoch)
            log.truncate_fully_and_start_at(offset)
            return log

    # -- the in-sync set

    def propose_shrink(self) -> IsrProposal | None:
        """Proposes the set without lagging followers, if this is a leader and there are any."""
        now_ms = self._clock.monotonic_ms()
        with self._lock:
            leading = self._leading
            return None if leading is None else leading.propose_shrink(now_ms)

    def propose_expansion(self) -> IsrProposal | None:
        """Proposes the set with caught-up followers, if this is a leader and there are any."""
        now_ms = self._clock.monotonic_ms()
        with self._lock:
            leading = self._leading
            return None if leading is None else leading.propose_expansion(now_ms)

    def forget_dead_followers(self) -> None:
        """Drops the progress of dead brokers outside the set."""
        with self._lock:
            if self._leading is not None:
                self._leading.forget_the_dead()

    def has_unheard_follower(self) -> bool:
        """Whether this is a leader that does not know the position of a live follower."""
        with self._lock:
            return self._leading is not None and self._leading.has_unheard_follower()

    def awaits(self, proposal: IsrProposal) -> bool:
        """Whether the store's answer to `proposal` still matters."""
        with self._lock:
            return self._leading is not None and self._leading.awaits(proposal)

    def settle(self, proposal: IsrProposal, new_version: int) -> bool:
        """The store accepted `proposal`; True if the high watermark moved."""
        now_ms = self._clock.monotonic_ms()
        with self._lock:
            leading = self._leading
            return leading is not None and leading.settle(proposal, new_version, now_ms)

    def withdraw(self, proposal: IsrProposal) -> bool:
        """A proposed member is gone or was restarted; True if the high watermark moved."""
        now_ms = self._clock.monotonic_ms()
        with self._lock:
            leading = self._leading
            return leading is not None and leading.withdraw(proposal, now_ms)

    # -- looking in

    def require_log(self) -> Log:
        """The local log, as leader or follower."""
        with self._lock:
            return self._require_log(NO_LEADER_EPOCH, only_leader=False)

    def require_topic_id(self, topic_id: uuid.UUID) -> None:
        """Raises unless the log belongs to `topic_id`; a log without an id matches any."""
        log = self.log
        if log is not None and log.topic_id not in (None, topic_id):
            raise ApiError(
                ErrorCode.INCONSISTENT_TOPIC_ID,
                f"{self.topic_partition} has topic id {log.topic_id}, not {topic_id}",
            )

    def view(self) -> PartitionView:
        """Everything a report would show, at one moment."""
        with self._lock:
            log, leading = self.log, self._leading
            return PartitionView(
                topic_partition=self.topic_partition,
                leader=self.leader_id,
                leader_epoch=self.leader_epoch,
                partition_epoch=leading.partition_epoch if leading else self._partition_epoch,
                isr=self.isr,
                replicas=tuple(map(BrokerId, self.assignment.replicas)),
                log_start_offset=log.log_start_offset if log else NO_OFFSET,
                log_end_offset=log.log_end_offset if log else NO_OFFSET,
                high_watermark=log.high_watermark if log else NO_OFFSET,
                last_stable_offset=log.last_stable_offset if log else NO_OFFSET,
                follower_end_offsets=leading.follower_end_offsets() if leading else {},
            )

    # -- under the lock

    def _enter_epoch(self, state: LeaderAndIsrPartitionState, log: Log) -> None:
        assert state.leader_epoch > self.leader_epoch, (
            f"{self.topic_partition} is at epoch {self.leader_epoch}, told of {state.leader_epoch}"
        )
        self.log = log
        self.leader_id = state.leader
        self.leader_epoch = state.leader_epoch
        self.assignment = state.assignment
        self._partition_epoch = state.partition_epoch

    def _require_log(self, current_leader_epoch: int, *, only_leader: bool) -> Log:
        if current_leader_epoch != NO_LEADER_EPOCH and current_leader_epoch != self.leader_epoch:
            fenced = current_leader_epoch < self.leader_epoch
            raise ApiError(
                ErrorCode.FENCED_LEADER_EPOCH if fenced else ErrorCode.UNKNOWN_LEADER_EPOCH,
                f"{self.topic_partition} is at leader epoch {self.leader_epoch} on broker "
                f"{self.broker_id}, not {current_leader_epoch}",
            )
        log = self.log
        if log is None or (only_leader and self._leading is None):
            raise ApiError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"broker {self.broker_id} does not lead {self.topic_partition}",
            )
        return log

    def _require_leading(self, current_leader_epoch: int) -> tuple[Log, LeaderState]:
        log = self._require_log(current_leader_epoch, only_leader=True)
        leading = self._leading
        assert leading is not None, f"{self.topic_partition} is led without a state"
        return log, leading

    def _require_followed(self, leader_epoch: int) -> Log:
        log = self._require_log(leader_epoch, only_leader=False)
        if self._leading is not None:
            raise ApiError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"broker {self.broker_id} leads {self.topic_partition}, it does not follow",
            )
        return log

    def _require_follower(
        self, leading: LeaderState, follower_id: BrokerId, request: PartitionFetch
    ) -> FollowerProgress:
        follower = leading.followers.get(follower_id)
        if follower is None:
            # The epoch matches, so our view is outdated: the follower should retry.
            known_epoch = request.current_leader_epoch == self.leader_epoch
            raise ApiError(
                ErrorCode.UNKNOWN_LEADER_EPOCH if known_epoch else ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"broker {follower_id} is no replica of {self.topic_partition}",
            )
        return follower

    def _note_life(self, follower: FollowerProgress, broker_epoch: int) -> None:
        if broker_epoch < follower.broker_epoch:
            raise ApiError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"broker {follower.broker_id} fetches {self.topic_partition} with broker epoch "
                f"{broker_epoch}, and has done so with {follower.broker_epoch}",
            )
        follower.broker_epoch = broker_epoch

    def _require_settled(self, log: Log, isolation: FetchIsolation) -> None:
        leading = self._leading
        if (
            leading is not None
            and isolation is not FetchIsolation.LOG_END
            and log.high_watermark < leading.epoch_start_offset
        ):
            raise ApiError(
                ErrorCode.OFFSET_NOT_AVAILABLE,
                f"{self.topic_partition}: the high watermark {log.high_watermark} has not reached "
                f"the start {leading.epoch_start_offset} of epoch {self.leader_epoch}",
            )

    def _answer(
        self, log: Log, data: FetchDataInfo | None, diverging: EpochEnd | None
    ) -> PartitionData:
        return PartitionData(
            self.topic_partition,
            ErrorCode.NONE,
            log.high_watermark,
            log.last_stable_offset,
            log.log_start_offset,
            NO_RECORDS if data is None else data.records,
            None if data is None else data.aborted_transactions,
            diverging_epoch=diverging,
        )


def _find_divergence(log: Log, request: PartitionFetch) -> EpochEnd | None:
    """Where the fetcher's log diverges (KIP-595), if it sent its last fetched epoch."""
    epoch = request.last_fetched_epoch
    if epoch == NO_LEADER_EPOCH or (
        epoch == log.latest_epoch
        and log.log_start_offset <= request.fetch_offset <= log.log_end_offset
    ):
        return None
    end = _end_of_epoch(log, epoch)
    if end.end_offset == NO_OFFSET:
        raise ApiError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"{log.topic_partition}: nothing is known of epoch {epoch} or earlier ones",
        )
    if request.fetch_offset < log.log_start_offset:
        raise ApiError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"{log.topic_partition}: offset {request.fetch_offset} is before the log start "
            f"{log.log_start_offset}",
        )
    if end.epoch < epoch or end.end_offset < request.fetch_offset:
        return end
    return None


def _end_of_epoch(log: Log, epoch: int) -> EpochEnd:
    end = log.end_offset_for_epoch(epoch)
    return EpochEnd(end.epoch, end.end_offset)
