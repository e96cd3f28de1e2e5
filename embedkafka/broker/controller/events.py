"""The closed list of controller events.

Events from watches carry no data: the handler reads ZooKeeper again. So one event may stand for
several changes, and a late one does no harm.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from enum import Enum
from typing import Final

from embedkafka.broker.controller.request_batch import ControlResponse, Outgoing
from embedkafka.runtime.ids import TopicPartition
from embedkafka.runtime.values import dataclass, field
from embedkafka.wire.protocol.errors import ApiError, ErrorCode
from embedkafka.zk import paths
from embedkafka.zk.payloads import ReplicaAssignment
from embedkafka.zk.store import EventType, WatchEvent


class ElectionType(Enum):
    """The election types of ElectLeaders, with their wire values."""

    PREFERRED = 0
    UNCLEAN = 1


class ElectionTrigger(Enum):
    AUTO = "auto rebalance"
    ZOOKEEPER = "znode"
    ADMIN = "admin client"


ElectionReply = Callable[[Mapping[TopicPartition, int | ApiError]], None]
"""The new leader of each partition, or the reason for having none."""

ReassignmentReply = Callable[[Mapping[TopicPartition, ApiError | None] | ApiError], None]
"""None for each partition that was accepted; or one ApiError for the whole request."""

ListReply = Callable[[Mapping[TopicPartition, ReplicaAssignment] | ApiError], None]
ShutdownReply = Callable[[Sequence[TopicPartition] | ApiError], None]
"""The partitions that the broker still leads."""


@dataclass(frozen=True, slots=True)
class Startup:
    """The broker is up and registered."""


@dataclass(frozen=True, slots=True)
class ControllerChange:
    """`/controller` was created or changed."""


@dataclass(frozen=True, slots=True)
class TakeControl:
    """This broker is to replace the controller. No broker asks for that; a test does."""


@dataclass(frozen=True, slots=True)
class Reelect:
    """`/controller` was deleted."""


@dataclass(frozen=True, slots=True)
class SessionLost:
    """This broker's session expired, which ended its registration and its controllership."""


@dataclass(frozen=True, slots=True)
class BrokerChange:
    """Brokers registered or left."""


@dataclass(frozen=True, slots=True)
class BrokerModifications:
    """A broker changed its registration, for example its listeners."""

    broker: int


@dataclass(frozen=True, slots=True)
class TopicChange:
    """Topics were created, or deleted by another process."""


@dataclass(frozen=True, slots=True)
class PartitionModifications:
    """A topic's assignment changed; it may have more partitions."""

    topic: str


@dataclass(frozen=True, slots=True)
class TopicDeletion:
    """Topics were marked for deletion."""


@dataclass(frozen=True, slots=True)
class ZkPartitionReassignment:
    """`/admin/reassign_partitions` was created."""


@dataclass(frozen=True, slots=True)
class ReassignmentIsrChange:
    """The state of a partition that is being reassigned changed."""

    partition: TopicPartition


@dataclass(frozen=True, slots=True)
class IsrChangeNotification:
    """Leaders changed ISRs."""


@dataclass(frozen=True, slots=True)
class LogDirEventNotification:
    """Brokers lost log directories."""


@dataclass(frozen=True, slots=True)
class ResponseReceived:
    """A broker answered a control request."""

    sent: Outgoing = field(repr=False)
    response: ControlResponse


@dataclass(frozen=True, slots=True)
class AutoLeaderBalance:
    """It is time to check the balance of leaders."""


@dataclass(frozen=True, slots=True)
class UncleanLeaderElectionEnable:
    """The unclean election setting changed, for `topic` or, if None, as the default."""

    topic: str | None = None
    enabled: bool = True


@dataclass(frozen=True, slots=True)
class ReplicaLeaderElection:
    """Elect leaders for `partitions`, or for those in `/admin/preferred_replica_election`."""

    partitions: Collection[TopicPartition] | None
    type: ElectionType
    trigger: ElectionTrigger
    reply: ElectionReply | None = None


@dataclass(frozen=True, slots=True)
class ApiPartitionReassignment:
    """Reassign partitions; None cancels the reassignment in progress."""

    wanted: Mapping[TopicPartition, Sequence[int] | None]
    reply: ReassignmentReply
    may_resize: bool = True


@dataclass(frozen=True, slots=True)
class ListPartitionReassignments:
    """List reassignments in progress among `partitions`, or among all."""

    partitions: Collection[TopicPartition] | None
    reply: ListReply


@dataclass(frozen=True, slots=True)
class ControlledShutdown:
    """A broker is about to stop: move its leaders away."""

    broker: int
    broker_epoch: int
    reply: ShutdownReply


OF_CANDIDATES: Final = (Startup, ControllerChange, TakeControl, Reelect, SessionLost)
"""What a broker handles that is not the controller; it ignores all others."""

Event = (
    Startup
    | ControllerChange
    | Reelect
    | TakeControl
    | SessionLost
    | BrokerChange
    | BrokerModifications
    | TopicChange
    | PartitionModifications
    | TopicDeletion
    | ZkPartitionReassignment
    | ReassignmentIsrChange
    | IsrChangeNotification
    | LogDirEventNotification
    | ResponseReceived
    | AutoLeaderBalance
    | UncleanLeaderElectionEnable
    | ReplicaLeaderElection
    | ApiPartitionReassignment
    | ListPartitionReassignments
    | ControlledShutdown
)

_CHILD_EVENTS: Mapping[str, Event] = {
    paths.BROKER_IDS: BrokerChange(),
    paths.TOPICS: TopicChange(),
    paths.DELETE_TOPICS: TopicDeletion(),
    paths.ISR_CHANGES: IsrChangeNotification(),
    paths.LOG_DIR_EVENTS: LogDirEventNotification(),
}

_CREATED_EVENTS: Mapping[str, Event] = {
    paths.CONTROLLER: ControllerChange(),
    paths.REASSIGN_PARTITIONS: ZkPartitionReassignment(),
    paths.PREFERRED_REPLICA_ELECTION: ReplicaLeaderElection(
        None, ElectionType.PREFERRED, ElectionTrigger.ZOOKEEPER
    ),
}


def refuse(event: Event) -> None:
    """Answers the event's caller with NOT_CONTROLLER."""
    refusal = ApiError(ErrorCode.NOT_CONTROLLER)
    if isinstance(event, ReplicaLeaderElection):
        if event.reply is not None:
            event.reply(dict.fromkeys(event.partitions or (), refusal))
    elif isinstance(
        event, ApiPartitionReassignment | ListPartitionReassignments | ControlledShutdown
    ):
        event.reply(refusal)


def event_of(seen: WatchEvent) -> Event | None:
    """The event for a watch that fired; None if the controller ignores it."""
    kind, path = seen
    if kind is EventType.CHILD:
        return _CHILD_EVENTS.get(path)
    if kind is EventType.DELETED:
        return Reelect() if path == paths.CONTROLLER else None
    if kind is EventType.CREATED and path in _CREATED_EVENTS:
        return _CREATED_EVENTS[path]
    return _change_of(path)


def _change_of(path: str) -> Event | None:
    parts = path.split("/")
    if path == paths.CONTROLLER:
        return ControllerChange()
    if path.startswith(paths.BROKER_IDS + "/"):
        return BrokerModifications(int(parts[3]))
    if path.startswith(paths.TOPICS + "/"):
        if parts[-1] == "state" and len(parts) == 7:
            return ReassignmentIsrChange(TopicPartition(parts[3], int(parts[5])))
        return PartitionModifications(parts[3])
    return None
