"""The checkpoints of a job, as Spark leaves them on disk.

A batch has an entry in `offsets/` before it runs, and one in `commits/` after its sink has written
it. So a checkpoint without its last commit is that of a driver that died in between.
"""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

_OFFSETS, _COMMITS = "offsets", "commits"


def find_checkpoints(directory: str) -> list[Path]:
    """The checkpoints below a directory."""
    return sorted(commits.parent for commits in Path(directory).rglob(_COMMITS))


def uncommit(checkpoint: Path) -> int | None:
    """Takes back the commit of the last batch; returns the batch, or None if there was none."""
    committed = _batches(checkpoint, _COMMITS)
    if not committed:
        return None
    last = max(committed)
    (checkpoint / _COMMITS / str(last)).unlink()
    (checkpoint / _COMMITS / f".{last}.crc").unlink(missing_ok=True)
    return last


def remove(checkpoint: Path) -> None:
    """The query that had it starts over."""
    shutil.rmtree(checkpoint)


def has_data(checkpoint: Path, batch: int) -> bool:
    """Whether a batch has taken records, and not only moved a watermark."""
    sources = [_sources(checkpoint, each) for each in (batch - 1, batch)]
    return sources[0] != sources[1]


def planned_batches(checkpoint: Path) -> list[int]:
    """The batches that were begun, committed or not."""
    return _batches(checkpoint, _OFFSETS)


def uncommitted_batches(checkpoint: Path) -> list[int]:
    """The batches that were begun and not committed: the next driver runs them again."""
    return sorted({*planned_batches(checkpoint)} - {*_batches(checkpoint, _COMMITS)})


def last_watermark_ms(checkpoint: Path) -> int:
    """The watermark that the query's last batch ran with; 0 if it has seen no event times."""
    return max(_numbers(checkpoint, _OFFSETS, "batchWatermarkMs"), default=0)


def has_watermark(checkpoint: Path) -> bool:
    """Whether the query has seen event times: a commit says the next batch's watermark."""
    return any(_numbers(checkpoint, _COMMITS, "nextBatchWatermarkMs"))


def _numbers(checkpoint: Path, log: str, name: str) -> Iterator[int]:
    """A number that the entries of a log may have in their metadata."""
    for batch in _batches(checkpoint, log):
        for line in (checkpoint / log / str(batch)).read_text().splitlines():
            if line.startswith("{"):
                yield json.loads(line).get(name, 0)


def _sources(checkpoint: Path, batch: int) -> list[str]:
    """Where each source stood after a batch: a line each, behind the version and the settings."""
    plan = checkpoint / _OFFSETS / str(batch)
    return plan.read_text().splitlines()[2:] if plan.exists() else []


def _batches(checkpoint: Path, log: str) -> list[int]:
    return [int(entry.name) for entry in (checkpoint / log).glob("*") if entry.name.isdecimal()]
