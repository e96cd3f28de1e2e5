"""The results, the scale and the names of measurements."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from benchmarks.rivals.rival import Rival


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One measured value of one cluster."""

    name: str
    value: float
    more_is_better: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """The amount of work; `--quick` does less of everything."""

    idle_seconds: int
    records: int
    acks: int
    topics: int
    new_groups: int
    joins: int
    full_groups: int
    commits: int
    transactions: int
    kills: int
    log_mb: int
    compacted_mb: int
    loaded_partitions: int


FULL = Scale(
    idle_seconds=5,
    records=1_000_000,
    acks=1_000,
    topics=10,
    new_groups=5,
    joins=3,
    full_groups=100,
    commits=2_000,
    transactions=500,
    kills=3,
    log_mb=1_000,
    compacted_mb=100,
    loaded_partitions=10_000,
)
QUICK = Scale(
    idle_seconds=5,
    records=50_000,
    acks=200,
    topics=3,
    new_groups=2,
    joins=1,
    full_groups=20,
    commits=500,
    transactions=100,
    kills=1,
    log_mb=100,
    compacted_mb=20,
    loaded_partitions=1_000,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Work for a running cluster. Every run uses new topics and groups."""

    name: str
    run: Callable[[Rival, Scale], Iterator[Row]]
