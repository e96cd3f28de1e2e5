"""Carries out the state machines' decisions: writes znodes, moves states, sends requests.

Owner: the controller's event loop.
Invariants: ZooKeeper is written before the context, and the context before any request is sent.
A partition or replica that cannot move is logged and keeps its state, as in Kafka; the others in
the same call move. `ControllerMoved` propagates, and then nothing is sent.
Not here: choosing the moves (`core`, `topic_deletion`, `reassignment`).
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from embedkafka.broker.controller import partition_machine, replica_machine
from embedkafka.broker.controller.context import ControllerContext, PartitionAndReplica
from embedkafka.broker.controller.election_strategies import Strategy, without_replica
from embedkafka.broker.controller.partition_machine import PartitionState
from embedkafka.broker.controller.replica_machine import ReplicaState
from embedkafka.broker.controller.request_batch import RequestBatch
from embedkafka.broker.controller.sender import RequestSender
from embedkafka.broker.controller.state_change_log import StateChangeLog
from embedkafka.runtime.ids import TopicPartition
from embedkafka.runtime.values import replace
from embedkafka.zk.kafka_zk import ControllerMoved, KafkaZk
from embedkafka.zk.payloads import LeaderAndIsr

UncleanTopics = Callable[[Iterable[str]], set[str]]
"""Selects the topics whose settings allow an unclean election."""


_REASONS: Final = {
    **{strategy: strategy.value for strategy in Strategy},
    Strategy.OFFLINE_ALLOW_UNCLEAN: Strategy.OFFLINE.value,
}
"""What the log says of each strategy."""


class StateChangeFailed(Exception):
    """A partition could not move; the message gives the reason."""


MoveResult = LeaderAndIsr | StateChangeFailed


class StateChanges:
    """Moves partitions and replicas of the active controller's context."""

    def __init__(
        self,
        context: ControllerContext,
        zk: KafkaZk,
        sender: RequestSender,
        log: StateChangeLog,
        *,
        controller_id: int,
        unclean_topics: UncleanTopics,
    ) -> None:
        self._context = context
        self._zk = zk
        self._sender = sender
        self._log = log
        self._controller_id = controller_id
        self._unclean_topics = unclean_topics
        self.unclean_elections = 0
        """How many leaders were elected that were not in sync; any thread may read it."""

    def move_partitions(
        self,
        partitions: Iterable[TopicPartition],
        target: PartitionState,
        strategy: Strategy = Strategy.OFFLINE,
    ) -> dict[TopicPartition, MoveResult]:
        """Moves the partitions that may move; for ONLINE, returns the outcome of each election."""
        context = self._context
        may, may_not = partition_machine.legal(context, partitions, target)
        for partition in may_not:
            self._refuse(partition, f"it cannot become {target.value}", target)
        if target is not PartitionState.ONLINE:
            for partition in may:
                self._move_partition(partition, target)
            return {}
        batch = self._sender.new_batch()
        new = [tp for tp in may if context.partition_states[tp] is PartitionState.NEW]
        led_before = [tp for tp in may if context.partition_states[tp] is not PartitionState.NEW]
        self._initialize(new, batch)
        results = self._elect(led_before, strategy, batch)
        self._sender.send(batch)
        return results

    def bring_online(self, topic: str | None = None) -> dict[TopicPartition, MoveResult]:
        """Tries to elect a leader for every partition without one."""
        waiting = partition_machine.waiting_for_leader(self._context, topic)
        return self.move_partitions(waiting, PartitionState.ONLINE) if waiting else {}

    def move_replicas(
        self,
        replicas: Iterable[PartitionAndReplica],
        target: ReplicaState,
        *,
        informing: Iterable[int] = (),
    ) -> None:
        """Moves the replicas that may move, broker by broker, and sends one batch of requests.

        The brokers in `informing` get the full state in it and drop everything else.
        """
        informing = tuple(informing)
        by_broker: dict[int, list[PartitionAndReplica]] = {}
        for replica in replicas:
            by_broker.setdefault(replica.broker, []).append(replica)
        if not by_broker and not informing:
            return
        batch = self._sender.new_batch()
        batch.add_everything(informing)
        for broker, listed in by_broker.items():
            self._move_replicas_of(broker, listed, target, batch)
        self._sender.send(batch)

    def bump_leader_epoch(self, partition: TopicPartition) -> None:
        """Writes the next leader epoch, so that the leader accepts the new replica list.

        Replicas that are not in that list leave the ISR: one that was stopped may have joined just
        before.
        """
        replicas = self._context.assignment(partition).replicas
        while True:
            state = self._zk.partition_states([partition]).get(partition)
            if state is None:
                raise StateChangeFailed(f"{partition} has no leader and ISR in ZooKeeper")
            if state.controller_epoch > self._context.epoch:
                raise ControllerMoved(f"epoch {state.controller_epoch} has written {partition}")
            isr = [broker for broker in state.isr if broker in replicas]
            bumped = state.with_leader(state.leader, isr or state.isr)
            updates = self._write({partition: bumped})
            if partition in updates:
                return

    def _initialize(self, partitions: Sequence[TopicPartition], batch: RequestBatch) -> None:
        if not partitions:
            return
        context = self._context
        first = partition_machine.decide_first_leaders(context, partitions)
        created = self._zk.create_partition_states(
            first.states, epoch_version=context.epoch_version
        )
        for partition, state in created.written.items():
            context.leadership[partition] = state
            self._move_partition(partition, PartitionState.ONLINE)
            batch.add_leader_and_isr(first.recipients[partition], partition, is_new=True)
        for partition, reason in first.refused.items():
            self._refuse(partition, reason)
        for partition, error in created.failed.items():
            self._refuse(partition, repr(error))

    def _elect(
        self, partitions: Sequence[TopicPartition], strategy: Strategy, batch: RequestBatch
    ) -> dict[TopicPartition, MoveResult]:
        """Elects, and repeats for partitions whose leader changed the ISR concurrently."""
        context = self._context
        results: dict[TopicPartition, MoveResult] = {}
        remaining = list(partitions)
        while remaining:
            current = self._zk.partition_states(remaining)
            unclean: set[str] = set()
            if strategy is Strategy.OFFLINE:
                doubtful = partition_machine.topics_without_live_isr(context, current)
                unclean = self._unclean_topics(doubtful) if doubtful else unclean
            elections = partition_machine.decide_elections(
                context, strategy, remaining, current, unclean_topics=unclean
            )
            updates = self._zk.update_partition_states(
                elections.states,
                controller_epoch=context.epoch,
                epoch_version=context.epoch_version,
            )
            for partition, state in updates.written.items():
                context.leadership[partition] = state
                is_unclean = state.leader not in current[partition].isr
                self.unclean_elections += is_unclean
                self._move_partition(
                    partition, PartitionState.ONLINE, strategy, is_unclean=is_unclean
                )
                batch.add_leader_and_isr(elections.recipients[partition], partition, is_new=False)
                results[partition] = state
            refused = {
                **elections.refused,
                **{partition: repr(error) for partition, error in updates.failed.items()},
            }
            for partition, reason in refused.items():
                self._refuse(partition, reason)
                results[partition] = StateChangeFailed(reason)
            remaining = list(updates.retry)
        return results

    def _move_replicas_of(
        self,
        broker: int,
        replicas: list[PartitionAndReplica],
        target: ReplicaState,
        batch: RequestBatch,
    ) -> None:
        context = self._context
        moves = replica_machine.decide(context, broker, replicas, target)
        for replica, reason in moves.refused.items():
            self._note_replica(replica, replica_machine.state_of(context, replica), target, reason)
        for partition in moves.leader_and_isr:
            batch.add_leader_and_isr([broker], partition, is_new=moves.is_new)
        for partition in moves.stop:
            batch.add_stop_replica(broker, partition, delete=moves.delete)
        for replica in moves.at_once:
            self._move_replica(replica, target)
        if moves.update_metadata:
            batch.add_update_metadata(context.brokers, moves.update_metadata)
        for partition in self._remove_from_isr(broker, moves.shrink):
            if not context.is_queued_for_deletion(partition.topic):
                others = [r for r in context.assignment(partition).replicas if r != broker]
                batch.add_leader_and_isr(others, partition, is_new=False)
            self._move_replica(PartitionAndReplica(partition, broker), target)

    def _remove_from_isr(
        self, broker: int, partitions: Sequence[TopicPartition]
    ) -> list[TopicPartition]:
        """Removes `broker` from ISRs and updates the context; returns the partitions done."""
        context = self._context
        done: list[TopicPartition] = []
        remaining = list(partitions)
        while remaining:
            current = self._zk.partition_states(remaining)
            smaller: dict[TopicPartition, LeaderAndIsr] = {}
            for partition in remaining:
                state = current.get(partition)
                if state is None:
                    if not context.is_queued_for_deletion(partition.topic):
                        self._refuse(partition, "it has no leader and ISR in ZooKeeper")
                elif state.controller_epoch > context.epoch:
                    self._refuse(partition, f"epoch {state.controller_epoch} wrote it")
                elif broker in state.isr:
                    smaller[partition] = without_replica(state, broker)
                else:
                    context.leadership[partition] = replace(state, controller_epoch=context.epoch)
                    done.append(partition)
            updates = self._zk.update_partition_states(
                smaller, controller_epoch=context.epoch, epoch_version=context.epoch_version
            )
            context.leadership.update(updates.written)
            done += updates.written
            for partition, error in updates.failed.items():
                self._refuse(partition, repr(error))
            remaining = list(updates.retry)
        return done

    def _write(
        self, states: dict[TopicPartition, LeaderAndIsr]
    ) -> dict[TopicPartition, LeaderAndIsr]:
        """Writes states as this controller; omits partitions that lost a race from the result."""
        context = self._context
        updates = self._zk.update_partition_states(
            states, controller_epoch=context.epoch, epoch_version=context.epoch_version
        )
        for partition, error in updates.failed.items():
            raise StateChangeFailed(f"{partition}: {error!r}")
        context.leadership.update(updates.written)
        return dict(updates.written)

    # -- moves, and what the log says of them

    def _move_partition(
        self,
        partition: TopicPartition,
        target: PartitionState,
        strategy: Strategy | None = None,
        *,
        is_unclean: bool = False,
    ) -> None:
        before = partition_machine.state_of(self._context, partition)
        partition_machine.move(self._context, partition, target)
        self._log.note(
            self._controller_id,
            self._context.epoch,
            partition,
            None,
            before=before.value,
            after=target.value,
            state=self._context.leadership.get(partition),
            election=None if strategy is None else _REASONS[strategy],
            is_unclean=is_unclean,
        )

    def _move_replica(self, replica: PartitionAndReplica, target: ReplicaState) -> None:
        before = replica_machine.state_of(self._context, replica)
        replica_machine.move(self._context, replica, target)
        self._note_replica(replica, before, target)

    def _refuse(
        self,
        partition: TopicPartition,
        reason: str,
        target: PartitionState = PartitionState.ONLINE,
    ) -> None:
        before = partition_machine.state_of(self._context, partition)
        self._note(partition, None, before.value, target.value, reason)

    def _note_replica(
        self,
        replica: PartitionAndReplica,
        before: ReplicaState,
        target: ReplicaState,
        refused: str | None = None,
    ) -> None:
        self._note(replica.partition, replica.broker, before.value, target.value, refused)

    def _note(
        self,
        partition: TopicPartition,
        replica: int | None,
        before: str,
        after: str,
        refused: str | None = None,
    ) -> None:
        self._log.note(
            self._controller_id,
            self._context.epoch,
            partition,
            replica,
            before=before,
            after=after,
            state=self._context.leadership.get(partition),
            refused=refused,
        )
