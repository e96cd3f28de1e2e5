"""The test of the cast in README; it is red until `tests.page.pictures` mends the job."""

from confluent_kafka import Consumer

from embedkafka import EmbeddedKafka, Topic


def bill(kafka: EmbeddedKafka, invoices: Topic) -> None:
    """Bills the next order, and ends."""
    where = {"bootstrap.servers": kafka.bootstrap_servers, "auto.offset.reset": "earliest"}
    consumer = Consumer({**where, "group.id": "billing", "enable.auto.commit": False})
    consumer.subscribe(["orders"])
    (order,) = consumer.consume(1, timeout=30)
    invoices.send(order.value(), key=order.key())
    consumer.close()


def test_a_restarted_job_goes_on(kafka: EmbeddedKafka) -> None:
    orders, invoices = kafka.topic("orders"), kafka.topic("invoices")
    orders.send("tea", key="ann")
    orders.send("cup", key="bob")
    bill(kafka, invoices)
    bill(kafka, invoices)
    assert [invoice.value for invoice in invoices.wait_for(2)] == [b"tea", b"cup"]
