"""Creates, grows and deletes topics by writing to the store; the controller does the rest.

Owner: none; each call reads what it needs. Any broker may serve these requests, as in today's
Kafka, because the store orders the writes.
"""

import random
import uuid
from collections.abc import Mapping, Sequence

from embedkafka.broker.metadata_cache import MetadataCache
from embedkafka.broker.settings.broker import BrokerConfig
from embedkafka.broker.settings.topic import parse_topic_settings
from embedkafka.broker.topics.placement import (
    BrokerRack,
    assign_new_partitions,
    assign_replicas,
    without_partial_racks,
)
from embedkafka.broker.topics.rules import (
    DEFAULT,
    check_assignment,
    check_batch_size,
    check_collision,
    check_counts,
    check_topic_name,
    check_unset,
)
from embedkafka.runtime.failures import ConfigError
from embedkafka.runtime.values import dataclass
from embedkafka.wire.protocol.errors import ApiError, ErrorCode
from embedkafka.zk.kafka_zk import KafkaZk
from embedkafka.zk.payloads import ReplicaAssignment, TopicAssignment
from embedkafka.zk.store import NodeExists

Assignment = Mapping[int, Sequence[int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopic:
    """A topic to create, or one that a validation would create."""

    name: str
    topic_id: uuid.UUID
    assignment: Assignment
    config: Mapping[str, str]

    @property
    def replication_factor(self) -> int:
        return len(self.assignment[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """A topic with its added partitions, and how many were added."""

    topic: TopicAssignment
    added: int


class TopicAdmin:
    """Carries out topic changes for one broker."""

    def __init__(self, zk: KafkaZk, metadata: MetadataCache, rng: random.Random) -> None:
        self._zk = zk
        self._metadata = metadata
        self._rng = rng

    def plan_topic(
        self,
        name: str,
        *,
        partitions: int = DEFAULT,
        replication: int = DEFAULT,
        assignment: Sequence[tuple[int, Sequence[int]]] = (),
        config: Mapping[str, str | None] | None = None,
        broker_config: BrokerConfig,
    ) -> NewTopic:
        """Checks the request and places the replicas; raises ApiError. Writes nothing."""
        check_topic_name(name)
        existing = self._zk.topics()
        if name in existing or self._zk.is_marked_for_deletion(name):
            raise _already_exists(name)
        check_collision(name, existing)
        settings = _checked_config(config or {})
        if assignment:
            check_unset(partitions, replication)
            placed: Assignment = check_assignment(assignment, self._racks())
        else:
            placed = self._place(
                broker_config.integer("num.partitions") if partitions == DEFAULT else partitions,
                broker_config.integer("default.replication.factor")
                if replication == DEFAULT
                else replication,
            )
        topic_id = uuid.UUID(int=self._rng.getrandbits(128), version=4)
        return NewTopic(name=name, topic_id=topic_id, assignment=placed, config=settings)

    def create(self, topic: NewTopic) -> None:
        try:
            self._zk.create_topic(
                topic.name, topic.assignment, topic_id=topic.topic_id, config=topic.config
            )
        except NodeExists:
            raise _already_exists(topic.name) from None

    def plan_partitions(
        self,
        name: str,
        *,
        count: int,
        assignments: Sequence[Sequence[int]] | None,
        before: int = 0,
    ) -> Growth:
        """The topic grown to `count` partitions; raises ApiError. Writes nothing.

        `before` counts the partitions that the same request has added to other topics.
        """
        topic = self._zk.find_topic(name)
        if topic is None or self._zk.is_marked_for_deletion(name):
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if any(replicas.is_being_reassigned for replicas in topic.partitions.values()):
            raise ApiError(
                ErrorCode.REASSIGNMENT_IN_PROGRESS,
                f"A partition reassignment is in progress for the topic '{name}'.",
            )
        old = len(topic.partitions)
        _check_growth(name, old, count)
        if assignments is not None:
            _check_assigned(assignments, count - old)
        check_batch_size(before + count - old)
        if assignments is None:
            added = self._place_more(topic, count)
        else:
            added = check_assignment(
                enumerate(assignments, old),
                self._racks(),
                first=old,
                replication=len(topic.partitions[0].replicas),
            )
        return Growth(
            topic=TopicAssignment(
                topic=name,
                topic_id=topic.topic_id,
                partitions={
                    **topic.partitions,
                    **{p: ReplicaAssignment(replicas=tuple(r)) for p, r in added.items()},
                },
            ),
            added=len(added),
        )

    def create_partitions(self, topic: TopicAssignment) -> None:
        self._zk.set_topic_assignment(topic.topic, topic.partitions, topic_id=topic.topic_id)

    def delete(self, name: str) -> None:
        """Requests the deletion; a repeated request is no error."""
        if not self._zk.topic_exists(name):
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "")
        try:
            self._zk.request_topic_deletion(name)
        except NodeExists:
            pass

    def _place(self, partitions: int, replication: int) -> Assignment:
        brokers = self._brokers()
        check_counts(partitions, replication, len(brokers))
        return assign_replicas(
            brokers, partitions=partitions, replication_factor=replication, rng=self._rng
        )

    def _place_more(self, topic: TopicAssignment, count: int) -> Assignment:
        brokers = self._brokers()
        existing = {p: assigned.replicas for p, assigned in topic.partitions.items()}
        check_counts(count - len(existing), len(existing[0]), len(brokers))
        return assign_new_partitions(existing, brokers, partitions=count, rng=self._rng)

    def _brokers(self) -> list[BrokerRack]:
        return without_partial_racks(
            BrokerRack(id=id_, rack=rack) for id_, rack in self._racks().items()
        )

    def _racks(self) -> dict[int, str | None]:
        return {node.id: node.rack for node in self._metadata.snapshot.brokers.values()}


def _check_growth(name: str, old: int, count: int) -> None:
    if count == old:
        reason = f"Topic already has {old} partition(s)."
    elif count < old:
        reason = (
            f"The topic {name} currently has {old} partition(s); {count} would not be an increase."
        )
    else:
        return
    raise ApiError(ErrorCode.INVALID_PARTITIONS, reason)


def _check_assigned(assignments: Sequence[Sequence[int]], added: int) -> None:
    if len(assignments) != added:
        raise ApiError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Attempted to add {added} additional partition(s), but only "
            f"{len(assignments)} assignment(s) were specified.",
        )


def _checked_config(config: Mapping[str, str | None]) -> dict[str, str]:
    try:
        parse_topic_settings(config)
    except ConfigError as error:
        raise ApiError(ErrorCode.INVALID_CONFIG, str(error)) from error
    return {name: str(value) for name, value in config.items()}


def _already_exists(name: str) -> ApiError:
    return ApiError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
