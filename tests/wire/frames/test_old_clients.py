"""kafka-python, set to speak the protocol of old Kafka versions, from 0.8 on."""

import gc
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from embedkafka.wire.protocol.api_keys import ApiKey
from tests.wire.clients import Cluster
from tests.wire.raw_client import RawClient

kafka = pytest.importorskip("kafka")

pytestmark = [
    # kafka-python leaves sockets to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

Unique = Callable[[str], str]
Version = tuple[int, ...]


@pytest.fixture(params=[(0, 8, 2), (0, 9), (0, 10, 0), (0, 10, 1), (0, 11), (1, 0)], ids=str)
def version(request: pytest.FixtureRequest, cluster: Cluster, raw: RawClient) -> Version:
    if cluster.is_apache and 0 not in raw.supported_versions(ApiKey.FETCH):
        pytest.skip("this broker has dropped the old versions (KIP-896)")
    spoken: Version = request.param
    return spoken


@pytest.fixture(autouse=True)
def _no_socket_is_left() -> Iterator[None]:
    yield
    gc.collect()


@pytest.fixture
def producer(cluster: Cluster, version: Version) -> Iterator[Any]:
    made = kafka.KafkaProducer(
        bootstrap_servers=cluster.bootstrap_servers, api_version=version, acks="all", linger_ms=5
    )
    yield made
    made.close(timeout=10)


def open_consumer(cluster: Cluster, version: Version, group: str | None = None) -> Any:
    return kafka.KafkaConsumer(
        bootstrap_servers=cluster.bootstrap_servers,
        api_version=version,
        group_id=group,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        consumer_timeout_ms=30_000,
    )


def read(consumer: Any, count: int) -> list[Any]:
    found = []
    for record in consumer:
        found.append(record)
        if len(found) == count:
            break
    return found


@pytest.mark.parametrize("compression", [None, "gzip"])
def test_an_old_client_reads_what_it_wrote(
    cluster: Cluster, version: Version, topic: str, compression: str | None
) -> None:
    producer = kafka.KafkaProducer(
        bootstrap_servers=cluster.bootstrap_servers,
        api_version=version,
        acks="all",
        linger_ms=50,
        compression_type=compression,
    )
    sent = [producer.send(topic, key=b"k", value=b"%d" % i) for i in range(50)]
    producer.flush(30)
    assert [future.get(30).offset for future in sent] == list(range(50))
    producer.close(timeout=10)
    consumer = open_consumer(cluster, version)
    consumer.assign([kafka.TopicPartition(topic, 0)])
    records = read(consumer, 50)
    consumer.close()
    assert [record.value for record in records] == [b"%d" % i for i in range(50)]
    assert {record.key for record in records} == {b"k"}


def test_an_old_client_finds_the_ends_of_a_log(
    cluster: Cluster, version: Version, topic: str, producer: Any
) -> None:
    producer.send(topic, b"a").get(30)
    producer.send(topic, b"b").get(30)
    partition = kafka.TopicPartition(topic, 0)
    consumer = open_consumer(cluster, version)
    assert consumer.beginning_offsets([partition]) == {partition: 0}
    assert consumer.end_offsets([partition]) == {partition: 2}
    consumer.close()


def test_an_old_group_goes_on_where_it_was(
    cluster: Cluster, version: Version, topic: str, producer: Any, unique: Unique
) -> None:
    for value in (b"a", b"b", b"c"):
        producer.send(topic, value).get(30)
    group, partition = unique("old"), kafka.TopicPartition(topic, 0)
    first = open_consumer(cluster, version, group)
    first.assign([partition])
    assert [record.value for record in read(first, 2)] == [b"a", b"b"]
    first.commit()
    first.close()
    second = open_consumer(cluster, version, group)
    second.assign([partition])
    assert [record.value for record in read(second, 1)] == [b"c"]
    assert second.committed(partition) == 2
    second.close()
