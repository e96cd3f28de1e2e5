"""Runs themes: starts clusters, alternates between them, and continues after failures."""

import contextlib
import sys
import time
from collections.abc import Iterator, Sequence

from benchmarks.report import Report
from benchmarks.rivals.rival import Rival
from benchmarks.rows import Scale, Workload
from benchmarks.themes import Theme


class Run:
    """One run of the benchmarks, which reports its progress on standard error."""

    def __init__(
        self,
        report: Report,
        *,
        scale: Scale,
        brokers: int,
        rounds: int,
        only: Sequence[str] | None,
        match: str,
    ) -> None:
        self._report = report
        self._scale = scale
        self._brokers = brokers
        self._rounds = rounds
        self._only = only
        self._match = match
        self._began = time.monotonic()

    def measure(self, theme: Theme) -> None:
        rivals = [
            theme.make(cluster, brokers=self._brokers) for cluster in self._only or theme.clusters
        ]
        if theme.fresh:
            self._measure_fresh(theme, rivals)
        else:
            self._measure_standing(theme, rivals)

    def _measure_standing(self, theme: Theme, rivals: Sequence[Rival]) -> None:
        """Keeps all clusters running, each idle while another is measured."""
        with contextlib.ExitStack() as stack:
            running = []
            for rival in rivals:
                with self._survive(theme, "start", rival):
                    stack.enter_context(rival)
                    running.append(rival)
                    self._work(theme, theme.first, rival)
            for number in range(self._rounds):
                for workload in self._wanted(theme.repeated):
                    for rival in running:
                        self._work(theme, (workload,), rival, number)
            for rival in running:
                self._work(theme, theme.last, rival)
                with self._survive(theme, "stop", rival):
                    rival.stop()
                self._report.add_facts(theme.name, rival.name, rival.facts)

    def _measure_fresh(self, theme: Theme, rivals: Sequence[Rival]) -> None:
        for number in range(self._rounds):
            for workload in self._wanted(theme.repeated):
                for rival in rivals:
                    with self._survive(theme, "start", rival), rival:
                        self._work(theme, (workload,), rival, number)

    def _wanted(self, workloads: Sequence[Workload]) -> list[Workload]:
        return [workload for workload in workloads if self._match in workload.name]

    def _work(
        self, theme: Theme, workloads: Sequence[Workload], rival: Rival, number: int = 0
    ) -> None:
        for workload in self._wanted(workloads):
            with self._survive(theme, workload.name, rival, number):
                for row in workload.run(rival, self._scale):
                    self._report.add(theme.name, rival.name, row)

    @contextlib.contextmanager
    def _survive(self, theme: Theme, what: str, rival: Rival, number: int = 0) -> Iterator[None]:
        """Reports a step, and records its failure instead of raising it."""
        turn = f" (round {number + 1} of {self._rounds})" if self._rounds > 1 else ""
        self._say(f"{theme.name}: {what}: {rival.name}{turn}")
        try:
            yield
        except Exception as error:
            self._report.add_failure(theme.name, what, rival.name, error)
            self._say(f"FAILED {theme.name}: {what}: {rival.name}: {error!r}")

    def _say(self, progress: str) -> None:
        elapsed = time.monotonic() - self._began
        print(f"{elapsed:6.1f} s  {progress}", file=sys.stderr, flush=True)
