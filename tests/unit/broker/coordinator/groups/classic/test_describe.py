from typing import Any

from embedkafka.wire.protocol.errors import ErrorCode
from embedkafka.wire.protocol.messages.groups import DescribeGroupsRequest
from tests.unit.broker.coordinator.groups.conftest import Coordinator


def describe(coordinator: Coordinator, group: str = "g", version: int = 5) -> Any:
    request = DescribeGroupsRequest(groups=[group])
    reply = coordinator.send(coordinator.service.describe_groups, request, version)
    return reply.response.groups[0]


def test_a_stable_group_shows_subscriptions_and_assignments(coordinator: Coordinator) -> None:
    member = coordinator.stable(client="spark")
    group = describe(coordinator)
    assert (group.group_state, group.protocol_type, group.protocol_data) == (
        "Stable",
        "consumer",
        "range",
    )
    (shown,) = group.members
    assert (shown.member_id, shown.client_id, shown.client_host) == (member, "spark", "/127.0.0.1")
    assert (shown.member_metadata, shown.member_assignment) == (b"sub", b"a")


def test_a_rebalancing_group_shows_the_last_assignments_without_subscriptions(
    coordinator: Coordinator,
) -> None:
    coordinator.stable()
    coordinator.joined()
    group = describe(coordinator)
    assert (group.group_state, group.protocol_data) == ("PreparingRebalance", "")
    shown = [(member.member_metadata, member.member_assignment) for member in group.members]
    assert sorted(shown) == [(b"", b""), (b"", b"a")]


def test_a_missing_group_is_dead_before_v6_and_an_error_since(coordinator: Coordinator) -> None:
    old = describe(coordinator, version=5)
    assert (old.error_code, old.group_state) == (ErrorCode.NONE, "Dead")
    new = describe(coordinator, version=6)
    assert (new.error_code, new.group_state) == (ErrorCode.GROUP_ID_NOT_FOUND, "Dead")
    assert new.error_message == "Group g not found."


def test_a_group_elsewhere_is_not_described(coordinator: Coordinator) -> None:
    coordinator.service.coordinator.on_resigned(0)
    coordinator.loop.run()
    group = describe(coordinator)
    assert (group.error_code, group.group_state) == (ErrorCode.NOT_COORDINATOR, "")
