"""Records age from their arrival, even if the clock was moved."""

from typing import Any

import pytest

from embedkafka.broker.log.files.record_ages import PartitionAges, RecordAges, shift_of
from embedkafka.broker.log.files.time_index import TimestampOffset
from embedkafka.broker.log.log import Log, RecordsRejected
from embedkafka.runtime.clock import ManualClock
from embedkafka.runtime.files import FileRegion
from embedkafka.runtime.ids import TopicPartition
from tests.presence import present
from tests.unit.broker.log.conftest import LogKit

DAY_MS = 86_400_000
REAL = 1_700_000_000_000
AHEAD = 8 * DAY_MS


class MovedClock(ManualClock):
    """The brokers' clock; clients are `shift` behind it."""

    def __init__(self) -> None:
        super().__init__(REAL)
        self.shift: int | None = None

    def shift_ms(self) -> int | None:
        return self.shift

    def jump(self, ms: int) -> None:
        self.advance(ms)
        self.shift = ms + (self.shift or 0)

    def client_ms(self) -> int:
        return self.now_ms() - (self.shift or 0)


@pytest.fixture
def clock(kit: LogKit) -> MovedClock:
    kit.clock = clock = MovedClock()
    return clock


def send(kit: LogKit, log: Log, *values: bytes, ago_ms: int = 0, **batch: Any) -> None:
    """Appends a record with the client's time; `ago_ms` makes it old."""
    clock = kit.clock
    assert isinstance(clock, MovedClock)
    built = kit.batch(*values, timestamp=clock.client_ms() - ago_ms, **batch)
    log.append_as_leader(built, leader_epoch=0)
    log.update_high_watermark(log.log_end_offset)


# -- decisions


@pytest.mark.parametrize(
    ("timestamp", "shift_ms", "expected"),
    [
        (REAL, AHEAD, AHEAD),  # a client's
        (REAL - 30 * DAY_MS, AHEAD, AHEAD),  # old data, as a client counts
        (REAL + 60_000, AHEAD, AHEAD),  # a client whose clock is fast
        (REAL + AHEAD, AHEAD, 0),  # a broker's
        (REAL + AHEAD - 60_000, AHEAD, 0),  # a test that uses the brokers' clock
        (REAL, -AHEAD, -AHEAD),  # the brokers' clock was set back
        (REAL - AHEAD, -AHEAD, 0),
    ],
)
def test_a_timestamp_belongs_to_the_closer_clock(
    timestamp: int, shift_ms: int, expected: int
) -> None:
    assert shift_of(timestamp, now_ms=REAL + shift_ms, shift_ms=shift_ms) == expected


def test_a_shift_counts_from_the_offset_where_it_was_noted() -> None:
    ages = PartitionAges()
    assert ages.shift_at(0) == 0
    ages.note(5, REAL, now_ms=REAL + AHEAD, shift_ms=AHEAD)
    ages.note(6, REAL, now_ms=REAL + AHEAD, shift_ms=AHEAD)
    ages.note(9, REAL, now_ms=REAL + 2 * AHEAD, shift_ms=2 * AHEAD)
    assert [ages.shift_at(offset) for offset in (4, 5, 8, 9, 99)] == [
        0,
        AHEAD,
        AHEAD,
        2 * AHEAD,
        2 * AHEAD,
    ]


def test_a_leader_that_writes_over_an_offset_replaces_what_was_noted_from_there_on() -> None:
    ages = PartitionAges()
    ages.note(5, REAL, now_ms=REAL + AHEAD, shift_ms=AHEAD)
    ages.note(9, REAL, now_ms=REAL + 2 * AHEAD, shift_ms=2 * AHEAD)
    ages.note(3, REAL, now_ms=REAL + 3 * AHEAD, shift_ms=3 * AHEAD)
    assert [ages.shift_at(offset) for offset in (2, 3, 9)] == [0, 3 * AHEAD, 3 * AHEAD]


def test_the_latest_record_may_have_the_smaller_timestamp() -> None:
    ages = PartitionAges()
    ages.note(5, REAL, now_ms=REAL + AHEAD, shift_ms=AHEAD)
    from_the_future = TimestampOffset(REAL + 3_600_000, 2)
    assert ages.latest(from_the_future, 0, 10) == REAL + AHEAD
    assert ages.latest(from_the_future, 0, 5) == REAL + 3_600_000


def test_a_topic_of_the_same_name_starts_afresh() -> None:
    from uuid import UUID

    ages, orders = RecordAges(), TopicPartition("orders", 0)
    ages.of(UUID(int=1), orders).note(0, REAL, now_ms=REAL + AHEAD, shift_ms=AHEAD)
    assert ages.of(UUID(int=1), orders).shift_at(0) == AHEAD
    assert ages.of(UUID(int=2), orders).shift_at(0) == 0
    assert ages.of(None, orders).shift_at(0) == 0


# -- a log


def test_retention_counts_from_arrival(kit: LogKit, clock: MovedClock) -> None:
    log = kit.new(retention_ms=7 * DAY_MS)
    send(kit, log, b"old")
    clock.jump(AHEAD)
    send(kit, log, b"new")
    log.delete_old_segments()
    assert kit.values(log) == [b"new"], "the jump must age the records and roll the segment"
    clock.jump(AHEAD)
    log.delete_old_segments()
    assert kit.values(log) == []


def test_a_record_with_an_old_timestamp_is_old(kit: LogKit, clock: MovedClock) -> None:
    log = kit.new(retention_ms=7 * DAY_MS)
    clock.jump(DAY_MS)
    send(kit, log, b"old", ago_ms=AHEAD)
    assert log.delete_old_segments() == 1


def test_ages_survive_a_restart(kit: LogKit, clock: MovedClock) -> None:
    log = kit.new(retention_ms=7 * DAY_MS)
    clock.jump(AHEAD)
    send(kit, log, b"new")
    log.close()
    loaded = kit.load(is_clean=True, retention_ms=7 * DAY_MS)
    loaded.update_high_watermark(1)
    assert loaded.delete_old_segments() == 0
    assert [record.timestamp for record in kit.records(loaded)] == [REAL], "the client's"


def test_a_follower_that_fetches_late_counts_from_the_leaders_arrival(
    kit: LogKit, clock: MovedClock
) -> None:
    leader = kit.new(retention_ms=7 * DAY_MS)
    send(kit, leader, b"old")
    region = leader.read(0, max_bytes=1000).records
    assert isinstance(region, FileRegion)
    kit.directory = kit.root / "follower" / "orders-0"
    kit.directory.parent.mkdir()
    follower = kit.new(retention_ms=7 * DAY_MS)
    clock.jump(AHEAD)
    follower.append_as_follower(region.read())
    follower.update_high_watermark(1)
    assert follower.delete_old_segments() == 1


def test_a_producer_that_wrote_after_the_jump_is_remembered(kit: LogKit, clock: MovedClock) -> None:
    log = kit.new()
    clock.jump(AHEAD)
    send(kit, log, b"a", producer_id=7, producer_epoch=0, base_sequence=0)
    log.remove_expired_producers()
    assert [producer.producer_id for producer in log.active_producers()] == [7]
    clock.jump(AHEAD)
    log.remove_expired_producers()
    assert log.active_producers() == []


def test_timestamps_of_both_clocks_are_accepted(kit: LogKit, clock: MovedClock) -> None:
    log = kit.new(message_timestamp_before_max_ms=1000, message_timestamp_after_max_ms=1000)
    clock.jump(AHEAD)
    send(kit, log, b"a client's")
    kit.append(log, b"the brokers'", timestamp=clock.now_ms())
    with pytest.raises(RecordsRejected, match="INVALID_TIMESTAMP"):
        send(kit, log, b"of no clock", ago_ms=DAY_MS)
    assert kit.values(log) == [b"a client's", b"the brokers'"]


def test_compaction_lags_count_from_arrival(kit: LogKit, clock: MovedClock) -> None:
    log = kit.new()
    clock.jump(AHEAD)
    send(kit, log, b"a")
    log.roll()
    (segment,) = log.cleanable.view().segments
    assert (segment.first_ms, segment.latest_ms) == (REAL + AHEAD, REAL + AHEAD)


def test_times_are_searched_as_clients_wrote_them(kit: LogKit, clock: MovedClock) -> None:
    log = kit.new()
    send(kit, log, b"before")
    clock.jump(AHEAD)
    clock.advance(5)
    send(kit, log, b"after")
    found = present(log.search_timestamp(REAL + 1).finish())
    assert (found.timestamp, found.offset) == (REAL + 5, 1)
    assert log.search_timestamp(REAL + 6).finish() is None
