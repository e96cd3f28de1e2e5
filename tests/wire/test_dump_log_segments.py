"""Apache Kafka's own DumpLogSegments reads the files of our logs and finds nothing wrong."""

import re
import subprocess
import zipfile
from pathlib import Path
from random import Random

import pytest

from embedkafka.log.config import LogConfig
from embedkafka.log.log import AppendOrigin, Log
from embedkafka.records.builder import build_batch
from embedkafka.records.compression import Compression
from embedkafka.records.control import (
    ControlType,
    EndTransactionMarker,
    build_end_transaction_marker,
)
from embedkafka.runtime.clock import ManualClock
from embedkafka.runtime.failures import Failures
from embedkafka.runtime.files import SystemFiles
from embedkafka.runtime.ids import TopicPartition
from embedkafka.runtime.scheduler import Scheduler
from tests.java_tools.jvm import QUICK_START, java
from tests.java_tools.oracle import kafka_classpath, kafka_version

RECORDS_PER_BATCH = 5
ROUNDS = 6
# The tool counts from offset -1 in each file, so "-1 is followed by" is said of every segment but
# the first, of Kafka's own as of ours.
COMPLAINTS = re.compile(
    r"mismatch|isvalid: false|corrupt|(?<!-)\b\d+ is followed by|not found|out of order"
    r"|invalid bytes|exception",
    re.IGNORECASE,
)


def open_log(directory: Path, clock: ManualClock) -> Log:
    return Log(
        TopicPartition("dumped", 0),
        directory,
        LogConfig(segment_bytes=3000, index_interval_bytes=300),
        clock=clock,
        files=SystemFiles(),
        scheduler=Scheduler("ek-b0-background", clock, Failures()),
        random=Random(1),
    )


def write_log(directory: Path) -> Log:
    """Several segments with every codec, a committed and an aborted transaction in each round."""
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


def main_class(classpath: str) -> str:
    """The tool, which has moved from the broker's jar to that of the tools."""
    moved = "org/apache/kafka/tools/DumpLogSegments.class"
    for jar in classpath.split(":"):
        if "kafka-tools" in jar and moved in zipfile.ZipFile(jar).namelist():
            return "org.apache.kafka.tools.DumpLogSegments"
    return "kafka.tools.DumpLogSegments"


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


def complaints_in(text: str) -> list[str]:
    return [line for line in text.splitlines() if COMPLAINTS.search(line)]


@pytest.mark.java
@pytest.mark.timeout(300)
@pytest.mark.parametrize("ending", ["closed", "recovered"])
def test_kafkas_tool_has_no_complaint_about_our_files(tmp_path: Path, ending: str) -> None:
    directory = tmp_path / "dumped-0"
    log = write_log(directory)
    if ending == "recovered":
        log.kill()
        for index in directory.glob("*index"):
            index.unlink()
        log = open_log(directory, ManualClock())
        log.load(recovery_point=0)
    log.close()
    files = sorted(directory.glob("0*"))
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


@pytest.mark.java
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
