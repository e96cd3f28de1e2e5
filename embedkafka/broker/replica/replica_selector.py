"""Selects the replica that a consumer reads from (KIP-392)."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

from embedkafka.broker.replica.fetch import ClientMetadata
from embedkafka.broker.replica.partition.values import ReplicaView
from embedkafka.runtime.failures import ConfigError
from embedkafka.runtime.ids import BrokerId


class ReplicaSelector(Protocol):
    """Chooses among the replicas that have the offset; the first one is the leader."""

    def select(self, client: ClientMetadata, replicas: Sequence[ReplicaView]) -> ReplicaView: ...


class LeaderSelector:
    """Always the leader."""

    def select(self, client: ClientMetadata, replicas: Sequence[ReplicaView]) -> ReplicaView:
        return replicas[0]


class RackAwareReplicaSelector:
    """The leader if it is in the client's rack, else the most caught-up replica there."""

    def __init__(self, rack: Callable[[BrokerId], str | None]) -> None:
        self._rack = rack

    def select(self, client: ClientMetadata, replicas: Sequence[ReplicaView]) -> ReplicaView:
        leader = replicas[0]
        if not client.rack_id:
            return leader
        near = [replica for replica in replicas if self._rack(replica.broker_id) == client.rack_id]
        if not near or leader in near:
            return leader
        return max(near, key=lambda r: (r.log_end_offset, -r.behind_ms, r.broker_id))


_RACK_AWARE: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
_LEADER: Final = "org.apache.kafka.common.replica.LeaderSelector"


def replica_selector(
    class_name: str | None, rack: Callable[[BrokerId], str | None]
) -> ReplicaSelector | None:
    """The selector that `replica.selector.class` names; None if not set."""
    makers: Mapping[str, Callable[[], ReplicaSelector]] = {
        _RACK_AWARE: lambda: RackAwareReplicaSelector(rack),
        _LEADER: LeaderSelector,
    }
    if not class_name:
        return None
    if class_name not in makers:
        raise ConfigError(
            f"replica.selector.class {class_name} is unknown; known are {', '.join(makers)}"
        )
    return makers[class_name]()
