"""A raw connection that speaks whole messages, for what stock clients hide, retry or avoid."""

import itertools
import select
import socket
import ssl
import struct
from types import TracebackType
from typing import Any, Final, Self

from embedkafka.wire.protocol.api_keys import ApiKey
from embedkafka.wire.protocol.codec import decode, encode
from embedkafka.wire.protocol.errors import ErrorCode
from embedkafka.wire.protocol.headers import decode_response_header, encode_request_header
from embedkafka.wire.protocol.message import schema_of
from embedkafka.wire.protocol.messages.core import (
    ApiVersionsRequest,
    ListOffsetsRequest,
    MetadataRequest,
)
from embedkafka.wire.protocol.messages.groups import DescribeGroupsRequest, FindCoordinatorRequest
from embedkafka.wire.protocol.messages.registry import response_type
from embedkafka.wire.protocol.messages.transactions import InitProducerIdRequest

TIMEOUT_SECONDS: Final = 30.0
_LENGTH: Final = struct.Struct(">i")


class RawClient:
    """One connection. The broker answers requests in order, as Kafka promises."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        client_id: str = "raw",
        tls: ssl.SSLContext | None = None,
        from_host: str = "",
    ) -> None:
        """`from_host` is the address that the broker sees; by default, the system chooses."""
        self._client_id = client_id
        self._ids = itertools.count(1)
        self._supported: dict[int, range] | None = None
        self._socket = socket.create_connection(
            (host, port), timeout=TIMEOUT_SECONDS, source_address=(from_host, 0)
        )
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls is not None:
            self._socket = tls.wrap_socket(self._socket, server_hostname=host)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    def call(self, request: object, version: int | None = None) -> Any:  # Any: its response class
        """Sends a request and returns its response; the default is the highest common version."""
        version = self.highest_version(request) if version is None else version
        return self.receive(request, version, self.send(request, version))

    def send(self, request: object, version: int) -> int:
        """Sends a request without waiting and returns its correlation id."""
        correlation_id = next(self._ids)
        api_key = _api_key(request)
        header = encode_request_header(api_key, version, correlation_id, self._client_id)
        self.send_frame(header + encode(request, version))
        return correlation_id

    def receive(self, request: object, version: int, correlation_id: int) -> Any:
        """Receives the response to an earlier request; Any as in `call`."""
        api_key = _api_key(request)
        answered, body = decode_response_header(api_key, version, self.receive_frame())
        assert answered == correlation_id, f"got answer {answered} instead of {correlation_id}"
        return decode(response_type(api_key), version, body)

    def send_frame(self, frame: bytes) -> None:
        self._socket.sendall(_LENGTH.pack(len(frame)) + frame)

    def receive_frame(self) -> bytes:
        """Receives the next frame; raises `ConnectionError` if the broker hangs up instead."""
        (size,) = _LENGTH.unpack(self._receive(_LENGTH.size))
        return self._receive(size)

    def is_answered(self, timeout_s: float) -> bool:
        """Whether the broker sends something, or hangs up, within this time."""
        readable, _, _ = select.select([self._socket], [], [], timeout_s)
        return bool(readable)

    def supported_versions(self, api_key: int) -> range:
        """The versions that both the broker and this client speak."""
        if self._supported is None:
            answer = self.call(ApiVersionsRequest(), 0)
            self._supported = {
                api.api_key: range(api.min_version, api.max_version + 1) for api in answer.api_keys
            }
        theirs = self._supported.get(api_key, range(0))
        if api_key == ApiKey.PRODUCE:
            # Apache Kafka 4 advertises 0 to 2 for the sake of an old librdkafka, but hangs up on
            # them.
            theirs = theirs[theirs.index(3) :]
        first, last = schema_of(response_type(api_key)).versions
        return range(max(theirs.start, first), min(theirs.stop, last + 1))

    def highest_version(self, request: object) -> int:
        return self.supported_versions(_api_key(request))[-1]

    def knows_leaders(self, topic: str, partitions: int) -> bool:
        """Whether this broker lists that many partitions of the topic, each with a leader."""
        wanted = MetadataRequest.Topic(name=topic)
        answer = self.call(MetadataRequest(topics=[wanted], allow_auto_topic_creation=False), 4)
        (found,) = answer.topics
        led = [p for p in found.partitions if p.error_code == ErrorCode.NONE and p.leader_id > 0]
        return found.error_code == ErrorCode.NONE and len(led) == partitions

    def leads(self, topic: str) -> bool:
        """Whether this broker serves every partition it leads according to Metadata."""
        metadata = self.call(MetadataRequest(topics=[MetadataRequest.Topic(name=topic)]), 4)
        port = self._socket.getpeername()[1]
        (me,) = (broker.node_id for broker in metadata.brokers if broker.port == port)
        mine = [
            ListOffsetsRequest.Topic.Partition(partition_index=p.partition_index, timestamp=-1)
            for p in metadata.topics[0].partitions
            if p.leader_id == me
        ]
        wanted = ListOffsetsRequest.Topic(name=topic, partitions=mine)
        answer = self.call(ListOffsetsRequest(replica_id=-1, topics=[wanted] if mine else []))
        return not any(p.error_code for found in answer.topics for p in found.partitions)

    def knows_coordinator(self, key: str, *, kind: int = 0) -> bool:
        """Whether a group (kind 0) or a transactional id (kind 1) has a coordinator yet."""
        request = FindCoordinatorRequest(key=key, key_type=kind)
        return bool(self.call(request, 2).error_code == ErrorCode.NONE)

    def coordinator_of(self, group: str) -> int:
        return int(self.call(FindCoordinatorRequest(key=group), 2).node_id)

    def coordinates(self, group: str) -> bool:
        """Whether this broker has loaded the state it needs to coordinate the group."""
        (answer,) = self.call(DescribeGroupsRequest(groups=[group]), 5).groups
        return bool(answer.error_code == ErrorCode.NONE)

    def gives_producer_ids(self) -> bool:
        """Whether the transaction coordinator of this broker is ready for idempotent producers."""
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        return bool(self.call(request).error_code == ErrorCode.NONE)

    def _receive(self, size: int) -> bytes:
        received = bytearray()
        while len(received) < size:
            chunk = self._socket.recv(size - len(received))
            if not chunk:
                raise ConnectionError("the broker closed the connection")
            received += chunk
        return bytes(received)


def _api_key(request: object) -> int:
    api_key = schema_of(type(request)).api
    assert api_key is not None, f"{type(request).__qualname__} is not a request"
    return api_key
