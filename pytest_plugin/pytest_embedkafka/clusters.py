"""The clusters of a session: the one that the options describe, and others that marks ask for.

Each starts when a test first needs it and ends with the session, or earlier if another one needs
its fixed ports.
"""

from collections.abc import Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pytest

from pytest_embedkafka.guard import Isolation
from pytest_embedkafka.marks import Shape
from pytest_embedkafka.options import embedded_settings, read_options
from pytest_embedkafka.ports import claiming_ports
from pytest_embedkafka.sharing import find_shared
from pytest_embedkafka.skips import skip_external
from pytest_embedkafka.targets import external_cluster

if TYPE_CHECKING:
    from embedkafka import Cluster, EmbeddedKafka
    from pytest_embedkafka.run_cluster import RunCluster

_KEPT_OPEN: Final = (
    "`kafka` is the session's cluster and ends with it. For a cluster to close, use the fixture "
    "`kafka_cluster`: `own = kafka_cluster()`; to stop a broker, `kafka.broker(1).stop()`"
)


class Clusters:
    """Starts clusters and keeps them."""

    def __init__(
        self,
        request: pytest.FixtureRequest,
        running: ExitStack,
        session: Mapping[str, Any],  # Any: arguments of EmbeddedKafka
    ) -> None:
        self._request = request
        self._config = request.config
        self._running = running
        self._session = session
        self._started: dict[Shape | None, _Started] = {}

    def require(self, shape: Shape | None) -> tuple["Cluster", Isolation]:
        """The cluster of that shape, running, and what puts it right after a test."""
        if shape not in self._started:
            self._started[shape] = self._start(shape)
        started = self._started[shape]
        return started.cluster, started.isolation

    def _start(self, shape: Shape | None) -> "_Started":
        if shape is None and (external := find_external(self._config)):
            life = self._running.enter_context(ExitStack())
            return _Started(life.enter_context(external), external.isolated(), life)
        options = read_options(self._config)
        if named := external_cluster(options):
            skip_external(f"kafka.cluster({shape})", named[0])
        from embedkafka import EmbeddedKafka

        settings: dict[str, Any] = {} if shape is None else dict(shape.settings)
        config = {**self._session.get("config", {}), **settings.get("config", {})}
        given = {**embedded_settings(options), **self._session}
        if find_shared(self._config):
            given["port"] = 0  # the cluster of all workers has that of the options
        cluster = EmbeddedKafka(**{**given, **settings, "config": config})
        ports = _fixed_ports(cluster)
        self._free(ports)
        with ExitStack() as starting:
            starting.enter_context(claiming_ports(ports, self._request))
            starting.enter_context(cluster)
            life = self._running.enter_context(starting.pop_all())
        cluster._kept_open = _KEPT_OPEN
        return _Started(cluster, cluster._isolation(), life, ports)

    def _free(self, ports: range) -> None:
        """Ends clusters that have one of the ports: no test and no fixture uses them now."""
        for shape, started in list(self._started.items()):
            if set(ports).intersection(started.ports):
                del self._started[shape]
                started.life.close()


class _Started(NamedTuple):
    """A running cluster."""

    cluster: "Cluster"
    isolation: Isolation
    life: ExitStack
    """Closing it ends the cluster."""
    ports: range = range(0)
    """Those that it was asked to have."""


def _fixed_ports(cluster: "EmbeddedKafka") -> range:
    port, count = cluster.config.port, cluster.config.brokers
    return range(port, port + count) if port else range(0)


def find_external(config: pytest.Config) -> "RunCluster | None":
    """The cluster that the workers share, or the one that the options name, if any."""
    shared = find_shared(config)
    named = None if shared else external_cluster(read_options(config))
    if not shared and not named:
        return None
    if shared:
        from pytest_embedkafka.worker_cluster import WorkerCluster

        return WorkerCluster(shared)
    assert named is not None
    from pytest_embedkafka.run_cluster import RunCluster, RunReach

    return RunCluster(RunReach(*named))
