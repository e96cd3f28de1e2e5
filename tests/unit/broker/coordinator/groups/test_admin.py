from typing import Any

from embedkafka.wire.protocol.errors import ErrorCode
from embedkafka.wire.protocol.messages.groups import ListGroupsRequest
from tests.unit.broker.coordinator.groups.conftest import Coordinator


def listed(coordinator: Coordinator, states: Any = (), types: Any = ()) -> dict[Any, Any]:
    request = ListGroupsRequest(states_filter=states, types_filter=types)
    reply = coordinator.send(coordinator.service.list_groups, request)
    assert reply.error is ErrorCode.NONE
    return {group.group_id: group for group in reply.response.groups}


def test_groups_are_listed_by_state_and_type(coordinator: Coordinator) -> None:
    coordinator.stable("busy")
    coordinator.commit({("t", 0): 1}, group="idle")
    assert set(listed(coordinator)) == {"busy", "idle"}
    assert set(listed(coordinator, states=["stable"])) == {"busy"}
    assert set(listed(coordinator, states=["Empty", "Dead"])) == {"idle"}
    assert set(listed(coordinator, types=["Classic"])) == {"busy", "idle"}
    assert set(listed(coordinator, types=["consumer"])) == set()
    busy = listed(coordinator)["busy"]
    assert (busy.protocol_type, busy.group_state, busy.group_type) == (
        "consumer",
        "Stable",
        "classic",
    )
