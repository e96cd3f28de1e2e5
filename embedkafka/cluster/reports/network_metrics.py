"""The metrics of the way that requests take through a broker: connections, threads, queues.

Shares of time are from 0 to 1, as in Kafka, and cover the time since the first question.

Owner: none; it only reads.
Not here: what requests were (`kafka.requests()`), and how long they took (`broker.meter`).
"""

from collections.abc import Iterator, Mapping
from statistics import fmean
from typing import TYPE_CHECKING, Final

from embedkafka.cluster.reports.metric_names import (
    ACCEPTOR,
    CHANNEL,
    CONNECTIONS,
    HANDLERS,
    SOCKETS,
)
from embedkafka.cluster.reports.metrics import Metric
from embedkafka.wire.net.socket_server import ProcessorView

if TYPE_CHECKING:
    from embedkafka.broker.broker import Broker, NetworkView

_PREFIXES: Final = {False: "", True: "ControlPlane"}


def network_metrics(broker: "Broker") -> Iterator[Metric]:
    labels = {"broker": str(broker.id)}
    view = broker.network_view()
    for listener, share in view.blocked_shares.items():
        yield Metric(ACCEPTOR, "AcceptorBlockedPercent", {**labels, "listener": listener}, share)
    for is_control_plane, prefix in _PREFIXES.items():
        yield from _plane(view, is_control_plane, prefix, labels)
    for processor in view.processors:
        yield from _connections(processor, labels)


def _plane(
    view: "NetworkView", is_control_plane: bool, prefix: str, labels: Mapping[str, str]
) -> Iterator[Metric]:
    processors = [one for one in view.processors if one.is_control_plane is is_control_plane]
    idle = fmean([one.idle_share for one in processors] or [1.0])
    handlers = view.idle_shares[is_control_plane]
    yield Metric(SOCKETS, f"{prefix}NetworkProcessorAvgIdlePercent", labels, idle)
    # Without handler threads, the processors handle requests.
    handlers_idle = idle if handlers is None else handlers
    yield Metric(HANDLERS, f"{prefix}RequestHandlerAvgIdlePercent", labels, handlers_idle)
    queued = view.queue_sizes[is_control_plane]
    yield Metric(CHANNEL, f"{prefix}RequestQueueSize", labels, queued)
    for one in processors:
        about = {**labels, "processor": str(one.number)}
        yield Metric(CHANNEL, f"{prefix}ResponseQueueSize", about, one.response_count)


def _connections(processor: ProcessorView, labels: Mapping[str, str]) -> Iterator[Metric]:
    about = {**labels, "networkProcessor": str(processor.number)}
    for (listener, ip), count in processor.connections.items():
        yield Metric(
            CONNECTIONS, "connection-count", {**about, "listener": listener, "ip": ip}, count
        )
    for listener, count in processor.muted.items():
        yield Metric(CONNECTIONS, "MutedChannels", {**about, "listener": listener}, count)
