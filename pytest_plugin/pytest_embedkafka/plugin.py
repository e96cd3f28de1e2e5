"""The pytest plugin: options, fixtures and hooks.

A test that uses Kafka fails if a thread of the cluster failed during it, and one that uses Spark if
it leaves a query running. The report of a failed test describes the cluster and the queries.
Nothing imports embedkafka before a test uses a fixture.
"""

from collections.abc import Generator, Iterator
from contextlib import contextmanager

import pytest

from pytest_embedkafka.fixtures import (
    kafka,
    kafka_cluster,
    kafka_topic,
    progress_of,
    spark,
    spark_checkpoint,
)
from pytest_embedkafka.leftovers import remove_checkpoints, stop_leftovers
from pytest_embedkafka.live import HAS_PASSED, LIVE, Live, uses_kafka, uses_spark
from pytest_embedkafka.options import (
    add_options,
    leftovers,
    pass_explore_seed,
    shares_kafka,
    shares_spark,
)
from pytest_embedkafka.sharing import SharedCluster
from pytest_embedkafka.skips import skipping_on_connect, summary_line
from pytest_embedkafka.spark_sharing import SharedSpark
from pytest_embedkafka.targets import check_targets

__all__ = ["kafka", "kafka_cluster", "kafka_topic", "spark", "spark_checkpoint"]


_LOG_LINES = 1000
"""How far back to look in Spark's log: one exception may have hundreds of lines."""


def pytest_addoption(parser: pytest.Parser) -> None:
    add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    config.stash[LIVE] = Live()
    pass_explore_seed(config)
    check_targets(config)
    if shares_kafka(config):
        config.pluginmanager.register(SharedCluster(config), "embedkafka-shared")
    if shares_spark(config):
        sharing = SharedSpark(config, progress_of(config))
        config.pluginmanager.register(sharing, "embedkafka-shared-spark")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Counts the tests that an external cluster made impossible."""
    if line := summary_line(terminalreporter.stats.get("skipped", [])):
        terminalreporter.line(line)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Fails the test if a thread of the cluster failed during it and the test itself did not."""
    live = item.config.stash[LIVE]
    live.mark_spark_log()
    if live.queries is not None:
        live.queries.mark()
    with skipping_on_connect(), _noting_topics(item, live):
        result = yield
    if uses_kafka(item):
        for cluster in live.clusters:
            cluster.check()
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, object, object]:
    """Stops the test's queries and deletes its topics, once its own fixtures are torn down."""
    result = yield
    live = item.config.stash[LIVE]
    has_passed = item.stash.get(HAS_PASSED, False)
    complaint = stop_leftovers(live, leftovers(item.config)) or live.complaint
    live.complaint = None
    remove_checkpoints(live, keep=not has_passed)
    if live.sweeper is not None and uses_kafka(item):
        live.sweeper.sweep()
    if complaint is not None and has_passed:
        pytest.fail(complaint, pytrace=False)
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Adds cluster, queries and the end of Spark's log to the report of a failure."""
    report = yield
    if report.when == "call":
        item.stash[HAS_PASSED] = report.passed
    if report.failed and report.when != "teardown":
        report.sections += _sections(item, item.config.stash[LIVE])
    return report


@contextmanager
def _noting_topics(item: pytest.Item, live: Live) -> Iterator[None]:
    if live.sweeper is None or not uses_kafka(item):
        yield
        return
    live.sweeper.mark()
    try:
        yield
    finally:
        live.sweeper.collect()


def _sections(item: pytest.Item, live: Live) -> Iterator[tuple[str, str]]:
    if uses_kafka(item):
        for cluster in live.clusters:
            try:
                yield "Kafka cluster", cluster.report()
            except Exception as error:  # a broken cluster must not hide the test's failure
                yield "Kafka cluster", f"cannot be described: {error!r}"
    if uses_spark(item) and live.queries is not None:
        from embedkafka.spark.report import describe_query

        for query in live.queries.all():
            yield "Spark query", describe_query(query)
    for path in live.checkpoints:
        yield "Spark checkpoint", f"kept in {path}"
    if uses_spark(item) and live.spark_log is not None:
        from embedkafka.spark.report import shorten_log
        from embedkafka.spark.session import log_tail

        tail = log_tail(live.spark_log, start=live.spark_log_size, lines=_LOG_LINES)
        if shortened := shorten_log(tail):
            yield "Spark log", shortened
