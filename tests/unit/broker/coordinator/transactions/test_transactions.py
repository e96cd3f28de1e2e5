from dataclasses import replace
from typing import Any

import pytest

from embedkafka.broker.coordinator.transactions.config import TxnConfig
from embedkafka.runtime.ids import TopicPartition
from embedkafka.wire.protocol.errors import ErrorCode
from embedkafka.wire.protocol.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    ListTransactionsRequest,
)
from tests.unit.broker.coordinator.transactions.conftest import Coordinator

T0, T1 = ("t", 0), ("t", 1)
LAST_EPOCH = 2**15 - 2
HOUR_MS = 3_600_000


def ongoing(coordinator: Coordinator, *partitions: Any) -> Any:
    """Opens a transaction over `partitions` (T0 by default); returns its producer."""
    producer = coordinator.init().producer
    assert coordinator.add(producer, *(partitions or (T0,))) is ErrorCode.NONE
    return producer


# InitProducerId


def test_a_new_transactional_id_starts_with_epoch_zero(coordinator: Coordinator) -> None:
    assert coordinator.init().producer == (1000, 0)
    assert coordinator.init("other").producer == (1001, 0)
    assert coordinator.state() == "Empty"


def test_starting_again_fences_the_predecessor(coordinator: Coordinator) -> None:
    old = coordinator.init().producer
    new = coordinator.init().producer
    assert new == (1000, 1)
    assert coordinator.add(old, T0) is ErrorCode.PRODUCER_FENCED
    assert coordinator.end(old).error is ErrorCode.PRODUCER_FENCED
    assert coordinator.add(new, T0) is ErrorCode.NONE


@pytest.mark.parametrize(
    ("version", "error"),
    [(1, ErrorCode.INVALID_PRODUCER_EPOCH), (2, ErrorCode.PRODUCER_FENCED)],
)
def test_clients_learn_that_they_are_fenced_in_the_terms_of_their_version(
    coordinator: Coordinator, version: int, error: ErrorCode
) -> None:
    old = coordinator.init().producer
    coordinator.init()
    assert coordinator.add(old, T0, version=version) is error
    assert add_offsets(coordinator, old, version=version).error is error
    assert coordinator.end(old, version=version).error is error


def test_a_producer_without_transactional_id_gets_a_fresh_id(coordinator: Coordinator) -> None:
    assert coordinator.init(None).producer == (1000, 0)
    assert coordinator.init(None).producer == (1001, 0)


def test_a_producer_that_recovers_bumps_its_own_epoch(coordinator: Coordinator) -> None:
    producer = coordinator.init().producer
    bumped = coordinator.init(producer=producer).producer
    assert bumped == (1000, 1)
    assert coordinator.init(producer=producer).producer == bumped  # a retry after a lost answer
    assert coordinator.init(producer=bumped).producer == (1000, 2)
    assert coordinator.init(producer=producer).error is ErrorCode.PRODUCER_FENCED
    assert coordinator.init(producer=producer, version=3).error is ErrorCode.INVALID_PRODUCER_EPOCH
    assert coordinator.init(producer=(77, 0)).error is ErrorCode.PRODUCER_FENCED


def test_a_recovery_after_another_start_is_fenced(coordinator: Coordinator) -> None:
    producer = coordinator.init().producer
    coordinator.init()
    assert coordinator.init(producer=producer).error is ErrorCode.PRODUCER_FENCED


def test_a_recovery_with_the_epoch_but_not_the_id_of_the_producer_is_fenced(
    coordinator: Coordinator,
) -> None:
    coordinator.init()
    assert coordinator.init(producer=(77, 0)).error is ErrorCode.PRODUCER_FENCED
    assert coordinator.init().producer == (1000, 1)


def test_a_recovery_of_an_id_that_was_forgotten_starts_afresh(coordinator: Coordinator) -> None:
    assert coordinator.init(producer=(77, 5)).producer == (1000, 0)


def test_a_stranger_does_not_abort_an_open_transaction(coordinator: Coordinator) -> None:
    producer = ongoing(coordinator)
    assert coordinator.init(producer=(77, 0)).error is ErrorCode.PRODUCER_FENCED
    assert coordinator.state() == "Ongoing"
    assert coordinator.end(producer).error is ErrorCode.NONE


def test_starting_aborts_an_open_transaction_first(coordinator: Coordinator) -> None:
    old = ongoing(coordinator)
    assert coordinator.init().error is ErrorCode.CONCURRENT_TRANSACTIONS
    assert coordinator.state() == "CompleteAbort"
    assert coordinator.leaders.markers() == [(1, 1000, 1, False, {T0})]
    assert coordinator.init().producer == (1000, 2)
    assert coordinator.end(old).error is ErrorCode.PRODUCER_FENCED


def test_starting_waits_for_a_prepared_transaction(coordinator: Coordinator) -> None:
    producer = ongoing(coordinator)
    coordinator.leaders.hold()
    coordinator.end(producer)
    assert coordinator.init().error is ErrorCode.CONCURRENT_TRANSACTIONS
    coordinator.leaders.release()
    coordinator.loop.run()
    assert coordinator.init().producer == (1000, 1)


def test_requests_meet_a_start_in_progress(coordinator: Coordinator) -> None:
    producer = coordinator.init().producer
    coordinator.log.hold()
    first = coordinator.init()
    assert first.is_waiting
    assert coordinator.init().error is ErrorCode.CONCURRENT_TRANSACTIONS
    assert coordinator.add(producer, T0) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert coordinator.end(producer).error is ErrorCode.CONCURRENT_TRANSACTIONS
    coordinator.log.release()
    coordinator.loop.run()
    assert first.producer == (1000, 1)


def exhaust(coordinator: Coordinator) -> tuple[Any, Any]:
    """Gives the producer of `tx` the last epoch that a client may have."""
    coordinator.init()
    entry = coordinator.shard()._entries["tx"]
    entry.current = replace(entry.current, producer_epoch=LAST_EPOCH)
    return entry.current.producer_id, LAST_EPOCH


def test_used_up_epochs_lead_to_a_new_producer_id(coordinator: Coordinator) -> None:
    exhaust(coordinator)
    assert coordinator.init().producer == (1001, 0)


def test_a_recovery_across_used_up_epochs_can_be_retried(coordinator: Coordinator) -> None:
    producer = exhaust(coordinator)
    assert coordinator.init(producer=producer).producer == (1001, 0)
    assert coordinator.init(producer=producer).producer == (1001, 0)


def test_only_the_last_epoch_of_the_former_producer_id_can_retry_its_recovery(
    coordinator: Coordinator,
) -> None:
    old_id, last_epoch = exhaust(coordinator)
    assert coordinator.init(producer=(77, last_epoch)).error is ErrorCode.PRODUCER_FENCED
    assert coordinator.init(producer=(old_id, last_epoch)).producer == (1001, 0)
    assert coordinator.init(producer=(old_id, 0)).error is ErrorCode.PRODUCER_FENCED


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"transactional_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"timeout_ms": 900_001}, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        ({"timeout_ms": 0}, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        ({"producer": (5, -1)}, ErrorCode.INVALID_REQUEST),
        ({"producer": (-1, 5)}, ErrorCode.INVALID_REQUEST),
    ],
)
def test_impossible_starts_are_refused(
    coordinator: Coordinator, arguments: dict[Any, Any], error: Any
) -> None:
    reply = coordinator.init(**arguments)
    assert reply.error is error
    assert (reply.response.producer_id, reply.response.producer_epoch) == (-1, -1)


@pytest.mark.parametrize("timeout_ms", [1, 900_000])
def test_the_shortest_and_the_longest_timeout_are_allowed(
    coordinator: Coordinator, timeout_ms: int
) -> None:
    assert coordinator.init(timeout_ms=timeout_ms).error is ErrorCode.NONE


# Partitions


def test_the_first_partition_begins_the_transaction(coordinator: Coordinator) -> None:
    producer = ongoing(coordinator)
    assert coordinator.state() == "Ongoing"
    start_ms = coordinator.shard().find("tx").start_timestamp_ms
    coordinator.clock.advance(5)
    assert coordinator.add(producer, T1) is ErrorCode.NONE
    transaction = coordinator.shard().find("tx")
    assert transaction.partitions == {TopicPartition(*T0), TopicPartition(*T1)}
    assert transaction.start_timestamp_ms == start_ms


def test_partitions_that_are_in_already_are_not_stored_again(coordinator: Coordinator) -> None:
    producer = ongoing(coordinator)
    coordinator.log.hold()
    assert coordinator.add(producer, T0) is ErrorCode.NONE


def test_strangers_add_nothing(coordinator: Coordinator) -> None:
    producer = coordinator.init().producer
    mapping = ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert coordinator.add((5, 0), T0) is mapping
    assert coordinator.add(producer, T0, transactional_id="other") is mapping
    for version in (4, 5):
        assert coordinator.end((5, 0), version=version).error is mapping
        other = coordinator.end(producer, transactional_id="other", version=version)
        assert other.error is mapping


def test_leaders_verify_partitions(coordinator: Coordinator) -> None:
    producer = ongoing(coordinator)

    def verify(producer: Any, partition: Any) -> Any:
        return coordinator.add(producer, partition, version=4, verify_only=True)

    assert verify(producer, T0) is ErrorCode.NONE
    assert verify(producer, T1) is ErrorCode.TRANSACTION_ABORTABLE
    assert verify((producer[0], 7), T0) is ErrorCode.PRODUCER_FENCED
    assert verify((7, 0), T0) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    coordinator.leaders.hold()
    coordinator.end(producer)
    assert verify(producer, T0) is ErrorCode.CONCURRENT_TRANSACTIONS


def test_one_request_serves_several_transactions(coordinator: Coordinator) -> None:
    first, second = coordinator.init("a").producer, coordinator.init("b").producer
    topic = AddPartitionsToTxnRequest.Transaction.Topic(name="t", partitions=[0, 1])
    request = AddPartitionsToTxnRequest(
        transactions=[
            AddPartitionsToTxnRequest.Transaction(
                transactional_id=name,
                producer_id=producer[0],
                producer_epoch=producer[1],
                topics=[topic],
            )
            for name, producer in (("a", first), ("b", second), ("c", (9, 9)))
        ]
    )
    response = coordinator.send(coordinator.service.add_partitions_to_txn, request, 4).response
    codes = [
        (
            result.transactional_id,
            [p.partition_error_code for p in result.topic_results[0].results_by_partition],
        )
        for result in response.results_by_transaction
    ]
    mapping = ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert codes == [("a", [0, 0]), ("b", [0, 0]), ("c", [mapping, mapping])]


def test_a_request_without_transactions_is_answered(coordinator: Coordinator) -> None:
    request = AddPartitionsToTxnRequest(transactions=[])
    response = coordinator.send(coordinator.service.add_partitions_to_txn, request, 4).response
    assert list(response.results_by_transaction) == []


OFFSETS = TopicPartition("__consumer_offsets", 7)


def add_offsets(coordinator: Coordinator, producer: Any, *, version: int = 3) -> Any:
    request = AddOffsetsToTxnRequest(
        transactional_id="tx", producer_id=producer[0], producer_epoch=producer[1], group_id="g"
    )
    return coordinator.send(coordinator.service.add_offsets_to_txn, request, OFFSETS, version)


def test_offsets_of_a_group_join_the_transaction(coordinator: Coordinator) -> None:
    producer = coordinator.init().producer
    assert add_offsets(coordinator, producer).error is ErrorCode.NONE
    coordinator.end(producer)
    assert coordinator.leaders.markers() == [(1, 1000, 0, True, {OFFSETS})]


def test_the_version_of_a_request_says_whether_its_client_bumps_epochs(
    coordinator: Coordinator,
) -> None:
    producer = coordinator.init().producer

    def stored_version() -> int:
        return coordinator.successor().shard().find("tx").client_version

    coordinator.add(producer, T0, version=3)
    assert stored_version() == 0
    coordinator.add(producer, T1, version=4)
    assert stored_version() == 2
    add_offsets(coordinator, producer)
    assert stored_version() == 0
    coordinator.end(producer, version=4)
    coordinator.add(producer, T0, version=3)
    coordinator.end(producer, version=5)
    markers = [marker for _, request in coordinator.leaders.requests for marker in request.markers]
    assert [marker.transaction_version for marker in markers] == [0, 2]


# EndTxn


@pytest.mark.parametrize("committed", [True, False])
def test_the_outcome_reaches_every_partition(coordinator: Coordinator, committed: bool) -> None:
    producer = ongoing(coordinator, T0, T1)
    coordinator.leaders.leaders[TopicPartition(*T1)] = 2
    assert coordinator.end(producer, committed=committed).error is ErrorCode.NONE
    assert sorted(coordinator.leaders.markers()) == [
        (1, 1000, 0, committed, {T0}),
        (2, 1000, 0, committed, {T1}),
    ]
    assert coordinator.state() == ("CompleteCommit" if committed else "CompleteAbort")


def test_the_answer_comes_before_the_markers(coordinator: Coordinator) -> None:
    producer = ongoing(coordinator)
    coordinator.leaders.hold()
    assert coordinator.end(producer).error is ErrorCode.NONE
    assert coordinator.state() == "PrepareCommit"
    assert coordinator.end(producer).error is ErrorCode.CONCURRENT_TRANSACTIONS
    assert coordinator.add(producer, T0) is ErrorCode.CONCURRENT_TRANSACTIONS
    coordinator.leaders.release()
    coordinator.loop.run()
    assert coordinator.state() == "CompleteCommit"


def test_ending_twice_is_fine_but_not_in_two_ways(coordinator: Coordinator) -> None:
    producer = ongoing(coordinator)
    coordinator.end(producer)
    assert coordinator.end(producer).error is ErrorCode.NONE
    assert coordinator.end(producer, committed=False).error is ErrorCode.INVALID_TXN_STATE


def test_there_must_be_a_transaction_to_end(coordinator: Coordinator) -> None:
    producer = coordinator.init().producer
    assert coordinator.end(producer).error is ErrorCode.INVALID_TXN_STATE
    assert coordinator.end(producer, committed=False).error is ErrorCode.INVALID_TXN_STATE


def test_the_next_transaction_goes_on_with_the_same_epoch(coordinator: Coordinator) -> None:
    producer = ongoing(coordinator)
    coordinator.end(producer)
    assert coordinator.add(producer, T1) is ErrorCode.NONE
    assert coordinator.shard().find("tx").partitions == {TopicPartition(*T1)}


@pytest.mark.parametrize(
    ("append_error", "answer"),
    [
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_what_is_not_stored_has_not_happened(
    coordinator: Coordinator, append_error: Any, answer: Any
) -> None:
    producer = ongoing(coordinator)
    coordinator.log.errors.append(append_error)
    assert coordinator.end(producer).error is answer
    assert coordinator.state() == "Ongoing"
    coordinator.log.errors.append(append_error)
    assert coordinator.add(producer, T1) is answer
    coordinator.log.errors.append(append_error)
    assert coordinator.init("new").error is answer
    assert coordinator.leaders.markers() == []
    assert coordinator.end(producer).error is ErrorCode.NONE


# EndTxn from v5 on (KIP-890)


def test_every_end_takes_a_new_epoch(coordinator: Coordinator) -> None:
    producer = coordinator.init().producer
    assert coordinator.add(producer, T0, version=4) is ErrorCode.NONE
    reply = coordinator.end(producer, version=5)
    assert reply.producer == (1000, 1)
    assert coordinator.leaders.markers() == [(1, 1000, 1, True, {T0})]
    assert coordinator.add(producer, T0, version=4) is ErrorCode.PRODUCER_FENCED
    assert coordinator.add(reply.producer, T0, version=4) is ErrorCode.NONE


def test_a_retried_end_is_known_by_the_epoch_before(coordinator: Coordinator) -> None:
    producer = ongoing(coordinator)
    coordinator.leaders.hold()
    coordinator.end(producer, version=5)
    assert coordinator.end(producer, version=5).error is ErrorCode.CONCURRENT_TRANSACTIONS
    other = coordinator.end(producer, committed=False, version=5)
    assert other.error is ErrorCode.CONCURRENT_TRANSACTIONS
    coordinator.leaders.release()
    coordinator.loop.run()
    assert coordinator.end(producer, version=5).producer == (1000, 1)
    assert (
        coordinator.end(producer, committed=False, version=5).error is ErrorCode.INVALID_TXN_STATE
    )


def test_an_abort_of_nothing_takes_a_new_epoch_too(coordinator: Coordinator) -> None:
    producer = coordinator.init().producer
    first = coordinator.end(producer, committed=False, version=5).producer
    assert first == (1000, 1)
    second = coordinator.end(first, committed=False, version=5).producer
    assert second == (1000, 2)
    assert coordinator.state() == "CompleteAbort"
    assert coordinator.end(second, version=5).error is ErrorCode.INVALID_TXN_STATE
    assert coordinator.end((1000, 0), version=5).error is ErrorCode.PRODUCER_FENCED
    assert coordinator.leaders.markers() == []


def test_a_transaction_keeps_its_start_time_to_the_end(coordinator: Coordinator) -> None:
    producer = ongoing(coordinator)
    start_ms = coordinator.clock.now_ms()
    coordinator.clock.advance(5)
    next_producer = coordinator.end(producer, version=5).producer
    assert describe(coordinator, "tx").transaction_start_time_ms == start_ms
    coordinator.end(next_producer, committed=False, version=5)
    assert describe(coordinator, "tx").transaction_start_time_ms == start_ms + 5


def test_a_second_commit_in_the_new_epoch_is_no_retry(coordinator: Coordinator) -> None:
    producer = ongoing(coordinator)
    next_producer = coordinator.end(producer, version=5).producer
    assert coordinator.end(next_producer, version=5).error is ErrorCode.INVALID_TXN_STATE


def test_an_end_before_the_first_transaction_is_no_retry(coordinator: Coordinator) -> None:
    old = coordinator.init().producer
    coordinator.init()
    for committed in (True, False):
        end = coordinator.end(old, committed=committed, version=5)
        assert end.error is ErrorCode.PRODUCER_FENCED


def test_a_producer_with_its_next_id_waits_for_the_step_to_it(coordinator: Coordinator) -> None:
    producer = exhaust(coordinator)
    coordinator.add(producer, T0)
    coordinator.leaders.hold()
    following = coordinator.end(producer, version=5).producer
    assert following == (1001, 0)
    assert coordinator.add(following, T0, version=4) is ErrorCode.CONCURRENT_TRANSACTIONS
    again = coordinator.end(following, committed=False, version=5)
    assert again.error is ErrorCode.CONCURRENT_TRANSACTIONS
    coordinator.leaders.release()
    coordinator.loop.run()
    assert coordinator.add(following, T0, version=4) is ErrorCode.NONE


def test_the_last_epoch_ends_with_a_new_producer_id(coordinator: Coordinator) -> None:
    producer = exhaust(coordinator)
    coordinator.add(producer, T0)
    reply = coordinator.end(producer, version=5)
    assert reply.producer == (1001, 0)
    assert coordinator.leaders.markers() == [(1, 1000, LAST_EPOCH + 1, True, {T0})]
    assert coordinator.end(producer, version=5).producer == (1001, 0)
    assert coordinator.add(reply.producer, T0) is ErrorCode.NONE


@pytest.mark.parametrize("impostor", [(1000, 3), (77, LAST_EPOCH)])
def test_only_the_last_epoch_of_the_former_producer_id_can_retry_its_end(
    coordinator: Coordinator, impostor: Any
) -> None:
    producer = exhaust(coordinator)
    coordinator.add(producer, T0)
    coordinator.end(producer, version=5)
    late = coordinator.end(impostor, version=5)
    assert late.error is ErrorCode.INVALID_PRODUCER_ID_MAPPING


# Timeouts


@pytest.fixture
def timed(new_coordinator: type[Coordinator]) -> Coordinator:
    config = TxnConfig(
        transaction_state_log_num_partitions=1, transactional_id_expiration_ms=4 * HOUR_MS
    )
    coordinator = new_coordinator(config).lead()
    coordinator.service.start()
    return coordinator


def test_a_transaction_that_runs_too_long_is_aborted_and_its_producer_fenced(
    timed: Coordinator,
) -> None:
    producer = ongoing(timed)
    timed.advance(60_000)
    assert timed.state() == "Ongoing"
    timed.advance(10_000)
    assert timed.state() == "CompleteAbort"
    assert timed.leaders.markers() == [(1, 1000, 1, False, {T0})]
    assert timed.end(producer).error is ErrorCode.PRODUCER_FENCED
    assert timed.add(producer, T0) is ErrorCode.PRODUCER_FENCED


def test_a_timed_out_producer_that_knows_bumps_may_abort_and_go_on(timed: Coordinator) -> None:
    producer = ongoing(timed)
    timed.advance(70_000)
    assert timed.end(producer, version=5).error is ErrorCode.INVALID_TXN_STATE
    assert timed.end(producer, committed=False, version=5).producer == (1000, 1)


def test_a_timed_out_producer_that_recovers_takes_the_epoch_of_the_abort(
    timed: Coordinator,
) -> None:
    producer = ongoing(timed)
    timed.advance(70_000)
    assert timed.init(producer=producer).producer == (1000, 1)


def test_a_timed_out_producer_cannot_recover_before_transaction_version_2(
    new_coordinator: type[Coordinator],
) -> None:
    coordinator = new_coordinator(
        TxnConfig(transaction_state_log_num_partitions=1, transaction_version=1)
    ).lead()
    coordinator.service.start()
    producer = ongoing(coordinator)
    coordinator.advance(70_000)
    assert coordinator.leaders.markers() == [(1, 1000, 1, False, {T0})]
    assert coordinator.init(producer=producer).error is ErrorCode.PRODUCER_FENCED


def test_a_producer_that_times_out_with_its_last_epoch_goes_on_with_a_new_id(
    timed: Coordinator,
) -> None:
    producer = exhaust(timed)
    timed.add(producer, T0)
    timed.advance(70_000)
    assert timed.leaders.markers() == [(1, 1000, LAST_EPOCH + 1, False, {T0})]
    assert timed.end(producer, committed=False, version=5).producer == (1001, 0)
    assert timed.init(producer=producer).producer == (1001, 0)


def test_a_start_during_a_transaction_of_the_last_epoch_leads_to_a_new_id(
    coordinator: Coordinator,
) -> None:
    coordinator.add(exhaust(coordinator), T0)
    assert coordinator.init().error is ErrorCode.CONCURRENT_TRANSACTIONS
    assert coordinator.init().producer == (1001, 1)


def test_an_abort_that_finds_no_producer_id_is_tried_again(timed: Coordinator) -> None:
    timed.add(exhaust(timed), T0)
    timed.blocks.is_available = False
    while timed.init(None).error is ErrorCode.NONE:
        pass
    timed.advance(70_000)
    assert timed.state() == "Ongoing"
    timed.blocks.is_available = True
    timed.advance(10_000)
    assert timed.state() == "CompleteAbort"


def test_an_abort_that_was_not_stored_is_tried_again(timed: Coordinator) -> None:
    ongoing(timed)
    timed.log.errors.append(ErrorCode.NOT_ENOUGH_REPLICAS)
    timed.advance(70_000)
    assert timed.state() == "Ongoing"
    timed.advance(10_000)
    assert timed.state() == "CompleteAbort"
    assert timed.leaders.markers() == [(1, 1000, 1, False, {T0})]


def test_an_id_that_nobody_uses_is_forgotten(
    timed: Coordinator, new_coordinator: type[Coordinator]
) -> None:
    timed.init("idle")
    ongoing(timed)
    timed.advance(5 * HOUR_MS)
    assert timed.shard().find("idle") is None
    assert timed.init("idle").producer == (1002, 0)
    loaded = timed.successor()
    assert loaded.shard().find("tx") is None


def test_an_id_is_kept_when_its_tombstone_is_not_stored(timed: Coordinator) -> None:
    timed.init("idle")
    timed.advance(4 * HOUR_MS - 1)
    timed.log.errors.append(ErrorCode.NOT_ENOUGH_REPLICAS)
    timed.advance(1)
    assert timed.shard().find("idle") is not None
    timed.advance(HOUR_MS)
    assert timed.shard().find("idle") is None


def test_an_id_on_its_way_out_takes_no_requests(timed: Coordinator) -> None:
    producer = timed.init("idle").producer
    timed.log.hold()
    timed.advance(5 * HOUR_MS)
    assert timed.init("idle").error is ErrorCode.CONCURRENT_TRANSACTIONS
    added = timed.add(producer, T0, transactional_id="idle")
    assert added is ErrorCode.CONCURRENT_TRANSACTIONS
    timed.log.release()
    timed.loop.run()
    assert timed.init("idle").producer == (1001, 0)


# Admin requests


def describe(coordinator: Coordinator, transactional_id: Any) -> Any:
    request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
    reply = coordinator.send(coordinator.service.describe_transactions, request)
    return reply.response.transaction_states[0]


def listed(coordinator: Coordinator, **filters: Any) -> Any:
    request = ListTransactionsRequest(
        **({"state_filters": [], "producer_id_filters": []} | filters)
    )
    return coordinator.send(coordinator.service.list_transactions, request).response


def test_transactions_are_described(coordinator: Coordinator) -> None:
    ongoing(coordinator, T0, T1, ("u", 3))
    shown = describe(coordinator, "tx")
    assert (shown.transaction_state, shown.producer_id, shown.producer_epoch) == (
        "Ongoing",
        1000,
        0,
    )
    assert shown.transaction_start_time_ms == coordinator.clock.now_ms()
    assert [(t.topic, list(t.partitions)) for t in shown.topics] == [("t", [0, 1]), ("u", [3])]


@pytest.mark.parametrize(
    ("transactional_id", "error"),
    [("no", ErrorCode.TRANSACTIONAL_ID_NOT_FOUND), ("", ErrorCode.INVALID_REQUEST)],
)
def test_the_description_of_an_unknown_id_is_an_error_and_nothing_else(
    coordinator: Coordinator, transactional_id: str, error: ErrorCode
) -> None:
    assert describe(coordinator, transactional_id) == DescribeTransactionsResponse.Transaction(
        error_code=error,
        transactional_id=transactional_id,
        transaction_state="",
        transaction_timeout_ms=0,
        transaction_start_time_ms=0,
        producer_id=0,
        producer_epoch=0,
        topics=[],
    )


def test_only_the_coordinator_describes_an_id(new_coordinator: type[Coordinator]) -> None:
    assert describe(new_coordinator(), "tx").error_code == ErrorCode.NOT_COORDINATOR


def test_a_stopped_coordinator_shows_no_transactions(coordinator: Coordinator) -> None:
    ongoing(coordinator)
    not_available = ErrorCode.COORDINATOR_NOT_AVAILABLE
    coordinator.service.stop()
    coordinator.loop.run()
    assert listed(coordinator).error_code == not_available
    assert describe(coordinator, "tx").error_code == not_available
    coordinator.loop.is_open = False
    assert listed(coordinator).error_code == not_available
    assert describe(coordinator, "tx").error_code == not_available


def test_transactions_are_listed_by_state_producer_duration_and_name(
    coordinator: Coordinator,
) -> None:
    ongoing(coordinator)
    coordinator.clock.advance(1_000)
    coordinator.init("other")

    def names(**filters: Any) -> set[Any]:
        return {t.transactional_id for t in listed(coordinator, **filters).transaction_states}

    assert names() == {"tx", "other"}
    assert names(state_filters=["Ongoing"]) == {"tx"}
    assert names(producer_id_filters=[1001]) == {"other"}
    assert names(duration_filter=999, state_filters=["Ongoing"]) == {"tx"}
    assert names(duration_filter=1_000, state_filters=["Ongoing"]) == set()
    assert names(transactional_id_pattern="o.*") == {"other"}
    assert listed(coordinator, state_filters=["Nope"]).unknown_state_filters == ["Nope"]
    bad = listed(coordinator, transactional_id_pattern="(")
    assert bad.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION


# Forgetting


def test_an_id_is_forgotten_after_its_open_transaction_is_aborted(coordinator: Coordinator) -> None:
    answers: list[ErrorCode] = []

    def forget() -> ErrorCode:
        coordinator.service.forget("tx", answers.append)
        coordinator.loop.run()
        return answers.pop()

    ongoing(coordinator)
    assert forget() is ErrorCode.CONCURRENT_TRANSACTIONS
    assert coordinator.state() == "CompleteAbort"
    assert forget() is ErrorCode.NONE
    assert forget() is ErrorCode.NONE  # there is nothing to forget
    assert coordinator.init().producer == (1001, 0)  # as if it had never been
