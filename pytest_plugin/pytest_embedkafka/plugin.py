"""The pytest plugin: options, fixtures and hooks.

A test that uses Kafka fails if a thread of the cluster failed during it, and one that uses Spark if
it leaves a query running. The report of a failed test describes the cluster and the queries.
Nothing imports embedkafka before a test uses a fixture.
"""

import sys
from collections.abc import Generator
from typing import Any

import pytest

from pytest_embedkafka.explorations import (
    begin_explorations,
    end_explorations,
    exploration_lines,
    keep_refutation,
    pass_seed,
)
from pytest_embedkafka.fixtures import (
    _kafka_clients,
    _kafka_clusters,
    kafka,
    kafka_admin,
    kafka_aio_consumer,
    kafka_aio_producer,
    kafka_clock,
    kafka_cluster,
    kafka_cluster_factory,
    kafka_consumer,
    kafka_environment,
    kafka_faults,
    kafka_group,
    kafka_producer,
    kafka_settings,
    kafka_topic,
    progress_of,
    spark,
    spark_checkpoint,
    spark_immediate_triggers,
    spark_script,
    spark_session,
)
from pytest_embedkafka.leaks import tell_of_leaks
from pytest_embedkafka.leftovers import remove_checkpoints, stop_leftovers
from pytest_embedkafka.live import HAS_PASSED, LIVE, Live, uses_kafka, uses_session_cluster
from pytest_embedkafka.marks import MARK, MARK_LINE, find_shapes
from pytest_embedkafka.options import (
    add_options,
    chooses_cluster,
    distributes,
    is_strict,
    leftovers,
    pass_patience,
    report_path,
    shares_kafka,
    shares_spark,
)
from pytest_embedkafka.plain_imports import PLAIN_IMPORTS
from pytest_embedkafka.reporting import explain, hide_frames, paint, sections
from pytest_embedkafka.run_page import RunPage
from pytest_embedkafka.sessions import describe_spark
from pytest_embedkafka.sharing import SharedCluster
from pytest_embedkafka.skips import skipping_on_connect, summary_line
from pytest_embedkafka.spark_sharing import SharedSpark
from pytest_embedkafka.targets import check_targets, describe_target, require_usable

__all__ = [
    "_kafka_clients",
    "_kafka_clusters",
    "kafka",
    "kafka_admin",
    "kafka_aio_consumer",
    "kafka_aio_producer",
    "kafka_clock",
    "kafka_cluster",
    "kafka_cluster_factory",
    "kafka_consumer",
    "kafka_environment",
    "kafka_faults",
    "kafka_group",
    "kafka_producer",
    "kafka_settings",
    "kafka_topic",
    "spark",
    "spark_checkpoint",
    "spark_immediate_triggers",
    "spark_script",
    "spark_session",
]


def pytest_addoption(parser: pytest.Parser) -> None:
    sys.meta_path.insert(0, PLAIN_IMPORTS)  # before a conftest.py imports the library
    add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    config.add_cleanup(lambda: sys.meta_path.remove(PLAIN_IMPORTS))
    config.stash[LIVE] = Live()
    config.addinivalue_line("markers", MARK_LINE)
    pass_seed(config)
    pass_patience(config)
    check_targets(config)
    if path := report_path(config):
        live = config.stash[LIVE]
        live.page = RunPage(path, config, live)
        config.pluginmanager.register(live.page, "embedkafka-page")
    if shares_kafka(config):
        config.pluginmanager.register(SharedCluster(config), "embedkafka-shared")
    if shares_spark(config):
        sharing = SharedSpark(config, progress_of(config))
        config.pluginmanager.register(sharing, "embedkafka-shared-spark")


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Names the cluster that `kafka` is, and the JVMs that `spark` may take."""
    return [describe_target(config), *describe_spark(config)]


def pytest_sessionstart(session: pytest.Session) -> None:
    """Looks at the options before workers of pytest-xdist start, which collect the tests."""
    if distributes(session.config) and chooses_cluster(session.config):
        require_usable(session.config)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Ends a run whose options no cluster can have, or whose cluster does not answer."""
    config = session.config
    if config.option.collectonly or hasattr(config, "workerinput"):
        return
    if any(uses_session_cluster(item) for item in session.items):
        require_usable(config)


def pytest_terminal_summary(terminalreporter: "pytest.TerminalReporter") -> None:
    """Counts the tests that an external cluster made impossible; -v says what was explored."""
    if terminalreporter.verbosity > 0 and (lines := exploration_lines(terminalreporter.stats)):
        terminalreporter.section("explored schedules")
        for each in lines:
            terminalreporter.line(each)
    if line := summary_line(terminalreporter.stats.get("skipped", [])):
        terminalreporter.line(line)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Runs a test on the clusters that its marks ask for."""
    if MARK not in metafunc.fixturenames:
        return
    shapes = find_shapes(metafunc.definition)
    if not shapes:
        return
    ids: list[Any] = [f"brokers={shape.settings.get('brokers')}" for shape in shapes]
    if len(shapes) == 1:
        ids = [getattr(pytest, "HIDDEN_PARAM", "kafka")]  # since pytest 8.4
    metafunc.parametrize("kafka", shapes, indirect=True, ids=ids, scope="session")


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(
    fixturedef: "pytest.FixtureDef[Any]", request: pytest.FixtureRequest
) -> Generator[None, object, object]:
    """Begins a test with the first fixture of its own."""
    live = request.config.stash[LIVE]
    if fixturedef.scope != "function":
        with live.guard.keeping(fixturedef):
            value = yield
        live.guard.owners.add(fixturedef)
        return value
    _begin(request.node, live)
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, object, object]:
    """From here on, requests and lines of Spark's log belong to this test.

    Begins a test that has no fixture of its own.
    """
    begin_explorations(item)
    item.config.stash[LIVE].mark()
    result = yield
    _begin(item, item.config.stash[LIVE])
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Fails the test if a thread of the cluster failed during it and the test itself did not."""
    live = item.config.stash[LIVE]
    if live.queries is not None:
        live.queries.mark()
    with skipping_on_connect():
        result = yield
    if uses_kafka(item):
        for cluster in live.clusters:
            cluster.check()
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, object, object]:
    """Stops the test's queries, once its own fixtures are torn down."""
    __tracebackhide__ = True
    live = item.config.stash[LIVE]
    try:
        result = yield
    finally:
        end_explorations(item)
        live.guard.undo_failure()
    has_passed = item.stash.get(HAS_PASSED, False)
    stop_leftovers(live, leftovers(item.config))
    complaint, live.complaint = live.complaint, None
    remove_checkpoints(live, keep=not has_passed)
    if complaint is not None and has_passed:
        pytest.fail(complaint, pytrace=False)
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Adds cluster, queries and the end of Spark's log to the report of a failure."""
    hide_frames(call.excinfo)
    explain(call.excinfo)
    report = yield
    if report.when == "call":
        item.stash[HAS_PASSED] = report.passed
        keep_refutation(item, report, call.excinfo)
    if report.failed and report.when != "teardown":
        report.sections += sections(item, item.config.stash[LIVE])
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_report_teststatus(report: pytest.TestReport, config: pytest.Config) -> None:
    """Runs where the terminal is, also for the reports of xdist's workers."""
    if report.failed:
        paint(report, config)


def _begin(item: pytest.Item, live: Live) -> None:
    def stop_queries() -> None:
        stop_leftovers(live, leftovers(item.config))

    def on_leaks(leaks: list[str]) -> None:
        if item.stash.get(HAS_PASSED, False):
            tell_of_leaks(leaks, is_strict=is_strict(item.config))

    if uses_kafka(item):
        live.guard.begin(item, before_end=stop_queries, on_leaks=on_leaks)
