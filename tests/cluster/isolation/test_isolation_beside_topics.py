"""What a block changes beside topics, groups and brokers, mostly without a request: undone."""

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from embedkafka import ClusterClosed, EmbeddedKafka, EmbedKafkaError, InvalidArgument, Security
from embedkafka.broker.broker import Broker
from embedkafka.cluster.restoring.connections import find_connections, find_left_connected
from embedkafka.runtime.ids import TopicPartition
from embedkafka.security.principals import KafkaPrincipal
from embedkafka.wire.net.client import BrokerClient
from embedkafka.wire.protocol.messages.configs import IncrementalAlterConfigsRequest
from embedkafka.wire.protocol.messages.core import ApiVersionsRequest
from embedkafka.wire.protocol.messages.groups import OffsetCommitRequest
from tests.wire.raw_client import RawClient

WAIT_S = 20
USERS = {"job": "j-secret"}
NOT_ALLOWED = {"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer"}


@pytest.fixture(scope="module")
def kafka() -> Iterator[EmbeddedKafka]:
    config = {**NOT_ALLOWED, "super.users": "User:ANONYMOUS", "delegation.token.secret.key": "s"}
    with EmbeddedKafka(brokers=3, log_dirs=2, config=config) as cluster:
        yield cluster


def brokers_of(kafka: EmbeddedKafka) -> list[Broker]:
    return [handle.require_broker() for handle in kafka._require_brokers().running()]


def may_log_in(kafka: EmbeddedKafka, user: str) -> bool:
    admin = AdminClient({**kafka.client_config(user), "log_level": 0})
    return bool(admin.list_topics(timeout=WAIT_S).brokers)


CHANGES: dict[str, Callable[[EmbeddedKafka], object]] = {
    "revoke": lambda kafka: kafka.logins.revoke("job"),
    "another password": lambda kafka: kafka.logins.set_password("job", "other"),
    "another user": lambda kafka: kafka.logins.set_password("intruder", "x"),
    "expire certificates": lambda kafka: kafka.logins.expire_certificates(),
}


@pytest.mark.parametrize(
    ("protocol", "mechanism", "changes"),
    [
        ("SASL_PLAINTEXT", "SCRAM-SHA-256", ["revoke", "another password", "another user"]),
        ("SASL_SSL", "PLAIN", ["revoke", "expire certificates"]),
    ],
)
def test_logins_of_the_block_are_undone(protocol: str, mechanism: str, changes: list[str]) -> None:
    """They send no request, and passwords of PLAIN are in the brokers' memory alone."""
    security = Security(protocol=protocol, mechanism=mechanism, users=USERS)
    with EmbeddedKafka(brokers=2, security=security) as kafka:
        settings = kafka._require_brokers().zk.overrides()
        for change in changes:
            with kafka.isolated():
                CHANGES[change](kafka)
            assert may_log_in(kafka, "job"), change
            assert kafka._require_brokers().zk.overrides() == settings


def test_a_password_that_was_revoked_before_the_block_stays_revoked() -> None:
    security = Security(protocol="SASL_PLAINTEXT", mechanism="PLAIN", users=USERS)
    with EmbeddedKafka(security=security) as kafka:
        kafka.logins.revoke("job")
        with kafka.isolated():
            kafka.broker(1).restart()  # which reads the settings again
        with pytest.raises(InvalidArgument, match="'job' has no credentials"):
            kafka.logins.revoke("job")
        revoked = kafka.snapshot()
        kafka.reset()
        assert may_log_in(kafka, "job")
        kafka.restore(revoked)
        with pytest.raises(InvalidArgument, match="'job' has no credentials"):
            kafka.logins.revoke("job")


def test_tokens_that_the_block_ends_or_extends_are_as_before(kafka: EmbeddedKafka) -> None:
    tokens = brokers_of(kafka)[0].tokens
    assert tokens is not None
    ann = KafkaPrincipal("User", "ann")
    for period_ms in (-1, 1_000):
        tokens.create(ann, ann, (), -1)
        before = tokens.all()
        with kafka.isolated():
            tokens.expire(tokens.mac(before[0].token_id), ann, period_ms)
            assert tokens.all() != before
        assert tokens.all() == before


def test_refusals_belong_to_the_block() -> None:
    with EmbeddedKafka(config=NOT_ALLOWED) as kafka:
        with kafka.isolated():
            with pytest.raises(EmbedKafkaError, match="AUTHORIZATION_FAILED"):
                kafka.topic("forbidden")
            assert kafka.acls.refusals()
        assert kafka.acls.refusals() == []


def test_counters_of_the_block_are_gone(kafka: EmbeddedKafka) -> None:
    for _ in range(2):
        with kafka.isolated():
            kafka.metrics()
            kafka.topic("counted").send("x")
            assert kafka.metrics().total("MessagesInPerSec", topic="counted") == 1
    kafka.metrics()
    with kafka.isolated():
        kafka.topic("counted").send("x")
    assert kafka.metrics().total("MessagesInPerSec", topic="counted") == 1, "they were on before"
    kafka._require_brokers().drop_meters()


def test_snapshots_of_the_block_lose_their_names(kafka: EmbeddedKafka) -> None:
    kafka.snapshot("kept")
    with kafka.isolated():
        kafka.snapshot("passing")
        kafka.snapshot("kept")
    assert list(kafka._require_snapshots().named) == ["kept"]
    later = kafka.topic("later")
    with pytest.raises(InvalidArgument, match="no snapshot 'passing'"):
        kafka.restore("passing")
    later.delete()


def test_pages_of_the_block_are_closed(kafka: EmbeddedKafka) -> None:
    def pages() -> list[str]:
        return [each.name for each in threading.enumerate() if each.name.startswith("ek-page-s")]

    with kafka.open_ui(browser=False):
        with kafka.isolated():
            kafka.open_ui(browser=False)
            assert len(pages()) == 2
        assert len(pages()) == 1, "the one that was open before"


def test_levels_of_loggers_are_as_before(kafka: EmbeddedKafka) -> None:
    _Resource = IncrementalAlterConfigsRequest.Resource
    changed = _Resource.Config(name="kafka.server", config_operation=0, value="DEBUG")
    loggers = _Resource(resource_type=8, resource_name="1", configs=[changed])
    logger = logging.getLogger("embedkafka.broker")
    before = logger.level
    with kafka.isolated(), client_of(kafka) as client:
        client.call(IncrementalAlterConfigsRequest(resources=[loggers], validate_only=False), 1)
        assert logger.level == logging.DEBUG
    assert logger.level == before


def test_offsets_in_zookeeper_go_with_the_block(kafka: EmbeddedKafka) -> None:
    _Topic = OffsetCommitRequest.Topic
    partition = _Topic.Partition(partition_index=0, committed_offset=7, committed_metadata="")

    def commit(group: str) -> None:
        wanted = _Topic(name="orders", partitions=[partition])
        with client_of(kafka) as client:
            client.call(OffsetCommitRequest(group_id=group, topics=[wanted]), 0)

    kafka.topic("orders")
    zk = kafka._require_brokers().zk
    commit("kept")
    with kafka.isolated():
        commit("passing")
        assert zk.groups_with_offsets() == {"kept", "passing"}
    assert zk.groups_with_offsets() == {"kept"}
    assert zk.find_consumer_offset("kept", TopicPartition("orders", 0)) == 7
    kafka.reset()


def test_the_controller_is_the_same_broker(kafka: EmbeddedKafka) -> None:
    before = kafka.brokers.await_controller()
    with kafka.isolated():
        kafka.broker(before % 3 + 1).become_controller()
    assert kafka.brokers.controller == before
    with kafka.isolated():
        kafka.broker(before).kill()
    assert kafka.brokers.controller == before


def test_replicas_of_topics_that_stay_are_in_their_directories(kafka: EmbeddedKafka) -> None:
    kafka.topic("kept").send("x")
    broker = brokers_of(kafka)[kafka.existing_topic("kept").leader() - 1]
    partition, later = TopicPartition("kept", 0), TopicPartition("later", 0)

    def place() -> Path:
        log = broker.logs.find(partition)
        assert log is not None
        return log.directory.parent

    before = place()
    (other,) = set(broker.logs.directories) - {before}
    with kafka.isolated():
        broker.logs.move(partition, other)
        broker.logs.preferred[later] = other
    assert place() == before
    assert not broker.logs.moving()
    assert broker.logs.preferred == {}
    assert [message.text for message in kafka.existing_topic("kept").read()] == ["x"]
    kafka.existing_topic("kept").delete()


def test_a_block_that_closes_its_cluster_has_nothing_to_undo() -> None:
    with EmbeddedKafka() as kafka:
        isolated = kafka._isolation()
        with isolated:
            kafka.topic("gone")
            kafka.close()
        with pytest.raises(ClusterClosed, match="the cluster is not running"):
            isolated.begin()


def test_a_client_that_leaves_during_its_request_is_not_one_that_was_left(
    kafka: EmbeddedKafka,
) -> None:
    """As one that is throttled: its broker reads nothing of the connection until later."""
    brokers = kafka._require_brokers()
    before = find_connections(brokers)
    fault = kafka.faults.delay("API_VERSIONS", 600_000, client_id="left")
    host, port = kafka.broker(1).address.split(":")
    with RawClient(host, int(port), client_id="left") as client:
        client.send(ApiVersionsRequest(), 0)
        fault.await_hits()
        assert len(find_left_connected(lambda: find_connections(brokers), before)) == 1
    assert find_left_connected(lambda: find_connections(brokers), before) == []
    brokers.drop_held_requests()
    fault.remove()


def client_of(kafka: EmbeddedKafka) -> closing[BrokerClient]:
    return closing(brokers_of(kafka)[0].make_client("test"))
