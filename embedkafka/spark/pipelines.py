"""`run_pipeline`: a project of Spark Declarative Pipelines, run on the test's session and cluster.

    run_pipeline("pipelines/orders", kafka=kafka, spark=spark, directory=tmp_path)
    assert spark.table("priced").count() == 2

A pipeline is a client of Spark Connect: the session's JVM serves it while it runs, and its tables
are in the session's catalog. Spark's program runs it, in another process, on a copy of the project
whose spec has other addresses and another storage.

Owner: the caller's thread.
Invariants: the project is only read; the server ends with the run.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from embedkafka.runtime.arguments import (
    require_attribute,
    require_list,
    require_mapping,
    require_number,
    require_path,
)
from embedkafka.runtime.failures import AwaitTimeout, ConfigError, EmbedKafkaError
from embedkafka.runtime.temporary import TemporaryDirectory
from embedkafka.spark.connector.installed import release_numbers, require_installed_spark
from embedkafka.spark.execution import require_driver

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FIRST_RELEASE: Final = (4, 1)
_SPECS: Final = ("spark-pipeline.yml", "spark-pipeline.yaml")
_NOT_COPIED: Final = shutil.ignore_patterns("__pycache__", ".git", ".venv", "venv", ".tox")
_ADDRESS: Final = ("bootstrap.servers", "bootstrap_servers")
_SERVICE: Final = "org.apache.spark.sql.connect.service.SparkConnectService$"
_BINDING: Final[Mapping[str, str]] = {
    "spark.connect.grpc.binding.address": "127.0.0.1",
    "spark.connect.grpc.binding.port": "0",
}
_OUTPUT_LINES: Final = 40


class PipelineFailed(EmbedKafkaError):
    """A pipeline's run failed; the message has the end of what it printed."""


def run_pipeline(
    project: str | Path,
    *,
    kafka: Any,
    spark: "SparkSession",
    directory: str | Path | None = None,
    configuration: Mapping[str, str] | None = None,
    arguments: Sequence[str] = (),
    timeout_s: float = 300.0,
) -> str:
    """Runs a pipeline once: every flow takes what is there, as `spark-pipelines run` does.

    Args:
        project: the directory with the pipeline's `spark-pipeline.yml`, or the spec itself.
        kafka: the cluster. Entries of the spec's `configuration` whose names end in
            `bootstrap.servers` lead to it, and so does `KAFKA_BOOTSTRAP_SERVERS` in the
            environment. Any: an `EmbeddedKafka`, or another with `bootstrap_servers`.
        spark: a classic session of Spark 4.1 or later, in whose catalog the tables will be.
        directory: where the checkpoints are kept, so that the next run with it goes on. By default
            none are, and a run takes everything again.
        configuration: entries for the spec's `configuration`, in place of those of that name.
        arguments: further arguments of `spark-pipelines run`, such as `--full-refresh-all`.
        timeout_s: how long the run may take, in seconds of real time.

    Returns:
        What the run printed: its events.

    Raises:
        PipelineFailed: a flow failed, or the project is wrong.
        AwaitTimeout: the run did not end in that time.
        ConfigError: there is no spec, this Spark has no pipelines, or PyYAML is missing.
    """
    given = require_path("project", project)
    require_attribute("kafka", kafka, "bootstrap_servers", "a cluster")
    require_mapping("configuration", configuration or {}, '{"orders.topic": "orders"}')
    require_list("arguments", arguments, '["--full-refresh-all"]')
    require_number("timeout_s", timeout_s)
    _require_pipelines()
    require_driver(spark, "run_pipeline")
    spec = _require_spec(given)
    with ExitStack() as running:
        scratch = TemporaryDirectory("pipeline-")
        running.callback(scratch.remove)
        storage = Path(scratch.path if directory is None else directory).absolute() / "storage"
        storage.mkdir(parents=True, exist_ok=True)
        copy = scratch.path / "project"
        shutil.copytree(spec.parent, copy, ignore=_NOT_COPIED)
        servers = kafka.bootstrap_servers
        _write_spec(copy / spec.name, storage, servers, configuration or {})
        remote = running.enter_context(_connect_service(spark))
        output = _run(copy / spec.name, arguments, remote, servers, timeout_s)
    _forget_files(spark)
    return output


def _require_pipelines() -> None:
    spark = require_installed_spark()
    if release_numbers(spark.release) < _FIRST_RELEASE:
        raise ConfigError(f"{spark} has no pipelines; they came with Spark 4.1")
    try:
        import yaml  # noqa: F401  # Spark's program needs it too
    except ImportError:
        raise ConfigError("pipelines need PyYAML: pip install 'pyspark[pipelines]'") from None


def _require_spec(project: Path) -> Path:
    found = [project / name for name in _SPECS if (project / name).is_file()]
    if project.is_file():
        found = [project]
    if len(found) != 1:
        raise ConfigError(f"{project} must be a spec, or have one of {', '.join(_SPECS)}")
    return found[0].absolute()


def _write_spec(spec: Path, storage: Path, servers: str, configuration: Mapping[str, str]) -> None:
    """The project's spec with the test's addresses and storage."""
    import yaml

    written = yaml.safe_load(spec.read_text(encoding="utf-8"))
    if not isinstance(written, dict):
        raise PipelineFailed(f"{spec.name} is not a mapping")
    settings = dict(written.get("configuration") or {})
    settings |= {name: servers for name in settings if str(name).endswith(_ADDRESS)}
    settings |= dict(configuration)
    changed = {**written, "storage": storage.as_uri(), "configuration": settings}
    spec.write_text(yaml.safe_dump(changed), encoding="utf-8")


@contextmanager
def _connect_service(spark: "SparkSession") -> Iterator[str]:
    """The session's JVM serves Spark Connect on loopback; yields the address."""
    context: Any = spark.sparkContext
    jvm = context._jvm
    service = getattr(getattr(jvm, _SERVICE), "MODULE$")
    running = context._jsc.sc()
    for key, value in _BINDING.items():
        running.conf().set(key, value)
    service.start(running)
    try:
        yield f"sc://127.0.0.1:{service.localPort()}"
    finally:
        none = jvm.scala.Option.empty()
        service.stop(none, none)


def _forget_files(spark: "SparkSession") -> None:
    """The session may know the files of tables that another session of it has written again."""
    session: Any = spark
    session._jsparkSession.sessionState().catalog().invalidateAllCachedTables()


def _run(spec: Path, arguments: Sequence[str], remote: str, servers: str, timeout_s: float) -> str:
    command = [sys.executable, "-m", "pyspark.pipelines.cli", "run", "--spec", str(spec)]
    environ = {
        **os.environ,
        "KAFKA_BOOTSTRAP_SERVERS": servers,
        "SPARK_REMOTE": remote,
        "SPARK_CONNECT_MODE_ENABLED": "1",
    }
    try:
        done = subprocess.run(
            [*command, *arguments],
            cwd=spec.parent,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired as late:
        output = late.stdout.decode(errors="replace") if isinstance(late.stdout, bytes) else ""
        raise AwaitTimeout(
            f"waited {timeout_s:g} s for the end of the pipeline; it printed:\n{_end_of(output)}"
        ) from None
    if done.returncode:
        raise PipelineFailed(f"the pipeline failed:\n{_end_of(done.stdout)}")
    return done.stdout


def _end_of(output: str) -> str:
    return "\n".join(f"  {line}" for line in output.splitlines()[-_OUTPUT_LINES:])
