"""The four jars of Spark's Kafka connector: names, releases and contents.

Not here: where to look for them (`jar_stores`, `jar_downloads`) and in which order (`jars`).
"""

import re
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

from embedkafka.spark.connector.installed import InstalledSpark, release_numbers

#: The oldest supported minor release of each major line; a fallback goes no lower.
FIRST_MINOR: Final[Mapping[int, int]] = {3: 5, 4: 0}

#: For jars without a pom; a pom takes precedence.
_KAFKA_CLIENTS_BY_MINOR: Final[Mapping[tuple[int, ...], str]] = {
    (3, 5): "3.4.1",
    (4, 0): "3.9.0",
    (4, 1): "3.9.1",
    (4, 2): "3.9.2",
}
_KAFKA_CLIENTS: Final = "3.9.2"
_COMMONS_POOL: Final = "2.12.0"


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """One Maven artifact, with a class file that identifies its jar."""

    group: str
    name: str
    marker: str

    def jar_name(self, release: str) -> str:
        return f"{self.name}-{release}.jar"

    def find_release(self, file_name: str) -> str | None:
        """The release in a file name; Spark's Ivy folder prefixes names with the group."""
        pattern = rf"(?:{re.escape(self.group)}_)?{re.escape(self.name)}-(\d+\.[\w.-]*)\.jar"
        match = re.fullmatch(pattern, file_name)
        return match[1] if match else None


def connector_artifact(scala: str) -> Artifact:
    """The source and sink; their pom names the releases of the companions."""
    return Artifact(
        group="org.apache.spark",
        name=f"spark-sql-kafka-0-10_{scala}",
        marker="org/apache/spark/sql/kafka010/KafkaSourceProvider.class",
    )


def companion_artifacts(scala: str) -> tuple[Artifact, ...]:
    """The artifacts that the connector needs and Spark does not include."""
    return (
        Artifact(
            group="org.apache.spark",
            name=f"spark-token-provider-kafka-0-10_{scala}",
            marker="org/apache/spark/kafka010/KafkaTokenUtil.class",
        ),
        Artifact(
            group="org.apache.kafka",
            name="kafka-clients",
            marker="org/apache/kafka/clients/consumer/KafkaConsumer.class",
        ),
        Artifact(
            group="org.apache.commons",
            name="commons-pool2",
            marker="org/apache/commons/pool2/PooledObject.class",
        ),
    )


def connector_artifacts(scala: str) -> tuple[Artifact, ...]:
    """All four, the connector first."""
    return (connector_artifact(scala), *companion_artifacts(scala))


def companion_releases(release: str, scala: str, pom: str | None) -> dict[str, str]:
    """The release of each companion that fits this connector, by artifact name."""
    minor = release_numbers(release)[:2]
    wanted = {
        f"spark-token-provider-kafka-0-10_{scala}": release,
        "kafka-clients": _KAFKA_CLIENTS_BY_MINOR.get(minor, _KAFKA_CLIENTS),
        "commons-pool2": _COMMONS_POOL,
    }
    stated = _releases_in_pom(pom) if pom else {}
    return {name: stated.get(name, default) for name, default in wanted.items()}


def nearest_releases(available: Iterable[str], wanted: str) -> list[str]:
    """The releases of the same major line: `wanted`, the lower ones downward, the higher upward."""
    target = release_numbers(wanted)
    line = sorted(
        (r for r in available if release_numbers(r)[:1] == target[:1]),
        key=lambda r: (release_numbers(r), r == wanted),
    )
    lower = [r for r in line if release_numbers(r) <= target]
    return lower[::-1] + line[len(lower) :]


def lower_releases(release: str) -> list[str]:
    """The fallbacks for `release`: lower patches, then the first patch of each lower minor."""
    major, minor, patch = (*release_numbers(release), 0, 0)[:3]
    same_minor = [f"{major}.{minor}.{lower}" for lower in range(patch - 1, -1, -1)]
    first = FIRST_MINOR.get(major, 0)
    return same_minor + [f"{major}.{lower}.0" for lower in range(minor - 1, first - 1, -1)]


def is_lower_of_line(release: str, spark: InstalledSpark) -> bool:
    """Whether a connector of this release may replace the missing one for `spark`."""
    numbers, target = release_numbers(release), release_numbers(spark.release)
    if numbers[:1] != target[:1] or numbers > target or len(numbers) < 2:
        return False
    return numbers[1] >= FIRST_MINOR.get(numbers[0], 0)


def problems_with(jars: Sequence[Path], spark: InstalledSpark) -> list[str]:
    """Reasons why these jars and Spark's own make no working connector; empty if they do."""
    problems, held = _contents(jars)
    for artifact in connector_artifacts(spark.scala):
        if artifact.marker not in held and not any(spark.jars_dir.glob(f"{artifact.name}-*.jar")):
            problems.append(f"{artifact.name} is missing")
    return problems + [p for jar in jars if (p := _mismatch(jar.name, spark))]


def _contents(jars: Sequence[Path]) -> tuple[list[str], set[str]]:
    problems: list[str] = []
    held: set[str] = set()
    for jar in jars:
        try:
            with zipfile.ZipFile(jar) as archive:
                held.update(archive.namelist())
        except (OSError, zipfile.BadZipFile) as error:
            problems.append(f"{jar} is not a readable jar ({error})")
    return problems, held


def _mismatch(jar_name: str, spark: InstalledSpark) -> str | None:
    match = re.search(r"spark-[a-z-]+-kafka-0-10_(\d+\.\d+)-(\d+\.[\w.-]*)\.jar$", jar_name)
    if match is None:
        return None
    scala, release = match[1], match[2]
    if scala != spark.scala:
        return f"{jar_name} is for Scala {scala}, and Spark has Scala {spark.scala}"
    if release_numbers(release) > release_numbers(spark.release):
        return f"{jar_name} is newer than Spark {spark.release}"
    if release_numbers(release)[:1] != release_numbers(spark.release)[:1]:
        return f"{jar_name} is of another major line than Spark {spark.release}"
    return None


def _releases_in_pom(pom: str) -> dict[str, str]:
    """The literal versions in a pom's dependencies, by artifact; the first one counts."""
    releases: dict[str, str] = {}
    for dependency in ElementTree.fromstring(pom).iterfind(".//{*}dependency"):
        name, release = dependency.findtext("{*}artifactId"), dependency.findtext("{*}version")
        if name and release and "$" not in release:
            releases.setdefault(name, release)
    return releases
