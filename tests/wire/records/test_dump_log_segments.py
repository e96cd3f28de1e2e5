"""Our log files equal Apache Kafka's: its tools read ours, and we open its directories."""

import contextlib
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from confluent_kafka import Producer

from embedkafka.broker.log.cleaning.cleaner import Cleaner, CleanerConfig
from embedkafka.broker.log.config import LogConfig
from embedkafka.broker.log.environment import LogEnvironment
from embedkafka.broker.log.files.record_ages import RecordAges
from embedkafka.broker.log.log import AppendOrigin, FetchIsolation, Log
from embedkafka.broker.log.manager import LogManager
from embedkafka.runtime.clock import ManualClock, SystemClock
from embedkafka.runtime.failures import Failures
from embedkafka.runtime.files import FileRegion, SystemFiles
from embedkafka.runtime.ids import TopicPartition
from embedkafka.runtime.scheduler import ThreadScheduler
from embedkafka.wire.records.batch import read_batches
from embedkafka.wire.records.builder import build_batch
from embedkafka.wire.records.compression import Compression
from embedkafka.wire.records.control import (
    ControlType,
    EndTransactionMarker,
    build_end_transaction_marker,
)
from tests.java_tools.jvm import QUICK_START, java
from tests.java_tools.oracle import ApacheKafka, kafka_classpath, kafka_version
from tests.wire.log_dumps import (
    complaints_in,
    main_class,
)

pytestmark = [pytest.mark.java, pytest.mark.gate]

RECORDS_PER_BATCH = 5
ROUNDS = 6


def open_log(directory: Path, clock: ManualClock) -> Log:
    return Log(
        TopicPartition("dumped", 0),
        directory,
        LogConfig(segment_bytes=3000, index_interval_bytes=300),
        LogEnvironment(
            clock=clock,
            files=SystemFiles(),
            scheduler=ThreadScheduler("ek-b0-background", clock, Failures()),
            random=Random(1),
            ages=RecordAges(),
        ),
    )


def write_log(directory: Path) -> Log:
    """Writes several segments with every codec; each round commits and aborts a transaction."""
    clock = ManualClock()
    log = open_log(directory, clock)
    log.create()
    for round_number in range(ROUNDS):
        for codec in Compression:
            clock.advance(10)
            log.append_as_leader(data_batch(codec, round_number, clock), leader_epoch=round_number)
        for producer_id in (100, 200):
            transaction = build_batch(
                [(clock.now_ms(), b"k", b"in transaction", ())],
                producer_id=producer_id,
                producer_epoch=1,
                base_sequence=round_number,
                transactional=True,
            )
            log.append_as_leader(transaction, leader_epoch=round_number)
        for producer_id, decision in ((100, ControlType.ABORT), (200, ControlType.COMMIT)):
            marker = build_end_transaction_marker(
                EndTransactionMarker(control_type=decision, coordinator_epoch=2),
                timestamp=clock.now_ms(),
                producer_id=producer_id,
                producer_epoch=1,
            )
            log.append_as_leader(marker, leader_epoch=round_number, origin=AppendOrigin.COORDINATOR)
    return log


def data_batch(codec: Compression, round_number: int, clock: ManualClock) -> bytes:
    return build_batch(
        [
            (
                clock.now_ms() + index,
                b"key-%d" % index,
                b"payload " * 10,
                [("h", b"x"), ("n", None)],
            )
            for index in range(RECORDS_PER_BATCH)
        ],
        compression=codec,
        producer_id=codec,
        producer_epoch=0,
        base_sequence=round_number * RECORDS_PER_BATCH,
    )


def dump(*files: Path) -> str:
    classpath = kafka_classpath(kafka_version())
    done = subprocess.run(
        [
            java(),
            *QUICK_START,
            "-cp",
            classpath,
            main_class(classpath),
            "--deep-iteration",
            "--print-data-log",
            "--files",
            ",".join(map(str, files)),
        ],
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def batches_in(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("baseOffset: ")]


def records_in(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("| offset: ")]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("ending", ["running", "killed", "closed", "recovered"])
def test_kafkas_tool_has_no_complaint_about_our_files(tmp_path: Path, ending: str) -> None:
    directory = tmp_path / "dumped-0"
    log = write_log(directory)
    if ending == "recovered":
        log.kill()
        for index in directory.glob("*index"):
            index.unlink()
        log = open_log(directory, ManualClock())
        log.load(recovery_point=0)
    if ending == "killed":
        log.kill()
    elif ending != "running":
        log.close()
    found = {*directory.glob("0*")}
    for segment in directory.glob("*.log"):
        found |= {segment.with_suffix(".index"), segment.with_suffix(".timeindex")}
    files = sorted(found)
    suffixes = {file.suffix for file in files}
    assert suffixes == {".log", ".index", ".timeindex", ".txnindex", ".snapshot"}
    assert len([file for file in files if file.suffix == ".log"]) > 3

    text = dump(*files)
    assert complaints_in(text) == []
    assert len(batches_in(text)) == ROUNDS * (len(Compression) + 4)
    assert all("isvalid: true" in line for line in batches_in(text))
    assert len(records_in(text)) == ROUNDS * (len(Compression) * RECORDS_PER_BATCH + 4)
    for codec in Compression:
        assert text.count(f"compresscodec: {codec.name.lower()}") >= ROUNDS
    assert text.count("endTxnMarker: ABORT coordinatorEpoch: 2") == ROUNDS
    assert text.count("endTxnMarker: COMMIT coordinatorEpoch: 2") == ROUNDS
    assert len(re.findall(r"version: 0 producerId: 100 firstOffset: \d+", text)) == ROUNDS
    assert re.search(r"producerId: 200 producerEpoch: 1 coordinatorEpoch: 2", text)
    assert re.search(r"^timestamp: \d+ offset: \d+$", text, re.MULTILINE)
    assert re.search(r"^offset: \d+ position: \d+$", text, re.MULTILINE)


@pytest.mark.timeout(300)
def test_kafkas_tool_does_complain_about_damage(tmp_path: Path) -> None:
    directory = tmp_path / "dumped-0"
    write_log(directory).close()
    log, index, times = (
        sorted(directory.glob(f"*.{kind}"))[0] for kind in ("log", "index", "timeindex")
    )
    for file, position in ((log, 300), (index, 3), (times, 7)):
        data = bytearray(file.read_bytes())
        data[position] ^= 1
        file.write_bytes(data)
    assert len(complaints_in(dump(index))) > 0
    assert len(complaints_in(dump(log, times))) > 1


@pytest.mark.timeout(300)
def test_kafkas_tool_has_no_complaint_about_a_compacted_log(tmp_path: Path) -> None:
    directory = tmp_path / "dumped-0"
    log = write_log(directory)
    log.update_config(LogConfig(segment_bytes=3000, cleanup_policy=frozenset({"compact"})))
    log.update_high_watermark(log.log_end_offset)
    log.roll()
    cleaner = Cleaner(
        lambda: [log],
        clock=ManualClock(),
        files=SystemFiles(),
        config=CleanerConfig(),
        on_storage_error=lambda _, error: pytest.fail(str(error)),
    )
    assert cleaner.clean_filthiest()
    log.close()
    text = dump(*sorted(path for path in directory.glob("0*") if path.suffix != ".deleted"))
    # Compaction leaves gaps in the offsets.
    assert [line for line in complaints_in(text) if "is followed by" not in line] == []
    assert all("isvalid: true" in line for line in batches_in(text))
    keys = [match[1] for line in records_in(text) if (match := re.search(r" key: (\S+)", line))]
    assert sorted(keys) == [*["k"], *[f"key-{index}" for index in range(RECORDS_PER_BATCH)]]


@pytest.mark.timeout(300)
def test_a_directory_that_kafka_left_is_opened(tmp_path: Path) -> None:
    sent: dict[TopicPartition, list[bytes]] = {}
    with ApacheKafka(config={"log.segment.bytes": 1024 * 1024, "num.partitions": 2}) as kafka:
        for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
            produce(kafka.bootstrap_servers, codec, sent)
        kafka.stop()
        data = shutil.copytree(kafka.log_dir(1), tmp_path / "data")
    for is_clean in (True, False):
        if not is_clean:
            for index in data.glob("opened-*/*index"):
                index.unlink()
        assert len(list(data.glob("opened-0/*.log"))) > 3
        with open_directory(data) as manager:
            for partition, values in sent.items():
                log = manager.find(partition)
                assert log is not None
                assert read_values(log) == values
                assert len(log.active_producers()) == 5
                assert log.topic_id is not None
            assert manager.find(TopicPartition("__cluster_metadata", 0)) is None


def produce(bootstrap_servers: str, codec: str, sent: dict[TopicPartition, list[bytes]]) -> None:
    """Writes records to both partitions in an aborted and in a committed transaction."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap_servers,
            "compression.type": codec,
            "transactional.id": f"writer-{codec}",
        }
    )
    noise = Random(codec)
    producer.init_transactions(60)
    for commits in (False, True):
        producer.begin_transaction()
        for number in range(2000):
            value = f"{codec} {number} {commits}".encode() + noise.randbytes(600)
            partition = TopicPartition("opened", number % 2)
            producer.produce("opened", value, partition=partition.partition)
            if commits:
                sent.setdefault(partition, []).append(value)
        producer.flush(60)
        if commits:
            producer.commit_transaction(60)
        else:
            producer.abort_transaction(60)


@contextlib.contextmanager
def open_directory(data: Path) -> Iterator[LogManager]:
    clock = SystemClock()
    scheduler = ThreadScheduler("ek-b1-background", clock, Failures())
    environment = LogEnvironment(
        clock=clock, files=SystemFiles(), scheduler=scheduler, random=Random(1), ages=RecordAges()
    )
    manager = LogManager([data], environment)
    try:
        manager.startup()
        yield manager
    finally:
        manager.kill()
        scheduler.shutdown()


def read_values(log: Log) -> list[bytes]:
    """The values that a read-committed consumer would see."""
    values: list[bytes] = []
    offset = log.log_start_offset
    log.update_high_watermark(log.log_end_offset)
    while offset < log.log_end_offset:
        data = log.read(offset, max_bytes=2**20, isolation=FetchIsolation.TXN_COMMITTED)
        assert isinstance(data.records, FileRegion)
        aborted = {
            (txn.producer_id, range(txn.first_offset, txn.last_offset + 1))
            for txn in data.aborted_transactions or ()
        }
        for batch in read_batches(data.records.read()):
            offset = batch.next_offset
            is_aborted = any(
                batch.producer_id == producer_id and batch.base_offset in offsets
                for producer_id, offsets in aborted
            )
            if not batch.is_control and not is_aborted:
                values.extend(record.value or b"" for record in batch.records())
    return values
