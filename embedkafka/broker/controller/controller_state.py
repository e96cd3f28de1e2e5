"""What a controller does, by Kafka's names: the kind of each event, and the state it puts it in.

Kafka's gauge ControllerState shows the number of the state, and each state has a timer.
"""

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, Final

from embedkafka.broker.controller import events
from embedkafka.broker.controller.events import Event
from embedkafka.runtime.ids import TopicPartition
from embedkafka.runtime.values import NamedTuple
from embedkafka.wire.protocol.messages.brokers import LeaderAndIsrResponse, StopReplicaResponse


class ControllerState(Enum):
    """Kafka's states with their numbers, but for those that no event here leads to."""

    IDLE = 0
    CONTROLLER_CHANGE = 1
    BROKER_CHANGE = 2
    TOPIC_CHANGE = 3
    TOPIC_DELETION = 4
    ALTER_PARTITION_REASSIGNMENT = 5
    AUTO_LEADER_BALANCE = 6
    MANUAL_LEADER_BALANCE = 7
    CONTROLLED_SHUTDOWN = 8
    ISR_CHANGE = 9
    LEADER_AND_ISR_RESPONSE_RECEIVED = 10
    LOG_DIR_CHANGE = 11
    UNCLEAN_LEADER_ELECTION_ENABLE = 13
    TOPIC_UNCLEAN_LEADER_ELECTION_ENABLE = 14
    LIST_PARTITION_REASSIGNMENT = 15
    UPDATE_METADATA_RESPONSE_RECEIVED = 16

    @property
    def kafka_name(self) -> str:
        """Kafka's name, such as "BrokerChange"."""
        return self.name.title().replace("_", "")

    @property
    def timer(self) -> str | None:
        """The metric that counts and times the events of this state; None if Kafka has none."""
        if self in _UNTIMED:
            return None
        return _TIMERS.get(self, f"{self.kafka_name}RateAndTimeMs")


_State = ControllerState

_UNTIMED: Final = frozenset({_State.IDLE, _State.UPDATE_METADATA_RESPONSE_RECEIVED})
_TIMERS: Final[Mapping[ControllerState, str]] = {
    _State.BROKER_CHANGE: "LeaderElectionRateAndTimeMs",
    _State.ALTER_PARTITION_REASSIGNMENT: "PartitionReassignmentRateAndTimeMs",
}


class EventKind(NamedTuple):
    """What an event is, in Kafka's words."""

    name: str
    """The name of the event's class in Kafka, such as "TopicChange"."""
    state: ControllerState
    about: str
    """The broker, topic or partitions that it names; empty if it names none."""


def kind_of(event: Event) -> EventKind:
    if isinstance(event, events.ResponseReceived):
        return _response(event)
    if isinstance(event, events.UncleanLeaderElectionEnable) and event.topic is not None:
        state = _State.TOPIC_UNCLEAN_LEADER_ELECTION_ENABLE
        return EventKind(state.kafka_name, state, event.topic)
    name, state, about = _KINDS[type(event)]
    return EventKind(name, state, about(event))


def _response(event: events.ResponseReceived) -> EventKind:
    about = f"broker {event.sent.broker}"
    if isinstance(event.response, StopReplicaResponse):
        return EventKind(_STOP_REPLICA, _State.TOPIC_DELETION, about)
    if isinstance(event.response, LeaderAndIsrResponse):
        state = _State.LEADER_AND_ISR_RESPONSE_RECEIVED
    else:
        state = _State.UPDATE_METADATA_RESPONSE_RECEIVED
    return EventKind(state.kafka_name, state, about)


def _nothing(event: object) -> str:
    return ""


def _broker(event: Any) -> str:  # Any: an event that names a broker
    return f"broker {event.broker}"


def _partitions(event: Any) -> str:  # Any: an event that names partitions, or None for all
    return _listed(event.partitions)


def _listed(partitions: Any) -> str:  # Any: a collection of partitions, or None
    named: list[TopicPartition] = sorted(partitions or ())
    return ", ".join(map(str, named))


_Row = tuple[str, ControllerState, Callable[[Any], str]]  # Any: each takes its own event

_KINDS: Final[Mapping[type, _Row]] = {
    events.Startup: ("Startup", _State.CONTROLLER_CHANGE, _nothing),
    events.ControllerChange: ("ControllerChange", _State.CONTROLLER_CHANGE, _nothing),
    events.Reelect: ("Reelect", _State.CONTROLLER_CHANGE, _nothing),
    events.TakeControl: ("TakeControl", _State.CONTROLLER_CHANGE, _nothing),
    events.SessionLost: ("Expire", _State.CONTROLLER_CHANGE, _nothing),
    events.BrokerChange: ("BrokerChange", _State.BROKER_CHANGE, _nothing),
    events.BrokerModifications: ("BrokerModifications", _State.BROKER_CHANGE, _broker),
    events.TopicChange: ("TopicChange", _State.TOPIC_CHANGE, _nothing),
    events.PartitionModifications: (
        "PartitionModifications",
        _State.TOPIC_CHANGE,
        lambda event: str(event.topic),
    ),
    events.TopicDeletion: ("TopicDeletion", _State.TOPIC_DELETION, _nothing),
    events.ZkPartitionReassignment: (
        "ZkPartitionReassignment",
        _State.ALTER_PARTITION_REASSIGNMENT,
        _nothing,
    ),
    events.ApiPartitionReassignment: (
        "ApiPartitionReassignment",
        _State.ALTER_PARTITION_REASSIGNMENT,
        lambda event: _listed(event.wanted),
    ),
    events.ReassignmentIsrChange: (
        "PartitionReassignmentIsrChange",
        _State.ALTER_PARTITION_REASSIGNMENT,
        lambda event: str(event.partition),
    ),
    events.ListPartitionReassignments: (
        "ListPartitionReassignments",
        _State.LIST_PARTITION_REASSIGNMENT,
        _partitions,
    ),
    events.IsrChangeNotification: ("IsrChangeNotification", _State.ISR_CHANGE, _nothing),
    events.LogDirEventNotification: ("LogDirEventNotification", _State.LOG_DIR_CHANGE, _nothing),
    events.AutoLeaderBalance: (
        "AutoPreferredReplicaLeaderElection",
        _State.AUTO_LEADER_BALANCE,
        _nothing,
    ),
    events.ReplicaLeaderElection: (
        "ReplicaLeaderElection",
        _State.MANUAL_LEADER_BALANCE,
        _partitions,
    ),
    events.UncleanLeaderElectionEnable: (
        "UncleanLeaderElectionEnable",
        _State.UNCLEAN_LEADER_ELECTION_ENABLE,
        _nothing,
    ),
    events.ControlledShutdown: ("ControlledShutdown", _State.CONTROLLED_SHUTDOWN, _broker),
}

_STOP_REPLICA: Final = "TopicDeletionStopReplicaResponseReceived"

KINDS: Final = frozenset(
    {
        *(name for name, _, _ in _KINDS.values()),
        _STOP_REPLICA,
        _State.LEADER_AND_ISR_RESPONSE_RECEIVED.kafka_name,
        _State.UPDATE_METADATA_RESPONSE_RECEIVED.kafka_name,
        _State.TOPIC_UNCLEAN_LEADER_ELECTION_ENABLE.kafka_name,
    }
)
"""The names of all events."""
