"""A broker's controller: a candidate from start to stop, active when elected.

    zk = KafkaZk(store, clock)                         # the broker's session
    zk.make_persistent_paths()
    epoch = zk.register_broker(info)
    controller = Controller(info, epoch, zk, clock=clock, failures=failures, config=config,
                            scheduler=scheduler, connect=connect)
    controller.start()

`connect` opens a connection to a broker's control plane, usually
`lambda endpoint: BrokerClient(endpoint.host, endpoint.port, clock, client_id)`.

The controller sends LeaderAndIsr v7, UpdateMetadata v8 and StopReplica v4 to every broker, its own
included, on the control-plane listener or else the inter-broker listener. Brokers must refuse a
`controller_epoch` below the highest seen (STALE_CONTROLLER_EPOCH) and a `broker_epoch` below
their own (STALE_BROKER_EPOCH; see `broker_epoch`).

The broker must call `controlled_shutdown`, `elect_leaders`, `alter_partition_reassignments` and
`list_partition_reassignments` for the requests with these names, and `enable_unclean_election` when
that setting changes. The rest arrives through ZooKeeper (`KafkaZk`): topics that are created,
expanded, deleted or configured, ISR changes (`update_isr_as_leader`, then `notify_isr_changes`) and
log directory failures (`notify_log_dir_failure`).

Owner: the event loop owns everything except the numbers that other threads may read.
Not here: handling of events (`core`).
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TypeVar

from embedkafka.broker.controller import events
from embedkafka.broker.controller.channels import ControllerChannels
from embedkafka.broker.controller.controller_state import ControllerState, kind_of
from embedkafka.broker.controller.core import ControllerConfig, ControllerCore
from embedkafka.broker.controller.event_log import ControllerEventLog, Question, QueuedEvent
from embedkafka.broker.controller.events import (
    ElectionReply,
    ElectionTrigger,
    ElectionType,
    Event,
    ListReply,
    ReassignmentReply,
    ShutdownReply,
)
from embedkafka.broker.controller.ports import Connect
from embedkafka.broker.controller.request_batch import ControlResponse, Outgoing
from embedkafka.broker.controller.state_change_log import StateChangeLog
from embedkafka.broker.controller.topic_deletion import DeletionCounts, count_queued
from embedkafka.runtime.clock import Clock
from embedkafka.runtime.event_loop import EventLoop, ask
from embedkafka.runtime.failures import Failures
from embedkafka.runtime.ids import TopicPartition
from embedkafka.runtime.scheduler import Scheduler
from embedkafka.zk.kafka_zk import KafkaZk
from embedkafka.zk.payloads import BrokerInfo
from embedkafka.zk.retrying import RetryingStore
from embedkafka.zk.store import SessionState

R = TypeVar("R")


class Controller:
    """One broker's controller. Every method may be called from any thread."""

    def __init__(
        self,
        broker: BrokerInfo,
        broker_epoch: int,
        zk: KafkaZk,
        *,
        clock: Clock,
        failures: Failures,
        config: ControllerConfig,
        scheduler: Scheduler,
        connect: Connect,
        state_change_log: StateChangeLog | None = None,
        event_log: ControllerEventLog | None = None,
    ) -> None:
        self._clock = clock
        self._event_log = event_log or ControllerEventLog()
        self.state = ControllerState.IDLE
        """What it does now, while events are recorded."""
        self._store = RetryingStore(zk.store)
        self._stopping = False
        self._loop: EventLoop[Event | QueuedEvent | Question] = EventLoop(
            f"ek-b{broker.id}-controller", self._handle, failures
        )
        listener = config.control_plane_listener or config.inter_broker_listener

        self._channels: ControllerChannels | None = None

        def open_channels() -> ControllerChannels:
            self._channels = ControllerChannels(
                broker.id,
                connect=connect,
                listener=listener,
                on_response=self._on_response,
                clock=clock,
                failures=failures,
                event_log=self._event_log,
            )
            return self._channels

        self._core = ControllerCore(
            broker,
            broker_epoch,
            KafkaZk(self._store, clock),
            config,
            channels=open_channels,
            scheduler=scheduler,
            post=self._post,
            state_change_log=state_change_log,
        )

    @property
    def is_active(self) -> bool:
        return self._core.is_active

    @property
    def active_id(self) -> int:
        """The id of the active controller, as last seen by this broker; -1 for none."""
        return self._core.active_id

    @property
    def epoch(self) -> int:
        """This controller's epoch while it is active, otherwise 0."""
        return self._core.context.epoch

    @property
    def broker_epoch(self) -> int:
        """This broker's epoch; renewing a lost session changes it."""
        return self._core.broker_epoch

    @property
    def queue_size(self) -> int:
        """How many events wait."""
        return self._loop.pending

    def request_queue_sizes(self) -> dict[int, int]:
        """How many of its requests wait for each broker."""
        return {} if self._channels is None else self._channels.queue_sizes()

    @property
    def unclean_elections(self) -> int:
        """How many leaders it has elected that were not in sync."""
        return self._core.unclean_elections

    def count_deletions(self) -> DeletionCounts:
        """What waits to be deleted; nothing if the controller is busy for long."""
        context = self._core.context
        if not context.topics_to_delete:
            return DeletionCounts()
        return self._ask(lambda: count_queued(context)) or DeletionCounts()

    def settle(self) -> None:
        """Returns when the events that wait now are handled, unless that takes long."""
        self._ask(lambda: None)

    def _ask(self, read: Callable[[], R]) -> R | None:
        return ask(lambda answer: self._loop.post(Question(answer)), read)

    def start(self) -> None:
        """Starts to take part in controller elections."""
        self._store.on_session_change(self._on_session)
        self._loop.start()
        self._post(events.Startup())

    def stop(self) -> None:
        """Ends the thread and the channels; closing the broker's session removes `/controller`."""
        self._stopping = True
        self._store.give_up()
        self._loop.stop()
        self._core.resign()

    def elect_leaders(
        self,
        partitions: Collection[TopicPartition] | None,
        kind: ElectionType,
        reply: ElectionReply,
    ) -> None:
        """Elects leaders for `partitions`; None means all partitions."""
        trigger = ElectionTrigger.ADMIN
        self._submit(events.ReplicaLeaderElection(partitions, kind, trigger, reply))

    def alter_partition_reassignments(
        self,
        wanted: Mapping[TopicPartition, Sequence[int] | None],
        reply: ReassignmentReply,
        *,
        may_resize: bool = True,
    ) -> None:
        """Starts reassignments; a target of None cancels the one in progress.

        Without `may_resize`, the replication factor must stay as it is.
        """
        self._submit(events.ApiPartitionReassignment(wanted, reply, may_resize))

    def list_partition_reassignments(
        self, partitions: Collection[TopicPartition] | None, reply: ListReply
    ) -> None:
        self._submit(events.ListPartitionReassignments(partitions, reply))

    def take_control(self) -> None:
        """Replaces the current controller, if that is another broker."""
        self._post(events.TakeControl())

    def controlled_shutdown(self, broker: int, broker_epoch: int, reply: ShutdownReply) -> None:
        """Moves leaders off `broker`; replies with the partitions that it still leads."""
        self._submit(events.ControlledShutdown(broker, broker_epoch, reply))

    def enable_unclean_election(self, topic: str | None = None, *, enabled: bool = True) -> None:
        """Applies a change of `unclean.leader.election.enable`, for `topic` or as the default.

        The controller keeps the default, and reads a topic's setting from ZooKeeper when needed.
        """
        self._post(events.UncleanLeaderElectionEnable(topic, enabled))

    def _submit(self, event: Event) -> None:
        if not self._post(event):
            events.refuse(event)

    def _post(self, event: Event) -> bool:
        if not self._event_log.is_on:
            return self._loop.post(event)
        return self._loop.post(QueuedEvent(event, self._clock.monotonic_ms()))

    def _handle(self, event: Event | QueuedEvent | Question) -> None:
        self._loop.assert_inside()
        if isinstance(event, QueuedEvent):
            self._handle_timed(event)
        elif isinstance(event, Question):
            event.answer()
        else:
            self._handle_one(event)

    def _handle_timed(self, queued: QueuedEvent) -> None:
        """A former controller still hears of changes, once each; Kafka's stops listening."""
        concerns_us = self._core.is_active or isinstance(queued.event, events.OF_CANDIDATES)
        started_ms = self._clock.monotonic_ms()
        self.state = kind_of(queued.event).state
        try:
            self._handle_one(queued.event)
        finally:
            self.state = ControllerState.IDLE
            if concerns_us:
                self._event_log.note(
                    self._core.broker.id,
                    self.epoch,
                    queued,
                    started_ms=started_ms,
                    ended_ms=self._clock.monotonic_ms(),
                )

    def _handle_one(self, event: Event) -> None:
        if self._stopping:
            events.refuse(event)
        else:
            self._core.handle(event)

    def _on_response(self, sent: Outgoing, response: ControlResponse) -> None:
        self._post(events.ResponseReceived(sent, response))

    def _on_session(self, state: SessionState) -> None:
        if state is SessionState.EXPIRED:
            self._post(events.SessionLost())
