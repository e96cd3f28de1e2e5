"""A log's leader epochs and their start offsets (KIP-101, KIP-279).

Owner: `Log._lock`.
Invariants: epochs and start offsets both rise. `leader-epoch-checkpoint` covers at least the part
below the recovery point; recovery finds later epochs in the batches it reads.
"""

import logging
from bisect import bisect_right
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from embedkafka.broker.log.files.checkpoints import (
    EPOCH_CHECKPOINT,
    CorruptCheckpoint,
    read_epochs,
    write_epochs,
)
from embedkafka.runtime.files import Files
from embedkafka.runtime.ids import NO_LEADER_EPOCH, NO_OFFSET
from embedkafka.runtime.values import NamedTuple

_LOG = logging.getLogger(__name__)


class EpochEntry(NamedTuple):
    """An epoch and its first offset."""

    epoch: int
    start_offset: int


class EpochEndOffset(NamedTuple):
    """The largest epoch up to the requested one, and its end offset; -1 if unknown."""

    epoch: int
    end_offset: int


UNDEFINED: Final = EpochEndOffset(NO_LEADER_EPOCH, NO_OFFSET)


class EpochCache:
    """The epochs of one log, in memory and in its checkpoint file."""

    def __init__(self, files: Files, directory: Path) -> None:
        self._files = files
        self.path = directory / EPOCH_CHECKPOINT
        self._entries: list[EpochEntry] = []
        self._is_saved = True
        self.latest_epoch = NO_LEADER_EPOCH

    def load(self) -> bool:
        """Reads the checkpoint; drops entries that contradict a later one.

        Returns whether it holds any: after a power loss it may be empty or damaged.
        """
        try:
            stored = read_epochs(self._files, self.path)
        except CorruptCheckpoint as corrupt:
            _LOG.warning("Looking for epochs in the batches: %s", corrupt)
            stored = []
        for epoch, start_offset in stored:
            self._hold(_appended(self._entries, EpochEntry(epoch, start_offset)))
        self._is_saved = True
        return bool(stored)

    def save(self) -> None:
        """Writes the checkpoint if it is out of date."""
        if not self._is_saved:
            write_epochs(self._files, self.path, self._entries)
            self._is_saved = True

    @property
    def entries(self) -> Sequence[EpochEntry]:
        return tuple(self._entries)

    def assign(self, epoch: int, start_offset: int) -> None:
        """Notes that `epoch` starts at `start_offset`, unless it has already started."""
        if epoch == self.latest_epoch and start_offset >= self._entries[-1].start_offset:
            return
        assert epoch >= 0, f"epoch {epoch} at offset {start_offset}"
        assert start_offset >= 0, f"epoch {epoch} at offset {start_offset}"
        self._hold(_appended(self._entries, EpochEntry(epoch, start_offset)))

    def end_offset_for(self, epoch: int, log_end_offset: int) -> EpochEndOffset:
        """The offset up to which a follower whose last epoch is `epoch` may agree with this log."""
        if epoch == NO_LEADER_EPOCH:
            return UNDEFINED
        if epoch == self.latest_epoch:
            return EpochEndOffset(epoch, log_end_offset)
        higher = bisect_right(self._entries, epoch, key=lambda entry: entry.epoch)
        if higher == len(self._entries):
            return UNDEFINED
        floor = self._entries[higher - 1].epoch if higher else epoch
        return EpochEndOffset(floor, self._entries[higher].start_offset)

    def find_epoch_at(self, offset: int) -> int | None:
        """The epoch of the record at `offset`."""
        slot = bisect_right(self._entries, offset, key=lambda entry: entry.start_offset)
        return self._entries[slot - 1].epoch if slot else None

    def truncate_from_end(self, end_offset: int) -> None:
        """Drops epochs that start at or past `end_offset`."""
        kept = [entry for entry in self._entries if entry.start_offset < end_offset]
        if len(kept) < len(self._entries):
            self._hold(kept)

    def truncate_from_start(self, start_offset: int) -> None:
        """Drops epochs that end before `start_offset`; its epoch then starts there."""
        slot = bisect_right(self._entries, start_offset, key=lambda entry: entry.start_offset)
        if slot > 1 or (slot and self._entries[0].start_offset < start_offset):
            first = EpochEntry(self._entries[slot - 1].epoch, start_offset)
            self._hold([first, *self._entries[slot:]])

    def clear(self) -> None:
        if self._entries:
            self._hold([])

    def move(self, directory: Path) -> None:
        """Switches to another directory, to which the file was moved."""
        self.path = directory / EPOCH_CHECKPOINT

    def rewrite(self, directory: Path) -> None:
        """Switches to another directory and overwrites its checkpoint."""
        self.move(directory)
        self._is_saved = False
        self.save()

    def _hold(self, entries: list[EpochEntry]) -> None:
        self._entries = entries
        self._is_saved = False
        self.latest_epoch = entries[-1].epoch if entries else NO_LEADER_EPOCH


def _appended(entries: list[EpochEntry], entry: EpochEntry) -> list[EpochEntry]:
    """`entries` plus `entry`, without earlier entries that contradict it."""
    end = len(entries)
    while end and (
        entries[end - 1].epoch >= entry.epoch or entries[end - 1].start_offset >= entry.start_offset
    ):
        end -= 1
    return [*entries[:end], entry]
