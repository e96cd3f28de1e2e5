"""A disk that knows what a loss of power would leave on it."""

import os
import stat
from pathlib import Path

from embedkafka.runtime.buffers import BytesLike
from embedkafka.runtime.files import File
from tests.doubles.disk import FaultyFiles


class VolatileFiles(FaultyFiles):
    """The real file system, which notes what was synced: contents of files, names in directories.

    `lose_power` then makes the copy that a machine would find after a loss of power at this moment.
    """

    def __init__(self) -> None:
        super().__init__()
        self._contents: dict[int, bytes] = {}
        self._names: dict[int, dict[str, int]] = {}

    def open(self, path: Path) -> File:
        if not path.exists():
            return self.create(path)
        return super().open(path)

    def create(self, path: Path) -> File:
        file = super().create(path)
        self._contents.pop(path.stat().st_ino, None)  # an inode is used again
        return file

    def make_directory(self, directory: Path) -> None:
        missing = [path for path in (directory, *directory.parents) if not path.exists()]
        super().make_directory(directory)
        for path in missing:
            self._names.pop(path.stat().st_ino, None)

    def replace(self, path: Path, data: BytesLike, *, sync: bool = False) -> None:
        super().replace(path, data, sync=sync)
        self._contents.pop(path.stat().st_ino, None)
        if sync:
            self._contents[path.stat().st_ino] = bytes(data)

    def copy(self, old: Path, new: Path) -> None:
        super().copy(old, new)
        self._contents.pop(new.stat().st_ino, None)

    def sync(self, path: Path) -> None:
        super().sync(path)
        if path.is_dir():
            found = [(entry.name, entry.inode()) for entry in os.scandir(path)]
            self._names[path.stat().st_ino] = dict(found)
        else:
            self._contents[path.stat().st_ino] = path.read_bytes()

    def on_file_synced(self, descriptor: int) -> None:
        found = os.fstat(descriptor)
        self._contents[found.st_ino] = os.pread(descriptor, found.st_size, 0)

    def lose_power(self, root: Path, target: Path, *, keeps_names: bool) -> None:
        """Makes `target` what is left of `root`.

        With `keeps_names`, the journal of the file system has kept all names and sizes, and what
        was not synced reads as zeros. Without, new names are gone unless their directory was
        synced.
        """
        inodes = {path.stat().st_ino: path for path in (root, *root.rglob("*"))}
        self._leave(root.stat().st_ino, target, inodes, keeps_names=keeps_names)

    def _leave(
        self, inode: int, target: Path, inodes: dict[int, Path], *, keeps_names: bool
    ) -> None:
        path = inodes.get(inode)
        if path is not None and stat.S_ISDIR(path.stat().st_mode):
            target.mkdir()
            names = self._names.get(inode, {})
            if keeps_names:
                names = {entry.name: entry.inode() for entry in os.scandir(path)}
            for name, child in names.items():
                self._leave(child, target / name, inodes, keeps_names=keeps_names)
            return
        content = self._contents.get(inode, b"")
        if keeps_names and path is not None:
            size = path.stat().st_size
            content = content[:size].ljust(size, b"\0")
        target.write_bytes(content)
