"""Archives of Spark's classes, which a JVM maps instead of reading, checking and linking them.

The first session writes the archive when its JVM ends; later sessions with the same Java, Spark and
class path start from it, which saves a third of the CPU of a first test.
Owner: the process that holds the lock beside an archive may make it.
Invariants: an archive is renamed into place, and its name holds its size and checksum. HotSpot
crashes on a file that is cut short, so a session maps only a file that agrees with its name.
"""

import fcntl
import hashlib
import mmap
import os
import re
import shlex
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from embedkafka.runtime.failures import ConfigError
from embedkafka.spark.connector.installed import InstalledSpark, release_numbers
from embedkafka.spark.connector.jar_cache import cache_home
from embedkafka.spark.connector.java import find_java, read_release
from embedkafka.spark.connector.progress import Progress

ENVIRONMENT_VARIABLE: Final = "EMBEDKAFKA_SPARK_ARCHIVE"
AUTO, USE, NEW, NO = WISHES = ("auto", "use", "new", "no")
SIZE: Final = "about 170 MB"

_FIRST_JAVA: Final = (13,)
"""Older ones cannot write an archive when they end."""

_KEPT: Final = 3
"""How many archives stay: those used last. Each new environment and each upgrade adds one."""

_WRITING_SECONDS: Final = 180
"""Ten are enough on a machine that has nothing else to do."""

_NAME: Final = re.compile(r"(?P<key>[0-9a-f]+)-(?P<size>\d+)-(?P<checksum>[0-9a-f]{8})\.jsa")
_JVM_WARNING: Final = re.compile(r"\[warning\]\[cds[^]]*\] (?P<reason>.*)")
_REMARKS_ON_CLASSES: Final = ("Skipping", "Pre JDK", "Preload")

#: The JVM's own remarks go to stderr, which is Spark's log, and not to the user's terminal.
_LOGGING: Final = ("-Xlog:disable", "-Xlog:all=warning:stderr")
#: Java 17 maps an archive at a random address, against attackers. It then corrects the addresses in
#: it, and so copies its pages. Spark lets Java ignore options that it does not know.
AT_ITS_ADDRESS: Final = ("-XX:+UnlockDiagnosticVMOptions", "-XX:ArchiveRelocationMode=0")
_IRRELEVANT: Final = ("-D", "-Xlog")
"""Options that do not matter here, and may name a folder that is new in each run."""

_OTHER_ARCHIVE: Final = ("-Xshare", "-XX:SharedArchiveFile", "-XX:ArchiveClassesAtExit")
_ENVIRONMENT: Final = (
    *("SPARK_CONF_DIR", "SPARK_DIST_CLASSPATH", "HADOOP_CONF_DIR", "YARN_CONF_DIR"),
    *("SPARK_SUBMIT_OPTS", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS"),
)
"""Variables that Spark's scripts and the JVM turn into class path and options."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """What an archive depends on: another launch needs another archive."""

    java_release: str
    spark: InstalledSpark
    class_path: tuple[Path, ...]
    java_options: tuple[str, ...]
    environment: tuple[str | None, ...]

    @property
    def key(self) -> str:
        """A name for it. The JVM compares sizes and times of jars as well."""
        jars = [*self.class_path, *sorted(self.spark.jars_dir.glob("*.jar"))]
        options = [option for option in self.java_options if not option.startswith(_IRRELEVANT)]
        facts = [self.java_release, *options, *map(str, self.environment), *map(identity_of, jars)]
        return hashlib.sha256("\n".join(facts).encode()).hexdigest()[:16]

    @property
    def is_lasting(self) -> bool:
        """Whether a later session can have the same class path."""
        temporary = Path(tempfile.gettempdir())
        return not any(path.is_relative_to(temporary) for path in self.class_path)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveFolder:
    """The archive of one launch, among others."""

    home: Path
    key: str

    def find(self, progress: Progress) -> Path | None:
        """The archive, if it is whole; a damaged one is removed."""
        for path in self._held():
            if _is_whole(path):
                with suppress(OSError):
                    os.utime(path)  # the archives used last are kept
                return path
            progress(f"removing the class archive {path}, which is damaged")
            _remove(path)
        return None

    def find_refusal(self) -> str | None:
        """Why the JVM could not make this archive."""
        try:
            return self._refusal.read_text(encoding="utf-8")
        except OSError:
            return None

    @contextmanager
    def drafting(self, progress: Progress) -> Iterator[Path | None]:
        """Where to write the archive; None if another process is writing it or the disk refuses."""
        with ExitStack() as held:
            try:
                self.home.mkdir(parents=True, exist_ok=True)
                lock = os.open(self.home / f"{self.key}.lock", os.O_RDWR | os.O_CREAT, 0o666)
                held.callback(os.close, lock)
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield None
                return
            except OSError as error:
                progress(
                    f"no archive of Spark's classes can be written: {error}. EMBEDKAFKA_CACHE may "
                    "name another directory"
                )
                yield None
                return
            draft = self.home / f"{self.key}.draft"
            _remove(draft)  # left by a process that was killed
            held.callback(_remove, draft)
            yield draft

    def publish(self, draft: Path) -> Path:
        """Puts the draft in its place, and removes archives that were not used for long."""
        old = self._held()
        size, checksum = _measure(draft)
        path = self.home / f"{self.key}-{size}-{checksum:08x}.jsa"
        draft.rename(path)
        _remove(self._refusal)
        for each in old:
            if each != path:
                _remove(each)
        self._trim()
        return path

    def refuse(self, reason: str) -> None:
        """Remembers that the JVM cannot make this archive, so that each session need not try."""
        with suppress(OSError):
            self._refusal.write_text(reason, encoding="utf-8")

    def _held(self) -> list[Path]:
        return [path for path in self.home.glob(f"{self.key}-*.jsa") if _NAME.fullmatch(path.name)]

    def _trim(self) -> None:
        for path in sorted(self.home.glob("*.jsa"), key=_last_use, reverse=True)[_KEPT:]:
            _remove(path)

    @property
    def _refusal(self) -> Path:
        return self.home / f"{self.key}.refused"


class SessionArchive:
    """What one session does about its archive: it uses it, makes it, or does without."""

    def __init__(
        self,
        folder: ArchiveFolder | None = None,
        *,
        used: Path | None = None,
        draft: Path | None = None,
        progress: Progress = lambda line: None,
    ) -> None:
        self._folder = folder
        self._used = used
        self._draft = draft
        self._progress = progress

    @property
    def java_options(self) -> str:
        if self._used:
            used = f"-XX:SharedArchiveFile={self._used}"
            return shlex.join([used, *AT_ITS_ADDRESS, *_LOGGING])
        if self._draft:
            return shlex.join([f"-XX:ArchiveClassesAtExit={self._draft}", *_LOGGING])
        return ""

    def on_failed_start(self) -> None:
        """The JVM did not start with it. It gets another chance without."""
        if self._used:
            self._progress(f"starting Spark again, without the class archive {self._used}")
        self._used = self._draft = None

    def on_started(self, log_file: Path) -> None:
        if self._used and (reason := _find_reason(log_file)):
            self._progress(f"Java does not use the class archive {self._used}: {reason}")

    def on_ending(self, *, failed: bool, patience_seconds: int) -> int:
        """How long to wait for the end of the JVM, which may be about to write the archive.

        A session that failed, or that the user interrupts, has loaded few classes and is over.
        """
        if self._draft is None or self._folder is None:
            return patience_seconds
        if failed:
            self._draft = None
            return 0
        self._progress(
            f"archiving Spark's classes in {self._folder.home} ({SIZE}), this once, which takes "
            f"some 20 s, so that sessions start quicker; {ENVIRONMENT_VARIABLE}=no prevents it"
        )
        return _WRITING_SECONDS

    def on_ended(self, exit_code: int | None, log_file: Path) -> None:
        if not self._draft or not self._folder:
            return
        try:
            if exit_code == 0 and self._draft.exists():
                self._folder.publish(self._draft)
                return
        except OSError as error:
            self._progress(f"the class archive could not be kept: {error}")
            return
        if exit_code == 0:  # one that was killed says nothing about the next
            reason = _find_reason(log_file) or "Java does not say why"
            self._folder.refuse(reason)
            self._progress(f"there will be no class archive: {reason}")


@contextmanager
def session_archive(
    launch: Launch | None, wish: str, *, progress: Progress, environ: Mapping[str, str]
) -> Iterator[SessionArchive]:
    """The archive for a session that is about to start."""
    if launch is None and wish == NEW:
        raise ConfigError(
            "no class archive can be written: it takes Java 13 or newer with the archive of Java's "
            "classes, lib/server/classes.jsa, and no other archive in the Java options"
        )
    if launch is None or wish == NO:
        yield SessionArchive()
        return
    folder = ArchiveFolder(home=cache_home(environ) / "spark-archives", key=launch.key)
    used = folder.find(progress) if wish != NEW else None
    if used or os.pathsep in str(folder.home) or not _may_make(launch, folder, wish, environ):
        if not used and wish == AUTO and (reason := _why_not(launch, environ)):
            progress(f"Spark starts without an archive of its classes: {reason}")
        yield SessionArchive(folder, used=used, progress=progress)
        return
    with folder.drafting(progress) as draft:
        yield SessionArchive(folder, draft=draft, progress=progress)


def find_launch(
    spark: InstalledSpark,
    class_path: Sequence[str],
    java_options: Sequence[str],
    environ: Mapping[str, str],
) -> Launch | None:
    """This launch, if its Java can work with archives and the caller has not brought one."""
    java = find_java(environ)
    release = read_release(java) if java else None
    if release is None or release_numbers(release.version) < _FIRST_JAVA:
        return None
    if not release.has_class_archive:
        return None
    if any(option.startswith(_OTHER_ARCHIVE) for option in java_options):
        return None
    return Launch(
        java_release=f"{java} {release.text}",
        spark=spark,
        class_path=tuple(map(Path, class_path)),
        java_options=tuple(java_options),
        environment=tuple(environ.get(name) for name in _ENVIRONMENT),
    )


def require_wish(given: str | None, environ: Mapping[str, str]) -> str:
    """What the caller, or else the environment, wants: one of `WISHES`."""
    origin, wish = ("archive", given) if given else (ENVIRONMENT_VARIABLE, None)
    wish = wish or environ.get(ENVIRONMENT_VARIABLE) or AUTO
    if wish not in WISHES:
        raise ConfigError(f"{origin} must be one of {', '.join(WISHES)}, not {wish!r}")
    return wish


def _may_make(launch: Launch, folder: ArchiveFolder, wish: str, environ: Mapping[str, str]) -> bool:
    """By default not in CI: its machines start afresh, and would only pay for the making."""
    if wish != AUTO:
        return wish == NEW
    return not environ.get("CI") and launch.is_lasting and folder.find_refusal() is None


def _why_not(launch: Launch, environ: Mapping[str, str]) -> str | None:
    """Why there will be none by default, and what to do about it."""
    if environ.get("CI"):
        return (
            f"CI is set. To save seconds, keep {cache_home(environ)} between runs, and write one "
            "with `embedkafka spark-jars --archive`"
        )
    if not launch.is_lasting:
        return (
            f"its class path is below {tempfile.gettempdir()}. {ENVIRONMENT_VARIABLE}={NEW} writes "
            "one all the same"
        )
    return None


def _find_reason(log_file: Path) -> str | None:
    """The JVM's first remark on the archive, other than on a class that cannot be in it."""
    with suppress(OSError), log_file.open(encoding="utf-8", errors="replace") as log:
        for line in log:
            found = _JVM_WARNING.search(line)
            if found and not found["reason"].startswith(_REMARKS_ON_CLASSES):
                return found["reason"]
    return None


def _is_whole(path: Path) -> bool:
    name = _NAME.fullmatch(path.name)
    try:
        return name is not None and _measure(path) == (int(name["size"]), int(name["checksum"], 16))
    except (OSError, ValueError):  # an empty file cannot be mapped
        return False


def _measure(path: Path) -> tuple[int, int]:
    """The size and the checksum of a file. It takes 30 ms for an archive."""
    from crc32c import crc32c

    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return len(content), crc32c(content)


def identity_of(path: Path) -> str:
    try:
        status = path.stat()
    except OSError:
        return f"{path} absent"
    return f"{path} {status.st_size} {status.st_mtime_ns}"


def _last_use(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _remove(path: Path) -> None:
    with suppress(OSError):
        path.unlink()
