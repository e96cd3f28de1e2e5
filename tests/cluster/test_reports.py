"""Reports for people: on a cluster, and on what its clients did."""

from confluent_kafka import Consumer

from embedkafka import EmbeddedKafka
from tests.cluster.traffic import make_producer, send


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
