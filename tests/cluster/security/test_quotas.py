"""Quotas of users who log in, and waits that end on the cluster's clock."""

from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from embedkafka import Acl, ClientQuota, EmbeddedKafka, InvalidArgument
from embedkafka.runtime.addresses import parse_address
from embedkafka.wire.protocol.messages.core import ProduceRequest
from embedkafka.wire.protocol.messages.security import SaslAuthenticateRequest, SaslHandshakeRequest
from tests.wire.clients import eventually
from tests.wire.one_partition import batch, produce_request
from tests.wire.raw_client import RawClient

SECRET = "s3cret"
WAIT_S = 30
USERS = ("admin", "alice", "bob")
SECURED = {
    "listeners": "SASL://127.0.0.1:0",
    "listener.security.protocol.map": "SASL:SASL_PLAINTEXT",
    "inter.broker.listener.name": "SASL",
    "sasl.enabled.mechanisms": "PLAIN",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "listener.name.sasl.plain.sasl.jaas.config": (
        "org.apache.kafka.common.security.plain.PlainLoginModule required "
        f'username="admin" password="{SECRET}" '
        + " ".join(f'user_{name}="{SECRET}"' for name in USERS)
        + ";"
    ),
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin",
}


#: Clients that wait for days on the cluster's clock are not idle.
PATIENT = {"quota.window.num": 2, "connections.max.idle.ms": -1}


def logged_in(kafka: EmbeddedKafka, user: str) -> RawClient:
    client = RawClient(*parse_address(kafka.bootstrap_servers))
    client.call(SaslHandshakeRequest(mechanism="PLAIN"), 1)
    token = f"\0{user}\0{SECRET}".encode()
    assert client.call(SaslAuthenticateRequest(auth_bytes=token), 2).error_code == 0
    return client


def produced(size: int, *, acks: int = 1) -> ProduceRequest:
    return produce_request("orders", batch(b"x" * size), acks=acks)


def is_throttled(client: RawClient, size: int) -> bool:
    return bool(client.call(produced(size), 9).throttle_time_ms)


def test_a_quota_is_for_the_user_who_has_logged_in() -> None:
    with EmbeddedKafka(config=SECURED) as kafka:
        settings: dict[str, Any] = {
            "bootstrap.servers": kafka.bootstrap_servers,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "admin",
            "sasl.password": SECRET,
        }
        admin_client = AdminClient(settings)
        admin_client.create_topics([NewTopic("orders", 1, 1)])["orders"].result(WAIT_S)
        kafka.acls.add(*(Acl.allow(user, "WRITE", topic="orders") for user in ("alice", "bob")))
        kafka.quotas.set(user="alice", producer_byte_rate=100_000)
        with logged_in(kafka, "alice") as alice, logged_in(kafka, "bob") as bob:
            eventually(lambda: is_throttled(alice, 300_000), "alice has to wait")
            assert not is_throttled(bob, 900_000)
        producer = Producer({**settings, "sasl.username": "bob", "client.id": "raw"})
        producer.produce("orders", b"x")
        assert producer.flush(WAIT_S) == 0


def test_a_wait_ends_when_the_cluster_says_so() -> None:
    with EmbeddedKafka(topics={"orders": 1}, config=PATIENT) as kafka:
        address = parse_address(kafka.bootstrap_servers)
        with RawClient(*address, client_id="slow") as slow:
            kafka.quotas.set(client_id="slow", producer_byte_rate=1000)
            eventually(lambda: is_throttled(slow, 100_000), "the producer has to wait")
            waiting = slow.send(produced(1), 9)
            kafka.clock.advance(hours=100)
            answer = slow.receive(produced(1), 9, waiting)
            assert not answer.throttle_time_ms, "what was used long ago does not count"


def test_a_write_without_an_answer_is_throttled_too() -> None:
    with EmbeddedKafka(topics={"orders": 1}, config=PATIENT) as kafka:
        address = parse_address(kafka.bootstrap_servers)
        with RawClient(*address, client_id="slow") as slow:
            kafka.quotas.set(client_id="slow", producer_byte_rate=1000)
            eventually(lambda: is_throttled(slow, 2_000), "the quota holds")
            kafka.clock.advance(hours=100)
            before = len(kafka.requests(api="Produce"))
            slow.send(produced(500_000, acks=0), 9)
            waiting = slow.send(produced(1), 9)
            eventually(lambda: len(kafka.requests(api="Produce")) > before, "the write arrives")
            assert len(kafka.requests(api="Produce")) == before + 1, "the next request is not read"
            kafka.clock.advance(hours=100)
            slow.receive(produced(1), 9, waiting)


def test_time_on_the_brokers_threads_is_limited() -> None:
    with EmbeddedKafka(topics={"orders": 1}) as kafka:
        address = parse_address(kafka.bootstrap_servers)
        with RawClient(*address, client_id="slow") as slow:
            kafka.quotas.set(client_id="slow", request_percentage=0.000_001)
            eventually(lambda: is_throttled(slow, 10), "the client has to wait")


def test_quotas_are_set_described_and_removed() -> None:
    with EmbeddedKafka(brokers=2) as kafka:
        quotas = kafka.quotas
        assert quotas.all() == []
        quotas.set(client_id="job", producer_byte_rate=1000, consumer_byte_rate=2000)
        quotas.set(client_id="job", producer_byte_rate=3000)
        quotas.set(user="ann", client_id="<default>", request_percentage=0.5)
        quotas.set(ip="<default>", connection_creation_rate=50)
        job = ClientQuota(
            user=None,
            client_id="job",
            ip=None,
            limits={"consumer_byte_rate": 2000, "producer_byte_rate": 3000},
        )
        assert job in quotas.all()
        assert len(quotas.all()) == 3
        assert quotas.describe(user="ann", client_id="<default>") == {"request_percentage": 0.5}
        assert quotas.describe(user="ann") == {}, "the pair is another entity"

        quotas.remove("producer_byte_rate", client_id="job")
        assert quotas.describe(client_id="job") == {"consumer_byte_rate": 2000}
        quotas.remove(client_id="job")
        quotas.remove(ip="<default>")
        assert [each.user for each in quotas.all()] == ["ann"]
        with pytest.raises(InvalidArgument, match="client-id job has no quota"):
            quotas.remove(client_id="job")


def test_a_quota_holds_on_every_broker_when_it_is_set_until_it_is_removed() -> None:
    with EmbeddedKafka(brokers=2) as kafka:
        orders, servers = kafka.topic("orders"), kafka.bootstrap_servers.split(",")
        address = parse_address(servers[orders.leader() - 1])
        with RawClient(*address, client_id="slow") as slow:
            kafka.quotas.set(client_id="<default>", producer_byte_rate=1000)
            assert is_throttled(slow, 100_000)
        with RawClient(*address, client_id="slow") as slow:
            kafka.quotas.remove(client_id="<default>")
            assert not is_throttled(slow, 100_000)


def test_a_broker_that_is_cut_off_learns_of_quotas_later() -> None:
    with EmbeddedKafka(brokers=3) as kafka:
        kafka.brokers.partition({2}, {1, 3}, zookeeper={1, 3})
        kafka.quotas.set(client_id="job", producer_byte_rate=1000)
        kafka.brokers.heal()
        assert kafka.quotas.describe(client_id="job") == {"producer_byte_rate": 1000}


def test_quotas_of_a_block_end_with_it() -> None:
    with EmbeddedKafka(topics={"orders": 1}) as kafka:
        kafka.quotas.set(client_id="kept", producer_byte_rate=1000)
        before = kafka.quotas.all()
        with kafka.isolated():
            kafka.quotas.remove(client_id="kept")
            kafka.quotas.set(user="<default>", client_id="slow", producer_byte_rate=1000)
            kafka.quotas.set(ip="10.0.0.1", connection_creation_rate=1)
        assert kafka.quotas.all() == before
        with RawClient(*parse_address(kafka.bootstrap_servers), client_id="slow") as slow:
            assert not is_throttled(slow, 100_000)
