"""`kafka.controller_events()`: what controllers did, event by event."""

from collections.abc import Iterator

import pytest

from embedkafka import ControllerEvent, EmbeddedKafka
from tests.wire.clients import eventually


@pytest.fixture(scope="module")
def kafka() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka(brokers=2) as kafka:
        kafka.topic("early")
        assert not kafka.controller_events("TopicChange"), "events before the first question"
        yield kafka


def creation(kafka: EmbeddedKafka, topic: str) -> ControllerEvent:
    """Creates a topic and returns the controller's event, which a former one has not."""
    mark = kafka.mark()
    kafka.topic(topic, replication=2)
    (created,) = kafka.controller_events("TopicChange", since=mark)
    assert created.controller == kafka.brokers.controller
    return created


def test_the_creation_of_a_topic_is_one_event_and_the_answers_of_brokers(
    kafka: EmbeddedKafka,
) -> None:
    mark = kafka.mark()
    created = creation(kafka, "orders")
    assert created.state == "TopicChange"
    assert created.queued_ms >= 0
    assert created.duration_ms > 0
    assert f"epoch {created.controller_epoch}: TopicChange, queued for" in str(created)

    def answers() -> set[str]:
        found = kafka.controller_events("LeaderAndIsrResponseReceived", since=mark)
        return {event.about for event in found}

    eventually(lambda: answers() == {"broker 1", "broker 2"}, "both brokers have answered")


def test_a_broker_that_dies_changes_the_brokers(kafka: EmbeddedKafka) -> None:
    assert kafka.brokers.controller is not None
    mark = kafka.mark()
    kafka.broker(3 - kafka.brokers.controller).restart()

    def changes() -> list[ControllerEvent]:
        return kafka.controller_events("BrokerChange", since=mark)

    assert len(eventually(changes, "brokers have come or gone")) >= 1
    shutdown = kafka.controller_events("ControlledShutdown", since=mark)[0]
    assert shutdown.about == f"broker {3 - kafka.brokers.controller}"
    assert shutdown.started_ms < changes()[0].started_ms


def test_candidates_have_events_too(kafka: EmbeddedKafka) -> None:
    assert kafka.brokers.controller is not None
    other = 3 - kafka.brokers.controller
    created = creation(kafka, "last")
    mark = kafka.mark()
    kafka.broker(other).become_controller()
    taken = kafka.controller_events("TakeControl", since=mark)
    assert [(event.controller, event.state) for event in taken] == [(other, "ControllerChange")]
    assert taken[0].controller_epoch == created.controller_epoch + 1
    creation(kafka, "later")
