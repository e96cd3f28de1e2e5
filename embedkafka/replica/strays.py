"""Logs that nobody wants here any more: what the controller decided while this broker was down.

Their partitions were moved to other brokers, or their topics deleted, and perhaps made again under
the same name. A topic made again would be refused for as long as the old log is in its place
(INCONSISTENT_TOPIC_ID), so strays are set aside when a broker starts, as Kafka does since KRaft.
"""

from collections.abc import Callable, Iterable

from embedkafka.log.log import Log
from embedkafka.runtime.ids import BrokerId, TopicPartition
from embedkafka.zk.payloads import TopicAssignment


def find_strays(
    logs: Iterable[Log],
    broker_id: BrokerId,
    find_topic: Callable[[str], TopicAssignment | None],
) -> list[TopicPartition]:
    """The partitions whose logs are here though the store has no replica of them on this broker."""
    topics: dict[str, TopicAssignment | None] = {}
    strays = []
    for log in logs:
        topic, partition = log.topic_partition
        if topic not in topics:
            topics[topic] = find_topic(topic)
        known = topics[topic]
        if known is None or _is_of_another(log, known) or not _has(known, partition, broker_id):
            strays.append(log.topic_partition)
    return strays


def _is_of_another(log: Log, topic: TopicAssignment) -> bool:
    """Whether the log belongs to an earlier topic of that name."""
    return None not in (log.topic_id, topic.topic_id) and log.topic_id != topic.topic_id


def _has(topic: TopicAssignment, partition: int, broker_id: BrokerId) -> bool:
    assignment = topic.partitions.get(partition)
    return assignment is not None and broker_id in assignment.replicas
