"""A request with one thing wrong in its bytes has the consequence that it has on Apache Kafka.

`damaged_answers.json` has what Apache Kafka did; `python -m tests.wire.recorded.damaged_requests`
asks it again. On Apache Kafka, the test shows that the record is right.
"""

from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import Any, Final

import pytest

from embedkafka import EmbeddedKafka
from embedkafka.wire.protocol.api_keys import ApiKey
from tests.java_tools.oracle import ApacheKafka
from tests.wire.clients import Cluster
from tests.wire.recorded.damaged_requests import (
    CONFIG,
    Sender,
    apis,
    await_ready,
    condensed,
    read_recorded,
)

RECORDED: Final[Mapping[str, Any]] = read_recorded()  # Any: as JSON has it


ON_EITHER_KIND = ("sender",)


@pytest.fixture(scope="module")
def sender(request: pytest.FixtureRequest) -> Iterator[Sender]:
    if request.param == "apache":
        started: ApacheKafka | EmbeddedKafka = ApacheKafka(config=CONFIG)
    else:
        started = EmbeddedKafka(brokers=1, config=CONFIG)
    with started:
        cluster = Cluster(kind=request.param, bootstrap_servers=started.bootstrap_servers)
        await_ready(cluster)
        with closing(Sender(cluster)) as sender:
            yield sender


def test_every_api_is_recorded() -> None:
    assert list(RECORDED) == [api.name for api in apis()]


@pytest.mark.parametrize("name", RECORDED)
def test_damage_has_the_consequence_that_it_has_on_apache_kafka(sender: Sender, name: str) -> None:
    recorded = RECORDED[name]
    versions = sorted(
        {version for row in recorded.values() for of in row.values() for version in of}
    )
    outcomes = {version: sender.outcomes(ApiKey[name], version) for version in versions}
    assert condensed(outcomes) == recorded
