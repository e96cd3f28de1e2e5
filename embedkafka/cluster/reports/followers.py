"""`topic.followers()`: how far each follower of a partition is, and what it does.

How far it is, its leader says, from its last fetch. What it does, its own fetcher says.

Owner: none; it only reads.
Not here: why it is not in sync (`explanation`).
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from embedkafka.broker.replica.following.fetcher import FollowState
from embedkafka.broker.replica.partition.partition import Partition
from embedkafka.runtime.ids import BrokerId, TopicPartition
from embedkafka.runtime.values import dataclass

if TYPE_CHECKING:
    from embedkafka.broker.broker import Broker
    from embedkafka.cluster.brokers import Brokers

DELAYED: Final = "delayed"


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowerStatus:
    """A follower of a partition at one moment."""

    broker: int
    """The id of its broker."""
    is_in_sync: bool
    """Whether the leader counts it as in sync."""
    log_end_offset: int | None
    """The offset after its last record; None if it has not fetched from this leader yet."""
    lag: int | None
    """How many of the leader's records it lacks; None as above."""
    caught_up_ms: int | None
    """How long ago it last had all records, in milliseconds of the cluster's clock; 0 if it has all
    now, None if it has not had all since this leader was elected."""
    state: str | None
    """What its fetcher does: "fetching", "truncating", "delayed" after an error, or "failed" until
    the next leader epoch; None if it follows no leader."""

    def __str__(self) -> str:
        in_sync = "in sync" if self.is_in_sync else "out of sync"
        at = "has not fetched" if self.lag is None else f"at {self.log_end_offset}, lag {self.lag}"
        return f"broker {self.broker}  {in_sync}  {at}  {self.state or 'follows no leader'}"


def find_followers(brokers: "Brokers", topic: str, partition: int) -> list[FollowerStatus]:
    """Those of one partition, in the order of its replicas; none while no broker leads it."""
    status = brokers.state.require_partition(topic, partition)
    name = TopicPartition(topic, partition)
    running = {broker.id: broker for broker in brokers.live()}
    if status.leader is None or not brokers.state.is_led(status):
        return []
    leader = running.get(BrokerId(status.leader))
    led = None if leader is None else leader.replicas.hosted.find(name)
    return list(_followers(led, running)) if led is not None and led.is_leader else []


def fetcher_state(broker: "Broker", partition: TopicPartition) -> str | None:
    """What the broker's fetcher does for a partition; None if it follows no leader."""
    fetchers = broker.replicas.fetchers
    state = fetchers.find_state(partition)
    if state is None:
        return None
    is_delayed = state is not FollowState.FAILED and fetchers.is_delayed(partition)
    return DELAYED if is_delayed else state.name.lower()


def _followers(led: Partition, running: "dict[BrokerId, Broker]") -> Iterator[FollowerStatus]:
    view, behind_ms = led.view(), led.behind_ms()
    for replica in view.replicas:
        if replica == view.leader:
            continue
        end = view.follower_end_offsets.get(replica, -1)
        caught_up_ms = 0.0 if end >= view.log_end_offset else behind_ms.get(replica)
        broker = running.get(replica)
        yield FollowerStatus(
            broker=replica,
            is_in_sync=replica in view.isr,
            log_end_offset=end if end >= 0 else None,
            lag=max(0, view.log_end_offset - end) if end >= 0 else None,
            caught_up_ms=None if caught_up_ms is None else int(caught_up_ms),
            state=None if broker is None else fetcher_state(broker, view.topic_partition),
        )
