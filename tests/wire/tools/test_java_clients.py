"""The stock Java clients, 3.9 (Spark's) and 4.x: they crash on faults that librdkafka forgives."""

import re
from collections.abc import Callable, Iterator

import pytest

from tests.java_tools.java_client import (
    JavaAdmin,
    JavaClient,
    JavaConsumer,
    JavaError,
    JavaProducer,
    Message,
)
from tests.wire.clients import Cluster, create_topic, eventually
from tests.wire.one_partition import T0

Unique = Callable[[str], str]

pytestmark = [pytest.mark.java, pytest.mark.topic(partitions=2)]
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


@pytest.fixture
def admin(java: JavaClient, cluster: Cluster) -> Iterator[JavaAdmin]:
    with java.admin(cluster.bootstrap_servers) as client:
        yield client


@pytest.fixture
def producer(java: JavaClient, cluster: Cluster) -> Iterator[JavaProducer]:
    with java.producer(cluster.bootstrap_servers) as client:
        yield client


def test_the_admin_describes_the_cluster(admin: JavaAdmin, cluster: Cluster) -> None:
    described = admin.call("describeCluster")
    (node,) = described["nodes"]
    assert f"{node['host']}:{node['port']}" == cluster.bootstrap_servers
    assert (node["id"], described["controller"]) == (1, 1)
    assert described["clusterId"]


def test_the_admin_creates_describes_lists_and_deletes_topics(
    admin: JavaAdmin, unique: Unique
) -> None:
    name = unique("java")
    created = admin.create_topic(
        name, partitions=3, replicationFactor=1, configs={"retention.ms": "1234"}
    )
    assert (created["partitions"], created["replicationFactor"]) == (3, 1)
    assert created["config"]["retention.ms"] == "1234"
    described = eventually(
        lambda: next(
            (d for d in admin.each("describeTopics", names=[name]).values() if isinstance(d, dict)),
            None,
        ),
        f"{name} is described",
    )
    assert described["topicId"] == created["topicId"]
    assert [p["partition"] for p in described["partitions"]] == [0, 1, 2]
    assert admin.call("listTopics")[name]["topicId"] == created["topicId"]
    assert admin.one("deleteTopics", names=[name]) is None
    eventually(lambda: name not in admin.call("listTopics"), f"{name} is gone")


def test_the_admin_finds_and_deletes_topics_by_id(
    admin: JavaAdmin, cluster: Cluster, unique: Unique
) -> None:
    name = create_topic(cluster, unique("java"))
    topic_id = admin.one("describeTopics", names=[name])["topicId"]
    assert admin.one("describeTopics", ids=[topic_id])["name"] == name
    assert admin.one("deleteTopics", ids=[topic_id]) is None
    eventually(lambda: name not in admin.call("listTopics"), f"{name} is gone")


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"partitions": 0}, "InvalidPartitionsException"),
        ({"replicationFactor": 9}, "InvalidReplicationFactorException"),
        ({"configs": {"retention.ms": "soon"}}, "InvalidConfigurationException"),
        ({"assignments": {"0": [1, 1]}}, "InvalidReplicaAssignmentException"),
    ],
)
def test_the_admin_gets_the_exception_of_each_refusal(
    admin: JavaAdmin, unique: Unique, settings: dict[str, object], error: str
) -> None:
    with pytest.raises(JavaError) as refused:
        admin.create_topic(unique("java"), **settings)
    assert refused.value.kind == error


def test_the_admin_is_told_of_unknown_and_existing_topics(
    admin: JavaAdmin, topic: str, unique: Unique
) -> None:
    unknown = unique("unknown")
    described = admin.each("describeTopics", names=[topic, unknown])
    assert described[topic]["name"] == topic
    assert described[unknown].kind == "UnknownTopicOrPartitionException"
    with pytest.raises(JavaError, match="already exists"):
        admin.create_topic(topic)


def test_the_admin_adds_partitions(admin: JavaAdmin, topic: str) -> None:
    assert admin.one("createPartitions", topics={topic: {"count": 4}}) is None
    eventually(
        lambda: len(admin.one("describeTopics", names=[topic])["partitions"]) == 4, "4 partitions"
    )
    with pytest.raises(JavaError) as refused:
        admin.one("createPartitions", topics={topic: {"count": 2}})
    assert refused.value.kind == "InvalidPartitionsException"


def test_the_admin_describes_and_changes_configs(admin: JavaAdmin, topic: str) -> None:
    resource = f"TOPIC:{topic}"

    def retention() -> dict[str, object]:
        described = admin.one("describeConfigs", resources=[resource], synonyms=True)
        return dict(described["retention.ms"])

    assert (retention()["value"], retention()["source"]) == ("604800000", "DEFAULT_CONFIG")
    change = {"name": "retention.ms", "value": "99", "op": "SET"}
    assert admin.one("incrementalAlterConfigs", changes={resource: [change]}) is None
    eventually(lambda: retention()["value"] == "99", "the change is applied")
    assert (retention()["source"], retention()["type"]) == ("DYNAMIC_TOPIC_CONFIG", "LONG")
    bad = {**change, "value": "soon"}
    with pytest.raises(JavaError) as refused:
        admin.one("incrementalAlterConfigs", changes={resource: [bad]})
    assert refused.value.kind == "InvalidConfigurationException"


@pytest.mark.gate
@pytest.mark.parametrize("java", ["3.9"], indirect=True)  # clients of 4.x have no alterConfigs
def test_the_older_admin_replaces_configs(admin: JavaAdmin, topic: str) -> None:
    resource = f"TOPIC:{topic}"
    assert admin.one("alterConfigs", configs={resource: {"segment.ms": "5000"}}) is None
    eventually(
        lambda: admin.one("describeConfigs", resources=[resource])["segment.ms"]["value"] == "5000",
        "the change is applied",
    )


def test_the_admin_describes_brokers_and_their_disks(
    admin: JavaAdmin, producer: JavaProducer, topic: str
) -> None:
    producer.send_one(topic, b"x", partition=0)
    (directory,) = admin.one("describeLogDirs", brokers=[1]).values()
    assert directory["error"] is None
    assert directory["replicas"][f"{topic}-0"]["size"] > 0
    assert directory["replicas"][f"{topic}-1"]["size"] == 0
    configs = admin.one("describeConfigs", resources=["BROKER:1"], documentation=True)
    assert configs["log.retention.hours"]["value"] == "168"


def test_the_admin_reads_features(admin: JavaAdmin) -> None:
    features = admin.call("describeFeatures")
    assert set(features) == {"finalized", "supported"}


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_a_producer_with_any_acks_is_read_back(
    java: JavaClient, cluster: Cluster, topic: str, acks: str
) -> None:
    settings = {"acks": acks, "enable_idempotence": acks == "all"}
    with java.producer(cluster.bootstrap_servers, **settings) as producer:
        sent = producer.send(*(Message(topic=topic, partition=0, value=b"x") for _ in range(10)))
    expected = [-1] * 10 if acks == "0" else list(range(10))
    assert [metadata["offset"] for metadata in sent] == expected
    with java.consumer(cluster.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        consumer.assign(f"{topic}-0")
        assert [record.offset for record in consumer.poll(10)] == list(range(10))


@pytest.mark.parametrize("codec", CODECS)
def test_every_codec_is_read_back(
    java: JavaClient, cluster: Cluster, topic: str, codec: str
) -> None:
    values = [b"x" * 1000 + str(i).encode() for i in range(50)]
    config = {"compression_type": codec, "linger_ms": 50}
    with java.producer(cluster.bootstrap_servers, **config) as producer:
        producer.send(*(Message(topic=topic, partition=0, value=value) for value in values))
    with java.consumer(cluster.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        consumer.assign(f"{topic}-0")
        assert [record.value for record in consumer.poll(50)] == values


def test_keys_values_headers_and_timestamps_come_back_as_sent(
    java: JavaClient, cluster: Cluster, producer: JavaProducer, topic: str
) -> None:
    headers = (("a", b"1"), ("a", b"2"), ("null", None))
    producer.send_one(topic, b"v", key=b"k", partition=1, timestamp=T0, headers=headers)
    producer.send_one(topic, None, key=b"tombstone", partition=1, timestamp=T0 + 1)
    with java.consumer(cluster.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        consumer.assign(f"{topic}-1")
        first, second = consumer.poll(2)
    assert (first.key, first.value, first.timestamp) == (b"k", b"v", T0)
    assert (first.timestamp_type, first.leader_epoch) == ("CreateTime", 0)
    assert tuple(first.headers) == headers
    assert (second.key, second.value, list(second.headers)) == (b"tombstone", None, [])


def test_a_producer_is_told_why_it_is_refused(
    java: JavaClient, cluster: Cluster, unique: Unique
) -> None:
    name = create_topic(cluster, unique("small"), config={"max.message.bytes": "1000"})
    compacted = create_topic(cluster, unique("compacted"), config={"cleanup.policy": "compact"})
    with java.producer(cluster.bootstrap_servers) as producer:
        with pytest.raises(JavaError) as too_large:
            producer.send_one(name, b"x" * 5000)
        with pytest.raises(JavaError) as no_key:
            producer.send_one(compacted, b"x")
    assert too_large.value.kind == "RecordTooLargeException"
    assert no_key.value.kind == "InvalidRecordException"


def test_a_topic_is_created_when_a_producer_needs_it(
    producer: JavaProducer, unique: Unique
) -> None:
    sent = producer.send_one(unique("on-demand"), b"x")
    assert (sent["partition"], sent["offset"]) == (0, 0)


@pytest.mark.both_io_modes
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_shares_reads_commits_and_goes_on(
    java: JavaClient, cluster: Cluster, producer: JavaProducer, unique: Unique, protocol: str
) -> None:
    name = create_topic(cluster, unique("java"), partitions=4)
    settings = {
        "group_id": unique("group"),
        "group_protocol": protocol,
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
    }
    one = java.consumer(cluster.bootstrap_servers, **settings)
    two = java.consumer(cluster.bootstrap_servers, **settings)
    for consumer in (one, two):
        consumer.subscribe(name)
    partitions = [f"{name}-{p}" for p in range(4)]
    eventually(lambda: share_evenly([one, two], partitions), "both have two partitions")
    producer.send(*(Message(topic=name, partition=p, value=b"1") for p in range(4)))
    for consumer in (one, two):
        assert len(consumer.poll(2)) == 2
        consumer.call("commit")
    for consumer in (one, two):
        consumer.close()
    producer.send(*(Message(topic=name, partition=p, value=b"2") for p in range(4)))
    with java.consumer(cluster.bootstrap_servers, **settings) as again:
        again.subscribe(name)
        assert {record.value for record in again.poll(4)} == {b"2"}


def share_evenly(members: list[JavaConsumer], partitions: list[str]) -> bool:
    """Lets all members poll at the same time briefly; returns whether each then has its share."""
    each = len(partitions) // len(members)
    polling = [member.start_awaiting_assignment(each, timeout_ms=200) for member in members]
    shares = [share.result(60) for share in polling]
    taken = sorted(part for share in shares for part in share)
    return taken == partitions and all(len(share) == each for share in shares)


def test_positions_are_found_by_time_and_by_the_ends(
    java: JavaClient, cluster: Cluster, producer: JavaProducer, admin: JavaAdmin, topic: str
) -> None:
    producer.send(
        *(Message(topic=topic, partition=0, value=b"x", timestamp=T0 + i) for i in range(5))
    )
    part = f"{topic}-0"
    with java.consumer(cluster.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        consumer.assign(part)
        found = consumer.call("offsetsForTimes", times={part: T0 + 3})
        assert found == {part: {"offset": 3, "timestamp": T0 + 3}}
        assert consumer.call("offsetsForTimes", times={part: T0 + 9}) == {part: None}
        assert consumer.call("beginningOffsets", partitions=[part]) == {part: 0}
        assert consumer.call("endOffsets", partitions=[part]) == {part: 5}
        consumer.call("seek", offsets={part: 4})
        assert [record.offset for record in consumer.poll(1)] == [4]
    for spec, offset in (("earliest", 0), ("latest", 5), ("maxTimestamp", 4), (T0 + 1, 1)):
        assert admin.one("listOffsets", specs={part: spec})["offset"] == offset


def test_records_are_deleted(
    java: JavaClient, cluster: Cluster, producer: JavaProducer, admin: JavaAdmin, topic: str
) -> None:
    producer.send(*(Message(topic=topic, partition=0, value=b"x") for _ in range(5)))
    part = f"{topic}-0"
    assert admin.one("deleteRecords", offsets={part: 3}) == 3
    with java.consumer(cluster.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        consumer.assign(part)
        assert [record.offset for record in consumer.poll(2)] == [3, 4]
    with pytest.raises(JavaError) as refused:
        admin.one("deleteRecords", offsets={part: 99})
    assert refused.value.kind == "OffsetOutOfRangeException"


def test_a_lost_position_without_a_reset_is_an_exception(
    java: JavaClient, cluster: Cluster, producer: JavaProducer, topic: str
) -> None:
    producer.send_one(topic, b"x", partition=0)
    with java.consumer(cluster.bootstrap_servers, auto_offset_reset="none") as consumer:
        consumer.assign(f"{topic}-0")
        consumer.call("seek", offsets={f"{topic}-0": 50})
        with pytest.raises(JavaError) as lost:
            consumer.poll(1)
    assert lost.value.kind == "OffsetOutOfRangeException"


def test_the_admin_manages_groups(
    java: JavaClient, cluster: Cluster, producer: JavaProducer, admin: JavaAdmin, unique: Unique
) -> None:
    name = create_topic(cluster, unique("java"))
    group = unique("group")
    producer.send_one(name, b"x")
    settings = {"group_id": group, "auto_offset_reset": "earliest", "client_id": "reader"}
    with java.consumer(cluster.bootstrap_servers, **settings) as consumer:
        consumer.subscribe(name)
        consumer.poll(1)
        consumer.call("commit")
        described = admin.one("describeGroups", groups=[group])
        (member,) = described["members"]
        assert (described["state"], described["assignor"]) == ("Stable", "range")
        assert (member["clientId"], member["assignment"]) == ("reader", [f"{name}-0"])
        assert member["host"] == "/127.0.0.1"
        with pytest.raises(JavaError) as refused:
            admin.one("deleteGroups", groups=[group])
        assert refused.value.kind == "GroupNotEmptyException"
    assert admin.one("listGroupOffsets", groups=[group]) == {f"{name}-0": 1}
    assert admin.call("listGroups")[group]["state"] == "Empty"
    assert admin.one("alterGroupOffsets", group=group, offsets={f"{name}-0": 0}) is None
    assert admin.one("listGroupOffsets", groups=[group]) == {f"{name}-0": 0}
    assert admin.one("deleteGroupOffsets", group=group, partitions=[f"{name}-0"]) is None
    assert admin.one("deleteGroups", groups=[group]) is None
    assert group not in admin.call("listGroups")


def test_a_static_member_is_removed_by_the_admin(
    java: JavaClient, cluster: Cluster, admin: JavaAdmin, topic: str, unique: Unique
) -> None:
    group = unique("group")
    settings = {"group_id": group, "group_instance_id": "i1"}
    with java.consumer(cluster.bootstrap_servers, **settings) as consumer:
        consumer.subscribe(topic)
        consumer.await_assignment(2)
    described = admin.one("describeGroups", groups=[group])
    assert [member["instanceId"] for member in described["members"]] == ["i1"]
    admin.call("removeMembers", group=group, instances=["i1"])
    assert admin.one("describeGroups", groups=[group])["members"] == []


def test_a_pattern_subscription_finds_topics(
    java: JavaClient, cluster: Cluster, producer: JavaProducer, unique: Unique
) -> None:
    stem = unique("pattern")
    names = [create_topic(cluster, f"{stem}.{suffix}") for suffix in "ab"]
    producer.send(*(Message(topic=name, value=b"x") for name in names))
    settings = {"group_id": unique("group"), "auto_offset_reset": "earliest"}
    with java.consumer(cluster.bootstrap_servers, **settings) as consumer:
        consumer.call("subscribe", pattern=re.escape(stem) + r"\..*")
        assert {record.topic for record in consumer.poll(2)} == set(names)


def test_replicas_are_moved_and_leaders_elected(
    java: JavaClient, three_brokers: Cluster, unique: Unique
) -> None:
    name = unique("moving")
    with java.admin(three_brokers.bootstrap_servers) as admin:
        admin.create_topic(name, assignments={"0": [1, 2]})

        def partition() -> dict[str, object]:
            outcome = admin.each("describeTopics", names=[name])[name]
            return {} if isinstance(outcome, JavaError) else dict(outcome["partitions"][0])

        eventually(lambda: partition().get("isr") == [1, 2], "the topic is there")
        moves = {f"{name}-0": [3, 1]}
        assert admin.one("alterPartitionReassignments", targets=moves) is None
        eventually(lambda: partition()["replicas"] == [3, 1], "the replica has moved")
        eventually(lambda: sorted(partition()["isr"]) == [1, 3], "the replica is in sync")  # type: ignore[call-overload]
        eventually(lambda: admin.call("listPartitionReassignments") == {}, "no move is left")
        outcome = admin.each("electLeaders", type="PREFERRED", partitions=[f"{name}-0"])[
            f"{name}-0"
        ]
        assert outcome is None or outcome.kind == "ElectionNotNeededException"
        eventually(lambda: partition()["leader"] == 3, "the preferred replica leads")
        with pytest.raises(JavaError) as refused:
            admin.one("alterPartitionReassignments", targets={f"{name}-0": [99]})
        assert refused.value.kind == "InvalidReplicaAssignmentException"
