"""Reads the numbers of `kafka.metrics()` off the brokers.

Gauges are read off a broker's parts when a user asks. Counters of requests, records and bytes
begin with the first call (`broker.meter`), and so do those of controllers (`controller.event_log`).

Owner: none; it only reads.
Not here: what each number is about (`metric_names`), and how they are shown (`metrics`).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from embedkafka.cluster.reports.controller_metrics import controller_metrics
from embedkafka.cluster.reports.description import views_by_partition
from embedkafka.cluster.reports.metric_names import (
    BROKER,
    CONTROLLER,
    COORDINATOR,
    GROUP_STATES,
    GROUPS,
    PURGATORY,
    REQUESTS,
    TOPICS,
    TRANSACTIONS,
)
from embedkafka.cluster.reports.metrics import Metric, Metrics
from embedkafka.cluster.reports.network_metrics import network_metrics
from embedkafka.cluster.reports.replica_metrics import replica_metrics
from embedkafka.cluster.reports.report import Asked, ask
from embedkafka.cluster.reports.waits import purgatories
from embedkafka.runtime.ids import BrokerId

if TYPE_CHECKING:
    from embedkafka.broker.broker import Broker
    from embedkafka.broker.meter import ApiTotals, Meter, TopicTotals
    from embedkafka.cluster.brokers import Brokers
    from embedkafka.cluster.cluster_state import PartitionStatus


def collect(brokers: "Brokers") -> Metrics:
    """The metrics of the running brokers."""
    meters = brokers.meters()
    statuses, live = brokers.state.partitions(), brokers.live()
    views = views_by_partition(live)
    asked, controller_id = ask(brokers, statuses, views), brokers.state.find_controller()
    found: list[Metric] = []
    for each in brokers.all():
        labels = {"broker": str(each.id)}
        found.append(Metric(BROKER, "BrokerState", labels, each.run_state.value))
    for broker in live:
        found += replica_metrics(broker, views)
        found += _purgatories(broker)
        found += _offsets(broker)
        found += _conversions(broker)
        found += network_metrics(broker)
        found += controller_metrics(broker, controller_id, brokers.controller_event_log)
    for broker_id, meter in meters.items():
        found += _counted(broker_id, meter)
    found += _coordinated(asked)
    found += _decided(statuses, brokers=len(live))
    return Metrics(found)


def _decided(statuses: Sequence["PartitionStatus"], *, brokers: int) -> Iterator[Metric]:
    """What the controller knows of the whole cluster."""
    led = [status for status in statuses if status.leader is not None]
    for name, count in (
        ("ActiveBrokerCount", brokers),
        ("GlobalTopicCount", len({status.topic for status in statuses})),
        ("GlobalPartitionCount", len(statuses)),
        ("OfflinePartitionsCount", len(statuses) - len(led)),
        ("PreferredReplicaImbalanceCount", sum(s.leader != s.replicas[0] for s in led)),
    ):
        yield Metric(CONTROLLER, name, {}, count)


def _purgatories(broker: "Broker") -> Iterator[Metric]:
    labels = {"broker": str(broker.id)}
    for operation, purgatory in purgatories(broker).items():
        about = {**labels, "delayedOperation": operation}
        yield Metric(PURGATORY, "PurgatorySize", about, purgatory.watched)
        yield Metric(PURGATORY, "NumDelayedOperations", about, purgatory.delayed)
    for operation, delayed in broker.groups.delayed().items():
        # Each watches its group or its member, and nothing else.
        about = {**labels, "delayedOperation": operation}
        yield Metric(PURGATORY, "PurgatorySize", about, delayed)
        yield Metric(PURGATORY, "NumDelayedOperations", about, delayed)


def _counted(broker_id: BrokerId, meter: "Meter") -> Iterator[Metric]:
    labels = {"broker": str(broker_id)}
    for api_key, api in meter.apis().items():
        name = api_key.name.title().replace("_", "")
        yield from _requests({**labels, "request": name}, api)
    for topic, totals in meter.topics().items():
        yield from _topic({**labels, "topic": topic}, totals)


def _requests(labels: Mapping[str, str], totals: "ApiTotals") -> Iterator[Metric]:
    for name, value in (
        ("RequestsPerSec", totals.requests),
        ("RequestBytes", totals.request_bytes),
        ("RequestQueueTimeMs", totals.queue_ms),
        ("LocalTimeMs", totals.local_ms),
        ("RemoteTimeMs", totals.remote_ms),
        ("ThrottleTimeMs", totals.throttle_ms),
        ("ResponseQueueTimeMs", totals.response_queue_ms),
        ("ResponseSendTimeMs", totals.send_ms),
        ("TotalTimeMs", totals.total_ms),
    ):
        yield Metric(REQUESTS, name, labels, value)
    for error, count in dict(totals.errors).items():
        yield Metric(REQUESTS, "ErrorsPerSec", {**labels, "error": error}, count)


def _topic(labels: Mapping[str, str], totals: "TopicTotals") -> Iterator[Metric]:
    for name, value in (
        ("MessagesInPerSec", totals.messages_in),
        ("BytesInPerSec", totals.bytes_in),
        ("BytesOutPerSec", totals.bytes_out),
        ("TotalProduceRequestsPerSec", totals.produces),
        ("FailedProduceRequestsPerSec", totals.failed_produces),
        ("TotalFetchRequestsPerSec", totals.fetches),
        ("FailedFetchRequestsPerSec", totals.failed_fetches),
    ):
        yield Metric(TOPICS, name, labels, value)


def _offsets(broker: "Broker") -> Iterator[Metric]:
    totals, labels = broker.groups.offset_totals, {"broker": str(broker.id)}
    for name, count in (
        ("offset-commit-count", totals.committed),
        ("offset-expiration-count", totals.expired),
        ("offset-deletion-count", totals.deleted),
        ("ExpiredGroups", totals.expired_groups),
    ):
        yield Metric(COORDINATOR, name, labels, count)


def _conversions(broker: "Broker") -> Iterator[Metric]:
    labels = {"broker": str(broker.id)}
    for (purpose, topic), total in broker.logs.conversions.totals().items():
        about = {**labels, "topic": topic}
        yield Metric(TOPICS, f"{purpose.value}MessageConversionsPerSec", about, total.records)
        about = {**about, "request": purpose.value}
        yield Metric(REQUESTS, "MessageConversionsTimeMs", about, total.ms)
        yield Metric(REQUESTS, "TemporaryMemoryBytes", about, total.size)


def _coordinated(asked: Asked) -> Iterator[Metric]:
    yield Metric(GROUPS, "NumGroups", {}, len(asked.groups))
    yield Metric(GROUPS, "NumOffsets", {}, sum(len(group.committed) for group in asked.groups))
    for name in GROUP_STATES:
        count = sum(group.state == name for group in asked.groups)
        yield Metric(GROUPS, f"NumGroups{name}", {}, count)
    for group in asked.groups:
        for partition, lag in group.lag.items():
            about = {
                "group": group.group_id,
                "topic": partition.topic,
                "partition": str(partition.partition),
            }
            yield Metric(GROUPS, "GroupLag", about, lag)
    states = [transaction.state for transaction in asked.transactions]
    for state in sorted(set(states)):
        about = {"state": state}
        yield Metric(TRANSACTIONS, "NumOpenTransactions", about, states.count(state))
