"""Names for the numbers that Kafka passes around, so that two of them are never mixed up."""

from typing import NamedTuple, NewType

BrokerId = NewType("BrokerId", int)
Offset = NewType("Offset", int)
LeaderEpoch = NewType("LeaderEpoch", int)
ProducerId = NewType("ProducerId", int)
ProducerEpoch = NewType("ProducerEpoch", int)


class TopicPartition(NamedTuple):
    """One partition of one topic; its text form is also the name of its log directory."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"
