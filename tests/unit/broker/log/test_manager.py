"""Many logs in several directories: created, kept, lost and deleted."""

import errno
import threading
import uuid
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from embedkafka.broker.log.cleaning.cleaner import CleanerConfig
from embedkafka.broker.log.config import LogConfig
from embedkafka.broker.log.files.checkpoints import MetaProperties
from embedkafka.broker.log.manager import LogManager, LogManagerConfig
from embedkafka.broker.log.producers.state import ProducerStateConfig
from embedkafka.runtime.buffers import BytesLike
from embedkafka.runtime.clock import ManualClock
from embedkafka.runtime.failures import ConfigError, DirectoryInUse
from embedkafka.runtime.ids import TopicPartition
from embedkafka.wire.protocol.errors import ApiError, ErrorCode
from tests.presence import present
from tests.unit.broker.log.conftest import LogKit

ORDERS = TopicPartition("orders", 0)
TOPIC_ID = uuid.UUID("b8d131c5-2a3d-4b3f-9f1e-0a0b0c0d0e0f")


class Managers:
    """Log managers on the same directories, one after the other."""

    def __init__(self, kit: LogKit, root: Path, count: int = 2) -> None:
        self.kit = kit
        self.directories = [root / f"data{number}" for number in range(count)]
        self.failed: list[tuple[Path, Sequence[TopicPartition]]] = []

    def start(self, cleaner: CleanerConfig | None = None, **settings: object) -> LogManager:
        manager = LogManager(
            self.directories,
            self.kit.environment,
            cleaner_config=cleaner,
            topic_config=lambda topic: LogConfig(**settings),  # type: ignore[arg-type]
            on_dir_failure=lambda directory, lost: self.failed.append((directory, lost)),
        )
        manager.startup()
        return manager


@pytest.fixture
def managers(kit: LogKit, tmp_path: Path) -> Managers:
    return Managers(kit, tmp_path)


def partitions(count: int) -> list[TopicPartition]:
    return [TopicPartition("spread", number) for number in range(count)]


def test_logs_go_to_the_emptiest_directory(managers: Managers) -> None:
    manager = managers.start()
    for partition in partitions(4):
        manager.get_or_create(partition)
    assert [len(list(each.glob("spread-*"))) for each in managers.directories] == [2, 2]


def test_a_partition_has_one_log(managers: Managers) -> None:
    manager = managers.start()
    assert manager.find(ORDERS) is None
    log = manager.get_or_create(ORDERS, TOPIC_ID)
    assert manager.get_or_create(ORDERS) is log
    assert manager.find(ORDERS) is log
    assert manager.all_logs() == [log]


@pytest.mark.parametrize("topic", ["../outside", "/outside", "a/../../outside", "in/side"])
def test_no_log_is_made_outside_the_directories(managers: Managers, topic: str) -> None:
    manager = managers.start()
    before = sorted(managers.directories[0].parent.rglob("*"))
    with pytest.raises(ApiError, match="does not name a directory"):
        manager.get_or_create(TopicPartition(topic, 0))
    assert sorted(managers.directories[0].parent.rglob("*")) == before


def test_topic_ids_are_kept_and_added_to_logs_without_one(managers: Managers) -> None:
    manager = managers.start()
    manager.get_or_create(ORDERS)
    manager.get_or_create(ORDERS, TOPIC_ID)
    manager.shutdown()
    log = present(managers.start().find(ORDERS))
    assert log.topic_id == TOPIC_ID


def test_a_proper_shutdown_keeps_all_marks(kit: LogKit, managers: Managers) -> None:
    manager = managers.start(segment_bytes=200)
    log = manager.get_or_create(ORDERS)
    for number in range(10):
        kit.append(log, b"%d" % number)
    log.update_high_watermark(8)
    log.increment_log_start_offset(4)
    manager.shutdown()
    (directory,) = {log.directory.parent}
    assert (directory / ".kafka_cleanshutdown").exists()
    manager = managers.start(segment_bytes=200)
    assert not (directory / ".kafka_cleanshutdown").exists()
    log = present(manager.find(ORDERS))
    assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (4, 8, 10)
    assert kit.values(log) == [b"%d" % number for number in range(4, 10)]


def test_after_a_kill_everything_written_is_found_again(kit: LogKit, managers: Managers) -> None:
    manager = managers.start()
    log = manager.get_or_create(ORDERS)
    kit.append(log, b"a", b"b")
    log.update_high_watermark(1)
    manager.checkpoint_high_watermarks()
    log.update_high_watermark(2)
    manager.kill()
    log = present(managers.start().find(ORDERS))
    assert (log.high_watermark, log.log_end_offset) == (1, 2)


def test_a_new_partition_takes_over_the_files_it_finds(kit: LogKit, managers: Managers) -> None:
    first = managers.start()
    kit.append(first.get_or_create(ORDERS), b"a", b"b")
    first.shutdown()
    second = Managers(kit, managers.directories[0].parent / "elsewhere", count=1)
    manager = second.start()
    (found,) = managers.directories[0].glob("orders-0")
    found.rename(second.directories[0] / found.name)
    log = manager.get_or_create(ORDERS, TOPIC_ID)
    assert (log.topic_id, log.log_end_offset) == (TOPIC_ID, 2)
    assert kit.values(log) == [b"a", b"b"]


def test_an_empty_directory_of_a_partition_makes_an_empty_log(
    kit: LogKit, managers: Managers
) -> None:
    manager = managers.start()
    (managers.directories[0] / "orders-0").mkdir()
    log = manager.get_or_create(ORDERS, TOPIC_ID)
    kit.append(log, b"a")
    assert log.log_end_offset == 1


def test_a_deleted_log_is_gone_at_once_and_its_files_later(kit: LogKit, managers: Managers) -> None:
    manager = managers.start()
    log = manager.get_or_create(ORDERS)
    kit.append(log, b"a")
    manager.delete_async(ORDERS)
    assert manager.find(ORDERS) is None
    names = [path.name for directory in managers.directories for path in directory.iterdir()]
    (name,) = (name for name in names if name.endswith("-delete"))
    assert name.startswith("orders-0.")
    again = manager.get_or_create(ORDERS)
    assert again.log_end_offset == 0
    kit.tasks.run_pending()
    names = [path.name for directory in managers.directories for path in directory.iterdir()]
    assert [name for name in names if name.endswith("-delete")] == []
    assert manager.find(ORDERS) is again


class AwaitedLock:
    """A lock for which another thread waits: it runs as soon as the lock is free, once."""

    def __init__(self, lock: AbstractContextManager[object], other: Callable[[], None]) -> None:
        self._lock = lock
        self._other: Callable[[], None] | None = other

    def __enter__(self) -> None:
        self._lock.__enter__()

    def __exit__(self, *raised: Any) -> None:
        self._lock.__exit__(*raised)
        other, self._other = self._other, None
        if other is not None:
            other()


def test_a_log_that_is_deleted_during_its_compaction_is_no_broken_disk(
    kit: LogKit, managers: Managers
) -> None:
    """The cleaner comes right after the rename, with a segment in the old directory."""
    manager = managers.start()
    log = manager.get_or_create(ORDERS)
    for value in (b"a", b"b"):
        kit.append(log, value)
        log.roll()
    view, new = log.cleanable.view(), log.cleanable.new_segment(0)
    old = [part.segment for part in view.segments]

    def finish_compaction() -> None:
        with pytest.raises(ApiError, match="is closed"):
            log.cleanable.replace(new, old, truncations=view.truncations)

    log._guard.lock = AwaitedLock(log._guard.lock, finish_compaction)  # type: ignore[assignment]
    manager.delete_async(ORDERS)
    assert managers.failed == []


def test_deletions_that_were_interrupted_are_finished(kit: LogKit, managers: Managers) -> None:
    manager = managers.start()
    manager.get_or_create(ORDERS)
    manager.delete_async(ORDERS)
    manager.shutdown()
    kit.tasks.pending.clear()
    manager = managers.start()
    assert manager.all_logs() == []
    kit.tasks.run_pending()
    assert not [path for d in managers.directories for path in d.iterdir() if path.is_dir()]


def test_a_failed_directory_takes_only_its_own_logs(kit: LogKit, managers: Managers) -> None:
    manager = managers.start()
    logs = [manager.get_or_create(partition) for partition in partitions(4)]
    broken = logs[0].directory.parent
    lost = [log.topic_partition for log in logs if log.directory.parent == broken]
    kit.files.full_paths.add(".log")
    with pytest.raises(ApiError) as caught:
        kit.append(logs[0], b"a")
    kit.files.full_paths.clear()
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert managers.failed == [(broken, lost)]
    assert manager.live_directories == [
        directory for directory in managers.directories if directory != broken
    ]
    for log in logs:
        if log.topic_partition in lost:
            assert manager.find(log.topic_partition) is None
            with pytest.raises(ApiError):
                kit.append(log, b"a")
        else:
            assert kit.append(log, b"a").first_offset == 0
    assert manager.get_or_create(lost[0]).directory.parent != broken


def test_with_all_directories_lost_nothing_can_be_made(managers: Managers) -> None:
    manager = managers.start()
    for directory in managers.directories:
        manager.fail_directory(directory, OSError(errno.EIO, "gone"))
    with pytest.raises(ApiError) as caught:
        manager.get_or_create(ORDERS)
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR


def test_upkeep_is_scheduled_and_called_off(kit: LogKit, managers: Managers) -> None:
    manager = managers.start(segment_bytes=70, retention_bytes=0)
    log = manager.get_or_create(ORDERS)
    for number in range(3):
        kit.append(log, b"%d" % number)
    log.update_high_watermark(3)
    (retention,) = (task for task in kit.tasks.periodic if task.name == "log-retention")
    retention.run()
    assert log.log_start_offset == 3
    manager.shutdown()
    assert all(task.cancelled for task in kit.tasks.periodic)


def test_logs_are_synced_when_flush_ms_has_passed(kit: LogKit, managers: Managers) -> None:
    manager = managers.start(flush_ms=1000)
    kit.append(manager.get_or_create(ORDERS), b"a")
    manager.flush_due_logs()
    assert not kit.files.synced
    kit.clock.advance(1000)
    manager.flush_due_logs()
    assert "00000000000000000000.log" in {path.name for path in kit.files.synced}


def test_a_malformed_checkpoint_means_checking_from_the_start(
    kit: LogKit, managers: Managers
) -> None:
    manager = managers.start()
    kit.append(manager.get_or_create(ORDERS), b"a")
    manager.kill()
    for directory in managers.directories:
        (directory / "recovery-point-offset-checkpoint").write_text("rubbish")
    log = present(managers.start().find(ORDERS))
    assert log.log_end_offset == 1


def test_compaction_keeps_to_its_rate_and_holds_up_nobody(kit: LogKit, managers: Managers) -> None:
    class Ticking(ManualClock):
        """Every reading advances it, like the work in between."""

        def monotonic_ms(self) -> float:
            self.advance(100)
            return super().monotonic_ms()

    kit.clock = Ticking()
    cleaner = CleanerConfig(log_cleaner_io_max_bytes_per_second=100)
    manager = managers.start(
        cleaner, cleanup_policy=frozenset({"compact"}), segment_bytes=100, file_delete_delay_ms=0
    )
    log = manager.get_or_create(ORDERS)
    for number in range(20):
        kit.append(log, b"%d" % number, key=b"k")
    log.update_high_watermark(20)
    log.roll()
    moved_bytes = 2 * log.size  # read once for the keys and once for the records
    (periodic,) = (task for task in kit.tasks.periodic if task.name == "log-cleaner")
    periodic.run()
    started_ms, pauses = kit.clock.now_ms(), 0
    while due := [task for task in kit.tasks.pending if task.name == "clean-logs"]:
        (task,) = due  # only one pass at a time
        pauses += task.delay_ms > 0
        kit.clock.advance(task.delay_ms)
        periodic.run()
        kit.tasks.run_pending()
    assert kit.values(log) == [b"19"]
    assert pauses > 3
    assert kit.clock.now_ms() - started_ms > 0.9 * moved_bytes / 100 * 1000


def test_compaction_that_is_not_finished_leaves_nothing_behind(
    kit: LogKit, managers: Managers
) -> None:
    cleaner = CleanerConfig(log_cleaner_io_max_bytes_per_second=1)
    manager = managers.start(cleaner, cleanup_policy=frozenset({"compact"}), segment_bytes=100)
    log = manager.get_or_create(ORDERS)
    for number in range(3):
        kit.append(log, b"%d" % number, key=b"k")
    log.update_high_watermark(3)
    log.roll()
    (periodic,) = (task for task in kit.tasks.periodic if task.name == "log-cleaner")
    kit.clock.advance(1000)
    periodic.run()
    while not list(log.directory.glob("*.cleaned")):
        (task,) = (task for task in kit.tasks.pending if task.name == "clean-logs")
        kit.clock.advance(task.delay_ms + 1000)
        kit.tasks.run_pending()
    manager.shutdown()
    assert not list(log.directory.glob("*.cleaned"))
    assert kit.values(managers.start().get_or_create(ORDERS)) == [b"0", b"1", b"2"]


def test_a_log_that_cannot_be_compacted_does_not_keep_others_from_it(
    kit: LogKit, managers: Managers, monkeypatch: pytest.MonkeyPatch
) -> None:
    manager = managers.start(cleanup_policy=frozenset({"compact"}), segment_bytes=100)
    bad = manager.get_or_create(ORDERS)
    good = manager.get_or_create(TopicPartition("others", 0))
    for log, count in ((bad, 9), (good, 5)):
        for number in range(count):
            kit.append(log, b"%d" % number, key=b"k")
        log.update_high_watermark(count)
        log.roll()

    def fail() -> None:
        raise ZeroDivisionError("a fault of our own")

    monkeypatch.setattr(bad.cleanable, "aborted_transactions", fail)
    (periodic,) = (task for task in kit.tasks.periodic if task.name == "log-cleaner")
    periodic.run()
    failures = []
    while due := [task for task in kit.tasks.pending if task.name == "clean-logs"]:
        kit.tasks.pending.clear()
        for task in due:
            try:
                task.run()
            except ZeroDivisionError as error:
                failures.append(error)
    assert len(failures) == 1, "it should be tried once"
    assert kit.values(good) == [b"4"]
    assert len(kit.values(bad)) == 9


def test_several_logs_are_compacted_at_once(kit: LogKit, managers: Managers) -> None:
    cleaner = CleanerConfig(log_cleaner_threads=2, log_cleaner_io_max_bytes_per_second=1)
    manager = managers.start(cleaner, cleanup_policy=frozenset({"compact"}), segment_bytes=100)
    for number in range(3):
        log = manager.get_or_create(TopicPartition("orders", number))
        for value in range(9):
            kit.append(log, b"%d" % value, key=b"k")
        log.update_high_watermark(9)
        log.roll()
    (periodic,) = (task for task in kit.tasks.periodic if task.name == "log-cleaner")
    for _ in range(3):
        periodic.run()
    assert len([task for task in kit.tasks.pending if task.name == "clean-logs"]) == 2
    kit.clock.advance(1000)
    kit.tasks.run_pending()  # each takes a step, then both pause
    pauses = [task.delay_ms for task in kit.tasks.pending if task.name == "clean-logs"]
    assert len(pauses) == 2
    assert pauses[0] == pauses[1] > 0
    manager.kill()  # left to the garbage collector, the passes would end at any moment


def test_topics_learn_of_new_settings(managers: Managers) -> None:
    manager = managers.start()
    log = manager.get_or_create(ORDERS)
    other = manager.get_or_create(TopicPartition("other", 0))
    manager.update_topic_config("orders", LogConfig(retention_ms=5))
    assert (log.config.retention_ms, other.config.retention_ms) == (5, LogConfig().retention_ms)


def test_compaction_obeys_other_settings_while_it_runs(kit: LogKit, managers: Managers) -> None:
    manager = managers.start()
    (before,) = (task for task in kit.tasks.periodic if task.name == "log-cleaner")
    cleaner = CleanerConfig(
        log_cleaner_backoff_ms=7, log_cleaner_dedupe_buffer_size=2400, log_cleaner_threads=2
    )
    manager.reconfigure(LogManagerConfig(), cleaner)
    (task,) = (
        task for task in kit.tasks.periodic if task.name == "log-cleaner" and not task.cancelled
    )
    assert before.cancelled
    assert (task.delay_ms, manager._cleaner.config.max_keys) == (7, 45)


def test_without_a_cleaner_other_settings_do_not_start_one(kit: LogKit, managers: Managers) -> None:
    manager = managers.start(CleanerConfig(log_cleaner_enable=False))
    changed = CleanerConfig(log_cleaner_enable=False, log_cleaner_backoff_ms=7)
    manager.reconfigure(LogManagerConfig(), changed)
    assert not [task for task in kit.tasks.periodic if task.name == "log-cleaner"]


def test_producers_expire_by_the_setting_of_now(kit: LogKit, managers: Managers) -> None:
    manager = managers.start()
    log = manager.get_or_create(ORDERS)
    kit.append(log, b"x", producer_id=5, base_sequence=0)
    kit.clock.advance(1000)
    manager.expire_producers()
    assert log.active_producers()
    manager.reconfigure(
        LogManagerConfig(producers=ProducerStateConfig(producer_id_expiration_ms=1000)),
        CleanerConfig(),
    )
    manager.expire_producers()
    assert not log.active_producers()


def test_directories_belong_to_one_broker_of_one_cluster(managers: Managers) -> None:
    mine = MetaProperties(broker_id=1, cluster_id="a")
    for end in (LogManager.shutdown, LogManager.kill):
        manager = managers.start()
        manager.claim(mine)
        end(manager)
    for other in (
        MetaProperties(broker_id=2, cluster_id="a"),
        MetaProperties(broker_id=1, cluster_id="b"),
    ):
        manager = managers.start()
        with pytest.raises(ConfigError):
            manager.claim(other)
        manager.kill()


def test_directories_are_used_by_one_manager_at_a_time(managers: Managers) -> None:
    mine = MetaProperties(broker_id=1, cluster_id="a")
    first, second = managers.start(), managers.start()
    first.claim(mine)
    with pytest.raises(DirectoryInUse, match="this process"):
        second.claim(mine)
    first.shutdown()
    second.claim(mine)
    second.kill()


def test_foreign_directories_are_left_alone(managers: Managers) -> None:
    foreign = managers.directories[0] / "lost+found"
    foreign.mkdir(parents=True)
    assert managers.start().all_logs() == []
    assert foreign.exists()


def test_a_checkpoint_is_written_by_one_thread_at_a_time(managers: Managers) -> None:
    """A stopping broker writes one while its background thread may do the same."""
    manager = managers.start()
    manager.get_or_create(ORDERS)
    in_write, go_on = threading.Event(), threading.Event()
    writers: list[str] = []
    replace = managers.kit.files.replace

    def slow_replace(path: Path, data: BytesLike, *, sync: bool = False) -> None:
        writers.append(threading.current_thread().name)
        in_write.set()
        go_on.wait(timeout=30)
        replace(path, data)
        assert writers.pop() == threading.current_thread().name

    managers.kit.files.replace = slow_replace
    first = threading.Thread(target=manager.checkpoint_high_watermarks)
    first.start()
    in_write.wait(timeout=30)
    second = threading.Thread(target=manager.checkpoint_high_watermarks)
    second.start()
    assert len(writers) == 1
    go_on.set()
    first.join()
    second.join()
    assert managers.failed == []
