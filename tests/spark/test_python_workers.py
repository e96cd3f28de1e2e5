"""A job's Python code runs beside the cluster in the driver's process and disturbs nothing.

Spark's workers are forked from a daemon that Spark starts. Children that the driver itself forks
inherit the cluster and the session but own neither.
"""

import multiprocessing
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType

from embedkafka import EmbeddedKafka
from embedkafka.spark.frames import run_available_now, stream

pytestmark = pytest.mark.gate


PATIENCE_S = 240

#: A child that leaves `with local_session()` and `with EmbeddedKafka()`, and exits as programs do.
UNWINDS = """
import os, sys
from embedkafka import EmbeddedKafka
from embedkafka.spark.session import local_session

with EmbeddedKafka() as kafka, local_session(progress=lambda line: None) as spark:
    orders = kafka.topic("orders")
    orders.write(spark.createDataFrame([("before",)], "value string"))
    child = os.fork()
    if child == 0:
        sys.exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    orders.write(spark.createDataFrame([("after",)], "value string"))
    assert [message.text for message in orders.read()] == ["before", "after"]
    assert os.path.isdir(kafka.scratch_dir())
"""


#: Adds the id of the process it ran in. PySpark 4.3 warns of type hints that it does not know.
marked = F.udf(lambda value: f"{value} in {os.getpid()}", StringType())


def test_workers_run_user_code_and_disturb_nothing(
    spark: SparkSession, kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    source, sink = kafka.topic(partitions=2), kafka.topic()
    source.send_many(map(str, range(20)))
    frame = stream(spark, source).select(marked(F.col("value").cast("string")).alias("value"))
    run_available_now(frame, sink, tmp_path / "checkpoint")
    found = [message.text.split(" in ") for message in sink.read(20)]
    assert sorted(value for value, _ in found) == sorted(map(str, range(20)))
    assert str(os.getpid()) not in {pid for _, pid in found}
    kafka.check()
    assert source.send("more").offset is not None


def test_a_batch_function_uses_the_cluster_of_its_own_process(
    spark: SparkSession, kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    source, sink = kafka.topic(), kafka.topic()
    source.send_many(map(str, range(5)))
    pids = set()

    def copy(batch: Any, number: Any) -> None:
        pids.add(os.getpid())
        values = batch.select(marked(F.col("value").cast("string"))).collect()
        sink.send_many(value.split(" in ")[0] for (value,) in values)

    query = (
        stream(spark, source)
        .writeStream.foreachBatch(copy)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(PATIENCE_S)
    assert pids == {os.getpid()}
    assert [message.text for message in sink.read(5)] == list(map(str, range(5)))
    kafka.check()


# Python warns of every fork in a process with threads.
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_child_of_multiprocessing_leaves_the_session_to_its_parent(
    spark: SparkSession, kafka: EmbeddedKafka
) -> None:
    topic = kafka.topic()
    child = multiprocessing.get_context("fork").Process(target=os.getpid)
    child.start()
    child.join(PATIENCE_S)
    assert child.exitcode == 0
    topic.write(spark.createDataFrame([("still here",)], "value string"))
    assert [message.text for message in topic.read(1)] == ["still here"]
    kafka.check()


def test_a_child_that_leaves_the_with_stops_neither_session_nor_cluster() -> None:
    subprocess.run([sys.executable, "-W", "ignore", "-c", UNWINDS], check=True, timeout=PATIENCE_S)
