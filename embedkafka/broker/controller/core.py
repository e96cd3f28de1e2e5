"""The controller's logic: handles one event at a time, and acts on the whole cluster.

`ControllerCore` has no thread: `controller.controller` runs it on the broker's event loop, the
simulation in `tests/sim` on a list. It reads and writes ZooKeeper, queues requests on channels,
and posts events to itself.

Owner: the thread that calls `handle`; other threads read only `active_id` and `broker_epoch`.
Invariants: only `Startup`, `Reelect` and `SessionLost` can make a broker the controller. Every
write checks the epoch of the controller's election, so a controller that was replaced without
noticing writes nothing and resigns.
Not here: threads (`controller`); changes of brokers and topics (`broker_changes`,
`topic_changes`); the rules for states, deletion and reassignment.
"""

import logging
import uuid
from collections.abc import Callable, Iterable
from typing import Any, Final

from embedkafka.broker.controller import events, partition_machine, replica_machine
from embedkafka.broker.controller.broker_changes import BrokerChanges
from embedkafka.broker.controller.context import ControllerContext, PartitionAndReplica
from embedkafka.broker.controller.events import ElectionTrigger, Event
from embedkafka.broker.controller.ports import Channels
from embedkafka.broker.controller.reassignment import Reassignments
from embedkafka.broker.controller.replica_machine import ReplicaState
from embedkafka.broker.controller.request_batch import Outgoing
from embedkafka.broker.controller.requested_elections import RequestedElections
from embedkafka.broker.controller.sender import RequestSender
from embedkafka.broker.controller.state_change_log import StateChangeLog
from embedkafka.broker.controller.state_changes import StateChanges
from embedkafka.broker.controller.topic_changes import TopicChanges
from embedkafka.broker.controller.topic_deletion import TopicDeletionManager
from embedkafka.runtime.ids import TopicPartition
from embedkafka.runtime.scheduler import Cancellable, Scheduler
from embedkafka.runtime.values import dataclass, replace
from embedkafka.wire.protocol.errors import ApiError, ErrorCode
from embedkafka.wire.protocol.messages.brokers import LeaderAndIsrResponse, StopReplicaResponse
from embedkafka.zk.kafka_zk import ControllerMoved, KafkaZk
from embedkafka.zk.payloads import BrokerInfo
from embedkafka.zk.store import SessionExpired, SessionState, WatchEvent

_LOG = logging.getLogger(__name__)

NO_CONTROLLER = -1

_FIRST_BALANCE_CHECK_MS = 5_000
_UNCLEAN_ENABLE = "unclean.leader.election.enable"
# A broker answers STALE_CONTROLLER_EPOCH for an order that it has carried out already. It gets one
# again if the answer was lost or late, or from a new controller.
_HOSTED: Final = frozenset({ErrorCode.NONE, ErrorCode.STALE_CONTROLLER_EPOCH})


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerConfig:
    """The broker settings that the controller reads, under Kafka's names."""

    inter_broker_listener: str = "PLAINTEXT"
    control_plane_listener: str | None = None
    """The listener for control requests; None means the inter-broker listener."""
    auto_leader_rebalance_enable: bool = True
    leader_imbalance_check_interval_seconds: int = 300
    leader_imbalance_per_broker_percentage: int = 10
    delete_topic_enable: bool = True
    unclean_leader_election_enable: bool = False


class ControllerCore:
    """One broker's candidate for controller; the controller itself while it is active."""

    def __init__(
        self,
        broker: BrokerInfo,
        broker_epoch: int,
        zk: KafkaZk,
        config: ControllerConfig,
        *,
        channels: Callable[[], Channels],
        scheduler: Scheduler,
        post: Callable[[Event], object],
        new_topic_id: Callable[[], uuid.UUID] = uuid.uuid4,
        state_change_log: StateChangeLog | None = None,
    ) -> None:
        self.broker = broker
        self.broker_epoch = broker_epoch
        self.active_id = NO_CONTROLLER
        self.context = ControllerContext()
        self._zk = zk
        self._config = config
        self._scheduler = scheduler
        self._post = post
        self._balance_check: Cancellable | None = None
        self._sender = RequestSender(
            self.context,
            controller_id=broker.id,
            listener=config.inter_broker_listener,
            open_channels=channels,
        )
        self._changes = StateChanges(
            self.context,
            zk,
            self._sender,
            state_change_log or StateChangeLog(),
            controller_id=broker.id,
            unclean_topics=self._unclean_topics,
        )
        self._reassignments = Reassignments(
            self.context, zk, self._changes, self._sender, watch=self._on_watch
        )
        self._deletion = TopicDeletionManager(
            self.context,
            zk,
            self._changes,
            self._reassignments,
            self._sender,
            enabled=config.delete_topic_enable,
        )
        self._brokers = BrokerChanges(
            self.context,
            zk,
            self._changes,
            self._deletion,
            self._reassignments,
            self._sender,
            controller_id=broker.id,
            watch=self._on_watch,
        )
        self._topics = TopicChanges(
            self.context,
            zk,
            self._changes,
            self._deletion,
            new_topic_id=new_topic_id,
            watch=self._on_watch,
        )
        self._elections = RequestedElections(self.context, zk, self._changes, watch=self._on_watch)
        self._handlers: dict[type, Callable[[Any], None]] = {  # Any: each takes its own event
            events.Startup: self._on_startup,
            events.ControllerChange: self._on_controller_change,
            events.Reelect: self._on_reelect,
            events.TakeControl: self._on_take_control,
            events.SessionLost: self._on_session_lost,
            events.BrokerChange: self._on_broker_change,
            events.BrokerModifications: self._on_broker_modifications,
            events.LogDirEventNotification: self._on_log_dir_event_notification,
            events.TopicChange: self._on_topic_change,
            events.PartitionModifications: self._on_partition_modifications,
            events.TopicDeletion: self._on_topic_deletion,
            events.IsrChangeNotification: self._on_isr_change_notification,
            events.ResponseReceived: self._on_response_received,
            events.ReplicaLeaderElection: self._on_replica_leader_election,
            events.AutoLeaderBalance: self._on_auto_leader_balance,
            events.UncleanLeaderElectionEnable: self._on_unclean_leader_election_enable,
            events.ControlledShutdown: self._on_controlled_shutdown,
            events.ApiPartitionReassignment: self._on_api_partition_reassignment,
            events.ListPartitionReassignments: self._on_list_partition_reassignments,
            events.ZkPartitionReassignment: self._on_zk_partition_reassignment,
            events.ReassignmentIsrChange: self._on_reassignment_isr_change,
        }

    @property
    def is_active(self) -> bool:
        return self.active_id == self.broker.id

    @property
    def unclean_elections(self) -> int:
        """How many leaders it has elected that were not in sync."""
        return self._changes.unclean_elections

    def handle(self, event: Event) -> None:
        """Handles one event; most events have no effect while this controller is not active."""
        try:
            try:
                self._handlers[type(event)](event)
            except ControllerMoved as moved:
                _LOG.info("Controller %d was replaced: %s", self.broker.id, moved)
                events.refuse(event)
                self._maybe_resign()
        except SessionExpired:
            _LOG.info("Controller %d lost its session while handling %s", self.broker.id, event)
            events.refuse(event)

    def resign(self) -> None:
        """Stops being controller, but leaves `/controller` until the session closes."""
        self.active_id = NO_CONTROLLER
        if self._balance_check is not None:
            self._balance_check.cancel()
            self._balance_check = None
        self._sender.close()
        self.context.clear()

    # --- election and resignation ---

    def _on_startup(self, event: events.Startup) -> None:
        self._zk.watch_controller(self._on_watch)
        self._elect()

    def _on_controller_change(self, event: events.ControllerChange) -> None:
        self._maybe_resign()

    def _on_reelect(self, event: events.Reelect) -> None:
        self._maybe_resign()
        self._elect()

    def _on_take_control(self, event: events.TakeControl) -> None:
        self._maybe_resign()
        if not self.is_active:
            self._stand(replaces_current=True)

    def _on_session_lost(self, event: events.SessionLost) -> None:
        if self._zk.store.state is not SessionState.EXPIRED:
            return  # an earlier event has renewed it: a broker may learn twice of one expiry
        self.resign()
        self._zk.store.renew()
        self.broker_epoch = self._zk.register_broker(self.broker)
        self._maybe_resign()
        self._elect()

    def _maybe_resign(self) -> None:
        was_active = self.is_active
        now = self._zk.watch_controller(self._on_watch)
        if was_active and now != self.broker.id:
            self.resign()
        self.active_id = NO_CONTROLLER if now is None else now

    def _elect(self) -> None:
        now = self._zk.find_controller_id()
        if now is not None:
            self.active_id = now
            return
        self._stand()

    def _stand(self, *, replaces_current: bool = False) -> None:
        try:
            epoch, version = self._zk.register_controller_and_increment_epoch(
                self.broker.id, replaces_current=replaces_current
            )
        except ControllerMoved:
            self._maybe_resign()
            return
        self.context.epoch, self.context.epoch_version = epoch, version
        self.active_id = self.broker.id
        _LOG.info("Broker %d is controller with epoch %d", self.broker.id, epoch)
        try:
            self._take_over()
        except (ControllerMoved, SessionExpired):
            raise
        except Exception:
            # Let another broker try; the failure itself is recorded.
            self.resign()
            self._zk.delete_controller(epoch_version=version)
            raise

    def _take_over(self) -> None:
        """Rebuilds the context from ZooKeeper and continues the last controller's work."""
        context, zk, watch = self.context, self._zk, self._on_watch
        version = context.epoch_version
        zk.make_feature_znode()
        zk.watch_preferred_election(watch)
        zk.watch_reassignment(watch)
        zk.delete_log_dir_events(zk.log_dir_events(watch), epoch_version=version)
        zk.delete_isr_changes(zk.isr_changes(watch), epoch_version=version)
        self._sender.open()
        for info, epoch in zk.brokers(watch).values():
            context.add_broker(info, epoch)
            zk.find_broker(info.id, watch)
            self._sender.add_broker(info)
        self._topics.add(zk.topics(watch))
        context.leadership.update(zk.partition_states(list(context.partitions())))
        for partition in context.partitions():
            if context.assignment(partition).is_being_reassigned:
                context.reassigning[partition] = None
        self._deletion.start(zk.topic_deletions(watch))
        # Brokers need to know the live brokers before they can obey LeaderAndIsr requests.
        if context.leadership:
            self._sender.update_metadata()
        self._start_machines()
        begun = self._reassignments.submit_znode()
        self._reassignments.resume(lambda partition, _: partition not in begun)
        self._deletion.go_on()
        self._elections.run_znode()
        if self._config.auto_leader_rebalance_enable:
            self._schedule_balance_check(_FIRST_BALANCE_CHECK_MS)

    def _start_machines(self) -> None:
        context = self.context
        replica_machine.start(context)
        partitions = [
            p for p in context.partitions() if not context.is_queued_for_deletion(p.topic)
        ]
        replicas = context.replicas_of(partitions)
        online = [r for r in replicas if context.is_online(r.broker, r.partition)]
        # Send everything to all brokers: the last controller may have died before it did.
        self._changes.move_replicas(online, ReplicaState.ONLINE, informing=context.brokers)
        offline = [r for r in replicas if not context.is_online(r.broker, r.partition)]
        self._changes.move_replicas(offline, ReplicaState.OFFLINE)
        partition_machine.start(context)
        self._changes.bring_online()

    # --- brokers and topics ---

    def _on_broker_change(self, event: events.BrokerChange) -> None:
        if self.is_active:
            self._brokers.on_change()

    def _on_broker_modifications(self, event: events.BrokerModifications) -> None:
        if self.is_active:
            self._brokers.on_modified(event.broker)

    def _on_log_dir_event_notification(self, event: events.LogDirEventNotification) -> None:
        if self.is_active:
            self._brokers.on_log_dir_events()

    def _on_topic_change(self, event: events.TopicChange) -> None:
        if self.is_active:
            self._topics.on_change()

    def _on_partition_modifications(self, event: events.PartitionModifications) -> None:
        if self.is_active:
            self._topics.on_modified(event.topic)

    def _on_topic_deletion(self, event: events.TopicDeletion) -> None:
        if self.is_active:
            self._topics.on_deletion()

    # --- reports from leaders and brokers ---

    def _on_isr_change_notification(self, event: events.IsrChangeNotification) -> None:
        if not self.is_active:
            return
        found = self._zk.isr_changes(self._on_watch)
        partitions = list(dict.fromkeys(tp for listed in found.values() for tp in listed))
        known = [tp for tp in partitions if self.context.assignment(tp).replicas]
        if known:
            self.context.leadership.update(self._zk.partition_states(known))
            self._sender.update_metadata(known)
            for partition in known:
                self._reassignments.on_isr_change(partition)
        self._zk.delete_isr_changes(found, epoch_version=self.context.epoch_version)

    def _on_response_received(self, event: events.ResponseReceived) -> None:
        """Handles an answer, unless either side has a new epoch since the request.

        A broker that registered again got the full state again. Its refusal of a request for its
        previous epoch must not affect the current one.
        """
        request, broker, response = event.sent.request, event.sent.broker, event.response
        if not self.is_active or request.controller_epoch != self.context.epoch:
            return
        if request.broker_epoch != self.context.broker_epochs.get(broker):
            return
        if isinstance(response, LeaderAndIsrResponse):
            self._on_leader_and_isr(broker, response)
        elif isinstance(response, StopReplicaResponse):
            self._on_stop_replica(event.sent, response)
        elif response.error_code != ErrorCode.NONE:
            _LOG.info("Broker %d refused UpdateMetadata: %d", broker, response.error_code)

    def _on_leader_and_isr(self, broker: int, response: LeaderAndIsrResponse) -> None:
        """Replicas whose log directory failed are offline, until their broker has opened them."""
        if response.error_code != ErrorCode.NONE:
            _LOG.info("Broker %d refused LeaderAndIsr: %d", broker, response.error_code)
            return
        before = self.context.offline_dirs.get(broker, set())
        now = set(before)
        for topic in response.topics:
            name = self.context.topic_names.get(topic.topic_id)
            for answer in topic.partition_errors if name is not None else ():
                partition = TopicPartition(str(name), answer.partition_index)
                if answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR:
                    now.add(partition)
                elif answer.error_code in _HOSTED:
                    now.discard(partition)
        self.context.offline_dirs[broker] = now
        newly = sorted(now - before)
        if newly:
            _LOG.info("Replicas %s on broker %d are offline", newly, broker)
            self._brokers.on_replicas_offline(
                [PartitionAndReplica(partition, broker) for partition in newly]
            )
        elif before - now:
            self._changes.bring_online()

    def _on_stop_replica(self, sent: Outgoing, response: StopReplicaResponse) -> None:
        """Matters only to topic deletion; reassignment does not wait for answers."""
        started = self.context.topics_with_deletion_started
        answers = {
            TopicPartition(answer.topic_name, answer.partition_index): answer.error_code
            for answer in response.partition_errors
        }
        asked = [tp for tp in sent.deleting if tp.topic in started]
        if response.error_code != ErrorCode.NONE:
            failed = sorted(asked)
        else:
            failed = sorted(tp for tp in asked if answers.get(tp, ErrorCode.NONE) != ErrorCode.NONE)
        lost = {tp for tp in failed if answers.get(tp) == ErrorCode.KAFKA_STORAGE_ERROR}
        if lost:
            self.context.offline_dirs.setdefault(sent.broker, set()).update(lost)
        deleted = sorted(set(asked) - set(failed))
        if failed:
            self._deletion.on_failed([PartitionAndReplica(tp, sent.broker) for tp in failed])
        if deleted:
            self._deletion.on_deleted([PartitionAndReplica(tp, sent.broker) for tp in deleted])

    # --- elections ---

    def _on_replica_leader_election(self, event: events.ReplicaLeaderElection) -> None:
        if not self.is_active:
            events.refuse(event)
            return
        if event.trigger is not ElectionTrigger.ADMIN:
            self._elections.run_znode()
            return
        asked = event.partitions
        if asked is None:
            asked = list(self.context.partitions())
        answers = self._elections.run(asked, event.type, event.trigger)
        if event.reply is not None:
            event.reply(answers)

    def _on_auto_leader_balance(self, event: events.AutoLeaderBalance) -> None:
        if not self.is_active:
            return
        try:
            self._elections.balance(self._config.leader_imbalance_per_broker_percentage)
        finally:
            self._schedule_balance_check(
                1000 * self._config.leader_imbalance_check_interval_seconds
            )

    def _schedule_balance_check(self, delay_ms: int) -> None:
        self._balance_check = self._scheduler.once(
            "auto-leader-rebalance-task",
            delay_ms,
            self._on_balance_check_due,
        )

    def _on_balance_check_due(self) -> None:
        self._post(events.AutoLeaderBalance())

    def _on_unclean_leader_election_enable(self, event: events.UncleanLeaderElectionEnable) -> None:
        if event.topic is None:
            self._config = replace(self._config, unclean_leader_election_enable=event.enabled)
        if self.is_active and event.enabled:
            self._changes.bring_online(event.topic)

    def _unclean_topics(self, topics: Iterable[str]) -> set[str]:
        default = str(self._config.unclean_leader_election_enable).lower()
        overrides = self._zk.configs("topics", sorted(topics))
        return {
            topic
            for topic, config in overrides.items()
            if config.get(_UNCLEAN_ENABLE, default).lower() == "true"
        }

    # --- requests from brokers and admin clients ---

    def _on_controlled_shutdown(self, event: events.ControlledShutdown) -> None:
        if not self.is_active:
            events.refuse(event)
            return
        try:
            remaining = self._brokers.shut_down(event.broker, event.broker_epoch)
        except ApiError as error:
            event.reply(error)
        else:
            event.reply(remaining)

    def _on_api_partition_reassignment(self, event: events.ApiPartitionReassignment) -> None:
        if self.is_active:
            event.reply(self._reassignments.submit(event.wanted, may_resize=event.may_resize))
        else:
            events.refuse(event)

    def _on_list_partition_reassignments(self, event: events.ListPartitionReassignments) -> None:
        if self.is_active:
            event.reply(self._reassignments.in_progress(event.partitions))
        else:
            events.refuse(event)

    def _on_zk_partition_reassignment(self, event: events.ZkPartitionReassignment) -> None:
        if self.is_active:
            self._reassignments.submit_znode()

    def _on_reassignment_isr_change(self, event: events.ReassignmentIsrChange) -> None:
        if self.is_active:
            self._reassignments.on_isr_change(event.partition)

    # --- watches ---

    def _on_watch(self, seen: WatchEvent) -> None:
        """Runs on the thread that delivers watches, so it only posts."""
        event = events.event_of(seen)
        if event is not None:
            self._post(event)
