"""The addresses that brokers listen on, and who can reach them."""

import errno
import socket
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from embedkafka import EmbeddedKafka, Security
from embedkafka.broker.settings.listeners import CONTROL_LISTENER
from embedkafka.runtime.addresses import format_address, is_wildcard, parse_address
from embedkafka.runtime.clock import SystemClock
from embedkafka.runtime.failures import ConfigError
from embedkafka.wire.net.client import BrokerClient
from embedkafka.wire.net.transport import own_address
from embedkafka.wire.protocol.errors import ErrorCode
from embedkafka.wire.protocol.messages.brokers import LeaderAndIsrRequest, UpdateMetadataRequest
from embedkafka.wire.protocol.messages.topics import ElectLeadersRequest
from tests.cluster.traffic import make_producer, send
from tests.presence import present
from tests.wire.raw_client import RawClient

# A server on all addresses answers here too; a server on 127.0.0.1 does not.
ELSEWHERE = "127.0.0.2"
TIMEOUT_S = 10.0


@pytest.mark.parametrize("host", ["::1", "0.0.0.0", "::", "localhost"])
def test_clients_use_a_cluster_on_any_address(host: str) -> None:
    with EmbeddedKafka(brokers=2, host=host) as kafka:
        orders = kafka.topic("orders", partitions=2, replication=2)
        producer = make_producer(kafka)
        for number in range(4):
            send(producer, "orders", b"%d" % number, partition=number % 2)
        assert sorted(present(message.value) for message in orders.read(4, timeout_s=30)) == [
            b"0",
            b"1",
            b"2",
            b"3",
        ]
        addresses = [kafka.broker(broker_id).address for broker_id in (1, 2)]
        assert kafka.bootstrap_servers == ",".join(addresses)
        told = own_address(host) if is_wildcard(host) else host
        assert {parse_address(address)[0] for address in addresses} == {told}
        assert brokers_known_to(kafka.bootstrap_servers) == set(addresses)
        assert kafka.advertised == kafka.listeners
        assert "does not answer" not in kafka.report()


def test_a_machine_without_a_network_is_reached_on_loopback(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def has_no_route(self: socket.socket, address: object) -> None:
        raise OSError(errno.ENETUNREACH, "Network is unreachable")

    class Alone(socket.socket):
        connect = has_no_route

    monkeypatch.setattr(socket, "socket", Alone)
    assert [own_address(host) for host in ("0.0.0.0", "::")] == ["127.0.0.1", "::1"]


ELSEWHERE_ONLY = "kafka.invalid"  # no machine can resolve it


def test_brokers_find_each_other_whatever_clients_are_given() -> None:
    with EmbeddedKafka(brokers=2, host="0.0.0.0", advertise=ELSEWHERE_ONLY) as kafka:
        kafka.topic("orders", replication=2)
        first, second = (parse_address(kafka.broker(number).address)[1] for number in (1, 2))
        assert kafka.advertised == {
            "PLAINTEXT": f"{ELSEWHERE_ONLY}:{first},{ELSEWHERE_ONLY}:{second}"
        }
        assert brokers_known_to(f"127.0.0.1:{first}") == set(
            kafka.advertised["PLAINTEXT"].split(",")
        )
        for port in (first, second):  # one of the two asks the other, which is the controller
            with RawClient("127.0.0.1", port) as raw:
                assert raw.call(ElectLeadersRequest(topic_partitions=None)).error_code == 0


def test_certificates_have_the_names_that_clients_are_given() -> None:
    settings: dict[str, Any] = {"security": Security(users={"alice": "a-secret"})}
    for advertise in (None, "localhost"):
        with EmbeddedKafka(host="0.0.0.0", advertise=advertise, **settings) as kafka:
            admin = AdminClient({**kafka.client_config("alice")})
            brokers = admin.list_topics(timeout=30).brokers.values()
            assert [broker.host for broker in brokers] == [advertise or own_address("0.0.0.0")]


def test_a_listener_that_is_not_advertised_has_no_address_for_clients() -> None:
    config = {**TWO_LISTENERS, "advertised.listeners": "CLIENTS://localhost:0"}
    with EmbeddedKafka(config=config) as kafka:
        assert list(kafka.listeners) == ["CLIENTS", "INTERNAL"]
        assert list(kafka.advertised) == ["CLIENTS"]


TWO_LISTENERS = {
    "listeners": "CLIENTS://127.0.0.1:0,INTERNAL://localhost:0,CONTROL://:0",
    "listener.security.protocol.map": "CLIENTS:PLAINTEXT,INTERNAL:PLAINTEXT,CONTROL:PLAINTEXT",
    "inter.broker.listener.name": "INTERNAL",
    "control.plane.listener.name": "CONTROL",
}


def test_metadata_gives_the_addresses_of_the_listener_that_a_client_uses() -> None:
    with EmbeddedKafka(brokers=2, config=TWO_LISTENERS) as kafka:
        assert list(kafka.listeners) == ["CLIENTS", "INTERNAL"]
        assert kafka.bootstrap_servers == kafka.listeners["CLIENTS"]
        for addresses in kafka.listeners.values():
            assert brokers_known_to(addresses) == set(addresses.split(","))
        orders = kafka.topic("orders", replication=2)
        orders.send("over the first listener")
        assert len(orders.read(1)) == 1


def test_a_restarted_broker_keeps_the_ports_of_all_its_listeners() -> None:
    with EmbeddedKafka(config=TWO_LISTENERS) as kafka:
        before = kafka.listeners
        kafka.broker(1).restart()
        assert kafka.listeners == before


def test_a_port_of_the_second_listener_in_use_is_named() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        listeners = f"CLIENTS://:0,INTERNAL://127.0.0.1:{port},CONTROL://:0"
        config = {**TWO_LISTENERS, "listeners": listeners}
        with pytest.raises(ConfigError, match=f"127.0.0.1:{port}: port {port} is in use"):
            EmbeddedKafka(config=config).start()


def brokers_known_to(bootstrap_servers: str) -> set[str]:
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    brokers = admin.list_topics(timeout=30).brokers.values()
    return {format_address(present(broker.host), broker.port) for broker in brokers}


def test_an_ipv6_address_is_bracketed() -> None:
    with EmbeddedKafka(host="::1") as kafka:
        assert kafka.bootstrap_servers.startswith("[::1]:")


def test_the_control_plane_is_for_this_machine_however_wide_the_data_plane_is() -> None:
    with EmbeddedKafka(host="0.0.0.0") as kafka:
        broker = present(kafka.broker(1)._lifecycle.incarnation).broker
        with socket.create_connection((ELSEWHERE, broker.bound.port()), TIMEOUT_S):
            pass
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((ELSEWHERE, broker.bound.port(CONTROL_LISTENER)), TIMEOUT_S)


def test_no_request_on_the_control_plane_makes_a_directory_outside(tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    with EmbeddedKafka(data_dir=inside) as kafka:
        broker = present(kafka.broker(1)._lifecycle.incarnation).broker
        client = BrokerClient(
            "127.0.0.1", broker.bound.port(CONTROL_LISTENER), SystemClock(), "stranger"
        )
        # Fields common to two requests; their types vary.
        told: dict[str, Any] = {"controller_id": 1, "controller_epoch": 99, "broker_epoch": 2**62}
        partition: dict[str, Any] = {
            "partition_index": 0,
            "controller_epoch": 99,
            "leader": 1,
            "leader_epoch": 0,
            "isr": [1],
            "replicas": [1],
        }
        name = "../../outside"
        answer = client.call(
            LeaderAndIsrRequest(
                **told,
                live_leaders=[],
                topic_states=[
                    LeaderAndIsrRequest.TopicState(
                        topic_name=name,
                        partition_states=[
                            LeaderAndIsrRequest.TopicState.PartitionState(
                                **partition, partition_epoch=0
                            )
                        ],
                    )
                ],
            ),
            5,
        )
        assert [
            error.error_code for topic in answer.topics for error in topic.partition_errors
        ] == [ErrorCode.INVALID_TOPIC_EXCEPTION]
        client.call(
            UpdateMetadataRequest(
                **told,
                live_brokers=[],
                topic_states=[
                    UpdateMetadataRequest.TopicState(
                        topic_name=name,
                        partition_states=[
                            UpdateMetadataRequest.TopicState.PartitionState(
                                **partition, zk_version=0
                            )
                        ],
                    )
                ],
            ),
            6,
        )
        client.close()
        assert broker.metadata.snapshot.topics.get(name) is None
        assert [path.name for path in tmp_path.iterdir()] == ["inside"]
