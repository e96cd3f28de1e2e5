"""One embedded cluster in a separate process: reports when it is ready, ends with its input.

Each line of output is JSON: first the times of import and start, and the address; then one answer
to every order (`kill 1`, `start 1`); at the end the time of the stop and, without a data directory,
the times of starts and stops in a warm process.
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from embedkafka import EmbeddedKafka

#: Further clusters to start and stop after the measured one.
WARM_LIVES: Final = 5


def main() -> None:
    options = _options()
    began = time.perf_counter()
    import embedkafka

    imported = time.perf_counter()
    cluster_class = embedkafka.EmbeddedKafka
    loaded = time.perf_counter()
    cluster = cluster_class(
        brokers=options.brokers, data_dir=options.data_dir, config=dict(options.config)
    )
    with cluster:
        ready = time.perf_counter()
        _tell(
            {
                "import embedkafka ms": (imported - began) * 1000,
                "first use of EmbeddedKafka ms": (loaded - imported) * 1000,
                "start ms": (ready - loaded) * 1000,
                "bootstrap_servers": cluster.bootstrap_servers,
            }
        )
        _obey(cluster)
        stopping = time.perf_counter()
    stop_ms = (time.perf_counter() - stopping) * 1000
    warm = _measure_warm_lives(options.brokers) if options.data_dir is None else {}
    _tell({"stop ms": stop_ms, **warm})


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.embedded_runner")
    parser.add_argument("--brokers", type=int, default=1)
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--config", action="append", default=[], type=_setting)
    return parser.parse_args()


def _setting(text: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    return name, value


def _obey(cluster: "EmbeddedKafka") -> None:
    """Carries out the orders on standard input until it ends."""
    for line in sys.stdin:
        order, broker_id = line.split()
        broker = cluster.broker(int(broker_id))
        broker.kill() if order == "kill" else broker.start()
        running = [each.address for each in cluster.brokers if each.is_running]
        _tell({"bootstrap_servers": ",".join(running)})


def _measure_warm_lives(brokers: int) -> dict[str, float]:
    """Median times of start and stop in a test session that starts cluster after cluster."""
    from embedkafka import EmbeddedKafka

    starts, stops = [], []
    for _ in range(WARM_LIVES):
        cluster = EmbeddedKafka(brokers=brokers)
        began = time.perf_counter()
        cluster.start()
        ready = time.perf_counter()
        cluster.close()
        starts.append((ready - began) * 1000)
        stops.append((time.perf_counter() - ready) * 1000)
    return {
        "start in a warm process ms": statistics.median(starts),
        "stop in a warm process ms": statistics.median(stops),
    }


def _tell(facts: Mapping[str, object]) -> None:
    print(json.dumps(facts), flush=True)


if __name__ == "__main__":
    main()
