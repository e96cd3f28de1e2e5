"""What a search is for: the Kafka connector, or another module of Spark that PySpark leaves out."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from embedkafka.spark.connector.artifacts import (
    Artifact,
    connector_artifact,
    is_lower_of_line,
    lower_releases,
)
from embedkafka.spark.connector.installed import InstalledSpark, release_numbers
from embedkafka.spark.connector.jar_cache import JarCache
from embedkafka.spark.connector.jar_downloads import Wanted
from embedkafka.spark.connector.jar_stores import JarStore, jar_sets
from embedkafka.spark.connector.misfits import (
    Misfit,
    find_misfit,
    find_misfit_of_stand_in,
)

#: Modules that consist of one jar, with a class file of each. Spark has what they depend on.
PACKAGES: Final[Mapping[str, str]] = {
    "spark-avro": "org/apache/spark/sql/avro/AvroDataToCatalyst.class",
    "spark-protobuf": "org/apache/spark/sql/protobuf/ProtobufDataToCatalyst.class",
}


class Module(Protocol):
    """Jars of one release that belong together."""

    @property
    def title(self) -> str:
        """Its name in progress lines."""

    @property
    def artifact(self) -> Artifact:
        """The main jar, whose release is the module's."""

    def releases_in(self, store: JarStore) -> list[str]:
        """The releases that a store has and that may fit, downward."""

    def jar_sets(self, store: JarStore, release: str) -> Iterator[tuple[Path, ...]]:
        """The complete sets of that release in a store, the best first."""

    def wanted(self, release: str) -> Iterator[Wanted]:
        """What to download for that release, the best first."""

    def find_misfit(self, jars: Sequence[Path], cache: JarCache) -> Misfit | None:
        """Why this set does not fit the installed Spark."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaConnector:
    """The source and sink with a token provider, which may be of a lower release, and clients."""

    spark: InstalledSpark
    title: str = "Spark's Kafka connector"

    @property
    def artifact(self) -> Artifact:
        return connector_artifact(self.spark.scala)

    def releases_in(self, store: JarStore) -> list[str]:
        return _lower_releases_in(store, self.artifact, self.spark)

    def jar_sets(self, store: JarStore, release: str) -> Iterator[tuple[Path, ...]]:
        return jar_sets(store, release, self.spark.scala)

    def wanted(self, release: str) -> Iterator[Wanted]:
        for token_provider in (release, *lower_releases(release)):
            yield Wanted.connector(self.spark.scala, release, token_provider)

    def find_misfit(self, jars: Sequence[Path], cache: JarCache) -> Misfit | None:
        return find_misfit(jars, self.spark, cache)


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """One of `PACKAGES`."""

    spark: InstalledSpark
    title: str

    @property
    def artifact(self) -> Artifact:
        return Artifact(
            group="org.apache.spark",
            name=f"{self.title}_{self.spark.scala}",
            marker=PACKAGES[self.title],
        )

    def releases_in(self, store: JarStore) -> list[str]:
        return _lower_releases_in(store, self.artifact, self.spark)

    def jar_sets(self, store: JarStore, release: str) -> Iterator[tuple[Path, ...]]:
        if jar := store.jars(self.artifact).get(release):
            yield (jar,)

    def wanted(self, release: str) -> Iterator[Wanted]:
        yield Wanted(releases=((self.artifact, release),), title=release)

    def find_misfit(self, jars: Sequence[Path], cache: JarCache) -> Misfit | None:
        release = self.artifact.find_release(jars[0].name)
        return find_misfit_of_stand_in(
            jars,
            self.spark,
            cache,
            marker=self.artifact.marker,
            is_exact=release == self.spark.release,
            fits_spark=release,
        )


def _lower_releases_in(store: JarStore, artifact: Artifact, spark: InstalledSpark) -> list[str]:
    held = (release for release in store.jars(artifact) if is_lower_of_line(release, spark))
    return sorted(held, key=release_numbers, reverse=True)
