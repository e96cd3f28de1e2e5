"""Reports for people: on a cluster, and on what its clients did."""

import pytest
from confluent_kafka import Consumer

from embedkafka import EmbeddedKafka, EmbedKafkaError
from embedkafka.cluster import request_log
from embedkafka.runtime.ids import BrokerId
from tests.cluster.traffic import make_consumer, make_producer, send


def test_requests_are_remembered_by_api_and_client() -> None:
    with EmbeddedKafka(brokers=1) as kafka:
        kafka.topic("orders")
        producer = make_producer(kafka, **{"client.id": "shop"})
        for _ in range(3):
            send(producer, "orders", b"a")

        produced = kafka.requests("produce", client_id="shop")

        assert [(seen.api, seen.broker) for seen in produced] == [("PRODUCE", 1)] * 3
        assert kafka.requests("PRODUCE", client_id="nobody") == []
        apis = {seen.api for seen in kafka.requests()}
        assert {"API_VERSIONS", "METADATA", "CREATE_TOPICS", "PRODUCE"} <= apis
        assert "UPDATE_METADATA" not in apis, "brokers count as clients"


def test_requests_are_found_by_what_they_name_and_when(kafka: EmbeddedKafka) -> None:
    orders, other = kafka.topic("orders"), kafka.topic("other")
    orders.send("a")
    mark = kafka.mark()
    assert kafka.requests("Produce", topic="orders")
    assert kafka.requests("Produce", topic="orders", since=mark) == []
    consumer = make_consumer(kafka, "readers", **{"enable.partition.eof": False})
    consumer.subscribe(["orders"])
    assert consumer.poll(30).value() == b"a"
    consumer.commit(asynchronous=False)
    consumer.close()

    assert kafka.requests("Fetch", topic="orders", since=mark), "which carries only the topic's id"
    assert kafka.requests("Fetch", topic=other.name, since=mark) == []
    (joined, *_) = kafka.requests("JoinGroup", group="readers", since=mark)
    assert joined.request.protocol_type == "consumer"
    (committed, *_) = kafka.requests("OffsetCommit", group="readers", topic="orders")
    assert committed.errors == []
    assert committed.answer.topics[0].name == "orders"
    assert kafka.requests("OffsetCommit", group="others") == []
    leader = kafka.leader_of("orders")
    assert {seen.broker for seen in kafka.requests("Produce", broker=leader)} == {leader}


def test_answers_with_errors_are_found(kafka: EmbeddedKafka) -> None:
    orders = kafka.topic("orders", config={"min.insync.replicas": 2}, replication=2)
    follower = next(iter({*kafka.describe_partition("orders").isr} - {kafka.leader_of("orders")}))
    kafka.broker(follower).stop()
    kafka.await_isr("orders", size=1)
    producer = make_producer(kafka, retries=0, **{"enable.idempotence": False})
    mark = kafka.mark()
    assert send(producer, orders.name, b"a")[0] is not None
    (refused,) = kafka.requests("Produce", error="NotEnoughReplicas", since=mark)
    assert refused.errors == ["NOT_ENOUGH_REPLICAS"]
    assert refused.topics == {"orders"}
    assert kafka.requests(error="INVALID_RECORD", since=mark) == []


def test_an_answer_with_records_tells_its_errors_too(kafka: EmbeddedKafka) -> None:
    orders = kafka.topic("orders")
    orders.send("a" * 100_000)
    mark = kafka.mark()
    assert len(orders.read()) == 1
    fetched = [seen for seen in kafka.requests("Fetch", since=mark) if seen.answer is not None]
    sizes = [
        len(partition.records or b"")
        for seen in fetched
        for topic in seen.answer.responses
        for partition in topic.partitions
    ]
    assert max(sizes) > 100_000
    assert all(seen.errors == [] for seen in fetched)


def test_what_is_not_kept_any_more_is_not_taken_for_what_never_came(
    kafka: EmbeddedKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_log, "_MAX_BYTES", 4_000)
    orders = kafka.topic("orders")
    mark = kafka.mark()
    for _ in range(3):
        orders.send("a" * 1_900)
    produced = kafka.requests("Produce", since=mark)
    assert len(produced) == 3
    with pytest.raises(EmbedKafkaError, match="not kept any more"):
        _ = produced[0].request
    with pytest.raises(EmbedKafkaError, match="not kept any more"):
        kafka.requests("Produce", topic="other", since=mark)
    log = request_log.RequestLog()
    mark = log.mark()
    noted = [memoryview(b"")]
    for number in range(3, request_log._REMEMBERED + 3):
        log._seen.append((number, BrokerId(1), 0.0, noted, lambda topic_id: None))
    with pytest.raises(EmbedKafkaError, match="set it later"):
        log.find(lambda seen: True, mark)


def test_a_report_shows_the_lag_of_groups_and_the_last_records(kafka: EmbeddedKafka) -> None:
    orders = kafka.topic("orders", replication=3)
    for number in range(4):
        orders.send(f"order {number}")
    orders.send(b"\xff" * 100)
    consumer = Consumer(
        {
            "bootstrap.servers": kafka.bootstrap_servers,
            "group.id": "readers",
            "auto.offset.reset": "earliest",
            "log_level": 0,
        }
    )
    consumer.subscribe(["orders"])
    consumer.commit(message=consumer.poll(20), asynchronous=False)

    report = kafka.report()
    consumer.close()

    assert report.startswith(kafka.describe().splitlines()[0])
    assert "groups:\n  readers  Stable\n    orders-0 committed 1, lag 4\n" in report
    assert "  orders-0 at 3: key none, value 'order 3'\n" in report
    assert "  orders-0 at 4: key none, value '\\\\xff" in report
    assert "open transactions:" not in report


def test_a_report_of_a_cluster_in_ruins_tells_what_is_left(kafka: EmbeddedKafka) -> None:
    orders = kafka.topic("orders", replication=3)
    orders.send("a")
    leader = kafka.leader_of("orders")
    paused, killed = (broker for broker in (1, 2, 3) if broker != leader)
    kafka.broker(paused).pause()
    kafka.broker(killed).kill()

    report = kafka.report()
    kafka.broker(paused).resume()

    assert f"broker {killed}  killed" in report
    assert "value 'a'" in report


def test_a_closed_cluster_says_so() -> None:
    kafka = EmbeddedKafka()
    assert kafka.report() == "the cluster is not running"
