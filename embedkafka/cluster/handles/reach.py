"""The seam under `Cluster` and its handles: how one kind of cluster is reached.

An embedded cluster knows its state exactly and is woken by changes (`embedded_reach`). Any other is
asked again and again through clients (`client_reach`).

Owner: none.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from embedkafka.cluster.config import TopicShape
from embedkafka.cluster.waiting import Probe

if TYPE_CHECKING:
    from pathlib import Path
    from random import Random

    from embedkafka.cluster.clients.clients import Clients
    from embedkafka.cluster.cluster_state import PartitionStatus
    from embedkafka.cluster.handles.brokers import BrokerHandle
    from embedkafka.spark.client_settings import ClientSettings


class State(Protocol):
    """Leaders, replicas and topics, and probes that say what a wait still lacks."""

    def find_controller(self) -> int | None:
        """The id of the broker that is the controller."""

    def require_topic(self, topic: str) -> None:
        """Raises `InvalidArgument` if there is no such topic."""

    def require_partition(self, topic: str, partition: int) -> "PartitionStatus":
        """The partition; raises `InvalidArgument` if there is none."""

    def partitions_of(self, topic: str) -> "list[PartitionStatus]":
        """All partitions of a topic; none if there is no such topic."""

    def is_led(self, status: "PartitionStatus") -> bool:
        """Whether the partition has a leader that can be reached."""

    def partition(
        self, topic: str, partition: int, holds: "Callable[[PartitionStatus], bool]"
    ) -> Probe:
        """`holds` is true for the partition, and every broker in reach knows its state."""

    def leaders_known(self, counts: Mapping[str, int]) -> Probe:
        """Every broker knows the leaders of topics with so many partitions."""

    def topic_gone(self, topic: str) -> Probe:
        """No broker knows the topic."""

    def nothing_under_replicated(self) -> Probe:
        """Every partition has a leader and all its replicas in sync."""

    def controller(self) -> Probe:
        """There is a controller, and every broker knows it."""

    def membership(self) -> Probe:
        """All brokers know each other and the same controller."""


class TopicRequests(Protocol):
    """Creates, grows and deletes topics; raises the cluster's refusal."""

    def create_topic(self, name: str, shape: TopicShape) -> None: ...

    def create_partitions(self, topic: str, count: int) -> None: ...

    def delete_topic(self, name: str, *, timeout_ms: int) -> bool:
        """Returns whether that was over in time."""


class ClusterReach(Protocol):
    """One cluster; everything raises `ClusterClosed` while it is not running."""

    @property
    def bootstrap_servers(self) -> str: ...

    @property
    def state(self) -> State: ...

    @property
    def admin(self) -> TopicRequests: ...

    @property
    def clients(self) -> "Clients": ...

    def brokers(self) -> "Sequence[BrokerHandle]":
        """All brokers, by id."""

    def await_state(self, what: str, probe: Probe, timeout_s: float) -> None: ...

    @property
    def rng(self) -> "Random":
        """Chooses names."""

    @property
    def scratch(self) -> "Path":
        """Where tests' own files are, which end with the cluster."""

    def settings_for(
        self, user: str | None, mechanism: str | None = None
    ) -> "tuple[ClientSettings, str]":
        """What a user's clients need, and the addresses they connect to."""

    def new_name(self, name: str) -> str:
        """The name of a topic to be created, for the name that a test gives it."""

    def known_name(self, name: str) -> str:
        """The name of a topic that a test calls like this."""

    def on_deletion(self, topic: str) -> None:
        """The topic is about to go."""

    def on_missing(self, noun: str, name: str) -> None:
        """The test uses a name that `noun`, the cluster or a handle, does not have."""
