"""The checks of `embedkafka doctor`: what this machine has, and what to do about it.

Each check looks and changes nothing: it downloads no jar and starts no Spark.
Owner: none.
"""

import importlib.metadata
import os
import platform
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from embedkafka.runtime.failures import EmbedKafkaError
from embedkafka.runtime.values import dataclass
from embedkafka.spark.connector.installed import require_installed_spark
from embedkafka.spark.connector.jar_cache import cache_home, jar_cache
from embedkafka.spark.connector.java import find_java, java_version
from embedkafka.spark.connector.modules import KafkaConnector
from embedkafka.spark.connector.search import JarSearch
from embedkafka.spark.warm.home import default_home, find_kept

_LEAST_FILES: Final = 1024
_LEAST_BYTES: Final = 1 << 30
_PACKAGES: Final = ("confluent-kafka", "pytest", "pytest-xdist", "pyspark", "kazoo")
_NEEDED: Final = frozenset({"confluent-kafka"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkup:
    """What a check found; `advice` says what to do if it is not good."""

    subject: str
    found: str
    advice: str = ""
    is_fatal: bool = False
    """Whether not even a cluster without Spark can run."""

    def __str__(self) -> str:
        mark = "ok" if not self.advice else "FAIL" if self.is_fatal else "note"
        line = f"{mark:<4}  {self.subject}: {self.found}"
        return f"{line}\n      -> {self.advice}" if self.advice else line


def examine(environ: Mapping[str, str] | None = None) -> Iterator[Checkup]:
    """All findings; a check that fails itself is a finding too."""
    environ = os.environ if environ is None else environ
    jvms = (_java, _spark, _connector, _warm_jvms)
    for check in (_versions, _ports, _limits, *jvms, _cache, _space):
        try:
            yield from check(environ)
        except Exception as error:  # the other checks still count
            name = check.__name__.strip("_")
            yield Checkup(
                subject=name, found=f"{type(error).__name__}: {error}", advice="look there"
            )


def _versions(environ: Mapping[str, str]) -> Iterator[Checkup]:
    yield Checkup(
        subject="embedkafka",
        found=f"{version_of('embedkafka')} on Python {platform.python_version()}, "
        f"{platform.system()} {platform.machine()}",
    )
    for name in _PACKAGES:
        if (found := version_of(name)) is not None:
            yield Checkup(subject=name, found=found)
        elif name in _NEEDED:
            yield Checkup(
                subject=name, found="not installed", advice=f"pip install {name}", is_fatal=True
            )


def _ports(environ: Mapping[str, str]) -> Iterator[Checkup]:
    """Starts a cluster: the best proof that ports, threads and directories are there."""
    from embedkafka import EmbeddedKafka

    try:
        with EmbeddedKafka(brokers=1) as kafka:
            kafka.topic("doctor")
            yield Checkup(subject="cluster", found=f"starts, listened on {kafka.bootstrap_servers}")
    except (EmbedKafkaError, OSError) as error:
        yield Checkup(
            subject="cluster",
            found=str(error),
            advice="brokers need ports on 127.0.0.1 and a directory for temporary files (TMPDIR)",
            is_fatal=True,
        )


def _limits(environ: Mapping[str, str]) -> Iterator[Checkup]:
    try:
        import resource
    except ImportError:  # not on Windows
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    few = 0 <= soft < _LEAST_FILES
    yield Checkup(
        subject="open files",
        found=f"{soft} allowed, {hard} at most",
        advice=f"`ulimit -n {_LEAST_FILES}` or more, for many partitions" if few else "",
    )


def _java(environ: Mapping[str, str]) -> Iterator[Checkup]:
    java = find_java(environ)
    if java is None:
        yield Checkup(
            subject="java",
            found="not found",
            advice="only Spark needs it: install Java 17, or set JAVA_HOME",
        )
        return
    yield Checkup(subject="java", found=f"{java}: {_first_line(java_version(java))}")


def _spark(environ: Mapping[str, str]) -> Iterator[Checkup]:
    try:
        spark = require_installed_spark(environ)
    except EmbedKafkaError as error:
        yield Checkup(
            subject="spark",
            found=str(error),
            advice="only for Spark: pip install 'embedkafka[spark]'",
        )
        return
    yield Checkup(subject="spark", found=f"{spark} in {spark.jars_dir.parent}")


def _connector(environ: Mapping[str, str]) -> Iterator[Checkup]:
    try:
        spark = require_installed_spark(environ)
    except EmbedKafkaError:
        return  # said already
    if named := environ.get("EMBEDKAFKA_SPARK_JARS"):
        yield Checkup(subject="connector", found=f"EMBEDKAFKA_SPARK_JARS={named}")
        return
    search = JarSearch(KafkaConnector(spark=spark), spark, jar_cache(spark, environ), environ)
    found = search.find_here()
    if found is None:
        yield Checkup(
            subject="connector",
            found=f"none on this machine for {spark}",
            advice="`embedkafka spark-jars` downloads it once",
        )
        return
    yield Checkup(subject="connector", found=f"{found.release} in {found.found_in}")


def _warm_jvms(environ: Mapping[str, str]) -> Iterator[Checkup]:
    for kept in find_kept(default_home()):
        yield Checkup(subject="spark jvm", found=str(kept))


def _cache(environ: Mapping[str, str]) -> Iterator[Checkup]:
    home = cache_home(environ)
    if not home.exists():
        yield Checkup(subject="cache", found=f"{home} is empty; EMBEDKAFKA_CACHE moves it")
        return
    files = [path for path in home.rglob("*") if path.is_file()]
    total = sum(path.stat().st_size for path in files)
    writable = os.access(home, os.W_OK)
    yield Checkup(
        subject="cache",
        found=f"{home}: {len(files)} files, {total >> 20} MiB",
        advice="" if writable else "it is read-only: set EMBEDKAFKA_CACHE to add to it",
    )


def _space(environ: Mapping[str, str]) -> Iterator[Checkup]:
    directory = Path(tempfile.gettempdir())
    free = shutil.disk_usage(directory).free
    yield Checkup(
        subject="temporary files",
        found=f"{directory}: {free >> 20} MiB free",
        advice="" if free > _LEAST_BYTES else "set TMPDIR to a directory with more room",
    )


def version_of(distribution: str) -> str | None:
    """The installed version, or None."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0]
