"""Calls every method of Java's Admin on both clusters, and compares every field of every result."""

from collections.abc import Iterator
from typing import Final

import pytest

from embedkafka import EmbeddedKafka
from tests.java_tools.java_client import RELEASES, JavaClient
from tests.java_tools.oracle import ApacheKafka
from tests.wire.clients import Cluster, await_coordinators
from tests.wire.conftest import SHARED_CONFIG, THREE_BROKERS
from tests.wire.tools.tours import Known, Visit, check, differences

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(900)]

TOUR_SECONDS: Final = 300
CONFIG: Final = {**SHARED_CONFIG, **THREE_BROKERS}

_TUNED: Final = "|".join(
    (
        "add.partitions.to.txn.retry.backoff.ms",
        "leader.imbalance.check.interval.seconds",
        "num.io.threads",
        "num.network.threads",
        "replica.fetch.backoff.ms",
        "replica.lag.time.max.ms",
        "socket.listen.backlog.size",
    )
).replace(".", r"\.")
_ONLY_OURS: Final = "|".join(
    (
        "broker.id.generation.enable",
        "control.plane.listener.name",
        "controlled.shutdown.max.retries",
        "controlled.shutdown.retry.backoff.ms",
        "delegation.token.master.key",
        "inter.broker.protocol.version",
        "leader.imbalance.per.broker.percentage",
        "log.initial.task.delay.ms",
        "log.message.downconversion.enable",
        "log.message.format.version",
        "offsets.commit.required.acks",
        "producer.id.expiration.check.interval.ms",
        "reserved.broker.max.id",
        "zookeeper",
    )
).replace(".", r"\.")
KNOWN: Final = (
    Known(
        call=r"features",
        field=r".*\b(eligible\.leader\.replicas|kraft|share|streams)\.version\b.*|<id>",
        reason="no eligible leader replicas, no voters to change, no share or Streams groups",
    ),
    Known(
        call=r"feature: group\.version",
        field=r"group\.version\b.*",
        reason="the levels of features are fixed",
    ),
    Known(
        call=r"quorum",
        field=r"highWatermark|leader(Id|Epoch)|.*\.(port|logEndOffset)",
        reason="chance, and a log of other records",
    ),
    Known(
        call=r"create: .*|configs: (TOPIC|BROKER) .*",
        field=r"((config\.entries\[)?min\.insync\.replicas\b.*)?",
        reason="Kafka stores this for all brokers when it has eligible leader replicas",
    ),
    Known(
        call=r"configs: BROKER 1",
        field=r".*\.isReadOnly",
        reason="a setting without an effect cannot be changed",
    ),
    Known(
        call=r"configs: BROKER 1",
        field=rf"({_TUNED})\..*",
        reason="defaults tuned for tests",
    ),
    Known(
        call=r"configs: BROKER 1",
        field=rf"({_ONLY_OURS})\..*",
        reason="keys of releases with ZooKeeper",
    ),
    Known(
        call=r"configs: BROKER 1",
        field=r"(listeners|metric\.reporters|process\.roles)\..*",
        reason="other ports, no Java reporters, no roles",
    ),
    Known(
        call=r"edge: broker log\.segment\.bytes=.*",
        field=r".*\.error\.message",
        reason="segments may be small",
    ),
    Known(
        call=r"edge: broker (log\.local\.retention\.ms|metric\.reporters)=.*",
        field=r".*",
        reason="a setting without an effect cannot be changed",
    ),
    Known(
        call=r"configs: BROKER_LOGGER .*",
        field=r".*",
        reason="loggers of another program, most of them for Python's packages",
    ),
)

SINCE_4: Final = (
    Known(
        call=r"configs: GROUP group",
        field=r"(share|streams)\..*|consumer\.assignment\.interval\.ms\..*",
        reason="there are no share groups and no Streams groups, and assignments do not wait",
    ),
    Known(
        call=r"(alter|delete|describe|list)(Share|Streams)Group.*",
        field=r".*",
        reason="there are no share groups and no Streams groups",
    ),
)
"""What only a client of 4.x can notice."""


@pytest.fixture(scope="module")
def ours() -> Iterator[str]:
    with EmbeddedKafka(brokers=3, config=CONFIG) as kafka:
        await_coordinators(Cluster(kind="embedded", bootstrap_servers=kafka.bootstrap_servers))
        yield kafka.bootstrap_servers


@pytest.fixture(scope="module")
def apaches() -> Iterator[str]:
    with ApacheKafka(brokers=3, config=CONFIG) as kafka:
        await_coordinators(Cluster(kind="apache", bootstrap_servers=kafka.bootstrap_servers))
        yield kafka.bootstrap_servers


@pytest.mark.parametrize("line", RELEASES)
def test_an_admin_is_told_the_same(line: str, ours: str, apaches: str) -> None:
    with JavaClient(line) as java:
        theirs, mine = visit(java, apaches), visit(java, ours)
    assert set(mine.told["methods that were not called"]) <= UNCALLED
    found = differences(theirs, mine)
    known = KNOWN if line.startswith("3") else KNOWN + SINCE_4
    check(found, known)


UNCALLED: Final = {
    "close",
    "metrics",
    "registerMetricForSubscription",
    "unregisterMetricFromSubscription",
}
"""Methods of the client that ask no broker."""


def visit(java: JavaClient, bootstrap_servers: str) -> Visit:
    prefix = f"tour-{java.version}-".replace(".", "-")
    patience = {"default_api_timeout_ms": 10_000, "request_timeout_ms": 8_000}
    with java.admin(bootstrap_servers, **patience) as admin:
        told = admin.start("tour", prefix=prefix).result(TOUR_SECONDS)
    return Visit(told=told, prefix=prefix, bootstrap_servers=bootstrap_servers)
