"""On which brokers replicas are, and bringing them back there after a test has moved them.

A reassignment that is still under way ends where it began.

Owner: none; it asks the controller and waits for it.
"""

import logging
from collections.abc import Collection, Mapping
from typing import Final

from embedkafka.cluster.brokers import Brokers
from embedkafka.cluster.waiting import PATIENCE_S
from embedkafka.runtime.clock import REAL_TIME
from embedkafka.runtime.failures import EmbedKafkaError
from embedkafka.runtime.ids import BrokerId, TopicPartition
from embedkafka.wire.protocol.errors import ApiError
from embedkafka.zk.payloads import TopicAssignment

_LOG = logging.getLogger(__name__)

_ASK_AGAIN_MS: Final = 100

Placements = Mapping[TopicPartition, tuple[int, ...]]


def placements_of(topics: Mapping[str, TopicAssignment]) -> Placements:
    """The replicas of each partition, or those that it is about to have."""
    return {
        partition: assignment.target
        for topic in topics.values()
        for partition, assignment in topic.by_topic_partition().items()
    }


def placed_among(
    brokers: Collection[BrokerId], partition: TopicPartition, replicas: tuple[int, ...]
) -> tuple[int, ...]:
    """As many replicas on these brokers alone, of which each keeps the one it has."""
    kept = [replica for replica in replicas if replica in brokers]
    free = sorted(set(brokers) - set(kept))
    start = partition.partition % len(free) if free else 0
    return (*kept, *free[start:], *free[:start])[: len(replicas)]


def restore_placements(brokers: Brokers, wanted: Placements) -> None:
    """Moves replicas back to where they were."""
    running = {handle.id for handle in brokers.running()}
    reachable = {each: where for each, where in wanted.items() if running.issuperset(where)}
    moved = {partition: wanted[partition] for partition in _misplaced(brokers, reachable)}
    if not moved:
        return
    try:
        _reassign(brokers, moved)
    except EmbedKafkaError as error:
        _LOG.warning("replicas of the last test could not be moved back: %s", error)


def _reassign(brokers: Brokers, wanted: Placements) -> None:
    deadline_ms = REAL_TIME.monotonic_ms() + PATIENCE_S * 1000
    while refused := _ask_controller(brokers, wanted):
        # A new controller, or a broker that it hears of, may change the answer.
        now_ms, seen_changes = REAL_TIME.monotonic_ms(), brokers.waiting.changes
        if now_ms > deadline_ms:
            raise EmbedKafkaError(f"the controller refuses: {refused}")
        brokers.waiting.await_change(seen_changes, now_ms + _ASK_AGAIN_MS)

    def probe() -> str | None:
        misplaced = _misplaced(brokers, wanted)
        return ", ".join(f"{each} on {replicas}" for each, replicas in misplaced.items()) or None

    brokers.waiting.await_state("replicas to be back where they were", probe)


def _ask_controller(brokers: Brokers, wanted: Placements) -> str:
    """Returns what was refused, with the reasons."""
    brokers.waiting.await_state("a controller", brokers.state.controller())
    found = brokers.state.find_controller()
    handle = None if found is None else brokers.require(BrokerId(found))
    if handle is None or not handle.is_running:
        return "there is no controller"
    controller = handle.require_broker().controller
    assert controller is not None, "a running broker is a candidate"
    answers: list[Mapping[TopicPartition, ApiError | None] | ApiError] = []

    def note(answer: Mapping[TopicPartition, ApiError | None] | ApiError) -> None:
        answers.append(answer)
        brokers.on_change()

    controller.alter_partition_reassignments(wanted, note)
    brokers.waiting.await_state(
        "the controller's answer", lambda: None if answers else f"none from broker {found}"
    )
    (answer,) = answers
    if isinstance(answer, ApiError):
        return str(answer)
    return ", ".join(f"{each}: {error}" for each, error in answer.items() if error is not None)


def _misplaced(brokers: Brokers, wanted: Placements) -> Placements:
    """The partitions whose replicas are not, or not only, where they should be."""
    names = {partition.topic for partition in wanted}
    return {
        partition: assignment.replicas
        for topic in brokers.zk.topic_assignments(names).values()
        for partition, assignment in topic.by_topic_partition().items()
        if partition in wanted
        if assignment.is_being_reassigned or assignment.replicas != wanted[partition]
    }
