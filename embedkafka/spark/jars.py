"""Finds the Kafka connector that matches the installed Spark, or downloads it.

It looks at the jars given by the caller, `EMBEDKAFKA_SPARK_JARS`, embedkafka's cache, Spark's own
jars, and the user's Maven and Ivy folders, and then downloads with Maven or Ivy. Once the cache is
filled, it needs no network. If the exact release is nowhere, it takes the nearest lower release of
the same major line, with a warning.
"""

import logging
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from embedkafka.runtime.failures import EmbedKafkaError
from embedkafka.spark.artifacts import (
    connector_artifact,
    connector_artifacts,
    is_lower_of_line,
    lower_releases,
    problems_with,
)
from embedkafka.spark.installed import InstalledSpark, release_numbers, require_installed_spark
from embedkafka.spark.jar_cache import jar_cache
from embedkafka.spark.jar_downloads import Downloader, DownloadFailed, Wanted, available_downloaders
from embedkafka.spark.jar_stores import (
    FlatFolder,
    JarStore,
    connector_releases,
    find_jar_set,
    user_stores,
)
from embedkafka.spark.progress import Progress, print_progress

_LOG = logging.getLogger(__name__)

ENVIRONMENT_VARIABLE: Final = "EMBEDKAFKA_SPARK_JARS"


class ConnectorNotFound(EmbedKafkaError):
    """No usable connector; the message lists the places tried and the command to run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Connector:
    """The jars that `format("kafka")` needs on Spark's class path."""

    release: str
    jars: tuple[Path, ...]
    found_in: str


def require_connector(
    jars: Sequence[str | Path] | None = None,
    *,
    progress: Progress = print_progress,
    environ: Mapping[str, str] | None = None,
) -> Connector:
    """The connector for the installed Spark; raises `ConnectorNotFound` with the way out."""
    environ = os.environ if environ is None else environ
    spark = require_installed_spark(environ)
    if jars:
        return _require_given(jars, "the jars= argument", spark)
    if named := environ.get(ENVIRONMENT_VARIABLE):
        return _require_given(_split_paths(named), ENVIRONMENT_VARIABLE, spark)
    search = _Search(spark, environ)
    found = search.find_here() or search.find_by_download(progress)
    if found is None:
        raise ConnectorNotFound(_explain(spark, search.tried))
    if stand_ins := _stand_ins(found, spark):
        _LOG.warning("some Kafka jars for %s were not found; using %s instead", spark, stand_ins)
    return found


class _Search:
    """One search of all places; `tried` collects reasons for the error message."""

    def __init__(self, spark: InstalledSpark, environ: Mapping[str, str]) -> None:
        self._spark = spark
        self._environ = environ
        self._cache = jar_cache(spark, environ)
        self._cached = FlatFolder(title="embedkafka's cache", root=self._cache.folder)
        self._others: list[JarStore] = [
            FlatFolder(title="Spark's own jars", root=spark.jars_dir),
            *user_stores(Path(environ.get("HOME") or Path.home())),
        ]
        self.tried: dict[str, str] = {}

    def find_here(self) -> Connector | None:
        """The exact release in any store, or what the cache holds: an earlier search chose it."""
        if found := self._find_lower_in(self._cached):
            return found
        for store in self._others:
            if found := self._find_in(store, self._spark.release):
                return found
        return None

    def find_by_download(self, progress: Progress) -> Connector | None:
        """Downloads into the cache, unless another process just did; lower releases come last."""
        tools, absent = available_downloaders(self._spark, self._environ)
        self.tried.update(absent)
        try:
            with self._cache.locked(progress):
                return self._find_lower_in(self._cached) or self._download_any(tools, progress)
        except OSError as error:
            self.tried["EMBEDKAFKA_CACHE"] = f"should name another folder: {error}"
            return None

    def _find_in(self, store: JarStore, release: str) -> Connector | None:
        place = f"{store.title} {store.root}"
        jars = find_jar_set(store, release, self._spark.scala)
        if jars is None:
            self.tried[place] = f"no complete set for {release}"
            return None
        if problems := problems_with(jars, self._spark):
            self.tried[place] = "; ".join(problems)
            return None
        return Connector(release=release, jars=jars, found_in=place)

    def _find_lower_in(self, store: JarStore) -> Connector | None:
        """The exact release, or the nearest lower one that may replace it."""
        held = connector_releases(store, self._spark.scala)
        fitting = [release for release in held if is_lower_of_line(release, self._spark)]
        for release in sorted(fitting, key=release_numbers, reverse=True):
            if found := self._find_in(store, release):
                return found
        if not fitting:
            self.tried.setdefault(f"{store.title} {store.root}", "no connector")
        return None

    def _download_any(self, tools: Sequence[Downloader], progress: Progress) -> Connector | None:
        """The very release with either tool, then a lower one from here, then one from there."""
        very = self._wanted(self._spark.release)
        lower: dict[Downloader, Wanted | None] = {}
        for tool in tools:
            found, lower[tool] = self._try_download(tool, very, progress)
            if found:
                return found
        for store in self._others:
            if found := self._find_lower_in(store):
                # Kept only if a repository answered that it lacks the release: after a network
                # failure the next search should try again.
                return self._keep(found) if any(lower.values()) else found
        for tool, wanted in lower.items():
            while wanted:
                found, wanted = self._try_download(tool, wanted, progress)
                if found:
                    return found
        return None

    def _keep(self, found: Connector) -> Connector:
        kept = self._cache.publish(found.jars)
        return replace(found, jars=kept, found_in=f"{found.found_in}, now in {self._cache.folder}")

    def _try_download(
        self, tool: Downloader, wanted: Wanted, progress: Progress
    ) -> tuple[Connector | None, Wanted | None]:
        """The connector, or the releases to try next."""
        progress(f"downloading Spark's Kafka connector {wanted} with {tool.title}, this once")
        try:
            return self._download(tool, wanted), None
        except DownloadFailed as error:
            self.tried[f"{tool.title} for {wanted}"] = str(error)
            return None, self._next_lower(wanted, error.absent)

    def _next_lower(self, wanted: Wanted, absent: frozenset[str]) -> Wanted | None:
        """One release lower for what is absent; None if no repository answered."""
        if not absent:
            return None
        if connector_artifact(self._spark.scala).name in absent:
            lower = lower_releases(wanted.connector)
            return self._wanted(lower[0]) if lower else None
        lower = lower_releases(wanted.token_provider)
        return replace(wanted, token_provider=lower[0]) if lower else None

    def _wanted(self, release: str) -> Wanted:
        return Wanted(scala=self._spark.scala, connector=release, token_provider=release)

    def _download(self, tool: Downloader, wanted: Wanted) -> Connector:
        with self._cache.staging() as staging:
            folder = FlatFolder(title=tool.title, root=tool.download(wanted, staging))
            jars = find_jar_set(folder, wanted.connector, wanted.scala)
            if jars is None:
                raise DownloadFailed("it succeeded, but did not bring all four jars")
            if problems := problems_with(jars, self._spark):
                raise DownloadFailed("; ".join(problems))
            kept = self._cache.publish(jars)
        found_in = f"{tool.title}, now in {self._cache.folder}"
        return Connector(release=wanted.connector, jars=kept, found_in=found_in)


def _require_given(given: Sequence[str | Path], origin: str, spark: InstalledSpark) -> Connector:
    jars = tuple(jar for path in given for jar in _expand(Path(path).expanduser()))
    problems = problems_with(jars, spark)
    if problems:
        listed = "\n".join(f"  {problem}" for problem in problems)
        raise ConnectorNotFound(f"the jars of {origin} do not suit {spark}:\n{listed}")
    release = next(
        (r for jar in jars if (r := connector_artifact(spark.scala).find_release(jar.name))),
        spark.release,
    )
    return Connector(release=release, jars=jars, found_in=origin)


def _stand_ins(found: Connector, spark: InstalledSpark) -> str:
    """The names of connector jars that are of a lower release than Spark."""
    own = [jar.name for jar in found.jars if re.match(r"(org\.apache\.spark_)?spark-", jar.name)]
    return ", ".join(name for name in own if not name.endswith(f"-{spark.release}.jar"))


def _expand(path: Path) -> list[Path]:
    return sorted(path.glob("*.jar")) if path.is_dir() else [path]


def _split_paths(text: str) -> list[str]:
    """Paths separated as in a class path, or by commas as in `spark.jars`."""
    return [part for part in text.replace(",", os.pathsep).split(os.pathsep) if part]


def _explain(spark: InstalledSpark, tried: Mapping[str, str]) -> str:
    connector, *companions = connector_artifacts(spark.scala)
    looked = {"the jars= argument": "not given", ENVIRONMENT_VARIABLE: "not set", **tried}
    return "\n".join(
        [
            f"no Kafka connector for {spark} was found. Looked at:",
            *(f"  {place}: {reason}" for place, reason in looked.items()),
            "Run this once with network access and Java; after that it works offline:",
            "  embedkafka spark-jars",
            f"Or put {connector.jar_name(spark.release)} and its companions",
            f"({', '.join(companion.name for companion in companions)}) in a folder and set",
            f"  {ENVIRONMENT_VARIABLE}=/that/folder",
        ]
    )
