"""No test sees what an earlier one did to the session-wide cluster."""

import re
from typing import Any

import pytest

DAMAGE = """
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import *

def here(kafka, **settings):
    named = {name.replace("_", "."): value for name, value in settings.items()}
    return {"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0, **named}

def configure(kafka, kind, name, setting, value):
    entry = ConfigEntry(setting, value, incremental_operation=AlterConfigOpType.SET)
    wanted = ConfigResource(kind, name, incremental_configs=[entry])
    admin = AdminClient(here(kafka))
    for done in admin.incremental_alter_configs([wanted]).values():
        done.result(20)

def auto_create(kafka):
    producer = Producer(here(kafka))
    producer.produce("made-by-itself", "x")
    assert producer.flush(20) == 0

def commit(kafka):
    consumer = Consumer(here(kafka, group_id="readers"))
    consumer.commit(offsets=[TopicPartition("kept", 0, 1)], asynchronous=False)
    consumer.close()

left = []

def open_transaction(kafka):
    producer = Producer(here(kafka, transactional_id="t", client_id="left"))
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce("kept", "undecided")
    producer.flush()
    left.append(producer)

def commit_transaction(kafka):
    open_transaction(kafka)
    left.pop().commit_transaction(20)

DAMAGE = {
    "topic": lambda kafka: kafka.topic("orders").send("x"),
    "auto-created topic": auto_create,
    "group": commit,
    "open transaction": open_transaction,
    "transaction": commit_transaction,
    "topic setting": lambda kafka: configure(
        kafka, ResourceType.TOPIC, "kept", "retention.ms", "5"
    ),
    "broker setting": lambda kafka: configure(
        kafka, ResourceType.BROKER, "1", "log.cleaner.threads", "2"
    ),
    "group setting": lambda kafka: configure(
        kafka, ResourceType.GROUP, "readers", "consumer.session.timeout.ms", "50000"
    ),
    "fault": lambda kafka: kafka.faults.error("PRODUCE", "NOT_ENOUGH_REPLICAS", times=None),
    "link": lambda kafka: kafka.faults.cut_link("clients", 2),
    "disk": lambda kafka: kafka.faults.disk(2).slow(500),
    "killed": lambda kafka: kafka.broker(2).kill(),
    "stopped": lambda kafka: kafka.broker(1).stop(),
    "paused": lambda kafka: kafka.broker(3).pause(),
    "added": lambda kafka: kafka.brokers.add(),
    "network": lambda kafka: kafka.brokers.partition({1}, {2, 3}),
    "advanced": lambda kafka: kafka.clock.advance(days=8),
    "frozen": lambda kafka: kafka.clock.freeze(),
    "scratch": lambda kafka: open(kafka.scratch_dir("same") + "/file", "w").close(),
}

@pytest.fixture(scope="module")
def kept(kafka):
    return kafka.topic("kept", replication=3, config={"retention.ms": 1_000_000_000})

def look(kafka):
    brokers = kafka._require_brokers()
    from embedkafka.cluster.restoring.coordinated import find_coordinated
    coordinated = find_coordinated(brokers)
    return {
        "topics": {name for name in brokers.zk.topics() if not name.startswith("__")},
        "groups": coordinated.groups,
        "transactions": coordinated.transactions,
        "settings": {
            entity: values
            for entity, values in brokers.zk.overrides().items()
            if not entity[1].startswith("__")
        },
        "faults": kafka.faults.active,
        "brokers": [(handle.id, handle.state.value) for handle in kafka.brokers],
        "network": brokers.network.sides,
        "clock": kafka.clock.describe(),
        "requests": [
            seen
            for seen in kafka.requests()
            if seen.client_id != "left" and "embedkafka" not in seen.client_id
        ],
        "scratch": __import__("os").listdir(kafka.scratch_dir("same")),
    }

good = {}

@pytest.mark.parametrize("name", DAMAGE)
def test_first_does_it(kafka, kept, name):
    good.setdefault("state", look(kafka))
    DAMAGE[name](kafka)

@pytest.mark.parametrize("name", DAMAGE)
def test_second_sees_nothing(kafka, kept, name):
    assert look(kafka) == good["state"]
    kept.send("works")
    assert kept.leader() == kept.partition().replicas[0]

"""
CONFTEST = """
def pytest_collection_modifyitems(items):
    # each deed, and right after it the look
    items.sort(key=lambda item: (item.callspec.params["name"], item.name))
"""


def test_whatever_a_test_breaks_the_next_one_sees_nothing(
    pytester: pytest.Pytester, run: Any
) -> None:
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(DAMAGE)
    run().assert_outcomes(passed=2 * len(re.findall('^    ".*": ', DAMAGE, re.MULTILINE)))


def test_fixtures_that_outlive_a_test_keep_what_they_made(
    pytester: pytest.Pytester, run: Any
) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.fixture(scope="module")
        def broken(kafka):
            kafka.topic("of-module")
            kafka.broker(3).stop()
            kafka.faults.error("OFFSET_FETCH", "NOT_COORDINATOR")
            yield
            kafka.broker(3).start()
            kafka.faults.clear()

        @pytest.fixture
        def short(kafka):
            yield kafka.topic("of-test")
            assert "of-test" in kafka.describe()

        @pytest.fixture(scope="module")
        def late(kafka):
            return kafka.topic("late")

        class TestBroken:
            def test_one(self, kafka, broken, short, request):
                request.getfixturevalue("late")
                kafka.broker(2).stop()

            def test_two(self, kafka, broken, short):
                kafka.existing_topic("of-module")
                kafka.existing_topic("late")
                assert [str(each.state.value) for each in kafka.brokers] == [
                    "running", "running", "stopped"
                ]
                assert len(kafka.faults.active) == 1
        """,
        test_after="""
        def test_nothing_is_left(kafka):
            assert [each.state.value for each in kafka.brokers] == ["running"] * 3
            assert kafka.faults.active == []
        """,
    )
    run().assert_outcomes(passed=3)


def test_a_wide_fixture_that_fails_and_a_test_that_closes_the_cluster_leave_nothing(
    pytester: pytest.Pytester, run: Any
) -> None:
    """The report of a fixture that fails still shows what it did."""
    pytester.makepyfile(
        """
        import pytest

        @pytest.fixture(scope="module")
        def good(kafka):
            return kafka.topic("good")

        @pytest.fixture(scope="module")
        def failing(kafka, good):
            kafka.topic("of-failing").send("x")
            kafka.clock.advance(days=3)
            raise RuntimeError("set-up fails")

        @pytest.fixture(scope="module")
        def skipping(kafka, request):
            kafka.topic("of-skipping")
            pytest.skip("not today")

        @pytest.mark.parametrize("number", [1, 2])
        def test_fails(failing, number): ...

        def test_skips(skipping): ...

        def test_closes(kafka):
            kafka.close()

        @pytest.mark.kafka(keep=True)
        def test_keeps(kafka, good):
            kafka.topic("kept")

        def test_sees_none_of_it(kafka, good):
            good.send("works")
            assert kafka.clock.describe() is None
            assert kafka._require_brokers().zk.topics() == {"good", "kept"}
        """
    )
    result = run()
    result.assert_outcomes(passed=2, failed=1, skipped=1, errors=2)
    result.stdout.fnmatch_lines(
        ["*of-failing*", "*`kafka` is the session's cluster*use the fixture `kafka_cluster`*"]
    )


def test_a_test_may_keep_what_it_did_or_start_from_a_snapshot(
    pytester: pytest.Pytester, run: Any
) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.kafka(keep=True)
        def test_keeps(kafka):
            kafka.topic("kept")
            kafka.clock.advance(hours=1)

        def test_finds_it(kafka):
            kafka.existing_topic("kept")
            assert kafka.clock.describe()
            kafka.topic("not-kept")

        @pytest.mark.kafka(keep=True)
        def test_remembers(kafka):
            assert "not-kept" not in kafka.describe()
            kafka.clock.reset()
            kafka.topic("orders").send("paid")
            kafka.snapshot("one order")
            kafka.existing_topic("orders").delete()

        @pytest.mark.kafka(snapshot="one order")
        @pytest.mark.parametrize("more", ["a", "b"])
        def test_starts_with_one_order(kafka, kafka_topic, more):
            orders = kafka.existing_topic("orders")
            orders.send(more)
            kafka_topic.send("x")
            assert [message.text for message in orders.read(2)] == ["paid", more]

        def test_sees_no_order(kafka):
            assert "orders" not in kafka.describe()

        @pytest.mark.kafka(snapshot="two orders")
        def test_wants_another(kafka):
            pass
        """
    )
    result = run()
    result.assert_outcomes(passed=6, errors=1)
    result.stdout.fnmatch_lines(["*there is no snapshot 'two orders'; there are 'one order'*"])


LEAKS = """
from confluent_kafka import Consumer, Producer
from embedkafka import EmbeddedKafka

left = []

def here(kafka, **settings):
    named = {name.replace("_", "."): value for name, value in settings.items()}
    return {"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0, **named}

def test_leaves_a_consumer(kafka, kafka_topic):
    left.append(Consumer(here(kafka, group_id="readers")))
    left[0].subscribe([kafka_topic.name])
    while not left[0].assignment():
        left[0].poll(0.05)

def test_leaves_a_transaction(kafka, kafka_topic):
    left.pop().close()
    left.append(Producer(here(kafka, transactional_id="t")))
    left[0].init_transactions(20)
    left[0].begin_transaction()
    left[0].produce(kafka_topic.name, "x")
    left[0].flush()

def test_leaves_a_producer(kafka, kafka_topic):
    left[:] = [Producer(here(kafka, client_id="forgotten"))]
    left[0].produce(kafka_topic.name, "x")
    assert left[0].flush(20) == 0

def test_leaves_a_cluster(kafka):
    left[:] = [EmbeddedKafka().start()]

def test_leaves_nothing(kafka, kafka_topic, kafka_producer, kafka_consumer, kafka_cluster):
    left.pop().close()
    kafka_consumer(kafka_topic).poll(0)
    producer = kafka_producer(transactional_id="t")
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce(kafka_topic.name, "x")
    producer.flush()
    kafka_cluster()
"""


def test_what_a_test_leaves_in_use_is_a_warning_or_an_error(
    pytester: pytest.Pytester, run: Any
) -> None:
    pytester.makepyfile(LEAKS)
    said = [
        "*the test left in use: group readers has members; "
        "client rdkafka (*rdkafka*) is connected from 127.0.0.1:*. Close *",
        "*the test left in use: transaction t is open. Close *",
        "*the test left in use: client forgotten (*rdkafka*) is connected from *. Close *",
        "*the test left in use: a cluster runs, with its threads and the files in */embedkafka-*",
    ]
    result = run()
    result.assert_outcomes(passed=5, warnings=4)
    result.stdout.fnmatch_lines(said)
    result = run("--kafka-strict")
    result.assert_outcomes(passed=5, errors=4)
    result.stdout.fnmatch_lines(said)


@pytest.mark.parametrize("strict", [False, True], ids=["warning", "error"])
def test_a_worker_hears_of_its_own_clients_on_a_shared_cluster(
    pytester: pytest.Pytester, run: Any, strict: bool
) -> None:
    pytester.makepyfile(SHARED_LEAKS)
    options = ["--kafka-xdist=shared", "--kafka-brokers=2", "-n2"]
    result = run(*options, *(["--kafka-strict"] if strict else []))
    left = {"errors": 1} if strict else {"warnings": 1}
    result.assert_outcomes(passed=8, **left)
    result.stdout.fnmatch_lines(["*the test left in use: client forgotten (*) is connected from *"])
    result.stdout.no_fnmatch_line("*the test left in use: client busy*")


SHARED_LEAKS = """
import pytest
from confluent_kafka import Producer

left = []

def producer(kafka, topic, name):
    made = Producer({"bootstrap.servers": kafka.bootstrap_servers, "client.id": name})
    made.produce(topic.name, "x")
    assert made.flush(20) == 0
    return made

@pytest.mark.parametrize("number", range(6))
def test_closes(kafka, kafka_topic, number):
    busy = producer(kafka, kafka_topic, "busy")

@pytest.fixture(scope="module")
def wide(kafka):
    return producer(kafka, kafka.topic("wide"), "wide")

def test_leaves_one(kafka, kafka_topic):
    left.append(producer(kafka, kafka_topic, "forgotten"))

def test_wide(wide): pass
"""


CLOSED = """
import gc
import unittest
import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

def here(kafka, **settings):
    named = {name.replace("_", "."): value for name, value in settings.items()}
    return {"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0, **named}

def send(producer, topic):
    producer.produce(topic.name, "x")
    assert producer.flush(20) == 0

def test_a_client_that_ends_with_its_variable(kafka, kafka_topic):
    send(Producer(here(kafka)), kafka_topic)
    assert kafka_topic.name in AdminClient(here(kafka)).list_topics(timeout=20).topics

def test_a_consumer_that_is_closed(kafka, kafka_topic):
    kafka_topic.send("x")
    consumer = Consumer(here(kafka, group_id="readers", auto_offset_reset="earliest"))
    consumer.subscribe([kafka_topic.name])
    assert consumer.poll(20).value() == b"x"
    consumer.close()

def test_a_client_in_a_cycle(kafka, kafka_topic):
    gc.disable()
    holder = [Producer(here(kafka))]
    holder.append(holder)
    send(holder[0], kafka_topic)

@pytest.fixture
def admin(kafka):
    return AdminClient(here(kafka))

@pytest.fixture
def listed(admin):
    return admin.list_topics(timeout=20)

def test_a_client_that_ends_with_its_fixture(listed, kafka_topic):
    gc.enable()
    assert kafka_topic.name not in listed.topics

@pytest.fixture(scope="module")
def wide(kafka):
    return Producer(here(kafka))

def test_a_client_of_a_wider_fixture(wide, kafka_topic):
    gc.enable()
    send(wide, kafka_topic)

known = []

@pytest.fixture(scope="module")
def module_wide(kafka):
    known.append(Producer(here(kafka, client_id="known")))
    known[0].list_topics(timeout=20)

def test_a_known_client_that_connects_to_further_brokers(kafka, module_wide, kafka_topic):
    send(known[0], kafka_topic)

@pytest.mark.kafka(keep=True)
def test_a_client_that_is_kept(kafka, kafka_topic):
    known.append(Producer(here(kafka, client_id="kept")))
    send(known[-1], kafka_topic)

def test_a_client_that_was_kept(kafka, kafka_topic):
    send(known[-1], kafka_topic)

class TestOfAClass:
    @pytest.fixture(autouse=True)
    def _connect(self, kafka):
        self.producer = Producer(here(kafka, client_id="of a fixture"))
        yield
        assert self.sent

    def test_clients_on_the_instance(self, kafka, kafka_topic):
        self.sent = Producer(here(kafka, client_id="of the test"))
        send(self.producer, kafka_topic)
        send(self.sent, kafka_topic)

class OfUnittest(unittest.TestCase):
    @pytest.fixture(autouse=True)
    def _connect(self, kafka):
        self.kafka = kafka

    def setUp(self):
        self.producer = Producer(here(self.kafka, client_id="of setUp"))
        self.addCleanup(lambda: self.producer.flush(20))

    def tearDown(self):
        assert self.producer.flush(20) == 0

    def test_a_client_of_setup(self):
        send(self.producer, self.kafka.topic("orders"))

def test_our_own_clients(kafka, kafka_topic, kafka_producer, kafka_consumer, kafka_admin):
    kafka_topic.send("x")
    kafka_topic.read()
    kafka_admin().list_topics(timeout=20)
    send(kafka_producer(), kafka_topic)
    assert kafka_consumer(kafka_topic).poll(20).value() == b"x"
"""


def test_clients_that_end_in_time_or_are_not_the_test_s_are_no_leaks(
    pytester: pytest.Pytester, run: Any
) -> None:
    pytester.makepyfile(CLOSED)
    result = run("--kafka-strict", "--kafka-brokers=3")
    result.assert_outcomes(passed=11)
