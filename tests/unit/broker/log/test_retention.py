"""Which segments are deleted, as a function of values."""

from embedkafka.broker.log.config import LogConfig
from embedkafka.broker.log.retention import SegmentView, find_expired

NOW = 1_000_000


def views(*sizes: int, age_ms: int = 0) -> list[SegmentView]:
    return [
        SegmentView(
            base_offset=number * 10,
            end_offset=number * 10 + 10,
            size=size,
            latest_ms=NOW - age_ms,
            is_active=number == len(sizes) - 1,
        )
        for number, size in enumerate(sizes)
    ]


def count(
    segments: list[SegmentView],
    *,
    log_start_offset: int = 0,
    high_watermark: int = 10_000,
    **settings: object,
) -> int:
    return find_expired(
        segments,
        LogConfig(**{"retention_ms": -1, **settings}),  # type: ignore[arg-type]
        log_start_offset=log_start_offset,
        high_watermark=high_watermark,
        now_ms=NOW,
    ).count


def test_without_limits_everything_stays() -> None:
    assert count(views(100, 100, age_ms=10**9)) == 0


def test_size_lets_go_only_what_is_wholly_in_excess() -> None:
    assert count(views(100, 100, 100), retention_bytes=200) == 1
    assert count(views(100, 100, 100), retention_bytes=201) == 0
    assert count(views(100, 100, 100), retention_bytes=0) == 3


def test_age_must_be_above_the_limit() -> None:
    assert count(views(100, 100, age_ms=500), retention_ms=500) == 0
    assert count(views(100, 100, age_ms=501), retention_ms=500) == 2


def test_an_empty_active_segment_stays() -> None:
    assert count(views(100, 0, age_ms=501), retention_ms=500) == 1


def test_nothing_goes_at_or_past_the_high_watermark() -> None:
    segments = views(100, 100, 100, age_ms=501)
    assert count(segments, retention_ms=500, high_watermark=20) == 2
    assert count(segments, retention_ms=500, high_watermark=19) == 1


def test_segments_behind_the_log_start_go_under_every_policy() -> None:
    compact = frozenset({"compact"})
    segments = views(100, 100, 100)
    assert count(segments, log_start_offset=20, cleanup_policy=compact) == 2
    assert count(segments, log_start_offset=19, cleanup_policy=compact) == 1
    assert count(segments, log_start_offset=30, cleanup_policy=compact) == 2


def test_a_compacted_topic_forgets_nothing_by_size_or_age() -> None:
    compact = frozenset({"compact"})
    old = views(100, 100, age_ms=501)
    assert count(old, cleanup_policy=compact, retention_ms=500, retention_bytes=0) == 0


def test_a_run_ends_at_the_first_segment_that_stays() -> None:
    segments = views(100, 100, 100)
    segments[1] = segments[1]._replace(latest_ms=NOW)
    aged = [segment._replace(latest_ms=NOW - 501) for segment in segments]
    aged[1] = segments[1]
    assert count(aged, retention_ms=500) == 1
