"""Logs of partitions that moved elsewhere while their broker was down."""

from typing import Any

from embedkafka import EmbeddedKafka
from embedkafka.runtime.ids import BrokerId, TopicPartition
from tests.cluster.reassignment import reassign, replicas_of
from tests.wire.clients import eventually


def directories(kafka: EmbeddedKafka, broker_id: int, topic: str) -> list[str]:
    (log_dir,) = kafka._require_brokers().log_dirs(BrokerId(broker_id))
    return [path.name for path in log_dir.glob(f"{topic}-0*")]


def move_away(kafka: EmbeddedKafka, topic: str) -> Any:
    """Kills a follower and moves its replica to another broker; returns the dead one."""
    replicas = replicas_of(kafka, topic)
    (dead,) = replicas - {kafka.existing_topic(topic).leader()}
    kafka.broker(dead).kill()
    target = {1, 2, 3} - {dead}
    kafka.existing_topic(topic).await_isr(size=1)
    reassign(kafka, topic, sorted(target))
    eventually(lambda: replicas_of(kafka, topic) == target, "the replica has moved")
    return dead


def test_a_replica_moved_away_meanwhile_is_set_aside(kafka: EmbeddedKafka) -> None:
    topic = kafka.topic("orders", replication=2)
    topic.send_many(["a"])
    dead = move_away(kafka, "orders")
    assert directories(kafka, dead, "orders") == ["orders-0"]
    kafka.broker(dead).start()
    (name,) = directories(kafka, dead, "orders")
    assert name.endswith("-stray")
    replicas = kafka.broker(dead)._lifecycle.require_broker().replicas
    assert replicas.hosted.find(TopicPartition("orders", 0)) is None


def test_a_topic_made_again_has_a_replica_where_an_old_one_was(kafka: EmbeddedKafka) -> None:
    topic = kafka.topic("orders", replication=2)
    topic.send_many(["old"])
    dead = move_away(kafka, "orders")
    topic.delete()
    kafka.broker(dead).start()
    topic = kafka.topic("orders", replication=3)
    topic.await_isr(size=3)
    topic.send_many(["new"])
    assert [message.text for message in topic.read()] == ["new"]
    assert "orders-0" in directories(kafka, dead, "orders")


def test_a_replica_whose_topic_is_deleted_meanwhile_is_set_aside(kafka: EmbeddedKafka) -> None:
    """The deletion does not wait for the broker, which finds a log without a topic at its start."""
    topic = kafka.topic("orders", replication=3)
    topic.send_many(["a"])
    dead = kafka.broker(next(b for b in (1, 2, 3) if b != topic.leader()))
    dead.kill()
    topic.delete()
    dead.start()
    (name,) = directories(kafka, dead.id, "orders")
    assert name.endswith("-stray")
