"""Stock clients under load: members of groups, and workers that copy in transactions.

Every call is bounded. librdkafka sometimes hangs after a coordinator dies, for example in
`send_offsets_to_transaction`. Such a client is counted, treated as dead, and replaced.
"""

import logging
import queue
import re
import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from random import Random
from typing import TYPE_CHECKING, Any, Self, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from tests.chaos.history import Fate, Txn, tick
from tests.cluster.traffic import QUICK, is_left_unread
from tests.presence import present

if TYPE_CHECKING:
    from tests.chaos.world import World

T = TypeVar("T")

SOURCE, SINK, AUDIT = "source", "sink", "audit"
CALL_S = 3.0
HANG_S = 2 * CALL_S
TRIES = 2
HEIRS, HEIR_S = 30, 0.1
"""How many successors of a producer may fail in a row, and the pause between them. librdkafka may
refuse at once and for good, and each producer costs threads."""
TRANSACTION_TIMEOUT_S = 60
"""In the cluster's time: far longer than any transaction takes."""

SETTINGS = {**QUICK, "allow.auto.create.topics": False}


class GaveUp(Exception):
    """A client makes no progress: treat it as dead."""


class Hangs(GaveUp):
    """A call takes far longer than its timeout."""


hanging: list[str] = []
"""Calls that did not return: their clients may still be busy with them."""


def bounded(call: Callable[..., T], *arguments: Any, timeout_s: float = HANG_S) -> T:
    """The result of the call; raises `Hangs` if it takes far longer than its timeout."""
    outcome: queue.SimpleQueue[tuple[Any, Exception | None]] = queue.SimpleQueue()

    def run() -> None:
        try:
            outcome.put((call(*arguments), None))
        except Exception as error:
            outcome.put((None, error))

    name = getattr(call, "__name__", "call")
    threading.Thread(target=run, name=name, daemon=True).start()
    try:
        result, error = outcome.get(timeout=timeout_s)
    except queue.Empty:
        hanging.append(name)
        raise Hangs(f"{name} hangs") from None
    if error is not None:
        raise error
    return result


class Client:
    """A thread that takes turns until it is stopped. A failure in it is a complaint."""

    def __init__(self, world: "World", name: str, rng: Random) -> None:
        self.name = name
        self._world = world
        self._rng = rng
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"client-{name}", daemon=True)

    def start(self) -> Self:
        self._thread.start()
        return self

    def leave(self) -> None:
        """Takes no more turns."""
        self._ended.set()

    def stop(self) -> None:
        self._ended.set()
        self._thread.join(4 * HANG_S)
        if self._thread.is_alive():
            stack = traceback.format_stack(sys._current_frames()[present(self._thread.ident)])
            hanging.append(self.name)
            self._world.timeline.blame_client(f"{self.name} does not end: {''.join(stack[-3:])}")

    def _run(self) -> None:
        try:
            while not self._ended.is_set():
                self._take_turn()
        except BaseException as error:
            if not self._ended.is_set():
                lines = "".join(traceback.format_exception(error))
                self._world.complain(f"{self.name} failed: {lines}")
        finally:
            self._close()

    def _take_turn(self) -> None:
        raise NotImplementedError

    def _close(self) -> None:
        """Lets go of what the last turn left open."""

    def _call(self, call: Callable[..., T], *arguments: Any) -> T:
        """Repeats a call a few times, unless it fails for good."""
        for _ in range(TRIES):
            try:
                return bounded(call, *arguments, CALL_S)
            except Hangs as hang:
                if not self._ended.is_set():
                    self._world.timeline.blame_client(f"{self.name}: {hang}")
                raise
            except KafkaException as refused:
                refusal = refused
                if not refusal.args[0].retriable():
                    raise
        raise GaveUp(refusal.args[0])

    def _begins_rightly(
        self,
        consumer: "GroupConsumer",
        topic: str,
        partition: int,
        offset: int,
        since: int,
    ) -> bool:
        """A group starts no partition before the offset it had committed by the tick `since`.

        A former coordinator that is cut off does not know that it was replaced. It answers with
        the offsets it knew, in Apache Kafka too. So does a former leader, for which an offset
        beyond the end of its log is out of range. Only those who were elected are to blame.
        """
        group = consumer.group
        self._world.note(f"{self.name} begins {topic}-{partition} at {offset}")
        lineage = self._world.history.cluster
        for *where, committed, sent, acked in list(self._world.history.commits):
            if where != [group, topic, partition] or acked >= since or committed <= offset:
                continue
            if lineage.fate(sent, acked) is Fate.KEPT and not self._ended.is_set():
                cluster = self._world.cluster
                asked = consumer.coordinator_asked()
                resetter = consumer.last_reset_by(topic, partition)
                is_excused = cluster.is_former_coordinator(group, asked)
                is_excused |= cluster.is_former_leader(topic, partition, resetter)
                blame = self._world.note if is_excused else self._world.complain
                blame(
                    f"{self.name} of {group} begins {topic}-{partition} at {offset} though "
                    f"{committed} is committed; it asked {asked}, and {resetter} reset it"
                )
                return False
        return True

    def _let_go(self, consumer: Consumer) -> None:
        try:
            bounded(consumer.close)
        except Hangs as hang:
            self._world.timeline.blame_client(f"{self.name}: a consumer's {hang}")
        except Exception as error:
            self._world.note(f"{self.name} lets a consumer go: {error}")


class RecentLog(logging.Handler):
    """The last lines of one client's log, kept as evidence."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name
        self.lines: deque[str] = deque(maxlen=2_000)
        self.logger = logging.Logger(name)
        self.logger.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(f"{record.created:.3f} {record.getMessage()}")


recent_logs: list[RecentLog] = []
"""One for each consumer, in the order of creation."""


class GroupConsumer(Consumer):
    """A consumer that knows its group and, from its log, which brokers it asked last."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.group: str = settings["group.id"]
        self._recent = RecentLog(f"{threading.current_thread().name} in {self.group}")
        recent_logs.append(self._recent)
        super().__init__(settings, logger=self._recent.logger)

    def coordinator_asked(self) -> int | None:
        """The broker of the last OffsetFetch, unless the log has lost it."""
        pattern = r"GroupCoordinator/(\d+): .* OffsetFetchRequest"
        return _last_broker(pattern, self._recent.lines.copy())

    def note_assignment(self, topic: str, partition: int) -> None:
        """Marks in the log where the client was given the partition."""
        self._recent.lines.append(_assigned(topic, partition))

    def last_reset_by(self, topic: str, partition: int) -> int | None:
        """The broker for which an offset was out of range in this assignment, if there was one."""
        pattern = rf"{topic} \[{partition}\]: offset reset .*, broker (\d+)\)"
        return _last_broker(pattern, self._since_assignment(topic, partition))

    def went_back_by_itself(self, topic: str, partition: int, offset: int) -> bool:
        """Whether the client began at this offset twice in this assignment, and no broker made it.

        An answer to ListOffsets that arrives while a rebalance pauses the partition counts as
        outdated in librdkafka 2.16. It asks again half a second later, though it has found its
        place by then, and goes back to the beginning.
        """
        begun = f"Partition {topic} [{partition}] start fetching at offset {offset} "
        begins = sum(begun in line for line in self._since_assignment(topic, partition))
        return begins > 1 and self.last_reset_by(topic, partition) is None

    def _since_assignment(self, topic: str, partition: int) -> list[str]:
        lines = list(self._recent.lines.copy())
        mark = _assigned(topic, partition)
        begins = (place + 1 for place in reversed(range(len(lines))) if lines[place] == mark)
        return lines[next(begins, 0) :]


def _assigned(topic: str, partition: int) -> str:
    return f"--- given {topic} [{partition}]"


def _last_broker(pattern: str, lines: Iterable[str]) -> int | None:
    found = [each[1] for line in lines if (each := re.search(pattern, line))]
    return int(found[-1]) if found else None


def make_consumer(world: "World", group: str, protocol: str, **settings: Any) -> GroupConsumer:
    return GroupConsumer(
        {
            "debug": "cgrp,consumer",
            **SETTINGS,
            "bootstrap.servers": world.bootstrap,
            "group.id": group,
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "enable.partition.eof": False,
            "fetch.wait.max.ms": 50,
            **(
                {}
                if protocol == "consumer"
                else {"session.timeout.ms": 1_000, "heartbeat.interval.ms": 200}
            ),
            **settings,
        }
    )


class Member(Client):
    """A member of a group: it reads, keeps what it saw, and commits its position.

    A group never reads again what it has committed, and skips nothing.
    """

    def __init__(
        self,
        world: "World",
        name: str,
        rng: Random,
        topic: str,
        group: str,
        protocol: str,
        seen: set[bytes],
    ) -> None:
        super().__init__(world, name, rng)
        self._topic, self._group, self._protocol = topic, group, protocol
        self._seen = seen
        self._expected: dict[int, int | None] = {}
        self._taken: dict[int, int] = {}
        self._consumer: GroupConsumer | None = None

    def _take_turn(self) -> None:
        if self._consumer is None:
            self._assigned_at = tick()
            self._consumer = make_consumer(self._world, self._group, self._protocol)
            self._consumer.subscribe(
                [self._topic], on_assign=self._on_assign, on_revoke=self._on_revoke
            )
        idle = True
        for message in poll_some(self._consumer, self._rng.randint(1, 50)):
            idle = False
            if is_left_unread(message.error()):
                self._world.note(f"{self.name} needs another consumer: {message.error()}")
                self._close()
                return
            if message.error() is None:
                if self._went_back(message):
                    self._close()
                    return
                self._check(message)
                self._seen.add(present(message.value()))
                partition, offset = place_of(message)
                self._taken[partition] = offset + 1
        if self._taken and (idle or self._rng.random() < 0.7):
            self._commit()
        if self._rng.random() < 0.01:  # leaves the group; another consumer joins in the next turn
            self._close()

    def _commit(self) -> None:
        offsets = [TopicPartition(self._topic, p, offset) for p, offset in self._taken.items()]
        before = tick()
        try:
            done = bounded(
                lambda: present(self._consumer).commit(offsets=offsets, asynchronous=False)
            )
        except Hangs as hang:
            if not self._ended.is_set():
                self._world.timeline.blame_client(f"{self.name}: a commit {hang}")
            self._forget()
            return
        except KafkaException as refusal:
            self._world.note(f"{self.name} cannot commit: {refusal.args[0]}")
            return
        after = tick()
        for place in done:
            if place.error is None:
                self._taken.pop(place.partition, None)
                self._world.history.commits.append(
                    (self._group, self._topic, place.partition, place.offset, before, after)
                )

    def _check(self, message: Message) -> None:
        partition, offset = place_of(message)
        if partition in self._expected:
            expected = self._expected[partition]
            if expected is not None and offset != expected:
                self._world.complain(
                    f"{self.name} of {self._group} got {offset} of {self._topic}-{partition} "
                    f"instead of {expected}"
                )
            if expected is None:
                since = self._assigned_at
                self._begins_rightly(present(self._consumer), self._topic, partition, offset, since)
        self._expected[partition] = offset + 1

    def _went_back(self, message: Message) -> bool:
        partition, offset = place_of(message)
        expected = self._expected.get(partition)
        if expected is None or offset >= expected:
            return False
        if not present(self._consumer).went_back_by_itself(self._topic, partition, offset):
            return False
        self._world.timeline.blame_client(
            f"{self.name} goes back from {expected} to {offset} of {self._topic}-{partition}"
        )
        return True

    def _on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._assigned_at = tick()
        self._world.note(f"{self.name} is given {[place.partition for place in partitions]}")
        for place in partitions:
            self._expected[place.partition] = None
            present(self._consumer).note_assignment(place.topic, place.partition)

    def _on_revoke(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        for place in partitions:
            self._expected.pop(place.partition, None)
            self._taken.pop(place.partition, None)

    def _forget(self) -> GroupConsumer | None:
        consumer, self._consumer = self._consumer, None
        self._expected.clear()
        self._taken.clear()
        return consumer

    def _close(self) -> None:
        consumer = self._forget()
        if consumer is not None:
            self._let_go(consumer)


class Worker(Client):
    """Copies `source` to `sink` in transactions that also write one count to `audit`.

    The worker aborts some transactions and abandons others. A producer that is abandoned or gives
    up gets a successor of the same name; some of the dead producers wake up and try to commit.
    """

    def __init__(self, world: "World", name: str, rng: Random, group: str, protocol: str) -> None:
        super().__init__(world, name, rng)
        self._group_id, self._protocol = group, protocol
        self._producer: Producer | None = None
        self._consumer: GroupConsumer | None = None
        self._group: object = None  # the consumer's group metadata
        self._expected: dict[int, int] = {}
        self._begun_at = 0
        self._behind = False
        self._failed_heirs = 0
        self._dead: list[tuple[Txn | None, Producer, bool]] = []

    def _take_turn(self) -> None:
        if self._consumer is None:
            self._subscribe()
        if self._producer is None:
            self._succeed()
            return
        messages = self._read()
        if not messages:
            return
        txn = self._world.history.begin(self.name)
        try:
            self._copy(txn, messages)
        except (GaveUp, KafkaException) as refusal:
            self._bury(txn, refusal)

    def _copy(self, txn: Txn, messages: list[Message]) -> None:
        fate = self._rng.choices(
            ["commit", "abort", "abandon early", "abandon", "haunt"], [82, 10, 2, 3, 3]
        )[0]
        try:
            present(self._producer).begin_transaction()
            self._write(txn, messages)
            if fate == "abandon early":
                raise GaveUp(fate)
            if present(self._producer).flush(TRIES * CALL_S):
                raise GaveUp("records are not acknowledged")
            self._send_offsets(messages)
            if fate in ("abandon", "haunt"):
                raise GaveUp(fate)
            if fate == "abort":
                self._abort(txn)
            else:
                txn.is_open = False
                txn.asked = tick()
                self._call(present(self._producer).commit_transaction)
                self._world.history.confirm(txn)
                ticks = txn.began, present(txn.confirmed)
                for place in following_of(messages).items():
                    self._world.history.commits.append((self._group_id, SOURCE, *place, *ticks))
        except KafkaException as refusal:
            if not refusal.args[0].txn_requires_abort():
                raise
            self._world.note(f"{txn.name} must be aborted: {refusal.args[0]}")
            self._abort(txn)

    def _write(self, txn: Txn, messages: list[Message]) -> None:
        def on_delivery(error: KafkaError | None, message: Message) -> None:
            if error is None and message.offset() is not None:
                place = present(message.topic()), present(message.partition())
                offset = present(message.offset())
                txn.written[place] = min(offset, txn.written.get(place, 1 << 62))

        # All workers share the partition of `audit`, so one open transaction holds up the others.
        present(self._producer).produce(
            AUDIT, f"{txn.name} {len(messages)}", partition=0, on_delivery=on_delivery
        )
        for message in messages:
            present(self._producer).produce(
                SINK,
                f"{txn.name} {message.offset()} {present(message.value()).decode()}",
                partition=present(message.partition()),
                on_delivery=on_delivery,
            )

    def _send_offsets(self, messages: list[Message]) -> None:
        following = following_of(messages)
        offsets = [TopicPartition(SOURCE, *place) for place in following.items()]
        self._call(present(self._producer).send_offsets_to_transaction, offsets, self._group)

    def _abort(self, txn: Txn) -> None:
        txn.is_open = False
        self._call(present(self._producer).abort_transaction)
        txn.aborted = tick()
        self._rewind()

    def _bury(self, txn: Txn, cause: Exception) -> None:
        """Leaves the transaction open; the successor of its producer ends it."""
        self._world.note(f"{self.name} dies in {txn.name}: {cause}")
        self._dead.append((txn, present(self._producer), str(cause) == "haunt"))
        self._producer = None
        if self._rng.random() < 0.3:
            self._close()

    def _succeed(self) -> None:
        """Lets a new producer take over, if it can."""
        for txn, _, _ in self._dead:
            if txn is not None:
                txn.is_open = False
        producer = make_transactional(self._world, self.name)
        try:
            self._call(producer.init_transactions)
        except (GaveUp, KafkaException) as refusal:
            self._world.note(f"{self.name} has no successor yet: {refusal}")
            self._dead.append((None, producer, False))
            self._failed_heirs += 1
            if self._failed_heirs == HEIRS and not self._ended.is_set():
                raise AssertionError(f"{HEIRS} successors have failed: {refusal}") from None
            self._ended.wait(HEIR_S)
            return
        self._failed_heirs = 0
        self._producer = producer
        self._haunt()
        self._rewind()

    def _haunt(self) -> None:
        """Wakes the last dead producer, which does not know of its successor."""
        if not self._dead or not self._dead[-1][2]:
            return
        txn, zombie, _ = self._dead[-1]
        self._dead[-1] = (txn, zombie, False)
        try:
            bounded(zombie.commit_transaction, CALL_S)
        except (GaveUp, KafkaException) as refusal:
            self._world.note(f"the zombie of {present(txn).name} is refused: {refusal}")
        else:
            if not self._ended.is_set():
                self._world.complain(f"a zombie committed {present(txn).name}")

    # -- reading

    def _subscribe(self) -> None:
        self._consumer = make_consumer(
            self._world,
            self._group_id,
            self._protocol,
            **{"isolation.level": "read_committed", "max.poll.interval.ms": 10_000},
        )
        self._consumer.subscribe([SOURCE], on_assign=self._on_assign, on_revoke=self._on_revoke)

    def _on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        # Keep the metadata of this generation, whatever the client learns in the background: once
        # partitions have moved to another worker, the offsets of earlier reads must be refused.
        self._group = consumer.consumer_group_metadata()
        self._expected.clear()
        self._begun_at = tick()
        self._world.note(f"{self.name} is given {[place.partition for place in partitions]}")
        for place in partitions:
            present(self._consumer).note_assignment(place.topic, place.partition)

    def _on_revoke(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._expected.clear()
        self._begun_at = tick()

    def _read(self) -> list[Message]:
        if self._protocol == "consumer":
            # The epoch rises with every change of the group. An epoch taken before the read is at
            # worst old, and then the offsets are refused.
            self._group = present(self._consumer).consumer_group_metadata()
        messages, begun_at = [], self._begun_at
        for message in poll_some(present(self._consumer), self._rng.randint(1, 12)):
            if is_left_unread(message.error()):
                self._world.note(f"{self.name} needs another consumer: {message.error()}")
                self._close()
                return []
            if message.error() is None:
                self._check_order(message)
                messages.append(message)
        if self._behind or self._begun_at != begun_at:
            # Some messages may belong to the previous assignment, and would be committed under this
            # one. Nor can we trust the client's starting offset: librdkafka 2.16 forgets that an
            # offset is unstable if its assignment changes during the request, and starts at 0.
            self._rewind()
            return []
        return messages

    def _check_order(self, message: Message) -> None:
        partition, offset = place_of(message)
        expected = self._expected.get(partition, offset)
        if offset != expected and not self._ended.is_set():
            self._world.complain(
                f"{self.name} read {offset} of {SOURCE}-{partition} instead of {expected}"
            )
        self._expected[partition] = offset + 1

    def _rewind(self) -> None:
        """Seeks to the committed offsets."""
        if self._consumer is None:
            return
        self._behind = True
        since = tick()
        try:
            assignment = self._consumer.assignment()
            for place in self._call(self._consumer.committed, assignment) if assignment else ():
                if place.error is not None:
                    raise GaveUp(place.error)
                place.offset = max(place.offset, 0)
                if not self._begins_rightly(
                    self._consumer, SOURCE, place.partition, place.offset, since
                ):
                    raise GaveUp("its coordinator knows less than was committed")
                self._consumer.seek(place)
                self._expected[place.partition] = place.offset
            self._behind = False
        except (GaveUp, KafkaException) as refusal:
            if is_too_early(refusal):
                return  # it has not started to fetch; try again in the next turn
            self._world.note(f"{self.name} needs another consumer: {refusal}")
            self._close()

    def _close(self) -> None:
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            self._let_go(consumer)


def poll_some(consumer: Consumer, count: int) -> Iterator[Message]:
    """Yields up to `count` messages one at a time, so none outlives a rebalance callback.

    `consume` may run the callback for a new assignment and then return messages of the old one.
    """
    timeout_s = 0.1
    while count and (message := consumer.poll(timeout_s)) is not None:
        yield message
        count, timeout_s = count - 1, 0


def is_too_early(refusal: Exception) -> bool:
    """Whether the client cannot seek yet."""
    error = refusal.args[0]
    return isinstance(error, KafkaError) and error.code() == KafkaError._STATE


def place_of(message: Message) -> tuple[int, int]:
    """Partition and offset of a record."""
    return present(message.partition()), present(message.offset())


def following_of(messages: list[Message]) -> dict[int, int]:
    """The next offset to read, by partition."""
    return {partition: offset + 1 for partition, offset in map(place_of, messages)}


def make_transactional(world: "World", name: str) -> Producer:
    return Producer(
        {
            **SETTINGS,
            "bootstrap.servers": world.bootstrap,
            "transactional.id": name,
            "transaction.timeout.ms": TRANSACTION_TIMEOUT_S * 1000,
            "acks": "all",
            "linger.ms": 0,
            "request.timeout.ms": 1_000,
        }
    )
