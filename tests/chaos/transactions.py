"""Workers that copy records in transactions, and what they know of each transaction's end.

Each transaction reads some records of `source`, writes each of them to the same partition of
`sink`, writes one record that counts them to `audit`, and commits the offsets it has read up to.
"""

import queue
import sys
import threading
import time
import traceback
from collections import defaultdict
from contextlib import suppress

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from tests.cluster.traffic import make_consumer, make_producer

SOURCE, SINK, AUDIT = "source", "sink", "audit"
GROUP = "workers"

CALL_S = 3.0
TRIES = 2
"""Who has tried so often is given up as dead: librdkafka 2.16 hangs in send_offsets_to_transaction,
whatever the time it is given, when the coordinator of the group has vanished from the metadata."""
TIMEOUT_S = 60
"""Of transactions, in the cluster's time: far longer than one of them takes."""
LONGEST_OPEN_S = 30.0
"""After this long nothing is concluded from a transaction that seems to be open."""


class Ledger:
    """Which transactions are open, which were to be committed, and which were.

    A producer says that a transaction ends before it asks for the end: what is open here is open
    in the cluster.
    """

    def __init__(self):
        self._lock = threading.Lock()
        self._open = {}
        self._count = 0
        self.asked = set()
        self.confirmed = set()
        self.aborted = set()

    def begin(self, worker):
        with self._lock:
            self._count += 1
            txn = f"{worker}.{self._count}"
            self._open[txn] = (time.monotonic(), {})
            return txn

    def note_written(self, txn, place, offset):
        """A record of the transaction was acknowledged."""
        with self._lock:
            _, places = self._open.get(txn, (0.0, {}))
            places[place] = min(offset, places.get(place, offset))

    def ask(self, txn):
        """Its producer is about to commit it."""
        with self._lock:
            self._open.pop(txn, None)
            self.asked.add(txn)

    def close(self, txn):
        """From now on the transaction may be aborted, by whomever."""
        with self._lock:
            self._open.pop(txn, None)

    def expire(self, advance):
        """Lets time pass that no open transaction outlives."""
        with self._lock:
            self._open.clear()
            advance()

    def find_open_before(self, place, offset):
        """A transaction that is open and has a record before `offset`, or None."""
        latest = time.monotonic() - LONGEST_OPEN_S
        with self._lock:
            for txn, (began, places) in self._open.items():
                if began > latest and places.get(place, offset) < offset:
                    return txn
        return None

    def __str__(self):
        return (
            f"{self._count} transactions, {len(self.confirmed)} committed, {len(self.aborted)} "
            f"aborted, {len(self.asked - self.confirmed - self.aborted)} with an end unknown"
        )


class GaveUp(Exception):
    """A client does not get on: it counts as dead."""


def bounded(call, *arguments):
    """What the call comes to; `GaveUp` when it takes far longer than it was given."""
    outcome = queue.SimpleQueue()

    def run():
        try:
            outcome.put((call(*arguments), None))
        except Exception as error:
            outcome.put((None, error))

    threading.Thread(target=run, name=call.__name__, daemon=True).start()
    try:
        result, error = outcome.get(timeout=2 * CALL_S)
    except queue.Empty:
        raise GaveUp(f"{call.__name__} hangs") from None
    if error is not None:
        raise error
    return result


def let_go(consumer):
    """Closes a consumer; one that hangs is left alone, as happens to librdkafka now and then."""
    with suppress(GaveUp):
        bounded(consumer.close)


class Worker:
    """Copies until it is stopped; `rng` says which transactions are aborted or abandoned.

    A producer that is abandoned in the middle of a transaction, or gives up, has a successor of
    the same name. The dead are kept: some of them wake up and try to commit.
    """

    def __init__(self, kafka, name, rng, ledger, timeline):
        self.name = name
        self.deaths = 0
        self._kafka = kafka
        self._servers = {"bootstrap.servers": kafka.bootstrap_servers}
        self._rng = rng
        self._ledger = ledger
        self._timeline = timeline
        self._producer = None
        self._consumer = None
        self._group = None
        self._expected = {}
        self._dead = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"worker-{name}", daemon=True)

    def start(self):
        self._thread.start()
        return self

    def stop(self):
        self._ended.set()
        self._thread.join(20)
        if self._thread.is_alive():
            stack = traceback.format_stack(sys._current_frames()[self._thread.ident])
            self._timeline.complain(f"worker {self.name} hangs: {''.join(stack[-3:])}")
        self._dead.clear()

    # -- the thread

    def _run(self):
        try:
            while not self._ended.is_set():
                self._take_turn()
        except BaseException as error:
            self._timeline.complain(f"worker {self.name} failed: {error!r}")
            raise
        finally:
            self._close_consumer()

    def _take_turn(self):
        if self._consumer is None:
            self._subscribe()
        if self._producer is None:
            self._succeed()
            return
        messages = self._read()
        if not messages:
            return
        txn = self._ledger.begin(self.name)
        try:
            self._copy(txn, messages)
        except (GaveUp, KafkaException) as refusal:
            self._bury(txn, refusal)

    def _copy(self, txn, messages):
        fate = self._rng.choices(
            ["commit", "abort", "abandon early", "abandon", "haunt"], [80, 10, 2, 4, 4]
        )[0]
        try:
            self._producer.begin_transaction()
            self._write(txn, messages)
            if fate == "abandon early":
                raise GaveUp(fate)
            self._flush()
            self._send_offsets(messages)
            if fate in ("abandon", "haunt"):
                raise GaveUp(fate)
            if fate == "abort":
                self._abort(txn)
            else:
                self._ledger.ask(txn)
                self._call(self._producer.commit_transaction)
                self._ledger.confirmed.add(txn)
        except KafkaException as refusal:
            if not refusal.args[0].txn_requires_abort():
                raise
            self._timeline.note(f"{txn} must be aborted: {refusal.args[0]}")
            self._abort(txn)

    def _write(self, txn, messages):
        def on_delivery(error, message):
            if error is None and message.offset() is not None:
                place = message.topic(), message.partition()
                self._ledger.note_written(txn, place, message.offset())

        # The partition of `audit` is shared by all workers: one open transaction holds up others.
        self._producer.produce(
            AUDIT, f"{txn} {len(messages)}", partition=0, on_delivery=on_delivery
        )
        for message in messages:
            self._producer.produce(
                SINK,
                f"{txn} {message.offset()}",
                partition=message.partition(),
                on_delivery=on_delivery,
            )

    def _flush(self):
        if self._producer.flush(TRIES * CALL_S):
            raise GaveUp("its records are not acknowledged")

    def _send_offsets(self, messages):
        following = {m.partition(): m.offset() + 1 for m in messages}
        offsets = [TopicPartition(SOURCE, *place) for place in following.items()]
        self._call(self._producer.send_offsets_to_transaction, offsets, self._group)

    def _abort(self, txn):
        self._ledger.close(txn)
        self._call(self._producer.abort_transaction)
        self._ledger.aborted.add(txn)
        self._rewind()

    def _bury(self, txn, cause):
        """The transaction is left as it is; the successor of its producer will end it."""
        self._timeline.note(f"worker {self.name} dies in {txn}: {cause}")
        self.deaths += 1
        self._dead.append((txn, self._producer, str(cause) == "haunt"))
        self._producer = None
        if self._rng.random() < 0.3:
            self._close_consumer()

    def _succeed(self):
        """A new producer takes over, if it can."""
        for txn, _, _ in self._dead:
            self._ledger.close(txn)
        producer = make_producer(
            self._kafka,
            **self._servers,
            **{"transactional.id": self.name, "transaction.timeout.ms": TIMEOUT_S * 1000},
        )
        try:
            self._call(producer.init_transactions)
        except (GaveUp, KafkaException) as refusal:
            self._timeline.note(f"worker {self.name} has no successor yet: {refusal}")
            self._dead.append((None, producer, False))
            return
        self._producer = producer
        self._haunt()
        self._rewind()

    def _haunt(self):
        """The last dead producer wakes up, unaware that it has a successor."""
        if not self._dead or not self._dead[-1][2]:
            return
        txn, zombie, _ = self._dead[-1]
        self._dead[-1] = (txn, zombie, False)
        try:
            bounded(zombie.commit_transaction, CALL_S)
        except (GaveUp, KafkaException) as refusal:
            self._timeline.note(f"the zombie of {txn} is refused: {refusal}")
        else:
            self._timeline.complain(f"a zombie committed {txn}")

    # -- what it reads

    def _subscribe(self):
        self._consumer = make_consumer(
            self._kafka,
            GROUP,
            **self._servers,
            **{
                "isolation.level": "read_committed",
                "enable.partition.eof": False,
                "max.poll.interval.ms": 10_000,  # one that was left alone goes
            },
        )
        self._consumer.subscribe([SOURCE], on_assign=self._on_assign, on_revoke=self._on_revoke)

    def _on_assign(self, consumer, partitions):
        # Of this generation, whatever the client hears of in the background: when partitions have
        # gone to another worker, the offsets of what was read before must be refused.
        self._group = consumer.consumer_group_metadata()
        self._expected.clear()
        self._timeline.note(f"{self.name} is given {[p.partition for p in partitions]}")

    def _on_revoke(self, consumer, partitions):
        self._expected.clear()

    def _read(self):
        messages = []
        for message in self._consumer.consume(self._rng.randint(1, 12), 0.1):
            if message.error() is None:
                self._check_order(message)
                messages.append(message)
        return messages

    def _check_order(self, message):
        partition, offset = message.partition(), message.offset()
        if partition not in self._expected:
            self._timeline.note(f"{self.name} reads {SOURCE}-{partition} from {offset}")
        elif offset != self._expected[partition]:
            self._timeline.complain(
                f"worker {self.name} read {offset} of {SOURCE}-{partition} instead of "
                f"{self._expected[partition]}"
            )
        self._expected[partition] = offset + 1

    def _rewind(self):
        """Goes back to what is committed."""
        if self._consumer is None:
            return
        try:
            assignment = self._consumer.assignment()
            for place in self._call(self._consumer.committed, assignment) if assignment else ():
                place.offset = max(place.offset, 0)
                self._consumer.seek(place)
                self._expected[place.partition] = place.offset
            self._timeline.note(f"{self.name} reads on from {self._expected}")
        except (GaveUp, KafkaException) as refusal:
            self._timeline.note(f"worker {self.name} needs another consumer: {refusal}")
            self._close_consumer()

    def _close_consumer(self):
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            try:
                bounded(consumer.close)
            except GaveUp as refusal:
                self._timeline.note(f"a consumer of {self.name} is left alone: {refusal}")

    def _call(self, call, *arguments):
        """Calls a few times, unless it fails for good."""
        for _ in range(TRIES):
            try:
                return bounded(call, *arguments, CALL_S)
            except KafkaException as refused:
                refusal = refused
                if not refusal.args[0].retriable():
                    raise
        raise GaveUp(refusal.args[0])


def is_thrown_back(message):
    """Whether a consumer is told that its position is not to be found.

    librdkafka forgets the leader epoch of a partition when its leader vanishes from the metadata.
    A broker that is cut off, and takes itself for a leader still, may then tell it to start over.
    """
    return message.error() and message.error().code() == KafkaError._AUTO_OFFSET_RESET


def read_on(consumer, places, last):
    """Reads `places` from after the last offset that was seen of each."""
    consumer.assign([TopicPartition(*place, last.get(place, -1) + 1) for place in places])


class CommittedReader:
    """Reads what is committed in `sink` and `audit`, all along."""

    def __init__(self, kafka, topics, ledger, complain):
        self._complain = complain
        self._ledger = ledger
        self._consumer = make_consumer(
            kafka,
            "committed-reader",
            **{
                "isolation.level": "read_committed",
                "auto.offset.reset": "error",
                "enable.partition.eof": False,
            },
        )
        self._places = [(topic, p) for topic, count in topics.items() for p in range(count)]
        self.seen = defaultdict(list)
        self._last = {}
        read_on(self._consumer, self._places, self._last)
        self._moved = threading.Condition()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="committed-reader", daemon=True)
        self._thread.start()

    def await_copies(self, ends, timeout_s):
        """Waits until every record of `source` up to `ends` has been seen in `sink`."""

        def is_done():
            return all(len(self.seen[SINK, p]) >= end for (_, p), end in ends.items())

        with self._moved:
            if not self._moved.wait_for(is_done, timeout_s):
                counts = {p: len(self.seen[SINK, p]) for _, p in ends}
                self._complain(f"copies seen by partition: {counts}, wanted: {ends}")

    def stop(self):
        self._ended.set()
        self._thread.join()
        let_go(self._consumer)

    def _run(self):
        while not self._ended.is_set():
            messages = self._consumer.consume(500, 0.1)
            with self._moved:
                for message in messages:
                    if message.error() is None:
                        self._take(message)
                if any(map(is_thrown_back, messages)):
                    read_on(self._consumer, self._places, self._last)
                self._moved.notify_all()

    def _take(self, message):
        place, offset = (message.topic(), message.partition()), message.offset()
        txn, _, number = message.value().decode().partition(" ")
        if offset <= self._last.get(place, -1):
            self._complain(f"a consumer of {place} got {offset} after {self._last[place]}")
        if txn not in self._ledger.asked:
            self._complain(f"{place}@{offset} of {txn} was seen before anybody committed it")
        hidden = self._ledger.find_open_before(place, offset)
        if hidden is not None:
            self._complain(f"{place}@{offset} of {txn} was seen though {hidden} is open before it")
        self._last[place] = offset
        self.seen[place].append((txn, int(number)))
