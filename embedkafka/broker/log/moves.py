"""Moves replicas between the broker's log directories (KIP-113).

A copy grows in a directory `<topic>-<partition>.<id>-future`, a chunk at a time, by the rules of
followers: it is truncated where its epochs diverge from the log, and gets the batches that follow.
When it is nearly complete, the log switches to the copy's files and its old ones are removed. All
other code keeps the same `Log`.

Owner: `_lock` (leaf) guards the map; the copies belong to the background thread.
Invariants: a partition has at most one copy; neither the copy nor its log is compacted, since the
copy would miss a tombstone that is compacted away before it gets there; a restart begins an
unfinished copy again, since its log may have been compacted while the copy's disk was away.
Not here: the set of directories (`manager`).
"""

import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import Final, Protocol

from embedkafka.broker.log.log import Log
from embedkafka.broker.log.reads import FetchIsolation
from embedkafka.runtime.files import MAX_FILE_NAME, FileRegion
from embedkafka.runtime.ids import TopicPartition
from embedkafka.runtime.locks import LEAF_RANK, ranked_lock
from embedkafka.runtime.scheduler import Cancellable, Scheduler
from embedkafka.wire.protocol.errors import ApiError, ErrorCode

FUTURE_SUFFIX: Final = "-future"
_FUTURE_DIRECTORY: Final = r"(.+)-(\d+)\.[0-9a-f]{32}-future"
_CHUNK_BYTES: Final = 1024 * 1024


class Move:
    """A moving replica: its log, and the copy that will replace its files."""

    __slots__ = ("error", "future", "log", "next_step")

    def __init__(self, log: Log) -> None:
        self.log = log
        self.future: Log | None = None
        self.next_step: Cancellable | None = None
        self.error: OSError | None = None

    def note(self, error: OSError) -> None:
        """Notes that the copy's disk failed, to report it without a lock."""
        self.error = error

    @property
    def topic_partition(self) -> TopicPartition:
        return self.log.topic_partition

    @property
    def target(self) -> Path | None:
        return None if self.future is None else self.future.directory.parent


class Disks(Protocol):
    """The manager, as seen by moves."""

    def open_future(self, path: Path, move: Move) -> Log:
        """A log in the directory `path`, with the settings of the moving log."""
        ...

    def retire(self, path: Path, *, delay_ms: int) -> None:
        """Removes a directory that no log needs any longer, after a delay."""
        ...

    def on_moved(self, log: Log, source: Path) -> None:
        """The log is in its new place."""
        ...

    def fail_directory(self, directory: Path, error: OSError) -> None: ...


class Moves:
    """All moves of one broker."""

    def __init__(
        self, disks: Disks, *, scheduler: Scheduler, random: Random, bytes_per_second: int
    ) -> None:
        self._disks = disks
        self._bytes_per_second = bytes_per_second
        self._scheduler = scheduler
        self._random = random
        self._lock = ranked_lock("moves between log directories", LEAF_RANK)
        self._moves: dict[TopicPartition, Move] = {}

    def begin(self, log: Log, directory: Path) -> None:
        """Starts to move `log`, unless it is already moving to `directory`."""
        name = f"{log.topic_partition}.{self._random.getrandbits(128):032x}{FUTURE_SUFFIX}"
        if len(name) > MAX_FILE_NAME:
            raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, "the topic name is too long")
        move = Move(log)
        log.cleanable.pause()
        with self._lock:
            is_first = self._moves.setdefault(log.topic_partition, move) is move
        if not is_first:
            log.cleanable.resume()
            return
        future = self._disks.open_future(directory / name, move)
        try:
            future.create()
        except OSError as error:
            if self._end(move):
                log.cleanable.resume()
            self._disks.fail_directory(directory, error)
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
        with self._lock:
            move.future = future
            is_cancelled = not self._is_under_way(move)
        if is_cancelled:
            self._discard(log, future)
        else:
            self._go_on(move)

    def cancel(self, topic_partition: TopicPartition, *, unless: Path | None = None) -> None:
        """Cancels a move, unless it goes to the directory `unless`."""
        with self._lock:
            move = self._moves.get(topic_partition)
            if move is None or (unless is not None and move.target == unless):
                return
            del self._moves[topic_partition]
            future = move.future
        move.log.cleanable.resume()
        if future is not None:  # else `begin` will find that the move is cancelled
            self._discard(move.log, future)

    def set_rate(self, bytes_per_second: int) -> None:
        """Limits moves from now on; those that wait for an earlier limit go on."""
        if bytes_per_second == self._bytes_per_second:
            return
        self._bytes_per_second = bytes_per_second
        with self._lock:
            moves = list(self._moves.values())
        for move in moves:
            self._go_on(move)

    def lose(self, directory: Path) -> None:
        """Cancels the moves into and out of a failed directory."""
        with self._lock:
            lost = [
                move
                for move in self._moves.values()
                if directory in (move.target, move.log.directory.parent)
            ]
            for move in lost:
                del self._moves[move.topic_partition]
        for move in lost:
            move.log.cleanable.resume()
            if move.future is not None:
                move.future.kill()

    def futures(self) -> Sequence[Log]:
        """The unfinished copies."""
        with self._lock:
            return [move.future for move in self._moves.values() if move.future is not None]

    def close(self, *, clean: bool) -> None:
        """Closes the copies, which the next start begins again."""
        with self._lock:
            moves = list(self._moves.values())
            self._moves.clear()
        for move in moves:
            if move.future is not None:
                move.future.close() if clean else move.future.kill()

    # -- on the background thread

    def _go_on(self, move: Move, *, delay_ms: float = 0) -> None:
        if move.next_step is not None:
            move.next_step.cancel()
        name = f"move {move.topic_partition}"
        move.next_step = self._scheduler.once(name, delay_ms, partial(self._advance, move))

    def _pause_ms(self, copied_bytes: int) -> float:
        """How long a move waits after copying so much; as in Kafka, the first chunk is free."""
        return max(copied_bytes, 0) * 1000 / max(self._bytes_per_second, 1)

    def _advance(self, move: Move) -> None:
        future = move.future
        if future is None or not self._is_under_way(move):
            return
        if move.log.directory.parent == move.target:
            self.cancel(move.topic_partition)  # an earlier move has put it there
            return
        before = future.size
        try:
            has_more = copy_chunk(move.log, future)
        except ApiError:
            if self._end(move):  # else its copy has been dealt with
                self._give_up(move, future)
                move.log.cleanable.resume()
            return
        if has_more:
            self._go_on(move, delay_ms=self._pause_ms(future.size - before))
        elif self._end(move):  # from now on it cannot be cancelled
            try:
                self._finish(move.log, future)
            except ApiError:
                self._give_up(move, future)
            finally:
                move.log.cleanable.resume()

    def _finish(self, log: Log, future: Log) -> None:
        source, target = log.directory, future.directory.parent
        doomed = source.with_name(future.directory.name.removesuffix(FUTURE_SUFFIX) + "-delete")
        log.move_into(
            future,
            target / source.name,
            doomed=doomed,
            catch_up=partial(_catch_up, log, future),
            on_storage_error=partial(self._disks.fail_directory, target),
        )
        self._disks.retire(doomed, delay_ms=log.config.file_delete_delay_ms)
        self._disks.on_moved(log, source.parent)

    def _give_up(self, move: Move, future: Log) -> None:
        """Handles a closed log or a failed disk; reports the disk of the copy."""
        if move.error is not None:
            future.kill()
            self._disks.fail_directory(future.directory.parent, move.error)
        elif move.log.directory != future.directory:
            self._discard(move.log, future)

    def _discard(self, log: Log, future: Log) -> None:
        future.kill()
        self._disks.retire(future.directory, delay_ms=log.config.file_delete_delay_ms)

    def _is_under_way(self, move: Move) -> bool:
        return self._moves.get(move.topic_partition) is move

    def _end(self, move: Move) -> bool:
        """Forgets a move; returns whether it was still in progress."""
        with self._lock:
            if not self._is_under_way(move):
                return False
            del self._moves[move.topic_partition]
            return True


def find_future_partition(directory_name: str) -> TopicPartition | None:
    """The partition of a copy's directory name."""
    match = re.fullmatch(_FUTURE_DIRECTORY, directory_name)
    return None if match is None else TopicPartition(match[1], int(match[2]))


def copy_chunk(log: Log, future: Log) -> bool:
    """Copies a chunk; returns False if that reached the end of the log."""
    _align(log, future)
    data = log.read(future.log_end_offset, max_bytes=_CHUNK_BYTES, isolation=FetchIsolation.LOG_END)
    if isinstance(data.records, FileRegion):
        future.append_as_follower(memoryview(data.records.read()))
    return future.log_end_offset < log.log_end_offset


def _catch_up(log: Log, future: Log) -> None:
    while copy_chunk(log, future):
        pass


def _align(log: Log, future: Log) -> None:
    """Drops records from the copy that the log does not have."""
    epoch = future.latest_epoch
    if epoch >= 0:
        end_offset = log.end_offset_for_epoch(epoch).end_offset
        if end_offset < future.log_end_offset:
            future.truncate_to(max(end_offset, future.log_start_offset))
    if not log.log_start_offset <= future.log_end_offset <= log.log_end_offset:
        future.truncate_fully_and_start_at(log.log_start_offset)
