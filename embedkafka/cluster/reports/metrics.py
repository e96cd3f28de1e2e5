"""`kafka.metrics()`: numbers about a running cluster, under the names of Kafka's metrics.

Owner: none; a `Metrics` is a value.
Not here: where the numbers come from (`metric_collection`), what each is about (`metric_names`).
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from embedkafka.cluster.reports.metric_names import COUNT, NAMES, TOTALS
from embedkafka.runtime.arguments import require_text
from embedkafka.runtime.failures import InvalidArgument
from embedkafka.runtime.values import NamedTuple

_NO_NAME: Final = re.compile(r"\W")


class Metric(NamedTuple):
    """One number: Kafka's MBean and name, what it is about, and the value."""

    group: str
    """Domain and type of Kafka's MBean, such as "kafka.server:type=BrokerTopicMetrics"."""
    name: str
    """Kafka's name, such as "MessagesInPerSec". Rates and times are totals: you divide. Where Kafka
    has a timer, the name alone is its milliseconds, and with ".Count" how often it ran."""
    labels: Mapping[str, str]
    """What the number is about, such as broker, topic, partition, request or group."""
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
                lines.append(f"# TYPE {name} {'counter' if _only_grows(metric) else 'gauge'}")
            labels = ",".join(f'{label}="{_escaped(v)}"' for label, v in metric.labels.items())
            lines.append(f"{name}{{{labels}}} {metric.value}")
        return "\n".join(lines) + "\n"


def _prometheus_name(metric: Metric) -> str:
    """`kafka_server_brokertopicmetrics_messagesin_total`, as in Kafka's exporter configurations."""
    domain, _, kind = metric.group.partition(":type=")
    name = metric.name.removesuffix("PerSec")
    stem = _NO_NAME.sub("_", f"{domain}_{kind}_{name}").lower()
    return f"{stem}_total" if _only_grows(metric) and not stem.endswith("_count") else stem


def _only_grows(metric: Metric) -> bool:
    """Whether it is a total where Kafka has a rate, a distribution or a timer."""
    return metric.group in TOTALS or metric.name.endswith(("PerSec", "TimeMs", COUNT))


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
