"""Following over the wire: the requests sent, and the use of the answers."""

import uuid
from typing import Any, cast

import pytest

from embedkafka.broker.replica.config import ReplicaConfig
from embedkafka.broker.replica.fetch import EpochEnd, PartitionFetch, bytes_of
from embedkafka.broker.replica.following.leader_endpoint import LeaderUnavailable
from embedkafka.broker.replica.following.remote_leader import RemoteLeader
from embedkafka.runtime.ids import BrokerId, TopicPartition
from embedkafka.wire.net.client import BrokerClient, BrokerDisconnected
from embedkafka.wire.protocol.codec import decode, encode
from embedkafka.wire.protocol.errors import ApiError, ErrorCode
from embedkafka.wire.protocol.messages.core import (
    FetchRequest,
    FetchResponse,
    ListOffsetsResponse,
    OffsetForLeaderEpochResponse,
)

TP = TopicPartition("orders", 0)
TOPIC_ID = uuid.UUID(int=9)
Partition = FetchResponse.Topic.Partition


class ScriptedClient:
    """Answers each call with the next answer, through the codec as on the wire."""

    def __init__(self, answers: list[object]) -> None:
        self.answers = answers
        self.calls: list[tuple[Any, int]] = []  # requests of any kind
        self.is_closed = False

    def call(self, request: object, version: int) -> object:
        encoded = encode(request, version)
        self.calls.append((decode(type(request), version, memoryview(encoded)), version))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            self.is_closed = True
            raise answer
        return decode(type(answer), version, memoryview(encode(answer, version)))

    def close(self) -> None:
        self.is_closed = True


def leader_with(*answers: object) -> tuple[RemoteLeader, list[ScriptedClient]]:
    clients: list[ScriptedClient] = []
    left = list(answers)

    def connect(leader_id: BrokerId) -> BrokerClient:
        clients.append(ScriptedClient(left))
        return cast(BrokerClient, clients[-1])  # it has what a leader calls

    return RemoteLeader(BrokerId(1), BrokerId(2), connect, ReplicaConfig(), lambda: 77), clients


def fetch_response(
    *partitions: Partition, topic_id: uuid.UUID = TOPIC_ID, **fields: Any
) -> FetchResponse:
    topic = FetchResponse.Topic(topic="orders", topic_id=topic_id, partitions=list(partitions))
    return FetchResponse(responses=[topic], **fields)


def request(offset: int = 5, topic_id: uuid.UUID = TOPIC_ID) -> PartitionFetch:
    return PartitionFetch(
        TP,
        offset,
        1_000,
        log_start_offset=1,
        current_leader_epoch=3,
        last_fetched_epoch=2,
        topic_id=topic_id,
    )


def test_fetch_tells_position_epochs_and_who_asks() -> None:
    answer = fetch_response(Partition(partition_index=0, high_watermark=4, records=b"batch"))
    leader, clients = leader_with(answer)
    (data,) = leader.fetch([request()])
    assert (data.topic_partition, data.high_watermark, bytes(bytes_of(data.records))) == (
        TP,
        4,
        b"batch",
    )
    ((sent, version),) = clients[0].calls
    assert isinstance(sent, FetchRequest)
    assert version == 17
    assert (sent.replica_state.replica_id, sent.replica_state.replica_epoch) == (2, 77)
    assert (sent.max_wait_ms, sent.min_bytes, sent.session_epoch) == (500, 1, 0)
    (topic,) = sent.topics
    (partition,) = topic.partitions
    assert topic.topic_id == TOPIC_ID
    assert (
        partition.fetch_offset,
        partition.log_start_offset,
        partition.current_leader_epoch,
        partition.last_fetched_epoch,
    ) == (5, 1, 3, 2)


def test_topic_without_an_id_is_fetched_by_name() -> None:
    leader, clients = leader_with(
        fetch_response(Partition(partition_index=0, high_watermark=0, records=None))
    )
    (data,) = leader.fetch([request(topic_id=uuid.UUID(int=0))])
    assert (data.topic_partition, len(bytes_of(data.records))) == (TP, 0)
    ((sent, version),) = clients[0].calls
    assert (version, sent.replica_id, sent.topics[0].topic) == (12, 2, "orders")


def test_errors_and_divergence_come_through() -> None:
    end = Partition.EpochEndOffset(epoch=1, end_offset=7)
    leader, _ = leader_with(
        fetch_response(
            Partition(partition_index=0, high_watermark=0, records=None, diverging_epoch=end)
        ),
        fetch_response(
            Partition(
                partition_index=0,
                high_watermark=-1,
                records=None,
                error_code=ErrorCode.OFFSET_OUT_OF_RANGE,
            )
        ),
    )
    assert leader.fetch([request()])[0].diverging_epoch == EpochEnd(1, 7)
    (refused,) = leader.fetch([request()])
    assert (refused.error, refused.diverging_epoch) == (ErrorCode.OFFSET_OUT_OF_RANGE, None)


def test_error_code_of_a_newer_broker_is_a_failure_not_a_crash() -> None:
    leader, _ = leader_with(
        fetch_response(Partition(partition_index=0, high_watermark=0, records=None, error_code=999))
    )
    assert leader.fetch([request()])[0].error is ErrorCode.UNKNOWN_SERVER_ERROR


def test_lost_connection_is_made_again_on_the_next_call() -> None:
    answer = fetch_response(Partition(partition_index=0, high_watermark=4, records=None))
    leader, clients = leader_with(BrokerDisconnected("gone"), answer)
    with pytest.raises(LeaderUnavailable):
        leader.fetch([request()])
    assert leader.fetch([request()])[0].high_watermark == 4
    assert len(clients) == 2


def test_refused_fetch_is_tried_again_later() -> None:
    leader, _ = leader_with(fetch_response(error_code=ErrorCode.UNKNOWN_SERVER_ERROR))
    with pytest.raises(LeaderUnavailable, match="UNKNOWN_SERVER_ERROR"):
        leader.fetch([request()])


def test_closed_leader_makes_no_new_connection() -> None:
    leader, clients = leader_with()
    leader.close()
    with pytest.raises(LeaderUnavailable):
        leader.fetch([request()])
    assert clients == []


def test_closing_a_leader_closes_its_connection() -> None:
    answer = fetch_response(Partition(partition_index=0, high_watermark=4, records=None))
    leader, clients = leader_with(answer)
    leader.fetch([request()])
    leader.close()
    assert [client.is_closed for client in clients] == [True]


def test_offsets_of_the_leader_are_listed() -> None:
    found = ListOffsetsResponse.Topic.Partition(partition_index=0, offset=42)
    refused = ListOffsetsResponse.Topic.Partition(
        partition_index=0, error_code=ErrorCode.FENCED_LEADER_EPOCH
    )
    leader, clients = leader_with(
        ListOffsetsResponse(topics=[ListOffsetsResponse.Topic(name="orders", partitions=[found])]),
        ListOffsetsResponse(
            topics=[ListOffsetsResponse.Topic(name="orders", partitions=[refused])]
        ),
    )
    assert leader.find_offset(TP, -1, 3) == 42
    with pytest.raises(ApiError) as raised:
        leader.find_offset(TP, -2, 3)
    assert raised.value.code is ErrorCode.FENCED_LEADER_EPOCH
    assert [call.topics[0].partitions[0].timestamp for call, _ in clients[0].calls] == [-1, -2]


def test_end_of_an_epoch_is_asked() -> None:
    partition = OffsetForLeaderEpochResponse.Topic.Partition(
        partition=0, leader_epoch=2, end_offset=30
    )
    leader, _ = leader_with(
        OffsetForLeaderEpochResponse(
            topics=[OffsetForLeaderEpochResponse.Topic(topic="orders", partitions=[partition])]
        )
    )
    assert leader.end_offset_for_epoch(TP, 2, 3) == EpochEnd(2, 30)


def test_epoch_whose_end_the_leader_does_not_tell_raises_its_error() -> None:
    partition = OffsetForLeaderEpochResponse.Topic.Partition(
        partition=0, error_code=ErrorCode.FENCED_LEADER_EPOCH
    )
    leader, clients = leader_with(
        OffsetForLeaderEpochResponse(
            topics=[OffsetForLeaderEpochResponse.Topic(topic="orders", partitions=[partition])]
        )
    )
    with pytest.raises(ApiError) as raised:
        leader.end_offset_for_epoch(TP, 2, 3)
    assert raised.value.code is ErrorCode.FENCED_LEADER_EPOCH
    ((sent, _),) = clients[0].calls
    (asked,) = sent.topics[0].partitions
    assert (sent.replica_id, asked.leader_epoch, asked.current_leader_epoch) == (2, 2, 3)


def sessions(clients: list[ScriptedClient]) -> list[tuple[int, int, list[int], list[int]]]:
    """Session id, epoch, and the partitions named and forgotten, of every fetch that was sent."""
    return [
        (
            sent.session_id,
            sent.session_epoch,
            [partition.partition for topic in sent.topics for partition in topic.partitions],
            [index for topic in sent.forgotten_topics_data for index in topic.partitions],
        )
        for client in clients
        for sent, _ in client.calls
    ]


def both(first_offset: int = 5, second_offset: int = 5) -> list[PartitionFetch]:
    second = request(second_offset)._replace(topic_partition=TopicPartition("orders", 1))
    return [request(first_offset), second]


def answer_of_both(**fields: Any) -> FetchResponse:
    return fetch_response(
        *(Partition(partition_index=index, high_watermark=4, records=None) for index in (0, 1)),
        **fields,
    )


NO_NEWS = FetchResponse(session_id=7, responses=[])


def test_a_session_names_only_what_has_changed() -> None:
    leader, clients = leader_with(answer_of_both(session_id=7), NO_NEWS, NO_NEWS)
    leader.fetch(both())
    assert leader.fetch(both(second_offset=6)) == []
    leader.fetch([request()])
    assert sessions(clients) == [(0, 0, [0, 1], []), (7, 1, [1], []), (7, 2, [], [1])]


def test_a_topic_that_was_made_again_is_forgotten_under_its_old_id() -> None:
    leader, clients = leader_with(answer_of_both(session_id=7), NO_NEWS)
    leader.fetch([request()])
    new_id = uuid.UUID(int=10)
    leader.fetch([request(topic_id=new_id)])
    sent, _ = clients[0].calls[1]
    assert [topic.topic_id for topic in sent.topics] == [new_id]
    assert [topic.topic_id for topic in sent.forgotten_topics_data] == [TOPIC_ID]


def test_without_a_session_at_the_leader_every_fetch_is_whole() -> None:
    leader, clients = leader_with(answer_of_both(session_id=0), answer_of_both(session_id=0))
    leader.fetch(both())
    leader.fetch(both())
    assert sessions(clients) == [(0, 0, [0, 1], []), (0, 0, [0, 1], [])]


@pytest.mark.parametrize(
    ("error", "next_id"),
    [
        (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0),
        (ErrorCode.INVALID_FETCH_SESSION_EPOCH, 7),
        (ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, 7),
    ],
)
def test_a_session_that_the_leader_refuses_begins_anew_at_once(
    error: ErrorCode, next_id: int
) -> None:
    refusal = FetchResponse(error_code=error, responses=[])
    leader, clients = leader_with(
        answer_of_both(session_id=7), refusal, answer_of_both(session_id=8), NO_NEWS
    )
    leader.fetch(both())
    assert list(leader.fetch(both())) == []
    assert len(leader.fetch(both())) == 2
    leader.fetch(both())
    assert sessions(clients)[2:] == [(next_id, 0, [0, 1], []), (8, 1, [], [])]


@pytest.mark.parametrize(
    "problem",
    [
        FetchResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR, responses=[]),
        BrokerDisconnected("gone"),
    ],
    ids=["error", "lost connection"],
)
def test_a_session_starts_over_after_a_lost_connection_and_after_other_errors(
    problem: object,
) -> None:
    leader, clients = leader_with(answer_of_both(session_id=7), problem, answer_of_both())
    leader.fetch(both())
    with pytest.raises(LeaderUnavailable):
        leader.fetch(both())
    leader.fetch(both())
    assert sessions(clients)[2:] == [(7, 0, [0, 1], [])]


def test_changing_between_ids_and_names_begins_a_new_session() -> None:
    leader, clients = leader_with(answer_of_both(session_id=7), answer_of_both(session_id=8))
    leader.fetch([request()])
    leader.fetch([request(topic_id=uuid.UUID(int=0))])
    assert sessions(clients) == [(0, 0, [0], []), (7, 0, [0], [])]
