"""Prints the score of the corpus at the end of a run."""

from typing import Any

import pytest


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    scores: dict[str, list[str]] = {}
    for reports in terminalreporter.stats.values():
        for pair, score in (score for report in reports for score in scores_in(report)):
            scores.setdefault(pair, []).append(score)
    if scores:
        terminalreporter.section("corpus of explore: schedules of seeds")
        for pair, said in scores.items():
            terminalreporter.line(f"{pair:<24}{', '.join(said)}")


def scores_in(report: Any) -> list[Any]:
    """What a test has noted. Any: pytest has several kinds of reports."""
    if getattr(report, "when", None) != "call":
        return []
    return [score for name, score in report.user_properties if name == "corpus"]
