"""Random histories of a three-broker partition never lose an acknowledged record.

Brokers are cut off and then hear of elections late, time passes, and leaders are elected, always
from the stored in-sync set. At the end everything heals, and the logs must agree.
"""

import random
from collections.abc import Callable

import pytest

from embedkafka.broker.log.config import LogConfig
from embedkafka.broker.replica.config import ReplicaConfig
from embedkafka.runtime.ids import TopicPartition
from embedkafka.wire.protocol.errors import ErrorCode
from tests.doubles.replica_cluster import Produced, ReplicaCluster

TP = TopicPartition("orders", 0)
BROKERS = (1, 2, 3)
STEPS = 150


class History:
    """One cluster and the random hand that moves it."""

    def __init__(self, cluster: ReplicaCluster, rng: random.Random) -> None:
        self.cluster = cluster
        self.rng = rng
        self.isr = list(BROKERS)
        self.uninformed: set[int] = set()
        self.produced: list[tuple[str, Produced]] = []
        cluster.elect(1, BROKERS)

    def step(self) -> None:
        act = self.rng.choices(
            [self.produce, self.fetch, self.work, self.cut, self.heal, self.wait, self.elect],
            weights=[10, 20, 6, 2, 2, 3, 2],
        )[0]
        act()

    def produce(self) -> None:
        """To any broker that takes itself for the leader."""
        leaders = [b for b in BROKERS if self.cluster[b].partition().is_leader]
        if leaders:
            value = f"v{len(self.produced)}"
            leader = self.cluster[self.rng.choice(leaders)]
            self.produced.append((value, leader.produce(value, timeout_ms=10_000_000)))

    def fetch(self) -> None:
        self.cluster[self.rng.choice(BROKERS)].manager.fetchers.run_once()

    def work(self) -> None:
        self.cluster[self.rng.choice(BROKERS)].tasks.run_due()

    def cut(self) -> None:
        self.cluster.unreachable.add(self.rng.choice(BROKERS))

    def heal(self) -> None:
        self.cluster.unreachable.clear()
        self.cluster.repeat_election(to=sorted(self.uninformed))
        self.uninformed.clear()

    def wait(self) -> None:
        self.cluster.clock.advance(self.rng.choice([100, 1_000, 20_000]))

    def elect(self) -> None:
        """As a controller: a live leader from the stored set, without the members that are not."""
        state = self.cluster.store.states.pop(TP, None)
        stored = self.isr if state is None else state.isr
        live = [broker for broker in stored if broker not in self.cluster.unreachable]
        self.isr = live or list(stored)
        leader = self.rng.choice(live) if live else -1
        self.uninformed = set(self.cluster.unreachable)
        reachable = [broker for broker in BROKERS if broker not in self.uninformed]
        self.cluster.elect(leader, BROKERS, isr=self.isr, to=reachable)

    def finish(self) -> None:
        self.heal()
        self.elect()
        self.cluster.settle()
        for _ in range(4):
            self.cluster.pass_time(20_000)

    def acknowledged(self) -> set[str]:
        return {
            value
            for value, answer in self.produced
            if answer.is_done and answer.error is ErrorCode.NONE
        }


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("min_isr", [1, 2])
def test_acknowledged_records_are_on_every_replica_in_the_end(
    make_cluster: Callable[..., ReplicaCluster], seed: int, min_isr: int
) -> None:
    cluster = make_cluster(
        topic_config=LogConfig(min_insync_replicas=min_isr),
        config=ReplicaConfig(
            replica_fetch_max_bytes=1
        ),  # one batch a fetch: followers lag in small steps
    )
    history = History(cluster, random.Random(seed))
    for _ in range(STEPS):
        history.step()
        for node in cluster.nodes.values():
            log = node.log()
            assert log.log_start_offset <= log.high_watermark <= log.log_end_offset
    history.finish()
    logs = [cluster[broker].values() for broker in BROKERS]
    assert logs[0] == logs[1] == logs[2]
    assert len(logs[0]) == len(set(logs[0])), "a record was written twice"
    assert history.acknowledged() <= set(logs[0])
    (leader,) = (node for node in cluster.nodes.values() if node.partition().is_leader)
    assert set(leader.partition().isr) == set(BROKERS)
    assert {node.log().high_watermark for node in cluster.nodes.values()} == {len(logs[0])}
