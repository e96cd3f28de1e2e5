"""Sessions on Spark clusters: executors of a master elsewhere, or a Spark Connect server.

Owner: the thread inside the `with` block. What cannot work is refused before the first query: a
master or server that does not answer, a cluster without executors, a server without the connector.
Not here: the driver's JVM (`session`), the connector's jars (`connector`).
"""

import inspect
import os
import shlex
import socket
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from embedkafka.runtime.addresses import format_address, is_loopback
from embedkafka.runtime.failures import ConfigError, EmbedKafkaError
from embedkafka.runtime.temporary import TemporaryDirectory
from embedkafka.spark import early_worker
from embedkafka.spark.connector.installed import (
    InstalledSpark,
    release_numbers,
    require_installed_spark,
)
from embedkafka.spark.connector.jars import ConnectorNotFound, require_connector
from embedkafka.spark.connector.packages import require_packages
from embedkafka.spark.connector.progress import Progress, print_progress
from embedkafka.spark.session import local_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MASTERS: Final = "local[N], local-cluster[N,cores,MB], spark://host:port, yarn or k8s://host:port"
_MASTER_PORT: Final = 7077
_CONNECT_PORT: Final = 15002
_K8S_PORT: Final = 443
_ANSWER_TIMEOUT_S: Final = 10.0
_EXECUTOR_TIMEOUT_S: Final = 120.0

#: What lets a session on any server give the results of a local one, with as few tasks.
LIKE_LOCAL: Final[Mapping[str, str]] = {
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
}
#: Makes a classic session a Spark Connect server, on a free port of loopback.
SERVER_SETTINGS: Final[Mapping[str, str]] = {
    "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
    "spark.connect.grpc.binding.address": "127.0.0.1",
    "spark.connect.grpc.binding.port": "0",
}
_SERVICE: Final = "org.apache.spark.sql.connect.service.SparkConnectService$"
_SERVER_MODULE: Final = "spark-connect_"
_CONNECT_MODE: Final = "SPARK_CONNECT_MODE_ENABLED"
_PYTHON: Final = "PYSPARK_PYTHON"
_KNOWN_WORKERS: Final = (4, 0)
"""The release whose workers `early_worker` knows how to start."""


class SparkUnreachable(EmbedKafkaError):
    """A Spark cluster or Connect server does not answer, or gives no executors."""


@contextmanager
def cluster_session(
    master: str,
    app_name: str = "embedkafka",
    *,
    jars: Sequence[str | Path] | None = None,
    packages: Sequence[str] = (),
    config: Mapping[str, object] | None = None,
    archive: str | None = None,
    progress: Progress = print_progress,
    timeout_s: float = _EXECUTOR_TIMEOUT_S,
) -> "Iterator[SparkSession]":
    """A session on the executors of `master`, for the length of a `with` block.

    The driver is a JVM on this machine, and Spark sends the connector's jars to the executors.

    Args:
        master: `spark://host:port,...`, `yarn`, `k8s://host:port` or `local-cluster[N,cores,MB]`.
        app_name: Spark's name of the application.
        jars: as for `local_session`.
        packages: as for `local_session`.
        config: Spark settings, which override ours.
        archive: as for `local_session`.
        progress: as for `local_session`.
        timeout_s: how long to wait for the first executor.

    Raises:
        ConfigError: `master` is none of these.
        SparkUnreachable: the master does not answer, or no executor starts in that time.
    """
    driver = _driver_address(master)
    connector = require_connector(jars, progress=progress)
    further = require_packages(packages, given=connector.jars, progress=progress)
    settings = {
        "spark.master": master,
        "spark.jars": ",".join(map(str, (*connector.jars, *further))),
        "spark.driver.host": driver,
        "spark.driver.bindAddress": driver,
        **(config or {}),
    }
    opened = local_session(
        app_name,
        jars=connector.jars,
        packages=packages,
        config=settings,
        archive=archive,
        warm=False,
        progress=progress,
    )
    with ExitStack() as running:
        session = _opened(running, opened, master)
        _require_executor(session, master, timeout_s)
        yield session


@contextmanager
def connect_session(
    remote: str,
    *,
    config: Mapping[str, object] | None = None,
) -> "Iterator[SparkSession]":
    """A session on a Spark Connect server, for the length of a `with` block.

    Args:
        remote: the server, `sc://host:port`, with parameters as PySpark takes them.
        config: Spark settings that a running server lets a session change.

    Raises:
        ConfigError: `remote` is no such address, a setting cannot be changed, or PySpark lacks
            the packages that Connect needs.
        SparkUnreachable: the server does not answer.
        ConnectorNotFound: the server has no Kafka connector, or one that does not fit.
    """
    host, port = _connect_address(remote)
    _require_connect_packages()
    _require_listener(host, port, f"the Spark Connect server {remote}")
    before = os.environ.get(_CONNECT_MODE)
    try:
        _require_handshake(remote)
        session = _new_connect_session(remote)
        try:
            _set_all(session, config or {})
            _require_kafka_source(session, remote)
            yield session
        finally:
            session.stop()
    finally:
        if before is None:  # PySpark sets it for good, and no classic session could follow
            os.environ.pop(_CONNECT_MODE, None)


@contextmanager
def connect_server(
    app_name: str = "embedkafka-connect",
    *,
    master: str | None = None,
    jars: Sequence[str | Path] | None = None,
    packages: Sequence[str] = (),
    config: Mapping[str, object] | None = None,
    archive: str | None = None,
    progress: Progress = print_progress,
) -> Iterator[str]:
    """A Spark Connect server with the connector, on loopback; yields its `sc://` address.

    It is the driver of a session of this process, and ends with the `with` block. Other processes
    connect to it with `connect_session`.

    Args:
        app_name: Spark's name of the application.
        master: as for `cluster_session`; by default the server computes by itself.
        jars: as for `local_session`.
        packages: as for `local_session`.
        config: Spark settings, which override ours.
        archive: as for `local_session`.
        progress: as for `local_session`.

    Raises:
        ConfigError: this PySpark has no Connect server.
    """
    spark = require_installed_spark()
    settings = {**SERVER_SETTINGS, **(config or {})}
    given = f"{settings.get('spark.jars', '')},{settings.get('spark.jars.packages', '')}"
    if not any(spark.jars_dir.glob("spark-connect_*.jar")) and _SERVER_MODULE not in given:
        raise ConfigError(
            f"{spark} brings no Spark Connect server; PySpark 4 does. For this one, set "
            f"spark.jars.packages to org.apache.spark:{_SERVER_MODULE}{spark.scala}:{spark.release}"
        )
    start = partial(local_session, warm=False)
    if master is not None:
        start = partial(cluster_session, master)
    session = start(
        app_name,
        jars=jars,
        packages=packages,
        config=settings,
        archive=archive,
        progress=progress,
    )
    with ExitStack() as running:
        environ = {} if master else running.enter_context(_early_workers(spark))
        with _environment(environ):
            opened = running.enter_context(session)
        yield server_address(opened)


@contextmanager
def _early_workers(spark: InstalledSpark) -> Iterator[dict[str, str]]:
    """What lets the server start Python by a script whose workers connect at once.

    See `early_worker`. The script exists for the length of the `with` block.
    """
    is_known = release_numbers(spark.release)[:2] == _KNOWN_WORKERS and os.name == "posix"
    if _PYTHON in os.environ or not is_known:
        yield {}
        return
    python, program = shlex.quote(sys.executable), shlex.quote(early_worker.__file__)
    directory = TemporaryDirectory("python-")
    script = directory.path / "python"
    script.write_text(
        "#!/bin/sh\n"
        f'[ -z "${early_worker.PORT}" ] || exec {python} {program} "$@"\n'
        f'exec {python} "$@"\n'
    )
    script.chmod(0o755)
    try:
        yield {_PYTHON: str(script)}
    finally:
        directory.remove()


@contextmanager
def _environment(more: Mapping[str, str]) -> Iterator[None]:
    os.environ.update(more)
    try:
        yield
    finally:
        for name in more:
            del os.environ[name]


def server_address(session: "SparkSession") -> str:
    """Where the Spark Connect server of this classic session listens."""
    jvm: Any = session._jvm  # untyped in PySpark
    return f"sc://127.0.0.1:{getattr(getattr(jvm, _SERVICE), 'MODULE$').localPort()}"


def runs_here(master: str) -> bool:
    """Whether the executors of `master` run on this machine and reach its loopback address."""
    if master.startswith("spark://"):
        return all(is_loopback(host) for host, _ in _standalone_masters(master))
    return master.startswith("local")


def require_master(master: str) -> None:
    """Raises `ConfigError` if Spark knows no such kind of master."""
    if not master.startswith(("local", "spark://", "k8s://")) and master != "yarn":
        raise ConfigError(f"a Spark master is {_MASTERS}, not {master!r}")


def require_remote(remote: str) -> None:
    """Raises `ConfigError` if this is no address of a Spark Connect server."""
    _connect_address(remote)


def _driver_address(master: str) -> str:
    """The address of this machine that executors connect to; asks the master if it answers."""
    require_master(master)
    if master.startswith("spark://"):
        return _require_one_listener(_standalone_masters(master), f"the Spark master {master}")
    if master.startswith("k8s://"):
        url = urlsplit(master.removeprefix("k8s://"))
        url = url if url.netloc else urlsplit("//" + master.removeprefix("k8s://"))
        address = (url.hostname or "", url.port or _K8S_PORT)
        return _require_one_listener([address], f"the Kubernetes API server {master}")
    if master == "yarn":
        return socket.gethostbyname(socket.gethostname())
    return "127.0.0.1"


def _standalone_masters(master: str) -> list[tuple[str, int]]:
    """`spark://one:7077,two:7077` names all masters of a cluster; one of them is active."""
    urls = [urlsplit("//" + part) for part in master.removeprefix("spark://").split(",")]
    return [(url.hostname or "", url.port or _MASTER_PORT) for url in urls]


def _connect_address(remote: str) -> tuple[str, int]:
    url = urlsplit(remote)
    if url.scheme != "sc" or not url.hostname:
        raise ConfigError(f"a Spark Connect server is sc://host:port, not {remote!r}")
    return url.hostname, url.port or _CONNECT_PORT


def _require_one_listener(addresses: Sequence[tuple[str, int]], what: str) -> str:
    refusals = []
    for host, port in addresses:
        try:
            return _require_listener(host, port, what)
        except SparkUnreachable as error:
            refusals.append(error)
    raise refusals[0]


def _require_listener(host: str, port: int, what: str) -> str:
    """The address of this machine on the way to that port, if something listens there."""
    try:
        with socket.create_connection((host, port), timeout=_ANSWER_TIMEOUT_S) as connection:
            return str(connection.getsockname()[0])
    except OSError as error:
        raise SparkUnreachable(
            f"{what} does not answer on {format_address(host, port)}: {error}"
        ) from error


def _opened(
    running: ExitStack, session: "AbstractContextManager[SparkSession]", master: str
) -> "SparkSession":
    """Enters the session; a master that gives up on an application ends it during its start."""
    try:
        return running.enter_context(session)
    except EmbedKafkaError:
        raise
    except Exception as error:  # py4j's, often without a text
        raise SparkUnreachable(
            f"{master} ended the application while it started; see the logs of the master and its "
            f"workers. PySpark raised {type(error).__name__}"
        ) from error


def _require_executor(session: "SparkSession", master: str, timeout_s: float) -> None:
    """Runs a job of one task: without executors Spark would let every query wait for ever."""
    gave_up = threading.Event()

    def give_up() -> None:
        gave_up.set()
        session.sparkContext.cancelAllJobs()

    timer = threading.Timer(timeout_s, give_up)
    timer.daemon = True
    timer.start()
    try:
        session.range(1).collect()
    except Exception as error:  # PySpark's own kinds
        if not gave_up.is_set():
            raise
        raise SparkUnreachable(
            f"{master} gave no executor in {timeout_s:g} s: it has no workers, or none with enough "
            "free cores and memory (see spark.cores.max and spark.executor.memory)"
        ) from error
    finally:
        timer.cancel()


def _require_connect_packages() -> None:
    """Raises `ConfigError` naming the command; PySpark imports them only here and there."""
    try:
        from pyspark.sql.connect.utils import check_dependencies

        check: Any = check_dependencies  # of a module's name; from PySpark 4.3 on, of nothing
        check(*[__name__] * len(inspect.signature(check).parameters))
    except ImportError as error:
        raise ConfigError(
            "Spark Connect needs packages that are not installed. Run:\n"
            f"  pip install 'pyspark[connect]'\nPySpark says: {error}"
        ) from error


def _require_handshake(remote: str) -> None:
    """Fails within seconds if no gRPC server answers; PySpark would retry for ten minutes."""
    import grpc
    from pyspark.sql.connect.client import core

    builder: Any = getattr(core, "DefaultChannelBuilder", None) or core.ChannelBuilder
    channel = builder(remote).toChannel()  # PySpark 3.5 has one builder
    try:
        grpc.channel_ready_future(channel).result(timeout=_ANSWER_TIMEOUT_S)
    except grpc.FutureTimeoutError as error:
        raise SparkUnreachable(
            f"something listens at {remote}, but it is no Spark Connect server, or it wants TLS "
            f"(;use_ssl=true): no handshake in {_ANSWER_TIMEOUT_S:g} s"
        ) from error
    finally:
        channel.close()


def _new_connect_session(remote: str) -> "SparkSession":
    from pyspark.sql import SparkSession

    builder: Any = SparkSession.builder  # its type is a property object to the checker
    session: SparkSession = builder.remote(remote).getOrCreate()
    return session


def _set_all(session: "SparkSession", settings: Mapping[str, object]) -> None:
    for name, value in settings.items():
        try:
            session.conf.set(name, str(value))
        except Exception as error:  # gRPC's, or the server's
            raise ConfigError(
                f"{name} cannot be set in a session of Spark Connect; a server reads it when it "
                f"starts, if at all: {_first_line(error)}"
            ) from error


def _require_kafka_source(session: "SparkSession", remote: str) -> None:
    """Lets the server plan a read, which needs the connector and no broker."""
    options = {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "probe"}
    try:
        _ = session.read.format("kafka").options(**options).load().schema
    except Exception as error:  # an AnalysisException, or whatever failed to link
        release = session.version
        raise ConnectorNotFound(
            f"the Spark Connect server {remote} cannot read Kafka: {_first_line(error)}\n"
            "Start the server with the connector of its release:\n"
            f"  start-connect-server.sh --packages "
            f"org.apache.spark:spark-sql-kafka-0-10_2.13:{release}\n"
            "or with the jars that `embedkafka spark-jars` prints, as --jars"
        ) from error


def _first_line(error: BaseException) -> str:
    return str(error).strip().splitlines()[0]
