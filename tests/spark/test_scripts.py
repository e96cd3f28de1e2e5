"""Jobs that are scripts, as people write them: nothing in them is written for a test."""

import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent, indent
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from embedkafka import AwaitTimeout, ConfigError, EmbeddedKafka, QueryFailed
from embedkafka.explore import Input, Refuted, Script, all_records, explore, table
from embedkafka.spark import (
    RunningScript,
    ScriptFailed,
    crash_between_write_and_commit,
    drain,
    progress,
    restart,
    run_script,
)

TIMEOUT_S = 30
_LOG = logging.getLogger(__name__)

TOTALS = """
    import argparse
    import atexit
    import logging.config
    import os
    import signal
    import sys
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as F

    os.chdir(os.path.dirname(os.path.abspath(__file__)))
    sys.path.append("../lib")
    from common import BROKERS

    logging.config.dictConfig({"version": 1})
    logging.getLogger().setLevel(17)
    logging.getLogger("jobs").addHandler(logging.StreamHandler(sys.stdout))
    os.environ["PYSPARK_SUBMIT_ARGS"] = "--packages org.apache.spark:spark-sql-kafka"
    parser = argparse.ArgumentParser()
    parser.add_argument("--topic", default="orders")
    source = parser.parse_args().topic

    spark = (
        SparkSession.builder.appName("totals")
        .master("local[*]")
        .config("spark.sql.shuffle.partitions", 3)
        .config("spark.executor.memory", "8g")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    spark.createDataFrame([(1,)], ["n"])
    assert SparkSession.getActiveSession() is spark

    orders = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", BROKERS)
        .option("subscribe", source)
        .option("startingOffsets", "earliest")
        .load()
    )
    copy = (
        orders.selectExpr("value")
        .writeStream.format("kafka")
        .option("kafka.bootstrap.servers", BROKERS)
        .option("topic", os.environ["TOTALS_TOPIC"])
        .option("checkpointLocation", "/var/lib/jobs/totals")
        .queryName("totals")
        .start()
    )
    archive = orders.selectExpr("CAST(value AS STRING) AS value").writeStream.start(
        path="s3a://lake/orders", format="json", checkpointLocation="checkpoints/archive"
    )
    signal.signal(signal.SIGTERM, lambda *_: copy.stop())
    try:
        spark.streams.awaitAnyTermination()
    finally:
        with open(os.environ["DONE"], "w") as done:
            done.write("done")
        spark.stop()
        sys.exit(0)
"""


def running(
    script: Any, kafka: Any, spark: SparkSession, tmp_path: Path, **more: Any
) -> RunningScript:
    return run_script(script, kafka=kafka, spark=spark, directory=tmp_path / "test", **more)


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Writes a script into a folder of its own."""

    def write(source: str, name: str = "job.py") -> Path:
        path = Path(os.path.normpath(tmp_path / "jobs" / name))
        path.parent.mkdir(exist_ok=True)
        path.write_text(dedent(source))
        return path

    return write


def test_a_script_runs_as_it_is_and_goes_on_from_its_checkpoints(
    kafka: EmbeddedKafka, spark: SparkSession, tmp_path: Path, write: Callable[..., Path]
) -> None:
    orders, totals = kafka.topic("shop-orders"), kafka.topic("shop-totals")
    write("BROKERS = 'localhost:9092'", "../lib/common.py")
    path = write(TOTALS)

    def process() -> tuple[object, ...]:
        handler = signal.getsignal(signal.SIGTERM)
        logs = logging.root.level, [*logging.getLogger("jobs").handlers], _LOG.disabled
        return sys.argv, sys.path[:], dict(os.environ), os.getcwd(), handler, logs

    before = process()
    partitions = spark.conf.get("spark.sql.shuffle.partitions")
    done = tmp_path / "done"

    def run() -> RunningScript:
        environment = {"TOTALS_TOPIC": totals.name, "DONE": str(done)}
        arguments = ["--topic", orders.name]
        return running(path, kafka, spark, tmp_path, args=arguments, env=environment)

    with run() as script:
        assert list(script.queries) == ["totals", "s3a://lake/orders"]
        assert SparkSession.getActiveSession() is spark
        assert script.spark.conf.get("spark.sql.shuffle.partitions") == "3"
        assert spark.conf.get("spark.sql.shuffle.partitions") == partitions
        assert "TOTALS_TOPIC" not in os.environ
        orders.send("one")
        for query in script:
            drain(query)
        assert [record.text for record in totals.read()] == ["one"]
        assert not done.exists()

        # The script waits on while the test stops and restarts its query.
        crash_between_write_and_commit(script["totals"])
        again = restart(script["totals"])
        orders.send("two")
        drain(again)
        assert progress(again).startswith("batch")
        assert [record.text for record in totals.read()] == ["one", "one", "two"]
        assert "it is at" in script.position()
        assert "awaitAnyTermination()`" in script.position()
    assert done.read_text() == "done"
    assert not again.isActive
    assert script.position() == "it has ended"

    with run() as script:
        orders.send("three")
        drain(script["totals"])
        drain(script[1])
    assert [record.text for record in totals.read()] == ["one", "one", "two", "three"]
    archived = spark.read.json(str(script.path("s3a://lake/orders"))).collect()
    assert sorted(row.value for row in archived) == ["one", "three", "two"]
    assert script.path("s3a://lake/orders") == tmp_path / "test/lake/orders"

    here = kafka.bootstrap_servers
    root = tmp_path / "test"
    assert list(map(str, script.redirected)) == [
        f"working directory {Path.cwd()} -> {path.parent}, for the whole process",
        "spark.app.name totals -> ignored: Spark runs already",
        "spark.master local[*] -> ignored: Spark runs already",
        "spark.executor.memory 8g -> ignored: Spark runs already",
        "log level ERROR -> ignored: it is the JVM's",
        f"kafka.bootstrap.servers localhost:9092 -> {here}",
        f"checkpointLocation /var/lib/jobs/totals -> {root}/var/lib/jobs/totals",
        f"checkpointLocation checkpoints/archive -> {root}/checkpoints/archive",
        f"path s3a://lake/orders -> {root}/lake/orders",
        "signal handler SIGTERM -> called at the end of the test",
    ]
    assert process() == before
    assert "common" not in sys.modules
    spark.range(1).count()  # it was not stopped


STREAM = """
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.getOrCreate()
    frame = (
        spark.readStream.format("kafka")
        .options(**{"kafka.bootstrap.servers": "localhost:9092", "subscribe": "orders"})
        .option("startingOffsets", "earliest")
        .load()
        .selectExpr("CAST(value AS STRING) AS value")
    )
"""


def test_a_script_that_fails_raises_its_own_error_at_once(
    kafka: EmbeddedKafka, spark: SparkSession, tmp_path: Path, write: Callable[..., Path]
) -> None:
    wrong = write("def parse():\n    return int('x')\n\nparse()\n")
    with pytest.raises(ValueError, match="invalid literal") as failed:
        running(wrong, kafka, spark, tmp_path).__enter__()
    files = [entry.path for entry in failed.traceback if "__tracebackhide__" not in entry.locals]
    assert list(map(str, files)) == [__file__, str(wrong), str(wrong)]

    with pytest.raises(ScriptFailed, match=r"job\.py called sys\.exit\('no brokers'\)"):
        running(write("import sys; sys.exit('no brokers')"), kafka, spark, tmp_path).__enter__()
    with pytest.raises(SyntaxError, match=r"job\.py, line 1"):
        running(write("def broken(:"), kafka, spark, tmp_path)
    with pytest.raises(ConfigError, match=r"there is no script nowhere\.py: No such file"):
        running("nowhere.py", kafka, spark, tmp_path)
    with pytest.raises(ConfigError, match=r"there is no module 'no\.such'"):
        running("no.such", kafka, spark, tmp_path)

    with running(write("print('nothing to do')"), kafka, spark, tmp_path) as script:
        script.wait()
        with pytest.raises(ConfigError, match=r"no query 'totals': none at all; it has ended"):
            script["totals"]
    endless = write("import threading\nnever = threading.Event()\nnever.wait(5)\n")
    where = r"it (runs|is at .*job\.py:[123]: `)"  # a slow machine may not have got to line 3
    with pytest.raises(AwaitTimeout, match=rf"nor ended in 0\.1 s; {where}"):
        running(endless, kafka, spark, tmp_path, timeout_s=0.1).__enter__()

    kafka.topic("orders").send("bad")
    query = "frame.selectExpr('raise_error(value) AS value').writeStream.format('memory')"
    late = f"query = {query}.queryName('late').start()\nquery.awaitTermination()\n"
    path = write(dedent(STREAM) + late)
    with (
        running(path, kafka, spark, tmp_path) as script,
        pytest.raises(StreamingQueryException, match="bad"),
    ):
        drain(script.query)
    assert "it has failed: StreamingQueryException" in script.describe()
    assert "checkpoint of query late -> none is named: a restart starts over" in script.describe()
    with running(path, kafka, spark, tmp_path) as script:
        with pytest.raises(StreamingQueryException, match="bad") as told:
            script.wait()
        assert str(path) in [str(entry.path) for entry in told.traceback]


BREAKS = """
    from confluent_kafka import Consumer

    servers = {"bootstrap.servers": "localhost:9092"}
    consumer = Consumer({**servers, "group.id": "copies", "auto.offset.reset": "earliest"})
    consumer.subscribe(["orders"])
    while True:
        if consumer.poll(1):
            raise KeyError("no sku")
"""


def test_a_wait_for_what_a_script_should_write_ends_with_the_script(
    kafka: EmbeddedKafka, spark: SparkSession, tmp_path: Path, write: Callable[..., Path]
) -> None:
    orders, copies = kafka.topic("orders"), kafka.topic("copies")
    path = write(BREAKS)
    with running(path, kafka, spark, tmp_path):
        orders.send("one")
        with pytest.raises(QueryFailed, match=r"job\.py has failed: KeyError: 'no sku'") as failed:
            copies.wait_for(1)
        cause = failed.value.__cause__
        assert cause is failed.value.exception
        assert cause.__traceback__ is not None
        assert cause.__traceback__.tb_frame.f_code.co_filename == str(path)
        orders.wait_for(1)
        with pytest.raises(AwaitTimeout) as late:
            copies.wait_for(1, timeout_s=0)
        assert not isinstance(late.value, QueryFailed), "the test has been told"

    query = "frame.selectExpr('string(raise_error(value)) AS value').writeStream.format('kafka')"
    options = "{'kafka.bootstrap.servers': 'b:1', 'topic': 'copies', 'checkpointLocation': 'c'}"
    path = write(dedent(STREAM) + f"{query}.options(**{options}).start().awaitTermination()\n")
    with (
        running(path, kafka, spark, tmp_path),
        pytest.raises(QueryFailed, match=r"the query .* has failed:(?s:.*)one"),
    ):
        copies.wait_for(1)


BATCHES = """
    import os
    import time
    from confluent_kafka import Producer
    from kafka import KafkaProducer

    def save(batch, number):
        servers = {"kafka.bootstrap.servers": "broker-1:9092,broker-2:9092"}
        batch.write.format("kafka").options(topic="copies", **servers).save()
        assert os.environ["STAGE"] == "test"
        producer = Producer({"bootstrap.servers": "broker-1:9092"})
        producer.produce("audits", str(number))
        producer.flush()

    KafkaProducer(bootstrap_servers=["broker-2:9092"]).close()
    batches = frame.writeStream.foreachBatch(save).option("checkpointLocation", "save").start()
    shown = frame.writeStream.format("memory").queryName("shown").start()
    while batches.isActive:
        time.sleep(3600)
    print("stopped")
    while True:
        time.sleep(3600)
"""


def test_batches_clients_and_sleeps_are_the_scripts(
    kafka: EmbeddedKafka,
    spark: SparkSession,
    tmp_path: Path,
    write: Callable[..., Path],
    capsys: pytest.CaptureFixture[str],
) -> None:
    import confluent_kafka

    producer, sleep = confluent_kafka.Producer, time.sleep
    orders, copies = kafka.topic("orders"), kafka.topic("copies")
    audits = kafka.topic("audits")
    addresses = {"localhost:9092": kafka, "broker-1:9092": kafka, "broker-2:9092": kafka}
    path = write(dedent(STREAM) + dedent(BATCHES))
    orders.send("one")  # before the first batch, which would be empty otherwise
    with running(path, addresses, spark, tmp_path, env={"STAGE": "test"}) as script:
        for query in (script["foreachBatch"], script["shown"]):
            drain(query)
        assert [record.text for record in copies.read()] == ["one"]
        assert [record.text for record in audits.read()] == ["0"]
        assert [row.value for row in script.spark.table("shown").collect()] == ["one"]
        with pytest.raises(ConfigError, match="has not one query, but 2: foreachBatch, shown"):
            _ = script.query
        crash_between_write_and_commit(script["foreachBatch"])
        drain(restart(script["foreachBatch"]))
        assert [record.text for record in copies.read()] == ["one", "one"]
        with (
            running(path, addresses, spark, tmp_path) as second,
            pytest.raises(ConfigError, match=r"checkpoint .*save is in use by .* foreachBatch"),
        ):
            second.wait()
    assert capsys.readouterr().out == "stopped\n"
    assert script.position() == "it has ended"
    here = kafka.bootstrap_servers
    named = [each.given for each in script.redirected if each.instead == here]
    assert sorted(named) == [
        "broker-1:9092",
        "broker-1:9092,broker-2:9092",
        "broker-2:9092",
        "localhost:9092",
    ]
    assert (confluent_kafka.Producer, time.sleep) == (producer, sleep)
    assert spark.streams.active == []


def test_a_function_of_batches_runs_to_its_end(
    kafka: EmbeddedKafka, spark: SparkSession, tmp_path: Path
) -> None:
    seen: list[object] = []
    kafka.topic("orders").send("one")

    def main() -> None:
        def count() -> None:
            session = SparkSession.builder.getOrCreate()
            frame = session.read.format("kafka").option("subscribe", "orders")
            seen.append(frame.option("kafka.bootstrap.servers", "b:1").load().count())
            session.range(3).write.parquet("/out/numbers")
            seen.append(session.read.parquet("/out/numbers").count())

        seen.append(list(sys.argv[1:]))
        threading.Thread(target=count).start()

    with running(main, kafka, spark, tmp_path, args=["--all", 1]) as script:
        script.wait()
    assert seen == [["--all", "1"], 1, 3]
    assert script.path("/out/numbers") == tmp_path / "test/out/numbers"
    assert len(script) == 0


TABLES = """
    spark.range(3).write.saveAsTable("numbers")
    spark.sql("CREATE TABLE IF NOT EXISTS listed USING parquet AS SELECT 1 AS n")
    spark.range(2).write.mode("append").saveAsTable("earlier")
    query = frame.writeStream.option("checkpointLocation", "save").toTable("values")
    query.awaitTermination()
"""


def test_tables_of_a_script_go_with_its_directory(
    kafka: EmbeddedKafka, spark: SparkSession, tmp_path: Path, write: Callable[..., Path]
) -> None:
    kafka.topic("orders").send("one")
    spark.range(1).write.saveAsTable("earlier")
    exists = spark.catalog.tableExists
    try:
        path = write(dedent(STREAM) + dedent(TABLES))
        with running(path, kafka, spark, tmp_path) as script:
            drain(script["values"])
        assert spark.table("values").count() == 1
        assert exists("numbers")
        assert exists("listed")
        script.drop_tables()
        assert (exists("values"), exists("numbers"), exists("listed")) == (False, False, False)
        assert spark.table("earlier").count() == 3
        with run_script(path, kafka=kafka, spark=spark) as script:
            drain(script["values"])
        assert (exists("values"), exists("numbers"), exists("earlier")) == (False, False, True)
    finally:
        spark.sql("DROP TABLE earlier")


OLD_STYLE = """
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    sc = SparkContext(conf=SparkConf().setAppName("old"))
    spark = SparkSession(sc)
    spark.conf.set("spark.sql.shuffle.partitions", 3)
    orders = spark.readStream.format("kafka").option("kafka.bootstrap.servers", "localhost:9092")
    orders = orders.option("subscribe", "orders").option("startingOffsets", "earliest").load()
    orders.writeStream.format("memory").queryName("old").start()
    SparkSession.builder.getOrCreate().streams.awaitAnyTermination()
    sc.stop()
"""


def test_a_session_may_be_built_as_it_was_before_spark_2_or_come_from_the_test(
    kafka: EmbeddedKafka, spark: SparkSession, tmp_path: Path, write: Callable[..., Path]
) -> None:
    orders = kafka.topic("orders")
    orders.send("one")
    partitions = spark.conf.get("spark.sql.shuffle.partitions")
    with running(write(OLD_STYLE), kafka, spark, tmp_path) as script:
        drain(script.query)
        assert script.spark.table("old").count() == 1
        assert spark.conf.get("spark.sql.shuffle.partitions") == partitions
    assert "SparkContext a new one -> that of the test's Spark" in script.describe()
    assert spark.range(2).count() == 2

    def main(session: SparkSession) -> None:
        servers = {"kafka.bootstrap.servers": "b:1", "startingOffsets": "earliest"}
        frame = session.readStream.format("kafka").options(subscribe="orders", **servers).load()
        frame.writeStream.format("memory").queryName("given").start().awaitTermination()

    with running(lambda: main(spark), kafka, spark, tmp_path) as script:
        drain(script.query)
        assert script.spark.table("given").count() == 1
    assert spark.streams.active == []


THREADS = """
    import signal
    import threading
    from concurrent.futures import ThreadPoolExecutor

    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    pool = ThreadPoolExecutor(4)

    def start(name):
        return frame.writeStream.format("memory").queryName(name).start()

    queries = list(pool.map(start, ["first", "second"]))
    threading.Thread(target=queries[0].awaitTermination).start()
    stop.wait()
    print("stopped", [query.isActive for query in queries])
"""


def test_a_script_with_threads_waits_and_ends(
    kafka: EmbeddedKafka,
    spark: SparkSession,
    tmp_path: Path,
    write: Callable[..., Path],
    capsys: pytest.CaptureFixture[str],
) -> None:
    kafka.topic("orders")
    path = write(dedent(STREAM) + dedent(THREADS))
    with running(path, kafka, spark, tmp_path, timeout_s=TIMEOUT_S) as script:
        assert len(script.await_rest()) == 2
    assert capsys.readouterr().out == "stopped [False, False]\n"


CONSUMERS = {
    "confluent-kafka": """
        import signal
        from confluent_kafka import Consumer, Producer

        is_over = False

        def end(*_):
            global is_over
            is_over = True

        signal.signal(signal.SIGINT, end)
        consumer = Consumer({**SERVERS, "group.id": "copies", "auto.offset.reset": "earliest"})
        consumer.subscribe(["orders"])
        while not is_over:
            message = consumer.poll(60)
            if message is not None:
                copy(message.value())
    """,
    "confluent-kafka, many": """
        from confluent_kafka import Consumer

        consumer = Consumer({**SERVERS, "group.id": "copies", "auto.offset.reset": "earliest"})
        consumer.subscribe(["orders"])
        while True:
            for message in consumer.consume(10):
                copy(message.value())
    """,
    "confluent-kafka, deserializing": """
        from confluent_kafka import DeserializingConsumer

        consumer = DeserializingConsumer(
            {**SERVERS, "group.id": "copies", "auto.offset.reset": "earliest"}
        )
        consumer.subscribe(["orders"])
        while True:
            message = consumer.poll()
            if message is not None:
                copy(message.value())
    """,
    "kafka-python": """
        from kafka import KafkaConsumer

        consumer = KafkaConsumer("orders", auto_offset_reset="earliest")
        for message in consumer:
            copy(message.value)
    """,
}
COPY = """
    from confluent_kafka import SerializingProducer
    SERVERS = {"bootstrap.servers": "localhost:9092"}
    producer = SerializingProducer(SERVERS)

    def copy(value):
        producer.produce("copies", value=value)
        producer.flush()

    try:
        CONSUMER
    finally:
        print("closed")
"""


@pytest.mark.parametrize("job", CONSUMERS.values(), ids=CONSUMERS)
def test_a_script_that_waits_for_records_itself_ends_with_the_test(
    kafka: EmbeddedKafka,
    spark: SparkSession,
    tmp_path: Path,
    write: Callable[..., Path],
    capsys: pytest.CaptureFixture[str],
    job: str,
) -> None:
    orders, copies = kafka.topic("orders"), kafka.topic("copies")
    orders.send("one")
    path = write(dedent(COPY).replace("    CONSUMER", indent(dedent(job), "    ")))
    with running(path, kafka, spark, tmp_path) as script:
        assert copies.read(1)[0].text == "one"
    assert script.position() == "it has ended"
    assert capsys.readouterr().out == "closed\n"


EXPLORED = """
    spark.conf.set("spark.sql.shuffle.partitions", 3)
    copy = frame.writeStream.format("kafka").option("topic", "copy")
    copy = copy.option("kafka.bootstrap.servers", "localhost:9092")
    copy.option("checkpointLocation", "/checkpoints/copy").start()
    frame.writeStream.format("memory").queryName("seen").start()
    spark.streams.awaitAnyTermination()
"""


@pytest.mark.gate
def test_explore_runs_a_script_under_schedules(
    kafka: EmbeddedKafka, spark: SparkSession, write: Callable[..., Path]
) -> None:
    """Spark's sink repeats a batch after a crash, so copies are doubled."""
    source = dedent(STREAM).replace("earliest", "latest") + dedent(EXPLORED)
    partitions = spark.conf.get("spark.sql.shuffle.partitions")
    with pytest.raises(Refuted) as refuted:
        explore(
            kafka,
            spark,
            job=Script(write(source)),
            inputs={"orders": Input(["1", "2", "3"], partitions=1)},
            outputs={"copy": all_records()},
            schedules=3,
            without=["batches", "order", "limit", "resend", "reply", "grow", "move", "kill"],
            seed=5,
        )
    assert str(refuted.value).startswith("doubled: the result of the job depends on")
    assert spark.streams.active == []

    explored = explore(
        kafka,
        spark,
        job=Script(write(source)),
        inputs={"orders": Input(["1", "2", "3"], partitions=1)},
        outputs={"copy": all_records(), "seen": table("seen")},
        invariant=lambda out, given: [row["value"] for row in out["seen"]] == given["orders"],
        schedules=1,
    )
    assert explored.schedules == 1
    assert spark.conf.get("spark.sql.shuffle.partitions") == partitions
    failing = write("import sys; sys.exit(3)", "failing.py")
    with pytest.raises(Refuted, match=r"plain schedule already(?s:.*)failing\.py called sys\.exit"):
        explore(
            kafka,
            spark,
            job=Script(failing),
            inputs={"orders": ["1"]},
            outputs={"copy": all_records()},
        )
