"""Sequences about records: producing, reading, offsets, deletion."""

from collections.abc import Callable, Iterable, Mapping
from random import Random
from typing import Any, Final

from embedkafka.wire.protocol.api_keys import ApiKey
from embedkafka.wire.records.compression import Compression
from tests.wire.differential.invention import Choices, draft
from tests.wire.differential.runs import Versions
from tests.wire.differential.steps import Batch, Batches, Id, Step
from tests.wire.plain_messages import Plain

_T: Final = 1_700_000_000_000
_SETTINGS: Final[tuple[Mapping[str, str], ...]] = (
    {},
    {"internal.segment.bytes": "300"},
    {"message.timestamp.type": "LogAppendTime"},
    {"internal.segment.bytes": "600", "segment.ms": "60000"},
    {"cleanup.policy": "compact"},
    {"max.message.bytes": "200"},
    {"message.timestamp.before.max.ms": "3600000"},
    {"segment.index.bytes": "24", "index.interval.bytes": "1"},
)


class Records:
    """Topics with various settings, idempotent producers, fetch sessions."""

    def __init__(self, random: Random, versions: Versions) -> None:
        self._random = random
        self._choose = Choices(random, versions)
        self._topics = {"@a": 2, "@b": 1}
        self._ids: dict[str, Plain] = {}
        self._producers: list[dict[str, Any]] = []
        self._ends: dict[tuple[str, int], int] = {}
        self._sessions: list[dict[str, Any]] = []
        self._moves = [
            (8, self._produce),
            (6, self._fetch),
            (6, self._session),
            (4, self._list_offsets),
            (1, self._delete_records),
            (2, self._epochs),
            (1, self._new_producer),
            (1, self._describe_producers),
        ]

    def begin(self) -> Iterable[Step]:
        topics = [
            {
                "name": name,
                "num_partitions": partitions,
                "replication_factor": 1,
                "assignments": [],
                "configs": [
                    {"name": key, "value": value}
                    for key, value in {
                        "retention.ms": "-1",
                        **self._random.choice(_SETTINGS),
                    }.items()
                ],
            }
            for name, partitions in self._topics.items()
        ]
        yield draft(ApiKey.CREATE_TOPICS, 7, topics=topics, timeout_ms=10_000)
        yield draft(ApiKey.METADATA, 12, topics=[{"name": name} for name in self._topics])
        for name, partitions in self._topics.items():
            wanted = [{"partition_index": each, "timestamp": -1} for each in range(partitions)]
            asked = [{"name": name, "partitions": wanted}]
            yield draft(ApiKey.LIST_OFFSETS, 7, replica_id=-1, topics=asked)

    def next(self, is_busy: Callable[[int], bool]) -> Step:
        weights, moves = zip(*self._moves, strict=True)
        return self._random.choices(moves, weights)[0]()

    def learn(self, step: Step, answer: Plain) -> None:
        if not isinstance(answer, dict):
            return
        if step.api == ApiKey.METADATA:
            for topic in answer["topics"]:
                self._ids[topic["name"]] = topic["topic_id"]
        elif step.api == ApiKey.INIT_PRODUCER_ID and answer["error_code"] == "NONE":
            self._producers.append(
                {"id": answer["producer_id"], "epoch": answer["producer_epoch"], "next": {}}
            )
        elif step.api == ApiKey.FETCH:
            self._learn_session(step, answer)
        elif step.api == ApiKey.PRODUCE:
            self._learn_ends(step, answer)

    def _learn_session(self, step: Step, answer: Plain) -> None:
        if step.fields["session_epoch"] == 0 and isinstance(answer["session_id"], Id):
            self._sessions.append({"id": answer["session_id"], "epoch": 1, "version": step.version})
        for session in self._sessions:
            if (
                session["id"] == step.fields["session_id"]
                and answer["error_code"] == "NONE"
                and step.fields["session_epoch"] > 0
            ):
                session["epoch"] += 1

    def _learn_ends(self, step: Step, answer: Plain) -> None:
        names = {repr(id_): name for name, id_ in self._ids.items()}
        for topic in answer["responses"]:
            name = topic["name"] or names.get(repr(topic["topic_id"]), "")
            for partition in topic["partition_responses"]:
                if partition["error_code"] == "NONE":
                    self._ends[name, partition["index"]] = partition["base_offset"] + 3

    # Moves

    def _produce(self) -> Step:
        choose = self._choose
        version = choose.version(ApiKey.PRODUCE)
        topics = []
        transactional_id = "@tx" if choose.seldom(30) else None
        for name in choose.some(["@a", "@b", "@missing"], [9, 5, 1], at_most=2):
            partitions = choose.some([0, 1, 7, -1], [9, 6, 1, 0.3], at_most=2)
            data = [{"index": each, "records": self._records(name, each)} for each in partitions]
            topics.append(self._topic(version >= 13, name, "name", partition_data=data))
        return draft(
            ApiKey.PRODUCE,
            version,
            acks=self._random.choices([-1, 1, 0, 2], [9, 6, 1, 0.3])[0],
            timeout_ms=10_000,
            transactional_id=transactional_id,
            topic_data=topics,
        )

    def _records(self, topic: str, partition: int) -> Plain:
        choose, random = self._choose, self._random
        if choose.seldom(60):
            return random.choice([b"", b"\0" * 61, b"x" * 20])
        if choose.seldom(40):
            return Batches(
                all=[self._batch(topic, partition) for _ in range(random.choice([2, 3]))]
            )
        return self._batch(topic, partition)

    def _batch(self, topic: str, partition: int) -> Batch:
        choose, random = self._choose, self._random
        count = random.choice([1, 1, 2, 3, 5])
        fields: dict[str, Any] = {
            "values": [
                random.choice([b"v", b"value" * 5, b"", None, b"x" * 120]) for _ in range(count)
            ],
            "key": random.choice([None, b"k", b"key2", b""]),
            "timestamps": [
                random.choice(
                    [_T, _T + 1, _T + 500_000, _T - 5, _T + 60_001, -1 if choose.seldom(10) else _T]
                )
                for _ in range(count)
            ],
            "compression": random.choice(list(Compression)),
            "broken": random.randrange(90) if choose.seldom(30) else None,
            "control": choose.seldom(80),
            "transactional": choose.seldom(60),
        }
        if self._producers and choose.seldom(2):
            producer = random.choice(self._producers)
            sequence = producer["next"].get((topic, partition), 0)
            wrong = random.choices([0, -count, 1, 7, -1], [20, 2, 1, 1, 1])[0]
            fields |= {
                "producer": producer["id"],
                "epoch": producer["epoch"] + random.choices([0, 1, -1], [30, 1, 1])[0],
                "sequence": sequence + wrong,
            }
            if wrong == 0:
                producer["next"][topic, partition] = sequence + count
        elif choose.seldom(40):
            fields |= {
                "producer": 987654321,
                "epoch": random.choice([0, -1]),
                "sequence": random.choice([0, 3, -1]),
            }
        return Batch(**fields)

    def _fetch(self) -> Step:
        version = self._choose.version(ApiKey.FETCH)
        return self._fetch_with(
            version, session_id=0, session_epoch=self._random.choice([-1, -1, 0])
        )

    def _session(self) -> Step:
        if not self._sessions:
            return self._fetch()
        choose, random = self._choose, self._random
        session = random.choice(self._sessions)
        version = session["version"] if not choose.seldom(12) else choose.version(ApiKey.FETCH)
        epoch = session["epoch"] + random.choices([0, 1, -1], [20, 1, 1])[0]
        forgotten = []
        if choose.seldom(4):
            names = choose.some(["@a", "@b", "@missing"], [6, 4, 1], at_most=2)
            forgotten = [
                self._topic(
                    version >= 13,
                    name,
                    "topic",
                    partitions=choose.some([0, 1, 7], [6, 4, 1], at_most=2),
                )
                for name in names
            ]
        return self._fetch_with(
            version,
            session_id=session["id"],
            session_epoch=random.choices([epoch, -1, 0], [20, 1, 1])[0],
            forgotten_topics_data=forgotten,
            can_be_empty=True,
        )

    def _fetch_with(self, version: int, *, can_be_empty: bool = False, **more: Plain) -> Step:
        choose, random = self._choose, self._random
        topics = []
        if not (can_be_empty and choose.seldom(2)):
            for name in choose.some(["@a", "@b", "@missing"], [9, 6, 1], at_most=3):
                partitions = [
                    {
                        "partition": each,
                        "fetch_offset": self._offset(name, each),
                        "partition_max_bytes": random.choice([1 << 20, 1 << 20, 100, 0, 1, 300]),
                        "current_leader_epoch": random.choices([-1, 0, 1], [9, 6, 1])[0],
                        "last_fetched_epoch": random.choices([-1, 0, 1], [20, 2, 1])[0],
                        "log_start_offset": -1,
                    }
                    for each in choose.some([0, 1, 7], [9, 6, 1], at_most=2)
                ]
                topics.append(self._topic(version >= 13, name, "topic", partitions=partitions))
        return draft(
            ApiKey.FETCH,
            version,
            max_wait_ms=0,
            min_bytes=random.choice([0, 1]),
            max_bytes=random.choice([1 << 20, 1 << 20, 1 << 20, 1, 500, 0]),
            isolation_level=random.choice([0, 1]),
            topics=topics,
            **more,
        )

    def _offset(self, topic: str, partition: int) -> int:
        end = self._ends.get((topic, partition), 0)
        return self._random.choices(
            [self._random.randint(0, end + 1), 0, end, 99_999, -1], [12, 5, 4, 0.5, 0.5]
        )[0]

    def _list_offsets(self) -> Step:
        choose, random = self._choose, self._random
        asked = [
            {
                "name": name,
                "partitions": [
                    {
                        "partition_index": each,
                        "timestamp": random.choice(
                            [
                                -1,
                                -2,
                                -3,
                                -4,
                                -5,
                                _T,
                                _T + 1,
                                _T - 10,
                                _T + 500_000,
                                _T + 60_000,
                                0,
                                1 << 50,
                            ]
                        ),
                        "current_leader_epoch": random.choices([-1, 0, 1], [9, 6, 1])[0],
                    }
                    for each in choose.some([0, 1, 7], [9, 6, 1], at_most=2)
                ],
            }
            for name in choose.some(["@a", "@b", "@missing"], [9, 6, 1], at_most=2)
        ]
        return draft(
            ApiKey.LIST_OFFSETS,
            choose.version(ApiKey.LIST_OFFSETS),
            replica_id=random.choices([-1, -2], [20, 1])[0],
            isolation_level=random.choice([0, 1]),
            topics=asked,
            timeout_ms=1000,
        )

    def _delete_records(self) -> Step:
        choose = self._choose
        topics = [
            {
                "name": name,
                "partitions": [
                    {"partition_index": each, "offset": self._offset(name, each)}
                    for each in choose.some([0, 1, 7], [9, 6, 1], at_most=2)
                ],
            }
            for name in choose.some(["@a", "@b", "@missing"], [9, 6, 1], at_most=2)
        ]
        return draft(
            ApiKey.DELETE_RECORDS,
            choose.version(ApiKey.DELETE_RECORDS),
            topics=topics,
            timeout_ms=5000,
        )

    def _epochs(self) -> Step:
        choose, random = self._choose, self._random
        topics = [
            {
                "topic": name,
                "partitions": [
                    {
                        "partition": each,
                        "current_leader_epoch": random.choices([-1, 0, 1], [9, 6, 1])[0],
                        "leader_epoch": random.choice([0, 0, 1, -1, 5]),
                    }
                    for each in choose.some([0, 1, 7], [9, 6, 1], at_most=2)
                ],
            }
            for name in choose.some(["@a", "@b", "@missing"], [9, 6, 1], at_most=2)
        ]
        return draft(
            ApiKey.OFFSET_FOR_LEADER_EPOCH,
            choose.version(ApiKey.OFFSET_FOR_LEADER_EPOCH),
            replica_id=random.choice([-1, -2]),
            topics=topics,
        )

    def _new_producer(self) -> Step:
        return draft(
            ApiKey.INIT_PRODUCER_ID,
            self._choose.version(ApiKey.INIT_PRODUCER_ID),
            transactional_id=None,
            transaction_timeout_ms=60_000,
        )

    def _describe_producers(self) -> Step:
        topics = [
            {"name": name, "partition_indexes": self._choose.some([0, 1, 7], [9, 6, 1], at_most=2)}
            for name in self._choose.some(["@a", "@b", "@missing"], [9, 6, 1], at_most=2)
        ]
        return draft(ApiKey.DESCRIBE_PRODUCERS, 0, topics=topics)

    def _topic(self, by_id: bool, name: str, field: str, **more: Plain) -> Plain:
        if by_id:
            return {"topic_id": self._ids.get(name, Id("uuid", -1, 0)), **more}
        return {field: name, **more}
