"""The contents of a broker's log directories, for DescribeLogDirs."""

import shutil
from collections.abc import Sequence
from pathlib import Path

from embedkafka.broker.log.log import Log
from embedkafka.broker.log.manager import LogManager
from embedkafka.broker.replica.hosted import HostedPartitions
from embedkafka.runtime.ids import TopicPartition
from embedkafka.runtime.values import NamedTuple, dataclass
from embedkafka.wire.protocol.errors import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDir:
    """One directory with its replicas, including those being moved into it."""

    path: str
    error: ErrorCode
    replicas: Sequence["ReplicaInfo"]
    total_bytes: int
    usable_bytes: int


class ReplicaInfo(NamedTuple):
    """A replica: its size in bytes, its lag in offsets, and whether it is still being moved."""

    topic_partition: TopicPartition
    size: int
    lag: int
    is_future: bool


def describe_log_dirs(logs: LogManager, hosted: HostedPartitions) -> list[LogDir]:
    live = set(logs.live_directories)
    return [_describe(path, path in live, logs, hosted) for path in logs.directories]


def _describe(path: Path, alive: bool, logs: LogManager, hosted: HostedPartitions) -> LogDir:
    if not alive:
        return LogDir(
            path=str(path),
            error=ErrorCode.KAFKA_STORAGE_ERROR,
            replicas=(),
            total_bytes=-1,
            usable_bytes=-1,
        )
    usage = shutil.disk_usage(path)
    return LogDir(
        path=str(path),
        error=ErrorCode.NONE,
        replicas=[
            *(
                ReplicaInfo(log.topic_partition, log.size, _lag(log.topic_partition, hosted), False)
                for log in logs.all_logs()
                if log.directory.parent == path
            ),
            *(
                ReplicaInfo(log.topic_partition, log.size, _lag_of_future(log, logs), True)
                for log in logs.moving()
                if log.directory.parent == path
            ),
        ],
        total_bytes=usage.total,
        usable_bytes=usage.free,
    )


def _lag(topic_partition: TopicPartition, hosted: HostedPartitions) -> int:
    """How far the log end is behind the high watermark; positive only after truncation."""
    partition = hosted.find(topic_partition)
    view = partition.view() if partition else None
    return max(0, view.high_watermark - view.log_end_offset) if view else 0


def _lag_of_future(future: Log, logs: LogManager) -> int:
    """How far the copy of a moving replica is behind the original."""
    log = logs.find(future.topic_partition)
    return 0 if log is None else max(0, log.log_end_offset - future.log_end_offset)
