"""Audits of planted faults. An audit takes seconds, so several faults share one."""

import os
import random
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import pytest
from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks.audit import COLUMNS, measure
from embedkafka import ConfigError, EmbeddedKafka, InvalidArgument, Topic
from embedkafka.spark.delivery.audit import NothingToAudit, assert_delivered, audit
from embedkafka.spark.delivery.offsets import offset_ranges
from embedkafka.spark.delivery.result import AuditedRecord, Delivery, Example, Kind

CONNECT = cast(SparkSession, object())
"""Has no JVM here, like a session of Spark Connect."""

Pair = tuple[str | None, str | None]


def put(topic: Topic, partition: int, *pairs: Pair) -> None:
    for key, value in pairs:
        topic.send(value, key=key, partition=partition)


def faults(delivery: Delivery) -> dict[str, int]:
    return {kind.value: count for kind, count in delivery.faults.items() if count}


def partitions(delivery: Delivery) -> dict[str, dict[str, int]]:
    return {
        f"{each.side}-{each.partition}": {kind.value: count for kind, count in each.counts.items()}
        for each in delivery.partitions
    }


pytestmark = pytest.mark.gate


@pytest.fixture
def topics(kafka: EmbeddedKafka) -> Iterator[tuple[Topic, Topic]]:
    """A source of two partitions and a sink of three."""
    made = kafka.topic(partitions=2), kafka.topic(partitions=3)
    yield made
    for topic in made:
        topic.delete()


def test_every_kind_of_fault_is_counted_where_it_is(
    spark: SparkSession, topics: tuple[Topic, Topic]
) -> None:
    source, sink = topics
    put(source, 0, ("late", "1"), ("late", "2"), ("late", "3"), ("kept", "1"), ("lost", "1"))
    put(source, 0, ("again", "x"), ("again", "y"), ("again", "x"))
    put(source, 1, ("altered", "1"), ("scattered", "1"), ("scattered", "2"), ("twice", "1"))
    put(source, 1, (None, "n"), (None, "n"), (None, None), ("gone", None), ("gone too", None))
    put(sink, 0, ("late", "2"), ("late", "1"), ("late", "3"), ("kept", "1"))
    put(sink, 0, ("again", "x"), ("again", "y"), ("again", "x"))
    put(sink, 1, ("altered", "one"), ("scattered", "1"), ("twice", "1"), ("twice", "1"))
    put(sink, 2, (None, None), ("scattered", "2"), (None, "n"), ("gone", None), ("new", "1"))

    delivery = audit(source, sink)

    assert not delivery.ok
    assert faults(delivery) == {
        "lost": 3,
        "duplicated": 1,
        "altered": 1,
        "unexpected": 1,
        "reordered": 1,
        "scattered": 1,
    }
    assert (delivery.source_records, delivery.sink_records, delivery.delivered) == (17, 16, 13)
    assert (delivery.without_key, delivery.judged) == (5, 11)
    assert partitions(delivery) == {
        "source-0": {"delivered": 6, "lost": 1, "reordered": 1},
        "source-1": {"delivered": 5, "lost": 2, "altered": 1, "scattered": 1},
        "sink-0": {"delivered": 6, "reordered": 1},
        "sink-1": {"delivered": 2, "duplicated": 1, "altered": 1},
        "sink-2": {"delivered": 3, "unexpected": 1, "scattered": 1},
    }
    first, *_ = delivery.partitions
    assert (first.start, first.end, first.first_fault, first.last_fault) == (0, 8, 1, 4)
    by_key = {(example.kind.value, example.key): example for example in delivery.examples}
    assert by_key["altered", "altered"] == Example(
        kind=Kind.ALTERED,
        key="altered",
        source=AuditedRecord(topic=source.name, partition=1, offset=0, value="1"),
        sink=AuditedRecord(topic=sink.name, partition=1, offset=0, value="one"),
    )
    assert by_key["reordered", "late"] == Example(
        kind=Kind.REORDERED,
        key="late",
        source=AuditedRecord(topic=source.name, partition=0, offset=1, value="2"),
        sink=AuditedRecord(topic=sink.name, partition=0, offset=0, value="2"),
    )
    assert by_key["duplicated", "twice"].sink == AuditedRecord(
        topic=sink.name, partition=1, offset=3, value="1"
    )
    assert {key for kind, key in by_key if kind == "lost"} <= {"lost", "gone too", None}


def test_a_copy_by_a_job_is_proved_whatever_its_partitions(
    spark: SparkSession, topics: tuple[Topic, Topic]
) -> None:
    source, sink = topics
    for key in ("a", "b", "c", None):
        for number in range(20):
            source.send(None if number == 7 else str(number % 5), key=key)
    copy = source.to_df(spark, binary=True).orderBy("partition", "offset").coalesce(1)
    sink.write(copy.select("key", "value"))

    delivery = assert_delivered(source, sink, spark=spark)

    assert (delivery.source_records, delivery.delivered, delivery.judged) == (80, 80, 60)
    assert delivery.examples == ()
    assert delivery.table().startswith(
        f"delivery from {source.name} to {sink.name}: all 80 records arrived once, in order"
    )


def test_an_aborted_transaction_is_not_there_unless_asked_for(
    kafka: EmbeddedKafka, spark: SparkSession, topics: tuple[Topic, Topic]
) -> None:
    source, sink = topics
    put(source, 0, ("a", "1"), ("a", "2"))
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": "copy"})
    producer.init_transactions(30)
    for value, end in (("1", "commit"), ("2", "abort"), ("2", "commit")):
        producer.begin_transaction()
        producer.produce(sink.name, value, key="a", partition=1)
        producer.flush(30)
        getattr(producer, f"{end}_transaction")(30)
    producer.begin_transaction()
    producer.produce(sink.name, "open", key="a", partition=1)
    producer.flush(30)

    committed = audit(source, sink)
    uncommitted = audit(source, sink, isolation="read_uncommitted")
    options = sink.spark_options(**{"kafka.isolation.level": "read_committed"})
    asked = [offset_ranges(session, options, sink.name) for session in (spark, CONNECT)]
    producer.abort_transaction(30)

    assert asked[0] == asked[1]
    assert committed.ok
    assert committed.sink_records == 2
    assert [each.end for each in committed.partitions if each.side == "sink"] == [0, 6, 0]
    assert faults(uncommitted) == {"duplicated": 1, "unexpected": 1}


def test_a_transform_says_what_the_sink_should_hold(
    spark: SparkSession, topics: tuple[Topic, Topic]
) -> None:
    source, sink = topics
    for number in range(4):
        source.send_json({"id": number, "sku": "a", "quantity": number}, partition=number % 2)
    for number, total in enumerate((0, 3, 66, 9)):
        sink.send_json({"total": total, "id": number}, partition=1)

    def priced(orders: DataFrame) -> DataFrame:
        order = F.from_json(F.col("value").cast("string"), "id int, quantity int")
        total = (order["quantity"] * 3).alias("total")
        return orders.select(order["id"].alias("id"), total, "partition", "offset")

    delivery = audit(source, sink, key="id", value="total", transform=priced)
    by_function = audit(
        source,
        sink,
        key=lambda frame: F.get_json_object(F.col("value").cast("string"), "$.id"),
        value=["id", "$.total"],
        transform=lambda orders: priced(orders).drop("partition", "offset"),
    )

    assert faults(delivery) == {"altered": 1}
    assert delivery.judged == 3
    (example,) = delivery.examples
    assert example == Example(
        kind=Kind.ALTERED,
        key="2",
        source=AuditedRecord(topic=source.name, partition=0, offset=1, value="6"),
        sink=AuditedRecord(topic=sink.name, partition=1, offset=2, value="66"),
    )
    assert faults(by_function) == {"altered": 1}
    assert by_function.judged is None
    assert by_function.examples[0].key == "2"
    assert by_function.examples[0].sink.value == "2, 66"


def test_records_that_come_after_the_call_are_not_read(
    spark: SparkSession, topics: tuple[Topic, Topic]
) -> None:
    source, sink = topics
    put(source, 0, ("a", "1"))
    put(sink, 0, ("a", "1"))

    def late(frame: DataFrame) -> DataFrame:
        put(source, 0, ("a", "2"))
        put(source, 1, ("b", "1"))
        put(sink, 2, ("c", "1"))
        return frame

    assert audit(source, sink, transform=late).ok
    with pytest.raises(AssertionError, match="REFUTED: 2 lost, 1 unexpected"):
        assert_delivered(source, sink)


def test_a_mistake_is_explained_at_once(
    kafka: EmbeddedKafka, spark: SparkSession, topics: tuple[Topic, Topic]
) -> None:
    source, sink = topics
    with pytest.raises(
        NothingToAudit, match=f"nothing to read: {source.name} and {sink.name} are empty"
    ):
        audit(source, sink)
    near = f"there is no topic {sink.name}s; there are .*{sink.name}"
    with pytest.raises(ConfigError, match=near):
        audit(source.name, f"{sink.name}s", bootstrap_servers=kafka.bootstrap_servers)
    with pytest.raises(InvalidArgument, match=f"where is topic {source.name}"):
        audit(source.name, sink)
    with pytest.raises(InvalidArgument, match="source must be a topic, a topic's name or a Data"):
        audit(3, sink)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="read_commited"):
        audit(source, sink, isolation="read_commited")
    stream = spark.readStream.format("kafka").options(**source.spark_options()).load()
    with pytest.raises(InvalidArgument, match="source is a stream"):
        audit(stream, sink)
    source.send_json({"id": 1})
    with pytest.raises(
        InvalidArgument, match=f"no record of {source.name} has idd, which is to be its key"
    ):
        audit(source, sink, key="idd")
    with pytest.raises(InvalidArgument, match="cannot judge order: the sink has no offset and no"):
        audit(source, sink.to_df(spark).select("key", "value"), ordered=True)
    assert faults(audit(source, sink, key="id")) == {"lost": 1}


def test_two_topics_are_audited_as_one_frame(kafka: EmbeddedKafka, spark: SparkSession) -> None:
    first, second, both = kafka.topic("first"), kafka.topic("second"), kafka.topic("both")
    put(first, 0, ("a", "1"), ("a", "2"))
    put(second, 0, ("b", "1"), ("c", "1"))
    put(both, 0, ("b", "1"), ("a", "2"), ("a", "1"))
    options = first.spark_options(subscribe="first,second")

    delivery = audit(spark.read.format("kafka").options(**options).load(), both)

    assert [
        (each.topic, {kind.value: n for kind, n in each.counts.items()})
        for each in delivery.partitions
    ] == [
        ("first", {"delivered": 1, "reordered": 1}),
        ("second", {"delivered": 1, "lost": 1}),
        ("both", {"delivered": 2, "reordered": 1}),
    ]
    assert {(e.kind.value, e.key, e.source.topic) for e in delivery.examples} == {
        ("lost", "c", "second"),
        ("reordered", "a", "first"),
    }


Record = tuple[int, int, str | None, str]
"""Partition, offset, key and value."""


def test_random_faults_are_counted_as_a_plain_model_counts_them(spark: SparkSession) -> None:
    """Hundreds of small histories in one audit, each with separate partitions and keys."""
    chance = random.Random(20_261_117)
    source: list[Record] = []
    sink: list[Record] = []
    expected: dict[tuple[str, int], Counter[str]] = {}
    for history in range(400):
        written, arrived = a_history(chance, history)
        source += written
        sink += arrived
        expected |= count_plainly(written, arrived)
    schema = "partition int, offset bigint, key string, value string"

    delivery = audit(
        spark.createDataFrame(source, schema), spark.createDataFrame(sink, schema), spark=spark
    )

    found = {
        (each.side, each.partition): Counter({kind.value: n for kind, n in each.counts.items()})
        for each in delivery.partitions
    }
    assert found == expected
    assert all(delivery.faults.values())


def a_history(chance: random.Random, number: int) -> tuple[list[Record], list[Record]]:
    """A few keys with few different values, so that copies and repetitions are common."""
    keys = [f"{number}-a", f"{number}-b", None]
    records = [
        (chance.choice(keys), f"{number}-{chance.randrange(chance.choice((2, 50)))}")
        for _ in range(chance.randrange(1, 9))
    ]
    spread = chance.random() < 0.1  # a source that has a key in two partitions
    at: Counter[int] = Counter()
    written = []
    for key, value in records:
        partition = 2 * number + (chance.randrange(2) if spread else 0)
        written.append((partition, at[partition], key, value))
        at[partition] += 1
    delivered = list(records)
    for _ in range(chance.choice((0, 0, 1, 2))):
        fault = chance.choice(("lose", "repeat", "alter", "invent", "swap"))
        index = chance.randrange(len(delivered)) if delivered else 0
        if fault == "invent" or not delivered:
            delivered.insert(index, (chance.choice(keys), f"{number}-new"))
        elif fault == "lose":
            del delivered[index]
        elif fault == "repeat":
            delivered.insert(chance.randrange(index, len(delivered) + 1), delivered[index])
        elif fault == "alter":
            delivered[index] = (delivered[index][0], f"{number}-other")
        else:
            other = chance.randrange(len(delivered))
            delivered[index], delivered[other] = delivered[other], delivered[index]
    stray = chance.randrange(len(delivered) * 6 + 1)
    at.clear()
    arrived = []
    for index, (key, value) in enumerate(delivered):
        partition = 2 * number + (index == stray)
        arrived.append((partition, at[partition], key, value))
        at[partition] += 1
    return written, arrived


def count_plainly(
    written: Sequence[Record], arrived: Sequence[Record]
) -> dict[tuple[str, int], Counter[str]]:
    """The kinds of records per side and partition, by the definitions of `matching`."""
    counts: dict[tuple[str, int], Counter[str]] = defaultdict(Counter)

    def count(kind: str, source: Record | None, sink: Record | None) -> None:
        for side, record in (("source", source), ("sink", sink)):
            if record is not None:
                counts[side, record[0]][kind] += 1

    by_record: dict[Any, tuple[list[Record], list[Record]]] = defaultdict(lambda: ([], []))
    for side, records in enumerate((written, arrived)):
        for record in sorted(records):
            by_record[record[2], record[3]][side].append(record)
    missing, unknown = defaultdict(list), defaultdict(list)
    judged = defaultdict(list)
    for (key, value), (sources, sinks) in by_record.items():
        name = key if key is not None else ("no key", value)
        homes = {record[0] for record in written if record[2] == key}
        sure = key is not None and len(homes) == 1 and len(sources) in (1, len(sinks))
        for source, sink in zip(sources, sinks, strict=False):
            if sure:
                judged[name].append((source, sink))
            else:
                count("delivered", source, sink)
        missing[name] += sources[len(sinks) :]
        if sources:
            for sink in sinks[len(sources) :]:
                count("duplicated", None, sink)
        else:
            unknown[name] += sinks
    for name in set(missing) | set(unknown):
        altered = min(len(missing[name]), len(unknown[name]))
        for index, record in enumerate(sorted(missing[name])):
            count("altered" if index < altered else "lost", record, None)
        for index, record in enumerate(sorted(unknown[name])):
            count("altered" if index < altered else "unexpected", None, record)
    for pairs in judged.values():
        pairs.sort()
        home = pairs[0][1][0]
        last = -1
        for source, sink in pairs:
            if sink[0] != home:
                count("scattered", source, sink)
            elif sink[1] < last:
                count("reordered", source, sink)
            else:
                count("delivered", source, sink)
                last = sink[1]
    return counts


def test_the_command_prints_the_table_and_writes_the_page(
    topics: tuple[Topic, Topic], tmp_path: Path
) -> None:
    source, sink = topics
    for number in range(3):
        source.send_json({"id": number, "sku": "a"})
    for number in range(2):
        sink.send_json({"sku": "a", "id": number})
    page = tmp_path / "audit.html"
    command = [sys.executable, "-m", "embedkafka.cli", "audit", "--html", str(page)]
    command += ["--key", "id", "--value", "sku", "--source", source.name, "--sink", sink.name]
    environ = {**os.environ, "KAFKA_BOOTSTRAP_SERVERS": source.bootstrap_servers}

    done = subprocess.run(command, capture_output=True, text=True, timeout=280, env=environ)

    assert done.returncode == 1, done.stderr
    assert "REFUTED: 1 lost" in done.stdout
    assert f"<h1>{source.name} → {sink.name}</h1>" in page.read_text(encoding="utf-8")


def test_the_benchmark_measures_what_it_audits(kafka: EmbeddedKafka, spark: SparkSession) -> None:
    row = dict(zip(COLUMNS, measure(spark, kafka, 200, hot=True), strict=True))
    assert row["records"] == 399
    assert row["records/s"] == pytest.approx(399 / row["seconds"])
    assert row["peak MB"] > 100
