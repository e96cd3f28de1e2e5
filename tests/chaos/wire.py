"""Clients that send exactly the requests we choose, one at a time, and hide nothing.

Stock clients retry, reset and forget by their own rules, which can hide a broker's wrong answer or
blame a right one. These clients know the leader epoch of every partition they ask for.
"""

import random
import threading
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any, Self

from embedkafka.runtime.clock import SystemClock
from embedkafka.runtime.files import FileRegion
from embedkafka.wire.net.client import BrokerClient
from embedkafka.wire.protocol.errors import ErrorCode
from embedkafka.wire.protocol.messages.core import (
    FetchRequest,
    FetchResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    MetadataRequest,
    MetadataResponse,
    ProduceRequest,
    ProduceResponse,
)
from embedkafka.wire.protocol.messages.transactions import InitProducerIdRequest
from embedkafka.wire.records.batch import read_batches
from embedkafka.wire.records.builder import NewRecord, build_batch
from tests.chaos.history import Record, tick
from tests.presence import present

if TYPE_CHECKING:
    from tests.chaos.world import World

OnRecord = Callable[[int, int, bytes], None]
"""Called with a partition, an offset and a value."""

CALL_MS = 1_000
LATEST = -1
METADATA_VERSION, FETCH_VERSION, LIST_OFFSETS_VERSION, INIT_VERSION = 12, 12, 7, 4

PASSING = frozenset(
    {
        # The client asks again, here or elsewhere; the end of the round shows that each error
        # passes.
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,  # from a leader that does not know it was deposed
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    }
)


TOMBSTONES = 0.1
"""The share of tombstones among records with keys."""


class Refused(Exception):
    """A broker answered with an error."""

    def __init__(self, code: int) -> None:
        self.code = ErrorCode(code)
        super().__init__(self.code.name)


@dataclass(frozen=True)
class Place:
    """A partition's leader."""

    address: str
    epoch: int
    topic_id: uuid.UUID


class Wire:
    """One client's connections to all brokers, for use by one thread.

    A `naive` client believes the broker it asked last; the others never go back to a leader of an
    earlier epoch.
    """

    def __init__(self, bootstrap: str, name: str, *, naive: bool = False) -> None:
        self._bootstrap = bootstrap.split(",")
        self._name = name
        self._naive = naive
        self._clients: dict[str, BrokerClient] = {}
        self._places: dict[tuple[str, int], Place] = {}
        self._epochs: dict[tuple[uuid.UUID, int], int] = {}
        self._asked = random.Random(name).randrange(100)

    def call(self, address: str, request: object, version: int, timeout_ms: int = CALL_MS) -> Any:
        """Sends a request and returns its response. Any: its class depends on the request's."""
        client = self._clients.get(address)
        if client is None or client.is_closed:
            host, _, port = address.rpartition(":")
            client = BrokerClient(host, int(port), SystemClock(), self._name)
            self._clients[address] = client
        return client.call(request, version, timeout_ms=timeout_ms)

    def ask_any(
        self,
        request: object,
        version: int,
        timeout_ms: int = CALL_MS,
        addresses: Sequence[str] | None = None,
    ) -> Any:
        """Asks one broker after the other; raises OSError if none answers."""
        addresses = addresses or self._bootstrap
        for _ in addresses:
            self._asked += 1
            address = addresses[self._asked % len(addresses)]
            try:
                return self.call(address, request, version, timeout_ms)
            except OSError as error:
                failure = error
        raise failure

    def metadata(self, topics: list[str] | None = None) -> MetadataResponse:
        asked = None if topics is None else [MetadataRequest.Topic(name=t) for t in topics]
        request = MetadataRequest(topics=asked, allow_auto_topic_creation=False)
        answer: MetadataResponse = self.ask_any(request, METADATA_VERSION)
        return answer

    def metadata_of(self, address: str) -> MetadataResponse:
        """Everything that one broker knows."""
        request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
        answer: MetadataResponse = self.call(address, request, METADATA_VERSION)
        return answer

    def place(self, topic: str, partition: int) -> Place:
        """The leader of a partition; raises `Refused` if there is none."""
        known = self._places.get((topic, partition))
        return known or self._look_up(topic, partition)

    def forget(self, topic: str, partition: int) -> None:
        """Forgets a leader that failed to serve, but not its epoch."""
        known = self._places.pop((topic, partition), None)
        if known is not None and not self._naive:
            self._epochs[known.topic_id, partition] = known.epoch

    def _look_up(self, topic: str, partition: int) -> Place:
        answer = self.metadata([topic])
        (found,) = answer.topics
        if found.error_code:
            raise Refused(found.error_code)
        brokers = {b.node_id: f"{b.host}:{b.port}" for b in answer.brokers}
        for info in found.partitions:
            if info.partition_index != partition:
                continue
            if info.leader_id not in brokers:
                raise Refused(ErrorCode.LEADER_NOT_AVAILABLE)
            if info.leader_epoch < self._epochs.get((found.topic_id, partition), -1):
                raise Refused(ErrorCode.LEADER_NOT_AVAILABLE)  # this broker's metadata is stale
            place = Place(brokers[info.leader_id], info.leader_epoch, found.topic_id)
            self._places[topic, partition] = place
            return place
        raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def controller_address(self) -> str:
        answer = self.metadata([])
        for broker in answer.brokers:
            if broker.node_id == answer.controller_id:
                return f"{broker.host}:{broker.port}"
        raise Refused(ErrorCode.NOT_CONTROLLER)

    def end_offset(self, topic: str, partition: int, *, committed: bool = False) -> int:
        """The high watermark, or with `committed` the last stable offset."""
        place = self.place(topic, partition)
        wanted = ListOffsetsRequest.Topic.Partition(
            partition_index=partition, current_leader_epoch=place.epoch, timestamp=LATEST
        )
        request = ListOffsetsRequest(
            replica_id=-1,
            isolation_level=int(committed),
            topics=[ListOffsetsRequest.Topic(name=topic, partitions=[wanted])],
        )
        listed: ListOffsetsResponse = self.call(place.address, request, LIST_OFFSETS_VERSION)
        (found,) = listed.topics
        (answer,) = found.partitions
        if answer.error_code:
            self.forget(topic, partition)
            raise Refused(answer.error_code)
        return answer.offset

    def fetch(
        self,
        topic: str,
        partition: int,
        offset: int,
        *,
        committed: bool = False,
        max_wait_ms: int = 0,
    ) -> FetchResponse.Topic.Partition:
        """The records fetched; raises `Refused` on an error."""
        place = self.place(topic, partition)
        wanted = FetchRequest.Topic.Partition(
            partition=partition,
            current_leader_epoch=place.epoch,
            fetch_offset=offset,
            partition_max_bytes=1 << 20,
        )
        request = FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            isolation_level=int(committed),
            topics=[FetchRequest.Topic(topic=topic, partitions=[wanted])],
        )
        answer: FetchResponse = self.call(place.address, request, FETCH_VERSION)
        if answer.error_code:
            raise Refused(answer.error_code)
        (found,) = answer.responses
        (data,) = found.partitions
        if data.error_code:
            raise Refused(data.error_code)
        return data

    def close(self) -> None:
        for client in self._clients.values():
            client.close()


class ExactProducer:
    """Writes numbered records to all partitions of a topic from a separate thread.

    With `idempotent`, it repeats a batch until it is acknowledged before it sends the next one to
    that partition. Otherwise it sends each batch once: one that is not acknowledged may be there or
    not.
    """

    def __init__(
        self,
        world: "World",
        topic: str,
        partitions: int,
        name: str,
        rng: Random,
        *,
        idempotent: bool = True,
        keys: int = 0,
        pause_s: float = 0.01,
    ) -> None:
        self.topic = topic
        self.name = name
        self.idempotent = idempotent
        self._world = world
        self._partitions = range(partitions)
        self._rng = rng
        self._keys = keys
        self._first_key = 0
        self._pause_s = pause_s
        self._naive = rng.random() < 0.3
        self._version = rng.choice([9, 12, 13])
        self._life = -1
        self._stale = True
        self._pending: dict[int, tuple[list[Record], bytes]] = {}
        self._next_sequence: dict[int, int] = {}
        self._id: tuple[int, int] | None = None
        self._number = 0
        self._last_error: dict[int, str] = {}
        self._acks = dict.fromkeys(self._partitions, 0)
        self._moved = threading.Condition()
        self._ended = threading.Event()
        self._draining = False
        self._thread = threading.Thread(target=self._run, name=f"producer-{name}", daemon=True)

    def start(self) -> Self:
        self._thread.start()
        return self

    def start_over(self) -> None:
        """Replaces the producer, because the cluster has gone back to an earlier state."""
        self._stale = True

    def await_acks(self, timeout_s: float) -> bool:
        """Waits for an acknowledgement from every partition; complains if one is missing."""
        with self._moved:
            wanted = {p: count + 1 for p, count in self._acks.items()}
            lacking = lambda: [p for p, count in wanted.items() if self._acks[p] < count]  # noqa: E731
            if not self._moved.wait_for(lambda: not lacking(), timeout_s):
                for p in lacking():
                    self._world.complain(
                        f"{self.name} got no answer for {self.topic}-{p} in {timeout_s:g} s; "
                        f"last: {self._last_error.get(p)}"
                    )
                return False
        return True

    def stop(self, timeout_s: float) -> None:
        """Sends nothing new; batches in flight must be acknowledged in time."""
        self._draining = True
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            waiting = {p: self._last_error.get(p) for p in self._pending}
            self._world.complain(
                f"{self.name} waits for {self.topic} {waiting} {timeout_s:g} s after its end"
            )
            self.leave()

    def leave(self) -> None:
        self._ended.set()

    # -- the thread

    def _run(self) -> None:
        wire = None
        while not self._ended.wait(self._pause_s):
            if self._stale:
                if wire is not None:
                    wire.close()
                wire = self._begin_life()
            for partition in self._partitions:
                if self._ended.is_set() or self._stale:
                    break
                if self._draining and partition not in self._pending:
                    continue
                self._take_turn(present(wire), partition)
            if self._draining and not self._pending:
                break
        if wire is not None:
            wire.close()

    def _begin_life(self) -> Wire:
        self._stale = False
        self._life += 1
        self._pending.clear()
        self._next_sequence.clear()
        self._id = None
        name = f"{self.name}/{self._life}"
        return Wire(self._world.bootstrap, name, naive=self._naive)

    def _take_turn(self, wire: Wire, partition: int) -> None:
        try:
            if self.idempotent and self._id is None:
                self._id = self._ask_for_id(wire)
            if partition not in self._pending:
                self._pending[partition] = self._make_batch(partition)
            records, batch = self._pending[partition]
            answer = self._send(wire, partition, batch)
        except OSError as error:
            self._fail(wire, partition, repr(error))
        except Refused as refusal:
            if refusal.code not in PASSING:
                self._world.complain(f"{self.name} was refused {self.topic}-{partition}: {refusal}")
            self._fail(wire, partition, str(refusal))
        else:
            del self._pending[partition]
            self._acknowledge(partition, records, answer.base_offset)

    def _fail(self, wire: Wire, partition: int, why: str) -> None:
        self._last_error[partition] = why
        wire.forget(self.topic, partition)
        if not self.idempotent:
            self._pending.pop(partition, None)

    def _ask_for_id(self, wire: Wire) -> tuple[int, int]:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        answer = wire.ask_any(request, INIT_VERSION)
        if answer.error_code:
            raise Refused(answer.error_code)
        return answer.producer_id, answer.producer_epoch

    def _make_batch(self, partition: int) -> tuple[list[Record], bytes]:
        records = []
        for _ in range(self._rng.choice([1, 1, 2, 5])):
            key, is_tombstone = self._next_key() if self._keys else (None, False)
            life = f"{self.name}/{self._life}"
            records.append(
                Record(self.topic, partition, key, life, self._number, tick(), is_tombstone)
            )
            self._number += 1
        self._world.history.records.extend(records)
        now_ms = self._world.now_ms()
        built: list[NewRecord] = [
            (now_ms, r.key, None if r.is_tombstone else r.value, ()) for r in records
        ]
        if not self.idempotent:
            return records, build_batch(built)
        producer_id, epoch = present(self._id)
        sequence = self._next_sequence.get(partition, 0)
        self._next_sequence[partition] = sequence + len(records)
        return records, build_batch(
            built, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence
        )

    def _next_key(self) -> tuple[bytes, bool]:
        """A key, and whether to delete it. A deleted key is never used again."""
        if self._rng.random() < TOMBSTONES:
            self._first_key += 1
            return f"k{self._first_key - 1}".encode(), True
        return f"k{self._first_key + self._rng.randrange(self._keys)}".encode(), False

    def _send(self, wire: Wire, partition: int, batch: bytes) -> ProduceResponse.Topic.Partition:
        place = wire.place(self.topic, partition)
        data = ProduceRequest.Topic.Partition(index=partition, records=memoryview(bytearray(batch)))
        request = ProduceRequest(
            transactional_id=None,
            acks=-1,
            timeout_ms=500,
            topic_data=[
                ProduceRequest.Topic(
                    name=self.topic, topic_id=place.topic_id, partition_data=[data]
                )
            ],
        )
        response: ProduceResponse = wire.call(place.address, request, self._version)
        (topic,) = response.responses
        (answer,) = topic.partition_responses
        if answer.error_code and answer.error_code != ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
            raise Refused(answer.error_code)
        return answer

    def _acknowledge(self, partition: int, records: list[Record], base_offset: int) -> None:
        now = tick()
        with self._moved:
            for delta, record in enumerate(records):
                record.acked = now
                record.offset = base_offset + delta if base_offset >= 0 else None
            self._acks[partition] += 1
            self._moved.notify_all()


class ExactReader:
    """Reads all partitions of a topic throughout: no gaps, no duplicates, no records that vanish.

    `seen` has the records by partition, as pairs of offset and value. A broker must not call an
    offset out of range that any broker served before.
    """

    def __init__(
        self,
        world: "World",
        topic: str,
        partitions: int,
        *,
        committed: bool = False,
        on_record: OnRecord | None = None,
    ) -> None:
        self.topic = topic
        self.seen: dict[int, list[tuple[int, bytes]]] = {p: [] for p in range(partitions)}
        self._world = world
        self.committed = committed
        self._on_record = on_record
        self._next = dict.fromkeys(self.seen, 0)
        self._told = dict.fromkeys(self.seen, 0)
        self._last_error: dict[int, str] = {}
        self._moved = threading.Condition()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"reader-{topic}", daemon=True)

    def start(self) -> Self:
        self._thread.start()
        return self

    def await_end(self, ends: Mapping[int, int], timeout_s: float) -> None:
        """Reads on until it has reached `ends`, by partition; complains if it does not."""

        def lacking() -> dict[int, int]:
            return {p: end for p, end in ends.items() if self._next[p] < end}

        with self._moved:
            if not self._moved.wait_for(lambda: not lacking(), timeout_s):
                for p, end in lacking().items():
                    self._world.complain(
                        f"a consumer of {self.topic}-{p} is at {self._next[p]} of {end} after "
                        f"{timeout_s:g} s; last: {self._last_error.get(p)}"
                    )

    def leave(self) -> None:
        """Stops reading; later answers do not count."""
        self._ended.set()

    def stop(self) -> None:
        self.leave()
        self._thread.join(5)

    def _run(self) -> None:
        wire = Wire(self._world.bootstrap, f"reader-{self.topic}")
        while not self._ended.wait(0.02):
            for partition in self.seen:
                if self._ended.is_set():
                    break
                self._read(wire, partition)
        wire.close()

    def _read(self, wire: Wire, partition: int) -> None:
        offset = self._next[partition]
        try:
            end = wire.end_offset(self.topic, partition, committed=self.committed)
            data = wire.fetch(self.topic, partition, offset, committed=self.committed)
        except OSError as error:
            self._last_error[partition] = repr(error)
            wire.forget(self.topic, partition)
            return
        except Refused as refusal:
            self._last_error[partition] = str(refusal)
            wire.forget(self.topic, partition)
            if refusal.code not in PASSING and not self._ended.is_set():
                self._world.complain(
                    f"a consumer of {self.topic}-{partition} at {offset} was refused: {refusal}"
                )
            return
        if self._ended.is_set():
            return
        self._check_told(partition, end)
        if data.last_stable_offset > data.high_watermark:
            self._world.complain(f"{self.topic}-{partition} is stable beyond its end")
        with self._moved:
            for at, value, next_offset in visible(data, self.committed):
                if at is not None and at >= self._next[partition]:
                    self._take(partition, at, present(value))
                self._next[partition] = max(self._next[partition], next_offset)
            self._moved.notify_all()

    def _take(self, partition: int, at: int, value: bytes) -> None:
        if not self.committed and at != self._next[partition]:
            self._world.complain(
                f"a consumer of {self.topic}-{partition} got {at} after {self._next[partition] - 1}"
            )
        self.seen[partition].append((at, value))
        self._next[partition] = at + 1
        if self._on_record is not None:
            self._on_record(partition, at, value)

    def _check_told(self, partition: int, end: int) -> None:
        """The high watermark and the last stable offset never go back for a consumer (KIP-207).

        This holds for ListOffsets. The marks that come with records may go back: a leader that has
        died and returned, in the same epoch if all brokers died with it, must first hear from its
        followers.
        """
        if end < self._told[partition]:
            self._world.complain(
                f"consumers of {self.topic}-{partition} saw the end offset "
                f"{self._told[partition]}, then {end}"
            )
        self._told[partition] = end


def visible(
    data: FetchResponse.Topic.Partition, committed: bool
) -> Iterator[tuple[int | None, bytes | None, int]]:
    """Offset, value and next offset of the fetched records; (None, None, next) after a batch.

    As a consumer sees them: without control records and, with `committed`, without aborted records.
    """
    aborted: deque[tuple[int, int]] = deque()
    if committed:
        found = data.aborted_transactions or ()
        aborted = deque(sorted((t.first_offset, t.producer_id) for t in found))
    aborting: set[int] = set()
    assert not isinstance(data.records, FileRegion)  # they came over the wire
    for batch in read_batches(memoryview(bytes(data.records or b""))):
        while aborted and aborted[0][0] <= batch.last_offset:
            aborting.add(aborted.popleft()[1])
        if batch.is_control:
            if next(iter(batch.records())).key == ABORT:
                aborting.discard(batch.producer_id)
        elif not (batch.is_transactional and batch.producer_id in aborting):
            for record in batch.records():
                yield record.offset, bytes(record.value or b""), record.offset + 1
        yield None, None, batch.next_offset


ABORT = b"\x00\x00\x00\x00"
