"""A broker with two log directories, and replicas that move from one to the other.

A throttle of one byte per second lets a move copy one chunk of its first megabyte and no more, so
every test has as long as it likes to look at an unfinished move.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from embedkafka import EmbeddedKafka
from embedkafka.wire.protocol.errors import ErrorCode
from embedkafka.wire.protocol.messages.topics import (
    AlterReplicaLogDirsRequest,
    DeleteTopicsRequest,
    DescribeLogDirsRequest,
)
from embedkafka.wire.protocol.wire_types import ZERO_UUID
from tests.java_tools.oracle import ApacheKafka
from tests.wire.clients import Cluster, create_topic, eventually
from tests.wire.conftest import SHARED_CONFIG
from tests.wire.one_partition import batch, produce
from tests.wire.raw_client import RawClient
from tests.wire.settings import BROKER, DELETE, SET, alter

Unique = Callable[[str], str]
RATE: Final = "replica.alter.log.dirs.io.max.bytes.per.second"
VALUE: Final = b"x" * 300_000
BATCHES: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoDirs:
    cluster: Cluster
    paths: tuple[str, str]

    def other(self, path: str) -> str:
        (other,) = set(self.paths) - {path}
        return other


ON_EITHER_KIND = ("two_dirs", "one_offline")


@contextmanager
def running(kind: str, root: Path, *, is_blocked: bool = False) -> Iterator[TwoDirs]:
    """A cluster whose second directory cannot be one if a file has its name."""
    first, second = root / "broker-1", root / "broker-1-2"
    if is_blocked:
        second.write_text("in the way")
    started: ApacheKafka | EmbeddedKafka
    if kind == "apache":
        started = ApacheKafka(config={**SHARED_CONFIG, "log.dirs": f"{first},{second}"})
    else:
        started = EmbeddedKafka(brokers=1, data_dir=root, log_dirs=2, config=SHARED_CONFIG)
    with started:
        cluster = Cluster(kind=kind, bootstrap_servers=started.bootstrap_servers)
        yield TwoDirs(cluster=cluster, paths=(str(first), str(second)))


@pytest.fixture(scope="module")
def two_dirs(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[TwoDirs]:
    with running(request.param, tmp_path_factory.mktemp("disks")) as started:
        yield started


@pytest.fixture(scope="module")
def one_offline(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[TwoDirs]:
    with running(request.param, tmp_path_factory.mktemp("disks"), is_blocked=True) as started:
        yield started


@pytest.fixture
def raw(two_dirs: TwoDirs) -> Iterator[RawClient]:
    """A connection; moves are throttled to a standstill until the test says otherwise."""
    with two_dirs.cluster.connect() as client:
        throttle(client, "1")
        yield client
        throttle(client, None)


@pytest.fixture
def topic(two_dirs: TwoDirs, raw: RawClient, unique: Unique) -> str:
    """One partition with more records than a move copies at a time."""
    name = create_topic(two_dirs.cluster, unique("moving"))
    for _ in range(BATCHES):
        assert produce(raw, name, batch(VALUE)).error_code == 0
    return name


def throttle(client: RawClient, bytes_per_second: str | None) -> None:
    change = (RATE, SET if bytes_per_second else DELETE, bytes_per_second)
    answer = alter(client, BROKER, "1", change)
    assert answer.error_code == 0, answer.error_message


def move(client: RawClient, topic: str, path: str) -> str:
    wanted = AlterReplicaLogDirsRequest.LogDir.Topic(name=topic, partitions=[0])
    directory = AlterReplicaLogDirsRequest.LogDir(path=path, topics=[wanted])
    answer = client.call(AlterReplicaLogDirsRequest(dirs=[directory]))
    return ErrorCode(answer.results[0].partitions[0].error_code).name


def described(client: RawClient, topic: str) -> dict[str, list[dict[str, Any]]]:
    """All that DescribeLogDirs says of a topic's replicas, by directory."""
    asked = DescribeLogDirsRequest.Topic(topic=topic, partitions=[0])
    found = client.call(DescribeLogDirsRequest(topics=[asked])).results
    return {
        directory.log_dir: [
            {
                "index": partition.partition_index,
                "size": partition.partition_size,
                "lag": partition.offset_lag,
                "future": partition.is_future_key,
            }
            for listed in directory.topics
            for partition in listed.partitions
        ]
        for directory in found
    }


def place(client: RawClient, topic: str) -> str:
    (path,) = (
        path
        for path, found in described(client, topic).items()
        if any(not replica["future"] for replica in found)
    )
    return path


def begin(two_dirs: TwoDirs, raw: RawClient, topic: str) -> tuple[str, str]:
    """Begins a move that copies little and then stands still; returns from where, and whereto."""
    source = place(raw, topic)
    target = two_dirs.other(source)
    assert move(raw, topic, target) == "NONE"
    assert moving(raw, topic) == {source: False, target: True}
    return source, target


def moving(raw: RawClient, topic: str) -> dict[str, bool]:
    """The directories with a replica, and whether it is the copy of a move."""
    return {
        path: replica["future"]
        for path, replicas in described(raw, topic).items()
        for replica in replicas
    }


def future(raw: RawClient, topic: str, path: str) -> dict[str, Any]:
    (found,) = described(raw, topic)[path]
    return found


def test_an_unfinished_move_is_described_in_both_directories(
    two_dirs: TwoDirs, raw: RawClient, topic: str
) -> None:
    source, target = begin(two_dirs, raw, topic)
    eventually(lambda: future(raw, topic, target)["lag"] == 2, "the first chunk is copied")
    size = len(batch(VALUE))
    assert described(raw, topic) == {
        source: [{"index": 0, "size": BATCHES * size, "lag": 0, "future": False}],
        target: [{"index": 0, "size": 3 * size, "lag": 2, "future": True}],
    }
    produce(raw, topic, batch(b"later"))
    assert future(raw, topic, target)["lag"] == 3


def test_a_move_ends_in_the_other_directory_alone(
    two_dirs: TwoDirs, raw: RawClient, topic: str
) -> None:
    source, target = begin(two_dirs, raw, topic)
    throttle(raw, None)
    eventually(lambda: not described(raw, topic)[source], "the source is empty")
    size = len(batch(VALUE))
    assert described(raw, topic) == {
        source: [],
        target: [{"index": 0, "size": BATCHES * size, "lag": 0, "future": False}],
    }


def test_a_second_request_for_the_same_move_changes_nothing(
    two_dirs: TwoDirs, raw: RawClient, topic: str
) -> None:
    source, target = begin(two_dirs, raw, topic)
    assert move(raw, topic, target) == "NONE"
    assert moving(raw, topic) == {source: False, target: True}


def test_a_move_back_cancels_the_move(two_dirs: TwoDirs, raw: RawClient, topic: str) -> None:
    source, target = begin(two_dirs, raw, topic)
    assert move(raw, topic, source) == "NONE"
    eventually(lambda: moving(raw, topic) == {source: False}, "the copy is gone")
    assert not leftovers(two_dirs, topic, "-future")
    assert move(raw, topic, target) == "NONE"
    throttle(raw, None)
    eventually(lambda: not described(raw, topic)[source], "the second move succeeds")


def test_a_move_to_an_unknown_directory_does_not_cancel_another(
    two_dirs: TwoDirs, raw: RawClient, topic: str
) -> None:
    source, target = begin(two_dirs, raw, topic)
    assert move(raw, topic, "/no/such/place") == "LOG_DIR_NOT_FOUND"
    assert move(raw, topic, "relative") == "LOG_DIR_NOT_FOUND"
    assert moving(raw, topic) == {source: False, target: True}


def test_a_move_to_where_the_replica_is_does_nothing(
    two_dirs: TwoDirs, raw: RawClient, topic: str
) -> None:
    before = described(raw, topic)
    assert move(raw, topic, place(raw, topic)) == "NONE"
    assert described(raw, topic) == before


def test_a_topic_deleted_in_the_middle_of_a_move_is_gone_from_both(
    two_dirs: TwoDirs, raw: RawClient, topic: str
) -> None:
    begin(two_dirs, raw, topic)
    doomed = DeleteTopicsRequest.Topic(name=topic, topic_id=ZERO_UUID)
    raw.call(DeleteTopicsRequest(topics=[doomed], timeout_ms=30_000), 6)
    eventually(lambda: not any(described(raw, topic).values()), "both replicas are gone")
    eventually(lambda: move(raw, topic, two_dirs.paths[0]) != "NONE", "there is nothing to move")
    assert move(raw, topic, two_dirs.paths[0]) == "UNKNOWN_TOPIC_OR_PARTITION"
    eventually(lambda: not leftovers(two_dirs, topic, "-0"), "no log is left")
    eventually(lambda: not leftovers(two_dirs, topic, "-future"), "no copy is left")


def leftovers(two_dirs: TwoDirs, topic: str, suffix: str) -> list[str]:
    """The directories of a topic on disk whose names end like this."""
    return [
        found.name
        for path in two_dirs.paths
        for found in Path(path).iterdir()
        if found.name.startswith(f"{topic}-0") and found.name.endswith(suffix)
    ]


def test_records_written_during_a_move_are_there_after_it(
    two_dirs: TwoDirs, raw: RawClient, topic: str
) -> None:
    source, target = begin(two_dirs, raw, topic)
    size = sum(len(batch(value)) for value in (b"a", b"b"))
    for value in (b"a", b"b"):
        assert produce(raw, topic, batch(value)).error_code == 0
    throttle(raw, None)
    eventually(lambda: not described(raw, topic)[source], "the source is empty")
    assert future(raw, topic, target)["size"] == BATCHES * len(batch(VALUE)) + size


# A directory that is offline.


def test_a_directory_that_is_offline_is_described_with_an_error(one_offline: TwoDirs) -> None:
    with one_offline.cluster.connect() as client:
        found = client.call(DescribeLogDirsRequest(topics=None)).results
    assert {d.log_dir: ErrorCode(d.error_code).name for d in found} == dict(
        zip(one_offline.paths, ("NONE", "KAFKA_STORAGE_ERROR"), strict=True)
    )
    (offline,) = (d for d in found if d.error_code)
    assert (offline.topics, offline.total_bytes, offline.usable_bytes) == ([], -1, -1)


def test_nothing_moves_to_a_directory_that_is_offline(one_offline: TwoDirs, unique: Unique) -> None:
    topic = create_topic(one_offline.cluster, unique("staying"))
    online, offline = one_offline.paths
    with one_offline.cluster.connect() as client:
        assert move(client, topic, offline) == "KAFKA_STORAGE_ERROR"
        assert move(client, topic, online) == "NONE"
        assert move(client, "never-made", offline) == "KAFKA_STORAGE_ERROR"
        assert place(client, topic) == online
