"""A group coordinator without threads: a queue for a loop, lists for logs, time by hand."""

import heapq
import itertools
import struct
import uuid
from collections import deque
from collections.abc import Callable
from random import Random

import pytest

from embedkafka.group.config import GroupConfig
from embedkafka.group.service import GroupService
from embedkafka.protocol.errors import ErrorCode
from embedkafka.protocol.messages.groups import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    SyncGroupRequest,
)
from embedkafka.records.batch import RecordBatch
from embedkafka.runtime.clock import ManualClock


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

    def records(self):
        """All records of all partitions, as (key, value)."""
        return [
            (record.key, record.value)
            for batches in self.batches.values()
            for batch in batches
            for record in RecordBatch(memoryview(batch)).records()
        ]


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


class Catalog:
    """TopicCatalog: names with partition counts; ids follow from the names."""

    def __init__(self):
        self.counts = {}

    def topics(self):
        return {name: (self.id_of(name), count) for name, count in self.counts.items()}

    @staticmethod
    def id_of(name):
        return uuid.uuid5(uuid.NAMESPACE_DNS, name)


class Elsewhere(set):
    """Partitions that another broker is known to lead."""

    is_elsewhere = set.__contains__


class Overrides(dict):
    """Settings of single groups, by group and name."""

    def find_group_value(self, group_id, name):
        return self.get((group_id, name))


class Coordinator:
    """The service with the parts around it, and short ways to send requests."""

    def __init__(self, config=None, log=None, clock=None, catalog=None, elsewhere=(0,)):
        self.config = config or GroupConfig(offsets_topic_num_partitions=1)
        self.clock = clock or ManualClock()
        self.loop = QueueLoop()
        self.timer = ManualTimer(self.clock)
        self.log = log or ListLog()
        self.catalog = catalog or Catalog()
        self.elsewhere = Elsewhere(elsewhere)
        self.overrides = Overrides()
        self.service = self.build()

    def build(self):
        return GroupService(
            config=self.config,
            loop=self.loop,
            clock=self.clock,
            timer=self.timer,
            writer=self.log,
            reader=self.log,
            random=Random(1),
            topics=self.catalog,
            leaders=self.elsewhere,
            overrides=self.overrides,
        )

    def lead(self):
        for partition in range(self.config.offsets_topic_num_partitions):
            self.service.on_leading(partition, 0)
        self.loop.run()
        return self

    def advance(self, ms):
        """Moves time and delivers each timer at its own time."""
        target = self.clock.now_ms() + ms
        while (due := self.timer.next_due()) is not None and due <= target:
            self.clock.advance(due - self.clock.now_ms())
            self.timer.fire_due()
            self.loop.run()
        self.clock.advance(target - self.clock.now_ms())

    def send(self, method: Callable[..., None], *args) -> Reply:
        reply = Reply()
        method(*args, reply)
        self.loop.run()
        return reply

    def shard(self, partition=0):
        return self.service._host._hosted[partition].shard

    def join(
        self,
        group="g",
        member="",
        *,
        version=9,
        instance=None,
        protocols=(("range", b"sub"),),
        session_ms=10_000,
        rebalance_ms=60_000,
        protocol_type="consumer",
        client="c",
    ):
        request = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            member_id=member,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocols=[JoinGroupRequest.Protocol(name=n, metadata=m) for n, m in protocols],
        )
        return self.send(self.service.join_group, request, client, "/127.0.0.1", version)

    def joined(self, group="g", **kwargs):
        """A new dynamic member's join, with the id it was told to use; returns (id, reply)."""
        first = self.join(group, **kwargs)
        assert first.error is ErrorCode.MEMBER_ID_REQUIRED
        member = first.response.member_id
        return member, self.join(group, member, **kwargs)

    def sync(self, member, generation, assignments=None, *, group="g", instance=None, version=4):
        request = SyncGroupRequest(
            group_id=group,
            generation_id=generation,
            member_id=member,
            group_instance_id=instance,
            protocol_type="consumer" if version >= 5 else None,
            protocol_name="range" if version >= 5 else None,
            assignments=[
                SyncGroupRequest.Assignment(member_id=m, assignment=a)
                for m, a in (assignments or {}).items()
            ],
        )
        return self.send(self.service.sync_group, request, version)

    def heartbeat(self, member, generation, *, group="g", instance=None):
        request = HeartbeatRequest(
            group_id=group,
            generation_id=generation,
            member_id=member,
            group_instance_id=instance,
        )
        return self.send(self.service.heartbeat, request)

    def leave(self, *members, group="g", version=5):
        request = LeaveGroupRequest(
            group_id=group,
            member_id=members[0] if version < 3 else "",
            members=[
                LeaveGroupRequest.Member(member_id=m)
                if isinstance(m, str)
                else LeaveGroupRequest.Member(member_id=m[0], group_instance_id=m[1])
                for m in members
            ],
        )
        return self.send(self.service.leave_group, request, version)

    def commit(
        self,
        offsets,
        *,
        group="g",
        member="",
        generation=-1,
        instance=None,
        version=8,
        metadata="",
        retention_ms=-1,
    ):
        request = OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=generation,
            member_id=member,
            group_instance_id=instance,
            retention_time_ms=retention_ms,
            topics=[
                OffsetCommitRequest.Topic(
                    name=topic,
                    partitions=[
                        OffsetCommitRequest.Topic.Partition(
                            partition_index=partition,
                            committed_offset=offset,
                            committed_leader_epoch=3,
                            committed_metadata=metadata,
                        )
                    ],
                )
                for (topic, partition), offset in offsets.items()
            ],
        )
        return self.send(self.service.offset_commit, request, version)

    def committed(self, *partitions, group="g", require_stable=False):
        """Offsets by (topic, partition); all there are when none are named."""
        topics = [
            OffsetFetchRequest.Group.Topic(name=topic, partition_indexes=[partition])
            for topic, partition in partitions
        ]
        request = OffsetFetchRequest(
            groups=[OffsetFetchRequest.Group(group_id=group, topics=topics or None)],
            require_stable=require_stable,
        )
        reply = self.send(self.service.offset_fetch, request, 8)
        (answer,) = reply.response.groups
        assert answer.error_code == ErrorCode.NONE
        return {
            (topic.name, partition.partition_index): partition.committed_offset
            if partition.error_code == ErrorCode.NONE
            else ErrorCode(partition.error_code)
            for topic in answer.topics
            for partition in topic.partitions
        }

    def fetch(self, *groups):
        """Everything that groups have committed, as one request."""
        request = OffsetFetchRequest(
            groups=[OffsetFetchRequest.Group(group_id=group, topics=None) for group in groups]
        )
        return self.send(self.service.offset_fetch, request, 8)

    def stable(self, group="g", **kwargs):
        """A group of one member in Stable; returns its member id."""
        member, reply = self.joined(group, **kwargs)
        assert reply.error is ErrorCode.NONE
        generation = reply.response.generation_id
        assert self.sync(member, generation, {member: b"a"}, group=group).error is ErrorCode.NONE
        return member


@pytest.fixture
def coordinator():
    return Coordinator().lead()


@pytest.fixture(scope="session")
def new_coordinator():
    return Coordinator


def commit_errors(reply):
    return [
        ErrorCode(partition.error_code)
        for topic in reply.response.topics
        for partition in topic.partitions
    ]


@pytest.fixture(name="commit_errors")
def commit_errors_fixture():
    return commit_errors
