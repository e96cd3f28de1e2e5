"""The fixtures: a cluster for the session, a topic for a test, Spark for the session.

Each pytest process starts its cluster and Spark session, so tests run in parallel under
pytest-xdist; `sharing` gives all workers one cluster. Nothing imports embedkafka before a test uses
a fixture.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_embedkafka.leftovers import stop_leftovers
from pytest_embedkafka.live import LIVE
from pytest_embedkafka.options import leftovers, read_options
from pytest_embedkafka.reach import warn_of_loopback
from pytest_embedkafka.sessions import master_of, open_session
from pytest_embedkafka.sharing import find_shared
from pytest_embedkafka.sweeping import Sweeper, listed_topics
from pytest_embedkafka.targets import external_cluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from embedkafka import EmbeddedKafka, Topic
    from pytest_embedkafka.external import ExternalKafka


@pytest.fixture(scope="session")
def kafka(request: pytest.FixtureRequest) -> "Iterator[EmbeddedKafka]":
    """A Kafka cluster for the whole session. Topics that a test creates are deleted after it."""
    live = request.config.stash[LIVE]
    with _session_cluster(request.config) as (cluster, topic_names):
        live.clusters.append(cluster)
        live.sweeper = Sweeper(cluster, topic_names)
        warn_of_loopback(live, cluster)
        yield cluster
        live.sweeper = None
        live.clusters.remove(cluster)


@pytest.fixture
def kafka_topic(kafka: "EmbeddedKafka") -> "Iterator[Topic]":
    """A new topic with one partition and a unique name."""
    topic = kafka.topic()
    yield topic
    kafka.delete_topic(topic.name)


@pytest.fixture
def kafka_cluster(request: pytest.FixtureRequest) -> "Iterator[Callable[..., EmbeddedKafka]]":
    """Starts more clusters for one test: `kafka_cluster(brokers=5, config={...})`."""
    from embedkafka import EmbeddedKafka

    live = request.config.stash[LIVE]
    with ExitStack() as running:

        def start(**settings: Any) -> EmbeddedKafka:  # Any: the arguments of EmbeddedKafka
            cluster = running.enter_context(EmbeddedKafka(**settings))
            live.clusters.append(cluster)
            warn_of_loopback(live, cluster)
            running.callback(live.clusters.remove, cluster)
            return cluster

        yield start


@pytest.fixture(scope="session")
def spark(request: pytest.FixtureRequest) -> "Iterator[SparkSession]":
    """A Spark session with the Kafka connector: local, or on the cluster that the options name."""
    from embedkafka.spark.query_log import QueryLog
    from embedkafka.spark.session import LOG_FILE_KEY

    config, live = request.config, request.config.stash[LIVE]
    with open_session(config, progress_of(config)) as session:
        live.spark_log = session.conf.get(LOG_FILE_KEY, None)
        live.spark_master = master_of(session)
        for cluster in live.clusters:
            warn_of_loopback(live, cluster)
        live.queries = QueryLog()
        with live.queries.recording():
            yield session
        live.complaint = stop_leftovers(live, leftovers(config))
        live.spark_log = live.spark_master = live.queries = None


@pytest.fixture
def spark_checkpoint(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A new directory for the checkpoints of a test's queries. It is kept if the test fails."""
    path = tmp_path_factory.mktemp("checkpoint")
    request.config.stash[LIVE].checkpoints.append(path)
    return path


@contextmanager
def _session_cluster(config: pytest.Config) -> "Iterator[tuple[Any, Callable[[], set[str]]]]":
    """The cluster and its topic names. Any: an external cluster has some of the methods."""
    if external := _find_external(config):
        with external:
            yield external, external.created_topics
        return
    from embedkafka import EmbeddedKafka

    settings = read_options(config)
    with EmbeddedKafka(
        brokers=settings.brokers, host=settings.host, config=settings.kafka_config
    ) as embedded:
        yield embedded, listed_topics(embedded.bootstrap_servers)


def _find_external(config: pytest.Config) -> "ExternalKafka | None":
    """The cluster that the workers share, or the one that the options name, if any."""
    from pytest_embedkafka.external import ExternalKafka

    if shared := find_shared(config):
        servers, worker = shared
        return ExternalKafka(servers, worker=worker)
    if named := external_cluster(read_options(config)):
        servers, settings = named
        return ExternalKafka(servers, settings=settings)
    return None


def progress_of(config: pytest.Config) -> Callable[[str], None]:
    """Shows a line although pytest captures output. Workers of xdist have no terminal."""

    def show(line: str) -> None:
        terminal = config.pluginmanager.get_plugin("terminalreporter")
        capture = config.pluginmanager.get_plugin("capturemanager")
        if terminal is None or capture is None:
            return
        with capture.global_and_fixture_disabled():
            terminal.ensure_newline()
            terminal.write_line(f"embedkafka: {line}")

    return show
