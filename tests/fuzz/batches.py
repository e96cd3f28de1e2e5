"""Sends record batches through append, fetch, recovery and compaction."""

import itertools
import shutil
import struct
import tempfile
import zlib
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Final, NamedTuple, Self

from embedkafka.broker.log.config import LogConfig
from embedkafka.broker.log.environment import LogEnvironment
from embedkafka.broker.log.files.record_ages import RecordAges
from embedkafka.broker.log.log import AppendOrigin, Log
from embedkafka.broker.log.manager import LogManager
from embedkafka.runtime.clock import ManualClock
from embedkafka.runtime.files import FileRegion, SystemFiles
from embedkafka.runtime.ids import TopicPartition
from embedkafka.wire.protocol.errors import ApiError
from embedkafka.wire.records.batch import read_batches
from embedkafka.wire.records.builder import build_batch, write_crc
from embedkafka.wire.records.compression import Compression
from embedkafka.wire.records.control import (
    ControlType,
    EndTransactionMarker,
    build_end_transaction_marker,
)
from embedkafka.wire.records.conversion import down_convert_fetched
from embedkafka.wire.records.legacy import build_message_set
from embedkafka.wire.records.record import Record
from tests.doubles.scheduling import TaskList
from tests.fuzz.mutations import Mutator

LED: Final = TopicPartition("led", 0)
FOLLOWED: Final = TopicPartition("followed", 0)
DAMAGED: Final = TopicPartition("damaged", 0)

_CONFIG: Final = LogConfig(
    cleanup_policy=frozenset({"compact"}),
    segment_bytes=16 * 1024,
    min_cleanable_dirty_ratio=0.01,
    file_delete_delay_ms=0,
    delete_retention_ms=0,
)
# Files that recovery verifies or rebuilds. A damaged checkpoint costs the directory, as in Kafka.
_REPAIRED: Final = frozenset({".index", ".timeindex", ".txnindex", ".snapshot"})
_FETCH_EVERY: Final = 3
_RESTART_EVERY: Final = 250
_FRESH_EVERY: Final = 2500
_HEADER_V2: Final = 61


class Sent(NamedTuple):
    """Batches as a client or a leader sends them; `marker` ends a transaction before them."""

    data: bytes
    marker: bytes | None
    continues: bool


class Batches:
    """Each append returns an offset or an `ApiError`, and any log can be opened and compacted."""

    name = "batches"

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._mutator = Mutator(rng)
        self._good = good_batches()
        self._root = Path(tempfile.mkdtemp(prefix="embedkafka-fuzz-"))
        self._clock = ManualClock()
        self._tasks = TaskList()
        self._numbers = itertools.count(1)
        self._manager = self._start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop()
        shutil.rmtree(self._root, ignore_errors=True)

    def next_input(self) -> Sent:
        rng = self._rng
        data = self._mutator.damaged(rng.choice(self._good), self._good)
        if rng.random() < 0.7:
            data = _with_valid_checksum(data)
        marker = rng.choice(_MARKERS) if rng.random() < 0.1 else None
        return Sent(data, marker, rng.random() < 0.8)

    def feed(self, data: Sent) -> None:
        led, followed = self._log(LED), self._log(FOLLOWED)
        try:
            if data.marker is not None:
                marker = bytearray(data.marker)
                led.append_as_leader(marker, leader_epoch=3, origin=AppendOrigin.COORDINATOR)
            led.append_as_leader(bytearray(data.data), leader_epoch=3)
        except ApiError:
            pass
        replicated = bytearray(data.data)
        if data.continues and len(replicated) >= 8:
            struct.pack_into(">q", replicated, 0, followed.log_end_offset)
        try:
            followed.append_as_follower(replicated)
        except ApiError:
            pass
        number = next(self._numbers)
        if number % _FETCH_EVERY == 0:
            _fetch(led)
            _fetch(followed)
        if number % _RESTART_EVERY == 0:
            self._damage_disk(data.data)
            self._restart(fresh=number % _FRESH_EVERY == 0)

    def check(self) -> None:
        assert len(self._manager.live_directories) == 1

    def describe(self, data: Sent) -> str:
        marker = "none" if data.marker is None else data.marker.hex()
        return f"marker={marker} continues={data.continues} {data.data.hex()}"

    def _log(self, topic_partition: TopicPartition) -> Log:
        return self._manager.get_or_create(topic_partition)

    def _start(self) -> LogManager:
        manager = LogManager(
            [self._root / "data"],
            LogEnvironment(
                clock=self._clock,
                files=SystemFiles(),
                scheduler=self._tasks,
                random=Random(3),
                ages=RecordAges(),
            ),
            topic_config=lambda topic: _CONFIG,
        )
        manager.startup()
        return manager

    def _stop(self) -> None:
        self._manager.stop_cleaning()
        self._manager.kill()

    def _damage_disk(self, data: bytes) -> None:
        """Leaves `data` on disk as a crash would: appended to a file, or in its place."""
        log = self._log(DAMAGED)
        for good in self._good[:5]:
            log.append_as_leader(bytearray(good), leader_epoch=0)
        for path in log.directory.iterdir():
            if path.suffix == ".log" or (path.suffix in _REPAIRED and self._rng.random() < 0.3):
                with path.open("r+b") as file:
                    file.seek(self._rng.randint(0, path.stat().st_size))
                    file.write(data)

    def _restart(self, *, fresh: bool) -> None:
        """Compacts, crashes, recovers, and compacts the recovered log."""
        self._compact()
        self._stop()
        self._tasks.pending.clear()
        self._tasks.periodic.clear()
        if fresh:
            shutil.rmtree(self._root / "data")
        self._manager = self._start()
        for log in self._manager.all_logs():
            _fetch(log)
        self._compact()

    def _compact(self) -> None:
        for log in self._manager.all_logs():
            log.update_high_watermark(log.log_end_offset)
            try:
                log.roll()
            except ApiError:
                pass
        self._clock.advance(seconds=60)
        for task in self._tasks.periodic:
            if task.name == "log-cleaner":
                task.run()
        while self._tasks.pending:
            self._tasks.run_pending()


_MARKERS: Final = [
    build_end_transaction_marker(
        EndTransactionMarker(control_type=kind, coordinator_epoch=0),
        timestamp=2_000,
        producer_id=6,
        producer_epoch=0,
    )
    for kind in (ControlType.COMMIT, ControlType.ABORT)
]


def _fetch(log: Log) -> None:
    """Reads the last batches and converts them for an old consumer."""
    start = max(log.log_start_offset, log.log_end_offset - 3)
    try:
        found = log.read(start, max_bytes=64 * 1024).records
        data = found.read() if isinstance(found, FileRegion) else bytes(found)
        for batch in read_batches(data):
            for _ in batch.records():
                pass
        for magic in (0, 1):
            down_convert_fetched(data, magic=magic, first_offset=start)
    except ApiError:
        pass


def _with_valid_checksum(data: bytes) -> bytes:
    """Repairs the checksum, so that the damage gets past it."""
    if len(data) < 17:
        return data
    fixed = bytearray(data)
    struct.pack_into(">i", fixed, 8, len(fixed) - 12)
    if fixed[16] == 2 and len(fixed) >= _HEADER_V2:
        write_crc(fixed)
    elif fixed[16] < 2:
        struct.pack_into(">I", fixed, 12, zlib.crc32(fixed[16:]))
    return bytes(fixed)


def good_batches() -> list[bytes]:
    records = [
        (1_000 + number, b"k%d" % (number % 3), b"value %d" % number, (("h", b"x"), ("n", None)))
        for number in range(4)
    ]
    plain = [build_batch(records, compression=codec) for codec in Compression]
    produced = [
        build_batch(
            records,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=0,
            transactional=transactional,
        )
        for producer_id, transactional in ((5, False), (6, True))
    ]
    tombstone = build_batch([(1_000, b"k1", None, ()), (1_001, None, b"no key", ())])
    old = [
        build_message_set(
            [Record(number, 1_000, b"k", b"old %d" % number) for number in range(3)],
            magic=magic,
            compression=codec,
        )
        for magic in (0, 1)
        for codec in (Compression.NONE, Compression.GZIP, Compression.SNAPPY, Compression.LZ4)
    ]
    return [*plain, *produced, *_MARKERS, tombstone, *old, plain[0] + plain[0]]
