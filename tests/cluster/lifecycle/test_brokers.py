"""Brokers come and go: their handles, the data that survives, the calls that are refused."""

import itertools
import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from embedkafka import ClusterClosed, EmbeddedKafka, EmbedKafkaError, OwnedBroker
from embedkafka.cluster.lifecycle.lifecycle import PREDECESSORS, BrokerState
from embedkafka.runtime.addresses import parse_address
from embedkafka.runtime.clock import SystemClock
from embedkafka.wire.net.client import BrokerClient
from embedkafka.wire.protocol.api_keys import ApiKey
from embedkafka.wire.protocol.codec import decode, encode
from embedkafka.wire.protocol.errors import ErrorCode
from embedkafka.wire.protocol.headers import encode_request_header
from embedkafka.wire.protocol.messages.core import (
    ApiVersionsRequest,
    MetadataRequest,
    MetadataResponse,
)
from embedkafka.wire.protocol.wire_types import ZERO_UUID
from embedkafka.zk import paths
from embedkafka.zk.payloads import NO_FEATURES
from tests.cluster.traffic import make_producer, send
from tests.doubles.own_threads import OwnThreads
from tests.presence import present
from tests.wire.clients import eventually
from tests.wire.raw_client import RawClient

VERBS = {
    BrokerState.RUNNING: "start",
    BrokerState.STOPPED: "stop",
    BrokerState.KILLED: "kill",
    BrokerState.PAUSED: "pause",
}


def bring_to(handle: OwnedBroker, state: BrokerState) -> None:
    for verb in {
        BrokerState.RUNNING: (),
        BrokerState.STOPPED: ("stop",),
        BrokerState.KILLED: ("kill",),
        BrokerState.PAUSED: ("pause",),
    }[state]:
        getattr(handle, verb)()
    assert handle.state is state


@pytest.mark.parametrize(("before", "after"), list(itertools.product(VERBS, VERBS)))
def test_a_handle_makes_legal_moves_and_refuses_others(
    kafka: EmbeddedKafka, before: BrokerState, after: BrokerState
) -> None:
    handle = kafka.broker(2)
    bring_to(handle, before)
    verb = (
        "resume" if (before, after) == (BrokerState.PAUSED, BrokerState.RUNNING) else VERBS[after]
    )
    if before in PREDECESSORS[after]:
        getattr(handle, verb)()
        assert handle.state is after
    else:
        with pytest.raises(EmbedKafkaError, match=f"broker 2 cannot {verb}: it is {before.value}"):
            getattr(handle, verb)()
        assert handle.state is before
    assert handle.is_running == (handle.state in (BrokerState.RUNNING, BrokerState.PAUSED))


def test_a_paused_broker_is_not_started_but_resumed(kafka: EmbeddedKafka) -> None:
    kafka.broker(1).pause()
    with pytest.raises(EmbedKafkaError, match="cannot start: it is paused"):
        kafka.broker(1).start()
    kafka.broker(1).resume()
    with pytest.raises(EmbedKafkaError, match="cannot resume: it is running"):
        kafka.broker(1).resume()


def test_an_unknown_broker_is_an_error_that_names_the_known_ones(kafka: EmbeddedKafka) -> None:
    with pytest.raises(EmbedKafkaError, match="no broker 7; there are 1, 2, 3"):
        kafka.broker(7)


@pytest.mark.parametrize("verb", ["stop", "kill"])
def test_a_broker_comes_back_on_its_port_with_its_records(verb: str) -> None:
    with EmbeddedKafka() as kafka:
        topic = kafka.topic("orders", partitions=2)
        topic.send_many(map(str, range(100)))
        address = kafka.bootstrap_servers
        getattr(kafka.broker(1), verb)()
        with pytest.raises(ClusterClosed, match="no broker is running"):
            _ = kafka.bootstrap_servers
        kafka.broker(1).start()
        assert kafka.bootstrap_servers == address
        topic.await_leader(1)
        assert sorted(int(present(m.text)) for m in topic.read()) == list(range(100))
        assert topic.send("more").offset >= 0


def test_a_broker_takes_another_port_when_its_own_was_taken(kafka: EmbeddedKafka) -> None:
    handle = kafka.broker(1)
    host, port = handle.address.split(":")
    handle.kill()
    with ExitStack() as taken:
        with suppress(OSError):  # another program has it, which will do
            taken.enter_context(socket.create_server((host, int(port))))
        handle.start()
        assert handle.address != f"{host}:{port}"
        kafka.topic("orders", replication=3).send("found")


def test_a_stopped_broker_refuses_connections_and_a_paused_one_lets_them_wait(
    kafka: EmbeddedKafka,
) -> None:
    stopped, paused = kafka.broker(1), kafka.broker(2)
    host, port = stopped.address.split(":")
    stopped.stop()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)), timeout=5)
    host, port = paused.address.split(":")
    paused.pause()
    with socket.create_connection((host, int(port)), timeout=5) as connection:
        connection.sendall(b"\0\0\0\x0a\0\x12\0\0\0\0\0\1\xff\xff")
        connection.settimeout(0.2)
        with pytest.raises(TimeoutError):
            connection.recv(1)
        paused.resume()
        connection.settimeout(10)
        assert connection.recv(4)


def test_a_killed_broker_resets_its_connections(kafka: EmbeddedKafka) -> None:
    handle = kafka.broker(1)
    host, port = handle.address.split(":")
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        connection.sendall(b"\0\0\0\x0a\0\x12\0\0\0\0\0\1\xff\xff")
        assert connection.recv(4)
        handle.kill()
        with pytest.raises(ConnectionResetError):
            while connection.recv(65536):
                continue


def test_a_kill_leaves_no_clean_shutdown_mark_and_no_thread() -> None:
    own_threads = OwnThreads()
    with EmbeddedKafka(brokers=3) as kafka:
        handle = kafka.broker(3)
        directory = handle._lifecycle.require_broker().spec.log_dirs[0]
        kafka.topic("orders", partitions=3, replication=3).send_many(["a", "b", "c"])
        assert own_threads.names("ek-b3-") != []
        handle.kill()
        assert not (directory / ".kafka_cleanshutdown").exists()
        assert own_threads.names("ek-b3-") == []
        handle.start()
        handle.stop()
        assert (directory / ".kafka_cleanshutdown").exists()
        assert own_threads.names("ek-b3-") == []


def test_a_killed_broker_finds_its_log_as_it_was_and_catches_up(kafka: EmbeddedKafka) -> None:
    topic = kafka.topic("orders", replication=3)
    topic.send_many(map(str, range(1000)))
    dead = kafka.broker(topic.partition().replicas[-1])
    dead.kill()
    topic.await_isr(0, size=2)
    topic.send_many(map(str, range(1000)))
    dead.start()
    assert dead.id in topic.await_isr(0, size=3)
    (view,) = [
        v
        for v in dead._lifecycle.require_broker().replicas.hosted.views()
        if v.topic_partition[0] == "orders"
    ]
    assert view.log_end_offset == 2000


def test_a_broker_is_restarted_in_good_order(kafka: EmbeddedKafka) -> None:
    kafka.topic("orders", partitions=6, replication=3)
    for handle in kafka.brokers:
        handle.restart()
        kafka.await_no_under_replicated()
    assert send(make_producer(kafka), "orders", "x")[0] is None


def test_a_broker_is_added_and_gets_replicas_of_new_topics(kafka: EmbeddedKafka) -> None:
    handle = kafka.brokers.add()
    assert handle.id == 4
    wide = kafka.topic("wide", partitions=4, replication=4)
    kafka.await_no_under_replicated()
    assert {wide.leader(partition) for partition in range(4)} == {1, 2, 3, 4}
    kafka.broker(4).remove()
    assert [handle.id for handle in kafka.brokers] == [1, 2, 3]
    assert {wide.leader(partition) for partition in range(4)} == {1, 2, 3}


def test_a_whole_cluster_comes_back_from_its_directory(tmp_path: Path) -> None:
    with EmbeddedKafka(brokers=3, data_dir=tmp_path) as kafka:
        first_id = kafka.cluster_id
        orders = kafka.topic(
            "orders", partitions=6, replication=3, config={"retention.ms": 123_456_789}
        )
        orders.send_many(map(str, range(600)))
        leaders = [orders.leader(partition) for partition in range(6)]
        epochs = [orders.partition(p).leader_epoch for p in range(6)]
    with EmbeddedKafka(brokers=3, data_dir=tmp_path, topics={"orders": 6}) as kafka:
        assert kafka.cluster_id == first_id
        kafka.await_no_under_replicated()
        assert [
            kafka.existing_topic("orders").leader(partition) for partition in range(6)
        ] == leaders
        again = [kafka.existing_topic("orders").partition(p).leader_epoch for p in range(6)]
        assert all(now >= before for now, before in zip(again, epochs, strict=True))
        orders = kafka.existing_topic("orders")
        assert sorted(int(present(message.text)) for message in orders.read()) == list(range(600))
        config = kafka.broker(1)._lifecycle.require_broker().config.log_config("orders")
        assert config.retention_ms == 123_456_789
        orders.send("more")


def test_a_broker_that_was_dead_at_the_end_catches_up_in_the_next_cluster(tmp_path: Path) -> None:
    with EmbeddedKafka(brokers=3, data_dir=tmp_path) as kafka:
        orders = kafka.topic("orders", replication=3)
        orders.send("all have it")
        kafka.broker(1).kill()
        orders.await_isr(0, size=2)
        orders.send("two have it")
    with EmbeddedKafka(brokers=3, data_dir=tmp_path) as kafka:
        assert kafka.existing_topic("orders").leader() != 1
        kafka.await_no_under_replicated()
        assert len(kafka.existing_topic("orders").read()) == 2


def test_time_moves_when_the_test_says_so(kafka: EmbeddedKafka) -> None:
    before = kafka.clock.now_ms()
    kafka.clock.advance(days=8, hours=1, minutes=2, seconds=3, ms=4)
    passed = kafka.clock.now_ms() - before
    assert passed >= (((8 * 24 + 1) * 60 + 2) * 60 + 3) * 1000 + 4
    kafka.topic("orders", replication=3).send("still there")
    with pytest.raises(ValueError, match="cannot go back"):
        kafka.clock.advance(days=-1)


def test_a_broker_that_has_just_started_tells_of_the_cluster_once_it_knows_it() -> None:
    """librdkafka forgets every broker when a response lists none, and never asks again."""
    with EmbeddedKafka() as kafka:
        handle = kafka.broker(1)
        handle.stop()
        handle._lifecycle.boot()  # there is no controller yet
        host, _, port = handle.address.rpartition(":")
        early = socket.create_connection((host, int(port)), timeout=30)
        frame = encode_request_header(ApiKey.METADATA, 9, 7, "early") + encode(
            MetadataRequest(topics=None), 9
        )
        early.sendall(len(frame).to_bytes(4, "big") + frame)
        later = BrokerClient(host, int(port), SystemClock(), "later")
        later.call(ApiVersionsRequest(), 0)  # one thread serves both connections, in this order
        later.close()
        handle._lifecycle.require_broker().stand_for_election()
        with early, early.makefile("rb") as stream:
            answer = stream.read(int.from_bytes(stream.read(4), "big"))
        told = decode(MetadataResponse, 9, memoryview(answer)[5:])  # skip the header
        assert [broker.node_id for broker in told.brokers] == [1]


def test_notifications_of_changed_settings_do_not_pile_up(kafka: EmbeddedKafka) -> None:
    """Kafka's brokers purge them a quarter of an hour later, when they read the next one."""
    kafka.topic("orders")
    zk = kafka._require_brokers().zk
    for size in (20_000_000, 30_000_000, 40_000_000):
        config = kafka.broker(1)._lifecycle.require_broker().config
        config.set_overrides("topics", "orders", {"segment.bytes": str(size)})
        for broker in kafka.brokers:
            await_segment_bytes(broker, size)
        kafka.clock.advance(minutes=16)
    config.set_overrides("topics", "orders", {})
    eventually(lambda: len(zk.store.children(paths.CONFIG_CHANGES)) == 1, "the old ones are gone")


def await_segment_bytes(handle: OwnedBroker, size: int) -> None:
    config = handle._lifecycle.require_broker().config
    eventually(
        lambda: config.log_config("orders").segment_bytes == size, f"{handle} obeys the setting"
    )


def test_a_broker_that_has_just_started_calls_no_topic_unknown() -> None:
    """librdkafka's producer gives up a known topic as soon as it is unknown."""
    names = MetadataRequest(topics=[MetadataRequest.Topic(name="orders", topic_id=ZERO_UUID)])
    with (
        EmbeddedKafka(brokers=1, topics={"orders": 1}) as kafka,
        ThreadPoolExecutor(2) as others,
        kafka.faults.disconnect("UPDATE_METADATA", topic="orders", times=None) as uninformed,
    ):
        kafka.broker(1).kill()
        starting = others.submit(kafka.broker(1).start)
        uninformed.await_hits()  # the broker has heard only which brokers there are
        client = BrokerClient(*parse_address(kafka.bootstrap_servers), SystemClock(), "test")
        answer = others.submit(client.call, names, 12)
        uninformed.await_hits(uninformed.hits + 2)
        uninformed.remove()
        assert [topic.error_code for topic in answer.result(30).topics] == [ErrorCode.NONE]
        starting.result(30)
        client.close()


def test_the_epoch_of_the_features_is_the_version_of_their_znode() -> None:
    with EmbeddedKafka() as kafka:
        assert features_epoch(kafka) == 0
        zk = kafka.broker(1)._lifecycle.require_broker().zk
        zk.store.set(paths.FEATURE, NO_FEATURES)
        kafka.broker(1).restart()
        assert features_epoch(kafka) == 1


def features_epoch(kafka: EmbeddedKafka) -> int:
    host, port = parse_address(kafka.bootstrap_servers)
    asking = ApiVersionsRequest(client_software_name="raw", client_software_version="1")
    with RawClient(host, port) as raw:
        return int(raw.call(asking, 4).finalized_features_epoch)
