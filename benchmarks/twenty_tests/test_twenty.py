"""A suite as it is written for a container: each test has a topic and a group for itself."""

import uuid

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

TIMEOUT_S = 60
RECORDS = [f"order {number}".encode() for number in range(10)]


@pytest.mark.parametrize("number", range(20))
def test_records_arrive(bootstrap_servers: str, number: int) -> None:
    client: dict[str, str | int | float | bool] = {
        "bootstrap.servers": bootstrap_servers,
        "log_level": 0,
    }
    topic = f"orders-{number}-{uuid.uuid4().hex[:8]}"
    admin = AdminClient(client)
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(TIMEOUT_S)

    producer = Producer({**client, "acks": "all"})
    for record in RECORDS:
        producer.produce(topic, record)
    assert producer.flush(TIMEOUT_S) == 0

    consumer = Consumer({**client, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    received = consumer.consume(len(RECORDS), TIMEOUT_S)
    consumer.close()
    assert [message.value() for message in received] == RECORDS
