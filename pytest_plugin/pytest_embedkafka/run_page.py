"""`--kafka-report=report.html`: one page for the run, with its tests, clusters, topics and groups.

A plugin of its own, registered only if the option is given. Each worker of pytest-xdist writes a
page, `report-gw0.html` and so on, because each has its own clusters.

Owner: pytest's thread.
"""

import os
from collections.abc import Generator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_embedkafka.live import Live, clusters_of, uses_kafka

if TYPE_CHECKING:
    from embedkafka import EmbeddedKafka
    from embedkafka.page.recorder import Recorder

_SUMMARY = "GITHUB_STEP_SUMMARY"


class RunPage:
    """Records the clusters of the run, and writes the page at its end."""

    def __init__(self, path: Path, config: pytest.Config, live: Live) -> None:
        worker = getattr(config, "workerinput", {}).get("workerid")
        self.path = path.with_stem(f"{path.stem}-{worker}") if worker else path
        self._live = live
        self._recorders: dict[int, Recorder] = {}
        self._documents: list[Any] = []  # Any: JSON
        self._failed: dict[str, list[str]] = {}
        self._tests = 0

    # -- clusters, from `Live.showing`

    def attach(self, cluster: "EmbeddedKafka", label: str) -> None:
        from embedkafka import EmbeddedKafka

        if isinstance(cluster, EmbeddedKafka):  # others are out of reach
            from embedkafka.page.recorder import Recorder

            recorder = self._recorders[id(cluster)] = Recorder(cluster, label)
            recorder.start()

    def detach(self, cluster: "EmbeddedKafka") -> None:
        recorder = self._recorders.pop(id(cluster), None)
        if recorder is not None:
            recorder.stop()
            self._documents.append(recorder.document())

    # -- hooks

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if uses_kafka(item) and (
            report.when == "call" or (report.when == "setup" and not report.passed)
        ):
            self._tests += 1
            recorders = self._recorders_of(item)
            for recorder in recorders:
                recorder.span(
                    "test", item.nodeid, call.start * 1000, call.stop * 1000, status=report.outcome
                )
            if report.failed:
                self._failed[item.nodeid] = [line for each in recorders for line in each.troubles()]
        return report

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None, object, object]:
        """Keeps the test's topics before they are deleted."""
        if uses_kafka(item):
            for cluster in clusters_of(item, self._live):
                if (recorder := self._recorders.get(id(cluster))) is not None:
                    recorder.keep_topics(item.nodeid, self._live.marks.get(id(cluster)))
                    self._add_batches(recorder)
        return (yield)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        for recorder in list(self._recorders.values()):  # a fixture that was not torn down
            recorder.stop()
            self._documents.append(recorder.document())
        self._recorders.clear()
        if not self._documents:
            return
        from embedkafka.page.document import static_page

        page = static_page({"title": self._headline(), "clusters": self._documents})
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(page, encoding="utf-8")
        if summary := os.environ.get(_SUMMARY):
            with Path(summary).open("a", encoding="utf-8") as file:
                file.write(self._markdown())

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._documents:
            terminalreporter.line(f"embedkafka: the Kafka report of this run is {self.path}")

    @pytest.hookimpl(optionalhook=True)
    def pytest_html_results_summary(self, prefix: list[str]) -> None:
        """Links the page from pytest-html's, if that is installed."""
        prefix.append(f'<p><a href="{self.path.name}">Kafka report</a></p>')

    # -- pieces

    def _recorders_of(self, item: pytest.Item) -> "list[Recorder]":
        found = (self._recorders.get(id(each)) for each in clusters_of(item, self._live))
        return [recorder for recorder in found if recorder is not None]

    def _add_batches(self, recorder: "Recorder") -> None:
        queries = [] if self._live.queries is None else self._live.queries.since_mark()
        for query in queries:
            for batch in query.recentProgress:
                start = datetime.fromisoformat(batch["timestamp"]).timestamp() * 1000
                took = batch["durationMs"].get("triggerExecution", 0)
                rows = f"batch {batch['batchId']}, {batch['numInputRows']} rows"
                text = f"{query.name or 'query'} {rows}"
                recorder.span("batch", text, start, start + took, status="batch")

    def _headline(self) -> str:
        return f"{self._tests} tests with Kafka, {len(self._failed)} failed"

    def _markdown(self) -> str:
        lines = ["### Kafka", "", f"{self._headline()}. The report is `{self.path.name}`.", ""]
        for test, troubles in self._failed.items():
            lines.append(f"- `{test}`")
            lines += [f"  - {trouble}" for trouble in troubles]
        return "\n".join([*lines, ""])
