"""Folders on this machine that may already hold the connector's jars.

They belong to other tools: they are only read, and may change at any time.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from embedkafka.spark.connector.artifacts import (
    Artifact,
    companion_artifacts,
    companion_releases,
    connector_artifact,
    nearest_releases,
)


class JarStore(Protocol):
    """A folder of jars in some tool's layout."""

    @property
    def title(self) -> str:
        """The store's name in errors."""

    @property
    def root(self) -> Path:
        """The folder."""

    def jars(self, artifact: Artifact) -> Mapping[str, Path]:
        """Every jar of the artifact, by release."""

    def find_pom(self, artifact: Artifact, release: str) -> str | None:
        """The text of the artifact's pom, if the store has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlatFolder:
    """Jars side by side: our cache, PySpark's own jars, jars that Ivy retrieved for Spark."""

    title: str
    root: Path

    def jars(self, artifact: Artifact) -> Mapping[str, Path]:
        found = self.root.glob(f"*{artifact.name}-*.jar")
        return {r: jar for jar in found if (r := artifact.find_release(jar.name))}

    def find_pom(self, artifact: Artifact, release: str) -> str | None:
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class MavenStore:
    """`~/.m2/repository`: group as a path, then name, release and the files."""

    title: str
    root: Path

    def jars(self, artifact: Artifact) -> Mapping[str, Path]:
        found = self._folder(artifact).glob(f"*/{artifact.name}-*.jar")
        return {jar.parent.name: jar for jar in found if jar.name == _plain_name(artifact, jar)}

    def find_pom(self, artifact: Artifact, release: str) -> str | None:
        return _find_text(self._folder(artifact) / release / f"{artifact.name}-{release}.pom")

    def _folder(self, artifact: Artifact) -> Path:
        return self.root.joinpath(*artifact.group.split("."), artifact.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class IvyStore:
    """`~/.ivy2/cache`: group, then name; jars in a subfolder, the pom as `.original`."""

    title: str
    root: Path

    def jars(self, artifact: Artifact) -> Mapping[str, Path]:
        found = (self.root / artifact.group / artifact.name / "jars").glob("*.jar")
        return {r: jar for jar in found if (r := artifact.find_release(jar.name))}

    def find_pom(self, artifact: Artifact, release: str) -> str | None:
        folder = self.root / artifact.group / artifact.name
        return _find_text(folder / f"ivy-{release}.xml.original")


def user_stores(home: Path) -> list[JarStore]:
    """Maven's and Ivy's folders in a user's home; Spark 4 has a separate Ivy folder."""
    ivy_homes = [home / ".ivy2.5.2", home / ".ivy2"]
    return [
        MavenStore(title="Maven's store", root=home / ".m2" / "repository"),
        *(IvyStore(title="Ivy's cache", root=ivy / "cache") for ivy in ivy_homes),
        *(FlatFolder(title="Spark's Ivy jars", root=ivy / "jars") for ivy in ivy_homes),
    ]


def jar_sets(store: JarStore, release: str, scala: str) -> Iterator[tuple[Path, ...]]:
    """The connector of that release with its companions, once for each token provider.

    The token provider of the nearest release comes first. Nothing comes if one of the four
    artifacts is absent.
    """
    connector = connector_artifact(scala)
    jar = store.jars(connector).get(release)
    if jar is None:
        return
    wanted = companion_releases(release, scala, store.find_pom(connector, release))
    token_providers, *others = (
        _nearest_jars(store, companion, wanted[companion.name])
        for companion in companion_artifacts(scala)
    )
    if all(others):
        for token_provider in token_providers:
            yield (jar, token_provider, *(nearest[0] for nearest in others))


def _nearest_jars(store: JarStore, artifact: Artifact, wanted: str) -> list[Path]:
    available = store.jars(artifact)
    return [available[release] for release in nearest_releases(available, wanted)]


def _plain_name(artifact: Artifact, jar: Path) -> str:
    """The jar's name without a classifier such as `-tests` or `-sources`."""
    return artifact.jar_name(jar.parent.name)


def _find_text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return None
