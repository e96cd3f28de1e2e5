"""Apache Kafka, from Maven, with one process per broker.

It runs twice: with the flags and settings it ships with, and with those a test author would choose
for short runs.
"""

import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from benchmarks.rivals.rival import cpu_seconds
from tests.java_tools.oracle import ApacheKafka, Jvm

#: Without these, a first consumer group takes seconds, and so does a member's assignment.
TUNED_CONFIG: Final[Mapping[str, object]] = {
    "group.initial.rebalance.delay.ms": 0,
    "group.consumer.heartbeat.interval.ms": 100,
    "group.consumer.min.heartbeat.interval.ms": 100,
    "offsets.topic.num.partitions": 1,
}


class ApacheRival:
    """A KRaft cluster of combined nodes."""

    def __init__(
        self,
        jvm: Jvm,
        *,
        brokers: int,
        config: Mapping[str, object],
        parent: Path | None,
        ports: Mapping[str, int],
    ) -> None:
        self.name = f"kafka {jvm}"
        tuning = TUNED_CONFIG if jvm == "tuned" else {}
        self._kafka = ApacheKafka(
            brokers=brokers,
            jvm=jvm,
            config={**tuning, **config},
            parent=parent,
            more_listeners=ports,
        )
        self.listeners = {name: f"127.0.0.1:{port}" for name, port in ports.items()}
        self._facts: dict[str, float] = {}

    def __enter__(self) -> Self:
        self._kafka.__enter__()
        start_ms = self._kafka.start_seconds * 1000
        self._facts["process start to ready ms"] = start_ms
        self._facts["process start to ready CPU s"] = cpu_seconds(self)
        self._facts["start ms"] = start_ms
        self._facts["start in a warm process ms"] = start_ms  # a start is always a new process
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._kafka.kill()

    @property
    def bootstrap_servers(self) -> str:
        return self._kafka.bootstrap_servers

    @property
    def pids(self) -> list[int]:
        return self._kafka.pids

    @property
    def facts(self) -> dict[str, float]:
        return self._facts

    @property
    def log_dir(self) -> Path:
        return self._kafka.log_dir(1)

    def stop(self) -> None:
        began = time.perf_counter()
        self._kafka.stop()
        stop_ms = (time.perf_counter() - began) * 1000
        self._facts["stop ms"] = stop_ms
        self._facts["stop in a warm process ms"] = stop_ms

    def crash(self) -> None:
        self._kafka.crash()

    def restart(self) -> None:
        self._kafka.restart()

    def kill_broker(self, broker_id: int) -> None:
        self._kafka.kill_broker(broker_id)

    def start_broker(self, broker_id: int) -> None:
        self._kafka.start_broker(broker_id)
