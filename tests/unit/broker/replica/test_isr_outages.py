"""A leader changes its in-sync set while the store does not answer.

A write whose answer is lost may have succeeded. Until the leader knows, the members of both sets
count: the high watermark passes no record that one of them lacks.
"""

import shutil
from collections.abc import Sequence

import pytest

from embedkafka.broker.replica.isr_updates import RETRY_MS
from embedkafka.runtime.ids import TopicPartition
from embedkafka.runtime.values import replace
from embedkafka.wire.protocol.errors import ErrorCode
from tests.doubles.replica_cluster import ReplicaCluster

TP = TopicPartition("orders", 0)
LAG_MS = 30_000


@pytest.fixture
def outage(cluster: ReplicaCluster) -> ReplicaCluster:
    """Broker 3 wants to join brokers 1 and 2, and the store does not answer."""
    cluster.elect(1, isr=[1, 2])
    cluster[1].produce("a")
    cluster.store.is_reachable = False
    cluster.settle()
    assert cluster[1].partition().isr == (1, 2)
    return cluster


@pytest.fixture
def lost_answer(cluster: ReplicaCluster) -> ReplicaCluster:
    """Broker 3 has joined in the store, and the leader has not heard of it."""
    cluster.elect(1, isr=[1, 2])
    cluster[1].produce("a")
    cluster.store.loses_answers = True
    cluster.settle()
    assert cluster[1].partition().isr == (1, 2)
    assert stored_isr(cluster) == (1, 2, 3)
    return cluster


def stored_isr(cluster: ReplicaCluster) -> Sequence[int]:
    return cluster.store.states[TP].isr


def end_outage(cluster: ReplicaCluster) -> None:
    cluster.store.is_reachable = True
    cluster.store.loses_answers = False
    cluster.pass_time(RETRY_MS)


def test_a_follower_joins_when_the_store_answers_again(outage: ReplicaCluster) -> None:
    end_outage(outage)
    assert outage[1].partition().isr == stored_isr(outage) == (1, 2, 3)


def test_a_set_is_proposed_until_it_is_answered(outage: ReplicaCluster) -> None:
    for _ in range(5):
        outage.pass_time(RETRY_MS)
    end_outage(outage)
    assert outage[1].partition().isr == (1, 2, 3)


def test_a_follower_that_died_in_the_outage_is_not_waited_for(outage: ReplicaCluster) -> None:
    outage.kill(3)
    produced = outage[1].produce("b")
    outage.settle()
    assert not produced.is_done, "the store may have broker 3"
    end_outage(outage)
    assert outage[1].partition().isr == (1, 2)
    assert produced.error is ErrorCode.NONE


def test_a_follower_restarted_in_the_outage_does_not_join_with_what_it_had(
    outage: ReplicaCluster,
) -> None:
    outage.kill(3)
    shutil.rmtree(outage.directory / "broker-3")
    outage.start(3)
    end_outage(outage)
    assert outage[1].partition().isr == (1, 2)
    outage.repeat_election(to=[3])
    outage.settle()
    assert outage[1].partition().isr == (1, 2, 3)
    assert outage[3].values() == ["a"]


def test_a_follower_with_a_new_session_joins_though_there_is_nothing_to_fetch(
    outage: ReplicaCluster,
) -> None:
    outage.store.register(3)
    outage[3].broker_epoch = outage.store.broker_epochs[3]
    end_outage(outage)
    outage.pass_time(RETRY_MS)
    assert outage[1].partition().isr == (1, 2, 3)


def test_others_join_after_the_one_whose_answer_was_awaited(cluster: ReplicaCluster) -> None:
    cluster.elect(1, isr=[1])
    cluster.store.is_reachable = False
    cluster[2].manager.fetchers.run_until_idle()
    cluster[1].tasks.run_due()
    cluster[3].manager.fetchers.run_until_idle()
    cluster.kill(2)
    end_outage(cluster)
    assert cluster[1].partition().isr == (1, 3)


def test_a_smaller_set_is_proposed_until_it_is_answered(cluster: ReplicaCluster) -> None:
    cluster.elect(1, [1, 2])
    cluster.unreachable.add(2)
    produced = cluster[1].produce("a", timeout_ms=10 * LAG_MS)
    cluster.store.is_reachable = False
    cluster.pass_time(LAG_MS)
    cluster.pass_time(LAG_MS)
    assert not produced.is_done
    end_outage(cluster)
    assert cluster[1].partition().isr == (1,)
    assert produced.error is ErrorCode.NONE


def test_a_write_whose_answer_was_lost_counts_as_done(lost_answer: ReplicaCluster) -> None:
    end_outage(lost_answer)
    assert lost_answer[1].partition().isr == (1, 2, 3)
    lost_answer.kill(3)
    produced = lost_answer[1].produce("b", timeout_ms=10 * LAG_MS)
    lost_answer.pass_time(LAG_MS + 1)
    lost_answer.pass_time(LAG_MS)
    assert lost_answer[1].partition().isr == stored_isr(lost_answer) == (1, 2)
    assert produced.error is ErrorCode.NONE


def test_a_dead_follower_that_the_store_has_counts_until_the_store_has_it_no_more(
    lost_answer: ReplicaCluster,
) -> None:
    lost_answer.kill(3)
    produced = lost_answer[1].produce("b", timeout_ms=10 * LAG_MS)
    end_outage(lost_answer)
    assert lost_answer[1].partition().isr == (1, 2, 3)
    assert not produced.is_done, "broker 3 may be elected when it comes back"
    lost_answer.pass_time(LAG_MS)
    assert stored_isr(lost_answer) == (1, 2)
    assert produced.error is ErrorCode.NONE


def test_a_restarted_follower_that_the_store_has_counts(lost_answer: ReplicaCluster) -> None:
    lost_answer.store.register(3)
    lost_answer.unreachable.add(3)
    produced = lost_answer[1].produce("b", timeout_ms=10 * LAG_MS)
    end_outage(lost_answer)
    assert lost_answer[1].partition().isr == (1, 2, 3)
    assert not produced.is_done


def test_a_refused_set_counts_until_the_controller_sends_what_the_store_has(
    lost_answer: ReplicaCluster,
) -> None:
    """The controller took broker 2 out of a set that broker 3 had joined."""
    store = lost_answer.store
    store.states[TP] = replace(store.states[TP], isr=(1, 3), leader_epoch=1)
    store.versions[TP] += 1
    lost_answer.unreachable.add(3)
    produced = lost_answer[1].produce("b", timeout_ms=10 * LAG_MS)
    end_outage(lost_answer)
    assert lost_answer[1].partition().isr == (1, 2), "it knows only that it was refused"
    lost_answer.pass_time(LAG_MS // 2)
    assert not produced.is_done, "the store has brokers 1 and 3"
    lost_answer.unreachable.clear()
    lost_answer.elect(1, isr=[1, 3])
    lost_answer.settle()
    assert produced.error is ErrorCode.NONE
    assert lost_answer[3].values() == ["a", "b"]


def test_a_former_leader_writes_no_more(outage: ReplicaCluster) -> None:
    outage.elect(2, isr=[1, 2])
    written = outage.store.versions[TP]
    outage.store.is_reachable = True
    outage.clock.advance(RETRY_MS)
    outage[1].tasks.run_due()
    assert outage.store.versions[TP] == written
