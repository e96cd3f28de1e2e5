"""Quotas that throttle: the time in the answer, the muted connection, and refused topic changes.

The same bodies run on Apache Kafka. No test asserts how long anything takes.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from embedkafka.runtime.addresses import parse_address
from embedkafka.wire.protocol.errors import ErrorCode
from embedkafka.wire.protocol.messages.configs import (
    AlterClientQuotasRequest,
    DescribeClientQuotasRequest,
)
from embedkafka.wire.protocol.messages.core import MetadataRequest, ProduceRequest
from embedkafka.wire.protocol.messages.topics import (
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
)
from tests.wire.clients import Cluster, eventually
from tests.wire.one_partition import batch, fetch_request, produce_request
from tests.wire.raw_client import RawClient


@pytest.fixture
def client(cluster: Cluster, unique: Callable[[str], str]) -> Iterator[RawClient]:
    """A client with an id of its own."""
    address = parse_address(cluster.bootstrap_servers)
    with RawClient(*address, client_id=unique("throttled")) as client:
        yield client


@pytest.fixture
def quota(raw: RawClient, client: RawClient) -> Iterator[Any]:  # Any: the function below
    """Sets quotas of an entity, by default of the client's id; removes them after the test."""
    given: list[tuple[dict[str, str | None], str]] = []

    def set_quota(key: str, value: float, **entity: str | None) -> None:
        kinds = {kind.replace("_", "-"): name for kind, name in entity.items()}
        given.append((kinds or {"client-id": client._client_id}, key))
        alter(raw, *given[-1], value)
        eventually(lambda: described(raw, given[-1][0]), "the quota is known")

    yield set_quota
    for entity, key in given:
        alter(raw, entity, key, None)
        eventually(partial(is_gone, raw, entity), "the quota is gone")


def alter(raw: RawClient, entity: dict[str, str | None], key: str, value: float | None) -> None:
    _Entry = AlterClientQuotasRequest.Entry
    entry = _Entry(
        entity=[_Entry.Entity(entity_type=k, entity_name=n) for k, n in entity.items()],
        ops=[_Entry.Op(key=key, value=value or 0.0, remove=value is None)],
    )
    answer = raw.call(AlterClientQuotasRequest(entries=[entry], validate_only=False))
    assert [one.error_code for one in answer.entries] == [ErrorCode.NONE]


def described(raw: RawClient, entity: dict[str, str | None]) -> bool:
    components = [
        DescribeClientQuotasRequest.Component(
            entity_type=kind, match_type=0 if name else 1, match=name
        )
        for kind, name in entity.items()
    ]
    return bool(raw.call(DescribeClientQuotasRequest(components=components, strict=True)).entries)


def is_gone(raw: RawClient, entity: dict[str, str | None]) -> bool:
    return not described(raw, entity)


def produced(topic: str, size: int, *, acks: int = 1) -> ProduceRequest:
    return produce_request(topic, batch(b"x" * size), acks=acks)


def until_throttled(client: RawClient, topic: str) -> None:
    """Uses up ten windows of 10,000 bytes, and more until the client has to wait.

    A quota that is described may take another moment to hold.
    """
    throttle_of(client, produced(topic, 90_000), 9)
    more = produced(topic, 10_000)
    eventually(lambda: throttle_of(client, more, 9), "the producer is throttled")


def throttle_of(client: RawClient, request: object, version: int) -> int:
    return int(client.call(request, version).throttle_time_ms)


def test_a_producer_hears_how_long_it_has_to_wait(
    client: RawClient, raw: RawClient, topic: str, quota: Any
) -> None:
    assert throttle_of(client, produced(topic, 20_000), 9) == 0
    quota("producer_byte_rate", 10_000)
    until_throttled(client, topic)
    assert throttle_of(raw, produced(topic, 101_000), 9) == 0, "another client id is not"


def test_a_throttled_connection_is_answered_later_and_not_lost(
    client: RawClient, topic: str, quota: Any
) -> None:
    quota("producer_byte_rate", 10_000)
    until_throttled(client, topic)
    first = client.send(produced(topic, 10), 9)
    second = client.send(produced(topic, 10), 9)
    for correlation_id in (first, second):
        answer = client.receive(produced(topic, 10), 9, correlation_id)
        assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE


def test_a_throttled_fetch_is_empty_and_its_records_come_later(
    client: RawClient, raw: RawClient, topic: str, quota: Any
) -> None:
    raw.call(produced(topic, 6_000), 9)
    quota("consumer_byte_rate", 10_000)
    request = fetch_request(topic, 0)
    answers: list[Any] = []

    def is_throttled() -> bool:
        answers.append(client.call(request, 11))
        return bool(answers[-1].throttle_time_ms)

    eventually(is_throttled, "the consumer is throttled")
    assert answers[-1].error_code == ErrorCode.NONE
    assert not answers[-1].responses
    later = client.call(request, 11)
    assert later.throttle_time_ms or later.responses[0].partitions[0].records


def test_a_users_quota_is_stronger_than_a_client_ids(
    client: RawClient, topic: str, quota: Any
) -> None:
    quota("producer_byte_rate", 10_000)
    until_throttled(client, topic)
    quota("producer_byte_rate", 1e9, user="ANONYMOUS")
    eventually(lambda: throttle_of(client, produced(topic, 10), 9) == 0, "the user's quota holds")
    assert throttle_of(client, produced(topic, 101_000), 9) == 0


def test_a_client_that_takes_too_much_of_the_brokers_time_has_to_wait(
    client: RawClient, raw: RawClient, quota: Any
) -> None:
    metadata = MetadataRequest(topics=[])
    assert throttle_of(client, metadata, 4) == 0
    quota("request_percentage", 0.000_001)
    eventually(lambda: throttle_of(client, metadata, 4), "the client is throttled")
    assert throttle_of(raw, metadata, 4) == 0, "another client id is not"


def a_topic(name: str, partitions: int) -> CreateTopicsRequest.Topic:
    return CreateTopicsRequest.Topic(
        name=name, num_partitions=partitions, replication_factor=1, assignments=[], configs=[]
    )


def test_topic_changes_beyond_the_quota_are_refused(
    client: RawClient, raw: RawClient, unique: Any, quota: Any
) -> None:
    quota("controller_mutation_rate", 0.001)
    name = unique("changed")

    def create(name: str, version: int) -> tuple[int, bool]:
        answer = call_apart(client, CreateTopicsRequest(topics=[a_topic(name, 2)]), version)
        return answer.topics[0].error_code, answer.throttle_time_ms > 0

    refused = ErrorCode.THROTTLING_QUOTA_EXCEEDED
    # The bucket holds less than a partition; what empties it is still done.
    assert create(name, 6)[0] == ErrorCode.NONE
    eventually(lambda: create(unique("more"), 6) == (refused, True), "one of the next is refused")
    eventually(lambda: raw.knows_leaders(name, 2), "the broker knows the first")
    grow = CreatePartitionsRequest.Topic(name=name, count=3, assignments=None)
    request = CreatePartitionsRequest(topics=[grow], timeout_ms=5000, validate_only=False)
    answer = call_apart(client, request, 3)
    assert (answer.results[0].error_code, answer.throttle_time_ms > 0) == (refused, True)
    answer = call_apart(client, DeleteTopicsRequest(topic_names=[name], timeout_ms=5000), 5)
    assert (answer.responses[0].error_code, answer.throttle_time_ms > 0) == (refused, True)


def test_topic_changes_that_fail_anyway_do_not_count(
    client: RawClient, raw: RawClient, unique: Any, quota: Any
) -> None:
    known, unknown = unique("known"), unique("unknown")
    raw.call(CreateTopicsRequest(topics=[a_topic(known, 2)]), 6)
    eventually(lambda: raw.knows_leaders(known, 2), "the topic is known")
    quota("controller_mutation_rate", 0.001)
    again = CreateTopicsRequest(topics=[a_topic(known, 2)])
    bad_name = CreateTopicsRequest(topics=[a_topic("a/b", 2)])
    delete = DeleteTopicsRequest(topic_names=[unknown], timeout_ms=5000)
    _Topic = CreatePartitionsRequest.Topic
    shrink, grow = (
        CreatePartitionsRequest(
            topics=[_Topic(name=name, count=count, assignments=None)],
            timeout_ms=5000,
            validate_only=False,
        )
        for name, count in ((known, 1), (unknown, 5))
    )
    for request, version, results, code in (
        (again, 6, "topics", ErrorCode.TOPIC_ALREADY_EXISTS),
        (bad_name, 6, "topics", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (delete, 5, "responses", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (shrink, 3, "results", ErrorCode.INVALID_PARTITIONS),
        (grow, 3, "results", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ):
        for _ in range(3):
            answer = call_apart(client, request, version)
            (result,) = getattr(answer, results)
            assert (result.error_code, answer.throttle_time_ms) == (code, 0), request


def call_apart(client: RawClient, request: object, version: int) -> Any:
    """Any: the response. On a connection of its own, for the other one is muted."""
    host, port = client._socket.getpeername()
    with RawClient(host, port, client_id=client._client_id) as other:
        return other.call(request, version)


def test_an_address_may_open_so_many_connections_only(
    cluster: Cluster, raw: RawClient, quota: Any
) -> None:
    quota("connection_creation_rate", 1.0, ip="127.0.0.1")

    def is_turned_away() -> bool:
        try:
            with RawClient(*parse_address(cluster.bootstrap_servers)) as client:
                client.call(MetadataRequest(topics=[]), 4)
        except ConnectionError:
            return True
        return False

    eventually(is_turned_away, "a connection is turned away")
    alter(raw, {"ip": "127.0.0.1"}, "connection_creation_rate", None)
    # A quota that is no longer described may hold for a moment, and for the next test.
    eventually(lambda: not is_turned_away(), "connections are let in again")
