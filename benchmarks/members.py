"""Hundreds of members of classic consumer groups on one thread.

Every librdkafka consumer has several threads; a thousand of them would measure the client. These
members only do what membership demands: join, sync and heartbeat, each on a separate connection.
They use embedkafka's codec to avoid a second one here. It runs in this process, and its CPU time
does not count towards the brokers.
"""

import heapq
import itertools
import selectors
import socket
import struct
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from benchmarks.clients import check_deadline
from embedkafka.wire.protocol.codec import decode, encode
from embedkafka.wire.protocol.errors import ErrorCode
from embedkafka.wire.protocol.headers import decode_response_header, encode_request_header
from embedkafka.wire.protocol.message import schema_of
from embedkafka.wire.protocol.messages.groups import (
    FindCoordinatorRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
)
from embedkafka.wire.protocol.messages.registry import response_type

HEARTBEAT_SECONDS: Final = 0.5
RETRY_SECONDS: Final = 0.1
SESSION_TIMEOUT_MS: Final = 45_000
#: Request versions that embedkafka and every Kafka since 2.4 speak.
VERSIONS: Final = {
    FindCoordinatorRequest: 2,
    JoinGroupRequest: 5,
    SyncGroupRequest: 3,
    HeartbeatRequest: 3,
    LeaveGroupRequest: 3,
}
_LENGTH: Final = struct.Struct(">i")
_NO_USER_DATA: Final = struct.pack(">i", -1)

#: The client that sent a request knows the type of its response.
Response = Any


class Crowd:
    """Groups of equal size, all subscribed to one topic; used in a `with`."""

    def __init__(self, bootstrap_servers: str, topic: str, *, groups: Sequence[str], size: int):
        self._topic = topic
        self._selector = selectors.DefaultSelector()
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._groups = [
            _Group(self, _coordinator(bootstrap_servers, name), name) for name in groups
        ]
        self._size = size

    def join(self) -> None:
        """Lets every member join; returns when all groups are stable and complete."""
        began = time.perf_counter()
        for group in self._groups:
            group.add_members(self._size, self._topic)
        while not all(group.is_stable for group in self._groups):
            self._turn()
            check_deadline(began, "stable groups")

    def leave(self) -> None:
        """Removes whole groups at once, so that no rebalance follows."""
        for group in self._groups:
            group.leave()
        self._selector.close()

    def after(self, seconds: float, act: Callable[[], None]) -> None:
        heapq.heappush(self._due, (time.perf_counter() + seconds, next(self._order), act))

    def watch(self, connection: "_Connection", on_readable: Callable[[], None]) -> None:
        self._selector.register(connection.socket, selectors.EVENT_READ, on_readable)

    def _turn(self) -> None:
        now = time.perf_counter()
        while self._due and self._due[0][0] <= now:
            _, _, act = heapq.heappop(self._due)
            act()
        wait = max(0.0, self._due[0][0] - time.perf_counter()) if self._due else RETRY_SECONDS
        for key, _ in self._selector.select(wait):
            key.data()


class _Group:
    def __init__(self, crowd: Crowd, coordinator: tuple[str, int], name: str) -> None:
        self.crowd = crowd
        self.name = name
        self._coordinator = coordinator
        self._members: list[_Member] = []
        self._complete_generation = -1

    @property
    def is_stable(self) -> bool:
        """Whether every member has its assignment of one generation that includes them all."""
        complete = self._complete_generation
        return complete >= 0 and all(member.synced == complete for member in self._members)

    def add_members(self, count: int, topic: str) -> None:
        self._members = [_Member(self, _Connection(self._coordinator), topic) for _ in range(count)]
        for member in self._members:
            member.join()

    def note_generation(self, generation: int, *, members: int) -> None:
        """Called by the leader, which knows the members of a generation."""
        if members == len(self._members):
            self._complete_generation = generation

    def leave(self) -> None:
        connection = _Connection(self._coordinator)
        leaving = [LeaveGroupRequest.Member(member_id=member.id) for member in self._members]
        connection.send(LeaveGroupRequest(group_id=self.name, members=leaving))
        connection.await_response()
        connection.socket.close()
        for member in self._members:
            member.close()


class _Member:
    """One member, with at most one request in flight."""

    def __init__(self, group: _Group, connection: "_Connection", topic: str) -> None:
        self.id = ""
        self.synced = -1
        self._group = group
        self._connection = connection
        self._topic = topic
        self._generation = -1
        self._answer_to: Callable[[Response], None] = self._on_joined
        group.crowd.watch(connection, self._on_readable)

    def join(self) -> None:
        self.synced = -1
        wanted = JoinGroupRequest.Protocol(name="range", metadata=_subscription(self._topic))
        request = JoinGroupRequest(
            group_id=self._group.name,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            rebalance_timeout_ms=SESSION_TIMEOUT_MS,
            member_id=self.id,
            protocol_type="consumer",
            protocols=[wanted],
        )
        self._send(request, self._on_joined)

    def close(self) -> None:
        self._connection.socket.close()

    def _sync(self, assignments: Sequence[SyncGroupRequest.Assignment]) -> None:
        request = SyncGroupRequest(
            group_id=self._group.name,
            generation_id=self._generation,
            member_id=self.id,
            assignments=assignments,
        )
        self._send(request, self._on_synced)

    def _heartbeat(self) -> None:
        request = HeartbeatRequest(
            group_id=self._group.name, generation_id=self._generation, member_id=self.id
        )
        self._send(request, self._on_heartbeat)

    def _on_joined(self, response: Response) -> None:
        if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.id = response.member_id
            self.join()
        elif response.error_code == ErrorCode.NONE:
            self.id, self._generation = response.member_id, response.generation_id
            if response.leader == self.id:
                self._group.note_generation(self._generation, members=len(response.members))
            self._sync(
                [
                    SyncGroupRequest.Assignment(
                        member_id=member.member_id, assignment=_assignment(self._topic, number)
                    )
                    for number, member in enumerate(response.members)
                ]
            )
        else:
            self._retry(response)

    def _on_synced(self, response: Response) -> None:
        if response.error_code == ErrorCode.NONE:
            self.synced = self._generation
            self._group.crowd.after(HEARTBEAT_SECONDS, self._heartbeat)
        else:
            self._retry(response)

    def _on_heartbeat(self, response: Response) -> None:
        if response.error_code == ErrorCode.NONE:
            self._group.crowd.after(HEARTBEAT_SECONDS, self._heartbeat)
        else:
            self._retry(response)

    def _retry(self, response: Response) -> None:
        """Retries as stock clients do: at once after a rebalance, else after a pause."""
        if response.error_code == ErrorCode.REBALANCE_IN_PROGRESS:
            self.join()
            return
        if response.error_code == ErrorCode.UNKNOWN_MEMBER_ID:
            self.id = ""
        self._group.crowd.after(RETRY_SECONDS, self.join)

    def _send(self, request: object, on_response: Callable[[Response], None]) -> None:
        self._answer_to = on_response
        self._connection.send(request)

    def _on_readable(self) -> None:
        response = self._connection.receive()
        if response is not None:
            self._answer_to(response)


class _Connection:
    """A blocking socket that is read only when it has data."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.socket = socket.create_connection(address, timeout=30)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._received = bytearray()
        self._api_key = self._version = 0

    def send(self, request: object) -> None:
        self._version = VERSIONS[type(request)]
        self._api_key = schema_of(type(request)).api or 0
        header = encode_request_header(self._api_key, self._version, 1, "benchmark")
        frame = header + encode(request, self._version)
        self.socket.sendall(_LENGTH.pack(len(frame)) + frame)

    def receive(self) -> Response | None:
        """The response, or None if it is not complete yet."""
        chunk = self.socket.recv(65_536)
        if not chunk:
            raise ConnectionError("the broker closed a member's connection")
        self._received += chunk
        if len(self._received) < _LENGTH.size:
            return None
        (size,) = _LENGTH.unpack_from(self._received)
        if len(self._received) < _LENGTH.size + size:
            return None
        frame = bytes(self._received[_LENGTH.size :])
        self._received.clear()
        _, body = decode_response_header(self._api_key, self._version, frame)
        return decode(response_type(self._api_key), self._version, body)

    def await_response(self) -> Response:
        response = None
        while response is None:
            response = self.receive()
        return response


def _coordinator(bootstrap_servers: str, group: str) -> tuple[str, int]:
    host, _, port = bootstrap_servers.partition(",")[0].rpartition(":")
    connection = _Connection((host, int(port)))
    try:
        began = time.perf_counter()
        while True:
            connection.send(FindCoordinatorRequest(key=group))
            answer = connection.await_response()
            if answer.error_code == ErrorCode.NONE:
                return answer.host, answer.port
            check_deadline(began, f"coordinator of {group}")
            time.sleep(RETRY_SECONDS)  # the offsets topic is being created
    finally:
        connection.socket.close()


def _subscription(topic: str) -> bytes:
    """A consumer's subscription in version 0."""
    return struct.pack(">hi", 0, 1) + _string(topic) + _NO_USER_DATA


def _assignment(topic: str, partition: int) -> bytes:
    """A consumer's assignment in version 0: one partition of one topic."""
    return (
        struct.pack(">hi", 0, 1) + _string(topic) + struct.pack(">ii", 1, partition) + _NO_USER_DATA
    )


def _string(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()
