"""Metrics: what a test asserts, and what Prometheus reads."""

import re
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer

from embedkafka import EmbeddedKafka, InvalidArgument, cli
from embedkafka.cluster.metrics_page import MetricsPage
from embedkafka.cluster.reports.metric_names import NAMES
from embedkafka.cluster.reports.metrics import Metric, Metrics
from embedkafka.runtime.addresses import parse_address
from embedkafka.wire.protocol.messages.configs import AlterClientQuotasRequest
from embedkafka.wire.protocol.messages.core import MetadataRequest
from tests.wire.clients import eventually
from tests.wire.one_partition import batch, fetch_request, produce
from tests.wire.raw_client import RawClient


@pytest.fixture(scope="module")
def kafka() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka() as kafka:
        kafka.metrics()
        yield kafka


def connect(kafka: EmbeddedKafka) -> RawClient:
    host, _, port = kafka.bootstrap_servers.rpartition(":")
    return RawClient(host, int(port))


def test_records_and_bytes_are_counted_by_topic(kafka: EmbeddedKafka) -> None:
    before = kafka.metrics()
    assert before.total("MessagesInPerSec", topic="counted") == 0
    topic = kafka.topic("counted", partitions=2)
    topic.send_many(["abc"] * 5)
    metrics = kafka.metrics()
    assert metrics.total("MessagesInPerSec", topic="counted") == 5
    assert metrics.total("MessagesInPerSec", topic="counted", broker=1) == 5
    size = metrics.total("Size", topic="counted")
    assert size == metrics.total("BytesInPerSec", topic="counted") > 0
    assert metrics.total("LogEndOffset", topic="counted") == 5
    assert metrics.total("FailedProduceRequestsPerSec", topic="counted") == 0

    assert len(topic.read()) == 5
    assert kafka.metrics().total("BytesOutPerSec", topic="counted") >= size


def test_requests_are_counted_and_timed_by_api() -> None:
    with EmbeddedKafka() as kafka, connect(kafka) as raw:  # which has no other clients
        raw.call(MetadataRequest(topics=[]), 9)
        before = kafka.metrics()
        for name in ("no-such-topic", "nor-this"):
            wanted = MetadataRequest.Topic(name=name)
            raw.call(MetadataRequest(topics=[wanted], allow_auto_topic_creation=False), 9)
        after = kafka.metrics()

    def grown(name: str, **labels: object) -> float:
        labels = {"request": "Metadata", **labels}
        return after.total(name, **labels) - before.total(name, **labels)

    assert grown("RequestsPerSec") == 2
    assert grown("ErrorsPerSec", error="UNKNOWN_TOPIC_OR_PARTITION") == 2
    assert grown("LocalTimeMs") > 0
    assert grown("ResponseSendTimeMs") > 0
    assert grown("RequestQueueTimeMs") >= 0
    assert grown("RequestBytes") > 0
    assert grown("RemoteTimeMs") == 0
    assert grown("ResponseQueueTimeMs") >= 0
    assert grown("ThrottleTimeMs") == 0
    assert grown("TotalTimeMs") >= grown("LocalTimeMs") + grown("ResponseSendTimeMs")


def test_a_fetch_that_waits_does_so_in_its_remote_time(kafka: EmbeddedKafka) -> None:
    kafka.topic("waited-for")
    before = kafka.metrics().total("RemoteTimeMs", request="Fetch")
    settings = {"bootstrap.servers": kafka.bootstrap_servers, "group.id": "waiting"}
    consumer = Consumer({**settings, "auto.offset.reset": "earliest"})
    try:
        consumer.subscribe(["waited-for"])
        while kafka.metrics().total("RemoteTimeMs", request="Fetch") <= before:
            consumer.poll(0.2)
    finally:
        consumer.close()


def test_the_lag_of_a_group_and_open_transactions_are_there(kafka: EmbeddedKafka) -> None:
    topic = kafka.topic("behind")
    topic.send_many(["a", "b", "c"])
    settings = {"bootstrap.servers": kafka.bootstrap_servers, "group.id": "late"}
    consumer = Consumer({**settings, "auto.offset.reset": "earliest"})
    consumer.subscribe(["behind"])
    message = consumer.poll(30)
    assert message is not None
    consumer.commit(message=message, asynchronous=False)
    metrics = kafka.metrics()
    assert metrics.total("GroupLag", group="late", topic="behind") == 2
    assert metrics.total("NumGroups") >= 1
    assert metrics.total("NumGroupsStable") == metrics.total("NumOffsets") == 1
    assert metrics.total("offset-commit-count") >= 1
    assert metrics.total("offset-expiration-count") == metrics.total("ExpiredGroups") == 0
    consumer.close()

    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": "open"})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce("behind", b"d")
    producer.flush(30)
    assert kafka.metrics().total("NumOpenTransactions", state="Ongoing") == 1
    producer.abort_transaction(30)


def test_conversions_are_counted_with_their_topic() -> None:
    with EmbeddedKafka() as kafka, connect(kafka) as raw:
        kafka.topic("plain")
        kafka.topic("packed", config={"compression.type": "gzip"})
        produce(raw, "plain", batch(b"a", b"b"))
        assert kafka.metrics().total("ProduceMessageConversionsPerSec") == 0
        produce(raw, "packed", batch(b"a", b"b", b"c"))
        metrics = kafka.metrics()
        assert metrics.total("ProduceMessageConversionsPerSec", topic="packed") == 3
        assert metrics.total("TemporaryMemoryBytes", request="Produce") > 0
        assert metrics.total("MessageConversionsTimeMs", request="Produce") >= 0
        assert metrics.total("FetchMessageConversionsPerSec") == 0

        raw.call(fetch_request("plain", 0), 4)
        assert kafka.metrics().total("FetchMessageConversionsPerSec") == 0
        raw.call(fetch_request("plain", 0), 2)
        metrics = kafka.metrics()
        assert metrics.total("FetchMessageConversionsPerSec", topic="plain") == 2
        assert metrics.total("MessageConversionsTimeMs", request="Fetch") > 0


def test_every_name_is_measured(kafka: EmbeddedKafka) -> None:
    """But for what this cluster has not had: transactions, conversions, failed answers."""
    kafka.topic("all").send("a")
    missing = NAMES.keys() - {metric.name for metric in kafka.metrics()}
    assert missing <= {
        "ConsumerLag",
        "FetchMessageConversionsPerSec",
        "GroupLag",
        "MessageConversionsTimeMs",
        "NumOpenTransactions",
        "ProduceMessageConversionsPerSec",
        "TemporaryMemoryBytes",
    }


def test_replicas_that_fall_out_are_seen_and_counted() -> None:
    with EmbeddedKafka(brokers=2, topics={}) as kafka:
        copied = kafka.topic("copied", replication=2)
        settled = kafka.metrics()
        assert settled.total("ActiveControllerCount") == 1
        assert settled.total("UnderReplicatedPartitions") == 0
        assert settled.total("PartitionCount", broker=2) == 1
        assert settled.total("OfflinePartitionsCount") == 0
        assert settled.total("ActiveBrokerCount") == 2
        assert settled.total("GlobalTopicCount") == settled.total("GlobalPartitionCount") == 1
        assert settled.total("AtMinIsrPartitionCount") == 0
        assert settled.total("PreferredReplicaImbalanceCount") == 0
        leader = copied.leader(0)
        follower = 3 - leader
        kafka.broker(follower).stop()
        copied.await_isr(size=1)
        alone = kafka.metrics()
        assert alone.total("UnderReplicatedPartitions", broker=leader) == 1
        assert alone.total("AtMinIsrPartitionCount", broker=leader) == 1
        assert alone.total("ActiveBrokerCount") == 1
        kafka.broker(follower).start()
        copied.await_isr(size=2)
        assert kafka.metrics().total("IsrExpandsPerSec", broker=leader) >= 1


@pytest.mark.parametrize("io_threads", [0, 2])
def test_the_way_of_requests_is_seen(io_threads: int) -> None:
    config = {"num.io.threads": io_threads, "num.network.threads": 2}
    with EmbeddedKafka(config=config) as kafka, connect(kafka) as raw:
        kafka.metrics()
        raw.call(MetadataRequest(topics=[]), 9)
        metrics = kafka.metrics()
        mine = {"listener": "PLAINTEXT", "ip": "127.0.0.1"}
        connections = metrics.total("connection-count", **mine)
        assert connections >= 1
        assert metrics.total("connection-count") > connections  # the controller's, too
        assert metrics.total("connection-count", ip="10.0.0.1") == 0
        assert metrics.total("MutedChannels", listener="PLAINTEXT") <= connections
        for name in ("RequestQueueSize", "ResponseQueueSize", "AcceptorBlockedPercent"):
            assert metrics.total(name) == 0
        assert metrics.total("NetworkProcessorAvgIdlePercent") < 1
        for plane in ("", "ControlPlane"):
            assert 0 < metrics.total(f"{plane}NetworkProcessorAvgIdlePercent") <= 1
            assert 0 < metrics.total(f"{plane}RequestHandlerAvgIdlePercent") <= 1
            assert metrics.total(f"{plane}RequestQueueSize") == 0
            assert metrics.total(f"{plane}ResponseQueueSize") == 0


def test_a_quota_shows_how_long_it_delays_clients() -> None:
    with EmbeddedKafka() as kafka:
        kafka.metrics()
        topic = kafka.topic("slowed")
        with connect(kafka) as raw:
            quota = AlterClientQuotasRequest.Entry
            raw.call(
                AlterClientQuotasRequest(
                    entries=[
                        quota(
                            entity=[quota.Entity(entity_type="client-id", entity_name=None)],
                            ops=[quota.Op(key="producer_byte_rate", value=1.0, remove=False)],
                        )
                    ],
                    validate_only=False,
                ),
                1,
            )
        producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})

        def is_delayed() -> bool:  # a quota is in force soon after it was set
            producer.produce(topic.name, b"a" * 100)
            producer.flush(30)
            return kafka.metrics().total("ThrottleTimeMs", request="Produce") > 0

        eventually(is_delayed, "the quota delays the producer")


def test_counts_outlive_a_restart() -> None:
    with EmbeddedKafka() as kafka:
        kafka.metrics()
        topic = kafka.topic("kept")
        topic.send("a")
        kafka.broker(1).restart()
        topic.send("b")
        assert kafka.metrics().total("MessagesInPerSec", topic="kept") == 2


def test_nothing_is_counted_before_the_first_question() -> None:
    with EmbeddedKafka() as kafka:
        broker = kafka.broker(1)._lifecycle.require_broker()
        assert broker.meter is None
        assert not broker._built.server._is_measured
        assert broker._built.pool._busy is None
        assert not kafka._require_brokers().controller_event_log.is_on
        topic = kafka.topic("early")
        topic.send("a")
        assert kafka._require_brokers().controller_event_log.queued(1).times == 0
        assert kafka.metrics().total("MessagesInPerSec", topic="early") == 0
        assert broker._built.server._is_measured
        topic.send("b")
        assert kafka.metrics().total("MessagesInPerSec", topic="early") == 1


def test_a_wrong_name_is_corrected(kafka: EmbeddedKafka) -> None:
    with pytest.raises(InvalidArgument, match="did you mean 'MessagesInPerSec'"):
        kafka.metrics().total("MessageInPerSec")
    assert {metric.name for metric in kafka.metrics()} <= NAMES.keys()


def test_prometheus_gets_every_digit() -> None:
    """A counter that grows by one has to grow there, too."""
    labels = {"broker": "1"}
    text = Metrics(
        [
            Metric("kafka.server:type=BrokerTopicMetrics", "BytesInPerSec", labels, 1_234_567_890),
            Metric("kafka.network:type=RequestMetrics", "LocalTimeMs", labels, 12_345_678.25),
        ]
    ).prometheus()
    values = [line.split()[-1] for line in text.splitlines() if not line.startswith("#")]
    assert values == ["12345678.25", "1234567890"]


def test_prometheus_reads_the_page(kafka: EmbeddedKafka) -> None:
    kafka.topic("a-b").send("x")
    page = MetricsPage(kafka)
    try:
        with urllib.request.urlopen(page.url) as answer:
            assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
            text = answer.read().decode()
        with urllib.request.urlopen(page.url.replace("/metrics", "/")) as answer:
            assert answer.read() == b"metrics for Prometheus are at /metrics\n"
        with pytest.raises(urllib.error.HTTPError, match="404") as refused:
            urllib.request.urlopen(page.url.replace("/metrics", "/metric"))
        refused.value.close()  # it is an answer, too, and holds its socket
    finally:
        page.close()
    named = set()
    for line in text.splitlines():
        assert re.fullmatch(
            r"# HELP \w+ [^\\]+\.|# TYPE \w+ (counter|gauge)|"
            r'\w+\{(\w+="[^"]*",?)*\} [-+.\de]+',
            line,
        )
        named.add(re.split(r"[ {]", line.removeprefix("# HELP ").removeprefix("# TYPE "))[0])
    for name in named:
        assert re.search(rf"^# HELP {name} .+\n# TYPE {name} .+\n{name}\{{", text, re.MULTILINE)
    assert re.search(
        r'kafka_server_brokertopicmetrics_messagesin_total\{broker="1",topic="a-b"\} 1', text
    )
    assert 'kafka_controller_kafkacontroller_activecontrollercount{broker="1"} 1' in text


def test_a_silent_client_holds_up_neither_the_page_nor_its_end(kafka: EmbeddedKafka) -> None:
    page = MetricsPage(kafka)
    with socket.create_connection(parse_address(page.url.split("/")[2]), timeout=30) as silent:
        try:
            with urllib.request.urlopen(page.url, timeout=30) as answer:
                assert b"activecontrollercount" in answer.read()
        finally:
            page.close()
        assert silent.recv(1) == b""


def test_a_port_of_the_page_that_is_taken(capfd: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert cli.main(["serve", "--metrics-port", str(port)]) == 2
    assert capfd.readouterr().err == (
        f"embedkafka: cannot serve metrics on 127.0.0.1:{port}: port {port} is in use: choose "
        "another --metrics-port, or 0 for a free one\n"
    )


def test_a_name_that_another_site_points_here_gets_no_metrics(kafka: EmbeddedKafka) -> None:
    page = MetricsPage(kafka)
    port = page.url.split(":")[2].split("/")[0]
    try:
        for headers in ({"Host": f"evil.example:{port}"}, {"Origin": "http://evil.example"}):
            request = urllib.request.Request(page.url, headers=headers)
            with pytest.raises(urllib.error.HTTPError, match="403") as refused:
                urllib.request.urlopen(request, timeout=30)
            refused.value.close()
        request = urllib.request.Request(page.url, headers={"Host": f"localhost:{port}"})
        urllib.request.urlopen(request, timeout=30).close()
    finally:
        page.close()


def test_serve_serves_the_page() -> None:
    program = "import sys; from embedkafka.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", program, "serve", "--metrics-port", "0"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as served:
        assert served.stdout is not None
        printed = [served.stdout.readline().split() for _ in range(2)]
        (url,) = [words[1] for words in printed if words[0] == "METRICS"]
        with urllib.request.urlopen(url) as answer:
            assert b"kafka_server_replicamanager_partitioncount" in answer.read()
        served.communicate()
    assert served.returncode == 0
