"""How brokers carry out the controller's requests, and which ones they refuse."""

import uuid
from typing import Any

import pytest

from embedkafka.broker.log.config import LogConfig
from embedkafka.broker.replica.following.fetcher import FollowState
from embedkafka.runtime.ids import TopicPartition
from embedkafka.wire.protocol.errors import ApiError, ErrorCode
from embedkafka.wire.protocol.messages.brokers import (
    FULL,
    INCREMENTAL,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    StopReplicaRequest,
    StopReplicaResponse,
)
from tests.doubles.replica_cluster import TOPIC_ID, ReplicaCluster, leader_and_isr, partition_error
from tests.presence import present

TP = TopicPartition("orders", 0)


def test_listeners_hear_what_is_led_and_what_is_followed(cluster: ReplicaCluster) -> None:
    cluster.elect(1, [1, 2])
    ((leading, following),) = cluster[1].changes
    assert [(c.topic_partition, c.leader_epoch) for c in leading] == [(TP, 0)]
    assert following == []
    ((leading, following),) = cluster[2].changes
    assert leading == []
    assert [(c.topic_partition, c.leader_epoch) for c in following] == [(TP, 0)]


def test_request_of_an_older_controller_is_refused(cluster: ReplicaCluster) -> None:
    cluster.controller_epoch = 5
    cluster.elect(1)
    cluster.controller_epoch = 4
    assert cluster.elect(2) == dict.fromkeys([1, 2, 3], ErrorCode.STALE_CONTROLLER_EPOCH)
    assert cluster[1].partition().is_leader


def test_broker_that_has_just_started_takes_the_word_of_any_controller(
    cluster: ReplicaCluster,
) -> None:
    cluster.controller_epoch = 0
    assert cluster.elect(1) == dict.fromkeys([1, 2, 3], ErrorCode.NONE)


def test_same_leader_epoch_is_not_applied_twice(cluster: ReplicaCluster) -> None:
    cluster.elect(1)
    assert cluster.repeat_election(to=[1]) == {1: ErrorCode.STALE_CONTROLLER_EPOCH}


def test_broker_that_is_no_replica_refuses(cluster: ReplicaCluster) -> None:
    assert cluster.elect(1, [1, 2], to=[3]) == {3: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert cluster[3].manager.hosted.find(TP) is None


@pytest.mark.parametrize("restarts", [False, True])
def test_log_of_a_deleted_topic_is_not_taken_for_the_new_one(
    cluster: ReplicaCluster, restarts: bool
) -> None:
    """The broker missed the deletion, and leader epochs begin again with the new topic."""
    cluster.elect(1)
    cluster[1].produce("a")
    cluster.elect(1)
    if restarts:
        cluster.kill(1)
        cluster.start(1)
    other = uuid.UUID(int=77)
    answer = tell(cluster, 1, TP, topic_id=other, leader_epoch=0)
    assert partition_error(answer) is ErrorCode.NONE
    partition = cluster[1].partition()
    assert (partition.leader_epoch, partition.view().log_end_offset) == (0, 0)


def test_what_is_not_among_everything_hosted_goes(cluster: ReplicaCluster) -> None:
    other = TopicPartition("payments", 0)
    cluster.elect(1)
    cluster.elect(1, of=other)
    tell(cluster, 1, other, type=FULL)
    assert cluster[1].manager.hosted.find(TP) is None
    assert [log.topic_partition for log in cluster[1].logs.all_logs()] == [other]
    _, following = cluster[1].changes[-1]
    assert [c.topic_partition for c in following] == [TP], "coordinators hear of it"
    assert present(cluster[1].manager.hosted.find(other)).is_leader


def test_replica_that_goes_is_fetched_no_more_and_its_waiting_requests_are_answered(
    cluster: ReplicaCluster,
) -> None:
    followed = TopicPartition("payments", 0)
    cluster.elect(1, [1])
    cluster.elect(2, of=followed)
    cluster.settle()
    fetchers, partition = cluster[1].manager.fetchers, cluster[1].partition()
    assert fetchers.find_state(followed) is FollowState.FETCHING
    fetched = cluster[1].fetch(0, max_wait_ms=500)
    tell(cluster, 1, TopicPartition("kept", 0), type=FULL)
    assert fetched.data.error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert not partition.is_leader
    cluster.settle()
    assert fetchers.find_state(followed) is None


def test_a_change_says_nothing_of_other_partitions(cluster: ReplicaCluster) -> None:
    other = TopicPartition("payments", 0)
    cluster.elect(1)
    cluster.elect(1, of=other)
    tell(cluster, 1, other, type=INCREMENTAL)
    assert cluster[1].partition().is_leader


def test_everything_from_an_older_controller_changes_nothing(cluster: ReplicaCluster) -> None:
    cluster.controller_epoch = 5
    cluster.elect(1)
    tell(cluster, 1, TopicPartition("payments", 0), type=FULL, controller_epoch=4)
    assert cluster[1].partition().is_leader


def tell(
    cluster: ReplicaCluster, broker: int, of: TopicPartition, **values: Any
) -> LeaderAndIsrResponse:
    """Makes the broker leader of `of`."""
    known: dict[str, Any] = {
        "leader_epoch": 7,
        "partition_epoch": 7,
        "topic_id": TOPIC_ID,
        "controller_epoch": 5,
    }
    request = leader_and_isr(
        of, leader=broker, isr=[broker], replicas=[broker], is_new=False, **{**known, **values}
    )
    return cluster[broker].manager.leadership.become_leader_or_follower(request)


def test_requests_without_topic_ids_are_answered_by_name(cluster: ReplicaCluster) -> None:
    state = LeaderAndIsrRequest.TopicState.PartitionState(
        topic_name="old",
        partition_index=3,
        controller_epoch=1,
        leader=1,
        leader_epoch=0,
        isr=[1],
        partition_epoch=0,
        replicas=[1],
    )
    response = cluster[1].manager.leadership.become_leader_or_follower(
        LeaderAndIsrRequest(
            controller_id=1,
            controller_epoch=1,
            ungrouped_partition_states=[state],
            live_leaders=[],
        )
    )
    (error,) = response.partition_errors
    assert (error.topic_name, error.partition_index, error.error_code) == ("old", 3, 0)
    assert cluster[1].partition(TopicPartition("old", 3)).is_leader


ILLEGAL = [("../outside", 0), ("", 0), ("..", 0), ("a" * 250, 0), ("a b", 0), ("orders", -1)]


@pytest.mark.parametrize(("topic", "partition"), ILLEGAL)
def test_a_partition_that_cannot_be_is_refused_and_others_are_led(
    cluster: ReplicaCluster, topic: str, partition: int
) -> None:
    states = [
        LeaderAndIsrRequest.TopicState.PartitionState(
            topic_name=name,
            partition_index=index,
            controller_epoch=1,
            leader=1,
            leader_epoch=0,
            isr=[1],
            partition_epoch=0,
            replicas=[1],
        )
        for name, index in ((topic, partition), ("fine", 3))
    ]
    response = cluster[1].manager.leadership.become_leader_or_follower(
        LeaderAndIsrRequest(
            controller_id=1,
            controller_epoch=1,
            ungrouped_partition_states=states,
            live_leaders=[],
        )
    )
    assert [error.error_code for error in response.partition_errors] == [
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.NONE,
    ]
    assert cluster[1].manager.hosted.find(TopicPartition(topic, partition)) is None
    assert cluster[1].partition(TopicPartition("fine", 3)).is_leader


@pytest.mark.parametrize(("topic", "partition"), ILLEGAL)
def test_a_partition_that_cannot_be_is_not_stopped(
    cluster: ReplicaCluster, topic: str, partition: int
) -> None:
    response = cluster[1].manager.leadership.stop_replicas(
        StopReplicaRequest(
            controller_id=1,
            controller_epoch=1,
            delete_partitions=True,
            topics=[StopReplicaRequest.Topic(name=topic, partition_indexes=[partition])],
        )
    )
    assert stop_error(response) is ErrorCode.INVALID_TOPIC_EXCEPTION


def test_partition_without_a_leader_is_not_fetched(cluster: ReplicaCluster) -> None:
    cluster.elect(-1)
    cluster.settle()
    assert cluster[2].manager.fetchers.find_state(TP) is None
    assert cluster[1].fetch(0).data.error is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_broker_0_is_fetched_like_any_other_leader(cluster: ReplicaCluster) -> None:
    cluster.start(0)
    cluster.elect(0, [0, 1])
    cluster[0].produce("a", acks=1)
    cluster.settle()
    assert cluster[1].values() == ["a"]


def test_follower_that_becomes_the_leader_fetches_no_more(cluster: ReplicaCluster) -> None:
    cluster.elect(1)
    cluster.settle()
    assert cluster[2].manager.fetchers.find_state(TP) is FollowState.FETCHING
    cluster.elect(2)
    cluster.settle()
    assert cluster[2].manager.fetchers.find_state(TP) is None


def test_follower_does_not_copy_another_topic_of_the_same_name(cluster: ReplicaCluster) -> None:
    """The leader has not heard that the topic was deleted and created again."""
    cluster.elect(1, [1, 2], to=[1])
    cluster[1].produce("old", acks=1)
    cluster.elect(1, [1, 2], to=[1])
    cluster[2].manager.leadership.become_leader_or_follower(
        leader_and_isr(
            TP,
            leader=1,
            leader_epoch=1,
            partition_epoch=0,
            isr=[1, 2],
            replicas=[1, 2],
            topic_id=uuid.UUID(int=77),
            controller_epoch=1,
            is_new=True,
        )
    )
    cluster.settle()
    assert cluster[2].values() == []


def test_election_brings_the_settings_of_the_topic(cluster: ReplicaCluster) -> None:
    """They may have changed while the broker was away."""
    cluster.elect(1, [1, 2])
    cluster.topic_config = LogConfig(min_insync_replicas=2)
    cluster.elect(1, [1, 2], isr=[1])
    assert cluster[1].produce("a").error is ErrorCode.NOT_ENOUGH_REPLICAS


def test_leader_that_is_elected_again_keeps_what_it_knows_of_its_followers(
    cluster: ReplicaCluster,
) -> None:
    cluster.elect(1)
    cluster.settle()
    cluster[1].produce("a")
    cluster.settle()
    cluster.elect(1)
    assert set(cluster[1].partition().view().follower_end_offsets.values()) == {1}


# -- stopping


def stop_error(response: StopReplicaResponse) -> ErrorCode:
    return ErrorCode(response.partition_errors[0].error_code)


def test_deleted_replica_is_gone_with_its_log(cluster: ReplicaCluster) -> None:
    cluster.elect(1)
    cluster[1].produce("a", acks=1)
    directory, partition = cluster[1].log().directory, cluster[1].partition()
    response = cluster.stop_replica(1, delete=True, leader_epoch=-2)
    assert stop_error(response) is ErrorCode.NONE
    assert not partition.is_leader, "a request that still holds it is refused"
    assert cluster[1].manager.hosted.find(TP) is None
    assert not directory.exists()
    _, following = cluster[1].changes[-1]
    assert [change.topic_partition for change in following] == [TP]


def test_stopped_replica_keeps_its_log_and_fetches_no_more(cluster: ReplicaCluster) -> None:
    cluster.elect(1)
    cluster.settle()
    cluster.stop_replica(2, delete=False, leader_epoch=0)
    cluster.settle()
    cluster[1].produce("a", acks=1)
    cluster.settle()
    assert cluster[2].log().log_end_offset == 0
    assert cluster[3].log().log_end_offset == 1


def test_stop_of_an_older_leader_epoch_is_fenced(cluster: ReplicaCluster) -> None:
    cluster.elect(1)
    cluster.elect(1)
    response = cluster.stop_replica(1, delete=True, leader_epoch=0)
    assert stop_error(response) is ErrorCode.FENCED_LEADER_EPOCH
    assert cluster[1].partition().is_leader


def test_deleting_what_is_not_hosted_is_no_error(cluster: ReplicaCluster) -> None:
    response = cluster.stop_replica(1, delete=True, leader_epoch=-2)
    assert stop_error(response) is ErrorCode.NONE


@pytest.mark.parametrize(
    "which",
    [
        {
            "ungrouped_partitions": [
                StopReplicaRequest.Partition(topic_name="orders", partition_index=0)
            ]
        },
        {"topics": [StopReplicaRequest.Topic(name="orders", partition_indexes=[0])]},
    ],
)
def test_older_forms_of_the_stop_request_are_understood(
    cluster: ReplicaCluster, which: dict[str, Any]
) -> None:
    cluster.elect(1)
    cluster[1].manager.leadership.stop_replicas(
        StopReplicaRequest(controller_id=1, controller_epoch=1, delete_partitions=True, **which)
    )
    assert cluster[1].manager.hosted.find(TP) is None


def test_topic_can_be_made_again_under_its_name(cluster: ReplicaCluster) -> None:
    cluster.elect(1)
    cluster[1].produce("old", acks=1)
    cluster.settle()
    for broker in (1, 2, 3):
        cluster.stop_replica(broker, delete=True, leader_epoch=-2)
    cluster.settle()
    assert set(cluster.elect(2, topic_id=uuid.UUID(int=5)).values()) == {ErrorCode.NONE}
    produced = cluster[2].produce("new")
    cluster.settle()
    assert produced.error is ErrorCode.NONE
    assert [cluster[n].values() for n in (1, 2, 3)] == [["new"]] * 3


def test_stale_controller_stops_nothing(cluster: ReplicaCluster) -> None:
    cluster.controller_epoch = 5
    cluster.elect(1)
    cluster.controller_epoch = 4
    response = cluster.stop_replica(1, delete=True, leader_epoch=-2)
    assert response.error_code == ErrorCode.STALE_CONTROLLER_EPOCH
    assert cluster[1].partition().is_leader


def test_require_leader_tells_followers_apart(cluster: ReplicaCluster) -> None:
    cluster.elect(1)
    assert cluster[1].manager.hosted.require_leader(TP).is_leader
    with pytest.raises(ApiError) as raised:
        cluster[2].manager.hosted.require_leader(TP)
    assert raised.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_high_watermark_outlives_a_clean_restart(cluster: ReplicaCluster) -> None:
    cluster.elect(1, [1])
    cluster[1].produce("a", "b")
    node = cluster.nodes.pop(1)
    node.manager.shutdown()
    node.logs.shutdown()
    assert present(cluster.start(1).logs.find(TP)).high_watermark == 2


def test_high_watermark_is_checkpointed_while_running(cluster: ReplicaCluster) -> None:
    cluster.elect(1, [1])
    cluster[1].produce("a", "b")
    cluster.pass_time(cluster.config.replica_high_watermark_checkpoint_interval_ms)
    cluster.kill(1)
    assert present(cluster.start(1).logs.find(TP)).high_watermark == 2
