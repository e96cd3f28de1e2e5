"""Refusals: in every version the client learns of the error, about what it asked for."""

from collections.abc import Iterator
from typing import Any, Final

import pytest

from embedkafka.wire.protocol import codec
from embedkafka.wire.protocol.api_keys import ApiKey
from embedkafka.wire.protocol.errors import ErrorCode
from embedkafka.wire.protocol.message import REQUIRED, schema_of
from embedkafka.wire.protocol.messages.registry import (
    FAMILIES,
    request_type,
    response_type,
    versions,
)
from embedkafka.wire.protocol.refusals import (
    can_refuse,
    default_of,
    joined,
    merged,
    refusal,
)
from embedkafka.wire.protocol.wire_types import Array, Struct, Variable
from tests.wire.plain_messages import Plain, plain, request

FAILED: Final = ErrorCode.INVALID_RECORD
APIS: Final = [api for apis in FAMILIES.values() for api in apis]
SILENT: Final = {(ApiKey.DESCRIBE_LOG_DIRS, version) for version in range(3)}
"""Versions whose answer has no place for an error."""


def told(api: ApiKey, version: int, **fields: Plain) -> Plain:
    """The fields of a refusal that the client sees, without those that are 0 or empty."""
    refused = refusal(request(api, **fields), FAILED, version, "why")
    data = memoryview(codec.encode(refused, version))
    return bare(plain(codec.decode(response_type(api), version, data)))


def bare(value: Plain) -> Plain:
    if isinstance(value, dict):
        return {name: bare(each) for name, each in value.items() if each or each is None}
    return [bare(each) for each in value] if isinstance(value, list) else value


ERROR: Final = {"error_code": FAILED.name}


@pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)
def test_every_version_tells_its_client(api: ApiKey) -> None:
    assert can_refuse(api)
    low, high = versions(request_type(api))
    for version in range(low, high + 1):
        response = refusal(filled(request_type(api), version), FAILED, version)
        data = codec.encode(response, version)
        found = list(errors_in(codec.decode(response_type(api), version, memoryview(data))))
        assert (FAILED in found) is ((api, version) not in SILENT), f"v{version}: {response}"


def filled(cls: Any, version: int) -> Any:
    """A message with one element in every array that the version has."""

    def value(field: Any) -> Any:
        if isinstance(field.type, Array):
            element = field.type.element
            if isinstance(element, Struct):
                return [filled(element.cls, version)]
            return ["" if element is Variable.STRING else 0]
        return default_of(field, version) if field.default is REQUIRED else field.default

    fields = [field for field in schema_of(cls).fields if field.is_in(version)]
    return cls(**{field.name: value(field) for field in fields})


def errors_in(message: Any) -> Iterator[Any]:
    for field in schema_of(type(message)).fields:
        value = getattr(message, field.name)
        if field.name.endswith("error_code"):
            yield value
        elif isinstance(field.type, Array) and isinstance(field.type.element, Struct):
            for item in value or ():
                yield from errors_in(item)


def test_an_error_at_the_top_leaves_the_entries_out() -> None:
    left = told(ApiKey.LEAVE_GROUP, 4, group_id="g", members=[{"member_id": "m"}])
    assert left == ERROR


def test_entries_name_what_the_request_names() -> None:
    written = [{"name": "orders", "partition_data": [{"index": 3, "records": None}]}]
    (topic,) = told(ApiKey.PRODUCE, 7, acks=1, timeout_ms=1, topic_data=written)["responses"]
    assert topic["name"] == "orders"
    (partition,) = topic["partition_responses"]
    assert partition.items() >= {**ERROR, "index": 3, "base_offset": -1}.items()


def test_a_bare_name_stands_for_an_entry() -> None:
    named = {"transactional_ids": ["t"]}
    (state,) = told(ApiKey.DESCRIBE_TRANSACTIONS, 0, **named)["transaction_states"]
    assert state == {**ERROR, "transactional_id": "t"}
    (found,) = told(ApiKey.FIND_COORDINATOR, 4, coordinator_keys=["g"])["coordinators"]
    assert found == {**ERROR, "key": "g", "node_id": -1, "port": -1, "error_message": "why"}


def test_entries_come_from_the_structs_that_name_all_of_them() -> None:
    states = [
        {
            "topic_name": "orders",
            "partition_states": [
                {"partition_index": index, "delete_partition": False} for index in (0, 1)
            ],
        }
    ]
    stopped = told(ApiKey.STOP_REPLICA, 3, controller_id=1, controller_epoch=1, topic_states=states)
    assert stopped == {
        **ERROR,
        "partition_errors": [
            {**ERROR, "topic_name": "orders"},
            {**ERROR, "topic_name": "orders", "partition_index": 1},
        ],
    }
    topics = [{"name": "orders", "partitions": [2]}]
    moved = told(ApiKey.ALTER_REPLICA_LOG_DIRS, 1, dirs=[{"path": "/a", "topics": topics}])
    assert moved["results"] == [
        {"topic_name": "orders", "partitions": [{**ERROR, "partition_index": 2}]}
    ]


def test_what_was_asked_is_listed_even_without_errors_of_its_own() -> None:
    asked = [{"name": "orders", "partition_indexes": [1]}]
    listed = told(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, topics=asked)
    assert listed["topics"] == [{"name": "orders", "partitions": [{"partition_index": 1}]}]


def test_a_fetch_fails_by_partition_or_if_there_is_none_at_the_top() -> None:
    partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1}
    topics = [{"topic": "orders", "partitions": [partition]}]
    fetched = told(ApiKey.FETCH, 12, max_wait_ms=0, min_bytes=0, topics=topics)
    assert fetched["error_code"] == "NONE"
    assert fetched["responses"][0]["partitions"][0]["error_code"] == FAILED.name
    assert told(ApiKey.FETCH, 12, max_wait_ms=0, min_bytes=0, topics=[]) == ERROR


def test_users_are_refused_once_and_in_order() -> None:
    change = {"iterations": 1, "mechanism": 1, "salt": b"", "salted_password": b""}
    altered = told(
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        0,
        deletions=[{"name": "b", "mechanism": 1}],
        upsertions=[{"name": name, **change} for name in ("b", "a")],
    )
    assert [each["user"] for each in altered["results"]] == ["a", "b"]


def test_answers_to_parts_are_joined() -> None:
    parts = [
        refusal(request(ApiKey.DELETE_GROUPS, groups_names=[name]), FAILED, 2) for name in "ab"
    ]
    assert [group.group_id for group in joined(*parts).results] == ["a", "b"]


def test_an_error_can_be_in_every_entry() -> None:
    asked = [{"name": "orders", "partition_indexes": [1]}]
    groups = request(ApiKey.OFFSET_FETCH, groups=[{"group_id": "g", "topics": asked}])
    (group,) = refusal(groups, FAILED, 9, everywhere=True).groups
    assert [p.error_code for topic in group.topics for p in topic.partitions] == [FAILED]


def test_beside_an_answer_only_entries_are_refused() -> None:
    topics = [{"name": "orders", "partitions": [{"partition_index": 1}]}]
    asked = request(ApiKey.OFFSET_DELETE, group_id="g", topics=topics)
    refused = refusal(asked, FAILED, 0, in_part=True)
    assert refused.error_code == ErrorCode.NONE
    assert [p.error_code for topic in refused.topics for p in topic.partitions] == [FAILED]
    assert refusal(asked, FAILED, 0).topics == []


def test_entries_that_name_the_same_are_merged() -> None:
    topics = [
        {"name": name, "partitions": [{"partition_index": index, "offset": 0}]}
        for name, index in (("a", 0), ("b", 0), ("a", 1), ("a", 0))
    ]
    refused = refusal(request(ApiKey.DELETE_RECORDS, topics=topics, timeout_ms=0), FAILED, 2)
    found = {t.name: [p.partition_index for p in t.partitions] for t in merged(refused).topics}
    assert found == {"a": [0, 1], "b": [0]}
