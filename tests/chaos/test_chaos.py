"""Nothing acknowledged is lost while brokers are killed, paused, cut off and deposed.

    python -m pytest tests/chaos --chaos-seed=7 --chaos-rounds=20

A failure prints the seed and the timeline of what was done and seen.
"""

import pytest

from embedkafka import EmbeddedKafka
from tests.chaos.chaos import Chaos, Timeline
from tests.chaos.checkers import (
    EndOffsetWatcher,
    VerifyingConsumer,
    check_acknowledged,
    check_replicas,
)
from tests.chaos.plan import Plan
from tests.cluster.traffic import Sender

TOPICS = {"orders": 20, "prices": 12}


def run_round(seed, *, brokers, most_down, steps=14):
    timeline = Timeline(seed)
    with EmbeddedKafka(brokers=brokers, seed=seed) as kafka:
        config = {"min.insync.replicas": 2}
        for topic, partitions in TOPICS.items():
            kafka.topic(topic, partitions=partitions, replication=3, config=config)
        senders = [
            Sender(
                kafka, topic, partitions, name=f"{topic}-{n}", pause_s=0.002, strict=bool(n)
            ).start()
            for n in range(2)
            for topic, partitions in TOPICS.items()
        ]
        verifier = VerifyingConsumer(kafka, TOPICS, timeline.complain)
        ends_watcher = EndOffsetWatcher(kafka, TOPICS, timeline.complain)
        chaos = Chaos(kafka, timeline)
        try:
            for sender in senders:
                sender.await_acks(10)
            for step in Plan(seed, brokers, steps, most_down):
                chaos.carry_out(step)
            chaos.recover()
            for sender in senders:
                sender.await_acks(10)
                sender.stop()
                timeline.note(f"{sender.name}: {sender.count} of {sender.sent} acknowledged")
                for death in sender.deaths:
                    timeline.note(f"{sender.name} needed another client: {death}")
                for error in sender.errors:
                    timeline.complain(f"{sender.name} was refused: {error}")
            ends_watcher.stop()
            ends = check_replicas(kafka, TOPICS, timeline.complain)
            verifier.await_end(ends)
            check_acknowledged(senders, verifier.seen, timeline.complain)
            kafka.check()
        except BaseException as error:
            timeline.note(f"FAILED {error!r}")
            error.add_note(f"{timeline}\n{kafka.describe()}")
            raise
    assert not timeline.complaints, f"{timeline.complaints[:5]}\n{timeline}"
    return timeline


@pytest.mark.timeout(120)
def test_three_brokers_lose_nothing(seed):
    run_round(seed, brokers=3, most_down=1)


@pytest.mark.timeout(120)
def test_five_brokers_lose_nothing_with_two_away(seed):
    run_round(1000 + seed, brokers=5, most_down=2)
