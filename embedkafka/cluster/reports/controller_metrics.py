"""The metrics of a broker's controller: what it does, what waits for it, what it deletes.

As in Kafka, every broker has them. Those of candidates are 0, but for the events that they handle.

Owner: none; it only reads.
Not here: what the events were (`kafka.controller_events()`).
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from embedkafka.broker.controller.controller_state import ControllerState
from embedkafka.broker.controller.event_log import ControllerEventLog, Timed
from embedkafka.cluster.reports.metric_names import (
    CONTROLLER,
    CONTROLLER_CHANNELS,
    CONTROLLER_EVENTS,
    CONTROLLER_STATS,
    COUNT,
)
from embedkafka.cluster.reports.metrics import Metric

if TYPE_CHECKING:
    from embedkafka.broker.broker import Broker
    from embedkafka.broker.controller.controller import Controller


def controller_metrics(
    broker: "Broker", controller_id: int | None, log: ControllerEventLog
) -> Iterator[Metric]:
    """Of a broker that may not reach ZooKeeper; `controller_id` is the active controller's."""
    labels = {"broker": str(broker.id)}
    is_controller = broker.id == controller_id
    yield Metric(CONTROLLER, "ActiveControllerCount", labels, int(is_controller))
    controller = broker.controller
    if controller is not None:
        yield from _gauges(controller, labels)
        yield from _stats(controller, log.handled(broker.id), labels)
        yield Metric(CONTROLLER_EVENTS, "EventQueueSize", labels, controller.queue_size)
        yield from _timer(CONTROLLER_EVENTS, "EventQueueTimeMs", labels, log.queued(broker.id))
        yield from _requests(controller.request_queue_sizes(), log.sent(broker.id), labels)


def _gauges(controller: "Controller", labels: Mapping[str, str]) -> Iterator[Metric]:
    queued = controller.count_deletions()
    for name, value in (
        ("ControllerState", controller.state.value),
        ("TopicsToDeleteCount", queued.topics),
        ("ReplicasToDeleteCount", queued.replicas),
        ("TopicsIneligibleToDeleteCount", queued.ineligible_topics),
        ("ReplicasIneligibleToDeleteCount", queued.ineligible_replicas),
    ):
        yield Metric(CONTROLLER, name, labels, value)


def _stats(
    controller: "Controller", handled: Mapping[ControllerState, Timed], labels: Mapping[str, str]
) -> Iterator[Metric]:
    elections = controller.unclean_elections
    yield Metric(CONTROLLER_STATS, "UncleanLeaderElectionsPerSec", labels, elections)
    for state in ControllerState:
        if state.timer is not None:
            yield from _timer(CONTROLLER_STATS, state.timer, labels, handled.get(state, Timed()))


def _requests(
    waiting: Mapping[int, int], sent: Mapping[int, Timed], labels: Mapping[str, str]
) -> Iterator[Metric]:
    yield Metric(CONTROLLER_CHANNELS, "TotalQueueSize", labels, sum(waiting.values()))
    for broker, size in waiting.items():
        about = {**labels, "broker_id": str(broker)}
        yield Metric(CONTROLLER_CHANNELS, "QueueSize", about, size)
    for broker, timed in sent.items():
        about = {**labels, "broker_id": str(broker)}
        yield from _timer(CONTROLLER_CHANNELS, "RequestRateAndQueueTimeMs", about, timed)


def _timer(group: str, name: str, labels: Mapping[str, str], timed: Timed) -> Iterator[Metric]:
    yield Metric(group, name, labels, timed.total_ms)
    yield Metric(group, f"{name}{COUNT}", labels, timed.times)
