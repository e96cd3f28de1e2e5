"""The fixtures: a cluster for the session, a topic for a test, Spark for the session.

Each pytest process starts its cluster and Spark session, so tests run in parallel under
pytest-xdist; `sharing` gives all workers one cluster. Nothing imports embedkafka before a test uses
a fixture.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from pytest_embedkafka.live import LIVE
from pytest_embedkafka.options import read_options
from pytest_embedkafka.sharing import find_shared
from pytest_embedkafka.sweeping import Sweeper, listed_topics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from embedkafka import EmbeddedKafka, Topic


@pytest.fixture(scope="session")
def kafka(request: pytest.FixtureRequest) -> "Iterator[EmbeddedKafka]":
    """A Kafka cluster for the whole session. Topics that a test creates are deleted after it."""
    live = request.config.stash[LIVE]
    with _session_cluster(request.config) as (cluster, topic_names):
        live.clusters.append(cluster)
        live.sweeper = Sweeper(cluster, topic_names)
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
            running.callback(live.clusters.remove, cluster)
            return cluster

        yield start


@pytest.fixture(scope="session")
def spark(request: pytest.FixtureRequest) -> "Iterator[SparkSession]":
    """A local Spark session with the Kafka connector that matches it."""
    from embedkafka.spark.session import LOG_FILE_KEY, local_session

    config, live = request.config, request.config.stash[LIVE]
    with local_session(
        "pytest", config=read_options(config).spark_config, progress=_progress(config)
    ) as session:
        live.spark_log = session.conf.get(LOG_FILE_KEY)
        yield session
        live.spark_log = None


@contextmanager
def _session_cluster(config: pytest.Config) -> "Iterator[tuple[Any, Callable[[], set[str]]]]":
    """The cluster and its topic names. Any: an external cluster has some of the methods."""
    settings = read_options(config)
    shared = find_shared(config)
    if settings.bootstrap_servers or shared:
        from pytest_embedkafka.external import ExternalKafka

        servers, worker = shared or (settings.bootstrap_servers or "", None)
        with ExternalKafka(servers, worker=worker) as external:
            yield external, external.created_topics
        return
    from embedkafka import EmbeddedKafka

    with EmbeddedKafka(brokers=settings.brokers, config=settings.kafka_config) as embedded:
        yield embedded, listed_topics(embedded.bootstrap_servers)


def _progress(config: pytest.Config) -> Callable[[str], None]:
    """Shows a line although pytest captures output. Workers of xdist have no terminal."""
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    capture = config.pluginmanager.get_plugin("capturemanager")

    def show(line: str) -> None:
        if terminal is None or capture is None:
            return
        with capture.global_and_fixture_disabled():
            terminal.ensure_newline()
            terminal.write_line(f"embedkafka: {line}")

    return show
