"""The small files beside the segments, byte for byte Kafka's.

Offset checkpoints (recovery point, replication, log start, cleaner) and the epoch checkpoint are
text: a version line, a count, one entry per line. `partition.metadata` holds the topic id,
`meta.properties` names the broker, and `.kafka_cleanshutdown` marks a clean shutdown.
Not here: when to write them (`manager`, `epoch_cache`).
"""

import uuid
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from embedkafka.runtime.failures import EmbedKafkaError
from embedkafka.runtime.files import Files
from embedkafka.runtime.ids import TopicPartition, format_uuid, parse_uuid
from embedkafka.runtime.properties import format_properties, parse_properties
from embedkafka.runtime.values import dataclass

RECOVERY_POINT_CHECKPOINT: Final = "recovery-point-offset-checkpoint"
REPLICATION_CHECKPOINT: Final = "replication-offset-checkpoint"
LOG_START_CHECKPOINT: Final = "log-start-offset-checkpoint"
CLEANER_CHECKPOINT: Final = "cleaner-offset-checkpoint"
EPOCH_CHECKPOINT: Final = "leader-epoch-checkpoint"
PARTITION_METADATA: Final = "partition.metadata"
META_PROPERTIES: Final = "meta.properties"
CLEAN_SHUTDOWN: Final = ".kafka_cleanshutdown"

OFFSET_CHECKPOINTS: Final = (
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_CHECKPOINT,
    LOG_START_CHECKPOINT,
    CLEANER_CHECKPOINT,
)

_VERSION: Final = "0"
_BOOT: Final = b"boot.id="


class CorruptCheckpoint(EmbedKafkaError):
    """A checkpoint file is malformed; the message names it."""


def write_offsets(files: Files, path: Path, offsets: Mapping[TopicPartition, int]) -> None:
    """Writes one `topic partition offset` per line."""
    lines = [f"{tp.topic} {tp.partition} {offset}" for tp, offset in offsets.items()]
    _write(files, path, lines, sync=True)


def read_offsets(files: Files, path: Path) -> dict[TopicPartition, int]:
    """The offsets in the checkpoint; none if the file is missing or empty."""
    offsets: dict[TopicPartition, int] = {}
    for line in _read(files, path):
        try:
            topic, partition, offset = line.split()
            offsets[TopicPartition(topic, int(partition))] = int(offset)
        except ValueError:
            raise CorruptCheckpoint(f"malformed line in {path}: {line!r}") from None
    return offsets


def write_epochs(files: Files, path: Path, entries: Iterable[tuple[int, int]]) -> None:
    """Writes one `epoch start-offset` per line."""
    lines = [f"{epoch} {start_offset}" for epoch, start_offset in entries]
    _write(files, path, lines, sync=False)


def read_epochs(files: Files, path: Path) -> list[tuple[int, int]]:
    """The epochs and their start offsets, in the order of the file."""
    entries: list[tuple[int, int]] = []
    for line in _read(files, path):
        try:
            epoch, start_offset = line.split()
            entries.append((int(epoch), int(start_offset)))
        except ValueError:
            raise CorruptCheckpoint(f"malformed line in {path}: {line!r}") from None
    return entries


def write_topic_id(files: Files, directory: Path, topic_id: uuid.UUID) -> None:
    """Writes `partition.metadata` of a log directory."""
    text = f"version: 0\ntopic_id: {format_uuid(topic_id)}"
    files.replace(directory / PARTITION_METADATA, text.encode())


def read_topic_id(files: Files, directory: Path) -> uuid.UUID | None:
    """The topic id in `partition.metadata`, if the file exists; a power loss may empty it."""
    path = directory / PARTITION_METADATA
    data = files.read(path).strip(b"\0") if files.exists(path) else b""
    if not data:
        return None
    lines = data.decode(errors="replace").splitlines()
    try:
        fields = dict(line.split(": ", 1) for line in lines if line)
        if fields["version"] != _VERSION:
            raise ValueError
        return parse_uuid(fields["topic_id"])
    except (KeyError, ValueError):
        raise CorruptCheckpoint(f"malformed {path}: {lines!r}") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class MetaProperties:
    """The broker and the cluster that a log directory belongs to."""

    broker_id: int
    cluster_id: str | None = None


def write_meta_properties(files: Files, directory: Path, meta: MetaProperties) -> None:
    """Writes `meta.properties` in the form of a broker that uses ZooKeeper."""
    properties = {"broker.id": str(meta.broker_id), "version": _VERSION}
    if meta.cluster_id is not None:
        properties["cluster.id"] = meta.cluster_id
    files.replace(directory / META_PROPERTIES, format_properties(properties).encode(), sync=True)


def read_meta_properties(files: Files, directory: Path) -> MetaProperties | None:
    """The `meta.properties` of a ZooKeeper or KRaft broker, if the file exists."""
    path = directory / META_PROPERTIES
    if not files.exists(path):
        return None
    properties = parse_properties(files.read(path).decode())
    broker_id = properties.get("broker.id", properties.get("node.id", ""))
    if not broker_id.isdigit():
        raise CorruptCheckpoint(f"malformed {path}: no broker.id")
    return MetaProperties(broker_id=int(broker_id), cluster_id=properties.get("cluster.id"))


def mark_clean(files: Files, directory: Path) -> None:
    """Marks a clean shutdown. It did not sync, so the mark holds until the machine starts again."""
    mark = _BOOT + str(files.boot_id()).encode()
    files.replace(directory / CLEAN_SHUTDOWN, mark, sync=True)


def take_clean_mark(files: Files, directory: Path) -> bool:
    """Removes the mark; returns whether all files are as a clean shutdown left them."""
    path = directory / CLEAN_SHUTDOWN
    if not files.exists(path):
        return False
    mark, boot_id = files.read(path), files.boot_id()
    files.remove(path)
    if mark.startswith(_BOOT):
        return boot_id is not None and mark == _BOOT + boot_id.encode()
    return True  # Apache Kafka's, which syncs first


def _write(files: Files, path: Path, lines: Sequence[str], *, sync: bool) -> None:
    text = "\n".join([_VERSION, str(len(lines)), *lines]) + "\n"
    files.replace(path, text.encode(), sync=sync)


def _read(files: Files, path: Path) -> list[str]:
    lines = files.read(path).decode(errors="replace").splitlines() if files.exists(path) else []
    if not lines:
        return []
    if lines[0] != _VERSION:
        raise CorruptCheckpoint(f"unknown version {lines[0]!r} in {path}")
    entries = lines[2:]
    if len(lines) < 2 or lines[1] != str(len(entries)):
        raise CorruptCheckpoint(f"{path} announces {lines[1:2]} entries and has {len(entries)}")
    return entries
