"""Sequences about transactions: producers that begin, write, commit offsets, end and are fenced."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from embedkafka.wire.protocol.api_keys import ApiKey
from tests.wire.differential.invention import Choices, draft
from tests.wire.differential.runs import Versions
from tests.wire.differential.steps import Batch, Step
from tests.wire.plain_messages import Plain


@dataclass(slots=True)
class Producer:
    """A producer as a client sees it; it may have been fenced."""

    name: str
    id: Plain
    epoch: int
    sequences: dict[tuple[str, int], int] = field(default_factory=dict)


class Transactions:
    """Two transactional ids, two topics, one group."""

    def __init__(self, random: Random, versions: Versions) -> None:
        self._random = random
        self._choose = Choices(random, versions)
        self._ids: dict[str, Plain] = {}
        self._producers: list[Producer] = []
        self._written: dict[int, tuple[Producer, str, int, int]] = {}

    def begin(self) -> Iterable[Step]:
        topics = [
            {
                "name": name,
                "num_partitions": 2,
                "replication_factor": 1,
                "assignments": [],
                "configs": [{"name": "retention.ms", "value": "-1"}],
            }
            for name in ("@t", "@u")
        ]
        yield draft(ApiKey.CREATE_TOPICS, 7, topics=topics, timeout_ms=10_000)
        yield draft(ApiKey.METADATA, 12, topics=[{"name": "@t"}, {"name": "@u"}])
        for name in ("@t", "@u"):
            partitions = [{"partition_index": each, "timestamp": -1} for each in range(2)]
            asked = [{"name": name, "partitions": partitions}]
            yield draft(ApiKey.LIST_OFFSETS, 7, replica_id=-1, topics=asked)

    def next(self, is_busy: Callable[[int], bool]) -> Step:
        choose = self._choose
        if not self._producers:
            return self._init()
        return choose.one(
            (2, self._init),
            (4, self._add),
            (1, self._add_as_broker),
            (10, self._produce),
            (2, self._add_offsets),
            (4, self._commit_offsets),
            (6, self._end),
            (1, self._markers),
            (3, self._describe),
            (1, self._list),
            (2, self._describe_producers),
            (5, self._fetch),
            (3, self._list_offsets),
            (2, self._fetch_offsets),
        )()

    def learn(self, step: Step, answer: Plain) -> None:
        if not isinstance(answer, dict):
            return
        if step.api == ApiKey.METADATA:
            for topic in answer["topics"]:
                self._ids[topic["name"]] = topic["topic_id"]
        elif step.api == ApiKey.INIT_PRODUCER_ID and answer["error_code"] == "NONE":
            name = step.fields["transactional_id"]
            self._producers.append(Producer(name, answer["producer_id"], answer["producer_epoch"]))
        elif step.api == ApiKey.END_TXN and step.version >= 5 and answer["error_code"] == "NONE":
            for producer in self._producers:
                if producer.name == step.fields["transactional_id"]:
                    producer.id, producer.epoch = answer["producer_id"], answer["producer_epoch"]
                    producer.sequences.clear()
        elif step.api == ApiKey.PRODUCE and "'NONE'" in repr(answer):
            producer, topic, partition, after = self._written[id(step.fields["topic_data"])]
            producer.sequences[topic, partition] = after

    # Moves

    def _producer(self) -> Producer:
        """Mostly the last one of its name: the others are fenced."""
        if self._choose.seldom(6):
            return self._random.choice(self._producers)
        name = self._random.choice(self._producers).name
        return next(each for each in reversed(self._producers) if each.name == name)

    def _identity(self, producer: Producer) -> tuple[Plain, int]:
        choose = self._choose
        return (
            choose.one((40, producer.id), (1, 987654321), (0.5, -1)),
            max(-1, producer.epoch + choose.one((30, 0), (1, 1), (1, -1))),
        )

    def _init(self) -> Step:
        choose = self._choose
        version = choose.version(ApiKey.INIT_PRODUCER_ID)
        name = self._random.choice(
            ["@x", "@x", "@y", None, ""] if choose.seldom(4) else ["@x", "@y"]
        )
        more: dict[str, Plain] = {}
        if version >= 3 and self._producers and choose.seldom(2):
            producer = self._producer()
            more["producer_id"], more["producer_epoch"] = self._identity(producer)
            name = choose.one((10, producer.name), (1, name))
        return draft(
            ApiKey.INIT_PRODUCER_ID,
            version,
            transactional_id=name,
            transaction_timeout_ms=choose.one((20, 60_000), (1, 0), (1, 1 << 30), (1, -1)),
            **more,
        )

    def _topics(self) -> list[Plain]:
        """Each once: Kafka does not answer a request for two markers in one partition."""
        names = self._choose.some(["@t", "@u", "@missing"], [9, 6, 0.3], at_most=2)
        partitions = self._choose.some([0, 1, 7], [9, 6, 0.3], at_most=2)
        return [
            {"name": name, "partitions": list(dict.fromkeys(partitions))}
            for name in dict.fromkeys(names)
        ]

    def _add(self) -> Step:
        producer = self._producer()
        producer_id, epoch = self._identity(producer)
        return draft(
            ApiKey.ADD_PARTITIONS_TO_TXN,
            self._random.choice([0, 1, 2, 3, 3]),
            v3_and_below_transactional_id=self._name(producer),
            v3_and_below_producer_id=producer_id,
            v3_and_below_producer_epoch=epoch,
            v3_and_below_topics=self._topics(),
        )

    def _name(self, producer: Producer) -> str:
        return self._choose.one((40, producer.name or "@x"), (1, "@unknown"), (0.5, ""))

    def _add_as_broker(self) -> Step:
        transactions = {}
        for _ in range(self._random.choice([1, 1, 2])):
            producer = self._producer()
            producer_id, epoch = self._identity(producer)
            name = self._name(producer)
            transactions[name] = {
                "transactional_id": name,
                "producer_id": producer_id,
                "producer_epoch": epoch,
                "verify_only": self._choose.seldom(2),
                "topics": self._topics(),
            }
        return draft(
            ApiKey.ADD_PARTITIONS_TO_TXN,
            self._random.choice([4, 5]),
            transactions=list(transactions.values()),
        )

    def _produce(self) -> Step:
        choose = self._choose
        producer = self._producer()
        version = choose.version(ApiKey.PRODUCE)
        topic, partition = self._random.choice(["@t", "@u"]), self._random.choice([0, 1])
        count = self._random.choice([1, 2])
        sequence = producer.sequences.get((topic, partition), 0)
        producer_id, epoch = self._identity(producer)
        records = Batch(
            values=[b"v"] * count,
            producer=producer_id,
            epoch=epoch,
            sequence=max(-1, sequence + choose.one((25, 0), (1, 1), (1, -1), (1, 5))),
            transactional=not choose.seldom(25),
        )
        data = [{"index": partition, "records": records}]
        named: Plain = {"topic_id": self._ids[topic]} if version >= 13 else {"name": topic}
        topic_data = [{**named, "partition_data": data}]
        self._written[id(topic_data)] = (producer, topic, partition, sequence + count)
        return draft(
            ApiKey.PRODUCE,
            version,
            acks=choose.one((10, -1), (2, 1)),
            timeout_ms=10_000,
            transactional_id=choose.one((40, producer.name), (1, None), (1, "@unknown")),
            topic_data=topic_data,
        )

    def _add_offsets(self) -> Step:
        producer = self._producer()
        producer_id, epoch = self._identity(producer)
        return draft(
            ApiKey.ADD_OFFSETS_TO_TXN,
            self._choose.version(ApiKey.ADD_OFFSETS_TO_TXN),
            transactional_id=self._name(producer),
            producer_id=producer_id,
            producer_epoch=epoch,
            group_id=self._choose.one((20, "@g"), (1, "")),
        )

    def _commit_offsets(self) -> Step:
        choose, random = self._choose, self._random
        producer = self._producer()
        producer_id, epoch = self._identity(producer)
        version = choose.version(ApiKey.TXN_OFFSET_COMMIT)
        topics = [
            {
                "name": name,
                "partitions": [
                    {
                        "partition_index": index,
                        "committed_offset": random.choice([0, 1, 5]),
                        "committed_leader_epoch": random.choice([-1, 0]),
                        "committed_metadata": choose.one((5, "m"), (2, ""), (2, None)),
                    }
                    for index in choose.some([0, 1, 7], [9, 6, 0.5], at_most=2)
                ],
            }
            for name in choose.some(["@t", "@missing"], [9, 0.5], at_most=2)
        ]
        more: dict[str, Plain] = {}
        if version >= 3 and choose.seldom(8):
            more = {"generation_id": random.choice([1, -1]), "member_id": random.choice(["", "m"])}
        return draft(
            ApiKey.TXN_OFFSET_COMMIT,
            version,
            transactional_id=self._name(producer),
            group_id=choose.one((20, "@g"), (0.5, "")),
            producer_id=producer_id,
            producer_epoch=epoch,
            topics=topics,
            **more,
        )

    def _end(self) -> Step:
        producer = self._producer()
        producer_id, epoch = self._identity(producer)
        return draft(
            ApiKey.END_TXN,
            self._choose.version(ApiKey.END_TXN),
            transactional_id=self._name(producer),
            producer_id=producer_id,
            producer_epoch=epoch,
            committed=self._choose.seldom(2),
        )

    def _markers(self) -> Step:
        markers = []
        for _ in range(self._random.choice([1, 1, 2])):
            producer_id, epoch = self._identity(self._producer())
            markers.append(
                {
                    "producer_id": producer_id,
                    "producer_epoch": epoch,
                    "transaction_result": self._choose.seldom(2),
                    "topics": [
                        {"name": each["name"], "partition_indexes": each["partitions"]}
                        for each in self._topics()
                    ],
                    "coordinator_epoch": 0,
                    "transaction_version": self._random.choice([0, 1, 2]),
                }
            )
        if len(markers) > 1 and markers[0]["producer_id"] == markers[1]["producer_id"]:
            del markers[1]  # Kafka does not always answer two of one producer
        version = self._choose.version(ApiKey.WRITE_TXN_MARKERS)
        return draft(ApiKey.WRITE_TXN_MARKERS, version, markers=markers)

    def _describe(self) -> Step:
        names = self._choose.some(["@x", "@y", "@unknown", ""], [9, 6, 1, 0.3], at_most=2)
        return draft(ApiKey.DESCRIBE_TRANSACTIONS, 0, transactional_ids=names)

    def _list(self) -> Step:
        choose = self._choose
        version = choose.version(ApiKey.LIST_TRANSACTIONS)
        return draft(
            ApiKey.LIST_TRANSACTIONS,
            version,
            state_filters=choose.one((4, []), (1, ["Ongoing"]), (1, ["CompleteCommit", "x"])),
            producer_id_filters=choose.one((4, []), (1, [self._producer().id]), (1, [987654321])),
            duration_filter=choose.one((4, -1), (1, 0), (1, 1 << 40)),
            transactional_id_pattern=choose.one((4, None), (1, ".*x"), (1, ""), (0.5, "[")),
        )

    def _describe_producers(self) -> Step:
        topics = [
            {"name": each["name"], "partition_indexes": each["partitions"]}
            for each in self._topics()
        ]
        return draft(ApiKey.DESCRIBE_PRODUCERS, 0, topics=topics)

    def _fetch(self) -> Step:
        choose, random = self._choose, self._random
        version = choose.version(ApiKey.FETCH)
        topics = []
        for name in choose.some(["@t", "@u"], [1, 1], at_most=2):
            partitions = [
                {
                    "partition": each,
                    "fetch_offset": random.choice([0, 0, 0, 1, 2, 5]),
                    "partition_max_bytes": random.choice([1 << 20, 1 << 20, 200]),
                }
                for each in choose.some([0, 1], [1, 1], at_most=2)
            ]
            named: Plain = {"topic_id": self._ids[name]} if version >= 13 else {"topic": name}
            topics.append({**named, "partitions": partitions})
        return draft(
            ApiKey.FETCH,
            version,
            max_wait_ms=0,
            min_bytes=0,
            isolation_level=random.choice([0, 1, 1, 1]),
            session_id=0,
            session_epoch=-1,
            topics=topics,
        )

    def _list_offsets(self) -> Step:
        choose, random = self._choose, self._random
        asked = [
            {
                "name": name,
                "partitions": [
                    {"partition_index": each, "timestamp": random.choice([-1, -1, -2, 0])}
                    for each in choose.some([0, 1], [1, 1], at_most=2)
                ],
            }
            for name in choose.some(["@t", "@u"], [1, 1], at_most=2)
        ]
        return draft(
            ApiKey.LIST_OFFSETS,
            choose.version(ApiKey.LIST_OFFSETS),
            replica_id=-1,
            isolation_level=random.choice([0, 1]),
            topics=asked,
        )

    def _fetch_offsets(self) -> Step:
        asked: list[dict[str, Any]] = [
            {"group_id": "@g", "topics": [{"name": "@t", "partition_indexes": [0, 1]}]}
        ]
        return draft(ApiKey.OFFSET_FETCH, 9, groups=asked, require_stable=self._choose.seldom(2))
