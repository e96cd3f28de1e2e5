"""`topic.explain()`: why a partition is as it is."""

import re
from collections.abc import Iterator

import pytest

from embedkafka import EmbeddedKafka, PartitionStatus, StateChange, TopicSpec
from embedkafka.cluster.reports.explanation import leader_sentence
from tests.cluster.followers import await_first_fetches
from tests.cluster.reassignment import reassign
from tests.cluster.traffic import make_producer, send
from tests.wire.clients import eventually


@pytest.fixture(scope="module")
def kafka() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka(brokers=3, config={"replica.lag.time.max.ms": 600_000}) as kafka:
        yield kafka


def test_a_slow_replica_holds_the_high_watermark_and_a_request(kafka: EmbeddedKafka) -> None:
    orders = kafka.topic("orders", replication=3)
    await_first_fetches(kafka, "orders")
    leader = orders.leader()
    slow = min({1, 2, 3} - {leader})
    producer = make_producer(kafka, **{"client.id": "shop"})
    with kafka.faults.cut_link(slow, leader):
        producer.produce("orders", b"a")
        eventually(lambda: [one for one in kafka.waiting() if one.api == "PRODUCE"], "a wait")
        explained = orders.explain()
    assert explained.startswith(f"Broker {leader} leads orders-0 since epoch 0: controller ")
    assert " elected it when the partition was created. In sync: " in explained
    assert re.search(
        rf"orders-0 is committed up to 0 of 1: held by the replica on broker {slow}, which is at 0,"
        rf" behind for .* s\. PRODUCE of shop waits for orders-0: broker {slow}, which is at 0 of",
        explained,
    )
    assert producer.flush(30) == 0
    assert orders.explain().endswith("All is committed and stable, up to 1.")


def test_a_replica_that_lags_is_told_with_its_position(kafka: EmbeddedKafka) -> None:
    late = kafka.topic("late", replication=2)
    leader = late.leader()
    slow = next(each for each in late.partition().replicas if each != leader)
    kafka.broker(slow).stop()
    late.await_isr(size=1)
    kafka.existing_topic("late").send("a")
    with kafka.faults.cut_link(slow, leader):
        kafka.broker(slow).start()
        explained = late.explain()
    assert f"In sync: {leader}. Broker {slow} is out of sync: has not fetched yet" in explained
    late.await_isr(size=2)


def test_a_reassignment_is_told_until_it_ends(kafka: EmbeddedKafka) -> None:
    kafka.topic("moved", replication=1).send("a")
    old = kafka.existing_topic("moved").leader()
    new = 1 + old % 3
    kafka.broker(6 - old - new).become_controller()
    with kafka.faults.cut_link(new, old):
        reassign(kafka, "moved", [new])
        explained = eventually(
            lambda: [
                text for text in [kafka.existing_topic("moved").explain()] if "delayed" in text
            ],
            "the new replica cannot fetch",
        )[0]
        assert (
            f"Broker {new} is out of sync: has not fetched yet; its fetcher is delayed. A "
            f"reassignment adds broker {new} and removes broker {old}." in explained
        )
    eventually(
        lambda: "reassignment adds" not in kafka.existing_topic("moved").explain(), "it has ended"
    )


def test_a_paused_broker_is_told_before_anyone_notices(kafka: EmbeddedKafka) -> None:
    still = kafka.topic("still", replication=3)
    leader = still.leader()
    paused = 1 + leader % 3
    kafka.broker(paused).pause()
    assert f". Broker {paused} is paused" in still.explain()
    kafka.broker(paused).resume()


@pytest.mark.parametrize("config", [{}, {"min.insync.replicas": 3}], ids=["default", "own"])
def test_brokers_that_are_cut_off_from_zookeeper_are_described(config: dict[str, object]) -> None:
    topics = {"orders": TopicSpec(replication=3, config=config)}
    with EmbeddedKafka(brokers=3, topics=topics) as kafka:
        for broker in kafka._require_brokers().live():
            broker.config.forget_topic("orders")
        kafka.brokers.partition({1, 2, 3}, zookeeper=set())
        assert "leads orders-0" in kafka.existing_topic("orders").explain()
        assert "orders-0" in kafka.report()
        kafka.brokers.heal()


def test_a_transaction_holds_the_stable_offset(kafka: EmbeddedKafka) -> None:
    paid = kafka.topic("paid", replication=3)
    producer = make_producer(kafka, **{"transactional.id": "payments"})
    producer.init_transactions(30)
    producer.begin_transaction()
    send(producer, "paid", b"a")
    explained = paid.explain()
    assert "paid-0 is stable up to 0 of 1: held by transaction payments, open for" in explained
    with kafka.faults.error("WRITE_TXN_MARKERS", "NOT_LEADER_OR_FOLLOWER", times=None):
        producer.commit_transaction(30)
        explained = paid.explain()
        assert "held by transaction payments, whose markers are being written" in explained
    eventually(lambda: paid.explain().endswith("up to 2."), "the marker is written")


def test_a_failover_is_told_with_its_reason_and_who_is_missing() -> None:
    topics = {"orders": TopicSpec(replication=2, config={"min.insync.replicas": 2})}
    with EmbeddedKafka(brokers=2, topics=topics) as kafka:
        lost = kafka.existing_topic("orders").leader()
        left = 3 - lost
        kafka.broker(left).become_controller()
        kafka.broker(lost).kill()
        assert kafka.existing_topic("orders").await_leader() == left
        kafka.existing_topic("orders").await_isr(size=1)
        send(make_producer(kafka, acks=1, **{"enable.idempotence": False}), "orders", b"a")
        assert kafka.existing_topic("orders").explain() == (
            f"Broker {left} leads orders-0 since epoch 1: controller {left} elected it when broker "
            f"{lost} was lost. In sync: {left}. Broker {lost} is killed, and out of sync since "
            "epoch 1. Writes with acks=all are refused until 2 replicas are in sync. orders-0 is "
            "committed up to 0 of 1: held by min.insync.replicas: 1 of 2 are in sync."
        )
        kafka.broker(lost).start()
        kafka.existing_topic("orders").await_isr(size=2)
        mark = kafka.mark()
        kafka.broker(lost).kill()
        kafka.existing_topic("orders").await_isr(size=1)
        assert (
            "since epoch 1, and now in epoch 2: controller"
            in kafka.existing_topic("orders").explain()
        )
        changes = kafka.report().partition("state changes:\n")[2].partition("\ngroups")[0]
        assert "orders-0 OnlinePartition -> OfflinePartition" in changes
        assert "NewPartition" not in changes, "what killed nothing is shown"
        assert "state changes" not in kafka.report(since=mark), "a follower moved no partition"
        mark = kafka.mark()
        kafka.broker(lost).start()
        kafka.existing_topic("orders").await_isr(size=2)
        kafka.broker(lost).become_controller()
        kafka.broker(left).kill()
        kafka.existing_topic("orders").await_leader()
        # No request since the mark names the topic.
        assert "state changes:\n  and 2 of orders" in kafka.report(since=mark)
        kafka.broker(left).start()
        kafka.existing_topic("orders").await_isr(size=2)
        kafka.broker(left).become_controller()
        kafka.existing_topic("orders").move_leader(to=left)
        kafka.broker(lost).kill()
        kafka.existing_topic("orders").await_isr(size=1)
        kafka.broker(left).kill()
        still = f"ZooKeeper still names broker {left}, which is killed. In "
        explained = kafka.existing_topic("orders").explain()
        assert explained.startswith(f"No broker leads orders-0 at the moment: {still}")


STATUS = PartitionStatus(
    topic="orders", partition=0, leader=2, leader_epoch=5, isr=(2,), replicas=(1, 2)
)


def change(
    before: str,
    leader: int | None,
    *,
    refused: str | None = None,
    election: str | None = None,
    is_unclean: bool = False,
) -> StateChange:
    after = "OnlinePartition"
    if before == "lost":
        before, after = "OnlinePartition", "OfflinePartition"
    return StateChange(
        1, 3, 1, "orders", 0, None, before, after, leader, 5, (2,), refused, election, is_unclean
    )


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ([], "leads orders-0 in epoch 5, as ZooKeeper says"),
        ([change("NewPartition", 1)], "leads orders-0 in epoch 5, as ZooKeeper says"),
        ([change("NewPartition", 2)], "elected it when the partition was created"),
        (
            [change("OnlinePartition", 2, election="preferred replica")],
            "elected it because it is the preferred replica",
        ),
        (
            [change("OnlinePartition", 2, election="reassigned partition")],
            "elected it for a reassignment",
        ),
        (
            [change("OnlinePartition", 2, election="controlled shutdown")],
            "elected it when the leader shut down",
        ),
        (
            [change("lost", 1), change("OfflinePartition", 2, is_unclean=True)],
            "when broker 1 was lost, though it was not in sync and may have lacked records",
        ),
        ([change("OfflinePartition", 2)], "when it found the partition without a leader"),
        ([change("lost", 2), change("OfflinePartition", 2)], "elected it when it came back"),
        ([change("lost", 1), change("OfflinePartition", 2)], "when broker 1 was lost"),
    ],
)
def test_an_election_has_a_reason(changes: list[StateChange], why: str) -> None:
    told = leader_sentence(STATUS, changes, absence=None)
    assert told.startswith("Broker 2 leads")
    assert told.endswith(why)


def test_a_refusal_says_why_there_is_no_leader() -> None:
    changes = [change("lost", 1), change("OfflinePartition", 1, refused="no replica is eligible")]
    told = leader_sentence(STATUS, changes, absence="killed")
    assert told == "No broker leads orders-0: no replica is eligible"
