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
        """Counts a stock client that hangs or goes back; this excuses nothing else."""
        self.note(f"CLIENT  {what}")
        with self._lock:
            self.client_faults.append(what)


class Fate(Enum):
    """Of something that was written."""

    KEPT = "must be there"
    GONE = "must not be there"
    OPEN = "may be there"


@dataclass(frozen=True)
class Span:
    """A time whose writes are still there. Its ends are vague: the calls that set them took time.

    What was sent after `began` and acknowledged before `ended` was written in it. What was
    acknowledged before `begins`, or sent after `ends`, was not.
    """

    begins: int
    began: int
    ended: float = float("inf")
    ends: float = float("inf")


class Lineage:
    """The spans of which the present state is made, for one topic or for the whole cluster."""

    def __init__(self) -> None:
        self.spans: tuple[Span, ...] = (Span(START, START),)

    def cut(self, ended: int, ends: int) -> tuple[Span, ...]:
        """The present state, as a snapshot keeps it."""
        last = self.spans[-1]
        return (*self.spans[:-1], Span(last.begins, last.began, ended, ends))

    def go_back(self, kept: tuple[Span, ...], begins: int, began: int) -> None:
        """From now on there is what `kept` has, and what is written from here on."""
        self.spans = (*kept, Span(begins, began))

    def fate(self, sent: int, acked: int | None) -> Fate:
        """Of what was sent first at one tick and acknowledged at another, or at none (None)."""
        if acked is None:
            return Fate.OPEN
        if any(sent > span.began and acked < span.ended for span in self.spans):
            return Fate.KEPT
        if all(sent > span.ends or acked < span.begins for span in self.spans):
            return Fate.GONE
        return Fate.OPEN


@dataclass(eq=False)
class Record:
    """One record that a producer has sent; `value` is like no other's."""

    topic: str
    partition: int
    key: bytes | None
    life: str
    number: int
    sent: int
    acked: int | None = None
    offset: int | None = None

    @property
    def value(self) -> bytes:
        return f"{self.life}:{self.number}".encode()


@dataclass(eq=False)
class Txn:
    """One transaction: when its producer began it, asked for its end, and was told of it."""

    name: str
    began: int
    asked: int | None = None
    confirmed: int | None = None
    aborted: int | None = None
    written: dict[tuple[str, int], int] = field(default_factory=dict)
    """The first offset in each partition, of what is acknowledged."""
    is_open: bool = True
    """Whether it cannot have ended yet, whatever happens."""


Taken = tuple[Snapshot, dict[str, tuple[Span, ...]], tuple[Span, ...]]
"""A snapshot, and what it keeps: of each topic, and of the cluster."""


class History:
    """All that the clients of a round know. Lists only grow, so that readers need no lock."""

    def __init__(self, topics: Iterable[str]) -> None:
        self.lineages = {topic: Lineage() for topic in topics}
        self.cluster = Lineage()
        self.records: list[Record] = []
        self.txns: dict[str, Txn] = {}
        self.commits: list[tuple[str, str, int, int, int, int]] = []
        """Of groups: group, topic, partition, offset, tick before, tick after."""
        self._lock = threading.Lock()
        self._committed = threading.Condition()

    # -- what takes things away

    def snapshot(self, take: Callable[[], Snapshot]) -> Taken:
        """Takes a snapshot with `take`; what `restore` must be given."""
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
        """A topic whose deletion began at a tick is there again, empty."""
        self.lineages[topic].go_back((), before, tick())

    # -- transactions

    def begin(self, worker: str) -> Txn:
        with self._lock:
            txn = Txn(f"{worker}.{len(self.txns)}", tick())
            self.txns[txn.name] = txn
            return txn

    def confirm(self, txn: Txn) -> None:
        """Its producer was told that it is committed."""
        txn.confirmed = tick()
        with self._committed:
            self._committed.notify_all()

    def await_commit(self, timeout_s: float) -> None:
        """Returns in the moment in which a producer is told of a commit, if one is soon."""
        with self._committed:
            self._committed.wait(timeout_s)

    def close_all(self) -> None:
        """From now on any open transaction may end: time passes, or the cluster goes back."""
        for txn in list(self.txns.values()):
            txn.is_open = False

    def find_open_before(self, place: tuple[str, int], offset: int) -> str | None:
        for txn in list(self.txns.values()):
            if txn.is_open and txn.written.get(place, offset) < offset:
                return txn.name
        return None
