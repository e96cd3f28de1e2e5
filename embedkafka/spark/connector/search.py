"""One search for a module's jars: in the stores of this machine, and then by download."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from embedkafka.spark.connector.artifacts import lower_releases
from embedkafka.spark.connector.installed import InstalledSpark, release_numbers
from embedkafka.spark.connector.jar_cache import JarCache
from embedkafka.spark.connector.jar_downloads import (
    Downloader,
    DownloadFailed,
    Wanted,
    available_downloaders,
)
from embedkafka.spark.connector.jar_stores import FlatFolder, JarStore, user_stores
from embedkafka.spark.connector.misfits import Misfit
from embedkafka.spark.connector.modules import Module
from embedkafka.spark.connector.progress import Progress


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundJars:
    """The jars of a module, to be put on Spark's class path."""

    release: str
    jars: tuple[Path, ...]
    found_in: str


class JarSearch:
    """One search of all places.

    `tried` collects reasons for the error message, and `fitting_sparks` the releases of Spark that
    the jars found would fit.
    """

    def __init__(
        self, module: Module, spark: InstalledSpark, cache: JarCache, environ: Mapping[str, str]
    ) -> None:
        self._module = module
        self._spark = spark
        self._environ = environ
        self._cache = cache
        self._cached = FlatFolder(title="embedkafka's cache", root=cache.folder)
        self._others: list[JarStore] = [
            FlatFolder(title="Spark's own jars", root=spark.jars_dir),
            *user_stores(Path(environ.get("HOME") or Path.home())),
        ]
        self.tried: dict[str, str] = {}
        self.fitting_sparks: list[str] = []

    def find_here(self) -> FoundJars | None:
        """The exact release in any store, or what the cache holds: an earlier search chose it."""
        return self._find_cached() or self._find_at_hand(self._spark.release)

    def find_by_download(self, progress: Progress) -> FoundJars | None:
        """Downloads into the cache, unless another process just did."""
        tools, absent = available_downloaders(self._spark, self._environ)
        self.tried.update(absent)
        try:
            with self._cache.locked(progress):
                return self._find_cached() or self._find_nearest(tools, progress)
        except OSError as error:
            self.tried["EMBEDKAFKA_CACHE"] = f"should name another folder: {error}"
            return None

    def _find_cached(self) -> FoundJars | None:
        releases = self._module.releases_in(self._cached)
        for release in releases:
            if found := self._find_in(self._cached, release):
                return found
        if not releases:
            self.tried[_place(self._cached)] = "nothing"
        return None

    def _find_at_hand(self, release: str) -> FoundJars | None:
        for store in self._others:
            if found := self._find_in(store, release):
                return found
        return None

    def _find_in(self, store: JarStore, release: str) -> FoundJars | None:
        place = _place(store)
        misfit = None
        for jars in self._module.jar_sets(store, release):
            misfit = self._find_misfit(jars)
            if misfit is None:
                return FoundJars(release=release, jars=jars, found_in=place)
            self.tried[f"{place} for {release}"] = misfit.reason
            if misfit.artifact == self._module.artifact.name:
                break  # no other companion helps
        if misfit is None:
            self.tried.setdefault(place, f"no complete set for {release}")
        return None

    def _find_nearest(self, tools: Sequence[Downloader], progress: Progress) -> FoundJars | None:
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
        at_hand = {release for store in self._others for release in self._module.releases_in(store)}
        possible = {self._spark.release, *lower_releases(self._spark.release)}
        return sorted(at_hand | possible, key=release_numbers, reverse=True)

    def _keep(self, found: FoundJars) -> FoundJars:
        kept = self._cache.publish(found.jars)
        return replace(found, jars=kept, found_in=f"{found.found_in}, now in {self._cache.folder}")

    def _download(self, tool: Downloader, release: str, progress: Progress) -> FoundJars:
        """The module of this release, with the nearest companions that exist and fit."""
        main = self._module.artifact.name
        for wanted in self._module.wanted(release):
            progress(f"downloading {self._module.title} {wanted} with {tool.title}, this once")
            try:
                return self._download_set(tool, release, wanted)
            except DownloadFailed as error:
                self.tried[f"{tool.title} for {wanted}"] = str(error)
                if main in error.unfit or not error.unfit:
                    raise
        raise DownloadFailed("no companion fits", unfit=frozenset({main}))

    def _download_set(self, tool: Downloader, release: str, wanted: Wanted) -> FoundJars:
        with self._cache.staging() as staging:
            folder = FlatFolder(title=tool.title, root=tool.download(wanted, staging))
            jars = next(self._module.jar_sets(folder, release), None)
            if jars is None:
                raise DownloadFailed("it succeeded, but did not bring all jars")
            if misfit := self._find_misfit(jars):
                raise DownloadFailed(misfit.reason, unfit=frozenset({misfit.artifact}))
            kept = self._cache.publish(jars)
        found_in = f"{tool.title}, now in {self._cache.folder}"
        return FoundJars(release=release, jars=kept, found_in=found_in)

    def _find_misfit(self, jars: Sequence[Path]) -> Misfit | None:
        misfit = self._module.find_misfit(jars, self._cache)
        if misfit and misfit.fits_spark and misfit.fits_spark not in self.fitting_sparks:
            self.fitting_sparks.append(misfit.fits_spark)
        return misfit


def _place(store: JarStore) -> str:
    return f"{store.title} {store.root}"
