"""Types for Kafka's ids and epochs, and the values that stand for a missing one."""

import base64
import uuid
from typing import Final, NewType

from embedkafka.runtime.values import NamedTuple

BrokerId = NewType("BrokerId", int)
LeaderEpoch = NewType("LeaderEpoch", int)

NO_LEADER: Final = BrokerId(-1)
LEADER_DURING_DELETE: Final = BrokerId(-2)  # in UpdateMetadata: the topic is being deleted
NO_LEADER_EPOCH: Final = -1
EPOCH_DURING_DELETE: Final = -2  # in StopReplica: deletions do not raise the leader epoch
NO_OFFSET: Final = -1
NO_BROKER_EPOCH: Final = -1
NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
MAX_PRODUCER_EPOCH: Final = 2**15 - 1


class TopicPartition(NamedTuple):
    """One partition of one topic; its text form is also the name of its log directory."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def format_uuid(value: uuid.UUID) -> str:
    """Kafka's text form of an id: URL-safe base64 without padding."""
    return base64.urlsafe_b64encode(value.bytes).rstrip(b"=").decode()


def parse_uuid(text: str) -> uuid.UUID:
    return uuid.UUID(bytes=base64.urlsafe_b64decode(text + "=="))
