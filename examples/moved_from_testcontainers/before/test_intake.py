"""The suite as it was, on Testcontainers. It needs Docker: `pytest before`."""

import json
from collections.abc import Callable

from confluent_kafka import Message
from intake.service import Intake, Topics

Consume = Callable[..., list[Message]]
Send = Callable[..., None]

GOOD = json.dumps({"sku": "apple", "quantity": 2})
BAD = json.dumps({"sku": "apple", "quantity": 0})


def test_a_good_order_is_accepted(
    bootstrap_servers: str, topics: Topics, send: Send, consume: Consume
) -> None:
    send(topics.orders, GOOD, key="ann")
    with Intake(bootstrap_servers, topics, group=topics.orders) as intake:
        assert intake.take()
    (accepted,) = consume(topics.accepted, 1)
    assert (accepted.key(), accepted.value()) == (b"ann", GOOD.encode())
    # There is no way to see that nothing comes but to wait for it.
    assert consume(topics.rejected, 1, timeout_s=3) == []


def test_a_bad_order_is_rejected_with_the_reason(
    bootstrap_servers: str, topics: Topics, send: Send, consume: Consume
) -> None:
    send(topics.orders, BAD)
    with Intake(bootstrap_servers, topics, group=topics.orders) as intake:
        assert intake.take()
    (rejected,) = consume(topics.rejected, 1)
    assert rejected.headers() == [("reason", b"no quantity")]
    assert consume(topics.accepted, 1, timeout_s=3) == []


def test_a_restarted_service_goes_on_where_it_stopped(
    bootstrap_servers: str, topics: Topics, send: Send, consume: Consume
) -> None:
    send(topics.orders, GOOD)
    with Intake(bootstrap_servers, topics, group=topics.orders) as intake:
        assert intake.take()
    send(topics.orders, GOOD)
    with Intake(bootstrap_servers, topics, group=topics.orders) as intake:
        assert intake.take()
        assert not intake.take(timeout_s=3)
    assert len(consume(topics.accepted, 3, timeout_s=5)) == 2


def test_orders_of_a_customer_keep_their_order(
    bootstrap_servers: str, topics: Topics, send: Send, consume: Consume
) -> None:
    orders = [json.dumps({"sku": "apple", "quantity": n}) for n in range(1, 6)]
    send(topics.orders, *orders, key="ann")
    with Intake(bootstrap_servers, topics, group=topics.orders) as intake:
        for _ in orders:
            assert intake.take()
    assert [message.value() for message in consume(topics.accepted, 5)] == [
        order.encode() for order in orders
    ]
