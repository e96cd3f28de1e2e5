"""Apache Kafka resumes where our brokers stopped, and ours where Kafka did, repeatedly.

Both use a real ZooKeeper, the same directories and the same broker ids. Each finds what the other
wrote (records of all codecs in many segments, transactions in every state, groups, settings) and
adds to it. A directory that is in use refuses the other.
"""

import re
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from embedkafka import DirectoryInUse, EmbeddedKafka
from embedkafka.runtime.clock import SystemClock
from embedkafka.wire.protocol.errors import ErrorCode
from embedkafka.wire.protocol.messages.core import MetadataRequest, ProduceRequest
from embedkafka.wire.records.builder import build_batch
from tests.java_tools.jvm import JavaProcessError
from tests.java_tools.zookeeper import ZooKeeperServer
from tests.java_tools.zookeeper_kafka import ZooKeeperKafka
from tests.presence import present
from tests.wire.clients import eventually
from tests.wire.raw_client import RawClient

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(290)]

BROKERS = 2
SESSION = {"zookeeper.session.timeout.ms": 6_000}
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
PRODUCER_ID = 500_000  # far from the ids that brokers allocate
QUIET = {"log_level": 0, "log.connection.close": False}
#: Kafka's complaints about the directories it finds. Other parts warn of brokers that are not up
#: yet, and a follower of a high watermark that its new leader has not heard of yet.
REPAIRS = re.compile(
    r" (WARN|ERROR) (kafka\.log|org\.apache\.kafka\.storage)\.(?!.*Non-monotonic update of high)"
)


@dataclass
class Story:
    """Everything written so far, in offset order, by either side."""

    topic: str = "orders"
    #: Every value in partition 0, with the fate of its transaction.
    values: list[tuple[bytes, str]] = field(default_factory=list)
    committed_offset: int = 0
    sequence: int = 0


@pytest.fixture
def zookeeper() -> Iterator[str]:
    with ZooKeeperServer(tick_time_ms=1000) as server:
        yield f"{server.connect_string}/taken"


def log_dirs(data_dir: Path) -> list[Path]:
    return [data_dir / f"broker-{number}" for number in range(1, BROKERS + 1)]


def ours(zookeeper: str, data_dir: Path) -> EmbeddedKafka:
    return EmbeddedKafka(brokers=BROKERS, zookeeper=zookeeper, data_dir=data_dir, config=SESSION)


def theirs(zookeeper: str, data_dir: Path, tmp_path: Path) -> ZooKeeperKafka:
    return ZooKeeperKafka(zookeeper, log_dirs(data_dir), directory=tmp_path)


# -- writing


def begin(address: str, story: Story) -> None:
    admin = AdminClient({"bootstrap.servers": address, **QUIET})
    config = {"segment.bytes": "2000", "retention.ms": "123456789"}
    topic = NewTopic(story.topic, 3, BROKERS, config=config)
    admin.create_topics([topic], operation_timeout=30)[story.topic].result(30)
    broker = ConfigResource(
        ResourceType.BROKER,
        "1",
        incremental_configs=[
            ConfigEntry("log.cleaner.threads", "2", incremental_operation=AlterConfigOpType.SET)
        ],
    )
    admin.incremental_alter_configs([broker])[broker].result(30)


def add(address: str, story: Story, chapter: str) -> None:
    """Adds records of every codec, a committed and an aborted transaction, and an offset."""
    await_leaders(address, story.topic)
    for codec in CODECS:
        write(address, story, [f"{chapter} {codec} {n}".encode() for n in range(20)], codec=codec)
    for outcome in ("committed", "aborted"):
        txn = transactional(address, f"{chapter}-{outcome}")
        txn.begin_transaction()
        deliver(txn, story, [f"{chapter} {outcome}".encode()], outcome)
        txn.commit_transaction(30) if outcome == "committed" else txn.abort_transaction(30)
    numbered(address, story)
    story.committed_offset = len(story.values)
    commit(address, story)


def leave_open(address: str, story: Story) -> None:
    """Begins a transaction that its producer never ends."""
    txn = transactional(address, "left-open")
    txn.begin_transaction()
    deliver(txn, story, [b"undecided"], "open")


def write(address: str, story: Story, values: list[bytes], *, codec: str) -> None:
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": address,
            "enable.idempotence": True,
            "compression.type": codec,
            "linger.ms": 5,
            **QUIET,
        }
    )
    deliver(producer, story, values, "none")


def deliver(producer: Any, story: Story, values: list[bytes], txn: str) -> None:
    errors = []
    for value in values:
        producer.produce(
            story.topic,
            value,
            key=b"key",
            partition=0,
            headers=[("h", b"x")],
            on_delivery=lambda error, _: errors.append(error) if error else None,
        )
    assert producer.flush(30) == 0
    assert not errors
    story.values += [(value, txn) for value in values]


def fill_empty_partitions(address: str, story: Story) -> None:
    """Writes a first record where there was none, and so no file when Kafka took over."""
    producer = confluent_kafka.Producer({"bootstrap.servers": address, **QUIET})
    offsets: list[int] = []
    for partition in (1, 2):
        producer.produce(
            story.topic,
            b"first",
            partition=partition,
            on_delivery=lambda error, message: offsets.append(present(message.offset())),
        )
    assert producer.flush(30) == 0
    assert offsets == [0, 0]


def transactional(address: str, transactional_id: str) -> Any:
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": address, "transactional.id": transactional_id, **QUIET}
    )
    producer.init_transactions(40)
    return producer


def numbered(address: str, story: Story, *, again: bool = False) -> ErrorCode:
    """Sends the next batch of one idempotent producer, or the last one again."""
    sequence = story.sequence - 1 if again else story.sequence
    value = b"number %d" % sequence
    records = build_batch(
        [(SystemClock().now_ms(), None, value, ())],
        producer_id=PRODUCER_ID,
        producer_epoch=0,
        base_sequence=sequence,
    )
    data = ProduceRequest.Topic.Partition(index=0, records=memoryview(records))
    request = ProduceRequest(
        acks=-1,
        timeout_ms=20_000,
        topic_data=[ProduceRequest.Topic(name=story.topic, partition_data=[data])],
    )
    with leader(address, story.topic) as client:
        answer = client.call(request, 9).responses[0].partition_responses[0]
    if not again:
        assert answer.error_code == ErrorCode.NONE
        story.sequence += 1
        story.values.append((value, "none"))
    return ErrorCode(answer.error_code)


def commit(address: str, story: Story) -> None:
    consumer = open_consumer(address)
    offset = confluent_kafka.TopicPartition(
        story.topic, 0, story.committed_offset, metadata="a note"
    )

    def is_committed() -> bool:
        try:
            consumer.commit(offsets=[offset], asynchronous=False)
        except confluent_kafka.KafkaException as refusal:
            if refusal.args[0].code() != confluent_kafka.KafkaError.NOT_COORDINATOR:
                raise
            return False  # the coordinator has just moved
        return True

    eventually(is_committed, "the offset is committed")
    consumer.close()


# -- reading


def check(address: str, story: Story) -> None:
    """Checks that clients find everything in the story."""
    await_leaders(address, story.topic)
    found = read(address, story, isolation="read_uncommitted")
    assert found == [value for value, _ in story.values]
    decided = takewhile(lambda entry: entry[1] != "open", story.values)
    stable = [value for value, txn in decided if txn != "aborted"]
    assert read(address, story, isolation="read_committed") == stable
    consumer = open_consumer(address)
    (offset,) = consumer.committed([confluent_kafka.TopicPartition(story.topic, 0)], timeout=30)
    consumer.close()
    assert (offset.offset, offset.metadata) == (story.committed_offset, "a note")
    admin = AdminClient({"bootstrap.servers": address, **QUIET})
    assert setting(admin, ResourceType.TOPIC, story.topic, "retention.ms") == "123456789"
    assert setting(admin, ResourceType.TOPIC, story.topic, "segment.bytes") == "2000"
    assert setting(admin, ResourceType.BROKER, "1", "log.cleaner.threads") == "2"
    assert numbered(address, story, again=True) is ErrorCode.NONE
    assert read(address, story, isolation="read_uncommitted") == found, "a duplicate was stored"


def settle(address: str, story: Story) -> None:
    """Takes over the transactional id, which aborts the open transaction."""
    transactional(address, "left-open")
    story.values = [(value, "aborted" if txn == "open" else txn) for value, txn in story.values]


def read(address: str, story: Story, *, isolation: str) -> list[bytes]:
    consumer = open_consumer(
        address, **{"isolation.level": isolation, "enable.partition.eof": True}
    )
    consumer.assign([confluent_kafka.TopicPartition(story.topic, 0, 0)])
    values: list[bytes] = []
    while True:
        message = consumer.poll(30)
        assert message is not None, f"no message after {len(values)} records"
        if message.error():
            assert message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF
            break
        values.append(message.value())
    consumer.close()
    return values


def setting(admin: Any, kind: Any, resource: str, name: str) -> str:
    asked = ConfigResource(kind, resource)
    return admin.describe_configs([asked])[asked].result(30)[name].value


def open_consumer(address: str, **settings: Any) -> Any:
    return confluent_kafka.Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "readers",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            **QUIET,
            **settings,
        }
    )


def await_leaders(address: str, topic: str) -> None:
    for server in address.split(","):
        host, port = server.split(":")
        with RawClient(host, int(port)) as client:
            eventually(partial(client.knows_leaders, topic, 3), f"{server} knows {topic}")
            eventually(partial(client.leads, topic), f"{server} leads its part of {topic}")


def leader(address: str, topic: str) -> RawClient:
    host, port = address.split(",")[0].split(":")
    with RawClient(host, int(port)) as client:
        asked = MetadataRequest.Topic(name=topic)
        answer = client.call(MetadataRequest(topics=[asked]), 9)
    (partition,) = (p for p in answer.topics[0].partitions if p.partition_index == 0)
    (node,) = (broker for broker in answer.brokers if broker.node_id == partition.leader_id)
    return RawClient(node.host, node.port)


def identity(address: str, topic: str) -> tuple[str, uuid.UUID]:
    host, port = address.split(",")[0].split(":")
    with RawClient(host, int(port)) as client:
        answer = client.call(MetadataRequest(topics=[MetadataRequest.Topic(name=topic)]), 12)
    return answer.cluster_id, answer.topics[0].topic_id


# -- takeovers


def assert_kafka_is_refused(zookeeper: str, data_dir: Path, tmp_path: Path) -> None:
    apache = theirs(zookeeper, data_dir, tmp_path)
    with pytest.raises(JavaProcessError, match="the process ended"):
        apache.__enter__()
    assert "Failed to acquire lock on file .lock" in apache.output()


def assert_we_are_refused(data_dir: Path, holder: int) -> None:
    """Starts ours without the shared ZooKeeper, where the broker ids are taken."""
    with pytest.raises(DirectoryInUse, match=rf"broker-1 is in use by process {holder}$"):
        EmbeddedKafka(brokers=BROKERS, data_dir=data_dir).start()


def repairs(apache: ZooKeeperKafka) -> list[str]:
    """The lines in which Kafka reports damaged directories."""
    return [line for line in apache.output().splitlines() if REPAIRS.search(line)]


def test_kafka_takes_over_from_us_and_we_from_kafka(zookeeper: str, tmp_path: Path) -> None:
    story, data_dir = Story(), tmp_path / "data"
    with ours(zookeeper, data_dir) as kafka:
        begin(kafka.bootstrap_servers, story)
        add(kafka.bootstrap_servers, story, "first, by us")
        leave_open(kafka.bootstrap_servers, story)
        check(kafka.bootstrap_servers, story)
        who = identity(kafka.bootstrap_servers, story.topic)
        assert_kafka_is_refused(zookeeper, data_dir, tmp_path)
        check(kafka.bootstrap_servers, story)
    with theirs(zookeeper, data_dir, tmp_path) as apache:
        assert_we_are_refused(data_dir, apache.pids[0])
        check(apache.bootstrap_servers, story)
        assert identity(apache.bootstrap_servers, story.topic) == who
        settle(apache.bootstrap_servers, story)
        add(apache.bootstrap_servers, story, "second, by them")
        fill_empty_partitions(apache.bootstrap_servers, story)
        leave_open(apache.bootstrap_servers, story)
        assert repairs(apache) == []
    with ours(zookeeper, data_dir) as kafka:
        check(kafka.bootstrap_servers, story)
        assert identity(kafka.bootstrap_servers, story.topic) == who
        settle(kafka.bootstrap_servers, story)
        add(kafka.bootstrap_servers, story, "third, by us")
        check(kafka.bootstrap_servers, story)


def test_we_take_over_from_kafka_and_kafka_from_us(zookeeper: str, tmp_path: Path) -> None:
    story, data_dir = Story(), tmp_path / "data"
    with theirs(zookeeper, data_dir, tmp_path) as apache:
        begin(apache.bootstrap_servers, story)
        add(apache.bootstrap_servers, story, "first, by them")
        leave_open(apache.bootstrap_servers, story)
        who = identity(apache.bootstrap_servers, story.topic)
    with ours(zookeeper, data_dir) as kafka:
        check(kafka.bootstrap_servers, story)
        assert identity(kafka.bootstrap_servers, story.topic) == who
        settle(kafka.bootstrap_servers, story)
        add(kafka.bootstrap_servers, story, "second, by us")
    with theirs(zookeeper, data_dir, tmp_path) as apache:
        check(apache.bootstrap_servers, story)
        assert repairs(apache) == []


def test_repairs_are_seen_when_a_directory_is_damaged(zookeeper: str, tmp_path: Path) -> None:
    """Proves that the tests above would notice a damage such as a missing index."""
    story, data_dir = Story(), tmp_path / "data"
    with ours(zookeeper, data_dir) as kafka:
        begin(kafka.bootstrap_servers, story)
        add(kafka.bootstrap_servers, story, "by us")
    index = min(log_dirs(data_dir)[0].glob(f"{story.topic}-0/*.index"))
    index.unlink()
    with theirs(zookeeper, data_dir, tmp_path) as apache:
        check(apache.bootstrap_servers, story)
        assert any(str(index.with_suffix(".log")) in line for line in repairs(apache))
