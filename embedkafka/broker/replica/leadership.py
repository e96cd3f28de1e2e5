"""Handles the controller's requests to lead, follow and stop partitions.

Owner: `_lock` orders the controller's requests and guards the controller epoch. It is taken before
all other locks.
Invariants: a request from an older controller changes nothing. A partition's leader epoch only
rises while its topic stays the same. A full request deletes every replica that it omits.
Coordinators and waiting requests learn of a change after the lock is released.
"""

import logging
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from embedkafka.broker.log.log import Log
from embedkafka.broker.replica.following.fetcher import Followed
from embedkafka.broker.replica.following.fetcher_manager import FetcherManager
from embedkafka.broker.replica.hosted import HostedPartitions
from embedkafka.broker.replica.partition.partition import Partition
from embedkafka.broker.replica.partition.values import LeaderAndIsrPartitionState
from embedkafka.broker.replica.partition_notifier import PartitionNotifier
from embedkafka.broker.replica.ports import LeaderChange, ReplicaPorts
from embedkafka.runtime.files import is_disk_failure
from embedkafka.runtime.ids import (
    EPOCH_DURING_DELETE,
    NO_LEADER_EPOCH,
    BrokerId,
    LeaderEpoch,
    TopicPartition,
)
from embedkafka.runtime.locks import ranked_lock
from embedkafka.runtime.topic_names import is_legal
from embedkafka.runtime.values import NamedTuple, dataclass, field
from embedkafka.wire.protocol.errors import ApiError, ErrorCode
from embedkafka.wire.protocol.messages.brokers import (
    FULL,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    StopReplicaRequest,
    StopReplicaResponse,
)
from embedkafka.wire.protocol.wire_types import ZERO_UUID
from embedkafka.zk.payloads import ReplicaAssignment

_LOG = logging.getLogger(__name__)

STATE_CHANGE_RANK: Final = 5


class Leadership:
    """Makes partitions leaders and followers, creates and deletes their logs."""

    def __init__(
        self,
        ports: ReplicaPorts,
        *,
        hosted: HostedPartitions,
        fetchers: FetcherManager,
        waiters: PartitionNotifier,
        make_partition: Callable[[TopicPartition], Partition],
    ) -> None:
        self._broker_id = hosted.broker_id
        self._logs = ports.logs
        self._configs = ports.topic_configs
        self._listener = ports.leadership_listener
        self._log_dir_events = ports.log_dir_events
        self._hosted = hosted
        self._fetchers = fetchers
        self._waiters = waiters
        self._make_partition = make_partition
        self._lock = ranked_lock("replica state changes", STATE_CHANGE_RANK)
        self._controller_epoch = 0

    def accept_controller(self, controller_epoch: int) -> bool:
        """False for a replaced controller; otherwise refuses older epochs from now on."""
        with self._lock:
            if controller_epoch < self._controller_epoch:
                return False
            self._controller_epoch = controller_epoch
            return True

    def become_leader_or_follower(self, request: LeaderAndIsrRequest) -> LeaderAndIsrResponse:
        orders = _orders(request)
        with self._lock:
            if not self.accept_controller(request.controller_epoch):
                return LeaderAndIsrResponse(error_code=ErrorCode.STALE_CONTROLLER_EPOCH)
            changes = _Changes()
            self._drop_unwanted(orders, changes, is_full=request.type == FULL)
            for order in orders:
                changes.errors[order.topic_partition] = self._judge(order)
            accepted = [order for order in orders if not changes.errors[order.topic_partition]]
            self._fetchers.unfollow([order.topic_partition for order in accepted])
            for order in accepted:
                self._apply(order, changes)
            self._fetchers.follow(changes.followed)
        self._announce(changes)
        return _leader_and_isr_response(orders, changes.errors)

    def stop_replicas(self, request: StopReplicaRequest) -> StopReplicaResponse:
        with self._lock:
            if not self.accept_controller(request.controller_epoch):
                return StopReplicaResponse(
                    error_code=ErrorCode.STALE_CONTROLLER_EPOCH, partition_errors=[]
                )
            changes = _Changes()
            stops = {stop: self._judge_stop(stop) for stop in _stops(request)}
            accepted = [stop for stop, error in stops.items() if error is ErrorCode.NONE]
            self._fetchers.unfollow([stop.topic_partition for stop in accepted])
            for stop in accepted:
                changes.touched.append(stop.topic_partition)
                if stop.delete:
                    stops[stop] = self._delete(stop.topic_partition, changes)
        self._announce(changes)
        return StopReplicaResponse(
            partition_errors=[
                StopReplicaResponse.PartitionError(
                    topic_name=stop.topic_partition.topic,
                    partition_index=stop.topic_partition.partition,
                    error_code=error,
                )
                for stop, error in stops.items()
            ]
        )

    def take_offline(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Stops using partitions whose disk failed."""
        changes, lost = _Changes(), list(topic_partitions)
        with self._lock:
            self._fetchers.unfollow(lost)
            self._lose(lost, changes)
        self._announce(changes)

    # -- under the lock

    def _drop_unwanted(
        self, orders: Sequence["_Order"], changes: "_Changes", *, is_full: bool
    ) -> None:
        """Deletes the replicas that became obsolete while this broker was away.

        These are logs of an earlier topic with the same name and, for a full request, every replica
        that it omits.
        """
        unwanted = [order.topic_partition for order in orders if self._is_of_another_topic(order)]
        if is_full:
            ordered = {order.topic_partition for order in orders}
            here = [log.topic_partition for log in self._logs.all_logs()]
            here += [partition.topic_partition for partition in self._hosted.online()]
            here += self._hosted.offline()
            unwanted += [each for each in dict.fromkeys(here) if each not in ordered]
        self._fetchers.unfollow(unwanted)
        for topic_partition in unwanted:
            _LOG.info("Broker %d no longer hosts %s", self._broker_id, topic_partition)
            changes.touched.append(topic_partition)
            self._delete(topic_partition, changes)

    def _is_of_another_topic(self, order: "_Order") -> bool:
        log = self._logs.find(order.topic_partition)
        known_id = None if log is None else log.topic_id
        return known_id is not None and order.topic_id not in (ZERO_UUID, known_id)

    def _judge(self, order: "_Order") -> ErrorCode:
        """NONE if the order can be carried out, otherwise the error."""
        topic_partition, state = order.topic_partition, order.state
        if not is_legal(topic_partition):
            return ErrorCode.INVALID_TOPIC_EXCEPTION
        if self._hosted.is_offline(topic_partition):
            return ErrorCode.KAFKA_STORAGE_ERROR
        partition = self._hosted.find(topic_partition)
        if partition is not None and state.leader_epoch <= partition.leader_epoch:
            _LOG.info(
                "%s stays at leader epoch %d, epoch %d is not newer",
                topic_partition,
                partition.leader_epoch,
                state.leader_epoch,
            )
            return ErrorCode.STALE_CONTROLLER_EPOCH
        if self._broker_id not in state.assignment.replicas:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return ErrorCode.NONE

    def _apply(self, order: "_Order", changes: "_Changes") -> None:
        """Carries out an order, unless the disk fails.

        A partition that finds no descriptor left is not given up with its disk: the controller
        elects another leader, and orders it again.
        """
        try:
            self._change(order, changes)
        except ApiError as error:
            _LOG.warning("%s cannot be used: %s", order.topic_partition, error)
            changes.errors[order.topic_partition] = error.code
            if _passes(error):
                changes.touched.append(order.topic_partition)
                changes.has_postponed = True
                self._leave(order.topic_partition, changes)
            else:
                self._lose([order.topic_partition], changes)

    def _change(self, order: "_Order", changes: "_Changes") -> None:
        topic_partition, state = order.topic_partition, order.state
        log = self._open_log(order)
        partition = self._hosted.find(topic_partition)
        if partition is None:
            partition = self._make_partition(topic_partition)
            self._hosted.add(partition)
        change = LeaderChange(topic_partition=topic_partition, leader_epoch=state.leader_epoch)
        changes.touched.append(topic_partition)
        if state.leader == self._broker_id:
            partition.make_leader(state, log)
            changes.leading.append(change)
            return
        partition.make_follower(state, log)
        changes.following.append(change)
        if state.leader >= 0:
            followed = Followed(
                partition, leader_epoch=state.leader_epoch, topic_id=log.topic_id or ZERO_UUID
            )
            changes.followed[topic_partition] = (state.leader, followed)

    def _open_log(self, order: "_Order") -> Log:
        logs = self._logs
        all_online = len(logs.live_directories) == len(logs.directories)
        if not all_online and not order.is_new and logs.find(order.topic_partition) is None:
            # Its log may be on the failed disk: an empty one must not replace it.
            raise ApiError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"the log of {order.topic_partition} is not on the disks that are left",
            )
        topic_id = None if order.topic_id == ZERO_UUID else order.topic_id
        config = self._configs.log_config(order.topic_partition.topic)
        log = logs.get_or_create(order.topic_partition, topic_id, config)
        log.update_config(config)
        return log

    def _judge_stop(self, stop: "_Stop") -> ErrorCode:
        if not is_legal(stop.topic_partition):
            return ErrorCode.INVALID_TOPIC_EXCEPTION
        if self._hosted.is_offline(stop.topic_partition):
            if stop.delete:  # a new topic with this name may be on a working disk
                self._hosted.remove(stop.topic_partition)
            return ErrorCode.KAFKA_STORAGE_ERROR
        partition = self._hosted.find(stop.topic_partition)
        # A deletion does not raise the leader epoch, so it carries a special value.
        unconditional = stop.leader_epoch in (EPOCH_DURING_DELETE, NO_LEADER_EPOCH)
        if partition is None or unconditional or stop.leader_epoch >= partition.leader_epoch:
            return ErrorCode.NONE
        return ErrorCode.FENCED_LEADER_EPOCH

    def _delete(self, topic_partition: TopicPartition, changes: "_Changes") -> ErrorCode:
        """Gives up a replica and its log; an error if the disk failed and keeps the files."""
        self._leave(topic_partition, changes)
        try:
            self._logs.delete_async(topic_partition)
        except ApiError as error:
            _LOG.warning("The log of %s cannot be deleted: %s", topic_partition, error)
            return error.code
        return ErrorCode.NONE

    def _leave(self, topic_partition: TopicPartition, changes: "_Changes") -> None:
        partition = self._hosted.remove(topic_partition)
        if partition is not None:
            changes.resign(partition)
            partition.stop()

    def _lose(self, topic_partitions: Sequence[TopicPartition], changes: "_Changes") -> None:
        """Marks partitions offline because their disk failed."""
        changes.touched += topic_partitions
        for partition in self._hosted.take_offline(topic_partitions):
            changes.resign(partition)
            partition.stop()

    # -- with the lock free

    def _announce(self, changes: "_Changes") -> None:
        if changes.leading or changes.following:
            self._listener.on_leadership_change(changes.leading, changes.following)
        for topic_partition in changes.touched:
            self._waiters.on_leadership_change(topic_partition)
        if changes.has_postponed:
            self._log_dir_events.on_postponed()


class _Order(NamedTuple):
    topic_partition: TopicPartition
    topic_id: uuid.UUID
    is_new: bool
    state: LeaderAndIsrPartitionState


class _Stop(NamedTuple):
    topic_partition: TopicPartition
    leader_epoch: int
    delete: bool


@dataclass(slots=True, kw_only=True)
class _Changes:
    """The changes of one request, announced after the lock is released."""

    errors: dict[TopicPartition, ErrorCode] = field(default_factory=dict)
    leading: list[LeaderChange] = field(default_factory=list)
    following: list[LeaderChange] = field(default_factory=list)
    followed: dict[TopicPartition, tuple[BrokerId, Followed]] = field(default_factory=dict)
    touched: list[TopicPartition] = field(default_factory=list)
    has_postponed: bool = False

    def resign(self, partition: Partition) -> None:
        self.following.append(
            LeaderChange(
                topic_partition=partition.topic_partition, leader_epoch=partition.leader_epoch
            )
        )


def _passes(error: ApiError) -> bool:
    """Whether the reason will pass by itself, unlike a failed disk."""
    cause = error.__cause__
    return isinstance(cause, OSError) and not is_disk_failure(cause)


def _orders(request: LeaderAndIsrRequest) -> list[_Order]:
    return [
        *(
            _order(TopicPartition(state.topic_name, state.partition_index), ZERO_UUID, state)
            for state in request.ungrouped_partition_states
        ),
        *(
            _order(TopicPartition(topic.topic_name, state.partition_index), topic.topic_id, state)
            for topic in request.topic_states
            for state in topic.partition_states
        ),
    ]


def _order(
    topic_partition: TopicPartition,
    topic_id: uuid.UUID,
    state: LeaderAndIsrRequest.TopicState.PartitionState,
) -> _Order:
    return _Order(
        topic_partition,
        topic_id,
        state.is_new,
        LeaderAndIsrPartitionState(
            leader=BrokerId(state.leader),
            leader_epoch=LeaderEpoch(state.leader_epoch),
            partition_epoch=state.partition_epoch,
            controller_epoch=state.controller_epoch,
            isr=tuple(map(BrokerId, state.isr)),
            assignment=ReplicaAssignment(
                replicas=tuple(state.replicas),
                adding=tuple(state.adding_replicas),
                removing=tuple(state.removing_replicas),
            ),
        ),
    )


def _leader_and_isr_response(
    orders: Sequence[_Order], errors: Mapping[TopicPartition, ErrorCode]
) -> LeaderAndIsrResponse:
    """By name before v5, by topic id since; the codec picks the fields of its version."""
    by_id: dict[uuid.UUID, list[LeaderAndIsrResponse.Topic.PartitionError]] = defaultdict(list)
    for order in orders:
        by_id[order.topic_id].append(
            LeaderAndIsrResponse.Topic.PartitionError(
                topic_name=order.topic_partition.topic,
                partition_index=order.topic_partition.partition,
                error_code=errors[order.topic_partition],
            )
        )
    return LeaderAndIsrResponse(
        partition_errors=[error for part in by_id.values() for error in part],
        topics=[
            LeaderAndIsrResponse.Topic(topic_id=topic_id, partition_errors=part)
            for topic_id, part in by_id.items()
        ],
    )


def _stops(request: StopReplicaRequest) -> Sequence[_Stop]:
    delete = request.delete_partitions
    return [
        *(
            _Stop(TopicPartition(p.topic_name, p.partition_index), NO_LEADER_EPOCH, delete)
            for p in request.ungrouped_partitions
        ),
        *(
            _Stop(TopicPartition(topic.name, index), NO_LEADER_EPOCH, delete)
            for topic in request.topics
            for index in topic.partition_indexes
        ),
        *(
            _Stop(
                TopicPartition(topic.topic_name, state.partition_index),
                state.leader_epoch,
                state.delete_partition,
            )
            for topic in request.topic_states
            for state in topic.partition_states
        ),
    ]
