"""A leader's state: its followers, the in-sync set and the high watermark.

Owner: the lock of the `Partition` that leads; every method is called with it held.
Invariants: the high watermark never goes back, and every member of the largest possible in-sync set
has the records below it. There is at most one proposal: until the store answers, the members of the
old and the proposed set count.
Not here: the rules (`isr`), and writing proposals to the store (`isr_updates`).
"""

from collections.abc import Callable

from embedkafka.broker.log.log import Log
from embedkafka.broker.replica.fetch import PartitionFetch
from embedkafka.broker.replica.partition import isr as rules
from embedkafka.broker.replica.partition.isr import FollowerProgress
from embedkafka.broker.replica.partition.values import (
    NO_EFFECTS,
    FollowerEffects,
    IsrProposal,
    LeaderAndIsrPartitionState,
    ReplicaView,
)
from embedkafka.runtime.ids import NO_OFFSET, BrokerId, TopicPartition
from embedkafka.zk.payloads import LeaderAndIsr


class LeaderState:
    """One leader epoch, seen from the leader."""

    def __init__(
        self,
        topic_partition: TopicPartition,
        broker_id: BrokerId,
        state: LeaderAndIsrPartitionState,
        log: Log,
        *,
        lag_time_max_ms: float,
        is_eligible: Callable[[BrokerId], bool],
        now_ms: float,
        predecessor: "LeaderState | None",
    ) -> None:
        self.epoch_start_offset = log.log_end_offset
        self.isr = state.isr
        self.partition_epoch = state.partition_epoch
        self.followers: dict[BrokerId, FollowerProgress] = {}
        self._topic_partition = topic_partition
        self._broker_id = broker_id
        self._state = state
        self._log = log
        self._lag_time_max_ms = lag_time_max_ms
        self._is_eligible = is_eligible
        self._maximal_isr = frozenset(state.isr)
        self._proposal: IsrProposal | None = None
        known = {} if predecessor is None else predecessor.followers
        for replica in map(BrokerId, state.assignment.replicas):
            if replica == broker_id:
                continue
            follower = known.get(replica) or FollowerProgress(replica)
            follower.reset(
                now_ms=now_ms,
                new_leader=predecessor is None,
                in_sync=replica in state.isr,
            )
            self.followers[replica] = follower

    # -- what is committed

    @property
    def min_isr(self) -> int:
        return rules.effective_min_isr(
            self._log.config.min_insync_replicas, len(self.followers) + 1
        )

    @property
    def has_enough_replicas(self) -> bool:
        """Whether there are enough in-sync replicas to accept a write with acks=all."""
        return len(self.isr) >= self.min_isr

    @property
    def has_kept_enough_replicas(self) -> bool:
        """Whether there are enough in-sync replicas to confirm an accepted write."""
        return len(self._maximal_isr) >= self.min_isr

    def advance_high_watermark(self, now_ms: float) -> bool:
        """Advances the high watermark to what all counting replicas have; whether it moved."""
        log = self._log
        end_offset = log.log_end_offset
        if log.high_watermark == end_offset or not self.has_enough_replicas:
            return False  # KIP-966: records on too few replicas are not committed
        reached = (
            rules.high_watermark(
                self.followers.values(),
                self._maximal_isr,
                leader_end_offset=end_offset,
                now_ms=now_ms,
                lag_time_max_ms=self._lag_time_max_ms,
                is_eligible=self._is_eligible,
            )
            if self.followers
            else end_offset
        )
        if reached <= log.high_watermark:
            return False
        log.update_high_watermark(reached)
        return True

    def low_watermark(self) -> int:
        """The smallest log start of all live replicas."""
        starts = [
            follower.log_start_offset
            for follower in self.followers.values()
            if self._is_eligible(follower.broker_id)
        ]
        return min([self._log.log_start_offset, *starts])

    def find_lacking(self, required_offset: int) -> dict[BrokerId, int]:
        """The in-sync replicas that do not have all records before this offset, and their ends."""
        return {
            follower.broker_id: follower.log_end_offset
            for follower in self.followers.values()
            if follower.broker_id in self._maximal_isr and follower.log_end_offset < required_offset
        }

    def find_undeleted(self, required_offset: int) -> dict[BrokerId, int]:
        """The live replicas whose log starts before this offset, and where."""
        return {
            follower.broker_id: follower.log_start_offset
            for follower in self.followers.values()
            if self._is_eligible(follower.broker_id) and follower.log_start_offset < required_offset
        }

    # -- followers

    def note_append(self, now_ms: float) -> None:
        """The log is about to grow: followers at its end are caught up until now.

        A follower in this process does not fetch without news. Judged by its last fetch, it would
        lag as soon as a record arrives after a pause.
        """
        end_offset = self._log.log_end_offset
        for follower in self.followers.values():
            if follower.log_end_offset == end_offset:
                follower.last_caught_up_ms = now_ms

    def note_fetch(
        self, follower: FollowerProgress, request: PartitionFetch, now_ms: float
    ) -> FollowerEffects:
        """Records a follower's position; returns the effects."""
        old_end, old_start = follower.log_end_offset, follower.log_start_offset
        follower.fetched(
            fetch_offset=request.fetch_offset,
            log_start_offset=request.log_start_offset,
            leader_end_offset=self._log.log_end_offset,
            now_ms=now_ms,
        )
        proposal = None
        if self._proposal is None and self._may_join(follower):
            proposal = self._propose((*self.isr, follower.broker_id))
        advanced = old_end != follower.log_end_offset and self.advance_high_watermark(now_ms)
        moved_start = old_start != follower.log_start_offset
        if not advanced and not moved_start and proposal is None:
            return NO_EFFECTS
        return FollowerEffects(advanced, moved_start, proposal)

    def follower_end_offsets(self) -> dict[BrokerId, int]:
        return {broker: follower.log_end_offset for broker, follower in self.followers.items()}

    def behind_ms(self, now_ms: float) -> dict[BrokerId, float]:
        return {
            broker: now_ms - follower.last_caught_up_ms
            for broker, follower in self.followers.items()
            if follower.last_caught_up_ms
        }

    def readable_replicas(self, fetch_offset: int, now_ms: float) -> tuple[ReplicaView, ...]:
        """In-sync replicas that hold `fetch_offset`, the leader first."""
        leader = ReplicaView(
            broker_id=self._broker_id, log_end_offset=self._log.log_end_offset, behind_ms=0.0
        )
        return (
            leader,
            *(
                ReplicaView(
                    broker_id=follower.broker_id,
                    log_end_offset=follower.log_end_offset,
                    behind_ms=now_ms - follower.last_caught_up_ms,
                )
                for follower in self.followers.values()
                if follower.broker_id in self.isr
                and follower.log_start_offset <= fetch_offset <= follower.log_end_offset
            ),
        )

    # -- the in-sync set

    def propose_shrink(self, now_ms: float) -> IsrProposal | None:
        """Proposes the set without lagging followers, unless a proposal is pending.

        As in Kafka, a member that is no replica lags.
        """
        if self._proposal is not None:
            return None
        lagging = set(self.isr) - self.followers.keys() - {self._broker_id}
        lagging |= rules.out_of_sync(
            self.followers.values(),
            self.isr,
            leader_end_offset=self._log.log_end_offset,
            now_ms=now_ms,
            lag_time_max_ms=self._lag_time_max_ms,
        )
        if not lagging:
            return None
        return self._propose(tuple(broker for broker in self.isr if broker not in lagging))

    def propose_expansion(self, now_ms: float) -> IsrProposal | None:
        """Proposes the set with caught-up followers, unless a proposal is pending.

        A follower's fetch usually proposes it. This covers followers that could not be proposed
        then and have nothing to fetch now.
        """
        if self._proposal is not None:
            return None
        joining = [
            follower.broker_id
            for follower in self.followers.values()
            if self._may_join(follower)
            and rules.is_caught_up(
                follower,
                leader_end_offset=self._log.log_end_offset,
                now_ms=now_ms,
                lag_time_max_ms=self._lag_time_max_ms,
            )
        ]
        return self._propose((*self.isr, *joining)) if joining else None

    def forget_the_dead(self) -> None:
        """Drops the progress of dead brokers, which may come back with less."""
        for broker_id in self.followers:
            if broker_id not in self._maximal_isr and not self._is_eligible(broker_id):
                self.followers[broker_id] = FollowerProgress(broker_id)

    def has_unheard_follower(self) -> bool:
        return any(
            follower.log_end_offset == NO_OFFSET and self._is_eligible(broker_id)
            for broker_id, follower in self.followers.items()
        )

    def awaits(self, proposal: IsrProposal) -> bool:
        """Whether the store's answer to `proposal` still matters.

        A refused proposal stays pending: the store has a newer state, which may contain its
        members, and the controller is about to send it. A new leader epoch ends the wait.
        """
        return self._proposal is proposal

    def settle(self, proposal: IsrProposal, new_version: int, now_ms: float) -> bool:
        """The store accepted `proposal`; True if the high watermark moved."""
        if self._proposal is not proposal:
            return False
        self.isr = tuple(map(BrokerId, proposal.state.isr))
        self.partition_epoch = new_version
        return self._end_proposal(now_ms)

    def withdraw(self, proposal: IsrProposal, now_ms: float) -> bool:
        """The store keeps the old set; True if the high watermark moved.

        Drops the progress of proposed members: a restarted one may have less, and must fetch
        again.
        """
        if self._proposal is not proposal:
            return False
        for broker_id in proposal.broker_epochs:
            self.followers[broker_id] = FollowerProgress(broker_id)
        return self._end_proposal(now_ms)

    def _end_proposal(self, now_ms: float) -> bool:
        self._proposal = None
        self._maximal_isr = frozenset(self.isr)
        return self.advance_high_watermark(now_ms)

    def _may_join(self, follower: FollowerProgress) -> bool:
        return (
            follower.broker_id not in self._maximal_isr
            and rules.may_join(
                follower,
                high_watermark=self._log.high_watermark,
                leader_epoch_start_offset=self.epoch_start_offset,
            )
            and self._is_eligible(follower.broker_id)
        )

    def _propose(self, isr: tuple[BrokerId, ...]) -> IsrProposal:
        self._proposal = IsrProposal(
            topic_partition=self._topic_partition,
            topic_id=self._log.topic_id,
            state=LeaderAndIsr(
                leader=self._broker_id,
                leader_epoch=self._state.leader_epoch,
                isr=isr,
                controller_epoch=self._state.controller_epoch,
                zk_version=self.partition_epoch,
            ),
            broker_epochs={
                broker: self.followers[broker].broker_epoch
                for broker in isr
                if broker not in self.isr
            },
        )
        self._maximal_isr = frozenset(self.isr + isr)
        return self._proposal
