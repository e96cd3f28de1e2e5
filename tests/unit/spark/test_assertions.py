"""The records of a topic, compared with the expected ones."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from embedkafka.cluster.clients.message import Message
from embedkafka.runtime.failures import ConfigError
from embedkafka.spark.assertions import assert_topic_equals, latest_by_key


class Records:
    """A topic handle backed by a list."""

    name = "orders"

    def __init__(self, *messages: Message) -> None:
        self._messages = messages

    def spark_options(self) -> Mapping[str, str]:
        raise AssertionError("no test here starts Spark")

    @property
    def decode(self) -> Callable[[bytes], Any] | None:
        return self._messages[0].decode if self._messages else None

    def read(self) -> Sequence[Message]:
        return self._messages


def message(offset: int, key: str | None, value: str | bytes | None, **other: Any) -> Message:
    data = value.encode() if isinstance(value, str) else value
    at = {"topic": "orders", "partition": 0, "timestamp_ms": offset, **other}
    return Message(offset=offset, key=None if key is None else key.encode(), value=data, **at)


def test_the_last_value_of_each_key_counts() -> None:
    topic = Records(
        message(0, "a", '{"n": 1}'), message(1, "b", '{"n": 2}'), message(2, "a", '{"n": 3}')
    )
    assert latest_by_key(topic) == {"a": {"n": 3}, "b": {"n": 2}}


def test_a_tombstone_removes_its_key() -> None:
    assert latest_by_key(Records(message(0, "a", "1"), message(1, "a", None))) == {}


def test_values_that_are_not_json_are_text_or_bytes() -> None:
    topic = Records(message(0, "a", "plain"), message(1, "b", b"\xff"), message(2, "c", "2"))
    assert latest_by_key(topic) == {"a": "plain", "b": b"\xff", "c": 2}


def test_of_a_key_in_two_partitions_the_latest_timestamp_counts() -> None:
    topic = Records(
        message(7, "a", '"old"', timestamp_ms=10),
        message(8, "a", '"older, and yet later"', timestamp_ms=9),
        message(0, "a", '"new"', partition=1, timestamp_ms=20),
    )
    assert latest_by_key(topic) == {"a": "new"}
    assert latest_by_key(Records(*reversed(topic.read()))) == {"a": "new"}
    same_partition = Records(*topic.read()[:2])
    assert latest_by_key(same_partition) == {"a": "older, and yet later"}


def test_a_record_without_a_key_is_refused() -> None:
    with pytest.raises(ConfigError, match="orders-0 offset 4 has no key"):
        latest_by_key(Records(message(4, None, "1")))


def test_a_topic_with_the_expected_rows_passes() -> None:
    topic = Records(message(0, "a", '{"n": 1}'), message(1, "b", '{"n": 2}'))
    assert_topic_equals(topic, [{"n": 2}, {"n": 1}])
    assert_topic_equals(topic, iter([{"n": 1}, {"n": 2}]), ignore_order=False)
    assert_topic_equals(topic, [{"n": 2}, {"n": 1}], by_key="n")


def test_a_topic_that_differs_says_where() -> None:
    topic = Records(message(4, "a", '{"id": 1, "n": 1}'))
    with pytest.raises(AssertionError) as failure:
        assert_topic_equals(topic, [{"id": 1, "n": 2}])
    assert str(failure.value).splitlines() == [
        "topic orders differs: 0 rows equal, 1 missing, 1 not expected",
        '- {"id": 1, "n": 2}',
        '+ {"id": 1, "n": 1}  at orders-0 offset 4',
        "    n: expected 2, found 1",
    ]


def test_comparisons_that_mean_nothing_are_refused() -> None:
    spread = Records(message(0, "a", "1"), message(0, "b", "2", partition=1))
    with pytest.raises(ConfigError, match="in several partitions, and no order"):
        assert_topic_equals(spread, [1, 2], ignore_order=False)
    with pytest.raises(ConfigError, match="there is no field 'k' in 1"):
        assert_topic_equals(spread, [1, 2], by_key="k")
    with pytest.raises(ConfigError, match="needs a schema that names its fields"):
        assert_topic_equals(spread, [(1,)])
    with pytest.raises(ConfigError, match="rows must be a list"):
        assert_topic_equals(spread, {"n": 1})
