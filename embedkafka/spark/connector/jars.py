"""Finds the Kafka connector that matches the installed Spark, or downloads it.

It looks at the jars given by the caller, `EMBEDKAFKA_SPARK_JARS`, embedkafka's cache, Spark's own
jars, and the user's Maven and Ivy folders, and then downloads with Maven or Ivy. Once the cache is
filled, it needs no network. If the exact release is nowhere, it takes the nearest lower release of
the same major line that links with this Spark, with a warning.
"""

import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from embedkafka.runtime.failures import EmbedKafkaError
from embedkafka.spark.connector.artifacts import connector_artifact, connector_artifacts
from embedkafka.spark.connector.installed import InstalledSpark, require_installed_spark
from embedkafka.spark.connector.jar_cache import JarCache, jar_cache
from embedkafka.spark.connector.misfits import find_misfit, stand_ins
from embedkafka.spark.connector.modules import KafkaConnector
from embedkafka.spark.connector.progress import Progress, print_progress
from embedkafka.spark.connector.search import FoundJars, JarSearch

_LOG = logging.getLogger(__name__)

ENVIRONMENT_VARIABLE: Final = "EMBEDKAFKA_SPARK_JARS"


class ConnectorNotFound(EmbedKafkaError):
    """No usable connector; the message lists the places tried and the command to run."""


def require_connector(
    jars: Sequence[str | Path] | None = None,
    *,
    progress: Progress = print_progress,
    environ: Mapping[str, str] | None = None,
) -> FoundJars:
    """The connector for the installed Spark; raises `ConnectorNotFound` with the way out."""
    environ = os.environ if environ is None else environ
    spark = require_installed_spark(environ)
    cache = jar_cache(spark, environ)
    if jars:
        return _require_given(jars, "the jars= argument", spark, cache)
    if named := environ.get(ENVIRONMENT_VARIABLE):
        return _require_given(_split_paths(named), ENVIRONMENT_VARIABLE, spark, cache)
    search = JarSearch(KafkaConnector(spark=spark), spark, cache, environ)
    found = search.find_here() or search.find_by_download(progress)
    if found is None:
        raise ConnectorNotFound(_explain(spark, search.tried, search.fitting_sparks))
    if others := stand_ins(found.jars, spark):
        _LOG.warning(
            "some Kafka jars for %s were not found; using %s instead", spark, ", ".join(others)
        )
    return found


def _require_given(
    given: Sequence[str | Path], origin: str, spark: InstalledSpark, cache: JarCache
) -> FoundJars:
    jars = tuple(jar for path in given for jar in _expand(Path(path).expanduser()))
    if misfit := find_misfit(jars, spark, cache):
        raise ConnectorNotFound(f"the jars of {origin} do not suit {spark}:\n  {misfit.reason}")
    release = next(
        (r for jar in jars if (r := connector_artifact(spark.scala).find_release(jar.name))),
        spark.release,
    )
    return FoundJars(release=release, jars=jars, found_in=origin)


def _expand(path: Path) -> list[Path]:
    return sorted(path.glob("*.jar")) if path.is_dir() else [path]


def _split_paths(text: str) -> list[str]:
    """Paths separated as in a class path, or by commas as in `spark.jars`."""
    return [part for part in text.replace(",", os.pathsep).split(os.pathsep) if part]


def _explain(spark: InstalledSpark, tried: Mapping[str, str], fitting_sparks: Sequence[str]) -> str:
    connector, *companions = connector_artifacts(spark.scala)
    looked = {"the jars= argument": "not given", ENVIRONMENT_VARIABLE: "not set", **tried}
    pins = [f"  pip install 'pyspark=={release}'" for release in fitting_sparks]
    return "\n".join(
        [
            f"no Kafka connector for {spark} was found. Looked at:",
            *(f"  {place}: {reason}" for place, reason in looked.items()),
            "Run this once with network access and Java; after that it works offline:",
            "  embedkafka spark-jars",
            f"Or put {connector.jar_name(spark.release)} and its companions",
            f"({', '.join(companion.name for companion in companions)}) in a folder and set",
            f"  {ENVIRONMENT_VARIABLE}=/that/folder",
            "`embedkafka doctor` shows what this machine has.",
            *(["Or install a PySpark that fits a connector found above:", *pins] if pins else []),
        ]
    )
