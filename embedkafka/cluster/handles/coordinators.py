"""Which partition's leader coordinates a group or a transactional id.

Owner: none.
"""

from typing import TYPE_CHECKING

from embedkafka.runtime.arguments import require_text
from embedkafka.runtime.failures import EmbedKafkaError, InvalidArgument
from embedkafka.runtime.hashing import coordinator_partition
from embedkafka.runtime.topic_names import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC

if TYPE_CHECKING:
    from embedkafka.cluster.handles.reach import State


def group_coordinator(state: "State", group: str) -> int:
    """The broker that coordinates a group."""
    return _coordinator(state, GROUP_METADATA_TOPIC, require_text("group", group), "groups")


def transaction_coordinator(state: "State", transactional_id: str) -> int:
    """The broker that coordinates a producer's transactions."""
    key = require_text("transactional_id", transactional_id)
    return _coordinator(state, TRANSACTION_STATE_TOPIC, key, "transactions")


def _coordinator(state: "State", topic: str, key: str, users: str) -> int:
    count = len(state.partitions_of(topic))
    if not count:
        raise InvalidArgument(f"{key!r} has no coordinator: no client has used {users} yet")
    return leader_of(state, topic, coordinator_partition(key, count))


def leader_of(state: "State", topic: str, partition: int) -> int:
    """The leader of a partition; raises `EmbedKafkaError` while there is none."""
    status = state.require_partition(topic, partition)
    if status.leader is None:
        raise EmbedKafkaError(f"no leader: {status}; `await_leader` waits for one")
    return status.leader
