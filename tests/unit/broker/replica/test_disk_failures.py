"""A log directory that fails takes its partitions offline, and nothing else."""

import errno
import os
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from embedkafka.broker.replica.following.fetcher import FollowState
from embedkafka.runtime.buffers import BytesLike
from embedkafka.runtime.files import File, SystemFiles
from embedkafka.runtime.ids import TopicPartition
from embedkafka.wire.protocol.errors import ErrorCode
from embedkafka.wire.protocol.messages.brokers import LeaderAndIsrRequest, StopReplicaRequest
from tests.doubles.replica_cluster import ReplicaCluster

TP = TopicPartition("orders", 0)
OTHER = TopicPartition("payments", 0)


class BreakableFiles(SystemFiles):
    """The real file system, except below the directories in `broken`."""

    def __init__(self) -> None:
        super().__init__()
        self.broken: set[Path] = set()
        self.code = errno.EIO

    def check(self, path: Path) -> None:
        if any(directory in path.parents for directory in self.broken):
            raise OSError(self.code, os.strerror(self.code), str(path))

    def open(self, path: Path) -> "BreakableFile":
        self.check(path)
        return BreakableFile(self, path, super().open(path))

    def create(self, path: Path) -> "BreakableFile":
        self.check(path)
        return BreakableFile(self, path, super().create(path))

    def replace(self, path: Path, data: BytesLike, *, sync: bool = False) -> None:
        self.check(path)
        super().replace(path, data)

    def rename(self, old: Path, new: Path) -> None:
        self.check(old)
        super().rename(old, new)


class BreakableFile:
    def __init__(self, files: BreakableFiles, path: Path, file: File) -> None:
        self._files, self._path, self._file = files, path, file

    def __getattr__(self, name: str) -> Any:
        self._files.check(self._path)
        return getattr(self._file, name)


@pytest.fixture
def files() -> BreakableFiles:
    return BreakableFiles()


@pytest.fixture
def cluster(make_cluster: Callable[..., ReplicaCluster], files: BreakableFiles) -> ReplicaCluster:
    cluster = make_cluster(files=files)
    cluster.elect(1)
    cluster.elect(2, of=OTHER)
    cluster.settle()
    return cluster


def break_disk(cluster: ReplicaCluster, files: BreakableFiles, broker: int) -> None:
    files.broken.add(Path(cluster.directory / f"broker-{broker}"))


def test_append_to_a_broken_disk_is_a_storage_error(
    cluster: ReplicaCluster, files: BreakableFiles
) -> None:
    break_disk(cluster, files, 1)
    assert cluster[1].produce("a").error is ErrorCode.KAFKA_STORAGE_ERROR
    cluster.settle()
    assert cluster[1].produce("b").error is ErrorCode.KAFKA_STORAGE_ERROR
    assert cluster[1].manager.hosted.is_offline(TP)


def test_controller_hears_of_the_failed_directory_once(
    cluster: ReplicaCluster, files: BreakableFiles
) -> None:
    break_disk(cluster, files, 1)
    cluster[1].produce("a")
    cluster[1].produce("b")
    cluster.settle()
    assert len(cluster[1].failed_dirs) == 1


def test_waiting_requests_are_told(cluster: ReplicaCluster, files: BreakableFiles) -> None:
    fetched = cluster[1].fetch(0, max_wait_ms=10_000)
    break_disk(cluster, files, 1)
    cluster[1].produce("a")
    cluster.settle()
    assert fetched.data.error is ErrorCode.KAFKA_STORAGE_ERROR


def test_coordinators_hear_which_partitions_the_disk_took(
    cluster: ReplicaCluster, files: BreakableFiles
) -> None:
    partition = cluster[1].partition()
    break_disk(cluster, files, 1)
    cluster[1].produce("a")
    cluster.settle()
    _, following = cluster[1].changes[-1]
    assert {change.topic_partition for change in following} == {TP, OTHER}
    assert not partition.is_leader, "a request that still holds it is refused"


def test_followed_partitions_of_the_broken_disk_are_given_up(
    cluster: ReplicaCluster, files: BreakableFiles
) -> None:
    break_disk(cluster, files, 2)
    cluster[1].produce("a", acks=1)
    cluster.settle()
    assert cluster[2].manager.hosted.offline()
    assert cluster[2].manager.fetchers.find_state(TP) is None
    assert cluster[3].values() == ["a"]


def test_a_follower_without_descriptors_goes_on_when_there_are_some(
    cluster: ReplicaCluster, files: BreakableFiles
) -> None:
    files.code = errno.EMFILE
    break_disk(cluster, files, 2)
    cluster[1].produce("a", acks=1)
    cluster.settle()
    assert not cluster[2].manager.hosted.offline()
    assert cluster[2].values() == []
    files.broken.clear()
    cluster.clock.advance(seconds=1)
    cluster.settle()
    assert cluster[2].values() == ["a"]


def test_a_leader_that_finds_no_descriptor_in_its_election_resigns_until_the_next(
    cluster: ReplicaCluster, files: BreakableFiles
) -> None:
    cluster[1].produce("a")
    cluster.settle()
    partition = cluster[1].partition()
    files.code = errno.EMFILE
    break_disk(cluster, files, 1)
    assert cluster.elect(1)[1] is ErrorCode.KAFKA_STORAGE_ERROR
    _, following = cluster[1].changes[-1]
    assert [change.topic_partition for change in following] == [TP]
    assert not partition.is_leader
    assert (cluster[1].postponed_count, cluster[2].postponed_count) == (1, 0)
    files.broken.clear()
    assert cluster.elect(1)[1] is ErrorCode.NONE
    cluster.settle()
    assert cluster[1].values() == ["a"]
    assert cluster[1].postponed_count == 1


def test_offline_partition_refuses_leadership_and_deletion(
    cluster: ReplicaCluster, files: BreakableFiles
) -> None:
    break_disk(cluster, files, 1)
    cluster[1].produce("a")
    cluster.settle()
    assert cluster.elect(1)[1] is ErrorCode.KAFKA_STORAGE_ERROR
    response = cluster.stop_replica(1, delete=True, leader_epoch=-2)
    assert response.partition_errors[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR


def test_election_may_be_what_finds_the_disk_broken(
    cluster: ReplicaCluster, files: BreakableFiles
) -> None:
    cluster[1].produce("a")
    cluster.settle()
    break_disk(cluster, files, 3)
    assert cluster.elect(3) == {
        1: ErrorCode.NONE,
        2: ErrorCode.NONE,
        3: ErrorCode.KAFKA_STORAGE_ERROR,
    }
    cluster.settle()
    assert cluster[3].manager.hosted.is_offline(TP)
    assert cluster[3].manager.hosted.is_offline(OTHER)


def test_coordinators_hear_of_the_partition_whose_election_finds_the_disk_broken(
    cluster: ReplicaCluster, files: BreakableFiles
) -> None:
    cluster[1].produce("a")
    cluster.settle()
    partition = cluster[1].partition()
    break_disk(cluster, files, 1)
    assert cluster.elect(1)[1] is ErrorCode.KAFKA_STORAGE_ERROR
    _, following = cluster[1].changes[-1]
    assert [change.topic_partition for change in following] == [TP]
    assert not partition.is_leader


def test_new_partition_finds_no_disk_to_live_on(
    cluster: ReplicaCluster, files: BreakableFiles
) -> None:
    break_disk(cluster, files, 1)
    cluster[1].produce("a")
    cluster.settle()
    new = TopicPartition("new", 0)
    assert cluster.elect(1, of=new)[1] is ErrorCode.KAFKA_STORAGE_ERROR
    assert cluster[1].manager.hosted.is_offline(new)


def test_other_brokers_go_on(cluster: ReplicaCluster, files: BreakableFiles) -> None:
    break_disk(cluster, files, 1)
    cluster[1].produce("a")
    cluster.settle()
    cluster.elect(2, isr=[2, 3])
    produced = cluster[2].produce("b")
    cluster.settle()
    assert produced.error is ErrorCode.NONE
    assert cluster[3].manager.fetchers.find_state(TP) is FollowState.FETCHING


def test_partition_of_a_failed_disk_is_not_made_anew_on_another(
    make_cluster: Callable[..., ReplicaCluster], files: BreakableFiles
) -> None:
    cluster = make_cluster(brokers=1, disks=2, files=files)
    cluster.elect(1)
    files.broken.add(cluster[1].log().directory.parent)
    cluster[1].produce("a")
    cluster.settle()
    assert cluster.elect(1, of=OTHER) == {1: ErrorCode.KAFKA_STORAGE_ERROR}
    new = TopicPartition("new", 0)
    assert cluster.elect(1, of=new, is_new=True) == {1: ErrorCode.NONE}
    assert cluster[1].produce("b", to=new).error is ErrorCode.NONE
    assert len(cluster[1].logs.live_directories) == 1


def test_a_leader_whose_disk_breaks_as_it_is_read_does_not_stop_its_followers(
    cluster: ReplicaCluster, files: BreakableFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A leader in the same process hands over a range of its file; reading that may fail."""
    leader = cluster[1].manager.reads
    read = leader.read_as_follower

    def read_then_break(*arguments: Any) -> Any:
        answers = read(*arguments)
        break_disk(cluster, files, 1)
        return answers

    cluster[1].produce("a", acks=1)
    cluster[2].produce("b", to=OTHER, acks=1)
    monkeypatch.setattr(leader, "read_as_follower", read_then_break)
    cluster[3].manager.fetchers.run_until_idle()
    assert cluster[3].values() == []
    assert cluster[3].values(OTHER) == ["b"]
    monkeypatch.undo()
    files.broken.clear()
    cluster.pass_time(cluster.config.replica_fetch_backoff_ms)
    assert cluster[3].values() == ["a"]


@pytest.fixture
def half_broken(
    make_cluster: Callable[..., ReplicaCluster], files: BreakableFiles
) -> ReplicaCluster:
    """One broker with two disks; `TP` and its record are on the one that fails, `OTHER` is not."""
    cluster = make_cluster(brokers=1, disks=2, files=files)
    for tp in (TP, OTHER):
        cluster.elect(1, of=tp, is_new=True)
        cluster[1].produce("a", to=tp)
    files.broken.add(cluster[1].log().directory.parent)
    return cluster


@pytest.mark.parametrize("delete", [True, False])
def test_only_a_deletion_makes_room_for_a_new_topic_in_place_of_the_lost_one(
    half_broken: ReplicaCluster, delete: bool
) -> None:
    half_broken[1].produce("b")
    half_broken.settle()
    lost = {1: ErrorCode.KAFKA_STORAGE_ERROR}
    assert half_broken.elect(1, is_new=True) == lost, "it is not begun again on the other disk"
    half_broken.stop_replica(1, delete=delete, leader_epoch=-2)
    assert half_broken.elect(1, is_new=True) == ({1: ErrorCode.NONE} if delete else lost)


def test_others_are_deleted_when_the_disk_of_one_has_failed(half_broken: ReplicaCluster) -> None:
    waiting = half_broken[1].fetch(1, max_wait_ms=500)
    response = half_broken[1].manager.leadership.stop_replicas(
        StopReplicaRequest(
            controller_id=1,
            controller_epoch=1,
            delete_partitions=True,
            topics=[
                StopReplicaRequest.Topic(name=tp.topic, partition_indexes=[tp.partition])
                for tp in (TP, OTHER)
            ],
        )
    )
    assert [error.error_code for error in response.partition_errors] == [
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.NONE,
    ]
    assert half_broken[1].manager.hosted.online() == []
    _, following = half_broken[1].changes[-1]
    assert [change.topic_partition for change in following] == [TP, OTHER]
    assert waiting.data.error is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_new_topic_is_empty_though_the_log_of_its_namesake_cannot_be_deleted(
    half_broken: ReplicaCluster,
) -> None:
    """The broker has missed that both topics were deleted and created again."""
    answer = half_broken[1].manager.leadership.become_leader_or_follower(
        LeaderAndIsrRequest(
            controller_id=1,
            controller_epoch=1,
            topic_states=[
                LeaderAndIsrRequest.TopicState(
                    topic_name=tp.topic,
                    topic_id=uuid.UUID(int=77 + n),
                    partition_states=[
                        LeaderAndIsrRequest.TopicState.PartitionState(
                            partition_index=tp.partition,
                            controller_epoch=1,
                            leader=1,
                            leader_epoch=0,
                            isr=[1],
                            partition_epoch=0,
                            replicas=[1],
                            is_new=True,
                        )
                    ],
                )
                for n, tp in enumerate((TP, OTHER))
            ],
            live_leaders=[],
        )
    )
    assert [topic.partition_errors[0].error_code for topic in answer.topics] == [0, 0]
    assert (half_broken[1].values(), half_broken[1].values(OTHER)) == ([], [])
