"""Members of groups whose coordinator assigns the partitions (KIP-848), heartbeat by heartbeat."""

import uuid
from collections.abc import Sequence
from typing import Any

from embedkafka.wire.protocol.errors import ErrorCode
from embedkafka.wire.protocol.messages.consumer_groups import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
)
from tests.wire.clients import eventually
from tests.wire.one_partition import Answer
from tests.wire.raw_client import RawClient

JOIN, LEAVE, LEAVE_FOR_A_WHILE = 0, -1, -2


class Member:
    """A member that sends its full state when it joins and owns what it is assigned."""

    def __init__(
        self, raw: RawClient, group: str, *topics: str, instance: str | None = None
    ) -> None:
        self.raw = raw
        self.group = group
        self.topics = topics
        self.instance = instance
        self.id = str(uuid.uuid4())
        self.epoch = JOIN
        self.owned: dict[uuid.UUID, list[int]] = {}

    def join(self, **fields: Any) -> Answer:
        return self.beat(
            member_epoch=JOIN,
            rebalance_timeout_ms=10_000,
            subscribed_topic_names=self.topics,
            topic_partitions=[],
            **fields,
        )

    def beat(self, *, version: int = 1, **fields: Any) -> Answer:
        """Sends a heartbeat; adopts the epoch and the assignment of a successful answer."""
        known = {
            "group_id": self.group,
            "member_id": self.id,
            "member_epoch": self.epoch,
            "instance_id": self.instance,
        }
        answer = self.raw.call(ConsumerGroupHeartbeatRequest(**{**known, **fields}), version)
        if answer.error_code == ErrorCode.NONE:
            self.epoch = answer.member_epoch
            if answer.assignment is not None:
                self.owned = {
                    part.topic_id: list(part.partitions)
                    for part in answer.assignment.topic_partitions
                }
        return answer

    def beat_with_owned(self) -> Answer:
        """Sends a heartbeat that lists the partitions the member owns."""
        owned = [
            ConsumerGroupHeartbeatRequest.TopicPartitions(topic_id=topic, partitions=partitions)
            for topic, partitions in self.owned.items()
        ]
        return self.beat(topic_partitions=owned)

    def leave(self) -> Answer:
        return self.beat(member_epoch=LEAVE)

    @property
    def partitions(self) -> list[int]:
        return sorted(partition for parts in self.owned.values() for partition in parts)


def settle(members: Sequence[Member], shares: Sequence[int]) -> None:
    """Lets the members heartbeat until each has its share of the partitions."""

    def shared() -> bool:
        for member in members:
            assert member.beat_with_owned().error_code == ErrorCode.NONE
        return [len(member.partitions) for member in members] == list(shares)

    eventually(shared, f"shares of {shares}")


def describe(raw: RawClient, group: str, *, version: int = 1) -> Answer:
    request = ConsumerGroupDescribeRequest(group_ids=[group], include_authorized_operations=False)
    (answer,) = raw.call(request, version).groups
    return answer
