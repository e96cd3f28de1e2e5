"""What pytest shows of a failed test: our clusters and queries, without our frames.

Owner: none; the hooks of `plugin` call it.
"""

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import pytest

from pytest_embedkafka.live import SCRIPTS, TRIGGERS, Live, clusters_of, uses_kafka, uses_spark

if TYPE_CHECKING:
    from _pytest._code.code import TracebackEntry

    from embedkafka import Cluster

_LOG_LINES: Final = 1000
"""How far back to look in Spark's log: one exception may have hundreds of lines."""
CLUSTER_TITLE: Final = "Kafka cluster"
_TROUBLE: Final = "! "
_PACKAGES: Final = ("embedkafka", "pytest_embedkafka")
_SPARK: Final = ("py4j", "pyspark")
_ASSERTING: Final = ("embedkafka.spark.", "embedkafka.explore.")


def hide_frames(excinfo: "pytest.ExceptionInfo[BaseException] | None") -> None:
    """Takes frames of embedkafka out of a traceback if the error is about the test.

    If it is Spark's, and came through embedkafka, so are the frames of Spark's client. pytest looks
    for `__tracebackhide__` in a frame's module. Frames of a bug in embedkafka stay.
    """
    for entry in () if excinfo is None else excinfo.traceback:
        package = _package(entry)
        if package in _PACKAGES or package in _SPARK:
            entry.frame.f_globals.setdefault(
                "__tracebackhide__",
                _is_about_the_test if package in _PACKAGES else _came_through_us,
            )


def _is_about_the_test(excinfo: "pytest.ExceptionInfo[BaseException] | None") -> bool:
    from embedkafka import BackgroundFailure, EmbedKafkaError

    error = None if excinfo is None else excinfo.value
    if isinstance(error, BackgroundFailure):
        return False
    if isinstance(error, EmbedKafkaError | pytest.skip.Exception):
        return True
    return _is_sparks(error) or (excinfo is not None and _is_of_an_assertion(excinfo))


def _came_through_us(excinfo: "pytest.ExceptionInfo[BaseException] | None") -> bool:
    if excinfo is None or not _is_sparks(excinfo.value):
        return False
    return any(_package(entry) in _PACKAGES for entry in excinfo.traceback)


def _is_of_an_assertion(excinfo: "pytest.ExceptionInfo[BaseException]") -> bool:
    """Whether one of our functions for tests has raised it; other assertions are a bug's."""
    raised_in = str(excinfo.traceback[-1].frame.f_globals.get("__name__", ""))
    return isinstance(excinfo.value, AssertionError) and raised_in.startswith(_ASSERTING)


def _is_sparks(error: BaseException | None) -> bool:
    return type(error).__module__.partition(".")[0] in _SPARK


def _package(entry: "TracebackEntry") -> str:
    return str(entry.frame.f_globals.get("__name__", "")).partition(".")[0]


def explain(excinfo: "pytest.ExceptionInfo[BaseException] | None") -> None:
    """Says the way out below Spark's error about a session of the test's own, without Kafka."""
    if excinfo is not None and "pyspark" in sys.modules:
        from embedkafka.spark.connector.missing import explain_missing_connector

        explain_missing_connector(excinfo.value)


def sections(item: pytest.Item, live: Live) -> Iterator[tuple[str, str]]:
    """Titles and texts of a failed test's clusters, queries, checkpoints and Spark's log."""
    if uses_kafka(item):
        clusters = clusters_of(item, live)
        for cluster in clusters:
            label = live.labels[id(cluster)] if len(clusters) > 1 else ""
            title = f"{CLUSTER_TITLE} {label}".rstrip()
            try:
                yield title, _report(live, cluster)
            except Exception as error:  # a broken cluster must not hide the test's failure
                yield title, f"cannot be described: {error!r}"
    if uses_spark(item) and live.queries is not None:
        from embedkafka.spark.report import describe_query

        for query in live.queries.all():
            yield "Spark query", describe_query(query)
    if (triggers := sys.modules.get(TRIGGERS)) and (ran := triggers.replaced_intervals()):
        yield "Spark triggers", triggers.describe_replaced(ran)
    if (scripts := sys.modules.get(SCRIPTS)) is not None:
        for script in scripts.recent_scripts():
            yield "Spark script", script.describe()
    for path in live.checkpoints:
        yield "Spark checkpoint", f"kept in {path}"
    if uses_spark(item) and live.spark_log is not None:
        from embedkafka.spark.report import shorten_log
        from embedkafka.spark.session import log_tail

        tail = log_tail(live.spark_log, start=live.spark_log_size, lines=_LOG_LINES)
        if shortened := shorten_log(tail):
            yield "Spark log", shortened


def paint(report: pytest.TestReport, config: pytest.Config) -> None:
    """Shows what is wrong with a cluster in red, if the terminal has colours."""
    writer = config.get_terminal_writer() if config.pluginmanager.hasplugin("terminal") else None
    if writer is None or not writer.hasmarkup:
        return
    report.sections = [
        (title, _painted(text, writer) if title.startswith(CLUSTER_TITLE) else text)
        for title, text in report.sections
    ]


def _painted(text: str, writer: Any) -> str:
    """Any: pytest's terminal writer, whose type is private."""
    return "\n".join(
        writer.markup(line, red=True, bold=True) if line.startswith(_TROUBLE) else line
        for line in text.split("\n")
    )


def _report(live: Live, cluster: "Cluster") -> str:
    from embedkafka import EmbeddedKafka

    mark = live.marks.get(id(cluster))
    return cluster.report(since=mark) if isinstance(cluster, EmbeddedKafka) else cluster.report()
