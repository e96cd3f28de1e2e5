"""The rows of all clusters, as a table for people and as JSON for later comparison."""

import json
import os
import platform
import statistics
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from benchmarks.rows import Row

RESULTS: Final = Path(__file__).parent / "results"
_NOTHING: Final = "-"


class Report:
    """Collects rows by theme, name and cluster, in order of first appearance."""

    def __init__(self) -> None:
        self._values: dict[str, dict[str, dict[str, list[float]]]] = {}
        self._more_is_better: dict[str, bool] = {}
        self._clusters: list[str] = []
        self.failures: list[str] = []

    def add(self, theme: str, cluster: str, row: Row) -> None:
        rows = self._values.setdefault(theme, {})
        rows.setdefault(row.name, {}).setdefault(cluster, []).append(row.value)
        self._more_is_better[row.name] = row.more_is_better
        if cluster not in self._clusters:
            self._clusters.append(cluster)

    def add_facts(self, theme: str, cluster: str, facts: Mapping[str, float]) -> None:
        for name, value in facts.items():
            self.add(theme, cluster, Row(name=name, value=value))

    def add_failure(self, theme: str, what: str, cluster: str, error: Exception) -> None:
        self.failures.append(f"{theme}: {what}: {cluster}: {error!r}")

    def table(self, *, ours: str) -> str:
        """Medians per cluster, and how many times better ours is than each (below 1: worse)."""
        rivals = [cluster for cluster in self._clusters if cluster != ours]
        lines = [["", *self._clusters, *(f"vs {rival}" for rival in rivals)]]
        for theme, rows in self._values.items():
            lines.append([theme.upper(), *("" for _ in lines[0][1:])])
            for name, values in rows.items():
                medians = {cluster: statistics.median(seen) for cluster, seen in values.items()}
                cells = [_number(medians.get(cluster)) for cluster in self._clusters]
                ratios = [_ratio(self._advantage(name, medians, ours, rival)) for rival in rivals]
                lines.append([name, *cells, *ratios])
        failures = [f"FAILED {failure}" for failure in self.failures]
        return "\n".join([*_aligned(lines), *failures])

    def write(self, settings: Mapping[str, object]) -> Path:
        """Writes every single value, with the facts needed to read it later."""
        RESULTS.mkdir(parents=True, exist_ok=True)
        path = RESULTS / time.strftime("%Y%m%d-%H%M%S.json")
        document = {
            "settings": dict(settings),
            "python": platform.python_version(),
            "cores": os.cpu_count(),
            "load": os.getloadavg(),
            "rows": self._values,
            "failures": self.failures,
        }
        path.write_text(json.dumps(document, indent=1))
        return path

    def _advantage(
        self, name: str, medians: Mapping[str, float], ours: str, rival: str
    ) -> float | None:
        mine, theirs = medians.get(ours), medians.get(rival)
        if mine is None or theirs is None:
            return None
        better, worse = (mine, theirs) if self._more_is_better[name] else (theirs, mine)
        return better / worse if worse else None


def _aligned(lines: list[list[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if number else cell.ljust(width)
            for number, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]


def _number(value: float | None) -> str:
    if value is None:
        return _NOTHING
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def _ratio(value: float | None) -> str:
    return _NOTHING if value is None else f"{value:.2g}x" if value < 100 else f"{value:.0f}x"
