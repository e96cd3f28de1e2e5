"""What requests name, for `kafka.requests`, faults and reports."""

from typing import Any
from uuid import UUID

import pytest

from embedkafka.faults.named_entities import contents_of
from embedkafka.wire.protocol.messages.configs import (
    DescribeConfigsRequest,
)
from embedkafka.wire.protocol.messages.core import FetchRequest
from embedkafka.wire.protocol.messages.groups import (
    DescribeGroupsRequest,
    FindCoordinatorRequest,
    JoinGroupRequest,
)
from embedkafka.wire.protocol.messages.topics import CreateTopicsRequest, DeleteTopicsRequest
from embedkafka.wire.protocol.messages.transactions import (
    AddPartitionsToTxnRequest,
    DescribeTransactionsRequest,
)

ORDERS = UUID(int=7)
TOPIC, GROUP = 2, 32

JOIN = JoinGroupRequest(
    group_id="g",
    session_timeout_ms=1,
    member_id="m",
    protocol_type="consumer",
    protocols=[JoinGroupRequest.Protocol(name="range", metadata=b"")],
)
CREATE = CreateTopicsRequest(
    topics=[
        CreateTopicsRequest.Topic(
            name="t",
            num_partitions=1,
            replication_factor=1,
            assignments=[],
            configs=[CreateTopicsRequest.Topic.Config(name="cleanup.policy", value="delete")],
        )
    ],
    timeout_ms=1,
)
ADD = AddPartitionsToTxnRequest(
    transactions=[
        AddPartitionsToTxnRequest.Transaction(
            transactional_id="x",
            producer_id=1,
            producer_epoch=0,
            verify_only=False,
            topics=[AddPartitionsToTxnRequest.Transaction.Topic(name="t", partitions=[0, 3])],
        )
    ]
)
FETCH = FetchRequest(
    max_wait_ms=1,
    min_bytes=1,
    topics=[FetchRequest.Topic(topic_id=ORDERS, partitions=[])],
    forgotten_topics_data=[],
)


def configs_of(kind: int, name: str) -> DescribeConfigsRequest:
    resource = DescribeConfigsRequest.Resource(
        resource_type=kind, resource_name=name, configuration_keys=["retention.ms"]
    )
    return DescribeConfigsRequest(resources=[resource])


@pytest.mark.parametrize(
    ("request_", "named"),
    [
        (JOIN, {"groups": {"g"}}),  # and not its protocol, "range"
        (CREATE, {"topics": {"t"}}),  # and not its setting
        (DeleteTopicsRequest(topic_names=["t"], timeout_ms=1), {"topics": {"t"}}),
        (FETCH, {"topics": {"orders"}}),
        (DescribeGroupsRequest(groups=["g", "h"]), {"groups": {"g", "h"}}),
        (FindCoordinatorRequest(key="g"), {"groups": {"g"}}),
        (FindCoordinatorRequest(key_type=1, coordinator_keys=["x"]), {"transactional_ids": {"x"}}),
        (ADD, {"topics": {"t"}, "partitions": {0, 3}, "transactional_ids": {"x"}}),
        (DescribeTransactionsRequest(transactional_ids=["x"]), {"transactional_ids": {"x"}}),
        (configs_of(TOPIC, "t"), {"topics": {"t"}}),
        (configs_of(GROUP, "g"), {"groups": {"g"}}),
        (configs_of(4, "1"), {}),  # a broker
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, dict) else "",
)
def test_a_request_names_just_what_it_is_about(request_: Any, named: dict[str, Any]) -> None:
    contents = contents_of(request_, {ORDERS: "orders"}.get)
    for what in ("topics", "partitions", "groups", "transactional_ids"):
        assert getattr(contents, what) == named.get(what, set())
