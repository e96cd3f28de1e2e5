"""Details of answers that stock clients hide: null or empty, one entry or two, a default or not."""

import time
from collections.abc import Callable
from uuid import UUID

import pytest

from embedkafka.protocol.api_keys import ApiKey
from embedkafka.protocol.wire_types import OPERATIONS_OMITTED
from tests.wire.clients import Cluster
from tests.wire.one_partition import batch
from tests.wire.plain_messages import Plain, ask, request
from tests.wire.raw_client import RawClient

Unique = Callable[[str], str]

NO_SUCH_ID = UUID(int=12345)
UNKNOWN = "UNKNOWN_TOPIC_OR_PARTITION"
MALFORMED = (
    "This most likely occurs because of a request being malformed by the client library or the "
    "message was sent to an incompatible broker. See the broker logs for more details."
)


def committed(*partitions: int) -> list[Plain]:
    return [
        {"partition_index": index, "committed_offset": 1, "committed_metadata": ""}
        for index in partitions
    ]


def test_a_topic_has_one_entry_for_committed_and_refused_offsets(
    raw: RawClient, topic: str, unique: Unique
) -> None:
    found = raw.call(request(ApiKey.METADATA, topics=[{"name": topic}]), 12).topics[0]
    group = unique("group")
    answer = ask(
        raw,
        ApiKey.OFFSET_COMMIT,
        10,
        group_id=group,
        topics=[
            {"topic_id": found.topic_id, "partitions": committed(0, 9)},
            {"topic_id": NO_SUCH_ID, "partitions": committed(0)},
        ],
    )
    assert sorted(
        [(p["partition_index"], p["error_code"]) for p in entry["partitions"]]
        for entry in answer["topics"]
    ) == [[(0, "UNKNOWN_TOPIC_ID")], [(9, UNKNOWN), (0, "NONE")]]


def test_offsets_of_a_missing_partition_cannot_be_deleted(
    raw: RawClient, topic: str, unique: Unique
) -> None:
    group = unique("group")
    topics = [{"name": topic, "partitions": committed(0)}]
    ask(raw, ApiKey.OFFSET_COMMIT, 9, group_id=group, topics=topics)
    doomed = [
        {"name": topic, "partitions": [{"partition_index": 0}, {"partition_index": 9}]},
        {"name": "missing", "partitions": [{"partition_index": 0}]},
    ]
    answer = ask(raw, ApiKey.OFFSET_DELETE, group_id=group, topics=doomed)
    assert {
        (entry["name"], p["partition_index"]): p["error_code"]
        for entry in answer["topics"]
        for p in entry["partitions"]
    } == {(topic, 0): "NONE", (topic, 9): UNKNOWN, ("missing", 0): UNKNOWN}
    assert len(answer["topics"]) == 2


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"group_id": ""}, "GroupId can't be empty."),
        ({"group_id": " "}, "GroupId can't be empty."),
        ({"member_id": " "}, "MemberId can't be empty."),
        ({"instance_id": " "}, "InstanceId can't be empty."),
        ({"rack_id": " "}, "RackId can't be empty."),
        ({"member_epoch": -3}, "MemberEpoch is invalid."),
        ({"member_epoch": -2}, "InstanceId can't be null."),
        ({"rebalance_timeout_ms": -1}, "RebalanceTimeoutMs must be provided in first request."),
        ({"topic_partitions": None}, "TopicPartitions must be empty when (re-)joining."),
        (
            {"server_assignor": "made-up"},
            "ServerAssignor made-up is not supported. Supported assignors: uniform, range.",
        ),
    ],
)
def test_any_broker_refuses_a_heartbeat_that_makes_no_sense(
    three_brokers: Cluster, fields: dict[str, Plain], message: str
) -> None:
    beat = {
        "group_id": "any-group",
        "member_id": "m",
        "member_epoch": 0,
        "rebalance_timeout_ms": 1000,
        "subscribed_topic_names": ["topic"],
        "topic_partitions": [],
        **fields,
    }
    for index in range(three_brokers.broker_count):
        with three_brokers.connect(index) as raw:
            answer = ask(raw, ApiKey.CONSUMER_GROUP_HEARTBEAT, **beat)
        assert answer["error_message"] == message


def test_a_missing_group_allows_nothing(raw: RawClient, unique: Unique) -> None:
    group = unique("group")
    (classic,) = ask(
        raw, ApiKey.DESCRIBE_GROUPS, groups=[group], include_authorized_operations=True
    )["groups"]
    (modern,) = ask(
        raw,
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        group_ids=[group],
        include_authorized_operations=True,
    )["groups"]
    for described in (classic, modern):
        assert described["error_code"] == "GROUP_ID_NOT_FOUND"
        assert described["authorized_operations"] == OPERATIONS_OMITTED


def test_a_found_coordinator_has_a_message(raw: RawClient) -> None:
    (found,) = ask(raw, ApiKey.FIND_COORDINATOR, coordinator_keys=["group"])["coordinators"]
    assert (found["error_code"], found["error_message"]) == ("NONE", "")
    older = ask(raw, ApiKey.FIND_COORDINATOR, 2, key="group")
    assert (older["error_code"], older["error_message"]) == ("NONE", "NONE")
    (refused,) = ask(raw, ApiKey.FIND_COORDINATOR, key_type=3, coordinator_keys=["x"])[
        "coordinators"
    ]
    assert (refused["error_code"], refused["error_message"]) == ("INVALID_REQUEST", MALFORMED)


@pytest.mark.parametrize("version", [7, 9, 12])
@pytest.mark.parametrize("cut", [3, 50])
def test_a_cut_batch_never_reaches_the_log(
    raw: RawClient, topic: str, version: int, cut: int
) -> None:
    records = batch(b"a", b"b", timestamp=int(time.time() * 1000))[:-cut]
    answer = ask(
        raw,
        ApiKey.PRODUCE,
        version,
        acks=1,
        timeout_ms=10_000,
        topic_data=[{"name": topic, "partition_data": [{"index": 0, "records": records}]}],
    )
    (partition,) = answer["responses"][0]["partition_responses"]
    assert (partition["error_code"], partition["error_message"]) == ("INVALID_RECORD", None)
    assert (partition["base_offset"], partition["log_start_offset"]) == (-1, -1)


@pytest.mark.parametrize("version", [4, 7, 12])
def test_a_fetch_that_finds_no_partition_lists_no_transactions(
    raw: RawClient, version: int
) -> None:
    partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1}
    topics = [{"topic": "missing", "partitions": [partition]}]
    answer = ask(raw, ApiKey.FETCH, version, max_wait_ms=0, min_bytes=0, topics=topics)
    (found,) = answer["responses"][0]["partitions"]
    assert (found["error_code"], found["aborted_transactions"]) == (UNKNOWN, [])


USER = [{"entity_type": "user", "entity_name": "u"}]
ADDRESS = [{"entity_type": "ip", "entity_name": "10.0.0.1"}]


@pytest.mark.parametrize(
    ("entity", "ops", "message"),
    [
        (USER, [("producer_byte_rate", 1.5)], "producer_byte_rate cannot be a fractional value."),
        (
            USER,
            [("consumer_byte_rate", 1e30)],
            "Proposed value for consumer_byte_rate is too large for a LONG.",
        ),
        (USER, [("connection_creation_rate", 5)], None),
        (USER, [("producer_byte_rate", 2e-6)], "producer_byte_rate cannot be a fractional value."),
        (USER, [("producer_byte_rate", 3 - 5e-7)], None),
        (
            [{"entity_type": "ip", "entity_name": "not an ip"}],
            [("connection_creation_rate", 5)],
            "not an ip is not a valid IP or resolvable host.",
        ),
        (
            [*USER, *ADDRESS],
            [("connection_creation_rate", 5)],
            "Invalid quota entity combination, IP entity shouldnot be combined with User or "
            "ClientId",
        ),
        ([], [("producer_byte_rate", 5)], "Invalid empty client quota entity"),
        (
            [{"entity_type": "group", "entity_name": "g"}],
            [("producer_byte_rate", 5)],
            "Unhandled client quota entity type: group",
        ),
        (
            [{"entity_type": "user", "entity_name": ""}],
            [("producer_byte_rate", 5)],
            "Empty user not supported",
        ),
        (
            USER,
            [("producer_byte_rate", 5), ("producer_byte_rate", 6)],
            "Ignoring duplicate entity ClientQuotaEntity(entries={user=u})",
        ),
    ],
)
def test_a_quota_that_cannot_be_is_explained(
    raw: RawClient, entity: Plain, ops: list[tuple[str, float]], message: str | None
) -> None:
    changes = [{"key": key, "value": value, "remove": False} for key, value in ops]
    (answer,) = ask(
        raw,
        ApiKey.ALTER_CLIENT_QUOTAS,
        entries=[{"entity": entity, "ops": changes}],
        validate_only=True,
    )["entries"]
    assert answer["error_code"] == "INVALID_REQUEST"
    assert message is None or answer["error_message"] == message


@pytest.mark.parametrize("rate", [5e-7, 3 + 5e-7])
def test_a_rate_that_is_hardly_more_than_whole_is_taken(raw: RawClient, rate: float) -> None:
    change = {"key": "producer_byte_rate", "value": rate, "remove": False}
    entry = {"entity": USER, "ops": [change]}
    answer = ask(raw, ApiKey.ALTER_CLIENT_QUOTAS, entries=[entry], validate_only=True)
    assert answer["entries"][0]["error_code"] == "NONE"


def test_an_unknown_quota_may_be_removed(raw: RawClient) -> None:
    removal = {"key": "made_up", "value": 0.0, "remove": True}
    (answer,) = ask(
        raw,
        ApiKey.ALTER_CLIENT_QUOTAS,
        entries=[{"entity": USER, "ops": [removal]}],
        validate_only=True,
    )["entries"]
    assert answer["error_code"] == "NONE"


EXACT, DEFAULT, SPECIFIED = 0, 1, 2


@pytest.mark.parametrize(
    ("components", "code", "message"),
    [
        ([], "NONE", ""),
        ([("group", EXACT, "x")], "UNSUPPORTED_VERSION", "Unsupported entity type group"),
        ([("", EXACT, "x")], "INVALID_REQUEST", "Invalid empty entity type."),
        (
            [("user", EXACT, "a"), ("user", EXACT, "b")],
            "INVALID_REQUEST",
            "Entity type user cannot appear more than once in the filter.",
        ),
        (
            [("user", EXACT, "a"), ("ip", EXACT, "10.0.0.1")],
            "INVALID_REQUEST",
            "Invalid entity filter component combination. IP filter component should not be used "
            "with user or clientId filter component.",
        ),
        ([("user", 9, "a")], "INVALID_REQUEST", "Unknown match type 9"),
        (
            [("user", EXACT, None)],
            "INVALID_REQUEST",
            "Request specified MATCH_TYPE_EXACT, but set match string to null.",
        ),
        (
            [("user", SPECIFIED, "a")],
            "INVALID_REQUEST",
            "Request specified MATCH_TYPE_SPECIFIED, but also specified a match string.",
        ),
    ],
)
def test_a_filter_of_quotas_that_cannot_match_is_refused(
    raw: RawClient, components: list[tuple[str, int, str | None]], code: str, message: str
) -> None:
    answer = ask(
        raw,
        ApiKey.DESCRIBE_CLIENT_QUOTAS,
        components=[
            {"entity_type": kind, "match_type": how, "match": name}
            for kind, how, name in components
        ],
        strict=False,
    )
    assert (answer["error_code"], answer["error_message"]) == (code, message)
    assert (answer["entries"] is None) is (code != "NONE")
