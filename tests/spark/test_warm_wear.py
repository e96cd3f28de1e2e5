"""A hundred sessions on one JVM, and what it holds after each."""

import json
from pathlib import Path

import pytest

from embedkafka.spark.warm.home import find_kept
from embedkafka.spark.warm.states import MOST_SESSIONS
from tests.doubles.warm_home import await_keepers
from tests.spark.test_warm_jvm import run

pytestmark = pytest.mark.slow

#: Each session measures what those before it have left, then does what tests do.
SESSIONS = """
import json, os, sys, tempfile
from pathlib import Path
from pyspark.sql import functions as F
from embedkafka import EmbeddedKafka
from embedkafka.spark import local_session

def measure(jvm):
    beans = jvm.java.lang.management.ManagementFactory
    jvm.System.gc()
    memory, process = beans.getMemoryMXBean(), jvm.java.lang.ProcessHandle.current().pid()
    temporary = Path(jvm.System.getProperty("java.io.tmpdir"))
    return {
        "jvm": process,
        "KB of the heap": memory.getHeapMemoryUsage().getUsed() >> 10,
        "KB of classes": memory.getNonHeapMemoryUsage().getUsed() >> 10,
        "threads": beans.getThreadMXBean().getThreadCount(),
        "open files": len(os.listdir(f"/proc/{process}/fd")),
        "temporary files": sum(1 for _ in temporary.rglob("*")),
        "own threads": len(os.listdir("/proc/self/task")),
        "own open files": len(os.listdir("/proc/self/fd")),
    }

def work(spark, kafka, checkpoint):
    topic, taken = kafka.topic(), []
    spark.udf.register("twice", lambda text: 2 * text, "string")
    frame = spark.createDataFrame([("a",), ("b",)], "value STRING")
    topic.write(frame.selectExpr("twice(value) AS value"))
    counts = topic.stream(spark).groupBy("value").count()
    writer = counts.writeStream.outputMode("update").option("checkpointLocation", checkpoint)
    writer = writer.foreachBatch(lambda batch, _: taken.extend(batch.collect()))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    assert sorted(map(tuple, taken)) == [("aa", 1), ("bb", 1)], taken
    topic.delete()

with EmbeddedKafka(brokers=1) as kafka:
    for number in range(int(sys.argv[1])):
        with local_session(warm=True) as spark, tempfile.TemporaryDirectory() as checkpoint:
            print(json.dumps(measure(spark._jvm)), flush=True)
            work(spark, kafka, checkpoint)
"""

#: How much more there may be after the last session than after a tenth of them. Each session leaves
#: about a megabyte of heap and an open file, which is why a JVM ends after so many.
SLACK = {
    "KB of the heap": 2.5,
    "KB of classes": 1.6,
    "threads": 1.2,
    "open files": 1.5,
    "temporary files": 1.0,
    "own threads": 1.3,
    "own open files": 1.3,
}


@pytest.mark.timeout(3500)
def test_a_jvm_holds_no_more_after_a_hundred_sessions_and_then_ends(warm_home: Path) -> None:
    done = run(warm_home, "-c", SESSIONS, str(MOST_SESSIONS + 1), timeout_s=3400)
    assert done.returncode == 0, done.stderr
    figures = [json.loads(line) for line in done.stdout.splitlines()]
    assert len({each["jvm"] for each in figures}) == 1
    early, late = figures[MOST_SESSIONS // 10], figures[-1]
    grown = {
        name: (early[name], late[name])
        for name, most in SLACK.items()
        if late[name] > most * early[name]
    }
    assert not grown, figures[:: MOST_SESSIONS // 10]
    assert f"{MOST_SESSIONS + 1} sessions" in done.stderr
    await_keepers(warm_home)
    assert find_kept(warm_home) == []
