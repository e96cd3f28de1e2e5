"""What pytest shows of a failed test: our clusters and queries, without our frames.

Owner: none; the hooks of `plugin` call it.
"""

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import pytest

from pytest_embedkafka.live import Live, clusters_of, uses_kafka, uses_spark

if TYPE_CHECKING:
    from embedkafka import EmbeddedKafka

_LOG_LINES: Final = 1000
"""How far back to look in Spark's log: one exception may have hundreds of lines."""
CLUSTER_TITLE: Final = "Kafka cluster"
_TROUBLE: Final = "! "
_PACKAGES: Final = ("embedkafka", "pytest_embedkafka")


def hide_frames(excinfo: "pytest.ExceptionInfo[BaseException] | None") -> None:
    """Takes frames of embedkafka out of a traceback if the error is about the test.

    pytest looks for `__tracebackhide__` in a frame's module. Frames of a bug in embedkafka stay.
    """
    for entry in () if excinfo is None else excinfo.traceback:
        module = entry.frame.f_globals
        if str(module.get("__name__", "")).partition(".")[0] in _PACKAGES:
            module.setdefault("__tracebackhide__", _is_about_the_test)


def _is_about_the_test(excinfo: "pytest.ExceptionInfo[BaseException] | None") -> bool:
    from embedkafka import EmbedKafkaError
    from embedkafka.runtime.failures import BackgroundFailure

    error = None if excinfo is None else excinfo.value
    about_test = EmbedKafkaError | pytest.skip.Exception
    return isinstance(error, about_test) and not isinstance(error, BackgroundFailure)


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


def _report(live: Live, cluster: "EmbeddedKafka") -> str:
    mark = live.marks.get(id(cluster))
    return cluster.report() if mark is None else cluster.report(since=mark)
