"""What is in a broker's log directories, as DescribeLogDirs tells it."""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from embedkafka.log.manager import LogManager
from embedkafka.protocol.errors import ErrorCode
from embedkafka.replica.manager import ReplicaManager
from embedkafka.runtime.ids import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDir:
    """One directory; `partitions` holds each one's size in bytes and its lag in offsets."""

    path: str
    error: ErrorCode
    partitions: Sequence[tuple[TopicPartition, int, int]]
    total_bytes: int
    usable_bytes: int


def describe_log_dirs(logs: LogManager, replicas: ReplicaManager) -> list[LogDir]:
    live = set(logs.live_directories)
    return [_describe(path, path in live, logs, replicas) for path in logs.directories]


def _describe(path: Path, alive: bool, logs: LogManager, replicas: ReplicaManager) -> LogDir:
    if not alive:
        return LogDir(
            path=str(path),
            error=ErrorCode.KAFKA_STORAGE_ERROR,
            partitions=(),
            total_bytes=-1,
            usable_bytes=-1,
        )
    usage = shutil.disk_usage(path)
    return LogDir(
        path=str(path),
        error=ErrorCode.NONE,
        partitions=[
            (log.topic_partition, log.size, _lag(log.topic_partition, replicas))
            for log in logs.all_logs()
            if log.directory.parent == path
        ],
        total_bytes=usage.total,
        usable_bytes=usage.free,
    )


def _lag(topic_partition: TopicPartition, replicas: ReplicaManager) -> int:
    """How far the replica's end is behind its own high watermark; 0 but after truncation."""
    partition = replicas.find_partition(topic_partition)
    view = partition.view() if partition else None
    return max(0, view.high_watermark - view.log_end_offset) if view else 0
