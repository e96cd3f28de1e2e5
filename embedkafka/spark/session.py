"""A local Spark session that starts quickly, has the connector and leaves nothing behind.

Owner: the thread inside `local_session`. The class path of a running JVM cannot change, so each
session starts a JVM, which ends with it, or leases one that fits and is kept warm.
Not here: a session on a real cluster (`remote`), how JVMs are kept (`warm`).
"""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from embedkafka.runtime.failures import EmbedKafkaError
from embedkafka.runtime.forks import Owner
from embedkafka.runtime.temporary import TemporaryDirectory
from embedkafka.spark.class_archive import (
    NEW,
    NO,
    USE,
    Launch,
    SessionArchive,
    find_launch,
    require_wish,
    session_archive,
)
from embedkafka.spark.connector.installed import (
    InstalledSpark,
    release_numbers,
    require_installed_spark,
)
from embedkafka.spark.connector.jars import require_connector
from embedkafka.spark.connector.java import find_java, java_version, read_release
from embedkafka.spark.connector.packages import require_packages
from embedkafka.spark.connector.progress import Progress, print_progress
from embedkafka.spark.connector.table_formats import format_settings
from embedkafka.spark.local_files import local_files
from embedkafka.spark.warm.wish import wants_warm

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from embedkafka.spark.warm.lease import Lease

#: The conf key that holds the path of the JVM's stderr.
LOG_FILE_KEY: Final = "spark.embedkafka.log.file"

#: The conf key that holds the arguments of `local_session`, as JSON.
_ARGUMENTS_KEY: Final = "spark.embedkafka.session"

_EXTRA_JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"
_EXTRA_CLASS_PATH: Final = "spark.driver.extraClassPath"

#: A test run is too short for optimised machine code to pay: these halve the CPU of a first test.
_JAVA_OPTIONS: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"

#: A first test fills 32 MB of new objects again and again, and what it keeps fits into the rest.
#: Java would start with a 64th of the machine's memory, and the kernel clears each page of new
#: objects when it is first touched. A smaller heap would grow, which takes a collection of it all.
_SMALL_HEAP: Final = "-Xms160m -XX:NewSize=32m"

#: Hadoop runs `chmod` for every file of a checkpoint. From 13 on, Java starts a helper before each
#: process; from 22 on, it is about to drop the older way. Linux only.
_NO_HELPER: Final = "-Djdk.lang.Process.launchMechanism=VFORK"
_WITH_HELPER: Final = ((13,), (22,))

_SETTINGS: Final[Mapping[str, str]] = {
    "spark.master": "local[2]",
    # The machine's host name may resolve to an address that does not answer.
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.default.parallelism": "2",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
}

#: The jars that most classes come from, in the order of how many. Java looks for a class in one jar
#: after the other, and Spark has hundreds in the order that the disk lists them. Whole names may
#: differ: a release follows.
_POPULAR_JARS: Final = (
    *("spark-catalyst_", "scala-library-", "spark-core_", "scala-reflect-", "spark-sql_"),
    *("spark-sql-api_", "log4j-core-", "jackson-databind-", "hadoop-client-api-", "janino-"),
    *("spark-common-utils_", "netty-common-", "spark-network-common_", "hadoop-client-runtime-"),
    *("ivy-", "antlr4-runtime-", "jackson-module-scala_", "netty-transport-4", "jackson-core-"),
)

_FILE_MANAGER: Final = "spark.sql.streaming.checkpointFileManagerClass"

_LOG_LEVEL: Final = "spark.log.level"
_LOG_PROFILE: Final = "org/apache/spark/log4j2-defaults.properties"

_STOP_TIMEOUT_SECONDS: Final = 20
_LOG_TAIL_LINES: Final = 20


class SparkStartFailed(EmbedKafkaError):
    """Spark's JVM did not start; the message has the Java that was tried and its last output."""


@contextmanager
def local_session(
    app_name: str = "embedkafka",
    *,
    jars: Sequence[str | Path] | None = None,
    packages: Sequence[str] = (),
    config: Mapping[str, object] | None = None,
    archive: str | None = None,
    warm: bool | None = None,
    progress: Progress = print_progress,
) -> "Iterator[SparkSession]":
    """A session with the Kafka connector, for the length of a `with` block.

    Args:
        app_name: Spark's name of the application.
        jars: the connector's jars; by default they are searched for, and downloaded if necessary.
        packages: further modules, found like the connector: `spark-avro`, `spark-protobuf`,
            and with the settings they need `delta` and `iceberg`.
        config: Spark settings, which override ours; its Java options and class path are appended.
        archive: whether Java starts from an archive of Spark's classes, which the first session
            writes into the cache when it ends (about 170 MB): `auto`, `use` to write none, `no`,
            or `new` to write it again. By default `EMBEDKAFKA_SPARK_ARCHIVE` decides, or `auto`.
        warm: whether the session takes a JVM that an earlier one has left, or leaves its own for
            ten minutes. By default `EMBEDKAFKA_SPARK_WARM=1` decides. Where that cannot be, a line
            says why, and the session has its own JVM.
        progress: gets a line about each step that takes time; prints it on stderr by default.

    Raises:
        SparkNotFound: PySpark is not installed.
        ConnectorNotFound: there is no connector or package for this Spark.
        SparkStartFailed: there is no suitable Java, or this process has a Spark JVM already.
    """
    spark = require_installed_spark()
    _require_no_session()
    _require_java(spark)
    wish = require_wish(archive, os.environ)
    owner = Owner()
    connector = require_connector(jars, progress=progress)
    further = require_packages(packages, given=connector.jars, progress=progress)
    with ExitStack() as running:
        directory = running.enter_context(_temporary_directory())
        running.enter_context(_no_artifacts_folder())
        all_jars = (*connector.jars, *further)
        settings = _settings(app_name, all_jars, spark, directory, packages, config or {})
        settings[_ARGUMENTS_KEY] = _as_json(app_name, connector.jars, packages, config or {})
        is_warm = wants_warm(warm, os.environ) and wish != NEW
        lease = _lease_jvm(settings, spark, wish, progress) if is_warm else None
        hosted: Callable[[SparkSession], AbstractContextManager[object]] = nullcontext
        if lease is not None:
            from embedkafka.spark.warm.gateway import attached, guest

            settings[LOG_FILE_KEY] = str(lease.log_file)
            running.enter_context(attached(lease, progress))
            hosted = guest
        else:
            classes = running.enter_context(_archive(settings, spark, wish, progress))
            progress(f"starting {spark} with Kafka connector {connector.release}")
            running.enter_context(_running_jvm(settings, classes, directory, spark))
        quiet = _quiet_log() if _is_one_jvm(settings["spark.master"]) else {}
        session = _create_session({**quiet, **settings})
        try:
            with hosted(session):
                yield session
        finally:
            if owner.is_here:  # a forked child would stop its parent's session
                session.stop()


def log_tail(log_file: str | Path, *, start: int = 0, lines: int = _LOG_TAIL_LINES) -> str:
    """The last lines that Spark's JVM wrote to stderr, from byte `start` on."""
    try:
        written = Path(log_file).read_bytes()[start:]
    except OSError:
        return ""
    return "\n".join(written.decode(errors="replace").splitlines()[-lines:])


def find_session_arguments(spark: "SparkSession") -> dict[str, Any] | None:
    """What `local_session` takes to start such a session in another process; None if it did not."""
    context = getattr(spark, "_sc", None)  # a session of Spark Connect has none
    known = context.getConf().get(_ARGUMENTS_KEY) if context is not None else None
    return None if known is None else dict(json.loads(known))


def _as_json(
    app_name: str, jars: Sequence[Path], packages: Sequence[str], config: Mapping[str, object]
) -> str:
    settings = {key: str(value) for key, value in config.items()}
    arguments = {"jars": [str(jar) for jar in jars], "packages": list(packages), "config": settings}
    return json.dumps({"app_name": app_name, **arguments})


def _settings(
    app_name: str,
    jars: Sequence[Path],
    spark: InstalledSpark,
    directory: Path,
    packages: Sequence[str],
    config: Mapping[str, object],
) -> dict[str, str]:
    warehouse = {"spark.sql.warehouse.dir": str(directory / "warehouse")}
    given = {key: str(value) for key, value in config.items()}
    given |= format_settings(packages, warehouse | given)
    master = given.get("spark.master", _SETTINGS["spark.master"])
    # Executors of their own would have another class path.
    file_jars, file_settings = local_files(given) if _is_one_jvm(master) else ([], {})
    own_jars = [str(jar) for jar in (*file_jars, *jars) if jar.parent != spark.jars_dir]
    popular = [str(jar) for jar in _popular_jars(spark)]
    return {
        **_SETTINGS,
        "spark.app.name": app_name,
        "spark.local.dir": str(directory / "local"),
        **warehouse,
        LOG_FILE_KEY: str(directory / "spark.log"),
        **_quick_checkpoints(spark, master),
        **file_settings,
        **given,
        _EXTRA_JAVA_OPTIONS: _joined(
            " ",
            _JAVA_OPTIONS,
            _SMALL_HEAP,
            quick_processes(os.environ),
            given.get(_EXTRA_JAVA_OPTIONS),
        ),
        _EXTRA_CLASS_PATH: _joined(os.pathsep, *own_jars, given.get(_EXTRA_CLASS_PATH), *popular),
    }


def _is_one_jvm(master: str) -> bool:
    """Whether the driver's JVM runs everything."""
    return master == "local" or master.startswith("local[")


def _quick_checkpoints(spark: InstalledSpark, master: str) -> dict[str, str]:
    """On a local disk, Spark's default takes an eighth more CPU for a small query.

    On a cluster, checkpoints are on a store for which Spark knows better.
    """
    if not master.startswith("local"):
        return {}
    package = "org.apache.spark.sql.execution.streaming"
    if release_numbers(spark.release) >= (4, 1):
        package += ".checkpointing"
    return {_FILE_MANAGER: f"{package}.FileSystemBasedCheckpointFileManager"}


def quick_processes(environ: Mapping[str, str]) -> str:
    """The option with which this Java starts a process without a helper, if it has one."""
    java = find_java(environ)
    release = read_release(java) if java and sys.platform == "linux" else None
    first, past = _WITH_HELPER
    if release is None or not first <= release_numbers(release.version) < past:
        return ""
    return _NO_HELPER


def _popular_jars(spark: InstalledSpark) -> Iterator[Path]:
    names = sorted(path.name for path in spark.jars_dir.glob("*.jar"))
    for start in _POPULAR_JARS:
        yield from (spark.jars_dir / name for name in names if name.startswith(start))


def _lease_jvm(
    settings: Mapping[str, str], spark: InstalledSpark, wish: str, progress: Progress
) -> "Lease | None":
    """A warm JVM for these settings; None, after a line, if there can be none."""
    from embedkafka.spark.warm.home import TEMPORARY
    from embedkafka.spark.warm.launch import lease_jvm

    class_path, java_options = settings[_EXTRA_CLASS_PATH], settings[_EXTRA_JAVA_OPTIONS]
    # It uses an archive but writes none: it ends in the background, long after the session.
    archive = _archive(settings, spark, NO if wish == NO else USE, progress)
    with archive as classes, _environment():
        archived = classes.java_options

        def launched(folder: Path) -> dict[str, str]:
            options = (archived, _temporary_options(folder / TEMPORARY), java_options)
            return {_EXTRA_CLASS_PATH: class_path, _EXTRA_JAVA_OPTIONS: _joined(" ", *options)}

        return lease_jvm(
            settings,
            spark,
            class_path=class_path.split(os.pathsep),
            java_options=shlex.split(java_options),
            launched=launched,
            launcher_options=_launcher_options(spark),
            progress=progress,
        )


def _temporary_options(directory: Path) -> str:
    """Where Java and Derby write."""
    return shlex.join([f"-Djava.io.tmpdir={directory}", f"-Dderby.system.home={directory}"])


def _archive(
    settings: Mapping[str, str], spark: InstalledSpark, wish: str, progress: Progress
) -> AbstractContextManager[SessionArchive]:
    return session_archive(_launch(settings, spark), wish, progress=progress, environ=os.environ)


def _launch(settings: Mapping[str, str], spark: InstalledSpark) -> Launch | None:
    options = shlex.split(settings[_EXTRA_JAVA_OPTIONS])
    memory = settings.get("spark.driver.memory", "default")
    return find_launch(
        spark,
        settings[_EXTRA_CLASS_PATH].split(os.pathsep),
        [*options, f"-Xmx{memory}"],
        os.environ,
    )


def _joined(separator: str, *parts: str | None) -> str:
    return separator.join(part for part in parts if part)


@contextmanager
def _running_jvm(
    settings: Mapping[str, str], classes: SessionArchive, directory: Path, spark: InstalledSpark
) -> Iterator[None]:
    """Starts the JVM for PySpark's gateway, with its stderr in a file."""
    from pyspark import SparkContext
    from pyspark.errors import PySparkRuntimeError

    log_file = directory / "spark.log"
    try:
        gateway = _start_gateway(settings, classes, log_file, spark)
    except PySparkRuntimeError as error:
        raise SparkStartFailed(_explain_exit(spark, log_file)) from error
    process: subprocess.Popen[bytes] = gateway.proc
    owner = Owner()
    failed = True
    try:
        classes.on_started(log_file)
        SparkContext._ensure_initialized(gateway=gateway)
        yield
        failed = False
    finally:
        if owner.is_here:
            _end_gateway(gateway)
            _end(
                process,
                classes.on_ending(failed=failed, patience_seconds=_STOP_TIMEOUT_SECONDS),
            )
            classes.on_ended(process.returncode, log_file)


def _start_gateway(
    settings: Mapping[str, str], classes: SessionArchive, log_file: Path, spark: InstalledSpark
) -> Any:
    """Without the archive if the JVM does not start with it: a session never fails for its sake.

    Any: untyped in py4j.
    """
    from pyspark import SparkConf
    from pyspark.errors import PySparkRuntimeError
    from pyspark.java_gateway import launch_gateway

    launch: Any = launch_gateway  # untyped in PySpark
    archived = classes.java_options
    conf = SparkConf(loadDefaults=False)
    conf.setAll(list(settings.items()))
    # In front, so that the caller's options have the last word on what the JVM logs.
    options = (archived, _temporary_options(log_file.parent), settings[_EXTRA_JAVA_OPTIONS])
    conf.set(_EXTRA_JAVA_OPTIONS, _joined(" ", *options))
    with _environment(SPARK_LAUNCHER_OPTS=_launcher_options(spark)), log_file.open("wb") as log:
        try:
            return launch(conf, popen_kwargs={"stderr": log})
        except PySparkRuntimeError:
            if not archived:
                raise
    classes.on_failed_start()
    return _start_gateway(settings, classes, log_file, spark)


def _end_gateway(gateway: Any) -> None:
    """Any: untyped in py4j."""
    from pyspark import SparkContext

    with SparkContext._lock:
        SparkContext._gateway = SparkContext._jvm = None
    gateway.shutdown()


def _quiet_log() -> dict[str, str]:
    """For Python, Spark's own profile composes all lines of level INFO and drops them at the end.

    A profile of the user may have other places for them.
    """
    from pyspark import SparkContext

    jvm: Any = SparkContext._jvm  # untyped in PySpark
    logging = jvm.org.apache.logging.log4j.LogManager.getContext(False).getConfiguration()
    profile = logging.getConfigurationSource().getLocation() or ""
    return {_LOG_LEVEL: "WARN"} if profile.endswith(_LOG_PROFILE) else {}


def _create_session(settings: Mapping[str, str]) -> "SparkSession":
    from pyspark.sql import SparkSession

    builder: Any = SparkSession.builder  # its type is a property object to the checker
    with _environment():
        for key, value in settings.items():
            builder = builder.config(key, value)
        session: SparkSession = builder.getOrCreate()
    return session


@contextmanager
def _temporary_directory() -> Iterator[Path]:
    directory = TemporaryDirectory("spark-")
    try:
        yield directory.path
    finally:
        directory.remove()


@contextmanager
def _no_artifacts_folder() -> Iterator[None]:
    """Spark 4.0 leaves an empty `artifacts` in the working directory (SPARK-52396)."""
    folder = Path.cwd() / "artifacts"
    was_there = folder.exists()
    try:
        yield
    finally:
        if not was_there:
            with suppress(OSError):
                folder.rmdir()


@contextmanager
def _environment(**more: str) -> Iterator[None]:
    """Sets what Spark reads only from the environment, while it starts."""
    wanted = {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable, **more}
    before = {name: os.environ.get(name) for name in wanted}
    for name, value in wanted.items():
        os.environ.setdefault(name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            if old is None:
                del os.environ[name]


def _launcher_options(spark: InstalledSpark) -> str:
    """For the JVM that only prints the command, and would look for its classes in all jars."""
    jars = [str(jar) for jar in spark.jars_dir.glob("spark-launcher_*.jar")]
    if len(jars) != 1 or jars[0].split() != jars:  # Spark's script splits at spaces
        return _JAVA_OPTIONS
    return f"{_JAVA_OPTIONS} -Xbootclasspath/a:{jars[0]}"


def _end(process: "subprocess.Popen[bytes]", patience_seconds: int) -> None:
    """Closes the JVM's stdin, which ends it; kills it if it does not end, or on Ctrl-C."""
    if process.stdin:
        process.stdin.close()
    try:
        process.wait(patience_seconds)
    except subprocess.TimeoutExpired:
        pass
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def _require_no_session() -> None:
    from pyspark import SparkContext

    if SparkContext._gateway is not None or "PYSPARK_GATEWAY_PORT" in os.environ:
        raise SparkStartFailed(
            "this process already has a Spark JVM, whose class path cannot change. Build that "
            "session with the jars that `embedkafka spark-jars` prints as spark.jars, or call "
            "local_session() in another process."
        )


def _require_java(spark: InstalledSpark) -> None:
    if find_java(os.environ) is None:
        home = os.environ.get("JAVA_HOME")
        seen = f"JAVA_HOME={home} has no bin/java" if home else "no java on the PATH, no JAVA_HOME"
        raise SparkStartFailed(
            f"{spark} needs {_java_for(spark)}: {seen}. Install one, for example "
            "`apt-get install openjdk-17-jre-headless`, or set JAVA_HOME. `embedkafka doctor` "
            "shows what this machine has."
        )


def _java_for(spark: InstalledSpark) -> str:
    return "Java 17 or newer" if release_numbers(spark.release) >= (4,) else "Java 8, 11 or 17"


def _explain_exit(spark: InstalledSpark, log_file: Path) -> str:
    java = find_java(os.environ)
    version = java_version(java) if java else "not found"
    return (
        f"Spark's JVM ended before it was ready. {spark} needs {_java_for(spark)}; "
        f"{java} is: {version}. Its last output:\n{log_tail(log_file) or '  (none)'}"
    )
