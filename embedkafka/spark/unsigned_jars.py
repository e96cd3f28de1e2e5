"""Copies of Spark's signed jars without their signatures.

Janino, which compiles the code that Spark generates, is signed, with a certificate of no authority.
Java checks each of its classes, and no archive of classes takes signed ones.
Owner: the file system; a copy is renamed into place and has the time of its original.
"""

import os
import re
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

_SIGNED: Final = ("janino-", "commons-compiler-")
_SIGNATURE: Final = re.compile(r"META-INF/[^/]+\.(SF|RSA|DSA|EC)")


def unsigned_jars(jars_dir: Path, home: Path) -> list[Path]:
    """The copies in `home`, made if they are missing; none if the disk or a jar refuses."""
    try:
        return [_copy(jar, home) for jar in _signed_jars(jars_dir)]
    except (OSError, zipfile.BadZipFile):
        return []


def _signed_jars(jars_dir: Path) -> Iterator[Path]:
    for name in sorted(path.name for path in jars_dir.glob("*.jar")):
        if name.startswith(_SIGNED):
            with zipfile.ZipFile(jars_dir / name) as jar:
                if any(map(_SIGNATURE.fullmatch, jar.namelist())):
                    yield jars_dir / name


def _copy(jar: Path, home: Path) -> Path:
    status = jar.stat()
    path = home / f"{jar.stem}-{status.st_size}-{status.st_mtime_ns}.jar"
    if path.exists():
        return path
    home.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=home, delete=False) as file:
        draft = Path(file.name)
    try:
        _write(draft, jar)
        os.utime(draft, ns=(status.st_atime_ns, status.st_mtime_ns))  # an archive notes it
        draft.chmod(0o644)
        draft.rename(path)
    finally:
        with suppress(FileNotFoundError):
            draft.unlink()
    return path


def _write(path: Path, signed: Path) -> None:
    """Uncompressed, for quick reading."""
    with zipfile.ZipFile(signed) as jar, zipfile.ZipFile(path, "w") as copy:
        for entry in jar.infolist():
            if not _SIGNATURE.fullmatch(entry.filename):
                copy.writestr(entry, jar.read(entry), zipfile.ZIP_STORED)
