"""Waits for what other clients do: join a group, work off its lag, write records.

It sees what any client can see, so it serves embedded and external clusters alike. A record in the
topic that keeps the state (`__consumer_offsets` for groups) makes it look again.

Owner: the caller's thread; each wait has its own clients.
Invariants: no change is missed, because the watch begins before the first look. A rebalance that is
only in the coordinator's memory writes no record; for its sake it also looks twice a second.
Not here: looking once (`client_view`), the state of brokers and partitions (`waiting`).
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from embedkafka.cluster.clients.client_view import STATES, ClientView
from embedkafka.cluster.clients.query_watching import watch_queries
from embedkafka.runtime.arguments import require_int, require_known, require_number, require_text
from embedkafka.runtime.clock import REAL_TIME
from embedkafka.runtime.failures import AwaitTimeout, InvalidArgument
from embedkafka.runtime.ids import TopicPartition
from embedkafka.runtime.patience import patient

if TYPE_CHECKING:
    from embedkafka.spark.failed_queries import QueryWatch

_OFFSETS_TOPIC: Final = "__consumer_offsets"
_LOOK_AGAIN_S: Final = 0.5


class ClientWaits:
    """The waits on one cluster. Any: confluent-kafka has no types, and is imported late."""

    def __init__(self, view: ClientView) -> None:
        self._view = view

    def await_group(
        self, group: str, *, members: int | None, state: str | None, timeout_s: float
    ) -> None:
        """Waits until the group has that state, `Stable` by default, and so many members."""
        require_text("group", group)
        if members is not None:
            require_int("members", members, least=0)
        if state is not None:
            require_known("state of a group", state, STATES)
        elif members != 0:
            state = "Stable"
        said = " with ".join(
            part
            for part in (state, None if members is None else f"{members} members")
            if part is not None
        )

        def probe() -> str | None:
            now, count = self._view.state_of(group)
            if state in (None, now) and members in (None, count):
                return None
            return f"{now} with {count} members"

        self._await(f"group {group} to be {said}", probe, _OFFSETS_TOPIC, timeout_s)

    def await_lag(self, group: str, lag: int, *, topic: str | None, timeout_s: float) -> None:
        """Waits until the group is at most `lag` records behind, over all its partitions."""
        require_text("group", group)
        require_int("lag", lag, least=0)
        if topic is not None:
            require_text("topic", topic)

        def probe() -> str | None:
            committed = self._view.committed(group)
            wanted = self._view.partitions(topic) if topic is not None else set(committed)
            if not wanted:
                return "no committed offsets" if topic is None else f"no topic {topic}"
            return find_lag(self._view.ends(wanted), committed, lag)

        self._await(f"group {group} to be at most {lag} behind", probe, _OFFSETS_TOPIC, timeout_s)

    def await_offsets(
        self, topic: str, offsets: int | Mapping[int, int], *, timeout_s: float
    ) -> None:
        """Waits until the topic's partitions end at these offsets or later."""
        require_text("topic", topic)
        wanted = _require_offsets(topic, offsets)

        def probe() -> str | None:
            ends = self._view.ends(self._view.partitions(topic))
            behind = find_behind(ends, wanted)
            return None if behind is None else f"{behind} of {topic}"

        what = f"the end of {topic} to be {offsets}"
        self._await(what, probe, topic, timeout_s, writers=watch_queries(topic))

    # -- waiting

    def _await(
        self,
        what: str,
        probe: Callable[[], str | None],
        topic: str,
        timeout_s: float,
        *,
        writers: "QueryWatch | None" = None,
    ) -> None:
        from confluent_kafka import Consumer, KafkaException

        timeout_s = patient(require_number("timeout_s", timeout_s))
        deadline_ms = REAL_TIME.monotonic_ms() + timeout_s * 1000
        settings = {
            **self._view.client_config,
            "group.id": "embedkafka-await",
            "fetch.wait.max.ms": 100,
        }
        watch: Any = Consumer({**settings, "enable.auto.commit": False})
        is_watching = False
        try:
            while True:
                # Looked for before the probe: a query may have written before it failed.
                failed = None if writers is None else writers.find_failed()
                try:
                    is_watching = is_watching or self._watch(watch, topic)
                    last_seen = probe()
                except KafkaException as error:  # a coordinator that moves, a leader that is gone
                    last_seen = str(error)
                if last_seen is None:
                    return
                if failed is not None:
                    raise failed.error(f"{what}; last seen: {last_seen}")
                left_s = (deadline_ms - REAL_TIME.monotonic_ms()) / 1000
                if left_s <= 0:
                    raise AwaitTimeout(f"waited {timeout_s:g} s for {what}; last seen: {last_seen}")
                watch.poll(min(left_s, _LOOK_AGAIN_S))
                watch.consume(num_messages=1000, timeout=0)  # one look is enough for all of them
        finally:
            watch.close()

    def _watch(self, watch: Any, topic: str) -> bool:
        """Makes the consumer wait for new records of the topic; False if there is no such topic."""
        from confluent_kafka import TopicPartition as Position

        ends = self._view.ends(self._view.partitions(topic))
        watch.assign([Position(*partition, end) for partition, end in ends.items()])
        return bool(ends)


def find_lag(
    ends: Mapping[TopicPartition, int], committed: Mapping[TopicPartition, int], most: int
) -> str | None:
    """Says how far each partition is behind, if all of them together are more than `most`."""
    lags = {each: max(0, end - committed.get(each, 0)) for each, end in ends.items()}
    if sum(lags.values()) <= most:
        return None
    behind = [f"{each} {lag}" for each, lag in sorted(lags.items()) if lag]
    return f"{sum(lags.values())} behind: {', '.join(behind)}"


def find_behind(ends: Mapping[TopicPartition, int], wanted: int | Mapping[int, int]) -> str | None:
    """Says where the ends are, if they are not as far as wanted."""
    by_partition = {each.partition: end for each, end in ends.items()}
    if isinstance(wanted, int):
        is_reached = sum(by_partition.values()) >= wanted
    else:
        is_reached = all(by_partition.get(each, -1) >= end for each, end in wanted.items())
    return None if is_reached else f"ends {dict(sorted(by_partition.items()))}"


def _require_offsets(topic: str, offsets: object) -> int | dict[int, int]:
    if not isinstance(offsets, Mapping):
        return require_int("offsets", offsets, least=0)
    if not offsets:
        raise InvalidArgument(f"offsets must name a partition of {topic}, such as {{0: 5}}")
    return {
        require_int("a partition", partition, least=0): require_int("an offset", offset, least=0)
        for partition, offset in offsets.items()
    }
