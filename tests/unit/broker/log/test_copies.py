"""Copies of logs share files with them, but neither affects the other."""

from pathlib import Path

import pytest

from embedkafka.broker.log.files import checkpoints
from embedkafka.broker.log.files.copies import copy_log_dir
from embedkafka.broker.log.log import Log
from embedkafka.runtime.files import SystemFiles
from tests.unit.broker.log.conftest import LogKit


@pytest.fixture
def log(kit: LogKit) -> Log:
    """Five segments of one record each."""
    log = kit.new(segment_bytes=80)
    for value in (b"a", b"b", b"c", b"d", b"e"):
        kit.append(log, value)
    log.update_high_watermark(4)
    return log


def copied(kit: LogKit, log: Log, name: str = "copy") -> Log:
    """Copies the log and opens the copy."""
    target = kit.root / name / "orders-0"
    copy = log.copy_to(target)
    assert copy == (log.log_start_offset, log.high_watermark, 0), "it is not synced"
    return reopened(kit, target)


def reopened(kit: LogKit, directory: Path) -> Log:
    before, kit.directory = kit.directory, directory
    try:
        return kit.load(is_clean=True, segment_bytes=80)
    finally:
        kit.directory = before


def test_a_copy_has_all_that_the_log_has(kit: LogKit, log: Log) -> None:
    kit.append(log, b"f", producer_id=3, producer_epoch=0, base_sequence=0)
    copy = copied(kit, log)
    assert kit.values(copy) == [b"a", b"b", b"c", b"d", b"e", b"f"]
    assert [p.producer_id for p in copy.active_producers()] == [3]
    assert copy.latest_epoch == log.latest_epoch


def test_only_the_active_segment_is_copied(kit: LogKit, log: Log) -> None:
    log.copy_to(kit.root / "copy")
    names = [name for name in kit.names() if name.endswith(".log")]
    shared = [name for name in names if (kit.root / "copy" / name).samefile(kit.directory / name)]
    assert (len(names), shared) == (5, names[:-1])


def test_what_is_written_later_is_not_in_the_copy(kit: LogKit, log: Log) -> None:
    copy = copied(kit, log)
    kit.append(log, b"f")
    kit.append(log, b"g")
    assert kit.values(copy) == [b"a", b"b", b"c", b"d", b"e"]
    assert kit.values(copied(kit, log, "second")) == [b"a", b"b", b"c", b"d", b"e", b"f", b"g"]


@pytest.mark.parametrize("offset", [0, 1, 3, 4])
def test_truncation_spares_the_copy(kit: LogKit, log: Log, offset: int) -> None:
    directory = kit.root / "copy" / "orders-0"
    log.copy_to(directory)
    log.truncate_to(offset)
    kit.append(log, b"other")
    assert kit.values(reopened(kit, directory)) == [b"a", b"b", b"c", b"d", b"e"]
    assert kit.values(log)[-1] == b"other"


def test_a_truncated_copy_spares_the_log(kit: LogKit, log: Log) -> None:
    copy = copied(kit, log)
    copy.truncate_to(2)
    kit.append(copy, b"other")
    assert kit.values(log) == [b"a", b"b", b"c", b"d", b"e"]
    assert kit.values(copy) == [b"a", b"b", b"other"]


def test_a_fresh_start_spares_the_copy(kit: LogKit, log: Log) -> None:
    directory = kit.root / "copy" / "orders-0"
    log.copy_to(directory)
    log.truncate_fully_and_start_at(0)
    kit.append(log, b"other")
    assert kit.values(reopened(kit, directory)) == [b"a", b"b", b"c", b"d", b"e"]


def test_aborted_transactions_do_not_reach_the_copy(kit: LogKit) -> None:
    log = kit.new()
    for base_sequence in (0, 1):
        kit.append(
            log,
            b"a",
            producer_id=3,
            producer_epoch=0,
            base_sequence=base_sequence,
            transactional=True,
        )
        kit.end_transaction(log, 3, commit=False)
        if base_sequence == 0:
            copy = copied(kit, log)
    assert len(copy.cleanable.aborted_transactions()) == 1
    assert len(log.cleanable.aborted_transactions()) == 2


def test_an_empty_log_can_be_copied(kit: LogKit) -> None:
    log = kit.new()
    copy = copied(kit, log)
    kit.append(copy, b"a")
    assert (log.log_end_offset, kit.values(copy)) == (0, [b"a"])


def test_a_closed_log_is_left_out(kit: LogKit, log: Log) -> None:
    log.close()
    assert log.copy_to(kit.root / "copy") is None


def test_a_broker_s_directory_is_copied_but_for_what_is_going_away(kit: LogKit, log: Log) -> None:
    log.close()
    (kit.root / "broker" / "gone-0.0123-delete").mkdir(parents=True)
    kit.directory.rename(kit.root / "broker" / "orders-0")
    (kit.root / "broker" / "orders-0" / f"{9:020d}.log.deleted").write_bytes(b"x")
    checkpoints.write_offsets(kit.files, kit.root / "broker" / "replication-offset-checkpoint", {})
    copy_log_dir(kit.files, kit.root / "broker", kit.root / "copy")
    assert kit.files.names(kit.root / "copy") == ["orders-0", "replication-offset-checkpoint"]
    copy = reopened(kit, kit.root / "copy" / "orders-0")
    assert kit.values(copy) == [b"a", b"b", b"c", b"d", b"e"]


def test_a_directory_is_put_back_whatever_happened_to_it(kit: LogKit, log: Log) -> None:
    broker, saved = kit.root / "broker", kit.root / "saved"
    broker.mkdir()
    log.close()
    kit.directory.rename(broker / "orders-0")
    (broker / "empty-0").mkdir()
    (broker / "empty-0" / checkpoints.PARTITION_METADATA).write_text("id")
    copy_log_dir(kit.files, broker, saved)
    untouched = (broker / "empty-0").stat().st_ino
    changed = reopened(kit, broker / "orders-0")
    changed.truncate_to(1)
    changed.close()
    (broker / "new-0").mkdir()
    (broker / "meta.properties").write_text("new")
    copy_log_dir(kit.files, saved, broker)
    assert kit.files.names(broker) == ["empty-0", "orders-0"]
    assert kit.values(reopened(kit, broker / "orders-0")) == [b"a", b"b", b"c", b"d", b"e"]
    assert (broker / "empty-0").stat().st_ino == untouched


def test_a_disk_without_links_gets_copies(
    kit: LogKit, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(old: Path, new: Path) -> None:
        raise PermissionError(1, "no links here")

    monkeypatch.setattr("os.link", refuse)
    assert kit.values(copied(kit, log)) == [b"a", b"b", b"c", b"d", b"e"]


def test_a_file_is_its_own_until_it_is_linked(tmp_path: Path) -> None:
    files = SystemFiles()
    file, other = tmp_path / "file", tmp_path / "other"
    assert not files.unshare(file)
    file.write_bytes(bytes(3_000_000))
    assert not files.unshare(file)
    files.link(file, other)
    assert files.unshare(file)
    file.write_bytes(b"x")
    assert other.read_bytes() == bytes(3_000_000)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "other"]
