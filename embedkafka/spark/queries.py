"""What a test does with a running query: drain it, crash it, restart it, look at it.

    from embedkafka.spark import drain, restart

    query = job(spark).start()
    orders.send_json({"sku": "a"})
    drain(query)                # everything that was in its topics is in its sink
    query = restart(query)      # goes on from its checkpoint

Owner: the caller's thread.
Invariants: every wait is for a fact, the query's committed offsets, and is bounded by `timeout_s`.
A query that fails during a wait ends it at once, with its exception.
Not here: what Spark tells only in its JVM (`execution`), offsets (`offsets`).
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from embedkafka.runtime.arguments import require_attribute, require_list, require_number
from embedkafka.runtime.clock import REAL_TIME
from embedkafka.runtime.failures import AwaitTimeout, ConfigError, InvalidArgument
from embedkafka.runtime.ids import TopicPartition
from embedkafka.runtime.patience import patient
from embedkafka.spark.connector.progress import print_progress
from embedkafka.spark.execution import Execution, find_execution, require_execution
from embedkafka.spark.frames import KafkaTopic
from embedkafka.spark.offsets import (
    Offsets,
    describe_missing,
    end_offsets,
    find_missing,
    parse_offsets,
)

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

_PATIENCE_S: Final = 60.0
_SILENT_S: Final = 3.0
"""After this time a wait for a trigger says so."""
_AT_ONCE: Final = "`embedkafka.spark.immediate_triggers()` lets triggers fire at once"
_LEAST: Final = "minoffsetspertrigger"

#: What the status of a query says when a trigger has found nothing to do, and between two triggers.
_IDLE, _BETWEEN = "Waiting for data to arrive", "Waiting for next trigger"
#: A query of Spark Connect does not tell its trigger. Only one with an interval stays between two
#: triggers for so many looks.
_LOOKS_BETWEEN: Final = 10

#: Spark tells of a commit only through a callback into Python, which needs a server, or when it is
#: asked. So a wait asks, soon at first; a query that ends or fails is noticed without asking.
_FIRST_LOOK_S, _LAST_LOOK_S = 0.002, 0.05


def drain(
    *queries: "StreamingQuery",
    topics: Sequence[KafkaTopic] | None = None,
    timeout_s: float = _PATIENCE_S,
) -> None:
    """Waits until queries have processed everything that is in their topics now.

        drain(query)
        drain(pricing, totals)      # `totals` reads what `pricing` writes

    The ends of a query's topics are asked for once, when its turn comes. The batch that holds the
    last of these records is then committed. If it moved the watermark, the batch that follows
    without data has run too, and what the watermark has passed is in the sink: closed windows, rows
    of an outer join without a match, timeouts in event time. A query that ends by itself, such as
    one with `availableNow`, has ended; `once` leaves what the watermark has passed to its next run
    that has records.

    A query with `processingTime` runs batches only when its trigger fires, and this waits for that:
    with a long interval use `immediate_triggers()`. A query of Spark Connect does not tell its
    trigger; if it has an interval, this does not wait for the batch without data.

    In real-time mode Spark commits at the end of a batch, which lasts as long as the trigger says,
    though records are in the sink at once: wait for these with `topic.wait_for`, or use
    `immediate_triggers()`.

    A timeout in processing time falls due by the clock, with or without records: this does not wait
    for it. After a restart, Spark runs a batch without data only once new records have come. A
    continuous query never gets past the marker of a transaction until another record follows it.

    Args:
        *queries: queries with one or more Kafka sources each, in any trigger mode. Of several, each
            is drained when the ones before it are, so a pipeline is named from its source to its
            sink. If one of them fails, whichever, the wait ends.
        topics: the topics to look at. By default all that the query reads; a query of Spark Connect
            needs them. For one query only.
        timeout_s: how long to wait for all of them, in seconds of real time.

    Raises:
        StreamingQueryException: a query failed.
        AwaitTimeout: one did not get there in that time, or was stopped before; the message says
            what is missing.
        ConfigError: one has no Kafka source.
        InvalidArgument: there is no query, or several with `topics`.
    """
    if not queries:
        raise InvalidArgument("drain needs a query: `drain(query)`")
    for query in queries:
        require_attribute("query", query, "awaitTermination", "a StreamingQuery")
    if topics is not None and len(queries) > 1:
        raise InvalidArgument(
            "topics= says what one query reads: drain several with it one after the other"
        )
    wait = _Wait(require_number("timeout_s", timeout_s))
    for query in queries:
        _drain(query, [each for each in queries if each is not query], topics, wait)


def _drain(
    query: "StreamingQuery",
    others: "Sequence[StreamingQuery]",
    topics: Sequence[KafkaTopic] | None,
    wait: "_Wait",
) -> None:
    execution = find_execution(query)
    ends = _find_ends(query, execution, topics, wait.left_s)
    rest = _Rest(execution) if execution is not None else _RemoteRest(query)
    look_s = _FIRST_LOOK_S
    while True:
        has_ended = _has_ended(query, look_s)
        missing = find_missing(ends, _positions(query, execution))
        if has_ended and missing:
            raise AwaitTimeout(_ended_early(query, execution, describe_missing(missing)))
        if has_ended or (not missing and rest.is_reached()):
            return
        for other in others:
            _has_ended(other, _FIRST_LOOK_S)
        if wait.is_over:
            raise AwaitTimeout(_too_late(query, execution, describe_missing(missing), wait))
        if wait.is_long:
            wait.tell(_held_back_by(query, execution))
        look_s = min(look_s * 2, _LAST_LOOK_S)


def _has_ended(query: "StreamingQuery", look_s: float) -> bool:
    """Whether it has ended, now or in this time; raises its exception if it failed."""
    await_termination: Any = query.awaitTermination  # takes fractions, whatever its type says
    return bool(await_termination(look_s))


def restart(query: "StreamingQuery") -> "StreamingQuery":
    """Stops a query, and starts it once more from its checkpoint: what a new deployment does.

    The new one has the same plan, sink, options, trigger and name. To run changed code from an old
    checkpoint, stop the query and start the new one yourself.

    Args:
        query: a query with a checkpoint, running or ended.

    Returns:
        The new query; the old one has ended.

    Raises:
        ConfigError: the query has no checkpoint, or is continuous.
    """
    from pyspark.sql.streaming.query import StreamingQuery

    execution = require_execution(query, "restart")
    execution.require_checkpoint()
    if not execution.is_micro_batch:
        raise ConfigError(
            f"the query {execution.name} is continuous, and Spark forgets the options of its sink: "
            "stop it and start it yourself"
        )
    query.stop()
    return StreamingQuery(execution.start_again())


def crash_between_write_and_commit(
    query: "StreamingQuery", *, timeout_s: float = _PATIENCE_S
) -> int:
    """Stops a query as if it had died after its sink wrote the last batch, before the commit.

    `restart` then runs that batch again, with the same records. A sink that does not know a batch
    that it has seen before writes it twice.

    In real-time mode it is the last batch that has read records, and those after it.

    A running query is drained first, so that the batch is complete. If more records come in and
    stop interrupts a later batch, that one is what runs again.

    Args:
        query: a query with a checkpoint, running or ended.
        timeout_s: how long to wait for the end of the batch, in seconds of real time.

    Returns:
        The id of the batch that will run again.

    Raises:
        ConfigError: the query has no checkpoint, or has not completed a batch yet.
        StreamingQueryException: the query failed by itself.
    """
    execution = require_execution(query, "crash_between_write_and_commit")
    execution.require_checkpoint()
    if query.isActive:
        drain(query, timeout_s=timeout_s)
        query.stop()
    planned, committed = execution.find_last_planned_batch(), execution.find_last_batch()
    if planned is None:
        raise ConfigError(f"the query {execution.name} has not run a batch that could be repeated")
    if execution.real_time_ms:
        planned = execution.find_last_batch_with_data() or planned
    if planned == committed or execution.real_time_ms:
        execution.uncommit(planned)
    return planned


def _find_ends(
    query: "StreamingQuery",
    execution: Execution | None,
    topics: Sequence[KafkaTopic] | None,
    timeout_s: float,
) -> dict[TopicPartition, int]:
    sources: list[dict[str, str]]
    if topics is not None:
        sources = [_options_of(each) for each in require_list("topics", topics, "[orders]")]
    elif execution is None:
        raise ConfigError(
            "a query of Spark Connect does not tell which topics it reads: `drain(query, "
            "topics=[orders])`"
        )
    else:
        sources = execution.kafka_sources()
    if not sources:
        raise ConfigError(
            f"the query {_name(query)} has no Kafka source; for others use "
            "`query.processAllAvailable()`"
        )
    ends: dict[TopicPartition, int] = {}
    for source in sources:
        for partition, end in end_offsets(source, timeout_s).items():
            ends[partition] = max(end, ends.get(partition, 0))
    return ends


def _options_of(topic: Any) -> dict[str, str]:
    """Any: a topic's handle, which is checked here."""
    require_attribute("an entry of topics", topic, "spark_options", "a topic's handle")
    return {key.lower(): value for key, value in topic.spark_options().items()}


def _positions(query: "StreamingQuery", execution: Execution | None) -> Sequence[Offsets]:
    if execution is not None:
        return execution.committed_offsets()
    progress: Any = query.lastProgress  # a dict, whatever its type says
    sources = () if progress is None else progress["sources"]
    return [offsets for one in sources if (offsets := parse_offsets(one["endOffset"]))]


class _Wait:
    """The time that a call has, and what it has told of the wait."""

    def __init__(self, timeout_s: float) -> None:
        self.timeout_s = patient(timeout_s)
        self._start_ms = REAL_TIME.monotonic_ms()
        self._told = ""

    @property
    def left_s(self) -> float:
        return max(0.0, self.timeout_s - self._passed_s)

    @property
    def is_over(self) -> bool:
        return self._passed_s > self.timeout_s

    @property
    def is_long(self) -> bool:
        """Whether the user should hear of it, and has not yet."""
        return self._passed_s > _SILENT_S and not self._told

    @property
    def _passed_s(self) -> float:
        return (REAL_TIME.monotonic_ms() - self._start_ms) / 1000

    def tell(self, cause: str) -> None:
        if cause:
            self._told = cause
            print_progress(f"drain waits for {cause}")


class _Rest:
    """Whether a query whose offsets are committed is also done with what follows from them.

    That is the batch that Spark runs even if no record comes, and `lastProgress`.
    """

    def __init__(self, execution: Execution) -> None:
        self._execution = execution
        self._is_watched = False
        self._first_batch: int | None = None

    def is_reached(self) -> bool:
        execution = self._execution
        if not execution.is_micro_batch:
            return True
        if execution.ends_by_itself:
            return False  # its end is what the caller waits for
        batch = execution.find_last_batch()
        if not self._is_watched:
            self._is_watched = True
            self._first_batch = batch
            if execution.has_run_batch():
                execution.forget_idleness()
        # More records may keep it busy; then the batch after the one we waited for is enough.
        if batch == self._first_batch and execution.owes_batch() and not execution.is_idle:
            return False
        return not execution.has_run_batch() or execution.tells_progress(batch)


class _RemoteRest:
    """The same for a query of Spark Connect, which shows its progress and its status only.

    Its offsets come from the progress of a batch that is done, so what may follow is a batch that
    closes windows. A query without state has none.
    """

    def __init__(self, query: "StreamingQuery") -> None:
        self._query = query
        self._first_batch: int | None = None
        self._looks_between = 0

    def is_reached(self) -> bool:
        progress: Any = self._query.lastProgress  # a dict, whatever its type says
        if progress is None or not progress.get("stateOperators"):
            return True
        if self._first_batch is None:
            self._first_batch = progress["batchId"]
        message = self._query.status["message"]
        self._looks_between = self._looks_between + 1 if message == _BETWEEN else 0
        return (
            message == _IDLE
            or progress["batchId"] != self._first_batch
            or self._looks_between == _LOOKS_BETWEEN
        )


def _ended_early(query: "StreamingQuery", execution: Execution | None, missing: str) -> str:
    hint = (
        "; it takes what is there when it starts: send before"
        if execution is not None and execution.ends_by_itself
        else "; it was stopped"
    )
    return f"the query {_name(query)} has ended before it processed its topics: {missing}{hint}"


def _too_late(
    query: "StreamingQuery", execution: Execution | None, missing: str, wait: _Wait
) -> str:
    trigger = "" if execution is None else f", trigger {execution.trigger}"
    to_come = _held_back_by(query, execution)
    return (
        f"waited {wait.timeout_s:g} s for the query {_name(query)} to process its topics; last "
        f"seen: {missing or 'all offsets committed'}; status {query.status['message']!r}{trigger}"
        + (f"; it waits for {to_come}" if to_come else "")
    )


def _held_back_by(query: "StreamingQuery", execution: Execution | None) -> str:
    """What a query waits for before it commits, and how to have it at once; empty for nothing."""
    if execution is not None and execution.real_time_ms:
        return f"the end of a batch of {execution.trigger}; {_AT_ONCE}"
    if execution is None or query.status["isTriggerActive"]:
        return ""
    if execution.interval_ms:
        return (
            f"the next trigger of {execution.trigger}, in "
            f"{execution.next_trigger_ms() / 1000:.0f} s; "
            f"{_AT_ONCE}"
        )
    least = [source[_LEAST] for source in execution.kafka_sources() if _LEAST in source]
    return f"more records: a source has minOffsetsPerTrigger {least[0]}" if least else ""


def _name(query: "StreamingQuery") -> str:
    return query.name or query.id
