"""Finds the installed Spark and its release, from the names of its jars.

This does not import PySpark, so that `embedkafka spark-jars` and a failing test answer at once.
"""

import importlib.util
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from embedkafka.runtime.failures import EmbedKafkaError

_SPARK_CORE = re.compile(r"spark-core_(?P<scala>\d+\.\d+)-(?P<release>\d.*)\.jar")
_NUMBER = re.compile(r"\d+")


class SparkNotFound(EmbedKafkaError):
    """No Spark is installed; the message says how to install it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstalledSpark:
    """The release and the Scala version that a connector has to match."""

    release: str
    scala: str
    jars_dir: Path

    def __str__(self) -> str:
        return f"Spark {self.release} (Scala {self.scala})"


def require_installed_spark(environ: Mapping[str, str] | None = None) -> InstalledSpark:
    """The Spark that PySpark would start: `SPARK_HOME`, or the one in the `pyspark` package."""
    environ = os.environ if environ is None else environ
    home = _spark_home(environ)
    for jar in sorted((home / "jars").glob("spark-core_*.jar")):
        if match := _SPARK_CORE.fullmatch(jar.name):
            return InstalledSpark(
                release=match["release"], scala=match["scala"], jars_dir=home / "jars"
            )
    raise SparkNotFound(
        f"no spark-core jar in {home / 'jars'}: this is not a full PySpark "
        "(pyspark-client has no Spark inside). Run: pip install 'embedkafka[spark]'"
    )


def release_numbers(release: str) -> tuple[int, ...]:
    """`4.0.0` as (4, 0, 0); vendors' suffixes are dropped: `3.5.1-amzn-0` is (3, 5, 1)."""
    return tuple(int(number) for number in _NUMBER.findall(release.split("-")[0]))


def _spark_home(environ: Mapping[str, str]) -> Path:
    if environ.get("SPARK_HOME"):
        return Path(environ["SPARK_HOME"])
    spec = importlib.util.find_spec("pyspark")
    if spec is None or not spec.submodule_search_locations:
        raise SparkNotFound("PySpark is not installed. Run: pip install 'embedkafka[spark]'")
    return Path(next(iter(spec.submodule_search_locations)))
