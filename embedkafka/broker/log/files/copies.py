"""Copies log directories, mostly by hard links.

Files that never change in place are linked: all indexes but the transaction index, producer
snapshots and checkpoints, which are replaced as a whole, and closed segments. Before such a segment
is truncated, it leaves the file to the copy (`Files.unshare`). The active segment and the
transaction indexes are copied.

Owner: none; the caller keeps the source from changing.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from embedkafka.broker.log.files.checkpoints import (
    LOG_START_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_CHECKPOINT,
    mark_clean,
    write_offsets,
)
from embedkafka.broker.log.files.segment import LOG_SUFFIX, TXN_INDEX_SUFFIX
from embedkafka.runtime.files import LOCK_FILE, Files
from embedkafka.runtime.ids import TopicPartition
from embedkafka.runtime.values import NamedTuple

#: Files that are being removed, or are not finished.
_PASSING: Final = (".deleted", ".cleaned", ".swap", ".tmp")
#: The same in a broker's directory, and its lock, which is not data.
_NOT_COPIED: Final = ("-delete", LOCK_FILE)


class CopiedLog(NamedTuple):
    """The offsets of a log when it was copied."""

    log_start_offset: int
    high_watermark: int
    recovery_point: int


def copy_log(files: Files, source: Path, target: Path) -> None:
    """Makes `target` a log directory that can be opened separately."""
    files.make_directory(target)
    names = [name for name in files.names(source) if not name.endswith(_PASSING)]
    active = max((name for name in names if name.endswith(LOG_SUFFIX)), default=None)
    for name in names:
        if name == active or name.endswith(TXN_INDEX_SUFFIX):
            files.copy(source / name, target / name)
        else:
            files.link(source / name, target / name)


def write_copied_offsets(
    files: Files, target: Path, copied: Mapping[TopicPartition, CopiedLog]
) -> None:
    """Writes the checkpoints of copied logs and the mark of a clean shutdown."""
    for name, offsets in (
        (RECOVERY_POINT_CHECKPOINT, {tp: log.recovery_point for tp, log in copied.items()}),
        (REPLICATION_CHECKPOINT, {tp: log.high_watermark for tp, log in copied.items()}),
        (LOG_START_CHECKPOINT, {tp: log.log_start_offset for tp, log in copied.items()}),
    ):
        write_offsets(files, target / name, offsets)
    mark_clean(files, target)


def copy_log_dir(files: Files, source: Path, target: Path) -> None:
    """Makes `target` a copy of a broker's directory; neither may be in use.

    Skips logs without records that have not changed since they were copied.
    """
    files.make_directory(target)
    wanted = [name for name in files.names(source) if not name.endswith(_NOT_COPIED)]
    for name in files.names(target):
        if name not in wanted or not _is_same_log(files, source / name, target / name):
            _remove(files, target / name)
    kept = set(files.names(target))
    for name in wanted:
        if name in kept:
            continue
        if (source / name).is_dir():
            copy_log(files, source / name, target / name)
        else:
            files.link(source / name, target / name)


def _is_same_log(files: Files, source: Path, target: Path) -> bool:
    """Whether both are equal logs without records; copying others is quicker than comparing."""
    if not source.is_dir():
        return False
    names = files.names(source)
    if any(name.endswith(LOG_SUFFIX) for name in names) or names != files.names(target):
        return False
    return all(files.read(source / name) == files.read(target / name) for name in names)


def _remove(files: Files, path: Path) -> None:
    if path.is_dir():
        files.remove_tree(path)
    else:
        files.remove(path)
