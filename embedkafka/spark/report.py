"""Queries in words: their progress as a table, and what a failed test needs to know of them.

Owner: none; it only reads.
Invariants: what cannot be read costs its line, not the rest.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from embedkafka.runtime.arguments import require_attribute
from embedkafka.spark.execution import Execution, find_execution
from embedkafka.spark.offsets import end_offsets, parse_offsets

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

_HEADINGS: Final = ("batch", "rows in", "rows out", "ms", "state rows", "watermark", "read up to")
_BATCHES: Final = 5
_TIMEOUT_S: Final = 2.0
_EXCEPTION_LINES: Final = 30
_LOG_LINES: Final = 20

#: Where Spark begins to describe the query, whose plan is longer than the rest.
_QUERY_DETAILS: Final = re.compile(r"\n=== Streaming Query ===.*", re.DOTALL)
_JAVA_FRAME: Final = re.compile(r"^\s*(at [\w.$/<>]+\(.*\)|\.\.\. \d+ more)\s*$")
_BEFORE_TRACEBACK: Final = re.compile(r"^.*(?=Traceback \(most recent call last\):)", re.MULTILINE)
_PYTHON_FRAME: Final = re.compile(r'^\s*File "(?P<path>[^"]+)", line \d+')
_NOISE: Final = ("/py4j/", "/pyspark/", "/embedkafka/spark/scripts/")
_EMPTY: Final = ("", "Driver stacktrace:")


def progress(query: "StreamingQuery") -> str:
    """The query's last batches as a table: rows in and out, time, state, watermark, offsets.

    Args:
        query: a query, running or ended.
    """
    require_attribute("query", query, "recentProgress", "a StreamingQuery")
    batches: Sequence[Any] = query.recentProgress
    return progress_table(batches)


def progress_table(batches: Sequence[Mapping[str, Any]]) -> str:
    """The table, a line for each batch; Spark's `recentProgress` has the same as data."""
    if not batches:
        return "no batch yet"
    rows = [_HEADINGS, *map(_row, batches)]
    widths = [max(len(row[at]) for row in rows) for at in range(len(_HEADINGS))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


def describe_query(query: "StreamingQuery") -> str:
    """State, exception, offsets against the topics' ends, and the last batches."""
    lines: list[str] = []
    for part in (_state, _failure, _offsets, _batches):
        lines += _tried(part, query)
    return "\n".join([lines[0], *(f"  {line}" for line in lines[1:])])


def clean_exception(text: str) -> str:
    """An exception of Spark without its query's plan, Java's frames, py4j's and ours.

    What is left of a Python traceback is the user's code.
    """
    said = _BEFORE_TRACEBACK.sub("", _QUERY_DETAILS.sub("", text))
    lines = iter(said.splitlines())
    kept: list[str] = []
    for line in lines:
        frame = _PYTHON_FRAME.match(line)
        while frame is not None and any(noise in frame["path"] for noise in _NOISE):
            # The lines of code and carets that belong to a frame are indented deeper.
            indent = len(line) - len(line.lstrip())
            line = next(lines, "")
            while line.strip() and len(line) - len(line.lstrip()) > indent:
                line = next(lines, "")
            frame = _PYTHON_FRAME.match(line)
        if not _JAVA_FRAME.match(line) and line.strip() not in _EMPTY:
            kept.append(line)
    return "\n".join(kept)


def shorten_log(text: str, lines: int = _LOG_LINES) -> str:
    """The last lines of Spark's log without Java's frames, which would fill all of them."""
    kept = [line for line in text.splitlines() if not _JAVA_FRAME.match(line)]
    return "\n".join(kept[-lines:])


def _tried(part: "Callable[[StreamingQuery], Iterator[str]]", query: "StreamingQuery") -> list[str]:
    try:
        return list(part(query))
    except Exception as error:  # a broken query must not hide the test's failure
        return [f"{part.__name__.strip('_')} cannot be read: {type(error).__name__}"]


def _state(query: "StreamingQuery") -> Iterator[str]:
    state = query.status["message"] if query.isActive else "ended"
    execution = find_execution(query)
    trigger = "" if execution is None else f", {execution.trigger}"
    yield f"{query.name or 'query'} ({query.id}): {state}{trigger}"


def _failure(query: "StreamingQuery") -> Iterator[str]:
    failure = query.exception()
    if failure is not None:
        lines = clean_exception(str(failure)).splitlines()
        yield "failed: " + (lines[0] if lines else type(failure).__name__)
        yield from lines[1:_EXCEPTION_LINES]


def _offsets(query: "StreamingQuery") -> Iterator[str]:
    execution = find_execution(query)
    if execution is None:
        return
    committed = execution.committed_offsets()
    for partition, end in sorted(_ends(execution).items()):
        at = [offsets[partition] for offsets in committed if partition in offsets]
        behind = "not read" if not at else f"read up to {min(at)}"
        yield f"{partition} {behind}, ends at {end}"


def _ends(execution: Execution) -> dict[Any, int]:
    ends: dict[Any, int] = {}
    for source in execution.kafka_sources():
        ends |= end_offsets(source, _TIMEOUT_S)
    return ends


def _batches(query: "StreamingQuery") -> Iterator[str]:
    require_attribute("query", query, "recentProgress", "a StreamingQuery")
    batches: Sequence[Any] = query.recentProgress
    yield from progress_table(batches[-_BATCHES:]).splitlines()


def _row(batch: Mapping[str, Any]) -> tuple[str, ...]:
    out = batch["sink"].get("numOutputRows", -1)
    states: Sequence[Mapping[str, Any]] = batch["stateOperators"]
    return (
        str(batch["batchId"]),
        str(_rows_in(batch)),
        "" if out is None or out < 0 else str(out),
        str(batch["durationMs"].get("triggerExecution", "")),
        str(sum(state["numRowsTotal"] for state in states)) if states else "",
        str((batch.get("eventTime") or {}).get("watermark", "")),
        ", ".join(_read(source["endOffset"]) for source in batch["sources"]),
    )


def _rows_in(batch: Mapping[str, Any]) -> int:
    """Spark Connect 3.5 counts by source only."""
    counted = batch.get("numInputRows")
    if counted is None:
        counted = sum(source["numInputRows"] for source in batch["sources"])
    return int(counted)


def _read(offset: Any) -> str:
    offsets = parse_offsets(offset)
    if offsets:
        return " ".join(f"{partition}:{at}" for partition, at in sorted(offsets.items()))
    return offset if isinstance(offset, str) else json.dumps(offset)
