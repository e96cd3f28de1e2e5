"""Leaders, controller, segments, compaction and expiry, on demand."""

import pytest
from confluent_kafka import TopicPartition

from embedkafka import EmbeddedKafka, EmbedKafkaError
from tests.cluster.traffic import PATIENT, make_consumer, make_producer, send
from tests.presence import present


def test_a_leader_moves_where_it_is_told(kafka: EmbeddedKafka) -> None:
    orders = kafka.topic("orders", replication=3)
    producer = make_producer(kafka)
    for broker in (3, 1, 2, 2):
        orders.move_leader(to=broker)
        assert orders.leader() == broker
        assert orders.partition().replicas[0] == broker
        assert send(producer, "orders", str(broker))[0] is None
    assert [message.text for message in orders.read()] == ["3", "1", "2", "2"]


def test_a_replica_that_is_not_in_sync_cannot_lead(kafka: EmbeddedKafka) -> None:
    orders = kafka.topic("orders", replication=3)
    follower = next(broker for broker in (1, 2, 3) if broker != orders.leader())
    kafka.broker(follower).stop()
    orders.await_isr(size=2)
    with pytest.raises(EmbedKafkaError, match="not in sync"):
        orders.move_leader(to=follower)


def test_a_controller_is_elected_by_choice(kafka: EmbeddedKafka) -> None:
    for broker in (2, 3, 3, 1):
        kafka.broker(broker).become_controller()
        assert kafka.brokers.controller == broker
        kafka.topic(f"by-{broker}-{kafka.mark().number}", replication=3)
    kafka.broker(2).stop()
    with pytest.raises(EmbedKafkaError, match="broker 2 cannot be controller"):
        kafka.broker(2).become_controller()


def test_a_topic_is_compacted_up_to_its_newest_record(kafka: EmbeddedKafka) -> None:
    prices = kafka.topic("prices", replication=3, config={"cleanup.policy": "compact"})
    producer = make_producer(kafka)
    for value in ("1", "2", "3"):
        producer.produce("prices", value, "apple")
        assert producer.flush(30) == 0
    prices.compact()
    assert [message.text for message in prices.read()] == ["3"]
    follower = next(broker for broker in (1, 2, 3) if broker != prices.leader())
    prices.move_leader(to=follower)
    assert [message.text for message in prices.read()] == ["3"], "on every replica"


def test_a_topic_whose_replica_moves_is_not_compacted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("embedkafka.broker.log.moves._CHUNK_BYTES", 1)
    rate = {"replica.alter.log.dirs.io.max.bytes.per.second": 1}
    with EmbeddedKafka(log_dirs=2, config=rate) as kafka:
        prices = kafka.topic("prices", config={"cleanup.policy": "compact"})
        logs = kafka.broker(1)._lifecycle.require_broker().logs
        (log,) = [log for log in logs.all_logs() if log.topic_partition.topic == "prices"]
        (other,) = set(logs.directories) - {log.directory.parent}
        for value in ("1", "2"):  # two batches: the copy waits after the first
            prices.send(value, key="apple")
        logs.move(log.topic_partition, other)
        with pytest.raises(EmbedKafkaError, match=f"prices-0 of broker 1 is moving to {other}"):
            prices.compact()
        logs.move(log.topic_partition, log.directory.parent)
        prices.compact()
        assert [message.text for message in prices.read()] == ["2"]


def test_young_records_are_left_alone(kafka: EmbeddedKafka) -> None:
    config = {"cleanup.policy": "compact", "min.compaction.lag.ms": 3_600_000}
    prices = kafka.topic("prices", config=config)
    for value in ("1", "2"):
        prices.send(value, key="apple")
    prices.compact()
    assert [message.text for message in prices.read()] == ["1", "2"]
    kafka.clock.advance(hours=2)
    prices.compact()
    assert [message.text for message in prices.read()] == ["2"]


def test_a_segment_is_rolled(kafka: EmbeddedKafka) -> None:
    orders = kafka.topic("orders", replication=3)
    for value in ("a", "b"):
        orders.send(value)
        orders.roll()
        orders.roll()  # an empty segment stays
    for handle in kafka.brokers:
        (directory,) = handle._lifecycle.require_broker().spec.log_dirs
        names = sorted(path.stem for path in directory.glob("orders-0/*.log"))
        assert [int(name) for name in names] == [0, 1, 2]


def test_the_offsets_of_a_group_expire(kafka: EmbeddedKafka) -> None:
    kafka.topic("orders")
    consumer = make_consumer(kafka, "readers")
    other = make_consumer(kafka, "others")
    partition = TopicPartition("orders", 0, 5)
    for client in (consumer, other):
        client.commit(offsets=[partition], asynchronous=False)
    kafka.group("readers").expire()
    assert consumer.committed([partition], timeout=30)[0].offset == -1001
    assert other.committed([partition], timeout=30)[0].offset == 5
    with pytest.raises(EmbedKafkaError, match="no such group"):
        kafka.group("readers").expire()
    consumer.close()
    other.close()


def test_the_offsets_of_members_do_not_expire(kafka: EmbeddedKafka) -> None:
    orders = kafka.topic("orders")
    orders.send("a")
    consumer = make_consumer(kafka, "readers", **PATIENT, **{"enable.partition.eof": False})
    consumer.subscribe(["orders"])
    consumer.commit(message=present(consumer.poll(30)), asynchronous=False)
    with pytest.raises(EmbedKafkaError, match="members still subscribe"):
        kafka.group("readers").expire()
    consumer.close()
