"""What is wrong with a cluster now: the first thing to read when a test fails.

Owner: none; it reads ZooKeeper and the brokers in place, and sends no request.
Invariants: a partition is in one trouble at most, the worst. Those of internal topics are counted.
Not here: troubles that only requests find, of groups and transactions (`report`).
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from embedkafka.broker.settings.dynamic import TOPICS
from embedkafka.cluster.brokers import Brokers
from embedkafka.cluster.cluster_state import PartitionStatus
from embedkafka.cluster.lifecycle.lifecycle import BrokerLifecycle, BrokerState
from embedkafka.runtime.topic_names import INTERNAL_TOPICS
from embedkafka.runtime.values import dataclass
from embedkafka.zk.store import ZkError

MARK: Final = "! "
"""How a line of trouble begins; pytest shows such lines in red."""
_SHOWN: Final = 10  # of each kind
_WELL: Final = (BrokerState.NEW, BrokerState.RUNNING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """One thing that is wrong."""

    kind: str
    """What kind of thing, such as "no leader"."""
    what: str
    """What it happened to, in words."""

    def __str__(self) -> str:
        return f"{self.kind}: {self.what}"


def trouble_lines(troubles: Sequence[Trouble]) -> list[str]:
    """A line for each, at most ten of a kind."""
    by_kind: dict[str, list[Trouble]] = {}
    for trouble in troubles:
        by_kind.setdefault(trouble.kind, []).append(trouble)
    lines = []
    for kind, same in by_kind.items():
        lines += [f"{MARK}{trouble}" for trouble in same[:_SHOWN]]
        if len(same) > _SHOWN:
            lines.append(f"{MARK}{kind}: and {len(same) - _SHOWN} more")
    return lines


def fares(brokers: Brokers) -> str:
    """How the cluster fares, in a few words."""
    troubles = find_troubles(brokers, brokers.state.partitions())
    if not troubles:
        return "all is well"
    more = f" and {len(troubles) - 1} more troubles" if len(troubles) > 1 else ""
    return f"{troubles[0]}{more}"


def find_troubles(brokers: Brokers, statuses: Iterable[PartitionStatus]) -> list[Trouble]:
    """Partitions, brokers, controller, network, faults and clock, the worst first."""
    handles = brokers.all()
    partitions = _partition_troubles(statuses, handles, brokers.state.is_led, min_isr_of(brokers))
    rank = {kind: at for at, kind in enumerate(_PARTITION_KINDS)}
    return [
        *sorted(partitions, key=lambda trouble: rank[trouble.kind]),
        *_broker_troubles(handles, brokers.state.find_controller()),
        *_made_by_the_test(brokers),
    ]


_PARTITION_KINDS = (_NO_LEADER, _BELOW_MIN, _UNDER) = (
    "no leader",
    "below min.insync.replicas",
    "under-replicated",
)


def _partition_troubles(
    statuses: Iterable[PartitionStatus],
    handles: Sequence[BrokerLifecycle],
    is_led: Callable[[PartitionStatus], bool],
    min_isr: Callable[[str], int],
) -> Iterator[Trouble]:
    states: dict[int, BrokerState] = {handle.id: handle.state for handle in handles}
    internal: Counter[tuple[str, str]] = Counter()
    for status in statuses:
        name = f"{status.topic}-{status.partition}"
        missing = (
            f"broker {replica} is {states[replica].value if replica in states else 'gone'}"
            for replica in status.replicas
            if states.get(replica) not in _WELL
        )
        rest = "; ".join(
            [f"replicas {_ids(status.replicas)}, in sync {_ids(status.isr)}", *missing]
        )
        least = min(min_isr(status.topic), len(status.replicas))
        if not is_led(status):
            kind, what = _NO_LEADER, f"{name} ({rest})"
        elif len(status.isr) < least:
            kind, what = _BELOW_MIN, f"{name} ({len(status.isr)} of {least}; {rest})"
        elif status.is_under_replicated:
            kind, what = _UNDER, f"{name} ({rest})"
        else:
            continue
        if status.topic in INTERNAL_TOPICS:
            internal[kind, status.topic] += 1
        else:
            yield Trouble(kind=kind, what=what)
    for (kind, topic), count in internal.items():
        yield Trouble(kind=kind, what=f"{count} partitions of {topic}")


def _broker_troubles(
    handles: Sequence[BrokerLifecycle], controller: int | None
) -> Iterator[Trouble]:
    for handle in handles:
        if handle.state not in _WELL:
            yield Trouble(kind="broker down", what=f"broker {handle.id} is {handle.state.value}")
        elif handle.is_running and not handle.has_all_disks:
            yield Trouble(kind="disk lost", what=f"broker {handle.id} has lost a log directory")
    if controller is None:
        yield Trouble(kind="no controller", what="no broker is the controller")


def _made_by_the_test(brokers: Brokers) -> Iterator[Trouble]:
    """What a test has done to the cluster's clock, network, links, requests and disks."""
    if sides := brokers.network.sides:
        split = " | ".join(", ".join(map(str, sorted(side))) for side in sides)
        yield Trouble(kind="network", what=split)
    for fault in brokers.faults.active:
        yield Trouble(kind="fault", what=str(fault))
    if (clock := brokers.clock.describe()) is not None:
        yield Trouble(kind="clock", what=clock)


def min_isr_of(brokers: Brokers) -> Callable[[str], int]:
    configs = [broker.config for broker in brokers.live()]

    def min_isr(topic: str) -> int:
        if not configs:
            return 1
        try:
            return configs[0].log_config(topic).min_insync_replicas
        except ZkError:  # the broker is cut off; the cluster's own session is not
            own = brokers.zk.config(TOPICS, topic).get("min.insync.replicas")
            return configs[0].broker.integer("min.insync.replicas") if own is None else int(own)

    return min_isr


def _ids(brokers: Iterable[int]) -> str:
    return ",".join(map(str, brokers)) or "none"
