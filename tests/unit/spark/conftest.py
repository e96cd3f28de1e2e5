"""A pretended machine: a Spark, a home, a cache and a PATH, all in one temporary folder."""

import os
import sys
import zipfile
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from embedkafka.spark.artifacts import Artifact, connector_artifacts

CLIENTS = "3.9.0"
POOL = "2.12.0"

#: Stands in for `mvn`: notes each call, and knows the releases in a file beside it.
FAKE_MAVEN = """#!{python}
import pathlib, re, sys, zipfile
here = pathlib.Path(__file__).parent
pom = pathlib.Path(sys.argv[sys.argv.index("-f") + 1]).read_text()
target = pathlib.Path(next(a for a in sys.argv if a.startswith("-DoutputDirectory=")).split("=")[1])
with open(here / "calls", "a") as calls:
    calls.write("call\\n")
known = (here / "known").read_text().split()
found = re.findall(r"<artifactId>(spark-.*kafka.*)</artifactId>\\s*<version>(.*)</version>", pom)
markers = dict(line.split() for line in (here / "markers").read_text().splitlines())
if not known:
    sys.exit("[ERROR] Could not transfer artifact org.apache.spark:x:pom:1: Connection refused")
for name, release in found:
    if f"{{name}}-{{release}}" not in known:
        sys.exit(f"[ERROR] Could not find artifact org.apache.spark:{{name}}:jar:{{release}}")
target.mkdir()
for name, release in [*found, ("kafka-clients", "{clients}"), ("commons-pool2", "{pool}")]:
    with zipfile.ZipFile(target / f"{{name}}-{{release}}.jar", "w") as jar:
        jar.writestr(markers[name], b"")
"""


@dataclass(frozen=True, kw_only=True)
class Machine:
    root: Path
    scala: str = "2.13"
    extra: dict[str, str] = field(default_factory=dict)

    @property
    def home(self) -> Path:
        return self.root / "home"

    @property
    def cache(self) -> Path:
        return self.root / "cache"

    @property
    def bin(self) -> Path:
        return self.root / "bin"

    @property
    def spark_jars(self) -> Path:
        return self.root / "spark" / "jars"

    @property
    def artifacts(self) -> tuple[Artifact, ...]:
        return connector_artifacts(self.scala)

    @property
    def environ(self) -> dict[str, str]:
        return {
            "SPARK_HOME": str(self.root / "spark"),
            "HOME": str(self.home),
            "EMBEDKAFKA_CACHE": str(self.cache),
            "PATH": str(self.bin),
            **self.extra,
        }

    def install_spark(self, release: str, scala: str = "2.13") -> None:
        self.spark_jars.mkdir(parents=True, exist_ok=True)
        for old in self.spark_jars.glob("spark-core_*"):
            old.unlink()
        (self.spark_jars / f"spark-core_{scala}-{release}.jar").touch()

    def release_of(self, artifact: Artifact, release: str) -> str:
        return {"kafka-clients": CLIENTS, "commons-pool2": POOL}.get(artifact.name, release)

    def fill_flat(self, folder: Path, release: str) -> list[Path]:
        """All four jars side by side."""
        return [
            make_jar(folder / artifact.jar_name(self.release_of(artifact, release)), artifact)
            for artifact in self.artifacts
        ]

    def fill_maven_store(self, release: str) -> None:
        for artifact in self.artifacts:
            version = self.release_of(artifact, release)
            folder = self.home / ".m2" / "repository" / artifact.group.replace(".", "/")
            make_jar(folder / artifact.name / version / artifact.jar_name(version), artifact)

    def fill_ivy_store(self, release: str) -> None:
        for artifact in self.artifacts:
            version = self.release_of(artifact, release)
            folder = self.home / ".ivy2.5.2" / "cache" / artifact.group / artifact.name / "jars"
            make_jar(folder / artifact.jar_name(version), artifact)

    def install_maven(self, *known: str) -> None:
        """A `mvn` that can fetch these, each `artifact-release`; with none it has no network."""
        self.bin.mkdir(exist_ok=True)
        (self.bin / "known").write_text("\n".join(known))
        markers = "\n".join(f"{a.name} {a.marker}" for a in self.artifacts)
        (self.bin / "markers").write_text(markers)
        script = self.bin / "mvn"
        script.write_text(FAKE_MAVEN.format(python=sys.executable, clients=CLIENTS, pool=POOL))
        script.chmod(0o755)

    @property
    def maven_calls(self) -> int:
        calls = self.bin / "calls"
        return len(calls.read_text().splitlines()) if calls.exists() else 0


def make_jar(path: Path, artifact: Artifact) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as jar:
        jar.writestr(artifact.marker, b"")
    return path


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    machine = Machine(root=tmp_path)
    for folder in (machine.home, machine.bin):
        folder.mkdir()
    machine.install_spark("4.0.0")
    return machine


@pytest.fixture(autouse=True)
def no_spark_of_the_real_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SPARK_HOME", "EMBEDKAFKA_SPARK_JARS", "EMBEDKAFKA_CACHE"):
        monkeypatch.delenv(name, raising=False)
    assert "SPARK_HOME" not in os.environ
