"""`--kafka-report`: a page of the run, linked from where people look."""

import json
import re
from pathlib import Path
from typing import Any

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
    result = pytester.runpytest_subprocess(
        "-p", "no:cacheprovider", "--kafka-brokers=1", "--kafka-report=out/report.html"
    )
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(["embedkafka: the Kafka report of this run is *out/report.html"])
    data = data_of(pytester.path / "out" / "report.html")
    assert data["title"] == "2 tests with Kafka, 1 failed"
    by_label = {cluster["label"]: cluster for cluster in data["clusters"]}
    assert set(by_label) == {"kafka", "kafka_cluster(brokers=1)"}
    spans = [span for span in by_label["kafka"]["timeline"]["spans"] if span["lane"] == "test"]
    assert [span["status"] for span in spans] == ["passed", "failed"]
    (orders,) = by_label["kafka"]["state"]["topics"]
    assert (orders["name"], orders["owner"].rpartition("::")[2]) == ("orders", "test_right")
    assert orders["records"][0]["value"]["text"] == '{"id": 1}'
    said = summary.read_text()
    assert "2 tests with Kafka, 1 failed. The report is `report.html`." in said
    assert "  - no leader: alone-0 (" in said


def test_workers_write_pages_of_their_own(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_right(kafka): kafka.topic()")
    result = pytester.runpytest_subprocess(
        "-n", "1", "--kafka-brokers=1", "--kafka-report=report.html"
    )
    result.assert_outcomes(passed=1)
    assert (pytester.path / "report-gw0.html").exists()
    assert not (pytester.path / "report.html").exists()
