"""Lists the contents of log files, one finding at a time, for people and tools.

It opens nothing for writing and repairs nothing; it reports unreadable parts as problems.
Owner: none; the functions read whole files.
Not here: how findings are shown, and what records of internal topics mean (`cluster.log_dump`).
"""

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from struct import Struct
from typing import Any, Final

from embedkafka.broker.log.files import checkpoints
from embedkafka.broker.log.files.index_file import CorruptIndex
from embedkafka.broker.log.files.segment import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
)
from embedkafka.broker.log.files.txn_index import TransactionIndex
from embedkafka.broker.log.producers.snapshot import SUFFIX as SNAPSHOT_SUFFIX
from embedkafka.broker.log.producers.snapshot import CorruptSnapshot, read_snapshot
from embedkafka.runtime.files import Files
from embedkafka.runtime.ids import TopicPartition
from embedkafka.runtime.values import NamedTuple
from embedkafka.wire.protocol.errors import ApiError
from embedkafka.wire.records.batch import Batch, next_batch_size, read_batches
from embedkafka.wire.records.control import find_control_type, read_end_transaction_marker
from embedkafka.wire.records.record import Record

OFFSET_CHECKPOINTS: Final = (
    checkpoints.RECOVERY_POINT_CHECKPOINT,
    checkpoints.REPLICATION_CHECKPOINT,
    checkpoints.LOG_START_CHECKPOINT,
    checkpoints.CLEANER_CHECKPOINT,
)

#: A partition's directory, also during a deletion or a move, when it has an id and a suffix.
_PARTITION: Final = re.compile(r"(.+)-(\d+)(?:\.[0-9a-f]{32}-(?:delete|future|stray))?")
_SEGMENT_FILE: Final = re.compile(r"(\d{20})(?:_\d+_\d+)?(\.[a-z]+)(?:\.(?:deleted|cleaned|swap))?")
_OFFSET_ENTRY: Final = Struct(">ii")
_TIME_ENTRY: Final = Struct(">qi")

Meaning = Mapping[str, object]
Explain = Callable[[str, Record], Meaning | None]
"""The meaning of a record in an internal topic."""


class Finding(NamedTuple):
    """Something in a log, or what is wrong there, as named fields.

    Kinds are a directory of logs (`log_dir`), that of one replica (`partition`), a `file`, whose
    content follows, an `entry` of an index, a snapshot or a checkpoint, a `batch` or outer message
    of magic 0 or 1, a `record`, whose `meaning` is that to Kafka, and a `problem`.
    """

    kind: str
    fields: Mapping[str, Any]


def _problem(path: Path, reason: str) -> Finding:
    return Finding("problem", {"path": str(path), "reason": reason})


def dump(files: Files, path: Path, explain: Explain) -> Iterator[Finding]:
    """The contents of a file, or of the directory of a replica, a broker or a cluster."""
    if not files.exists(path):
        yield _problem(path, "there is no such file or directory")
    elif not path.is_dir():
        yield from _dump_file(files, path, explain)
    else:
        yield from _dump_directory(files, path, explain)


def parse_directory_name(name: str) -> TopicPartition | None:
    """The partition of a directory name, also of a deleted or future replica."""
    match = _PARTITION.fullmatch(name)
    return None if match is None else TopicPartition(match[1], int(match[2]))


def _dump_directory(files: Files, path: Path, explain: Explain) -> Iterator[Finding]:
    names = files.names(path)
    topic_partition = parse_directory_name(path.name)
    if topic_partition is not None and any(_is_of_partition(name) for name in names):
        yield from _head_of_partition(files, path, topic_partition)
    elif checkpoints.META_PROPERTIES in names:
        yield from _guarded(path, lambda: _head_of_log_dir(files, path))
    for name in names:
        inner = path / name
        if inner.is_dir():
            yield from _dump_directory(files, inner, explain)
        elif _is_known(name):
            yield from _dump_file(files, inner, explain)


def _is_known(name: str) -> bool:
    return name in OFFSET_CHECKPOINTS or (
        _is_of_partition(name) and name != checkpoints.PARTITION_METADATA
    )


def _is_of_partition(name: str) -> bool:
    return (
        name in (checkpoints.EPOCH_CHECKPOINT, checkpoints.PARTITION_METADATA)
        or _SEGMENT_FILE.fullmatch(name) is not None
    )


def _head_of_log_dir(files: Files, path: Path) -> Iterator[Finding]:
    meta = checkpoints.read_meta_properties(files, path)
    ids = {name: getattr(meta, name, None) for name in ("broker_id", "cluster_id")}
    yield Finding("log_dir", {"path": str(path), **ids})


def _head_of_partition(
    files: Files, path: Path, topic_partition: TopicPartition
) -> Iterator[Finding]:
    topic_id = None
    try:
        found = checkpoints.read_topic_id(files, path)
        topic_id = None if found is None else str(found)
    except checkpoints.CorruptCheckpoint as error:
        yield _problem(path, str(error))
    fields = {"path": str(path), **topic_partition._asdict(), "topic_id": topic_id}
    yield Finding("partition", fields)


def _dump_file(files: Files, path: Path, explain: Explain) -> Iterator[Finding]:
    yield Finding("file", {"name": path.name, "size": files.size(path)})
    yield from _guarded(path, lambda: _content(files, path, explain))


def _guarded(path: Path, read: Callable[[], Iterator[Finding]]) -> Iterator[Finding]:
    try:
        yield from read()
    except (CorruptIndex, CorruptSnapshot, checkpoints.CorruptCheckpoint, OSError) as error:
        yield _problem(path, str(error))


def _content(files: Files, path: Path, explain: Explain) -> Iterator[Finding]:
    if path.name in OFFSET_CHECKPOINTS:
        for tp, offset in checkpoints.read_offsets(files, path).items():
            yield Finding("entry", {**tp._asdict(), "offset": offset})
        return
    if path.name == checkpoints.EPOCH_CHECKPOINT:
        for epoch, start_offset in checkpoints.read_epochs(files, path):
            yield Finding("entry", {"epoch": epoch, "start_offset": start_offset})
        return
    match = _SEGMENT_FILE.fullmatch(path.name)
    if match is None:
        yield _problem(path, "this is not a file of a log")
        return
    base_offset, suffix = int(match[1]), match[2]
    if suffix == LOG_SUFFIX:
        yield from _batches(files, path, explain)
    elif suffix == INDEX_SUFFIX:
        yield from _offset_entries(files.read(path), base_offset)
    elif suffix == TIME_INDEX_SUFFIX:
        yield from _time_entries(files.read(path), base_offset)
    elif suffix == TXN_INDEX_SUFFIX:
        for txn in TransactionIndex(files, path, base_offset=base_offset):
            yield Finding("entry", txn._asdict())
    elif suffix == SNAPSHOT_SUFFIX:
        for producer in read_snapshot(files, path):
            yield Finding("entry", producer._asdict())


def _offset_entries(data: bytes, base_offset: int) -> Iterator[Finding]:
    for relative, position in _entries(data, _OFFSET_ENTRY):
        yield Finding("entry", {"offset": base_offset + relative, "position": position})


def _time_entries(data: bytes, base_offset: int) -> Iterator[Finding]:
    for timestamp, relative in _entries(data, _TIME_ENTRY):
        yield Finding("entry", {"timestamp": timestamp, "offset": base_offset + relative})


def _entries(data: bytes, entry: Struct) -> Iterator[tuple[int, ...]]:
    """The entries before the zeros with which a running Kafka preallocates its indexes."""
    if len(data) % entry.size:
        raise CorruptIndex(f"{len(data)} bytes are not a multiple of {entry.size}")
    used = len(data.rstrip(b"\0"))
    yield from entry.iter_unpack(data[: -(-used // entry.size) * entry.size])


def _batches(files: Files, path: Path, explain: Explain) -> Iterator[Finding]:
    view = memoryview(files.read(path))
    topic_partition = parse_directory_name(path.parent.name)
    topic = "" if topic_partition is None else topic_partition.topic
    position, previous = 0, -1
    while position < len(view):
        try:
            size = next_batch_size(view, position, len(view))
        except ApiError as error:
            yield _problem(path, f"at {position}: {error.message}")
            return
        if size is None or position + size > len(view):
            left = len(view) - position
            reason = f"at {position}: the last {left} bytes are part of a batch only"
            yield _problem(path, reason)
            return
        (batch,) = read_batches(view[position : position + size])
        for finding in _batch(batch, position, topic, explain):
            if isinstance(finding, str):
                yield _problem(path, f"at {position}: {finding}")
            else:
                yield finding
        if batch.last_offset <= previous:
            reason = f"at {position}: offset {batch.last_offset} follows {previous}"
            yield _problem(path, reason)
        position, previous = position + size, batch.last_offset


def _batch(batch: Batch, position: int, topic: str, explain: Explain) -> Iterator[Finding | str]:
    """The batch and its records; a string describes what is wrong."""
    is_valid = batch.is_valid()
    try:
        yield _head(batch, position, is_valid=is_valid)
        if not is_valid:
            yield "the checksum does not match"
            return
        for record in batch.records():
            meaning = _marker(record) if batch.is_control else explain(topic, record)
            yield Finding("record", {**record._asdict(), "meaning": meaning})
    except ApiError as error:
        yield error.message


def _head(batch: Batch, position: int, *, is_valid: bool) -> Finding:
    fields = {
        "base_offset": batch.base_offset,
        "last_offset": batch.last_offset,
        "count": batch.record_count,
        "position": position,
        "size": batch.size_in_bytes,
        "magic": batch.magic,
        "compression": batch.compression.name.lower(),
        "crc": batch.crc,
        "is_valid": is_valid,
        "leader_epoch": batch.partition_leader_epoch,
        "timestamp_type": batch.timestamp_type.name.lower(),
        "max_timestamp": batch.max_timestamp,
        "producer_id": batch.producer_id,
        "producer_epoch": batch.producer_epoch,
        "base_sequence": batch.base_sequence,
        "is_transactional": batch.is_transactional,
        "is_control": batch.is_control,
        "delete_horizon": batch.delete_horizon,
    }
    return Finding("batch", fields)


def _marker(record: Record) -> Meaning:
    marker = read_end_transaction_marker(record)
    if marker is None:
        return {"type": f"control record {find_control_type(record)}"}
    return {"type": marker.control_type.name, "coordinator_epoch": marker.coordinator_epoch}
