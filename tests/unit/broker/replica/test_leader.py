"""One broker alone: appends, fetches with and without waiting, offsets, deleted records."""

import random
import uuid
from collections.abc import Callable
from itertools import permutations

import pytest

from embedkafka.broker.log.config import LogConfig
from embedkafka.broker.log.log import FetchIsolation
from embedkafka.broker.replica.deletion import DeletedRecords
from embedkafka.broker.replica.fetch import FetchParams, PartitionFetch
from embedkafka.broker.replica.partition.values import OffsetAnswer, OffsetSearch
from embedkafka.runtime.ids import NO_LEADER_EPOCH, BrokerId, TopicPartition
from embedkafka.wire.protocol.errors import ApiError, ErrorCode
from embedkafka.wire.records.builder import build_batch
from embedkafka.wire.records.compression import Compression
from tests.doubles.replica_cluster import Node, ReplicaCluster
from tests.presence import present

TP = TopicPartition("orders", 0)
OTHER = TopicPartition("orders", 1)
OFFSETS = TopicPartition("__consumer_offsets", 0)


def batch(*values: str) -> memoryview:
    return memoryview(bytearray(build_batch([(5, None, v.encode(), ()) for v in values])))


# -- produce


@pytest.mark.parametrize("acks", [-1, 0, 1])
def test_append_alone_is_acknowledged_at_once(single: Node, acks: int) -> None:
    produced = single.produce("a", "b", acks=acks)
    assert produced.error is ErrorCode.NONE
    assert (produced.response.base_offset, produced.response.log_start_offset) == (0, 0)
    assert single.log().high_watermark == 2


def test_other_acks_are_refused_without_appending(single: Node) -> None:
    assert single.produce("a", acks=2).error is ErrorCode.INVALID_REQUIRED_ACKS
    assert single.log().log_end_offset == 0


def test_partition_that_nobody_has_is_unknown(single: Node) -> None:
    assert single.produce("a", to=OTHER).error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_partition_of_another_broker_is_not_led_here(
    make_cluster: Callable[..., ReplicaCluster],
) -> None:
    cluster = make_cluster(brokers=2)
    cluster.elect(1, [1])
    assert cluster[2].produce("a").error is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_internal_topics_are_for_coordinators_only(
    make_cluster: Callable[..., ReplicaCluster],
) -> None:
    cluster = make_cluster(brokers=1)
    cluster.elect(1, of=OFFSETS)
    assert cluster[1].produce("a", to=OFFSETS).error is ErrorCode.INVALID_TOPIC_EXCEPTION
    answers = []
    cluster[1].manager.writes.append_records(
        timeout_ms=1_000,
        required_acks=-1,
        entries={OFFSETS: batch("a")},
        on_done=answers.append,
        internal_topics_allowed=True,
    )
    assert answers[0][OFFSETS].error is ErrorCode.NONE
    deleted = []
    cluster[1].manager.writes.delete_records({OFFSETS: 1}, deleted.append, timeout_ms=1_000)
    assert deleted[0][OFFSETS].error is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert cluster[1].log(OFFSETS).log_start_offset == 0


OWN_ERRORS = {
    OFFSETS: ErrorCode.INVALID_TOPIC_EXCEPTION,
    OTHER: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    TP: ErrorCode.NONE,
}


@pytest.mark.parametrize("order", list(permutations(OWN_ERRORS)))
def test_each_partition_of_a_request_has_its_own_error(
    single: Node, order: tuple[TopicPartition, ...]
) -> None:
    answers = []
    single.manager.writes.append_records(
        timeout_ms=1_000,
        required_acks=-1,
        entries={topic_partition: batch("a") for topic_partition in order},
        on_done=answers.append,
    )
    assert {tp: answer.error for tp, answer in answers[0].items()} == OWN_ERRORS
    assert single.values() == ["a"]
    deleted = []
    single.manager.writes.delete_records(dict.fromkeys(order, 1), deleted.append, timeout_ms=1_000)
    assert {tp: result.error for tp, result in deleted[0].items()} == OWN_ERRORS
    assert single.values() == []


def test_refused_batch_tells_where_the_log_starts(single: Node) -> None:
    single.produce("a")
    refused = single.produce("b", producer_id=9, producer_epoch=0, base_sequence=7)
    again = single.produce("b", producer_id=9, producer_epoch=0, base_sequence=9)
    assert refused.error is ErrorCode.NONE
    assert again.error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert again.response.log_start_offset == 0


def test_batch_that_never_reached_the_log_is_not_told_where_it_starts(single: Node) -> None:
    """As in Kafka: -1 for these errors, and the log start for the others."""
    single.produce("a")
    delete(single, 1)
    single.log().update_config(LogConfig(max_message_bytes=100))
    refused = single.produce("x" * 100).response
    assert (refused.error, refused.log_start_offset) == (ErrorCode.MESSAGE_TOO_LARGE, -1)


def test_only_refused_records_are_explained(make_cluster: Callable[..., ReplicaCluster]) -> None:
    """As Kafka does it: a text for every error would be welcome, but clients do not get one."""
    cluster = make_cluster(brokers=1, topic_config=LogConfig(cleanup_policy=frozenset({"compact"})))
    cluster.elect(1)
    keyless = cluster[1].produce("a").response
    assert (keyless.error, len(keyless.record_errors)) == (ErrorCode.INVALID_RECORD, 1)
    assert keyless.error_message
    unknown = cluster[1].produce("a", to=OTHER).response
    assert unknown.error_message is None


# -- fetch


def test_fetch_returns_what_is_there(single: Node) -> None:
    single.produce("a", "b")
    fetched = single.fetch(0)
    assert fetched.values == ["a", "b"]
    assert (fetched.data.high_watermark, fetched.data.last_stable_offset) == (2, 2)


def test_fetch_at_the_end_waits_for_the_next_append(single: Node) -> None:
    single.produce("a")
    fetched = single.fetch(1, max_wait_ms=500)
    assert not fetched.is_done
    single.produce("b")
    assert fetched.values == ["b"]


@pytest.mark.parametrize("max_wait_ms", [1, 500])
def test_fetch_waits_no_longer_than_it_said(single: Node, max_wait_ms: int) -> None:
    fetched = single.fetch(0, max_wait_ms=max_wait_ms)
    single.cluster.pass_time(max_wait_ms - 1)
    assert not fetched.is_done
    single.cluster.pass_time(1)
    assert fetched.values == []
    assert fetched.data.error is ErrorCode.NONE


def test_fetch_waits_until_its_minimum_is_there(single: Node) -> None:
    fetched = single.fetch(0, max_wait_ms=500, min_bytes=150)
    single.produce("a")
    assert not fetched.is_done
    single.produce("b")
    single.produce("c")
    assert fetched.values == ["a", "b", "c"]


def test_fetch_is_answered_at_exactly_its_minimum(single: Node) -> None:
    fetched = single.fetch(0, max_wait_ms=500, min_bytes=2 * len(batch("a")))
    single.produce("a")
    assert not fetched.is_done
    single.produce("b")
    assert fetched.values == ["a", "b"]


def test_minimum_is_counted_from_the_fetch_offset(single: Node) -> None:
    single.produce("a")
    fetched = single.fetch(1, max_wait_ms=500, min_bytes=2 * len(batch("a")))
    single.produce("b")
    assert not fetched.is_done
    single.produce("c")
    assert fetched.values == ["b", "c"]


def test_minimum_is_counted_over_all_partitions(single: Node) -> None:
    single.cluster.elect(1, of=OTHER)
    answers = []
    single.manager.reads.fetch_messages(
        FetchParams(
            max_wait_ms=500,
            min_bytes=100,
            max_bytes=1 << 20,
            isolation=FetchIsolation.HIGH_WATERMARK,
        ),
        [PartitionFetch(TP, 0, 1 << 20), PartitionFetch(OTHER, 0, 1 << 20)],
        answers.append,
    )
    single.produce("a")
    assert not answers
    single.produce("b", to=OTHER)
    assert [data.size > 0 for data in answers[0]] == [True, True]


def test_fetch_before_the_last_segment_does_not_wait_for_its_minimum(
    make_cluster: Callable[..., ReplicaCluster],
) -> None:
    cluster = make_cluster(brokers=1, topic_config=LogConfig(segment_bytes=200))
    cluster.elect(1)
    for n in range(4):
        cluster[1].produce(f"record {n} " * 5)
    fetched = cluster[1].fetch(0, max_wait_ms=500, min_bytes=100_000)
    assert len(fetched.values) == 1


@pytest.mark.parametrize("order", [(TP, OTHER), (OTHER, TP)])
def test_fetch_is_answered_when_one_partition_has_an_error(
    single: Node, order: tuple[TopicPartition, ...]
) -> None:
    single.produce("a")
    answers = []
    single.manager.reads.fetch_messages(
        FetchParams(
            max_wait_ms=500,
            min_bytes=1,
            max_bytes=1 << 20,
            isolation=FetchIsolation.HIGH_WATERMARK,
        ),
        [PartitionFetch(topic_partition, 0, 1 << 20) for topic_partition in order],
        answers.append,
    )
    assert {data.topic_partition: (data.error, data.size > 0) for data in answers[0]} == {
        TP: (ErrorCode.NONE, True),
        OTHER: (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, False),
    }


def test_waiting_fetch_is_answered_when_its_partition_is_deleted(single: Node) -> None:
    fetched = single.fetch(0, max_wait_ms=500)
    single.cluster.metadata.partitions.clear()
    single.cluster.stop_replica(1, delete=True, leader_epoch=-2)
    assert fetched.data.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_first_batch_comes_whole_and_the_rest_of_the_request_stays_below_the_limit(
    single: Node,
) -> None:
    single.cluster.elect(1, of=OTHER)
    single.produce("a" * 100)
    single.produce("b", to=OTHER)
    answers = []
    single.manager.reads.fetch_messages(
        FetchParams(
            max_wait_ms=0, min_bytes=1, max_bytes=10, isolation=FetchIsolation.HIGH_WATERMARK
        ),
        [PartitionFetch(TP, 0, 1 << 20), PartitionFetch(OTHER, 0, 1 << 20)],
        answers.append,
    )
    first, second = answers[0]
    assert first.size > 100
    assert (second.size, second.high_watermark) == (0, 1)


def test_old_clients_get_nothing_above_their_limit(single: Node) -> None:
    single.produce("a" * 100)
    answers = []
    single.manager.reads.fetch_messages(
        FetchParams(
            max_wait_ms=0,
            min_bytes=1,
            max_bytes=10,
            isolation=FetchIsolation.HIGH_WATERMARK,
            hard_max_bytes=True,
        ),
        [PartitionFetch(TP, 0, 1 << 20)],
        answers.append,
    )
    assert answers[0][0].size <= 10


def test_offset_beyond_the_log_is_out_of_range(single: Node) -> None:
    single.produce("a")
    fetched = single.fetch(5, max_wait_ms=500)
    assert fetched.data.error is ErrorCode.OFFSET_OUT_OF_RANGE
    assert fetched.data.high_watermark == -1


@pytest.mark.parametrize(
    ("epoch", "error"),
    [(0, ErrorCode.FENCED_LEADER_EPOCH), (2, ErrorCode.UNKNOWN_LEADER_EPOCH), (1, ErrorCode.NONE)],
)
def test_leader_epoch_of_a_fetch_must_be_the_leaders(
    single: Node, epoch: int, error: ErrorCode
) -> None:
    single.cluster.elect(1)
    assert single.fetch(0, current_leader_epoch=epoch).data.error is error


@pytest.mark.parametrize(
    ("epoch", "error"),
    [(0, ErrorCode.UNKNOWN_LEADER_EPOCH), (NO_LEADER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER)],
)
def test_follower_that_the_leader_does_not_know_is_refused(
    single: Node, epoch: int, error: ErrorCode
) -> None:
    """In the same epoch the leader may yet hear of it, so it should ask again."""
    request = PartitionFetch(TP, 0, 1 << 20, current_leader_epoch=epoch)
    (answer,) = single.manager.reads.read_as_follower(BrokerId(2), -1, [request])
    assert answer.error is error


def test_waiting_fetch_is_fenced_by_a_new_leader_epoch(single: Node) -> None:
    fetched = single.fetch(0, max_wait_ms=500, current_leader_epoch=0)
    single.cluster.elect(1)
    assert fetched.data.error is ErrorCode.FENCED_LEADER_EPOCH


def test_fetch_by_the_id_of_another_topic_is_refused_at_once(single: Node) -> None:
    fetched = single.fetch(0, topic_id=uuid.UUID(int=1), max_wait_ms=500)
    assert fetched.data.error is ErrorCode.INCONSISTENT_TOPIC_ID


def test_fetcher_that_read_from_another_log_learns_where_they_part(single: Node) -> None:
    single.produce("a")
    single.cluster.elect(1)
    single.produce("b")
    fetched = single.fetch(2, last_fetched_epoch=0, current_leader_epoch=1)
    assert fetched.data.diverging_epoch == (0, 1)
    assert fetched.values == []


def test_fetcher_from_an_epoch_that_the_leader_has_not_seen_is_out_of_range(single: Node) -> None:
    single.produce("a")
    fetched = single.fetch(1, last_fetched_epoch=9, current_leader_epoch=0)
    assert fetched.data.error is ErrorCode.OFFSET_OUT_OF_RANGE


def test_fetcher_before_the_log_start_is_out_of_range_wherever_the_logs_part(single: Node) -> None:
    single.produce("a", "b")
    single.cluster.elect(1, to=[])
    single.cluster.elect(1)
    single.produce("c")
    delete(single, 1)
    fetched = single.fetch(0, last_fetched_epoch=1, current_leader_epoch=2)
    assert fetched.data.error is ErrorCode.OFFSET_OUT_OF_RANGE
    assert single.fetch(1, last_fetched_epoch=1).data.diverging_epoch == (0, 2)


# -- offsets


def find(
    node: Node,
    timestamp: int,
    isolation: FetchIsolation = FetchIsolation.HIGH_WATERMARK,
    current_leader_epoch: int = NO_LEADER_EPOCH,
) -> OffsetAnswer | None:
    return node.partition().find_offset(
        timestamp, isolation=isolation, current_leader_epoch=current_leader_epoch
    )


def test_offsets_by_their_special_timestamps(single: Node) -> None:
    single.produce("a", "b", "c")
    assert (present(find(single, -2)).offset, present(find(single, -1)).offset) == (0, 3)
    latest = present(find(single, -3))
    assert (latest.offset, latest.timestamp) == (2, 1_002)
    assert (present(find(single, -4)).offset, present(find(single, -5)).offset) == (0, -1)
    assert {present(find(single, ask)).timestamp for ask in (-1, -2, -4, -5, -6)} == {-1}


def test_offset_by_time_is_the_first_record_not_older(single: Node) -> None:
    single.produce("a", "b", "c")
    found = present(find(single, 1_001))
    assert (found.offset, found.timestamp, found.leader_epoch) == (1, 1_001, 0)
    assert find(single, 1_003) is None


@pytest.mark.parametrize(
    ("codec", "is_slow"), [(Compression.GZIP, True), (Compression.NONE, False)]
)
def test_search_in_a_large_compressed_batch_is_slow(
    single: Node, codec: Compression, is_slow: bool
) -> None:
    """It does not belong on a network thread."""
    single.produce(random.Random(0).randbytes(10_000).hex(), compression=codec)
    search = single.partition().search_offset(1_000, isolation=FetchIsolation.HIGH_WATERMARK)
    assert isinstance(search, OffsetSearch)
    assert search.is_slow is is_slow


def test_search_for_the_largest_time_finds_nothing_in_an_empty_log(single: Node) -> None:
    assert find(single, -3) is None


def test_readers_of_committed_records_see_the_last_stable_offset(single: Node) -> None:
    single.produce("a")
    single.produce("t", producer_id=5, producer_epoch=0, base_sequence=0, transactional=True)
    assert present(find(single, -1)).offset == 2
    assert present(find(single, -1, FetchIsolation.TXN_COMMITTED)).offset == 1


def test_offset_of_another_epoch_is_fenced(single: Node) -> None:
    with pytest.raises(ApiError) as raised:
        find(single, -1, current_leader_epoch=3)
    assert raised.value.code is ErrorCode.UNKNOWN_LEADER_EPOCH


def segment_offsets(
    node: Node,
    timestamp: int,
    *,
    count: int = 10,
    isolation: FetchIsolation = FetchIsolation.HIGH_WATERMARK,
) -> list[int]:
    return node.partition().find_segment_offsets(
        timestamp, max_count=count, isolation=isolation, only_leader=True
    )


def test_oldest_clients_get_the_starts_of_segments_newest_first(
    make_cluster: Callable[..., ReplicaCluster],
) -> None:
    cluster = make_cluster(brokers=2, topic_config=LogConfig(segment_bytes=100))
    cluster.elect(1)
    for _ in range(3):
        cluster[1].produce("a")
    cluster.settle()
    assert segment_offsets(cluster[1], -1) == [3, 2, 1, 0]
    assert segment_offsets(cluster[1], -1, count=2) == [3, 2]
    assert segment_offsets(cluster[1], -1, count=-1) == []
    assert segment_offsets(cluster[1], -2) == [0]
    cluster[1].partition().delete_records(1)
    assert segment_offsets(cluster[1], -2) == [1]


def test_oldest_clients_see_no_segment_past_the_high_watermark(
    make_cluster: Callable[..., ReplicaCluster],
) -> None:
    cluster = make_cluster(brokers=2, topic_config=LogConfig(segment_bytes=100))
    cluster.elect(1)
    for _ in range(3):
        cluster[1].produce("a", acks=1)
    assert segment_offsets(cluster[1], -1, isolation=FetchIsolation.LOG_END) == [3, 2, 1, 0]
    assert segment_offsets(cluster[1], -1) == [0, 0]


def test_end_of_an_epoch_is_the_start_of_the_next(single: Node) -> None:
    single.produce("a", "b")
    single.cluster.elect(1)
    single.produce("c")
    end = single.partition().end_offset_for_epoch
    assert end(0) == (0, 2)
    assert end(1) == (1, 3)
    assert end(9) == (-1, -1)


# -- delete records


def delete(node: Node, offset: int) -> DeletedRecords:
    answers = []
    node.manager.writes.delete_records({TP: offset}, answers.append, timeout_ms=1_000)
    return answers[0][TP]


def test_deleted_records_are_gone_at_once(single: Node) -> None:
    single.produce("a", "b", "c")
    assert delete(single, 2) == (2, ErrorCode.NONE)
    assert single.fetch(1).data.error is ErrorCode.OFFSET_OUT_OF_RANGE
    assert single.fetch(2).data.log_start_offset == 2


def test_minus_one_deletes_up_to_the_high_watermark(single: Node) -> None:
    single.produce("a", "b", "c")
    assert delete(single, -1) == (3, ErrorCode.NONE)


def test_deletion_up_to_offset_0_deletes_nothing(single: Node) -> None:
    single.produce("a")
    assert delete(single, 0) == (0, ErrorCode.NONE)
    assert single.fetch(0).values == ["a"]


@pytest.mark.parametrize("offset", [4, -2])
def test_deletion_stays_within_the_high_watermark(single: Node, offset: int) -> None:
    single.produce("a", "b", "c")
    assert delete(single, offset).error is ErrorCode.OFFSET_OUT_OF_RANGE


def test_compacted_topics_keep_their_records(make_cluster: Callable[..., ReplicaCluster]) -> None:
    cluster = make_cluster(brokers=1, topic_config=LogConfig(cleanup_policy=frozenset({"compact"})))
    cluster.elect(1)
    assert delete(cluster[1], 0).error is ErrorCode.POLICY_VIOLATION


# -- reports


def test_view_shows_the_partition_at_one_moment(single: Node) -> None:
    single.produce("a")
    (view,) = single.manager.hosted.views()
    assert (view.leader, view.leader_epoch, view.isr) == (1, 0, (1,))
    assert (view.log_start_offset, view.high_watermark, view.log_end_offset) == (0, 1, 1)


def test_view_of_a_leader_has_the_epoch_of_its_set_and_the_last_stable_offset(
    make_cluster: Callable[..., ReplicaCluster],
) -> None:
    cluster = make_cluster(brokers=2)
    cluster.elect(1, isr=[1])
    cluster[1].produce("t", producer_id=5, producer_epoch=0, base_sequence=0, transactional=True)
    cluster.settle()
    view = cluster[1].partition().view()
    assert (view.isr, view.partition_epoch) == ((1, 2), 1)
    assert (view.high_watermark, view.last_stable_offset) == (1, 0)
    assert view.follower_end_offsets == {2: 1}


def test_view_of_a_follower_has_what_the_controller_sent(
    make_cluster: Callable[..., ReplicaCluster],
) -> None:
    cluster = make_cluster(brokers=2)
    cluster.elect(1)
    cluster.elect(1)
    view = cluster[2].partition().view()
    assert (view.leader, view.leader_epoch, view.partition_epoch) == (1, 1, 1)
    assert (view.replicas, view.isr) == ((1, 2), ())
    assert view.follower_end_offsets == {}


def test_stopped_partition_refuses_every_call(single: Node) -> None:
    partition = single.partition()
    partition.stop()
    assert (partition.is_leader, partition.leader_id, partition.log) == (False, -1, None)
    for call in (partition.require_log, partition.require_low_watermark):
        with pytest.raises(ApiError) as raised:
            call()
        assert raised.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_leaders_part_is_refused_to_a_follower_and_a_followers_to_a_leader(
    make_cluster: Callable[..., ReplicaCluster],
) -> None:
    cluster = make_cluster(brokers=2)
    cluster.elect(1)
    for call in (
        lambda: cluster[2].partition().delete_records(0),
        lambda: cluster[1].partition().truncate_to(0, leader_epoch=0),
    ):
        with pytest.raises(ApiError) as raised:
            call()
        assert raised.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
