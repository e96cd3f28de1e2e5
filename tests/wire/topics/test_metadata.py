"""Metadata: brokers, controller and the leaders of topics."""

from collections.abc import Callable
from typing import Any

import pytest

from embedkafka.wire.protocol.api_keys import ApiKey
from embedkafka.wire.protocol.codec import decode, encode
from embedkafka.wire.protocol.errors import ErrorCode
from embedkafka.wire.protocol.headers import decode_response_header, encode_request_header
from embedkafka.wire.protocol.messages.core import MetadataRequest, MetadataResponse
from tests.wire.clients import Cluster, create_topic, eventually
from tests.wire.one_partition import describe, each_version
from tests.wire.raw_client import RawClient
from tests.wire.topic_changes import await_gone, delete

Unique = Callable[[str], str]


def ask(raw: RawClient, *names: str, version: int | None = None, create: bool = False) -> Any:
    topics = [MetadataRequest.Topic(name=name) for name in names]
    request = MetadataRequest(topics=topics, allow_auto_topic_creation=create)
    return raw.call(request, version)


@pytest.mark.both_io_modes
def test_every_version_describes_brokers_and_partitions(
    cluster: Cluster, raw: RawClient, unique: Unique
) -> None:
    name = create_topic(cluster, unique("orders"), partitions=3)

    def check(version: int) -> None:
        answer = ask(raw, name, version=version)
        (broker,) = answer.brokers
        (topic,) = answer.topics
        assert f"{broker.host}:{broker.port}" == cluster.bootstrap_servers
        assert topic.error_code == ErrorCode.NONE
        assert topic.name == name
        assert sorted(p.partition_index for p in topic.partitions) == [0, 1, 2]
        for partition in topic.partitions:
            assert partition.leader_id == broker.node_id
            assert list(partition.replica_nodes) == [broker.node_id]
            assert list(partition.isr_nodes) == [broker.node_id]
            assert list(partition.offline_replicas) == []
            assert partition.leader_epoch == (0 if version >= 7 else -1)
        assert (topic.topic_id.int != 0) == (version >= 10)
        if version >= 2:
            assert answer.cluster_id

    each_version(raw, MetadataRequest, check)


def test_version_0_takes_an_empty_list_for_all_topics(
    cluster: Cluster, raw: RawClient, unique: Unique
) -> None:
    name = create_topic(cluster, unique("orders"))
    assert name in {topic.name for topic in ask(raw, version=0).topics}


def test_null_asks_for_all_topics_and_an_empty_list_for_none(
    cluster: Cluster, raw: RawClient, unique: Unique
) -> None:
    name = create_topic(cluster, unique("orders"))
    everything = raw.call(MetadataRequest(topics=None), 12)
    assert name in {topic.name for topic in everything.topics}
    assert list(ask(raw).topics) == []


def test_every_broker_of_the_cluster_is_listed_by_every_broker(three_brokers: Cluster) -> None:
    for index in range(3):
        with three_brokers.connect(index) as raw:
            answer = ask(raw)
            listed = {f"{broker.host}:{broker.port}" for broker in answer.brokers}
            assert {broker.node_id for broker in answer.brokers} == {1, 2, 3}
            assert listed == set(three_brokers.bootstrap_servers.split(","))
            assert answer.controller_id in {1, 2, 3}


def test_bytes_after_the_end_of_a_request_are_ignored(raw: RawClient, unique: Unique) -> None:
    # librdkafka encodes the null list of a pattern subscription in four bytes instead of one.
    header = encode_request_header(ApiKey.METADATA, 12, 1, "raw")
    raw.send_frame(header + encode(MetadataRequest(topics=[]), 12) + b"\0\0\0")
    _, body = decode_response_header(ApiKey.METADATA, 12, raw.receive_frame())
    assert decode(MetadataResponse, 12, body).brokers


def test_a_topic_is_created_on_demand_with_the_brokers_defaults(
    raw: RawClient, unique: Unique
) -> None:
    name = unique("on-demand")
    (first,) = ask(raw, name, create=True).topics
    assert first.error_code in {
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
    }
    eventually(lambda: raw.knows_leaders(name, 1), "the topic was created")


def test_a_request_may_forbid_creation_on_demand(raw: RawClient, unique: Unique) -> None:
    name = unique("forbidden")
    for _ in range(3):
        (topic,) = ask(raw, name, create=False).topics
        assert topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_cluster_may_forbid_creation_on_demand(three_brokers: Cluster, unique: Unique) -> None:
    name = unique("forbidden")
    with three_brokers.connect() as raw:
        for _ in range(3):
            (topic,) = ask(raw, name, create=True).topics
            assert topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("sent_name", [None, ""], ids=["null", "empty"])
def test_a_topic_is_found_by_its_id(
    cluster: Cluster, raw: RawClient, unique: Unique, sent_name: str | None
) -> None:
    name = create_topic(cluster, unique("orders"))
    topic_id = describe(raw, name).topic_id
    wanted = MetadataRequest.Topic(topic_id=topic_id, name=sent_name)  # Java sends an empty name
    (found,) = raw.call(MetadataRequest(topics=[wanted]), 12).topics
    assert (found.error_code, found.name, found.topic_id) == (ErrorCode.NONE, name, topic_id)


def test_a_topic_created_anew_has_another_id(
    cluster: Cluster, raw: RawClient, unique: Unique
) -> None:
    name = unique("orders")
    ids = set()
    for _ in range(2):
        create_topic(cluster, name)
        ids.add(describe(raw, name).topic_id)
        delete(raw, name)
        await_gone(raw, name)
    assert len(ids) == 2
