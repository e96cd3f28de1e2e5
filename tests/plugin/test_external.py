"""Operations that a test may and may not do on an external cluster."""

import pytest

from embedkafka import AwaitTimeout, EmbeddedKafka, EmbedKafkaError
from pytest_embedkafka.external import ExternalKafka

NO_BROKER = "127.0.0.1:1"


def test_what_needs_an_embedded_cluster_says_so() -> None:
    with ExternalKafka(NO_BROKER) as kafka:
        with pytest.raises(EmbedKafkaError, match=r"`broker` needs an embedded cluster.*external"):
            kafka.broker(1)
        assert not hasattr(kafka, "faults")


def test_a_name_that_no_cluster_has_is_a_plain_attribute_error() -> None:
    with ExternalKafka(NO_BROKER) as kafka, pytest.raises(AttributeError, match="'brokr'"):
        kafka.brokr(1)


def test_a_worker_waits_for_its_own_topics_and_any_group(kafka: EmbeddedKafka) -> None:
    with ExternalKafka(kafka.bootstrap_servers, worker="gw7") as external:
        external.topic("waited").send("hello")
        external.await_offsets("waited", {0: 1})
        external.await_group("absent", state="Dead")
        with pytest.raises(AwaitTimeout, match="1 behind: waited-gw7-0 1"):
            external.await_lag("absent", topic="waited", timeout_s=0.1)
        external.delete_topic("waited")
