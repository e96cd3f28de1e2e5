"""A replica moves to another log directory while it is appended to, truncated or deleted."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from embedkafka.broker.log import moves
from embedkafka.broker.log.cleaning.cleaner import CleanerConfig
from embedkafka.broker.log.config import LogConfig
from embedkafka.broker.log.files.copies import CopiedLog
from embedkafka.broker.log.log import Log
from embedkafka.broker.log.manager import LogManager, LogManagerConfig
from embedkafka.runtime.ids import TopicPartition
from embedkafka.wire.protocol.errors import ApiError, ErrorCode
from tests.doubles.scheduling import DueTask
from tests.unit.broker.log.conftest import LogKit

ORDERS = TopicPartition("orders", 0)


class Broker:
    """A log manager over two directories; the test runs its background work."""

    def __init__(self, kit: LogKit, root: Path) -> None:
        self.kit = kit
        self.settings = LogConfig(segment_bytes=300)
        self.here, self.there = root / "here", root / "there"
        self.failed: list[tuple[Path, Sequence[TopicPartition]]] = []
        self.logs = self.start()

    def start(self, config: LogManagerConfig | None = None) -> LogManager:
        self.logs = LogManager(
            [self.here, self.there],
            self.kit.environment,
            config=config,
            topic_config=lambda topic: self.settings,
            on_dir_failure=lambda directory, lost: self.failed.append((directory, lost)),
        )
        self.logs.startup()
        return self.logs

    def new_log(self) -> Log:
        log = self.logs.get_or_create(ORDERS, directory=self.here)
        assert log.directory == self.here / "orders-0"
        return log

    def run(self, times: int = 50) -> None:
        for _ in range(times):
            self.kit.tasks.run_pending()

    def directories(self) -> list[str]:
        """The directories of partitions, without those being removed."""
        found = [*self.here.iterdir(), *self.there.iterdir()]
        names = [f"{path.parent.name}/{path.name}" for path in found if path.is_dir()]
        return sorted(name for name in names if not name.endswith("-delete"))


@pytest.fixture
def broker(kit: LogKit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Broker:
    monkeypatch.setattr(moves, "_CHUNK_BYTES", 100)  # copies a batch or two at a time
    return Broker(kit, tmp_path)


def filled(broker: Broker, count: int = 10) -> Log:
    log = broker.new_log()
    for number in range(count):
        broker.kit.append(log, b"%d" % number)
    return log


def numbers(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


def code_of(broker: Broker, directory: Path, partition: TopicPartition = ORDERS) -> ErrorCode:
    with pytest.raises(ApiError) as refused:
        broker.logs.move(partition, directory)
    return refused.value.code


def test_a_log_moves_and_stays_the_same_log(broker: Broker) -> None:
    log = filled(broker)
    log.update_high_watermark(8)
    broker.logs.move(ORDERS, broker.there)
    (future,) = broker.logs.moving()
    assert future.directory.parent == broker.there
    assert future.directory.name.startswith("orders-0.")
    broker.run()
    assert broker.directories() == ["there/orders-0"]
    assert (broker.logs.find(ORDERS), broker.logs.moving()) == (log, [])
    assert log.directory == broker.there / "orders-0"
    assert broker.kit.values(log) == numbers(10)
    assert log.high_watermark == 8
    broker.kit.append(log, b"10")
    assert broker.kit.values(log) == numbers(11)


def test_what_is_written_meanwhile_moves_too(broker: Broker) -> None:
    log = filled(broker)
    broker.logs.move(ORDERS, broker.there)
    for number in range(10, 14):
        broker.run(1)
        broker.kit.append(log, b"%d" % number)
    assert broker.logs.moving()
    broker.run()
    assert broker.kit.values(log) == numbers(14)
    assert broker.directories() == ["there/orders-0"]


def test_a_moved_log_is_found_after_a_restart(broker: Broker) -> None:
    log = filled(broker)
    broker.kit.append(log, b"x", producer_id=5, producer_epoch=0, base_sequence=0)
    log.update_high_watermark(11)
    log.increment_log_start_offset(3)
    broker.logs.move(ORDERS, broker.there)
    broker.run()
    broker.logs.shutdown()
    again = broker.start().find(ORDERS)
    assert again is not None
    assert again.directory.parent == broker.there
    assert broker.kit.values(again) == [*numbers(10), b"x"][3:]
    assert [p.producer_id for p in again.active_producers()] == [5]


def test_epochs_and_producers_without_records_are_not_forgotten(broker: Broker) -> None:
    log = filled(broker)
    log.assign_epoch_start(7, log.log_end_offset)
    broker.logs.move(ORDERS, broker.there)
    broker.run()
    assert log.latest_epoch == 7
    assert log.end_offset_for_epoch(0).end_offset == 10


def test_truncation_reaches_the_copy(broker: Broker) -> None:
    log = filled(broker)
    broker.logs.move(ORDERS, broker.there)
    broker.run(4)
    (future,) = broker.logs.moving()
    assert future.log_end_offset > 2
    log.truncate_to(2)
    broker.kit.append(log, b"other", epoch=1)
    broker.kit.append(log, b"another", epoch=1)
    broker.run()
    assert broker.kit.values(log) == [b"0", b"1", b"other", b"another"]
    assert broker.directories() == ["there/orders-0"]


def test_a_copy_behind_the_log_start_begins_anew(broker: Broker) -> None:
    log = filled(broker)
    broker.logs.move(ORDERS, broker.there)
    broker.run(2)
    log.truncate_fully_and_start_at(100)
    broker.kit.append(log, b"late")
    broker.run()
    assert [record.offset for record in broker.kit.records(log)] == [100]


def test_a_move_to_where_the_log_is_ends_one_to_elsewhere(broker: Broker) -> None:
    log = filled(broker)
    broker.logs.move(ORDERS, broker.there)
    broker.run(2)
    broker.logs.move(ORDERS, broker.there)
    assert len(broker.logs.moving()) == 1, "the move should continue"
    broker.logs.move(ORDERS, broker.here)
    assert broker.logs.moving() == []
    broker.run()
    assert broker.directories() == ["here/orders-0"]
    assert broker.kit.values(log) == numbers(10)


def test_a_log_moves_there_and_back(broker: Broker) -> None:
    log = filled(broker)
    for directory in (broker.there, broker.here):
        broker.logs.move(ORDERS, directory)
        broker.run()
        assert broker.directories() == [f"{directory.name}/orders-0"]
    assert broker.kit.values(log) == numbers(10)


def test_an_empty_log_moves(broker: Broker) -> None:
    log = broker.new_log()
    broker.logs.move(ORDERS, broker.there)
    broker.run()
    assert broker.directories() == ["there/orders-0"]
    broker.kit.append(log, b"first")
    assert broker.kit.values(log) == [b"first"]


@pytest.mark.parametrize("clean", [True, False])
def test_a_move_goes_on_after_a_restart(broker: Broker, clean: bool) -> None:
    filled(broker)
    broker.logs.move(ORDERS, broker.there)
    broker.run(4)
    broker.logs.shutdown() if clean else broker.logs.kill()
    broker.kit.tasks.pending.clear()
    log = broker.start().find(ORDERS)
    assert log is not None
    assert len(broker.logs.moving()) == 1
    broker.run()
    assert broker.directories() == ["there/orders-0"]
    assert broker.kit.values(log) == numbers(10)


def limit(bytes_per_second: int) -> LogManagerConfig:
    return LogManagerConfig(replica_alter_log_dirs_io_max_bytes_per_second=bytes_per_second)


def next_step(broker: Broker) -> DueTask:
    """The step that a move waits for."""
    (step,) = [
        task
        for task in broker.kit.tasks.pending
        if task.name.startswith("move ") and not task.cancelled
    ]
    return step


def test_a_new_limit_is_for_moves_that_wait_for_an_earlier_one(broker: Broker) -> None:
    broker.logs.shutdown()
    broker.start(limit(1))
    filled(broker)
    broker.logs.move(ORDERS, broker.there)
    broker.run(1)
    slow = next_step(broker)
    assert slow.delay_ms > 10_000, "it should copy one byte per second"

    broker.logs.reconfigure(limit(1), CleanerConfig())
    assert next_step(broker) is slow, "the limit has not changed"

    broker.logs.reconfigure(limit(10), CleanerConfig())
    assert next_step(broker).delay_ms == 0
    broker.run(1)
    assert next_step(broker).delay_ms == slow.delay_ms / 10


def test_a_copy_without_its_log_is_removed(broker: Broker) -> None:
    (broker.there / f"gone-0.{0:032x}-future").mkdir(parents=True)
    broker.start()
    broker.run()
    assert broker.directories() == []


def test_a_deleted_log_takes_its_copy_with_it(broker: Broker) -> None:
    filled(broker)
    broker.logs.move(ORDERS, broker.there)
    broker.run(2)
    broker.logs.delete_async(ORDERS)
    broker.run()
    assert broker.directories() == []
    assert broker.logs.moving() == []


@dataclass
class Meanwhile:
    """Runs something once, while a chunk is being copied."""

    monkeypatch: pytest.MonkeyPatch

    def do(self, act: Callable[[], object]) -> None:
        plain, waiting = moves.copy_chunk, [act]

        def copy_chunk(log: Log, future: Log) -> bool:
            if waiting:
                waiting.pop()()
            return plain(log, future)

        self.monkeypatch.setattr(moves, "copy_chunk", copy_chunk)


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> Meanwhile:
    return Meanwhile(monkeypatch)


def test_a_move_is_cancelled_while_a_chunk_is_copied(broker: Broker, meanwhile: Meanwhile) -> None:
    log = filled(broker)
    broker.logs.move(ORDERS, broker.there)
    meanwhile.do(lambda: broker.logs.move(ORDERS, broker.here))
    broker.run()
    assert broker.failed == []
    assert broker.directories() == ["here/orders-0"]
    assert broker.kit.values(log) == numbers(10)


def test_a_log_is_deleted_while_a_chunk_is_copied(broker: Broker, meanwhile: Meanwhile) -> None:
    filled(broker)
    broker.logs.move(ORDERS, broker.there)
    meanwhile.do(lambda: broker.logs.delete_async(ORDERS))
    broker.run()
    assert broker.failed == []
    assert broker.directories() == []


@pytest.mark.parametrize("clean", [True, False])
def test_a_broker_that_stops_while_a_chunk_is_copied_goes_on_later(
    broker: Broker, meanwhile: Meanwhile, clean: bool
) -> None:
    filled(broker)
    broker.logs.move(ORDERS, broker.there)
    meanwhile.do(broker.logs.shutdown if clean else broker.logs.kill)
    broker.run()
    broker.start()
    assert len(broker.logs.moving()) == 1
    broker.run()
    assert broker.directories() == ["there/orders-0"]
    assert broker.failed == []


def test_a_move_is_cancelled_while_it_begins(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(broker)
    create = Log.create

    def create_late(log: Log) -> None:
        broker.logs.move(ORDERS, broker.here)
        create(log)

    monkeypatch.setattr(Log, "create", create_late)
    broker.logs.move(ORDERS, broker.there)
    broker.run()
    assert broker.directories() == ["here/orders-0"]
    assert (broker.failed, broker.logs.moving()) == ([], [])


def test_a_log_is_deleted_where_its_move_has_put_it(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A move that ends just before the deletion must not make it rename across disks."""
    log = filled(broker)
    broker.logs.move(ORDERS, broker.there)
    retire = Log.retire

    def retire_late(log: Log, *given: Any) -> None:
        broker.run()
        retire(log, *given)

    monkeypatch.setattr(Log, "retire", retire_late)
    monkeypatch.setattr(broker.logs._moves, "cancel", lambda _: None)  # it came too late
    broker.logs.delete_async(ORDERS)
    assert log.directory.parent == broker.there
    broker.run()
    assert (broker.failed, broker.directories()) == ([], [])


@pytest.mark.parametrize("number", [0, 1])
def test_a_log_that_moves_during_a_snapshot_is_in_it_once(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """Whichever directory is copied first."""
    partitions = [TopicPartition("orders", n) for n in range(2)]
    places = [broker.here, broker.there]
    for partition, directory in zip(partitions, places, strict=True):
        broker.kit.append(broker.logs.get_or_create(partition, directory=directory), b"x")
    copy_to = Log.copy_to

    def copy_and_move(log: Log, directory: Path) -> CopiedLog | None:
        copied = copy_to(log, directory)
        broker.logs.move(partitions[number], places[1 - number])
        broker.run()
        return copied

    monkeypatch.setattr(Log, "copy_to", copy_and_move)
    broker.logs.copy_to(tmp_path / "snapshot")
    found = [path.name for path in (tmp_path / "snapshot").glob("*/orders-*")]
    assert sorted(found) == ["orders-0", "orders-1"]


def test_a_disk_that_fails_under_the_copy_spares_the_log(broker: Broker) -> None:
    log = filled(broker)
    broker.logs.move(ORDERS, broker.there)
    broker.run(2)
    (future,) = broker.logs.moving()
    broker.kit.files.full_paths.add(".log")  # the next write fails
    broker.run()
    broker.kit.files.full_paths.clear()
    assert [directory for directory, _ in broker.failed] == [broker.there]
    assert broker.logs.moving() == []
    assert broker.kit.values(log) == numbers(10)
    assert code_of(broker, broker.there) is ErrorCode.KAFKA_STORAGE_ERROR
    assert future.log_end_offset < 10


# -- compaction


@pytest.fixture
def accounts(broker: Broker) -> Broker:
    """A compacted log on the move: its copy has a key's old value, but not yet its tombstone."""
    broker.settings = LogConfig(
        segment_bytes=300, cleanup_policy=frozenset({"compact"}), delete_retention_ms=0
    )
    log = broker.new_log()
    broker.kit.append(log, b"secret", key=b"alice")
    for number in range(9):
        broker.kit.append(log, b"x", key=b"%d" % number)
    broker.logs.move(ORDERS, broker.there)
    broker.run(2)
    (future,) = broker.logs.moving()
    assert 0 < future.log_end_offset < 10
    log.append_as_leader(broker.kit.batch(None, key=b"alice"), leader_epoch=0)
    return broker


def compact_twice(broker: Broker) -> list[bytes | None]:
    """Removes the tombstone if compaction is allowed; returns the values of the deleted key."""
    log = broker.logs.find(ORDERS)
    assert log is not None
    for _ in range(2):
        log.update_high_watermark(log.log_end_offset)
        broker.logs.compact("orders")
        broker.kit.clock.advance(1)
    return [record.value for record in broker.kit.records(log) if record.key == b"alice"]


def test_a_log_is_not_compacted_while_it_moves(accounts: Broker) -> None:
    """Else the copy would miss the tombstone, and the key would be back."""
    assert compact_twice(accounts) == [b"secret", None]
    accounts.run()
    assert accounts.directories() == ["there/orders-0"]
    assert compact_twice(accounts) == []


def test_a_log_is_not_compacted_while_it_moves_after_a_restart(accounts: Broker) -> None:
    accounts.logs.kill()
    accounts.kit.tasks.pending.clear()
    accounts.start()
    accounts.run(2)
    assert compact_twice(accounts) == [b"secret", None]
    accounts.run()
    assert accounts.directories() == ["there/orders-0"]
    assert compact_twice(accounts) == []


def test_a_copy_whose_disk_was_away_begins_again(accounts: Broker) -> None:
    """Its log may have been compacted without it."""
    accounts.logs.kill()
    accounts.kit.tasks.pending.clear()
    away = accounts.there.rename(accounts.there.with_name("away"))
    accounts.start()
    assert compact_twice(accounts) == []
    accounts.logs.shutdown()
    accounts.there.rename(accounts.there.with_name("empty"))
    away.rename(accounts.there)
    accounts.start()
    accounts.run()
    assert accounts.directories() == ["there/orders-0"]
    assert compact_twice(accounts) == []


def cancel(broker: Broker) -> None:
    broker.logs.move(ORDERS, broker.here)


def fail_the_copy(broker: Broker) -> None:
    broker.kit.files.full_paths.add(".log")
    broker.run()
    broker.kit.files.full_paths.clear()
    assert [directory for directory, _ in broker.failed] == [broker.there]


def lose_the_other_disk(broker: Broker) -> None:
    broker.logs.fail_directory(broker.there, OSError(5, "gone"))


def ask_twice_and_cancel(broker: Broker) -> None:
    broker.logs.move(ORDERS, broker.there)
    broker.logs.move(ORDERS, broker.here)


def fail_to_begin_another(broker: Broker) -> None:
    broker.logs.move(ORDERS, broker.here)
    broker.there.rename(broker.there.with_name("away"))
    broker.there.touch()  # no directory can be made in a file
    assert code_of(broker, broker.there) is ErrorCode.KAFKA_STORAGE_ERROR


@pytest.mark.parametrize(
    "end",
    [cancel, fail_the_copy, lose_the_other_disk, ask_twice_and_cancel, fail_to_begin_another],
)
def test_a_log_is_compacted_again_when_its_move_has_ended(
    accounts: Broker, end: Callable[[Broker], None]
) -> None:
    end(accounts)
    assert accounts.logs.moving() == []
    assert compact_twice(accounts) == []


def test_a_log_is_as_clean_as_before_it_moved(accounts: Broker) -> None:
    cancel(accounts)
    compact_twice(accounts)
    names = [place / "cleaner-offset-checkpoint" for place in (accounts.here, accounts.there)]
    assert names[0].read_text() == "0\n1\norders 0 11\n"
    accounts.logs.move(ORDERS, accounts.there)
    accounts.run()
    assert [name.read_text() for name in names] == ["0\n0\n", "0\n1\norders 0 11\n"]


def test_a_new_log_is_all_dirty_whatever_became_of_one_of_its_name(accounts: Broker) -> None:
    """A broker that dies at the end of a move leaves the log's checkpoint in its old directory."""
    cancel(accounts)
    accounts.logs.delete_async(ORDERS)
    accounts.logs.shutdown()
    (accounts.here / "cleaner-offset-checkpoint").write_text("0\n1\norders 0 2\n")
    accounts.start()
    log = accounts.new_log()
    accounts.kit.append(log, b"secret", key=b"alice")
    log.append_as_leader(accounts.kit.batch(None, key=b"alice"), leader_epoch=0)
    accounts.kit.append(log, b"x", key=b"other")
    assert compact_twice(accounts) == []


def test_what_follows_a_truncation_is_dirty_after_a_restart(accounts: Broker) -> None:
    """Else a tombstone could go before the value that it deletes."""
    cancel(accounts)
    compact_twice(accounts)
    log = accounts.logs.find(ORDERS)
    assert log is not None
    log.truncate_to(5)
    accounts.kit.append(log, b"secret", key=b"alice")
    log.append_as_leader(accounts.kit.batch(None, key=b"alice"), leader_epoch=0)
    for number in range(9):
        accounts.kit.append(log, b"x", key=b"%d" % number)
    accounts.logs.kill()
    accounts.start()
    assert compact_twice(accounts) == []


def test_wrong_places_are_refused(broker: Broker, tmp_path: Path) -> None:
    filled(broker)
    assert code_of(broker, tmp_path / "nowhere") is ErrorCode.LOG_DIR_NOT_FOUND
    broker.logs.move(ORDERS, broker.here)
    assert broker.logs.moving() == []


def test_a_log_that_is_not_there_yet_will_be_made_where_it_is_wanted(broker: Broker) -> None:
    new = TopicPartition("new", 0)
    for _ in range(3):
        assert code_of(broker, broker.there, new) is ErrorCode.REPLICA_NOT_AVAILABLE
    broker.logs.get_or_create(TopicPartition("other", 0), directory=broker.there)
    assert broker.logs.get_or_create(new).directory.parent == broker.there


def test_a_name_must_leave_room_for_its_suffix(broker: Broker) -> None:
    long = TopicPartition("x" * 230, 0)
    broker.logs.get_or_create(long, directory=broker.here)
    assert code_of(broker, broker.there, long) is ErrorCode.INVALID_TOPIC_EXCEPTION
