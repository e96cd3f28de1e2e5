"""What the author's producers have not sent when a driver dies.

They are in this process. A producer has a thread, which sends a few milliseconds after `produce`. A
dead driver has no threads, so what its producers held is gone. While a schedule is to lose it, the
brokers break off what such producers send; then it is taken out of their queues.

Not here: whether a function waits for its producers (`batch_functions`).
"""

import gc
from typing import Any, Final

CLIENT_ID: Final = "rdkafka"
"""Of producers that have no other: the library's own have."""
_FLUSH_S: Final = 30.0


def flush_producers() -> None:
    """Sends what is left, as those of a driver that lives do."""
    for producer in _producers():
        producer.flush(_FLUSH_S)


def purge_producers() -> bool:
    """Drops what is left; whether there was anything."""
    found = _producers()
    for producer in found:
        producer.purge(in_queue=True, in_flight=True, blocking=True)
        producer.flush(0)
    return bool(found)


def _producers() -> list[Any]:
    """Those that have something left. Any: confluent_kafka has no types."""
    from confluent_kafka import Producer

    return [each for each in gc.get_objects() if isinstance(each, Producer) and len(each)]
