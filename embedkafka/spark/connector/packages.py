"""Finds further modules of Spark, and table formats, by one word."""

import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from embedkafka.runtime.failures import ConfigError
from embedkafka.spark.connector.installed import InstalledSpark, require_installed_spark
from embedkafka.spark.connector.jar_cache import jar_cache
from embedkafka.spark.connector.jars import ConnectorNotFound
from embedkafka.spark.connector.modules import PACKAGES, Module, Package
from embedkafka.spark.connector.progress import Progress, print_progress
from embedkafka.spark.connector.search import JarSearch
from embedkafka.spark.connector.table_formats import TABLE_FORMATS, TableFormat

_LOG = logging.getLogger(__name__)


def require_packages(
    names: Sequence[str],
    *,
    given: Sequence[Path] = (),
    progress: Progress = print_progress,
    environ: Mapping[str, str] | None = None,
) -> tuple[Path, ...]:
    """The jars of these packages that are not among the `given` ones.

    Raises `ConfigError` for an unknown name, and `ConnectorNotFound` with the way out.
    """
    environ = os.environ if environ is None else environ
    for name in names:
        if name not in PACKAGES and name not in TABLE_FORMATS:
            known = ", ".join((*PACKAGES, *TABLE_FORMATS))
            raise ConfigError(
                f"no package is called {name!r}, only {known}. For others, set "
                "spark.jars.packages to Maven coordinates, such as "
                "org.postgresql:postgresql:42.7.4, in the session's settings."
            )
    spark = require_installed_spark(environ)
    wanted = [_module(name, spark) for name in dict.fromkeys(names)]
    missing = [package for package in wanted if not _is_among(given, package)]
    return tuple(jar for package in missing for jar in _require(package, spark, progress, environ))


def _module(name: str, spark: InstalledSpark) -> Module:
    if name in TABLE_FORMATS:
        return TableFormat(spark=spark, title=name)
    return Package(spark=spark, title=name)


def _is_among(jars: Sequence[Path], package: Module) -> bool:
    return any(package.artifact.find_release(jar.name) for jar in jars)


def _require(
    package: Module, spark: InstalledSpark, progress: Progress, environ: Mapping[str, str]
) -> tuple[Path, ...]:
    cache = jar_cache(spark, environ, package=package.title)
    search = JarSearch(package, spark, cache, environ)
    found = search.find_here() or search.find_by_download(progress)
    if found is None:
        looked = "\n".join(f"  {place}: {reason}" for place, reason in search.tried.items())
        raise ConnectorNotFound(
            f"no {package.title} for {spark} was found. Looked at:\n{looked}\n"
            "Run this once with network access and Java; after that it works offline:\n"
            f"  embedkafka spark-jars --package {package.title}"
        )
    if found.release != spark.release:
        _LOG.warning("%s for %s was not found; using %s", package.title, spark, found.jars[0].name)
    return found.jars
