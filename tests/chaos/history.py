"""The history of a round: the timeline, the records written, and which of them may remain.

Ticks, not times, order everything; each tick is a unique number. `restore()`, `reset()` and the
deletion of a topic remove records by design. `Lineage` works out which from the ticks before and
after each of those calls: at the end, a record must be there, must be gone, or may be either.
"""

import itertools
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from embedkafka import Snapshot

_TICKS = itertools.count(1)
START = 0


def tick() -> int:
    return next(_TICKS)  # atomic in CPython


class Timeline:
    """A file of steps and complaints, with times. Any thread may write to it."""

    def __init__(self, path: Path, title: str) -> None:
        self._began = time.monotonic()
        self._lock = threading.Lock()
        self._file = path.open("w", buffering=1)  # by lines: a round may end at any time
        self._file.write(f"{title}\n")
        self.complaints: list[str] = []
        self.client_faults: list[str] = []

    def note(self, what: str) -> None:
        with self._lock:
            self._file.write(f"{time.monotonic() - self._began:7.3f}  {what}\n")

    def complain(self, what: str) -> None:
        """Records that something happened that must never happen."""
        self.note(f"WRONG  {what}")
        with self._lock:
            self.complaints.append(what)

    def blame_client(self, what: str) -> None:
        """Counts a stock client that hangs or goes back, which excuses nothing else."""
        self.note(f"CLIENT  {what}")
        with self._lock:
            self.client_faults.append(what)


class Fate(Enum):
    """The fate of a written record."""

    KEPT = "must be there"
    GONE = "must not be there"
    OPEN = "may be there"


@dataclass(frozen=True)
class Span:
    """A period whose writes are still there. Its ends are vague: the calls that set them took time.

    Anything sent after `began` and acknowledged before `ended` was written in it. Anything
    acknowledged before `begins`, or sent after `ends`, was not.
    """

    begins: int
    began: int
    ended: float = float("inf")
    ends: float = float("inf")


class Lineage:
    """The spans that make up the present state of one topic or of the whole cluster."""

    def __init__(self) -> None:
        self.spans: tuple[Span, ...] = (Span(START, START),)

    def cut(self, ended: int, ends: int) -> tuple[Span, ...]:
        """The present state as a snapshot keeps it."""
        last = self.spans[-1]
        return (*self.spans[:-1], Span(last.begins, last.began, ended, ends))

    def go_back(self, kept: tuple[Span, ...], begins: int, began: int) -> None:
        """Returns to the state of `kept`; later writes are added to it."""
        self.spans = (*kept, Span(begins, began))

    def fate(self, sent: int, acked: int | None) -> Fate:
        """The fate of a record by the ticks of its first send and its acknowledgement, if any."""
        if acked is None:
            return Fate.OPEN
        if any(sent > span.began and acked < span.ended for span in self.spans):
            return Fate.KEPT
        if all(sent > span.ends or acked < span.begins for span in self.spans):
            return Fate.GONE
        return Fate.OPEN


@dataclass(eq=False)
class Record:
    """One record sent by a producer; its `value` is unique. A tombstone is sent without it."""

    topic: str
    partition: int
    key: bytes | None
    life: str
    number: int
    sent: int
    is_tombstone: bool = False
    acked: int | None = None
    offset: int | None = None

    @property
    def value(self) -> bytes:
        return f"{self.life}:{self.number}".encode()


@dataclass(eq=False)
class Txn:
    """One transaction: when its producer began it, asked for its end, and learned of it."""

    name: str
    began: int
    asked: int | None = None
    confirmed: int | None = None
    aborted: int | None = None
    written: dict[tuple[str, int], int] = field(default_factory=dict)
    """The first acknowledged offset in each partition."""
    is_open: bool = True
    """Whether it certainly has not ended yet."""


Taken = tuple[Snapshot, dict[str, tuple[Span, ...]], tuple[Span, ...]]
"""A snapshot and the spans it keeps: of each topic, and of the cluster."""


class History:
    """Everything that the clients of a round know. Lists only grow, so readers need no lock."""

    def __init__(self, topics: Iterable[str]) -> None:
        self.lineages = {topic: Lineage() for topic in topics}
        self.cluster = Lineage()
        self.records: list[Record] = []
        self.txns: dict[str, Txn] = {}
        self.commits: list[tuple[str, str, int, int, int, int]] = []
        """Commits of groups: group, topic, partition, offset, tick before, tick after."""
        self._lock = threading.Lock()
        self._committed = threading.Condition()

    # -- calls that remove records

    def snapshot(self, take: Callable[[], Snapshot]) -> Taken:
        """Takes a snapshot with `take`; returns the argument for `restore`."""
        before = tick()
        taken = take()
        after = tick()
        kept = {topic: lineage.cut(before, after) for topic, lineage in self.lineages.items()}
        return taken, kept, self.cluster.cut(before, after)

    def restore(self, snapshot: Taken, put_back: Callable[[Snapshot], None]) -> None:
        taken, kept, cluster = snapshot
        before = tick()
        put_back(taken)
        after = tick()
        for topic, lineage in self.lineages.items():
            lineage.go_back(kept[topic], before, after)
        self.cluster.go_back(cluster, before, after)

    def reset(self, empty: Callable[[], None]) -> None:
        before = tick()
        empty()
        after = tick()
        for lineage in (*self.lineages.values(), self.cluster):
            lineage.go_back((), before, after)

    def deleted(self, topic: str, before: int) -> None:
        """Notes that a topic whose deletion began at this tick exists again, empty."""
        self.lineages[topic].go_back((), before, tick())

    # -- transactions

    def begin(self, worker: str) -> Txn:
        with self._lock:
            txn = Txn(f"{worker}.{len(self.txns)}", tick())
            self.txns[txn.name] = txn
            return txn

    def confirm(self, txn: Txn) -> None:
        """Notes that the producer learned of its commit."""
        txn.confirmed = tick()
        with self._committed:
            self._committed.notify_all()

    def await_commit(self, timeout_s: float) -> None:
        """Returns at the moment a producer learns of a commit, if there is one soon."""
        with self._committed:
            self._committed.wait(timeout_s)

    def close_all(self) -> None:
        """Notes that open transactions may end now: time passes, or the cluster goes back."""
        for txn in list(self.txns.values()):
            txn.is_open = False

    def find_open_before(self, place: tuple[str, int], offset: int) -> str | None:
        for txn in list(self.txns.values()):
            if txn.is_open and txn.written.get(place, offset) < offset:
                return txn.name
        return None
