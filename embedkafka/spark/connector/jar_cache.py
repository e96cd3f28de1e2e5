"""The cache of downloaded jars: a folder per Spark and Scala version, shared by a user's processes.

Beside each folder are verdicts: whether jars of other releases link with that Spark.
Owner: the process that holds the file lock beside a folder; only it may replace the folder.
Invariants: a folder or a verdict is renamed into place, so it is complete or absent.
"""

import fcntl
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from embedkafka.spark.connector.installed import InstalledSpark
from embedkafka.spark.connector.progress import Progress


def cache_home(environ: Mapping[str, str]) -> Path:
    """`EMBEDKAFKA_CACHE`, or `embedkafka` in the XDG cache directory."""
    if environ.get("EMBEDKAFKA_CACHE"):
        return Path(environ["EMBEDKAFKA_CACHE"]).expanduser()
    base = environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "embedkafka"


@dataclass(frozen=True, slots=True, kw_only=True)
class JarCache:
    """The folder of one Spark and Scala version, which may not exist yet."""

    home: Path
    key: str

    @property
    def folder(self) -> Path:
        return self.home / self.key

    @contextmanager
    def locked(self, progress: Progress) -> Iterator[None]:
        """Lets one process download; the others wait here, and then find the jars in the cache.

        The wait needs no deadline: downloads have one, and the kernel releases the lock of a
        process that died.
        """
        self.home.mkdir(parents=True, exist_ok=True)
        lock = os.open(self.home / f"{self.key}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                progress("waiting for another process that is downloading Spark's jars")
                fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)

    @contextmanager
    def staging(self) -> Iterator[Path]:
        """A private folder on the same file system, removed afterwards."""
        self.home.mkdir(parents=True, exist_ok=True)
        staging = Path(tempfile.mkdtemp(prefix=f"{self.key}-", dir=self.home))
        try:
            yield staging
        finally:
            shutil.rmtree(staging, ignore_errors=True)

    def publish(self, jars: tuple[Path, ...]) -> tuple[Path, ...]:
        """Puts these jars into the cache. The caller holds the lock."""
        with self.staging() as staging:
            for jar in jars:
                shutil.copyfile(jar, staging / jar.name)
            staging.chmod(0o755)
            shutil.rmtree(self.folder, ignore_errors=True)
            staging.rename(self.folder)
        return tuple(self.folder / jar.name for jar in jars)

    def find_verdict(self, digest: str) -> dict[str, str] | None:
        """The verdict on the jars with this digest, if it was kept."""
        try:
            verdict: dict[str, str] = json.loads(self._verdict(digest).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return verdict

    def keep_verdict(self, digest: str, verdict: Mapping[str, str]) -> None:
        """Keeps the verdict if the cache is writable; if not, it is found again each time."""
        with suppress(OSError), self.staging() as staging:
            written = staging / "verdict.json"
            written.write_text(json.dumps(verdict), encoding="utf-8")
            self._verdict(digest).parent.mkdir(exist_ok=True)
            written.rename(self._verdict(digest))

    def _verdict(self, digest: str) -> Path:
        return self.home / f"{self.key}.links" / f"{digest}.json"


def jar_cache(
    spark: InstalledSpark, environ: Mapping[str, str], *, package: str | None = None
) -> JarCache:
    """The cache of the connector for this Spark, or of another package."""
    home = cache_home(environ) / "spark-jars"
    part = f".{package}" if package else ""
    return JarCache(home=home, key=f"spark-{spark.release}_{spark.scala}{part}")
