"""The aborted transactions of one segment, for consumers of committed records.

The file is a sequence of entries of 34 bytes, in the order of their abort markers. It exists only
if the segment has an abort marker.

Owner: the segment, under its `Log._lock`.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from struct import Struct
from typing import Final

from embedkafka.broker.log.files.index_file import CorruptIndex
from embedkafka.runtime.files import Files
from embedkafka.runtime.values import NamedTuple

ENTRY_SIZE: Final = 34
_ENTRY: Final = Struct(">hqqqq")
_VERSION: Final = 0


class AbortedTransaction(NamedTuple):
    """An aborted transaction, and the last stable offset when its marker was written."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class CollectedTxns(NamedTuple):
    """Aborted transactions in a range; complete if no later segment can add to them."""

    transactions: Sequence[AbortedTransaction]
    is_complete: bool


class TransactionIndex:
    """The transaction index of one segment."""

    __slots__ = ("_entries", "_files", "base_offset", "path")

    def __init__(self, files: Files, path: Path, *, base_offset: int) -> None:
        self.path = path
        self.base_offset = base_offset
        self._files = files
        self._entries: list[AbortedTransaction] | None = None

    def create(self) -> None:
        """Starts empty, even if a file of that name has entries."""
        self._entries = []

    def __iter__(self) -> Iterator[AbortedTransaction]:
        return iter(self._loaded())

    def append(self, txn: AbortedTransaction) -> None:
        entries = self._loaded()
        if entries and txn.last_offset <= entries[-1].last_offset:
            raise ValueError(
                f"the aborted transaction {txn} is not past the last one in {self.path}"
            )
        self._files.open(self.path).write(
            _ENTRY.pack(_VERSION, *txn), position=len(entries) * ENTRY_SIZE
        )
        entries.append(txn)

    def collect(self, fetch_offset: int, upper_bound: int) -> CollectedTxns:
        """The transactions that overlap `fetch_offset` (inclusive) to `upper_bound` (exclusive)."""
        found: list[AbortedTransaction] = []
        for txn in self._loaded():
            if txn.last_offset >= fetch_offset and txn.first_offset < upper_bound:
                found.append(txn)
            if txn.last_stable_offset >= upper_bound:
                return CollectedTxns(found, True)
        return CollectedTxns(found, False)

    def truncate_to(self, offset: int) -> None:
        """Drops the entries whose marker is at or past `offset`."""
        entries = self._loaded()
        kept = [txn for txn in entries if txn.last_offset < offset]
        if len(kept) < len(entries):
            self._files.open(self.path).truncate(len(kept) * ENTRY_SIZE)
            self._entries = kept

    def reset(self) -> None:
        """Empties the index and its file."""
        if self._files.exists(self.path):
            self._files.open(self.path).truncate(0)
        self._entries = []

    def check(self) -> None:
        """Raises `CorruptIndex` if the stored entries cannot be right."""
        for txn in self._loaded():
            if txn.last_offset < self.base_offset:
                raise CorruptIndex(f"{self.path}: {txn} ends before the segment's base offset")

    def move(self, path: Path) -> None:
        """Renames the file if it exists, and continues under the new name."""
        if self._files.exists(self.path):
            self._files.rename(self.path, path)
        self.path = path

    def remove(self) -> None:
        self._files.remove(self.path)

    def _loaded(self) -> list[AbortedTransaction]:
        if self._entries is None:
            self._entries = self._load()
        return self._entries

    def _load(self) -> list[AbortedTransaction]:
        data = self._files.read(self.path) if self._files.exists(self.path) else b""
        if len(data) % ENTRY_SIZE:
            raise CorruptIndex(f"{self.path} has {len(data)} bytes, not a multiple of {ENTRY_SIZE}")
        entries: list[AbortedTransaction] = []
        for version, *txn in _ENTRY.iter_unpack(data):
            if version > _VERSION:
                raise CorruptIndex(f"{self.path} has entries of version {version}")
            entries.append(AbortedTransaction(*txn))
        return entries
