"""What a test can ask a cluster for as values: ends, partitions, groups and lag."""

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka import TopicPartition as Position
from confluent_kafka.admin import AdminClient

from embedkafka import EmbeddedKafka, InvalidArgument, TopicPartition
from embedkafka.spark.offsets import ask_ends
from tests.cluster.traffic import PATIENT, make_consumer
from tests.presence import present


def test_groups_and_their_lag_are_values(kafka: EmbeddedKafka) -> None:
    orders = kafka.topic("orders", partitions=2)
    for partition in (0, 0, 0, 1):
        orders.send("x", partition=partition)
    assert kafka.groups() == []
    consumer = make_consumer(kafka, "readers", **PATIENT, **{"client.id": "shop"})
    consumer.subscribe(["orders"])
    while (message := consumer.poll(30)) is None or message.error() or message.partition() == 1:
        pass
    consumer.commit(message=message, asynchronous=False)

    stable = kafka.group("readers").await_stable()

    offset = present(message.offset())
    first, second = TopicPartition("orders", 0), TopicPartition("orders", 1)
    assert (stable.group_id, stable.state) == ("readers", "Stable")
    (member,) = stable.members
    assert (member.client_id, member.partitions) == ("shop", (first, second))
    assert stable.committed == {first: offset + 1}
    assert stable.lag == {first: 2 - offset}
    assert stable.total_lag == sum(kafka.group("readers").lag().values())
    assert kafka.group("readers").lag("orders") == {first: 2 - offset, second: 1}
    assert [group.group_id for group in kafka.groups()] == ["readers"]
    with pytest.raises(InvalidArgument, match="there is no topic 'prices'"):
        kafka.group("readers").lag("prices")
    consumer.close()
    orders.delete()
    group = kafka.group("readers").await_state("Empty", members=0)
    assert (group.state, group.members, group.total_lag) == ("Empty", (), 0)
    assert kafka.groups() == [group]


def test_a_topic_knows_its_ends_and_partitions(kafka: EmbeddedKafka) -> None:
    orders = kafka.topic("orders", partitions=2, replication=3)
    orders.send("x", partition=1)
    assert orders.end_offsets() == {0: 0, 1: 1}
    partitions = orders.partitions()
    assert [each.partition for each in partitions] == [0, 1]
    assert [each.leader for each in partitions] == [orders.leader(n) for n in (0, 1)]
    assert all(set(each.replicas) == {1, 2, 3} for each in partitions)
    orders.delete()
    with pytest.raises(InvalidArgument, match="there is no topic 'orders'"):
        orders.end_offsets()


@pytest.mark.parametrize(
    "error", ["NOT_LEADER_OR_FOLLOWER", "FENCED_LEADER_EPOCH", "OFFSET_NOT_AVAILABLE"]
)
def test_ends_are_asked_for_again_if_the_leader_has_moved(kafka: EmbeddedKafka, error: str) -> None:
    orders = kafka.topic("orders", partitions=2)
    orders.send("x", partition=1)
    with kafka.faults.error("LIST_OFFSETS", error, times=3) as fault:
        assert orders.end_offsets() == {0: 0, 1: 1}
    assert fault.hits == 3


def test_ends_are_asked_for_again_if_the_leader_has_died(kafka: EmbeddedKafka) -> None:
    kafka.topic("orders", replication=3).send("x")
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    admin.list_topics(timeout=30)
    kafka.broker(kafka.existing_topic("orders").leader(0)).kill()
    first = TopicPartition("orders", 0)
    assert ask_ends(admin, [first], is_committed=False, timeout_s=30) == {first: 1}


def test_a_leader_that_never_answers_is_no_end(kafka: EmbeddedKafka) -> None:
    kafka.topic("orders")
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    with (
        kafka.faults.drop_reply("LIST_OFFSETS", times=None),
        pytest.raises(KafkaException) as raised,
    ):
        ask_ends(admin, [TopicPartition("orders", 0)], is_committed=False, timeout_s=0.2)
    assert raised.value.args[0].code() == KafkaError._TIMED_OUT


def test_a_plain_read_leaves_no_trace(kafka: EmbeddedKafka) -> None:
    orders = kafka.topic("orders")
    orders.send("x")
    mark = kafka.mark()
    assert len(orders.read()) == 1
    assert len(orders.wait_for(1)) == 1
    assert kafka.requests("FindCoordinator", since=mark) == []
    assert "answers with errors" not in kafka.report()
    assert "__consumer_offsets" not in kafka.describe()
    consumer = make_consumer(kafka, "readers", **PATIENT)
    consumer.subscribe(["orders"])
    kafka.group("readers").await_stable()
    consumer.close()
    assert "__consumer_offsets" in kafka.describe(), "other clients get what Kafka gives them"


def test_retention_and_compaction_happen_when_a_test_waits_for_them(kafka: EmbeddedKafka) -> None:
    old = kafka.topic("old", replication=3, config={"retention.ms": 1000})
    old.send("x")
    kafka.clock.advance(days=1)
    old.await_retention()
    assert old.read() == []
    assert old.end_offsets() == {0: 1}
    keyed = kafka.topic("keyed", config={"cleanup.policy": "compact"})
    for value in ("a", "b"):
        keyed.send(value, key="k")
    keyed.await_compaction()
    assert [message.text for message in keyed.read()] == ["b"]
    with pytest.raises(InvalidArgument, match="there is no topic 'prices'"):
        kafka.existing_topic("prices").await_retention()


def test_a_cluster_says_where_it_is_and_how_it_fares(kafka: EmbeddedKafka) -> None:
    assert repr(kafka) == f"<EmbeddedKafka at {kafka.bootstrap_servers}: all is well>"
    kafka.broker(3).stop()
    said = f"<EmbeddedKafka at {kafka.bootstrap_servers}: broker down: broker 3 is stopped>"
    assert repr(kafka) == said
    assert repr(EmbeddedKafka()) == "<EmbeddedKafka, not running>"


def test_coordinators_are_those_that_clients_find(kafka: EmbeddedKafka) -> None:
    kafka.topic("orders")
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    for group in ("a", "b", "c", "ünï"):
        consumer = make_consumer(kafka, group)
        consumer.commit(offsets=[Position("orders", 0, 1)], asynchronous=False)
        consumer.close()
        (described,) = admin.describe_consumer_groups([group]).values()
        assert kafka.group(group).coordinator() == described.result(20).coordinator.id
    producer = Producer(
        {"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": "payments"}
    )
    producer.init_transactions(20)
    (*_, answered) = [
        seen
        for seen in kafka.requests("InitProducerId")
        if seen.request.transactional_id == "payments" and not seen.errors
    ]
    assert kafka.transaction_coordinator("payments") == answered.broker
