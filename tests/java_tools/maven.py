"""Class paths from Maven coordinates.

`classpath("org.apache.kafka:kafka-clients:3.9.1")` runs Maven once and caches the answer. It works
from an empty local repository, and asks again if a jar of the answer has disappeared.
"""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape

from tests.java_tools.cache import CACHE, cache_key, exclusive, progress
from tests.java_tools.jvm import QUICK_START

DEPENDENCY_PLUGIN: Final = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1"
MAVEN_TIMEOUT_SECONDS: Final = 600


class MavenError(Exception):
    """Maven is missing, or could not resolve the coordinates; the message has its last lines."""


def classpath(*coordinates: str) -> str:
    """The runtime class path of `group:artifact:version` coordinates, with all dependencies."""
    entry = CACHE / "classpaths" / cache_key(*coordinates)
    if (found := _remembered(entry)) is not None:
        return found
    with exclusive(entry):
        if (found := _remembered(entry)) is not None:
            return found
        progress(f"resolving {', '.join(coordinates)} with Maven")
        resolved = _resolve(coordinates)
        partial = entry.with_suffix(".partial")
        partial.write_text(resolved)
        partial.replace(entry)
        return resolved


def first_resolvable(artifact: str, versions: tuple[str, ...]) -> str:
    """The first of the versions of `group:artifact` that the configured registry has."""
    refusals: list[str] = []
    for version in versions:
        try:
            classpath(f"{artifact}:{version}")
        except MavenError as refusal:
            refusals.append(str(refusal))
        else:
            return version
    raise MavenError(f"none of {versions} of {artifact} resolves:\n" + "\n".join(refusals))


def _remembered(entry: Path) -> str | None:
    try:
        found = entry.read_text()
    except FileNotFoundError:
        return None
    jars_still_exist = all(map(os.path.exists, found.split(os.pathsep)))
    return found if jars_still_exist else None


def _resolve(coordinates: tuple[str, ...]) -> str:
    maven = shutil.which("mvn")
    if maven is None:
        raise MavenError("`mvn` is not on PATH; install Apache Maven to run tests that need Java")
    with tempfile.TemporaryDirectory(prefix="ek-maven-") as scratch:
        pom = Path(scratch, "pom.xml")
        pom.write_text(_pom(coordinates))
        output = Path(scratch, "classpath")
        command = [maven, "--batch-mode", "--no-transfer-progress", "--quiet", "--file", str(pom)]
        command += [f"{DEPENDENCY_PLUGIN}:build-classpath", "-DincludeScope=runtime"]
        command += [f"-Dmdep.outputFile={output}"]
        done = subprocess.run(
            command,
            env={"MAVEN_OPTS": " ".join(QUICK_START), **os.environ},
            capture_output=True,
            text=True,
            timeout=MAVEN_TIMEOUT_SECONDS,
            check=False,
        )
        if done.returncode != 0:
            last_lines = "\n".join((done.stdout + done.stderr).strip().splitlines()[-15:])
            raise MavenError(f"Maven could not resolve {', '.join(coordinates)}:\n{last_lines}")
        return output.read_text().strip()


def _pom(coordinates: tuple[str, ...]) -> str:
    dependencies = "".join(
        "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version>"
        "</dependency>".format(*map(escape, coordinate.split(":")))
        for coordinate in coordinates
    )
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>embedkafka</groupId><artifactId>test-class-path</artifactId><version>1</version>"
        f"<dependencies>{dependencies}</dependencies></project>"
    )
