"""What a cluster with an authorizer answers to the same requests of clients with different rights.

`python -m tests.wire.recorded.permission_tour` asks Apache Kafka and writes its answers to
`permission_answers.json`, which `test_permission_tour.py` compares both kinds of cluster with.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

from embedkafka.wire.protocol.api_keys import ApiKey
from tests.wire.clients import Cluster, await_coordinators, eventually
from tests.wire.conftest import SHARED_CONFIG
from tests.wire.plain_messages import ask
from tests.wire.raw_client import RawClient
from tests.wire.recorded.raw_calls.permissions import (
    CALLS,
    GRANTS,
    HIDDEN,
    HIDDEN_GROUP,
    HIDDEN_ID,
    HIDDEN_TXN,
    MEMBERS,
    TXN,
)
from tests.wire.recorded.raw_calls.table import GROUP, ID, TOPIC
from tests.wire.recorded.raw_tour import Answers, Tourist, condensed
from tests.wire.secured import EVERYTHING, Secured, secured_cluster

RECORDED: Final = Path(__file__).with_name("permission_answers.json")

#: Members stay for as long as the tour takes.
_CONFIG: Final[Mapping[str, object]] = {
    **SHARED_CONFIG,
    "auto.create.topics.enable": False,
    "group.consumer.max.session.timeout.ms": 3_600_000,
    "group.consumer.session.timeout.ms": 3_600_000,
}


class PermissionTour:
    """A cluster with two topics, three groups and two open transactions."""

    def __init__(self, kind: str, secured: Secured) -> None:
        self.is_apache = kind == "apache"
        self._secured = secured
        self._granted = ""
        self._tourist = Tourist(Cluster(kind=kind, bootstrap_servers=secured.bootstrap_servers))

    def prepare(self) -> None:
        self._secured.grant(*EVERYTHING)
        tourist = self._tourist
        await_coordinators(tourist.cluster)
        with tourist.cluster.connect() as raw:
            eventually(raw.gives_producer_ids, "the broker gives producer ids")
            tourist.create(TOPIC, ID, partitions=2)
            tourist.create(HIDDEN, HIDDEN_ID, partitions=1)
            tourist.commit(GROUP, TOPIC, HIDDEN)
            tourist.commit(HIDDEN_GROUP, TOPIC, HIDDEN)
            for name in (TXN, HIDDEN_TXN):
                eventually(partial(_begun, raw, name), f"{name} is open")
            _join(raw)

    def spoken(self, name: str) -> list[int]:
        return self._tourist.spoken(CALLS[name])

    def answers(self, grant: str, name: str, versions: list[int]) -> Answers:
        """What a client with these rights is answered in each of these versions."""
        if grant != self._granted:
            self._secured.grant(*GRANTS[grant])
            self._granted = grant
        return self._tourist.answers(CALLS[name], versions)


def _begun(raw: RawClient, name: str) -> bool:
    """Opens a transaction with a partition of each topic."""
    begun = ask(
        raw, ApiKey.INIT_PRODUCER_ID, 4, transactional_id=name, transaction_timeout_ms=900_000
    )
    if begun["error_code"] != "NONE":
        return False
    added = ask(
        raw,
        ApiKey.ADD_PARTITIONS_TO_TXN,
        3,
        v3_and_below_transactional_id=name,
        v3_and_below_producer_id=begun["producer_id"],
        v3_and_below_producer_epoch=begun["producer_epoch"],
        v3_and_below_topics=[{"name": topic, "partitions": [0]} for topic in (TOPIC, HIDDEN)],
    )
    return all(
        partition["partition_error_code"] == "NONE"
        for topic in added["results_by_topic_v3_and_below"]
        for partition in topic["results_by_partition"]
    )


def _join(raw: RawClient) -> None:
    joined = ask(
        raw,
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        1,
        group_id=MEMBERS,
        member_id="member",
        member_epoch=0,
        rebalance_timeout_ms=300_000,
        subscribed_topic_names=[TOPIC, HIDDEN],
        topic_partitions=[],
    )
    assert joined["error_code"] == "NONE", joined


@contextmanager
def touring(kind: str) -> Iterator[PermissionTour]:
    with secured_cluster(kind, _CONFIG) as secured:
        tour = PermissionTour(kind, secured)
        tour.prepare()
        yield tour
        secured.grant(*EVERYTHING)  # the brokers of a plaintext cluster are anonymous too


def read_recorded() -> Mapping[str, Mapping[str, Any]]:  # Any: as JSON has it
    """What Apache Kafka answered, by call and grant."""
    recorded = json.loads(RECORDED.read_text())
    return {
        name: {grant: row["answers"] for row in rows for grant in row["grants"]}
        for name, rows in recorded.items()
    }


def record() -> None:
    """Writes down what Apache Kafka answers, one call to a line."""
    with touring("apache") as tour:
        spoken = {name: tour.spoken(name) for name in CALLS}
        told: dict[str, dict[str, list[str]]] = {name: {} for name in CALLS}
        for grant in GRANTS:
            for name, versions in spoken.items():
                answers = json.dumps(condensed(tour.answers(grant, name, versions)))
                told[name].setdefault(answers, []).append(grant)
    rows = [
        f"{json.dumps(name)}: [{', '.join(_row(*row) for row in told[name].items())}]"
        for name in CALLS
    ]
    RECORDED.write_text("{\n" + ",\n".join(rows) + "\n}\n")


def _row(answers: str, grants: list[str]) -> str:
    return f'{{"grants": {json.dumps(grants)}, "answers": {answers}}}'


if __name__ == "__main__":
    record()
