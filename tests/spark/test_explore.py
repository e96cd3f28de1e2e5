"""Jobs under schedules: wrong ones are refuted in few steps, right ones survive all of them."""

import json
from collections import defaultdict
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from embedkafka import ConfigError, EmbeddedKafka
from embedkafka.explore import (
    Explored,
    Input,
    Options,
    Refuted,
    all_records,
    explore,
    files,
    latest_by_key,
    rows,
    table,
)
from embedkafka.explore.driver import Driver, Job
from embedkafka.explore.driver_process import DriverProcess, PackedJob
from embedkafka.explore.inputs import read_inputs
from embedkafka.explore.outputs import Output, require_outputs
from embedkafka.explore.runner import Ran, Runner
from embedkafka.explore.schedule import (
    Arrival,
    Crash,
    Event,
    Grow,
    KillLeader,
    Limit,
    LoseReply,
    Moment,
    MoveLeaders,
    Placed,
    Resend,
    Restart,
    Take,
    plain,
)
from embedkafka.explore.terms import StepKind

NUMBERS = Input(["1", "2", "3", "4"], partitions=1)
KINDS = {kind.value for kind in StepKind}


def read(spark: SparkSession, options: Options, topic: str, schema: str | None = None) -> DataFrame:
    """A topic's values as text, or as the columns of a schema."""
    frame = spark.readStream.format("kafka").options(**options.read(topic)).load()
    text = F.col("value").cast("string")
    if schema is None:
        return frame.select(F.col("key").cast("string"), text.alias("value"))
    return frame.select(F.from_json(text, schema).alias("value")).select("value.*")


def start(frame: DataFrame, options: Options, topic: str, mode: str = "append") -> StreamingQuery:
    writer = frame.writeStream.format("kafka").options(**options.sink(topic)).outputMode(mode)
    return writer.trigger(**options.trigger).start()


def copy(spark: SparkSession, options: Options) -> StreamingQuery:
    return start(read(spark, options, "numbers"), options, "copy")


class Ledger:
    """What `foreachBatch` has written, batch by batch, and how often its job was started."""

    def __init__(self) -> None:
        self.batches: list[tuple[int, list[str]]] = []
        self.starts = 0

    def job(self, spark: SparkSession, options: Options) -> StreamingQuery:
        """Writes each batch without asking whether it was written before."""
        self.starts += 1
        frame = read(spark, options, "numbers")
        writer = frame.writeStream.foreachBatch(self._save).trigger(**options.trigger)
        return writer.option("checkpointLocation", options.checkpoint()).start()

    def rows(self, spark: SparkSession) -> list[str]:
        return [value for _, values in self.batches for value in values]

    def reset(self) -> None:
        self.__init__()  # type: ignore[misc]  # a fresh one in its place

    def _save(self, batch: DataFrame, batch_id: int) -> None:
        self.batches.append((batch_id, sorted(row.value for row in batch.collect())))


def parse_number(data: bytes) -> dict[str, int]:
    return {"number": int.from_bytes(data)}


@pytest.fixture
def ledger() -> Ledger:
    return Ledger()


def at(position: int, event: Event) -> Placed:
    return Placed(position=position, event=event)


@pytest.fixture
def run(kafka: EmbeddedKafka, spark: SparkSession) -> Callable[..., Ran]:
    """Runs one schedule of four numbers, given as the events in it."""

    def run(job: Job, output: Mapping[str, Any], *events: Placed) -> Ran:
        outputs: dict[str, Output] = require_outputs(output)
        runner = Runner(
            kafka,
            spark,
            job=job,
            feeds=read_inputs({"numbers": NUMBERS}, seed=0),
            outputs=outputs,
            reset=None,
            timeout_s=60,
        )
        return runner.run(plain({"numbers": 4}).having(events))

    return run


# -- each step does what it says


def test_batches_are_cut_crashes_repeat_the_last_one_and_retries_write_twice(
    run: Callable[..., Ran], ledger: Ledger
) -> None:
    """The queries may start before there is a record: Spark runs a batch of nothing then."""
    again = Resend(arrival=Arrival("numbers", 2))
    events = [at(0, Take()), at(1, Take()), at(2, Crash()), at(3, again)]
    ran = run(ledger.job, {"out": ledger.rows}, *events)

    repeated = [(2, ["2"]), (2, ["2"])]
    assert ledger.batches == [(0, []), (1, ["1"]), *repeated, (3, ["3", "3", "4"])]
    assert ran.notes == {4: "batch 2 of query runs again"}
    assert ran.crashes_with_data == 1
    assert ledger.starts == 2


def test_topics_of_earlier_schedules_stay_away_and_are_no_errors(
    kafka: EmbeddedKafka, run: Callable[..., Ran]
) -> None:
    run(copy, {"copy": all_records()})
    lost = LoseReply(api="PRODUCE", topic="copy")  # Spark's producer asks again for all it knows
    run(copy, {"copy": all_records()}, at(2, lost))
    report = kafka.report()
    assert "\ncopy-" not in report
    assert "answers with errors" not in report


def test_limits_cut_batches_and_restarts_repeat_nothing(
    run: Callable[..., Ran], ledger: Ledger
) -> None:
    run(ledger.job, {"out": ledger.rows}, at(1, Take()), at(2, Restart()), at(2, Limit(records=2)))

    assert ledger.batches == [(0, ["1"]), (1, ["2", "3"]), (2, ["4"])]
    assert ledger.starts == 2


def test_a_lost_reply_is_lost_and_a_new_partition_is_used(
    run: Callable[..., Ran], kafka: EmbeddedKafka, ledger: Ledger
) -> None:
    lost = LoseReply(topic="numbers", api="FETCH")
    ran = run(ledger.job, {"out": ledger.rows}, at(1, lost), at(2, Grow(source="numbers")))

    assert ran.notes == {1: "1 lost", 3: "it has 2"}
    assert ledger.batches == [(0, ["1", "2"]), (1, ["3", "4"])]


def test_the_reply_to_a_write_is_lost_and_nothing_is_written_twice(
    run: Callable[..., Ran], kafka: EmbeddedKafka
) -> None:
    lost = LoseReply(topic="copy", api="PRODUCE")
    ran = run(copy, {"copy": all_records()}, at(0, lost))

    assert ran.notes == {0: "1 lost"}
    assert ran.found == {"copy": [(None, 1), (None, 2), (None, 3), (None, 4)]}


def test_leaders_move_and_die_and_all_brokers_are_back_at_the_end(
    run: Callable[..., Ran], kafka: EmbeddedKafka, ledger: Ledger
) -> None:
    events = [
        at(1, Take()),
        at(1, MoveLeaders(topic="numbers")),
        at(2, Take()),
        at(2, KillLeader(topic="numbers")),
    ]
    ran = run(ledger.job, {"out": ledger.rows}, *events)

    moved, killed = ran.notes[2].split(), ran.notes[5].split()
    assert moved[:2] == ["from", "broker"]
    assert moved[2] != moved[4]
    assert killed[:1] + killed[2:3] == ["broker", "died,"]
    assert killed[1] != killed[3]
    assert ledger.batches == [(0, ["1"]), (1, ["2"]), (2, ["3", "4"])]
    assert all(broker.is_running for broker in kafka.brokers)
    assert ledger.starts == 1


def test_a_query_is_held_between_batches_and_runs_again_for_the_next(
    kafka: EmbeddedKafka, spark: SparkSession, ledger: Ledger
) -> None:
    """So a batch never takes a part of what is being sent."""
    topic = kafka.topic("held-numbers")
    options = Options(
        bootstrap_servers=kafka.bootstrap_servers,
        directory=kafka.scratch_dir(),
        topics={"numbers": topic.name},
    )
    driver = Driver(spark, ledger.job, timeout_s=60)
    try:
        for number in ("1", "2"):
            topic.send(number)
            driver.take(options)
            query: Any = spark.streams.active[0]
            assert query._jsq.streamingQuery().awaitProgressLock().isHeldByCurrentThread()
    finally:
        driver.stop()

    assert ledger.batches == [(0, ["1"]), (1, ["2"])]
    assert spark.streams.active == []


# -- wrong jobs


@pytest.mark.gate
def test_foreach_batch_without_idempotence_is_refuted(
    kafka: EmbeddedKafka, spark: SparkSession, ledger: Ledger
) -> None:
    with pytest.raises(Refuted) as refuted:
        explore(
            kafka,
            spark,
            job=ledger.job,
            inputs={"numbers": NUMBERS},
            outputs={"ledger": ledger.rows},
            reset=ledger.reset,
            schedules=3,
            seed=5,
        )

    message = str(refuted.value)
    assert message.startswith("doubled: the result of the job depends on the schedule")
    assert "1. numbers 4 arrives\n  2. the queries take what is there; the driver dies" in message
    assert "[batch 0 of query runs again]\n  3. the queries take what is there\n" in message
    assert "pytest --explore-seed=5/2" in message


@pytest.mark.gate
def test_values_that_are_not_text_are_compared_and_shown_decoded(
    kafka: EmbeddedKafka, spark: SparkSession
) -> None:
    """It removes duplicates, but only those of one batch."""

    def job(spark: SparkSession, options: Options) -> StreamingQuery:
        def save(batch: DataFrame, batch_id: int) -> None:
            sink = batch.dropDuplicates(["value"]).write.format("kafka")
            sink.options(**options.sink("unique")).save()

        frame = spark.readStream.format("kafka").options(**options.read("numbers")).load()
        writer = frame.select("key", "value").writeStream.foreachBatch(save)
        checkpoint = options.checkpoint()
        return writer.option("checkpointLocation", checkpoint).trigger(**options.trigger).start()

    numbers = [number.to_bytes(4) for number in (1, 1)]
    with pytest.raises(Refuted) as refuted:
        explore(
            kafka,
            spark,
            job=job,
            inputs={"numbers": Input(numbers, key="number", decode=parse_number)},
            outputs={"unique": all_records(decode=parse_number)},
            invariant=lambda out, given: out["unique"] == [("1", {"number": 1})],
            schedules=2,
            seed=5,
            without=[kind.value for kind in StepKind if kind is not StepKind.BATCHES],
        )

    message = str(refuted.value)
    assert 'plain schedule: {"number": 1}' in message
    assert 'this schedule:  {"number": 1}, {"number": 1}' in message


@pytest.mark.gate
def test_state_that_depends_on_the_batches_is_refuted(
    kafka: EmbeddedKafka, spark: SparkSession
) -> None:
    """It removes duplicates, but only those of one batch."""
    written: dict[int, list[Any]] = {}

    def job(spark: SparkSession, options: Options) -> StreamingQuery:
        def save(batch: DataFrame, batch_id: int) -> None:  # a replayed batch replaces itself
            written[batch_id] = [row.id for row in batch.dropDuplicates(["id"]).collect()]

        writer = read(spark, options, "events", "id INT").writeStream.foreachBatch(save)
        checkpoint = options.checkpoint()
        return writer.option("checkpointLocation", checkpoint).trigger(**options.trigger).start()

    with pytest.raises(Refuted) as refuted:
        explore(
            kafka,
            spark,
            job=job,
            inputs={"events": [{"id": 1}, {"id": 2}, {"id": 1}, {"id": 1}]},
            outputs={"ids": lambda spark: [each for ids in written.values() for each in ids]},
            invariant=lambda out, given: sorted(out["ids"]) == [1, 2],
            reset=written.clear,
            schedules=4,
            seed=5,
            without=["grow", "move", "kill", "reply"],
            shrink_runs=8,
        )

    message = str(refuted.value)
    assert message.startswith("doubled")
    assert message.count("arrive") == 2  # one boundary is enough
    assert "3. events" in message


def ledger_job(spark: SparkSession, options: Options, *, notes_first: bool) -> StreamingQuery:
    """Writes a file per batch, and notes the batch before, or writes one more after each kill."""
    home = Path(options.path("ledger"))

    def save(batch: DataFrame, batch_id: int) -> None:
        home.mkdir(exist_ok=True)
        note = home / f"{batch_id}.noted"
        if notes_first and note.exists():
            return
        note.touch()
        rows = sorted(row.value for row in batch.collect())
        written = len(list(home.glob("*.rows")))
        (home / f"{written}.rows").write_text("\n".join(rows))

    writer = read(spark, options, "numbers").writeStream.foreachBatch(save)
    checkpoint = options.checkpoint()
    return writer.option("checkpointLocation", checkpoint).trigger(**options.trigger).start()


def written_rows(spark: SparkSession, options: Options) -> list[str]:
    files = sorted(Path(options.path("ledger")).glob("*.rows"))
    return [value for file in files for value in file.read_text().split()]


@pytest.mark.slow  # each schedule starts a second session
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize(
    ("notes_first", "verdict", "schedules", "moment"),
    [(True, "lost", 2, Moment.WRITING), (False, "doubled", 3, Moment.WRITTEN)],
)
def test_a_sink_that_is_wrong_when_its_driver_dies_is_always_refuted(
    kafka: EmbeddedKafka,
    spark: SparkSession,
    notes_first: bool,
    verdict: str,
    schedules: int,
    moment: Moment,
    seed: int,
) -> None:
    """The one skips a batch that it has noted, and the other writes it twice."""
    with pytest.raises(Refuted) as refuted:
        explore(
            kafka,
            spark,
            job=partial(ledger_job, notes_first=notes_first),
            inputs={"numbers": NUMBERS},
            outputs={"ledger": written_rows},
            kill_jvm=True,
            without=list(KINDS - {"jvm"}),
            schedules=schedules,
            seed=seed,
            shrink_runs=0,
        )

    message = str(refuted.value)
    assert message.startswith(verdict)
    assert f"and is killed in its first batch {moment.value} [batch 0 of query runs" in message


@pytest.mark.slow  # each starts a second session
@pytest.mark.parametrize(
    ("moment", "is_written", "left"),
    [
        (Moment.PLANNED, False, "batch 0 of query runs again"),
        (Moment.WRITTEN, True, "batch 0 of query runs again"),
        (Moment.COMMITTED, True, "every batch was committed"),
    ],
)
@pytest.mark.parametrize("trigger", [{"processingTime": "0 seconds"}, {"availableNow": True}])
def test_a_driver_dies_at_the_moment_it_should(
    kafka: EmbeddedKafka,
    spark: SparkSession,
    tmp_path: Path,
    moment: Moment,
    is_written: bool,
    left: str,
    trigger: dict[str, Any],
) -> None:
    numbers = kafka.topic()
    numbers.send_many(map(str, range(5)))
    options = Options(
        bootstrap_servers=kafka.bootstrap_servers,
        directory=str(tmp_path),
        topics={"numbers": numbers.name},
        trigger=trigger,
    )
    job = PackedJob(spark, partial(ledger_job, notes_first=False))

    note = DriverProcess(job, options, moment, timeout_s=60.0).await_death()

    assert note == left
    assert len(written_rows(spark, options)) == (5 if is_written else 0)


def windows_job(delay: str) -> Job:
    """Sums the orders of five minutes, with a watermark that allows this delay."""

    def job(spark: SparkSession, options: Options) -> StreamingQuery:
        orders = read(spark, options, "orders", "at TIMESTAMP, n INT").withWatermark("at", delay)
        sums = orders.groupBy(F.window("at", "5 minutes")).agg(F.sum("n").alias("n"))
        rows = sums.selectExpr("cast(window.start AS string) AS key", "cast(n AS string) AS value")
        return start(rows, options, "sums", "update")

    return job


@pytest.mark.gate
def test_a_watermark_that_drops_what_it_should_keep_is_refuted(
    kafka: EmbeddedKafka, spark: SparkSession
) -> None:
    """Its orders come ten minutes late, and its watermark allows one."""
    orders = [
        {"at": "2026-01-01T12:00:00", "n": 1},
        {"at": "2026-01-01T12:20:00", "n": 10},
        {"at": "2026-01-01T12:10:00", "n": 100},
    ]

    with pytest.raises(Refuted) as refuted:
        explore(
            kafka,
            spark,
            job=windows_job("1 minute"),
            inputs={"orders": orders},
            outputs={"sums": latest_by_key()},
            schedules=2,
            seed=5,
            shrink_runs=8,
        )

    message = str(refuted.value)
    assert message.startswith("they differ")
    assert (
        "key 2026-01-01 12:10:00\n    plain schedule: 100\n    this schedule:  nothing" in message
    )
    assert "1. orders 2 arrives\n  2. the queries take what is there\n  3. orders 3" in message


class Store:
    """The last state of each device, as the batches of a job have left it."""

    def __init__(self, merge: Callable[[int, list[int]], int]) -> None:
        self.states: dict[str, int] = {}
        self._merge = merge

    def job(self, spark: SparkSession, options: Options) -> StreamingQuery:
        frame = read(spark, options, "events", "id STRING, at INT")
        writer = frame.writeStream.foreachBatch(self._save).trigger(**options.trigger)
        return writer.option("checkpointLocation", options.checkpoint()).start()

    def rows(self, spark: SparkSession) -> list[dict[str, Any]]:
        return [{"id": id, "at": at} for id, at in self.states.items()]

    def explore(
        self, kafka: EmbeddedKafka, spark: SparkSession, given: Input, *kinds: str
    ) -> Explored:
        return explore(
            kafka,
            spark,
            job=self.job,
            inputs={"events": given},
            outputs={"states": rows(self.rows, key="id")},
            reset=self.states.clear,
            schedules=1 + 2 * len(kinds),
            seed=5,
            without=list(KINDS - {*kinds}),
            shrink_runs=0,
        )

    def _save(self, batch: DataFrame, batch_id: int) -> None:
        given: dict[str, list[int]] = defaultdict(list)
        for row in batch.collect():
            given[row.id].append(row.at)
        for id, times in given.items():
            self.states[id] = self._merge(self.states.get(id, 0), times)


EVENTS = [{"id": id, "at": at} for at in range(1, 4) for id in "ab"]
LATE = Input(EVENTS, key="id", event_time="at", lateness_s=60)


@pytest.mark.gate
@pytest.mark.parametrize(
    ("merge", "given", "kinds"),
    [
        (lambda known, times: max(times), LATE, ["batches", "late"]),
        (lambda known, times: max(times), Input(EVENTS, partitions=3), ["batches", "order"]),
        (lambda known, times: times[0], Input(EVENTS, key="id"), ["batches"]),
    ],
    ids=["late for its key", "across partitions", "two updates in one batch"],
)
def test_a_store_that_goes_by_arrival_is_refuted(
    kafka: EmbeddedKafka,
    spark: SparkSession,
    merge: Callable[[int, list[int]], int],
    given: Input,
    kinds: list[str],
) -> None:
    """The newest of a batch replaces whatever is there; of two updates in it the first is kept."""
    with pytest.raises(Refuted) as refuted:
        Store(merge).explore(kafka, spark, given, *kinds)

    message = str(refuted.value)
    assert message.startswith("they differ: the result of the job depends on the schedule")
    assert "Which of the two is right, only an invariant can say." in message


@pytest.mark.gate
def test_a_store_that_goes_by_event_time_is_right_under_late_records(
    kafka: EmbeddedKafka, spark: SparkSession
) -> None:
    store = Store(lambda known, times: max(known, *times))
    explored = store.explore(kafka, spark, LATE, "batches", "late")
    assert explored.kinds["late"] > 0


# -- right jobs


@pytest.mark.gate
def test_revenue_with_prices_survives_every_kind_of_schedule(
    kafka: EmbeddedKafka, spark: SparkSession
) -> None:
    """Orders and prices in any order: the price of a product does not change."""
    orders = [{"sku": sku, "n": n} for n, sku in enumerate(["apple", "bread", "apple", "bread"], 1)]
    prices = [{"sku": "apple", "price": 2}, {"sku": "bread", "price": 3}]

    def job(spark: SparkSession, options: Options) -> StreamingQuery:
        ordered = read(spark, options, "orders", "sku STRING, n INT")
        priced = read(spark, options, "prices", "sku STRING, price INT")
        both = ordered.unionByName(priced, allowMissingColumns=True).groupBy("sku")
        revenue = both.agg((F.sum("n") * F.max("price")).alias("revenue"))
        rows = revenue.selectExpr("sku AS key", "cast(revenue AS string) AS value")
        return start(rows, options, "revenue", "update")

    def is_right(out: Mapping[str, Any], given: Mapping[str, list[Any]]) -> bool:
        price_of = {price["sku"]: price["price"] for price in given["prices"]}
        expected: dict[str, int] = defaultdict(int)
        for order in given["orders"]:
            expected[order["sku"]] += order["n"] * price_of[order["sku"]]
        return bool(out["revenue"] == expected)

    explored = explore(
        kafka,
        spark,
        job=job,
        inputs={
            "orders": Input(orders, key="sku"),
            "prices": Input(prices, key="sku", resends=True),
        },
        outputs={"revenue": latest_by_key()},
        invariant=is_right,
        schedules=11,  # the plain one, and one led by each kind of step
        seed=11,
    )

    assert explored.schedules == 11


@pytest.mark.gate
def test_a_watermark_as_long_as_records_are_late_loses_none(
    kafka: EmbeddedKafka, spark: SparkSession
) -> None:
    orders = [{"at": f"2026-01-01T12:{minute:02}:00", "n": 1} for minute in range(0, 40, 5)]
    late = Input(orders, key="at", event_time="at", lateness_s=600)

    explored = explore(
        kafka,
        spark,
        job=windows_job("10 minutes"),
        inputs={"orders": late},
        outputs={"sums": latest_by_key()},
        invariant=lambda out, given: [*out["sums"].values()] == [1] * len(given["orders"]),
        schedules=5,
        seed=5,
        without=list(KINDS - {"batches", "order", "crash"}),
    )

    assert explored.schedules == 5
    assert explored.kinds["crash"] > 0
    assert explored.crashes_with_data > 0  # though the last batch, without data, closes windows


@pytest.mark.gate
@pytest.mark.parametrize(("interval", "immediate"), [("1 second", False), ("1 hour", True)])
def test_a_job_with_a_trigger_of_its_own_loses_nothing(
    kafka: EmbeddedKafka, spark: SparkSession, interval: str, immediate: bool
) -> None:
    """A window comes out with the batch without data that the watermark calls for."""

    def job(spark: SparkSession, options: Options) -> StreamingQuery:
        orders = read(spark, options, "orders", "at TIMESTAMP").withWatermark("at", "5 minutes")
        counts = orders.groupBy(F.window("at", "5 minutes")).count()
        rows = counts.selectExpr("cast(window.start AS string) AS key", "string(count) AS value")
        writer = rows.writeStream.format("kafka").options(**options.sink("counts"))
        return writer.trigger(processingTime=interval).start()

    explored = explore(
        kafka,
        spark,
        job=job,
        inputs={
            "orders": Input(
                [{"at": f"2026-01-01T12:{minute:02}:00"} for minute in (0, 1, 20, 40)],
                event_time="at",
            )
        },
        outputs={"counts": latest_by_key()},
        invariant=lambda out, given: sorted(out["counts"].values()) == [1, 2],
        schedules=3,
        seed=1,
        immediate_triggers=immediate,
    )

    assert explored.schedules == 3


@pytest.mark.gate
def test_a_job_that_runs_to_its_end_is_explored_too(
    kafka: EmbeddedKafka, spark: SparkSession
) -> None:
    """Two queries in a row, each with availableNow, as a scheduler starts them."""

    def job(spark: SparkSession, options: Options) -> None:
        for source, sink in (("numbers", "copy"), ("copy", "again")):
            writer = read(spark, options, source).writeStream.format("kafka")
            now = writer.options(**options.sink(sink)).trigger(availableNow=True)
            assert now.start().awaitTermination(60)

    explored = explore(
        kafka,
        spark,
        job=job,
        inputs={"numbers": Input([("a", "1"), ("b", "2"), ("a", "3")])},
        outputs={"copy": latest_by_key(), "again": latest_by_key()},
        invariant=lambda out, given: out["again"] == {"a": 3, "b": 2},
        schedules=3,
        seed=1,
    )

    assert explored.schedules == 3


@pytest.mark.gate
def test_a_chain_of_queries_gives_all_in_files(kafka: EmbeddedKafka, spark: SparkSession) -> None:
    """The records come from a hypothesis strategy."""

    def job(spark: SparkSession, options: Options) -> list[StreamingQuery]:
        writer = read(spark, options, "copy").writeStream.format("json")
        second = writer.option("checkpointLocation", options.checkpoint("files"))
        # The second one first: their order must not matter.
        stored = second.trigger(**options.trigger).start(options.path("stored"))
        return [stored, copy(spark, options)]

    explored = explore(
        kafka,
        spark,
        job=job,
        inputs={"numbers": st.lists(st.integers(0, 99).map(str), min_size=2, max_size=6)},
        outputs={"copy": all_records(), "stored": files("stored", format="json")},
        invariant=lambda out, given: {row["value"] for row in out["stored"]} == {*given["numbers"]},
        schedules=2,
        seed=1,
    )

    assert explored.schedules == 2


def test_a_table_in_memory_has_no_restarts(
    kafka: EmbeddedKafka, spark: SparkSession, tmp_path: Path
) -> None:
    """The records come from a file of JSON lines."""
    lines = tmp_path / "orders.jsonl"
    lines.write_text('{"sku": "a"}\n\n{"sku": "b"}\n')

    def job(spark: SparkSession, options: Options) -> StreamingQuery:
        writer = read(spark, options, "numbers").writeStream.format("memory")
        return writer.queryName(options.table("seen")).trigger(**options.trigger).start()

    explore(
        kafka,
        spark,
        job=job,
        inputs={"numbers": lines},
        outputs={"seen": table("seen")},
        invariant=lambda out, given: (
            [json.loads(row["value"]) for row in out["seen"]] == [{"sku": "a"}, {"sku": "b"}]
        ),
        schedules=3,
        seed=1,
    )


# -- what a test's author reads


def test_a_job_that_raises_shows_its_own_exception(
    kafka: EmbeddedKafka, spark: SparkSession
) -> None:
    def job(spark: SparkSession, options: Options) -> StreamingQuery:
        def save(batch: DataFrame, batch_id: int) -> None:
            raise ValueError("no such table")

        writer = read(spark, options, "numbers").writeStream.foreachBatch(save)
        return writer.option("checkpointLocation", options.checkpoint()).start()

    with pytest.raises(Refuted) as refuted:
        explore(
            kafka,
            spark,
            job=job,
            inputs={"numbers": NUMBERS},
            outputs={"out": lambda spark: []},
            seed=1,
        )

    message = str(refuted.value)
    assert "the job fails under the plain schedule already" in message
    assert message.endswith("ValueError: no such table")
    assert "py4j" not in message
    assert refuted.value.__suppress_context__


def test_a_plain_schedule_that_is_wrong_is_no_matter_of_schedules(
    kafka: EmbeddedKafka, spark: SparkSession
) -> None:
    def is_right(out: Mapping[str, Any], given: Mapping[str, list[Any]]) -> None:
        assert len(out["copy"]) == 5, "five are missing"

    with pytest.raises(Refuted, match=r"(?s)schedule is not to blame.*five are missing.*copy: "):
        explore(
            kafka,
            spark,
            job=copy,
            inputs={"numbers": NUMBERS},
            outputs={"copy": all_records()},
            invariant=is_right,
            seed=1,
        )


@pytest.mark.gate
def test_a_job_with_source_options_of_its_own_is_told_what_does_not_reach_it(
    kafka: EmbeddedKafka, spark: SparkSession
) -> None:
    """It is not reached by a limit, and takes nothing if it begins at the latest offsets."""

    def job_from(begin: str) -> Job:
        def job(spark: SparkSession, options: Options) -> StreamingQuery:
            own = {"kafka.bootstrap.servers": options.bootstrap_servers, "startingOffsets": begin}
            source = spark.readStream.format("kafka").options(**own)
            frame = source.option("subscribe", options.topic("numbers")).load()
            return start(frame.select("key", "value"), options, "copy")

        return job

    given: dict[str, Any] = {
        "inputs": {"numbers": NUMBERS},
        "outputs": {"copy": all_records()},
        "without": list(KINDS - {"limit"}),
        "schedules": 2,
        "seed": 1,
    }
    explored = explore(kafka, spark, job=job_from("earliest"), **given)
    assert explored.idle == {"limit": 1}
    assert "without effect: limit" in explored.table()
    with pytest.raises(ConfigError, match=r"no output under.*\n.*numbers with startingOffsets=lat"):
        explore(kafka, spark, job=job_from("latest"), **given)


def test_a_checkpoint_elsewhere_is_refused(kafka: EmbeddedKafka, spark: SparkSession) -> None:
    def job(spark: SparkSession, options: Options) -> StreamingQuery:
        elsewhere = {**options.sink("copy"), "checkpointLocation": kafka.scratch_dir()}
        writer = read(spark, options, "numbers").writeStream.format("kafka")
        return writer.options(**elsewhere).trigger(**options.trigger).start()

    with pytest.raises(ConfigError, match="keeps no checkpoint where a schedule finds it"):
        explore(
            kafka,
            spark,
            job=job,
            inputs={"numbers": NUMBERS},
            outputs={"copy": all_records()},
            seed=1,
        )
    assert spark.streams.active == []
