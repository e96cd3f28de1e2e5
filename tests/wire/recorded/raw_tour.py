"""Good and bad raw requests in every version, and what a cluster answers to each.

`python -m tests.wire.recorded.raw_tour` asks Apache Kafka and writes its answers to
`raw_answers.json`, which `test_raw_tour.py` compares both kinds of cluster with.
"""

import json
import re
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from embedkafka.wire.protocol.api_keys import ApiKey
from embedkafka.wire.protocol.message import schema_of
from embedkafka.wire.protocol.messages.registry import request_type
from tests.java_tools.oracle import ApacheKafka
from tests.wire.clients import Cluster, await_coordinators, create_topic, eventually
from tests.wire.conftest import ONE_BROKER, SHARED_CONFIG
from tests.wire.one_partition import batch, produce
from tests.wire.plain_messages import Plain, ask, plain, request
from tests.wire.recorded.raw_calls import cluster as cluster_calls
from tests.wire.recorded.raw_calls import configs, groups, records, topics, transactions
from tests.wire.recorded.raw_calls.table import GROUP, ID, NAMELESS, TOPIC, Call

RECORDED: Final = Path(__file__).with_name("raw_answers.json")
CLOSED: Final = "closes the connection"
CALLS: Final[Mapping[str, Call]] = {
    **records.CALLS,
    **topics.CALLS,
    **configs.CALLS,
    **groups.CALLS,
    **transactions.CALLS,
    **cluster_calls.CALLS,
}

#: What differs between any two clusters.
_OWN: Final = (
    (re.compile(r"(?<![\w-])(?=[\w-]*[a-z])[\w-]{22}(?![\w-])"), "<id>"),
    (re.compile(r"/tmp/[^\s,\"\])]*"), "<path>"),
    (re.compile(r"^Request .* needs (?=\w+ permission)"), "Request <request> needs "),
)
_OWN_FIELDS: Final = frozenset(
    {
        "cluster_id",
        "port",
        "producer_id",
        "session_id",
        "total_bytes",
        "transaction_start_time_ms",
        "usable_bytes",
    }
)
#: Whether a coordinator knew a new topic when a member joined is chance.
_EPOCHS: Final = frozenset({"assignment_epoch", "group_epoch", "member_epoch"})

Answers = dict[str, Plain]
"""The answer of each version, by its number."""


@dataclass(slots=True)
class Tourist:
    """Makes the calls of a tour on one cluster, which has the topic and the groups of the tour."""

    cluster: Cluster
    ids: dict[uuid.UUID, uuid.UUID] = field(default_factory=dict)
    """The ids of topics, by those that stand for them in the calls."""

    def prepare(self) -> None:
        self.create(TOPIC, ID, partitions=2)

    def restore_offsets(self) -> None:
        """Commits the offsets that each call expects: other calls commit some and delete some."""
        self.commit(GROUP, TOPIC, partitions=2)
        self.commit(NAMELESS, TOPIC)

    def create(self, topic: str, stands_for: uuid.UUID, *, partitions: int) -> None:
        """Creates a topic with three records in its first partition."""
        create_topic(self.cluster, topic, partitions=partitions, config={"retention.ms": "-1"})
        with self.cluster.connect() as raw:
            metadata = raw.call(request(ApiKey.METADATA, topics=[{"name": topic}]))
            self.ids[stands_for] = metadata.topics[0].topic_id
            produce(raw, topic, batch(b"a", b"b", b"c", timestamp=1_700_000_000_000))

    def commit(self, group: str, *topics: str, partitions: int = 1) -> None:
        """Commits an offset in each of the first partitions of these topics."""
        committed = [
            {"partition_index": index, "committed_offset": 1, "committed_metadata": ""}
            for index in range(partitions)
        ]
        asked = [{"name": topic, "partitions": committed} for topic in topics]
        with self.cluster.connect() as raw:
            answer = ask(raw, ApiKey.OFFSET_COMMIT, 9, group_id=group, topics=asked)
        codes = {each["error_code"] for topic in answer["topics"] for each in topic["partitions"]}
        assert codes == {"NONE"}, answer

    def answers(self, call: Call, versions: Iterable[int]) -> Answers:
        """What the cluster answers in each of these versions."""
        return {str(version): self._answer(call, version) for version in versions}

    def spoken(self, call: Call) -> list[int]:
        """The versions of a call that the cluster speaks."""
        with self.cluster.connect() as raw:
            spoken = raw.supported_versions(call.api)
        return [version for version in _versions(call) if version in spoken]

    def _answer(self, call: Call, version: int) -> Plain:
        fields = {name: self._real(value) for name, value in call.fields.items()}
        with self.cluster.connect() as raw:
            try:
                return _comparable(plain(raw.call(request(call.api, **fields), version)))
            except ConnectionError:
                return CLOSED

    def _real(self, value: Plain) -> Plain:
        if isinstance(value, dict):
            return {name: self._real(inner) for name, inner in value.items()}
        if isinstance(value, list):
            return [self._real(inner) for inner in value]
        return self.ids.get(value, value) if isinstance(value, uuid.UUID) else value


def _versions(call: Call) -> range:
    if call.versions is not None:
        return call.versions
    first, last = schema_of(request_type(call.api)).versions
    return range(first, last + 1)


def _comparable(value: Plain, name: str = "") -> Plain:
    """An answer without what differs between any two clusters, and without the order of lists."""
    if isinstance(value, dict):
        return {key: _comparable(inner, key) for key, inner in value.items()}
    if isinstance(value, list):
        items = [_comparable(inner) for inner in value if not _is_stored_minimum(inner)]
        return sorted(items, key=lambda item: json.dumps(item, sort_keys=True))
    if (name in _OWN_FIELDS and value != -1) or (name in _EPOCHS and value > 0):
        return f"<{name}>"
    if isinstance(value, str):
        for pattern, stand_in in _OWN:
            value = pattern.sub(stand_in, value)
    return value


def _is_stored_minimum(value: Plain) -> bool:
    """Whether it is the setting that Kafka stores for all brokers, and we have by default."""
    return isinstance(value, dict) and value.get("name") == "min.insync.replicas"


def condensed(answers: Answers) -> Plain:
    """The answers, each with the versions that give it."""
    told: dict[str, list[str]] = {}
    for version, answer in answers.items():
        told.setdefault(json.dumps(answer), []).append(version)
    return [{"versions": versions, "answer": json.loads(text)} for text, versions in told.items()]


def read_recorded() -> Mapping[str, Any]:  # Any: as JSON has it
    found: Mapping[str, Any] = json.loads(RECORDED.read_text())
    return found


def record() -> None:
    """Writes down what Apache Kafka answers, one call to a line."""
    with ApacheKafka(config={**SHARED_CONFIG, **ONE_BROKER}) as kafka:
        tourist = Tourist(Cluster(kind="apache", bootstrap_servers=kafka.bootstrap_servers))
        await_coordinators(tourist.cluster)
        with tourist.cluster.connect() as raw:
            eventually(raw.gives_producer_ids, "the broker gives producer ids")
        tourist.prepare()
        rows = []
        for name, call in CALLS.items():
            tourist.restore_offsets()
            answers = tourist.answers(call, tourist.spoken(call))
            rows.append(f"{json.dumps(name)}: {json.dumps(condensed(answers))}")
    RECORDED.write_text("{\n" + ",\n".join(rows) + "\n}\n")


if __name__ == "__main__":
    record()
