"""Many workers, of which one crashes: with one cluster for all, or one for each."""

import socket
import threading
from contextlib import suppress
from typing import Any

import pytest

from embedkafka import EmbedKafkaError
from embedkafka.runtime.addresses import parse_address
from pytest_embedkafka.calls import CallServer, call
from tests.java_tools.ports import free_row

pytestmark = pytest.mark.timeout(300)  # every test starts a run with several processes

WORKERS = 3


CRASHING = """
import os
import pytest

@pytest.mark.parametrize("number", range(8))
def test_orders(kafka, kafka_group, number):
    orders = kafka.topic("orders")
    if number == 3:
        os._exit(1)
    orders.send(str(number))
    assert [message.text for message in orders.read()] == [str(number)]
    orders.await_offsets(1)
    assert orders.leader() == 1
"""


@pytest.mark.parametrize("mode", ["own", "shared"])
def test_a_worker_that_crashes_costs_its_test_and_no_other(
    pytester: pytest.Pytester, run: Any, mode: str
) -> None:
    pytester.makepyfile(CRASHING)
    result = run(f"--kafka-xdist={mode}", "--kafka-brokers=1", f"-n{WORKERS}")
    result.assert_outcomes(passed=7, failed=1)
    result.stdout.fnmatch_lines(["*worker 'gw?' crashed while running *test_orders?3?*"])


GROUPED = """
import pytest

seen = []

@pytest.mark.xdist_group("orders")
@pytest.mark.parametrize("number", range(4))
def test_in_a_group(kafka, request, number):
    orders = kafka.topic("orders")
    orders.send(str(number))
    assert [message.text for message in orders.read()] == [str(number)]
    seen.append(number)
    if "@" in request.node.nodeid:
        assert seen == list(range(number + 1))

@pytest.mark.xdist_group("shapes")
@pytest.mark.kafka(brokers=[1, 2])
def test_of_two_shapes(kafka, kafka_topic):
    kafka_topic.send("x")
    assert len(kafka.brokers) in (1, 2)

@pytest.mark.parametrize("number", range(4))
def test_alone(kafka, kafka_topic, kafka_group, kafka_consumer, number):
    kafka_topic.send_many(["a", "b"])
    consumer = kafka_consumer(kafka_topic)
    assert [consumer.poll(20).value() for _ in range(2)] == [b"a", b"b"]
    consumer.commit(asynchronous=False)
    kafka.group(kafka_group).await_stable()
    kafka.group(kafka_group).await_lag(0, topic=kafka_topic.name)
    assert sum(kafka.group(kafka_group).lag(kafka_topic.name).values()) == 0
    assert kafka_group in {each.group_id for each in kafka.groups()}
"""


@pytest.mark.parametrize("mode", [pytest.param("own", marks=pytest.mark.slow), "shared"])
def test_tests_may_be_handed_out_by_group(pytester: pytest.Pytester, run: Any, mode: str) -> None:
    """xdist 3.8 ignores the groups on pytest 9.2; the node's id shows whether it saw them."""
    pytester.makepyfile(GROUPED)
    result = run(f"--kafka-xdist={mode}", "--kafka-brokers=1", "-n3", "--dist=loadgroup")
    result.assert_outcomes(passed=10)


REQUESTS = """
import os
import pytest
from confluent_kafka import Producer

NOBODY = "nobody"

def produce(kafka, topic, count, client_id):
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "client.id": client_id})
    for number in range(count):
        producer.produce(topic.name, str(number))
        assert producer.flush(30) == 0

@pytest.mark.parametrize("number", range(8))
def test_requests_of_one_worker(kafka, number):
    if number == 3:
        os._exit(1)
    orders = kafka.topic("orders")
    produce(kafka, orders, number + 1, "shop")
    seen = kafka.requests("Produce", topic="orders")
    assert {each.client_id for each in seen} == {"shop"}
    assert len(seen) == number + 1 == len(kafka.requests("produce", client_id="shop"))
    assert {each.topics for each in kafka.requests("PRODUCE")} == {frozenset({orders.name})}
    assert [topic.name for topic in seen[0].request.topic_data] == [orders.name]
    assert seen[0].errors == [] and seen[0].answer.responses[0].name == orders.name
    assert kafka.requests("Produce", broker=3 - orders.leader()) == []

    mark = kafka.mark()
    assert kafka.requests("Produce", since=mark) == []
    produce(kafka, orders, 2, "late")
    assert len(kafka.requests("Produce", topic=orders.name, since=mark)) == 2

def test_all_clients_of_the_worker(kafka, kafka_topic, kafka_group, kafka_consumer):
    kafka_topic.send("a")
    consumer = kafka_consumer(kafka_topic)
    assert consumer.poll(20).value() == b"a"
    consumer.commit(asynchronous=False)
    assert kafka.requests("Fetch", topic=kafka_topic.name)
    (joined, *_) = kafka.requests("JoinGroup", group=kafka_group)
    assert joined.groups == {kafka_group}
    assert not kafka.requests("OffsetCommit", group=NOBODY)
    assert not [each for each in kafka.requests("CreateTopics") if not each.is_own]

def test_wrong_names(kafka):
    with pytest.raises(ValueError, match="did you mean FETCH?"):
        kafka.requests("fetsh")
    with pytest.raises(ValueError, match="there is no broker 7"):
        kafka.requests(broker=7)
    with pytest.raises(TypeError):
        kafka.requests(colour="red")
"""


def test_requests_of_one_worker_are_seen_on_a_shared_cluster(
    pytester: pytest.Pytester, run: Any
) -> None:
    """Also by the worker that takes the place of a crashed one."""
    pytester.makepyfile(REQUESTS)
    result = run("--kafka-xdist=shared", "--kafka-brokers=2", f"-n{WORKERS}", "-W", "error")
    result.assert_outcomes(passed=9, failed=1)
    result.stdout.fnmatch_lines(["*worker 'gw?' crashed while running *one_worker?3?*"])


LEAVES_NOTHING = """
import threading
from pathlib import Path

def pytest_unconfigure(config):
    if not hasattr(config, "workerinput"):
        named = [thread.name for thread in threading.enumerate() if thread.name.startswith("ek-")]
        Path("threads").write_text(" ".join(named))
"""


def test_a_shared_cluster_leaves_no_port_thread_or_file(
    pytester: pytest.Pytester, run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = pytester.mkdir("temporary")
    monkeypatch.setenv("TMPDIR", str(temporary))
    pytester.makeconftest(LEAVES_NOTHING)
    pytester.makepyfile(
        """
        import os
        import pytest

        @pytest.mark.parametrize("number", range(4))
        def test_any(kafka, number):
            kafka.mark()
            with open("addresses", "a") as file:
                file.write(kafka.bootstrap_servers + ",")
            if number == 1:
                os._exit(1)
        """
    )
    # On a host of its own, so that no other process takes a port that is free again.
    shape = ("--kafka-xdist=shared", "--kafka-brokers=2", "--kafka-host=127.0.0.9")
    result = run(*shape, "-n2")
    result.assert_outcomes(passed=3, failed=1)
    addresses = set((pytester.path / "addresses").read_text().strip(",").split(","))
    assert len(addresses) in (2, 4), "each worker has the address of a listener of each broker"
    for address in addresses:
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(parse_address(address))
    assert (pytester.path / "threads").read_text() == ""
    left = [path.name for path in temporary.iterdir() if not path.name.startswith("embedkafka-")]
    assert left == [], "only the scratch directory of the worker that crashed"


ON_DEMAND = """
import pytest

def test_a_segment(kafka):
    prices = kafka.topic("prices", config={"cleanup.policy": "compact"})
    prices.send_many(["1", "2"], keys=["a", "a"])
    prices.roll()
    prices.compact()
    assert [message.text for message in prices.read()] == ["2"]
    prices.await_compaction()
    with pytest.raises(ValueError, match="there is no topic 'absent'"):
        kafka.existing_topic("absent").roll()

def test_retention(kafka):
    prices = kafka.topic("prices", config={"retention.bytes": 0})
    prices.send("old")
    prices.roll()
    prices.await_retention()
    assert prices.read() == []

def test_a_leader(kafka):
    orders = kafka.topic("orders", replication=2)
    for broker in (1, 2):
        orders.move_leader(to=broker)
        assert orders.leader() == broker
    kafka.brokers.await_all()
    assert kafka.state_changes("orders")[-1].leader == 2
    assert kafka.state_changes("orders", since=kafka.mark(), replicas=True) == []
    assert orders.explain().startswith("Broker 2 leads orders-gw")
    assert [each.broker for each in orders.followers()] == [1]
    with pytest.raises(ValueError, match="name the topic"):
        kafka.state_changes()
    with pytest.raises(ValueError, match="has no partition 7"):
        orders.explain(7)
    with pytest.raises(ValueError, match="name must be text"):
        kafka.existing_topic(None).explain()

def test_a_group(kafka, kafka_topic, kafka_group, kafka_consumer):
    kafka_topic.send("a")
    consumer = kafka_consumer(kafka_topic)
    assert consumer.poll(20).value() == b"a"
    consumer.commit(asynchronous=False)
    consumer.close()
    kafka.group(kafka_group).expire()
    assert kafka_group not in {group.group_id for group in kafka.groups()}

def test_java(kafka):
    assert f"bootstrap.servers={kafka.bootstrap_servers}" in open(kafka.java_properties()).read()

def test_red(kafka, kafka_topic):
    kafka_topic.send("the last record")
    assert False, "to see its report"
"""


def test_topics_and_groups_of_one_worker_are_in_its_hand(
    pytester: pytest.Pytester, run: Any
) -> None:
    pytester.makepyfile(ON_DEMAND)
    result = run("--kafka-xdist=shared", "--kafka-brokers=2", "-n2")
    result.assert_outcomes(passed=5, failed=1)
    result.stdout.fnmatch_lines(["*- Kafka cluster -*", "*value 'the last record'", "* PRODUCE *"])


def test_requests_are_skipped_where_the_run_has_listeners_of_its_own(
    pytester: pytest.Pytester, run: Any
) -> None:
    pytester.makepyfile(
        """
        def test_requests(kafka): kafka.requests()
        def test_mark(kafka): kafka.mark()
        """
    )
    listeners = "--kafka-config=listeners=PLAINTEXT://127.0.0.1:0"
    result = run("--kafka-xdist=shared", "--kafka-brokers=1", "-n1", "-rs", listeners)
    result.assert_outcomes(passed=1, skipped=1)
    result.stdout.fnmatch_lines(["*the settings of the run name the listeners*"])


UNNAMED = """
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

def create_by_producing(kafka, topic):
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    producer.produce(topic, "x")
    assert producer.flush(30) == 0

def topics_of(kafka):
    return set(AdminClient({"bootstrap.servers": kafka.bootstrap_servers}).list_topics().topics)

@pytest.fixture(scope="module")
def kept(kafka):
    create_by_producing(kafka, f"kept-{__name__}")
    return f"kept-{__name__}"

@pytest.mark.parametrize("number", range(4))
def test_creates_topics_without_the_fixture(kafka, kept, number):
    mine = {f"{kind}-{__name__}" for kind in ("produced", "made")}
    assert topics_of(kafka) & {kept, *mine} == {kept}
    mine_too = {__name__, f"joined-{__name__}"}
    assert not mine_too & {each.group_id for each in kafka.groups()}
    create_by_producing(kafka, f"produced-{__name__}")
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    for future in admin.create_topics([NewTopic(f"made-{__name__}", 1, 1)]).values():
        future.result(30)
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": __name__})
    consumer.commit(offsets=[TopicPartition(f"produced-{__name__}", 0, 1)], asynchronous=False)
    consumer.close()
    joins = {"group.id": f"joined-{__name__}", "enable.auto.commit": False}
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap_servers, **joins})
    consumer.subscribe([kept])
    while not consumer.assignment():
        consumer.poll(0.05)
    consumer.close()
    assert mine_too <= {each.group_id for each in kafka.groups()}
    assert topics_of(kafka) >= {kept, *mine}

@pytest.fixture(scope="module")
def stays(kafka):
    settings = {"client.id": f"stays-{__name__}"}
    return Producer({"bootstrap.servers": kafka.bootstrap_servers, **settings})

names = []

@pytest.mark.parametrize("number", range(2))
def test_a_client_that_stays_brings_no_topic_back(kafka, stays, number):
    for name in names * 2:  # the first question would create it
        assert stays.list_topics(name, timeout=30).topics[name].error is not None
    seen = kafka.topic("seen", partitions=4)
    assert len(seen.end_offsets()) == 4
    names.append(seen.name)
    stays.produce(seen.name, "x")
    assert stays.flush(30) == 0
"""


def test_topics_that_clients_create_on_a_shared_cluster_go_too(
    pytester: pytest.Pytester, run: Any
) -> None:
    pytester.makepyfile(test_one=UNNAMED, test_two=UNNAMED)
    result = run("--kafka-xdist=shared", "--kafka-brokers=1", "-n2", "--dist=loadfile")
    result.assert_outcomes(passed=12)


ON_ONE_PORT = """
import pytest
import socket

def meet():
    with socket.create_connection(("127.0.0.1", {meeting})) as connection:
        connection.recv(1)

@pytest.mark.kafka(port={port})
def test_first(kafka):
    meet()

def test_second():
    meet()
"""


def test_a_port_that_another_worker_has_is_an_error_that_names_it(
    pytester: pytest.Pytester, run: Any
) -> None:
    port = free_row(3)
    with socket.create_server(("127.0.0.1", 0)) as meeting:
        source = ON_ONE_PORT.format(port=port, meeting=meeting.getsockname()[1])
        pytester.makepyfile(source)
        letting_go = threading.Thread(target=let_go_when_two_came, args=(meeting,), daemon=True)
        letting_go.start()
        result = run("--dist=each", "--tx=2*popen")
        meeting.shutdown(socket.SHUT_RDWR)
        letting_go.join()
    result.assert_outcomes(passed=3, errors=1)
    result.stdout.fnmatch_lines([f"E*ConfigError: port {port} is in use: worker gw? has it, *"])


def let_go_when_two_came(meeting: socket.socket) -> None:
    """Hangs up on the first two callers together, and on later ones at once."""
    with suppress(OSError):  # the meeting is over
        first, second = meeting.accept()[0], meeting.accept()[0]
        first.close()
        second.close()
        while True:
            meeting.accept()[0].close()


def test_all_workers_may_share_a_cluster_on_a_fixed_port(
    pytester: pytest.Pytester, run: Any
) -> None:
    port = free_row(2)
    pytester.makepyfile(
        f"""
        import pytest
        from confluent_kafka.admin import AdminClient

        @pytest.mark.parametrize("number", range(2))
        def test_hard_wired(kafka, number):
            orders = kafka.topic("orders")
            admin = AdminClient({{"bootstrap.servers": "localhost:{port}"}})
            assert orders.name in admin.list_topics(timeout=20).topics

        @pytest.mark.parametrize("number", range(2))
        @pytest.mark.kafka(brokers=1)
        def test_another_shape_is_on_free_ports(kafka, number):
            assert "{port}" not in kafka.bootstrap_servers
        """
    )
    pytester.makeini(f"[pytest]\nkafka_port = {port}\nkafka_xdist = shared\nkafka_brokers = 2\n")
    run("-n2").assert_outcomes(passed=4)


def test_a_call_to_a_process_that_is_gone_says_so() -> None:
    server = CallServer("ek-test", lambda question: [question])
    assert call(server.place, "a") == ["a"]
    with pytest.raises(EmbedKafkaError, match="does not answer: AuthenticationError"):
        call(server.place._replace(key="00"), "a")
    assert call(server.place, "b") == ["b"], "who does not know the key disturbs no one"
    with socket.create_connection((server.place.host, server.place.port)):
        assert call(server.place, "c") == ["c"], "nor does who says nothing"
    server.close()
    with pytest.raises(EmbedKafkaError, match="the process that distributes the tests does not"):
        call(server.place, "a")


def test_a_call_raises_what_its_answer_raised() -> None:
    def answer(question: str) -> None:
        raise EmbedKafkaError(question) if question == "known" else KeyError(question)

    server = CallServer("ek-test", answer)
    with pytest.raises(EmbedKafkaError, match=r"^known$"):
        call(server.place, "known")
    with pytest.raises(EmbedKafkaError, match=r"^KeyError: 'other'$"):
        call(server.place, "other")
    server.close()
