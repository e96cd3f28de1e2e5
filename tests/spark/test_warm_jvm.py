"""Sessions on one JVM, one after the other, each from another process."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from embedkafka import EmbeddedKafka
from embedkafka.spark.connector.jars import require_connector
from embedkafka.spark.warm.home import find_kept
from tests.doubles.warm_home import await_keepers

pytestmark = pytest.mark.gate

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
        if not each.name.startswith(("spark-", "artifacts-", "lib", "snappy", "zstd", "hsperf"))
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


@pytest.mark.timeout(550)
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
    done = run(home, "-c", SESSION, *arguments, environ=environ)
    assert done.returncode == code, done.stderr
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def run(
    home: Path,
    *arguments: str,
    cwd: Path | None = None,
    environ: Mapping[str, str] = {},
    timeout_s: float = 170,
) -> "subprocess.CompletedProcess[str]":
    """Runs Python with another directory for temporary files."""
    jars = os.pathsep.join(str(jar) for jar in require_connector().jars)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    kept.pop("CI", None)
    own = {"TMPDIR": str(home.parent), "EMBEDKAFKA_SPARK_JARS": jars}
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env={**kept, **own, **environ},
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )


#: Two projects have these, with other results.
SHARED = "def mark(text):\n    return {mark!r} + text\n"
JOBS = """
import shared
from pyspark.sql import functions as F
from shared import mark

def test_a_function_in_python(spark):
    spark.sparkContext.addPyFile(shared.__file__)
    spark.udf.register("mark", mark)
    spark.createDataFrame([("x",)], ["text"]).createOrReplaceTempView("texts")
    assert spark.sql("SELECT mark(text) FROM texts").first()[0] == {mark!r} + "x"
    assert [table.name for table in spark.catalog.listTables()] == ["texts"]

def test_a_function_of_pandas(spark):
    double = F.pandas_udf(lambda texts: {mark!r} + texts, "string")
    frame = spark.createDataFrame([("x",)], ["text"])
    assert frame.select(double("text")).first()[0] == {mark!r} + "x"

def test_foreach_batch(kafka, spark, spark_checkpoint):
    orders = kafka.topic("orders")
    orders.send(mark("order"))
    taken = []
    frame = orders.stream(spark).select(F.col("value").cast("string"))
    writer = frame.writeStream.option("checkpointLocation", spark_checkpoint)
    writer = writer.foreachBatch(lambda batch, _: taken.extend(row[0] for row in batch.collect()))
    writer.trigger(availableNow=True).start().awaitTermination()
    assert taken == [{mark!r} + "order"]

def copy(spark, options):
    source = spark.readStream.format("kafka").options(**options.read("given")).load()
    writer = source.select("key", "value").writeStream.format("kafka")
    return writer.options(**options.sink("made")).trigger(**options.trigger).start()

def test_explored(kafka, spark):
    from embedkafka.explore import Input, explore, latest_by_key
    from embedkafka.explore.terms import StepKind

    given = dict(inputs={{"given": Input([{{"sku": mark("a"), "n": 1}}], key="sku")}})
    given.update(outputs={{"made": latest_by_key()}}, seed=1, job=copy)
    explore(kafka, spark, schedules=2, **given)
    others = [kind.value for kind in StepKind if kind.value != "jvm"]
    explore(kafka, spark, schedules=2, kill_jvm=True, without=others, **given)
"""


@pytest.mark.timeout(550)
def test_two_projects_have_one_jvm_in_turn(warm_home: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "shared.py").write_text(SHARED.format(mark=name))
        (tmp_path / name / "test_jobs.py").write_text(JOBS.format(mark=name))
    pytest_ = ("-m", "pytest", "-p", "no:cacheprovider", "-rA", "--spark-warm", "--kafka-brokers=1")
    for number, name in enumerate(("one", "two", "one"), start=1):
        chosen = "not explored" if number > 1 else ""
        done = run(warm_home, *pytest_, name, "-k", chosen, cwd=tmp_path)
        assert done.returncode == 0, done.stdout + done.stderr
        assert ("spark: warm JVM" in done.stdout) == (number > 1)
        (kept,) = find_kept(warm_home)
        assert (kept.state, kept.description["leases"]) == ("free", number)


#: Each worker of xdist runs this.
AUDITED = """
from embedkafka.spark import assert_delivered

def test_copies(kafka, spark):
    given, made = kafka.topic(), kafka.topic()
    given.write(spark.createDataFrame([("a", "1"), ("b", "2")], "key STRING, value STRING"))
    made.write(given.to_df(spark))
    assert assert_delivered(given, made).ok
"""


@pytest.mark.timeout(550)
def test_each_worker_of_xdist_takes_a_warm_jvm_and_audits_on_it(
    warm_home: Path, tmp_path: Path
) -> None:
    (tmp_path / "test_audited.py").write_text(AUDITED)
    arguments = ("-m", "pytest", "-p", "no:cacheprovider", "--spark-warm", "--kafka-brokers=1")
    for sessions in (1, 2):
        done = run(warm_home, *arguments, "-n", "2", "--dist", "each", cwd=tmp_path)
        assert done.returncode == 0, done.stdout + done.stderr
        kept = find_kept(warm_home)
        assert [(each.state, each.description["leases"]) for each in kept] == 2 * [
            ("free", sessions)
        ]


#: Three sessions of one process, of which the second needs another JVM.
THREE = """
import json
from embedkafka import EmbeddedKafka
from embedkafka.spark import local_session

jvms = []
with EmbeddedKafka(brokers=1) as kafka:
    for option in ("-Done=1", "-Dtwo=2", "-Done=1"):
        config = {"spark.driver.extraJavaOptions": option}
        with local_session(warm=True, config=config) as spark:
            topic = kafka.topic()
            topic.write(spark.createDataFrame([("a",)], "value STRING"))
            seen = []
            writer = topic.stream(spark).writeStream.trigger(availableNow=True)
            writer.foreachBatch(lambda batch, _: seen.extend(batch.collect())).start()
            for query in spark.streams.active:
                query.awaitTermination()
            assert len(seen) == 1, seen
            assert spark._jvm.System.getProperty(option[2:5]) == option[-1]
            jvms.append(spark._jvm.java.lang.ProcessHandle.current().pid())
print(json.dumps(jvms))
"""


@pytest.mark.timeout(550)
def test_a_process_has_several_warm_jvms_in_turn(warm_home: Path) -> None:
    done = run(warm_home, "-c", THREE)
    assert done.returncode == 0, done.stderr
    first, second, third = json.loads(done.stdout.splitlines()[-1])
    assert third == first != second
    assert [kept.state for kept in find_kept(warm_home)] == ["free", "free"]


@pytest.mark.timeout(550)
def test_the_audit_command_takes_a_warm_jvm(warm_home: Path, kafka: EmbeddedKafka) -> None:
    orders = kafka.topic("orders")
    orders.send("a")
    where = ("--bootstrap", kafka.bootstrap_servers, "--source", "orders", "--sink", "orders")
    for sessions in (1, 2):
        arguments = ("-m", "embedkafka.cli", "audit", *where)
        done = run(warm_home, *arguments, environ={"EMBEDKAFKA_SPARK_WARM": "1"})
        assert done.returncode == 0, done.stdout + done.stderr
        (kept,) = find_kept(warm_home)
        assert (kept.state, kept.description["leases"]) == ("free", sessions)
