"""One partition as its broker sees it: leader or follower, who is in sync, how far they are.

Owner: `Partition._lock` (rank 20) guards leadership, epochs, the in-sync set and the followers.
Invariants: the leader epoch never goes back; the high watermark moves only forward while leading;
at most one proposed in-sync set is on its way to the store.
Not here: which delayed requests a change may complete, and the writing of in-sync sets: methods
return what changed, and the caller acts when the lock is free.
"""

import uuid
from collections.abc import Callable
from typing import Final

from embedkafka.log.log import (
    AppendInfo,
    FetchDataInfo,
    FetchIsolation,
    Log,
)
from embedkafka.log.producer_state import AppendOrigin
from embedkafka.protocol.errors import ApiError, ErrorCode
from embedkafka.replica import isr as rules
from embedkafka.replica.fetch import (
    NO_EPOCH,
    NO_OFFSET,
    NO_RECORDS,
    EpochEnd,
    PartitionData,
    PartitionFetch,
)
from embedkafka.replica.isr import FollowerProgress
from embedkafka.replica.partition_state import (
    NO_EFFECTS,
    FollowerEffects,
    IsrProposal,
    OffsetAnswer,
    PartitionState,
    PartitionView,
    ReplicaView,
)
from embedkafka.runtime.clock import Clock
from embedkafka.runtime.ids import BrokerId, LeaderEpoch, TopicPartition
from embedkafka.runtime.locks import PARTITION_RANK, ranked_lock
from embedkafka.zk.payloads import NO_ASSIGNMENT, LeaderAndIsr, ReplicaAssignment

NO_LEADER: Final = BrokerId(-1)
ACKS_ALL: Final = -1
HIGH_WATERMARK: Final = -1

LATEST_TIMESTAMP: Final = -1
EARLIEST_TIMESTAMP: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL_TIMESTAMP: Final = -4
LATEST_TIERED_TIMESTAMP: Final = -5


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
        self.is_leader = False
        self.leader_id = NO_LEADER
        self.leader_epoch = LeaderEpoch(NO_EPOCH)
        self.isr: tuple[BrokerId, ...] = ()
        self.assignment = NO_ASSIGNMENT
        self._clock = clock
        self._lag_time_max_ms = lag_time_max_ms
        self._is_eligible = is_eligible
        self._lock = ranked_lock(f"partition {topic_partition}", PARTITION_RANK)
        self._controller_epoch = 0
        self._partition_epoch = 0
        self._leader_epoch_start_offset = NO_OFFSET
        self._maximal_isr: frozenset[BrokerId] = frozenset()
        self._proposal: IsrProposal | None = None
        self._may_propose = False
        self._followers: dict[BrokerId, FollowerProgress] = {}

    # -- leadership

    def make_leader(self, state: PartitionState, log: Log) -> bool:
        """Leads from `state.leader_epoch` on; True when the high watermark moved."""
        now_ms = self._clock.monotonic_ms()
        with self._lock:
            new_leader = not self.is_leader
            self._enter_epoch(state, log)
            end_offset = log.log_end_offset
            self._leader_epoch_start_offset = end_offset
            log.assign_epoch_start(state.leader_epoch, end_offset)
            self._follow_assignment(state.assignment)
            for follower in self._followers.values():
                follower.reset(
                    now_ms=now_ms,
                    leader_end_offset=end_offset,
                    new_leader=new_leader,
                    in_sync=follower.broker_id in state.isr,
                )
            self._commit_isr(state.isr, state.partition_epoch)
            self.is_leader = True
            return self._advance_high_watermark(log, now_ms)

    def make_follower(self, state: PartitionState, log: Log) -> None:
        """Follows `state.leader` from `state.leader_epoch` on."""
        with self._lock:
            self.is_leader = False
            self._enter_epoch(state, log)
            self._leader_epoch_start_offset = NO_OFFSET
            self._followers.clear()
            self._commit_isr((), state.partition_epoch)

    def stop(self) -> None:
        """Lets go of the log: whoever still holds this partition is told to look elsewhere."""
        with self._lock:
            self.is_leader = False
            self.leader_id = NO_LEADER
            self.log = None
            self._followers.clear()
            self._commit_isr((), self._partition_epoch)

    # -- the leader's log

    def append_as_leader(
        self, records: memoryview, *, required_acks: int, origin: AppendOrigin
    ) -> tuple[AppendInfo, bool]:
        """Appends; the flag tells whether the high watermark moved."""
        with self._lock:
            log = self._require_log(NO_EPOCH, only_leader=True)
            if required_acks == ACKS_ALL and len(self.isr) < self._min_isr(log):
                raise ApiError(
                    ErrorCode.NOT_ENOUGH_REPLICAS,
                    f"{self.topic_partition}: {len(self.isr)} in-sync replicas "
                    f"({', '.join(map(str, self.isr))}), {self._min_isr(log)} required",
                )
            info = log.append_as_leader(records, leader_epoch=self.leader_epoch, origin=origin)
            return info, self._advance_high_watermark(log, self._clock.monotonic_ms())

    def find_ack(self, required_offset: int) -> ErrorCode | None:
        """How an acks=all append up to `required_offset` ends, or None while replicas miss it."""
        with self._lock:
            log = self.log
            if not self.is_leader or log is None:
                return ErrorCode.NOT_LEADER_OR_FOLLOWER
            if log.high_watermark < required_offset:
                return None
            if len(self._maximal_isr) < self._min_isr(log):
                return ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
            return ErrorCode.NONE

    def delete_records(self, offset: int) -> tuple[int, int]:
        """Moves the log start to `offset` (-1: the high watermark): that offset, and the low
        watermark as it is now."""
        with self._lock:
            log = self._require_log(NO_EPOCH, only_leader=True)
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
            return requested, self._low_watermark(log)

    def require_low_watermark(self) -> int:
        """The smallest log start of all live replicas."""
        with self._lock:
            return self._low_watermark(self._require_log(NO_EPOCH, only_leader=True))

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
        """Reads for a consumer, or again for a follower whose position is already known."""
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
    ) -> tuple[PartitionData, FollowerEffects]:
        """Takes note of the follower's position, then reads up to the log end."""
        now_ms = self._clock.monotonic_ms()
        with self._lock:
            log = self._require_log(request.current_leader_epoch, only_leader=True)
            follower = self._require_follower(follower_id, request)
            diverging = _find_divergence(log, request)
            if diverging is not None:
                return self._answer(log, None, diverging), NO_EFFECTS
            data = log.read(
                request.fetch_offset,
                max_bytes=max_bytes,
                isolation=FetchIsolation.LOG_END,
                min_one_message=min_one_message,
            )
            effects = self._note_fetch(log, follower, request, now_ms)
            return self._answer(log, data, None), effects

    def find_available(
        self, request: PartitionFetch, *, isolation: FetchIsolation, only_leader: bool
    ) -> int | None:
        """Bytes that a waiting fetch would get, or None when it must be answered as things are."""
        with self._lock:
            try:
                log = self._require_log(request.current_leader_epoch, only_leader=only_leader)
                if _find_divergence(log, request) is not None:
                    return None
                if request.fetch_offset >= _end_offset(log, isolation):
                    return 0 if request.fetch_offset <= log.log_end_offset else None
                data = log.read(
                    request.fetch_offset,
                    max_bytes=request.max_bytes,
                    isolation=isolation,
                    min_one_message=True,
                )
            except ApiError:
                return None
            return data.size

    def redirect(self, request: PartitionFetch, replica: BrokerId) -> PartitionData:
        """Sends a consumer to `replica` instead of reading here (KIP-392)."""
        with self._lock:
            log = self._require_log(request.current_leader_epoch, only_leader=True)
            return self._answer(log, None, None)._replace(preferred_read_replica=replica)

    def require_log(self) -> Log:
        """The local log, whoever leads."""
        with self._lock:
            return self._require_log(NO_EPOCH, only_leader=False)

    def require_topic_id(self, topic_id: uuid.UUID) -> None:
        """Raises unless the log is that of `topic_id`; a log without an id matches any."""
        log = self.log
        if log is not None and log.topic_id not in (None, topic_id):
            raise ApiError(
                ErrorCode.INCONSISTENT_TOPIC_ID,
                f"{self.topic_partition} has topic id {log.topic_id}, not {topic_id}",
            )

    def find_offset(
        self,
        timestamp: int,
        *,
        isolation: FetchIsolation,
        current_leader_epoch: int = NO_EPOCH,
        only_leader: bool = True,
    ) -> OffsetAnswer | None:
        """What ListOffsets asks for: an end of the log, or the first offset from a time on.

        Clients (any isolation but LOG_END) see nothing beyond the high watermark, and learn no
        end offset until it has passed what earlier leaders left (KIP-207).
        """
        with self._lock:
            log = self._require_log(current_leader_epoch, only_leader=only_leader)
            if timestamp in (EARLIEST_TIMESTAMP, EARLIEST_LOCAL_TIMESTAMP):
                return OffsetAnswer(
                    timestamp=-1,
                    offset=log.log_start_offset,
                    leader_epoch=log.epoch_at(log.log_start_offset),
                )
            if timestamp == LATEST_TIERED_TIMESTAMP:
                return OffsetAnswer(timestamp=-1, offset=NO_OFFSET, leader_epoch=NO_EPOCH)
            end_offset = _end_offset(log, isolation)
            if timestamp == LATEST_TIMESTAMP:
                self._require_settled(log, isolation)
                return OffsetAnswer(timestamp=-1, offset=end_offset, leader_epoch=self.leader_epoch)
            found = (
                log.find_max_timestamp()
                if timestamp == MAX_TIMESTAMP
                else log.find_offset_by_timestamp(timestamp)
            )
            if found is not None and found.offset < end_offset:
                return OffsetAnswer(
                    timestamp=found.timestamp, offset=found.offset, leader_epoch=found.leader_epoch
                )
            self._require_settled(log, isolation)
            return None

    def end_offset_for_epoch(
        self, epoch: int, *, current_leader_epoch: int = NO_EPOCH, only_leader: bool = True
    ) -> EpochEnd:
        """The largest epoch up to `epoch` and where it ends; (-1, -1) when there is none."""
        with self._lock:
            log = self._require_log(current_leader_epoch, only_leader=only_leader)
            return _end_of_epoch(log, epoch)

    # -- the follower's log

    def append_as_follower(
        self, records: memoryview, *, leader_epoch: int, high_watermark: int, log_start_offset: int
    ) -> tuple[Log, bool]:
        """Appends what the leader of `leader_epoch` sent, and takes over its marks.

        The flag tells whether an end of the log moved.
        """
        with self._lock:
            log = self._require_followed(leader_epoch)
            moved = len(records) > 0
            if moved:
                log.append_as_follower(records)
            if log.high_watermark != high_watermark:
                log.update_high_watermark(high_watermark)
            if log_start_offset > log.log_start_offset:
                moved |= log.increment_log_start_offset(log_start_offset)
            return log, moved

    def truncate_to(self, offset: int, *, leader_epoch: int) -> Log:
        """Drops what the leader of `leader_epoch` does not have."""
        with self._lock:
            log = self._require_followed(leader_epoch)
            log.truncate_to(offset)
            return log

    def truncate_fully_and_start_at(self, offset: int, *, leader_epoch: int) -> Log:
        """Drops everything, when the leader's log begins after the end of this one."""
        with self._lock:
            log = self._require_followed(leader_epoch)
            log.truncate_fully_and_start_at(offset)
            return log

    # -- the in-sync set

    def propose_shrink(self) -> IsrProposal | None:
        """The set without the followers that lag, unless one is on its way to the store."""
        now_ms = self._clock.monotonic_ms()
        with self._lock:
            if not self.is_leader or not self._may_propose or self.log is None:
                return None
            lagging = rules.out_of_sync(
                self._followers.values(),
                self.isr,
                leader_end_offset=self.log.log_end_offset,
                now_ms=now_ms,
                lag_time_max_ms=self._lag_time_max_ms,
            )
            if not lagging:
                return None
            return self._propose(tuple(b for b in self.isr if b not in lagging))

    def propose_expansion(self) -> IsrProposal | None:
        """The set with the followers that have caught up, unless one is on its way to the store.

        A follower's fetch proposes it at once; this is for those that could not be proposed then,
        and that have nothing to fetch now.
        """
        now_ms = self._clock.monotonic_ms()
        with self._lock:
            log = self.log
            if not self.is_leader or not self._may_propose or log is None:
                return None
            joining = [
                follower.broker_id
                for follower in self._followers.values()
                if self._may_join(log, follower)
                and rules.is_caught_up(
                    follower,
                    leader_end_offset=log.log_end_offset,
                    now_ms=now_ms,
                    lag_time_max_ms=self._lag_time_max_ms,
                )
            ]
            return self._propose((*self.isr, *joining)) if joining else None

    def settle(self, proposal: IsrProposal, new_version: int | None) -> bool:
        """Takes the store's word for `proposal` (None: refused); True if the high watermark moved.

        After a refusal the store has something newer, which the controller is about to send:
        nothing is proposed until then.
        """
        with self._lock:
            if self._proposal is not proposal:
                return False
            if new_version is None:
                self._proposal = None
                self._maximal_isr = frozenset(self.isr)
                return False
            self._commit_isr(tuple(map(BrokerId, proposal.state.isr)), new_version)
            if self.log is None:
                return False
            return self._advance_high_watermark(self.log, self._clock.monotonic_ms())

    def view(self) -> PartitionView:
        """Everything a report would show, at one moment."""
        with self._lock:
            log = self.log
            return PartitionView(
                topic_partition=self.topic_partition,
                leader=self.leader_id,
                leader_epoch=self.leader_epoch,
                partition_epoch=self._partition_epoch,
                isr=self.isr,
                replicas=tuple(map(BrokerId, self.assignment.replicas)),
                log_start_offset=log.log_start_offset if log else NO_OFFSET,
                log_end_offset=log.log_end_offset if log else NO_OFFSET,
                high_watermark=log.high_watermark if log else NO_OFFSET,
                last_stable_offset=log.last_stable_offset if log else NO_OFFSET,
                follower_end_offsets={
                    follower.broker_id: follower.log_end_offset
                    for follower in self._followers.values()
                },
            )

    def readable_replicas(self, fetch_offset: int) -> tuple[ReplicaView, ...]:
        """In-sync replicas that hold `fetch_offset`, the leader first; none unless leading."""
        now_ms = self._clock.monotonic_ms()
        with self._lock:
            log = self.log
            if not self.is_leader or log is None:
                return ()
            leader = ReplicaView(
                broker_id=self.broker_id, log_end_offset=log.log_end_offset, behind_ms=0.0
            )
            return (
                leader,
                *(
                    ReplicaView(
                        broker_id=follower.broker_id,
                        log_end_offset=follower.log_end_offset,
                        behind_ms=now_ms - follower.last_caught_up_ms,
                    )
                    for follower in self._followers.values()
                    if follower.broker_id in self.isr
                    and follower.log_start_offset <= fetch_offset <= follower.log_end_offset
                ),
            )

    # -- under the lock

    def _enter_epoch(self, state: PartitionState, log: Log) -> None:
        assert state.leader_epoch > self.leader_epoch, (
            f"{self.topic_partition} is at epoch {self.leader_epoch}, told of {state.leader_epoch}"
        )
        self.log = log
        self.leader_id = state.leader
        self.leader_epoch = state.leader_epoch
        self.assignment = state.assignment
        self._controller_epoch = state.controller_epoch

    def _follow_assignment(self, assignment: ReplicaAssignment) -> None:
        self._followers = {
            replica: self._followers.get(replica) or FollowerProgress(replica)
            for replica in map(BrokerId, assignment.replicas)
            if replica != self.broker_id
        }

    def _commit_isr(self, isr: tuple[BrokerId, ...], partition_epoch: int) -> None:
        self.isr = isr
        self._maximal_isr = frozenset(isr)
        self._partition_epoch = partition_epoch
        self._proposal = None
        self._may_propose = True

    def _propose(self, isr: tuple[BrokerId, ...]) -> IsrProposal:
        self._proposal = IsrProposal(
            topic_partition=self.topic_partition,
            state=LeaderAndIsr(
                leader=self.broker_id,
                leader_epoch=self.leader_epoch,
                isr=isr,
                controller_epoch=self._controller_epoch,
                zk_version=self._partition_epoch,
            ),
        )
        self._maximal_isr = frozenset(self.isr + isr)
        self._may_propose = False
        return self._proposal

    def _require_log(self, current_leader_epoch: int, *, only_leader: bool) -> Log:
        if current_leader_epoch != NO_EPOCH and current_leader_epoch != self.leader_epoch:
            fenced = current_leader_epoch < self.leader_epoch
            raise ApiError(
                ErrorCode.FENCED_LEADER_EPOCH if fenced else ErrorCode.UNKNOWN_LEADER_EPOCH,
                f"{self.topic_partition} is at leader epoch {self.leader_epoch} on broker "
                f"{self.broker_id}, not {current_leader_epoch}",
            )
        log = self.log
        if log is None or (only_leader and not self.is_leader):
            raise ApiError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"broker {self.broker_id} does not lead {self.topic_partition}",
            )
        return log

    def _require_followed(self, leader_epoch: int) -> Log:
        log = self._require_log(leader_epoch, only_leader=False)
        if self.is_leader:
            raise ApiError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"broker {self.broker_id} leads {self.topic_partition}, it does not follow",
            )
        return log

    def _require_follower(self, follower_id: BrokerId, request: PartitionFetch) -> FollowerProgress:
        follower = self._followers.get(follower_id)
        if follower is None:
            # With the right epoch it is our view that is old: the follower should ask again.
            known_epoch = request.current_leader_epoch == self.leader_epoch
            raise ApiError(
                ErrorCode.UNKNOWN_LEADER_EPOCH if known_epoch else ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"broker {follower_id} is no replica of {self.topic_partition}",
            )
        return follower

    def _require_settled(self, log: Log, isolation: FetchIsolation) -> None:
        if (
            isolation is not FetchIsolation.LOG_END
            and self.is_leader
            and log.high_watermark < self._leader_epoch_start_offset
        ):
            raise ApiError(
                ErrorCode.OFFSET_NOT_AVAILABLE,
                f"{self.topic_partition}: the high watermark {log.high_watermark} has not reached "
                f"the start {self._leader_epoch_start_offset} of epoch {self.leader_epoch}",
            )

    def _note_fetch(
        self, log: Log, follower: FollowerProgress, request: PartitionFetch, now_ms: float
    ) -> FollowerEffects:
        old_end, old_start = follower.log_end_offset, follower.log_start_offset
        follower.fetched(
            fetch_offset=request.fetch_offset,
            log_start_offset=request.log_start_offset,
            leader_end_offset=log.log_end_offset,
            now_ms=now_ms,
        )
        proposal = None
        if self._may_propose and self._may_join(log, follower):
            proposal = self._propose((*self.isr, follower.broker_id))
        advanced = old_end != follower.log_end_offset and self._advance_high_watermark(log, now_ms)
        moved_start = old_start != follower.log_start_offset
        if not advanced and not moved_start and proposal is None:
            return NO_EFFECTS
        return FollowerEffects(advanced, moved_start, proposal)

    def _may_join(self, log: Log, follower: FollowerProgress) -> bool:
        return (
            follower.broker_id not in self._maximal_isr
            and rules.may_join(
                follower,
                high_watermark=log.high_watermark,
                leader_epoch_start_offset=self._leader_epoch_start_offset,
            )
            and self._is_eligible(follower.broker_id)
        )

    def _advance_high_watermark(self, log: Log, now_ms: float) -> bool:
        if len(self.isr) < self._min_isr(log):
            return False  # KIP-966: what too few replicas have is not committed
        end_offset = log.log_end_offset
        reached = (
            rules.high_watermark(
                self._followers.values(),
                self._maximal_isr,
                leader_end_offset=end_offset,
                now_ms=now_ms,
                lag_time_max_ms=self._lag_time_max_ms,
                is_eligible=self._is_eligible,
            )
            if self._followers
            else end_offset
        )
        if reached <= log.high_watermark:
            return False
        log.update_high_watermark(reached)
        return True

    def _min_isr(self, log: Log) -> int:
        return rules.effective_min_isr(log.config.min_insync_replicas, len(self._followers) + 1)

    def _low_watermark(self, log: Log) -> int:
        starts = [
            follower.log_start_offset
            for follower in self._followers.values()
            if self._is_eligible(follower.broker_id)
        ]
        return min([log.log_start_offset, *starts])

    def _answer(
        self, log: Log, data: FetchDataInfo | None, diverging: EpochEnd | None
    ) -> PartitionData:
        return PartitionData(
            topic_partition=self.topic_partition,
            high_watermark=log.high_watermark,
            last_stable_offset=log.last_stable_offset,
            log_start_offset=log.log_start_offset,
            records=NO_RECORDS if data is None else data.records,
            aborted_transactions=None if data is None else data.aborted_transactions,
            diverging_epoch=diverging,
        )


def _find_divergence(log: Log, request: PartitionFetch) -> EpochEnd | None:
    """Where the fetcher's log leaves this one (KIP-595), if it says which epoch it fetched last."""
    epoch = request.last_fetched_epoch
    if epoch == NO_EPOCH:
        return None
    end = _end_of_epoch(log, epoch)
    if end.end_offset == NO_OFFSET or end.epoch == NO_EPOCH:
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
    if epoch == log.latest_epoch:  # nearly always, and needs no search
        return EpochEnd(epoch, log.log_end_offset)
    end = log.end_offset_for_epoch(epoch)
    return EpochEnd(end.epoch, end.end_offset)


def _end_offset(log: Log, isolation: FetchIsolation) -> int:
    if isolation is FetchIsolation.LOG_END:
        return log.log_end_offset
    if isolation is FetchIsolation.HIGH_WATERMARK:
        return log.high_watermark
    return log.last_stable_offset
