"""Requests that wait for several partitions."""

from collections.abc import Mapping

import pytest

from embedkafka.broker.log.log import FetchIsolation
from embedkafka.broker.replica.delayed import DelayedDeleteRecords, DelayedFetch
from embedkafka.broker.replica.deletion import DeletedRecords
from embedkafka.broker.replica.fetch import FetchParams, PartitionFetch
from embedkafka.runtime.ids import TopicPartition
from embedkafka.wire.protocol.errors import ErrorCode
from tests.doubles.replica_cluster import Node

TP = TopicPartition("orders", 0)
OTHER = TopicPartition("orders", 1)


@pytest.mark.parametrize(("held_back", "is_answered"), [({TP}, True), ({TP, OTHER}, False)])
def test_fetch_counts_the_partitions_that_the_throttle_does_not_hold_back(
    single: Node, held_back: set[TopicPartition], is_answered: bool
) -> None:
    single.cluster.elect(1, of=OTHER)
    for topic_partition in (TP, OTHER):
        single.produce("a", to=topic_partition)
    fetch = DelayedFetch(
        FetchParams(
            max_wait_ms=500, min_bytes=1, max_bytes=1 << 20, isolation=FetchIsolation.LOG_END
        ),
        [PartitionFetch(TP, 0, 1 << 20), PartitionFetch(OTHER, 0, 1 << 20)],
        is_held_back=lambda partition, replica_id: partition.topic_partition in held_back,
        require_partition=single.manager.hosted.require,
        read=lambda params, partitions: [],
        on_done=lambda answers: None,
    )
    assert fetch.try_complete() is is_answered


def test_partition_that_is_gone_holds_up_no_deletion_in_another(single: Node) -> None:
    answers: list[Mapping[TopicPartition, DeletedRecords]] = []
    single.produce("a")
    deletion = DelayedDeleteRecords(
        1_000,
        {OTHER: DeletedRecords(), TP: DeletedRecords()},
        required_offsets={OTHER: 1, TP: 0},
        require_partition=single.manager.hosted.require,
        on_done=answers.append,
    )
    assert deletion.try_complete()
    deletion.on_complete()
    assert answers == [
        {
            OTHER: DeletedRecords(error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            TP: DeletedRecords(low_watermark=0),
        }
    ]
