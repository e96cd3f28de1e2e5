"""Moves partitions to other brokers, one resumable step at a time.

With RS the assigned replicas, ORS the original and TRS the target ones, AR those being added and
RR those being removed:

- U: write the assignment RS = TRS + ORS with AR and RR to ZooKeeper, then to the context. Stop the
     replicas that only a replaced reassignment needed.
- A, while TRS is not in the ISR: bump the leader epoch, send RS to all its replicas, and start AR
     as new replicas. A watch on the partition's state reports when the ISR grows.
- B, once it is: replace a leader that is dead or outside TRS, remove RR from the ISR and delete
     them, and write RS = TRS. That is last: until then a new controller finds both sets.

Cancelling makes ORS the target, so the reassignment ends at once if ORS is in sync.

Owner: the controller's event loop; `context.reassigning` lists the reassignments in progress.
Not here: copying data, which followers do by fetching.
"""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence

from embedkafka.broker.controller.context import ControllerContext, PartitionAndReplica
from embedkafka.broker.controller.election_strategies import Strategy
from embedkafka.broker.controller.manual_assignment import check_replicas
from embedkafka.broker.controller.partition_machine import PartitionState
from embedkafka.broker.controller.replica_machine import ReplicaState
from embedkafka.broker.controller.sender import RequestSender
from embedkafka.broker.controller.state_changes import StateChangeFailed, StateChanges
from embedkafka.runtime.ids import TopicPartition
from embedkafka.wire.protocol.errors import ApiError, ErrorCode
from embedkafka.zk.kafka_zk import KafkaZk
from embedkafka.zk.payloads import LeaderAndIsr, ReplicaAssignment
from embedkafka.zk.store import SessionExpired, Watch, ZkError

_LOG = logging.getLogger(__name__)

_REMOVAL_STEPS = (
    ReplicaState.OFFLINE,
    ReplicaState.DELETION_STARTED,
    ReplicaState.DELETION_SUCCESSFUL,
    ReplicaState.NON_EXISTENT,
)
"""Reassignment does not wait for the answer to StopReplica, unlike topic deletion."""


def validate(
    current: ReplicaAssignment,
    target: Sequence[int],
    live: Collection[int],
    *,
    may_resize: bool = True,
) -> ApiError | None:
    """The reason why a partition cannot be reassigned to `target`, if any.

    A dead replica may stay. Without `may_resize`, the replication factor must.
    """
    try:
        check_replicas(target, {*live, *current.replicas})
    except ApiError as error:
        return error
    before, after = len(current.target), len(target)
    if not may_resize and before != after:
        return ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The replication factor is changed from {before} to {after}",
        )
    return None


def _missing(context: ControllerContext, partition: TopicPartition) -> ApiError | None:
    """UNKNOWN_TOPIC_OR_PARTITION unless the partition exists and will go on existing."""
    topic, index = partition
    if topic not in context.assignments or context.is_queued_for_deletion(topic):
        reason = f"Unable to find a topic named {topic}."
    elif not context.assignment(partition).replicas:
        reason = f"Unable to find partition {topic}:{index}."
    else:
        return None
    return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, reason)


def plan(current: ReplicaAssignment, target: Sequence[int] | None) -> ReplicaAssignment | None:
    """The assignment that leads to `target`; None cancels: back to the original, if any."""
    if target is not None:
        return current.reassign_to(target)
    if current.is_being_reassigned:
        return current.reassign_to(current.origin)
    return None


def keep_in_sync(assignment: ReplicaAssignment, state: LeaderAndIsr | None) -> ApiError | None:
    """Refuses to drop every replica that is in sync, as a cancelled reassignment might."""
    if state is None or not set(assignment.replicas).isdisjoint(state.isr):
        return None
    return ApiError(
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        f"None of the replicas {list(assignment.replicas)} is in sync: the ISR is "
        f"{list(state.isr)}.",
    )


def is_complete(assignment: ReplicaAssignment, state: LeaderAndIsr | None) -> bool:
    """Whether every target replica is in sync."""
    if not assignment.is_being_reassigned:
        return True
    return state is not None and set(assignment.target) <= set(state.isr)


class Reassignments:
    """Starts, continues, completes and cancels reassignments."""

    def __init__(
        self,
        context: ControllerContext,
        zk: KafkaZk,
        changes: StateChanges,
        sender: RequestSender,
        *,
        watch: Watch,
    ) -> None:
        self._context = context
        self._zk = zk
        self._changes = changes
        self._sender = sender
        self._watch = watch

    def submit(
        self, wanted: Mapping[TopicPartition, Sequence[int] | None], *, may_resize: bool = True
    ) -> dict[TopicPartition, ApiError | None]:
        """Starts reassignments from the API, which override those from the znode."""
        answers: dict[TopicPartition, ApiError | None] = {}
        planned: dict[TopicPartition, ReplicaAssignment] = {}
        states = self._zk.partition_states(wanted)
        for partition, target in wanted.items():
            current = self._context.assignment(partition)
            error = _missing(self._context, partition)
            if error is None and target is not None:
                error = validate(current, target, self._context.live, may_resize=may_resize)
            assignment = plan(current, target)
            if error is None and assignment is None:
                error = ApiError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
            elif error is None and assignment is not None:
                error = keep_in_sync(assignment, states.get(partition))
            if error is None and assignment is not None and assignment != current:
                planned[partition] = assignment
            else:
                answers[partition] = error
        self._drop_from_znode(lambda partition, _: partition in planned)
        return {**answers, **self._trigger(planned)}

    def submit_znode(self) -> set[TopicPartition]:
        """Starts the reassignments in `/admin/reassign_partitions`; returns their partitions."""
        if not self._zk.watch_reassignment(self._watch):
            return set()
        planned = {
            partition: self._context.assignment(partition).reassign_to(target)
            for partition, target in self._zk.reassignment().items()
        }
        answers = self._trigger(planned)
        failed = {partition for partition, error in answers.items() if error is not None}
        if failed:
            _LOG.info("Reassignments of %s through ZooKeeper failed", sorted(failed))
            self._drop_from_znode(lambda partition, _: partition in failed)
        return answers.keys() - failed

    def resume(self, wanted: Callable[[TopicPartition, ReplicaAssignment], bool]) -> None:
        """Continues the reassignments in progress that `wanted` selects."""
        for partition in list(self._context.reassigning):
            assignment = self._context.assignment(partition)
            if wanted(partition, assignment):
                self._try_to_advance(partition, assignment)

    def abandon(self, topics: Collection[str]) -> None:
        """Abandons the reassignments of `topics`, which are about to be deleted."""
        abandoned = [tp for tp in self._context.reassigning if tp.topic in topics]
        for partition in abandoned:
            self._context.reassigning.pop(partition)
        if abandoned:
            self._drop_from_znode(lambda partition, _: partition.topic in topics)

    def on_isr_change(self, partition: TopicPartition) -> None:
        """Completes the partition's reassignment if its target replicas are in sync now."""
        if partition not in self._context.reassigning:
            return
        self._zk.watch_partition_state(partition, self._watch)
        assignment = self._context.assignment(partition)
        if self._is_complete(partition, assignment):
            self._try_to_advance(partition, assignment)

    def in_progress(
        self, partitions: Collection[TopicPartition] | None
    ) -> dict[TopicPartition, ReplicaAssignment]:
        asked = self._context.reassigning if partitions is None else partitions
        found = {partition: self._context.assignment(partition) for partition in asked}
        return {
            tp: assignment for tp, assignment in found.items() if assignment.is_being_reassigned
        }

    def _trigger(
        self, planned: Mapping[TopicPartition, ReplicaAssignment]
    ) -> dict[TopicPartition, ApiError | None]:
        answers: dict[TopicPartition, ApiError | None] = {}
        for partition, assignment in planned.items():
            error = _missing(self._context, partition)
            answers[partition] = error or self._try_to_advance(partition, assignment)
        return answers

    def _try_to_advance(
        self, partition: TopicPartition, assignment: ReplicaAssignment
    ) -> ApiError | None:
        """Logs a failure, so that one partition does not block the others."""
        try:
            self._advance(partition, assignment)
        except SessionExpired:
            raise
        except (StateChangeFailed, ZkError) as error:
            _LOG.info("Reassignment of %s failed: %s", partition, error)
            return ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error))
        return None

    def _advance(self, partition: TopicPartition, assignment: ReplicaAssignment) -> None:
        """Runs the phases once; `assignment` is new or already in progress."""
        self._record(partition, assignment)
        added = [PartitionAndReplica(partition, broker) for broker in assignment.adding]
        if not self._is_complete(partition, assignment):
            # Without a leader there is no epoch to bump: none of its replicas has been up yet.
            if partition in self._context.leadership:
                self._bump_and_tell(partition, assignment)
            self._changes.move_replicas(added, ReplicaState.NEW)
            return
        self._changes.move_replicas(added, ReplicaState.ONLINE)
        settled = ReplicaAssignment(replicas=assignment.target)
        self._context.set_assignment(partition, settled)
        self._move_leader(partition, settled)
        self._remove(partition, assignment.removing)
        self._write(partition, settled)
        self._drop_from_znode(lambda tp, target: tp == partition and target == settled.replicas)
        self._context.reassigning.pop(partition, None)
        self._sender.update_metadata([partition])

    def _record(self, partition: TopicPartition, assignment: ReplicaAssignment) -> None:
        current = self._context.assignment(partition)
        if current != assignment:
            self._write(partition, assignment)
            self._context.set_assignment(partition, assignment)
            unneeded = [r for r in current.replicas if r not in assignment.replicas]
            self._remove(partition, unneeded)
        self._zk.watch_partition_state(partition, self._watch)
        self._context.reassigning[partition] = None

    def _is_complete(self, partition: TopicPartition, assignment: ReplicaAssignment) -> bool:
        state = self._zk.partition_states([partition]).get(partition)
        return is_complete(assignment, state)

    def _bump_and_tell(self, partition: TopicPartition, assignment: ReplicaAssignment) -> None:
        """Sends the new replica list with the new epoch. `is_new` allows new replicas to use any
        working log directory."""
        self._changes.bump_leader_epoch(partition)
        batch = self._sender.new_batch()
        batch.add_leader_and_isr(assignment.origin, partition, is_new=False)
        batch.add_leader_and_isr(assignment.adding, partition, is_new=True)
        self._sender.send(batch)

    def _move_leader(self, partition: TopicPartition, settled: ReplicaAssignment) -> None:
        state = self._context.leadership.get(partition)
        if state is None:
            return  # none of its replicas has been up yet; the first one to come up will lead
        leader = state.leader
        if leader in settled.replicas and self._context.is_online(leader, partition):
            self._bump_and_tell(partition, settled)
        else:
            self._changes.move_partitions([partition], PartitionState.ONLINE, Strategy.REASSIGN)

    def _remove(self, partition: TopicPartition, brokers: Sequence[int]) -> None:
        replicas = [PartitionAndReplica(partition, broker) for broker in brokers]
        for state in _REMOVAL_STEPS:
            self._changes.move_replicas(replicas, state)

    def _write(self, partition: TopicPartition, assignment: ReplicaAssignment) -> None:
        topic = partition.topic
        partitions = {**self._context.assignments[topic], partition.partition: assignment}
        self._zk.set_topic_assignment(
            topic,
            partitions,
            topic_id=self._context.topic_ids.get(topic),
            epoch_version=self._context.epoch_version,
        )

    def _drop_from_znode(self, matches: Callable[[TopicPartition, tuple[int, ...]], bool]) -> None:
        """Removes partitions from `/admin/reassign_partitions`; deletes it when empty."""
        if not self._zk.watch_reassignment(self._watch):
            return
        listed = self._zk.reassignment()
        rest = {tp: target for tp, target in listed.items() if not matches(tp, target)}
        if rest != listed or not rest:
            self._zk.set_reassignment(rest, epoch_version=self._context.epoch_version)
            self._zk.watch_reassignment(self._watch)
