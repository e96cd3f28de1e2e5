"""How far a query has read: the partitions it reads, and the records that are missing."""

import pytest

from embedkafka.runtime.failures import ConfigError
from embedkafka.runtime.ids import TopicPartition
from embedkafka.spark.offsets import (
    choose_partitions,
    describe_missing,
    end_offsets,
    find_missing,
    parse_offsets,
)

ZERO, ONE = TopicPartition("orders", 0), TopicPartition("orders", 1)
KNOWN = {"orders": {0, 1}, "orders-eu": {0}, "__consumer_offsets": {0, 1}}


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ('{"orders":{"0":5,"1":0}}', {ZERO: 5, ONE: 0}),
        ({"orders": {"0": 5}}, {ZERO: 5}),
        ("{'orders': {'0': 5, '1': 0}}", {ZERO: 5, ONE: 0}),  # of PySpark 4.1 and Spark Connect
        ("{'it\\'s': {'0': 1}}", {TopicPartition("it's", 0): 1}),
        ("{'logOffset': 3}", {}),
        ("{'orders': {'0': None}}", {}),
        ("{'orders': {'shard': 1}}", {}),
        ("None", {}),
        ("", {}),
        ("shard-000:49590338271490256608559692538361571095921575989136588898", {}),
        ("{'orders': __import__('os')}", {}),
        ("{" * 5000, {}),
        ("[" * 200_000, {}),
        ("-" * 200_000 + "1", {}),
        ('{"logOffset":3}', {}),  # of a file source
        ("7", {}),  # of a rate source
        (None, {}),
    ],
)
def test_offsets_are_read_as_spark_writes_them(written: object, read: object) -> None:
    assert parse_offsets(written) == read


def test_nothing_is_missing_once_every_partition_is_at_its_end() -> None:
    assert find_missing({ZERO: 5, ONE: 2}, [{ZERO: 5, ONE: 3}]) == {}


def test_a_partition_behind_its_end_and_one_not_begun_are_missing() -> None:
    assert find_missing({ZERO: 5, ONE: 2}, [{ZERO: 4}]) == {ZERO: (4, 5), ONE: (None, 2)}


def test_an_empty_partition_needs_no_source() -> None:
    assert find_missing({ZERO: 0}, []) == {}


def test_of_two_sources_of_a_topic_the_slower_one_counts() -> None:
    assert find_missing({ZERO: 5}, [{ZERO: 5}, {ZERO: 1}]) == {ZERO: (1, 5)}
    assert find_missing({ZERO: 5, ONE: 5}, [{ZERO: 5}, {ONE: 5}]) == {}


def test_what_is_missing_is_one_line() -> None:
    said = describe_missing({ONE: (None, 2), ZERO: (4, 5)})
    assert said == "orders-0 at 4 of 5, orders-1 not read yet, 2 offsets"


@pytest.mark.parametrize(
    ("options", "chosen"),
    [
        ({"subscribe": "orders, gone"}, {ZERO, ONE}),
        ({"subscribepattern": "orders.*"}, {ZERO, ONE, TopicPartition("orders-eu", 0)}),
        ({"subscribepattern": ".*offsets"}, set()),
        ({"assign": '{"orders": [1, 9]}'}, {ONE}),
    ],
)
def test_a_source_reads_what_its_options_choose(
    options: dict[str, str], chosen: set[TopicPartition]
) -> None:
    assert choose_partitions(options, KNOWN) == chosen


def test_credentials_that_only_javas_client_understands_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"trust\.jks is a Java key store"):
        end_offsets({"kafka.ssl.truststore.location": "trust.jks", "subscribe": "orders"}, 1)


def test_the_ends_are_asked_for_with_the_credentials_of_the_query() -> None:
    options = {
        "kafka.bootstrap.servers": "127.0.0.1:1",
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.jaas.config": 'Module required username="alice";',
    }
    with pytest.raises(ConfigError, match=r"sasl\.jaas\.config must hold the password"):
        end_offsets({**options, "subscribe": "orders"}, 1)
