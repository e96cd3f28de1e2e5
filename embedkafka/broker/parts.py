"""What a broker gives its handlers: all that a request can reach.

Owner: none; each part owns its own state. `Registration` is filled in by the broker's start.
Not here: what starts and stops parts (`broker`), and what makes them (`assembly`).
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from embedkafka.broker.broker_channels import BrokerChannels
from embedkafka.broker.controller.controller import Controller
from embedkafka.broker.lazy_coordinator import LazyCoordinator
from embedkafka.broker.log.manager import LogManager
from embedkafka.broker.metadata_cache import MetadataCache
from embedkafka.broker.replica.fetch_session import FetchManager
from embedkafka.broker.replica.manager import ReplicaManager
from embedkafka.broker.settings.broker import BrokerConfig
from embedkafka.broker.settings.dynamic import DynamicConfig
from embedkafka.broker.settings.listeners import Listeners
from embedkafka.broker.topics.admin import TopicAdmin
from embedkafka.broker.topics.auto_creation import AutoCreation
from embedkafka.runtime.clock import Clock
from embedkafka.runtime.ids import NO_BROKER_EPOCH, BrokerId
from embedkafka.runtime.purgatory.purgatory import Purgatory
from embedkafka.runtime.scheduler import ThreadScheduler
from embedkafka.runtime.values import dataclass
from embedkafka.wire.protocol.errors import ApiError, ErrorCode
from embedkafka.zk.kafka_zk import KafkaZk

if TYPE_CHECKING:
    from embedkafka.broker.coordinator.groups.service import GroupService
    from embedkafka.broker.coordinator.transactions.service import TxnService
    from embedkafka.broker.topics.delayed import DelayedTopics
    from embedkafka.broker.txn_verification import TxnVerification
    from embedkafka.security.acl.authorizer import AclAuthorizer
    from embedkafka.security.tokens import DelegationTokens


FORWARDING: Final = "forwarding"
"""In the client id of a broker that passes a request on to the controller."""


class Registration:
    """What a broker knows once it has joined its cluster."""

    def __init__(self, broker_id: BrokerId) -> None:
        self._broker_id = broker_id
        self.cluster_id = ""
        self.features_epoch = 0
        self.controller: Controller | None = None
        """This broker's candidate, which has the epoch of its registration."""

    @property
    def broker_epoch(self) -> int:
        return NO_BROKER_EPOCH if self.controller is None else self.controller.broker_epoch

    def require_controller(self) -> Controller:
        """This broker's controller, if it is the active one."""
        if self.controller is None or not self.controller.is_active:
            message = f"broker {self._broker_id} is not the controller"
            raise ApiError(ErrorCode.NOT_CONTROLLER, message)
        return self.controller

    def is_stale(self, broker_epoch: int) -> bool:
        """Whether a control request was meant for an earlier registration of this broker."""
        return self.controller is not None and broker_epoch < self.controller.broker_epoch


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerParts:
    """The parts of one broker that handlers use."""

    id: BrokerId
    registration: Registration
    listeners: Listeners
    clock: Clock
    zk: KafkaZk
    metadata: MetadataCache
    config: DynamicConfig
    topics: TopicAdmin
    auto_creation: AutoCreation
    topic_purgatory: "Purgatory[DelayedTopics]"
    election_purgatory: "Purgatory[DelayedTopics]"
    logs: LogManager
    replicas: ReplicaManager
    fetches: FetchManager
    conversions: ThreadScheduler
    forwarding: BrokerChannels
    """To the active controller, which alone can answer some requests."""
    authorizer: "AclAuthorizer | None"
    tokens: "DelegationTokens | None"
    check_security: Callable[[BrokerConfig], None]
    """Raises ConfigError if the broker could not use these certificates from now on."""
    group_coordinator: "LazyCoordinator[GroupService]"
    txn_coordinator: "LazyCoordinator[TxnService]"
    find_txn_verification: "Callable[[], TxnVerification]"

    @property
    def groups(self) -> "GroupService":
        return self.group_coordinator.get()

    @property
    def txns(self) -> "TxnService":
        return self.txn_coordinator.get()
