"""Clients that stay when topics are removed: they do not bring them back by asking."""

from collections.abc import Callable, Iterator
from contextlib import closing

import pytest
from confluent_kafka import Producer

from embedkafka import EmbeddedKafka, EmbedKafkaError
from embedkafka.cluster.admin import Admin
from embedkafka.wire.protocol.messages.core import MetadataRequest
from tests.cluster.members import await_true

PATIENCE_S = 30


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka(brokers=3, topics={"orders": 3}) as kafka:
        kafka.snapshot("empty")
        yield kafka
        kafka.check()


@pytest.fixture
def kafka(cluster: EmbeddedKafka) -> EmbeddedKafka:
    cluster.reset()
    return cluster


def client(kafka: EmbeddedKafka, name: str) -> Producer:
    servers = kafka.bootstrap_servers
    return Producer({"bootstrap.servers": servers, "client.id": name, "log_level": 0})


def write(producer: Producer, topic: str) -> None:
    errors: list[object] = []
    producer.produce(topic, b"x", on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(PATIENCE_S) == 0
    assert errors == [None]


def finds(producer: Producer, topic: str) -> bool:
    """Asks for a topic as any producer does, which may have it created."""
    return producer.list_topics(topic, timeout=PATIENCE_S).topics[topic].error is None


def asked_by_handles(kafka: EmbeddedKafka) -> set[str]:
    """The topics that the producer of topic handles has asked for."""
    found = kafka.requests("METADATA", client_id="embedkafka-send")
    return {topic for seen in found for topic in seen.topics}


def end_block(kafka: EmbeddedKafka, use: Callable[[], None]) -> None:
    with kafka.isolated():
        use()


def reset(kafka: EmbeddedKafka, use: Callable[[], None]) -> None:
    use()
    kafka.reset()


def restore(kafka: EmbeddedKafka, use: Callable[[], None]) -> None:
    use()
    kafka.restore("empty")


MOVES = {"isolated": end_block, "reset": reset, "restore": restore}


@pytest.mark.parametrize("move", MOVES)
def test_a_client_that_stays_brings_a_topic_back_only_by_writing(
    kafka: EmbeddedKafka, move: str
) -> None:
    asking, writing = client(kafka, "asking"), client(kafka, "writing")

    def use() -> None:
        for name in ("seen", "late", "left"):
            kafka.topic(name)
            write(asking, name)
        write(writing, "left")

    MOVES[move](kafka, use)

    for _ in range(3):  # the first would create it, the second find it
        assert not finds(asking, "seen")
    assert len(kafka.topic("seen", partitions=4).end_offsets()) == 4

    fresh = client(kafka, "fresh")
    finds(fresh, "late")
    kafka.existing_topic("late").await_leader()
    with pytest.raises(EmbedKafkaError, match="client fresh has asked for it"):
        kafka.topic("late")

    if move != "restore":  # a client that connects again asks before it writes
        write(writing, "left")
        assert len(kafka.existing_topic("left").read()) == 1


def test_a_client_that_is_gone_leaves_its_id_to_the_next(kafka: EmbeddedKafka) -> None:
    with kafka.isolated():
        first = client(kafka, "rdkafka")
        write(first, "seen")
    for _ in range(2):
        assert not finds(first, "seen")

    del first

    second = client(kafka, "rdkafka")
    await_true(lambda: finds(second, "seen"), PATIENCE_S)


def test_a_client_that_connects_again_only_after_the_block_is_known_too(
    kafka: EmbeddedKafka,
) -> None:
    wanted = MetadataRequest(topics=[MetadataRequest.Topic(name="seen")])

    def finds_raw() -> bool:
        with closing(kafka._reach.running_broker().make_client("slow")) as slow:
            return not slow.call(wanted, 9).topics[0].error_code

    with kafka.isolated():
        kafka.topic("seen")
        slow = kafka._reach.running_broker().make_client("slow")
        assert not slow.call(wanted, 9).topics[0].error_code
        for handle in kafka.brokers:
            handle.kill()
    slow.close()

    for _ in range(2):
        assert not finds_raw()


@pytest.mark.parametrize("move", MOVES)
def test_no_client_creates_a_topic_that_is_about_to_be_created_again(
    kafka: EmbeddedKafka, move: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asking, create_topics = client(kafka, "asking"), Admin.create_topics
    found: list[bool] = []

    def ask_first(admin: Admin, topics: object) -> None:
        found.extend(finds(asking, "orders") for _ in range(2))
        create_topics(admin, topics)  # type: ignore[arg-type]  # as it came

    monkeypatch.setattr(Admin, "create_topics", ask_first)
    MOVES[move](kafka, lambda: write(asking, "orders"))

    assert found == ([] if move == "restore" else [False, False])
    assert len(kafka.existing_topic("orders").end_offsets()) == 3
    assert kafka.existing_topic("orders").read() == []


def test_a_report_is_not_about_the_topics_of_earlier_tests(kafka: EmbeddedKafka) -> None:
    shop = client(kafka, "shop")
    with kafka.isolated():
        for number in range(5):
            kafka.topic(f"gone-{number}").send("x")
            write(shop, f"gone-{number}")
    with kafka.isolated():
        kafka.topic("here").send("x")
        for number in range(5):
            assert not finds(shop, f"gone-{number}")
        await_true(lambda: "gone-0" in asked_by_handles(kafka), PATIENCE_S)
        lines = [line for line in kafka.report().splitlines() if "gone-" in line and "->" in line]

    (line,) = lines
    assert "METADATA gone-0, gone-1, gone-2 and 2 more -> not created again  (client shop" in line


def test_the_producer_of_handles_does_not_ask_for_ever_more_topics(kafka: EmbeddedKafka) -> None:
    for number in range(30):
        with kafka.isolated():
            kafka.topic(f"gone-{number}").send("x")
    with kafka.isolated():
        kafka.topic("here").send("x")
        await_true(lambda: "gone-29" in asked_by_handles(kafka), PATIENCE_S)
        asked = asked_by_handles(kafka)

    assert len(asked) <= 12
