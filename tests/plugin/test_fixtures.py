"""The fixtures in a user's tests, in separate pytest runs."""

import subprocess
import sys
from typing import Any

import pytest


def test_a_cluster_is_started_once_and_shared(pytester: pytest.Pytester, run: Any) -> None:
    pytester.makepyfile(
        """
        seen = []

        def test_one(kafka):
            seen.append(kafka)
            assert len(kafka.bootstrap_servers.split(",")) == 3

        def test_two(kafka):
            assert seen == [kafka]
        """
    )
    run().assert_outcomes(passed=2)


@pytest.mark.parametrize(
    ("ini", "arguments", "brokers"),
    [("kafka_brokers = 2", [], 2), ("kafka_brokers = 2", ["--kafka-brokers", "1"], 1)],
)
def test_the_number_of_brokers_is_an_option_and_an_ini_setting(
    pytester: pytest.Pytester, run: Any, ini: str, arguments: Any, brokers: int
) -> None:
    pytester.makeini(f"[pytest]\n{ini}\n")
    pytester.makepyfile(
        f"""
        def test_brokers(kafka):
            assert len(kafka.bootstrap_servers.split(",")) == {brokers}
        """
    )
    run(*arguments).assert_outcomes(passed=1)


def test_broker_settings_come_from_the_ini_file_and_the_command_line(
    pytester: pytest.Pytester, run: Any
) -> None:
    pytester.makeini("[pytest]\nkafka_config =\n  num.partitions = 5\n  log.retention.ms=7\n")
    pytester.makepyfile(
        """
        def test_config(kafka):
            assert kafka.config.config == {"num.partitions": "4", "log.retention.ms": "7"}
        """
    )
    run("--kafka-config", "num.partitions=4").assert_outcomes(passed=1)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--kafka-brokers", "0"],
        ["--kafka-config", "colour"],
        ["--kafka-port", "kafka"],
        ["--kafka-port", "65536"],
        ["--kafka-patience", "0"],
        ["--kafka-patience", "patient"],
    ],
)
def test_settings_that_cannot_be_are_refused(
    pytester: pytest.Pytester, run: Any, arguments: list[str]
) -> None:
    pytester.makepyfile("def test_any(kafka): pass")
    result = run(*arguments)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.re_match_lines([r"ERROR: kafka_\w+ (must be|takes) .*"])


def test_a_conftest_overrides_the_settings(pytester: pytest.Pytester, run: Any) -> None:
    pytester.makeconftest(
        """
        import pytest

        @pytest.fixture(scope="session")
        def kafka_settings(kafka_settings):
            config = {**kafka_settings["config"], "num.partitions": 7}
            return {**kafka_settings, "brokers": 2, "config": config}
        """
    )
    pytester.makepyfile(
        """
        import pytest

        def test_both(kafka):
            assert len(kafka.brokers) == 2
            assert kafka.config.config == {"log.retention.ms": "7", "num.partitions": 7}

        @pytest.mark.kafka(brokers=1)
        def test_a_mark_wins(kafka):
            assert len(kafka.brokers) == 1
            assert kafka.config.config["num.partitions"] == 7
        """
    )
    run("--kafka-config", "log.retention.ms=7").assert_outcomes(passed=2)


def test_patience_multiplies_the_timeouts_of_tests(pytester: pytest.Pytester, run: Any) -> None:
    pytester.makeini("[pytest]\nkafka_patience = 3\n")
    pytester.makepyfile(
        """
        import pytest
        from embedkafka import AwaitTimeout

        def test_all_waits(kafka, kafka_topic, kafka_group):
            group = kafka.group(kafka_group)
            for wait in (
                lambda: kafka_topic.await_no_leader(timeout_s=0.05),
                lambda: kafka_topic.await_offsets(1, timeout_s=0.05),
                lambda: kafka_topic.wait_for(1, timeout_s=0.05),
                lambda: next(kafka_topic.follow(timeout_s=0.05)),
                lambda: group.await_stable(timeout_s=0.05),
            ):
                with pytest.raises(AwaitTimeout, match="waited 0.15 s for"):
                    wait()
        """
    )
    run("--kafka-brokers=1").assert_outcomes(passed=1)


def test_the_environment_names_the_cluster_during_a_test(
    pytester: pytest.Pytester, run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", "elsewhere:9092")
    pytester.makepyfile(
        """
        import os
        import pytest

        @pytest.mark.usefixtures("kafka_environment")
        def test_during(kafka):
            assert os.environ["KAFKA_BOOTSTRAP_SERVERS"] == kafka.bootstrap_servers

        def test_after():
            assert os.environ["KAFKA_BOOTSTRAP_SERVERS"] == "elsewhere:9092"
        """
    )
    run("--kafka-brokers=1").assert_outcomes(passed=2)


def test_a_factory_serves_fixtures_of_any_scope(pytester: pytest.Pytester, run: Any) -> None:
    pytester.makepyfile(
        """
        import pytest

        seen = []

        @pytest.fixture(scope="module")
        def orders(kafka_cluster_factory):
            cluster = kafka_cluster_factory(brokers=2)
            yield cluster.topic("orders")
            cluster.close()

        def test_one(orders):
            orders.send("kept")

        def test_two(orders):
            assert [record.text for record in orders.read()] == ["kept"]
            assert False

        def test_without(kafka):
            assert False
        """
    )
    result = run("--kafka-brokers=1")
    result.assert_outcomes(passed=1, failed=2)
    about_its_own, _, about_other = result.stdout.str().partition("_ test_without _")
    assert "orders-0 at 0" in about_its_own
    assert "no topics" in about_other
    assert "orders-0" not in about_other


def test_each_test_has_a_fresh_topic(pytester: pytest.Pytester, run: Any) -> None:
    pytester.makepyfile(
        """
        names = set()

        def check(topic):
            assert topic.name not in names
            names.add(topic.name)
            topic.send("hello")
            assert [message.text for message in topic.read()] == ["hello"]

        def test_one(kafka_topic): check(kafka_topic)
        def test_two(kafka_topic): check(kafka_topic)
        """
    )
    run().assert_outcomes(passed=2)


def test_tests_may_use_the_same_names_and_fixtures_keep_theirs(
    pytester: pytest.Pytester, run: Any
) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.fixture(scope="module")
        def kept(kafka):
            return kafka.topic("kept")

        @pytest.mark.parametrize("number", [1, 2])
        def test_orders(kafka, kept, number):
            orders = kafka.topic("orders")
            kept.send(str(number))
            orders.send(str(number))
            assert [message.text for message in orders.read()] == [str(number)]
            assert len(kept.read()) == number
        """
    )
    run().assert_outcomes(passed=2)


def test_further_clusters_end_with_their_test(pytester: pytest.Pytester, run: Any) -> None:
    pytester.makepyfile(
        """
        import threading

        def test_two_clusters(kafka_cluster):
            one, two = kafka_cluster(brokers=1), kafka_cluster(brokers=2)
            one.topic("here")
            two.topic("here")

        def test_nothing_is_left():
            names = [t.name for t in threading.enumerate() if t.name.startswith("ek-")]
            assert names == []
        """
    )
    run().assert_outcomes(passed=2)


def test_a_failure_in_the_background_fails_the_test(pytester: pytest.Pytester, run: Any) -> None:
    pytester.makepyfile(
        """
        def test_unlucky(kafka):
            kafka._failures.record("ek-b1-fetcher", RuntimeError("the fetcher died"))

        def test_next(kafka):
            pass
        """
    )
    result = run()
    result.assert_outcomes(failed=1, passed=1)
    result.stdout.fnmatch_lines(["*BackgroundFailure*", "*the fetcher died*"])


def test_a_test_that_failed_by_itself_keeps_its_own_reason(
    pytester: pytest.Pytester, run: Any
) -> None:
    pytester.makepyfile(
        """
        def test_wrong(kafka):
            assert 1 + 1 == 3
        """
    )
    result = run()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*assert (1 + 1) == 3"])


def test_the_report_of_a_failure_describes_the_cluster(pytester: pytest.Pytester, run: Any) -> None:
    pytester.makepyfile(
        """
        def test_wrong(kafka):
            kafka.topic("orders", partitions=2).send("hello")
            assert False

        def test_without_kafka():
            assert False
        """
    )
    result = run()
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(["*- Kafka cluster -*", "*orders*"])
    assert result.stdout.str().count("- Kafka cluster -") == 1


def test_the_report_is_about_the_test_and_its_frames(pytester: pytest.Pytester, run: Any) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.fixture(scope="module")
        def lasting(kafka):
            return kafka.topic("lasting")

        def test_before(kafka, lasting):
            lasting.send("of another test")

        def test_wrong(kafka, kafka_cluster):
            other = kafka_cluster(brokers=1)
            alone = other.topic("alone")
            other.broker(1).kill()
            kafka.topic("mine").wait_for(1, timeout_s=0.1)
        """
    )
    result = run("--color=yes")
    result.assert_outcomes(passed=1, failed=1)
    shown = result.stdout.str()
    assert "of another test" not in shown
    assert "lasting (1)" in shown
    assert "- Kafka cluster kafka -" in shown
    assert "- Kafka cluster kafka_cluster(brokers=1) -" in shown
    assert "\x1b[31m\x1b[1m! no leader: alone-0" in shown
    assert "waited 0.1 s for 1 records of mine and saw none" in shown
    assert "embedkafka/cluster/" not in shown, "frames of the library"


def test_the_report_has_sparks_log_of_this_test_and_the_way_to_the_connector(
    pytester: pytest.Pytester, run: Any
) -> None:
    pytester.makepyfile(
        """
        import pytest
        from pytest_embedkafka.live import LIVE

        @pytest.fixture(scope="module")
        def spark(request, tmp_path_factory):
            "Stands in for a session: only its log is looked at."
            log = tmp_path_factory.mktemp("spark") / "log"
            log.write_text("WARN of the start\\n")
            request.config.stash[LIVE].spark_log = str(log)
            yield log
            request.config.stash[LIVE].spark_log = None

        def test_before(spark):
            with spark.open("a") as file: file.write("WARN of another test\\n")

        def test_wrong(spark):
            with spark.open("a") as file: file.write("WARN of this test\\n")
            assert False

        def test_quiet(spark):
            assert False

        def test_without_connector(spark):
            import pyspark
            raise RuntimeError("Failed to find data source: kafka. Please deploy it.")
        """
    )
    result = run()
    result.assert_outcomes(passed=1, failed=3)
    result.stdout.fnmatch_lines(["*- Spark log -*", "WARN of this test"])
    shown = result.stdout.str()
    assert "WARN of the start" not in shown
    assert "WARN of another test" not in shown
    assert shown.count("- Spark log -") == 1, "one without lines is left out"
    result.stdout.fnmatch_lines(
        ["E*Failed to find data source: kafka*", "E*`embedkafka spark-jars`*"]
    )


def test_the_report_tells_of_groups_transactions_records_and_requests(
    pytester: pytest.Pytester, run: Any
) -> None:
    pytester.makepyfile(
        """
        from confluent_kafka import Consumer, Producer

        def test_wrong(kafka):
            orders = kafka.topic("orders")
            for number in range(5):
                orders.send(f"order {number}", key="k")
            here = {"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0}
            consumer = Consumer(
                here | {"group.id": "readers", "client.id": "r1", "auto.offset.reset": "earliest"}
            )
            consumer.subscribe(["orders"])
            consumer.commit(consumer.poll(20), asynchronous=False)
            producer = Producer(here | {"transactional.id": "t1"})
            producer.init_transactions(20)
            producer.begin_transaction()
            producer.produce("orders", "undecided")
            producer.flush()
            assert False
        """
    )
    result = run()
    result.assert_outcomes(failed=1)
    result.stdout.re_match_lines(
        [
            r"partition +leader +epoch +replicas +isr +start +stable +high +end",
            r"orders-0 +\d +0 +\d +\d +0 +5 +6 +6",
            r"groups:",
            r"  readers  Stable",
            r"    orders-0 committed 1, lag 5",
            r"open transactions:",
            r"  t1  Ongoing for \d+\.\d s  producer \d+ epoch 0  orders-0",
            r"last records:",
            r"  orders-0 at 4: key 'k', value 'order 4'",
            r"  orders-0 at 5: key none, value 'undecided'",
            r"last requests:",
            r"  .* s ago  broker \d  rdkafka  PRODUCE v\d+",
        ]
    )


def test_workers_may_share_one_cluster(pytester: pytest.Pytester, run: Any) -> None:
    pytester.makepyfile(
        """
        import os
        import pytest

        @pytest.mark.parametrize("number", range(4))
        def test_orders(kafka, kafka_topic, number, tmp_path_factory):
            orders = kafka.topic("orders")
            orders.send(str(number))
            orders.add_partitions(2)
            found = kafka.existing_topic("orders").read()
            assert [message.text for message in found] == [str(number)]
            kafka_topic.send("mine")
            assert len(kafka_topic.read()) == 1
            shared = tmp_path_factory.getbasetemp().parent
            worker = os.environ["PYTEST_XDIST_WORKER"]
            (shared / f"{worker}.cluster").write_text(kafka.cluster_id)
            assert orders.name == f"orders-{worker}"
        """
    )
    shared = ["--kafka-xdist=shared", "--kafka-brokers=1"]
    run(*shared, "-n", "2", "--basetemp", "base").assert_outcomes(passed=4)
    clusters = [file.read_text() for file in pytester.path.glob("base/*.cluster")]
    assert len(clusters) == 2
    assert len(set(clusters)) == 1


def test_what_fails_in_a_shared_cluster_fails_the_run(pytester: pytest.Pytester, run: Any) -> None:
    pytester.makeconftest(
        """
        import pytest

        @pytest.hookimpl(optionalhook=True, trylast=True)
        def pytest_configure_node(node):
            cluster = node.config.pluginmanager.get_plugin("embedkafka-shared")._cluster
            cluster._failures.record("ek-b1-fetcher", RuntimeError("the fetcher died"))
        """
    )
    pytester.makepyfile("def test_topic(kafka_topic): kafka_topic.send('fine')")
    result = run("--kafka-xdist=shared", "-n", "1")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*= Kafka cluster of all workers =*", "*the fetcher died"])
    assert result.ret == pytest.ExitCode.TESTS_FAILED


def test_sharing_without_workers_changes_nothing(pytester: pytest.Pytester, run: Any) -> None:
    pytester.makepyfile(
        """
        def test_orders(kafka):
            assert kafka.topic("orders").name == "orders"
            assert len(kafka.brokers) == 3
        """
    )
    run("--kafka-xdist=shared").assert_outcomes(passed=1)


def test_workers_have_clusters_of_their_own(pytester: pytest.Pytester, run: Any) -> None:
    pytester.makepyfile(
        """
        import os
        import pytest

        @pytest.mark.parametrize("number", range(4))
        def test_orders(kafka, number, tmp_path_factory):
            kafka.topic("orders").send("hello")
            worker = os.environ["PYTEST_XDIST_WORKER"]
            shared = tmp_path_factory.getbasetemp().parent
            (shared / f"{worker}.cluster").write_text(kafka.cluster_id)
        """
    )
    run("-n", "2", "--basetemp", "base").assert_outcomes(passed=4)
    clusters = [file.read_text() for file in pytester.path.glob("base/*.cluster")]
    assert len(clusters) == len(set(clusters)) == 2


def test_the_same_tests_run_on_another_cluster(pytester: pytest.Pytester, run: Any) -> None:
    from embedkafka import EmbeddedKafka

    pytester.makepyfile(
        """
        def test_orders(kafka, kafka_topic):
            orders = kafka.topic("orders", partitions=2, config={"retention.ms": 1000})
            orders.send("hello", partition=1)
            orders.add_partitions(3)
            orders.send("more", partition=2)
            kafka_topic.send("other")
            assert [message.text for message in orders.read()] == ["hello", "more"]

        def test_orders_again(kafka):
            assert kafka.topic("orders").read() == []

        def test_wrong(kafka):
            kafka.topic("wrong")
            assert False
        """
    )
    with EmbeddedKafka(brokers=2, topics={"theirs": 1}) as theirs:
        result = run("--kafka-bootstrap", theirs.bootstrap_servers)
        result.assert_outcomes(passed=2, failed=1)
        result.stdout.fnmatch_lines(["*- Kafka cluster -*", "brokers: *", "*wrong-0: leader *"])
        assert theirs.existing_topic("theirs").read() == []


def test_the_plugin_loads_nothing_but_itself_until_a_fixture_is_used(
    pytester: pytest.Pytester, run: Any
) -> None:
    program = (
        "import sys, pytest, dataclasses, logging\n"
        "before = set(sys.modules)\n"
        "import pytest_embedkafka.plugin\n"
        "loaded = {name.split('.')[0] for name in set(sys.modules) - before}\n"
        "assert loaded == {'pytest_embedkafka'}, loaded\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
    pytester.makepyfile(
        """
        import sys

        def test_nothing_is_loaded():
            assert not {"embedkafka", "pyspark", "confluent_kafka"} & set(sys.modules)
        """
    )
    run().assert_outcomes(passed=1)


@pytest.mark.parametrize(
    "old",
    ["pytest.__version__ = '7.3.2'", "pluggy.__version__ = '1.1.0'"],
    ids=["pytest", "pluggy"],
)
def test_a_pytest_that_is_too_old_runs_all_other_tests(pytester: pytest.Pytester, old: str) -> None:
    pytester.makepyfile(
        """
        def test_plain(): pass
        def test_ours(kafka): pass
        """
    )
    result = pytester.runpython_c(f"import pluggy, pytest; {old}; pytest.main(['-q'])")
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(
        [
            "*fixture 'kafka' not found",
            "embedkafka: its fixtures, * need pytest 7.4 and pluggy 1.2 or newer; this is *",
        ]
    )


def test_fixtures_and_options_are_listed_with_their_words(run: Any) -> None:
    listed = run("--fixtures").stdout.str()
    assert "A Kafka cluster for the whole session" in listed
    assert "A Spark session" in listed
    assert "--kafka-bootstrap" in run("--help").stdout.str()


@pytest.mark.parametrize(
    ("ini", "arguments", "seed"),
    [("", ["--explore-seed=7/3"], "7/3"), ("explore_seed = 5", [], "5"), ("", [], None)],
)
def test_a_seed_for_explore_is_passed_on(
    pytester: pytest.Pytester, run: Any, ini: str, arguments: Any, seed: str | None
) -> None:
    pytester.makeini(f"[pytest]\n{ini}\n")
    pytester.makepyfile(
        f"""
        import os
        from embedkafka.explore.seeds import SEED_VARIABLE

        def test_seed():
            assert os.environ.get(SEED_VARIABLE) == {seed!r}
        """
    )
    run(*arguments).assert_outcomes(passed=1)


def test_an_interrupted_run_ends_as_any_other(pytester: pytest.Pytester, run: Any) -> None:
    pytester.makepyfile(
        """
        def test_stuck(kafka, kafka_topic):
            raise KeyboardInterrupt
        """
    )
    result = run()
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines(["*test_*.py:2: KeyboardInterrupt", "*no tests ran in *"])
    result.stderr.no_fnmatch_line("*Error*")
