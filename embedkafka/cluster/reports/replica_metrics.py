"""The metrics of the replicas on a broker: as leader, as follower, and as files.

Owner: none; it only reads.
Not here: each follower of one partition (`followers`).
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from embedkafka.broker.replica.following.fetcher import FollowState
from embedkafka.cluster.reports.description import Views
from embedkafka.cluster.reports.metric_names import FETCHER_LAG, FETCHERS, LOG, REPLICAS, TOPICS
from embedkafka.cluster.reports.metrics import Metric

if TYPE_CHECKING:
    from embedkafka.broker.broker import Broker


def replica_metrics(broker: "Broker", views: Views) -> Iterator[Metric]:
    """`views` has each partition as its leader sees it."""
    labels = {"broker": str(broker.id)}
    yield from _led(broker, labels)
    yield from _followed(broker, views, labels)
    yield Metric(TOPICS, "ReplicationBytesInPerSec", labels, broker.replicas.fetchers.bytes_in)
    sent = sum(broker.replicas.reads.bytes_out.copy().values())
    yield Metric(TOPICS, "ReplicationBytesOutPerSec", labels, sent)
    yield from _logs(broker, labels)


def _led(broker: "Broker", labels: Mapping[str, str]) -> Iterator[Metric]:
    views = broker.replicas.hosted.views()
    led = [view for view in views if view.leader == broker.id]
    under = [view for view in led if len(view.isr) < len(view.replicas)]
    spare = [
        len(view.isr) - broker.config.log_config(view.topic_partition.topic).min_insync_replicas
        for view in led
    ]
    updates = broker.replicas.isr_updates
    for name, count in (
        ("PartitionCount", len(views)),
        ("LeaderCount", len(led)),
        ("OfflineReplicaCount", len(broker.replicas.hosted.offline())),
        ("UnderReplicatedPartitions", len(under)),
        ("UnderMinIsrPartitionCount", sum(count < 0 for count in spare)),
        ("AtMinIsrPartitionCount", spare.count(0)),
        ("IsrShrinksPerSec", updates.shrinks),
        ("IsrExpandsPerSec", updates.expands),
    ):
        yield Metric(REPLICAS, name, labels, count)


def _followed(broker: "Broker", views: Views, labels: Mapping[str, str]) -> Iterator[Metric]:
    fetchers = broker.replicas.fetchers
    largest = failed = 0
    for own in broker.replicas.hosted.views():
        partition = own.topic_partition
        state = fetchers.find_state(partition)
        failed += state is FollowState.FAILED
        leader, is_led = views.get(partition, (own, False))
        if state is None or not is_led:
            continue
        lag = max(0, leader.log_end_offset - own.log_end_offset)
        largest = max(largest, lag)
        about = {
            **labels,
            "clientId": f"ReplicaFetcherThread-0-{own.leader}",
            "topic": partition.topic,
            "partition": str(partition.partition),
        }
        yield Metric(FETCHER_LAG, "ConsumerLag", about, lag)
    yield Metric(FETCHERS, "MaxLag", {**labels, "clientId": "Replica"}, largest)
    yield Metric(FETCHERS, "FailedPartitionsCount", {**labels, "clientId": "Replica"}, failed)


def _logs(broker: "Broker", labels: Mapping[str, str]) -> Iterator[Metric]:
    for log in broker.logs.all_logs():
        partition = log.topic_partition
        about = {**labels, "topic": partition.topic, "partition": str(partition.partition)}
        yield Metric(LOG, "Size", about, log.size)
        yield Metric(LOG, "NumLogSegments", about, log.segment_count)
        yield Metric(LOG, "LogStartOffset", about, log.log_start_offset)
        yield Metric(LOG, "LogEndOffset", about, log.log_end_offset)
