"""How `explore` renames what a script names."""

import json
from pathlib import Path
from typing import Any

import pytest

from embedkafka import ConfigError
from embedkafka.explore import Options, Script
from embedkafka.explore.script_job import ScheduleNames

NAMES = ScheduleNames(
    Options(
        bootstrap_servers="b:1",
        directory="/there",
        topics={"orders": "orders-1", "prices.eu": "prices.eu-1"},
        source={"maxOffsetsPerTrigger": "2"},
        suffix="_1",
    )
)
LIMIT = {"maxOffsetsPerTrigger": "2"}
FIRST = {"startingOffsets": "earliest"}


@pytest.mark.parametrize(
    ("given", "changed"),
    [
        ({"subscribe": "orders, prices.eu"}, {"subscribe": "orders-1,prices.eu-1", **FIRST}),
        ({"subscribepattern": r"pr.*"}, {"subscribePattern": r"prices\.eu-1", **FIRST}),
        ({"assign": '{"orders": [0]}'}, {"assign": '{"orders-1": [0]}', **FIRST}),
        ({"startingoffsets": "earliest"}, {}),
        ({"startingtimestamp": "7"}, {}),
        (
            {"startingoffsets": '{"orders": {"0": 5}}'},
            {"startingOffsets": '{"orders-1": {"0": 5}}'},
        ),
    ],
)
def test_topics_get_the_names_of_the_schedule(given: dict[str, str], changed: Any) -> None:
    assert NAMES.source(given, streaming=True) == {**changed, **LIMIT}


def test_a_batch_reads_to_the_end_and_starts_where_it_says() -> None:
    offsets = {"subscribe": "orders", "endingoffsets": json.dumps({"orders": {"0": -1}})}
    assert NAMES.source(offsets, streaming=False) == {
        "subscribe": "orders-1",
        "endingOffsets": '{"orders-1": {"0": -1}}',
        **LIMIT,
    }


def test_sinks_and_tables_get_the_names_of_the_schedule() -> None:
    assert NAMES.sink({"topic": "orders"}) == {"topic": "orders-1"}
    assert NAMES.query("memory", "seen") == "seen_1"
    assert NAMES.query("kafka", "seen") == "seen"


def test_a_topic_that_cannot_be_renamed_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"column `topic`, .* a function of `Options` as job"):
        NAMES.sink({})
    with pytest.raises(ConfigError, match=r"'x\.\*', which matches neither .* there are orders, "):
        NAMES.source({"subscribepattern": "x.*"}, streaming=True)
    with pytest.raises(ConfigError, match="'others', which is neither an input nor an output"):
        NAMES.source({"subscribe": "others"}, streaming=True)


def test_a_script_that_does_not_exist_is_refused_before_anything_runs() -> None:
    with pytest.raises(ConfigError, match=r"there is no script nowhere\.py"):
        Script(Path("nowhere.py"))
    with pytest.raises(ConfigError, match="args must be a list"):
        Script(print, args="--one")
    with pytest.raises(ConfigError, match="env maps names to text"):
        Script(print, env={"STAGE": 1})  # type: ignore[dict-item]  # what is refused
