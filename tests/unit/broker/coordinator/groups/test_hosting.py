from collections.abc import Callable
from typing import Any

import pytest

from embedkafka.broker.coordinator.groups.config import GroupConfig
from embedkafka.broker.coordinator.groups.records import group_record, offset_record
from embedkafka.runtime.ids import TopicPartition
from embedkafka.wire.protocol.errors import ErrorCode, ProtocolError
from embedkafka.wire.protocol.messages.groups import ListGroupsRequest
from tests.unit.broker.coordinator.groups.conftest import Coordinator

T0 = ("t", 0)
LOG = TopicPartition("__consumer_offsets", 0)


def test_a_broker_that_does_not_lead_says_so(
    new_coordinator: type[Coordinator], commit_errors: Callable[[Any], list[ErrorCode]]
) -> None:
    coordinator = new_coordinator()
    assert coordinator.join().error is ErrorCode.NOT_COORDINATOR
    assert coordinator.sync("m", 1).error is ErrorCode.NOT_COORDINATOR
    assert coordinator.heartbeat("m", 1).error is ErrorCode.NOT_COORDINATOR
    assert coordinator.leave("m").error is ErrorCode.NOT_COORDINATOR
    assert commit_errors(coordinator.commit({T0: 1})) == [ErrorCode.NOT_COORDINATOR]


def test_records_of_an_unknown_type_are_skipped_with_a_warning(
    coordinator: Coordinator, new_coordinator: type[Coordinator], caplog: pytest.LogCaptureFixture
) -> None:
    coordinator.commit({T0: 5})
    coordinator.log.put(LOG, b"\0\x63rest", b"\0\0")
    loaded = new_coordinator(log=coordinator.log).lead()
    assert loaded.fetch("g").response.groups[0].topics[0].partitions[0].committed_offset == 5
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "offset 1 is of unknown type 99" in caplog.text


@pytest.mark.parametrize(
    ("key", "value", "error"),
    [
        (None, b"\0\0", "no key"),
        (b"\0", b"\0\0", "no version"),
        (offset_record("g", "t", 0, None).key, b"\0\x63", "not 99"),
        (group_record("g", None).key, b"\0\3", "ends"),
    ],
    ids=["no key", "no type", "a value of a newer version", "half a value"],
)
def test_a_record_that_cannot_be_read_leaves_no_coordinator(
    coordinator: Coordinator, new_coordinator: type[Coordinator], key: Any, value: bytes, error: str
) -> None:
    coordinator.commit({T0: 5})
    coordinator.log.put(LOG, key, value)
    loaded = new_coordinator(log=coordinator.log)
    with pytest.raises(ProtocolError, match=error):
        loaded.lead()
    assert loaded.join().error is ErrorCode.NOT_COORDINATOR


def test_requests_during_loading_wait_and_in_the_end_are_told_to(
    coordinator: Coordinator,
    new_coordinator: type[Coordinator],
    commit_errors: Callable[[Any], list[ErrorCode]],
) -> None:
    member = coordinator.stable()
    other = new_coordinator(log=coordinator.log)
    loading = other.begin_loading()
    join, commit = other.join(), other.commit({T0: 1})
    assert join.is_waiting
    assert commit.is_waiting
    other.advance(500)
    assert join.error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert commit_errors(commit) == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
    in_time = other.leave(member)
    assert other.sync(member, 1).error is ErrorCode.REBALANCE_IN_PROGRESS
    assert other.heartbeat(member, 1).error is ErrorCode.NONE
    listing = other.send(other.service.list_groups, ListGroupsRequest())
    assert listing.error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    other.loop.events = loading
    other.loop.run()
    assert in_time.error is ErrorCode.NONE
    assert other.heartbeat(member, 1).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_finds_the_broker_before_its_leadership_waits_for_it(
    new_coordinator: type[Coordinator],
) -> None:
    coordinator = new_coordinator(elsewhere=set())
    early = coordinator.join()
    fetch = coordinator.fetch("g", "h")
    assert early.is_waiting
    assert fetch.is_waiting
    coordinator.lead()
    assert early.error is ErrorCode.MEMBER_ID_REQUIRED
    assert [group.error_code for group in fetch.response.groups] == [ErrorCode.NONE] * 2


def test_who_waits_for_a_leader_that_never_comes_is_sent_away(
    new_coordinator: type[Coordinator],
) -> None:
    coordinator = new_coordinator(elsewhere=set())
    early = coordinator.join()
    coordinator.advance(500)
    assert early.error is ErrorCode.NOT_COORDINATOR
    late = coordinator.join()
    coordinator.service.stop()
    coordinator.loop.run()
    assert late.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert coordinator.join().error is ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_loaded_members_have_sessions(
    coordinator: Coordinator, new_coordinator: type[Coordinator]
) -> None:
    member = coordinator.stable()
    other = new_coordinator(log=coordinator.log, clock=coordinator.clock).lead()
    other.advance(10_000)
    assert other.heartbeat(member, 1).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_loaded_group_that_is_too_large_rebalances(
    coordinator: Coordinator, new_coordinator: type[Coordinator]
) -> None:
    member = coordinator.stable()
    second, _ = coordinator.joined()
    coordinator.join(member=member)
    coordinator.sync(member, 2, {})
    config = GroupConfig(offsets_topic_num_partitions=1, group_max_size=1)
    other = new_coordinator(config, log=coordinator.log).lead()
    first_join = other.join(member=member)
    assert other.join(member=second).error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert first_join.response.generation_id == 3


def test_whoever_waits_is_sent_away_when_the_broker_resigns(coordinator: Coordinator) -> None:
    first = coordinator.stable()
    _, joining = coordinator.joined()
    other_member, _ = coordinator.joined("h")
    coordinator.log.hold()
    syncing = coordinator.sync(other_member, 1, {}, group="h")
    coordinator.service.coordinator.on_resigned(0)
    coordinator.loop.run()
    assert joining.error is ErrorCode.NOT_COORDINATOR
    assert syncing.error is ErrorCode.NOT_COORDINATOR
    assert coordinator.heartbeat(first, 1).error is ErrorCode.NOT_COORDINATOR
    assert coordinator.timer.next_due() is None


def test_a_commit_in_flight_is_for_the_next_coordinator_to_acknowledge(
    coordinator: Coordinator, commit_errors: Callable[[Any], list[ErrorCode]]
) -> None:
    coordinator.log.hold()
    reply = coordinator.commit({T0: 1})
    coordinator.service.coordinator.on_resigned(0)
    coordinator.loop.run()
    coordinator.log.release()
    coordinator.loop.run()
    assert commit_errors(reply) == [ErrorCode.NOT_COORDINATOR]


def test_a_timer_replaced_while_it_was_in_the_queue_does_nothing(coordinator: Coordinator) -> None:
    member = coordinator.stable()
    coordinator.clock.advance(10_000)
    coordinator.timer.fire_due()
    queued = coordinator.loop.events
    coordinator.loop.events = type(queued)()
    assert coordinator.heartbeat(member, 1).error is ErrorCode.NONE
    coordinator.loop.events = queued
    assert coordinator.heartbeat(member, 1).error is ErrorCode.NONE


def test_a_stopped_service_is_not_available(coordinator: Coordinator) -> None:
    coordinator.stable()
    _, joining = coordinator.joined()
    coordinator.service.stop()
    coordinator.loop.run()
    assert joining.error is ErrorCode.NOT_COORDINATOR
    assert coordinator.join().error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    coordinator.loop.is_open = False
    assert coordinator.join().error is ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_groups_are_spread_by_the_hash_of_java(new_coordinator: type[Coordinator]) -> None:
    partition_for = new_coordinator(GroupConfig()).service.coordinator.partition_for
    assert partition_for("hello") == 99_162_322 % 50
    assert partition_for("Aa") == partition_for("BB") == 2112 % 50
    assert partition_for("polygenelubricants") == 0  # its hash has no absolute value
    assert partition_for("") == 0
