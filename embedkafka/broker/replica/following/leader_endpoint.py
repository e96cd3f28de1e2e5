"""How a follower reaches a leader, in the process or over the wire, behind one interface."""

from collections.abc import Callable, Sequence
from typing import Protocol

from embedkafka.broker.replica.fetch import EpochEnd, PartitionData, PartitionFetch
from embedkafka.runtime.ids import BrokerId, TopicPartition
from embedkafka.runtime.values import dataclass


class LeaderUnavailable(Exception):
    """The leader's broker is unreachable; try again later."""


class LeaderEndPoint(Protocol):
    """One leader's broker, for one follower. Any call may raise `LeaderUnavailable`."""

    @property
    def wakes(self) -> bool:
        """True: `fetch` returns at once, and the endpoint reports news. False: `fetch` waits at the
        leader for news."""
        ...

    def fetch(self, partitions: Sequence[PartitionFetch]) -> Sequence[PartitionData]:
        """Reads up to the leader's log ends, and reports the follower's positions.

        Over the wire the answer may omit partitions without news.
        """
        ...

    def end_offset_for_epoch(
        self, topic_partition: TopicPartition, epoch: int, current_leader_epoch: int
    ) -> EpochEnd:
        """Where `epoch` ends at the leader; raises ApiError with the leader's code."""
        ...

    def find_offset(
        self, topic_partition: TopicPartition, timestamp: int, current_leader_epoch: int
    ) -> int:
        """The leader's log start (-2) or log end (-1); raises ApiError with the leader's code."""
        ...

    def forget(self, topic_partition: TopicPartition) -> None:
        """This partition is no longer followed from here."""
        ...

    def close(self) -> None:
        """Ends a call in progress, if any; may be called from any thread."""
        ...


OnNews = Callable[[TopicPartition], None]
Connect = Callable[[BrokerId, OnNews], LeaderEndPoint]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderAccess:
    """How the fetchers of one broker reach leaders, and on which threads."""

    connect: Connect
    one_thread: bool
    """One thread follows all leaders, whose endpoints wake it; otherwise each has a thread."""
    threaded: bool = True
    """False: there are no threads, and a test calls `run_once` or `run_until_idle`."""
