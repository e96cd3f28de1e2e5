"""Downloads jars with a tool that the user has: Maven, or the Ivy among Spark's jars.

Each tool gets a description file, written into a folder of the caller.
"""

import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol, Self

from embedkafka.spark.connector.artifacts import Artifact, connector_artifacts
from embedkafka.spark.connector.installed import InstalledSpark
from embedkafka.spark.connector.java import find_java

_TIMEOUT_SECONDS: Final = 300

#: Dependencies that Spark already includes; hadoop alone would be 50 MB.
_ALREADY_IN_SPARK: Final = (
    "org.apache.hadoop",
    "org.scala-lang",
    "org.scala-lang.modules",
    "org.slf4j",
    "org.lz4",
    "at.yawk.lz4",
    "org.xerial.snappy",
    "com.github.luben",
    "com.google.code.findbugs",
    "com.fasterxml.jackson.core",
    "com.fasterxml.jackson.datatype",
    "org.antlr",
    "org.apache.parquet",
    "org.roaringbitmap",
)

#: Spark's parent pom names this mirror, and Maven fails if it does not answer. The same id declared
#: here, disabled, overrides it.
_POM: Final = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>embedkafka</groupId>
  <artifactId>spark-jars</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <repositories>
    <repository>
      <id>gcs-maven-central-mirror</id>
      <url>https://repo.maven.apache.org/maven2</url>
      <releases><enabled>false</enabled></releases>
      <snapshots><enabled>false</enabled></snapshots>
    </repository>
  </repositories>
  <dependencies>
{dependencies}
  </dependencies>
</project>
"""
_POM_DEPENDENCY: Final = """\
    <dependency>
      <groupId>{group}</groupId>
      <artifactId>{name}</artifactId>
      <version>{release}</version>
      <exclusions>
{exclusions}
      </exclusions>
    </dependency>"""
_POM_EXCLUSION: Final = (
    "        <exclusion><groupId>{group}</groupId><artifactId>*</artifactId></exclusion>"
)

_IVY: Final = """\
<ivy-module version="2.0">
  <info organisation="embedkafka" module="spark-jars"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
{dependencies}
  </dependencies>
</ivy-module>
"""
_IVY_DEPENDENCY: Final = """\
    <dependency org="{group}" name="{name}" rev="{release}" force="true"
        conf="default->runtime(default),master">
{exclusions}
    </dependency>"""
_IVY_EXCLUSION: Final = '      <exclude org="{group}"/>'

#: What is asked for by name; other artifacts come with these.
_GROUPS: Final = r"(?:org\.apache\.spark|io\.delta|org\.apache\.iceberg)"
#: How the two tools report that a repository answered and has no such release.
_ABSENT: Final = re.compile(
    r"(?:Could not find artifact |Failure to find )" + _GROUPS + r":(?P<maven>[\w.-]+)"
    r"|" + _GROUPS + r":(?P<cached>[\w.-]+):\S+ was not found in"
    r"|:: " + _GROUPS + r"#(?P<ivy>[\w.-]+);\S+: not found"
)
_REASON: Final = re.compile(r"^(?:\[ERROR\] \S|:: \S+;|\S*Exception|Error)")
#: Where the cause begins in Maven's line, which names the goal, project and artifacts before it.
_CAUSE: Final = re.compile(
    r"(?:Could not (?:find|transfer)|Failure to (?:find|transfer)|Cannot access|No plugin found) "
    r"|[\w.-]+:\S+ was not found in "
)
_LONGEST: Final = 500
_LINK: Final = re.compile(r" -> \[Help \d+\]$")
#: Maven's launcher resets the colours even with -Dstyle.color=never.
_COLOUR: Final = re.compile(r"\x1b\[[\d;]*m")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The artifacts to request, each of a release; their poms bring the rest."""

    title: str
    releases: tuple[tuple[Artifact, str], ...]

    def __str__(self) -> str:
        return self.title

    @classmethod
    def connector(cls, scala: str, release: str, token_provider: str) -> Self:
        """Some repositories lack the token provider of a release."""
        artifacts = connector_artifacts(scala)[:2]
        other = "" if token_provider == release else f" with token provider {token_provider}"
        return cls(
            title=f"{release}{other}",
            releases=tuple(zip(artifacts, (release, token_provider), strict=True)),
        )


class DownloadFailed(Exception):
    """A download that failed; `unfit` names artifacts to try in a lower release.

    It is empty if the repository did not answer.
    """

    def __init__(self, reason: str, *, unfit: frozenset[str] = frozenset()) -> None:
        super().__init__(reason)
        self.unfit = unfit


class Downloader(Protocol):
    """A tool that downloads artifacts with their dependencies."""

    @property
    def title(self) -> str:
        """The tool's name in progress lines and errors."""

    def download(self, wanted: Wanted, folder: Path) -> Path:
        """Downloads into a folder below `folder` and returns it; raises `DownloadFailed`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Maven:
    """The user's `mvn`, with the user's settings, mirrors and local repository."""

    command: str
    title: str = "Maven"

    def download(self, wanted: Wanted, folder: Path) -> Path:
        pom, target = folder / "pom.xml", folder / "jars"
        pom.write_text(_describe(wanted, _POM, _POM_DEPENDENCY, _POM_EXCLUSION))
        maven = [self.command, "-B", "-q", "-Dstyle.color=never", "-f", str(pom)]
        options = ["-DincludeScope=runtime", f"-DoutputDirectory={target}"]
        _run([*maven, "dependency:copy-dependencies", *options])
        return target


@dataclass(frozen=True, slots=True, kw_only=True)
class Ivy:
    """The Ivy that `spark.jars.packages` uses, run separately to report failures."""

    java: Path
    ivy_jar: Path
    title: str = "Ivy"

    def download(self, wanted: Wanted, folder: Path) -> Path:
        description, target = folder / "ivy.xml", folder / "jars"
        description.write_text(_describe(wanted, _IVY, _IVY_DEPENDENCY, _IVY_EXCLUSION))
        sources = ["-ivy", str(description), "-cache", str(folder / "ivy-cache"), "-types", "jar"]
        retrieve = ["-retrieve", f"{target}/[artifact]-[revision].[ext]"]
        ivy = [str(self.java), "-cp", str(self.ivy_jar), "org.apache.ivy.Main", "-warn"]
        _run([*ivy, *sources, *retrieve])
        return target


def available_downloaders(
    spark: InstalledSpark, environ: Mapping[str, str]
) -> tuple[list[Downloader], dict[str, str]]:
    """The tools to try, in order, and why each of the others is unavailable."""
    tools: list[Downloader] = []
    absent: dict[str, str] = {}
    if command := shutil.which("mvn", path=environ.get("PATH")):
        tools.append(Maven(command=command))
    else:
        absent["Maven"] = "no mvn on the PATH"
    java, ivy_jar = find_java(environ), next(spark.jars_dir.glob("ivy-*.jar"), None)
    if java and ivy_jar:
        tools.append(Ivy(java=java, ivy_jar=ivy_jar))
    else:
        absent["Ivy"] = f"no ivy jar in {spark.jars_dir}" if java else "no Java"
    return tools, absent


def _describe(wanted: Wanted, template: str, dependency: str, exclusion: str) -> str:
    exclusions = "\n".join(exclusion.format(group=group) for group in _ALREADY_IN_SPARK)
    dependencies = [
        dependency.format(
            group=artifact.group, name=artifact.name, release=release, exclusions=exclusions
        )
        for artifact, release in wanted.releases
    ]
    return template.format(dependencies="\n".join(dependencies))


def _run(command: Sequence[str]) -> None:
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=_TIMEOUT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise DownloadFailed(f"no result after {_TIMEOUT_SECONDS} s") from None
    except OSError as error:
        raise DownloadFailed(str(error)) from None
    if done.returncode:
        absent = frozenset(match[match.lastgroup or 0] for match in _ABSENT.finditer(done.stdout))
        raise DownloadFailed(_reason_in(done.stdout), unfit=absent)


def _reason_in(output: str) -> str:
    lines = [line.strip() for line in _COLOUR.sub("", output).splitlines() if line.strip()]
    telling = [line for line in lines if _REASON.search(line)]
    first = _LINK.sub("", (telling or lines or ["it printed nothing"])[0])
    cause = _CAUSE.search(first)
    return first[cause.start() if cause else 0 :][:_LONGEST]
