"""Finds stray logs, which became obsolete while this broker was down.

Their partitions moved to other brokers, or their topics were deleted and perhaps created again.
A starting broker sets them aside, as Kafka does since KRaft: the controller's first request would
delete their files.
"""

from collections.abc import Callable, Iterable

from embedkafka.broker.log.log import Log
from embedkafka.runtime.ids import BrokerId, TopicPartition
from embedkafka.zk.payloads import TopicAssignment


def find_strays(
    logs: Iterable[Log],
    broker_id: BrokerId,
    find_topic: Callable[[str], TopicAssignment | None],
) -> list[TopicPartition]:
    """The partitions with a local log but no replica on this broker in the store."""
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
    """Whether the log belongs to an earlier topic with that name."""
    return None not in (log.topic_id, topic.topic_id) and log.topic_id != topic.topic_id


def _has(topic: TopicAssignment, partition: int, broker_id: BrokerId) -> bool:
    assignment = topic.partitions.get(partition)
    return assignment is not None and broker_id in assignment.replicas
