"""What a page's timeline has of controllers."""

from typing import Any, cast

import pytest

from embedkafka.broker.controller.event_log import ControllerEventLog, QueuedEvent
from embedkafka.broker.controller.events import BrokerModifications, Startup
from embedkafka.broker.controller.state_change_log import StateChangeLog
from embedkafka.page.controller_work import ControllerWork
from embedkafka.runtime.ids import TopicPartition
from embedkafka.zk.payloads import LeaderAndIsr

ORDERS = TopicPartition("orders", 0)
ONLINE, OFFLINE, GONE = "OnlinePartition", "OfflinePartition", "NonExistentPartition"


class Cluster:
    """The logs of a cluster whose controller is broker 1."""

    def __init__(self) -> None:
        self.controller_event_log = ControllerEventLog()
        self.state_change_log = StateChangeLog()

    def move(
        self,
        before: str,
        after: str,
        leader: int | None = None,
        *,
        refused: str | None = None,
        partition: TopicPartition = ORDERS,
    ) -> None:
        isr = () if leader is None else (leader,)
        state = None if leader is None else LeaderAndIsr(leader=leader, leader_epoch=0, isr=isr)
        self.state_change_log.note(
            1, 7, partition, None, before=before, after=after, state=state, refused=refused
        )

    def handle(self, event: Any, *, epoch: int, queued_ms: float) -> None:
        queued = QueuedEvent(event, posted_ms=100.0)
        started_ms = 100.0 + queued_ms
        self.controller_event_log.note(
            1, epoch, queued, started_ms=started_ms, ended_ms=started_ms + 5
        )


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


@pytest.fixture
def work(cluster: Cluster) -> ControllerWork:
    work = ControllerWork(cast(Any, cluster))
    work.start()
    return work


def said(work: ControllerWork) -> list[str]:
    return [each["text"] for each in work.elections()]


def test_an_event_is_a_span_after_its_wait(cluster: Cluster, work: ControllerWork) -> None:
    cluster.handle(BrokerModifications(2), epoch=7, queued_ms=3.0)
    cluster.handle(Startup(), epoch=7, queued_ms=0.0)
    cluster.handle(Startup(), epoch=0, queued_ms=3.0)  # of a candidate
    spans = [(each["lane"], each["text"]) for each in work.spans()]
    modified = "controller 1 epoch 7: BrokerModifications of broker 2"
    assert spans == [
        ("controller's queue", modified),
        ("controller", modified),
        ("controller", "controller 1 epoch 7: Startup"),
    ]
    queue, handled = work.spans()[:2]
    assert queue["from"] < queue["to"] == handled["from"] < handled["to"]
    assert cluster.controller_event_log.since(0) == []  # for `kafka.controller_events()`: none


def test_a_failover_is_told_once_for_each_partition(cluster: Cluster, work: ControllerWork) -> None:
    cluster.move("NewPartition", ONLINE, 1)
    assert said(work) == []
    cluster.move(ONLINE, OFFLINE, 1)
    cluster.move(OFFLINE, ONLINE, refused="no replica is eligible")
    cluster.move(OFFLINE, ONLINE, 2)
    cluster.move(ONLINE, ONLINE, 2)
    assert said(work) == ["orders-0 lost its leader", "orders-0 is led by broker 2"]
    assert [each["lane"] for each in work.changes()] == [
        "state",
        "state",
        "refused",
        "state",
        "state",
    ]


def test_a_refusal_of_an_election_that_was_not_needed_costs_no_leader(
    cluster: Cluster, work: ControllerWork
) -> None:
    cluster.move(ONLINE, ONLINE, 1, refused="the preferred replica is not in sync")
    assert said(work) == []


def test_a_deletion_is_no_loss_of_a_leader(cluster: Cluster, work: ControllerWork) -> None:
    other = TopicPartition("payments", 0)
    cluster.move(ONLINE, OFFLINE, 1, partition=other)
    cluster.move(ONLINE, OFFLINE, 1)
    cluster.move(OFFLINE, GONE)
    assert said(work) == ["payments-0 lost its leader"]
    cluster.move(GONE, "NewPartition")
    cluster.move("NewPartition", ONLINE, 3)
    assert said(work) == ["payments-0 lost its leader"]


def test_nothing_is_told_after_the_end(cluster: Cluster, work: ControllerWork) -> None:
    assert cluster.controller_event_log.is_on
    work.stop()
    assert not cluster.controller_event_log.is_on
    cluster.move(ONLINE, OFFLINE, 1)
    assert work.changes() == []


def test_a_page_and_metrics_want_events_apart(cluster: Cluster, work: ControllerWork) -> None:
    log = cluster.controller_event_log
    log.start()
    cluster.handle(Startup(), epoch=7, queued_ms=0.0)
    assert log.queued(1).times == 1
    log.stop()
    assert log.is_on
    cluster.handle(Startup(), epoch=7, queued_ms=0.0)
    assert len(work.spans()) == 2
    assert log.queued(1).times == 0
