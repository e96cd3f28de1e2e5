"""What a search is for: the Kafka connector, or another module of Spark that PySpark leaves out."""

import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from embedkafka.spark.connector.artifacts import Artifact, connector_artifact, lower_releases
from embedkafka.spark.connector.installed import InstalledSpark
from embedkafka.spark.connector.jar_cache import JarCache
from embedkafka.spark.connector.jar_downloads import Wanted
from embedkafka.spark.connector.jar_stores import JarStore, jar_sets
from embedkafka.spark.connector.misfits import Misfit, find_misfit, find_unlinked

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

    def jar_sets(self, store: JarStore, release: str) -> Iterator[tuple[Path, ...]]:
        if jar := store.jars(self.artifact).get(release):
            yield (jar,)

    def wanted(self, release: str) -> Iterator[Wanted]:
        yield Wanted(releases=((self.artifact, release),), title=release)

    def find_misfit(self, jars: Sequence[Path], cache: JarCache) -> Misfit | None:
        (jar,) = jars
        name = self.artifact.name
        try:
            with zipfile.ZipFile(jar) as opened:
                if self.artifact.marker not in opened.namelist():
                    return Misfit(reason=f"{jar} is another jar", artifact=name)
        except (OSError, zipfile.BadZipFile) as error:
            return Misfit(reason=f"{jar} is not a readable jar ({error})", artifact=name)
        release = self.artifact.find_release(jar.name)
        if release == self.spark.release:
            return None
        unlinked = find_unlinked([jar], self.spark, cache)
        if unlinked is None:
            return None
        return Misfit(reason=unlinked.reason, artifact=name, fits_spark=release)
