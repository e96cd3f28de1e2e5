"""Each record is copied exactly once while brokers and workers die.

    python -m pytest tests/chaos --chaos-seed=7 --chaos-rounds=20

Workers of one group copy in transactions. Some they abort, some they abandon; some time out. A
failure prints the seed and the timeline of what was done and seen.
"""

import random

import pytest
from confluent_kafka import IsolationLevel, KafkaException, TopicPartition

from embedkafka import EmbeddedKafka
from tests.chaos.chaos import HEALING_S, Chaos, Timeline
from tests.chaos.checkers import EndOffsetWatcher, check_copies, check_replicas
from tests.chaos.plan import Plan
from tests.chaos.transactions import (
    AUDIT,
    GROUP,
    SINK,
    SOURCE,
    TIMEOUT_S,
    CommittedReader,
    Ledger,
    Worker,
)
from tests.cluster.traffic import Sender, make_consumer

PARTITIONS = 4
STATE_PARTITIONS = 5  # of both internal topics
WORKERS = 2
DRAINING_S = 60.0
"""How long the workers may take for what was left to copy: seconds when they are alone here."""

WRITTEN = {SINK: PARTITIONS, AUDIT: 1}
INTERNAL = {"__consumer_offsets": STATE_PARTITIONS, "__transaction_state": STATE_PARTITIONS}


class TransactionChaos(Chaos):
    """Chaos in which time may pass that no transaction outlives."""

    def __init__(self, kafka, timeline, ledger):
        super().__init__(kafka, timeline)
        self._ledger = ledger

    def expire(self):
        self._ledger.expire(lambda: self._kafka.clock.advance(seconds=TIMEOUT_S + 1))


def check_rest(kafka, ends, complain):
    """Nothing is left open, and the group has committed all it has read."""
    for topic, count in WRITTEN.items():
        for partition in range(count):
            leader = kafka.broker(kafka.leader_of(topic, partition)).require_broker()
            log = leader.replicas.find_partition((topic, partition)).require_log()
            if log.last_stable_offset != log.high_watermark:
                complain(
                    f"{topic}-{partition} is stable up to {log.last_stable_offset} only, "
                    f"committed up to {log.high_watermark}: {log.active_producers()}"
                )
    committed = committed_offsets(kafka, ends)
    if committed != ends:
        complain(f"the group has committed {committed}, the source ends at {ends}")


def committed_offsets(kafka, places, tries=20):
    consumer = make_consumer(kafka, GROUP, **{"isolation.level": "read_committed"})
    wanted = [TopicPartition(*place) for place in places]
    for left in reversed(range(tries)):
        try:
            found = consumer.committed(wanted, 20)
            break
        except KafkaException:
            if not left:  # the coordinator may be moving to its preferred place
                raise
    consumer.close()
    return {(p.topic, p.partition): p.offset for p in found}


def check_again(kafka, seen, complain):
    """Who reads only now sees the same."""
    for topic in WRITTEN:
        again = {}
        for message in kafka.existing_topic(topic).read(timeout_s=30, isolation="read_committed"):
            txn, _, number = message.text.partition(" ")
            again.setdefault((topic, message.partition), []).append((txn, int(number)))
        for place, records in again.items():
            if records != seen[place]:
                complain(f"{place}: {len(records)} records are seen now, {len(seen[place])} before")


def run_round(seed, *, brokers, most_down, steps=14):
    timeline = Timeline(seed)
    ledger = Ledger()
    with EmbeddedKafka(brokers=brokers, seed=seed) as kafka:
        config = {"min.insync.replicas": 2}
        for topic, partitions in {SOURCE: PARTITIONS, **WRITTEN}.items():
            kafka.topic(topic, partitions=partitions, replication=3, config=config)
        sender = Sender(kafka, SOURCE, PARTITIONS, name="input", pause_s=0.005).start()
        workers = [
            Worker(kafka, f"w{n}", random.Random(100 * seed + n), ledger, timeline).start()
            for n in range(WORKERS)
        ]
        reader = CommittedReader(kafka, WRITTEN, ledger, timeline.complain)
        stable_ends = EndOffsetWatcher(
            kafka, WRITTEN, timeline.complain, IsolationLevel.READ_COMMITTED
        )
        chaos = TransactionChaos(kafka, timeline, ledger)
        try:
            sender.await_acks(50)
            for step in Plan(seed, brokers, steps, most_down, others=("depose", "expire")):
                chaos.carry_out(step)
            chaos.recover()
            sender.await_acks(10)
            sender.stop()
            ends = check_replicas(kafka, {SOURCE: PARTITIONS}, timeline.complain)
            reader.await_copies(ends, DRAINING_S)
            for worker in workers:
                worker.stop()
                timeline.note(f"{worker.name} died {worker.deaths} times")
            timeline.note(str(ledger))
            stable_ends.stop()
            reader.stop()
            kafka.await_no_under_replicated(timeout_s=HEALING_S)
            check_copies(ledger, reader.seen, ends, timeline.complain)
            check_rest(kafka, ends, timeline.complain)
            check_again(kafka, reader.seen, timeline.complain)
            check_replicas(kafka, {**WRITTEN, **INTERNAL}, timeline.complain)
            kafka.check()
        except BaseException as error:
            timeline.note(f"FAILED {error!r}")
            error.add_note(f"{timeline}\n{kafka.describe()}")
            raise
    assert not timeline.complaints, f"{timeline.complaints[:5]}\n{timeline}"
    return timeline


@pytest.mark.timeout(180)
def test_each_record_is_copied_once(seed):
    """With three, four or five brokers, by the seed."""
    run_round(seed, brokers=3 + seed % 3, most_down=2 if seed % 3 == 2 else 1)
