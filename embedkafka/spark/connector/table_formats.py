"""Delta Lake and Apache Iceberg: which of their releases is for which Spark, and its settings.

They are not parts of Spark: each of their releases is built for certain minor releases of Spark.
One that is newer than every build gets the newest build that links with it, or a clear no.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from embedkafka.spark.connector.artifacts import Artifact
from embedkafka.spark.connector.installed import InstalledSpark, release_numbers
from embedkafka.spark.connector.jar_cache import JarCache
from embedkafka.spark.connector.jar_downloads import Wanted
from embedkafka.spark.connector.jar_stores import JarStore
from embedkafka.spark.connector.misfits import Misfit, find_misfit_of_stand_in

EXTENSIONS: Final = "spark.sql.extensions"

_WAREHOUSE: Final = "spark.sql.warehouse.dir"

_DELTA: Final = "io/delta/sql/DeltaSparkSessionExtension.class"
_ICEBERG: Final = "org/apache/iceberg/spark/source/IcebergSource.class"

_Minor = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Build:
    """The jars for one minor release of Spark; `{scala}` in a name is Spark's."""

    group: str
    release: str
    #: The first has the class that identifies the format.
    names: tuple[str, ...]
    marker: str

    def artifacts(self, scala: str) -> tuple[Artifact, ...]:
        names = (name.format(scala=scala) for name in self.names)
        return tuple(Artifact(group=self.group, name=name, marker=self.marker) for name in names)


def _delta(release: str, name: str, *others: str) -> Build:
    names = (f"{name}_{{scala}}", "delta-storage", *others)
    return Build(group="io.delta", release=release, names=names, marker=_DELTA)


def _iceberg(release: str, minor: str) -> Build:
    name = f"iceberg-spark-runtime-{minor}_{{scala}}"
    return Build(group="org.apache.iceberg", release=release, names=(name,), marker=_ICEBERG)


_KERNEL: Final = ("delta-kernel-api", "delta-kernel-defaults", "delta-kernel-unitycatalog")

TABLE_FORMATS: Final[Mapping[str, Mapping[_Minor, Build]]] = {
    "delta": {
        (3, 5): _delta("3.3.2", "delta-spark"),
        (4, 0): _delta("4.0.1", "delta-spark"),
        (4, 1): _delta("4.1.0", "delta-spark_4.1"),
        (4, 2): _delta("4.4.0", "delta-spark_4.2", *_KERNEL),
    },
    "iceberg": {
        (3, 5): _iceberg("1.11.0", "3.5"),
        (4, 0): _iceberg("1.11.0", "4.0"),
        (4, 1): _iceberg("1.12.0", "4.1"),
    },
}

#: Delta reads a table's log in 50 tasks by default.
_DELTA_SETTINGS: Final[Mapping[str, str]] = {
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "2",
}
#: In this order: behind Delta's rules, Iceberg's DELETE and UPDATE refuse parts of files.
_EXTENSION: Final[Mapping[str, str]] = {
    "iceberg": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    "delta": "io.delta.sql.DeltaSparkSessionExtension",
}


def format_settings(packages: Sequence[str], given: Mapping[str, str]) -> dict[str, str]:
    """The settings of a session that has these formats; those `given` take precedence.

    Delta Lake replaces the session's own catalog, and Iceberg's is called `iceberg`: both fit into
    one session.
    """
    settings: dict[str, str] = {}
    extensions = [extension for name, extension in _EXTENSION.items() if name in packages]
    if "delta" in packages:
        settings |= _DELTA_SETTINGS
    if "iceberg" in packages:
        catalog = "spark.sql.catalog.iceberg"
        settings[catalog] = "org.apache.iceberg.spark.SparkCatalog"
        settings[f"{catalog}.type"] = "hadoop"
        # `foreachBatch` has another session, with another catalog. The test's catalog would keep
        # tables for 30 s, and show nothing of what such batches write.
        settings[f"{catalog}.cache-enabled"] = "false"
        settings[f"{catalog}.warehouse"] = f"{given.get(_WAREHOUSE, 'spark-warehouse')}/iceberg"
    settings = {key: value for key, value in settings.items() if key not in given}
    if extensions:
        others = [each for each in given.get(EXTENSIONS, "").split(",") if each not in extensions]
        settings[EXTENSIONS] = ",".join([*extensions, *filter(None, others)])
    return settings


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFormat:
    """One of `TABLE_FORMATS`, as a module to search for. Its releases are those of Spark."""

    spark: InstalledSpark
    title: str

    @property
    def artifact(self) -> Artifact:
        builds = TABLE_FORMATS[self.title]
        build = self._find_build(self.spark.release) or builds[max(builds)]
        return build.artifacts(self.spark.scala)[0]

    def releases_in(self, store: JarStore) -> list[str]:
        return [release for release in self._releases() if any(self.jar_sets(store, release))]

    def jar_sets(self, store: JarStore, release: str) -> Iterator[tuple[Path, ...]]:
        build = self._find_build(release)
        if build is not None:
            found = [store.jars(each) for each in build.artifacts(self.spark.scala)]
            if all(build.release in jars for jars in found):
                yield tuple(jars[build.release] for jars in found)

    def wanted(self, release: str) -> Iterator[Wanted]:
        build = self._find_build(release)
        if build is not None:
            artifacts = build.artifacts(self.spark.scala)
            yield Wanted(
                releases=tuple((artifact, build.release) for artifact in artifacts),
                title=f"{build.release} for Spark {'.'.join(map(str, _minor(release)))}",
            )

    def find_misfit(self, jars: Sequence[Path], cache: JarCache) -> Misfit | None:
        return find_misfit_of_stand_in(
            jars, self.spark, cache, marker=self.artifact.marker, is_exact=self._is_exact(jars[0])
        )

    def _is_exact(self, jar: Path) -> bool:
        build = self._find_build(self.spark.release)
        if build is None:
            return False
        return build.artifacts(self.spark.scala)[0].find_release(jar.name) is not None

    def _find_build(self, release: str) -> Build | None:
        """Only the first patch stands for a lower minor release, so that it is tried once."""
        if release not in self._releases():
            return None
        return TABLE_FORMATS[self.title].get(_minor(release))

    def _releases(self) -> list[str]:
        """Spark's own release, then the lower minor releases of its line that have a build."""
        own = _minor(self.spark.release)
        lower = sorted((minor for minor in TABLE_FORMATS[self.title] if minor < own), reverse=True)
        of_line = [f"{minor[0]}.{minor[1]}.0" for minor in lower if minor[0] == own[0]]
        return [self.spark.release, *of_line]


def _minor(release: str) -> _Minor:
    return release_numbers(release)[:2]
