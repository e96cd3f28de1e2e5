"""Members of classic groups, request by request."""

from collections.abc import Mapping, Sequence
from typing import Any, Self

from embedkafka.wire.protocol.errors import ErrorCode
from embedkafka.wire.protocol.messages.groups import (
    DescribeGroupsRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
)
from tests.wire.clients import Cluster
from tests.wire.one_partition import Answer
from tests.wire.raw_client import RawClient

SESSION_MS = 20_000


class Member:
    """One member with a separate connection, because a join waits for the other members."""

    def __init__(
        self,
        cluster: Cluster,
        group: str,
        *,
        instance: str | None = None,
        session_timeout_ms: int = SESSION_MS,
        rebalance_timeout_ms: int = SESSION_MS,
        protocols: Sequence[str] = ("range",),
        protocol_type: str = "test",
    ) -> None:
        self.raw = cluster.connect()
        self.group = group
        self.id = ""
        self.generation = -1
        self._instance = instance
        self._session_timeout_ms = session_timeout_ms
        self._rebalance_timeout_ms = rebalance_timeout_ms
        self._protocols = protocols
        self._protocol_type = protocol_type
        self._joining: tuple[JoinGroupRequest, int, int] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.raw.close()

    def join(self, *, version: int = 9) -> Answer:
        """Joins, with the second attempt that dynamic members need, and keeps the answer."""
        self.start_joining(version=version)
        return self.finish_joining()

    def start_joining(self, *, version: int = 9) -> None:
        if version >= 4 and not self.id and self._instance is None:
            self.start_join_request(version)
            first = self.receive_join()
            assert first.error_code == ErrorCode.MEMBER_ID_REQUIRED
            self.id = first.member_id
        self.start_join_request(version)

    def finish_joining(self) -> Answer:
        answer = self.receive_join()
        if answer.error_code == ErrorCode.NONE:
            self.id, self.generation = answer.member_id, answer.generation_id
        return answer

    def start_join_request(self, version: int) -> None:
        request = JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=self._session_timeout_ms,
            rebalance_timeout_ms=self._rebalance_timeout_ms,
            member_id=self.id,
            group_instance_id=self._instance,
            protocol_type=self._protocol_type,
            protocols=[
                JoinGroupRequest.Protocol(name=name, metadata=name.encode())
                for name in self._protocols
            ],
        )
        self._joining = (request, version, self.raw.send(request, version))

    def receive_join(self) -> Answer:
        assert self._joining is not None
        return self.raw.receive(*self._joining)

    def sync(
        self, assignments: Mapping[str, bytes] | None = None, *, version: int = 5, **fields: Any
    ) -> Answer:
        return self.raw.call(self.sync_request(assignments, **fields), version)

    def sync_request(
        self, assignments: Mapping[str, bytes] | None = None, **fields: Any
    ) -> SyncGroupRequest:
        known = {
            "group_id": self.group,
            "generation_id": self.generation,
            "member_id": self.id,
            "group_instance_id": self._instance,
            "protocol_type": self._protocol_type,
            "protocol_name": self._protocols[0],
        }
        return SyncGroupRequest(
            **{**known, **fields},
            assignments=[
                SyncGroupRequest.Assignment(member_id=member, assignment=assignment)
                for member, assignment in (assignments or {}).items()
            ],
        )

    def heartbeat(self, *, version: int = 4, **fields: Any) -> ErrorCode:
        known = {
            "group_id": self.group,
            "generation_id": self.generation,
            "member_id": self.id,
            "group_instance_id": self._instance,
        }
        request = HeartbeatRequest(**{**known, **fields})
        return ErrorCode(self.raw.call(request, version).error_code)

    def leave(self, *, version: int = 5) -> Answer:
        leaving = LeaveGroupRequest.Member(member_id=self.id, group_instance_id=self._instance)
        request = LeaveGroupRequest(group_id=self.group, member_id=self.id, members=[leaving])
        return self.raw.call(request, version)


def describe(raw: RawClient, group: str, *, version: int = 5) -> Answer:
    (answer,) = raw.call(DescribeGroupsRequest(groups=[group]), version).groups
    return answer
