"""`--kafka-report`: a page of the run, linked from where people look."""

import html
import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest


def data_of(page: Path) -> Any:
    found = re.search(r'id="data">(.*?)</script>', page.read_text(), re.DOTALL)
    assert found is not None
    return json.loads(found[1])


def test_a_run_writes_one_page_and_says_where(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makepyfile(
        """
        def test_right(kafka):
            kafka.topic("orders").send_json({"id": 1}, key="k")

        def test_wrong(kafka, kafka_cluster):
            other = kafka_cluster(brokers=1)
            other.topic("alone")
            other.broker(1).kill()
            assert False

        def test_without_kafka():
            pass
        """
    )
    summary = pytester.path / "summary.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    result = pytester.runpytest_subprocess("--kafka-brokers=1", "--kafka-report=out/report.html")
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(["embedkafka: the Kafka report of this run is *out/report.html"])
    data = data_of(pytester.path / "out" / "report.html")
    assert data["title"] == "2 tests with Kafka, 1 failed"
    by_label = {cluster["label"]: cluster for cluster in data["clusters"]}
    assert set(by_label) == {"kafka", "kafka_cluster(brokers=1) of test_wrong"}
    spans = [span for span in by_label["kafka"]["timeline"]["spans"] if span["lane"] == "test"]
    assert [span["status"] for span in spans] == ["passed", "failed"]
    (orders,) = by_label["kafka"]["state"]["topics"]
    assert (orders["name"], orders["owner"].rpartition("::")[2]) == ("orders", "test_right")
    assert orders["records"][0]["value"]["text"] == '{"id": 1}'
    right, wrong = data["tests"]
    assert (right["id"].rpartition("::")[2], right["outcome"]) == ("test_right", "passed")
    assert (wrong["outcome"], wrong["message"]) == ("failed", "assert False")
    assert wrong["clusters"] == ["kafka", "kafka_cluster(brokers=1) of test_wrong"]
    assert {"Traceback", "Kafka cluster kafka"} <= {name for name, _ in wrong["sections"]}
    said = summary.read_text()
    assert "2 tests with Kafka, 1 failed. The report is `report.html`." in said
    assert "  - no leader: alone-0 (" in said


def test_each_cluster_is_named_by_what_asked_for_it(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.fixture(scope="module")
        def other(kafka_cluster_factory):
            return kafka_cluster_factory(seed=7)

        def test_plain(kafka, other): pass

        @pytest.mark.kafka(brokers=2, racks=["a", "b"])
        def test_shaped(kafka): pass
        """
    )
    result = pytester.runpytest_subprocess("--kafka-brokers=1", "--kafka-report=report.html")
    result.assert_outcomes(passed=2)
    data = data_of(pytester.path / "report.html")
    shaped, factory = "kafka(brokers=2, racks=['a', 'b'])", "kafka_cluster_factory(seed=7)"
    assert {cluster["label"] for cluster in data["clusters"]} == {
        *("kafka", shaped, f"{factory} of test_plain"),
    }
    assert data["tests"][1]["clusters"] == [shaped]


def test_a_test_whose_teardown_fails_has_failed(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.fixture
        def leaving(kafka):
            yield
            raise ValueError("left")

        def test_it(leaving):
            pass
        """
    )
    result = pytester.runpytest_inprocess("--kafka-brokers=1", "--kafka-report=report.html")
    result.assert_outcomes(passed=1, errors=1)
    data = data_of(pytester.path / "report.html")
    assert data["title"] == "1 test with Kafka, 1 failed"
    (failed,) = data["tests"]
    assert failed["message"] == "in teardown: ValueError: left"
    assert failed["clusters"] == ["kafka"]


def test_a_page_that_is_missing_is_explained(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_with(kafka): pass\ndef test_without(): pass")
    report = "--kafka-report=test_a_page_that_is_missing_is_explained.py/report.html"
    result = pytester.runpytest_inprocess("--kafka-brokers=1", report)
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["embedkafka: the Kafka report could not be written: *"])
    result = pytester.runpytest_inprocess(report, "-k", "without")
    result.stdout.fnmatch_lines(["embedkafka: there is no Kafka report: no test used a cluster *"])


IN_WORKERS = """
import pytest

@pytest.mark.parametrize("number", range(4))
def test_right(kafka, number):
    kafka.topic(f"orders{number}").send("x")

def test_wrong(kafka):
    assert False

def test_without_kafka():
    pass
"""


@pytest.mark.parametrize("mode", ["own", "shared"])
def test_all_workers_are_on_one_page(pytester: pytest.Pytester, mode: str) -> None:
    pytester.makepyfile(IN_WORKERS)
    result = pytester.runpytest_subprocess(
        "-n2", "--kafka-brokers=1", "--kafka-report=report.html", f"--kafka-xdist={mode}"
    )
    result.assert_outcomes(passed=5, failed=1)
    assert [path.name for path in pytester.path.glob("*.html")] == ["report.html"]
    result.stdout.fnmatch_lines(["embedkafka: the Kafka report of this run is *report.html"])
    data = data_of(pytester.path / "report.html")
    assert data["title"] == "5 tests with Kafka, 1 failed"
    labels = {cluster["label"] for cluster in data["clusters"]}
    of_workers = {"kafka of gw0", "kafka of gw1"}
    assert labels <= of_workers if mode == "own" else labels == {"kafka of all workers"}
    spans = [
        (span["text"].rpartition("::")[2], span["status"])
        for cluster in data["clusters"]
        for span in cluster["timeline"]["spans"]
        if span["lane"] == "test"
    ]
    expected = [*((f"test_right[{n}]", "passed") for n in range(4)), ("test_wrong", "failed")]
    assert sorted(spans) == expected
    outcomes = [(test["id"].rpartition("::")[2], test["outcome"]) for test in data["tests"]]
    assert sorted(outcomes) == expected
    assert {label for test in data["tests"] for label in test["clusters"]} == labels
    topics = {
        topic["name"].partition("-")[0]: (topic["owner"].rpartition("::")[2], topic["records"])
        for cluster in data["clusters"]
        for topic in cluster["state"]["topics"]
    }
    for number in range(4):
        owner, records = topics[f"orders{number}"]
        assert owner == f"test_right[{number}]"
        assert [record["value"]["text"] for record in records] == ["x"]


def test_pytest_html_links_the_page(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTEST_ADDOPTS")  # loads pytest-html
    pytester.makepyfile(
        """
        def test_right(kafka): kafka.topic('orders').send('x')
        def test_wrong(kafka): assert False
        """
    )
    result = pytester.runpytest_subprocess(
        "--kafka-brokers=1", "--kafka-report=kafka/the report.html", "--html=out/index.html"
    )
    result.assert_outcomes(passed=1, failed=1)
    overview = pytester.path / "out" / "index.html"
    (link,) = re.findall(r'<a href="([^"]*)">Kafka report</a>', overview.read_text())
    assert data_of(overview.parent / unquote(link))["title"] == "2 tests with Kafka, 1 failed"
    (place,) = re.findall(
        r'href="([^"#]*#test=[^"]*)"', html.unescape(overview.read_text()).replace("\\", "")
    )
    page, _, test = place.partition("#test=")
    assert page == link
    assert unquote(test) == "test_pytest_html_links_the_page.py::test_wrong"
