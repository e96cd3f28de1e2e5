"""A real directory whose files can be made to fail."""

import errno
from pathlib import Path

from embedkafka.runtime.buffers import BytesLike
from embedkafka.runtime.files import File, SystemFiles


class FaultyFiles(SystemFiles):
    """A disk on which some files are full: a write to them stops half-way and fails.

    These are the files whose names end with one of `full_paths`. Reads and truncations always work.
    `embedkafka.faults.disk` has the faults that users inject.
    """

    def __init__(self) -> None:
        super().__init__()
        self.full_paths: set[str] = set()
        self.synced: list[Path] = []

    def open(self, path: Path) -> File:
        return FaultyFile(super().open(path), path, self)

    def create(self, path: Path) -> File:
        return FaultyFile(super().create(path), path, self)

    def replace(self, path: Path, data: BytesLike, *, sync: bool = False) -> None:
        self.check(path)
        super().replace(path, data, sync=sync)

    def sync(self, path: Path) -> None:
        super().sync(path)
        self.synced.append(path)

    def on_file_synced(self, descriptor: int) -> None:
        """An open file was synced."""

    def check(self, path: Path) -> None:
        if any(path.name.endswith(suffix) for suffix in self.full_paths):
            raise OSError(errno.ENOSPC, "no space left on device", str(path))


class FaultyFile:
    """A file of `FaultyFiles`."""

    def __init__(self, file: File, path: Path, files: FaultyFiles) -> None:
        self._file = file
        self._path = path
        self._files = files

    def fileno(self) -> int:
        return self._file.fileno()

    def read(self, position: int, size: int) -> bytes:
        return self._file.read(position, size)

    def write(self, data: BytesLike, position: int) -> None:
        try:
            self._files.check(self._path)
        except OSError:
            self._file.write(memoryview(data)[: len(data) // 2], position)
            raise
        self._file.write(data, position)

    def truncate(self, size: int) -> None:
        self._file.truncate(size)

    def sync(self) -> None:
        self._file.sync()
        self._files.synced.append(self._path)
        self._files.on_file_synced(self._file.fileno())
