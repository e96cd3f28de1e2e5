"""Payloads against bytes that Apache Kafka 3.9.1 wrote to a ZooKeeper."""

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from embedkafka.runtime.ids import TopicPartition, parse_uuid
from embedkafka.zk import payloads
from embedkafka.zk.payloads import (
    RECOVERING,
    BrokerEndpoint,
    BrokerInfo,
    LeaderAndIsr,
    ProducerIdBlock,
    ReplicaAssignment,
)

BROKER = (
    b'{"features":{},"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT"},'
    b'"endpoints":["PLAINTEXT://127.0.0.1:48219"],"rack":"r1","jmx_port":-1,"port":48219,'
    b'"host":"127.0.0.1","version":5,"timestamp":"1794820784364"}'
)
TOPIC_OF_THIRTY = (
    b'{"partitions":{"22":[1,2],"23":[2,1],"24":[1,2],"25":[2,1],"26":[1,2],"27":[2,1],"28":[1,2],'
    b'"29":[2,1],"10":[1,2],"11":[2,1],"12":[1,2],"13":[2,1],"14":[1,2],"15":[2,1],"16":[1,2],'
    b'"17":[2,1],"18":[1,2],"19":[2,1],"0":[1,2],"1":[2,1],"2":[1,2],"3":[2,1],"4":[1,2],'
    b'"5":[2,1],"6":[1,2],"7":[2,1],"8":[1,2],"9":[2,1],"20":[1,2],"21":[2,1]},'
    b'"topic_id":"yX7-Xn8oQaO3m3gSxM_PjQ","adding_replicas":{},"removing_replicas":{},"version":3}'
)
STATE = b'{"controller_epoch":1,"leader":2,"version":1,"leader_epoch":1,"isr":[2,1]}'


def test_a_broker_registers_with_kafkas_bytes() -> None:
    endpoint = BrokerEndpoint(host="127.0.0.1", port=48219)
    info = BrokerInfo(id=1, endpoints=(endpoint,), rack="r1")
    assert payloads.encode_broker(info, 1794820784364) == BROKER
    assert payloads.decode_broker(1, BROKER) == info


def test_a_broker_without_plaintext_has_no_top_level_host() -> None:
    endpoint = BrokerEndpoint(host="::1", port=9093, listener="CLIENT", security_protocol="SSL")
    info = BrokerInfo(id=1, endpoints=(endpoint,))
    data = payloads.encode_broker(info, 0)
    assert b'"port":-1,"host":null' in data
    assert b'"CLIENT://[::1]:9093"' in data
    assert payloads.decode_broker(1, data) == info


@pytest.mark.parametrize(
    "data",
    [
        b'{"version":1,"host":"h","port":9092,"jmx_port":-1,"timestamp":"1"}',
        b'{"version":2,"host":"h","port":9092,"jmx_port":-1,"endpoints":["PLAINTEXT://h:9092"]}',
    ],
)
def test_old_registrations_are_read(data: bytes) -> None:
    assert payloads.decode_broker(3, data).endpoint("PLAINTEXT").port == 9092


def test_a_topic_has_kafkas_bytes_and_key_order() -> None:
    topic_id = parse_uuid("yX7-Xn8oQaO3m3gSxM_PjQ")
    partitions = {p: ReplicaAssignment(replicas=(2, 1) if p % 2 else (1, 2)) for p in range(30)}
    assert payloads.encode_topic(topic_id, partitions) == TOPIC_OF_THIRTY
    decoded = payloads.decode_topic("many", TOPIC_OF_THIRTY)
    assert (decoded.topic_id, decoded.partitions) == (topic_id, partitions)


def test_a_topic_in_reassignment_lists_what_comes_and_goes() -> None:
    assignment = ReplicaAssignment(replicas=(1, 2)).reassign_to([3, 2])
    assert assignment == ReplicaAssignment(replicas=(3, 2, 1), adding=(3,), removing=(1,))
    data = payloads.encode_topic(None, {0: assignment, 1: ReplicaAssignment(replicas=(1,))})
    assert data == (
        b'{"partitions":{"0":[3,2,1],"1":[1]},"adding_replicas":{"0":[3]},'
        b'"removing_replicas":{"0":[1]},"version":3}'
    )
    assert payloads.decode_topic("t", data).partitions[0] == assignment


def test_old_topics_are_read() -> None:
    decoded = payloads.decode_topic("t", b'{"version":1,"partitions":{"0":[1,2]}}')
    assert decoded.topic_id is None
    assert decoded.partitions == {0: ReplicaAssignment(replicas=(1, 2))}


def test_a_partition_state_has_kafkas_bytes() -> None:
    state = LeaderAndIsr(leader=2, isr=(2, 1), leader_epoch=1, controller_epoch=1, zk_version=7)
    assert payloads.encode_partition_state(state) == STATE
    assert payloads.decode_partition_state(STATE, 7) == state


def test_a_recovering_partition_says_so() -> None:
    state = LeaderAndIsr(leader=1, isr=(1,), leader_recovery_state=RECOVERING)
    data = payloads.encode_partition_state(state)
    assert data.endswith(b'"isr":[1],"leader_recovery_state":1}')
    assert payloads.decode_partition_state(data, 0) == state


@pytest.mark.parametrize(
    ("encoded", "expected"),
    [
        (
            payloads.encode_controller(2, 1794820783983),
            b'{"version":2,"brokerid":2,"timestamp":"1794820783983","kraftControllerEpoch":-1}',
        ),
        (
            payloads.encode_cluster_id("cFZ8TmqOSbSxKbJTRt87Mg"),
            b'{"version":"1","id":"cFZ8TmqOSbSxKbJTRt87Mg"}',
        ),
        (
            payloads.encode_config_change("topics/one"),
            b'{"version":2,"entity_path":"topics/one"}',
        ),
        (
            payloads.encode_config(
                {
                    "retention.ms": "1000",
                    "cleanup.policy": "compact",
                    "max.message.bytes": "5000",
                    "segment.bytes": "100000",
                    "min.insync.replicas": "1",
                }
            ),
            b'{"version":1,"config":{"cleanup.policy":"compact","max.message.bytes":"5000",'
            b'"min.insync.replicas":"1","retention.ms":"1000","segment.bytes":"100000"}}',
        ),
        (
            payloads.encode_producer_id_block(ProducerIdBlock(broker_id=1, first=0, last=999)),
            b'{"version":1,"broker":1,"block_start":"0","block_end":"999"}',
        ),
        (
            payloads.encode_reassignment({TopicPartition("one", 0): [2, 1]}),
            b'{"version":1,"partitions":[{"topic":"one","partition":0,"replicas":[2,1]}]}',
        ),
        (
            payloads.encode_partitions([TopicPartition("one", 0)]),
            b'{"version":1,"partitions":[{"topic":"one","partition":0}]}',
        ),
        (payloads.encode_log_dir_event(3), b'{"version":1,"broker":3,"event":1}'),
    ],
)
def test_other_znodes_have_kafkas_bytes(encoded: bytes, expected: bytes) -> None:
    assert encoded == expected


@given(
    st.dictionaries(
        st.integers(0, 300),
        st.builds(
            lambda replicas, target: ReplicaAssignment(replicas=tuple(replicas)).reassign_to(
                target
            ),
            st.lists(st.integers(0, 9), min_size=1, unique=True),
            st.lists(st.integers(0, 9), min_size=1, unique=True),
        ),
        max_size=40,
    ),
    st.none() | st.uuids(),
)
def test_any_assignment_survives_encoding(
    partitions: dict[int, ReplicaAssignment], topic_id: uuid.UUID | None
) -> None:
    decoded = payloads.decode_topic("t", payloads.encode_topic(topic_id, partitions))
    assert decoded.partitions == partitions
    assert decoded.topic_id == topic_id


@given(st.dictionaries(st.text(max_size=8), st.text(max_size=8), max_size=30))
def test_any_settings_survive_encoding(config: dict[str, str]) -> None:
    assert payloads.decode_config(payloads.encode_config(config)) == config


@given(st.text(max_size=12))
def test_names_survive_sanitizing(name: str) -> None:
    sanitized = payloads.sanitize(name)
    assert "/" not in sanitized
    assert payloads.desanitize(sanitized) == name


def test_sanitized_names_are_javas() -> None:
    assert payloads.sanitize("a b*c~d.e-f_g/h") == "a%20b%2Ac%7Ed.e-f_g%2Fh"
