"""Spark's side of a streaming query, as far as its public API does not show it.

A query of PySpark stands for a `StreamExecution` in the JVM, which knows what PySpark does not
tell: the options of its sources, the offsets it has committed, its sink, its trigger. All of this
has been there since Spark 3.5; a query of Spark Connect has none of it.

Owner: none. The JVM owns the execution; fields that its thread changes are volatile.
Not here: waiting and deciding (`queries`).
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from embedkafka.runtime.arguments import require_attribute
from embedkafka.runtime.failures import ConfigError
from embedkafka.runtime.ids import TopicPartition
from embedkafka.spark.offsets import parse_offsets

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_ENDING: Final = frozenset({"AvailableNowTrigger", "OneTimeTrigger"})
_INTERVAL: Final = "ProcessingTimeTrigger"
_REAL_TIME: Final = "RealTimeTrigger"
_SINKS_WITHOUT_KAFKA: Final = frozenset(
    {"MemorySink", "ConsoleTable", "NoopTable", "FileStreamSink"}
)
NO_DATA_BATCHES: Final = "spark.sql.streaming.noDataMicroBatches.enabled"
_UNITS: Final = ((3_600_000, "hour"), (60_000, "minute"), (1000, "second"), (1, "millisecond"))
_MOST_FURTHER_ARGUMENTS: Final = 10
"""How many arguments `startQuery` may have behind ours; they depend on the release, and default."""


class Execution:
    """One run of a query. Any: objects of the JVM have no types."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    @property
    def interval_ms(self) -> int:
        """The time between two triggers; 0 if batches start as soon as there is something."""
        return int(self._stream.trigger().intervalMs()) if self._trigger == _INTERVAL else 0

    @property
    def real_time_ms(self) -> int:
        """How long a batch lasts in real-time mode, which commits at its end; 0 in other modes."""
        return int(self._stream.trigger().batchDurationMs()) if self._trigger == _REAL_TIME else 0

    def next_trigger_ms(self) -> int:
        """How long it is until the next trigger of a query that has an interval.

        Spark's triggers fire at the multiples of their interval.
        """
        return (
            self.interval_ms - int(self._stream.triggerClock().getTimeMillis()) % self.interval_ms
        )

    @property
    def is_micro_batch(self) -> bool:
        """Whether it runs in batches: not a continuous query."""
        return self._trigger != "ContinuousTrigger"

    @property
    def ends_by_itself(self) -> bool:
        """Whether it takes what is there when it starts, and ends."""
        return self._trigger in _ENDING

    @property
    def trigger(self) -> str:
        """The trigger, for a message."""
        if self.interval_ms:
            return f"processingTime {_describe_ms(self.interval_ms)}"
        if self.real_time_ms:
            return f"realTime {_describe_ms(self.real_time_ms)}"
        return str(self._stream.trigger().toString())

    def kafka_sources(self) -> list[dict[str, str]]:
        """The options of each Kafka source, with their names in lower case."""
        leaves = self._stream.analyzedPlan().collectLeaves()
        found = (leaves.apply(index) for index in range(leaves.size()))
        return [
            dict(leaf.extraOptions())
            for leaf in found
            if leaf.getClass().getSimpleName() == "StreamingRelationV2"
            and leaf.sourceName() == "kafka"
        ]

    def committed_offsets(self) -> list[dict[TopicPartition, int]]:
        """Of each Kafka source, the offsets up to which its batches are committed."""
        committed = self._stream.committedOffsets().iterator()
        offsets = []
        while committed.hasNext():
            offsets.append(parse_offsets(committed.next()._2().json()))
        return [each for each in offsets if each]

    def writes_to(self, topic: str) -> bool | None:
        """Whether its sink is this topic; None if the sink does not tell, as `foreachBatch`."""
        sink = str(self._stream.sink().getClass().getSimpleName()).rstrip("$")
        if sink in _SINKS_WITHOUT_KAFKA:
            return False
        if not sink.startswith("Kafka"):
            return None
        options = _private(self._stream, "extraOptions").iterator()
        while options.hasNext():
            option = options.next()
            if option._1().lower() == "topic":
                return bool(option._2() == topic)
        return None  # each row names its topic

    def find_last_batch(self) -> int | None:
        """The last committed batch."""
        return _latest(self._stream.commitLog())

    def find_last_planned_batch(self) -> int | None:
        """The last batch whose offsets were chosen; it may not be committed yet."""
        return _latest(self._stream.offsetLog())

    def has_run_batch(self) -> bool:
        """Whether this run of the query has begun a batch."""
        return self._find_plan() is not None

    def owes_batch(self) -> bool:
        """Whether Spark runs a batch next even if no record comes.

        It does if one is under way, or if the last one moved the watermark and state waits for it:
        each stateful operator says so. After a restart, the watermark of the run before counts as
        passed until new records come.
        """
        plan, commit = self._find_plan(), self._stream.commitLog().getLatest()
        if plan is None or not commit.isDefined():
            return True  # the first trigger is still to come
        batch, metadata = commit.get()._1(), commit.get()._2()
        if plan.currentBatchId() != batch:
            return True
        watermark_ms = metadata.nextBatchWatermarkMs()
        return (
            watermark_ms > plan.offsetSeqMetadata().batchWatermarkMs()
            and plan.sparkSession().conf().get(NO_DATA_BATCHES) == "true"
            and any(_waits_for(each, watermark_ms) for each in _operators(plan.executedPlan()))
        )

    def tells_progress(self, batch: int | None) -> bool:
        """Whether `lastProgress` has come to this batch; it comes after the commit."""
        progress = self._stream.lastProgress()
        return batch is None or (progress is not None and progress.batchId() >= batch)

    def forget_idleness(self) -> None:
        """Makes `is_idle` say False until the next trigger, as `processAllAvailable` does."""
        getattr(self._stream, "noNewData_$eq")(False)

    @property
    def is_idle(self) -> bool:
        """Whether a trigger has found no data, and no window to close either."""
        return bool(self._stream.noNewData())

    def require_checkpoint(self) -> None:
        """Raises `ConfigError` if the checkpoint is a temporary one, gone when the query stops."""
        if _private(self._stream, "deleteCheckpointOnStop"):
            raise ConfigError(
                f"the query {self.name} has only a temporary checkpoint, which goes when it stops: "
                'give it `.option("checkpointLocation", ...)`'
            )

    @property
    def name(self) -> str:
        """The query's name, or its id if it has none."""
        return str(self._stream.name() or self._stream.id().toString())

    def uncommit(self, batch: int) -> None:
        """Takes back the commit of the last batch, so that the next run repeats it.

        In real-time mode the end of a batch is chosen when it comes, so a driver that dies before
        has not written it either: the next run reads on from the end of the batch before.
        """
        self._stream.commitLog().purgeAfter(batch - 1)
        if self.real_time_ms:
            self._stream.offsetLog().purgeAfter(batch - 1)

    def find_last_batch_with_data(self) -> int | None:
        """The last planned batch that has moved an offset, or the first that is known.

        A query in real-time mode goes on with batches when there is nothing to read.
        """
        log, last = self._stream.offsetLog(), self.find_last_planned_batch()
        first_known, offsets = last, None
        for batch in range(last or 0, -1, -1):
            entry = log.get(batch)
            if not entry.isDefined():
                continue  # progress that is tracked asynchronously may leave it out
            found = str(entry.get().toString())  # its offsets alone
            if offsets not in (None, found):
                return batch + 1
            first_known, offsets = batch, found
        return first_known

    def start_again(self) -> Any:
        """Starts the query once more: same plan, sink, trigger, name and checkpoint."""
        from pyspark import SparkContext

        stream, jvm = self._stream, SparkContext._jvm
        assert jvm is not None, "a query runs in a JVM"
        session = stream.sparkSession()
        manager = session.streams()
        dataset = getattr(jvm, session.getClass().getPackage().getName()).Dataset
        given = [
            jvm.scala.Option.apply(stream.name()),
            *_defaults(manager, "startQuery", [2]),  # from Spark 4.3 on
            jvm.scala.Option.apply(stream.resolvedCheckpointRoot()),
            dataset.ofRows(session, stream.analyzedPlan()),
            _private(stream, "extraOptions"),
            stream.sink(),
            stream.outputMode(),
            False,  # no temporary checkpoint
            True,  # recover from the checkpoint
            stream.trigger(),
            stream.triggerClock(),
        ]
        rest = range(len(given) + 1, len(given) + 1 + _MOST_FURTHER_ARGUMENTS)
        return manager.startQuery(*given, *_defaults(manager, "startQuery", rest))

    @property
    def _trigger(self) -> str:
        return str(self._stream.trigger().getClass().getSimpleName()).rstrip("$")

    def _find_plan(self) -> Any:
        """The plan of the last batch that this run has begun; None if there is none."""
        from py4j.protocol import Py4JError

        plan = self._stream.lastExecution()
        if plan is not None:
            return plan
        try:  # from Spark 4.0 on, each trigger has a context, also one that finds nothing to do
            before = self._stream.getLatestExecutionContext().previousContext()
        except Py4JError:
            return None
        return before.get().executionPlan() if before.isDefined() else None


class NotOnSparkConnect(ConfigError):
    """A call that needs the driver in a JVM of this process; pytest skips the test."""

    def __init__(self, use: str) -> None:
        super().__init__(f"`{use}` needs a Spark driver of this process, not of Spark Connect")


def require_driver(spark: "SparkSession", use: str) -> None:
    """Raises `NotOnSparkConnect` if the session's driver is that of a Spark Connect server."""
    if type(spark).__module__.startswith("pyspark.sql.connect."):
        raise NotOnSparkConnect(use)


def find_execution(query: "StreamingQuery") -> Execution | None:
    """The execution behind a query; None if the query is one of Spark Connect."""
    wrapper: Any = getattr(query, "_jsq", None)
    return None if wrapper is None else Execution(wrapper.streamingQuery())


def require_execution(query: "StreamingQuery", use: str) -> Execution:
    """The same; raises `NotOnSparkConnect` for a query of Spark Connect."""
    require_attribute("query", query, "awaitTermination", "a StreamingQuery")
    execution = find_execution(query)
    if execution is None:
        raise NotOnSparkConnect(use)
    return execution


def _latest(log: Any) -> int | None:
    latest = log.getLatestBatchId()
    return int(latest.get()) if latest.isDefined() else None


def _defaults(target: Any, method: str, numbers: Iterable[int]) -> list[Any]:
    """The defaults of these arguments, numbered from 1, of those that have one."""
    known = {str(found.getName()) for found in target.getClass().getMethods()}
    names = [f"{method}$default${number}" for number in numbers]
    return [getattr(target, name)() for name in names if name in known]


def _operators(plan: Any) -> Iterator[Any]:
    """A physical plan, from its root to its leaves."""
    yield plan
    children = plan.children()
    for index in range(children.size()):
        yield from _operators(children.apply(index))


def _waits_for(operator: Any, watermark_ms: int) -> bool:
    """Whether an operator has state to drop or to emit at this watermark."""
    from py4j.protocol import Py4JError

    try:
        return bool(operator.shouldRunAnotherBatch(watermark_ms))
    except Py4JError:  # an operator without state has no such method
        return False


def _describe_ms(interval_ms: int) -> str:
    size, unit = next(each for each in _UNITS if interval_ms % each[0] == 0)
    count = interval_ms // size
    return f"{count} {unit}" if count == 1 else f"{count} {unit}s"


def _private(target: Any, name: str) -> Any:
    """The value of a private field, of the object's class or one above it."""
    class_ = target.getClass()
    while class_ is not None:
        for field in class_.getDeclaredFields():
            if field.getName() == name:
                field.setAccessible(True)
                return field.get(target)
        class_ = class_.getSuperclass()
    raise ConfigError(f"Spark's {target.getClass().getSimpleName()} has no {name}")
