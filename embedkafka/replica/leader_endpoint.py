"""How a follower reaches a leader: inside the process or over the wire, it cannot tell which."""

from collections.abc import Callable, Sequence
from typing import Protocol

from embedkafka.replica.fetch import EpochEnd, PartitionData, PartitionFetch
from embedkafka.runtime.ids import BrokerId, TopicPartition
from embedkafka.runtime.values import dataclass


class LeaderUnavailable(Exception):
    """The leader's broker cannot be reached now; ask again later."""


class LeaderEndPoint(Protocol):
    """One leader's broker, for one follower. Any call may raise `LeaderUnavailable`."""

    @property
    def wakes(self) -> bool:
        """True: `fetch` returns at once, and the endpoint says when there is news. False: `fetch`
        waits at the leader for news, and is simply called again."""
        ...

    def fetch(self, partitions: Sequence[PartitionFetch]) -> Sequence[PartitionData]:
        """Reads from the log ends of the leader, which learns the follower's position.

        Over the wire a partition without news may be left out of the answer.
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
        """Ends a call in progress, if there is one; may be called from any thread."""
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
