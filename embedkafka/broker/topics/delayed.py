"""Requests that wait for this broker's metadata to show their effect."""

from collections.abc import Callable, Collection, Iterator

from embedkafka.broker.metadata_cache import MetadataCache, MetadataSnapshot
from embedkafka.runtime.purgatory.operation import Awaited, DelayedOperation


class DelayedTopics(DelayedOperation):
    """Waits until `is_done(snapshot, topic)` for every topic; `reply` gets the unfinished ones."""

    def __init__(
        self,
        *,
        timeout_ms: int,
        topics: Collection[str],
        metadata: MetadataCache,
        what: str,
        is_done: Callable[[MetadataSnapshot, str], bool],
        reply: Callable[[frozenset[str]], None],
    ) -> None:
        super().__init__(timeout_ms)
        self._topics = topics
        self._metadata = metadata
        self.what = what
        """What it waits for, in words."""
        self._is_done = is_done
        self._reply = reply

    def try_complete(self) -> bool:
        return not self._unfinished()

    def on_complete(self) -> None:
        self._reply(self._unfinished())

    def awaited(self) -> Iterator[Awaited]:
        for topic in sorted(self._unfinished()):
            yield Awaited(topic, None, self.what)

    def find_answer(self) -> object:
        return self._reply

    def _unfinished(self) -> frozenset[str]:
        snapshot = self._metadata.snapshot
        return frozenset(topic for topic in self._topics if not self._is_done(snapshot, topic))
