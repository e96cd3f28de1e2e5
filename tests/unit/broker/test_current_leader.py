"""The leader that a client is sent to when it asks the wrong broker."""

import pytest

from embedkafka.broker.metadata_cache import MetadataSnapshot, PartitionInfo
from embedkafka.runtime.ids import LEADER_DURING_DELETE, NO_LEADER, TopicPartition
from embedkafka.wire.protocol.errors import ErrorCode

TP = TopicPartition("orders", 0)


def found(
    leader: int, error: ErrorCode = ErrorCode.NOT_LEADER_OR_FOLLOWER
) -> tuple[int, int] | None:
    info = PartitionInfo(
        leader=leader, leader_epoch=7, isr=(1,), replicas=(1, 2), offline_replicas=()
    )
    snapshot = MetadataSnapshot(topics={TP.topic: {TP.partition: info}})
    return snapshot.find_new_leader(TP, error)


def test_the_leader_and_its_epoch_are_told() -> None:
    assert found(2) == (2, 7)
    assert found(2, ErrorCode.FENCED_LEADER_EPOCH) == (2, 7)


@pytest.mark.parametrize("nobody", [NO_LEADER, LEADER_DURING_DELETE])
def test_an_epoch_without_a_leader_is_not_told(nobody: int) -> None:
    """librdkafka 2.16 would take it for a leader."""
    assert found(nobody) is None


def test_other_errors_are_not_about_the_leader() -> None:
    assert found(2, ErrorCode.OFFSET_OUT_OF_RANGE) is None
