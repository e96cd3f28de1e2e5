"""Appends to a log and reads from it."""

import os
import struct
import threading
from pathlib import Path

import pytest

from embedkafka.broker.log.log import AppendInfo, FetchIsolation, Log, LogOffsetMetadata
from embedkafka.runtime.files import FileRegion
from embedkafka.wire.protocol.errors import ApiError, ErrorCode
from embedkafka.wire.records.batch import read_batches
from embedkafka.wire.records.builder import build_batch, write_crc
from tests.unit.broker.log.conftest import LogKit


def error_of(caught: "pytest.ExceptionInfo[ApiError]") -> ErrorCode:
    return caught.value.code


def region(log: Log, offset: int, **options: object) -> FileRegion:
    data = log.read(offset, **{"max_bytes": 2**20, **options})  # type: ignore[arg-type]
    assert isinstance(data.records, FileRegion)
    return data.records


# -- appending


def test_a_new_log_is_empty(kit: LogKit) -> None:
    log = kit.new()
    assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (0, 0, 0)
    assert log.latest_epoch == -1
    assert log.size == 0
    assert log.read(0, max_bytes=100).size == 0


@pytest.mark.parametrize("ending", ["running", "killed", "closed"])
def test_where_a_log_file_is_there_are_its_indexes(kit: LogKit, ending: str) -> None:
    log = kit.new(segment_bytes=300)
    assert not list(kit.directory.glob("0*")), "an empty partition should have no files"
    for number in range(5):
        kit.append(log, b"%d" % number * 100)
    if ending != "running":
        log.kill() if ending == "killed" else log.close()
    files = {path.name for path in kit.directory.glob("0*")}
    bases = {name[:20] for name in files if name.endswith(".log")}
    assert len(bases) > 1
    for suffix in (".index", ".timeindex"):
        assert {base + suffix for base in bases} <= files


def test_a_leader_numbers_records_and_stamps_its_epoch(kit: LogKit) -> None:
    log = kit.new()
    first = kit.append(log, b"a", b"b", epoch=4)
    second = kit.append(log, b"c", epoch=5)
    assert (first.first_offset, first.last_offset) == (0, 1)
    assert (second.first_offset, second.last_offset) == (2, 2)
    assert second == AppendInfo(
        first_offset=2,
        last_offset=2,
        max_timestamp=kit.clock.now_ms(),
        log_append_time_ms=-1,
        log_start_offset=0,
        num_bytes=len(kit.batch(b"c")),
        last_leader_epoch=5,
    )
    assert log.log_end_offset == 3
    assert [record.offset for record in kit.records(log)] == [0, 1, 2]
    batches = list(read_batches(region(log, 0).read()))
    assert [batch.partition_leader_epoch for batch in batches] == [4, 5]


def test_a_writable_buffer_is_patched_and_a_read_only_one_copied(kit: LogKit) -> None:
    log = kit.new()
    kit.append(log, b"a")
    sent = kit.batch(b"b")
    writable = bytearray(sent)
    log.append_as_leader(memoryview(writable), leader_epoch=3)
    (batch,) = read_batches(writable)
    assert (batch.base_offset, batch.partition_leader_epoch) == (1, 3)
    log.append_as_leader(memoryview(sent), leader_epoch=3)
    assert kit.values(log) == [b"a", b"b", b"b"]


def test_a_follower_keeps_the_offsets_and_epochs_of_the_leader(kit: LogKit) -> None:
    log = kit.new()
    sent = build_batch([(1, None, b"a", ())], base_offset=0, leader_epoch=1)
    sent += build_batch([(1, None, b"b", ())], base_offset=5, leader_epoch=2)
    info = log.append_as_follower(memoryview(sent))
    assert (info.first_offset, info.last_offset, info.last_leader_epoch) == (0, 5, 2)
    assert log.log_end_offset == 6
    assert [(entry.epoch, entry.end_offset) for entry in map(log.end_offset_for_epoch, (1, 2))] == [
        (1, 5),
        (2, 6),
    ]


def test_a_follower_drops_a_partial_batch_at_the_end(kit: LogKit) -> None:
    log = kit.new()
    whole = build_batch([(1, None, b"a", ())], base_offset=0, leader_epoch=1)
    partial = build_batch([(1, None, b"b", ())], base_offset=1, leader_epoch=1)[:-3]
    log.append_as_follower(whole + partial)
    assert log.log_end_offset == 1
    assert log.size == len(whole)


@pytest.mark.parametrize(("first", "delta"), [(0, -5), (2**63 - 1, 0), (2**63 - 3, 9)])
def test_a_follower_refuses_a_batch_that_goes_backwards_or_too_far(
    kit: LogKit, first: int, delta: int
) -> None:
    log = kit.new()
    impossible = bytearray(build_batch([(1, None, b"a", ())], base_offset=first))
    struct.pack_into(">i", impossible, 23, delta)  # the last offset delta
    write_crc(impossible)
    with pytest.raises(ApiError) as refusal:
        log.append_as_follower(impossible)
    assert refusal.value.code is ErrorCode.CORRUPT_MESSAGE
    assert log.log_end_offset == 0


def test_a_follower_refuses_offsets_it_already_has(kit: LogKit) -> None:
    log = kit.new()
    kit.append(log, b"a", b"b")
    with pytest.raises(ApiError):
        log.append_as_follower(build_batch([(1, None, b"x", ())], base_offset=1, leader_epoch=0))
    assert kit.values(log) == [b"a", b"b"]


def test_a_new_follower_can_be_read_before_its_first_batch(kit: LogKit) -> None:
    """Compaction may have left a leader without records for more offsets than a segment holds."""
    log = kit.new()
    batch = bytearray(kit.batch(b"late"))
    batch[:8] = (1 << 40).to_bytes(8, "big")
    log.append_as_follower(batch)
    log.update_high_watermark(log.log_end_offset)
    for start in (0, 5, 1 << 40):
        assert kit.values(log, start=start) == [b"late"]


def test_a_refused_batch_behind_a_gap_leaves_no_segment_there(kit: LogKit) -> None:
    """The offset is too far for the active segment, so the batch would start another."""
    log = kit.new()
    kit.append(log, b"a")
    not_a_marker = build_batch(
        [(1, b"", b"", ())],
        base_offset=2**48,
        leader_epoch=0,
        producer_id=7,
        producer_epoch=0,
        transactional=True,
        control=True,
    )
    with pytest.raises(ApiError):
        log.append_as_follower(not_a_marker)
    assert len(kit.names(".log")) == 1
    log.append_as_follower(build_batch([(2, None, b"b", ())], base_offset=1, leader_epoch=0))
    log.roll()
    assert kit.values(log) == [b"a", b"b"]


def test_an_empty_follower_starts_with_the_batch_its_start_lies_in(kit: LogKit) -> None:
    log = kit.new()
    log.truncate_fully_and_start_at(7)
    sent = build_batch([(1, None, b"%d" % n, ()) for n in range(4)], base_offset=5, leader_epoch=0)
    log.append_as_follower(sent)
    log.update_high_watermark(9)
    log.increment_log_start_offset(7)
    assert (log.log_start_offset, log.log_end_offset) == (7, 9)
    assert kit.values(log) == [b"2", b"3"]


def test_an_append_of_nothing_changes_nothing(kit: LogKit) -> None:
    log = kit.new()
    info = log.append_as_leader(b"", leader_epoch=0)
    assert (info.first_offset, info.num_bytes, log.log_end_offset) == (-1, 0, 0)


def test_a_batch_larger_than_a_segment_is_refused(kit: LogKit) -> None:
    log = kit.new(segment_bytes=100)
    with pytest.raises(ApiError) as caught:
        kit.append(log, b"x" * 200)
    assert error_of(caught) is ErrorCode.RECORD_LIST_TOO_LARGE
    assert log.log_end_offset == 0


def test_a_follower_takes_a_batch_larger_than_a_segment_alone(kit: LogKit) -> None:
    log = kit.new(segment_bytes=100)
    for offset in range(3):
        log.append_as_follower(
            build_batch([(1, None, b"x" * 200, ())], base_offset=offset, leader_epoch=0)
        )
    assert len(kit.names(".log")) == 3
    assert len(kit.values(log)) == 3


# -- rolling


def test_a_tiny_segment_size_gives_each_batch_its_own_segment(kit: LogKit) -> None:
    log = kit.new(segment_bytes=70)
    for value in (b"a", b"b", b"c"):
        kit.append(log, value)
    assert kit.names(".log") == [f"{offset:020d}.log" for offset in range(3)]
    assert kit.names(".snapshot") == [f"{offset:020d}.snapshot" for offset in (1, 2)]
    assert kit.values(log) == [b"a", b"b", b"c"]


def test_a_segment_is_rolled_when_the_records_time_passes_segment_ms(kit: LogKit) -> None:
    log = kit.new(segment_ms=1000)
    kit.append(log, b"a", timestamp=5000)
    kit.append(log, b"b", timestamp=6000)
    assert len(kit.names(".log")) == 1
    kit.append(log, b"c", timestamp=6001)
    assert kit.names(".log") == ["00000000000000000000.log", "00000000000000000002.log"]


def test_a_segment_of_records_without_time_is_rolled_by_the_clock(kit: LogKit) -> None:
    log = kit.new(segment_ms=1000)
    kit.append(log, b"a", timestamp=-1)
    kit.clock.advance(1001)
    kit.append(log, b"b", timestamp=-1)
    assert len(kit.names(".log")) == 2


def test_jitter_makes_segments_roll_early(kit: LogKit) -> None:
    log = kit.new(segment_ms=1000, segment_jitter_ms=999)
    kit.append(log, b"a", timestamp=5000)
    kit.append(log, b"b", timestamp=5999)
    assert len(kit.names(".log")) == 2


def test_a_full_index_starts_a_new_segment(kit: LogKit) -> None:
    log = kit.new(segment_index_bytes=36, index_interval_bytes=0)
    for number in range(8):
        kit.append(log, b"x", timestamp=number)
    assert len(kit.names(".log")) > 1
    assert len(kit.values(log)) == 8


def test_an_offset_too_far_from_the_base_starts_a_new_segment(kit: LogKit) -> None:
    log = kit.new()
    for offset in (0, 2**31 - 1, 2**31, 2**33):
        log.append_as_follower(
            build_batch([(1, None, b"x", ())], base_offset=offset, leader_epoch=0)
        )
    assert kit.names(".log") == [f"{offset:020d}.log" for offset in (0, 2**31, 2**33)]
    assert [record.offset for record in kit.records(log)] == [0, 2**31 - 1, 2**31, 2**33]


# -- reading


def test_a_read_begins_with_the_batch_that_holds_the_offset(kit: LogKit) -> None:
    log = kit.new()
    kit.append(log, b"a", b"b", b"c")
    kit.append(log, b"d")
    batches = list(read_batches(region(log, 1).read()))
    assert [batch.base_offset for batch in batches] == [0, 3]
    assert [batch.base_offset for batch in read_batches(region(log, 3).read())] == [3]


def test_the_first_batch_comes_whole_only_if_that_is_wanted(kit: LogKit) -> None:
    log = kit.new()
    size = kit.append(log, b"a" * 500).num_bytes
    assert region(log, 0, max_bytes=10, min_one_message=True).size == size
    for too_little in (0, 10, size - 1):
        assert log.read(0, max_bytes=too_little, min_one_message=False).size == 0


def test_a_read_ends_with_its_segment(kit: LogKit) -> None:
    log = kit.new(segment_bytes=70)
    kit.append(log, b"a")
    kit.append(log, b"b")
    assert [batch.base_offset for batch in read_batches(region(log, 0).read())] == [0]


@pytest.mark.parametrize("offset", [-1, 0, 1, 5])
def test_offsets_outside_the_log_are_out_of_range(kit: LogKit, offset: int) -> None:
    log = kit.new()
    kit.append(log, b"a", b"b", b"c", b"d")
    log.update_high_watermark(4)
    log.increment_log_start_offset(2)
    with pytest.raises(ApiError) as caught:
        log.read(offset, max_bytes=100)
    assert error_of(caught) is ErrorCode.OFFSET_OUT_OF_RANGE


def test_consumers_see_nothing_beyond_the_high_watermark(kit: LogKit) -> None:
    log = kit.new()
    first = kit.append(log, b"a")
    kit.append(log, b"b")
    log.update_high_watermark(1)
    isolation = FetchIsolation.HIGH_WATERMARK
    assert region(log, 0, isolation=isolation).size == first.num_bytes
    assert log.read(1, max_bytes=100, isolation=isolation).size == 0
    assert log.read(2, max_bytes=100, isolation=isolation).size == 0
    assert region(log, 1).size > 0


def test_old_batches_are_found_through_the_index(kit: LogKit) -> None:
    log = kit.new(index_interval_bytes=200)
    for number in range(300):
        kit.append(log, b"%d" % number)
    log.close()
    for reader in (log := kit.load(is_clean=True),):
        for offset in (0, 1, 17, 150, 298, 299):
            (batch, *_) = read_batches(region(reader, offset).read())
            assert batch.base_offset == offset


def test_old_batches_are_found_beside_those_appended_since_a_restart(kit: LogKit) -> None:
    log = kit.new()
    for number in range(4):
        kit.append(log, b"%d" % number)
    log.close()
    log = kit.load(is_clean=True)
    kit.append(log, b"4")
    for offset in range(5):
        (batch, *_) = read_batches(region(log, offset).read())
        assert batch.base_offset == offset


def test_metadata_tells_the_bytes_between_two_offsets(kit: LogKit) -> None:
    log = kit.new()
    first = kit.append(log, b"a")
    second = kit.append(log, b"bb")
    start = log.read(0, max_bytes=10).fetch_offset
    end = log.offset_metadata(FetchIsolation.LOG_END)
    assert start == LogOffsetMetadata(0, 0, 0)
    assert end == LogOffsetMetadata(2, 0, first.num_bytes + second.num_bytes)
    log.update_high_watermark(1)
    assert log.offset_metadata(FetchIsolation.HIGH_WATERMARK).position == first.num_bytes


def test_a_region_outlives_its_segment(kit: LogKit) -> None:
    log = kit.new(segment_bytes=70, retention_bytes=0)
    kit.append(log, b"a")
    kit.append(log, b"b")
    held = region(log, 0)
    before = held.read()
    log.update_high_watermark(2)
    assert log.delete_old_segments() == 2
    kit.tasks.run_pending()
    assert kit.names(".log") == ["00000000000000000002.log"]
    assert held.read() == before


def test_few_files_stay_open_however_many_segments_there_are(kit: LogKit) -> None:
    log = kit.new(segment_bytes=70)
    for number in range(60):
        kit.append(log, b"%d" % (number % 10))
    log.update_high_watermark(60)
    log.close()
    assert open_files(log) == 0
    log = kit.load(is_clean=False, segment_bytes=70)
    assert len(kit.values(log)) == 60
    log.delete_old_segments()
    log.search_timestamp(1).finish()
    log.truncate_to(30)
    assert open_files(log) <= 5
    log.close()
    assert open_files(log) == 0


def open_files(log: Log) -> int:
    """How many of this process's descriptors are files of the log."""
    count = 0
    for name in os.listdir("/proc/self/fd"):
        try:
            count += os.readlink(f"/proc/self/fd/{name}").startswith(f"{log.directory}/")
        except FileNotFoundError:
            continue  # the descriptor of the listing itself
    return count


# -- timestamps


def test_the_first_record_from_a_time_on_is_found(kit: LogKit) -> None:
    log = kit.new(index_interval_bytes=100, segment_bytes=1000)
    for number in range(50):
        kit.append(log, b"x", timestamp=1000 + 10 * number, epoch=3)
    for wanted, offset in ((0, 0), (1000, 0), (1001, 1), (1250, 25), (1490, 49)):
        found = log.search_timestamp(wanted).finish()
        assert found is not None
        assert (found.offset, found.timestamp, found.leader_epoch) == (
            offset,
            1000 + 10 * offset,
            3,
        )
    assert log.search_timestamp(1491).finish() is None


def test_the_search_by_time_begins_at_the_log_start(kit: LogKit) -> None:
    log = kit.new()
    kit.append(log, b"a", b"b", b"c", timestamp=1000)
    log.update_high_watermark(3)
    log.increment_log_start_offset(2)
    found = log.search_timestamp(500).finish()
    assert found is not None
    assert found.offset == 2


def test_the_record_with_the_largest_timestamp_is_found(kit: LogKit) -> None:
    log = kit.new(segment_bytes=70)
    assert log.search_max_timestamp().finish() is None
    for timestamp in (100, 900, 300):
        kit.append(log, b"x", timestamp=timestamp)
    found = log.search_max_timestamp().finish()
    assert found is not None
    assert (found.timestamp, found.offset) == (900, 1)


# -- marks


def test_the_high_watermark_stays_within_the_log(kit: LogKit) -> None:
    log = kit.new()
    kit.append(log, b"a", b"b")
    assert log.update_high_watermark(9) == 2
    assert log.update_high_watermark(-4) == 0


def test_the_log_start_does_not_pass_the_high_watermark_and_never_goes_back(kit: LogKit) -> None:
    log = kit.new()
    kit.append(log, b"a", b"b", b"c")
    log.update_high_watermark(2)
    with pytest.raises(ApiError) as caught:
        log.increment_log_start_offset(3)
    assert error_of(caught) is ErrorCode.OFFSET_OUT_OF_RANGE
    assert log.increment_log_start_offset(2) is True
    assert log.increment_log_start_offset(1) is False
    assert log.log_start_offset == 2


# -- truncation


def test_truncation_drops_the_batches_from_an_offset_on(kit: LogKit) -> None:
    log = kit.new(segment_bytes=200)
    for number in range(10):
        kit.append(log, b"%d" % number, epoch=number // 3)
    log.update_high_watermark(8)
    assert log.truncate_to(5) is True
    assert kit.values(log) == [b"0", b"1", b"2", b"3", b"4"]
    assert (log.log_end_offset, log.high_watermark, log.latest_epoch) == (5, 5, 1)
    assert kit.append(log, b"new", epoch=7).first_offset == 5
    assert kit.values(log, 4) == [b"4", b"new"]


def test_truncation_past_the_end_drops_nothing(kit: LogKit) -> None:
    log = kit.new()
    kit.append(log, b"a")
    assert log.truncate_to(1) is False
    assert log.truncate_to(9) is False
    assert log.log_end_offset == 1


def test_a_log_truncated_fully_begins_anew(kit: LogKit) -> None:
    log = kit.new(segment_bytes=70)
    for value in (b"a", b"b"):
        kit.append(log, value)
    log.truncate_fully_and_start_at(100)
    assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (100, 100, 100)
    assert log.latest_epoch == -1
    assert kit.append(log, b"c").first_offset == 100
    assert kit.values(log) == [b"c"]
    kit.tasks.run_pending()
    assert kit.names(".log") == ["00000000000000000100.log"]


def test_truncation_before_the_first_segment_starts_there(kit: LogKit) -> None:
    log = kit.new()
    log.truncate_fully_and_start_at(50)
    kit.append(log, b"a")
    log.truncate_to(20)
    assert (log.log_start_offset, log.log_end_offset) == (20, 20)


# -- retention


def test_retention_by_size_keeps_at_least_that_many_bytes(kit: LogKit) -> None:
    log = kit.new(segment_bytes=70, retention_bytes=150)
    for number in range(6):
        kit.append(log, b"%d" % number)
    log.update_high_watermark(6)
    assert log.delete_old_segments() == 3
    assert log.log_start_offset == 3
    assert kit.values(log) == [b"3", b"4", b"5"]


def test_retention_spares_what_is_not_replicated(kit: LogKit) -> None:
    log = kit.new(segment_bytes=70, retention_bytes=0)
    for number in range(6):
        kit.append(log, b"%d" % number)
    log.update_high_watermark(2)
    assert log.delete_old_segments() == 2
    assert log.log_start_offset == 2


def test_retention_by_time_empties_a_log_in_which_nothing_happens(kit: LogKit) -> None:
    log = kit.new(retention_ms=1000)
    kit.append(log, b"a")
    log.update_high_watermark(1)
    kit.clock.advance(1000)
    assert log.delete_old_segments() == 0
    kit.clock.advance(1)
    assert log.delete_old_segments() == 1
    assert (log.log_start_offset, log.log_end_offset, log.size) == (1, 1, 0)
    assert kit.append(log, b"b").first_offset == 1


def test_segments_behind_the_log_start_go_even_from_compacted_topics(kit: LogKit) -> None:
    log = kit.new(segment_bytes=70, cleanup_policy=frozenset({"compact"}))
    for number in range(4):
        kit.append(log, b"%d" % number, key=b"")
    log.update_high_watermark(4)
    log.increment_log_start_offset(2)
    assert log.delete_old_segments() == 2
    assert log.first_segment_offset == 2


def test_deleted_segments_are_renamed_first_and_removed_later(kit: LogKit) -> None:
    log = kit.new(segment_bytes=70, retention_bytes=0, file_delete_delay_ms=60_000)
    kit.append(log, b"a")
    kit.append(log, b"b")
    log.update_high_watermark(1)
    log.delete_old_segments()
    assert "00000000000000000000.log.deleted" in kit.names()
    (task,) = (task for task in kit.tasks.pending if task.name.startswith("delete"))
    assert task.delay_ms == 60_000
    kit.tasks.run_pending()
    assert not kit.names(".deleted")


# -- flushing


def test_neither_appends_nor_a_close_wait_for_the_disk(kit: LogKit) -> None:
    log = kit.new(segment_bytes=70)
    for value in (b"a", b"b", b"c"):
        kit.append(log, value)
    log.close()
    kit.tasks.run_pending()
    assert kit.files.synced == []
    assert log.recovery_point == 0


def test_rolled_segments_are_synced_in_the_background(kit: LogKit) -> None:
    log = kit.new(segment_bytes=70)
    for value in (b"a", b"b", b"c"):
        kit.append(log, value)
    assert [task.name for task in kit.tasks.pending] == ["flush-log orders-0"]
    assert log.recovery_point == 0
    kit.tasks.run_pending()
    assert log.recovery_point == 2
    names = {path.name for path in kit.files.synced}
    assert names >= {f"{base:020d}{end}" for base in (0, 1) for end in (".log", ".index")}
    assert names >= {f"{2:020d}.snapshot", "leader-epoch-checkpoint", "orders-0"}
    assert f"{2:020d}.log" not in names
    kit.append(log, b"d")
    kit.files.synced.clear()
    kit.tasks.run_pending()
    assert log.recovery_point == 3
    assert not [path for path in kit.files.synced if path.name < f"{2:020d}"]


def test_the_log_is_free_while_segments_are_synced(
    kit: LogKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = kit.new(segment_bytes=70)
    for value in (b"a", b"b"):
        kit.append(log, value)
    sync, others = kit.files.sync, [b"c"]

    def append_elsewhere(path: Path) -> None:
        if others:
            appending = threading.Thread(target=kit.append, args=(log, others.pop()))
            appending.start()
            appending.join(30)
            assert not appending.is_alive(), "the append waits for the disk"
        sync(path)

    monkeypatch.setattr(kit.files, "sync", append_elsewhere)
    kit.tasks.run_pending()
    assert (log.recovery_point, log.log_end_offset) == (1, 3)
    kit.tasks.run_pending()
    assert log.recovery_point == 2


def test_a_truncation_during_a_sync_is_not_forgotten(
    kit: LogKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = kit.new(segment_bytes=70)
    for value in (b"a", b"b", b"c"):
        kit.append(log, value)
    sync = kit.files.sync

    def truncate_first(path: Path) -> None:
        log.truncate_to(1)
        sync(path)

    monkeypatch.setattr(kit.files, "sync", truncate_first)
    kit.tasks.run_pending()
    assert log.recovery_point == 0


def test_flush_messages_syncs_after_so_many_records(kit: LogKit) -> None:
    log = kit.new(flush_messages=3)
    kit.append(log, b"a", b"b")
    assert (kit.files.synced, log.recovery_point) == ([], 0)
    kit.append(log, b"c")
    assert "00000000000000000000.log" in {path.name for path in kit.files.synced}
    assert log.recovery_point == 3
    kit.files.synced.clear()
    kit.append(log, b"d", b"e", b"f")
    assert [path.name for path in kit.files.synced] == ["00000000000000000000.log"]


# -- preallocation


def test_a_preallocated_segment_has_its_size_from_the_start_and_is_cut_when_it_is_full(
    kit: LogKit,
) -> None:
    log = kit.new(preallocate=True, segment_bytes=300)
    first, second = (kit.directory / f"{offset:020d}.log" for offset in (0, 2))
    kit.append(log, b"a" * 50)
    size = log.size
    assert kit.files.size(first) == 300
    kit.append(log, b"b" * 50)
    kit.append(log, b"c" * 50)
    assert (kit.files.size(first), kit.files.size(second)) == (2 * size, 300)
    assert log.size == 3 * size
    log.close()
    assert kit.files.size(second) == size
    assert kit.values(kit.load(is_clean=True)) == [b"a" * 50, b"b" * 50, b"c" * 50]


def test_what_is_preallocated_and_empty_is_no_damage_after_a_crash(kit: LogKit) -> None:
    log = kit.new(preallocate=True, segment_bytes=1000)
    kit.append(log, b"a")
    log.kill()
    log = kit.load()
    assert kit.values(log) == [b"a"]
    assert kit.append(log, b"b").first_offset == 1


def test_a_copy_of_a_preallocated_log_needs_no_repair(kit: LogKit, tmp_path: Path) -> None:
    log = kit.new(preallocate=True, segment_bytes=1000)
    kit.append(log, b"a")
    log.copy_to(tmp_path / "copy" / "orders-0")
    kit.append(log, b"b")
    assert kit.values(log) == [b"a", b"b"]
    kit.directory = tmp_path / "copy" / "orders-0"
    assert kit.values(kit.load(is_clean=True)) == [b"a"]


# -- failing disks


def test_a_full_disk_leaves_the_log_as_it_was(kit: LogKit) -> None:
    log = kit.new()
    kit.append(log, b"a", epoch=1)
    size = log.size
    kit.files.full_paths.add(".log")
    with pytest.raises(ApiError) as caught:
        kit.append(log, b"b" * 100, epoch=2)
    assert error_of(caught) is ErrorCode.KAFKA_STORAGE_ERROR
    assert (log.log_end_offset, log.size, log.latest_epoch) == (1, size, 1)
    assert kit.files.size(kit.directory / "00000000000000000000.log") == size
    kit.files.full_paths.clear()
    assert kit.append(log, b"c", epoch=3).first_offset == 1
    assert kit.values(log) == [b"a", b"c"]


def test_a_disk_that_fails_at_the_transaction_index_leaves_no_marker(kit: LogKit) -> None:
    log = kit.new()
    kit.append(log, b"a", producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
    kit.files.full_paths.add(".txnindex")
    with pytest.raises(ApiError) as caught:
        kit.end_transaction(log, 1, commit=False)
    assert error_of(caught) is ErrorCode.KAFKA_STORAGE_ERROR
    assert log.log_end_offset == 1
    kit.files.full_paths.clear()
    kit.end_transaction(log, 1, commit=False)
    log.update_high_watermark(2)
    assert log.last_stable_offset == 2
    data = log.read(0, max_bytes=1000, isolation=FetchIsolation.TXN_COMMITTED)
    assert [txn.first_offset for txn in data.aborted_transactions or ()] == [0]


def test_a_roll_that_fails_leaves_the_log_as_it_was(kit: LogKit) -> None:
    log = kit.new(segment_bytes=70)
    kit.append(log, b"a")
    kit.files.full_paths.add(".snapshot")
    with pytest.raises(ApiError):
        kit.append(log, b"b")
    kit.files.full_paths.clear()
    assert kit.append(log, b"c").first_offset == 1
    assert kit.values(log) == [b"a", b"c"]


def test_a_closed_log_answers_with_a_storage_error(kit: LogKit) -> None:
    log = kit.new()
    log.close()
    for act in (lambda: kit.append(log, b"a"), lambda: log.read(0, max_bytes=1)):
        with pytest.raises(ApiError) as caught:
            act()
        assert error_of(caught) is ErrorCode.KAFKA_STORAGE_ERROR
