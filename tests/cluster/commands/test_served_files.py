"""`embedkafka serve` with the files that Apache Kafka ships, and where it sends clients.

Each file has its settings here, without what all of them share.
"""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from embedkafka import cli
from embedkafka.cli import endings
from tests.java_tools.ports import free_ports

SHARED = """
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
socket.receive.buffer.bytes=102400
socket.request.max.bytes=104857600
num.partitions=1
num.recovery.threads.per.data.dir=1
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
log.retention.hours=168
log.segment.bytes=1073741824
log.retention.check.interval.ms=300000
"""
ZOOKEEPER = """
broker.id=0
log.dirs=/tmp/kafka-logs
zookeeper.connect=localhost:2181
zookeeper.connection.timeout.ms=18000
group.initial.rebalance.delay.ms=0
"""
MAP = """
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,\
SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL
"""
VOTERS = "controller.quorum.voters=1@localhost:9093\n"
SERVERS = "controller.quorum.bootstrap.servers=localhost:9093\n"
BROKER = f"""
process.roles=broker
node.id=2
listeners=PLAINTEXT://localhost:9092
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:9092
controller.listener.names=CONTROLLER
log.dirs=/tmp/kraft-broker-logs
{MAP}"""
COMBINED = f"""
process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
inter.broker.listener.name=PLAINTEXT
controller.listener.names=CONTROLLER
log.dirs=/tmp/kraft-combined-logs
{MAP}"""
ADVERTISES_ONE = "advertised.listeners=PLAINTEXT://localhost:9092\n"
ADVERTISES_BOTH = "advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093\n"
CONTROLLER = """
process.roles=controller
node.id=1
listeners=CONTROLLER://:9093
advertised.listeners=CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
log.dirs=/tmp/kraft-controller-logs
"""
OLD_CONTROLLER = """
process.roles=controller
node.id=1
listeners=PLAINTEXT://:9093
controller.listener.names=PLAINTEXT
log.dirs=/tmp/raft-controller-logs
"""
SHARE_GROUPS = """
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
"""
FILES = {
    "2.8/server": ZOOKEEPER,
    "2.8/kraft/server": COMBINED + VOTERS + ADVERTISES_ONE,
    "2.8/kraft/broker": BROKER + VOTERS,
    "2.8/kraft/controller": OLD_CONTROLLER + VOTERS,
    "3.9/server": ZOOKEEPER,
    "3.9/kraft/server": COMBINED + VOTERS + ADVERTISES_BOTH,
    "3.9/kraft/reconfig-server": COMBINED + SERVERS + ADVERTISES_BOTH,
    "3.9/kraft/broker": BROKER + SERVERS,
    "3.9/kraft/controller": CONTROLLER + SERVERS,
    "4/server": COMBINED + SERVERS + ADVERTISES_BOTH + SHARE_GROUPS,
    "4/broker": BROKER + SERVERS + SHARE_GROUPS,
    "4/controller": CONTROLLER + SERVERS + SHARE_GROUPS,
}

Serve = Callable[..., str]


@pytest.fixture
def serve(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Serve:
    """Serves `settings` while a client connects; returns the address that it was given."""

    def serve(settings: str, *options: str) -> str:
        file = tmp_path / "server.properties"
        file.write_text(settings)
        given: list[str] = []

        def connect(signals: int, *, stay: bool) -> None:
            printed = dict(line.split() for line in capfd.readouterr().out.splitlines())
            (address,) = brokers_known_to(printed["BOOTSTRAP"])
            assert printed["ADVERTISED"] == address
            given.append(address)

        monkeypatch.setattr(endings, "await_end", connect)
        code = cli.main(["serve", "--properties", str(file), *options])
        assert (code, len(given)) == (0, 1), capfd.readouterr().err
        return given[0]

    return serve


def brokers_known_to(bootstrap_servers: str) -> set[str]:
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    brokers = admin.list_topics(timeout=30).brokers.values()
    return {f"{broker.host}:{broker.port}" for broker in brokers}


@pytest.mark.parametrize("name", FILES)
def test_a_file_of_kafka_is_served_as_it_is(serve: Serve, name: str) -> None:
    (port,) = free_ports(1)
    address = serve(FILES[name].replace("9092", str(port)) + SHARED)
    if "9092" in FILES[name]:
        assert address == f"localhost:{port}"
    else:
        assert re.fullmatch(r"127\.0\.0\.1:\d+", address)


def test_a_port_takes_what_is_advertised_with_it(serve: Serve) -> None:
    (port,) = free_ports(1)
    assert serve(FILES["4/server"], "--port", str(port)) == f"localhost:{port}"


def test_a_host_takes_what_is_advertised_with_it(serve: Serve) -> None:
    (port,) = free_ports(1)
    assert serve(FILES["4/broker"], "--host", "127.0.0.2", "--port", str(port)) == (
        f"127.0.0.2:{port}"
    )


def test_clients_may_be_given_another_host(serve: Serve) -> None:
    (port,) = free_ports(1)
    options = ("--host", "0.0.0.0", "--advertise", "localhost", "--port", str(port))
    assert serve("advertised.listeners=PLAINTEXT://proxy:443", *options) == f"localhost:{port}"


def test_the_port_of_a_proxy_is_not_taken_for_the_listeners(serve: Serve) -> None:
    advertised = "advertised.listeners=PLAINTEXT://proxy.invalid:443"
    (port,) = free_ports(1)
    assert serve(f"listeners=PLAINTEXT://0.0.0.0:{port}\n{advertised}") == "proxy.invalid:443"


def test_a_port_that_a_proxy_does_not_know_is_refused_in_one_message_with_all_else(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "server.properties"
    file.write_text(
        "listeners=PLAINTEXT://:9092\nadvertised.listeners=PLAINTEXT://proxy:443\nbroker.id=first\n"
    )
    assert cli.main(["serve", "--properties", str(file), "--port", "9095"]) == 2
    head, *problems = capfd.readouterr().err.splitlines()
    assert head == "embedkafka: 2 problems with the configuration:"
    assert problems[0].startswith("- Invalid value first for configuration broker.id")
    assert re.search(r"PLAINTEXT://proxy:443, .* when --port moves .* use --advertise", problems[1])
