"""Which partition's leader coordinates a group or a transactional id.

Owner: none.
"""

from collections.abc import Callable

from embedkafka.runtime.arguments import require_text
from embedkafka.runtime.failures import InvalidArgument
from embedkafka.runtime.hashing import coordinator_partition
from embedkafka.runtime.ids import TopicPartition
from embedkafka.runtime.topic_names import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC


def partition_that_coordinates(
    group: str | None, transactional_id: str | None, count_of: Callable[[str], int]
) -> TopicPartition:
    """The partition of an internal topic; `count_of` says how many a topic has, 0 if it is missing.

    Raises `InvalidArgument` if not one of the two is given, or the topic does not exist yet.
    """
    if (group is None) == (transactional_id is None):
        raise InvalidArgument("give a group or a transactional_id, and not both")
    if group is not None:
        topic, key, users = GROUP_METADATA_TOPIC, require_text("group", group), "groups"
    else:
        key = require_text("transactional_id", transactional_id)
        topic, users = TRANSACTION_STATE_TOPIC, "transactions"
    count = count_of(topic)
    if not count:
        raise InvalidArgument(f"{key!r} has no coordinator: no client has used {users} yet")
    return TopicPartition(topic, coordinator_partition(key, count))
