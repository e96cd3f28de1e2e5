"""The metrics that `kafka.metrics()` has: Kafka's MBeans, their names, and what each is about.

Not here: where the numbers come from (`metric_collection`).
"""

from collections.abc import Mapping
from typing import Final

from embedkafka.broker.controller.controller_state import ControllerState

COUNT: Final = ".Count"
"""Follows the name of a timer for how often it ran, like the attribute of its MBean."""

CHANNEL: Final = "kafka.network:type=RequestChannel"
SOCKETS: Final = "kafka.network:type=SocketServer"
ACCEPTOR: Final = "kafka.network:type=Acceptor"
CONNECTIONS: Final = "kafka.server:type=socket-server-metrics"
HANDLERS: Final = "kafka.server:type=KafkaRequestHandlerPool"
REQUESTS: Final = "kafka.network:type=RequestMetrics"
TOPICS: Final = "kafka.server:type=BrokerTopicMetrics"
REPLICAS: Final = "kafka.server:type=ReplicaManager"
PURGATORY: Final = "kafka.server:type=DelayedOperationPurgatory"
CONTROLLER: Final = "kafka.controller:type=KafkaController"
CONTROLLER_STATS: Final = "kafka.controller:type=ControllerStats"
CONTROLLER_EVENTS: Final = "kafka.controller:type=ControllerEventManager"
CONTROLLER_CHANNELS: Final = "kafka.controller:type=ControllerChannelManager"
FETCHERS: Final = "kafka.server:type=ReplicaFetcherManager"
FETCHER_LAG: Final = "kafka.server:type=FetcherLagMetrics"
BROKER: Final = "kafka.server:type=KafkaServer"
LOG: Final = "kafka.log:type=Log"
GROUPS: Final = "kafka.coordinator.group:type=GroupMetadataManager"
COORDINATOR: Final = "kafka.server:type=group-coordinator-metrics"
TRANSACTIONS: Final = "kafka.coordinator.transaction:type=TransactionStateManager"

TOTALS: Final = frozenset({COORDINATOR, REQUESTS, TOPICS})
"""The MBeans that have totals only."""

_EVENTS_OF: Final = {
    state.timer: state.kafka_name for state in ControllerState if state.timer is not None
}
_TIMERS: Final = {
    **{
        timer: f"Milliseconds that controllers spent in the state {state}."
        for timer, state in _EVENTS_OF.items()
    },
    "EventQueueTimeMs": "Milliseconds that events waited for the controller.",
    "RequestRateAndQueueTimeMs": "Milliseconds that the controller's requests waited, by broker.",
}
_COUNTS: Final = {
    **{
        f"{timer}{COUNT}": f"Events that controllers handled in the state {state}."
        for timer, state in _EVENTS_OF.items()
    },
    f"EventQueueTimeMs{COUNT}": "Events that controllers took from their queues.",
    f"RequestRateAndQueueTimeMs{COUNT}": "Requests that the controller sent, by broker.",
}

GROUP_STATES: Final = ("PreparingRebalance", "CompletingRebalance", "Stable", "Dead", "Empty")
"""The states of groups that Kafka counts."""

NAMES: Final[Mapping[str, str]] = {
    "RequestsPerSec": "Requests of clients.",
    "ErrorsPerSec": "Answers to clients, by error.",
    "RequestBytes": "Bytes of requests.",
    "RequestQueueTimeMs": "Milliseconds that requests waited for a thread.",
    "LocalTimeMs": "Milliseconds in which the broker worked on requests.",
    "RemoteTimeMs": "Milliseconds that requests waited for records or other brokers.",
    "ThrottleTimeMs": "Milliseconds for which quotas delay clients.",
    "ResponseQueueTimeMs": "Milliseconds that responses waited for a network thread.",
    "ResponseSendTimeMs": "Milliseconds in which responses were sent.",
    "TotalTimeMs": "Milliseconds from the arrival of requests to their answers.",
    "RequestQueueSize": "Requests that wait for a handler thread.",
    "ControlPlaneRequestQueueSize": "Requests of controllers that wait for their handler thread.",
    "ResponseQueueSize": "Responses that wait for a network thread.",
    "ControlPlaneResponseQueueSize": "Responses to controllers that wait for their thread.",
    "NetworkProcessorAvgIdlePercent": "The part of the time that network threads have to spare.",
    "ControlPlaneNetworkProcessorAvgIdlePercent": "The part of the time that the control plane's "
    "network thread has to spare.",
    "RequestHandlerAvgIdlePercent": "The part of the time that threads of handlers have to spare.",
    "ControlPlaneRequestHandlerAvgIdlePercent": "The part of the time that the control plane's "
    "handler thread has to spare.",
    "AcceptorBlockedPercent": "The part of the time in which a limit kept connections waiting.",
    "connection-count": "Open connections.",
    "MutedChannels": "Connections whose request is in progress.",
    "MessagesInPerSec": "Records that clients produced.",
    "BytesInPerSec": "Bytes that clients produced.",
    "BytesOutPerSec": "Bytes that clients fetched.",
    "TotalProduceRequestsPerSec": "Requests to produce.",
    "FailedProduceRequestsPerSec": "Requests to produce that failed.",
    "ProduceMessageConversionsPerSec": "Produced records stored in another format or codec.",
    "FetchMessageConversionsPerSec": "Records that were rewritten for old consumers.",
    "MessageConversionsTimeMs": "Milliseconds that conversions of records took.",
    "TemporaryMemoryBytes": "Bytes of memory that conversions of records took.",
    "TotalFetchRequestsPerSec": "Requests to fetch.",
    "FailedFetchRequestsPerSec": "Requests to fetch that failed.",
    "PartitionCount": "Replicas on the broker.",
    "LeaderCount": "Partitions that the broker leads.",
    "OfflineReplicaCount": "Replicas whose log directory has failed.",
    "UnderReplicatedPartitions": "Partitions that the broker leads with a replica out of sync.",
    "UnderMinIsrPartitionCount": "Led partitions with fewer than min.insync.replicas in sync.",
    "AtMinIsrPartitionCount": "Led partitions with exactly min.insync.replicas in sync.",
    "IsrShrinksPerSec": "Replicas that fell out of sync.",
    "IsrExpandsPerSec": "Replicas that came into sync.",
    "ReplicationBytesInPerSec": "Bytes that the broker has fetched as a follower.",
    "ReplicationBytesOutPerSec": "Bytes that followers have fetched from the broker.",
    "ConsumerLag": "Records of the leader that a follower lacks.",
    "MaxLag": "The most records of a leader that a follower on the broker lacks.",
    "FailedPartitionsCount": "Partitions that the broker no longer follows after a failure.",
    "BrokerState": "0 not running, 1 starting, 2 recovery, 3 running, 6 and 7 shutting down.",
    "PurgatorySize": "Entries in watch lists: one for each request and what it watches.",
    "NumDelayedOperations": "Requests that wait for a condition or a time.",
    "ActiveControllerCount": "1 on the broker that is the controller, 0 on others.",
    "ControllerState": "What the controller does now, as Kafka's number; 0 if nothing.",
    "ActiveBrokerCount": "Brokers that run.",
    "GlobalTopicCount": "Topics of the cluster.",
    "GlobalPartitionCount": "Partitions of the cluster.",
    "OfflinePartitionsCount": "Partitions without a leader.",
    "PreferredReplicaImbalanceCount": "Partitions that their preferred replica does not lead.",
    "TopicsToDeleteCount": "Topics that are being deleted.",
    "ReplicasToDeleteCount": "Replicas that are to be deleted with their topics.",
    "TopicsIneligibleToDeleteCount": "Topics whose deletion is held up by a replica.",
    "ReplicasIneligibleToDeleteCount": "Replicas that could not be deleted yet.",
    "UncleanLeaderElectionsPerSec": "Elections of a leader that was not in sync.",
    "EventQueueSize": "Events that wait for the controller.",
    "TotalQueueSize": "Requests of the controller that wait for other brokers.",
    "QueueSize": "Requests of the controller that wait for one broker.",
    **_TIMERS,
    **_COUNTS,
    "Size": "Bytes in the log of a replica.",
    "NumLogSegments": "Segments in the log of a replica.",
    "LogStartOffset": "The first offset of a replica.",
    "LogEndOffset": "The offset after the last record of a replica.",
    "NumGroups": "Consumer groups of the cluster.",
    "NumOffsets": "Offsets that groups have committed and that are kept.",
    **{f"NumGroups{state}": f"Groups that are {state}." for state in GROUP_STATES},
    "offset-commit-count": "Offsets that were committed.",
    "offset-expiration-count": "Offsets that have expired.",
    "offset-deletion-count": "Offsets that were deleted by an admin, or with their partitions.",
    "ExpiredGroups": "Groups that went with their last offsets.",
    "GroupLag": "Records of a partition that a group has not committed.",
    "NumOpenTransactions": "Transactions that are open, by state.",
}
"""What every number is about. Kafka has no `ExpiredGroups`, `GroupLag`, `MutedChannels` and
`NumOpenTransactions`: they are ours."""
