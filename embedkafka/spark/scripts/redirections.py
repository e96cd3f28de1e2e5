"""Where the addresses, paths and topics lead that a script names.

A path keeps its name below the test's directory: `/data/out`, `data/out` and `s3a://data/out` are
`<directory>/data/out`. So a test can put files where the script looks for them, and a second run
finds what the first has written.

Owner: the script's threads; a dictionary notes what was found in one step.
Not here: who calls this, for which options (`spark_patches`, `client_patches`).
"""

import posixpath
import re
from collections.abc import Callable, Mapping
from itertools import takewhile
from pathlib import Path
from typing import Final, Protocol

from embedkafka.runtime.values import dataclass

BOOTSTRAP: Final = "kafka.bootstrap.servers"
_CHECKPOINT: Final = "checkpointLocation"
DEFAULT_CHECKPOINTS: Final = "spark.sql.streaming.checkpointLocation"
KAFKA: Final = "kafka"
_FILES: Final = frozenset(
    {"parquet", "csv", "json", "text", "orc", "xml", "avro", "delta", "hudi", "binaryfile"}
)
_SCHEME: Final = re.compile(r"^[A-Za-z][\w+.-]*:")
_GLOB: Final = re.compile(r"[*?\[{]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Redirected:
    """Something that the script named, and what it got instead."""

    what: str
    given: str
    instead: str

    def __str__(self) -> str:
        return f"{self.what} {self.given} -> {self.instead}"


class TopicNames(Protocol):
    """Other names for topics and tables, for a script that `explore` runs."""

    def source(self, options: Mapping[str, str], *, streaming: bool) -> dict[str, str]:
        """The options to change of a Kafka source."""

    def sink(self, options: Mapping[str, str]) -> dict[str, str]:
        """The options to change of a Kafka sink."""

    def query(self, format: str, name: str) -> str:
        """Another name for a query."""


class Redirections:
    """What leads where, and what has been redirected so far."""

    def __init__(
        self,
        *,
        directory: Path,
        addresses: Callable[[str], str],
        names: TopicNames | None = None,
    ) -> None:
        self.directory = directory
        self._addresses = addresses
        self._names = names
        self._written: set[Path] = set()
        self._found: dict[Redirected, None] = {}

    @property
    def found(self) -> tuple[Redirected, ...]:
        """Each once, in the order of the script."""
        return tuple(self._found)

    def note(self, what: str, given: str, instead: str) -> str:
        """Remembers a redirection, if it is one; returns what the script gets."""
        if given != instead:
            self._found[Redirected(what=what, given=given, instead=instead)] = None
        return instead

    def address(self, what: str, given: str) -> str:
        return self.note(what, given, self._addresses(given))

    def checkpoint(self, given: str, what: str = _CHECKPOINT) -> str:
        return self.note(what, given, str(self.path(given)))

    def path(self, given: str) -> Path:
        """Where files go that the script writes there."""
        text = _SCHEME.sub("", str(given), count=1)
        local = Path(posixpath.normpath(text))
        if self.directory in (local, *local.parents):
            return local
        parts = posixpath.normpath(text.lstrip("/")).replace(":", "_").split("/")
        return self.directory.joinpath(*(part for part in parts if part not in ("", ".", "..")))

    def written(self, given: str) -> str:
        path = self.path(given)
        self._written.add(path)
        return self.note("path", given, str(path))

    def read(self, given: str) -> str:
        """A path to read from: in the test's directory if it is there, else where it says."""
        path = self.path(given)
        parts = path.relative_to(self.directory).parts
        root = self.directory.joinpath(*takewhile(lambda part: not _GLOB.search(part), parts))
        if path in self._written or (root != self.directory and root.exists()):
            return self.note("path", given, str(path))
        return given

    def source(
        self, format: str | None, options: Mapping[str, str], *, streaming: bool
    ) -> dict[str, str]:
        """The options of a reader that change; `options` have names in lower case."""
        if is_file(format):
            return {"path": self.read(options["path"])} if "path" in options else {}
        if format != KAFKA:
            return {}
        return self._brokers(options) | self._renamed(
            options, {} if self._names is None else self._names.source(options, streaming=streaming)
        )

    def sink(self, format: str | None, options: Mapping[str, str]) -> dict[str, str]:
        """The same of a writer."""
        changes = {}
        if "checkpointlocation" in options:
            changes[_CHECKPOINT] = self.checkpoint(options["checkpointlocation"])
        if is_file(format) and "path" in options:
            changes["path"] = self.written(options["path"])
        if format == KAFKA:
            changes |= self._brokers(options)
            changes |= self._renamed(
                options, {} if self._names is None else self._names.sink(options)
            )
        return changes

    def query_name(self, format: str | None, given: str) -> str:
        if self._names is None:
            return given
        return self.note("queryName", given, self._names.query(format or "", given))

    def _brokers(self, options: Mapping[str, str]) -> dict[str, str]:
        if BOOTSTRAP not in options:
            return {}
        return {BOOTSTRAP: self.address(BOOTSTRAP, options[BOOTSTRAP])}

    def _renamed(self, options: Mapping[str, str], changes: dict[str, str]) -> dict[str, str]:
        for name, value in changes.items():
            self.note(name, options.get(name.lower(), "(not set)"), value)
        return changes


def is_file(format: str | None) -> bool:
    """Whether a path of this format names files; Spark's default format is one."""
    return format is None or format in _FILES
