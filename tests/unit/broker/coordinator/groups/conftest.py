"""The group coordinator on a bench without threads."""

import uuid
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from embedkafka.broker.coordinator.groups.calls import HeartbeatCall, JoinCall, LeaveCall, SyncCall
from embedkafka.broker.coordinator.groups.config import GroupConfig
from embedkafka.broker.coordinator.groups.consumer.heartbeat import ConsumerHeartbeatCall
from embedkafka.broker.coordinator.groups.consumer.live_members import LiveMembers
from embedkafka.broker.coordinator.groups.service import GroupService
from embedkafka.wire.protocol.errors import ErrorCode
from embedkafka.wire.protocol.messages.groups import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    SyncGroupRequest,
)
from tests.unit.broker.coordinator.bench import Bench


class Catalog:
    """A TopicCatalog of names and partition counts; ids derive from the names."""

    def __init__(self) -> None:
        self.counts = {}

    def topics(self) -> dict[Any, Any]:
        return {name: (self.id_of(name), count) for name, count in self.counts.items()}

    @staticmethod
    def id_of(name: str) -> Any:
        return uuid.uuid5(uuid.NAMESPACE_DNS, name)


class Overrides(dict):
    """Settings of individual groups, by group and name."""

    def find_group_value(self, group_id: Any, name: str) -> Any:
        return self.get((group_id, name))


class Coordinator(Bench):
    """The group service, with shortcuts for its requests."""

    service: GroupService

    def __init__(self, config: Any = None, *, catalog: Any = None, **parts: Any) -> None:
        super().__init__(**parts)
        self.config = config or GroupConfig(offsets_topic_num_partitions=1)
        self.catalog = catalog or Catalog()
        self.overrides = Overrides()
        self.service = GroupService(
            self.config,
            self.parts,
            random=Random(1),
            topics=self.catalog,
            leaders=self.elsewhere,
            overrides=self.overrides,
            live_members=LiveMembers(),
        )

    def lead(self) -> Any:
        for partition in range(self.config.offsets_topic_num_partitions):
            self.service.coordinator.on_leading(partition, 0)
        self.loop.run()
        return self

    def call(self, kind: Any, **fields: Any) -> Any:
        return self.send(lambda reply: self.service.submit(kind(reply=reply, **fields)))

    def consumer_heartbeat(self, request: Any, client: str = "client", **more: Any) -> Any:
        sender: Any = {"client_id": client, "client_host": "/127.0.0.1", "version": 1}

        def submit(reply: Any) -> None:
            call = ConsumerHeartbeatCall(request=request, reply=reply, **sender, **more)
            self.service.consumer_group_heartbeat(call)

        return self.send(submit)

    def join(
        self,
        group: str = "g",
        member: str = "",
        *,
        version: int = 9,
        instance: str | None = None,
        protocols: Any = (("range", b"sub"),),
        session_ms: int = 10_000,
        rebalance_ms: int = 60_000,
        protocol_type: str = "consumer",
        client: str = "c",
    ) -> Any:
        request = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            member_id=member,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocols=[JoinGroupRequest.Protocol(name=n, metadata=m) for n, m in protocols],
        )
        sender = {"client_id": client, "client_host": "/127.0.0.1"}
        return self.call(JoinCall, request=request, version=version, **sender)

    def joined(self, group: str = "g", **kwargs: Any) -> Any:
        """Joins as a new dynamic member, with the id from the first answer; returns (id, reply)."""
        first = self.join(group, **kwargs)
        assert first.error is ErrorCode.MEMBER_ID_REQUIRED
        member = first.response.member_id
        return member, self.join(group, member, **kwargs)

    def sync(
        self,
        member: Any,
        generation: int,
        assignments: Any = None,
        *,
        group: str = "g",
        instance: str | None = None,
        version: int = 4,
    ) -> Any:
        request = SyncGroupRequest(
            group_id=group,
            generation_id=generation,
            member_id=member,
            group_instance_id=instance,
            protocol_type="consumer" if version >= 5 else None,
            protocol_name="range" if version >= 5 else None,
            assignments=[
                SyncGroupRequest.Assignment(member_id=m, assignment=a)
                for m, a in (assignments or {}).items()
            ],
        )
        return self.call(SyncCall, request=request, version=version)

    def heartbeat(
        self, member: Any, generation: int, *, group: str = "g", instance: str | None = None
    ) -> Any:
        request = HeartbeatRequest(
            group_id=group,
            generation_id=generation,
            member_id=member,
            group_instance_id=instance,
        )
        return self.call(HeartbeatCall, request=request)

    def leave(self, *members: Any, group: str = "g", version: int = 5) -> Any:
        request = LeaveGroupRequest(
            group_id=group,
            member_id=members[0] if version < 3 else "",
            members=[
                LeaveGroupRequest.Member(member_id=m)
                if isinstance(m, str)
                else LeaveGroupRequest.Member(member_id=m[0], group_instance_id=m[1])
                for m in members
            ],
        )
        return self.call(LeaveCall, request=request, version=version)

    def commit(
        self,
        offsets: Any,
        *,
        group: str = "g",
        member: str = "",
        generation: int = -1,
        instance: str | None = None,
        version: int = 8,
        metadata: str = "",
        retention_ms: int = -1,
    ) -> Any:
        request = OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=generation,
            member_id=member,
            group_instance_id=instance,
            retention_time_ms=retention_ms,
            topics=[
                OffsetCommitRequest.Topic(
                    name=topic,
                    partitions=[
                        OffsetCommitRequest.Topic.Partition(
                            partition_index=partition,
                            committed_offset=offset,
                            committed_leader_epoch=3,
                            committed_metadata=metadata,
                        )
                    ],
                )
                for (topic, partition), offset in offsets.items()
            ],
        )
        return self.send(self.service.offset_commit, request, version)

    def committed(
        self, *partitions: Any, group: str = "g", require_stable: bool = False
    ) -> dict[Any, Any]:
        """Offsets by (topic, partition); all of them if none are named."""
        topics = [
            OffsetFetchRequest.Group.Topic(name=topic, partition_indexes=[partition])
            for topic, partition in partitions
        ]
        request = OffsetFetchRequest(
            groups=[OffsetFetchRequest.Group(group_id=group, topics=topics or None)],
            require_stable=require_stable,
        )
        reply = self.send(self.service.offset_fetch, request, 8)
        (answer,) = reply.response.groups
        assert answer.error_code == ErrorCode.NONE
        return {
            (topic.name, partition.partition_index): partition.committed_offset
            if partition.error_code == ErrorCode.NONE
            else ErrorCode(partition.error_code)
            for topic in answer.topics
            for partition in topic.partitions
        }

    def fetch(self, *groups: Any) -> Any:
        """Fetches everything that the groups have committed, in one request."""
        request = OffsetFetchRequest(
            groups=[OffsetFetchRequest.Group(group_id=group, topics=None) for group in groups]
        )
        return self.send(self.service.offset_fetch, request, 8)

    def stable(self, group: Any = "g", **kwargs: Any) -> Any:
        """Makes a group of one member Stable; returns the member id."""
        member, reply = self.joined(group, **kwargs)
        assert reply.error is ErrorCode.NONE
        generation = reply.response.generation_id
        assert self.sync(member, generation, {member: b"a"}, group=group).error is ErrorCode.NONE
        return member


@pytest.fixture
def coordinator() -> Coordinator:
    return Coordinator().lead()


@pytest.fixture(scope="session")
def new_coordinator() -> type[Coordinator]:
    return Coordinator


def commit_errors(reply: Any) -> list[ErrorCode]:
    return [
        ErrorCode(partition.error_code)
        for topic in reply.response.topics
        for partition in topic.partitions
    ]


@pytest.fixture(name="commit_errors")
def commit_errors_fixture() -> Callable[[Any], list[ErrorCode]]:
    return commit_errors
