"""The moves of partitions and replicas, as Kafka's logger `state.change.logger` has them.

Owner: `_changes`, a deque that the controllers of a cluster append to and any thread may copy;
`_lock` (leaf) guards the listeners.
Invariants: a move costs one append; at most `_REMEMBERED` are kept.
Not here: which moves are legal (the state machines).
"""

import logging
from collections import deque
from collections.abc import Callable
from itertools import count
from typing import Final

from embedkafka.runtime.ids import TopicPartition
from embedkafka.runtime.locks import LEAF_RANK, ranked_lock
from embedkafka.runtime.values import NamedTuple
from embedkafka.zk.payloads import LeaderAndIsr

_REMEMBERED: Final = 50_000
_ONLINE: Final = "OnlinePartition"
_LOG = logging.getLogger("embedkafka.state.change.logger")


class StateChange(NamedTuple):
    """A move of a partition, or of one of its replicas, that a controller made or refused."""

    number: int
    """Its place among the cluster's requests and other changes; `kafka.mark()` is one, too."""
    controller: int
    """The id of the broker that was the controller."""
    controller_epoch: int
    topic: str
    partition: int
    replica: int | None
    """The broker of the replica that moved; None if the partition did."""
    before: str
    """Kafka's name of the state, such as "OnlinePartition"."""
    after: str
    """The state that it took, or was meant to take."""
    leader: int | None
    """The leader in ZooKeeper after the move; of a partition that is offline, the last one. None if
    that is not known."""
    leader_epoch: int | None
    isr: tuple[int, ...]
    refused: str | None
    """Why it kept its state; None if it moved."""
    election: str | None = None
    """Why a leader was elected for a partition that had one before: "offline partition", "preferred
    replica", "reassigned partition" or "controlled shutdown"; None if none was."""
    is_unclean: bool = False
    """Whether the leader that was elected was not in sync, so that records may be lost."""

    def __str__(self) -> str:
        what = f"{self.topic}-{self.partition}"
        if self.replica is not None:
            what = f"replica {self.replica} of {what}"
        text = f"controller {self.controller} epoch {self.controller_epoch}: {what} "
        if self.refused is not None:
            return f"{text}stays {self.before}: {self.refused}"
        role = "leader" if self.after == _ONLINE else "last leader"
        led = f", {role} {self.leader} epoch {self.leader_epoch}, ISR {list(self.isr)}"
        shown = led if self.leader is not None and self.replica is None else ""
        unclean = ", unclean" if self.is_unclean else ""
        why = "" if self.election is None else f" ({self.election}{unclean})"
        return f"{text}{self.before} -> {self.after}{shown}{why}"


class StateChangeLog:
    """The last state changes of a cluster, by all of its controllers."""

    def __init__(self, next_number: Callable[[], int] | None = None) -> None:
        """`next_number` places a change among others; it may be called on any thread."""
        self._next_number = next_number or count(1).__next__
        self._changes: deque[StateChange] = deque(maxlen=_REMEMBERED)
        self._lock = ranked_lock("state changes", LEAF_RANK)
        self._listeners: tuple[Callable[[StateChange], None], ...] = ()

    def listen(self, listener: Callable[[StateChange], None]) -> None:
        """Tells each change to `listener`, on the controller's thread."""
        with self._lock:
            self._listeners = (*self._listeners, listener)

    def forget(self, listener: Callable[[StateChange], None]) -> None:
        """Tells `listener` no more."""
        with self._lock:
            self._listeners = tuple(each for each in self._listeners if each != listener)

    def note(
        self,
        controller: int,
        controller_epoch: int,
        partition: TopicPartition,
        replica: int | None,
        *,
        before: str,
        after: str,
        state: LeaderAndIsr | None,
        refused: str | None = None,
        election: str | None = None,
        is_unclean: bool = False,
    ) -> None:
        change = StateChange(
            number=self._next_number(),
            controller=controller,
            controller_epoch=controller_epoch,
            topic=partition.topic,
            partition=partition.partition,
            replica=replica,
            before=before,
            after=after,
            leader=None if state is None else state.leader,
            leader_epoch=None if state is None else state.leader_epoch,
            isr=() if state is None else tuple(state.isr),
            refused=refused,
            election=election,
            is_unclean=is_unclean,
        )
        self._changes.append(change)
        for listener in self._listeners:
            listener(change)
        _LOG.debug("%s", change)

    def since(self, number: int) -> list[StateChange]:
        """The changes after this number that are still kept, oldest first."""
        return [change for change in self._changes.copy() if change.number > number]
