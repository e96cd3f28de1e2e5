"""Requests about one group, each with the client that waits for its answer.

Every kind of group answers the four requests of the classic protocol, so their calls are here.
Calls that one room alone answers live in that room.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol

from embedkafka.broker.coordinator.decision import Stored, TransactionalProducer
from embedkafka.broker.coordinator.groups.config import GroupConfig
from embedkafka.broker.coordinator.groups.decision import Decisions
from embedkafka.broker.coordinator.groups.subscription_metadata import ClassicProtocol
from embedkafka.runtime.values import dataclass, field
from embedkafka.wire.protocol.errors import ErrorCode
from embedkafka.wire.protocol.messages.groups import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)

UNKNOWN_MEMBER_ID: Final = ""
UNKNOWN_GENERATION_ID: Final = -1
_FIRST_BATCHED_LEAVE: Final = 3

JoinReply = Callable[[JoinGroupResponse], None]
SyncReply = Callable[[SyncGroupResponse], None]


class GroupCall(Protocol):
    """A request that waits for its answer. Any: each API answers with its own type."""

    @property
    def group_id(self) -> str: ...

    @property
    def reply(self) -> Callable[[Any], None]:
        """Sends the answer; called exactly once."""
        ...

    def refusal(self, error: ErrorCode) -> Any:
        """The answer that carries `error`, in the form that this client understands."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerWhenStored:
    """Answers the call with `response` if the batch was stored, else with its refusal."""

    call: GroupCall
    response: object  # the type that the call's reply takes
    store_errors: Mapping[ErrorCode, ErrorCode] = field(default_factory=dict)

    def __call__(self, stored: Stored, out: Decisions) -> None:
        if stored.error is ErrorCode.NONE:
            out.answer(self.call.reply, self.response)
        else:
            refuse(self.call, stored.told_as(self.store_errors), out)


def refuse(call: GroupCall, error: ErrorCode, out: Decisions) -> None:
    out.answer(call.reply, call.refusal(error))


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinCall:
    """A JoinGroup request, with its client and version."""

    request: JoinGroupRequest
    client_id: str
    client_host: str
    version: int
    reply: JoinReply

    @property
    def group_id(self) -> str:
        return self.request.group_id

    @property
    def requires_known_member_id(self) -> bool:
        """From v4 on (KIP-394) a dynamic member must come back with the id it is given."""
        return self.version >= 4 and self.request.group_instance_id is None

    @property
    def can_skip_assignment(self) -> bool:
        """From v9 on (KIP-814) a returning static leader keeps the current assignment."""
        return self.version >= 9

    @property
    def rebalance_timeout_ms(self) -> int:
        if self.version == 0:
            return self.request.session_timeout_ms
        return self.request.rebalance_timeout_ms

    @property
    def protocols(self) -> tuple[ClassicProtocol, ...]:
        return tuple(ClassicProtocol(p.name, bytes(p.metadata)) for p in self.request.protocols)

    def find_session_error(self, config: GroupConfig) -> ErrorCode | None:
        low, high = config.group_min_session_timeout_ms, config.group_max_session_timeout_ms
        is_good = low <= self.request.session_timeout_ms <= high
        return None if is_good else ErrorCode.INVALID_SESSION_TIMEOUT

    def refusal(self, error: ErrorCode) -> JoinGroupResponse:
        return join_error(error, self.request.member_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncCall:
    request: SyncGroupRequest
    version: int
    reply: SyncReply

    @property
    def group_id(self) -> str:
        return self.request.group_id

    def refusal(self, error: ErrorCode) -> SyncGroupResponse:
        """While the shard loads, sends the member back to JoinGroup.

        The rebalance was lost with the former coordinator, and this broker is the new one: the
        client has no other to look for. Older clients do not expect the loading error.
        """
        is_loading = error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return sync_error(ErrorCode.REBALANCE_IN_PROGRESS if is_loading else error)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatCall:
    request: HeartbeatRequest
    reply: Callable[[HeartbeatResponse], None]

    @property
    def group_id(self) -> str:
        return self.request.group_id

    def refusal(self, error: ErrorCode) -> HeartbeatResponse:
        """While the shard loads, every heartbeat succeeds: no session has started yet."""
        is_loading = error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return HeartbeatResponse(error_code=ErrorCode.NONE if is_loading else error)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveCall:
    request: LeaveGroupRequest
    version: int
    reply: Callable[[LeaveGroupResponse], None]

    @property
    def group_id(self) -> str:
        return self.request.group_id

    @property
    def members(self) -> Sequence[LeaveGroupRequest.Member]:
        """The leaving members; before v3 a request names one."""
        if self.version < _FIRST_BATCHED_LEAVE:
            return [LeaveGroupRequest.Member(member_id=self.request.member_id)]
        return self.request.members

    def response(self, errors: Sequence[ErrorCode]) -> LeaveGroupResponse:
        """Takes one code for each of `members`, in their order."""
        if self.version < _FIRST_BATCHED_LEAVE:
            return LeaveGroupResponse(error_code=errors[0])
        members = [
            LeaveGroupResponse.Member(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                error_code=error,
            )
            for member, error in zip(self.request.members, errors, strict=True)
        ]
        return LeaveGroupResponse(members=members)

    def refusal(self, error: ErrorCode) -> LeaveGroupResponse:
        return LeaveGroupResponse(error_code=error)


@dataclass(frozen=True, slots=True, kw_only=True)
class Committer:
    """The member that commits offsets; generation -1 stands for a client outside the group."""

    group_id: str
    member_id: str
    group_instance_id: str | None
    generation_id: int
    producer: TransactionalProducer | None = None
    version: int = 0

    @property
    def is_transactional(self) -> bool:
        return self.producer is not None


def join_error(error: ErrorCode, member_id: str = UNKNOWN_MEMBER_ID) -> JoinGroupResponse:
    return JoinGroupResponse(
        error_code=error,
        generation_id=UNKNOWN_GENERATION_ID,
        protocol_type=None,
        protocol_name=None,
        leader="",
        member_id=member_id,
        members=[],
    )


def sync_error(error: ErrorCode) -> SyncGroupResponse:
    return SyncGroupResponse(error_code=error, assignment=b"")
