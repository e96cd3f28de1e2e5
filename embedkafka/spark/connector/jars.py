"""Finds the Kafka connector that matches the installed Spark, or downloads it.

It looks at the jars given by the caller, `EMBEDKAFKA_SPARK_JARS`, embedkafka's cache, Spark's own
jars, and the user's Maven and Ivy folders, and then downloads with Maven or Ivy. Once the cache is
filled, it needs no network. If the exact release is nowhere, it takes the nearest lower release of
the same major line that links with this Spark, with a warning.
"""

import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from embedkafka.runtime.failures import EmbedKafkaError
from embedkafka.spark.connector.artifacts import (
    connector_artifact,
    connector_artifacts,
    is_lower_of_line,
    lower_releases,
)
from embedkafka.spark.connector.installed import (
    InstalledSpark,
    release_numbers,
    require_installed_spark,
)
from embedkafka.spark.connector.jar_cache import JarCache, jar_cache
from embedkafka.spark.connector.jar_downloads import (
    Downloader,
    DownloadFailed,
    Wanted,
    available_downloaders,
)
from embedkafka.spark.connector.jar_stores import (
    FlatFolder,
    JarStore,
    connector_releases,
    jar_sets,
    user_stores,
)
from embedkafka.spark.connector.misfits import Misfit, find_misfit, stand_ins
from embedkafka.spark.connector.progress import Progress, print_progress

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
    cache = jar_cache(spark, environ)
    if jars:
        return _require_given(jars, "the jars= argument", spark, cache)
    if named := environ.get(ENVIRONMENT_VARIABLE):
        return _require_given(_split_paths(named), ENVIRONMENT_VARIABLE, spark, cache)
    search = _Search(spark, cache, environ)
    found = search.find_here() or search.find_by_download(progress)
    if found is None:
        raise ConnectorNotFound(_explain(spark, search.tried, search.fitting_sparks))
    if others := stand_ins(found.jars, spark):
        _LOG.warning(
            "some Kafka jars for %s were not found; using %s instead", spark, ", ".join(others)
        )
    return found


class _Search:
    """One search of all places.

    `tried` collects reasons for the error message, and `fitting_sparks` the releases of Spark that
    the jars found would fit.
    """

    def __init__(self, spark: InstalledSpark, cache: JarCache, environ: Mapping[str, str]) -> None:
        self._spark = spark
        self._environ = environ
        self._connector = connector_artifact(spark.scala).name
        self._cache = cache
        self._cached = FlatFolder(title="embedkafka's cache", root=cache.folder)
        self._others: list[JarStore] = [
            FlatFolder(title="Spark's own jars", root=spark.jars_dir),
            *user_stores(Path(environ.get("HOME") or Path.home())),
        ]
        self.tried: dict[str, str] = {}
        self.fitting_sparks: list[str] = []

    def find_here(self) -> Connector | None:
        """The exact release in any store, or what the cache holds: an earlier search chose it."""
        return self._find_cached() or self._find_at_hand(self._spark.release)

    def find_by_download(self, progress: Progress) -> Connector | None:
        """Downloads into the cache, unless another process just did."""
        tools, absent = available_downloaders(self._spark, self._environ)
        self.tried.update(absent)
        try:
            with self._cache.locked(progress):
                return self._find_cached() or self._find_nearest(tools, progress)
        except OSError as error:
            self.tried["EMBEDKAFKA_CACHE"] = f"should name another folder: {error}"
            return None

    def _find_cached(self) -> Connector | None:
        releases = self._releases_in(self._cached)
        for release in releases:
            if found := self._find_in(self._cached, release):
                return found
        if not releases:
            self.tried[_place(self._cached)] = "no connector"
        return None

    def _find_at_hand(self, release: str) -> Connector | None:
        for store in self._others:
            if found := self._find_in(store, release):
                return found
        return None

    def _find_in(self, store: JarStore, release: str) -> Connector | None:
        place = _place(store)
        misfit = None
        for jars in jar_sets(store, release, self._spark.scala):
            misfit = self._find_misfit(jars)
            if misfit is None:
                return Connector(release=release, jars=jars, found_in=place)
            self.tried[f"{place} for {release}"] = misfit.reason
            if misfit.artifact == self._connector:
                break  # no token provider helps
        if misfit is None:
            self.tried.setdefault(place, f"no complete set for {release}")
        return None

    def _find_nearest(self, tools: Sequence[Downloader], progress: Progress) -> Connector | None:
        """The exact release, or the nearest lower one that fits, be it here or downloaded."""
        answering = list(tools)
        for release in self._candidates():
            if found := self._find_at_hand(release):
                # Kept only if a repository answered that it lacks the release: after a network
                # failure the next search should try again.
                return self._keep(found) if answering else found
            for tool in tuple(answering):
                try:
                    return self._download(tool, release, progress)
                except DownloadFailed as error:
                    if not error.unfit:
                        answering.remove(tool)
        return None

    def _candidates(self) -> list[str]:
        """Spark's release and lower ones downward: those at hand, and those that may exist."""
        at_hand = {release for store in self._others for release in self._releases_in(store)}
        possible = {self._spark.release, *lower_releases(self._spark.release)}
        return sorted(at_hand | possible, key=release_numbers, reverse=True)

    def _releases_in(self, store: JarStore) -> list[str]:
        held = connector_releases(store, self._spark.scala)
        fitting = [release for release in held if is_lower_of_line(release, self._spark)]
        return sorted(fitting, key=release_numbers, reverse=True)

    def _keep(self, found: Connector) -> Connector:
        kept = self._cache.publish(found.jars)
        return replace(found, jars=kept, found_in=f"{found.found_in}, now in {self._cache.folder}")

    def _download(self, tool: Downloader, release: str, progress: Progress) -> Connector:
        """The connector of this release, with the nearest token provider that exists and fits."""
        for token_provider in (release, *lower_releases(release)):
            wanted = Wanted(
                scala=self._spark.scala, connector=release, token_provider=token_provider
            )
            progress(f"downloading Spark's Kafka connector {wanted} with {tool.title}, this once")
            try:
                return self._download_pair(tool, wanted)
            except DownloadFailed as error:
                self.tried[f"{tool.title} for {wanted}"] = str(error)
                if self._connector in error.unfit or not error.unfit:
                    raise
        raise DownloadFailed("no token provider fits", unfit=frozenset({self._connector}))

    def _download_pair(self, tool: Downloader, wanted: Wanted) -> Connector:
        with self._cache.staging() as staging:
            folder = FlatFolder(title=tool.title, root=tool.download(wanted, staging))
            jars = next(jar_sets(folder, wanted.connector, wanted.scala), None)
            if jars is None:
                raise DownloadFailed("it succeeded, but did not bring all four jars")
            if misfit := self._find_misfit(jars):
                raise DownloadFailed(misfit.reason, unfit=frozenset({misfit.artifact}))
            kept = self._cache.publish(jars)
        found_in = f"{tool.title}, now in {self._cache.folder}"
        return Connector(release=wanted.connector, jars=kept, found_in=found_in)

    def _find_misfit(self, jars: Sequence[Path]) -> Misfit | None:
        misfit = find_misfit(jars, self._spark, self._cache)
        if misfit and misfit.fits_spark and misfit.fits_spark not in self.fitting_sparks:
            self.fitting_sparks.append(misfit.fits_spark)
        return misfit


def _place(store: JarStore) -> str:
    return f"{store.title} {store.root}"


def _require_given(
    given: Sequence[str | Path], origin: str, spark: InstalledSpark, cache: JarCache
) -> Connector:
    jars = tuple(jar for path in given for jar in _expand(Path(path).expanduser()))
    if misfit := find_misfit(jars, spark, cache):
        raise ConnectorNotFound(f"the jars of {origin} do not suit {spark}:\n  {misfit.reason}")
    release = next(
        (r for jar in jars if (r := connector_artifact(spark.scala).find_release(jar.name))),
        spark.release,
    )
    return Connector(release=release, jars=jars, found_in=origin)


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
            *(["Or install a PySpark that fits a connector found above:", *pins] if pins else []),
        ]
    )
