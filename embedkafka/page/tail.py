"""The records of one topic as they come, for a live page.

Owner: its thread owns the consumer; the deque may be read by any thread.
Invariants: joins no group, and ends by itself when no page has asked for a while.
"""

import threading
from collections import deque
from typing import Any, Final

from embedkafka.cluster.clients.client_view import ClientView
from embedkafka.cluster.clients.clients import READER
from embedkafka.cluster.clients.decoding import Decode
from embedkafka.page.records import shown_record
from embedkafka.runtime.clock import REAL_TIME
from embedkafka.runtime.failures import EmbedKafkaError, Failures
from embedkafka.runtime.ids import TopicPartition
from embedkafka.runtime.threads import end_thread, start_thread

_KEPT: Final = 500
_BACK: Final = 200  # records of each partition, at first
_POLL_S: Final = 0.2
_IDLE_S: Final = 20.0


class Tail:
    """Follows one topic from a little before its end."""

    def __init__(self, view: ClientView, topic: str) -> None:
        self.topic = topic
        self._view = view
        self._records: deque[Any] = deque(maxlen=_KEPT)  # Any: confluent-kafka has no types
        self._ending = threading.Event()
        self._asked_ms = REAL_TIME.monotonic_ms()
        self._failures = Failures()
        self.error: str | None = None
        self._thread = start_thread("ek-page-tail", self._follow, self._failures)

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def records(self, decode: Decode | None) -> list[dict[str, Any]]:
        """What came so far, oldest first. Any: JSON."""
        self._asked_ms = REAL_TIME.monotonic_ms()
        return [
            shown_record(
                partition=each.partition(),
                offset=each.offset(),
                timestamp_ms=each.timestamp()[1],
                key=each.key(),
                value=each.value(),
                headers=each.headers() or (),
                decode=decode,
            )
            for each in self._records.copy()
        ]

    def end(self) -> None:
        """Lets the thread end in its own time."""
        self._ending.set()

    def stop(self) -> None:
        """Ends, and waits for it."""
        self.end()
        end_thread(self._thread, self._failures)

    def _follow(self) -> None:
        from confluent_kafka import Consumer, KafkaException
        from confluent_kafka import TopicPartition as Position

        consumer: Any = Consumer(
            {
                **self._view.client_config,
                "client.id": READER,
                "group.id": "embedkafka-page",  # required by the client, never joined
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "allow.auto.create.topics": False,
                "fetch.wait.max.ms": 100,
            }
        )
        try:
            partitions = self._view.statuses(self.topic)
            ends = self._view.ends(
                TopicPartition(self.topic, each.partition) for each in partitions
            )
            consumer.assign([Position(*each, max(0, end - _BACK)) for each, end in ends.items()])
            while not self._ending.is_set() and not self._is_idle():
                for message in consumer.consume(num_messages=_KEPT, timeout=_POLL_S):
                    if not message.error():
                        self._records.append(message)
        except (KafkaException, EmbedKafkaError, ValueError) as error:
            self.error = str(error)  # shown on the page, and the next request tries again
        finally:
            consumer.close()

    def _is_idle(self) -> bool:
        return REAL_TIME.monotonic_ms() - self._asked_ms > _IDLE_S * 1000
