"""Elections that an admin client, a znode or the balance of leaders asks for.

Owner: the controller's event loop.
Not here: elections after brokers are lost (`broker_changes`); who wins (`election_strategies`).
"""

from collections.abc import Iterable

from embedkafka.broker.controller.context import ControllerContext
from embedkafka.broker.controller.election_strategies import Candidates, Strategy, elect
from embedkafka.broker.controller.events import ElectionTrigger, ElectionType
from embedkafka.broker.controller.partition_machine import PartitionState
from embedkafka.broker.controller.state_changes import MoveResult, StateChangeFailed, StateChanges
from embedkafka.runtime.ids import NO_LEADER, TopicPartition
from embedkafka.wire.protocol.errors import ApiError, ErrorCode
from embedkafka.zk.kafka_zk import KafkaZk
from embedkafka.zk.store import Watch


class RequestedElections:
    """Runs elections on demand and answers for every requested partition."""

    def __init__(
        self, context: ControllerContext, zk: KafkaZk, changes: StateChanges, *, watch: Watch
    ) -> None:
        self._context = context
        self._zk = zk
        self._changes = changes
        self._watch = watch

    def run(
        self, partitions: Iterable[TopicPartition], kind: ElectionType, trigger: ElectionTrigger
    ) -> dict[TopicPartition, int | ApiError]:
        """Elects leaders where needed; returns the new leaders, or the errors."""
        answers: dict[TopicPartition, int | ApiError] = {}
        electable: list[TopicPartition] = []
        for partition in partitions:
            refusal = self._refuse(partition, kind)
            if refusal is None:
                electable.append(partition)
            else:
                answers[partition] = refusal
        strategy = _strategy(kind, trigger)
        results = self._changes.move_partitions(electable, PartitionState.ONLINE, strategy)
        answers.update({tp: _answer(kind, results.get(tp)) for tp in electable})
        return answers

    def run_znode(self) -> None:
        """Runs the elections in `/admin/preferred_replica_election` and removes it."""
        if not self._zk.watch_preferred_election(self._watch):
            return
        self.run(self._zk.preferred_election(), ElectionType.PREFERRED, ElectionTrigger.ZOOKEEPER)
        self._zk.delete_preferred_election(epoch_version=self._context.epoch_version)
        self._zk.watch_preferred_election(self._watch)

    def balance(self, allowed_percentage: int) -> None:
        """Elects preferred leaders on brokers that lead too few of their preferred partitions."""
        context = self._context
        preferred: dict[int, list[TopicPartition]] = {}
        for partition in context.partitions():
            replicas = context.assignment(partition).replicas
            if replicas and not context.is_queued_for_deletion(partition.topic):
                preferred.setdefault(replicas[0], []).append(partition)
        for broker, partitions in preferred.items():
            elsewhere = [
                tp
                for tp in partitions
                if tp in context.leadership and context.leadership[tp].leader != broker
            ]
            if len(elsewhere) / len(partitions) > allowed_percentage / 100:
                able = [tp for tp in elsewhere if self._can_prefer(tp)]
                self.run(able, ElectionType.PREFERRED, ElectionTrigger.AUTO)

    def _refuse(self, partition: TopicPartition, kind: ElectionType) -> ApiError | None:
        context = self._context
        assignment = context.assignment(partition)
        if not assignment.replicas:
            known = partition.topic in context.assignments
            reason = f"partition as {partition}" if known else f"topic as {partition.topic}"
            return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such {reason}")
        if context.is_queued_for_deletion(partition.topic):
            return ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, "The topic is being deleted")
        state = context.leadership.get(partition)
        leader = NO_LEADER if state is None else state.leader
        if kind is ElectionType.PREFERRED:
            needed = leader != assignment.replicas[0]
        else:
            needed = leader == NO_LEADER or not context.is_live(leader)
        return None if needed else ApiError(ErrorCode.ELECTION_NOT_NEEDED)

    def _can_prefer(self, partition: TopicPartition) -> bool:
        assignment = self._context.assignment(partition)
        candidates = Candidates(
            assignment=assignment,
            state=self._context.leadership[partition],
            online=[r for r in assignment.replicas if self._context.is_online(r, partition)],
        )
        return elect(Strategy.PREFERRED, candidates) is not None


def _strategy(kind: ElectionType, trigger: ElectionTrigger) -> Strategy:
    """Only an admin client's explicit request allows an unclean election to lose records."""
    if kind is ElectionType.PREFERRED:
        return Strategy.PREFERRED
    if trigger is ElectionTrigger.ADMIN:
        return Strategy.OFFLINE_ALLOW_UNCLEAN
    return Strategy.OFFLINE


def _answer(kind: ElectionType, result: MoveResult | None) -> int | ApiError:
    if result is not None and not isinstance(result, StateChangeFailed):
        return result.leader
    code = ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
    if kind is ElectionType.PREFERRED:
        code = ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    return ApiError(code, str(result) if result is not None else "")
