"""Outputs become comparable values and are compared by key."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from embedkafka.cluster.clients.message import Message
from embedkafka.explore.options import Options
from embedkafka.explore.outputs import (
    Output,
    all_records,
    delta,
    files,
    iceberg,
    latest_by,
    latest_by_key,
    require_outputs,
    rows,
    table,
)
from embedkafka.runtime.failures import ConfigError

OPTIONS = Options(bootstrap_servers="localhost:9092", directory="/data", suffix="_1")
SPARK = cast(Any, object())


class FakeTopic:
    """Returns the records it was created with."""

    decode = None

    def __init__(self, *records: tuple[bytes | None, bytes | None]) -> None:
        self._records = records

    def read(self) -> list[Message]:
        return [
            Message(topic="t", partition=0, offset=offset, timestamp_ms=0, key=key, value=value)
            for offset, (key, value) in enumerate(self._records)
        ]


def found(output: Output, *records: tuple[bytes | None, bytes | None]) -> Any:
    return output.read(SPARK, OPTIONS, cast(Any, FakeTopic(*records)))


def test_the_latest_value_of_a_key_counts_and_a_tombstone_removes_it() -> None:
    output = latest_by_key()
    latest = found(
        output, (b"a", b"1"), (b"b", b'{"n": 1}'), (b"a", b"2"), (b"c", b"3"), (b"c", None)
    )
    assert latest == {"a": 2, "b": {"n": 1}}
    assert output.items(latest) == {"a": [2], "b": [{"n": 1}]}


def test_a_table_that_is_not_there_yet_has_no_rows(tmp_path: Path) -> None:
    options = Options(bootstrap_servers="localhost:9092", directory=str(tmp_path), suffix="_1")
    there: list[str] = []
    catalog = SimpleNamespace(tableExists=lambda name: name in there)
    session: Any = SimpleNamespace(catalog=catalog, table=lambda name: [{"name": name}])
    output = iceberg("local.shop.orders")
    assert output.read(session, options, None) == []
    there.append("local.shop.orders_1")
    assert output.read(session, options, None) == [{"name": "local.shop.orders_1"}]
    assert delta("orders").read(session, options, None) == []


def test_all_records_keep_their_order_per_key() -> None:
    output = all_records()
    records = found(output, (b"a", b"1"), (None, b"text"), (b"a", b"0"))
    assert records == [("a", 1), (None, "text"), ("a", 0)]
    assert output.items(records) == {"a": [1, 0], "": ["text"]}


def test_the_latest_value_with_the_same_fields_counts() -> None:
    output = latest_by("id", "at", ignore=["by"])
    values = [b'{"id": 1, "at": 5, "n": 1}', b'{"id": 1, "at": 6}', b'{"n": 2, "at": 5, "id": 1}']
    latest = found(output, *((None, value) for value in values))
    assert latest == [{"id": 1, "at": 5, "n": 2}, {"id": 1, "at": 6}]
    assert output.items(latest) == {"1, 5": [latest[0]], "1, 6": [latest[1]]}
    with pytest.raises(ConfigError, match="a row without the key 'at'"):
        found(output, (None, b'{"id": 1}'))
    with pytest.raises(ConfigError, match="needs a field of the values"):
        latest_by()


def test_records_that_may_be_there_again_count_once() -> None:
    output = all_records(duplicates=True)
    records = [(b"a", b"1"), (b"a", b"2"), (b"a", b"1"), (b"b", b"1"), (b"a", b"2")]
    assert output.items(found(output, *records)) == {"a": [1, 2], "b": [1]}
    assert len(found(output, *records)) == 5


def test_fields_to_ignore_are_not_compared_and_an_invariant_gets_them() -> None:
    record = (b"a", b'{"n": 1, "at": 9}')
    for output in (latest_by_key(ignore=["at"]), all_records(ignore=["at"])):
        assert output.items(found(output, record)) == {"a": [{"n": 1}]}
    assert found(all_records(ignore=["at"]), record) == [("a", {"n": 1, "at": 9})]
    given = [{"id": 1, "at": 9}]
    assert rows(lambda spark: given, ignore=["at"]).items(given) == {"": [{"id": 1}]}
    assert rows(lambda spark: given, key="at", ignore=["at"]).items(given) == {"9": [{"id": 1}]}
    for output in (table("out", ignore=["at"]), files("out", ignore=["at"])):
        assert output.items(given) == {"": [{"id": 1}]}
    with pytest.raises(ConfigError, match="ignore must be a list such as"):
        all_records(ignore="at")
    with pytest.raises(ConfigError, match="a field to ignore must be text"):
        table("out", ignore=[cast(Any, 3)])


def test_rows_of_a_function_of_the_session_or_of_the_options_too() -> None:
    def ledger(spark: object) -> list[dict[str, int]]:
        assert spark is SPARK
        return [{"id": 1}, {"id": 1}]

    def database(spark: object, options: Options) -> list[str]:
        return [options.path("ledger.db")]

    assert found(rows(ledger)) == [{"id": 1}, {"id": 1}]
    assert found(rows(database)) == ["/data/ledger.db"]
    assert rows(ledger, key="id").items(found(rows(ledger))) == {"1": [{"id": 1}, {"id": 1}]}
    assert rows(ledger).items([3, 4]) == {"": [3, 4]}


def test_a_mapping_is_compared_by_its_keys() -> None:
    output = rows(lambda spark: {"a": 1})
    assert output.items(found(output)) == {"a": [1]}


def test_a_function_stands_for_its_rows() -> None:
    (output,) = require_outputs({"ledger": lambda spark: [1]}).values()
    assert found(output) == [1]


@pytest.mark.parametrize("wrong", [{}, None, {"out": 7}])
def test_what_is_no_output_is_refused(wrong: object) -> None:
    with pytest.raises(ConfigError, match="output"):
        require_outputs(wrong)


def test_rows_that_are_none_and_rows_without_their_key_are_refused() -> None:
    with pytest.raises(ConfigError, match="rows or a mapping"):
        found(rows(lambda spark: 7))
    with pytest.raises(ConfigError, match="without the key 'id'"):
        rows(lambda spark: [], key="id").items([{"sku": 1}])


def test_only_a_table_in_memory_cannot_restart() -> None:
    outputs = (latest_by_key(), all_records(), files("f"), rows(lambda spark: []), table("t"))
    assert [output.can_restart for output in outputs] == [True, True, True, True, False]


def test_options_name_topics_checkpoints_tables_and_files() -> None:
    options = Options(bootstrap_servers="b:1", directory="/data", topics={"orders": "shop.orders"})
    assert options.read("orders", failOnDataLoss="false") == {
        "kafka.bootstrap.servers": "b:1",
        "subscribe": "shop.orders",
        "startingOffsets": "earliest",
        "failOnDataLoss": "false",
    }
    assert options.sink("orders")["checkpointLocation"] == options.checkpoint("orders")
    assert options.limited(3).read("orders")["maxOffsetsPerTrigger"] == "3"
    assert options.trigger == {"processingTime": "0 seconds"}  # `trigger()` refuses no argument
    assert OPTIONS.table("seen") == "seen_1"
    assert OPTIONS.topic("orders") == "orders"
    with pytest.raises(ConfigError, match=r"'prices'.*there are orders"):
        options.read("prices")


def test_values_are_json_to_an_invariant() -> None:
    text = json.dumps({"n": [1, None]}).encode()
    assert found(latest_by_key(), (b"k", text)) == {"k": {"n": [1, None]}}
