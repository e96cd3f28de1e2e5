"""Runs one schedule of a job: its own topics, checkpoints and files, the same session.

Owner: the thread that explores.
Invariants: whatever happens, the queries are stopped, the brokers run, no fault is left, and the
topics are gone when a run ends.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from random import Random
from typing import TYPE_CHECKING, Any, Final, assert_never

from embedkafka.explore.checkpoints import (
    find_checkpoints,
    has_data,
    has_watermark,
    last_watermark_ms,
    remove,
    uncommit,
)
from embedkafka.explore.driver import Driver, Job
from embedkafka.explore.driver_process import DriverProcess, PackedJob
from embedkafka.explore.inputs import Feed
from embedkafka.explore.job_failures import JobFailed
from embedkafka.explore.kept_state import describe_kept
from embedkafka.explore.options import Options
from embedkafka.explore.outputs import Output
from embedkafka.explore.places import NOTHING_PASSED, Passed
from embedkafka.explore.schedule import (
    Arrival,
    Crash,
    CrashInside,
    Expire,
    FailTask,
    FailWrite,
    Grow,
    KillJvm,
    KillLeader,
    Limit,
    LoseReply,
    LoseUnsent,
    Moment,
    MoveLeaders,
    Rebuild,
    Resend,
    Restart,
    Schedule,
    Send,
    Step,
    Take,
)
from embedkafka.explore.source_remarks import careless_sources, latest_starts
from embedkafka.explore.task_faults import TaskFaults
from embedkafka.explore.unsent import CLIENT_ID, flush_producers, purge_producers
from embedkafka.explore.verdict import Items
from embedkafka.runtime.values import dataclass, field, replace
from embedkafka.spark.frames import PROMPT_READS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from embedkafka.cluster.handles.topic import Topic
    from embedkafka.faults.request_faults import Fault

_REPLICAS: Final = 3
_KEEP_FOREVER: Final = {"retention.ms": -1}
"""Records carry their event times, which may be long ago."""
_IMPATIENT: Final = {"kafka.request.timeout.ms": "5000", "kafka.default.api.timeout.ms": "20000"}
"""A source that asks a dead leader waits for its answer: a minute by default."""
_STRIKES: Final = CrashInside | FailTask | FailWrite
"""Steps that make a batch fail."""
_TAKING: Final = Take | Crash | _STRIKES | LoseUnsent | KillJvm | Rebuild | Grow
"""Steps in which queries take what is there."""
_NEED_REPLICAS: Final = (MoveLeaders, KillLeader)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What a schedule gave."""

    found: Mapping[str, object]
    """Each output, for the invariant."""
    items: Mapping[str, Items]
    """Each output, for the verdict."""
    notes: Mapping[int, str]
    """What a step found when it was carried out, by its index in the schedule's steps."""
    has_checkpoint: bool
    has_watermark: bool
    watermarks_ms: Mapping[str, int] = field(default_factory=dict)
    """With which watermark the last batch of each query ran, by its checkpoint."""
    crashes_with_data: int = 0
    """How many crashes made a batch with records run again."""
    passed: Passed = NOTHING_PASSED
    """What the functions for `foreachBatch` did, if the schedule has no events."""
    idle: frozenset[type[Step]] = frozenset()
    """Events of the schedule that had no effect wherever they occur."""
    remarks: tuple[str, ...] = ()
    """What the test's author should know of the job."""
    is_refused: bool = False
    """Whether the job has failed because records had expired that it had not taken."""


class Runner:
    """Runs schedules of one job, one after the other."""

    def __init__(
        self,
        kafka: Any,
        spark: "SparkSession",
        *,
        job: Job,
        feeds: Mapping[str, Feed],
        outputs: Mapping[str, Output],
        reset: Callable[[], object] | None,
        timeout_s: float,
    ) -> None:
        """`kafka` is an `EmbeddedKafka`, or the plugin's external cluster with its methods."""
        self._kafka = kafka
        self._spark = spark
        self._job = job
        self._feeds = feeds
        self._outputs = outputs
        self._reset = reset
        self._timeout_s = timeout_s
        self._names = Random()
        self._leaves_unsent = False

    def run(self, schedule: Schedule) -> Ran:
        """Carries the schedule out and reads the outputs.

        Raises:
            JobFailed: the job or one of its queries raised.
            AwaitTimeout: a query did not process its input in time.
        """
        if self._reset is not None:
            self._reset()
        replicas = min(_REPLICAS, len(self._kafka.brokers)) if _moves_leaders(schedule) else None
        with self._topics(replicas) as topics:
            options = self._options(topics, schedule)
            tasks = TaskFaults(options.directory)
            driver = Driver(self._spark, self._job, timeout_s=self._timeout_s)
            run = _Run(
                self._kafka,
                self._feeds,
                topics,
                driver,
                tasks,
                self._process,
                options,
                partitions=self._partitions(),
                replicas=replicas,
            )
            is_plain = not schedule.events
            if is_plain:
                driver.functions.note()
            watched = tasks.watched() if is_plain or schedule.uses(FailTask) else nullcontext()
            try:
                with watched:
                    run.carry_out(schedule.steps())
                driver.stop()
                self._leaves_unsent |= run.passed.is_unflushed
                if self._leaves_unsent:
                    flush_producers()
                return self._ran(options, topics, run)
            finally:
                driver.stop()
                run.mend()

    def read_before(self) -> dict[str, object]:
        """The outputs before the job has started, where that tells.

        Without `reset`, what a function reads may be what an earlier exploration has left.
        """
        found: dict[str, object] = {}
        if self._reset is not None:
            self._reset()
        with self._topics(None) as topics:
            options = self._options(topics, Schedule(arrivals=()))
            for name, output in self._outputs.items():
                if not output.is_fresh and self._reset is None:
                    continue
                try:
                    found[name] = output.read(self._spark, options, topics.get(name))
                except Exception:  # the author's, or Spark's of files that are not there
                    continue
        return found

    def _process(self, options: Options, moment: Moment) -> DriverProcess:
        job = PackedJob(self._spark, self._job)
        return DriverProcess(job, options, moment, timeout_s=self._timeout_s)

    @contextmanager
    def _topics(self, replicas: int | None) -> "Iterator[dict[str, Topic]]":
        topics: dict[str, Topic] = {}
        suffix = f"-{self._names.getrandbits(32):08x}"
        decoders = {name: feed.decode for name, feed in self._feeds.items()}
        decoders |= {name: output.decode for name, output in self._outputs.items()}
        try:
            for name, partitions in self._partitions().items():
                topics[name] = self._kafka.topic(
                    name + suffix,
                    partitions=partitions,
                    replication=replicas,
                    config=_KEEP_FOREVER,
                    decode=decoders.get(name),
                )
            yield topics
        finally:
            self._kafka._remove_topics([topic.name for topic in topics.values()])

    def _partitions(self) -> dict[str, int]:
        """The topics that a run needs, with the number of their partitions."""
        counts = {name: feed.partitions for name, feed in self._feeds.items()}
        for name, output in self._outputs.items():
            if output.partitions is not None:
                counts.setdefault(name, output.partitions)
        return counts

    def _options(self, topics: "Mapping[str, Topic]", schedule: Schedule) -> Options:
        return Options(
            bootstrap_servers=self._kafka.bootstrap_servers,
            directory=self._kafka.scratch_dir(),
            topics={name: topic.name for name, topic in topics.items()},
            source={**PROMPT_READS, **(_IMPATIENT if _moves_leaders(schedule) else {})},
            suffix=f"_{self._names.getrandbits(32):08x}",
        )

    def _ran(self, options: Options, topics: "Mapping[str, Topic]", run: "_Run") -> Ran:
        checkpoints = find_checkpoints(options.directory)
        found = {
            name: output.read(self._spark, options, topics.get(name))
            for name, output in self._outputs.items()
        }
        return Ran(
            found=found,
            items={name: self._outputs[name].items(each) for name, each in found.items()},
            notes=run.notes,
            has_checkpoint=bool(checkpoints),
            has_watermark=any(map(has_watermark, checkpoints)),
            watermarks_ms={
                str(each.relative_to(options.directory)): last_watermark_ms(each)
                for each in checkpoints
            },
            crashes_with_data=run.crashes_with_data,
            passed=run.passed,
            idle=run.idle,
            remarks=run.remarks,
            is_refused=run.is_refused,
        )


class _Run:
    """One run, step by step."""

    def __init__(
        self,
        kafka: Any,
        feeds: Mapping[str, Feed],
        topics: "Mapping[str, Topic]",
        driver: Driver,
        tasks: TaskFaults,
        process: Callable[[Options, Moment], DriverProcess],
        options: Options,
        *,
        partitions: dict[str, int],
        replicas: int | None,
    ) -> None:
        self.notes: dict[int, str] = {}
        self.remarks: tuple[str, ...] = ()
        self.crashes_with_data = 0
        self.is_refused = False
        self._has_expired = False
        self._waiting: Counter[str] = Counter()
        self._kafka = kafka
        self._feeds = feeds
        self._topics = topics
        self._driver = driver
        self._tasks = tasks
        self._process = process
        self._options = options
        self._replicas = replicas
        self._partitions = partitions
        self._dead: int | None = None
        self._faults: list[tuple[int, Fault, Step]] = []
        self._kinds: Counter[type[Step]] = Counter()
        self._idle: list[Step] = []
        self._limit: Limit | None = None

    @property
    def passed(self) -> Passed:
        return replace(self._driver.functions.passed, tasks=self._tasks.count)

    @property
    def idle(self) -> frozenset[type[Step]]:
        """Kinds of events none of which had an effect."""
        idle = Counter(type(step) for step in self._idle)
        return frozenset(kind for kind, count in idle.items() if count == self._kinds[kind])

    def carry_out(self, steps: Sequence[Step]) -> None:
        self._kinds.update(map(type, steps))
        for index, step in stops_first(steps):
            try:
                note = self._do(index, step)
            except JobFailed as failure:
                self.is_refused = self._has_expired and says_data_loss(failure)
                if not self.is_refused:
                    raise
                return
            if note:
                self.notes[index] = note
            if isinstance(step, _TAKING):
                self._waiting.clear()
        if not self._kinds.keys() - {Send, Take}:
            names = {topic.name: name for name, topic in self._topics.items()}
            sources = self._driver.sources()
            self.remarks = (
                *latest_starts(sources, names),
                *careless_sources(sources, names),
                *describe_kept(self._driver.functions.kept),
            )

    def mend(self) -> None:
        """Ends what steps have broken."""
        for index, fault, step in self._faults:
            fault.remove()
            self.notes[index] = f"{fault.hits} lost"
            if not fault.hits:
                self._idle.append(step)
        self._faults = []
        if self._dead is not None:
            self._kafka.broker(self._dead).start()
            self._await_replicas()
            self._dead = None

    def _do(self, index: int, step: Step) -> str | None:
        match step:
            case Send():
                for arrival in step.arrivals:
                    self._send(arrival)
            case Resend():
                self._send(step.arrival)
            case Take():
                self._take()
            case Restart():
                self._driver.stop()
            case Limit():
                self._driver.stop()
                self._options = self._options.limited(step.records)
                self._limit = step
            case Crash():
                return self._crash(step)
            case CrashInside() | FailWrite():
                return self._strike(step)
            case FailTask():
                with self._tasks.failing() as has_failed:
                    return self._take_struck(step, has_failed)
            case LoseUnsent():
                return self._lose_unsent(step)
            case Expire():
                return self._expire(step)
            case KillJvm():
                self._driver.stop()
                return self._process(self._options, step.moment).await_death()
            case Rebuild():
                self._take()
                self._driver.stop()
                for checkpoint in find_checkpoints(self._options.directory):
                    remove(checkpoint)
            case Grow():
                return self._grow(step.source)
            case LoseReply():
                topic = self._topics[step.topic].name
                fault = self._kafka.faults.disconnect(step.api, handled=True, topic=topic)
                self._faults.append((index, fault, step))
            case MoveLeaders():
                return self._move_leaders(step.topic)
            case KillLeader():
                return self._kill_leader(step.topic)
            case _:
                assert_never(step)
        return None

    def _send(self, arrival: Arrival) -> None:
        self._waiting[arrival.source] += 1
        record = self._feeds[arrival.source].records[arrival.nth]
        partition = None
        if record.key is None:  # the client would choose by chance
            partition = arrival.nth % self._partitions[arrival.source]
        self._topics[arrival.source].send(
            record.value,
            key=record.key,
            partition=partition,
            timestamp_ms=None if record.time_s is None else max(0, int(record.time_s * 1000)),
        )

    def _take(self) -> None:
        self._driver.take(self._options)
        if self._limit is not None:
            sources = self._driver.sources()
            if sources and not any("maxoffsetspertrigger" in source for source in sources):
                self._idle.append(self._limit)
            self._limit = None
        self.mend()

    def _crash(self, step: Crash) -> str:
        if step.before_closing:
            self._driver.take_without_closing(self._options)
            self.mend()
        else:
            self._take()
        self._driver.stop()
        batches = [
            (checkpoint, batch)
            for checkpoint in find_checkpoints(self._options.directory)
            if (batch := uncommit(checkpoint)) is not None
        ]
        if not batches:
            self._idle.append(step)
        self.crashes_with_data += any(has_data(*each) for each in batches)
        texts = [
            f"batch {batch} of {checkpoint.name}"
            f"{'' if has_data(checkpoint, batch) else ', without records,'}"
            for checkpoint, batch in batches
        ]
        return f"{', '.join(texts) or 'no batch'} runs again"

    def _strike(self, step: CrashInside | FailWrite) -> str:
        with self._driver.functions.striking(step) as strike:
            return self._take_struck(step, lambda: strike.has_hit)

    def _take_struck(self, step: Step, has_hit: Callable[[], bool]) -> str:
        """Lets the queries take what is there, fail if they are struck, and start again."""
        try:
            self._driver.take(self._options)
        except JobFailed:
            if not has_hit():
                raise
        self._driver.stop()
        self.mend()
        if has_hit():
            return ""
        self._idle.append(step)
        return "it did not come there"

    def _lose_unsent(self, step: LoseUnsent) -> str:
        """What its producers send is broken off until they are flushed."""
        fault = self._kafka.faults.disconnect("PRODUCE", client_id=CLIENT_ID, times=None)
        try:
            with self._driver.functions.flushing(fault.remove):
                self._take()
            self._driver.stop()
            has_lost = purge_producers()
        finally:
            fault.remove()
        if not has_lost:
            self._idle.append(step)
        return "" if has_lost else "nothing was left"

    def _expire(self, step: Expire) -> str:
        """Queries that have taken nothing yet would begin behind what has expired."""
        if not find_checkpoints(self._options.directory):
            self._idle.append(step)
            return "they had not begun"
        count = self._waiting.pop(step.source, 0)
        if count:
            self._has_expired = True
            delete_records(self._topics[step.source])
        else:
            self._idle.append(step)
        return f"{count} expired"

    def _grow(self, source: str) -> str:
        self._take()
        self._partitions[source] += 1
        self._topics[source].add_partitions(self._partitions[source])
        return f"it has {self._partitions[source]}"

    def _move_leaders(self, name: str) -> str:
        topic = self._topics[name]
        leader = topic.leader()
        self._kafka.broker(leader).restart()
        self._await_replicas()
        return f"from broker {leader} to {topic.leader()}"

    def _kill_leader(self, name: str) -> str:
        self.mend()
        topic = self._topics[name]
        self._dead = topic.leader()
        self._kafka.broker(self._dead).kill()
        for each, partition in self._all_partitions():
            each.await_leader(partition)
        return f"broker {self._dead} died, {topic.leader()} leads"

    def _await_replicas(self) -> None:
        assert self._replicas is not None, "a schedule that moves leaders has replicas"
        for topic, partition in self._all_partitions():
            topic.await_isr(partition, size=self._replicas)

    def _all_partitions(self) -> "Iterator[tuple[Topic, int]]":
        for name, topic in self._topics.items():
            for partition in range(self._partitions[name]):
                yield topic, partition


def stops_first(steps: Sequence[Step]) -> list[tuple[int, Step]]:
    """The steps with their indexes, in an order in which queries stop only when nothing waits.

    A query that stops with records waiting may take some of them first. Stopping it before they
    are sent is the same to the job, and happens the same way each time.
    """
    ordered: list[tuple[int, Step]] = []
    since_take = 0
    for index, step in enumerate(steps):
        if isinstance(step, Restart | Limit):
            ordered.insert(since_take, (index, step))
            since_take += 1
            continue
        if isinstance(step, KillJvm | Expire) or (isinstance(step, Crash) and step.before_closing):
            # What waits is for the driver that dies.
            ordered.insert(since_take, (index, Restart()))
        ordered.append((index, step))
        if isinstance(step, _TAKING):
            since_take = len(ordered)
    return ordered


def says_data_loss(failure: JobFailed) -> bool:
    """Whether a job has failed because records are gone, and not by itself."""
    return "failOnDataLoss" in str(failure)


def delete_records(topic: "Topic") -> None:
    """What is in a topic is gone, as if it had expired."""
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": topic.bootstrap_servers, "client.id": "embedkafka"})
    ends = [TopicPartition(topic.name, partition, -1) for partition in topic.end_offsets()]
    for deleted in admin.delete_records(ends).values():
        deleted.result()


def _moves_leaders(schedule: Schedule) -> bool:
    return schedule.uses(*_NEED_REPLICAS)
