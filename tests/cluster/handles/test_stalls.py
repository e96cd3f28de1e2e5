"""Mistakes that would make a client wait are errors at once; and reads that begin elsewhere."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from embedkafka import AwaitTimeout, ClusterClosed, EmbeddedKafka, EmbedKafkaError, InvalidArgument
from embedkafka.cluster.clients.clients import Clients
from tests.presence import present


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka(brokers=2) as kafka:
        yield kafka


@pytest.fixture
def kafka(cluster: EmbeddedKafka) -> Iterator[EmbeddedKafka]:
    with cluster.isolated():
        yield cluster


def test_nothing_is_sent_to_a_topic_that_is_gone(kafka: EmbeddedKafka) -> None:
    gone = kafka.topic("gone")
    gone.send("while it is there")
    gone.delete()
    for send in (lambda: gone.send("x"), lambda: gone.send_many(["x"])):
        with pytest.raises(EmbedKafkaError, match="cannot write to topic gone: there is no such"):
            send()
    kafka.topic("gone")
    gone.send("there is another one")
    assert len(gone.read()) == 1


def test_an_external_cluster_is_asked_whether_there_is_the_topic(kafka: EmbeddedKafka) -> None:
    clients = Clients(kafka.bootstrap_servers)
    with pytest.raises(EmbedKafkaError, match="cannot write to topic absent: there is no such"):
        clients.send("absent", "x")
    assert "absent" not in kafka._require_brokers().zk.topics()
    clients.close()


def test_a_closed_cluster_says_so() -> None:
    kafka = EmbeddedKafka().start()
    orders = kafka.topic("orders")
    kafka.close()
    with pytest.raises(ClusterClosed):
        orders.send("x")
    with pytest.raises(ClusterClosed):
        next(orders.follow())
    with pytest.raises(ClusterClosed):
        kafka.scratch_dir("x")
    with pytest.raises(EmbedKafkaError, match="has been started before: make another"):
        kafka.start()


def test_names_and_brokers_that_cannot_be_are_refused(kafka: EmbeddedKafka) -> None:
    with pytest.raises(InvalidArgument, match="not empty, got ''"):
        kafka.topic("")
    with pytest.raises(InvalidArgument, match="there is no broker 9; there are 1, 2"):
        kafka.brokers.partition({1}, {9})


def test_many_records_have_keys_headers_and_partitions(kafka: EmbeddedKafka) -> None:
    orders = kafka.topic("orders", partitions=2)
    orders.send_many(
        ["a", "b"], keys=["1", None], headers=[{"h": "x"}, ()], partitions=iter([1, 0])
    )
    found = {message.text: message for message in orders.read(2)}
    assert (found["a"].key, found["a"].partition) == (b"1", 1)
    assert found["a"].headers == (("h", b"x"),)
    assert (found["b"].key, found["b"].partition) == (None, 0)
    with pytest.raises(InvalidArgument, match="there are 2 values and 1 keys"):
        orders.send_many(["a", "b"], keys=["1"])
    with pytest.raises(InvalidArgument, match="keys must be a list with one entry per value"):
        orders.send_many(["a"], keys="1")
    with pytest.raises(InvalidArgument, match="a partition must be"):
        orders.send_many(["a"], partitions=[-1])
    assert len(orders.read()) == 2


def test_a_read_begins_at_an_offset_or_a_moment(kafka: EmbeddedKafka) -> None:
    orders = kafka.topic("orders", partitions=2)
    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    noon_ms = round(noon.timestamp() * 1000)
    for number in range(4):
        orders.send(str(number), partition=0, timestamp_ms=noon_ms + number - 2)
    orders.send("other", partition=1, timestamp_ms=noon_ms - 1)

    def texts(from_: Any) -> list[str]:
        return [present(message.text) for message in orders.read(from_=from_)]

    assert texts(2) == ["2", "3"]
    assert texts({0: 3}) == ["3", "other"]
    assert texts(noon) == ["2", "3"]
    for wrong in (-1, "yesterday", {0: -1}, datetime(2026, 1, 1)):
        with pytest.raises(InvalidArgument, match="from_"):
            texts(wrong)
    with pytest.raises(InvalidArgument, match="topic orders has no partition 7"):
        texts({7: 0})


def test_records_can_be_followed_as_they_come(kafka: EmbeddedKafka) -> None:
    orders = kafka.topic("orders")
    orders.send_many(["0", "1", "2"])
    following = orders.follow(from_=1)
    assert [next(following).text, next(following).text] == ["1", "2"]
    orders.send("3")
    assert next(following).text == "3"
    following.close()
    with pytest.raises(AwaitTimeout, match=r"waited 0\.1 s for the next record of orders"):
        list(orders.follow(timeout_s=0.1, from_=4))
