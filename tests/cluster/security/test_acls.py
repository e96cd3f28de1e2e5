"""A cluster with an authorizer, as stock clients see it, and ACLs that change while they run."""

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, KafkaError, Producer

from embedkafka import Acl, ConfigError, EmbeddedKafka, InvalidArgument
from embedkafka.wire.protocol.errors import ErrorCode
from embedkafka.wire.protocol.messages.topics import ElectLeadersRequest
from tests.presence import present
from tests.wire.clients import eventually
from tests.wire.raw_client import RawClient

AUTHORIZER = {"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer"}
USER = "ANONYMOUS"
CREATE = Acl.allow(USER, "CREATE", cluster=True)
BROKERS = Acl.allow(USER, "CLUSTER_ACTION", cluster=True)
WRITE = Acl.allow(USER, "WRITE", topic="orders")
READ = Acl.allow(USER, "READ", topic="orders")
JOIN = Acl.allow(USER, "READ", group="job", prefixed=True)
WAIT_S = 30


@pytest.fixture(scope="module")
def running() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka(brokers=3, config=AUTHORIZER) as kafka:
        kafka.acls.add(CREATE, BROKERS, WRITE, READ, JOIN)
        kafka.topic("orders", partitions=3, replication=3)
        yield kafka


@pytest.fixture
def kafka(running: EmbeddedKafka) -> EmbeddedKafka:
    running.acls.replace([CREATE, BROKERS, WRITE, READ, JOIN])
    return running


def send(producer: Producer) -> KafkaError | None:
    """The error of one delivery."""
    outcomes: list[KafkaError | None] = []
    producer.produce("orders", b"x", on_delivery=lambda error, message: outcomes.append(error))
    assert producer.flush(WAIT_S) == 0
    return outcomes[0]


def test_a_producer_hears_that_it_may_no_longer_write(kafka: EmbeddedKafka) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    assert send(producer) is None
    kafka.acls.remove(WRITE)
    assert present(send(producer)).code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    kafka.acls.add(WRITE)
    assert send(Producer({"bootstrap.servers": kafka.bootstrap_servers})) is None


def test_a_consumer_hears_that_it_may_no_longer_read(kafka: EmbeddedKafka) -> None:
    assert send(Producer({"bootstrap.servers": kafka.bootstrap_servers})) is None
    consumer = Consumer(
        {
            "bootstrap.servers": kafka.bootstrap_servers,
            "group.id": "job-1",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe(["orders"])
    assert present(consumer.poll(WAIT_S)).error() is None
    kafka.acls.remove(READ)

    def refused() -> bool:
        message = consumer.poll(1)
        if message is None or message.error() is None:
            return False
        return bool(present(message.error()).code() == KafkaError.TOPIC_AUTHORIZATION_FAILED)

    eventually(refused, "the consumer hears of it")
    consumer.close()
    told = {(str(one.principal), one.operation.name, one.resource) for one in kafka.acls.refusals()}
    assert ("User:ANONYMOUS", "READ", "orders") in told
    assert "User:ANONYMOUS from 127.0.0.1 may not READ TOPIC orders (FETCH)" in kafka.report()


def test_a_group_may_be_joined_by_those_who_may_read_it(kafka: EmbeddedKafka) -> None:
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": "other"})
    consumer.subscribe(["orders"])
    error = present(present(consumer.poll(WAIT_S)).error())
    consumer.close()
    assert error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED


def test_an_idempotent_producer_needs_only_the_right_to_write(kafka: EmbeddedKafka) -> None:
    settings = {"bootstrap.servers": kafka.bootstrap_servers, "enable.idempotence": True}
    assert send(Producer(settings)) is None


def test_a_transaction_needs_the_right_to_its_id(kafka: EmbeddedKafka) -> None:
    settings = {"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": "payments"}
    producer = Producer(settings)
    with pytest.raises(Exception, match="TRANSACTIONAL_ID_AUTHORIZATION_FAILED"):
        producer.init_transactions(WAIT_S)
    kafka.acls.add(Acl.allow(USER, "WRITE", transactional_id="pay", prefixed=True))
    producer = Producer(settings)
    producer.init_transactions(WAIT_S)
    producer.begin_transaction()
    producer.produce("orders", b"x")
    producer.commit_transaction(WAIT_S)


def test_every_broker_and_a_new_one_holds_to_the_acls(kafka: EmbeddedKafka) -> None:
    kafka.acls.remove(WRITE)
    kafka.broker(2).restart()
    kafka.await_no_under_replicated()
    for broker in kafka.brokers:
        producer = Producer({"bootstrap.servers": broker.address, "message.timeout.ms": 20_000})
        assert present(send(producer)).code() == KafkaError.TOPIC_AUTHORIZATION_FAILED


def test_a_reset_leaves_the_acls_of_the_start() -> None:
    with EmbeddedKafka(config=AUTHORIZER) as kafka:
        kafka.acls.add(READ)
        kafka.reset()
        assert kafka.acls.all() == []


def test_acls_are_listed_and_a_missing_one_is_named(kafka: EmbeddedKafka) -> None:
    assert set(kafka.acls.all()) == {CREATE, BROKERS, WRITE, READ, JOIN}
    with pytest.raises(InvalidArgument, match=r"no ACL User:b .* There are: User:ANONYMOUS"):
        kafka.acls.remove(Acl.allow("b", "READ", topic="orders"))


def test_without_an_authorizer_there_are_no_acls() -> None:
    with (
        EmbeddedKafka() as kafka,
        pytest.raises(ConfigError, match=r"set authorizer\.class\.name"),
    ):
        kafka.acls.all()


def test_a_broker_needs_no_right_of_its_own_to_pass_a_request_on(kafka: EmbeddedKafka) -> None:
    """The client's address is another one, so that brokers do not have its permission."""
    host = "127.0.0.2"
    kafka.acls.add(Acl.allow(USER, "ALTER", cluster=True, host=host))
    for handle in kafka.brokers:
        _, port = handle.address.split(":")
        with RawClient("127.0.0.1", int(port), from_host=host) as client:
            answer = client.call(ElectLeadersRequest(topic_partitions=None))
            assert answer.error_code == ErrorCode.NONE
        with RawClient("127.0.0.1", int(port)) as client:
            answer = client.call(ElectLeadersRequest(topic_partitions=None))
            assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
