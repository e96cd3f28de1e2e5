"""`topic.explain()`: why a partition is as it is, in a paragraph.

Owner: none; it reads ZooKeeper, the state changes and the brokers in place. It asks coordinators
for transactions only if one keeps the last stable offset back.
Not here: what is wrong with the whole cluster (`troubles`), and everything at once (`report`).
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from embedkafka.broker.controller.election_strategies import Strategy
from embedkafka.broker.controller.partition_machine import PartitionState
from embedkafka.broker.controller.replica_machine import ReplicaState
from embedkafka.broker.controller.state_change_log import StateChange
from embedkafka.broker.replica.partition.values import PartitionView
from embedkafka.cluster.cluster_state import PartitionStatus
from embedkafka.cluster.lifecycle.lifecycle import BrokerState
from embedkafka.cluster.reports.description import views_by_partition
from embedkafka.cluster.reports.followers import fetcher_state
from embedkafka.cluster.reports.report import held_back, open_transactions
from embedkafka.cluster.reports.request_lines import span
from embedkafka.cluster.reports.troubles import min_isr_of
from embedkafka.cluster.reports.waits import find_waiting
from embedkafka.runtime.ids import BrokerId, TopicPartition

if TYPE_CHECKING:
    from embedkafka.cluster.brokers import Brokers

_REQUESTS: Final = 5


def explain_partition(brokers: "Brokers", topic: str, partition: int) -> str:
    """Who leads and why, who is in sync, what is held back, and which requests wait for it."""
    status = brokers.state.require_partition(topic, partition)
    name = TopicPartition(topic, partition)
    changes = [
        change
        for change in brokers.state_change_log.since(0)
        if (change.topic, change.partition) == name
    ]
    view, led = views_by_partition(brokers.live()).get(name, (None, False))
    sentences = [
        leader_sentence(status, changes, absence=_absence(brokers, status.leader)),
        *_replicas(brokers, status, changes, view if led else None),
        *_move(brokers, name),
        *(_offsets(brokers, view) if view is not None and led else ()),
        *_requests(brokers, name),
    ]
    return " ".join(f"{sentence}." for sentence in sentences)


def leader_sentence(
    status: PartitionStatus, changes: Sequence[StateChange], *, absence: str | None
) -> str:
    """Who leads, since which epoch and why; or why there is no leader.

    `absence` says why the leader in ZooKeeper does not lead; None if it does.
    """
    name, leader = f"{status.topic}-{status.partition}", status.leader
    of_partition = [change for change in changes if change.replica is None]
    if leader is None or absence is not None:
        return f"No broker leads {name}{_reason(leader, of_partition, absence)}"
    elections = [
        number
        for number, change in enumerate(of_partition)
        if change.after == PartitionState.ONLINE.value and change.refused is None
    ]
    last = elections[-1] if elections else None
    if last is None or of_partition[last].leader != leader:
        return f"Broker {leader} leads {name} in epoch {status.leader_epoch}, as ZooKeeper says"
    election, before = of_partition[last], of_partition[:last]
    since = f"since epoch {election.leader_epoch}"
    if status.leader_epoch != election.leader_epoch:
        since += f", and now in epoch {status.leader_epoch}"
    unclean = ", though it was not in sync and may have lacked records"
    return (
        f"Broker {leader} leads {name} {since}: controller {election.controller} elected it "
        f"{_cause(election, before)}{unclean if election.is_unclean else ''}"
    )


def _reason(leader: int | None, changes: Sequence[StateChange], absence: str | None) -> str:
    if changes and changes[-1].refused is not None:
        return f": {changes[-1].refused}"
    if leader is not None:
        return f" at the moment: ZooKeeper still names broker {leader}, which is {absence}"
    return ""


def _cause(election: StateChange, before: Sequence[StateChange]) -> str:
    """What made the controller elect, by the state that the partition was in."""
    moved = [change for change in before if change.refused is None]
    former = moved[-1] if moved else None
    if election.before == PartitionState.NEW.value:
        return "when the partition was created"
    if election.election == Strategy.PREFERRED.value:
        return "because it is the preferred replica"
    if election.election == Strategy.REASSIGN.value:
        return "for a reassignment"
    if election.election == Strategy.CONTROLLED_SHUTDOWN.value:
        return "when the leader shut down"
    if former is None or former.leader is None or former.leader < 0:
        return "when it found the partition without a leader"
    if former.leader == election.leader:
        return "when it came back"
    return f"when broker {former.leader} was lost"


def _replicas(
    brokers: "Brokers",
    status: PartitionStatus,
    changes: Sequence[StateChange],
    view: PartitionView | None,
) -> Iterator[str]:
    isr = status.isr if view is None else view.isr
    yield f"In sync: {', '.join(map(str, isr)) or 'none'}"
    for replica in status.replicas:
        absence = _absence(brokers, replica)
        if replica not in isr:
            since = _out_of_sync(brokers, replica, absence, changes, view)
            yield f"Broker {replica} is {since}"
        elif absence is not None and replica != status.leader:
            yield f"Broker {replica} is {absence}"
    least = min(min_isr_of(brokers)(status.topic), len(status.replicas))
    if view is not None and len(isr) < least:
        yield f"Writes with acks=all are refused until {least} replicas are in sync"


def _absence(brokers: "Brokers", broker: int | None) -> str | None:
    """Why a broker cannot lead or follow; None if it can."""
    handle = next((each for each in brokers.all() if each.id == broker), None)
    if handle is None:
        return "gone"
    if handle.is_reachable:
        return None
    state: BrokerState = handle.state
    return "cut off from ZooKeeper" if state is BrokerState.RUNNING else state.value


def _out_of_sync(
    brokers: "Brokers",
    replica: int,
    absence: str | None,
    changes: Sequence[StateChange],
    view: PartitionView | None,
) -> str:
    """What is the matter with a replica that is not in sync, and since when."""
    if absence is not None:
        lost = [
            change
            for change in changes
            if change.replica == replica and change.after == ReplicaState.OFFLINE.value
        ]
        return absence + (f", and out of sync since epoch {lost[-1].leader_epoch}" if lost else "")
    leader = None if view is None else brokers.find_live(view.leader)
    if view is None or leader is None:
        return "out of sync, without a leader to follow"
    name = view.topic_partition
    follower, led = brokers.find_live(replica), leader.replicas.hosted.find(name)
    if follower is not None and name in follower.replicas.hosted.offline():
        return "out of sync: its log directory has failed"
    end = view.follower_end_offsets.get(BrokerId(replica), -1)
    at = f"at {end} of {view.log_end_offset}" if end >= 0 else "has not fetched yet"
    behind_ms = None if led is None else led.behind_ms().get(BrokerId(replica))
    caught_up = "" if behind_ms is None else f", and last caught up {span(behind_ms)} ago"
    state = None if follower is None else fetcher_state(follower, name)
    fetcher = "" if state is None else f"; its fetcher is {state}"
    return f"out of sync: {at}{caught_up}{fetcher}"


def _move(brokers: "Brokers", name: TopicPartition) -> Iterator[str]:
    """A reassignment that has not ended."""
    topic = brokers.zk.find_topic(name.topic)
    found = None if topic is None else topic.partitions.get(name.partition)
    if found is not None and found.is_being_reassigned:
        does = [
            f"{verb} broker{'s' if len(replicas) > 1 else ''} {', '.join(map(str, replicas))}"
            for verb, replicas in (("adds", found.adding), ("removes", found.removing))
            if replicas
        ]
        yield f"A reassignment {' and '.join(does)}"


def _offsets(brokers: "Brokers", view: PartitionView) -> Iterator[str]:
    is_open = view.last_stable_offset < view.high_watermark
    transactions = open_transactions(brokers, {}) if is_open else []
    held = list(held_back(brokers, {view.topic_partition: (view, True)}, transactions))
    yield from held
    if not held:
        yield f"All is committed and stable, up to {view.high_watermark}"


def _requests(brokers: "Brokers", partition: TopicPartition) -> Iterator[str]:
    waiting = [one for one in find_waiting(brokers) if partition in one.partitions]
    for one in waiting[:_REQUESTS]:
        who = f"{one.api} of {one.client_id or 'a client'}" if one.api else "A coordinator's write"
        yield f"{who} waits for {one.waits_for}"
    if len(waiting) > _REQUESTS:
        yield f"{len(waiting) - _REQUESTS} more requests wait"
