"""Records of every form become keys, values and event times."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import strategies as st

from embedkafka.explore.inputs import Feed, Input, given_records, read_inputs
from embedkafka.explore.schedule import Arrival
from embedkafka.runtime.failures import ConfigError


def read(records: object, seed: int = 0) -> Feed:
    return read_inputs({"orders": records}, seed=seed)["orders"]


def pairs(feed: Feed) -> list[tuple[bytes | None, bytes | None]]:
    return [(record.key, record.value) for record in feed.records]


class Row:
    """Has the interface of a PySpark row."""

    def asDict(self, recursive: bool) -> dict[str, object]:
        assert recursive
        return {"sku": "a"}


def test_mappings_rows_text_bytes_and_pairs() -> None:
    feed = read([{"sku": "a"}, Row(), "text", b"bytes", ("key", {"n": 1}), ("key", None)])

    assert pairs(feed) == [
        (None, b'{"sku": "a"}'),
        (None, b'{"sku": "a"}'),
        (None, b"text"),
        (None, b"bytes"),
        (b"key", b'{"n": 1}'),
        (b"key", None),
    ]
    arrivals = [Arrival("orders", 4), Arrival("orders", 0)]
    assert given_records({"orders": feed}, arrivals) == {
        "orders": [{"sku": "a"}, ("key", {"n": 1})]
    }


def test_a_field_or_a_function_is_the_key() -> None:
    assert pairs(read(Input([{"sku": 7}], key="sku")))[0][0] == b"7"
    assert pairs(read(Input(['{"sku": "a"}'], key="sku")))[0][0] == b"a"
    assert pairs(read(Input([{"sku": "a"}], key=lambda order: order["sku"] * 2)))[0][0] == b"aa"


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (12.5, 12.5),
        ("1970-01-01T00:00:10Z", 10.0),
        ("1970-01-01T00:00:10", 10.0),
        (datetime(1970, 1, 1, 0, 1, tzinfo=UTC), 60.0),
    ],
)
def test_an_event_time_is_a_number_text_or_a_datetime(value: object, seconds: float) -> None:
    feed = read(Input([{"at": value}], event_time="at"))
    assert [record.time_s for record in feed.records] == [seconds]


def test_times_in_a_record_are_written_as_iso_text() -> None:
    feed = read([{"at": datetime(2026, 1, 2, tzinfo=UTC)}])
    assert feed.records[0].value == b'{"at": "2026-01-02T00:00:00+00:00"}'


def test_a_file_of_json_lines(tmp_path: Path) -> None:
    path = tmp_path / "orders.jsonl"
    path.write_text('{"sku": "a"}\n\n{"sku": "b"}\n')

    feed = read(Input(path, key="sku"))

    assert feed.given == ({"sku": "a"}, {"sku": "b"})
    assert pairs(feed) == [(b"a", b'{"sku": "a"}'), (b"b", b'{"sku": "b"}')]


def test_a_strategy_gives_the_same_records_for_the_same_seed() -> None:
    lists = st.lists(st.fixed_dictionaries({"sku": st.sampled_from("abc")}), min_size=3)
    draws = [read(Input(lists, key="sku"), seed=seed).given for seed in (1, 1, 2, 3, 4)]
    assert draws[0] == draws[1]
    assert len(set(map(str, draws))) > 1
    assert all(len(draw) >= 3 for draw in draws)


@pytest.mark.parametrize(
    ("records", "message"),
    [
        ("text", "must be a list"),
        ({"sku": "a"}, "must be a list"),
        (7, "must be a list"),
        (Input([{"sku": "a"}], key="id"), "without the field 'id' for key"),
        (Input([{"at": "noon"}], event_time="at"), "not ISO text"),
        (Input([{"at": None}], event_time="at"), "no time"),
        (Input([], lateness_s=5), "no event_time"),
        (Input([], event_time="at", lateness_s=-1), "not negative"),
        (Input([], partitions=0), "partitions of orders"),
    ],
)
def test_what_cannot_be_used_is_refused(records: object, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read(records)


def test_inputs_are_a_mapping() -> None:
    for wrong in ([], {}, None):
        with pytest.raises(ConfigError, match="inputs must be a mapping"):
            read_inputs(wrong, seed=0)  # type: ignore[arg-type]  # a user's mistake


def parse(data: bytes) -> dict[str, object]:
    return {"sku": data.decode("ascii"), "at": 7}


def test_bytes_have_fields_if_they_can_be_decoded_and_are_sent_as_they_are() -> None:
    feed = read(Input([b"a", ("k", b"b")], key="sku", event_time="at", decode=parse))
    assert pairs(feed) == [(b"a", b"a"), (b"b", b"b")]
    assert [record.time_s for record in feed.records] == [7.0, 7.0]
    assert pairs(read(Input([b"a"], key=lambda order: order["sku"] * 2, decode=parse))) == [
        (b"aa", b"a")
    ]


def test_messages_show_records_decoded() -> None:
    feed = read(Input([b"a", ("k", b"b"), {"n": 1}], decode=parse))
    assert [feed.show(nth) for nth in (0, 1)] == [
        '{"sku": "a", "at": 7}',
        """key 'k', {"sku": "b", "at": 7}""",
    ]
    assert [read([b"a", {"n": 1}]).show(nth) for nth in (0, 1)] == ['"a"', '{"n": 1}']


def test_bytes_that_cannot_be_decoded_are_refused() -> None:
    said = r"orders has a record 0xff \(1 byte\), cannot be decoded: UnicodeDecodeError"
    with pytest.raises(ConfigError, match=said):
        read(Input([b"\xff"], decode=parse))
    with pytest.raises(ConfigError, match="decode must be a function"):
        read(Input([b"a"], decode="orders-value"))
