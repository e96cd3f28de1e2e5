"""Moving replicas between log directories, as far as one directory can show it."""

import pytest

from embedkafka.wire.protocol.errors import ErrorCode
from embedkafka.wire.protocol.messages.topics import (
    AlterReplicaLogDirsRequest,
    DescribeLogDirsRequest,
)
from tests.wire.one_partition import batch, each_version, produce
from tests.wire.raw_client import RawClient

pytestmark = pytest.mark.topic(partitions=2)


def log_dir(raw: RawClient) -> str:
    (found,) = raw.call(DescribeLogDirsRequest(topics=[])).results
    return str(found.log_dir)


def move(
    raw: RawClient, path: str, topic: str, *partitions: int, version: int | None = None
) -> dict[int, int]:
    wanted = AlterReplicaLogDirsRequest.LogDir.Topic(name=topic, partitions=partitions)
    directory = AlterReplicaLogDirsRequest.LogDir(path=path, topics=[wanted])
    answer = raw.call(AlterReplicaLogDirsRequest(dirs=[directory]), version)
    (found,) = answer.results
    assert found.topic_name == topic
    return {p.partition_index: p.error_code for p in found.partitions}


def test_every_version_takes_a_move_to_where_a_replica_is(raw: RawClient, topic: str) -> None:
    produce(raw, topic, batch(b"a"))
    path = log_dir(raw)

    def check(version: int) -> None:
        assert move(raw, path, topic, 0, 1, version=version) == {0: 0, 1: 0}

    each_version(raw, AlterReplicaLogDirsRequest, check)


def test_a_replica_must_be_there(raw: RawClient, topic: str) -> None:
    path = log_dir(raw)
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert move(raw, path, topic, 0, 7) == {0: ErrorCode.NONE, 7: unknown}
    assert move(raw, path, "never-made", 0) == {0: unknown}
    assert move(raw, "/no/such/place", "never-made", 0) == {0: ErrorCode.LOG_DIR_NOT_FOUND}
