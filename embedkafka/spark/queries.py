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
from embedkafka.runtime.failures import AwaitTimeout, ConfigError
from embedkafka.runtime.ids import TopicPartition
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

#: What the status of a query says when a trigger has found nothing to do, and between two triggers.
_IDLE, _BETWEEN = "Waiting for data to arrive", "Waiting for next trigger"
#: A query of Spark Connect does not tell its trigger. Only one with an interval stays between two
#: triggers for so many looks.
_LOOKS_BETWEEN: Final = 10

#: Spark tells of a commit only through a callback into Python, which needs a server, or when it is
#: asked. So a wait asks, soon at first; a query that ends or fails is noticed without asking.
_FIRST_LOOK_S, _LAST_LOOK_S = 0.002, 0.05


def drain(
    query: "StreamingQuery",
    *,
    topics: Sequence[KafkaTopic] | None = None,
    timeout_s: float = _PATIENCE_S,
) -> None:
    """Waits until the query has processed everything that is in its topics now.

    The ends of the topics are asked for once, at the call. The batch that holds the last of these
    records is then committed, and a following one that only closes windows has run too. A query
    that ends by itself, such as one with `availableNow`, has ended.

    With a processing-time interval, a batch that only closes windows runs at the next trigger, and
    this does not wait for it. A continuous query never gets past the marker of a transaction until
    another record follows it.

    Args:
        query: a query with one or more Kafka sources, in any trigger mode.
        topics: the topics to look at. By default all that the query reads; a query of Spark Connect
            needs them.
        timeout_s: how long to wait, in seconds of real time.

    Raises:
        StreamingQueryException: the query failed.
        AwaitTimeout: it did not get there in that time, or was stopped before; the message says
            what is missing.
        ConfigError: it has no Kafka source.
    """
    require_attribute("query", query, "awaitTermination", "a StreamingQuery")
    deadline_ms = REAL_TIME.monotonic_ms() + require_number("timeout_s", timeout_s) * 1000
    execution = find_execution(query)
    ends = _find_ends(query, execution, topics, timeout_s)
    rest = _Rest(query, execution) if execution is not None else _RemoteRest(query)
    await_termination: Any = query.awaitTermination  # takes fractions, whatever its type says
    look_s = _FIRST_LOOK_S
    while True:
        has_ended = await_termination(look_s)
        missing = find_missing(ends, _positions(query, execution))
        if has_ended and missing:
            raise AwaitTimeout(_ended_early(query, execution, describe_missing(missing)))
        if has_ended or (not missing and rest.is_reached()):
            return
        if REAL_TIME.monotonic_ms() > deadline_ms:
            raise AwaitTimeout(_too_late(query, execution, describe_missing(missing), timeout_s))
        look_s = min(look_s * 2, _LAST_LOOK_S)


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
    if planned == committed:
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


class _Rest:
    """Whether a query whose offsets are committed is also done with what follows from them.

    That is a batch that only closes windows, and `lastProgress`, which comes after the commit.
    """

    def __init__(self, query: "StreamingQuery", execution: Execution) -> None:
        self._query = query
        self._execution = execution
        self._is_watched = False
        self._last_batch: int | None = None

    def is_reached(self) -> bool:
        execution = self._execution
        if not execution.is_micro_batch:
            return True
        if execution.ends_by_itself:
            return False  # its end is what the caller waits for
        if execution.has_interval:
            return not self._query.status["isTriggerActive"]
        if not self._is_watched:
            self._is_watched = True
            self._last_batch = execution.find_last_batch()
            execution.forget_idleness()
            return False
        # More records may keep it busy; then the batch after the one we waited for is enough.
        return execution.is_idle or execution.find_last_batch() != self._last_batch


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
    query: "StreamingQuery", execution: Execution | None, missing: str, timeout_s: float
) -> str:
    trigger = "" if execution is None else f", trigger {execution.trigger}"
    return (
        f"waited {timeout_s:g} s for the query {_name(query)} to process its topics; last seen: "
        f"{missing or 'all offsets committed'}; status {query.status['message']!r}{trigger}"
    )


def _name(query: "StreamingQuery") -> str:
    return query.name or query.id
