"""`immediate_triggers`: a job with `processingTime="1 minute"` costs a test no minute per step.

    with immediate_triggers() as replaced:
        query = job(spark)          # starts with .trigger(processingTime="1 minute")
    orders.send_json({"sku": "a"})
    drain(query)                    # at once
    assert replaced == ["1 minute"]

Owner: `_lock` (leaf) owns who has asked for it, and what PySpark's methods were before.
Invariants: PySpark's methods are replaced only while a block runs, whichever thread it runs on.
Not here: the trigger of a query that runs already; Spark cannot change it.
"""

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Any, Final

from embedkafka.runtime.locks import LEAF_RANK, ranked_lock

_AT_ONCE: Final = "0 seconds"
_REAL_TIME: Final = "realTime"
_SHORTEST_BATCH: Final = "spark.sql.streaming.realTimeMode.minBatchDuration"
_DEFAULT_BATCH: Final = "5 seconds"
#: How Spark writes times in settings.
_TIME: Final = re.compile(r"(?P<number>\d+)\s*(?P<unit>ms|s|m|min|)")
_UNITS_MS: Final = {"": 1, "ms": 1, "s": 1000, "m": 60_000, "min": 60_000}
_CONNECT: Final = "pyspark.sql.connect.streaming.readwriter"

_lock: Final = ranked_lock("immediate triggers", LEAF_RANK)
_blocks: list[list[str]] = []
_originals: dict[Any, Callable[..., Any]] = {}  # Any: PySpark's classes of writers
_since: dict[str, None] = {}


@contextmanager
def immediate_triggers() -> Iterator[Sequence[str]]:
    """Lets queries run as soon as there is data, whatever interval their triggers name.

    In the `with` block, `trigger(processingTime=...)` of any writer, on any thread, sets an
    interval of zero, and `realTime` the shortest batch that the session allows:
    `spark.sql.streaming.realTimeMode.minBatchDuration`, by default 5 seconds. Other triggers
    (`availableNow`, `once`, `continuous`) stay as they are. A query that was started in the block
    keeps its short interval after it.

    Returns:
        In the block, the intervals that were replaced so far, each once: `["1 minute"]`, or
        `["realTime 5 minutes"]`.
    """
    classes = _writers()
    replaced: list[str] = []
    with _lock:
        _blocks.append(replaced)
        for class_ in classes:
            if class_ not in _originals:
                _originals[class_] = class_.trigger
                class_.trigger = _immediate(class_.trigger)
    try:
        yield replaced
    finally:
        with _lock:
            _blocks[:] = [block for block in _blocks if block is not replaced]
            while not _blocks and _originals:
                class_, original = _originals.popitem()
                class_.trigger = original


def describe_replaced(intervals: Sequence[str]) -> str:
    """For a report: which intervals triggers did not wait for; empty if there are none."""
    ran = ", ".join(
        each if each.startswith(_REAL_TIME) else f"processingTime {each}" for each in intervals
    )
    return f"immediate_triggers: {ran} ran at once" if ran else ""


def forget_replaced() -> None:
    """From now on intervals are `replaced_intervals`, beside those of blocks that still run."""
    with _lock:
        _since.clear()
        for block in _blocks:
            _since.update(dict.fromkeys(block))


def replaced_intervals() -> list[str]:
    """The intervals that any block has replaced since they were last forgotten."""
    with _lock:
        return list(_since)


def _immediate(original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def trigger(writer: Any, **given: Any) -> Any:
        written = original(writer, **given)  # raises for an invalid trigger
        interval, duration = given.get("processingTime"), given.get(_REAL_TIME)
        if interval is not None and not _is_zero(interval):
            _note(interval.strip())
            return original(writer, processingTime=_AT_ONCE)
        if duration is not None:
            _note(f"{_REAL_TIME} {duration.strip()}")
            return original(writer, **{_REAL_TIME: _shortest_batch(writer)})
        return written

    return trigger


def _note(replaced: str) -> None:
    with _lock:
        _since[replaced] = None
        for block in _blocks:
            if replaced not in block:
                block.append(replaced)


def _shortest_batch(writer: Any) -> str:
    """What Spark accepts in real-time mode."""
    written = _TIME.fullmatch(writer._spark.conf.get(_SHORTEST_BATCH))
    if written is None:
        return _DEFAULT_BATCH
    return f"{int(written['number']) * _UNITS_MS[written['unit']]} milliseconds"


def _is_zero(interval: str) -> bool:
    return not any(digit in interval for digit in "123456789")


def _writers() -> list[Any]:
    """PySpark's writer of streams, and that of Spark Connect if there is such a session."""
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    connect = sys.modules.get(_CONNECT)
    return [DataStreamWriter] if connect is None else [DataStreamWriter, connect.DataStreamWriter]
