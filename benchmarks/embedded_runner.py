"""One embedded cluster in a process of its own: says when it is ready, ends when its input does.

Prints two lines of JSON with the rows it measured: imports, start and the address; then the stop.
"""

import json
import sys
import time


def main() -> None:
    brokers = int(sys.argv[1])
    began = time.perf_counter()
    import embedkafka

    imported = time.perf_counter()
    cluster_class = embedkafka.EmbeddedKafka
    loaded = time.perf_counter()
    cluster = cluster_class(brokers=brokers)
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
        sys.stdin.read()
        stopping = time.perf_counter()
    _tell({"stop ms": (time.perf_counter() - stopping) * 1000})


def _tell(facts: dict[str, object]) -> None:
    print(json.dumps(facts), flush=True)


if __name__ == "__main__":
    main()
