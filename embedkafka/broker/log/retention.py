"""Finds segments that are too old, too many, or below the log start.

Pure: takes segments as values and returns a number of segments. Segments go only from the front,
never at or past the high watermark, and an empty active segment stays.
"""

from collections.abc import Callable, Sequence

from embedkafka.broker.log.config import LogConfig
from embedkafka.runtime.values import NamedTuple, dataclass


class SegmentView(NamedTuple):
    """A segment, as retention sees it."""

    base_offset: int
    end_offset: int
    size: int
    latest_ms: int
    """When its latest record arrived, on the brokers' clock."""
    is_active: bool


@dataclass(frozen=True, slots=True)
class Expired:
    """The number of segments to delete from the front, and the reason."""

    count: int
    reason: str


NOTHING_EXPIRED = Expired(0, "")


def find_expired(
    segments: Sequence[SegmentView],
    config: LogConfig,
    *,
    log_start_offset: int,
    high_watermark: int,
    now_ms: int,
) -> Expired:
    """The longest run of segments at the front that one of the rules releases."""
    rules: list[tuple[str, Callable[[SegmentView], bool]]] = [
        (
            f"log start offset {log_start_offset} breach",
            lambda segment: not segment.is_active and segment.end_offset <= log_start_offset,
        )
    ]
    if config.deletes:
        if config.retention_bytes >= 0:
            rules.append(
                (f"retention size {config.retention_bytes} breach", _over_size(segments, config))
            )
        if config.retention_ms >= 0:
            rules.append(
                (
                    f"retention time {config.retention_ms}ms breach",
                    lambda segment: now_ms - segment.latest_ms > config.retention_ms,
                )
            )
    runs = [Expired(_run(segments, rule, high_watermark), reason) for reason, rule in rules]
    return (
        max(runs, key=lambda run: run.count) if any(run.count for run in runs) else NOTHING_EXPIRED
    )


def _over_size(segments: Sequence[SegmentView], config: LogConfig) -> Callable[[SegmentView], bool]:
    excess = sum(segment.size for segment in segments) - config.retention_bytes

    def goes(segment: SegmentView) -> bool:
        nonlocal excess
        if excess - segment.size < 0:
            return False
        excess -= segment.size
        return True

    return goes


def _run(
    segments: Sequence[SegmentView], rule: Callable[[SegmentView], bool], high_watermark: int
) -> int:
    count = 0
    for segment in segments:
        is_empty_active = segment.is_active and segment.size == 0
        if is_empty_active or segment.end_offset > high_watermark or not rule(segment):
            break
        count += 1
    return count
