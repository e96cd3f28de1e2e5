"""Sessions on one JVM, one after the other, each from another process."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from embedkafka.spark.connector.jars import require_connector
from embedkafka.spark.warm.home import find_kept
from tests.doubles.warm_home import await_keepers

pytestmark = [pytest.mark.gate, pytest.mark.timeout(550)]

#: Prints what a session finds at its start, then leaves as much behind as it can.
SESSION = """
import json, os, signal, sys
from pathlib import Path
from embedkafka import EmbeddedKafka
from embedkafka.spark import local_session

def look(spark, jvm, log4j):
    found = {}
    found["tables"] = [table.name for table in spark.catalog.listTables()]
    found["global"] = [table.name for table in spark.catalog.listTables("global_temp")]
    found["databases"] = [each.name for each in spark.catalog.listDatabases()]
    found["database"] = spark.catalog.currentDatabase()
    found["function"] = spark.catalog.functionExists("twice")
    found["setting"] = spark.conf.get("spark.sql.ansi.enabled")
    found["queries"] = len(spark.streams.active)
    found["cached"] = spark.sparkContext._jsc.getPersistentRDDs().size()
    found["hadoop"] = spark.sparkContext._jsc.hadoopConfiguration().get("left.behind")
    found["properties"] = [
        jvm.System.getProperty(name) for name in ("left.behind", "user.timezone", "spark.left")
    ]
    found["zone"] = jvm.java.util.TimeZone.getDefault().getID()
    found["levels"] = [
        log4j.LogManager.getLogger(name).getLevel().toString() for name in ("", "left.behind")
    ]
    found["files"] = sorted(
        each.name for each in Path(jvm.System.getProperty("java.io.tmpdir")).iterdir()
        if not each.name.startswith(("spark-", "lib", "liblz4", "snappy", "zstd", "hsperf"))
    )
    threads = jvm.java.lang.Thread.getAllStackTraces().keySet().toString()
    found["threads"] = [
        name for name in ("stream execution", "kafka-producer-network", "left behind")
        if name in threads
    ]
    found["log"] = Path(spark.conf.get("spark.embedkafka.log.file")).read_text().count("LEFT")
    return found

def pollute(spark, jvm, log4j, kafka):
    from pyspark.sql import functions as F
    frame = spark.range(10).cache()
    assert frame.count() == 10
    frame.createOrReplaceTempView("left")
    frame.createOrReplaceGlobalTempView("left")
    spark.sql("CREATE DATABASE left_behind")
    spark.sql("USE left_behind")
    frame.write.saveAsTable("left")
    spark.conf.set("spark.sql.ansi.enabled", "false")
    spark.udf.register("twice", lambda text: 2 * os.environ["ORDERS"], "string")
    workers = [row[0] for row in spark.sql("SELECT twice('a')").collect()]
    spark.sparkContext._jsc.hadoopConfiguration().set("left.behind", "yes")
    for name in ("left.behind", "spark.left"):
        jvm.System.setProperty(name, "yes")
    jvm.System.setProperty("user.timezone", "Asia/Tokyo")
    jvm.java.util.TimeZone.setDefault(jvm.java.util.TimeZone.getTimeZone("Asia/Tokyo"))
    spark.sparkContext.setLogLevel("ERROR")
    log4j.core.config.Configurator.setLevel("left.behind", log4j.Level.TRACE)
    Path(jvm.System.getProperty("java.io.tmpdir"), "left").mkdir()
    jvm.System.err.println("LEFT")
    given, made = kafka.topic("given"), kafka.topic("made")
    given.send_json({"sku": "a"})
    batches = []
    source = given.stream(spark)
    writer = source.select(F.col("value").cast("string").alias("value")).writeStream
    def keep(batch, number):
        batches.extend(row.value for row in batch.collect())
        made.write(batch)
    query = writer.foreachBatch(keep).start()
    query.processAllAvailable()  # and goes on
    assert batches == ['{"sku": "a"}'], batches
    assert len(made.read()) == 1
    return workers

with EmbeddedKafka(brokers=1) as kafka, local_session(warm=True) as spark:
    jvm, log4j = spark._jvm, spark._jvm.org.apache.logging.log4j
    process = jvm.java.lang.ProcessHandle.current().pid()
    found = look(spark, jvm, log4j)
    workers = pollute(spark, jvm, log4j, kafka)
    print(json.dumps({"jvm": process, "found": found, "workers": workers}), flush=True)
    if sys.argv[1:] == ["die"]:
        os.kill(os.getpid(), signal.SIGKILL)
"""


def test_two_sessions_in_a_row_see_nothing_of_each_other(warm_home: Path) -> None:
    first = run_session(warm_home, ORDERS="5")
    second = run_session(warm_home, ORDERS="6")
    assert second["jvm"] == first["jvm"]
    assert second["found"] == first["found"]
    assert first["found"] == {
        "tables": [],
        "global": [],
        "databases": ["default"],
        "database": "default",
        "function": False,
        "setting": "true",
        "queries": 0,
        "cached": 0,
        "hadoop": None,
        "properties": [None, first["found"]["zone"], None],
        "zone": first["found"]["zone"],
        "levels": first["found"]["levels"],
        "files": [],
        "threads": [],
        "log": 0,
    }
    assert (first["workers"], second["workers"]) == (["55"], ["66"])

    killed = run_session(warm_home, "die", ORDERS="7", code=-signal.SIGKILL)
    assert killed["jvm"] == first["jvm"]
    await_keepers(warm_home)
    assert find_kept(warm_home) == []


def run_session(home: Path, *arguments: str, code: int = 0, **environ: str) -> dict[str, Any]:
    done = run(home, "-c", SESSION, *arguments, **environ)
    assert done.returncode == code, done.stderr
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def run(home: Path, *arguments: str, **environ: str) -> "subprocess.CompletedProcess[str]":
    """Runs Python with another directory for temporary files."""
    jars = os.pathsep.join(str(jar) for jar in require_connector().jars)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    kept.pop("CI", None)
    own = {"TMPDIR": str(home.parent), "EMBEDKAFKA_SPARK_JARS": jars}
    return subprocess.run(
        [sys.executable, *arguments],
        env={**kept, **own, **environ},
        capture_output=True,
        text=True,
        timeout=170,
        check=False,
    )
