"""Every answer to a raw request, good or bad, is the one that Apache Kafka gave.

`raw_answers.json` has what Apache Kafka answered; `python -m tests.wire.recorded.raw_tour` asks it
again. On Apache Kafka, the test shows that the record is right.
"""

from collections.abc import Mapping
from typing import Any, Final

import pytest

from tests.wire.clients import Cluster
from tests.wire.recorded.raw_tour import CALLS, Tourist, condensed, read_recorded

#: Differences on purpose, which `docs/differences.md` explains.
DIFFERENT: Final[Mapping[str, str]] = {
    "create: message.downconversion.enable=true": "the setting is still there",
    "grow: to 20,000": "Kafka's answer is UNKNOWN_SERVER_ERROR",
    "move: twice": "of two targets for a partition, the last counts",
    "change: operation 9": "Kafka's answer is UNKNOWN_SERVER_ERROR",
    "change: operation -1": "Kafka's answer is UNKNOWN_SERVER_ERROR",
    "change: broker '1' listeners=PLAINTEXT://:0": "Kafka misses the controller's listener",
    **{
        f"change: broker {broker} {setting}": reason
        for broker in ("'1'", "''")
        for setting, reason in (
            ("log.cleaner.threads=0", "Kafka divides by zero"),
            ("log.segment.bytes=1", "segments may be small"),
            ("max.connections.per.ip.overrides=1.2.3.4:x", "Java's words for a bad number"),
            ("num.recovery.threads.per.data.dir=9", "the setting has no effect"),
            ("principal.builder.class=x", "there are no Java classes"),
        )
    },
}
RECORDED: Final[Mapping[str, Any]] = read_recorded()  # Any: as JSON has it


@pytest.fixture(scope="session")
def tourist(request: pytest.FixtureRequest, cluster: Cluster) -> Tourist:
    if cluster.is_apache and request.config.getoption("--oracle-version").startswith("3."):
        pytest.skip("the answers are those of Kafka 4")
    tourist = Tourist(cluster)
    tourist.prepare()
    return tourist


def test_every_call_is_recorded() -> None:
    assert list(RECORDED) == list(CALLS)
    assert set(DIFFERENT) <= set(CALLS)


@pytest.mark.parametrize("name", CALLS)
def test_an_answer_is_as_apache_kafka_gave_it(tourist: Tourist, name: str) -> None:
    recorded = RECORDED[name]
    versions = sorted(int(version) for row in recorded for version in row["versions"])
    tourist.restore_offsets()
    answered = condensed(tourist.answers(CALLS[name], versions))
    if name in DIFFERENT and not tourist.cluster.is_apache:
        assert answered != recorded, "this difference is gone; remove it from the table"
    else:
        assert answered == recorded
