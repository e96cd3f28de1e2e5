"""Members of groups that do what they are asked to and nothing else.

A stock consumer joins again by itself when its group is gone. These members send single requests,
some of which wait for the others of the group, so a group can be left in any state.
"""

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Self

from embedkafka import EmbeddedKafka
from embedkafka.cluster.restoring.coordinated import find_coordinated
from embedkafka.wire.net.client import BrokerClient
from embedkafka.wire.protocol.codec import encode_versioned
from embedkafka.wire.protocol.errors import ErrorCode
from embedkafka.wire.protocol.messages.consumer_groups import ConsumerGroupHeartbeatRequest
from embedkafka.wire.protocol.messages.groups import (
    FindCoordinatorRequest,
    JoinGroupRequest,
    OffsetCommitRequest,
    SyncGroupRequest,
)
from embedkafka.wire.protocol.messages.internal import ConsumerProtocolSubscription

FIND, JOIN, SYNC, HEARTBEAT, COMMIT = 4, 9, 5, 1, 8
PATIENCE_S = 20.0


class Members:
    """Members of one group, which a test may leave as they are. Leaving the block disconnects."""

    def __init__(
        self, kafka: EmbeddedKafka, group: str, topic: str, *, patience_s: float = PATIENCE_S
    ) -> None:
        self._kafka = kafka
        self._patience_s = patience_s
        self._group = group
        self._topic = topic
        self._clients: list[BrokerClient] = []
        self._waiting: list[threading.Thread] = []
        self._coordinator = self._find_coordinator()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        for client in self._clients:
            client.close()
        for thread in self._waiting:
            thread.join(PATIENCE_S)

    def id(self) -> str:
        """An id that the coordinator has given out, and waits for."""
        answer = self._call(self._join_request("", None), JOIN)
        assert answer.error_code == ErrorCode.MEMBER_ID_REQUIRED
        given: str = answer.member_id
        return given

    def join(self, instance: str | None = None) -> tuple[str, int]:
        """Joins as the only member so far; returns its id and the generation."""
        member = "" if instance is not None else self.id()
        answer = self._call(self._join_request(member, instance), JOIN)
        assert answer.error_code == ErrorCode.NONE
        return answer.member_id, answer.generation_id

    def stable(self, instance: str | None = None) -> str:
        """Joins as the only member so far, and gets no partitions."""
        member, generation = self.join(instance)
        answer = self._call(self._sync_request(member, generation), SYNC)
        assert answer.error_code == ErrorCode.NONE
        return member

    def join_and_wait(self, member: str) -> None:
        """Sends a join that waits until the others have joined too."""
        self._call_later(self._join_request(member, None), JOIN)

    def sync_and_wait(self, member: str, generation: int) -> None:
        """Sends the sync of a follower, which waits for that of the leader."""
        self._call_later(self._sync_request(member, generation), SYNC)

    def consumer(self, instance: str | None = None) -> str:
        """Joins with the protocol of KIP-848, and makes a classic group one of consumers."""
        member = f"consumer-{len(self._clients)}"
        request = ConsumerGroupHeartbeatRequest(
            group_id=self._group,
            member_id=member,
            instance_id=instance,
            member_epoch=0,
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=[self._topic],
            topic_partitions=[],
        )
        answer = self._call(request, HEARTBEAT)
        assert answer.error_code == ErrorCode.NONE, answer
        return member

    def commit(self, offset: int) -> None:
        """Commits an offset of the first partition, as a client outside the group."""
        _Topic = OffsetCommitRequest.Topic
        partition = _Topic.Partition(
            partition_index=0, committed_offset=offset, committed_metadata=""
        )
        topic = _Topic(name=self._topic, partitions=[partition])
        request = OffsetCommitRequest(
            group_id=self._group,
            generation_id_or_member_epoch=-1,
            member_id="",
            topics=[topic],
        )
        answer = self._call(request, COMMIT)
        assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE, answer

    def await_state(self, state: str) -> None:
        """Waits until the coordinator lists the group with this state."""
        brokers = self._kafka._require_brokers()
        is_so = lambda: find_coordinated(brokers).groups.get(self._group) == state  # noqa: E731
        await_true(is_so, self._patience_s)

    def _find_coordinator(self) -> int:
        found: list[int] = []

        def ask() -> bool:
            for handle in self._kafka.brokers:
                if not handle.is_reachable:
                    continue
                client = handle._lifecycle.require_broker().make_client("test")
                with suppress(OSError):
                    request = FindCoordinatorRequest(key_type=0, coordinator_keys=[self._group])
                    (answer,) = client.call(request, FIND).coordinators
                    if answer.error_code == ErrorCode.NONE:
                        found.append(answer.node_id)
                client.close()
                return bool(found)
            return False

        await_true(ask, self._patience_s)
        return found[0]

    def _client(self) -> BrokerClient:
        broker = self._kafka.broker(self._coordinator)._lifecycle.require_broker()
        client = broker.make_client("test")
        self._clients.append(client)
        return client

    def _call(self, request: Any, version: int) -> Any:
        return self._client().call(request, version, timeout_ms=self._patience_s * 1000)

    def _call_later(self, request: Any, version: int) -> None:
        client = self._client()

        def call() -> None:
            with suppress(OSError):  # the member has disconnected
                client.call(request, version)

        thread = threading.Thread(target=call, daemon=True)
        thread.start()
        self._waiting.append(thread)

    def _join_request(self, member: str, instance: str | None) -> JoinGroupRequest:
        subscription = encode_versioned(ConsumerProtocolSubscription(topics=[self._topic]), 0)
        return JoinGroupRequest(
            group_id=self._group,
            session_timeout_ms=60_000,
            rebalance_timeout_ms=60_000,
            member_id=member,
            group_instance_id=instance,
            protocol_type="consumer",
            protocols=[JoinGroupRequest.Protocol(name="range", metadata=subscription)],
        )

    def _sync_request(self, member: str, generation: int) -> SyncGroupRequest:
        return SyncGroupRequest(
            group_id=self._group,
            generation_id=generation,
            member_id=member,
            protocol_type="consumer",
            protocol_name="range",
            assignments=[],
        )


def await_true(is_so: Callable[[], bool], patience_s: float) -> None:
    """Asks until it is so."""
    pause = threading.Event()
    deadline_s = time.monotonic() + patience_s
    while not is_so():
        assert time.monotonic() < deadline_s, f"it did not come true in {patience_s:g} s"
        pause.wait(0.005)


def leave_given_id(members: Members) -> str:
    members.id()
    return "Empty"


def leave_joined(members: Members) -> str:
    members.join()
    return "CompletingRebalance"


def leave_waiting_for_given_id(members: Members) -> str:
    """A member waits for another one that has its id and has not joined."""
    first, _ = members.join()
    members.id()
    members.join_and_wait(members.id())
    members.join_and_wait(first)
    return "PreparingRebalance"


def leave_waiting_for_rejoin(members: Members) -> str:
    members.stable()
    members.join_and_wait(members.id())
    return "PreparingRebalance"


def leave_static(members: Members) -> str:
    members.stable("instance")
    return "Stable"


def leave_consumers(members: Members) -> str:
    members.consumer()
    members.consumer("instance")
    return "Reconciling"


def leave_both_kinds(members: Members) -> str:
    """KIP-848's online migration: one member speaks the new protocol, another one the old."""
    members.stable()
    members.consumer()
    return "Reconciling"


def leave_static_of_both_kinds(members: Members) -> str:
    members.stable("classic")
    members.consumer("consumer")
    return "Reconciling"


WAYS_TO_LEAVE: dict[str, Callable[[Members], str]] = {
    "an id that was given out": leave_given_id,
    "a member that has joined": leave_joined,
    "members waiting for a given id": leave_waiting_for_given_id,
    "a member waiting for a rejoin": leave_waiting_for_rejoin,
    "a static member": leave_static,
    "consumers": leave_consumers,
    "both kinds": leave_both_kinds,
    "static members of both kinds": leave_static_of_both_kinds,
}
"""How a group may be left: each returns the state that it is in, or comes to be in."""


def coordinator_of(kafka: EmbeddedKafka, group: str) -> int:
    return kafka.existing_topic("__consumer_offsets").leader(offsets_partition(kafka, group))


def offsets_partition(kafka: EmbeddedKafka, group: str) -> int:
    for handle in kafka.brokers:
        if handle.is_running:
            return handle._lifecycle.require_broker().groups.coordinator.partition_for(group)
    raise AssertionError("no broker is running")
