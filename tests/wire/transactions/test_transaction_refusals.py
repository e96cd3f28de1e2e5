"""Partitions that a transaction refuses, each with an error of its own."""

from embedkafka.protocol.api_keys import ApiKey
from tests.wire.plain_messages import Plain, plain, request
from tests.wire.raw_client import RawClient

PRODUCER = {"producer_id": 1, "producer_epoch": 0}


def test_a_client_adds_no_internal_topic_to_a_transaction(raw: RawClient, topic: str) -> None:
    answer = raw.call(
        request(
            ApiKey.ADD_PARTITIONS_TO_TXN,
            v3_and_below_transactional_id="unknown",
            v3_and_below_producer_id=1,
            v3_and_below_topics=[
                {"name": "__consumer_offsets", "partitions": [0]},
                {"name": topic, "partitions": [0, 9]},
            ],
        ),
        3,
    )
    found: Plain = {
        (added["name"], result["partition_index"]): result["partition_error_code"]
        for added in plain(answer)["results_by_topic_v3_and_below"]
        for result in added["results_by_partition"]
    }
    assert found == {
        ("__consumer_offsets", 0): "TOPIC_AUTHORIZATION_FAILED",
        (topic, 0): "OPERATION_NOT_ATTEMPTED",
        (topic, 9): "UNKNOWN_TOPIC_OR_PARTITION",
    }


def test_offsets_of_a_missing_partition_do_not_enter_a_transaction(
    raw: RawClient, topic: str
) -> None:
    offsets = [
        {"partition_index": index, "committed_offset": 1, "committed_metadata": ""}
        for index in (0, 9)
    ]
    committed = [{"name": name, "partitions": offsets} for name in (topic, "missing")]
    fields = {"transactional_id": "unknown", "group_id": "group", "topics": committed}
    answer = raw.call(request(ApiKey.TXN_OFFSET_COMMIT, **PRODUCER, **fields), 3)
    assert {
        entry["name"]: {p["partition_index"]: p["error_code"] for p in entry["partitions"]}
        for entry in plain(answer)["topics"]
    } == {
        topic: {0: "INVALID_PRODUCER_ID_MAPPING", 9: "UNKNOWN_TOPIC_OR_PARTITION"},
        "missing": dict.fromkeys((0, 9), "UNKNOWN_TOPIC_OR_PARTITION"),
    }
    assert len(answer.topics) == 2


def test_a_partition_added_twice_is_answered_twice(raw: RawClient, topic: str) -> None:
    answer = raw.call(
        request(
            ApiKey.ADD_PARTITIONS_TO_TXN,
            v3_and_below_transactional_id="unknown",
            v3_and_below_producer_id=1,
            v3_and_below_topics=[
                {"name": topic, "partitions": [0, 0]},
                {"name": topic, "partitions": []},
                {"name": topic, "partitions": [0]},
            ],
        ),
        3,
    )
    added = plain(answer)["results_by_topic_v3_and_below"]
    refused = {"partition_index": 0, "partition_error_code": "INVALID_PRODUCER_ID_MAPPING"}
    assert [entry["results_by_partition"] for entry in added] == [[refused] * 2, [], [refused]]


def test_a_partition_to_verify_twice_is_answered_once(raw: RawClient, topic: str) -> None:
    transaction = {
        "transactional_id": "unknown",
        "verify_only": True,
        **PRODUCER,
        "topics": [{"name": topic, "partitions": [0, 0]}, {"name": topic, "partitions": [0]}],
    }
    answer = raw.call(request(ApiKey.ADD_PARTITIONS_TO_TXN, transactions=[transaction]), 4)
    (result,) = plain(answer)["results_by_transaction"]
    (found,) = result["topic_results"]
    assert [entry["partition_index"] for entry in found["results_by_partition"]] == [0]


def test_markers_for_no_partition_are_not_answered(raw: RawClient, topic: str) -> None:
    def answered(*partitions: list[int]) -> Plain:
        topics = [{"name": topic, "partition_indexes": indexes} for indexes in partitions]
        marker = {**PRODUCER, "transaction_result": False, "topics": topics}
        marker["coordinator_epoch"] = 0
        (*markers,) = plain(raw.call(request(ApiKey.WRITE_TXN_MARKERS, markers=[marker]), 1))[
            "markers"
        ]
        return [len(found["topics"]) for found in markers]

    assert answered([]) == []
    assert answered([], [9]) == [1]
