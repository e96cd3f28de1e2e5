"""A log in a real directory, with a clock, tasks and a disk that the test controls."""

from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

import pytest

from embedkafka.broker.log.config import LogConfig
from embedkafka.broker.log.environment import LogEnvironment
from embedkafka.broker.log.files.record_ages import RecordAges
from embedkafka.broker.log.log import AppendInfo, AppendOrigin, Log
from embedkafka.broker.log.producers.state import ProducerStateConfig
from embedkafka.runtime.clock import ManualClock
from embedkafka.runtime.files import FileRegion
from embedkafka.runtime.ids import TopicPartition
from embedkafka.wire.records.batch import read_batches
from embedkafka.wire.records.builder import build_batch
from embedkafka.wire.records.compression import Compression
from embedkafka.wire.records.control import (
    ControlType,
    EndTransactionMarker,
    build_end_transaction_marker,
)
from embedkafka.wire.records.record import Record
from tests.doubles.disk import FaultyFiles
from tests.doubles.scheduling import TaskList


class LogKit:
    """Creates logs, with shortcuts for what tests do to them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.clock = ManualClock()
        self.ages = RecordAges()
        self.tasks = TaskList()
        self.files = FaultyFiles()
        self.topic_partition = TopicPartition("orders", 0)
        self.directory = root / "orders-0"

    @property
    def environment(self) -> LogEnvironment:
        return LogEnvironment(
            clock=self.clock,
            files=self.files,
            scheduler=self.tasks,
            random=Random(7),
            ages=self.ages,
        )

    def new(self, *, verifies_transactions: bool = False, **settings: object) -> Log:
        """Creates an empty log; settings are attributes of `LogConfig`."""
        log = self._log(settings, verifies_transactions=verifies_transactions)
        log.create()
        return log

    def load(
        self,
        *,
        is_clean: bool = False,
        recovery_point: int = 0,
        log_start_offset: int = 0,
        **settings: object,
    ) -> Log:
        """Opens the log in the directory."""
        log = self._log(settings)
        log.load(
            is_clean=is_clean, recovery_point=recovery_point, log_start_offset=log_start_offset
        )
        return log

    def _log(self, settings: dict[str, object], *, verifies_transactions: bool = False) -> Log:
        return Log(
            self.topic_partition,
            self.directory,
            LogConfig(**settings),  # type: ignore[arg-type]  # the test knows the types
            self.environment,
            producer_config=ProducerStateConfig(verifies_transactions=verifies_transactions),
        )

    def batch(
        self,
        *values: bytes | None,
        key: bytes | None = None,
        timestamp: int | None = None,
        compression: Compression = Compression.NONE,
        producer_id: int = -1,
        producer_epoch: int = -1,
        base_sequence: int = -1,
        transactional: bool = False,
    ) -> bytes:
        """A batch as clients send it."""
        at = self.clock.now_ms() if timestamp is None else timestamp
        return build_batch(
            [(at, key, value, ()) for value in values],
            compression=compression,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
            transactional=transactional,
        )

    def append(self, log: Log, *values: bytes, epoch: int = 0, **batch: object) -> AppendInfo:
        built = self.batch(*values, **batch)  # type: ignore[arg-type]  # passed on as they are
        return log.append_as_leader(built, leader_epoch=epoch)

    def end_transaction(
        self,
        log: Log,
        producer_id: int,
        *,
        commit: bool,
        producer_epoch: int = 0,
        coordinator_epoch: int = 0,
        origin: AppendOrigin = AppendOrigin.COORDINATOR,
        epoch: int = 0,
    ) -> AppendInfo:
        marker = EndTransactionMarker(
            control_type=ControlType.COMMIT if commit else ControlType.ABORT,
            coordinator_epoch=coordinator_epoch,
        )
        built = build_end_transaction_marker(
            marker,
            timestamp=self.clock.now_ms(),
            producer_id=producer_id,
            producer_epoch=producer_epoch,
        )
        return log.append_as_leader(built, leader_epoch=epoch, origin=origin)

    def records(self, log: Log, start: int | None = None) -> list[Record]:
        """All records from `start`, read as a follower does."""
        offset = log.log_start_offset if start is None else start
        found: list[Record] = []
        while offset < log.log_end_offset:
            data = log.read(offset, max_bytes=2**20).records
            if not isinstance(data, FileRegion):
                break
            for batch in read_batches(data.read()):
                batch.ensure_valid()
                found.extend(record for record in batch.records() if record.offset >= offset)
                offset = batch.next_offset
        return found

    def values(self, log: Log, start: int | None = None) -> list[bytes | None]:
        return [record.value for record in self.records(log, start)]

    def names(self, suffix: str = "") -> Sequence[str]:
        return [name for name in self.files.names(self.directory) if name.endswith(suffix)]


@pytest.fixture
def kit(tmp_path: Path) -> LogKit:
    return LogKit(tmp_path)


@pytest.fixture(scope="session")
def new_kit(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], LogKit]:
    """For tests that need several logs, or new ones per example."""
    return lambda: LogKit(tmp_path_factory.mktemp("kit"))
