"""Odd requests that random sequences (`tests/wire/differential`) found answered differently."""

from collections.abc import Callable
from uuid import UUID

from embedkafka.wire.protocol.api_keys import ApiKey
from embedkafka.wire.protocol.errors import ErrorCode
from tests.wire.clients import Cluster, create_topic, eventually
from tests.wire.one_partition import (
    LATEST,
    MAX_TIMESTAMP,
    batch,
    fetch_request,
    list_offset,
    produce,
    values_of,
)
from tests.wire.plain_messages import Plain, ask, request
from tests.wire.raw_client import RawClient

Unique = Callable[[str], str]

UNKNOWN = "UNKNOWN_TOPIC_OR_PARTITION"
NO_SUCH_ID = UUID(int=12345)
OLD = 1_700_000_000_000


def written(index: int, records: bytes) -> Plain:
    return {"index": index, "records": records}


def errors_of(answer: Plain, topics: str, partitions: str, index: str) -> list[tuple[int, str]]:
    return sorted(
        (partition[index], partition["error_code"])
        for topic in answer[topics]
        for partition in topic[partitions]
    )


def produced(raw: RawClient, version: int, *topics: Plain, acks: int = -1) -> Plain:
    fields = {"acks": acks, "timeout_ms": 10_000, "topic_data": list(topics)}
    return ask(raw, ApiKey.PRODUCE, version, **fields)


def refusals(answer: Plain) -> list[tuple[int, str]]:
    return errors_of(answer, "responses", "partition_responses", "index")


# Produce


def test_the_beginning_of_a_second_batch_is_dropped(raw: RawClient, topic: str) -> None:
    data = [written(0, batch(b"a") + batch(b"b")[:30])]
    assert refusals(produced(raw, 9, {"name": topic, "partition_data": data})) == [(0, "NONE")]
    answer = raw.call(fetch_request(topic, 0), 12)
    assert values_of(answer.responses[0].partitions[0]) == [b"a"]


def test_a_refused_batch_starts_a_segment_too(
    cluster: Cluster, raw: RawClient, unique: Unique
) -> None:
    config = {"internal.segment.bytes": "300", "retention.ms": "-1"}
    topic = create_topic(cluster, unique("odd"), config=config)
    given = raw.call(
        request(ApiKey.INIT_PRODUCER_ID, transactional_id=None, transaction_timeout_ms=1000)
    )
    known = {"producer_id": given.producer_id, "producer_epoch": given.producer_epoch}
    produce(raw, topic, batch(b"a", **known, base_sequence=0))
    refused = produce(raw, topic, batch(b"x" * 200, **known, base_sequence=7))
    assert refused.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    produce(raw, topic, batch(b"b", **known, base_sequence=1))
    answer = raw.call(fetch_request(topic, 0), 12)
    assert values_of(answer.responses[0].partitions[0]) == [b"a"]


# Fetch, ListOffsets


def wanted(partition: int, offset: int = 0, size: int = 1 << 20) -> Plain:
    return {"partition": partition, "fetch_offset": offset, "partition_max_bytes": size}


def fetched(raw: RawClient, *topics: Plain, version: int = 12, **more: Plain) -> Plain:
    fields = {"max_wait_ms": 0, "min_bytes": 0, "topics": list(topics), **more}
    return ask(raw, ApiKey.FETCH, version, **fields)


def test_what_was_read_comes_first_then_unknown_ids_then_missing_partitions(
    raw: RawClient, topic: str
) -> None:
    topic_id = raw.call(request(ApiKey.METADATA, topics=[{"name": topic}]), 12).topics[0].topic_id
    ours = {"topic_id": topic_id, "partitions": [wanted(7), wanted(0)]}
    other = {"topic_id": NO_SUCH_ID, "partitions": [wanted(0)]}
    answer = fetched(raw, ours, other, version=16)
    codes = [[p["error_code"] for p in found["partitions"]] for found in answer["responses"]]
    assert codes == [["NONE"], ["UNKNOWN_TOPIC_ID"], [UNKNOWN]]


def test_a_batch_for_which_there_is_no_room_has_no_list_of_transactions(
    cluster: Cluster, raw: RawClient, unique: Unique
) -> None:
    topic = create_topic(cluster, unique("odd"), partitions=2)
    for partition in (0, 1):
        produce(raw, topic, batch(b"a"), partition=partition)
    asked = {"topic": topic, "partitions": [wanted(0), wanted(1, size=1)]}
    (found,) = fetched(raw, asked, isolation_level=1)["responses"]
    assert [p["aborted_transactions"] for p in found["partitions"]] == [[], None]


def test_a_session_that_forgets_what_it_asks_for_ends_with_an_answer(
    raw: RawClient, topic: str
) -> None:
    asked = {"topic": topic, "partitions": [wanted(0)]}
    opened = raw.call(
        request(ApiKey.FETCH, max_wait_ms=0, min_bytes=0, session_epoch=0, topics=[asked]), 12
    )
    answer = fetched(
        raw,
        asked,
        session_id=opened.session_id,
        session_epoch=1,
        forgotten_topics_data=[{"topic": topic, "partitions": [0]}],
    )
    assert answer["session_id"] == 0
    assert errors_of(answer, "responses", "partitions", "partition_index") == [(0, "NONE")]


def test_a_time_is_looked_for_in_one_segment_only(
    cluster: Cluster, raw: RawClient, unique: Unique
) -> None:
    config = {"internal.segment.bytes": "100", "retention.ms": "-1"}
    topic = create_topic(cluster, unique("odd"), config=config)
    for _ in range(2):
        produce(raw, topic, batch(b"a", timestamp=OLD))
    assert list_offset(raw, topic, OLD).offset == 0
    deleted = {"name": topic, "partitions": [{"partition_index": 0, "offset": 1}]}
    ask(raw, ApiKey.DELETE_RECORDS, 2, topics=[deleted], timeout_ms=5000)
    assert list_offset(raw, topic, OLD).offset == -1


def test_records_without_timestamps_have_a_largest_one(raw: RawClient, topic: str) -> None:
    produce(raw, topic, batch(b"a", timestamp=-1))
    found = list_offset(raw, topic, MAX_TIMESTAMP)
    assert (found.offset, found.timestamp) == (0, -1)


# Groups


def test_a_commit_of_nothing_makes_no_group(raw: RawClient, unique: Unique) -> None:
    group = unique("group")
    ask(raw, ApiKey.OFFSET_COMMIT, 9, group_id=group, topics=[])
    listed = ask(raw, ApiKey.LIST_GROUPS, 5, states_filter=[], types_filter=[])
    assert group not in [found["group_id"] for found in listed["groups"]]


def joining(group: str, member: str) -> dict[str, Plain]:
    return {
        "group_id": group,
        "session_timeout_ms": 30_000,
        "rebalance_timeout_ms": 30_000,
        "member_id": member,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b""}],
    }


def join(raw: RawClient, group: str, member: str, **more: Plain) -> Plain:
    return ask(raw, ApiKey.JOIN_GROUP, 9, **joining(group, member), **more)


def test_a_member_cannot_become_static_with_an_id_it_was_just_given(
    raw: RawClient, unique: Unique
) -> None:
    group = unique("group")
    required = join(raw, group, "")
    assert required["error_code"] == "MEMBER_ID_REQUIRED"
    answer = join(raw, group, required["member_id"], group_instance_id="static")
    assert answer["error_code"] == "UNKNOWN_SERVER_ERROR"
    assert join(raw, group, required["member_id"])["error_code"] == "NONE"


def test_members_show_their_assignments_during_a_rebalance(
    cluster: Cluster, raw: RawClient, unique: Unique
) -> None:
    group = unique("group")
    member = join(raw, group, join(raw, group, "")["member_id"])
    assignments = [{"member_id": member["member_id"], "assignment": b"mine"}]
    ask(
        raw,
        ApiKey.SYNC_GROUP,
        5,
        group_id=group,
        generation_id=1,
        member_id=member["member_id"],
        protocol_type="consumer",
        protocol_name="range",
        assignments=assignments,
    )
    with cluster.connect() as other:
        given = join(other, group, "")["member_id"]
        other.send(request(ApiKey.JOIN_GROUP, **joining(group, given)), 9)

        def rebalancing() -> Plain:
            found = ask(raw, ApiKey.DESCRIBE_GROUPS, 5, groups=[group])["groups"][0]
            return found if found["group_state"] == "PreparingRebalance" else None

        described = eventually(rebalancing, f"{group} prepares a rebalance")
    shown = {found["member_id"]: found["member_assignment"] for found in described["members"]}
    assert shown[member["member_id"]] == b"mine".hex()


# Transactions


def abort_marker(raw: RawClient, topic: str) -> dict[str, Plain]:
    """For a new producer, in the first partition."""
    given = raw.call(
        request(ApiKey.INIT_PRODUCER_ID, transactional_id=None, transaction_timeout_ms=1000)
    )
    return {
        "producer_id": given.producer_id,
        "producer_epoch": given.producer_epoch,
        "transaction_result": False,
        "topics": [{"name": topic, "partition_indexes": [0]}],
        "coordinator_epoch": 0,
    }


def test_markers_are_answered_once_for_each_producer(raw: RawClient, topic: str) -> None:
    marker = abort_marker(raw, topic)
    answer = ask(raw, ApiKey.WRITE_TXN_MARKERS, 1, markers=[marker, marker])
    assert [errors_of(m, "topics", "partitions", "partition_index") for m in answer["markers"]] == [
        [(0, "NONE")]
    ]
    missing = {**marker, "producer_id": -1, "topics": [{"name": topic, "partition_indexes": [9]}]}
    (found,) = ask(raw, ApiKey.WRITE_TXN_MARKERS, 1, markers=[missing])["markers"]
    assert errors_of(found, "topics", "partitions", "partition_index") == [(9, UNKNOWN)]


def test_markers_before_one_without_a_producer_are_written(raw: RawClient, topic: str) -> None:
    good = abort_marker(raw, topic)
    bad = {**good, "producer_id": -1}
    answer = ask(raw, ApiKey.WRITE_TXN_MARKERS, 1, markers=[good, bad, good])
    assert sorted(marker["producer_id"] for marker in answer["markers"]) == [
        -1,
        good["producer_id"],
    ]
    for marker in answer["markers"]:
        assert errors_of(marker, "topics", "partitions", "partition_index") == [
            (0, "UNKNOWN_SERVER_ERROR")
        ]
    assert list_offset(raw, topic, LATEST).offset == 1


def test_a_batch_that_waits_for_its_coordinator_keeps_later_ones_out(
    raw: RawClient, topic: str, unique: Unique
) -> None:
    name = unique("txn")
    given = raw.call(
        request(ApiKey.INIT_PRODUCER_ID, transactional_id=name, transaction_timeout_ms=30_000), 4
    )
    known = {"producer_id": given.producer_id, "producer_epoch": given.producer_epoch}
    records = batch(b"a", **known, base_sequence=-1, transactional=True)
    assert produce(raw, topic, records, transactional_id=name, version=12).error_code != 0
    records = batch(b"a", **known, base_sequence=0, transactional=True)
    answer = produce(raw, topic, records, transactional_id=name, version=12)
    assert answer.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


# Settings
