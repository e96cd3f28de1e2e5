"""`--kafka-report=report.html`: one page for the run, with its tests, clusters, topics and groups.

A plugin of its own, registered only if the option is given. Workers of pytest-xdist pass on what
they have recorded of their clusters, and the process that distributes the tests writes the page. A
worker that crashes takes its clusters along, but not its tests.

Owner: pytest's thread.
"""

import json
import os
from collections.abc import Generator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_embedkafka.live import SESSION_LABEL, SHARED_LABEL, Live, clusters_of, uses_kafka
from pytest_embedkafka.sharing import find_shared, keep_topics

if TYPE_CHECKING:
    from embedkafka import Cluster, Mark
    from embedkafka.page.recorder import Recorder

_SUMMARY = "GITHUB_STEP_SUMMARY"
_OUTPUT = "embedkafka_page"
_USED = "_embedkafka_used"
"""What a report knows of its test's clusters; it goes with the report from a worker."""
_MOST_TEXT = 50_000


class RunPage:
    """Records the clusters of the run, and writes the page at its end."""

    def __init__(self, path: Path, config: pytest.Config, live: Live) -> None:
        self.path = path
        self._config = config
        self._live = live
        self._worker: str | None = getattr(config, "workerinput", {}).get("workerid")
        self._recorders: dict[int, Recorder] = {}
        self._documents: list[Any] = []  # Any: JSON
        self._tests: dict[str, Any] = {}  # by node id; Any: JSON
        self._running = ""
        self._failure: OSError | None = None

    # -- clusters, from `Live.showing`

    def attach(self, cluster: "Cluster", label: str) -> None:
        from embedkafka import EmbeddedKafka

        if isinstance(cluster, EmbeddedKafka):  # others are out of reach
            from embedkafka.page.recorder import Recorder

            if label.partition("(")[0] not in (SESSION_LABEL, SHARED_LABEL):
                label = f"{label} of {self._running.rpartition('::')[2]}"
            recorder = self._recorders[id(cluster)] = Recorder(cluster, label)
            recorder.start()

    def detach(self, cluster: "Cluster") -> None:
        recorder = self._recorders.pop(id(cluster), None)
        if recorder is not None:
            recorder.stop()
            self._documents.append(recorder.document())

    def keep_topics(
        self, cluster: "Cluster", owner: str, since: "Mark | None", listener: str
    ) -> None:
        """Keeps the topics of a worker's test on the cluster of all workers."""
        if (recorder := self._recorders.get(id(cluster))) is not None:
            recorder.keep_topics(owner, since, listener)

    # -- hooks

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._running = nodeid

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if uses_kafka(item) and (report.when == "call" or not report.passed):
            recorders = self._recorders_of(item)
            for recorder in recorders:
                _add_span(recorder, report)
            vars(report)[_USED] = {
                "clusters": [self._labelled(each.label) for each in recorders],
                "shared": find_shared(item.config) is not None,
                "troubles": [line for each in recorders for line in each.troubles()]
                if report.failed
                else [],
            }
            if report.failed and self._config.pluginmanager.hasplugin("html"):
                _add_link(report, self._href(report.nodeid))
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keeps what the page says of a test, and shows it on the cluster of all workers."""
        used = getattr(report, _USED, None)
        if self._worker is not None or used is None:
            return
        if used["shared"]:
            for recorder in self._recorders.values():
                _add_span(recorder, report)
            used = {**used, "clusters": [SHARED_LABEL]}
        earlier = self._tests.get(report.nodeid)
        if earlier is None or (report.failed and earlier["outcome"] != "failed"):
            self._tests[report.nodeid] = _as_test(report, used, earlier)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Takes what a worker has recorded. Any: xdist may not be installed."""
        text = getattr(node, "workeroutput", {}).get(_OUTPUT)
        if text is None:
            return
        recorded = json.loads(text)
        self._documents += recorded["clusters"]

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
        documents = [{**each, "label": self._labelled(each["label"])} for each in self._documents]
        recorded = {"clusters": documents}
        output: dict[str, Any] = self._config.workeroutput  # type: ignore[attr-defined] # xdist's
        output[_OUTPUT] = json.dumps(recorded)

    def _write(self) -> None:
        from embedkafka.page.document import static_page

        tests = [*self._tests.values()]
        page = static_page({"title": self._headline(), "tests": tests, "clusters": self._documents})
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

    def _href(self, test: str | None = None) -> str:
        """The way from pytest-html's page to this one, or to a test on it."""
        from urllib.parse import quote  # Python 3.13 does not load it for pytest

        other = self._config.getoption("htmlpath", None)
        start = Path(other).absolute().parent if other else self.path.absolute().parent
        place = "" if test is None else f"#test={quote(test)}"
        return quote(os.path.relpath(self.path.absolute(), start).replace(os.sep, "/")) + place

    def _labelled(self, label: str) -> str:
        return label if self._worker is None else f"{label} of {self._worker}"

    def _failed(self) -> list[Any]:
        """Any: JSON."""
        return [test for test in self._tests.values() if test["outcome"] == "failed"]

    def _headline(self) -> str:
        count = len(self._tests)
        tests = "1 test" if count == 1 else f"{count} tests"
        return f"{tests} with Kafka, {len(self._failed())} failed"

    def _markdown(self) -> str:
        lines = ["### Kafka", "", f"{self._headline()}. The report is `{self.path.name}`.", ""]
        for test in self._failed():
            lines.append(f"- `{test['id']}`")
            lines += [f"  - {trouble}" for trouble in test["troubles"]]
        return "\n".join([*lines, ""])


def _as_test(report: pytest.TestReport, used: dict[str, Any], earlier: Any) -> Any:
    """What the page says of a test, also of one whose teardown failed. Any: JSON."""
    start = report.start if earlier is None else earlier["from"] / 1000
    test = {
        "id": report.nodeid,
        "outcome": report.outcome,
        "from": start * 1000,
        "to": report.stop * 1000,
        "clusters": used["clusters"] if earlier is None else earlier["clusters"],
        "troubles": used["troubles"],
    }
    if report.failed:
        crash = getattr(report.longrepr, "reprcrash", None)
        said = report.longreprtext if crash is None else crash.message
        where = "" if report.when == "call" else f"in {report.when}: "
        texts = [("Traceback", report.longreprtext), *report.sections]
        test["message"] = (where + said)[:_MOST_TEXT]
        test["sections"] = [[name, text[-_MOST_TEXT:]] for name, text in texts]
    return test


def _add_link(report: pytest.TestReport, url: str) -> None:
    """Links the test's place on the page, in the form that pytest-html has for it."""
    link = {"name": "Kafka report", "format_type": "url", "content": url}
    extras = [*getattr(report, "extras", []), {**link, "mime_type": None, "extension": None}]
    vars(report)["extras"] = extras


def _add_span(recorder: "Recorder", report: pytest.TestReport) -> None:
    recorder.span(
        "test", report.nodeid, report.start * 1000, report.stop * 1000, status=report.outcome
    )
