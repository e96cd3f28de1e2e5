from collections.abc import Iterator

import pytest

from embedkafka import EmbeddedKafka


@pytest.fixture
def kafka() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka(brokers=3) as kafka:
        yield kafka
