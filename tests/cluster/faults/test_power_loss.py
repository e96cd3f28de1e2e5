"""What a cluster finds after a loss of power, on a disk that forgets all that was not synced."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource

from embedkafka import EmbeddedKafka
from tests.cluster.traffic import make_consumer, make_producer, send
from tests.doubles.power import VolatileFiles
from tests.presence import present

PATIENCE_S = 60.0
VALUES = [b"%d" % number for number in range(20)]


class Plug:
    """Runs clusters on a disk that loses power when asked."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.before, self.after = root / "before", root / "after"
        self.before.mkdir()
        self._files = VolatileFiles()
        self._monkeypatch = monkeypatch

    @contextmanager
    def running(self, **settings: Any) -> Iterator[EmbeddedKafka]:
        with self._monkeypatch.context() as patched:
            patched.setattr("embedkafka.cluster.brokers.SystemFiles", lambda **_: self._files)
            kafka = EmbeddedKafka(data_dir=self.before, **settings).start()
        with closing(kafka):
            yield kafka

    def pull(self, *, keeps_names: bool) -> None:
        self._files.lose_power(self.before, self.after, keeps_names=keeps_names)


@pytest.fixture
def plug(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Plug:
    return Plug(tmp_path, monkeypatch)


def use(kafka: EmbeddedKafka) -> None:
    """Has records, a committed transaction, an offset, two topics and a setting acknowledged."""
    small = {"segment.bytes": 300}  # some segments are rolled
    kafka.topic("orders", partitions=2, replication=2, config=small).send_many(VALUES)
    kafka.topic("payments", replication=2)
    producer = make_producer(kafka, **{"transactional.id": "payments"})
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    send(producer, "payments", b"paid")
    producer.commit_transaction(PATIENCE_S)
    consumer = make_consumer(kafka)
    consumer.commit(offsets=[TopicPartition("orders", 0, 7)], asynchronous=False)
    consumer.close()


def setting_of(kafka: EmbeddedKafka, topic: str, name: str) -> str | None:
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0})
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    described: dict[str, Any] = admin.describe_configs([resource])[resource].result(PATIENCE_S)
    value: str | None = described[name].value
    return value


@pytest.mark.parametrize("keeps_names", [True, False])
def test_with_power_everything_acknowledged_is_kept(plug: Plug, keeps_names: bool) -> None:
    with plug.running(brokers=2, durability="power") as kafka:
        use(kafka)
        plug.pull(keeps_names=keeps_names)
    with EmbeddedKafka(brokers=2, data_dir=plug.after) as kafka:
        kafka.await_no_under_replicated()
        orders = kafka.existing_topic("orders")
        assert sorted(present(message.value) for message in orders.read()) == sorted(VALUES)
        assert [message.value for message in kafka.existing_topic("payments").read()] == [b"paid"]
        consumer = make_consumer(kafka)
        (position,) = consumer.committed([TopicPartition("orders", 0)], timeout=PATIENCE_S)
        consumer.close()
        assert position.offset == 7
        assert setting_of(kafka, "orders", "segment.bytes") == "300"


@pytest.mark.parametrize("keeps_names", [True, False])
def test_with_kill_a_closed_cluster_keeps_its_topics_and_serves_nothing_damaged(
    plug: Plug, keeps_names: bool
) -> None:
    with plug.running(brokers=2) as kafka:
        use(kafka)
    plug.pull(keeps_names=keeps_names)
    with EmbeddedKafka(brokers=2, data_dir=plug.after) as kafka:
        kafka.await_no_under_replicated()
        orders = kafka.existing_topic("orders")
        assert orders.end_offsets().keys() == {0, 1}
        found = [message.value for message in orders.read()]
        assert set(found) <= set(VALUES)
        assert len(found) == sum(orders.end_offsets().values())


@pytest.mark.parametrize("keeps_names", [True, False])
def test_with_kill_a_running_cluster_starts_again(plug: Plug, keeps_names: bool) -> None:
    with plug.running(brokers=2) as kafka:
        use(kafka)
        plug.pull(keeps_names=keeps_names)
    with EmbeddedKafka(brokers=2, data_dir=plug.after) as kafka:
        later = kafka.topic("later", replication=2)
        later.send("works")
        assert [message.text for message in later.read()] == ["works"]


def test_a_temporary_cluster_never_waits_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr("os.fsync", synced.append)
    with EmbeddedKafka(brokers=2, config={"log.flush.interval.messages": 1}) as kafka:
        use(kafka)
        kafka.existing_topic("orders").roll()
        before = kafka.snapshot()
        kafka.broker(2).restart()
        kafka.restore(before)
    assert synced == []
