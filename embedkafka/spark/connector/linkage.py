"""Tells whether a connector of another release links with the installed Spark.

Spark's internals change between releases. A connector that was compiled for another release may
refer to a class, method or field that is gone, and the JVM notices only when the code runs. So
this module looks up every such reference in the class files beforehand. That takes a second or
two, and the cache keeps the verdict.

It reads all classes of the connector, but of the token provider only those that the connector
reaches. The others obtain delegation tokens on a secure cluster.
Not here: what no reference shows, such as reflection, or a method that a newer Spark expects the
connector to implement.
"""

import hashlib
import json
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, Self

from embedkafka.spark.connector.class_files import BadClassFile, ClassFile, Member, read_class_file
from embedkafka.spark.connector.installed import InstalledSpark
from embedkafka.spark.connector.jar_cache import JarCache

#: Part of every verdict's key. A change of the rules increases it, so that old verdicts expire.
_RULES: Final = 1

#: The packages that change with Spark's release; the second has libraries that Spark renames.
_SPARKS_PACKAGES: Final = ("org/apache/spark/", "org/sparkproject/")

_OBJECT: Final = frozenset(
    {
        "clone",
        "equals",
        "finalize",
        "getClass",
        "hashCode",
        "notify",
        "notifyAll",
        "toString",
        "wait",
    }
)
_THROWABLE: Final = _OBJECT | {
    "addSuppressed",
    "fillInStackTrace",
    "getCause",
    "getLocalizedMessage",
    "getMessage",
    "getStackTrace",
    "getSuppressed",
    "initCause",
    "printStackTrace",
    "setStackTrace",
}

#: The methods that a class inherits from Java's own types, whose class files no jar holds. A type
#: that is not listed may have any method.
_METHODS_OF_JAVA: Final[Mapping[str, frozenset[str]]] = {
    "java/lang/Object": _OBJECT,
    "java/lang/Throwable": _THROWABLE,
    "java/lang/Exception": _THROWABLE,
    "java/lang/RuntimeException": _THROWABLE,
    "java/lang/AutoCloseable": frozenset({"close"}),
    "java/lang/Cloneable": frozenset(),
    "java/lang/Comparable": frozenset({"compareTo"}),
    "java/lang/Runnable": frozenset({"run"}),
    "java/io/Closeable": frozenset({"close"}),
    "java/io/Serializable": frozenset(),
}

#: A subclass does not inherit these.
_NOT_INHERITED: Final = frozenset({"<init>", "<clinit>"})


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingSymbol:
    """A class or member that a jar refers to and that is nowhere."""

    jar: str
    #: The class, or the class that should have the member.
    owner: str
    symbol: str

    def __str__(self) -> str:
        return f"{self.jar} needs {self.symbol}"


def find_missing_symbol(
    jars: Sequence[Path], spark: InstalledSpark, cache: JarCache
) -> MissingSymbol | None:
    """The first of Spark's symbols that these jars need, and that neither they nor Spark have.

    The connector comes first, then the token provider. Raises `OSError`, `BadZipFile` or
    `BadClassFile` if a jar is unreadable.
    """
    digest = _digest(jars)
    if (kept := cache.find_verdict(digest)) is not None:
        return MissingSymbol(**kept) if kept else None
    with ClassPath([*jars, *_jars_of(spark)]) as class_path:
        missing = next(_missing_symbols(jars, class_path), None)
    cache.keep_verdict(digest, asdict(missing) if missing else {})
    return missing


class ClassPath:
    """Finds classes in jars. It lists a jar when no earlier one has the class.

    Only jars whose classes are read stay open: Spark has more jars than some systems let a process
    open files.
    """

    def __init__(self, jars: Sequence[Path]) -> None:
        self._unlisted = list(reversed(jars))
        self._homes: dict[str, Path] = {}
        self._archives: dict[Path, zipfile.ZipFile] = {}
        self._classes: dict[str, ClassFile] = {}
        self._open = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._open.close()

    def has_class(self, name: str) -> bool:
        return self._find_home(name) is not None

    def find_class(self, name: str) -> ClassFile | None:
        if name not in self._classes:
            home = self._find_home(name)
            if home is None:
                return None
            self._classes[name] = read_class_file(self._archive(home).read(f"{name}.class"))
        return self._classes[name]

    def has_member(self, owner: str, member: Member) -> bool:
        """Whether the class or one of its ancestors has the member."""
        if owner.startswith("java/"):
            methods = _METHODS_OF_JAVA.get(owner)
            return methods is None or member.name in methods
        found = self.find_class(owner)
        if found is None:
            return True  # an ancestor that we cannot look into
        if member in found.members:
            return True
        if member.name in _NOT_INHERITED:
            return False
        return any(self.has_member(parent, member) for parent in found.parents)

    def _find_home(self, name: str) -> Path | None:
        while name not in self._homes and self._unlisted:
            jar = self._unlisted.pop()
            with zipfile.ZipFile(jar) as archive:
                for entry in archive.namelist():
                    self._homes.setdefault(entry.removesuffix(".class"), jar)
        return self._homes.get(name)

    def _archive(self, jar: Path) -> zipfile.ZipFile:
        if jar not in self._archives:
            self._archives[jar] = self._open.enter_context(zipfile.ZipFile(jar))
        return self._archives[jar]


def _missing_symbols(jars: Sequence[Path], class_path: ClassPath) -> Iterator[MissingSymbol]:
    for jar, used in _reached_classes(jars).items():
        # Classes first: a missing class explains its missing members.
        for name in sorted({name for each in used for name in each.used_classes}):
            if name.startswith(_SPARKS_PACKAGES) and not class_path.has_class(name):
                yield _missing(jar, name, f"the class {_java_name(name)}")
        for owner, member in sorted({use for each in used for use in each.used_members}):
            if owner.startswith(_SPARKS_PACKAGES) and not class_path.has_member(owner, member):
                yield _missing(jar, owner, _describe(owner, member))


def _reached_classes(jars: Sequence[Path]) -> dict[Path, list[ClassFile]]:
    """All classes of the first jar, and those of the others that they refer to, by jar."""
    reached: dict[Path, list[ClassFile]] = {jar: [] for jar in jars}
    unreached = {each.name: (jar, each) for jar in jars[1:] for each in _classes_in(jar)}
    pending = [(jars[0], each) for each in _classes_in(jars[0])]
    while pending:
        jar, each = pending.pop()
        reached[jar].append(each)
        pending += [unreached.pop(name) for name in each.used_classes if name in unreached]
    return reached


def _classes_in(jar: Path) -> Iterator[ClassFile]:
    with zipfile.ZipFile(jar) as archive:
        for entry in archive.namelist():
            if entry.endswith(".class") and not entry.startswith("META-INF/"):
                try:
                    yield read_class_file(archive.read(entry))
                except BadClassFile as error:
                    raise BadClassFile(f"{entry} in {jar} is {error}") from error


def _jars_of(spark: InstalledSpark) -> list[Path]:
    """Spark's jars; those that most classes are in come first."""
    early = ("spark-", "scala-library")
    return sorted(
        spark.jars_dir.glob("*.jar"), key=lambda jar: (not jar.name.startswith(early), jar.name)
    )


def _digest(jars: Sequence[Path]) -> str:
    digest = hashlib.sha256(f"rules {_RULES}".encode())
    for jar in jars:
        digest.update(json.dumps(jar.name).encode())
        digest.update(hashlib.sha256(jar.read_bytes()).digest())
    return digest.hexdigest()[:32]


def _missing(jar: Path, owner: str, symbol: str) -> MissingSymbol:
    return MissingSymbol(jar=jar.name, owner=_java_name(owner), symbol=symbol)


def _describe(owner: str, member: Member) -> str:
    kind = "method" if member.descriptor.startswith("(") else "field"
    return f"the {kind} {_java_name(owner)}.{member.name} of type {member.descriptor}"


def _java_name(name: str) -> str:
    return name.replace("/", ".")
