"""The logs of one broker, in one or several log directories.

Owner: `LogManager._lock` (leaf) guards the sets of logs and directories; no call is made under it.
`_creation` (rank 25) is held while a log is created, `_checkpointing` (rank 26) while a checkpoint
file is written. Each log guards itself.
Invariants: a partition has at most one log; a failing directory loses only its own logs.
Not here: reactions to lost logs; `on_dir_failure` tells the broker.
"""

import logging
import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from embedkafka.broker.log.cleaning.cleaner import Cleaner, CleanerConfig
from embedkafka.broker.log.cleaning.threads import CleanerThreads
from embedkafka.broker.log.config import LogConfig
from embedkafka.broker.log.environment import LogEnvironment
from embedkafka.broker.log.files import checkpoints
from embedkafka.broker.log.files.checkpoints import CorruptCheckpoint, MetaProperties
from embedkafka.broker.log.log import Log
from embedkafka.broker.log.moves import FUTURE_SUFFIX, Move, Moves, find_future_partition
from embedkafka.broker.log.producers.state import ProducerStateConfig
from embedkafka.runtime.failures import ConfigError
from embedkafka.runtime.files import MAX_FILE_NAME, DirectoryLock, is_disk_failure
from embedkafka.runtime.ids import TopicPartition
from embedkafka.runtime.locks import LEAF_RANK, LOG_RANK, ranked_lock
from embedkafka.runtime.scheduler import Cancellable, Scheduler
from embedkafka.runtime.values import dataclass, field
from embedkafka.wire.protocol.errors import ApiError, ErrorCode
from embedkafka.wire.protocol.wire_types import MAX_LONG

_LOG = logging.getLogger(__name__)

DELETE_SUFFIX: Final = "-delete"
STRAY_SUFFIX: Final = "-stray"
CREATION_RANK: Final = 25
CHECKPOINT_RANK: Final = 26
NEVER_MS: Final = MAX_LONG

# The log of a KRaft controller belongs to no topic.
_LOG_DIRECTORY: Final = re.compile(r"(?!__cluster_metadata-)(.+)-(\d+)")

DirFailureListener = Callable[[Path, Sequence[TopicPartition]], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogManagerConfig:
    """The broker's settings for its logs, under Kafka's names."""

    log_retention_check_interval_ms: int = 5 * 60 * 1000
    log_flush_scheduler_interval_ms: int = NEVER_MS
    log_flush_offset_checkpoint_interval_ms: int = 60_000
    log_flush_start_offset_checkpoint_interval_ms: int = 60_000
    log_initial_task_delay_ms: int = NEVER_MS  # but at most the period
    replica_alter_log_dirs_io_max_bytes_per_second: int = MAX_LONG
    producer_id_expiration_check_interval_ms: int = 600_000
    producers: ProducerStateConfig = field(default_factory=ProducerStateConfig)


class LogManager:
    """Finds, creates, maintains and deletes logs.

    Compaction runs on threads that `new_cleaner_tasks` makes, or on the scheduler's. The caller
    ends them between `stop_cleaning` and `shutdown` or `kill`. The thread that meets a disk failure
    calls `on_dir_failure` and may hold a partition's lock, so the callback must only pass it on.
    """

    def __init__(
        self,
        log_dirs: Sequence[Path | str],
        environment: LogEnvironment,
        *,
        config: LogManagerConfig | None = None,
        cleaner_config: CleanerConfig | None = None,
        new_cleaner_tasks: Callable[[int], Scheduler] | None = None,
        topic_config: Callable[[str], LogConfig] | None = None,
        on_dir_failure: DirFailureListener | None = None,
    ) -> None:
        self.directories = tuple(Path(directory) for directory in log_dirs)
        self.config = config or LogManagerConfig()
        self._environment = environment
        self._clock = environment.clock
        self._scheduler = environment.scheduler
        self._files = environment.files
        self._random = environment.random
        self.conversions = environment.conversions
        self._topic_config = topic_config or _default_config
        self._on_dir_failure = on_dir_failure
        self._creation = ranked_lock("log creation", CREATION_RANK)
        self._checkpointing = ranked_lock("log checkpoints", CHECKPOINT_RANK)
        self._lock = ranked_lock("logs", LEAF_RANK)
        self._offline: dict[Path, OSError] = {}
        self._logs: dict[TopicPartition, Log] = {}
        self._written: dict[Path, Mapping[TopicPartition, int]] = {}
        """What the checkpoints on disk say."""
        self._tasks: list[Cancellable] = []
        self._locks: list[DirectoryLock] = []
        self._cleaner_task: Cancellable | None = None
        self.preferred: dict[TopicPartition, Path] = {}
        """Where logs will be that do not exist yet."""
        self._moves = Moves(
            self,
            scheduler=self._scheduler,
            random=self._random,
            bytes_per_second=self.config.replica_alter_log_dirs_io_max_bytes_per_second,
        )
        self._cleaner_config = cleaner_config or CleanerConfig()
        self._cleaner = Cleaner(
            self.all_logs,
            clock=self._clock,
            files=self._files,
            config=self._cleaner_config,
            on_storage_error=self.fail_directory,
        )
        self._cleaner_threads = CleanerThreads(
            self._cleaner,
            self._cleaner_config,
            clock=self._clock,
            new_tasks=new_cleaner_tasks or (lambda number: environment.scheduler),
        )

    # -- life

    def claim(self, meta: MetaProperties) -> None:
        """Locks the directories and marks them with the broker's id; refuses another broker's.

        Raises `DirectoryInUse` while another broker, ours or Apache Kafka's, uses one.
        """
        for directory in self.live_directories:
            try:
                self._files.make_directory(directory)
                self._locks.append(self._files.lock_directory(directory))
                found = self._read_or_write_meta(directory, meta)
            except OSError as error:
                self._begin_without(directory, error)
                continue
            if found.broker_id != meta.broker_id or (
                None not in (found.cluster_id, meta.cluster_id)
                and found.cluster_id != meta.cluster_id
            ):
                raise ConfigError(f"{directory} belongs to {found}, not to {meta}")

    def _read_or_write_meta(self, directory: Path, meta: MetaProperties) -> MetaProperties:
        found = checkpoints.read_meta_properties(self._files, directory)
        if found is None:
            checkpoints.write_meta_properties(self._files, directory, meta)
            for path in (directory, directory.parent):
                self._files.sync(path)
        return found or meta

    def startup(self, on_unclean: Callable[[], object] = lambda: None) -> None:
        """Opens every log in the directories, and starts periodic maintenance.

        Calls `on_unclean` before it checks logs that were not closed cleanly.
        """
        left_moves: list[Path] = []
        for directory in self.live_directories:
            try:
                left_moves += self._load_directory(directory, on_unclean)
            except OSError as error:
                self._begin_without(directory, error)
        if not self.live_directories:
            raise ConfigError(f"no log directory can be used: {self._describe_offline()}")
        for path in left_moves:
            self._begin_move_again(path)
        self._start_tasks()

    def stop_cleaning(self) -> None:
        """Makes the compaction threads end soon."""
        self._cleaner_threads.stop()

    def shutdown(self) -> None:
        """Closes every log cleanly, so that the next start need not check them."""
        self._stop_tasks()
        self._moves.close(clean=True)
        for directory in self.live_directories:
            logs = self._logs_in(directory)
            try:
                for log in logs:
                    log.close()
                self._write_checkpoints(directory, logs)
                checkpoints.mark_clean(self._files, directory)
            except OSError as error:
                _LOG.error("Log directory %s was not closed cleanly: %s", directory, error)
                self.fail_directory(directory, error)
        self._let_go()

    def kill(self) -> None:
        """Releases every file without writing, as if the process had died."""
        self._stop_tasks()
        self._moves.close(clean=False)
        for log in self.all_logs():
            log.kill()
        self._let_go()

    def copy_to(self, root: Path) -> None:
        """Copies the directories to `root`, as if after a clean shutdown.

        Each log is copied at a different moment. An OSError does not affect the original logs.
        """
        from embedkafka.broker.log.files.copies import (  # for snapshots
            CopiedLog,
            write_copied_offsets,
        )

        copies: dict[Path, dict[TopicPartition, CopiedLog]] = {}
        for directory in self.live_directories:
            target = root / directory.name
            copies[target] = {}
            self._files.make_directory(target)
            for name in (checkpoints.META_PROPERTIES, checkpoints.CLEANER_CHECKPOINT):
                if self._files.exists(directory / name):
                    self._files.link(directory / name, target / name)
        for log in self.all_logs():  # not by directory: a log may move to another
            target = root / log.directory.parent.name
            copy = log.copy_to(target / str(log.topic_partition))
            if copy is not None:
                copies[target][log.topic_partition] = copy
        for target, copied in copies.items():
            write_copied_offsets(self._files, target, copied)

    # -- logs

    def find(self, topic_partition: TopicPartition) -> Log | None:
        return self._logs.get(topic_partition)

    def all_logs(self) -> Sequence[Log]:
        with self._lock:
            return list(self._logs.values())

    def get_or_create(
        self,
        topic_partition: TopicPartition,
        topic_id: uuid.UUID | None = None,
        config: LogConfig | None = None,
        *,
        directory: Path | None = None,
    ) -> Log:
        """The partition's log; creates it in `directory`, or in the emptiest one.

        Raises KAFKA_STORAGE_ERROR if no directory is available.
        """
        log = self.find(topic_partition)
        if log is None:
            with self._creation:
                log = self.find(topic_partition) or self._create(
                    topic_partition, config, directory or self._place(topic_partition)
                )
        if topic_id is not None and log.topic_id is None:
            log.assign_topic_id(topic_id)
        return log

    def delete_async(self, topic_partition: TopicPartition) -> None:
        """Removes the log at once, and its files after `file.delete.delay.ms`."""
        log = self._take_away(topic_partition, DELETE_SUFFIX)
        if log is not None:
            self._remove_later(log.directory, log.config.file_delete_delay_ms)

    def set_aside(self, topic_partition: TopicPartition) -> None:
        """Removes the log and keeps its files, under a name that is no log's."""
        self._take_away(topic_partition, STRAY_SUFFIX)

    def _take_away(self, topic_partition: TopicPartition, suffix: str) -> Log | None:
        with self._lock:
            log = self._logs.pop(topic_partition, None)
        self._moves.cancel(topic_partition)
        if log is not None:
            log.retire(partial(self._path_aside, suffix))
            self._cleaner.forget(log)  # last, because a pass that just ends notes its result
        return log

    def move(self, topic_partition: TopicPartition, directory: Path) -> None:
        """Starts to move a replica to another directory; cancels a move to elsewhere.

        Raises LOG_DIR_NOT_FOUND, KAFKA_STORAGE_ERROR, or REPLICA_NOT_AVAILABLE if the log does not
        exist yet: it will be created there.
        """
        if directory not in self.directories:
            raise ApiError(ErrorCode.LOG_DIR_NOT_FOUND, f"{directory} is no log directory")
        live = self.live_directories
        if directory not in live:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"{directory} is offline")
        self._moves.cancel(topic_partition, unless=directory)
        log = self.find(topic_partition)
        if log is None:
            self.preferred[topic_partition] = directory
            raise ApiError(ErrorCode.REPLICA_NOT_AVAILABLE, f"no log of {topic_partition} yet")
        if log.directory.parent == directory:
            return
        if len(live) < len(self.directories):
            raise ApiError(
                ErrorCode.KAFKA_STORAGE_ERROR, "nothing is moved while a log directory is offline"
            )
        self._moves.begin(log, directory)

    def moving(self) -> Sequence[Log]:
        """The unfinished copies of moving replicas."""
        return self._moves.futures()

    def update_topic_config(self, topic: str, config: LogConfig) -> None:
        for log in self.all_logs():
            if log.topic_partition.topic == topic:
                log.update_config(config)

    def reconfigure(self, config: LogManagerConfig, cleaner_config: CleanerConfig) -> None:
        """Applies other settings from now on, but periods only from the next start."""
        self.config = config
        self._moves.set_rate(config.replica_alter_log_dirs_io_max_bytes_per_second)
        for log in self.all_logs():
            log.expire_producers_after(config.producers.producer_id_expiration_ms)
        if cleaner_config == self._cleaner_config:
            return
        self._cleaner_config = self._cleaner.config = cleaner_config
        self._cleaner_threads.reconfigure(cleaner_config)
        if self._cleaner_task is not None:
            self._cleaner_task.cancel()
            self._start_cleaner()

    # -- directories

    @property
    def live_directories(self) -> Sequence[Path]:
        with self._lock:
            return [path for path in self.directories if path not in self._offline]

    def fail_directory(self, directory: Path, error: OSError) -> None:
        """Takes a directory and its logs offline if its disk failed."""
        if not is_disk_failure(error):
            _LOG.error("Log directory %s stays online: %s", directory, error)
            return
        with self._lock:
            if directory in self._offline:
                return
            self._offline[directory] = error
            lost = [log for log in self._logs.values() if log.directory.parent == directory]
            for log in lost:
                del self._logs[log.topic_partition]
        _LOG.error("Log directory %s failed with %d logs in it: %s", directory, len(lost), error)
        for log in lost:
            log.kill()
        self._moves.lose(directory)
        if self._on_dir_failure is not None:
            self._on_dir_failure(directory, [log.topic_partition for log in lost])

    # -- maintenance, called by the scheduler and by tests

    def roll(self, topic: str) -> None:
        """Starts a new segment in every log of `topic`."""
        for log in self.all_logs():
            if log.topic_partition.topic == topic:
                log.roll()

    def compact(self, topic: str) -> None:
        """Compacts every log of `topic` now, its newest records included."""
        self.roll(topic)
        for log in self.all_logs():
            if log.topic_partition.topic == topic and log.config.compacts:
                self._cleaner.clean_now(log)

    def apply_retention(self, topic: str | None = None) -> None:
        """Deletes segments, of one topic or of all, too old, too many or below the log start."""
        self._for_each_log(
            lambda log: (
                log.delete_old_segments() if topic in (None, log.topic_partition.topic) else None
            )
        )

    def flush_due_logs(self) -> None:
        """Syncs the logs whose last sync is more than `flush.ms` ago."""
        now_ms = self._clock.now_ms()
        self._for_each_log(
            lambda log: log.flush() if now_ms - log.last_flushed_ms >= log.config.flush_ms else None
        )

    def expire_producers(self) -> None:
        """Drops idempotent producers that have been idle for too long."""
        self._for_each_log(lambda log: log.remove_expired_producers())

    def checkpoint_recovery_points(self) -> None:
        self._checkpoint_all(checkpoints.RECOVERY_POINT_CHECKPOINT, _recovery_point)

    def checkpoint_log_starts(self) -> None:
        self._checkpoint_all(checkpoints.LOG_START_CHECKPOINT, _moved_log_start)

    def checkpoint_high_watermarks(self) -> None:
        self._checkpoint_all(checkpoints.REPLICATION_CHECKPOINT, _high_watermark)

    # -- loading and creating

    def _begin_without(self, directory: Path, error: OSError) -> None:
        """Starts without a failed directory; raises if descriptors ran out."""
        if not is_disk_failure(error):
            raise error
        self.fail_directory(directory, error)

    def _load_directory(self, directory: Path, on_unclean: Callable[[], object]) -> Sequence[Path]:
        """Opens the logs; returns the paths of unfinished copies of moving replicas."""
        self._files.make_directory(directory)
        # Removes it before loading: from here on, a crash is an unclean shutdown.
        is_clean = checkpoints.take_clean_mark(self._files, directory)
        for name in checkpoints.OFFSET_CHECKPOINTS:
            self._files.open(directory / name)  # Kafka creates them at the start too
        self._cleaner.load_checkpoint(directory)
        recovery_points = self._read_offsets(directory, checkpoints.RECOVERY_POINT_CHECKPOINT)
        log_starts = self._read_offsets(directory, checkpoints.LOG_START_CHECKPOINT)
        high_watermarks = self._read_offsets(directory, checkpoints.REPLICATION_CHECKPOINT)
        left_moves: list[Path] = []
        for name in self._files.names(directory):
            if name.endswith(DELETE_SUFFIX):
                self._remove_later(directory / name, 0)
                continue
            if name.endswith(FUTURE_SUFFIX):
                left_moves.append(directory / name)
                continue
            topic_partition = _parse_directory_name(name)
            if topic_partition is None:
                continue
            if not is_clean:
                on_unclean()
            log = self._open(topic_partition, directory, self._topic_config(topic_partition.topic))
            log.load(
                log_start_offset=log_starts.get(topic_partition, 0),
                recovery_point=recovery_points.get(topic_partition, 0),
                is_clean=is_clean,
            )
            log.update_high_watermark(high_watermarks.get(topic_partition, 0))
            with self._lock:
                self._logs[topic_partition] = log
        return left_moves

    def _begin_move_again(self, path: Path) -> None:
        """Replaces a copy that an earlier run of this broker left at `path` unfinished."""
        topic_partition = find_future_partition(path.name)
        log = None if topic_partition is None else self.find(topic_partition)
        self.retire(path, delay_ms=0)
        if log is None or log.directory.parent == path.parent:
            return
        try:
            self._moves.begin(log, path.parent)
        except ApiError as error:
            _LOG.warning("%s is not moved to %s: %s", topic_partition, path.parent, error)

    def _create(
        self,
        topic_partition: TopicPartition,
        config: LogConfig | None,
        directory: Path,
    ) -> Log:
        log = self._open(
            topic_partition, directory, config or self._topic_config(topic_partition.topic)
        )
        try:
            if self._files.exists(log.directory):
                log.load()  # as Kafka does: Spark's tests put a compacted log there
            else:
                log.create()
                self._cleaner.forget(log)  # a log of that name may have moved or died elsewhere
        except OSError as error:
            self.fail_directory(directory, error)
            raise ApiError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"the log of {topic_partition} cannot be created in {directory}: {error}",
            ) from error
        with self._lock:
            self._logs[topic_partition] = log
        self._lower_checkpoints(log, 0)
        return log

    def _open(self, topic_partition: TopicPartition, directory: Path, config: LogConfig) -> Log:
        path = directory / str(topic_partition)
        if path.parent != directory or path.name != str(topic_partition):
            raise ApiError(
                ErrorCode.INVALID_TOPIC_EXCEPTION, f"{topic_partition} does not name a directory"
            )
        return Log(
            topic_partition,
            path,
            config,
            self._environment,
            producer_config=self.config.producers,
            on_storage_error=lambda error: self.fail_directory(directory, error),
            on_truncated=self._on_truncated,
        )

    def _place(self, topic_partition: TopicPartition) -> Path:
        """The directory of a new log: the requested one, or the one with the fewest logs."""
        preferred = self.preferred.pop(topic_partition, None)
        if preferred is not None and preferred in self.live_directories:
            return preferred
        return self._emptiest()

    def _emptiest(self) -> Path:
        directories = self._require_live()
        if len(directories) == 1:
            return directories[0]
        return min(directories, key=lambda directory: len(self._logs_in(directory)))

    def _require_live(self) -> Sequence[Path]:
        directories = self.live_directories
        if not directories:
            raise ApiError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"no log directory is online: {self._describe_offline()}",
            )
        return directories

    def _describe_offline(self) -> str:
        with self._lock:
            return "; ".join(f"{path}: {error}" for path, error in self._offline.items())

    # -- moving (`moves.Disks`)

    def open_future(self, path: Path, move: Move) -> Log:
        return Log(
            move.topic_partition,
            path,
            move.log.config,
            self._environment,
            topic_id=move.log.topic_id,
            producer_config=self.config.producers,
            on_storage_error=move.note,
            lock_rank=LOG_RANK + 1,
        )

    def retire(self, path: Path, *, delay_ms: int) -> None:
        if path.name.endswith(FUTURE_SUFFIX):  # under that name, a restart would continue the move
            doomed = path.with_name(path.name.removesuffix(FUTURE_SUFFIX) + DELETE_SUFFIX)
            try:
                self._files.rename(path, doomed)
            except OSError as error:
                self.fail_directory(path.parent, error)
                return
            path = doomed
        self._remove_later(path, delay_ms)

    def on_moved(self, log: Log, source: Path) -> None:
        self._cleaner.alter_checkpoint_dir(log, source)
        self._lower_checkpoints(log, 0)

    # -- deleting

    def _path_aside(self, suffix: str, directory: Path) -> Path:
        suffix = f".{self._random.getrandbits(128):032x}{suffix}"
        return directory.with_name(directory.name[: MAX_FILE_NAME - len(suffix)] + suffix)

    def _remove_later(self, directory: Path, delay_ms: float) -> None:
        def remove() -> None:
            try:
                self._files.remove_tree(directory)
            except OSError as error:
                self.fail_directory(directory.parent, error)

        self._scheduler.once(f"delete-log {directory.name}", delay_ms, remove)

    # -- maintenance

    def _start_tasks(self) -> None:
        config = self.config
        work: Sequence[tuple[str, int, Callable[[], None]]] = (
            ("log-retention", config.log_retention_check_interval_ms, self.apply_retention),
            ("log-flusher", config.log_flush_scheduler_interval_ms, self.flush_due_logs),
            (
                "log-recovery-point-checkpoint",
                config.log_flush_offset_checkpoint_interval_ms,
                self.checkpoint_recovery_points,
            ),
            (
                "log-start-offset-checkpoint",
                config.log_flush_start_offset_checkpoint_interval_ms,
                self.checkpoint_log_starts,
            ),
            (
                "producer-id-expiration",
                config.producer_id_expiration_check_interval_ms,
                self.expire_producers,
            ),
        )
        # Kafka waits for the initial delay even if the period is shorter; a test that sets a short
        # period does not want that.
        self._tasks = [
            self._scheduler.every(
                name, period_ms, run, delay_ms=min(config.log_initial_task_delay_ms, period_ms)
            )
            for name, period_ms, run in work
            if period_ms < NEVER_MS
        ]
        if self._cleaner_config.log_cleaner_enable:
            self._start_cleaner()

    def _start_cleaner(self) -> None:
        backoff_ms = self._cleaner_config.log_cleaner_backoff_ms
        self._cleaner_task = self._scheduler.every(
            "log-cleaner", backoff_ms, self._cleaner_threads.wake
        )

    def _stop_tasks(self) -> None:
        for task in self._tasks:
            task.cancel()
        self._tasks.clear()
        if self._cleaner_task is not None:
            self._cleaner_task.cancel()
        self._cleaner_threads.close()

    def _for_each_log(self, act: Callable[[Log], object]) -> None:
        for log in self.all_logs():
            try:
                act(log)
            except ApiError as error:
                # The log has been closed, or has reported its failed disk.
                _LOG.info("Maintenance of %s was cut short: %s", log.topic_partition, error)

    def _checkpoint_all(self, name: str, offset_of: Callable[[Log], int | None]) -> None:
        for directory in self.live_directories:
            self._checkpoint(directory, name, offset_of)

    def _checkpoint(
        self, directory: Path, name: str, offset_of: Callable[[Log], int | None]
    ) -> None:
        try:
            self._write_checkpoint(directory, name, self._logs_in(directory), offset_of)
            self._files.sync(directory)
        except OSError as error:
            self.fail_directory(directory, error)

    def _write_checkpoints(self, directory: Path, logs: Sequence[Log]) -> None:
        for name, offset_of in (*_CLAIMS, (checkpoints.REPLICATION_CHECKPOINT, _high_watermark)):
            self._write_checkpoint(directory, name, logs, offset_of)

    def _write_checkpoint(
        self,
        directory: Path,
        name: str,
        logs: Sequence[Log],
        offset_of: Callable[[Log], int | None],
    ) -> None:
        # When the broker stops, the background thread may be writing the same file.
        with self._checkpointing:
            offsets = {log.topic_partition: offset_of(log) for log in logs}
            known = {tp: offset for tp, offset in offsets.items() if offset is not None}
            checkpoints.write_offsets(self._files, directory / name, known)
            self._written[directory / name] = known

    def _read_offsets(self, directory: Path, name: str) -> Mapping[TopicPartition, int]:
        try:
            found = checkpoints.read_offsets(self._files, directory / name)
        except CorruptCheckpoint as corrupt:
            _LOG.warning("Starting from offset 0 instead: %s", corrupt)
            found = {}
        self._written[directory / name] = found
        return found

    def _on_truncated(self, log: Log, offset: int) -> None:
        self._cleaner.truncate_checkpoint(log, offset)
        self._lower_checkpoints(log, offset)

    def _lower_checkpoints(self, log: Log, offset: int) -> None:
        """Rewrites the checkpoints that say more than `offset` of a truncated or new log."""
        directory = log.directory.parent
        for name, offset_of in _CLAIMS:
            if self._written.get(directory / name, {}).get(log.topic_partition, 0) > offset:
                self._checkpoint(directory, name, offset_of)

    def _logs_in(self, directory: Path) -> Sequence[Log]:
        with self._lock:
            return [log for log in self._logs.values() if log.directory.parent == directory]

    def _let_go(self) -> None:
        with self._lock:
            self._logs.clear()
        while self._locks:
            self._locks.pop().release()


def _default_config(topic: str) -> LogConfig:
    return LogConfig()


def _parse_directory_name(name: str) -> TopicPartition | None:
    match = _LOG_DIRECTORY.fullmatch(name)
    return None if match is None else TopicPartition(match[1], int(match[2]))


def _recovery_point(log: Log) -> int:
    return log.recovery_point


def _high_watermark(log: Log) -> int:
    return log.high_watermark


def _moved_log_start(log: Log) -> int | None:
    """The log start, unless the first segment starts there."""
    return log.log_start_offset if log.log_start_offset > log.first_segment_offset else None


_CLAIMS: Final = (
    (checkpoints.RECOVERY_POINT_CHECKPOINT, _recovery_point),
    (checkpoints.LOG_START_CHECKPOINT, _moved_log_start),
)
"""The checkpoints that recovery trusts blindly."""
