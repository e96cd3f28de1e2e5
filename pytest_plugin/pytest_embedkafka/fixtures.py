"""The fixtures: a cluster for the session, a topic for a test, Spark for the session.

Each pytest process starts its cluster and Spark session, so tests run in parallel under
pytest-xdist; `sharing` gives all workers one cluster. Nothing imports embedkafka before a test uses
a fixture.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_embedkafka.clusters import Clusters
from pytest_embedkafka.leftovers import stop_leftovers
from pytest_embedkafka.live import FACTORY, LIVE, SESSION_LABEL
from pytest_embedkafka.names import unique_name
from pytest_embedkafka.options import embedded_settings, leftovers, read_options
from pytest_embedkafka.reach import warn_of_loopback
from pytest_embedkafka.sessions import master_of, open_session

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from pyspark.sql import SparkSession

    from embedkafka import Cluster, EmbeddedKafka, Faults, SystemClock, Topic
    from embedkafka.spark import RunningScript
    from pytest_embedkafka.clients import TestClients


@pytest.fixture(scope="session")
def kafka_settings(pytestconfig: pytest.Config) -> Mapping[str, Any]:
    """Arguments of `EmbeddedKafka` for `kafka`, from the options; a `conftest.py` may override it.

    A mark wins over it. An external cluster, or one that workers share, does not heed it.
    """
    return embedded_settings(read_options(pytestconfig))


@pytest.fixture(scope="session")
def _kafka_clusters(
    request: pytest.FixtureRequest, kafka_settings: Mapping[str, Any]
) -> Iterator[Clusters]:
    """The clusters behind `kafka`, which end with the session."""
    with ExitStack() as running:
        yield Clusters(request, running, kafka_settings)


@pytest.fixture(scope="session")
def kafka(request: pytest.FixtureRequest, _kafka_clusters: Clusters) -> "Iterator[Cluster]":
    """A Kafka cluster for the whole session; `@pytest.mark.kafka(...)` chooses another shape.

    After each test it is as it was: topics, groups, transactions, settings, faults, brokers,
    network and clock.
    """
    live = request.config.stash[LIVE]
    shape = getattr(request, "param", None)
    cluster, isolation = _kafka_clusters.require(shape)
    with live.showing(cluster, SESSION_LABEL if shape is None else f"{SESSION_LABEL}({shape})"):
        live.guard.watch(cluster, isolation)
        warn_of_loopback(live, cluster)
        yield cluster
        live.guard.forget()


@pytest.fixture
def kafka_topic(request: pytest.FixtureRequest, kafka: "Cluster") -> "Topic":
    """A new topic with one partition and a name of its own, such as `test_orders-3f2a`."""
    return kafka.topic(unique_name(request.node))


@pytest.fixture
def kafka_group(request: pytest.FixtureRequest) -> str:
    """The id of a consumer group that no other test uses, such as `test_orders-3f2a`."""
    return unique_name(request.node)


@pytest.fixture
def _kafka_clients(kafka: "Cluster", kafka_group: str) -> "Iterator[TestClients]":
    """The clients of the test, which end with it."""
    from pytest_embedkafka.clients import TestClients

    with TestClients(kafka, kafka_group) as clients:
        yield clients


@pytest.fixture
def kafka_producer(_kafka_clients: "TestClients") -> "Callable[..., Any]":
    """Makes producers of confluent-kafka: `kafka_producer(linger_ms=5)`, closed after the test."""
    return _kafka_clients.producer


@pytest.fixture
def kafka_consumer(_kafka_clients: "TestClients") -> "Callable[..., Any]":
    """Makes consumers: `kafka_consumer(topic)` is subscribed, in the group `kafka_group`."""
    return _kafka_clients.consumer


@pytest.fixture
def kafka_aio_producer(
    _kafka_clients: "TestClients",
) -> "Callable[..., AbstractAsyncContextManager[Any]]":
    """Makes producers for asyncio: `async with kafka_aio_producer() as producer:` closes it."""
    return _kafka_clients.aio_producer


@pytest.fixture
def kafka_aio_consumer(
    _kafka_clients: "TestClients",
) -> "Callable[..., AbstractAsyncContextManager[Any]]":
    """Makes consumers for asyncio: `async with kafka_aio_consumer(topic) as consumer:`."""
    return _kafka_clients.aio_consumer


@pytest.fixture
def kafka_admin(_kafka_clients: "TestClients") -> "Callable[..., Any]":
    """Makes admin clients: `kafka_admin()`."""
    return _kafka_clients.admin


@pytest.fixture
def kafka_clock(kafka: "EmbeddedKafka") -> "SystemClock":
    """The clock of the cluster, `kafka.clock`; on a cluster without one, the test is skipped."""
    return kafka.clock


@pytest.fixture
def kafka_faults(kafka: "EmbeddedKafka") -> "Faults":
    """The faults of the cluster, `kafka.faults`; without them, the test is skipped."""
    return kafka.faults


@pytest.fixture
def kafka_cluster(request: pytest.FixtureRequest) -> "Iterator[Callable[..., EmbeddedKafka]]":
    """Starts more clusters for one test: `kafka_cluster(brokers=5, config={...})`."""
    with _factory("kafka_cluster", request.config) as start:
        yield start


@pytest.fixture(scope="session")
def kafka_cluster_factory(
    request: pytest.FixtureRequest,
) -> "Iterator[Callable[..., EmbeddedKafka]]":
    """Starts clusters for a fixture of any scope; they end with the session or by `close()`.

    What a test does to them stays, but for what is in `with cluster.isolated():`.
    """
    with _factory(FACTORY, request.config) as start:
        yield start


@contextmanager
def _factory(name: str, config: pytest.Config) -> "Iterator[Callable[..., EmbeddedKafka]]":
    """Starts clusters, which reports name after the call that made them."""
    from embedkafka import EmbeddedKafka

    live = config.stash[LIVE]
    with ExitStack() as running:

        def start(**settings: Any) -> EmbeddedKafka:  # Any: the arguments of EmbeddedKafka
            cluster = running.enter_context(EmbeddedKafka(**settings))
            given = ", ".join(f"{name}={value!r}" for name, value in settings.items())
            running.enter_context(live.showing(cluster, f"{name}({given})"))
            warn_of_loopback(live, cluster)
            return cluster

        yield start


@pytest.fixture
def kafka_environment(kafka: "Cluster", monkeypatch: pytest.MonkeyPatch) -> None:
    """Sets `KAFKA_BOOTSTRAP_SERVERS` to the addresses of `kafka` until the test ends."""
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", kafka.bootstrap_servers)


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
        stop_leftovers(live, leftovers(config))
        live.spark_log = live.spark_master = live.queries = None


@pytest.fixture(scope="session")
def spark_session(spark: "SparkSession") -> "SparkSession":
    """The same as `spark`, under the name that other plugins use."""
    return spark


@pytest.fixture
def spark_immediate_triggers(spark: "SparkSession") -> "Iterator[Sequence[str]]":
    """The test's queries with `processingTime` run as soon as there is data, at any interval.

    Its value is a list of the intervals that were replaced. See `immediate_triggers`.
    """
    from embedkafka.spark import immediate_triggers

    with immediate_triggers() as replaced:
        yield replaced


@pytest.fixture
def spark_checkpoint(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A new directory for the checkpoints of a test's queries. It is kept if the test fails."""
    path = tmp_path_factory.mktemp("checkpoint")
    request.config.stash[LIVE].checkpoints.append(path)
    return path


@pytest.fixture
def spark_script(
    request: pytest.FixtureRequest, kafka: "Cluster", spark: "SparkSession", tmp_path: Path
) -> "Iterator[Callable[..., RunningScript]]":
    """Runs jobs that are scripts until the test ends: `spark_script("jobs/totals.py")`."""
    from embedkafka.spark import run_script

    scripts: list[RunningScript] = []

    def start(script: Any, **more: Any) -> "RunningScript":  # Any: the arguments of run_script
        __tracebackhide__ = True
        given = {"kafka": kafka, "spark": spark, "directory": tmp_path, **more}
        scripts.append(run_script(_found(script, request.path), **given).__enter__())
        return scripts[-1]

    yield start
    __tracebackhide__ = True  # the script's error is told with the script's lines
    try:
        for script in reversed(scripts):
            script.stop()
    finally:
        for script in scripts:
            script.abandon()
        for script in scripts:
            script.drop_tables()


def _found(script: Any, test: Path) -> Any:
    """A path that is relative to a folder above the test. Any: run_script checks it."""
    if isinstance(script, str | Path) and str(script).endswith(".py") and not Path(script).exists():
        return next((up / script for up in test.parents if (up / script).exists()), script)
    return script


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
