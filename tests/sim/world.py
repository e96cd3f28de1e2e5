"""A cluster of controllers under a seeded scheduler, with checks after every step.

A `random.Random` chooses from a list of actions, so a seed determines a whole history. Brokers die,
bounce, lose their sessions or get stuck. Topics are created, expanded, reassigned and deleted.
Leaders shrink and grow their ISRs by the state they last received, which may be stale. Requests and
events are delayed arbitrarily but stay in order within a channel and a broker.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from random import Random
from typing import Any

from embedkafka.broker.controller import events
from embedkafka.broker.controller.events import ElectionTrigger, ElectionType
from embedkafka.runtime.ids import NO_LEADER, TopicPartition
from embedkafka.runtime.values import replace
from embedkafka.zk import paths
from embedkafka.zk.memory import MemorySession
from embedkafka.zk.payloads import LeaderAndIsr, ReplicaAssignment
from embedkafka.zk.store import (
    CheckOp,
    ConnectionLoss,
    NodeExists,
    Op,
    OpResult,
    SessionExpired,
)
from tests.unit.broker.controller.harness import Cluster, Node

BROKERS = (1, 2, 3, 4)
TOPICS = ("a", "b", "c")


class World:
    """The cluster, its history, and the rules that must hold in it."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = Random(seed)
        self.cluster = self.make_cluster()
        self.stuck: set[int] = set()
        self.leaving: set[int] = set()
        self.history: list[str] = []
        self.writers: dict[int, set[int]] = {}
        self._last_epoch = 0
        self._checked_zxid = -1
        self._last_states: dict[TopicPartition, tuple[object, LeaderAndIsr]] = {}
        for node in self.cluster.nodes.values():
            self._observe(node)

    def make_cluster(self) -> Cluster:
        return Cluster(brokers=len(BROKERS))

    # --- running ---

    def actions(self) -> list[tuple[Callable[[], None], int]]:
        """Lists every possible action with its weight."""
        return [
            (self.handle_event, 30),
            (self.deliver_request, 30),
            (self.change_isr, 12),
            (self.create_topic, 5),
            (self.expand_topic, 3),
            (self.delete_topic, 3),
            (self.reassign, 4),
            (self.cancel_reassignment, 2),
            (self.elect, 2),
            (self.shut_down, 2),
            (self.kill, 3),
            (self.start, 5),
            (self.bounce, 2),
            (self.restart_all, 1),
            (self.expire_session, 2),
            (self.miss_messages, 1),
            (self.lose_answers, 3),
            (self.lose_log_dir, 1),
            (self.depose_controller, 1),
            (self.get_stuck, 1),
            (self.get_unstuck, 3),
        ]

    def run(self, steps: int) -> None:
        actions = self.actions()
        chosen = self.random.choices(
            [action for action, _ in actions], [weight for _, weight in actions], k=steps
        )
        for action in chosen:
            action()
            self.check_always()

    def come_to_rest(self) -> None:
        """Brings every broker back and delivers everything."""
        self.stuck.clear()
        for broker in BROKERS:
            if broker not in self.cluster.nodes:
                self._start(broker)
        self.cluster.settle()
        self.check_always()
        # A broker that asked to shut down and stayed, or has a broken disk, cannot lead: it
        # restarts.
        broken = {broker for broker, node in self.cluster.nodes.items() if node.storage_errors}
        # Ask the nodes: the controller that stopped a broker's replicas may be gone.
        for broker in sorted(broken | self.leaving):
            self.cluster.kill(broker)
            self._start(broker)
            self.cluster.settle()
        self.leaving.clear()
        self._catch_up()
        self.check_at_rest()

    def _catch_up(self) -> None:
        """Lets every leader find all its replicas in sync, so that reassignments complete."""
        for node in list(self.cluster.nodes.values()):
            for partition, told in list(node.leaders.items()):
                while told.leader == node.info.id and partition in node.leaders:
                    unanswered = partition in node.unanswered
                    self._set_isr(node, partition, node.leaders[partition].replicas)
                    self.cluster.settle()
                    self.check_always()
                    if not unanswered and partition not in node.unanswered:
                        break

    # --- actions of the machinery ---

    def handle_event(self) -> None:
        node = self._pick([n for n in self._running() if n.events])
        if node is not None:
            event = node.events.popleft()
            self._note(f"broker {node.info.id} handles {event!r}")
            node.core.handle(event)

    def deliver_request(self) -> None:
        ready = [
            (node, target)
            for node in self._running()
            if node.channels is not None
            for broker, queue in node.channels.queues.items()
            if queue
            and (target := self.cluster.nodes.get(broker)) is not None
            and broker not in self.stuck
        ]
        if ready:
            node, target = self.random.choice(ready)
            assert node.channels is not None
            outgoing = node.channels.queues[target.info.id].popleft()
            self._note(f"broker {target.info.id} gets {type(outgoing.request).__name__}")
            response = target.handle(outgoing.request)
            node.events.append(events.ResponseReceived(outgoing, response))

    # --- actions of clients ---

    def create_topic(self) -> None:
        topic = self.random.choice(TOPICS)
        admin = self.cluster.admin
        if admin.is_marked_for_deletion(topic) or admin.topic_exists(topic):
            return
        assignment = {n: self._some_replicas() for n in range(self.random.randint(1, 3))}
        self._note(f"create {topic} {assignment}")
        self.cluster.admin.create_topic(topic, assignment, topic_id=None, config={})

    def depose_controller(self) -> None:
        """Deletes `/controller` while its owner still has a session and events to handle."""
        if self.cluster.admin.find_controller_id() is not None:
            self._note("the controller is deposed")
            self.cluster.admin.store.delete(paths.CONTROLLER)

    def expand_topic(self) -> None:
        topic = self.random.choice(TOPICS)
        found = self.cluster.admin.find_topic(topic)
        if found is None or self.cluster.admin.is_marked_for_deletion(topic):
            return
        number = len(found.partitions)
        added = ReplicaAssignment(replicas=tuple(self._some_replicas()))
        self._note(f"expand {topic} by {number}: {added.replicas}")
        self.cluster.admin.set_topic_assignment(
            topic, {**found.partitions, number: added}, topic_id=found.topic_id
        )

    def delete_topic(self) -> None:
        topic = self.random.choice(TOPICS)
        if self.cluster.admin.topic_exists(topic):
            try:
                self.cluster.admin.request_topic_deletion(topic)
                self._note(f"delete {topic}")
            except NodeExists:
                return

    def reassign(self) -> None:
        self._submit_reassignment(self._some_replicas())

    def cancel_reassignment(self) -> None:
        self._submit_reassignment(None)

    def elect(self) -> None:
        node = self._controller()
        if node is not None:
            kind, trigger = ElectionType.PREFERRED, ElectionTrigger.ADMIN
            node.events.append(events.ReplicaLeaderElection(None, kind, trigger, _ignore))

    def shut_down(self) -> None:
        """Asks for a broker's shutdown, but keeps it running. Later incarnations are unaffected."""
        controller = self._controller()
        leaving = self._pick(self._running())
        if controller is None or leaving is None:
            return
        broker, epoch = leaving.info.id, leaving.core.broker_epoch
        self._note(f"shut down {broker}")
        self.leaving.add(broker)
        controller.events.append(events.ControlledShutdown(broker, epoch, _ignore))

    # --- actions of brokers ---

    def change_isr(self) -> None:
        """Lets a leader, or a broker that believes it leads, change its ISR."""
        node = self._pick(self._running())
        if node is None:
            return
        led = [(p, s) for p, s in node.leaders.items() if s.leader == node.info.id]
        if not led:
            return
        partition, told = self.random.choice(led)
        isr = [b for b in told.replicas if b == node.info.id or self.random.random() < 0.7]
        isr = [b for b in isr if b in node.live_brokers or b == node.info.id]
        self._set_isr(node, partition, isr)

    def _set_isr(self, node: Node, partition: TopicPartition, isr: Sequence[int]) -> None:
        """Writes an ISR with the versions the broker last received, and notifies the controller."""
        told = node.leaders[partition]
        found = self.cluster.admin.find_topic(partition.topic)
        if found is None or found.topic_id != node.topic_ids[partition]:
            return  # it missed that the topic was deleted and re-created
        wanted = LeaderAndIsr(
            leader=told.leader,
            isr=tuple(isr),
            leader_epoch=told.leader_epoch,
            controller_epoch=told.controller_epoch,
            leader_recovery_state=told.leader_recovery_state,
            zk_version=told.partition_epoch,
        )
        # A proposal that may have been written is repeated until the store answers.
        unanswered = node.unanswered.pop(partition, None)
        if unanswered is not None and unanswered.leader_epoch == told.leader_epoch:
            wanted = unanswered
        try:
            version = node.zk.update_isr_as_leader(partition, wanted)
        except SessionExpired:
            return  # it has not noticed yet
        except ConnectionLoss:
            node.unanswered[partition] = wanted
            self.check_always()
            return
        if version is None:
            return
        self._note(f"broker {node.info.id} sets ISR of {partition} to {list(wanted.isr)}")
        values = {name: getattr(told, name) for name in _STATE_FIELDS}
        changed = {"isr": wanted.isr, "partition_epoch": version}
        node.leaders[partition] = type(told)(**{**values, **changed})
        with suppress(ConnectionLoss):  # only the answer is lost: the controller is notified
            node.zk.notify_isr_changes([partition])
        self.check_always()

    def kill(self) -> None:
        node = self._pick(list(self.cluster.nodes.values()))
        if node is not None and len(self.cluster.nodes) > 1:
            self._note(f"kill {node.info.id}")
            self.stuck.discard(node.info.id)
            self.cluster.kill(node.info.id)

    def start(self) -> None:
        gone = [broker for broker in BROKERS if broker not in self.cluster.nodes]
        if gone:
            self._start(self.random.choice(gone))

    def bounce(self) -> None:
        node = self._pick(list(self.cluster.nodes.values()))
        if node is not None:
            self._note(f"bounce {node.info.id}")
            self.stuck.discard(node.info.id)
            self.cluster.kill(node.info.id)
            self._start(node.info.id)

    def restart_all(self) -> None:
        """Kills every broker and starts them in random order."""
        self._note("all brokers die")
        self.stuck.clear()
        for broker in list(self.cluster.nodes):
            self.cluster.kill(broker)
        for broker in self.random.sample(BROKERS, len(BROKERS)):
            self._start(broker)

    def miss_messages(self) -> None:
        """Stalls a broker until its session expires and it misses messages, then lets it run on."""
        node = self._pick(self._running())
        if node is None or len(self.stuck) >= len(self.cluster.nodes) - 1:
            return
        self._note(f"broker {node.info.id} misses messages")
        self.stuck.add(node.info.id)
        node.session.expire()
        for _ in range(self.random.randint(5, 30)):
            self.random.choice([self.handle_event, self.deliver_request])()
            self.check_always()
        self.stuck.discard(node.info.id)

    def lose_answers(self) -> None:
        """Carries out a broker's next writes to ZooKeeper but loses the answers."""
        node = self._pick(self._running())
        if node is not None:
            count = self.random.choice([1, 1, 2, 4])
            self._note(f"broker {node.info.id} loses {count} answers")
            lose_answers(node.session, count)

    def expire_session(self) -> None:
        node = self._pick(list(self.cluster.nodes.values()))
        if node is not None:
            self._note(f"session of {node.info.id} expires")
            node.session.expire()

    def lose_log_dir(self) -> None:
        """Takes some of a broker's replicas offline until it restarts."""
        node = self._pick([n for n in self._running() if n.leaders])
        if node is not None:
            lost = [p for p in node.leaders if self.random.random() < 0.5]
            self._note(f"broker {node.info.id} loses {[str(p) for p in lost]}")
            node.storage_errors.update(lost)
            for partition in lost:
                del node.leaders[partition]
            try:
                node.zk.notify_log_dir_failure(node.info.id)
            except (SessionExpired, ConnectionLoss):
                return  # unreported: it fails again on the next order to lead or follow

    def get_stuck(self) -> None:
        """Pauses a broker for long; it may be a zombie when it resumes."""
        node = self._pick(self._running())
        if node is not None and len(self.stuck) < len(self.cluster.nodes) - 1:
            self._note(f"broker {node.info.id} gets stuck")
            self.stuck.add(node.info.id)

    def get_unstuck(self) -> None:
        if self.stuck:
            self.stuck.discard(self.random.choice(sorted(self.stuck)))

    # --- rules ---

    def check_always(self) -> None:
        self.cluster.failures.check()
        zxid = self.cluster.server._tree.zxid
        if zxid == self._checked_zxid:
            return  # nothing was written since
        self._checked_zxid = zxid
        admin = self.cluster.admin
        epoch, _ = admin.controller_epoch()
        assert epoch >= self._last_epoch, "the controller epoch went back"
        self._last_epoch = epoch
        for version, writers in self.writers.items():
            assert len(writers) == 1, f"epoch version {version} has writers {writers}"
        topics = admin.topic_assignments(sorted(admin.topics()))
        partitions = [p for t in topics.values() for p in t.by_topic_partition()]
        states = admin.partition_states(partitions)
        for partition, state in states.items():
            stat = admin.store.exists(f"/brokers/topics/{partition.topic}")
            self._check_state(partition, stat.czxid if stat else None, state)
        self._last_states = {p: v for p, v in self._last_states.items() if p in states}

    def _check_state(self, partition: TopicPartition, life: object, state: LeaderAndIsr) -> None:
        assert state.isr, f"{partition} has an empty ISR"
        assert state.leader == NO_LEADER or state.leader in state.isr, f"{partition}: {state}"
        assert state.controller_epoch <= self._last_epoch
        known = self._last_states.get(partition)
        self._last_states[partition] = life, state
        if known is None or known[0] != life:
            return
        before = known[1]
        assert state.zk_version >= before.zk_version
        assert state.leader_epoch >= before.leader_epoch, f"{partition}: leader epoch went back"
        if state.leader not in (before.leader, NO_LEADER):
            assert state.leader_epoch > before.leader_epoch, f"{partition}: two leaders, one epoch"
            assert state.leader in before.isr, f"{partition}: unclean leader {state.leader}"

    def check_at_rest(self) -> None:
        cluster, admin = self.cluster, self.cluster.admin
        controller = cluster.controller
        context = controller.core.context
        assert admin.find_controller_id() == controller.info.id
        assert (context.epoch, context.epoch_version) == admin.controller_epoch()
        assert not admin.topic_deletions(), "deletions are unfinished although every broker is up"
        assert admin.isr_changes() == {}
        topics = admin.topic_assignments(sorted(admin.topics()))
        assert context.topics == set(topics)
        assigned = {p: a for t in topics.values() for p, a in t.by_topic_partition().items()}
        for partition, assignment in assigned.items():
            self._check_partition_at_rest(partition, assignment)
        for broker, node in cluster.nodes.items():
            hosted = {p for p, assignment in assigned.items() if broker in assignment.replicas}
            assert set(node.leaders) == hosted, (
                f"broker {broker} keeps partitions it no longer hosts"
            )
            assert set(node.metadata) == set(assigned), f"broker {broker} has stale metadata"

    def _check_partition_at_rest(
        self, partition: TopicPartition, assignment: ReplicaAssignment
    ) -> None:
        cluster = self.cluster
        context = cluster.controller.core.context
        state = cluster.state(partition)
        assert state.leader in state.isr, f"{partition} has live in-sync replicas and no leader"
        assert set(state.isr) <= set(assignment.replicas), f"{partition}: {state} {assignment}"
        assert replace(context.leadership[partition], controller_epoch=0) == replace(
            state, controller_epoch=0
        ), f"{partition}: the controller's cache is stale"
        assert context.assignment(partition) == assignment
        for node in cluster.nodes.values():
            told = node.metadata[partition]
            assert (told.leader, told.leader_epoch) == (state.leader, state.leader_epoch)
            assert tuple(told.isr) == state.isr
            assert tuple(told.replicas) == assignment.replicas
        for broker in assignment.replicas:
            knows = cluster.nodes[broker].leaders[partition]
            assert (knows.leader, knows.leader_epoch) == (state.leader, state.leader_epoch)

    # --- helpers ---

    def _start(self, broker: int) -> None:
        self._note(f"start {broker}")
        self._observe(self.cluster.start(broker))

    def _observe(self, node: Node) -> None:
        """Records which broker makes each controller write."""
        store: Any = node.zk.store
        real = store.multi

        def multi(ops: Sequence[Op]) -> Sequence[OpResult]:
            results: Sequence[OpResult] = real(ops)
            check = ops[0]
            if isinstance(check, CheckOp) and check.path == paths.CONTROLLER_EPOCH:
                _, current = self.cluster.admin.controller_epoch()
                assert check.version == current, "a deposed controller has written"
                self.writers.setdefault(check.version, set()).add(node.info.id)
            return results

        store.multi = multi

    def _submit_reassignment(self, target: Sequence[int] | None) -> None:
        node = self._controller()
        partitions = list(node.core.context.partitions()) if node is not None else []
        if node is not None and partitions:
            partition = self.random.choice(partitions)
            self._note(f"reassign {partition} to {target}")
            node.events.append(events.ApiPartitionReassignment({partition: target}, _ignore))

    def _controller(self) -> Node | None:
        return self._pick([node for node in self._running() if node.core.is_active])

    def _running(self) -> list[Node]:
        return [n for n in self.cluster.nodes.values() if n.info.id not in self.stuck]

    def _pick(self, nodes: Sequence[Node]) -> Node | None:
        return self.random.choice(nodes) if nodes else None

    def _some_replicas(self, count: int | None = None) -> list[int]:
        return self.random.sample(BROKERS, count or self.random.randint(1, 3))

    def _note(self, what: str) -> None:
        self.history.append(what)


def lose_answers(session: MemorySession, count: int) -> None:
    """Carries out a session's next writes, then raises `ConnectionLoss`."""
    store: Any = session
    left = [count]

    def losing(write: Any) -> Any:
        def write_and_lose(*arguments: Any, **named: Any) -> Any:
            result = write(*arguments, **named)
            if left[0]:
                left[0] -= 1
                raise ConnectionLoss
            return result

        return write_and_lose

    for name in ("create", "set", "delete", "multi"):
        setattr(store, name, losing(getattr(store, name)))


_STATE_FIELDS = (
    "partition_index",
    "controller_epoch",
    "leader",
    "leader_epoch",
    "isr",
    "partition_epoch",
    "replicas",
    "adding_replicas",
    "removing_replicas",
    "is_new",
    "leader_recovery_state",
)


def _ignore(answer: object) -> None:
    """Discards the answer."""
