"""One cluster for all workers of pytest-xdist, in the process that distributes the tests.

To workers it is an external cluster (`run_cluster`), of which they may ask a little more
(`worker_cluster`). They append their name to topic names, so that tests in different workers may
use the same names. Each worker has a listener of its own, through which its requests come. A worker
that takes the place of a crashed one takes its listener too.
"""

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pytest

from pytest_embedkafka.calls import CallServer, Place
from pytest_embedkafka.live import LIVE, SHARED_LABEL
from pytest_embedkafka.options import embedded_settings, read_options

if TYPE_CHECKING:
    from embedkafka import Cluster, EmbeddedKafka

_INPUT: Final = "embedkafka_shared"
_LISTENER_KEYS: Final = ("listeners", "advertised.listeners", "listener.security.protocol.map")
_MAIN: Final = "PLAINTEXT"
"""The listener that brokers use among themselves."""


class SharedCluster:
    """A plugin for the distributing process; the first worker makes it start the cluster."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._cluster: EmbeddedKafka | None = None
        self._calls: CallServer | None = None
        self._free: list[str] = []
        """Listeners that no worker has."""
        self._listeners: dict[str, str] = {}
        """By worker."""
        self._failure: Exception | None = None

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Gives a new worker its addresses. Any: xdist may not be installed."""
        settings = read_options(self._config)
        if settings.bootstrap_servers or settings.client_config:
            return
        given: dict[str, Any] = node.workerinput
        if self._cluster is None:
            self._start(given["workercount"])
        assert self._cluster is not None
        assert self._calls is not None
        listener = self._free.pop(0) if self._free else None
        if listener is not None:
            self._listeners[given["workerid"]] = listener
        addresses = self._cluster.listeners
        servers = addresses.get(listener or "", self._cluster.bootstrap_servers)
        given[_INPUT] = (servers, listener, *self._calls.place)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Any: as above."""
        listener = self._listeners.pop(node.workerinput["workerid"], None)
        if listener is not None:
            self._free.append(listener)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Closes the cluster after all workers have ended; a background failure fails the run."""
        if self._cluster is None:
            return
        cluster, self._cluster = self._cluster, None
        if self._calls is not None:
            self._calls.close()
        if (page := self._config.stash[LIVE].page) is not None:
            page.detach(cluster)
        cluster.close()
        try:
            cluster.check()
        except Exception as error:
            self._failure = error
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: "pytest.TerminalReporter") -> None:
        if self._failure is not None:
            terminalreporter.section("Kafka cluster of all workers")
            terminalreporter.line(str(self._failure))

    def _start(self, worker_count: int) -> None:
        from embedkafka import EmbeddedKafka

        settings = embedded_settings(read_options(self._config))
        if not any(key in settings["config"] for key in _LISTENER_KEYS):
            self._free = [f"WORKER_{number}" for number in range(worker_count)]
            settings["config"] = {**settings["config"], **_listener_settings(self._free)}
        self._cluster = cluster = EmbeddedKafka(**settings).start()
        self._calls = CallServer("ek-sharing", lambda question: self._answer(cluster, question))
        if (page := self._config.stash[LIVE].page) is not None:
            page.attach(cluster, SHARED_LABEL)

    def _answer(self, cluster: "EmbeddedKafka", question: Any) -> Any:
        """Any: a `worker_cluster.Question`, and what the method returns."""
        from pytest_embedkafka.worker_cluster import ALLOWED, KEEP_TOPICS, ON_DEMAND

        if question.method == KEEP_TOPICS:
            page = self._config.stash[LIVE].page
            return None if page is None else page.keep_topics(cluster, **question.arguments)
        assert question.method in ALLOWED | ON_DEMAND
        asked = cluster._reach.on_demand if question.method in ON_DEMAND else cluster
        return getattr(asked, question.method)(**question.arguments)


class Shared(NamedTuple):
    """What a worker knows of the cluster that all workers share."""

    worker: str
    bootstrap_servers: str
    listener: str | None
    """The worker's own; None if the settings of the run name the listeners."""
    place: Place


def find_shared(config: pytest.Config) -> Shared | None:
    """In a worker, the shared cluster."""
    given = getattr(config, "workerinput", {})
    if _INPUT not in given:
        return None
    servers, listener, *place = given[_INPUT]
    return Shared(given["workerid"], servers, listener, Place(*place))


def _listener_settings(workers: list[str]) -> dict[str, str]:
    names = [_MAIN, *workers]
    return {
        "listeners": ",".join(f"{name}://:0" for name in names),
        "listener.security.protocol.map": ",".join(f"{name}:{_MAIN}" for name in names),
    }


def keep_topics(cluster: "Cluster", owner: str) -> None:
    """Keeps a test's topics for the page of the run, if it is a shared cluster that has them."""
    from pytest_embedkafka.worker_cluster import WorkerCluster

    if isinstance(cluster, WorkerCluster):
        cluster.keep_topics(owner)
