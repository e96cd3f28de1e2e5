"""One member of a classic group.

Owner: the `coordinator` loop, through its group.
Invariants: a member waits for a join or for a sync, never for both.
Not here: when a member is removed (`groups.py`).
"""

from collections.abc import Sequence

from embedkafka.broker.coordinator.groups.calls import JoinReply, SyncReply
from embedkafka.broker.coordinator.groups.subscription_metadata import ClassicProtocol


class ClassicMember:
    """One consumer as the group knows it, with its waiting requests."""

    __slots__ = (
        "assignment",
        "awaiting_join",
        "awaiting_sync",
        "client_host",
        "client_id",
        "group_instance_id",
        "is_new",
        "member_id",
        "protocols",
        "rebalance_timeout_ms",
        "session_timeout_ms",
    )

    def __init__(
        self,
        *,
        member_id: str,
        group_instance_id: str | None,
        client_id: str,
        client_host: str,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        protocols: Sequence[ClassicProtocol],
        assignment: bytes = b"",
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.session_timeout_ms = session_timeout_ms
        self.protocols: tuple[ClassicProtocol, ...] = tuple(protocols)
        self.assignment = assignment
        self.awaiting_join: JoinReply | None = None
        self.awaiting_sync: SyncReply | None = None
        # A new member has no member id, and so sends no heartbeats, until its first join ends.
        self.is_new = False

    @property
    def is_static(self) -> bool:
        return self.group_instance_id is not None

    @property
    def is_excused(self) -> bool:
        """Whether the member may be silent: it waits for an answer, on a muted connection."""
        if self.is_new:
            return False
        return self.awaiting_join is not None or self.awaiting_sync is not None

    def metadata_for(self, protocol_name: str) -> bytes:
        """The subscription offered for `protocol_name`."""
        for protocol in self.protocols:
            if protocol.name == protocol_name:
                return protocol.metadata
        raise KeyError(f"member {self.member_id} does not offer protocol {protocol_name}")

    def matches(self, protocols: Sequence[ClassicProtocol]) -> bool:
        """Whether the member offers exactly `protocols`, in the same order."""
        return self.protocols == tuple(protocols)

    def vote(self, candidates: frozenset[str]) -> str:
        """The member's favourite among `candidates`."""
        for protocol in self.protocols:
            if protocol.name in candidates:
                return protocol.name
        raise KeyError(f"member {self.member_id} supports none of {sorted(candidates)}")
