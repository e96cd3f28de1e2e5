"""The requests this broker answers: what is known of an API before its family is loaded, and then.

`SERVED` is the whole truth about versions: the ApiVersions answer and `docs/compatibility.md` come
from it. It names a module of `apis` for each API, so a broker loads only the families that
clients ask for. That module has the API's row, an `Api`: its handler, and what the handler needs.
"""

import functools
import importlib
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from embedkafka.runtime.values import NamedTuple, dataclass, replace
from embedkafka.wire.protocol.api_keys import ApiKey

if TYPE_CHECKING:
    from embedkafka.broker.authorization.checks import Checks
    from embedkafka.broker.parts import BrokerParts
    from embedkafka.security.acl.operations import AclOperation, ResourceType

Message = Any  # Any: a request or a response of any API


class Need(NamedTuple):
    """One permission, and when it is needed."""

    operation: "AclOperation"
    resource: "ResourceType"
    remark: str = ""
    on_cluster: "AclOperation | None" = None
    """An operation on the cluster that does as well."""
    over: str | None = None
    """The list whose entries are about the resource; by default, what names one first."""
    when: "Callable[[Checks, Message], bool] | None" = None
    """Whether the request, or an entry of the list, needs it."""
    fails_all: bool = False
    """Whether one entry that is refused fails all of them."""
    says: str | None = None
    """The message of the refusal, such as `REASON` or `MEANING`."""
    is_asked_by_handler: bool = False


REASON: Final = "Request {api} of {connection} needs {operation} permission."
"""Why a request is refused, as Kafka's controller says it."""
MEANING: Final = "{meaning}"
"""What the error code means."""


class Quota(Enum):
    """What requests count against, besides the time of handlers."""

    NONE = "none"
    """Not even that: brokers send it."""
    TIME = "time"
    PRODUCED = "produced"
    FETCHED = "fetched"


class PartitionChange(NamedTuple):
    """Each entry counts against the quota on topic changes (KIP-599)."""

    strict_since: int
    """The first version whose clients know THROTTLING_QUOTA_EXCEEDED."""
    partitions: "Callable[[BrokerParts, Message], int]"
    """How many partitions an entry creates or deletes; 0 if it fails whatever the quota is."""


class Api(NamedTuple):
    """An API's row, in the module of its family."""

    handler: Callable[..., Any]  # Any: each row has its own message types
    needs: Sequence[Need] = ()
    """What clients need to be allowed, all of it; anyone may send a request that needs nothing."""
    refused_first: bool = False
    """Whether refused entries come before those that the handler has answered."""
    merges: bool = False
    """Whether refused entries that name the same are one."""
    refuse: "Callable[[Checks, Message], Message] | None" = None
    """Answers a request with nothing but refused entries, where Kafka tells more."""
    quota: Quota | PartitionChange = Quota.TIME


def by_handler(operation: "AclOperation", resource: "ResourceType", remark: str = "") -> Need:
    """What the handler asks for, because it depends on more than the request."""
    return Need(operation, resource, remark, is_asked_by_handler=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """The oldest and newest version answered, where, and the module of `apis` with the row."""

    versions: tuple[int, int]
    module: str
    for_clients: bool = True
    for_controllers: bool = False
    changes_topics_only: bool = False
    """Whether it changes topics and records alone, or nothing: isolation need not undo more."""

    def is_served(self, *, control_plane: bool) -> bool:
        """Whether the control plane's listener, or that of clients, answers it."""
        return self.for_controllers if control_plane else self.for_clients

    def supports(self, version: int) -> bool:
        return self.versions[0] <= version <= self.versions[1]


@functools.cache
def load_api(key: ApiKey) -> Api:
    """The row of an API that is served."""
    module = importlib.import_module(f"embedkafka.broker.apis.{SERVED[key].module}")
    row: Api = module.APIS[key]
    return row


def _client(first: int, last: int, module: str, *, topics_only: bool = False) -> Served:
    return Served(versions=(first, last), module=module, changes_topics_only=topics_only)


def _control(first: int, last: int, module: str) -> Served:
    return Served(versions=(first, last), module=module, for_clients=False, for_controllers=True)


def _both(first: int, last: int, module: str, *, topics_only: bool = False) -> Served:
    """For clients, and for tools that connect to controllers (`--bootstrap-controller`)."""
    offer = _client(first, last, module, topics_only=topics_only)
    return replace(offer, for_controllers=True)


SERVED: Final[Mapping[ApiKey, Served]] = {
    ApiKey.PRODUCE: _client(0, 13, "produce", topics_only=True),
    ApiKey.FETCH: _client(0, 18, "fetch", topics_only=True),
    ApiKey.LIST_OFFSETS: _client(0, 11, "offsets", topics_only=True),
    ApiKey.METADATA: _client(0, 13, "metadata", topics_only=True),
    ApiKey.LEADER_AND_ISR: _control(5, 7, "control"),
    ApiKey.STOP_REPLICA: _control(3, 4, "control"),
    ApiKey.UPDATE_METADATA: _control(5, 8, "control"),
    ApiKey.CONTROLLED_SHUTDOWN: _control(2, 3, "control"),
    ApiKey.OFFSET_COMMIT: _client(0, 10, "groups"),
    ApiKey.OFFSET_FETCH: _client(0, 10, "groups"),
    ApiKey.FIND_COORDINATOR: _client(0, 6, "groups"),
    ApiKey.JOIN_GROUP: _client(0, 9, "groups"),
    ApiKey.HEARTBEAT: _client(0, 4, "groups"),
    ApiKey.LEAVE_GROUP: _client(0, 5, "groups"),
    ApiKey.SYNC_GROUP: _client(0, 5, "groups"),
    ApiKey.DESCRIBE_GROUPS: _client(0, 6, "groups"),
    ApiKey.LIST_GROUPS: _client(0, 5, "groups"),
    ApiKey.DELETE_GROUPS: _client(0, 2, "groups"),
    ApiKey.OFFSET_DELETE: _client(0, 0, "groups"),
    ApiKey.API_VERSIONS: _both(0, 4, "metadata", topics_only=True),
    ApiKey.CREATE_TOPICS: _client(0, 7, "topics", topics_only=True),
    ApiKey.DELETE_TOPICS: _client(0, 6, "topics", topics_only=True),
    ApiKey.CREATE_PARTITIONS: _client(0, 3, "topics", topics_only=True),
    ApiKey.DELETE_RECORDS: _client(0, 2, "offsets", topics_only=True),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: _client(0, 4, "offsets", topics_only=True),
    # A transactional producer looks for its coordinator first.
    ApiKey.INIT_PRODUCER_ID: _client(0, 5, "txns", topics_only=True),
    ApiKey.ADD_PARTITIONS_TO_TXN: _client(0, 5, "txns"),
    ApiKey.ADD_OFFSETS_TO_TXN: _client(0, 4, "txns"),
    ApiKey.END_TXN: _client(0, 5, "txns"),
    ApiKey.WRITE_TXN_MARKERS: _client(1, 2, "txns"),
    ApiKey.TXN_OFFSET_COMMIT: _client(0, 5, "txns"),
    ApiKey.DESCRIBE_CONFIGS: _both(0, 4, "configs", topics_only=True),
    ApiKey.ALTER_CONFIGS: _client(0, 2, "configs"),
    ApiKey.ELECT_LEADERS: _client(0, 2, "leadership"),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _both(0, 1, "configs"),
    ApiKey.LIST_CONFIG_RESOURCES: _client(0, 1, "configs"),
    ApiKey.ALTER_REPLICA_LOG_DIRS: _client(0, 2, "offsets"),
    ApiKey.DESCRIBE_LOG_DIRS: _client(0, 5, "offsets", topics_only=True),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: _client(0, 1, "leadership"),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: _client(0, 0, "leadership"),
    ApiKey.DESCRIBE_PRODUCERS: _client(0, 0, "txns"),
    ApiKey.DESCRIBE_TRANSACTIONS: _client(0, 0, "txns"),
    ApiKey.LIST_TRANSACTIONS: _client(0, 2, "txns"),
    ApiKey.UPDATE_FEATURES: _both(0, 2, "features"),
    ApiKey.DESCRIBE_QUORUM: _both(0, 2, "quorum"),
    ApiKey.UNREGISTER_BROKER: _both(0, 0, "cluster"),
    ApiKey.ADD_RAFT_VOTER: _both(0, 1, "quorum"),
    ApiKey.REMOVE_RAFT_VOTER: _both(0, 0, "quorum"),
    ApiKey.DESCRIBE_CLUSTER: _both(0, 2, "cluster", topics_only=True),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: _client(0, 0, "metadata", topics_only=True),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: _client(0, 1, "groups"),
    ApiKey.CONSUMER_GROUP_DESCRIBE: _client(0, 1, "groups"),
    ApiKey.SASL_HANDSHAKE: _client(0, 1, "sasl"),
    ApiKey.SASL_AUTHENTICATE: _client(0, 2, "sasl"),
    ApiKey.DESCRIBE_ACLS: _client(1, 3, "acls"),
    ApiKey.CREATE_ACLS: _client(1, 3, "acls"),
    ApiKey.DELETE_ACLS: _client(1, 3, "acls"),
    ApiKey.CREATE_DELEGATION_TOKEN: _client(1, 3, "tokens"),
    ApiKey.RENEW_DELEGATION_TOKEN: _client(1, 2, "tokens"),
    ApiKey.EXPIRE_DELEGATION_TOKEN: _client(1, 2, "tokens"),
    ApiKey.DESCRIBE_DELEGATION_TOKEN: _client(1, 3, "tokens"),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: _client(0, 1, "quotas"),
    ApiKey.ALTER_CLIENT_QUOTAS: _client(0, 1, "quotas"),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: _client(0, 0, "sasl"),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _client(0, 0, "sasl"),
}
