"""The internal topics hold Kafka's own records: its DumpLogSegments decodes every one."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

from embedkafka import EmbeddedKafka
from tests.java_tools.jvm import QUICK_START, java
from tests.java_tools.oracle import kafka_classpath, kafka_version
from tests.wire.clients import Cluster, open_consumer, poll, produce_values
from tests.wire.log_dumps import complaints_in, main_class

pytestmark = [pytest.mark.java, pytest.mark.gate]

Record = tuple[dict[str, Any], dict[str, Any] | None]  # Any: JSON whose shape the tests know

OFFSET, CLASSIC_GROUP = "1", "2"
GROUP_EPOCH, MEMBER, TARGET_EPOCH, TARGET, CURRENT = "3", "5", "6", "7", "8"
RECORD: Final = re.compile(r"^\| offset: .* key: (\{.*\}) payload: (.*)$", re.MULTILINE)


def dump(directory: Path, decoder: str) -> list[Record]:
    """Every record of a partition as Kafka's decoder prints it; None stands for a tombstone."""
    classpath = kafka_classpath(kafka_version())
    files = ",".join(map(str, sorted(directory.glob("*.log"))))
    done = subprocess.run(
        [
            *(java(), *QUICK_START, "-cp", classpath, main_class(classpath)),
            *(decoder, "--files", files),
        ],
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert complaints_in(done.stdout) == []
    assert "could not be decoded" not in done.stdout
    records = [
        (json.loads(key), None if payload.startswith("<") else json.loads(payload))
        for key, payload in RECORD.findall(done.stdout)
    ]
    lines = [line for line in done.stdout.splitlines() if line.startswith("| offset: ")]
    markers = [line for line in lines if "endTxnMarker" in line]
    assert len(records) == len(lines) - len(markers), "the decoder skipped some records"
    return records


def of(records: list[Record], kind: str, **key: object) -> list[dict[str, Any] | None]:
    """The values of one kind of record whose keys have these fields."""
    return [
        None if value is None else value["data"]
        for found, value in records
        if found["type"] == kind and key.items() <= found["data"].items()
    ]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data directory of a broker that hosted groups of both protocols and transactions."""
    data = tmp_path_factory.mktemp("internal")
    settings = {"offsets.topic.num.partitions": 1, "transaction.state.log.num.partitions": 1}
    with EmbeddedKafka(data_dir=data, config=settings, topics={"orders": 2}) as kafka:
        cluster = Cluster(kind="embedded", bootstrap_servers=kafka.bootstrap_servers)
        produce_values(cluster, "orders", b"a", b"b", b"c")
        classic = reader(cluster, "classic-group", "classic")
        consumer = reader(cluster, "consumer-group", "consumer")
        transact(cluster, classic)
        classic.close()
        consumer.close()
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
        admin.delete_consumer_groups(["consumer-group"])["consumer-group"].result(30)
    (broker,) = data.glob("broker-1*")
    return broker


def reader(cluster: Cluster, group: str, protocol: str) -> Consumer:
    """A member that has read everything and committed its position."""
    member = open_consumer(cluster, group_id=group, group_protocol=protocol, client_id=group)
    member.subscribe(["orders"])
    poll(member, 3)
    member.commit(asynchronous=False)
    return member


def transact(cluster: Cluster, member: Consumer) -> None:
    """Commits offsets of the group in one transaction, and aborts another."""
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": "payments"}
    )
    producer.init_transactions(30)
    for commits in (True, False):
        producer.begin_transaction()
        producer.produce("orders", b"paid", partition=1)
        metadata = member.consumer_group_metadata()
        producer.send_offsets_to_transaction(member.position(member.assignment()), metadata, 30)
        if commits:
            producer.commit_transaction(30)
        else:
            producer.abort_transaction(30)


def test_kafka_decodes_the_offsets_topic(directory: Path) -> None:
    records = dump(directory / "__consumer_offsets-0", "--offsets-decoder")
    key = {"group": "classic-group", "topic": "orders", "partition": 0}
    offsets = of(records, OFFSET, **key)
    assert [offset and (offset["offset"], offset["leaderEpoch"]) for offset in offsets] == [
        (3, 0),  # from the member, then from both transactions
        (3, 0),
        (3, 0),
    ]
    generations = of(records, CLASSIC_GROUP, group="classic-group")
    stable = next(value for value in generations if value and value["members"])
    (member,) = stable["members"]
    assert (stable["protocolType"], stable["protocol"]) == ("consumer", "range")
    assert (stable["leader"], member["clientId"]) == (member["memberId"], "classic-group")
    assert member["subscription"]["topics"] == ["orders"]
    assert member["assignment"]["assignedPartitions"] == [{"topic": "orders", "partitions": [0, 1]}]
    assert (generations[-1] or {})["members"] == []


def test_kafka_decodes_a_consumer_group_and_its_end(directory: Path) -> None:
    records = dump(directory / "__consumer_offsets-0", "--offsets-decoder")
    key = {"groupId": "consumer-group"}
    (member, gone) = of(records, MEMBER, **key)
    assert member is not None
    assert (member["clientId"], member["subscribedTopicNames"]) == ("consumer-group", ["orders"])
    assert (member["subscribedTopicRegex"], member["classicMemberMetadata"]) == ("", None)
    assert gone is None
    (target, *_) = of(records, TARGET, **key)
    assert [topic["partitions"] for topic in (target or {})["topicPartitions"]] == [[0, 1]]
    (current, *_) = of(records, CURRENT, **key)
    assert [topic["partitions"] for topic in (current or {})["assignedPartitions"]] == [[0, 1]]
    for kind in (GROUP_EPOCH, TARGET_EPOCH, TARGET, CURRENT):
        assert of(records, kind, **key)[-1] is None
    offsets = of(records, OFFSET, group="consumer-group", topic="orders", partition=0)
    assert [offset and offset["offset"] for offset in offsets] == [3, None]


def test_kafka_decodes_the_transaction_log(directory: Path) -> None:
    records = dump(directory / "__transaction_state-0", "--transaction-log-decoder")
    values = [value["data"] for _, value in records if value is not None]
    assert {found["data"]["transactionalId"] for found, _ in records} == {"payments"}
    empty, ongoing, prepare_commit, prepare_abort, complete_commit, complete_abort = range(6)
    states = [value["transactionStatus"] for value in values]
    assert states[0] == empty
    assert {ongoing, prepare_commit, prepare_abort} <= set(states)
    assert states.index(complete_commit) < states.index(complete_abort) == len(states) - 1
    prepared = values[states.index(prepare_commit)]
    partitions = {
        part["topic"]: sorted(part["partitionIds"]) for part in prepared["transactionPartitions"]
    }
    assert partitions == {"orders": [1], "__consumer_offsets": [0]}
