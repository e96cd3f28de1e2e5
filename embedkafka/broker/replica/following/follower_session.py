"""The follower's side of a fetch session (KIP-227): the partitions that the leader knows.

Owner: the fetching thread.
Invariants: this state equals the leader's session after the last answer. After any doubt the next
fetch lists all partitions and starts a new session.
Not here: the leader's side (`fetch_session`), and sending (`remote_leader`).
"""

from collections.abc import Sequence
from typing import Final

from embedkafka.broker.replica.fetch import PartitionFetch
from embedkafka.broker.replica.fetch_session import INITIAL_EPOCH, NO_SESSION, next_epoch
from embedkafka.runtime.ids import TopicPartition
from embedkafka.runtime.values import dataclass
from embedkafka.wire.protocol.errors import ErrorCode
from embedkafka.wire.protocol.wire_types import ZERO_UUID

_NO_LONGER_VALID: Final = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionFetch:
    """The partitions to send: all, or those that differ from the leader's session."""

    session_id: int
    epoch: int
    by_id: bool
    changed: Sequence[PartitionFetch]
    forgotten: Sequence[PartitionFetch]


class FollowerSession:
    """Computes the changes that a follower must send to its leader."""

    def __init__(self) -> None:
        self._session_id = NO_SESSION
        self._epoch = INITIAL_EPOCH
        self._by_id = False
        self._known: dict[TopicPartition, PartitionFetch] = {}

    def begin(self, wanted: Sequence[PartitionFetch]) -> SessionFetch:
        """The next fetch, which makes `wanted` the session's partitions."""
        by_id = all(request.topic_id != ZERO_UUID for request in wanted)
        if by_id != self._by_id:
            self.reset()
        self._by_id = by_id
        known = {} if self._epoch == INITIAL_EPOCH else self._known
        self._known = {request.topic_partition: request for request in wanted}
        return SessionFetch(
            session_id=self._session_id,
            epoch=self._epoch,
            by_id=by_id,
            changed=[asked for asked in wanted if known.get(asked.topic_partition) != asked],
            forgotten=[old for old in known.values() if self._is_gone(old)],
        )

    def accept(self, session_id: int) -> None:
        """The leader answered in this session; NO_SESSION means that it keeps none."""
        self._session_id = session_id
        is_kept = session_id != NO_SESSION
        self._epoch = next_epoch(self._epoch) if is_kept else INITIAL_EPOCH

    def refuse(self, error: ErrorCode) -> bool:
        """Starts over after `error`; True if it concerned the session, so a retry helps."""
        if error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
            self._session_id = NO_SESSION
        self.reset()
        return error in _NO_LONGER_VALID

    def reset(self) -> None:
        """Makes the next fetch list all partitions; the leader drops the old session."""
        self._epoch = INITIAL_EPOCH

    def _is_gone(self, old: PartitionFetch) -> bool:
        """Whether the leader knows the partition by an outdated name or id."""
        asked = self._known.get(old.topic_partition)
        return asked is None or asked.topic_id != old.topic_id
