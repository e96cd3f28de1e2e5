"""Runs each wire test on embedkafka, and with `--oracle` on Apache Kafka too.

A test uses `cluster` (one broker, which creates topics on demand) or `three_brokers` (which do
not). A module with a cluster of its own names the fixtures in `ON_EITHER_KIND`. Tests marked
`both_io_modes` also run on an embedded cluster that handles requests in a handler pool instead of
on the network threads.
"""

import itertools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import pytest

from embedkafka import EmbeddedKafka
from embedkafka.wire.net.transport import TcpTransport, read_and_send
from tests.java_tools.java_client import JavaClient
from tests.java_tools.oracle import VERSIONS, ApacheKafka
from tests.wire import sasl_cluster as sasl_clusters
from tests.wire import tls_cluster as tls_clusters
from tests.wire.clients import Cluster, await_coordinators, create_topic, eventually
from tests.wire.kafka_3_9 import find_difference
from tests.wire.raw_client import RawClient

#: Settings for both kinds of cluster, where Kafka's defaults only make tests wait.
SHARED_CONFIG: Final[Mapping[str, object]] = {
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 100,
    "group.consumer.min.heartbeat.interval.ms": 50,
    "group.consumer.heartbeat.interval.ms": 100,
    "group.max.size": 4,
    "group.consumer.max.size": 4,
    "offsets.topic.num.partitions": 3,
    "transaction.state.log.num.partitions": 3,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 200,
}
ONE_BROKER: Final[Mapping[str, object]] = {"auto.create.topics.enable": True}
THREE_BROKERS: Final[Mapping[str, object]] = {"auto.create.topics.enable": False}
CLUSTER_FIXTURES: Final = ("cluster", "sasl_cluster", "three_brokers", "tls_cluster")
RECORDED_TOURS: Final = {"test_damaged_requests.py", "test_permission_tour.py", "test_raw_tour.py"}
"""Apache Kafka answers these as when it was recorded, until there is a new one."""
RUNNING_ORACLES: Final = pytest.StashKey[list[ApacheKafka]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--oracle", action="store_true", help="run wire tests on Apache Kafka too")
    parser.addoption(
        "--no-sendfile",
        action="store_true",
        help="send records the way macOS and Windows do, which lack Linux's sendfile",
    )
    parser.addoption(
        "--oracle-version",
        default=VERSIONS[0],
        help="version of Apache Kafka; 3.9.2 still speaks the request versions that 4.x dropped,"
        " and fails the tests named in kafka_3_9.py",
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--no-sendfile", default=False):
        TcpTransport.file_sender = staticmethod(read_and_send)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    kinds = ["embedded"]
    if metafunc.definition.get_closest_marker("both_io_modes"):
        kinds.append("embedded-pool")
    if metafunc.config.getoption("--oracle", default=False):
        kinds.append("apache")
    for fixture in CLUSTER_FIXTURES:
        if fixture in metafunc.fixturenames:
            metafunc.parametrize(fixture, kinds, indirect=True, scope="session")
    of_its_own = [kind for kind in kinds if kind != "embedded-pool"]
    for fixture in getattr(metafunc.module, "ON_EITHER_KIND", ()):
        if fixture in metafunc.fixturenames:
            metafunc.parametrize(fixture, of_its_own, indirect=True, scope="module")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    is_old = config.getoption("--oracle-version").startswith("3.")
    for item in items:
        if not _runs_on_apache(item):
            continue
        item.add_marker(pytest.mark.java)
        item.add_marker(pytest.mark.slow if item.path.name in RECORDED_TOURS else pytest.mark.gate)
        why = find_difference(item.path.name, item.name) if is_old else None
        if why is not None:
            item.add_marker(pytest.mark.xfail(reason=why, strict=True))


def _runs_on_apache(item: pytest.Item) -> bool:
    parameters = item.callspec.params if hasattr(item, "callspec") else {}
    return "apache" in parameters.values()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Adds the tail of the brokers' log to the report of a test that fails on Apache Kafka."""
    outcome: Any = yield
    report = outcome.get_result()
    if report.failed and "apache" in item.nodeid:
        for oracle in item.config.stash.get(RUNNING_ORACLES, []):
            report.sections.append(("Apache Kafka's log", oracle.log_tail()))


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """One broker with id 1 that creates topics on demand."""
    yield from _running(request, brokers=1, config=ONE_BROKER)


@pytest.fixture(scope="session")
def three_brokers(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Brokers 1, 2 and 3, which do not create topics on demand."""
    yield from _running(request, brokers=3, config=THREE_BROKERS)


@pytest.fixture(scope="session")
def sasl_cluster(request: pytest.FixtureRequest) -> Iterator[sasl_clusters.SaslCluster]:
    """One broker whose clients must log in."""
    version = request.config.getoption("--oracle-version")
    with sasl_clusters.running(request.param, {**SHARED_CONFIG, **ONE_BROKER}, version) as started:
        yield started


@pytest.fixture(scope="session")
def tls_cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tls_clusters.TlsCluster]:
    """One broker with an authorizer, and listeners that speak TLS."""
    version = request.config.getoption("--oracle-version")
    config = {**SHARED_CONFIG, **ONE_BROKER}
    directory = tmp_path_factory.mktemp("certificates")
    with tls_clusters.running(request.param, config, version, directory) as started:
        yield started


@pytest.fixture
def unique(request: pytest.FixtureRequest) -> Callable[[str], str]:
    """Makes names that no other test uses: topics and groups outlive their test."""
    return lambda stem: f"{stem}-{next(_serial)}"


@pytest.fixture
def topic(request: pytest.FixtureRequest, cluster: Cluster, unique: Callable[[str], str]) -> str:
    """A topic for this test alone; the mark `topic` sets its partitions and settings."""
    mark = request.node.get_closest_marker("topic")
    return create_topic(cluster, unique("topic"), **(mark.kwargs if mark else {}))


@pytest.fixture
def raw(cluster: Cluster) -> Iterator[RawClient]:
    """A raw connection to the broker of `cluster`."""
    with cluster.connect() as client:
        yield client


@pytest.fixture(
    scope="session",
    params=[pytest.param("3.9", marks=pytest.mark.gate), "4"],
    ids=["java-3.9", "java-4"],
)
def java(request: pytest.FixtureRequest) -> Iterator[JavaClient]:
    """The stock Java clients of both release lines in use."""
    with JavaClient(request.param) as client:
        yield client


_serial = itertools.count(1)


def _running(
    request: pytest.FixtureRequest, *, brokers: int, config: Mapping[str, object]
) -> Iterator[Cluster]:
    kind: str = request.param
    settings = {**SHARED_CONFIG, **config}
    if kind == "apache":
        version = request.config.getoption("--oracle-version")
        started: ApacheKafka | EmbeddedKafka = ApacheKafka(
            brokers=brokers, version=version, config=settings
        )
    else:
        settings["num.io.threads"] = 2 if kind == "embedded-pool" else 0
        started = EmbeddedKafka(brokers=brokers, config=settings)
    with started, _shown_in_reports(request.config, started):
        cluster = Cluster(kind=kind, bootstrap_servers=started.bootstrap_servers)
        for index in range(brokers):
            with cluster.connect(index) as client:
                eventually(client.gives_producer_ids, f"broker {index} gives producer ids")
        await_coordinators(cluster)
        yield cluster


@contextmanager
def _shown_in_reports(
    config: pytest.Config, started: ApacheKafka | EmbeddedKafka
) -> Iterator[None]:
    """Shows Apache Kafka's log in the reports of failed tests, or if it never became ready."""
    if not isinstance(started, ApacheKafka):
        yield
        return
    running = config.stash.setdefault(RUNNING_ORACLES, [])
    running.append(started)
    try:
        yield
    except Exception as error:
        error.add_note(started.log_tail())
        raise
    finally:
        running.remove(started)
