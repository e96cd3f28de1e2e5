import pytest

from embedkafka import EmbeddedKafka


@pytest.fixture
def kafka():
    with EmbeddedKafka(brokers=3) as kafka:
        yield kafka
