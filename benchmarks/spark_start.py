"""What Spark tests cost in CPU seconds: from `pytest` to the first green test, and each query more.

Each line changes one setting. Java, Python and the brokers count. Rounds alternate between the
lines, so that a busy moment of the machine meets them all, and the table shows medians. It reads
/proc, so it runs on Linux.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Final

from embedkafka.spark.connector.jar_cache import cache_home

#: A stateful query from topic to topic, five times; it notes the CPU so far after each.
SUITE: Final = '''
import json, os, resource
import pytest
from pyspark import SparkContext

QUERIES = 5

def cpu_seconds():
    """Of this process, of Spark's JVM and of what it started: the launcher and `chmod`."""
    own = resource.getrusage(resource.RUSAGE_SELF)
    with open(f"/proc/{SparkContext._gateway.proc.pid}/stat") as stat:
        ticks = sum(map(int, stat.read().rsplit(")", 1)[1].split()[11:15]))
    return own.ru_utime + own.ru_stime + ticks / os.sysconf("SC_CLK_TCK")

@pytest.mark.parametrize("number", range(QUERIES))
def test_query(kafka, spark, tmp_path, number):
    given, made = kafka.topic(), kafka.topic()
    for sku in "aba":
        given.send_json({"sku": sku})
    options = given.spark_options(**json.loads(os.environ["SOURCE"]))
    source = spark.readStream.format("kafka").options(**options).load()
    sku = source.selectExpr("get_json_object(cast(value AS string), '$.sku') AS key")
    counts = sku.groupBy("key").count().selectExpr("key", "cast(count AS string) AS value")
    writer = counts.writeStream.format("kafka").outputMode("update")
    writer = writer.option("kafka.bootstrap.servers", kafka.bootstrap_servers)
    writer = writer.option("topic", made.name).option("checkpointLocation", str(tmp_path / "c"))
    writer.trigger(availableNow=True).start().awaitTermination()
    assert {record.key: record.value for record in made.read()} == {b"a": b"2", b"b": b"1"}
    with open(os.environ["MARKS"], "a") as marks:
        marks.write(f"{cpu_seconds()}\\n")
'''


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One line of the table; `java` options are added to those of the session."""

    name: str
    java: str = ""
    config: Mapping[str, str] = field(default_factory=dict)
    source: Mapping[str, str] = field(default_factory=dict)
    """Options of the query's source."""
    archived: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    first_test: float
    further_query: float


_FILE_CONTEXT: Final = (
    "org.apache.spark.sql.execution.streaming.FileContextBasedCheckpointFileManager"
)
_JMX: Final = "kafka.auto.include.jmx.reporter"
SETTINGS: Final = (
    Setting(
        name="no archive, Spark's checkpoints",
        archived=False,
        config={"spark.sql.streaming.checkpointFileManagerClass": _FILE_CONTEXT},
    ),
    Setting(
        name="Spark's checkpoints",
        config={"spark.sql.streaming.checkpointFileManagerClass": _FILE_CONTEXT},
    ),
    Setting(name="no archive", archived=False),
    Setting(name="as it is"),
    Setting(name="larger heap", java="-Xms512m -Xmn256m"),
    Setting(name="MetaspaceSize", java="-XX:MetaspaceSize=256m"),
    Setting(name="late compilation", java="-XX:CompileThresholdScaling=4"),
    Setting(name="no verification", java="-XX:-BytecodeVerificationRemote"),
    Setting(name="a helper per process", java="-Djdk.lang.Process.launchMechanism=POSIX_SPAWN"),
    Setting(name="no JMX", java="-Dlog4j2.disable.jmx=true", source={_JMX: "false"}),
    Setting(name="no whole-stage code", config={"spark.sql.codegen.wholeStage": "false"}),
    Setting(
        name="no generated code",
        config={
            "spark.sql.codegen.wholeStage": "false",
            "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        },
    ),
    Setting(name="no adaptive plans", config={"spark.sql.adaptive.enabled": "false"}),
    Setting(name="one shuffle partition", config={"spark.sql.shuffle.partitions": "1"}),
    Setting(name="long fetch wait", source={"kafka.fetch.max.wait.ms": "500"}),
)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark_start")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument(
        "--only", action="append", choices=[setting.name for setting in SETTINGS], metavar="NAME"
    )
    options = parser.parse_args()
    chosen = [each for each in SETTINGS if not options.only or each.name in options.only]
    costs: dict[str, list[Cost]] = {each.name: [] for each in chosen}
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "test_queries.py").write_text(SUITE)
        archive = _require_archive(Path(folder))
        for _ in range(options.rounds):
            for setting in chosen:
                cost = _measure(setting, Path(folder), archive)
                costs[setting.name].append(cost)
                print(f"{setting.name}: {cost}", file=sys.stderr, flush=True)
    print(f"{'setting':<32}{'first test':>12}{'further query':>16}")
    for name, measured in costs.items():
        first = statistics.median(cost.first_test for cost in measured)
        further = statistics.median(cost.further_query for cost in measured)
        print(f"{name:<32}{first:>12.1f}{further:>16.2f}")


def _require_archive(folder: Path) -> Path:
    """Written by a first run, which is not measured."""
    archives = cache_home(os.environ) / "spark-archives"
    _run(folder, "--spark-archive=auto", environ={"CI": "", "SOURCE": "{}"})
    return max(archives.glob("*.jsa"), key=lambda path: path.stat().st_mtime)


def _measure(setting: Setting, folder: Path, archive: Path) -> Cost:
    """With the archive as an option of its own: another Java option would want another archive."""
    used = f"-XX:SharedArchiveFile={archive} -Xlog:disable" if setting.archived else ""
    java = f"{used} {setting.java}".strip()
    config = {**setting.config, **({"spark.driver.extraJavaOptions": java} if java else {})}
    arguments = [f"--spark-config={key}={value}" for key, value in config.items()]
    arguments.append("--spark-archive=no")
    marks = _run(folder, *arguments, environ={"SOURCE": json.dumps(dict(setting.source))})
    return Cost(first_test=marks[0], further_query=statistics.median(_steps(marks)))


def _steps(marks: list[float]) -> list[float]:
    return [after - before for before, after in pairwise(marks)]


def _run(folder: Path, *arguments: str, environ: Mapping[str, str]) -> list[float]:
    marks = folder / "marks"
    marks.unlink(missing_ok=True)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--kafka-brokers=1"]
    subprocess.run(
        [*command, *arguments, "test_queries.py"],
        cwd=folder,
        env={**os.environ, **environ, "MARKS": str(marks)},
        stdout=subprocess.DEVNULL,
        timeout=600,
        check=True,
    )
    return [float(line) for line in marks.read_text().splitlines()]


if __name__ == "__main__":
    main()
