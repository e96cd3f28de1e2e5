"""`@pytest.mark.kafka`, and the fixtures for clients, groups, clock and faults."""

import socket
from typing import Any

import pytest

from tests.java_tools.ports import free_row


@pytest.fixture(autouse=True)
def ini(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\naddopts = --strict-markers\n")


def test_a_mark_chooses_the_shape_of_the_cluster(pytester: pytest.Pytester, run: Any) -> None:
    pytester.makepyfile(
        """
        import pytest
        from embedkafka import TopicSpec

        pytestmark = pytest.mark.kafka(config={"num.partitions": 4})
        seen = {}

        def note(kafka, shape):
            seen.setdefault(shape, kafka)
            assert seen[shape] is kafka, "equal shapes share a cluster"
            assert len(set(map(id, seen.values()))) == len(seen)

        @pytest.fixture(scope="module")
        def kept(kafka):
            return kafka.topic("kept")

        def test_of_the_module(kafka, kept):
            assert len(kafka.brokers) == 2  # as the option says
            assert kafka.config.config == {"num.partitions": 4}
            note(kafka, "module")
            kept.send("x")

        @pytest.mark.kafka(brokers=3, racks=["a", "b", "c"], topics={"orders": 3})
        class TestOrders:
            def test_shape(self, kafka):
                assert len(kafka.brokers) == 3
                assert kafka.config.racks == ["a", "b", "c"]
                assert kafka.config.config == {"num.partitions": 4}
                kafka.existing_topic("orders").send("x")
                note(kafka, "orders")

            def test_topics_are_empty_again(self, kafka, kept):
                assert kafka.existing_topic("orders").read() == []
                assert kept.read() == []  # of this cluster
                note(kafka, "orders")

            @pytest.mark.kafka(topics={"others": TopicSpec(partitions=2)})
            def test_the_closest_mark_wins(self, kafka):
                assert len(kafka.brokers) == 3
                kafka.existing_topic("others")
                note(kafka, "others")

        def test_of_the_module_again(kafka):
            note(kafka, "module")

        counts = []

        @pytest.mark.kafka(brokers=[1, 3])
        def test_on_both(kafka, request):
            counts.append(len(kafka.brokers))
            assert request.node.name == f"test_on_both[brokers={counts[-1]}]"

        def test_it_ran_on_both():
            assert sorted(counts) == [1, 3]
        """
    )
    result = run("--kafka-brokers=2", "-v")
    result.assert_outcomes(passed=8)
    shown = "" if hasattr(pytest, "HIDDEN_PARAM") else "[[]kafka[]]"  # before pytest 8.4
    result.stdout.fnmatch_lines([f"*::TestOrders::test_shape{shown} PASSED*"])


def test_a_mark_chooses_address_directories_and_seed(pytester: pytest.Pytester, run: Any) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.kafka(brokers=1, host="127.0.0.2", log_dirs=2, seed=7)
        def test_all(kafka, names=[]):
            assert kafka.bootstrap_servers.startswith("127.0.0.2:")
            assert kafka.config.log_dirs == 2
            names.append(kafka.topic().name)

        @pytest.mark.kafka(brokers=1, seed=8)
        def test_a_seed_chooses_names(kafka_cluster, kafka):
            assert kafka.topic().name == kafka_cluster(seed=8).topic().name
        """
    )
    run().assert_outcomes(passed=2)


@pytest.fixture
def port() -> int:
    return free_row(3)


def test_a_mark_or_an_option_fixes_the_ports(
    pytester: pytest.Pytester, run: Any, port: int
) -> None:
    pytester.makepyfile(
        f"""
        import pytest

        PORT = {port}

        def addresses(count):
            return ",".join(f"127.0.0.1:{{PORT + place}}" for place in range(count))

        @pytest.mark.kafka(brokers=2, port=PORT)
        class TestFixed:
            def test_addresses(self, kafka):
                assert kafka.bootstrap_servers == addresses(2)
                kafka.broker(1).kill()

            def test_the_same_ones_again(self, kafka):
                assert kafka.bootstrap_servers == addresses(2)

        @pytest.mark.kafka(port=PORT + 1, brokers=1)
        def test_a_cluster_makes_room_for_the_next(kafka):
            assert kafka.bootstrap_servers == f"127.0.0.1:{{PORT + 1}}"

        @pytest.mark.kafka(brokers=2, port=PORT)
        def test_and_may_come_back(kafka):
            assert kafka.bootstrap_servers == addresses(2)

        @pytest.mark.kafka(brokers=2, port=0)
        def test_on_free_ports(kafka):
            assert str(PORT) not in kafka.bootstrap_servers

        def test_as_the_options_say(kafka, request):
            if request.config.getoption("kafka_port"):
                assert kafka.bootstrap_servers == addresses(3)

        @pytest.mark.kafka(brokers=1)
        def test_another_shape_has_the_options_too(kafka, request):
            if request.config.getoption("kafka_port"):
                assert kafka.bootstrap_servers == addresses(1)
        """
    )
    run().assert_outcomes(passed=7)
    run(f"--kafka-port={port}").assert_outcomes(passed=7)


def test_a_fixed_port_in_use_is_an_error_of_the_tests_that_need_it(
    pytester: pytest.Pytester,
) -> None:
    pytester.makepyfile("def test_plain(): pass\ndef test_kafka(kafka): pass\n")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        marked = f"import pytest\n@pytest.mark.kafka(port={port})\ndef test_kafka(kafka): pass\n"
        pytester.makepyfile(test_marked=marked)
        result = pytester.runpytest_inprocess("-k", "plain or marked")
        result.assert_outcomes(passed=1, errors=1)
        complaint = f"broker 1 cannot start on 127.0.0.1:{port}: port {port} is in use: *"
        result.stdout.fnmatch_lines([f"E*ConfigError: {complaint}"])
        pytester.makeini(f"[pytest]\nkafka_port = {port}\n")
        pytester.runpytest_inprocess("-k", "plain").assert_outcomes(passed=1)
        refused = pytester.runpytest_inprocess()
    assert refused.ret == pytest.ExitCode.USAGE_ERROR
    refused.stderr.fnmatch_lines([f"ERROR: {complaint}another --kafka-port, or 0 *"])


@pytest.mark.parametrize(
    ("mark", "complaint"),
    [
        ("brokers=0", "brokers must be *, got 0"),
        ("brokers=[]", "brokers=[[][]] leaves nothing to run on"),
        ("brokers=[1, 'two']", "brokers must be * got 'two'"),
        ("colour='red'", "it has no argument 'colour', only brokers, topics, config, racks, *"),
        ("3", "it takes no positional arguments, got 3"),
        ("config={'num.partition': 3}", "*num.partition*"),
        ("keep=1", "keep must be True or False, got 1"),
        ("snapshot=''", "snapshot must be the name of a snapshot, got ''"),
        ("racks=['a'], brokers=2", "*rack*"),
        ("port=70_000", "port must be a whole number from 0 to 65535, got 70000"),
    ],
)
def test_arguments_that_no_cluster_has_are_errors_of_the_collection(
    pytester: pytest.Pytester, run: Any, mark: str, complaint: str
) -> None:
    pytester.makepyfile(
        f"""
        import pytest

        @pytest.mark.kafka({mark})
        def test_any(kafka): pass
        """
    )
    result = pytester.runpytest_inprocess()
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([f"@pytest.mark.kafka of *::test_any: {complaint}"])
    assert "Traceback" not in result.stdout.str()


@pytest.mark.parametrize("mark", ["anyio", "asyncio"])
def test_clients_for_asyncio_end_in_the_loop_of_the_test(
    pytester: pytest.Pytester, run: Any, monkeypatch: pytest.MonkeyPatch, mark: str
) -> None:
    monkeypatch.delenv("PYTEST_ADDOPTS")
    pytester.makeini("[pytest]\nasyncio_default_fixture_loop_scope = function\n")
    pytester.makepyfile(
        f"""
        import pytest
        from confluent_kafka import KafkaException

        @pytest.fixture
        def anyio_backend():
            return "asyncio"

        @pytest.mark.{mark}
        async def test_orders(
            kafka, kafka_topic, kafka_group, kafka_aio_producer, kafka_aio_consumer
        ):
            async with kafka_aio_producer({{"client.id": "mine"}}, linger_ms=1) as producer:
                delivered = await producer.produce(kafka_topic.name, b"hello")
            assert (await delivered).offset() == 0
            assert kafka.requests("Produce", client_id="mine")
            async with kafka_aio_consumer(kafka_topic) as consumer:
                assert (await consumer.poll(20)).value() == b"hello"
                (committed,) = await consumer.commit(asynchronous=False)
                assert committed.offset == 1
            kafka.group(kafka_group).await_state("Empty", members=0)
            with pytest.raises(RuntimeError):
                await consumer.poll(0)

        @pytest.mark.{mark}
        async def test_they_may_be_closed_already(
            kafka_topic, kafka_aio_producer, kafka_aio_consumer
        ):
            async with kafka_aio_producer() as producer:
                await producer.close()
            async with kafka_aio_consumer(kafka_topic) as consumer:
                await consumer.close()

        @pytest.mark.{mark}
        async def test_a_transaction_that_is_open_ends(
            kafka_topic, kafka_aio_producer
        ):
            async with kafka_aio_producer(transactional_id="t") as producer:
                await producer.init_transactions(20)
                await producer.begin_transaction()
                await producer.produce(kafka_topic.name, b"undecided")
            assert kafka_topic.read() == []

        @pytest.mark.{mark}
        async def test_records_that_cannot_be_sent_do_not_hold_up_the_end(
            kafka, kafka_topic, kafka_aio_producer
        ):
            async with kafka_aio_producer() as producer:
                for broker in kafka.brokers:
                    broker.kill()
                lost = await producer.produce(kafka_topic.name, b"lost")
            with pytest.raises(KafkaException, match="Purged"):
                await lost
        """
    )
    run("-p", "no:html", "--kafka-strict=yes").assert_outcomes(passed=4)


def test_clients_are_made_with_settings_and_closed(pytester: pytest.Pytester, run: Any) -> None:
    pytester.makepyfile(
        """
        import re
        import pytest

        made = []

        def test_orders(
            kafka, kafka_topic, kafka_producer, kafka_consumer, kafka_admin, kafka_group
        ):
            assert re.fullmatch("test_orders-[0-9a-f]{4}", kafka_topic.name)
            assert re.fullmatch("test_orders-[0-9a-f]{4}", kafka_group)
            producer = kafka_producer({"client.id": "mine"}, linger_ms=1)
            producer.produce(kafka_topic.name, "hello")
            producer.flush()
            consumer = kafka_consumer(kafka_topic)
            made.append(consumer)
            assert consumer.poll(20).value() == b"hello"
            consumer.commit(asynchronous=False)
            assert kafka.requests("Produce", client_id="mine")
            assert kafka_topic.name in kafka_admin().list_topics(timeout=20).topics
            (found,) = kafka_admin().list_consumer_group_offsets(
                [__import__("confluent_kafka").ConsumerGroupTopicPartitions(kafka_group)]
            ).values()
            assert found.result(20).topic_partitions[0].offset == 1
            transactional = kafka_producer(transactional_id="t")
            transactional.init_transactions(20)
            transactional.begin_transaction()
            transactional.produce(kafka_topic.name, "undecided")
            transactional.flush()

        def test_they_are_closed(kafka, kafka_topic):
            with pytest.raises(RuntimeError, match="closed"):
                made[0].poll(0)
            kafka_topic.send("x")

        @pytest.mark.parametrize("what", ["a/b c"])
        def test_names_are_legal(kafka_topic, what):
            assert kafka_topic.name.startswith("test_names_are_legal-a-b-c-")

        def test_clock_and_faults(kafka, kafka_clock, kafka_faults):
            assert kafka_clock is kafka.clock
            kafka_clock.advance(days=1)
            kafka_faults.error("PRODUCE", "NOT_ENOUGH_REPLICAS")
        """
    )
    run().assert_outcomes(passed=4)


def test_a_consumer_that_never_polled_is_closed_without_its_coordinator(
    pytester: pytest.Pytester,
) -> None:
    pytester.makepyfile(
        """
        import time
        import pytest

        @pytest.mark.parametrize("number", range(15))
        def test_breaks_the_cluster(kafka, kafka_topic, kafka_consumer, kafka_group, number):
            kafka_consumer(kafka_topic)
            while not kafka.requests("HEARTBEAT", group=kafka_group):  # it has its partitions
                time.sleep(0.01)
            for broker in kafka.brokers:
                kafka.faults.cut_link("clients", broker.id)
            time.sleep(number / 50)  # the client is at another point each time
        """
    )
    # Such a hang is in C, where no signal reaches Python.
    pytester.runpytest_subprocess(timeout=60).assert_outcomes(passed=15)


def test_async_tests_use_the_same_fixtures(
    pytester: pytest.Pytester, run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makepyfile(
        """
        import pytest
        from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

        async def round_trip(kafka, topic, group):
            async with AIOKafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
                await producer.send_and_wait(topic.name, b"hello")
            consumer = AIOKafkaConsumer(
                topic.name,
                bootstrap_servers=kafka.bootstrap_servers,
                group_id=group,
                auto_offset_reset="earliest",
            )
            async with consumer:
                assert (await consumer.getone()).value == b"hello"

        @pytest.mark.asyncio
        async def test_with_pytest_asyncio(kafka, kafka_topic, kafka_group):
            await round_trip(kafka, kafka_topic, kafka_group)

        @pytest.fixture
        def anyio_backend():
            return "asyncio"

        @pytest.mark.anyio
        async def test_with_anyio(kafka, kafka_topic, kafka_group):
            await round_trip(kafka, kafka_topic, kafka_group)

        def test_nothing_is_left(kafka):
            assert "test_with" not in kafka.describe()
        """
    )
    pytester.makeini("[pytest]\nasyncio_default_fixture_loop_scope = function\n")
    monkeypatch.delenv("PYTEST_ADDOPTS")  # loads pytest-asyncio and anyio
    run("-p", "no:cacheprovider").assert_outcomes(passed=3)


def test_classes_of_unittest_have_a_cluster_too(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_orders="""
        from embedkafka import EmbeddedKafkaTestCase, EmbedKafkaError

        class OrdersTest(EmbeddedKafkaTestCase):
            kafka_settings = {"brokers": 2, "topics": {"orders": 2}}

            @classmethod
            def setUpClass(cls):
                super().setUpClass()
                cls.kept = cls.kafka.topic("kept")

            def setUp(self):
                self.kafka.topic("of-setup")

            def test_1_breaks(self):
                self.kafka.existing_topic("orders").send("x")
                self.kept.send("stays")
                self.kafka.broker(2).kill()
                with self.assertRaisesRegex(EmbedKafkaError, "cluster of the class"):
                    self.kafka.close()

            def test_2_sees_nothing(self):
                self.assertEqual(self.kafka.existing_topic("orders").read(), [])
                self.assertEqual(len(self.kafka.bootstrap_servers.split(",")), 2)
                self.assertEqual(len(self.kept.read()), 1)

            def test_3_background_failures_fail_it(self):
                self.kafka._failures.record("ek-b1-fetcher", RuntimeError("the fetcher died"))
        """
    )
    result = pytester.runpython_c("import unittest; unittest.main('test_orders')")
    result.stderr.fnmatch_lines(
        ["ERROR: test_3_background*", "*the fetcher died", "FAILED (errors=1)"]
    )
    result = pytester.runpytest_inprocess()
    result.assert_outcomes(passed=2, failed=1)


def test_a_mark_secures_the_cluster(pytester: pytest.Pytester, run: Any) -> None:
    pytester.makepyfile(
        """
        import pytest
        from embedkafka import Security

        seen = []

        def secured(**users):
            return pytest.mark.kafka(security=Security(protocol="SASL_PLAINTEXT", users=users))

        @secured(alice="a-secret")
        def test_secured(kafka):
            kafka.topic("orders").send("x")
            assert kafka.client_config("alice")["sasl.password"] == "a-secret"
            seen.append(kafka)

        @secured(alice="b-secret")
        def test_other_passwords_are_another_cluster(kafka):
            assert kafka.client_config("alice")["sasl.password"] == "b-secret"
            assert kafka not in seen

        @secured(alice="a-secret")
        def test_equal_ones_share_a_cluster(kafka):
            assert kafka in seen
            kafka.topic("orders").send("x")
        """
    )
    ran = run("-v")
    ran.assert_outcomes(passed=3)
    assert "secret" not in ran.stdout.str().replace("test_marks", "")
