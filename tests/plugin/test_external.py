"""Operations that a test may and may not do on an external cluster."""

import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from embedkafka import AwaitTimeout, Cluster, EmbeddedKafka, EmbedKafkaError, InvalidArgument
from embedkafka.cluster.clients.polled_state import PolledState
from embedkafka.spark.client_settings import translate_properties
from pytest_embedkafka.calls import CallServer
from pytest_embedkafka.run_cluster import RunCluster, RunReach
from pytest_embedkafka.sharing import Shared
from pytest_embedkafka.skips import summary_line
from pytest_embedkafka.worker_cluster import WorkerCluster

NO_BROKER = "127.0.0.1:1"


@pytest.fixture(scope="module")
def theirs() -> Iterator[EmbeddedKafka]:
    """A cluster that stands in for an external one."""
    with EmbeddedKafka() as cluster:
        yield cluster


def outside(theirs: EmbeddedKafka) -> RunCluster:
    """The cluster as a run sees it that was given its addresses."""
    return RunCluster(RunReach(theirs.bootstrap_servers))


def test_a_name_that_no_cluster_has_is_a_plain_attribute_error(theirs: EmbeddedKafka) -> None:
    with outside(theirs) as kafka:
        with pytest.raises(AttributeError, match=r"heal` has moved: use `kafka.brokers.heal\("):
            kafka.heal()  # type: ignore[attr-defined]  # as it was called once
        with pytest.raises(AttributeError, match="'brokr'"):
            kafka.brokr(1)  # type: ignore[attr-defined]  # the mistake
        assert kafka.cluster_id == theirs.cluster_id


NEEDS_EMBEDDED = """
import pytest

def test_anywhere(kafka): kafka.topic().send("hello")

def test_faults(kafka): kafka.faults
def test_clock(kafka): kafka.clock.advance(days=8)
def test_metrics(kafka): assert kafka.metrics()
def test_snapshot(kafka): kafka.snapshot()

def test_clock_where_errors_are_expected(kafka):
    with pytest.raises(Exception):
        kafka.clock.advance(days=8)

@pytest.fixture
def first_broker(kafka): return kafka.broker(1)

def test_a_fixture_of_the_users(first_broker): first_broker.kill()

def test_a_cluster_of_its_own(kafka_cluster):
    kafka = kafka_cluster()
    kafka.clock.advance(days=8)
"""


@pytest.mark.parametrize("sharing", [False, True], ids=["bootstrap", "xdist"])
def test_what_needs_an_embedded_cluster_is_skipped_and_counted(
    pytester: pytest.Pytester, run: Any, theirs: EmbeddedKafka, sharing: bool
) -> None:
    pytester.makepyfile(NEEDS_EMBEDDED)
    shared = ["--kafka-xdist=shared", "--kafka-brokers=1", "-n", "2"]
    result = run("-rs", *(shared if sharing else ["--kafka-bootstrap", theirs.bootstrap_servers]))
    result.assert_outcomes(passed=2, skipped=6)
    uses = "one for all workers, where it * use `kafka_cluster`, or --kafka-xdist=own"
    result.stdout.fnmatch_lines_random(
        [
            "SKIPPED * test_*.py:5: `kafka.faults` needs an embedded cluster; this run uses "
            + (uses if sharing else "127.*"),
            "SKIPPED * test_*.py:*: `broker.kill` needs an embedded cluster; this run uses *",
            "embedkafka: 6 tests were skipped, * do not offer kafka.clock (2), *",
        ]
    )


def test_what_spark_connect_cannot_do_is_skipped_and_counted(
    pytester: pytest.Pytester, run: Any
) -> None:
    pytester.makepyfile(
        """
        import pytest
        from types import SimpleNamespace
        from embedkafka import ConfigError
        from embedkafka.spark import restart

        QUERY_OF_CONNECT = SimpleNamespace(awaitTermination=None)

        def test_restart(): restart(QUERY_OF_CONNECT)

        def test_expected():
            with pytest.raises(ConfigError):
                restart(QUERY_OF_CONNECT)

        def test_wrong(): raise ConfigError("another")
        """
    )
    result = run("-rs")
    result.assert_outcomes(passed=1, skipped=1, failed=1)
    result.stdout.fnmatch_lines(
        [
            "embedkafka: 1 test was skipped, * do not offer restart (1)",
            "SKIPPED * test_*.py:8: `restart` needs a Spark driver of this process, not of *",
        ]
    )


def test_a_new_topic_is_awaited_until_all_brokers_know_it() -> None:
    """The controller answers before the brokers have heard of it."""
    brokers = {n: SimpleNamespace(id=n, host="h", port=n) for n in (1, 2, 3)}

    class Admin:
        def __init__(self, name: str, *leaders: int | None) -> None:
            self.name = name
            self.leaders = list(leaders)

        def list_topics(self, timeout: float) -> Any:
            leader = self.leaders.pop(0)
            known = SimpleNamespace(partitions={0: SimpleNamespace(id=0, leader=leader)})
            topics = {} if leader is None else {"orders": known}
            return SimpleNamespace(topics=topics, brokers=brokers, orig_broker_name=self.name)

    admins = {  # the third one is dead
        "h:1": Admin("h:1/bootstrap", 1, 1, 1, 1),
        "h:2": Admin("h:2/2", None, -1, 1, 1),
    }
    state = PolledState(Admin("h:1/1", 1, 1, 1, 1), admins.__getitem__)
    known = state.leaders_known({"orders": 1})
    state.await_state("the leaders of orders", known, timeout_s=30)
    assert admins["h:2"].leaders == [1]
    assert state.topic_gone("orders")() == "it is there"


def test_each_broker_is_asked_itself_though_its_client_may_ask_others() -> None:
    with EmbeddedKafka(brokers=3) as kafka:
        state = PolledState(
            AdminClient({"bootstrap.servers": kafka.bootstrap_servers}),
            lambda address: AdminClient({"bootstrap.servers": address}),
        )
        for _ in range(3):
            asked = [each.orig_broker_name.partition("/")[0] for each in state._of_each_broker()]
            assert sorted(asked) == sorted(broker.address for broker in kafka.brokers)


def test_other_skips_are_not_counted() -> None:
    class Report:
        longrepr = ("test_orders.py", 3, "Skipped: no network")

    assert summary_line([Report()]) is None
    assert summary_line([]) is None


def test_a_cluster_that_does_not_answer_is_an_error_at_once() -> None:
    with pytest.raises(
        EmbedKafkaError, match=r"no broker answers at 127\.0\.0\.1:1: .*Connection refused"
    ):
        RunReach(NO_BROKER)


def test_a_cluster_that_speaks_no_tls_is_an_error_with_the_clients_reason(
    theirs: EmbeddedKafka,
) -> None:
    """librdkafka gives one of two: it sees the broker's answer first, or the end."""
    settings = translate_properties({"security.protocol": "SSL"})
    reason = "SSL (handshake failed|connection closed by peer)"
    with pytest.raises(EmbedKafkaError, match=f"(?s)no broker answers at .*{reason}"):
        RunReach(theirs.bootstrap_servers, settings)


def test_settings_that_the_client_refuses_are_an_error_with_its_reason(tmp_path: Path) -> None:
    not_a_certificate = tmp_path / "ca.pem"
    not_a_certificate.write_text("hello")
    settings = translate_properties(
        {
            "security.protocol": "SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(not_a_certificate),
        }
    )
    with pytest.raises(
        EmbedKafkaError, match=r"the Kafka client refuses its settings: .*ssl\.ca\.location"
    ):
        RunReach(NO_BROKER, settings)


def test_the_properties_of_the_java_client_say_how_to_connect(
    pytester: pytest.Pytester, run: Any, theirs: EmbeddedKafka
) -> None:
    pytester.makefile(
        ".properties",
        client=f"bootstrap.servers={theirs.bootstrap_servers}\nclient.id=the-suite\n"
        "request.timeout.ms: 9000\n",
    )
    pytester.makepyfile(
        """
        def test_topic(kafka_topic):
            kafka_topic.send("hello")
            assert kafka_topic.spark_options()["kafka.request.timeout.ms"] == "9000"
        """
    )
    run("--kafka-client-config", "client.properties").assert_outcomes(passed=1)
    assert theirs.requests("produce", client_id="the-suite")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--kafka-client-config", "none.properties"], "*none.properties: *No such file*"),
        (["--kafka-client-config", "odd.properties"], "*odd.properties: colour is not a client *"),
        (["--kafka-client-config", "tls.properties"], "*ssl.truststore.location=no.pem * no file*"),
        (["--kafka-client-config", "plain.properties"], "*name it with --kafka-bootstrap*"),
        (["--spark-master", "x", "--spark-remote", "y"], "*exclude each other*"),
        (["--spark-master", "mesos://x"], "*a Spark master is * not 'mesos://x'"),
        (["--spark-remote", "localhost:15002"], "*a Spark Connect server is sc://host:port, *"),
        (["--kafka-report", "."], "*--kafka-report . is a directory: name a file*"),
    ],
)
def test_options_that_cannot_be_used_end_the_run_before_its_first_test(
    pytester: pytest.Pytester, run: Any, arguments: list[str], said: str
) -> None:
    tls = "ssl.truststore.type=PEM\nssl.truststore.location=no.pem\n"
    pytester.makefile(".properties", odd="colour=red\n", plain="client.id=me\n", tls=tls)
    pytester.makepyfile("def test_any(): pass")
    result = run(*arguments)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: {said}"])


@pytest.mark.parametrize(
    "arguments",
    [
        ["--kafka-host", "192.0.2.1"],
        ["--kafka-config", "listeners=PLAINTEXT://192.0.2.1:0"],
        ["--kafka-host", "192.0.2.1", "--kafka-xdist=shared", "-n1"],
    ],
    ids=["host", "listeners", "xdist"],
)
def test_an_address_that_is_not_of_this_machine_ends_the_run_before_its_first_test(
    pytester: pytest.Pytester, run: Any, arguments: list[str]
) -> None:
    pytester.makepyfile("def test_one(kafka): pass\ndef test_two(kafka): pass")
    result = run(*arguments)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: broker 1 cannot start on *'192.0.2.1' is not an address*"])
    assert "Traceback" not in result.stdout.str() + result.stderr.str()
    assert "INTERNALERROR" not in result.stdout.str()


def test_brokers_listen_where_the_options_say(pytester: pytest.Pytester, run: Any) -> None:
    pytester.makepyfile(
        "def test_host(kafka): assert kafka.bootstrap_servers.startswith('127.0.0.2:')"
    )
    run("--kafka-host", "127.0.0.2").assert_outcomes(passed=1)


def test_a_worker_waits_for_its_own_topics_and_any_group(theirs: EmbeddedKafka) -> None:
    server = CallServer("ek-test", lambda asked: getattr(theirs, asked.method)(**asked.arguments))
    shared = Shared("gw7", theirs.bootstrap_servers, None, server.place)
    with closing(server), WorkerCluster(shared) as external:
        external.topic("waited").send("hello")
        external.existing_topic("waited").await_offsets({0: 1})
        external.group("absent").await_state(state="Dead")
        with pytest.raises(AwaitTimeout, match="1 behind: waited-gw7-0 1"):
            external.group("absent").await_lag(topic="waited", timeout_s=0.1)
        external.existing_topic("waited").delete()
        with pytest.raises(AttributeError, match=r"has moved: use `topic\.roll\("):
            external.roll("waited")  # type: ignore[attr-defined]  # as it was called once


def test_the_same_tests_run_twice_in_a_row(
    pytester: pytest.Pytester, run: Any, theirs: EmbeddedKafka
) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.fixture(scope="module")
        def prices(kafka): return kafka.topic("prices")

        def test_first(kafka, prices): kafka.topic("orders").send("x")
        def test_last(kafka, prices): kafka.topic("orders").send("x")
        """
    )
    for _ in range(2):
        result = run("--kafka-bootstrap", theirs.bootstrap_servers)
        result.assert_outcomes(passed=2)
        result.stdout.fnmatch_lines([f"kafka: {theirs.bootstrap_servers} (--kafka-bootstrap)"])
        assert not {"orders", "prices"} & theirs._require_brokers().zk.topics()


def test_a_topic_that_a_client_brings_back_does_no_harm_and_goes_in_the_end(
    theirs: EmbeddedKafka,
) -> None:
    stays = Producer({"bootstrap.servers": theirs.bootstrap_servers})
    with outside(theirs) as kafka:
        test = kafka.isolated()
        test.begin()
        for name in ("ghost", "left", "used"):
            kafka.topic(name)
        test.end(finds_clients=False)
        for name in ("ghost", "left", "used"):
            stays.list_topics(name, timeout=30)
            theirs.existing_topic(name).await_leader()
        theirs.existing_topic("used").send("of another user")

        assert len(kafka.topic("ghost", partitions=4).end_offsets()) == 4
        with pytest.raises(EmbedKafkaError, match=r"ghost.*already exists.*existing_topic"):
            kafka.topic("ghost")
        with pytest.raises(EmbedKafkaError, match=r"used.*already exists.*existing_topic"):
            kafka.topic("used")

    assert {"ghost", "left", "used"} & theirs._require_brokers().zk.topics() == {"used"}
    theirs.existing_topic("used").delete()


def test_groups_of_a_test_go_with_its_topics_and_those_of_others_stay(
    pytester: pytest.Pytester, run: Any
) -> None:
    pytester.makepyfile(
        """
        from confluent_kafka import Consumer, TopicPartition

        left = []

        def commit(kafka, group, topic):
            consumer = Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": group})
            consumer.commit(offsets=[TopicPartition(topic, 0, 1)], asynchronous=False)
            consumer.close()

        def test_commits(kafka, kafka_topic, kafka_consumer):
            kafka_topic.send("x")
            consumer = kafka_consumer(kafka_topic, group_id="of-the-test")
            assert consumer.poll(20).value() == b"x"
            consumer.commit(asynchronous=False)
            commit(kafka, "of-the-test-too", kafka_topic.name)
            commit(kafka, "old", kafka_topic.name)
            commit(kafka, "of-others", "theirs")

        def test_leaves_a_consumer(kafka, kafka_topic):
            kafka_topic.send("x")
            settings = {"group.id": "left", "auto.offset.reset": "earliest"}
            consumer = Consumer({"bootstrap.servers": kafka.bootstrap_servers, **settings})
            left.append(consumer)
            consumer.subscribe([kafka_topic.name])
            assert consumer.poll(20).value() == b"x"
            consumer.commit(asynchronous=False)

        def test_finds_the_rest(kafka):
            left.pop().close()
            assert {each.group_id for each in kafka.groups()} == {"old", "of-others", "left"}
        """
    )
    with EmbeddedKafka(brokers=1) as theirs:
        theirs.topic("theirs")
        client = Consumer({"bootstrap.servers": theirs.bootstrap_servers, "group.id": "old"})
        client.commit(offsets=[TopicPartition("theirs", 0, 1)], asynchronous=False)
        client.close()
        result = run("--kafka-bootstrap", theirs.bootstrap_servers)
        result.assert_outcomes(passed=3, warnings=1)
        result.stdout.fnmatch_lines(["*the test left in use: group left has members. *"])


def test_states_that_need_no_ownership_are_the_same_from_inside_and_outside() -> None:
    with EmbeddedKafka(brokers=2) as theirs, outside(theirs) as kafka:
        orders = kafka.topic("orders", partitions=2, replication=2)
        client = Consumer({"bootstrap.servers": theirs.bootstrap_servers, "group.id": "readers"})
        client.commit(offsets=[TopicPartition("orders", 0, 1)], asynchronous=False)
        client.close()
        assert seen(kafka) == seen(theirs)
        theirs.broker(2).stop()
        assert orders.await_isr(size=1) == (1,)
        with pytest.raises(AwaitTimeout, match=r"waited 0\.1 s for every .*orders"):
            kafka.await_no_under_replicated(timeout_s=0.1)
        with pytest.raises(AwaitTimeout, match=r"for all brokers to .*; last seen: no broker 2"):
            kafka.brokers.await_all(timeout_s=0.1)
        with pytest.raises(EmbedKafkaError, match="broker 2 is not running"):
            assert kafka.broker(2).address
        with pytest.raises(InvalidArgument, match="topic orders has no partition 7"):
            orders.leader(7)
        with pytest.raises(InvalidArgument, match="there is no topic 'absent'"):
            kafka.existing_topic("absent")
        orders.delete()
        orders.await_gone()


def seen(kafka: Cluster) -> dict[str, object]:
    """What any client may ask of a cluster whose brokers run, and wait for."""
    orders, readers = kafka.existing_topic("orders", timeout_s=30), kafka.group("readers")
    kafka.brokers.await_all()
    kafka.await_no_under_replicated()
    return {
        "cluster": kafka.cluster_id,
        "controller": (kafka.brokers.controller, kafka.brokers.await_controller()),
        "brokers": [(broker.id, broker.address) for broker in kafka.brokers],
        "leaders": [orders.leader(1), orders.await_leader(1), orders.partition(1).leader],
        "replicas": [(each.replicas, each.isr) for each in orders.partitions()],
        "in sync": orders.await_isr(size=2),
        "groups": [each.group_id for each in kafka.groups()],
        "group": (readers.status(), readers.coordinator(), readers.lag("orders")),
    }


@pytest.mark.parametrize("more", [[], ["-n", "1"]], ids=["alone", "xdist"])
def test_a_dead_address_ends_the_run_with_one_sentence(
    pytester: pytest.Pytester, run: Any, more: list[str]
) -> None:
    pytester.makepyfile("def test_one(kafka): pass\ndef test_two(kafka): pass")
    result = run("--kafka-bootstrap", NO_BROKER, *more)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: no broker answers at {NO_BROKER}: *Connection refused*"])
    assert "Traceback" not in result.stdout.str() + result.stderr.str()


def test_settings_that_no_broker_has_end_the_run_before_its_first_test(
    pytester: pytest.Pytester, run: Any
) -> None:
    pytester.makepyfile("def test_one(kafka): pass\ndef test_two(): pass")
    result = run("--kafka-config", "num.partition=3")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: *num.partition*"])
    run("--kafka-config", "num.partition=3", "-k", "two").assert_outcomes(passed=1, deselected=1)


def test_pytest_uses_the_cluster_that_up_started(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import os

        def test_orders(kafka):
            assert kafka.bootstrap_servers == os.environ["EMBEDKAFKA_BOOTSTRAP"]
            kafka.topic("orders").send("x")
        """
    )
    command = [sys.executable, "-m", "pytest"]
    result = pytester.run(sys.executable, "-m", "embedkafka.cli", "up", "--", *command)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["kafka: 127.0.0.1:* ($EMBEDKAFKA_BOOTSTRAP)"])


def test_the_header_names_an_embedded_cluster_too(pytester: pytest.Pytester, run: Any) -> None:
    pytester.makepyfile("def test_any(): pass")
    run("--kafka-brokers", "1").stdout.fnmatch_lines(["kafka: 1 broker in this process"])
