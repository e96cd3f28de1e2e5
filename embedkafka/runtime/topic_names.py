"""Legal topic names, and the names of internal topics. Names become directories and znodes."""

import re
from typing import Final

from embedkafka.runtime.ids import TopicPartition

GROUP_METADATA_TOPIC: Final = "__consumer_offsets"
TRANSACTION_STATE_TOPIC: Final = "__transaction_state"
CLUSTER_METADATA_TOPIC: Final = "__cluster_metadata"
"""KRaft's log of metadata. No topic may take its name."""

INTERNAL_TOPICS: Final = frozenset({GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC})

_MAX_NAME_LENGTH: Final = 249
_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]+")


def name_fault(name: str) -> str | None:
    """Why Kafka refuses a name, in Kafka's words; None for a legal name."""
    if not name:
        return "the empty string is not allowed"
    if name in (".", ".."):
        return f"'{name}' is not allowed"
    if len(name) > _MAX_NAME_LENGTH:
        return f"the length of '{name}' is longer than the max allowed length {_MAX_NAME_LENGTH}"
    if not _LEGAL.fullmatch(name):
        return (
            f"'{name}' contains one or more characters other than ASCII alphanumerics, "
            "'.', '_' and '-'"
        )
    return None


def is_legal(topic_partition: TopicPartition) -> bool:
    """Whether such a partition can exist."""
    return topic_partition.partition >= 0 and name_fault(topic_partition.topic) is None
