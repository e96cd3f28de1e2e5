"""The interface of every cluster under measurement, and its costs."""

import os
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, Protocol, Self

import psutil

#: How long a process may take to end.
STOP_TIMEOUT_SECONDS: Final = 60


class Rival(Protocol):
    """A cluster in separate processes; entering starts it, leaving ends it and removes its data.

    Brokers are numbered from 1.
    """

    name: str

    @property
    def bootstrap_servers(self) -> str: ...
    @property
    def listeners(self) -> Mapping[str, str]:
        """The addresses of further listeners, by name."""

    @property
    def pids(self) -> list[int]:
        """The processes that run its brokers at present."""

    @property
    def facts(self) -> dict[str, float]:
        """Values that start and stop provide: row name to value."""

    @property
    def log_dir(self) -> Path:
        """The directory with the partitions of broker 1."""

    def stop(self) -> None:
        """Shuts down in order and keeps the data."""

    def crash(self) -> None:
        """Ends abruptly and leaves the data as it is."""

    def restart(self) -> None:
        """Starts again on its data; returns when all brokers know each other."""

    def kill_broker(self, broker_id: int) -> None: ...
    def start_broker(self, broker_id: int) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


class Meter:
    """Measures wall-clock time and the brokers' CPU time during a `with` block."""

    def __init__(self, rival: Rival) -> None:
        self._rival = rival
        self.seconds = 0.0
        self.cpu_seconds = 0.0

    def __enter__(self) -> Self:
        self._cpu_before = cpu_seconds(self._rival)
        self._began = time.perf_counter()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.seconds = time.perf_counter() - self._began
        self.cpu_seconds = cpu_seconds(self._rival) - self._cpu_before

    @property
    def ms(self) -> float:
        return self.seconds * 1000


def user_environment() -> dict[str, str]:
    """Python's usual environment: modules are compiled once, not at every start."""
    environment = dict(os.environ)
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    return environment


def cpu_seconds(rival: Rival) -> float:
    """User and system time of all processes of a cluster since they started."""
    times = [psutil.Process(pid).cpu_times() for pid in rival.pids]
    return float(sum(each.user + each.system for each in times))


def memory_mib(rival: Rival) -> float:
    return float(sum(psutil.Process(pid).memory_info().rss for pid in rival.pids)) / 2**20


def threads(rival: Rival) -> int:
    return sum(psutil.Process(pid).num_threads() for pid in rival.pids)
