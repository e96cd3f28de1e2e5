"""The file of an index: entries of a fixed size, kept in memory and written late.

The entries of the active segment stay in memory. Its file is empty at first, and is written when
the segment is rolled or closed. Other segments load the file on first use. After a crash
the loader rebuilds missing entries, as Kafka does with indexes it cannot trust.

Owner: the segment, under its `Log._lock`.
Not here: the meaning of an entry (`offset_index`, `time_index`).
"""

from pathlib import Path

from embedkafka.runtime.files import Files


class IndexFile:
    """The stored entries of one index."""

    __slots__ = ("_entry_size", "_files", "_is_written", "path")

    def __init__(self, files: Files, path: Path, *, entry_size: int) -> None:
        self.path = path
        self._files = files
        self._entry_size = entry_size
        self._is_written = False

    def load(self) -> bytes:
        """The stored entries; raises `CorruptIndex` if the last one is incomplete."""
        data = self._files.read(self.path) if self._files.exists(self.path) else b""
        if len(data) % self._entry_size:
            raise CorruptIndex(
                f"{self.path} has {len(data)} bytes, not a multiple of {self._entry_size}"
            )
        self._is_written = True
        return data

    def create(self) -> None:
        """Creates an empty file: Kafka's tools read no segment without its indexes."""
        try:
            self._files.create(self.path)
        except FileExistsError:
            self._files.replace(self.path, b"")
        self._is_written = True

    def save(self, data: bytes) -> None:
        """Writes `data`, unless the file is up to date."""
        if not self._is_written:
            self._files.replace(self.path, data)
            self._is_written = True

    def touch(self) -> None:
        """Notes that the entries in memory are ahead of the file."""
        self._is_written = False

    def move(self, path: Path) -> None:
        """Renames the file if it exists, and continues under the new name."""
        if self._files.exists(self.path):
            self._files.rename(self.path, path)
        self.path = path

    def remove(self) -> None:
        self._files.remove(self.path)


class CorruptIndex(Exception):
    """The index contradicts itself or its segment, and must be rebuilt."""
