"""Requests about the quorum of controllers."""

from embedkafka.wire.protocol.messages.quorum import (
    DescribeQuorumRequest,
)
from tests.wire.raw_client import RawClient

METADATA_TOPIC = "__cluster_metadata"


def quorum_request(topic: str = METADATA_TOPIC, *partitions: int) -> DescribeQuorumRequest:
    wanted = DescribeQuorumRequest.Topic
    return DescribeQuorumRequest(
        topics=[
            wanted(
                topic_name=topic,
                partitions=[
                    wanted.Partition(partition_index=index) for index in partitions or (0,)
                ],
            )
        ]
    )


def controllers(raw: RawClient) -> dict[int, tuple[str, int]]:
    """The address of every controller."""
    return {
        node.node_id: (listener.host, listener.port)
        for node in raw.call(quorum_request(), 2).nodes
        for listener in node.listeners
        if listener.name == "CONTROLLER"
    }
