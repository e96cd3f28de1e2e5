"""A simulated machine: a Spark, a home, a cache and a PATH, all in one temporary folder."""

import os
import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from embedkafka.spark.connector.artifacts import Artifact, connector_artifacts
from tests.doubles.class_files import JavaClass, write_jar

CLIENTS = "3.9.0"
POOL = "2.12.0"

#: Stands in for `mvn`: records each call and copies jars from the repository beside it.
FAKE_MAVEN = """#!{python}
import pathlib, re, shutil, sys
here = pathlib.Path(__file__).parent
pom = pathlib.Path(sys.argv[sys.argv.index("-f") + 1]).read_text()
target = pathlib.Path(next(a for a in sys.argv if a.startswith("-DoutputDirectory=")).split("=")[1])
with open(here / "calls", "a") as calls:
    calls.write("call\\n")
repository = here / "repository"
wanted = re.findall(r"<artifactId>(.*spark-.*_2.*)</artifactId>\\s*<version>(.*)</version>", pom)
if not any(repository.glob("spark-*")):
    sys.exit("[ERROR] Could not transfer artifact org.apache.spark:x:pom:1: Connection refused")
for name, release in wanted:
    if not (repository / f"{{name}}-{{release}}.jar").exists():
        sys.exit(f"[ERROR] Could not find artifact org.apache.spark:{{name}}:jar:{{release}}")
target.mkdir()
companions = [("kafka-clients", "{clients}"), ("commons-pool2", "{pool}")]
for name, release in [*wanted, *(companions if "kafka" in wanted[0][0] else [])]:
    shutil.copy(repository / f"{{name}}-{{release}}.jar", target)
"""

#: A class that every Spark here has.
CONF = JavaClass(name="org/apache/spark/SparkConf", methods=[("get", "()Ljava/lang/String;")])


@dataclass(frozen=True, kw_only=True)
class Machine:
    root: Path
    scala: str = "2.13"
    extra: dict[str, str] = field(default_factory=dict)
    needed: dict[str, tuple[str, ...]] = field(default_factory=dict)

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

    def install_spark(self, release: str, scala: str = "2.13", *classes: JavaClass) -> None:
        self.spark_jars.mkdir(parents=True, exist_ok=True)
        for old in self.spark_jars.glob("spark-core_*"):
            old.unlink()
        write_jar(self.spark_jars / f"spark-core_{scala}-{release}.jar", [CONF, *classes])

    def release_of(self, artifact: Artifact, release: str) -> str:
        return {"kafka-clients": CLIENTS, "commons-pool2": POOL}.get(artifact.name, release)

    def fill_flat(self, folder: Path, release: str) -> list[Path]:
        """Writes all four jars side by side."""
        return [
            self.make_jar(folder / artifact.jar_name(self.release_of(artifact, release)), artifact)
            for artifact in self.artifacts
        ]

    def fill_maven_store(self, release: str) -> None:
        for artifact in self.artifacts:
            version = self.release_of(artifact, release)
            folder = self.home / ".m2" / "repository" / artifact.group.replace(".", "/")
            self.make_jar(folder / artifact.name / version / artifact.jar_name(version), artifact)

    def fill_ivy_store(self, release: str) -> None:
        for artifact in self.artifacts:
            version = self.release_of(artifact, release)
            folder = self.home / ".ivy2.5.2" / "cache" / artifact.group / artifact.name / "jars"
            self.make_jar(folder / artifact.jar_name(version), artifact)

    def install_maven(self, *known: str) -> None:
        """Installs a `mvn` that can fetch each of these, or, without any, has no network."""
        repository = self.bin / "repository"
        shutil.rmtree(repository, ignore_errors=True)
        companions = [a.jar_name(self.release_of(a, "")) for a in self.artifacts[2:]]
        for name in [*companions, *(f"{each}.jar" for each in known)]:
            artifact = next(a for a in self.artifacts if name.startswith(f"{a.name}-"))
            self.make_jar(repository / name, artifact)
        script = self.bin / "mvn"
        script.write_text(FAKE_MAVEN.format(python=sys.executable, clients=CLIENTS, pool=POOL))
        script.chmod(0o755)

    def needs(self, jar_name: str, *classes: str) -> None:
        """Makes future jars of this name refer to these Spark classes."""
        self.needed[jar_name] = classes

    def make_jar(self, path: Path, artifact: Artifact) -> Path:
        """Writes a jar with one class; the connector's refers to the token provider's."""
        name = artifact.marker.removesuffix(".class")
        used = [CONF.name, *self.needed.get(path.name, ())]
        if artifact == self.artifacts[0]:
            used.append(self.artifacts[1].marker.removesuffix(".class"))
        return write_jar(path, [JavaClass(name=name, used_classes=used)])

    @property
    def maven_calls(self) -> int:
        calls = self.bin / "calls"
        return len(calls.read_text().splitlines()) if calls.exists() else 0


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
