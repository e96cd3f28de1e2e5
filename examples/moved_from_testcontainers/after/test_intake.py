"""The same suite on embedkafka: no container, no helper, no wait. The last test is new."""

from collections.abc import Callable

from intake.service import Intake

from embedkafka import EmbeddedKafka

GOOD = {"sku": "apple", "quantity": 2}
BAD = {"sku": "apple", "quantity": 0}


def test_a_good_order_is_accepted(kafka: EmbeddedKafka) -> None:
    orders, accepted, rejected = map(kafka.topic, ("orders", "accepted", "rejected"))
    orders.send_json(GOOD, key="ann")
    with Intake(kafka.bootstrap_servers) as intake:
        assert intake.take()
    (message,) = accepted.read()
    assert (message.key, message.json()) == (b"ann", GOOD)
    assert rejected.read() == []


def test_a_bad_order_is_rejected_with_the_reason(kafka: EmbeddedKafka) -> None:
    orders, accepted, rejected = map(kafka.topic, ("orders", "accepted", "rejected"))
    orders.send_json(BAD)
    with Intake(kafka.bootstrap_servers) as intake:
        assert intake.take()
    (message,) = rejected.read()
    assert message.headers == (("reason", b"no quantity"),)
    assert accepted.read() == []


def test_a_restarted_service_goes_on_where_it_stopped(kafka: EmbeddedKafka) -> None:
    orders, accepted, _ = map(kafka.topic, ("orders", "accepted", "rejected"))
    orders.send_json(GOOD)
    with Intake(kafka.bootstrap_servers) as intake:
        assert intake.take()
    orders.send_json(GOOD)
    with Intake(kafka.bootstrap_servers) as intake:
        assert intake.take()
    kafka.group("intake").await_lag(0)
    assert len(accepted.read()) == 2


def test_orders_of_a_customer_keep_their_order(kafka: EmbeddedKafka) -> None:
    orders = kafka.topic("orders", partitions=2)
    accepted, _ = kafka.topic("accepted", partitions=2), kafka.topic("rejected")
    for quantity in range(1, 6):
        orders.send_json({"sku": "apple", "quantity": quantity}, key="ann")
    with Intake(kafka.bootstrap_servers) as intake:
        for _ in range(5):
            assert intake.take()
    assert [order["quantity"] for order in accepted.read_json()] == [1, 2, 3, 4, 5]


def test_a_dead_broker_costs_no_order(kafka_cluster: Callable[..., EmbeddedKafka]) -> None:
    kafka = kafka_cluster(brokers=3)
    orders, accepted, _ = (
        kafka.topic(name, replication=3) for name in ("orders", "accepted", "rejected")
    )
    orders.send_json(GOOD)
    orders.send_json(GOOD)
    with Intake(kafka.bootstrap_servers) as intake:
        assert intake.take()
        # librdkafka 2.16 may wait forever for a coordinator that died, on Apache Kafka too.
        coordinators = {
            kafka.group("intake").coordinator(),
            kafka.transaction_coordinator("intake-1"),
        }
        leader = min({1, 2, 3} - coordinators)
        orders.move_leader(to=leader)
        kafka.broker(leader).kill()
        orders.await_isr(size=2)
        assert intake.take()
    assert len(accepted.read()) == 2
