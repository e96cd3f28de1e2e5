"""One cluster for all workers of pytest-xdist, in the process that distributes the tests.

To workers it is an external cluster (`external`). They append their name to topic names, so that
tests in different workers may use the same names.
"""

from typing import TYPE_CHECKING, Any

import pytest

from pytest_embedkafka.live import LIVE
from pytest_embedkafka.options import embedded_settings, read_options

if TYPE_CHECKING:
    from embedkafka import EmbeddedKafka

_INPUT = "embedkafka_bootstrap_servers"


class SharedCluster:
    """A plugin for the distributing process; the first worker makes it start the cluster."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._cluster: EmbeddedKafka | None = None
        self._failure: Exception | None = None

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Gives a new worker the cluster's addresses. Any: xdist may not be installed."""
        settings = read_options(self._config)
        if settings.bootstrap_servers or settings.client_config:
            return
        if self._cluster is None:
            from embedkafka import EmbeddedKafka

            self._cluster = EmbeddedKafka(**embedded_settings(settings)).start()
            if (page := self._config.stash[LIVE].page) is not None:
                page.attach(self._cluster, "kafka of all workers")
        node.workerinput[_INPUT] = self._cluster.bootstrap_servers

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Closes the cluster after all workers have ended; a background failure fails the run."""
        if self._cluster is None:
            return
        cluster, self._cluster = self._cluster, None
        if (page := self._config.stash[LIVE].page) is not None:
            page.detach(cluster)
        cluster.close()
        try:
            cluster.check()
        except Exception as error:
            self._failure = error
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._failure is not None:
            terminalreporter.section("Kafka cluster of all workers")
            terminalreporter.line(str(self._failure))


def find_shared(config: pytest.Config) -> tuple[str, str] | None:
    """In a worker, the bootstrap servers of the shared cluster and the worker's name."""
    given = getattr(config, "workerinput", {})
    return (given[_INPUT], given["workerid"]) if _INPUT in given else None
