"""Typed access to Kafka's znodes, for the controller, the broker and its replicas.

    zk = KafkaZk(store, clock)          # store: MemoryZk(...).connect(), or a KazooZk
    zk.make_persistent_paths()          # once, when a broker starts
    epoch = zk.register_broker(info)    # ephemeral; the epoch is the znode's czxid

Writes reserved to the active controller take `epoch_version`, the zk version of `/controller_epoch`
at its election. Such a write is a transaction that checks this version, and raises
`ControllerMoved` if another controller has been elected since.

Owner: none; it holds no state but the store.
Not here: when to write (`controller`, `replica`, `server`), the bytes (`payloads`), and writing
many znodes at once (`znodes`, `partition_states`).
"""

import logging
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Final

from embedkafka.runtime.clock import Clock
from embedkafka.runtime.ids import NO_BROKER_EPOCH, BrokerId, TopicPartition
from embedkafka.runtime.scheduler import Scheduler
from embedkafka.runtime.values import replace
from embedkafka.zk import paths, payloads
from embedkafka.zk.change_feed import ChangeFeed
from embedkafka.zk.partition_states import StateUpdates, create_states, update_states
from embedkafka.zk.payloads import (
    BrokerInfo,
    LeaderAndIsr,
    ProducerIdBlock,
    ReplicaAssignment,
    TopicAssignment,
)
from embedkafka.zk.store import (
    ANY_VERSION,
    BadVersion,
    CheckOp,
    CreateOp,
    DeleteOp,
    NodeExists,
    NoNode,
    Op,
    SetOp,
    Stat,
    Watch,
    ZkError,
    ZkStore,
)
from embedkafka.zk.znodes import (
    OPS_PER_MULTI,
    ControllerMoved,
    below,
    children,
    chunks,
    create_with_parents,
    delete_all,
    delete_tree,
    find,
    notifications,
    write_as_controller,
)

__all__ = ["PRODUCER_ID_BLOCK_SIZE", "ControllerMoved", "KafkaZk", "StateUpdates"]

PRODUCER_ID_BLOCK_SIZE = 1000

_NO_JOINERS: Final[Mapping[BrokerId, int]] = MappingProxyType({})

_LOG = logging.getLogger(__name__)


class KafkaZk:
    """Kafka's znodes as values, through one session."""

    def __init__(self, store: ZkStore, clock: Clock) -> None:
        self.store = store
        self._clock = clock

    # --- cluster and brokers ---

    def make_persistent_paths(self) -> None:
        """Creates the znodes that every Kafka cluster has; quick if they exist."""
        missing = [path for path in paths.PERSISTENT if self.store.exists(path) is None]
        for path in missing:
            create_with_parents(self.store, path, None, exist_ok=True)

    def create_or_get_cluster_id(self, proposed: str) -> str:
        """The cluster's id; `proposed` becomes it if there is none yet."""
        found = self.find_cluster_id()
        if found is not None:
            return found
        try:
            create_with_parents(self.store, paths.CLUSTER_ID, payloads.encode_cluster_id(proposed))
        except NodeExists:
            return payloads.decode_cluster_id(self.store.get(paths.CLUSTER_ID)[0])
        return proposed

    def create_or_get_decoy_secret(self, proposed: bytes) -> bytes:
        """What brokers make the salts of unknown users of; `proposed` if there is none yet."""
        found = find(self.store, paths.DECOY_SECRET)
        if found is not None:
            return found
        try:
            create_with_parents(self.store, paths.DECOY_SECRET, proposed)
        except NodeExists:
            return self.store.get(paths.DECOY_SECRET)[0]
        return proposed

    def find_cluster_id(self) -> str | None:
        data = find(self.store, paths.CLUSTER_ID)
        return None if data is None else payloads.decode_cluster_id(data)

    def register_broker(self, info: BrokerInfo) -> int:
        """Creates the broker's ephemeral znode and returns the broker epoch.

        An existing znode of this session is ours (the create was retried). One of another session
        raises `NodeExists`: a second broker with this id is running.
        """
        data = payloads.encode_broker(info, self._clock.now_ms())
        path = paths.broker(info.id)
        try:
            self.store.create(path, data, ephemeral=True)
        except NodeExists:
            stat = self.store.exists(path)
            if stat is None:
                return self.register_broker(info)
            if stat.ephemeral_owner != self.store.session_id:
                raise
            return stat.czxid
        self._remember_broker(info.id, data)
        return self.store.get(path)[1].czxid

    def _remember_broker(self, broker_id: int, data: bytes) -> None:
        path = paths.known_broker(broker_id)
        try:
            self.store.set(path, data)
        except NoNode:
            create_with_parents(self.store, path, data, exist_ok=True)

    def update_broker(self, info: BrokerInfo) -> None:
        data = payloads.encode_broker(info, self._clock.now_ms())
        self.store.set(paths.broker(info.id), data)

    def find_broker(self, broker_id: int, watch: Watch | None = None) -> BrokerInfo | None:
        data = find(self.store, paths.broker(broker_id), watch)
        return None if data is None else payloads.decode_broker(broker_id, data)

    def find_broker_epoch(self, broker_id: int) -> int | None:
        """The epoch of a registered broker; None if it is not registered."""
        stat = self.store.exists(paths.broker(broker_id))
        return None if stat is None else stat.czxid

    def brokers(self, watch: Watch | None = None) -> dict[int, tuple[BrokerInfo, int]]:
        """The registered brokers by id, each with its epoch."""
        ids = sorted(int(name) for name in children(self.store, paths.BROKER_IDS, watch))
        found = self.store.get_many([paths.broker(broker_id) for broker_id in ids])
        return {
            broker_id: (payloads.decode_broker(broker_id, node[0]), node[1].czxid)
            for broker_id, node in zip(ids, found, strict=True)
            if node is not None
        }

    def fenced_brokers(self) -> dict[int, BrokerInfo]:
        """Brokers that have been registered, are down, and have not been forgotten."""
        live = set(children(self.store, paths.BROKER_IDS))
        down = sorted(
            int(name) for name in children(self.store, paths.KNOWN_BROKERS) if name not in live
        )
        found = self.store.get_many([paths.known_broker(broker_id) for broker_id in down])
        return {
            broker_id: payloads.decode_broker(broker_id, node[0])
            for broker_id, node in zip(down, found, strict=True)
            if node is not None
        }

    def forget_broker(self, broker_id: int) -> bool:
        """Drops a broker from `fenced_brokers`; False if it is not there."""
        try:
            self.store.delete(paths.known_broker(broker_id))
        except NoNode:
            return False
        return True

    def last_change(self) -> int:
        """The zxid of the last change to brokers, topics, settings or the controller."""
        changed = (paths.BROKER_IDS, paths.TOPICS, paths.CONFIG_CHANGES, paths.CONTROLLER_EPOCH)
        stats = [node[1] for node in self.store.get_many(changed) if node is not None]
        return max((max(stat.mzxid, stat.pzxid) for stat in stats), default=0)

    # --- the controller's znodes ---

    def watch_controller(self, watch: Watch) -> int | None:
        """Watches for a change of controller; returns the current controller's id."""
        self.store.exists(paths.CONTROLLER, watch)
        return self.find_controller_id()

    def find_controller_id(self) -> int | None:
        data = find(self.store, paths.CONTROLLER)
        return None if data is None else payloads.decode_controller(data)

    def controller_epoch(self) -> tuple[int, int]:
        """The epoch of the last elected controller (0 before the first) and its zk version."""
        try:
            data, stat = self.store.get(paths.CONTROLLER_EPOCH)
        except NoNode:
            try:
                self.store.create(paths.CONTROLLER_EPOCH, b"0")
            except NodeExists:
                return self.controller_epoch()
            return 0, 0
        return int(data), stat.version

    def register_controller_and_increment_epoch(
        self, broker_id: int, *, replaces_current: bool = False
    ) -> tuple[int, int]:
        """Becomes controller: the new epoch and its zk version; may raise `ControllerMoved`.

        With `replaces_current` it removes the present one in the same step, so no other broker can
        be quicker.
        """
        epoch, version = self.controller_epoch()
        mine = payloads.encode_controller(broker_id, self._clock.now_ms())
        ops: list[Op] = [
            CreateOp(paths.CONTROLLER, mine, ephemeral=True),
            SetOp(paths.CONTROLLER_EPOCH, str(epoch + 1).encode(), version),
        ]
        if replaces_current and self.find_controller_id() is not None:
            ops.insert(0, DeleteOp(paths.CONTROLLER))
        try:
            stat = self.store.multi(ops)[-1]
        except (NodeExists, BadVersion) as error:
            return self._confirm_election(broker_id, epoch + 1, error)
        assert isinstance(stat, Stat)
        return epoch + 1, stat.version

    def delete_controller(self, *, epoch_version: int) -> None:
        delete_all(self.store, [paths.CONTROLLER], epoch_version)

    def make_feature_znode(self) -> None:
        """Every cluster since Kafka 2.7 has one; ours finalizes no features."""
        if self.store.exists(paths.FEATURE) is None:
            create_with_parents(self.store, paths.FEATURE, payloads.NO_FEATURES, exist_ok=True)

    def features_epoch(self) -> int:
        """The version of the znode with the finalized features, their epoch to clients."""
        stat = self.store.exists(paths.FEATURE)
        return 0 if stat is None else stat.version

    # --- topics ---

    def topics(self, watch: Watch | None = None) -> set[str]:
        return set(children(self.store, paths.TOPICS, watch))

    def topic_exists(self, topic: str) -> bool:
        return self.store.exists(paths.topic(topic)) is not None

    def topic_assignments(self, topics: Collection[str]) -> dict[str, TopicAssignment]:
        names = list(topics)
        found = self.store.get_many([paths.topic(name) for name in names])
        return {
            name: payloads.decode_topic(name, node[0])
            for name, node in zip(names, found, strict=True)
            if node is not None
        }

    def topic_ids(self, watch: Watch | None = None) -> dict[str, uuid.UUID | None]:
        """Every topic's id; the watch fires when a topic is created or deleted."""
        found = self.topic_assignments(self.topics(watch))
        return {name: assignment.topic_id for name, assignment in found.items()}

    def find_topic(self, topic: str, watch: Watch | None = None) -> TopicAssignment | None:
        data = find(self.store, paths.topic(topic), watch)
        return None if data is None else payloads.decode_topic(topic, data)

    def create_topic(
        self,
        topic: str,
        assignment: Mapping[int, Sequence[int]],
        *,
        topic_id: uuid.UUID | None,
        config: Mapping[str, str],
    ) -> None:
        """Writes settings and assignment; raises `NodeExists` if the topic exists.

        The controller then sees the topic and elects leaders for its partitions.
        """
        partitions = {p: ReplicaAssignment(replicas=tuple(r)) for p, r in assignment.items()}
        create = CreateOp(paths.topic(topic), payloads.encode_topic(topic_id, partitions))
        path, data = paths.config("topics", topic), payloads.encode_config(config)
        while True:
            there = self.store.exists(path) is not None
            try:
                self.store.multi([SetOp(path, data) if there else CreateOp(path, data), create])
                return
            except (NodeExists, NoNode) as error:
                if error.op_index == 1 or (isinstance(error, NoNode) and not there):
                    raise  # else the settings appeared or disappeared since we looked

    def set_topic_assignment(
        self,
        topic: str,
        assignment: Mapping[int, ReplicaAssignment],
        *,
        topic_id: uuid.UUID | None,
        epoch_version: int = ANY_VERSION,
    ) -> None:
        """Replaces the whole assignment: adds partitions, or records a reassignment."""
        op = SetOp(paths.topic(topic), payloads.encode_topic(topic_id, assignment))
        write_as_controller(self.store, [op], epoch_version)

    def delete_topic_znodes(self, topic: str, *, epoch_version: int) -> None:
        """Removes all znodes of a topic whose replicas are gone, the delete request last."""
        for path in (paths.topic(topic), paths.config("topics", topic)):
            delete_tree(self.store, path, epoch_version)
        self.delete_topic_requests([topic], epoch_version=epoch_version)

    # --- partition states ---

    def partition_states(
        self, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, LeaderAndIsr]:
        """The states of the partitions that have one."""
        listed = list(partitions)
        found = self.store.get_many([paths.partition_state(tp) for tp in listed])
        return {
            tp: payloads.decode_partition_state(node[0], node[1].version)
            for tp, node in zip(listed, found, strict=True)
            if node is not None
        }

    def watch_partition_state(self, partition: TopicPartition, watch: Watch) -> None:
        self.store.exists(paths.partition_state(partition), watch)

    def create_partition_states(
        self, states: Mapping[TopicPartition, LeaderAndIsr], *, epoch_version: int
    ) -> StateUpdates:
        """Creates `state` znodes with their parents, many in one transaction."""
        return create_states(self.store, states, epoch_version=epoch_version)

    def update_partition_states(
        self,
        states: Mapping[TopicPartition, LeaderAndIsr],
        *,
        controller_epoch: int,
        epoch_version: int,
    ) -> StateUpdates:
        """As the controller, writes states whose `zk_version` is still the znode's."""
        return update_states(
            self.store, states, controller_epoch=controller_epoch, epoch_version=epoch_version
        )

    def update_isr_as_leader(
        self,
        partition: TopicPartition,
        state: LeaderAndIsr,
        *,
        topic_id: uuid.UUID | None = None,
        joining: Mapping[BrokerId, int] = _NO_JOINERS,
    ) -> int | None:
        """A leader's change of its ISR; returns the new zk version, or None if it was fenced.

        `topic_id` fences a leader of an earlier topic of the same name. Versions cannot tell the
        two topics apart, because the znodes of both begin at 0.
        Brokers in `joining` must be registered at that moment, with the given broker epoch unless
        it is -1, or this raises `NoNode`: a controller that has seen one go does not look at the
        set again.
        A write whose answer was lost counts as done if the znode has exactly the intended state.
        We therefore compare the version first, and by a write, because a server may answer reads
        with old data.
        """
        if topic_id is not None:
            topic = self.find_topic(partition.topic)
            if topic is None or topic.topic_id != topic_id:
                return None
        path = paths.partition_state(partition)
        restarted = [
            broker_id
            for broker_id, epoch in joining.items()
            if epoch not in (NO_BROKER_EPOCH, self.find_broker_epoch(broker_id))
        ]
        try:
            if restarted:
                self.store.multi([CheckOp(path, state.zk_version)])
                raise NoNode(paths.broker(restarted[0]), op_index=1)
            data = payloads.encode_partition_state(state)
            alive = [CheckOp(paths.broker(broker_id)) for broker_id in joining]
            stat = self.store.multi([SetOp(path, data, state.zk_version), *alive])[0]
            assert isinstance(stat, Stat)
            return stat.version
        except NoNode as gone:
            if gone.op_index == 0:
                return None
            raise
        except BadVersion:
            now = self.partition_states([partition]).get(partition)
            if now is not None and replace(now, zk_version=state.zk_version) == state:
                return now.zk_version
            return None

    # --- topic deletion ---

    def request_topic_deletion(self, topic: str) -> None:
        """Asks the controller to delete `topic`; raises `NodeExists` if it is already asked to."""
        create_with_parents(self.store, paths.delete_topic(topic), None)

    def request_topic_deletions(self, topics: Iterable[str]) -> None:
        """Asks for many deletions at once; existing requests are fine."""
        missing = set(topics) - self.topic_deletions()
        for chunk in chunks(sorted(missing), OPS_PER_MULTI):
            self.store.multi([CreateOp(paths.delete_topic(topic)) for topic in chunk])

    def is_marked_for_deletion(self, topic: str) -> bool:
        return self.store.exists(paths.delete_topic(topic)) is not None

    def watch_topic_deletion(self, topic: str, watch: Watch) -> bool:
        """Watches for the end of a deletion; returns whether it is still in progress."""
        return self.store.exists(paths.delete_topic(topic), watch) is not None

    def topic_deletions(self, watch: Watch | None = None) -> set[str]:
        return set(children(self.store, paths.DELETE_TOPICS, watch))

    def delete_topic_requests(self, topics: Iterable[str], *, epoch_version: int) -> None:
        delete_all(self.store, [paths.delete_topic(topic) for topic in topics], epoch_version)

    # --- reassignment and preferred election, the old ways through ZooKeeper ---

    def watch_reassignment(self, watch: Watch) -> bool:
        """Watches `/admin/reassign_partitions`; returns whether it exists."""
        return self.store.exists(paths.REASSIGN_PARTITIONS, watch) is not None

    def reassignment(self) -> dict[TopicPartition, tuple[int, ...]]:
        data = find(self.store, paths.REASSIGN_PARTITIONS)
        if data is None:
            return {}
        try:
            return payloads.decode_reassignment(data)
        except (ValueError, KeyError, TypeError) as error:
            _LOG.warning("Ignoring partition reassignment due to invalid json: %s", error)
            return {}

    def create_reassignment(self, wanted: Mapping[TopicPartition, Sequence[int]]) -> None:
        data = payloads.encode_reassignment(wanted)
        create_with_parents(self.store, paths.REASSIGN_PARTITIONS, data)

    def set_reassignment(
        self, wanted: Mapping[TopicPartition, Sequence[int]], *, epoch_version: int
    ) -> None:
        """Writes the moves still to do; without any, removes the znode."""
        if not wanted:
            delete_all(self.store, [paths.REASSIGN_PARTITIONS], epoch_version)
            return
        op = SetOp(paths.REASSIGN_PARTITIONS, payloads.encode_reassignment(wanted))
        with suppress(NoNode):
            write_as_controller(self.store, [op], epoch_version)

    def watch_preferred_election(self, watch: Watch) -> bool:
        """Watches `/admin/preferred_replica_election`; returns whether it exists."""
        return self.store.exists(paths.PREFERRED_REPLICA_ELECTION, watch) is not None

    def preferred_election(self) -> list[TopicPartition]:
        data = find(self.store, paths.PREFERRED_REPLICA_ELECTION)
        return [] if data is None else payloads.decode_partitions(data)

    def create_preferred_election(self, partitions: Iterable[TopicPartition]) -> None:
        data = payloads.encode_partitions(partitions)
        create_with_parents(self.store, paths.PREFERRED_REPLICA_ELECTION, data)

    def delete_preferred_election(self, *, epoch_version: int) -> None:
        delete_all(self.store, [paths.PREFERRED_REPLICA_ELECTION], epoch_version)

    # --- notifications to the controller ---

    def notify_isr_changes(self, partitions: Iterable[TopicPartition]) -> None:
        """Tells the controller about changed ISRs, so that it updates metadata."""
        prefix = f"{paths.ISR_CHANGES}/{paths.ISR_CHANGE_PREFIX}"
        self.store.create(prefix, payloads.encode_partitions(partitions), sequence=True)

    def isr_changes(self, watch: Watch | None = None) -> dict[str, list[TopicPartition]]:
        """Pending notifications by znode name."""
        return {
            name: payloads.decode_partitions(data)
            for name, data in notifications(self.store, paths.ISR_CHANGES, watch)
        }

    def delete_isr_changes(self, names: Iterable[str], *, epoch_version: int) -> None:
        delete_all(self.store, [f"{paths.ISR_CHANGES}/{name}" for name in names], epoch_version)

    def notify_log_dir_failure(self, broker_id: int) -> None:
        prefix = f"{paths.LOG_DIR_EVENTS}/{paths.LOG_DIR_EVENT_PREFIX}"
        self.store.create(prefix, payloads.encode_log_dir_event(broker_id), sequence=True)

    def log_dir_events(self, watch: Watch | None = None) -> dict[str, int]:
        """Pending notifications by znode name, with the broker that lost a directory."""
        return {
            name: payloads.decode_log_dir_event(data)
            for name, data in notifications(self.store, paths.LOG_DIR_EVENTS, watch)
        }

    def delete_log_dir_events(self, names: Iterable[str], *, epoch_version: int) -> None:
        delete_all(self.store, [f"{paths.LOG_DIR_EVENTS}/{name}" for name in names], epoch_version)

    # --- settings ---

    def config(self, entity_type: str, entity_name: str) -> dict[str, str]:
        """The overrides of an entity such as `("topics", "orders")`; empty if it has none."""
        data = find(self.store, paths.config(entity_type, entity_name))
        return {} if data is None else payloads.decode_config(data)

    def configs(self, entity_type: str, names: Collection[str]) -> dict[str, dict[str, str]]:
        listed = list(names)
        found = self.store.get_many([paths.config(entity_type, name) for name in listed])
        return {
            name: {} if node is None else payloads.decode_config(node[0])
            for name, node in zip(listed, found, strict=True)
        }

    def configured_entities(self, entity_type: str) -> list[str]:
        return children(self.store, f"{paths.CONFIG}/{entity_type}", None)

    def overrides(self) -> dict[tuple[str, str], dict[str, str]]:
        """The overrides of every entity that has some, by type and name."""
        folders = [
            f"{paths.CONFIG}/{entity_type}"
            for entity_type in children(self.store, paths.CONFIG, None)
            if f"{paths.CONFIG}/{entity_type}" != paths.CONFIG_CHANGES
        ]
        found = [path for folder in folders for path in below(self.store, folder)]
        named = [path.removeprefix(f"{paths.CONFIG}/").partition("/") for path in found]
        return {
            (entity_type, name): values
            for (entity_type, _, name), node in zip(named, self.store.get_many(found), strict=True)
            if name and node is not None and node[0]
            if (values := payloads.decode_config(node[0]))
        }

    def set_config(self, entity_type: str, entity_name: str, config: Mapping[str, str]) -> None:
        """Replaces the overrides and tells every broker (see `notifications`)."""
        path = paths.config(entity_type, entity_name)
        data = payloads.encode_config(config)
        try:
            self.store.set(path, data)
        except NoNode:
            create_with_parents(self.store, path, data, exist_ok=True)
        self.notify_config_change(f"{entity_type}/{entity_name}")

    def notify_config_change(self, entity_path: str) -> None:
        prefix = f"{paths.CONFIG_CHANGES}/{paths.CONFIG_CHANGE_PREFIX}"
        self.store.create(prefix, payloads.encode_config_change(entity_path), sequence=True)

    def follow_changes(
        self,
        folder: str,
        prefix: str,
        background: Scheduler,
        *,
        on_change: Callable[[bytes], None],
        on_gap: Callable[[], None],
    ) -> ChangeFeed:
        """A started feed of the notifications in `folder`."""
        feed = ChangeFeed(
            self.store,
            self._clock,
            background,
            folder=folder,
            prefix=prefix,
            on_change=on_change,
            on_gap=on_gap,
        )
        feed.start()
        return feed

    # --- producer ids ---

    def allocate_producer_ids(
        self, broker_id: int, size: int = PRODUCER_ID_BLOCK_SIZE
    ) -> ProducerIdBlock:
        """Takes the next block of producer ids for a broker; no id is ever handed out twice."""
        while True:
            try:
                data, stat = self.store.get(paths.PRODUCER_ID_BLOCK)
            except NoNode:
                create_with_parents(self.store, paths.PRODUCER_ID_BLOCK, None, exist_ok=True)
                continue
            first = payloads.decode_producer_id_block(data).last + 1 if data else 0
            block = ProducerIdBlock(broker_id=broker_id, first=first, last=first + size - 1)
            encoded = payloads.encode_producer_id_block(block)
            try:
                self.store.set(paths.PRODUCER_ID_BLOCK, encoded, stat.version)
            except BadVersion:
                continue
            return block

    # --- offsets of groups before Kafka 0.8.2 ---

    def find_consumer_offset(self, group: str, partition: TopicPartition) -> int | None:
        data = find(self.store, paths.consumer_offset(group, partition))
        return None if not data else int(data)

    def set_consumer_offset(self, group: str, partition: TopicPartition, offset: int) -> None:
        path, data = paths.consumer_offset(group, partition), str(offset).encode()
        try:
            self.store.set(path, data)
        except NoNode:
            create_with_parents(self.store, path, data, exist_ok=True)

    def groups_with_offsets(self) -> frozenset[str]:
        return frozenset(children(self.store, paths.CONSUMERS))

    def delete_consumer_offsets(self, *, kept: Collection[str] = ()) -> None:
        """Deletes those of all groups but `kept`."""
        for group in self.groups_with_offsets().difference(kept):
            for path in below(self.store, f"{paths.CONSUMERS}/{group}"):
                self.store.delete(path)

    # --- how ---

    def _confirm_election(self, broker_id: int, epoch: int, error: ZkError) -> tuple[int, int]:
        """The answer to a won election may be lost; its retry then finds our own znode."""
        if self.find_controller_id() == broker_id:
            data, stat = self.store.get(paths.CONTROLLER_EPOCH)
            if int(data) == epoch:
                return epoch, stat.version
        raise ControllerMoved(f"broker {broker_id} lost the election of epoch {epoch}") from error
