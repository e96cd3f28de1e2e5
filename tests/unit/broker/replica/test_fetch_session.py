import random
import uuid
from collections.abc import Iterable, Sequence

import pytest

from embedkafka.broker.replica.fetch import PartitionData, PartitionFetch
from embedkafka.broker.replica.fetch_session import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    NO_SESSION,
    Answer,
    FetchContext,
    FetchManager,
    SessionAnswer,
    SessionKey,
    next_epoch,
)
from embedkafka.runtime.clock import ManualClock
from embedkafka.runtime.ids import TopicPartition
from embedkafka.wire.protocol.errors import ErrorCode
from embedkafka.wire.protocol.wire_types import ZERO_UUID

ORDERS_ID = uuid.UUID(int=7)


def want(
    topic: str, partition: int, offset: int = 0, topic_id: uuid.UUID = ZERO_UUID
) -> PartitionFetch:
    return PartitionFetch(TopicPartition(topic, partition), offset, 1_000, topic_id=topic_id)


def answer(request: PartitionFetch, mark: int = 0, records: bytes = b"") -> Answer:
    return request, PartitionData(
        request.topic_partition,
        high_watermark=mark,
        log_start_offset=0,
        records=memoryview(records),
    )


def refused(request: PartitionFetch, error: ErrorCode) -> Answer:
    return request, PartitionData(request.topic_partition, error)


class Sessions:
    """A broker's sessions, asked the way a fetch handler asks."""

    def __init__(self, slots: int = 10) -> None:
        self.clock = ManualClock()
        self.manager = FetchManager(self.clock, random.Random(1), slots=slots)
        self.topics = {ORDERS_ID: "orders"}

    def context(
        self,
        session_id: int,
        epoch: int,
        wanted: Sequence[PartitionFetch] = (),
        forgotten: Iterable[SessionKey] = (),
        *,
        by_id: bool = False,
        is_follower: bool = False,
    ) -> FetchContext:
        return self.manager.new_context(
            session_id=session_id,
            epoch=epoch,
            uses_topic_ids=by_id,
            is_follower=is_follower,
            wanted=wanted,
            forgotten=forgotten,
            resolve=self.topics.get,
        )

    def begin(self, *wanted: PartitionFetch, is_follower: bool = False) -> SessionAnswer:
        context = self.context(0, INITIAL_EPOCH, wanted, is_follower=is_follower)
        return context.update_and_generate([answer(request) for request in context.partitions])


@pytest.fixture
def sessions() -> Sessions:
    return Sessions()


def test_final_epoch_without_a_session_makes_none(sessions: Sessions) -> None:
    context = sessions.context(0, FINAL_EPOCH, [want("orders", 0)])
    result = context.update_and_generate([answer(r) for r in context.partitions])
    assert (result.session_id, len(result.answers), sessions.manager.session_count) == (0, 1, 0)


def test_full_fetch_begins_a_session_and_answers_everything(sessions: Sessions) -> None:
    result = sessions.begin(want("orders", 0), want("orders", 1))
    assert result.session_id != NO_SESSION
    assert len(result.answers) == 2


def test_each_full_fetch_has_a_session_of_its_own(sessions: Sessions) -> None:
    first, second = (sessions.begin(want("orders", 0)).session_id for _ in range(2))
    assert first > NO_SESSION
    assert second > NO_SESSION
    assert sessions.manager.session_count == 2


def test_incremental_fetch_adds_partitions(sessions: Sessions) -> None:
    session_id = sessions.begin(want("orders", 0)).session_id
    context = sessions.context(session_id, 1, [want("orders", 1, offset=5)])
    assert [(r.topic_partition.partition, r.fetch_offset) for r in context.partitions] == [
        (0, 0),
        (1, 5),
    ]
    result = context.update_and_generate([answer(r) for r in context.partitions])
    assert [request.topic_partition.partition for request, _ in result.answers] == [1]


def test_broker_0_can_be_the_preferred_replica(sessions: Sessions) -> None:
    session_id = sessions.begin(want("orders", 0)).session_id
    context = sessions.context(session_id, 1)
    ((request, data),) = [answer(r) for r in context.partitions]
    sent = context.update_and_generate([(request, data._replace(preferred_read_replica=0))])
    assert len(sent.answers) == 1


def test_incremental_fetch_reads_all_partitions_and_answers_the_news(sessions: Sessions) -> None:
    session_id = sessions.begin(want("orders", 0), want("orders", 1)).session_id
    context = sessions.context(session_id, 1, [want("orders", 0, offset=5)])
    assert [(r.topic_partition.partition, r.fetch_offset) for r in context.partitions] == [
        (0, 5),
        (1, 0),
    ]
    first, second = context.partitions
    result = context.update_and_generate([answer(first, mark=6), answer(second)])
    assert [request for request, _ in result.answers] == [first]


def test_partition_with_records_is_answered_and_goes_to_the_end(sessions: Sessions) -> None:
    session_id = sessions.begin(want("orders", 0), want("orders", 1)).session_id
    context = sessions.context(session_id, 1)
    first, second = context.partitions
    context.update_and_generate([answer(first, records=b"batch"), answer(second)])
    order = [r.topic_partition.partition for r in sessions.context(session_id, 2).partitions]
    assert order == [1, 0]


def test_partition_is_shown_again_after_its_error_went_away(sessions: Sessions) -> None:
    session_id = sessions.begin(want("orders", 0)).session_id
    for epoch, make in enumerate(
        [lambda r: refused(r, ErrorCode.NOT_LEADER_OR_FOLLOWER), answer], start=1
    ):
        context = sessions.context(session_id, epoch)
        result = context.update_and_generate([make(r) for r in context.partitions])
        assert len(result.answers) == 1


def test_forgotten_partitions_leave_and_the_last_one_ends_the_session(sessions: Sessions) -> None:
    session_id = sessions.begin(want("orders", 0), want("orders", 1)).session_id
    context = sessions.context(session_id, 1, forgotten=[("orders", 0)])
    assert [r.topic_partition.partition for r in context.partitions] == [1]
    context = sessions.context(session_id, 2, forgotten=[("orders", 1)])
    assert context.update_and_generate([]).session_id == NO_SESSION
    assert sessions.manager.session_count == 0


def test_unknown_session_is_told(sessions: Sessions) -> None:
    context = sessions.context(99, 1)
    assert context.error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert context.update_and_generate([]) == (context.error, NO_SESSION, ())


def test_wrong_epoch_is_told_and_the_session_stays(sessions: Sessions) -> None:
    session_id = sessions.begin(want("orders", 0)).session_id
    assert sessions.context(session_id, 2).error is ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert sessions.context(session_id, 1).error is ErrorCode.NONE


def test_epochs_wrap_around_to_1() -> None:
    assert next_epoch(INITIAL_EPOCH) == 1
    assert next_epoch(2**31 - 1) == 1


def test_overtaken_request_gets_no_answer(sessions: Sessions) -> None:
    session_id = sessions.begin(want("orders", 0)).session_id
    slow = sessions.context(session_id, 1)
    sessions.context(session_id, 2)
    result = slow.update_and_generate([answer(r) for r in slow.partitions])
    assert (result.error, result.answers) == (ErrorCode.INVALID_FETCH_SESSION_EPOCH, ())


def test_full_fetch_closes_the_session_it_names(sessions: Sessions) -> None:
    session_id = sessions.begin(want("orders", 0)).session_id
    sessions.context(session_id, FINAL_EPOCH)
    assert sessions.manager.session_count == 0


def test_session_by_name_cannot_go_on_by_id(sessions: Sessions) -> None:
    session_id = sessions.begin(want("orders", 0)).session_id
    context = sessions.context(session_id, 1, by_id=True)
    assert context.error is ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


def test_topic_ids_are_resolved_once_the_broker_knows_them(sessions: Sessions) -> None:
    sessions.topics.clear()
    context = sessions.context(0, INITIAL_EPOCH, [want("", 0, topic_id=ORDERS_ID)], by_id=True)
    (request,) = context.partitions
    assert request.topic_partition.topic == ""
    result = context.update_and_generate([refused(request, ErrorCode.UNKNOWN_TOPIC_ID)])
    sessions.topics[ORDERS_ID] = "orders"
    context = sessions.context(result.session_id, 1, by_id=True)
    assert [r.topic_partition for r in context.partitions] == [TopicPartition("orders", 0)]
    context = sessions.context(result.session_id, 2, forgotten=[(ORDERS_ID, 0)], by_id=True)
    assert not context.partitions


def test_full_cache_makes_no_session_while_all_are_young() -> None:
    sessions = Sessions(slots=1)
    sessions.begin(want("orders", 0))
    assert sessions.begin(want("orders", 0), want("orders", 1)).session_id == NO_SESSION


def test_follower_pushes_out_a_consumer_at_once() -> None:
    sessions = Sessions(slots=1)
    sessions.begin(want("orders", 0))
    assert sessions.begin(want("orders", 0), is_follower=True).session_id != NO_SESSION


def test_session_unused_for_long_gives_way() -> None:
    sessions = Sessions(slots=1)
    sessions.begin(want("orders", 0), want("orders", 1))
    sessions.clock.advance(120_001)
    assert sessions.begin(want("orders", 0)).session_id != NO_SESSION


def test_session_in_use_outlives_one_that_is_not() -> None:
    sessions = Sessions(slots=2)
    used = sessions.begin(want("orders", 0)).session_id
    unused = sessions.begin(want("orders", 0), want("orders", 1)).session_id
    sessions.clock.advance(120_001)
    sessions.context(used, 1)
    assert sessions.begin(want("orders", 0)).session_id != NO_SESSION
    assert sessions.context(used, 2).error is ErrorCode.NONE
    assert sessions.context(unused, 1).error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_session_has_its_slot_for_two_whole_minutes() -> None:
    sessions = Sessions(slots=1)
    sessions.begin(want("orders", 0))
    sessions.clock.advance(120_000)
    assert sessions.begin(want("orders", 0), want("orders", 1)).session_id == NO_SESSION


def test_cache_without_slots_makes_no_session() -> None:
    assert Sessions(slots=0).begin(want("orders", 0)).session_id == NO_SESSION


def test_old_session_gives_way_to_a_larger_one_only() -> None:
    sessions = Sessions(slots=1)
    session_id = sessions.begin(want("orders", 0), want("orders", 1)).session_id
    sessions.clock.advance(120_001)
    context = sessions.context(session_id, 1)
    context.update_and_generate([])
    assert sessions.begin(want("orders", 0)).session_id == NO_SESSION
    larger = [want("orders", n) for n in range(3)]
    assert sessions.begin(*larger).session_id != NO_SESSION
