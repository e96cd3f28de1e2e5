"""Rows of all clusters as a table for people and as JSON for later comparison."""

import json
import os
import platform
import statistics
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from benchmarks.workloads import Row

RESULTS: Final = Path(__file__).parent / "results"


class Report:
    """Collects rows by cluster, in the order in which they first appear."""

    def __init__(self, columns: Sequence[str]) -> None:
        self._columns = columns
        self._values: dict[str, dict[str, list[float]]] = {}
        self._more_is_better: dict[str, bool] = {}

    def add(self, column: str, row: Row) -> None:
        self._values.setdefault(row.name, {}).setdefault(column, []).append(row.value)
        self._more_is_better[row.name] = row.more_is_better

    def add_facts(self, column: str, facts: Mapping[str, float]) -> None:
        for name, value in facts.items():
            self.add(column, Row(name=name, value=value))

    def table(self, *, ours: str) -> str:
        """Medians per cluster, and how many times better ours is than each (below 1: worse)."""
        rivals = [column for column in self._columns if column != ours]
        heads = ["", *self._columns, *(f"vs {rival}" for rival in rivals)]
        lines = [heads]
        for name in self._values:
            medians = self.medians(name)
            cells = [_number(medians.get(column)) for column in self._columns]
            ratios = [_ratio(self._advantage(name, medians, ours, rival)) for rival in rivals]
            lines.append([name, *cells, *ratios])
        widths = [max(len(line[i]) for line in lines) for i in range(len(heads))]
        return "\n".join(
            "  ".join(
                cell.ljust(width) if i == 0 else cell.rjust(width)
                for i, (cell, width) in enumerate(zip(line, widths, strict=True))
            )
            for line in lines
        )

    def medians(self, name: str) -> dict[str, float]:
        return {column: statistics.median(seen) for column, seen in self._values[name].items()}

    def write(self, settings: Mapping[str, object]) -> Path:
        """Every single value, with what is needed to read it later."""
        RESULTS.mkdir(parents=True, exist_ok=True)
        path = RESULTS / time.strftime("%Y%m%d-%H%M%S.json")
        document = {
            "settings": dict(settings),
            "python": platform.python_version(),
            "cores": os.cpu_count(),
            "load": os.getloadavg(),
            "rows": self._values,
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


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def _ratio(value: float | None) -> str:
    return "-" if value is None else f"{value:.2g}x" if value < 100 else f"{value:.0f}x"
