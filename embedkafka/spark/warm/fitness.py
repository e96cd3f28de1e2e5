"""Which warm JVM fits a session: decisions only.

Facts are what a JVM cannot change once it runs, by name. A session needs a JVM with equal facts.
"""

import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from embedkafka.runtime.values import dataclass
from embedkafka.spark.class_archive import identity_of

Facts = Mapping[str, str]

#: A new SparkContext reads these again. A JVM reads any other setting once.
_OF_THE_CONTEXT: Final = (
    *("spark.app.", "spark.default.parallelism", "spark.embedkafka.", "spark.local.dir"),
    *("spark.log.level", "spark.master", "spark.sql.", "spark.ui."),
)
#: These are facts of their own.
_OF_THE_LAUNCH: Final = ("spark.driver.extraClassPath", "spark.driver.extraJavaOptions")

#: The JVM has these variables and PATH. Python workers have those of the session as well.
_VARIABLES: Final = (
    *("SPARK_", "HADOOP_", "YARN_", "PYSPARK_", "PYTHON", "JAVA_", "JDK_", "LD_", "LC_"),
    *("AWS_", "AZURE_", "GOOGLE_"),
)
_VARIABLE_NAMES: Final = frozenset({"HOME", "LANG", "TZ", "USER", "LOGNAME"})
_SET_BY_PYSPARK: Final = frozenset({"SPARK_AUTH_SOCKET_TIMEOUT", "SPARK_BUFFER_SIZE"})
"""For its workers, when a session starts."""


_CATALOG: Final = "spark.sql.catalogImplementation"
_PLUGINS: Final = "spark.plugins"


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A warm JVM, as its keeper describes it."""

    name: str
    """What users know it by."""
    is_free: bool
    facts: Facts
    state: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What a session does: lease one of these, in this order, or else start one if it may."""

    fitting: tuple[int, ...]
    why_none: str
    """Why no more may be started; empty if one may."""


def gather_facts(
    *,
    java: str,
    jars_dir: Path,
    class_path: Sequence[str],
    java_options: Sequence[str],
    settings: Mapping[str, str],
    environ: Mapping[str, str],
    directory: str,
) -> Facts:
    """The facts of the JVM that this session would start."""
    return {
        "Java": java,
        "PySpark": f"{jars_dir} {_digest(sorted(jars_dir.glob('*.jar')))}",
        "class path": f"{os.pathsep.join(class_path)} {_digest(map(Path, class_path))}",
        "Java options": "\n".join(java_options),
        "working directory": directory,
        **{f"setting {key}": value for key, value in launch_settings(settings).items()},
        **{f"variable {name}": value for name, value in launch_variables(environ).items()},
    }


def launch_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """The settings that a JVM reads once; the session brings the others."""
    left_out = (*_OF_THE_CONTEXT, *_OF_THE_LAUNCH)
    return {key: value for key, value in settings.items() if not key.startswith(left_out)}


def launch_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that count; the JVM has no others but PATH."""
    return {
        name: value
        for name, value in environ.items()
        if name not in _SET_BY_PYSPARK
        if name.startswith(_VARIABLES) or name in _VARIABLE_NAMES
    }


def session_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """The other variables, which each session brings its Python workers."""
    of_the_jvm = launch_variables(environ)
    return {name: value for name, value in environ.items() if name not in of_the_jvm}


def find_obstacle(settings: Mapping[str, str]) -> str | None:
    """Why no warm JVM can have such a session, because it would leave something behind."""
    master = settings["spark.master"]
    if master != "local" and not master.startswith("local["):
        return f"the master is {master}"
    if settings.get(_CATALOG) == "hive":
        return "Hive's tables would stay in the JVM"
    if settings.get(_PLUGINS):
        return f"{_PLUGINS} may keep something in the JVM"
    return None


def find_misfit(wanted: Facts, found: Facts) -> str | None:
    """What differs, by name; None if the JVM fits."""
    names = {name for name in {*wanted, *found} if wanted.get(name) != found.get(name)}
    return ", ".join(sorted(names)) or None


def choose(candidates: Sequence[Candidate], wanted: Facts, *, most: int) -> Choice:
    """Which JVMs to ask for a lease, and whether another may be started; there are `most`."""
    remarks, fitting = [], []
    for number, candidate in enumerate(candidates):
        misfit = find_misfit(wanted, candidate.facts) if candidate.facts else "unknown"
        what = f"another {misfit}" if candidate.is_free and misfit else candidate.state
        if misfit is None and candidate.is_free:
            fitting.append(number)
        remarks.append(f"{candidate.name}: {what}")
    full = len(candidates) >= most
    return Choice(
        fitting=tuple(fitting),
        why_none=f"{len(candidates)} JVMs are kept, at most one per core, and none fits and is "
        f"free ({'; '.join(remarks)}); `embedkafka spark-jvm stop` ends them"
        if full
        else "",
    )


def _digest(paths: Iterable[Path]) -> str:
    return hashlib.sha256("\n".join(map(identity_of, paths)).encode()).hexdigest()[:16]
