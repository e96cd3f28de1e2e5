"""`--kafka-report=report.html`: one page for the run, with its tests, clusters, topics and groups.

A plugin of its own, registered only if the option is given. Workers of pytest-xdist pass on what
they have recorded, and the process that distributes the tests writes the page. A worker that
crashes takes its part along.

Owner: pytest's thread.
"""

import json
import os
from collections.abc import Generator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_embedkafka.live import Live, clusters_of, uses_kafka
from pytest_embedkafka.sharing import find_shared, keep_topics

if TYPE_CHECKING:
    from embedkafka import EmbeddedKafka, Mark
    from embedkafka.page.recorder import Recorder

_SUMMARY = "GITHUB_STEP_SUMMARY"
_OUTPUT = "embedkafka_page"
_SHARED = "_uses_shared_kafka"


class RunPage:
    """Records the clusters of the run, and writes the page at its end."""

    def __init__(self, path: Path, config: pytest.Config, live: Live) -> None:
        self.path = path
        self._config = config
        self._live = live
        self._worker: str | None = getattr(config, "workerinput", {}).get("workerid")
        self._recorders: dict[int, Recorder] = {}
        self._documents: list[Any] = []  # Any: JSON
        self._failed: dict[str, list[str]] = {}
        self._tests = 0
        self._failure: OSError | None = None

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

    def keep_topics(
        self, cluster: "EmbeddedKafka", owner: str, since: "Mark | None", listener: str
    ) -> None:
        """Keeps the topics of a worker's test on the cluster of all workers."""
        if (recorder := self._recorders.get(id(cluster))) is not None:
            recorder.keep_topics(owner, since, listener)

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
                _add_test(recorder, report)
            vars(report)[_SHARED] = find_shared(item.config) is not None  # goes with the report
            if report.failed:
                self._failed[item.nodeid] = [line for each in recorders for line in each.troubles()]
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Shows a worker's test on the cluster of all workers, which runs here."""
        if self._worker is None and getattr(report, _SHARED, False):
            for recorder in self._recorders.values():
                _add_test(recorder, report)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Takes what a worker has recorded. Any: xdist may not be installed."""
        text = getattr(node, "workeroutput", {}).get(_OUTPUT)
        if text is None:
            return
        recorded = json.loads(text)
        self._tests += recorded["tests"]
        self._failed |= recorded["failed"]
        for document in recorded["clusters"]:
            label = f"{document['label']} of {recorded['worker']}"
            self._documents.append({**document, "label": label})

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None, object, object]:
        """Keeps the test's topics before they are deleted."""
        if uses_kafka(item):
            for cluster in clusters_of(item, self._live):
                if (recorder := self._recorders.get(id(cluster))) is not None:
                    recorder.keep_topics(item.nodeid, self._live.marks.get(id(cluster)))
                    self._add_batches(recorder)
                else:
                    keep_topics(cluster, item.nodeid)
        return (yield)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        for recorder in list(self._recorders.values()):  # a fixture that was not torn down
            recorder.stop()
            self._documents.append(recorder.document())
        self._recorders.clear()
        if self._worker is not None:
            self._pass_on()
        elif self._documents:
            try:
                self._write()
            except OSError as error:
                self._failure = error

    def _pass_on(self) -> None:
        recorded = {
            "worker": self._worker,
            "tests": self._tests,
            "failed": self._failed,
            "clusters": self._documents,
        }
        output: dict[str, Any] = self._config.workeroutput  # type: ignore[attr-defined] # xdist's
        output[_OUTPUT] = json.dumps(recorded)

    def _write(self) -> None:
        from embedkafka.page.document import static_page

        page = static_page({"title": self._headline(), "clusters": self._documents})
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(page, encoding="utf-8")
        if summary := os.environ.get(_SUMMARY):
            with Path(summary).open("a", encoding="utf-8") as file:
                file.write(self._markdown())

    def pytest_terminal_summary(self, terminalreporter: "pytest.TerminalReporter") -> None:
        if self._worker is not None:
            return
        said = f"the Kafka report of this run is {self.path}"
        if not self._documents:
            said = "there is no Kafka report: no test used a cluster of this run's own"
        elif self._failure is not None:
            said = f"the Kafka report could not be written: {self._failure}"
        terminalreporter.line(f"embedkafka: {said}")

    @pytest.hookimpl(optionalhook=True)
    def pytest_html_results_summary(self, prefix: list[str]) -> None:
        """Links the page from pytest-html's, if that is installed."""
        if self._documents or self._recorders:
            prefix.append(f'<p><a href="{self._href()}">Kafka report</a></p>')

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
                count = batch["numInputRows"]
                rows = "1 row" if count == 1 else f"{count} rows"
                text = f"{query.name or 'query'} batch {batch['batchId']}, {rows}"
                recorder.span("batch", text, start, start + took, status="batch")

    def _href(self) -> str:
        """The way from pytest-html's page to this one."""
        from urllib.parse import quote  # Python 3.13 does not load it for pytest

        other = self._config.getoption("htmlpath", None)
        start = Path(other).absolute().parent if other else self.path.absolute().parent
        return quote(os.path.relpath(self.path.absolute(), start).replace(os.sep, "/"))

    def _headline(self) -> str:
        tests = "1 test" if self._tests == 1 else f"{self._tests} tests"
        return f"{tests} with Kafka, {len(self._failed)} failed"

    def _markdown(self) -> str:
        lines = ["### Kafka", "", f"{self._headline()}. The report is `{self.path.name}`.", ""]
        for test, troubles in self._failed.items():
            lines.append(f"- `{test}`")
            lines += [f"  - {trouble}" for trouble in troubles]
        return "\n".join([*lines, ""])


def _add_test(recorder: "Recorder", report: pytest.TestReport) -> None:
    recorder.span(
        "test", report.nodeid, report.start * 1000, report.stop * 1000, status=report.outcome
    )
