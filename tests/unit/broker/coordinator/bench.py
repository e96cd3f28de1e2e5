"""Coordinators without threads: a queue for the loop, lists for logs, a manual clock."""

import heapq
import itertools
import struct
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from embedkafka.broker.coordinator.ports import CoordinatorParts
from embedkafka.broker.coordinator.runtime import CoordinatorRuntime
from embedkafka.runtime.clock import ManualClock
from embedkafka.runtime.failures import Failures
from embedkafka.runtime.ids import TopicPartition
from embedkafka.wire.protocol.errors import ErrorCode
from embedkafka.wire.records.batch import RecordBatch
from embedkafka.wire.records.builder import build_batch
from tests.presence import present

Event = Callable[[], object]


class QueueLoop:
    """Runs posted events on the test's thread when the test calls `run`."""

    def __init__(self) -> None:
        self.events: deque[Event] = deque()
        self.is_running = False
        self.is_open = True

    def post(self, event: Event) -> bool:
        if self.is_open:
            self.events.append(event)
        return self.is_open

    def assert_inside(self) -> None:
        assert self.is_running, "the loop's state was touched from outside"

    def run(self) -> None:
        self.is_running = True
        try:
            while self.events:
                self.events.popleft()()
        finally:
            self.is_running = False


class ManualTimer:
    """Timers on a ManualClock."""

    class Task:
        def __init__(self, callback: Event, deadline_ms: float) -> None:
            self.callback: Event | None = callback
            self.deadline_ms = deadline_ms

        def cancel(self) -> None:
            self.callback = None

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.heap: list[tuple[float, int, ManualTimer.Task]] = []
        self.order = itertools.count()

    def add(self, delay_ms: float, callback: Event) -> Task:
        due = self.clock.now_ms() + delay_ms
        task = self.Task(callback, due)
        heapq.heappush(self.heap, (due, next(self.order), task))
        return task

    def next_due(self) -> float | None:
        while self.heap and self.heap[0][2].callback is None:
            heapq.heappop(self.heap)
        return self.heap[0][0] if self.heap else None

    def fire_due(self) -> None:
        while (due := self.next_due()) is not None and due <= self.clock.now_ms():
            _, _, task = heapq.heappop(self.heap)
            present(task.callback)()


class ListLog:
    """PartitionLogs over lists of batches."""

    def __init__(self) -> None:
        self.batches: dict[TopicPartition, list[bytes]] = {}
        self.end: dict[TopicPartition, int] = {}
        self.held: deque[Event] | None = None
        self.errors: deque[ErrorCode] = deque()

    def append(
        self,
        topic_partition: TopicPartition,
        batch: bytes,
        on_done: Callable[[ErrorCode, int], None],
    ) -> None:
        if self.errors:
            on_done(self.errors.popleft(), -1)
            return
        base_offset = self.end.get(topic_partition, 0)
        stored = struct.pack(">q", base_offset) + batch[8:]
        RecordBatch(memoryview(stored)).ensure_valid()
        self.batches.setdefault(topic_partition, []).append(stored)
        self.end[topic_partition] = RecordBatch(memoryview(stored)).next_offset
        if self.held is None:
            on_done(ErrorCode.NONE, base_offset)
        else:
            self.held.append(lambda: on_done(ErrorCode.NONE, base_offset))

    def put(self, topic_partition: TopicPartition, key: bytes, value: bytes | None) -> None:
        """Appends a record that our coordinators would never write."""
        batch = build_batch([(0, key, value, ())])
        self.append(topic_partition, batch, lambda error, base_offset: None)

    def hold(self) -> None:
        """Withholds acknowledgements until `release`."""
        self.held = deque()

    def release(self) -> None:
        held, self.held = self.held, None
        for acknowledge in present(held):
            acknowledge()

    def log_start_offset(self, topic_partition: TopicPartition) -> int:
        return 0

    def read(self, topic_partition: TopicPartition, offset: int) -> memoryview:
        for batch in self.batches.get(topic_partition, ()):
            if RecordBatch(memoryview(batch)).last_offset >= offset:
                return memoryview(batch)
        return memoryview(b"")

    def records(self) -> list[tuple[Any, Any]]:
        """All records of all partitions, as (key, value)."""
        return [
            (record.key, record.value)
            for batches in self.batches.values()
            for batch in batches
            for record in RecordBatch(memoryview(batch)).records()
        ]


class Reply:
    """Keeps the response to a request and refuses a second one."""

    def __init__(self) -> None:
        self.responses: list[Any] = []  # of any type

    def __call__(self, response: Any) -> None:
        self.responses.append(response)
        assert len(self.responses) == 1, f"answered twice: {self.responses}"

    @property
    def is_waiting(self) -> bool:
        return not self.responses

    @property
    def response(self) -> Any:
        assert self.responses, "not answered"
        return self.responses[0]

    @property
    def error(self) -> ErrorCode:
        return ErrorCode(self.response.error_code)

    @property
    def producer(self) -> tuple[int, int]:
        assert self.error is ErrorCode.NONE
        return self.response.producer_id, self.response.producer_epoch


class Elsewhere(set[int]):
    """Partitions that are known to have another leader."""

    is_informed = True
    is_elsewhere = set.__contains__


class Service(Protocol):
    """The group or the transaction coordinator of a broker."""

    @property
    def coordinator(self) -> CoordinatorRuntime[Any, Any]: ...


class Bench:
    """The parts around a service, with methods to drive it; subclasses add requests."""

    service: Service

    def __init__(
        self,
        *,
        log: ListLog | None = None,
        clock: ManualClock | None = None,
        elsewhere: tuple[int, ...] = (0,),
    ) -> None:
        self.clock = clock or ManualClock()
        self.loop = QueueLoop()
        self.timer = ManualTimer(self.clock)
        self.log = log or ListLog()
        self.elsewhere = Elsewhere(elsewhere)
        self.failures = Failures()
        self.parts = CoordinatorParts(
            loop=self.loop,
            clock=self.clock,
            timer=self.timer,
            logs=self.log,
            failures=self.failures,
        )

    def advance(self, ms: float) -> None:
        """Advances the clock and fires each timer at its due time."""
        target = self.clock.now_ms() + ms
        while (due := self.timer.next_due()) is not None and due <= target:
            self.clock.advance(due - self.clock.now_ms())
            self.timer.fire_due()
            self.loop.run()
        self.clock.advance(target - self.clock.now_ms())

    def send(self, method: Any, *args: Any) -> Reply:
        reply = Reply()
        method(*args, reply)
        self.loop.run()
        return reply

    def shard(self, partition: int = 0) -> Any:
        return self.service.coordinator._host._hosted[partition].shard

    def begin_loading(self) -> deque[Event]:
        """Starts to load and stops after the first read; returns the remaining events."""
        self.service.coordinator.on_leading(0, 1)
        self.loop.is_running = True
        self.loop.events.popleft()()
        self.loop.is_running = False
        loading, self.loop.events = self.loop.events, deque()
        return loading
