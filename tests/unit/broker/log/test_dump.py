"""The findings in the files of a log, whole or damaged."""

import uuid
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from embedkafka.broker.log.dump import Finding, dump, parse_directory_name
from embedkafka.broker.log.files import checkpoints
from embedkafka.runtime.ids import TopicPartition
from embedkafka.wire.records.compression import Compression
from tests.unit.broker.log.conftest import LogKit


def found(kit: LogKit, path: Path | None = None) -> list[Finding]:
    return list(dump(kit.files, path or kit.directory, lambda topic, record: None))


def of(kind: str, findings: list[Finding]) -> list[Any]:
    return [SimpleNamespace(**finding.fields) for finding in findings if finding.kind == kind]


def test_a_partition_is_told_file_by_file(kit: LogKit) -> None:
    log = kit.new()
    topic_id = uuid.uuid4()
    log.assign_topic_id(topic_id)
    kit.append(log, b"a", b"b", key=b"k", compression=Compression.GZIP)
    kit.append(log, b"c", producer_id=7, producer_epoch=1, base_sequence=3)
    log.close()
    findings = found(kit)
    assert not of("problem", findings)
    place = {"path": str(kit.directory), "topic": "orders", "partition": 0}
    assert findings[0] == Finding("partition", {**place, "topic_id": str(topic_id)})
    names = [file.name for file in of("file", findings)]
    assert names == [name for name in kit.names() if name != checkpoints.PARTITION_METADATA]
    first, second = of("batch", findings)
    assert (first.base_offset, first.last_offset, first.count) == (0, 1, 2)
    assert (first.position, first.compression, first.is_valid) == (0, "gzip", True)
    assert (second.position, second.leader_epoch) == (first.size, 0)
    assert (second.producer_id, second.producer_epoch, second.base_sequence) == (7, 1, 3)
    records = of("record", findings)
    assert [(r.offset, r.key, r.value) for r in records] == [
        (0, b"k", b"a"),
        (1, b"k", b"b"),
        (2, None, b"c"),
    ]


def test_indexes_snapshots_and_epochs_are_told_entry_by_entry(kit: LogKit) -> None:
    log = kit.new(index_interval_bytes=1)
    now_ms = kit.clock.now_ms()
    kit.append(log, b"a", timestamp=now_ms - 20)
    kit.append(log, b"b", timestamp=now_ms - 10)
    kit.append(log, b"c", producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    kit.end_transaction(log, 7, commit=False)
    log.close()
    by_file: dict[str, list[dict[str, int | str]]] = {}
    for kind, fields in found(kit):
        if kind == "file":
            entries = by_file.setdefault(fields["name"], [])
        elif kind == "entry":
            entries.append(dict(fields))
    segment = "0" * 20
    assert [entry["offset"] for entry in by_file[segment + ".index"]] == [1, 2, 3]
    assert by_file[segment + ".timeindex"][0] == {"timestamp": now_ms - 10, "offset": 1}
    (aborted,) = by_file[segment + ".txnindex"]
    assert (aborted["producer_id"], aborted["first_offset"], aborted["last_offset"]) == (7, 2, 3)
    (producer,) = by_file[f"{4:020d}.snapshot"]
    assert (producer["producer_id"], producer["last_offset"]) == (7, 2)
    assert by_file[checkpoints.EPOCH_CHECKPOINT] == [{"epoch": 0, "start_offset": 0}]


def test_a_marker_is_told_by_its_meaning(kit: LogKit) -> None:
    log = kit.new()
    kit.append(log, b"a", producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    kit.end_transaction(log, 7, commit=True, coordinator_epoch=4)
    log.close()
    records = of("record", found(kit))
    assert records[-1].meaning == {"type": "COMMIT", "coordinator_epoch": 4}


def test_a_single_file_can_be_asked_for(kit: LogKit) -> None:
    log = kit.new()
    kit.append(log, b"a")
    log.close()
    findings = found(kit, kit.directory / (f"{0:020d}.log"))
    assert [finding.kind for finding in findings] == ["file", "batch", "record"]


def test_a_broker_s_directory_is_told_with_its_checkpoints(kit: LogKit) -> None:
    log = kit.new()
    kit.append(log, b"a")
    log.close()
    meta = checkpoints.MetaProperties(broker_id=3, cluster_id="c")
    checkpoints.write_meta_properties(kit.files, kit.root, meta)
    path = kit.root / checkpoints.RECOVERY_POINT_CHECKPOINT
    checkpoints.write_offsets(kit.files, path, {kit.topic_partition: 5})
    findings = found(kit, kit.root)
    assert findings[0] == Finding(
        "log_dir", {"path": str(kit.root), "broker_id": 3, "cluster_id": "c"}
    )
    assert findings[-1] == Finding("entry", {"topic": "orders", "partition": 0, "offset": 5})
    assert len(of("partition", findings)) == 1


def test_the_zeros_of_a_running_kafka_are_no_entries(kit: LogKit) -> None:
    kit.directory.mkdir(parents=True)
    path = kit.directory / f"{10:020d}.index"
    path.write_bytes(bytes.fromhex("0000000100000050") + bytes(80))
    assert found(kit, path)[1:] == [Finding("entry", {"offset": 11, "position": 80})]


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda data: data[:-1], "part of a batch only"),
        (lambda data: data[:-1] + b"?", "checksum"),
        (lambda data: data + data, "offset 0 follows 0"),
        (lambda data: data[:8] + bytes(4) + data[12:], "record size 0"),
    ],
    ids=["cut", "flipped", "repeated", "no size"],
)
def test_damage_is_told_and_not_repaired(
    kit: LogKit, damage: Callable[[bytes], bytes], reason: str
) -> None:
    log = kit.new()
    kit.append(log, b"a")
    log.close()
    path = kit.directory / f"{0:020d}.log"
    data = damage(path.read_bytes())
    path.write_bytes(data)
    (problem,) = of("problem", found(kit))
    assert reason in problem.reason
    assert path.read_bytes() == data


def test_damaged_small_files_are_told(kit: LogKit) -> None:
    kit.new().close()
    for name in (f"{0:020d}.index", f"{0:020d}.snapshot", checkpoints.EPOCH_CHECKPOINT):
        (kit.directory / name).write_bytes(b"abc")
    assert len(of("problem", found(kit))) == 3


def test_what_is_not_there_is_a_problem(kit: LogKit) -> None:
    (problem,) = of("problem", found(kit, kit.root / "nowhere"))
    assert "no such file" in problem.reason


@pytest.mark.parametrize(
    ("name", "partition"),
    [
        ("a-b-3", TopicPartition("a-b", 3)),
        ("orders-0.0123456789abcdef0123456789abcdef-delete", TopicPartition("orders", 0)),
        ("orders-0.0123456789abcdef0123456789abcdef-future", TopicPartition("orders", 0)),
        ("orders", None),
    ],
)
def test_a_directory_s_name_tells_its_partition(name: str, partition: object) -> None:
    assert parse_directory_name(name) == partition
