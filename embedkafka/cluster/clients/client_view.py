"""A cluster as any client sees it: topics, partitions, ends, groups and their lag, as values.

It uses confluent-kafka, so it serves embedded and external clusters alike.

Owner: the caller's thread; one admin client, made with it.
Not here: waiting until something is so (`client_waits`), what only brokers know (`report`).
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from embedkafka.cluster.clients.group_status import GroupMember, GroupStatus, lag_of
from embedkafka.cluster.cluster_state import PartitionStatus
from embedkafka.runtime.arguments import require_text, shown
from embedkafka.runtime.failures import EmbedKafkaError, InvalidArgument
from embedkafka.runtime.ids import TopicPartition
from embedkafka.spark.offsets import ask_ends

if TYPE_CHECKING:
    from embedkafka.spark.client_settings import ClientSettings

_REQUEST_TIMEOUT_S: Final = 10.0
STATES: Final = {
    "Assigning": "ASSIGNING",
    "CompletingRebalance": "COMPLETING_REBALANCING",
    "Dead": "DEAD",
    "Empty": "EMPTY",
    "PreparingRebalance": "PREPARING_REBALANCING",
    "Reconciling": "RECONCILING",
    "Stable": "STABLE",
}
"""Kafka's names -> those of confluent-kafka."""
_NAMES: Final = {theirs: name for name, theirs in STATES.items()}


class ClientView:
    """Looks at one cluster. Any: confluent-kafka has no types, and is imported late."""

    def __init__(self, bootstrap_servers: str, settings: "ClientSettings | None" = None) -> None:
        from confluent_kafka.admin import AdminClient

        connection = {} if settings is None else settings.librdkafka
        self.bootstrap_servers = bootstrap_servers
        self.client_config: dict[str, Any] = {
            **connection,
            "bootstrap.servers": bootstrap_servers,
            "client.id": "embedkafka-await",
            "log_level": 2,
        }
        self._admin: Any = AdminClient(self.client_config)

    # -- topics

    def metadata(self) -> Any:
        """Brokers and topics; raises `EmbedKafkaError` if no broker answers."""
        from confluent_kafka import KafkaException

        try:
            return self._admin.list_topics(timeout=_REQUEST_TIMEOUT_S)
        except KafkaException as error:
            raise EmbedKafkaError(
                f"no broker answers at {self.bootstrap_servers}: {error}"
            ) from error

    def statuses(self, topic: str | None = None) -> list[PartitionStatus]:
        """All partitions, or those of a topic, sorted. Raises if there is no such topic."""
        found = self.metadata().topics
        if topic is not None and require_text("topic", topic) not in found:
            known = ", ".join(sorted(found)) or "none"
            raise InvalidArgument(f"there is no topic {topic!r}; there are {known}")
        return [each for each in statuses_in(found) if topic in (None, each.topic)]

    def partitions(self, topic: str) -> set[TopicPartition]:
        """The partitions of a topic; none if there is no such topic."""
        found = self._admin.list_topics(timeout=_REQUEST_TIMEOUT_S).topics.get(topic)
        return set() if found is None else {TopicPartition(topic, n) for n in found.partitions}

    def ends(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The high watermarks of partitions."""
        wanted = set(partitions)
        return ask_ends(self._admin, wanted, is_committed=False, timeout_s=_REQUEST_TIMEOUT_S)

    # -- groups

    def groups(self) -> list[GroupStatus]:
        """All consumer groups, by name."""
        return [self.group(name) for name in sorted(self.group_names())]

    def group_names(self) -> frozenset[str]:
        """The ids of all consumer groups."""
        listed = self._admin.list_consumer_groups().result(_REQUEST_TIMEOUT_S).valid
        return frozenset(each.group_id for each in listed)

    def delete_group(self, group: str) -> None:
        """Deletes a group without members, with its offsets. Raises the cluster's refusal."""
        (deleted,) = self._admin.delete_consumer_groups([group]).values()
        deleted.result(_REQUEST_TIMEOUT_S)

    def group(self, group: str) -> GroupStatus:
        """A group; one that does not exist is "Dead"."""
        require_text("group", group)
        described = self._describe(group)
        committed = self.committed(group)
        ends = self._known_ends(committed)
        return GroupStatus(
            group_id=group,
            state=_NAMES.get(described.state.name, described.state.name),
            members=tuple(map(_member, described.members)),
            committed=committed,
            lag=lag_of(committed, ends),
        )

    def state_of(self, group: str) -> tuple[str, int]:
        """Kafka's name of a group's state, and how many members it has."""
        described = self._describe(group)
        return _NAMES.get(described.state.name, described.state.name), len(described.members)

    def committed(self, group: str) -> dict[TopicPartition, int]:
        """The committed offsets of a group."""
        from confluent_kafka import ConsumerGroupTopicPartitions

        asked = [ConsumerGroupTopicPartitions(group)]
        (found,) = self._admin.list_consumer_group_offsets(asked).values()
        return {
            TopicPartition(each.topic, each.partition): each.offset
            for each in found.result(_REQUEST_TIMEOUT_S).topic_partitions
            if each.offset >= 0
        }

    def lag(self, group: str, topic: str | None) -> dict[TopicPartition, int]:
        """How far the group is behind, for what it committed, or for all of a topic."""
        from confluent_kafka import KafkaException

        require_text("group", group)
        try:
            committed = self.committed(group)
        except KafkaException as error:
            raise EmbedKafkaError(f"cannot ask for the group {shown(group)}: {error}") from error
        if topic is None:
            return lag_of(committed, self._known_ends(committed))
        partitions = self.partitions(require_text("topic", topic))
        if not partitions:
            raise InvalidArgument(f"there is no topic {topic!r}")
        ends = self.ends(partitions)
        return {each: max(0, end - committed.get(each, 0)) for each, end in sorted(ends.items())}

    def _known_ends(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Of partitions that still exist; a group may have committed for a deleted topic."""
        from confluent_kafka import KafkaException

        ends: dict[TopicPartition, int] = {}
        wanted = set(partitions)
        if not wanted:
            return ends
        existing = {TopicPartition(each.topic, each.partition) for each in self.statuses()}
        with suppress(KafkaException):  # a partition without a leader: no lag is known
            ends = self.ends(wanted & existing)
        return ends

    def _describe(self, group: str) -> Any:
        (found,) = self._admin.describe_consumer_groups([group]).values()
        return found.result(_REQUEST_TIMEOUT_S)


def statuses_in(topics: Any) -> Iterator[PartitionStatus]:
    """All partitions, sorted; clients do not see epochs. Any: of confluent-kafka's metadata."""
    for topic, found in sorted(topics.items()):
        for number, partition in sorted(found.partitions.items()):
            yield PartitionStatus(
                topic=topic,
                partition=number,
                leader=None if partition.leader < 0 else partition.leader,
                leader_epoch=-1,
                isr=tuple(partition.isrs),
                replicas=tuple(partition.replicas),
            )


def _member(member: Any) -> GroupMember:
    """Any: of confluent-kafka."""
    assigned = () if member.assignment is None else member.assignment.topic_partitions
    return GroupMember(
        member_id=member.member_id,
        client_id=member.client_id,
        host=member.host,
        partitions=tuple(sorted(TopicPartition(each.topic, each.partition) for each in assigned)),
    )
