"""What Spark tests cost in CPU seconds: from `pytest` to the first green test, and each query more.

Each line changes one setting. Java, Python and the brokers count. Rounds alternate between the
lines, so that a busy moment of the machine meets them all, and the table shows medians. pytest
loads no other plugin than ours, and Python keeps its bytecode: what a machine for development adds
is in no line. It reads /proc, so it runs on Linux.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

from embedkafka.spark.class_archive import AT_ITS_ADDRESS
from embedkafka.spark.connector.jar_cache import cache_home
from embedkafka.spark.local_files import SETTING
from embedkafka.spark.warm.home import default_home, find_kept, stop_kept

#: A stateful query from topic to topic, five times; it notes the CPU so far after each.
SUITE: Final = '''
import glob, json, os, resource, time
import pytest
from pyspark import SparkContext

QUERIES = 5

def cpu_seconds():
    """Of this process, of Spark's JVM and of what it started: the launcher and `chmod`."""
    own = resource.getrusage(resource.RUSAGE_SELF)
    jvm = str(SparkContext._jvm.java.lang.ProcessHandle.current().pid())
    return own.ru_utime + own.ru_stime + jvm_seconds(jvm) - SPENT

def jvm_seconds(jvm):
    ticks = sum(ticks_of(path, jvm) for path in glob.glob("/proc/[0-9]*/stat"))
    return ticks / os.sysconf("SC_CLK_TCK")

def ticks_of(path, jvm):
    """Those of the JVM with its children, or of a child that has ended and waits to be seen."""
    try:
        with open(path) as stat:
            _, parent, *rest = stat.read().rsplit(")", 1)[1].split()
    except OSError:
        return 0
    return sum(map(int, rest[9:13])) if path.split("/")[2] == jvm or parent == jvm else 0

WARM = os.environ.get("JVM")
SPENT = jvm_seconds(WARM) if WARM else 0

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
        marks.write(f"{cpu_seconds()} {time.time() - float(os.environ['BEGAN'])}\\n")
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
    local_files: bool = True
    warm: bool = False
    """In a JVM that a run before has left."""


class Mark(NamedTuple):
    """Seconds from the start of pytest to the end of a test."""

    cpu: float
    wall: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    first_test: float
    further_query: float
    first_test_wall: float


_FILE_CONTEXT: Final = (
    "org.apache.spark.sql.execution.streaming.FileContextBasedCheckpointFileManager"
)
_JMX: Final = "kafka.auto.include.jmx.reporter"
_SPARKS_OWN: Final = {
    "spark.sql.streaming.checkpointFileManagerClass": _FILE_CONTEXT,
}
_HADOOPS: Final = "org.apache.hadoop.fs.LocalFileSystem"
_HELPER: Final = "-Djdk.lang.Process.launchMechanism=POSIX_SPAWN"
_MEMORY_MB: Final = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20
#: What Java chooses: a 64th of the memory, and a third of that for new objects.
_JAVAS_HEAP: Final = f"-Xms{_MEMORY_MB // 64}m -XX:NewSize={_MEMORY_MB // 192}m"
_ANY_ADDRESS: Final = "-XX:ArchiveRelocationMode=1"
SETTINGS: Final = (
    Setting(
        name="nothing of this",
        archived=False,
        local_files=False,
        java=f"{_HELPER} {_JAVAS_HEAP}",
        config=_SPARKS_OWN,
    ),
    Setting(
        name="archive only",
        local_files=False,
        java=f"{_HELPER} {_JAVAS_HEAP} {_ANY_ADDRESS}",
        config=_SPARKS_OWN,
    ),
    Setting(name="as it is"),
    Setting(name="no archive", archived=False),
    Setting(name="Hadoop's local files", local_files=False),
    Setting(name="warm JVM", warm=True),
    Setting(
        name="Spark's checkpoints",
        config={"spark.sql.streaming.checkpointFileManagerClass": _FILE_CONTEXT},
    ),
    Setting(name="small pages", config={"spark.buffer.pageSize": "2m"}),
    Setting(name="a helper per process", java=_HELPER),
    Setting(name="optimised machine code", java="-XX:TieredStopAtLevel=4"),
    Setting(name="Java's heap", java=_JAVAS_HEAP),
    Setting(name="archive at any address", java=_ANY_ADDRESS),
    Setting(name="a heap that grows", java="-Xms96m"),
    Setting(name="larger heap", java="-Xms512m -Xmn256m"),
    Setting(name="late compilation", java="-XX:CompileThresholdScaling=4"),
    Setting(name="little inlining", java="-XX:C1MaxInlineSize=10 -XX:C1MaxInlineLevel=2"),
    Setting(name="no verification", java="-XX:-BytecodeVerificationRemote"),
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
    Setting(name="eight shuffle partitions", config={"spark.sql.shuffle.partitions": "8"}),
    Setting(name="web page", config={"spark.ui.enabled": "true", "spark.ui.port": "0"}),
    Setting(name="log of everything", config={"spark.log.level": "INFO"}),
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
        kinds = {each.local_files for each in chosen if each.archived}
        archives = {own: _write_archive(Path(folder), own) for own in kinds}
        for _ in range(options.rounds):
            for setting in chosen:
                cost = _measure(setting, Path(folder), archives)
                costs[setting.name].append(cost)
                print(f"{setting.name}: {cost}", file=sys.stderr, flush=True)
    print(f"{'setting':<32}{'first test':>12}{'further query':>16}{'first test, wall':>20}")
    for name, measured in costs.items():
        first = statistics.median(cost.first_test for cost in measured)
        further = statistics.median(cost.further_query for cost in measured)
        wall = statistics.median(cost.first_test_wall for cost in measured)
        print(f"{name:<32}{first:>12.1f}{further:>16.2f}{wall:>20.1f}")


def _write_archive(folder: Path, local_files: bool) -> Path:
    """By a run that is not measured. An archive fits one class path."""
    archives = cache_home(os.environ) / "spark-archives"
    switch = [] if local_files else [f"--spark-config={SETTING}={_HADOOPS}"]
    _run(folder, "--spark-archive=new", *switch, environ={"SOURCE": "{}"})
    return max(archives.glob("*.jsa"), key=lambda path: path.stat().st_mtime)


def _measure(setting: Setting, folder: Path, archives: Mapping[bool, Path]) -> Cost:
    """With the archive as an option of its own: another Java option would want another archive."""
    archive = archives[setting.local_files] if setting.archived else None
    options = (f"-XX:SharedArchiveFile={archive}", *AT_ITS_ADDRESS, "-Xlog:disable")
    used = " ".join(options) if archive else ""
    java = f"{used} {setting.java}".strip()
    config = {**setting.config, **({"spark.driver.extraJavaOptions": java} if java else {})}
    if not setting.local_files:
        config[SETTING] = _HADOOPS
    arguments = [f"--spark-config={key}={value}" for key, value in config.items()]
    arguments.append("--spark-archive=no")
    environ = {"SOURCE": json.dumps(dict(setting.source))}
    if setting.warm:
        marks = _run_warm(folder, *arguments, environ=environ)
    else:
        marks = _run(folder, *arguments, environ=environ)
    return Cost(
        first_test=marks[0].cpu,
        further_query=statistics.median(_steps([mark.cpu for mark in marks])),
        first_test_wall=marks[0].wall,
    )


def _run_warm(folder: Path, *arguments: str, environ: Mapping[str, str]) -> list[Mark]:
    """The second of two runs, in the JVM of the first, which then ends."""
    environ = {**environ, "TMPDIR": str(folder)}
    home = folder / default_home().name
    try:
        _run(folder, "--spark-warm", *arguments, environ=environ)
        (kept,) = find_kept(home)
        jvm = str(kept.description["jvm"])
        return _run(folder, "--spark-warm", *arguments, environ={**environ, "JVM": jvm})
    finally:
        for line in stop_kept(home):
            print(line, file=sys.stderr)


def _steps(marks: list[float]) -> list[float]:
    return [after - before for before, after in pairwise(marks)]


def _run(folder: Path, *arguments: str, environ: Mapping[str, str]) -> list[Mark]:
    marks = folder / "marks"
    marks.unlink(missing_ok=True)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--kafka-brokers=1"]
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    python = {
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTEST_PLUGINS": "pytest_embedkafka.plugin",
        "PYTHONPYCACHEPREFIX": str(folder / "bytecode"),
    }
    subprocess.run(
        [*command, *arguments, "test_queries.py"],
        cwd=folder,
        env={**kept, **python, **environ, "MARKS": str(marks), "BEGAN": str(time.time())},
        stdout=subprocess.DEVNULL,
        timeout=600,
        check=True,
    )
    return [Mark(*map(float, line.split())) for line in marks.read_text().splitlines()]


if __name__ == "__main__":
    main()
