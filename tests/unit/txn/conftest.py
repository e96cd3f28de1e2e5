"""A transaction coordinator without threads: a queue for a loop, lists for logs, time by hand."""

import heapq
import itertools
import struct
from collections import deque

import pytest

from embedkafka.protocol.errors import ErrorCode
from embedkafka.protocol.messages.transactions import (
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    WriteTxnMarkersResponse,
)
from embedkafka.records.batch import RecordBatch
from embedkafka.runtime.clock import ManualClock
from embedkafka.runtime.ids import TopicPartition
from embedkafka.txn.config import TxnConfig
from embedkafka.txn.ports import NO_LEADER
from embedkafka.txn.service import TxnService


class QueueLoop:
    """Runs posted events when told to, one after another, on the test's thread."""

    def __init__(self):
        self.events = deque()
        self.is_running = False
        self.is_open = True

    def post(self, event):
        if self.is_open:
            self.events.append(event)
        return self.is_open

    def assert_inside(self):
        assert self.is_running, "state of the loop was touched from outside"

    def run(self):
        self.is_running = True
        while self.events:
            self.events.popleft()()
        self.is_running = False


class ManualTimer:
    """Timers in the time of a ManualClock."""

    class Task:
        def __init__(self, callback):
            self.callback = callback

        def cancel(self):
            self.callback = None

    def __init__(self, clock):
        self.clock = clock
        self.heap = []
        self.order = itertools.count()

    def add(self, delay_ms, callback):
        task = self.Task(callback)
        due = self.clock.now_ms() + delay_ms
        heapq.heappush(self.heap, (due, next(self.order), task))
        return task

    def next_due(self):
        while self.heap and self.heap[0][2].callback is None:
            heapq.heappop(self.heap)
        return self.heap[0][0] if self.heap else None

    def fire_due(self):
        while (due := self.next_due()) is not None and due <= self.clock.now_ms():
            _, _, task = heapq.heappop(self.heap)
            task.callback()


class ListLog:
    """PartitionWriter and PartitionReader over lists of batches."""

    def __init__(self):
        self.batches = {}
        self.end = {}
        self.held = None
        self.errors = deque()

    def append(self, topic_partition, batch, on_done):
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

    def hold(self):
        """Keeps acknowledgements back until `release`."""
        self.held = deque()

    def release(self):
        held, self.held = self.held, None
        for acknowledge in held:
            acknowledge()

    def log_start_offset(self, topic_partition):
        return 0

    def read(self, topic_partition, offset):
        for batch in self.batches.get(topic_partition, ()):
            if RecordBatch(memoryview(batch)).last_offset >= offset:
                return memoryview(batch)
        return memoryview(b"")


class Leaders:
    """MarkerSender: every partition is led by broker 1 unless told otherwise."""

    def __init__(self):
        self.leaders = {}
        self.deleted = set()
        self.requests = []
        self.errors = {}
        self.held = None
        self.unreachable = set()

    def find_leader(self, topic_partition):
        if topic_partition in self.deleted:
            return None
        return self.leaders.get(topic_partition, 1)

    def send(self, broker_id, request, on_done):
        self.requests.append((broker_id, request))
        if broker_id in self.unreachable:
            on_done(None)
        elif self.held is None:
            on_done(self.respond(request))
        else:
            self.held.append(lambda: on_done(self.respond(request)))

    def hold(self):
        self.held = []

    def release(self):
        held, self.held = self.held, None
        for respond in held:
            respond()

    def respond(self, request):
        marker_type = WriteTxnMarkersResponse.Marker
        return WriteTxnMarkersResponse(
            markers=[
                marker_type(
                    producer_id=marker.producer_id,
                    topics=[
                        marker_type.Topic(
                            name=topic.name,
                            partitions=[
                                marker_type.Topic.Partition(
                                    partition_index=index,
                                    error_code=self.error(TopicPartition(topic.name, index)),
                                )
                                for index in topic.partition_indexes
                            ],
                        )
                        for topic in marker.topics
                    ],
                )
                for marker in request.markers
            ]
        )

    def error(self, topic_partition):
        queue = self.errors.get(topic_partition)
        return queue.pop(0) if queue else ErrorCode.NONE

    def markers(self):
        """What was sent, as (broker, producer id, epoch, committed, partitions)."""
        return [
            (
                broker,
                marker.producer_id,
                marker.producer_epoch,
                marker.transaction_result,
                {(t.name, p) for t in marker.topics for p in t.partition_indexes},
            )
            for broker, request in self.requests
            for marker in request.markers
        ]


class Blocks:
    """Producer ids 1000, 1001, ... in blocks of ten."""

    def __init__(self):
        self.next = 1000

    def allocate(self):
        block = range(self.next, self.next + 10)
        self.next += 10
        return block


class Reply:
    """Keeps what a request is answered with, and insists on one answer."""

    def __init__(self):
        self.responses = []

    def __call__(self, response):
        self.responses.append(response)
        assert len(self.responses) == 1, f"answered twice: {self.responses}"

    @property
    def is_waiting(self):
        return not self.responses

    @property
    def response(self):
        assert self.responses, "not answered"
        return self.responses[0]

    @property
    def error(self):
        return ErrorCode(self.response.error_code)

    @property
    def producer(self):
        assert self.error is ErrorCode.NONE
        return self.response.producer_id, self.response.producer_epoch


class Elsewhere(set):
    """Partitions that another broker is known to lead."""

    is_elsewhere = set.__contains__


class Coordinator:
    """The service with the parts around it, and short ways to send requests."""

    NO_LEADER = NO_LEADER

    def __init__(
        self, config=None, log=None, clock=None, leaders=None, blocks=None, elsewhere=(0,)
    ):
        self.config = config or TxnConfig(num_partitions=1)
        self.clock = clock or ManualClock()
        self.loop = QueueLoop()
        self.timer = ManualTimer(self.clock)
        self.log = log or ListLog()
        self.leaders = leaders or Leaders()
        self.blocks = blocks or Blocks()
        self.elsewhere = Elsewhere(elsewhere)
        self.service = TxnService(
            config=self.config,
            loop=self.loop,
            clock=self.clock,
            timer=self.timer,
            writer=self.log,
            reader=self.log,
            producer_id_blocks=self.blocks,
            markers=self.leaders,
            leaders=self.elsewhere,
        )

    def lead(self, epoch=0):
        for partition in range(self.config.num_partitions):
            self.service.on_leading(partition, epoch)
        self.loop.run()
        return self

    def successor(self, epoch=1):
        """Another broker's coordinator on the same log, after a failover."""
        return Coordinator(self.config, self.log, self.clock, blocks=self.blocks).lead(epoch)

    def advance(self, ms):
        """Moves time and delivers each timer at its own time."""
        target = self.clock.now_ms() + ms
        while (due := self.timer.next_due()) is not None and due <= target:
            self.clock.advance(due - self.clock.now_ms())
            self.timer.fire_due()
            self.loop.run()
        self.clock.advance(target - self.clock.now_ms())

    def send(self, method, *args):
        reply = Reply()
        method(*args, reply)
        self.loop.run()
        return reply

    def shard(self, partition=0):
        return self.service._host._hosted[partition].shard

    def state(self, transactional_id="tx"):
        return self.shard().find(transactional_id).state.label

    def init(self, transactional_id="tx", *, producer=(-1, -1), timeout_ms=60_000, version=4):
        request = InitProducerIdRequest(
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms,
            producer_id=producer[0],
            producer_epoch=producer[1],
        )
        return self.send(self.service.init_producer_id, request, version)

    def add(self, producer, *partitions, transactional_id="tx", version=3, verify_only=False):
        """The error of the first partition."""
        topics = [
            AddPartitionsToTxnRequest.Transaction.Topic(name=topic, partitions=[partition])
            for topic, partition in partitions
        ]
        if version < 4:
            request = AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=transactional_id,
                v3_and_below_producer_id=producer[0],
                v3_and_below_producer_epoch=producer[1],
                v3_and_below_topics=topics,
            )
        else:
            request = AddPartitionsToTxnRequest(
                transactions=[
                    AddPartitionsToTxnRequest.Transaction(
                        transactional_id=transactional_id,
                        producer_id=producer[0],
                        producer_epoch=producer[1],
                        verify_only=verify_only,
                        topics=topics,
                    )
                ]
            )
        response = self.send(self.service.add_partitions_to_txn, request, version).response
        results = (
            response.results_by_topic_v3_and_below
            if version < 4
            else response.results_by_transaction[0].topic_results
        )
        return ErrorCode(results[0].results_by_partition[0].partition_error_code)

    def end(self, producer, *, committed=True, transactional_id="tx", version=4):
        request = EndTxnRequest(
            transactional_id=transactional_id,
            producer_id=producer[0],
            producer_epoch=producer[1],
            committed=committed,
        )
        return self.send(self.service.end_txn, request, version)


@pytest.fixture
def coordinator():
    return Coordinator().lead()


@pytest.fixture(scope="session")
def new_coordinator():
    return Coordinator
