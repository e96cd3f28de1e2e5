"""What must hold of a cluster, whatever is done to its brokers."""

import hashlib
import threading
from collections import Counter, defaultdict

import confluent_kafka
from confluent_kafka import IsolationLevel
from confluent_kafka.admin import AdminClient, OffsetSpec

from embedkafka.log.log import FetchIsolation
from embedkafka.records.batch import read_batches
from tests.chaos.transactions import AUDIT, SINK, is_thrown_back, let_go, read_on
from tests.cluster.traffic import QUICK, make_consumer


class EpochWatcher:
    """Leader epochs never go back, and an epoch has one leader, whoever is asked."""

    def __init__(self, kafka, complain):
        self._kafka = kafka
        self._complain = complain
        self._lock = threading.Lock()
        self._epochs = {}
        self._leaders = {}
        self._watched = set()

    def watch_all(self):
        """To be called after brokers started: every life has its own metadata."""
        for handle in self._kafka.brokers:
            life = handle.life
            if life is not None and life not in self._watched:
                self._watched.add(life)
                life.broker.metadata.subscribe(lambda b=life.broker: self._look(b))

    def _look(self, broker):
        with self._lock:
            for topic, partitions in broker.metadata.snapshot.topics.items():
                for index, info in partitions.items():
                    self._note((topic, index), info.leader, info.leader_epoch, broker.id)

    def look_at_store(self):
        with self._lock:
            for status in self._kafka._facts.partitions():
                where = (status.topic, status.partition)
                before = self._epochs.get(where, -1)
                if status.leader_epoch < before:
                    self._complain(f"{where} went from epoch {before} to {status.leader_epoch}")
                self._epochs[where] = status.leader_epoch
                self._note(where, status.leader, status.leader_epoch, "zookeeper")

    def _note(self, where, leader, epoch, source):
        if leader is None or leader < 0:
            return
        known = self._leaders.setdefault((where, epoch), (leader, source))
        if known[0] != leader:
            self._complain(f"{where} has two leaders in epoch {epoch}: {known}, {(leader, source)}")


class VerifyingConsumer:
    """Reads all partitions while brokers come and go: no gap, and nothing twice."""

    def __init__(self, kafka, topics, complain):
        self._complain = complain
        self._consumer = make_consumer(
            kafka, **{"auto.offset.reset": "error", "enable.partition.eof": False}
        )
        self._places = [(topic, p) for topic, count in topics.items() for p in range(count)]
        self.seen = defaultdict(list)
        read_on(self._consumer, self._places, {})
        self._moved = threading.Condition()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="verifier", daemon=True)
        self._thread.start()

    def _run(self):
        while not self._ended.is_set():
            messages = self._consumer.consume(500, 0.1)
            with self._moved:
                for message in messages:
                    if message.error() is None:
                        self._take(message)
                if any(map(is_thrown_back, messages)):
                    last = {place: len(records) - 1 for place, records in self.seen.items()}
                    read_on(self._consumer, self._places, last)
                self._moved.notify_all()

    def _take(self, message):
        where = (message.topic(), message.partition())
        records = self.seen[where]
        if message.offset() != len(records):
            self._complain(f"a consumer of {where} got {message.offset()} after {len(records) - 1}")
        records.append(message.value())

    def await_end(self, ends, timeout_s=30.0):
        """Reads on until it has all up to `ends`, and stops."""

        def missing():
            return {w: end for w, end in ends.items() if len(self.seen[w]) < end}

        with self._moved:
            self._moved.wait_for(lambda: not missing(), timeout_s)
        for where, end in missing().items():
            self._complain(f"a consumer of {where} got {len(self.seen[where])} of {end}")
        self.stop()

    def stop(self):
        self._ended.set()
        self._thread.join()
        let_go(self._consumer)


class EndOffsetWatcher:
    """The end that clients are told never goes back (KIP-207): of the log, or of what is stable.

    A leader that was cut off, and does not know that it is none any more, tells what it knows; its
    epoch gives it away.
    """

    def __init__(self, kafka, topics, complain, isolation=IsolationLevel.READ_UNCOMMITTED):
        self._complain = complain
        self._options = {"isolation_level": isolation, "request_timeout": 1}
        self._admin = AdminClient({**QUICK, "bootstrap.servers": kafka.bootstrap_servers})
        self._places = [
            confluent_kafka.TopicPartition(topic, partition)
            for topic, count in topics.items()
            for partition in range(count)
        ]
        self._told = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="end-offsets", daemon=True)
        self._thread.start()

    def _run(self):
        while not self._ended.wait(0.05):
            latest = {place: OffsetSpec.latest() for place in self._places}
            for place, answer in self._admin.list_offsets(latest, **self._options).items():
                try:
                    self._note((place.topic, place.partition), answer.result())
                except confluent_kafka.KafkaException:
                    continue  # there is no leader, or it does not know yet

    def _note(self, where, told):
        epoch, end = self._told.get(where, (-1, 0))
        if told.leader_epoch is None or told.leader_epoch < epoch:
            return
        if told.offset < end:
            self._complain(
                f"clients were told that {where} ends at {end} in epoch {epoch}, then at "
                f"{told.offset} in epoch {told.leader_epoch}"
            )
        self._told[where] = (told.leader_epoch, told.offset)

    def stop(self):
        self._ended.set()
        self._thread.join()


def replicas_of(kafka, topic, partition):
    """The log of every replica, the leader's first."""
    status = kafka.describe_partition(topic, partition)
    ids = sorted(status.replicas, key=lambda broker: broker != status.leader)
    logs = {}
    for broker_id in ids:
        replicas = kafka.broker(broker_id).require_broker().replicas
        logs[broker_id] = replicas.find_partition((topic, partition)).require_log()
    return logs


def committed_bytes(log, high_watermark):
    """What the log holds up to the high watermark, as it is on disk."""
    parts, offset = [], log.log_start_offset
    while offset < high_watermark:
        data = log.read(
            offset, max_bytes=1 << 22, isolation=FetchIsolation.LOG_END, min_one_message=True
        )
        records = data.records
        chunk = bytes(records if isinstance(records, memoryview) else records.read())
        for start, end, last_offset in batches(chunk):
            if last_offset < high_watermark:
                parts.append(chunk[start:end])
            offset = last_offset + 1
    return b"".join(parts)


def batches(chunk):
    """Where each batch begins and ends, and its last offset."""
    position = 0
    while position + 61 <= len(chunk):
        base = int.from_bytes(chunk[position : position + 8], "big")
        length = int.from_bytes(chunk[position + 8 : position + 12], "big")
        delta = int.from_bytes(chunk[position + 23 : position + 27], "big")
        yield position, position + 12 + length, base + delta
        position += 12 + length


def check_replicas(kafka, topics, complain):
    """Replicas are byte-identical up to the high watermark; the end offsets, by partition."""
    ends = {}
    for topic, count in topics.items():
        for partition in range(count):
            logs = replicas_of(kafka, topic, partition)
            high_watermark = next(iter(logs.values())).high_watermark
            ends[topic, partition] = high_watermark
            digests = {}
            for broker_id, log in logs.items():
                data = committed_bytes(log, high_watermark)
                digests[broker_id] = (len(data), hashlib.sha256(data).hexdigest()[:12])
            check_sequences(topic, partition, data, complain)
            if len(set(digests.values())) > 1:
                complain(f"{topic}-{partition} differs up to {high_watermark}: {digests}")
    return ends


def check_sequences(topic, partition, data, complain):
    """The batches of a producer's epoch follow each other, with none missing and none twice.

    Its epochs, which the ends of its transactions carry as well, never go back.
    """
    expected, epochs = {}, {}
    for batch in read_batches(memoryview(data)):
        if batch.producer_id < 0:
            continue
        producer = (batch.producer_id, batch.producer_epoch)
        latest = epochs.setdefault(batch.producer_id, batch.producer_epoch)
        if batch.producer_epoch < latest:
            complain(f"{topic}-{partition}@{batch.base_offset}: {producer} after epoch {latest}")
        epochs[batch.producer_id] = max(latest, batch.producer_epoch)
        if batch.base_sequence < 0:
            continue  # the end of a transaction, or the offsets that it commits
        wanted = expected.get(producer, 0)
        if batch.base_sequence != wanted:
            complain(
                f"{topic}-{partition}@{batch.base_offset}: sequence {batch.base_sequence} of "
                f"producer {producer} instead of {wanted}"
            )
        expected[producer] = batch.last_sequence + 1


def check_acknowledged(senders, seen, complain):
    """What was acknowledged is there, where it should be, once; every sender's in its order.

    A sender that is not `strict` has several requests under way; when one of them is refused, the
    client may start a new epoch and send again what was already written.
    """
    strict = {sender.name for sender in senders if sender.strict}
    for sender in senders:
        for partition, acked in sender.acked.items():
            records = seen[sender.topic, partition]
            places = {value: offset for offset, value in enumerate(records)}
            for offset, life, number in acked:
                wanted = f"{life}:{number}".encode()
                found = places.get(wanted)
                # A client that learns late that a batch was written is not told where.
                wrong_place = sender.strict and offset not in (None, found)
                if found is None or wrong_place:
                    complain(f"{sender.topic}-{partition}: {wanted} at {found}, not {offset}")
                    break
    for (topic, partition), records in seen.items():
        last = {}
        for offset, value in enumerate(records):
            name, _, number = value.decode().rpartition(":")
            if name.partition("/")[0] in strict and int(number) <= last.get(name, -1):
                complain(f"{topic}-{partition}@{offset}: {value} after {name}:{last[name]}")
                break
            last[name] = int(number)


def check_copies(ledger, seen, ends, complain):
    """Each record of the source was copied once, in order, and transactions are whole."""
    for (_, partition), end in ends.items():
        copies = seen[SINK, partition]
        if [number for _, number in copies] != list(range(end)):
            wrong = next((i for i, (_, n) in enumerate(copies) if n != i), len(copies))
            found = copies[max(0, wrong - 1) : wrong + 3]
            complain(f"{SINK}-{partition}: {found} at {wrong}, {len(copies)} copies of {end}")
    counted = {
        txn: count for (topic, _), got in seen.items() if topic == AUDIT for txn, count in got
    }
    copied = Counter(txn for (topic, _), got in seen.items() if topic == SINK for txn, _ in got)
    if counted != copied:
        differing = sorted(counted.items() ^ copied.items())
        complain(f"transactions were seen in part: {differing[:6]}")
    check_fates(ledger, set(counted), complain)


def check_fates(ledger, seen, complain):
    """What was committed was seen; what was aborted or abandoned was not."""
    if ledger.confirmed - seen:
        complain(f"committed and not seen: {sorted(ledger.confirmed - seen)[:5]}")
    if seen & ledger.aborted:
        complain(f"aborted and seen: {sorted(seen & ledger.aborted)[:5]}")
    if seen - ledger.asked:
        complain(f"never committed and seen: {sorted(seen - ledger.asked)[:5]}")
