"""`kafka.metrics()`: numbers about a running cluster, under the names of Kafka's metrics.

Gauges are read off the brokers when they are asked for. Counters of requests, records and bytes
begin with the first call (`server.meter`).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from embedkafka.cluster.reports.description import views_by_partition
from embedkafka.cluster.reports.report import Asked, ask
from embedkafka.runtime.arguments import require_text
from embedkafka.runtime.failures import InvalidArgument
from embedkafka.runtime.ids import BrokerId
from embedkafka.runtime.values import NamedTuple

if TYPE_CHECKING:
    from embedkafka.cluster.brokers import Brokers
    from embedkafka.cluster.cluster_state import PartitionStatus
    from embedkafka.server.broker import Broker
    from embedkafka.server.meter import ApiTotals, Meter, TopicTotals


class Metric(NamedTuple):
    """One number: Kafka's MBean and name, what it is about, and the value."""

    group: str
    """Domain and type of Kafka's MBean, such as "kafka.server:type=BrokerTopicMetrics"."""
    name: str
    """Kafka's name, such as "MessagesInPerSec". Rates and times are totals: you divide."""
    labels: Mapping[str, str]
    """What the number is about: broker, topic, partition, request, error, group, state."""
    value: float


class Metrics:
    """The metrics of a cluster at one moment; iterate over it for every single number."""

    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._metrics = tuple(metrics)

    def __iter__(self) -> Iterator[Metric]:
        return iter(self._metrics)

    def __repr__(self) -> str:
        return f"<Metrics: {len(self._metrics)} numbers>"

    def total(self, name: str, **labels: object) -> float:
        """The sum of all numbers called `name` that have these labels; 0 if there are none.

            assert kafka.metrics().total("MessagesInPerSec", topic="orders") == 3

        Raises:
            InvalidArgument: no metric has this name.
        """
        if require_text("name", name) not in NAMES:
            import difflib  # only a wrong name needs it

            near = difflib.get_close_matches(name, NAMES, n=1)
            hint = f"; did you mean {near[0]!r}" if near else ""
            raise InvalidArgument(f"there is no metric {name!r}{hint}. There are {sorted(NAMES)}")
        wanted = {label: str(value) for label, value in labels.items()}.items()
        return sum(
            metric.value
            for metric in self._metrics
            if metric.name == name and wanted <= metric.labels.items()
        )

    def prometheus(self) -> str:
        """All numbers in Prometheus's text format, named as Kafka's JMX exporter names them."""
        lines: list[str] = []
        typed: set[str] = set()
        for metric in sorted(self._metrics, key=_prometheus_name):
            name = _prometheus_name(metric)
            if name not in typed:
                typed.add(name)
                lines.append(f"# HELP {name} {NAMES[metric.name]}")
                lines.append(f"# TYPE {name} {'counter' if name.endswith('_total') else 'gauge'}")
            labels = ",".join(f'{label}="{_escaped(v)}"' for label, v in metric.labels.items())
            lines.append(f"{name}{{{labels}}} {metric.value:g}")
        return "\n".join(lines) + "\n"


_REQUESTS: Final = "kafka.network:type=RequestMetrics"
_TOPICS: Final = "kafka.server:type=BrokerTopicMetrics"
_REPLICAS: Final = "kafka.server:type=ReplicaManager"
_PURGATORY: Final = "kafka.server:type=DelayedOperationPurgatory"
_CONTROLLER: Final = "kafka.controller:type=KafkaController"
_LOG: Final = "kafka.log:type=Log"
_GROUPS: Final = "kafka.coordinator.group:type=GroupMetadataManager"
_TRANSACTIONS: Final = "kafka.coordinator.transaction:type=TransactionStateManager"

NAMES: Final[Mapping[str, str]] = {
    "RequestsPerSec": "Requests of clients.",
    "ErrorsPerSec": "Answers to clients, by error.",
    "RequestBytes": "Bytes of requests.",
    "RequestQueueTimeMs": "Milliseconds that requests waited for a thread.",
    "LocalTimeMs": "Milliseconds in which the broker worked on requests.",
    "RemoteTimeMs": "Milliseconds that requests waited for records or other brokers.",
    "ResponseSendTimeMs": "Milliseconds in which responses were sent.",
    "TotalTimeMs": "Milliseconds from the arrival of requests to their answers.",
    "MessagesInPerSec": "Records that clients produced.",
    "BytesInPerSec": "Bytes that clients produced.",
    "BytesOutPerSec": "Bytes that clients fetched.",
    "TotalProduceRequestsPerSec": "Requests to produce.",
    "FailedProduceRequestsPerSec": "Requests to produce that failed.",
    "TotalFetchRequestsPerSec": "Requests to fetch.",
    "FailedFetchRequestsPerSec": "Requests to fetch that failed.",
    "PartitionCount": "Replicas on the broker.",
    "LeaderCount": "Partitions that the broker leads.",
    "OfflineReplicaCount": "Replicas whose log directory has failed.",
    "UnderReplicatedPartitions": "Partitions it leads with a replica that is not in sync.",
    "UnderMinIsrPartitionCount": "Partitions it leads with fewer than min.insync.replicas in sync.",
    "AtMinIsrPartitionCount": "Partitions it leads with exactly min.insync.replicas in sync.",
    "IsrShrinksPerSec": "Replicas that fell out of sync.",
    "IsrExpandsPerSec": "Replicas that came into sync.",
    "PurgatorySize": "Requests that wait for a condition.",
    "ActiveControllerCount": "1 on the broker that is the controller, 0 on others.",
    "ActiveBrokerCount": "Brokers that run.",
    "GlobalTopicCount": "Topics of the cluster.",
    "GlobalPartitionCount": "Partitions of the cluster.",
    "OfflinePartitionsCount": "Partitions without a leader.",
    "PreferredReplicaImbalanceCount": "Partitions that their preferred replica does not lead.",
    "Size": "Bytes in the log of a replica.",
    "LogStartOffset": "The first offset of a replica.",
    "LogEndOffset": "The offset after the last record of a replica.",
    "NumGroups": "Consumer groups of the cluster.",
    "GroupLag": "Records of a partition that a group has not committed.",
    "NumOpenTransactions": "Transactions that are open, by state.",
}
"""What every number is about. `GroupLag` and `NumOpenTransactions` are ours; Kafka has no such
metrics."""


def collect(brokers: "Brokers") -> Metrics:
    """The metrics of the running brokers."""
    meters = brokers.meters()
    statuses, views = brokers.state.partitions(), views_by_partition(brokers.all())
    asked = ask(brokers, statuses, views)
    found: list[Metric] = []
    for handle in brokers.running():
        found += _broker(handle.require_broker())
    for broker_id, meter in meters.items():
        found += _counted(broker_id, meter)
    found += _coordinated(asked)
    found += _decided(statuses, brokers=len(list(brokers.running())))
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
        yield Metric(_CONTROLLER, name, {}, count)


def _broker(broker: "Broker") -> Iterator[Metric]:
    labels = {"broker": str(broker.id)}
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
        yield Metric(_REPLICAS, name, labels, count)
    is_controller = broker.zk.find_controller_id() == broker.id
    yield Metric(_CONTROLLER, "ActiveControllerCount", labels, int(is_controller))
    waiters = broker.replicas.waiters
    for operation, purgatory in (
        ("Produce", waiters.produce),
        ("Fetch", waiters.fetch),
        ("DeleteRecords", waiters.delete_records),
        ("topic", broker.topic_purgatory),
    ):
        about = {**labels, "delayedOperation": operation}
        yield Metric(_PURGATORY, "PurgatorySize", about, purgatory.watched)
    yield from _logs(broker, labels)


def _logs(broker: "Broker", labels: Mapping[str, str]) -> Iterator[Metric]:
    for log in broker.logs.all_logs():
        partition = log.topic_partition
        about = {**labels, "topic": partition.topic, "partition": str(partition.partition)}
        yield Metric(_LOG, "Size", about, log.size)
        yield Metric(_LOG, "LogStartOffset", about, log.log_start_offset)
        yield Metric(_LOG, "LogEndOffset", about, log.log_end_offset)


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
        ("ResponseSendTimeMs", totals.send_ms),
        ("TotalTimeMs", totals.total_ms),
    ):
        yield Metric(_REQUESTS, name, labels, value)
    for error, count in dict(totals.errors).items():
        yield Metric(_REQUESTS, "ErrorsPerSec", {**labels, "error": error}, count)


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
        yield Metric(_TOPICS, name, labels, value)


def _coordinated(asked: Asked) -> Iterator[Metric]:
    yield Metric(_GROUPS, "NumGroups", {}, len(asked.groups))
    for group in asked.groups:
        for partition, lag in group.lag.items():
            about = {
                "group": group.group,
                "topic": partition.topic,
                "partition": str(partition.partition),
            }
            yield Metric(_GROUPS, "GroupLag", about, lag)
    states = [transaction.state for transaction in asked.transactions]
    for state in sorted(set(states)):
        about = {"state": state}
        yield Metric(_TRANSACTIONS, "NumOpenTransactions", about, states.count(state))


def _prometheus_name(metric: Metric) -> str:
    """`kafka_server_brokertopicmetrics_messagesin_total`, as in Kafka's exporter configurations."""
    domain, _, kind = metric.group.partition(":type=")
    stem = f"{domain}_{kind}_{metric.name.removesuffix('PerSec')}".replace(".", "_").lower()
    is_total = metric.group in (_REQUESTS, _TOPICS) or metric.name.endswith("PerSec")
    return f"{stem}_total" if is_total else stem


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
